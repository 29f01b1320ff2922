//! `doctor --run`: what is damaged of what is kept of a run; with `--repair`, what follows from the journal is written anew.

use super::error::Error;
use super::exit::Exit;
use super::printer::Printer;
use super::select;
use super::settings::Settings;
use super::view::View;
use crate::report::Envelope;
use crate::report::damage::DamageData;
use crate::run::examine::{examine, repair};
use crate::store::journal::system_clock;

/// `asked`: which run; the newest where it is empty.
pub(super) fn damage(asked: &str, repairing: bool, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let view = View::open(settings, printer)?;
    let run = select::find(&view.state, Some(asked).filter(|asked| !asked.is_empty()))?;
    let told = |error: crate::run::Error| Error::from(error).in_run(run.id());
    let found = examine(&view.repository, &view.state, &run).map_err(told)?;
    let data = DamageData::of(found.clone(), &[]);
    let data = if repairing && data.can_be_repaired() {
        let repaired = repair(&view.state, &run, system_clock()).map_err(told)?;
        DamageData::of(found, &repaired)
    } else {
        data
    };
    printer.answer(&data.render(settings.look));
    let exit = if data.sound { Exit::Complete } else { Exit::Damaged };
    printer.json(&Envelope::answer("doctor", Some(run.id().clone()), data, printer.warnings()));
    Ok(exit)
}

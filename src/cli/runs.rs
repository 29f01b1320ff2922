//! `runs`: the runs of this repository. One whose journal is damaged keeps none of the others from being shown.

use jiff::Timestamp;

use super::error::Error;
use super::exit::Exit;
use super::printer::Printer;
use super::settings::Settings;
use super::view::{RunView, View};
use crate::report::Envelope;
use crate::report::runs::{RunRow, RunsData};
use crate::store::runs::list;

pub(super) fn runs(settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let view = View::open(settings, printer)?;
    let (mut rows, mut exits) = (Vec::new(), Vec::new());
    for run in list(&view.state)?.runs {
        match RunView::load(run) {
            Ok(seen) => rows.push(RunRow::of(&seen.state, seen.alive)),
            Err(error) => {
                printer.warn(&error.to_string());
                exits.push(error.exit());
            }
        }
    }
    let data = RunsData::of(rows);
    printer.answer(&data.render(Timestamp::now(), settings.look));
    printer.json(&Envelope::answer("runs", None, data, printer.warnings()));
    Ok(Exit::of_several(exits))
}

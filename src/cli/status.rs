//! `status`: how a run stands. Waits for nobody and writes nothing.

use std::time::Duration;

use super::args::StatusArgs;
use super::error::Error;
use super::exit::Exit;
use super::follow::{Follower, News};
use super::printer::Printer;
use super::settings::{Settings, Size};
use super::view::{RunView, View};
use crate::report::status::StatusData;
use crate::report::{Envelope, Facts, Look, live};
use crate::store::RunDir;

/// How often a live block is drawn anew while nothing happens: its clocks go on.
const TICK: Duration = Duration::from_secs(1);

pub(super) fn status(args: &StatusArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let view = View::open(settings, printer)?;
    let seen = view.run(args.run.as_deref())?;
    if args.watch {
        return watch(&view, &seen.run, settings, printer);
    }
    view.warn_of(&seen, printer);
    show(&view, &seen, settings, printer);
    Ok(Exit::Complete)
}

fn facts(view: &View, seen: &RunView) -> Facts {
    Facts { checkout: view.checkout(), ..seen.facts() }
}

fn show(view: &View, seen: &RunView, settings: &Settings, printer: &mut Printer) {
    let data = StatusData::of(&seen.state, &facts(view, seen));
    printer.answer(&data.render(settings.look));
    printer.json(&Envelope::answer("status", Some(seen.run.id().clone()), data, printer.warnings()));
}

/// Shows the run again whenever it changes, until it ends. On a terminal a block stands there meanwhile; elsewhere each
/// state is printed whole.
fn watch(view: &View, run: &RunDir, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let mut follower = Follower::new(run, None)?;
    let live = settings.live_rows.is_some() && settings.look.width.is_some();
    let mut shown = None;
    loop {
        let seen = RunView::load(run.clone())?;
        follower.coordinated_by(seen.state.invocation.as_ref());
        let over = seen.state.finished.is_some() || !seen.alive;
        if over {
            printer.end_live();
            show(view, &seen, settings, printer);
            return Ok(Exit::Complete);
        }
        if live {
            draw(&seen, settings, printer);
        } else if shown != Some(seen.state.last_seq) {
            if shown.is_some() {
                printer.answer("\n");
            }
            shown = Some(seen.state.last_seq);
            show(view, &seen, settings, printer);
        }
        if printer.reader_is_gone() || follower.wait(live.then_some(TICK))? == News::ReaderGone {
            return Ok(Exit::Complete);
        }
    }
}

fn draw(seen: &RunView, settings: &Settings, printer: &mut Printer) {
    let size = Size::of_stderr();
    printer.set_columns(size.map(|size| size.columns));
    let look = Look { width: size.map(|size| size.columns), ..settings.err_look };
    let rows = size.map_or(24, |size| size.rows);
    printer.live(&[], live::block(&seen.state, &seen.facts(), rows, look));
}

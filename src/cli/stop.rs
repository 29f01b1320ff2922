//! `sandbox stop`

use std::time::Duration;

use serde::Serialize;

use super::args::RunOnly;
use super::error::Error;
use super::exit::Exit;
use super::printer::Printer;
use super::settings::Settings;
use crate::report::Envelope;
use crate::run::Site;
use crate::run::stop::{Stopped, stop as tell};

/// How long the end of the run is waited for: its agents have a grace period, then everything is captured.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StopData {
    was_running: bool,
    ended: bool,
    pid: Option<u32>,
}

/// Ends a run that is under way.
pub(super) fn stop(args: &RunOnly, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let site = Site::open(&settings.dir)?;
    let run = super::select::find(&site.state, args.run.as_deref())?;
    printer.progress(&format!("stopping {}: its agents have a few seconds to end", run.id()));
    let stopped = tell(&run, PATIENCE)?;
    let (data, text) = match stopped {
        Stopped::NotRunning => {
            (StopData { was_running: false, ended: true, pid: None }, format!("{} is not running\n", run.id()))
        }
        Stopped::Ended(by) => (
            StopData { was_running: true, ended: true, pid: Some(by.pid) },
            format!("{} has ended; what was done is kept: `sandbox status {}`\n", run.id(), run.id()),
        ),
        Stopped::Told(by) => (
            StopData { was_running: true, ended: false, pid: Some(by.pid) },
            format!("{} was told to stop and is still at it (process {})\n", run.id(), by.pid),
        ),
    };
    printer.answer(&text);
    let ended = data.ended;
    printer.json(&Envelope::answer("stop", Some(run.id().clone()), data, printer.warnings()));
    Ok(if ended { Exit::Complete } else { Exit::Incomplete })
}

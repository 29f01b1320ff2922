//! `sandbox pause` and `sandbox skip`, and what `resume` and `retry` mean for a run that is at work.

use std::time::Duration;

use serde::Serialize;

use super::args::{RunOnly, SkipArgs};
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::going::leave;
use super::printer::Printer;
use super::select;
use super::settings::Settings;
use super::stop::PATIENCE;
use crate::model::{AgentName, AttemptOutcome};
use crate::report::Envelope;
use crate::run::control::protocol::{Command, Done};
use crate::run::reopen::Reopened;
use crate::run::steer::steer;
use crate::run::{self, Signals, Site, unwatched};
use crate::store::RunDir;

/// How long an answer is waited for that needs nothing to end first.
const AT_ONCE: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize)]
struct PauseData {
    paused: bool,
    changed: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SkipData {
    agent: AgentName,
    outcome: AttemptOutcome,
    was_running: bool,
    changed: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct QueuedData {
    agent: AgentName,
    queued: bool,
    from_fork: bool,
}

/// Has a run begin nothing new.
pub(super) fn pause(args: &RunOnly, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let site = Site::open(&settings.dir)?;
    let run = select::find(&site.state, args.run.as_deref())?;
    let id = run.id();
    let Some(changed) = set(steer(&run, &Command::Pause, AT_ONCE)?) else {
        return Err(run::Error::NotAtWork { run: id.clone(), what: "there is nothing to pause" }.into());
    };
    let how = if changed { "is paused" } else { "is paused already" };
    printer.answer(&format!("{id} {how}: what is at work goes on, nothing new begins until `sandbox resume {id}`\n"));
    let data = PauseData { paused: true, changed };
    printer.json(&Envelope::answer("pause", Some(id.clone()), data, printer.warnings()));
    Ok(Exit::Complete)
}

/// Has a paused run that is at work go on. `None`: it is not at work. One that is not paused is left alone: an error.
pub(super) fn resume(run: &RunDir, printer: &mut Printer) -> Result<Option<Exit>, Error> {
    let id = run.id();
    match set(steer(run, &Command::Continue, AT_ONCE)?) {
        None => Ok(None),
        Some(true) => {
            printer.answer(&format!("{id} goes on\n"));
            let data = PauseData { paused: false, changed: true };
            printer.json(&Envelope::answer("resume", Some(id.clone()), data, printer.warnings()));
            Ok(Some(Exit::Complete))
        }
        Some(false) => Err(held(run)?),
    }
}

/// The error for a run that is at work and not to be taken up beside that.
fn held(run: &RunDir) -> Result<Error, Error> {
    let holder = match crate::store::lock::run_lock_state(run)? {
        crate::store::LockState::Held(holder) => holder,
        crate::store::LockState::Free => None,
    };
    let age = holder.as_ref().map(|holder| holder.age(jiff::Timestamp::now()));
    Ok(crate::store::Error::Held { run: run.id().clone(), holder, age }.into())
}

/// Leaves an agent out.
pub(super) fn skip(args: &SkipArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let site = Site::open(&settings.dir)?;
    let run = select::find(&site.state, args.run.as_deref())?;
    let id = run.id().clone();
    let agent = select::agent(&args.agent, &select::load(&run)?)?.name.clone();
    let (was_running, changed) = match steer(&run, &Command::Skip { agent: agent.clone() }, PATIENCE)? {
        Some(Done::AgentEnded { .. } | Done::Set { .. } | Done::Ending | Done::Queued | Done::Pong { .. }) => {
            (true, true)
        }
        None => (false, skip_at_rest(site, run, &agent, args)?),
    };
    let then = if was_running { "the others go on".to_owned() } else { format!("`sandbox resume {id}` goes on") };
    printer.answer(&format!("{agent} is left out of {id}; {then}\n"));
    let data = SkipData { agent, outcome: AttemptOutcome::Skipped, was_running, changed };
    printer.json(&Envelope::answer("skip", Some(id), data, printer.warnings()));
    Ok(Exit::Complete)
}

fn skip_at_rest(site: Site, run: RunDir, agent: &AgentName, args: &SkipArgs) -> Result<bool, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Error::new(ErrorKind::Environment, "cannot start the threads of the program").because(error)
    })?;
    let allowed = args.degraded.layers();
    let skipped = runtime.block_on(async {
        let signals = Signals::listen(leave)?;
        Reopened::open(site, run, &allowed, unwatched(), signals).await?.skip(agent).await
    });
    Ok(skipped?)
}

/// Has an agent that has ended tried again in a run that is at work. `None`: it is not.
pub(super) fn retry(
    run: &RunDir,
    agent: &AgentName,
    from_fork: bool,
    printer: &mut Printer,
) -> Result<Option<Exit>, Error> {
    let command = Command::Retry { agent: agent.clone(), from_fork };
    if steer(run, &command, AT_ONCE)?.is_none() {
        return Ok(None);
    }
    printer.answer(&format!("{agent} is tried again as soon as there is room: `sandbox status {}`\n", run.id()));
    let data = QueuedData { agent: agent.clone(), queued: true, from_fork };
    printer.json(&Envelope::answer("retry", Some(run.id().clone()), data, printer.warnings()));
    Ok(Some(Exit::Complete))
}

/// Whether a switch was moved. `None`: nobody was there to move it.
fn set(done: Option<Done>) -> Option<bool> {
    match done? {
        Done::Set { changed } => Some(changed),
        Done::Pong { .. } | Done::Ending | Done::AgentEnded { .. } | Done::Queued => Some(true),
    }
}

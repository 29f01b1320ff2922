//! `sandbox stop`

use std::time::Duration;

use serde::Serialize;

use super::args::StopArgs;
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::printer::Printer;
use super::select;
use super::settings::Settings;
use crate::model::run::AgentState;
use crate::model::{AgentName, AttemptOutcome};
use crate::report::Envelope;
use crate::run::Site;
use crate::run::control::protocol::{Command, Done};
use crate::run::steer::steer;
use crate::run::stop::{Stopped, stop as tell};
use crate::store::lock::run_lock_state;
use crate::store::{RunDir, StateDir};

/// How long the end is waited for: there is a grace period, then everything is captured.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StopData {
    was_running: bool,
    ended: bool,
    pid: Option<u32>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AgentStopData {
    agent: AgentName,
    was_running: bool,
    outcome: Option<AttemptOutcome>,
}

/// What is to end.
enum Meant {
    Run(RunDir),
    Agent(RunDir, AgentName),
}

/// Ends a run that is under way, or one agent of it.
pub(super) fn stop(args: &StopArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let site = Site::open(&settings.dir)?;
    match meant(&site.state, args)? {
        Meant::Run(run) => stop_run(&run, printer),
        Meant::Agent(run, agent) => stop_agent(&run, &agent, printer),
    }
}

/// A name alone may be that of a run, or of an agent of the newest one. What could be both is nothing.
fn meant(state: &StateDir, args: &StopArgs) -> Result<Meant, Error> {
    let (Some(name), None) = (&args.name, &args.run) else {
        let run = select::find(state, args.run.as_deref())?;
        return match &args.name {
            Some(name) => {
                let agent = select::agent(name, &select::load(&run)?)?.name.clone();
                Ok(Meant::Agent(run, agent))
            }
            None => Ok(Meant::Run(run)),
        };
    };
    let newest = select::find(state, None)?;
    let of_newest = select::load(&newest)?;
    let run = select::find(state, Some(name));
    let agent = select::agent(name, &of_newest).map(|agent| agent.name.clone());
    match (run, agent) {
        (Ok(run), Ok(agent)) => {
            let whole = (run.id().as_str() == name, agent.as_str() == name);
            match whole {
                (true, false) => Ok(Meant::Run(run)),
                (false, true) => Ok(Meant::Agent(newest, agent)),
                (true, true) | (false, false) => {
                    let message = format!("`{name}` may be the run `{}` and the agent `{agent}`", run.id());
                    let agent_form = format!("`sandbox stop {agent} --run {}` ends the agent", newest.id());
                    let run_form = format!("`sandbox stop --run {}` the run", run.id());
                    Err(Error::new(ErrorKind::Usage, message).hint(agent_form).hint(run_form))
                }
            }
        }
        (Ok(run), Err(_)) => Ok(Meant::Run(run)),
        (Err(_), Ok(agent)) => Ok(Meant::Agent(newest, agent)),
        (Err(of_runs), Err(_)) => Err(of_runs.hint(format!("`sandbox status {}` lists its agents", newest.id()))),
    }
}

fn stop_run(run: &RunDir, printer: &mut Printer) -> Result<Exit, Error> {
    if run_lock_state(run)?.is_held() {
        printer.progress(&format!("stopping {}: its agents have a few seconds to end", run.id()));
    }
    let stopped = tell(run, PATIENCE)?;
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

fn stop_agent(run: &RunDir, agent: &AgentName, printer: &mut Printer) -> Result<Exit, Error> {
    if run_lock_state(run)?.is_held() && select::load(run)?.agent(agent).is_some_and(is_at_work) {
        printer.progress(&format!("stopping {agent} of {}: it has a few seconds to end", run.id()));
    }
    let done = steer(run, &Command::StopAgent { agent: agent.clone() }, PATIENCE)?;
    let (outcome, was_running) = match done {
        Some(Done::AgentEnded { outcome }) => (Some(outcome), true),
        Some(Done::Pong { .. } | Done::Set { .. } | Done::Ending | Done::Queued) => (None, true),
        None => (select::load(run)?.agent(agent).and_then(AgentState::outcome), false),
    };
    let how = outcome.map(|outcome| format!(": {outcome}")).unwrap_or_default();
    printer.answer(&if was_running {
        format!("{agent} has ended{how}; the others go on\n")
    } else {
        format!("{} is not running; {agent} is not either{how}\n", run.id())
    });
    let data = AgentStopData { agent: agent.clone(), was_running, outcome };
    printer.json(&Envelope::answer("stop", Some(run.id().clone()), data, printer.warnings()));
    Ok(Exit::Complete)
}

fn is_at_work(agent: &AgentState) -> bool {
    agent.last_attempt().is_some_and(|attempt| attempt.finished.is_none())
}

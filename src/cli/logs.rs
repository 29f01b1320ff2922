//! `logs`: the events of a run, or what an agent or the verifier printed; as it stands, or as it grows.

use super::args::LogsArgs;
use super::error::Error;
use super::exit::Exit;
use super::follow::{Follower, News};
use super::output::{Outputs, Teller};
use super::printer::Printer;
use super::select;
use super::settings::Settings;
use super::view::{RunView, View, is_alive};
use crate::model::AgentName;
use crate::model::event::Event;
use crate::model::run::RunState;
use crate::model::run::tries::Next;
use crate::report::human::Human;
use crate::store::journal::{self, JournalTail};
use crate::store::{Position, RunDir};

/// The word that means the verifier; no agent can have that name.
const VERIFIER: &str = "verify";

pub(super) fn logs(args: &LogsArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let seen = View::open(settings, printer)?.run(args.run.as_deref())?;
    let agent = match args.agent.as_deref() {
        None => return events(&seen, args.follow, settings, printer),
        Some(VERIFIER) => None,
        Some(asked) => Some(select::agent(asked, &seen.state)?.name.clone()),
    };
    let mut outputs = match &agent {
        Some(agent) => Outputs::of_agent(&seen.run, agent, None),
        None => Outputs::of_verifier(&seen.run),
    };
    if agent.is_none() {
        outputs.skip_to_newest()?;
    }
    let run = seen.run.id().clone();
    let mut teller = Teller::new("logs", &run, &outputs, args.follow, settings);
    if args.follow {
        follow_outputs(&seen.run, agent.as_ref(), &mut outputs, &mut teller, printer)?;
    } else {
        outputs.poll(|printed, bytes| teller.take_in(printed, bytes, printer))?;
    }
    teller.end(printer);
    Ok(Exit::Complete)
}

fn follow_outputs(
    run: &RunDir,
    agent: Option<&AgentName>,
    outputs: &mut Outputs,
    teller: &mut Teller<'_>,
    printer: &mut Printer,
) -> Result<(), Error> {
    let mut follower = Follower::new(run, Some(outputs.folder().to_owned()))?;
    let mut journal = Journal::new(run);
    loop {
        // First whether it is over, then what was printed: nothing is missed.
        let over = journal.is_over(agent)?;
        follower.coordinated_by(journal.state.invocation.as_ref());
        outputs.poll(|printed, bytes| teller.take_in(printed, bytes, printer))?;
        if over || printer.reader_is_gone() || follower.wait(None)? == News::ReaderGone {
            return Ok(());
        }
    }
}

/// The events of a run, a line each.
fn events(seen: &RunView, follow: bool, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let mut human = Human::new(settings.detail());
    if !follow {
        let events = journal::read(&seen.run)?.into_events();
        for event in &events {
            tell(event, &mut human, printer);
        }
        return Ok(Exit::Complete);
    }
    let mut follower = Follower::new(&seen.run, None)?;
    let mut journal = Journal::new(&seen.run);
    loop {
        let over = journal.is_over(None)?;
        follower.coordinated_by(journal.state.invocation.as_ref());
        for event in journal.new.drain(..) {
            tell(&event, &mut human, printer);
        }
        if over || printer.reader_is_gone() || follower.wait(None)? == News::ReaderGone {
            return Ok(Exit::Complete);
        }
    }
}

fn tell(event: &Event, human: &mut Human, printer: &mut Printer) {
    printer.json(event);
    if let Some(line) = human.line(event) {
        printer.answer(&(line + "\n"));
    }
}

/// A journal as it grows, and the run as it stands by it.
struct Journal {
    run: RunDir,
    tail: JournalTail,
    state: RunState,
    /// What came since somebody took it from here.
    new: Vec<Event>,
}

impl Journal {
    fn new(run: &RunDir) -> Self {
        let tail = JournalTail::new(run, Position::default());
        Self { run: run.clone(), tail, state: RunState::new(run.id().clone()), new: Vec::new() }
    }

    /// Takes in what is new. Gives whether nothing more is to come: of the agent, or of the run.
    fn is_over(&mut self, agent: Option<&AgentName>) -> Result<bool, Error> {
        let alive = is_alive(&self.run)?;
        for event in self.tail.poll()? {
            self.state.apply(&event);
            if agent.is_none() {
                self.new.push(event);
            }
        }
        Ok(self.state.finished.is_some()
            || (!alive && !is_alive(&self.run)?)
            || agent.is_some_and(|agent| is_done(&self.state, agent)))
    }
}

/// Whether an agent has ended and no further attempt follows by itself.
fn is_done(state: &RunState, name: &AgentName) -> bool {
    let Some(agent) = state.agent(name) else { return false };
    agent.stage.is_none() && agent.outcome().is_some() && state.follows(agent) == Next::Nothing
}

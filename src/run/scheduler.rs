//! Carrying all agents to their ends, as many at once as the plan says, while orders may come in from other terminals.
//!
//! [`readiness`] decides what begins; here it is begun, waited for, and told. One task does all of it, so an order and the
//! end of an agent never meet half-way: whichever is taken first is done whole.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::agents::{Crew, Opening, Reins};
use super::control::dispatcher::{Ask, Order, Orders};
use super::control::protocol::{Answer, Done, Kind, Refusal};
use super::error::Error;
use super::forecaster::Forecaster;
use super::readiness::{self, Entry, Intake, Stand};
use crate::model::event::{Asked, AttemptFinished, EventKind, Requester, RetryRequested, Subject};
use crate::model::plan::AgentTask;
use crate::model::run::AgentState;
use crate::model::{AgentName, AttemptOutcome};
use crate::store::Record;

/// Carries all agents of the plan to an end, each from how it stands.
pub(super) async fn run_all(
    crew: &Arc<Crew>,
    orders: Orders,
    jobs: usize,
    opening: impl Fn(&AgentTask) -> Opening,
) -> Result<(), Error> {
    let (forecaster, journal) = Forecaster::begin(crew);
    // It ends with the schedule: as long as a copy of the journal is left, more may come to be foretold.
    let (entries, failed) = {
        let mut scheduler = Scheduler::new(crew, jobs, Arc::new(journal.clone()), opening);
        scheduler.go_on(orders).await;
        (std::mem::take(&mut scheduler.entries), scheduler.failed.take())
    };
    forecaster.end(journal).await;
    for entry in entries.iter().filter(|entry| entry.stand == Stand::Waiting) {
        let told = crew.not_begun(&entry.name, AttemptOutcome::Interrupted, "the run was stopped before it began");
        match (told, &failed) {
            (Ok(()), _) => {}
            (Err(error), None) => return Err(error),
            // What went wrong first is what is told.
            (Err(error), Some(_)) => tracing::warn!(%error, agent = %entry.name, "its end was not written down"),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Carries one agent to its end by `work`, where all others have ended.
pub(super) async fn run_one<F>(
    crew: &Arc<Crew>,
    orders: Orders,
    agent: &AgentName,
    work: impl FnOnce(Arc<Crew>, Reins) -> F,
) -> Result<(), Error>
where
    F: Future<Output = Result<bool, Error>> + Send + 'static,
{
    let state = crew.recorder.state();
    let can_be_built_on = |name: &AgentName| {
        let finished = state.agent(name).and_then(|agent| agent.last_attempt()?.finished.as_ref());
        finished.is_some_and(AttemptFinished::can_be_built_on)
    };
    let ended = |task: &AgentTask| Opening::Ended { can_be_built_on: can_be_built_on(&task.name) };
    let mut scheduler = Scheduler::new(crew, 1, Arc::new(crew.recorder.clone()), ended);
    scheduler.begin_by(agent.clone(), work);
    scheduler.go_on(orders).await;
    scheduler.failed.map_or(Ok(()), Err)
}

/// An agent at work.
struct AtWork {
    stop: CancellationToken,
    /// Who wants it left out, where somebody does.
    skip: Option<Requester>,
    /// Who waits for its end.
    waiting: Vec<oneshot::Sender<Answer>>,
}

struct Scheduler<'c> {
    crew: &'c Arc<Crew>,
    jobs: usize,
    journal: Arc<dyn Record>,
    openings: HashMap<AgentName, Opening>,
    entries: Vec<Entry>,
    working: JoinSet<(AgentName, Result<bool, Error>)>,
    at_work: HashMap<AgentName, AtWork>,
    paused: watch::Sender<bool>,
    failed: Option<Error>,
}

impl<'c> Scheduler<'c> {
    fn new(
        crew: &'c Arc<Crew>,
        jobs: usize,
        journal: Arc<dyn Record>,
        opening: impl Fn(&AgentTask) -> Opening,
    ) -> Self {
        let openings: HashMap<AgentName, Opening> =
            crew.plan.agents.iter().map(|task| (task.name.clone(), opening(task))).collect();
        let entries = crew.plan.agents.iter().map(|task| {
            let stand = match openings.get(&task.name) {
                Some(Opening::Ended { can_be_built_on }) => Stand::Ended { can_be_built_on: *can_be_built_on },
                Some(Opening::New | Opening::GoOn { .. } | Opening::Afresh { .. } | Opening::WasBlocked) | None => {
                    Stand::Waiting
                }
            };
            Entry { name: task.name.clone(), after: task.after.clone(), stand }
        });
        Self {
            entries: entries.collect(),
            crew,
            jobs,
            journal,
            openings,
            working: JoinSet::new(),
            at_work: HashMap::new(),
            paused: watch::Sender::new(false),
            failed: None,
        }
    }

    async fn go_on(&mut self, mut orders: Orders) {
        loop {
            let intake = self.intake();
            let decision = readiness::decide(&self.entries, self.jobs, intake);
            for (name, by) in &decision.block {
                self.set(name, Stand::Blocked);
                // Not told at once: those at work would be dropped before what they did is captured.
                let told = self.crew.block(name, by);
                self.note(told);
            }
            if !decision.block.is_empty() {
                continue;
            }
            for name in decision.start {
                self.begin(name);
            }
            if self.working.is_empty() && intake != Intake::Paused {
                // One that came in just now may make an agent wait again.
                let Some(ask) = orders.waiting() else { return };
                self.carry_out(ask);
                continue;
            }
            tokio::select! {
                Some(joined) = self.working.join_next() => self.take_back(joined),
                ask = orders.next() => self.carry_out(ask),
                () = self.crew.signals.stop.cancelled(), if intake != Intake::Closed => {}
            }
        }
    }

    fn intake(&self) -> Intake {
        if self.failed.is_some() || self.crew.signals.stop.is_cancelled() {
            Intake::Closed
        } else if *self.paused.borrow() {
            Intake::Paused
        } else {
            Intake::Open
        }
    }

    /// A fault of ours stops the run in order: the others' work is captured before it is told.
    fn note(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
            self.crew.signals.stop.cancel();
        }
    }

    fn set(&mut self, name: &AgentName, stand: Stand) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.name == *name) {
            entry.stand = stand;
        }
    }

    fn begin(&mut self, name: AgentName) {
        let opening = self.openings.get(&name).copied().unwrap_or(Opening::New);
        let (journal, agent) = (Arc::clone(&self.journal), name.clone());
        self.begin_by(name, |crew, reins| async move { crew.carry(&agent, opening, &*journal, reins).await });
    }

    fn begin_by<F>(&mut self, name: AgentName, work: impl FnOnce(Arc<Crew>, Reins) -> F)
    where
        F: Future<Output = Result<bool, Error>> + Send + 'static,
    {
        self.set(&name, Stand::Running);
        let stop = self.crew.signals.stop.child_token();
        let reins = Reins { stop: stop.clone(), paused: self.paused.subscribe() };
        self.at_work.insert(name.clone(), AtWork { stop, skip: None, waiting: Vec::new() });
        let work = work(Arc::clone(self.crew), reins);
        self.working.spawn(async move { (name, work.await) });
    }

    fn take_back(&mut self, joined: Result<(AgentName, Result<bool, Error>), JoinError>) {
        let (name, result) = match joined {
            Ok(joined) => joined,
            Err(error) => return self.note(Err(Error::Task(error.to_string()))),
        };
        let at_work = self.at_work.remove(&name);
        let mut can_be_built_on = matches!(result, Ok(true));
        self.note(result.map(drop));
        if let Some(by) = at_work.as_ref().and_then(|at_work| at_work.skip) {
            can_be_built_on = false;
            let told = self.leave_out(&name, by);
            self.note(told);
        }
        self.set(&name, Stand::Ended { can_be_built_on });
        let outcome = self.crew.recorder.state().agent(&name).and_then(AgentState::outcome);
        let answer = match outcome {
            Some(outcome) => Ok(Done::AgentEnded { outcome }),
            None => Err(Refusal::new(Kind::Failed, format!("how agent `{name}` ended was not written down"))),
        };
        for reply in at_work.into_iter().flat_map(|at_work| at_work.waiting) {
            // Whoever has gone meanwhile misses it.
            drop(reply.send(answer.clone()));
        }
    }

    fn leave_out(&self, name: &AgentName, by: Requester) -> Result<(), Error> {
        self.crew.not_begun(name, AttemptOutcome::Skipped, &format!("left out on request{}", by.words()))
    }

    fn carry_out(&mut self, Ask { order, by, reply }: Ask) {
        let answer = match order {
            Order::Pause => self.pause(true, by),
            Order::Continue => self.pause(false, by),
            Order::Stop(agent) => match self.stand(&agent) {
                Ok(Stand::Running) => return self.stop(&agent, None, reply),
                Ok(Stand::Waiting) => {
                    let reason = format!("stopped on request{} before it began", by.words());
                    self.never(&agent, AttemptOutcome::Interrupted, |crew| {
                        crew.not_begun(&agent, AttemptOutcome::Interrupted, &reason)
                    })
                }
                Ok(Stand::Ended { .. } | Stand::Blocked | Stand::LeftOut) => Err(self.has_ended(&agent)),
                Err(refusal) => Err(refusal),
            },
            Order::Skip(agent) => match self.stand(&agent) {
                Ok(Stand::Running) => return self.stop(&agent, Some(by), reply),
                Ok(Stand::Ended { can_be_built_on: true }) => Err(self.has_ended(&agent)),
                // Out of contract, which a card is about.
                Ok(Stand::Ended { can_be_built_on: false }) if self.has_completed(&agent) => {
                    Err(self.has_ended(&agent))
                }
                Ok(Stand::Waiting | Stand::Blocked | Stand::Ended { can_be_built_on: false } | Stand::LeftOut) => {
                    let reason = format!("left out on request{}", by.words());
                    self.never(&agent, AttemptOutcome::Skipped, |crew| {
                        crew.not_begun(&agent, AttemptOutcome::Skipped, &reason)
                    })
                }
                Err(refusal) => Err(refusal),
            },
            Order::Retry { agent, from_fork } => self.retry(&agent, from_fork, by),
        };
        drop(reply.send(answer));
    }

    fn has_completed(&self, agent: &AgentName) -> bool {
        let outcome = self.crew.recorder.state().agent(agent).and_then(AgentState::outcome);
        outcome == Some(AttemptOutcome::Completed)
    }

    fn stand(&self, agent: &AgentName) -> Result<Stand, Refusal> {
        let found = self.entries.iter().find(|entry| entry.name == *agent).map(|entry| entry.stand);
        found.ok_or_else(|| Refusal::new(Kind::UnknownAgent, format!("it has no agent `{agent}`")))
    }

    fn has_ended(&self, agent: &AgentName) -> Refusal {
        let outcome = self.crew.recorder.state().agent(agent).and_then(AgentState::outcome);
        let how = outcome.map(|outcome| format!(": {outcome}")).unwrap_or_default();
        Refusal::new(Kind::TooLate, format!("agent `{agent}` has ended already{how}"))
    }

    /// Journals first, then acts on it.
    fn pause(&mut self, pause: bool, by: Requester) -> Answer {
        if *self.paused.borrow() == pause {
            return Ok(Done::Set { changed: false });
        }
        if self.intake() == Intake::Closed {
            return Err(Refusal::new(Kind::TooLate, "it is being stopped"));
        }
        let kind = if pause { EventKind::RunPaused(Asked { by }) } else { EventKind::RunContinued(Asked { by }) };
        let told = self.crew.record(Subject::run(), kind);
        self.done_if(told, |scheduler| {
            scheduler.paused.send_replace(pause);
            Done::Set { changed: true }
        })
    }

    fn done_if(&mut self, told: Result<(), Error>, done: impl FnOnce(&mut Self) -> Done) -> Answer {
        match told {
            Ok(()) => Ok(done(self)),
            Err(error) => {
                let refusal = Refusal::new(Kind::Failed, format!("it could not be written down: {error}"));
                self.note(Err(error));
                Err(refusal)
            }
        }
    }

    /// Ends an agent at work. `skip`: who wants it left out. The answer comes with its end.
    fn stop(&mut self, agent: &AgentName, skip: Option<Requester>, reply: oneshot::Sender<Answer>) {
        let Some(at_work) = self.at_work.get_mut(agent) else {
            drop(reply.send(Err(self.has_ended(agent))));
            return;
        };
        at_work.skip = at_work.skip.or(skip);
        at_work.waiting.push(reply);
        at_work.stop.cancel();
    }

    /// Ends an agent that is not at work, by what `tell` writes down.
    fn never(
        &mut self,
        agent: &AgentName,
        outcome: AttemptOutcome,
        tell: impl FnOnce(&Crew) -> Result<(), Error>,
    ) -> Answer {
        let last = self.crew.recorder.state().agent(agent).and_then(AgentState::outcome);
        let told = if last == Some(outcome) { Ok(()) } else { tell(self.crew) };
        self.done_if(told, |scheduler| {
            scheduler.set(agent, Stand::LeftOut);
            Done::AgentEnded { outcome }
        })
    }

    fn retry(&mut self, agent: &AgentName, from_fork: bool, by: Requester) -> Answer {
        match self.stand(agent)? {
            Stand::Ended { .. } | Stand::LeftOut => {}
            Stand::Waiting | Stand::Running => {
                let message = format!("agent `{agent}` has not ended yet: `sandbox stop {agent}` ends it");
                return Err(Refusal::new(Kind::NotPossible, message));
            }
            Stand::Blocked => {
                let message = format!("agent `{agent}` is blocked: try the one again that it waits for");
                return Err(Refusal::new(Kind::NotPossible, message));
            }
        }
        if self.intake() == Intake::Closed {
            return Err(Refusal::new(Kind::TooLate, "it is being stopped"));
        }
        let again = readiness::reopen(&self.entries, agent).map_err(|names| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let message = format!("{} builds on what agent `{agent}` made", names.join(", "));
            Refusal::new(Kind::NotPossible, message)
        })?;
        let attempts = self.crew.plan.agent(agent).map_or(1, |task| task.attempts);
        let has_one = self.crew.recorder.state().agent(agent).is_some_and(|known| !known.attempts.is_empty());
        let requested = EventKind::RetryRequested(RetryRequested { from_fork, by });
        let told = self.crew.record(Subject::agent(agent), requested);
        self.done_if(told, |scheduler| {
            let opening = match (has_one, from_fork) {
                (false, _) => Opening::New,
                (true, true) => Opening::Afresh { attempts },
                (true, false) => Opening::GoOn { attempts },
            };
            scheduler.openings.insert(agent.clone(), opening);
            scheduler.set(agent, Stand::Waiting);
            for name in &again {
                scheduler.openings.insert(name.clone(), Opening::WasBlocked);
                scheduler.set(name, Stand::Waiting);
            }
            Done::Queued
        })
    }
}

//! Going on with a run whose coordinator is gone: `merge`, `verify`, `land`, `retry`.
//!
//! Each takes the run's lock, so that there is one coordinator at a time, and writes into the same journal.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use sandbox::Layer;

use super::agents::{Crew, load_workspaces};
use super::control::{self, dispatcher::Dispatcher, server::Server};
use super::coordinator::{Report, close_on_fault, require_secrets};
use super::error::Error;
use super::finish::Finish;
use super::hooks::{HookSet, Runner};
use super::isolation;
use super::keep::{Keeper, Kept};
use super::mend_pins::mend_pins;
use super::places::mend_links;
use super::recorder::{Observer, Recorder};
use super::scheduler::run_one;
use super::signals::Signals;
use super::site::Site;
use super::stage::stage;
use super::start::load_settings;
use crate::agent::attempt::with_causes;
use crate::integrate::see_target;
use crate::model::currency::Asker;
use crate::model::event::{AttemptFinished, EventKind, Stage, StageEnter, StageExit, Subject};
use crate::model::plan::{Plan, RunSettings};
use crate::model::run::{AgentState, RunState};
use crate::model::{AgentName, AttemptOutcome, RefName, RunId};
use crate::store::lock::{self, Patience, RunLock};
use crate::store::{JournalWriter, Record, RunDir, Workplaces, atomic, listing};

/// A run that a verb goes on with.
#[derive(Debug)]
pub struct Reopened {
    // Dropped first: the lock is held until nobody listens any more.
    _server: Option<Server>,
    crew: Arc<Crew>,
    recorder: Recorder,
    signals: Signals,
    land: bool,
    pub(super) asked: Asker,
    dispatcher: Dispatcher,
}

/// What the next attempt of an agent begins from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// Its worktree, as it was left.
    Worktree,
    /// A new worktree, made from the present candidate.
    Candidate,
    /// A new worktree, made from its own fork point.
    Fork,
}

/// What becomes of agents whose turn never came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NeverBegun {
    /// They are told to have been cut short.
    Closed,
    /// They have their turn now.
    GoesOn,
}

impl Reopened {
    /// Takes over a run whose coordinator is gone.
    ///
    /// `allowed`: layers that its boxes may do without, beside those that it was begun with.
    pub async fn open(
        site: Site,
        run: RunDir,
        allowed: &BTreeSet<Layer>,
        observer: Box<dyn Observer>,
        signals: Signals,
    ) -> Result<Self, Error> {
        let (recorder, events, settings, head) = tokio::task::block_in_place(|| {
            site.require_writable()?;
            let lock = RunLock::try_acquire(&run)?;
            site.sweep_scratch();
            // The lock is ours: nobody else writes here.
            atomic::remove_unfinished(run.root())?;
            let settings = load_settings(&run)?;
            let (writer, opened) = JournalWriter::open(&run, lock, site.clock.clone())?;
            if let Some(repair) = &opened.repair {
                tracing::warn!(?repair, "the end of the journal was repaired");
            }
            let recorder = Recorder::new(writer, &opened.events, observer);
            Ok::<_, Error>((recorder, opened.events, settings, site.load_head()?))
        })?;
        let state = recorder.state();
        let (Some(started), Some(at)) = (&state.started, state.started_at) else {
            return Err(Error::NoStart { run: recorder.run().id().clone() });
        };
        let base = started.base.clone();
        let site = tokio::task::block_in_place(|| site.of_run(&run, &settings))?;
        let RunSettings { mut plan, land, pinned_paths, user_hooks, .. } = settings;
        isolation::allow(&mut plan, allowed);
        tokio::task::block_in_place(|| {
            let tell = |text: &str| recorder.warn(text);
            await_boxes(&site, recorder.run().id(), tell)?;
            mend_links(&site, &state, recorder.run(), tell)?;
            mend_pins(&site, &state, recorder.run(), tell)
        })?;
        let capturer = site.capturer(at, &plan, pinned_paths).await?;
        let left_out = isolation::left_out(&capturer.host, &plan)?;
        for text in isolation::warnings(&capturer.host, &left_out) {
            recorder.warn(&text);
        }
        // Last: one that was begun has its end waited for, which only a run that was taken over does.
        let hooks = HookSet { plan: plan.hooks.clone(), user: user_hooks };
        recorder.run_hooks(Runner::start(hooks, &site, &recorder, &events, signals.kill.clone())?);
        let crew = Crew {
            site,
            plan,
            recorder: recorder.clone(),
            capturer,
            head,
            base,
            signals: signals.clone(),
            asking: Mutex::default(),
        };
        let dispatcher = Dispatcher::new(recorder.run().id(), &signals);
        let server = control::listen(&recorder, &dispatcher);
        Ok(Self { _server: server, crew: Arc::new(crew), recorder, signals, land, asked: Asker::User, dispatcher })
    }

    /// The run's state.
    pub fn state(&self) -> RunState {
        self.recorder.state()
    }

    /// The run's plan.
    pub fn plan(&self) -> &Plan {
        &self.crew.plan
    }

    pub(super) fn crew(&self) -> &Arc<Crew> {
        &self.crew
    }

    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    pub(super) fn signals(&self) -> &Signals {
        &self.signals
    }

    pub(super) fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// Whether the run was begun to land its result.
    pub(super) fn land_was_asked(&self) -> bool {
        self.land
    }

    pub(super) fn finish(&self) -> Finish<'_> {
        Finish {
            site: &self.crew.site,
            plan: &self.crew.plan,
            recorder: &self.recorder,
            capturer: &self.crew.capturer,
            head: &self.crew.head,
            signals: &self.signals,
            asks_hook: false,
            asked: self.asked,
        }
    }

    /// Settles and closes what a coordinator that died left open. A landing that cannot be settled keeps only landing from
    /// going on, which says so itself.
    async fn tidy(&self) -> Result<(), Error> {
        self.close_stage()?;
        self.finish().settle_claims().await?;
        self.close_interrupted(NeverBegun::Closed).await
    }

    /// Previews and candidate anew from the present snapshots, then the verifier.
    pub async fn merge(&self) -> Result<Report, Error> {
        close_on_fault(&self.recorder, self.do_merge().await)
    }

    async fn do_merge(&self) -> Result<Report, Error> {
        self.tidy().await?;
        self.finish().complete(false, false).await
    }

    /// Has the present candidate judged.
    pub async fn verify(&self, fresh: bool) -> Result<Report, Error> {
        close_on_fault(&self.recorder, self.do_verify(fresh).await)
    }

    async fn do_verify(&self, fresh: bool) -> Result<Report, Error> {
        self.tidy().await?;
        self.integrate_if_needed().await?;
        self.finish().verify(fresh).await?;
        self.finish().conclude(false).await
    }

    /// Lands the candidate if the gate is open. What was never integrated or judged is so first.
    /// `asks_hook`: the user's own `pre-merge-commit` hook has a say.
    pub async fn land(&self, asks_hook: bool) -> Result<Report, Error> {
        close_on_fault(&self.recorder, self.do_land(asks_hook).await)
    }

    async fn do_land(&self, asks_hook: bool) -> Result<Report, Error> {
        self.tidy().await?;
        self.integrate_if_needed().await?;
        if !self.recorder.state().verifier_is_fresh() {
            self.finish().verify(false).await?;
        }
        Finish { asks_hook, ..self.finish() }.conclude(true).await
    }

    /// Previews and candidate, where those there are not of the agents' present work.
    pub(super) async fn integrate_if_needed(&self) -> Result<(), Error> {
        let state = self.recorder.state();
        let branch = RefName::integration(&state.run_id);
        let at = tokio::task::block_in_place(|| self.crew.site.repository.load_ref(&branch))?;
        // The branch is set last, and is all that keeps the candidate. Where nothing is merged there need be none.
        let is_kept = state.candidate.as_ref().is_some_and(|candidate| match &at {
            Some(at) => at == candidate.head.to.object(),
            None => candidate.head.to == candidate.head.onto,
        });
        if is_kept && state.is_integrated() { Ok(()) } else { self.finish().integrate().await }
    }

    /// The same, and anew where what they are of is no more: the target is elsewhere, or what could not be told is asked again.
    /// To look is no attempt: what may be begun stays bound to what was tried for exactly this.
    pub(super) async fn integrate_if_out_of_date(&self) -> Result<(), Error> {
        let is_out_of_date = tokio::task::block_in_place(|| self.is_out_of_date())?;
        if is_out_of_date { self.finish().integrate().await } else { self.integrate_if_needed().await }
    }

    fn is_out_of_date(&self) -> Result<bool, Error> {
        let state = self.recorder.state();
        let target = state.started.as_ref().and_then(|started| started.target.as_ref());
        let (Some(candidate), Some(target)) = (&state.candidate, target) else { return Ok(state.has_unknown()) };
        let repository = &self.crew.site.repository;
        let (onto, made) = (&candidate.head.onto, &candidate.head.to);
        let is_elsewhere = match see_target(repository, &self.recorder, &state, target)? {
            // It went on with what was landed on it; or it is gone, and there is nothing to be made for.
            Some(tip) if state.landed_candidate.as_ref() == Some(made) => {
                tip != *onto && !repository.is_ancestor(made, &tip)?
            }
            Some(tip) => tip != *onto,
            None => false,
        };
        Ok(is_elsewhere || state.has_unknown())
    }

    /// The next attempt of an agent. Then the rest as [`Self::merge`] does it.
    pub async fn retry(&self, agent: &AgentName, from: From) -> Result<Report, Error> {
        close_on_fault(&self.recorder, self.do_retry(agent, from).await)
    }

    async fn do_retry(&self, agent: &AgentName, from: From) -> Result<Report, Error> {
        let orders = self.dispatcher.open();
        self.tidy().await?;
        let crew = &self.crew;
        let task = crew.plan.agent(agent).ok_or_else(|| no_agent(&self.recorder.state(), agent.as_str()))?;
        let state = self.recorder.state();
        let known = state.agent(agent).ok_or_else(|| no_agent(&state, agent.as_str()))?;
        let first = tokio::task::block_in_place(|| crew.next_attempt(known))?;
        require_secrets(&crew.site, std::iter::once(&task.sandbox))?;
        let story_id = agent.to_string();
        let invocation = Some(crate::store::process::current()?);
        let enter = StageEnter { story_id, stage: Stage::Prepare, invocation };
        let prepared = async {
            let seat = tokio::task::block_in_place(|| match from {
                From::Worktree => crew.old_seat(task, known),
                From::Candidate => crew.seat_from_candidate(task, known, &state),
                From::Fork => crew.seat_from_fork(task, known),
            })?;
            let told = if seat.is_some() { "ready" } else { "not possible" };
            Ok((seat, told.to_owned()))
        };
        let seat = stage(&self.recorder, Subject::agent(agent), enter, prepared).await?;
        match seat {
            Some(seat) => {
                let numbers = (first, task.attempts);
                let (task, recorder) = (task.clone(), self.recorder.clone());
                run_one(crew, orders, agent, |crew, reins| async move {
                    crew.attempts(&task, seat, numbers, &recorder, reins).await
                })
                .await?;
            }
            None => return self.finish().conclude(false).await,
        }
        self.finish().complete(false, false).await
    }

    /// Closes what a coordinator that died left open: attempts without an end, whose work since their last turn is kept
    /// first; stages without an exit; and agents whose turn never came.
    pub(super) async fn close_interrupted(&self, never_begun: NeverBegun) -> Result<(), Error> {
        let state = self.recorder.state();
        for agent in &state.agents {
            self.close_agent(agent).await?;
            if agent.attempts.is_empty() && never_begun == NeverBegun::Closed {
                let why = "the coordinator ended before it began";
                self.crew.not_begun(&agent.name, AttemptOutcome::Interrupted, why)?;
            }
        }
        self.close_stage()
    }

    /// Closes the stage of the whole run that a coordinator died in.
    pub(super) fn close_stage(&self) -> Result<(), Error> {
        let state = self.recorder.state();
        if let Some(stage) = state.stage {
            let story_id = state.run_id.to_string();
            let exit = StageExit { story_id, stage, result: "interrupted".to_owned(), duration_ms: 0 };
            tokio::task::block_in_place(|| self.recorder.record(Subject::run(), EventKind::StageExit(exit)))?;
        }
        Ok(())
    }

    /// The same for one agent.
    pub(super) async fn close_agent(&self, agent: &AgentState) -> Result<(), Error> {
        if agent.last_attempt().is_some_and(|attempt| attempt.finished.is_none()) {
            self.close_attempt(agent).await?;
        }
        if let Some((stage, _)) = agent.stage {
            let story_id = agent.name.to_string();
            let exit = StageExit { story_id, stage, result: "interrupted".to_owned(), duration_ms: 0 };
            let subject = Subject::agent(&agent.name);
            tokio::task::block_in_place(|| self.recorder.record(subject, EventKind::StageExit(exit)))?;
        }
        Ok(())
    }

    /// Ends an attempt that nobody ended. What lies in its worktree and in no snapshot yet becomes a turn that was cut
    /// short; where that cannot be, the files stay where they are, and the attempt says so.
    async fn close_attempt(&self, agent: &AgentState) -> Result<(), Error> {
        let mut hints = Vec::new();
        let crew = &self.crew;
        let workspace =
            tokio::task::block_in_place(|| load_workspaces(&crew.site, self.recorder.run(), &agent.name))?.pop();
        if let (Some(workspace), Some(task)) = (workspace, crew.plan.agent(&agent.name))
            && workspace.place.worktree().symlink_metadata().is_ok()
        {
            let (site, capturer, recorder) = (&crew.site, &crew.capturer, &self.recorder);
            let keeper = Keeper { site, capturer, recorder, workspace: &workspace, task, known: agent };
            match keeper.keep("cut short").await {
                Ok(Kept { lost: None, .. }) => {}
                Ok(Kept { lost: Some(lost), .. }) => {
                    hints.push(format!("files that could not be captured lie in its worktree: {lost}").into());
                }
                Err(error @ Error::Change(_)) => {
                    let why = with_causes(&error);
                    hints.push(format!("what it changed since its last turn lies in its worktree alone: {why}").into());
                }
                Err(error) => return Err(error),
            }
        }
        let state = self.recorder.state();
        let Some(attempt) = state.agent(&agent.name).and_then(AgentState::last_attempt) else { return Ok(()) };
        let finished = EventKind::AttemptFinished(interrupted(attempt, hints));
        tokio::task::block_in_place(|| self.recorder.record(Subject::attempt(&agent.name, attempt.number), finished))?;
        Ok(())
    }
}

/// Waits for what is left of boxes whose coordinator was killed: until their last process is gone, it may write.
pub(super) fn await_boxes(site: &Site, run: &RunId, tell: impl Fn(&str)) -> Result<(), Error> {
    let places = &site.workplaces;
    for entry in listing::entries(&places.private_root())?.unwrap_or_default() {
        let Some((of, occupant)) = Workplaces::occupant_of(&entry.file_name()) else { continue };
        if of != *run {
            continue;
        }
        let place = places.place(run, &occupant);
        let worktree = place.worktree().display();
        let notice = || tell(&format!("waiting until nothing is left of the last box in `{worktree}`"));
        lock::await_boxes(&place, Patience::default(), notice)?;
    }
    Ok(())
}

fn interrupted(attempt: &crate::model::run::AttemptState, hints: Vec<crate::model::event::Hint>) -> AttemptFinished {
    let last = attempt.turns.last().map(|(_, turn)| turn);
    AttemptFinished {
        snapshot: last.map(|turn| turn.snapshot.clone()),
        tree: last.map(|turn| turn.tree.clone()),
        outside_since_fork: attempt.outside.clone(),
        hints,
        ..AttemptFinished::without_work(AttemptOutcome::Interrupted, "the coordinator ended before it did")
    }
}

/// The error for a name that is no agent of the run.
pub fn no_agent(state: &RunState, name: &str) -> Error {
    let known: Vec<String> = state.agents.iter().map(|agent| format!("`{}`", agent.name)).collect();
    Error::NoAgent { run: state.run_id.clone(), agent: name.to_owned(), known: known.join(", ") }
}

//! Carrying one agent from its worktree through its attempts.

use std::sync::Mutex;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::finish::started_of;
use super::recorder::Recorder;
use super::signals::Signals;
use super::site::Site;
use crate::agent::{self, Assignment, AttemptEnd};
use crate::change::{Capturer, Snapshot};
use crate::git::{Head, Place};
use crate::integrate::{Facts, Fork, fork_point, open_card};
use crate::model::event::{AttemptFinished, EventKind, Stage, StageEnter, Subject};
use crate::model::plan::{AgentTask, Plan};
use crate::model::run::tries::{self, Next};
use crate::model::{AgentName, AttemptOutcome, CommitId, RefName, TurnId};
use crate::plan::Scope;
use crate::store::{Occupant, Record, RunDir, atomic, json};
use crate::workspace::{Commission, Workspace, WorkspaceRecord, create, remove, seed, seed_included};

/// What all agents of a run share.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) site: Site,
    pub(super) plan: Plan,
    pub(super) recorder: Recorder,
    pub(super) capturer: Capturer,
    pub(super) head: Head,
    pub(super) base: CommitId,
    pub(super) signals: Signals,
    /// Held while a request of an agent is decided.
    pub(super) asking: Mutex<()>,
}

/// How an agent stands when agents are to be carried to their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// It has not begun.
    New,
    /// It has, and goes on in the worktree it has had, with so many attempts left.
    GoOn {
        /// How many.
        attempts: u32,
    },
    /// It has ended.
    Ended {
        /// Whether others may build on it.
        can_be_built_on: bool,
    },
    /// It has ended because of one it builds on, which may end otherwise now.
    WasBlocked,
    /// It has, and begins afresh in a new worktree made from its own fork point, with so many attempts.
    Afresh {
        /// How many.
        attempts: u32,
    },
}

/// By what an agent at work is held.
#[derive(Debug, Clone)]
pub(super) struct Reins {
    /// Told when it is to stop, be it alone or with the whole run.
    pub(super) stop: CancellationToken,
    /// Whether no further attempt is to begin for now.
    pub(super) paused: watch::Receiver<bool>,
}

impl Reins {
    /// Waits while the run is paused. False: it is stopped.
    async fn may_begin(&mut self) -> bool {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => false,
            _continued = self.paused.wait_for(|paused| !paused) => true,
        }
    }
}

/// A worktree with what is known of it before an attempt.
pub(super) struct Seat {
    pub(super) workspace: Workspace,
    pub(super) fork: Snapshot,
    pub(super) latest: Snapshot,
    pub(super) branch_at: CommitId,
    /// Whether `setup` has not ended well in it yet.
    pub(super) needs_setup: bool,
}

impl Crew {
    pub(super) fn record(&self, subject: Subject, kind: EventKind) -> Result<(), Error> {
        tokio::task::block_in_place(|| self.recorder.record(subject, kind))?;
        Ok(())
    }

    /// One stage of an agent.
    async fn stage<T>(
        &self,
        name: &AgentName,
        stage: Stage,
        work: impl Future<Output = Result<(T, String), Error>>,
    ) -> Result<T, Error> {
        let enter = StageEnter { story_id: name.to_string(), stage, invocation: None };
        super::stage::stage(&self.recorder, Subject::agent(name), enter, Box::pin(work)).await
    }

    /// Carries an agent from its worktree to its last attempt. True: others may build on it.
    pub(super) async fn carry(
        &self,
        name: &AgentName,
        opening: Opening,
        journal: &dyn Record,
        reins: Reins,
    ) -> Result<bool, Error> {
        let Some(task) = self.plan.agent(name) else { return Ok(false) };
        let state = self.recorder.state();
        let (known, attempts) = match opening {
            Opening::GoOn { attempts } | Opening::Afresh { attempts } => (state.agent(name), attempts),
            Opening::WasBlocked => (state.agent(name), task.attempts),
            Opening::New | Opening::Ended { .. } => (None, task.attempts),
        };
        let first = tokio::task::block_in_place(|| known.map_or(Ok(1), |known| self.next_attempt(known)))?;
        let seat = self
            .stage(name, Stage::Prepare, async {
                let seat = tokio::task::block_in_place(|| match known {
                    Some(known) if matches!(opening, Opening::Afresh { .. }) => self.seat_from_fork(task, known),
                    Some(known) => self.old_seat(task, known),
                    None => self.prepare(task, 1),
                });
                let seat = match seat {
                    // That one cannot go on keeps none of the others from it.
                    Err(
                        error @ (Error::NoWorktree { .. } | Error::WorktreeElsewhere { .. } | Error::NoRetry { .. }),
                    ) => {
                        self.not_begun(name, AttemptOutcome::Interrupted, &error.to_string())?;
                        None
                    }
                    other => other?,
                };
                let told = if seat.is_some() { "ready" } else { "not possible" };
                Ok((seat, told.to_owned()))
            })
            .await?;
        let Some(seat) = seat else { return Ok(false) };
        self.attempts(task, seat, (first, attempts), journal, reins).await
    }

    /// Makes attempts, from this number on and with so many tries, until one ends for good, and tells of them in `journal`.
    pub(super) async fn attempts(
        &self,
        task: &AgentTask,
        mut seat: Seat,
        (first, tries): (u32, u32),
        journal: &dyn Record,
        mut reins: Reins,
    ) -> Result<bool, Error> {
        let (mut attempt, mut left) = (first, tries.saturating_sub(1));
        loop {
            let state = self.recorder.state();
            let scope = Scope::new(task, &state.granted(&task.name))?;
            let before = state.agent(&task.name).and_then(crate::model::run::AgentState::outcome);
            let end = self.attempt(task, &scope, &seat, (attempt, before), journal, &reins).await?;
            seat.latest = end.latest;
            seat.branch_at = end.branch_at;
            let state = self.recorder.state();
            let begun =
                state.agent(&task.name).is_some_and(|agent| agent.has_begun_in(seat.workspace.place.worktree()));
            seat.needs_setup = !begun;
            let has_more = state.has_more(&task.name);
            match tries::next(end.outcome, left, has_more, reins.stop.is_cancelled()) {
                Next::Nothing => break,
                Next::Try => left = left.saturating_sub(1),
                Next::WithMore => {}
            }
            if !reins.may_begin().await {
                break;
            }
            attempt = attempt.saturating_add(1);
        }
        // Where somebody removed its entry, and its link could not be trusted, there is none to keep up.
        if seat.workspace.admin_dir.is_dir() {
            tokio::task::block_in_place(|| {
                self.site.repository.reset_worktree_index(&seat.workspace.admin_dir, &seat.latest.commit)
            })?;
        }
        let state = self.recorder.state();
        let finished = state.agent(&task.name).and_then(|agent| agent.last_attempt()).and_then(|a| a.finished.as_ref());
        Ok(finished.is_some_and(AttemptFinished::can_be_built_on))
    }

    async fn attempt(
        &self,
        task: &AgentTask,
        scope: &Scope,
        seat: &Seat,
        (attempt, before): (u32, Option<AttemptOutcome>),
        journal: &dyn Record,
        reins: &Reins,
    ) -> Result<AttemptEnd, Error> {
        let setup = if seat.needs_setup { self.plan.workspace.setup.as_ref() } else { None };
        self.stage(&task.name, Stage::Execute, async {
            let assignment = Assignment {
                run: self.recorder.run(),
                task,
                scope,
                attempt,
                workspace: &seat.workspace,
                fork: &seat.fork,
                latest: seat.latest.clone(),
                branch_at: seat.branch_at.clone(),
                setup,
                before,
                capturer: &self.capturer,
                journal,
                clerk: Some(self),
                stop: reins.stop.clone(),
                kill: self.signals.kill.clone(),
                clock: self.signals.clock.clone(),
            };
            let end = agent::attempt::run(assignment).await?;
            let told = end.outcome.to_string();
            Ok((end, told))
        })
        .await
    }

    /// Makes an agent's worktree. `None`: it cannot have one, which has been told.
    pub(super) fn prepare(&self, task: &AgentTask, generation: u32) -> Result<Option<Seat>, Error> {
        let fork = match self.fork_of(task)? {
            Ok(fork) => fork,
            Err(by) => {
                self.block(&task.name, &by)?;
                return Ok(None);
            }
        };
        let stand = self.clear_for(task, generation, &fork)?;
        self.seat_at(task, generation, fork, stand).map(Some)
    }

    /// Takes away what a coordinator that died while it made this worktree left of it. No agent was ever in it: that it is
    /// there is written down before one is let in.
    pub(super) fn clear(&self, task: &AgentTask, generation: u32) -> Result<(), Error> {
        let occupant = Occupant::Agent { name: task.name.clone(), generation };
        let place = self.site.workplaces.place(self.recorder.run().id(), &occupant);
        remove(&self.site.repository, &self.site.state, &place)?;
        Ok(())
    }

    /// Clears the place of a worktree, and says what the new one stands on.
    fn clear_for(&self, task: &AgentTask, generation: u32, fork: &CommitId) -> Result<Place, Error> {
        let repository = &self.site.repository;
        self.clear(task, generation)?;
        let branch = self.branch_of(&task.name);
        match repository.load_ref(&branch)?.map(CommitId::from) {
            None => Ok(Place::NewBranch(branch)),
            Some(at) if at == *fork => Ok(Place::Branch(branch)),
            Some(at) => Err(Error::NoRetry {
                agent: task.name.clone(),
                why: format!(
                    "its branch `{}` stands at {at} already: delete it if that is not wanted, then try again",
                    branch.short()
                ),
            }),
        }
    }

    /// The branch of an agent.
    pub(super) fn branch_of(&self, agent: &AgentName) -> RefName {
        RefName::agent_branch(self.recorder.run().id(), agent)
    }

    /// Makes a worktree of an agent at `fork`.
    pub(super) fn seat_at(
        &self,
        task: &AgentTask,
        generation: u32,
        fork: CommitId,
        stand: Place,
    ) -> Result<Seat, Error> {
        let run = self.recorder.run();
        let place = self.site.workplaces.place(run.id(), &Occupant::Agent { name: task.name.clone(), generation });
        let invocation = crate::store::process::current()?;
        let workspace = create(&Commission {
            repository: &self.site.repository,
            head: &self.head,
            state: &self.site.state,
            environment: &self.site.environment,
            place,
            fork: fork.clone(),
            stand,
            reason: format!("sandbox {}/{} pid {}", run.id(), task.name, invocation.pid),
        })?;
        if let Some(checkout) = self.site.repository.top_level() {
            let seeded = seed(checkout, workspace.place.worktree(), &self.plan.workspace.seed)?;
            for path in seeded.missing {
                tracing::warn!(agent = %task.name, path, "the plan's `seed` names a path that the checkout does not have");
            }
            seed_included(&self.site.repository, workspace.place.worktree())?;
        }
        save_workspace(run, &task.name, generation, &workspace)?;
        let tree = self.site.repository.load_commit(&fork)?.tree;
        let snapshot = Snapshot { commit: fork.clone(), tree };
        Ok(Seat { workspace, latest: snapshot.clone(), fork: snapshot, branch_at: fork, needs_setup: true })
    }

    /// The commit an agent's worktree is made from, or the agents that keep it from having one.
    fn fork_of(&self, task: &AgentTask) -> Result<Result<CommitId, Vec<AgentName>>, Error> {
        if task.after.is_empty() {
            return Ok(Ok(self.base.clone()));
        }
        let state = self.recorder.state();
        let started = started_of(&state)?;
        let facts = Facts {
            repository: &self.site.repository,
            run: self.recorder.run(),
            plan: &self.plan,
            state: &state,
            base: &self.base,
            identity: &started.identity,
            started_at: state.started_at.unwrap_or_default(),
        };
        match fork_point(&facts, &task.name)? {
            Fork::Commit(commit) => {
                self.pin_fork(&task.name, &commit)?;
                Ok(Ok(commit))
            }
            Fork::Conflict(card) => {
                let by = card.agents.clone();
                open_card(&facts, &self.recorder, &task.name, &card)?;
                Ok(Err(by))
            }
            Fork::Blocked(by) => Ok(Err(by)),
        }
    }

    /// Keeps a fork point that no branch holds.
    pub(super) fn pin_fork(&self, agent: &AgentName, commit: &CommitId) -> Result<(), Error> {
        let name = RefName::fork(self.recorder.run().id(), agent);
        Ok(self.site.repository.move_ref(&name, commit, "sandbox: fork point")?.require()?)
    }

    pub(super) fn block(&self, name: &AgentName, by: &[AgentName]) -> Result<(), Error> {
        let names: Vec<String> = by.iter().map(|name| format!("`{name}`")).collect();
        let reason = format!("waits for {}, which cannot be built on", names.join(", "));
        let state = self.recorder.state();
        let last = state.agent(name).and_then(|agent| agent.last_attempt()?.finished.as_ref());
        // What was told is not told again.
        if last.is_some_and(|last| last.outcome == AttemptOutcome::Blocked && last.reason == reason) {
            return Ok(());
        }
        self.not_begun(name, AttemptOutcome::Blocked, &reason)
    }

    /// Tells of an agent that no attempt is made of.
    pub(super) fn not_begun(&self, name: &AgentName, outcome: AttemptOutcome, reason: &str) -> Result<(), Error> {
        let state = self.recorder.state();
        let number = match state.agent(name) {
            Some(known) => tokio::task::block_in_place(|| self.next_attempt(known))?,
            None => 1,
        };
        let finished = AttemptFinished::without_work(outcome, reason);
        self.record(Subject::attempt(name, number), EventKind::AttemptFinished(finished))
    }
}

/// Keeps what one of an agent's worktrees is known by.
pub(super) fn save_workspace(
    run: &RunDir,
    agent: &AgentName,
    generation: u32,
    workspace: &Workspace,
) -> Result<(), Error> {
    Ok(atomic::write_json(&run.workspace(agent, generation), &workspace.to_record())?)
}

/// The worktrees that an agent has had in a run, the newest last.
pub(super) fn load_workspaces(site: &Site, run: &RunDir, agent: &AgentName) -> Result<Vec<Workspace>, Error> {
    let mut found = Vec::new();
    for generation in 1.. {
        let Some(record) = json::load::<WorkspaceRecord>(&run.workspace(agent, generation))? else { break };
        let place = site.workplaces.place(run.id(), &Occupant::Agent { name: agent.clone(), generation });
        found.push(Workspace::from_record(record, place));
    }
    Ok(found)
}

/// The turns of an agent that have a pinned snapshot, also those that a coordinator died over before it told of them.
pub(super) fn load_pinned_turns(site: &Site, run: &RunDir, agent: &AgentName) -> Result<Vec<TurnId>, Error> {
    let prefix = format!("refs/sandbox/{}/{agent}/", run.id());
    let found = site.repository.load_refs(&prefix)?;
    Ok(found.iter().filter_map(|found| found.name.as_str().strip_prefix(&prefix)?.parse().ok()).collect())
}

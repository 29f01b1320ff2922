//! Carrying the agents through their attempts, as many at once as the plan says.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::error::Error;
use super::finish::started_of;
use super::forecaster::Forecaster;
use super::recorder::Recorder;
use super::scheduler::{self, Entry, Stand};
use super::signals::Signals;
use super::site::Site;
use crate::agent::{self, Assignment, AttemptEnd};
use crate::change::{Capturer, Snapshot};
use crate::git::{Head, Place, RefEdit, Swap};
use crate::integrate::{Facts, Fork, fork_point, open_card};
use crate::model::event::{AttemptFinished, EventKind, Stage, StageEnter, Subject};
use crate::model::plan::{AgentTask, Plan};
use crate::model::{AgentName, AttemptOutcome, CommitId, RefName, TurnId};
use crate::plan::CompiledContract;
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
}

/// Carries all agents of the plan to an end, each from how it stands.
pub(super) async fn run_all(
    crew: &Arc<Crew>,
    jobs: usize,
    opening: impl Fn(&AgentTask) -> Opening,
) -> Result<(), Error> {
    let openings: HashMap<AgentName, Opening> =
        crew.plan.agents.iter().map(|task| (task.name.clone(), opening(task))).collect();
    let opening = |name: &AgentName| openings.get(name).copied().unwrap_or(Opening::New);
    let mut entries: Vec<Entry> = crew
        .plan
        .agents
        .iter()
        .map(|task| {
            let stand = match opening(&task.name) {
                Opening::New | Opening::GoOn { .. } | Opening::WasBlocked => Stand::Waiting,
                Opening::Ended { can_be_built_on } => Stand::Ended { can_be_built_on },
            };
            Entry { name: task.name.clone(), after: task.after.clone(), stand }
        })
        .collect();
    let (forecaster, journal) = Forecaster::begin(crew);
    let mut working: JoinSet<(AgentName, Result<bool, Error>)> = JoinSet::new();
    let mut failed = None;
    loop {
        let stopping = failed.is_some() || crew.signals.stop.is_cancelled();
        let decision = scheduler::decide(&entries, jobs, stopping);
        for (name, by) in &decision.block {
            set(&mut entries, name, Stand::Ended { can_be_built_on: false });
            if let Err(error) = crew.block(name, by) {
                // Not told at once: those at work would be dropped before what they did is captured.
                failed.get_or_insert(error);
                crew.signals.stop.cancel();
            }
        }
        if !decision.block.is_empty() {
            continue;
        }
        for name in decision.start {
            set(&mut entries, &name, Stand::Running);
            let (crew, opening, journal) = (Arc::clone(crew), opening(&name), journal.clone());
            working.spawn(async move {
                let result = crew.carry(&name, opening, &journal).await;
                (name, result)
            });
        }
        match working.join_next().await {
            None => break,
            Some(Ok((name, Ok(can_be_built_on)))) => set(&mut entries, &name, Stand::Ended { can_be_built_on }),
            Some(Ok((name, Err(error)))) => {
                // A fault of ours stops the run in order: the others' work is captured before it is told.
                set(&mut entries, &name, Stand::Ended { can_be_built_on: false });
                failed.get_or_insert(error);
                crew.signals.stop.cancel();
            }
            Some(Err(error)) => {
                failed.get_or_insert(Error::Task(error.to_string()));
                crew.signals.stop.cancel();
            }
        }
    }
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

fn set(entries: &mut [Entry], name: &AgentName, stand: Stand) {
    if let Some(entry) = entries.iter_mut().find(|entry| entry.name == *name) {
        entry.stand = stand;
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
    fn record(&self, subject: Subject, kind: EventKind) -> Result<(), Error> {
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
    async fn carry(&self, name: &AgentName, opening: Opening, journal: &dyn Record) -> Result<bool, Error> {
        let Some(task) = self.plan.agent(name) else { return Ok(false) };
        let state = self.recorder.state();
        let (known, attempts) = match opening {
            Opening::GoOn { attempts } => (state.agent(name), attempts),
            Opening::WasBlocked => (state.agent(name), task.attempts),
            Opening::New | Opening::Ended { .. } => (None, task.attempts),
        };
        let first = tokio::task::block_in_place(|| known.map_or(Ok(1), |known| self.next_attempt(known)))?;
        let seat = self
            .stage(name, Stage::Prepare, async {
                let seat = tokio::task::block_in_place(|| match known {
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
        self.attempts(task, seat, first..first.saturating_add(attempts), journal).await
    }

    /// Makes the attempts of these numbers until one ends for good, and tells of them in `journal`.
    pub(super) async fn attempts(
        &self,
        task: &AgentTask,
        mut seat: Seat,
        numbers: Range<u32>,
        journal: &dyn Record,
    ) -> Result<bool, Error> {
        let contract = CompiledContract::new(&task.contract)?;
        let mut before = self.recorder.state().agent(&task.name).and_then(crate::model::run::AgentState::outcome);
        for attempt in numbers {
            let end = self.attempt(task, &contract, &seat, (attempt, before), journal).await?;
            seat.latest = end.latest;
            seat.branch_at = end.branch_at;
            let state = self.recorder.state();
            let begun =
                state.agent(&task.name).is_some_and(|agent| agent.has_begun_in(seat.workspace.place.worktree()));
            seat.needs_setup = !begun;
            before = Some(end.outcome);
            let again = end.outcome.is_worth_another_attempt() && !self.signals.stop.is_cancelled();
            if !again {
                break;
            }
        }
        tokio::task::block_in_place(|| {
            self.site.repository.reset_worktree_index(&seat.workspace.admin_dir, &seat.latest.commit)
        })?;
        let state = self.recorder.state();
        let finished = state.agent(&task.name).and_then(|agent| agent.last_attempt()).and_then(|a| a.finished.as_ref());
        Ok(finished.is_some_and(|end| end.outcome.lets_dependents_start() && end.outside_since_fork.is_empty()))
    }

    async fn attempt(
        &self,
        task: &AgentTask,
        contract: &CompiledContract,
        seat: &Seat,
        (attempt, before): (u32, Option<AttemptOutcome>),
        journal: &dyn Record,
    ) -> Result<AttemptEnd, Error> {
        let setup = if seat.needs_setup { self.plan.workspace.setup.as_ref() } else { None };
        self.stage(&task.name, Stage::Execute, async {
            let assignment = Assignment {
                run: self.recorder.run(),
                task,
                contract,
                attempt,
                workspace: &seat.workspace,
                fork: &seat.fork,
                latest: seat.latest.clone(),
                branch_at: seat.branch_at.clone(),
                setup,
                before,
                capturer: &self.capturer,
                journal,
                stop: self.signals.stop.clone(),
                kill: self.signals.kill.clone(),
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
        let new = commit.object().clone();
        let edit = match self.site.repository.load_ref(&name)? {
            Some(old) if old == new => return Ok(()),
            Some(old) => RefEdit::Update { name, new, old },
            None => RefEdit::Create { name, new },
        };
        match self.site.repository.swap_refs(&[edit], "sandbox: fork point")? {
            Swap::Done => Ok(()),
            Swap::Lost { name, expected, found } => Err(crate::change::Error::ref_moved(&name, expected, found).into()),
        }
    }

    fn block(&self, name: &AgentName, by: &[AgentName]) -> Result<(), Error> {
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

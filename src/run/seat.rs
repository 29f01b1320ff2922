//! The worktree for a further attempt: the one that the agent has had, or a new one beside it.

use super::agents::{Crew, Seat, load_pinned_turns, load_workspaces};
use super::error::Error;
use crate::change::Snapshot;
use crate::git::{Place, RefEdit};
use crate::model::plan::AgentTask;
use crate::model::run::{AgentState, RunState};
use crate::model::{AgentName, CommitId, RefName};
use crate::workspace::Workspace;

impl Crew {
    /// Why a worktree is not where it should be.
    fn missing(&self, task: &AgentTask, workspace: &Workspace) -> Result<Error, Error> {
        let (agent, expected) = (task.name.clone(), workspace.place.worktree());
        let listed = self.site.repository.load_worktrees()?.into_iter().map(|worktree| worktree.path);
        let mut elsewhere = listed.filter(|path| path.file_name() == expected.file_name() && path.is_dir());
        Ok(match elsewhere.next() {
            Some(found) => {
                let expected = expected.parent().unwrap_or(expected).to_owned();
                Error::WorktreeElsewhere { agent, found, expected }
            }
            None => Error::NoWorktree { agent },
        })
    }

    /// The number of the next attempt. One that died early may have pinned a snapshot and told nothing yet: its number is
    /// used up too.
    pub(super) fn next_attempt(&self, known: &AgentState) -> Result<u32, Error> {
        let told = known.attempts.iter().map(|attempt| attempt.number).max().unwrap_or(0);
        let pinned = load_pinned_turns(&self.site, self.recorder.run(), &known.name)?;
        let pinned = pinned.iter().map(|turn| turn.attempt).max().unwrap_or(0);
        Ok(told.max(pinned).saturating_add(1))
    }

    /// The worktree of the last attempt, as it was left.
    pub(super) fn old_seat(&self, task: &AgentTask, known: &AgentState) -> Result<Option<Seat>, Error> {
        let site = &self.site;
        let Some(workspace) = load_workspaces(site, self.recorder.run(), &task.name)?.pop() else {
            // It never had one: blocked, or stopped before it began.
            return self.prepare(task, 1);
        };
        if workspace.place.worktree().symlink_metadata().is_err() {
            return Err(self.missing(task, &workspace)?);
        }
        let snapshot = |commit: CommitId| {
            let tree = site.repository.load_commit(&commit)?.tree;
            Ok::<_, Error>(Snapshot { commit, tree })
        };
        let fork = snapshot(workspace.fork.clone())?;
        let branch = RefName::agent_branch(self.recorder.run().id(), &task.name);
        let branch_at = site.repository.load_ref(&branch)?.map(CommitId::from);
        let branch_at = branch_at.ok_or_else(|| Error::NoRetry {
            agent: task.name.clone(),
            why: format!("its branch `{}` is gone; use `sandbox retry {} --fresh`", branch.short(), task.name),
        })?;
        // That of this very worktree: one that begins afresh does not go on from where another was left.
        let latest = match known.last_turn_in(workspace.place.worktree()) {
            Some((_, turn)) => Snapshot { commit: turn.snapshot.clone(), tree: turn.tree.clone() },
            None => fork.clone(),
        };
        let needs_setup = !known.has_begun_in(workspace.place.worktree());
        Ok(Some(Seat { workspace, fork, latest, branch_at, needs_setup }))
    }

    /// A new worktree made from the present candidate. The old one stays where it is, and its snapshots stay pinned.
    pub(super) fn seat_from_candidate(
        &self,
        task: &AgentTask,
        known: &AgentState,
        state: &RunState,
    ) -> Result<Option<Seat>, Error> {
        if known.merge.as_ref().is_some_and(|merge| merge.merged_as.is_some()) {
            let why =
                "it is part of the candidate already; `sandbox retry` without --fresh goes on with its work, and with \
                       --from-fork does without it"
                    .to_owned();
            return Err(Error::NoRetry { agent: task.name.clone(), why });
        }
        let fork =
            state.candidate.as_ref().map_or_else(|| self.base.clone(), |candidate| candidate.head.previewed().clone());
        self.new_seat(task, known, |_| fork)
    }

    /// A new worktree made from where the last one was made from. That one stays where it is, and its snapshots stay pinned.
    pub(super) fn seat_from_fork(&self, task: &AgentTask, known: &AgentState) -> Result<Option<Seat>, Error> {
        self.new_seat(task, known, |old| old.fork.clone())
    }

    fn new_seat(
        &self,
        task: &AgentTask,
        known: &AgentState,
        fork: impl FnOnce(&Workspace) -> CommitId,
    ) -> Result<Option<Seat>, Error> {
        let site = &self.site;
        let had = load_workspaces(site, self.recorder.run(), &task.name)?;
        let Some(old) = had.last() else {
            return self.prepare(task, 1);
        };
        let fork = fork(old);
        let generation = u32::try_from(had.len() + 1).unwrap_or(u32::MAX);
        self.clear(task, generation)?;
        let branch = self.branch_of(&task.name);
        let stand = match site.repository.load_ref(&branch)?.map(CommitId::from) {
            None => {
                // Its branch was deleted by other means, and the old worktree still stands on it.
                if old.admin_dir.is_dir() {
                    let last = known.last_turn_in(old.place.worktree()).map_or(&old.fork, |(_, turn)| &turn.snapshot);
                    site.repository.detach_worktree(&old.admin_dir, last)?;
                }
                Place::NewBranch(branch)
            }
            Some(at) => {
                self.hand_over(&task.name, &branch, old, &at, &fork)?;
                Place::Branch(branch)
            }
        };
        self.pin_fork(&task.name, &fork)?;
        self.seat_at(task, generation, fork, stand).map(Some)
    }

    /// Takes the branch from the old worktree to where the new one begins. What it held is pinned: turn by turn what the
    /// agent did, and by a ref of its own what the user may have put on it since.
    fn hand_over(
        &self,
        agent: &AgentName,
        branch: &RefName,
        old: &Workspace,
        at: &CommitId,
        fork: &CommitId,
    ) -> Result<(), Error> {
        let repository = &self.site.repository;
        if old.admin_dir.is_dir() {
            repository.detach_worktree(&old.admin_dir, at)?;
        }
        let left = RefName::left(self.recorder.run().id(), agent, at);
        let mut edits =
            vec![RefEdit::Update { name: branch.clone(), new: fork.object().clone(), old: at.object().clone() }];
        if repository.load_ref(&left)?.is_none() {
            edits.push(RefEdit::Create { name: left, new: at.object().clone() });
        }
        Ok(repository.swap_refs(&edits, "sandbox: begin afresh")?.require()?)
    }
}

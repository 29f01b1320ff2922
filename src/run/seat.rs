//! A worktree that an agent has had, to go on in.

use super::agents::{Crew, Seat, load_pinned_turns, load_workspaces};
use super::error::Error;
use crate::change::Snapshot;
use crate::model::plan::AgentTask;
use crate::model::run::AgentState;
use crate::model::{CommitId, RefName};
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
}

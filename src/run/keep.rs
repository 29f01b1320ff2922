//! Seeing to it that what lies in a worktree is pinned and bundled, whoever left it there: a coordinator that died in the
//! middle of a turn, or the user.

use std::collections::HashSet;

use super::agents::load_pinned_turns;
use super::error::Error;
use super::recorder::Recorder;
use super::site::Site;
use crate::agent::turn::{TurnEnd, events};
use crate::change::bundle::{self, Ledger};
use crate::change::{self, Captured, Capturer, Pins, Snapshot};
use crate::model::change::Actor;
use crate::model::event::Subject;
use crate::model::plan::AgentTask;
use crate::model::run::AgentState;
use crate::model::{CommitId, RefName, RepoPath, TurnId};
use crate::plan::CompiledContract;
use crate::store::Record;
use crate::workspace::Workspace;

/// A worktree and what is known of it.
pub(super) struct Keeper<'a> {
    pub(super) site: &'a Site,
    pub(super) capturer: &'a Capturer,
    pub(super) recorder: &'a Recorder,
    pub(super) workspace: &'a Workspace,
    pub(super) task: &'a AgentTask,
    pub(super) known: &'a AgentState,
}

/// What keeping found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// The turn that what was not pinned before is kept as.
    pub(super) new: Option<TurnId>,
    /// What could not be captured, so that it lies in the worktree alone.
    pub(super) lost: Option<String>,
    /// What git ignores in the worktree, folders once and ending in `/`.
    pub(super) ignored: Vec<RepoPath>,
}

impl Keeper<'_> {
    /// Captures the worktree as it lies there. What differs from the newest snapshot becomes a turn of its own, with this
    /// label, that was cut short.
    pub(super) async fn keep(&self, label: &str) -> Result<Kept, Error> {
        let fork = tokio::task::block_in_place(|| self.snapshot(&self.workspace.fork))?;
        let last = self.known.last_turn_in(self.workspace.place.worktree());
        // A snapshot that somebody's cleaning up has taken from the repository pins nothing: then all is new.
        let held = last.filter(|(_, turn)| {
            tokio::task::block_in_place(|| self.capturer.repository.load_commit(&turn.snapshot)).is_ok()
        });
        let latest = held.map_or_else(
            || fork.clone(),
            |(_, turn)| Snapshot { commit: turn.snapshot.clone(), tree: turn.tree.clone() },
        );
        let run = self.recorder.run().id();
        let branch = RefName::agent_branch(run, &self.task.name);
        let (turn, at) = tokio::task::block_in_place(|| {
            let turn = self.next_turn(last.map(|(turn, _)| *turn))?;
            Ok::<_, Error>((turn, self.capturer.repository.load_ref(&branch)?.map(CommitId::from)))
        })?;
        // The branch goes along only if this is the worktree that has it.
        let pins = match &at {
            Some(at) if *at == latest.commit => Pins::of_turn(run, &self.task.name, turn, at),
            Some(_) | None => Pins { keep: RefName::snapshot(run, &self.task.name, turn), branch: None },
        };
        let found = self.capture(&latest, &format!("{label}\n")).await?;
        let is_new = found.snapshot != latest;
        if is_new {
            tokio::task::block_in_place(|| {
                self.capturer.pin(&pins, &found.snapshot.commit)?;
                self.bundle(turn, label, &fork, &latest, &found)
            })?;
        }
        Ok(Kept { new: is_new.then_some(turn), lost: found.kept_nowhere(), ignored: found.ignored })
    }

    /// The worktree's state; its files alone where the agent's own commits are not fit for the repository.
    async fn capture(&self, latest: &Snapshot, message: &str) -> Result<Captured, change::Error> {
        match self.capturer.capture(self.workspace, latest, message, None).await {
            Err(change::Error::Refused { reason, .. }) => {
                let (mut found, _) = self.capturer.capture_files(self.workspace, latest, message, None).await?;
                found.refused.push(format!("the agent's own commits are not kept: {reason}"));
                Ok(found)
            }
            other => other,
        }
    }

    fn snapshot(&self, commit: &CommitId) -> Result<Snapshot, Error> {
        let tree = self.capturer.repository.load_commit(commit)?.tree;
        Ok(Snapshot { commit: commit.clone(), tree })
    }

    /// The turn after the newest told one, in the newest attempt in this worktree, that no snapshot is pinned as yet, be it
    /// by a coordinator that died before it told of it.
    fn next_turn(&self, told: Option<TurnId>) -> Result<TurnId, Error> {
        let worktree = self.workspace.place.worktree();
        let begun = self.known.attempts.iter().filter(|attempt| attempt.has_begun_in(worktree));
        let attempt = begun.map(|attempt| attempt.number).chain(told.map(|turn| turn.attempt)).max().unwrap_or(1);
        let told = told.filter(|turn| turn.attempt == attempt).map_or(0, |turn| turn.turn);
        let pinned = load_pinned_turns(self.site, self.recorder.run(), &self.task.name)?;
        let pinned = pinned.iter().filter(|turn| turn.attempt == attempt).map(|turn| turn.turn).max();
        Ok(TurnId::new(attempt, pinned.unwrap_or(0).max(told).saturating_add(1)))
    }

    fn bundle(
        &self,
        turn: TurnId,
        label: &str,
        fork: &Snapshot,
        latest: &Snapshot,
        found: &Captured,
    ) -> Result<(), Error> {
        let compiled = CompiledContract::new(&self.task.contract)?;
        let ledger = Ledger {
            repository: &self.capturer.repository,
            run: self.recorder.run(),
            agent: &self.task.name,
            adapter: crate::agent::attempt::ADAPTER,
            fork,
            contract: &self.task.contract,
            compiled: &compiled,
        };
        let begun = self.known.attempts.iter().find(|attempt| attempt.number == turn.attempt);
        let base = begun.and_then(|attempt| attempt.started.as_ref()).map_or(&latest.commit, |begun| &begun.base_ref);
        let record = bundle::write(
            &ledger,
            &bundle::Turn {
                id: turn,
                label,
                // Whose doing it is cannot be told: the agent's, or the user's.
                actor: Actor::Runtime,
                tool: None,
                base,
                previous: &latest.tree,
                captured: found,
                ignored_before: &HashSet::new(),
                end: None,
                interrupted: true,
                live: false,
            },
        )?;
        let ended = TurnEnd { label: label.to_owned(), interrupted: true, ..TurnEnd::default() };
        for kind in events(&ended, &record) {
            self.recorder.record(Subject::turn(&self.task.name, turn), kind)?;
        }
        Ok(())
    }
}

//! The end of a turn: captured, written as a bundle, and told.

use std::collections::HashSet;

use super::error::Error;
use crate::change::bundle::{self, Ledger};
use crate::change::{self, Captured, Capturer, Pins, Snapshot};
use crate::model::change::{Actor, TurnRecord};
use crate::model::event::{EventKind, ScopeWarning, Subject, TurnFinished};
use crate::model::{CommitId, ProcessEnd, RepoPath, TurnId};
use crate::store::Record;
use crate::workspace::Workspace;

/// Where an attempt stands between two captures.
#[derive(Debug)]
pub(super) struct Progress {
    /// The newest snapshot.
    pub(super) latest: Snapshot,
    /// Where the agent's branch stands.
    pub(super) branch_at: CommitId,
    /// The snapshot the attempt began with.
    pub(super) base: CommitId,
    /// Ignored paths that were there when the attempt began.
    pub(super) ignored_before: HashSet<RepoPath>,
    /// The newest record, once there is one.
    pub(super) record: Option<TurnRecord>,
    /// Ids in the agent's refs that were refused before this attempt began, and are not asked for again.
    pub(super) disowned: Vec<CommitId>,
}

/// How a turn came to its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnEnd {
    pub(crate) label: String,
    pub(crate) tool: Option<String>,
    pub(crate) end: Option<ProcessEnd>,
    pub(crate) leftovers: u32,
    pub(crate) interrupted: bool,
    pub(crate) live: bool,
}

/// What is needed to record a turn.
#[derive(Debug)]
pub(super) struct Scribe<'a> {
    pub(super) capturer: &'a Capturer,
    pub(super) workspace: &'a Workspace,
    pub(super) ledger: Ledger<'a>,
    pub(super) journal: &'a dyn Record,
}

impl Scribe<'_> {
    /// Captures the worktree and pins it as `turn`, without writing it down yet. Nothing of the agent may run.
    pub(super) async fn capture(
        &self,
        turn: TurnId,
        label: &str,
        progress: &mut Progress,
    ) -> Result<Captured, change::Error> {
        let (message, pins) = self.words(turn, label, progress);
        let capture =
            self.capturer.capture_but(self.workspace, &progress.latest, &message, Some(&pins), &progress.disowned);
        let captured = capture.await?;
        progress.branch_at = captured.snapshot.commit.clone();
        Ok(captured)
    }

    /// Captures the files alone, after the agent's commits were refused for `reason`, so that its work is kept all the
    /// same. Gives also the ids that are left out.
    pub(super) async fn capture_files(
        &self,
        turn: TurnId,
        label: &str,
        reason: &str,
        progress: &mut Progress,
    ) -> Result<(Captured, Vec<CommitId>), change::Error> {
        let (message, pins) = self.words(turn, label, progress);
        let capture = self.capturer.capture_files(self.workspace, &progress.latest, &message, Some(&pins));
        let (mut captured, left_out) = capture.await?;
        captured.refused.push(format!("the agent's own commits are not kept: {reason}"));
        progress.branch_at = captured.snapshot.commit.clone();
        Ok((captured, left_out))
    }

    fn words(&self, turn: TurnId, label: &str, progress: &Progress) -> (String, Pins) {
        let message = format!("{} {} {turn}: {label}\n", self.ledger.run.id(), self.ledger.agent);
        (message, Pins::of_turn(self.ledger.run.id(), self.ledger.agent, turn, &progress.branch_at))
    }

    /// Writes a captured turn down and tells of it.
    pub(super) fn write(
        &self,
        turn: TurnId,
        actor: Actor,
        ended: &TurnEnd,
        captured: &Captured,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let record = tokio::task::block_in_place(|| {
            let facts = bundle::Turn {
                id: turn,
                label: &ended.label,
                actor,
                tool: ended.tool.clone(),
                base: &progress.base,
                previous: &progress.latest.tree,
                captured,
                ignored_before: &progress.ignored_before,
                end: ended.end,
                interrupted: ended.interrupted,
                live: ended.live,
            };
            bundle::write(&self.ledger, &facts)
        })?;
        progress.latest = captured.snapshot.clone();
        self.tell(turn, ended, &record)?;
        progress.record = Some(record);
        Ok(())
    }

    fn tell(&self, turn: TurnId, ended: &TurnEnd, record: &TurnRecord) -> Result<(), Error> {
        events(ended, record).into_iter().try_for_each(|kind| self.record(Subject::turn(self.ledger.agent, turn), kind))
    }

    pub(super) fn record(&self, subject: Subject, kind: EventKind) -> Result<(), Error> {
        tokio::task::block_in_place(|| self.journal.record(subject, kind))?;
        Ok(())
    }
}

/// What a turn that has been written down is told as, in order.
pub(crate) fn events(ended: &TurnEnd, record: &TurnRecord) -> Vec<EventKind> {
    let mut events = Vec::new();
    if !record.empty {
        events.push(EventKind::ChangeDetected(Box::new(record.change_set.clone())));
    }
    if !record.outside_since_fork.is_empty() {
        let outside_owned_scope = record.outside_since_fork.clone();
        events.push(EventKind::ScopeWarning(ScopeWarning { outside_owned_scope }));
    }
    events.push(EventKind::CheckpointCreated(Box::new(record.checkpoint.clone())));
    events.push(EventKind::TurnFinished(TurnFinished {
        label: ended.label.clone(),
        snapshot: record.snapshot.clone(),
        tree: record.tree.clone(),
        patch: record.checkpoint.patch_path.clone(),
        changed: record.change_set.changed_paths.len() as u64,
        end: ended.end,
        leftover_processes: ended.leftovers,
        interrupted: ended.interrupted,
        live: ended.live,
        empty: record.empty,
    }));
    events
}

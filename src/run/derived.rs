//! What is derived from a journal as it grows: `status.json`, `git-progress/latest.json` and the card files.
//!
//! Each is written whole. So the first two are not written at each event, which would take time that grows with the square
//! of a run's length: they are owed, and what is owed is written at the run's first event, at its end, and else a moment
//! later with all that has come meanwhile. A card is written when it is opened and when it is closed.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use crate::model::RunId;
use crate::model::card::Card;
use crate::model::change::{GitChangeSet, GitProgressState};
use crate::model::event::{Event, EventKind};
use crate::model::run::RunState;
use crate::store::{Error, RunDir, cards, status};

/// What `status.json` holds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusFile<'a> {
    v: u32,
    run_id: &'a RunId,
    counts: std::collections::BTreeMap<&'static str, usize>,
    state: &'a RunState,
}

/// One of the derived files.
#[derive(Debug, Clone, Copy)]
pub(super) enum DerivedFile<'s> {
    Status,
    Progress,
    Card(&'s Card),
}

/// The derived files of a run, and which of them lag behind the journal.
#[derive(Debug)]
pub(super) struct Derived {
    run: RunDir,
    progress: Option<GitProgressState>,
    status_is_owed: bool,
    progress_is_owed: bool,
}

impl Derived {
    /// The files as they should be after these events, all of them owed: who wrote them may have died before the last.
    pub(super) fn new(run: &RunDir, state: &RunState, events: &[Event]) -> Self {
        let mut progress = state.started.as_ref().map(|started| started.baseline.clone());
        for event in events {
            follow(&mut progress, &event.kind);
        }
        let owed = !events.is_empty();
        Self { run: run.clone(), status_is_owed: owed, progress_is_owed: progress.is_some(), progress }
    }

    /// Takes an event in. `state` is the run's state after it.
    pub(super) fn take_in(&mut self, event: &Event, state: &RunState) {
        self.status_is_owed = true;
        if let EventKind::RunStarted(started) = &event.kind {
            self.progress = Some(started.baseline.clone());
            self.progress_is_owed = true;
        }
        self.progress_is_owed |= follow(&mut self.progress, &event.kind);
        let card = match &event.kind {
            EventKind::CardOpened(card) => Some(&card.id),
            EventKind::CardProposed(proposed) => Some(&proposed.card),
            EventKind::ProposalDiscarded(discarded) => Some(&discarded.card),
            EventKind::CardClosed(closed) => Some(&closed.card),
            _ => None,
        };
        if let Some(card) = card.and_then(|id| state.cards.iter().find(|card| card.id == *id)) {
            told(self.write(DerivedFile::Card(card), state));
        }
    }

    /// Whether anything lags behind the journal.
    pub(super) fn is_owed(&self) -> bool {
        self.status_is_owed || self.progress_is_owed
    }

    /// Writes what lags behind.
    pub(super) fn write_owed(&mut self, state: &RunState) {
        if std::mem::take(&mut self.status_is_owed) {
            told(self.write(DerivedFile::Status, state));
        }
        if std::mem::take(&mut self.progress_is_owed) {
            told(self.write(DerivedFile::Progress, state));
        }
    }

    /// Every derived file.
    pub(super) fn files<'s>(&self, state: &'s RunState) -> Vec<DerivedFile<'s>> {
        let progress = self.progress.is_some().then_some(DerivedFile::Progress);
        let cards = state.cards.iter().map(DerivedFile::Card);
        std::iter::once(DerivedFile::Status).chain(progress).chain(cards).collect()
    }

    /// Where a file lies, and what belongs in it.
    pub(super) fn expected(&self, file: DerivedFile<'_>, state: &RunState) -> Result<(PathBuf, Value), Error> {
        let (path, value) = match file {
            DerivedFile::Status => (self.run.status(), serde_json::to_value(self.status_file(state))),
            DerivedFile::Progress => (self.run.git_progress(), serde_json::to_value(&self.progress)),
            DerivedFile::Card(card) => (self.run.card(&card.id), serde_json::to_value(card)),
        };
        let value = value.map_err(|source| Error::Encode { path: path.clone(), source })?;
        Ok((path, value))
    }

    /// Writes a file anew.
    pub(super) fn write(&self, file: DerivedFile<'_>, state: &RunState) -> Result<(), Error> {
        match file {
            DerivedFile::Status => status::write(&self.run, &self.status_file(state)),
            DerivedFile::Progress => {
                self.progress.as_ref().map_or(Ok(()), |progress| status::write_git_progress(&self.run, progress))
            }
            DerivedFile::Card(card) => cards::write(&self.run, card),
        }
    }

    fn status_file<'a>(&'a self, state: &'a RunState) -> StatusFile<'a> {
        StatusFile { v: 1, run_id: self.run.id(), counts: state.counts(), state }
    }
}

/// Derived files can be made anew from the journal at any time: failing to write one stops nothing.
fn told(written: Result<(), Error>) {
    if let Err(error) = written {
        tracing::warn!(%error, "a derived file was not written");
    }
}

/// Takes an event into the progress. True: it says something new.
fn follow(progress: &mut Option<GitProgressState>, kind: &EventKind) -> bool {
    let Some(progress) = progress else { return false };
    match kind {
        EventKind::CheckpointCreated(checkpoint) => {
            progress.checkpoints.push((**checkpoint).clone());
            true
        }
        EventKind::ChangeDetected(set) => {
            progress.last_change_set = Some(GitChangeSet::clone(set));
            true
        }
        EventKind::VerifyFinished(finished) => {
            if let Some(set) = &mut progress.last_change_set {
                set.verifier_command = Some(finished.command.clone());
                set.verifier_fresh_after_change = finished.verdict.is_pass();
            }
            if let Some(checkpoint) = progress.checkpoints.last_mut() {
                checkpoint.verifier_command = Some(finished.command.clone());
                checkpoint.verifier_passed = Some(finished.verdict.is_pass());
            }
            true
        }
        EventKind::RunStarted(_)
        | EventKind::RunFinished(_)
        | EventKind::RunPaused(_)
        | EventKind::RunContinued(_)
        | EventKind::RetryRequested(_)
        | EventKind::StageEnter(_)
        | EventKind::StageExit(_)
        | EventKind::AttemptStarted(_)
        | EventKind::AttemptFinished(_)
        | EventKind::TurnStarted(_)
        | EventKind::TurnFinished(_)
        | EventKind::EffectClaimed(_)
        | EventKind::EffectConfirmed(_)
        | EventKind::EffectReleased(_)
        | EventKind::CardOpened(_)
        | EventKind::CardProposed(_)
        | EventKind::ProposalDiscarded(_)
        | EventKind::CardClosed(_)
        | EventKind::OverlapPredicted(_)
        | EventKind::TargetMoved(_)
        | EventKind::MergePreviewed(_)
        | EventKind::CandidateAdvanced(_)
        | EventKind::GateDecided(_)
        | EventKind::HookFinished(_)
        | EventKind::ScopeWarning(_)
        | EventKind::VerifierFresh(_)
        | EventKind::CompletionBlocked(_)
        | EventKind::Unknown { .. } => false,
    }
}

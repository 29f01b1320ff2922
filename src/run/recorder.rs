//! The one writer of a run's journal, and what is derived from it as it grows.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::model::change::{GitChangeSet, GitProgressState};
use crate::model::event::{Event, EventKind, Subject};
use crate::model::run::RunState;
use crate::model::{AgentName, RunId};
use crate::store::{Error, JournalWriter, Record, RunDir, cards, status};

/// Watches a run as it goes. Called in the order of the journal, after the event is in it.
pub trait Observer: Send {
    /// Something happened. `state` is the run's state after it.
    fn event(&mut self, event: &Event, state: &RunState);

    /// Something must not be missed that is no event.
    fn warning(&mut self, _text: &str) {}

    /// An agent printed something.
    fn output(&mut self, _agent: &AgentName, _chunk: &[u8]) {}
}

/// Watches nothing.
pub(super) struct Quiet;

impl Observer for Quiet {
    fn event(&mut self, _event: &Event, _state: &RunState) {}
}

/// Writes the journal, and keeps the run's state, `status.json`, `git-progress/latest.json` and the card files in step.
#[derive(Clone)]
pub struct Recorder {
    run: RunDir,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    writer: JournalWriter,
    state: RunState,
    progress: Option<GitProgressState>,
    observer: Box<dyn Observer>,
}

/// What `status.json` holds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusFile<'a> {
    v: u32,
    run_id: &'a RunId,
    counts: std::collections::BTreeMap<&'static str, usize>,
    state: &'a RunState,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Goes on with a journal in which `events` are already.
    pub fn new(writer: JournalWriter, events: &[Event], observer: Box<dyn Observer>) -> Self {
        let run = writer.run().clone();
        let state = RunState::fold(run.id().clone(), events);
        let mut progress = state.started.as_ref().map(|started| started.baseline.clone());
        for event in events {
            follow(&mut progress, &event.kind);
        }
        let inner = Inner { writer, state, progress, observer };
        Self { run, inner: Arc::new(Mutex::new(inner)) }
    }

    /// The run's folder.
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// Has something said that is no event.
    pub fn warn(&self, text: &str) {
        self.lock().observer.warning(text);
    }

    /// The run's state as it is now.
    pub fn state(&self) -> RunState {
        self.lock().state.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // An observer that panicked has broken nothing of ours: the journal is written before it is called.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record for Recorder {
    fn record(&self, subject: Subject, kind: EventKind) -> Result<Event, Error> {
        let mut inner = self.lock();
        let event = inner.writer.append(subject, kind)?;
        inner.state.apply(&event);
        let before = inner.progress.is_some();
        if let EventKind::RunStarted(started) = &event.kind {
            inner.progress = Some(started.baseline.clone());
        }
        let changed = follow(&mut inner.progress, &event.kind) || !before;
        // Derived files can be made anew from the journal at any time: failing to write one stops nothing.
        let derived = derive(&self.run, &inner, &event, changed);
        if let Err(error) = derived {
            tracing::warn!(%error, "a derived file was not written");
        }
        let Inner { observer, state, .. } = &mut *inner;
        observer.event(&event, state);
        Ok(event)
    }

    fn output(&self, agent: &AgentName, chunk: &[u8]) {
        self.lock().observer.output(agent, chunk);
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
        | EventKind::MergePreviewed(_)
        | EventKind::CandidateAdvanced(_)
        | EventKind::GateDecided(_)
        | EventKind::ScopeWarning(_)
        | EventKind::VerifierFresh(_)
        | EventKind::CompletionBlocked(_)
        | EventKind::Unknown { .. } => false,
    }
}

fn derive(run: &RunDir, inner: &Inner, event: &Event, progress_changed: bool) -> Result<(), Error> {
    let file = StatusFile { v: 1, run_id: run.id(), counts: inner.state.counts(), state: &inner.state };
    status::write(run, &file)?;
    if progress_changed && let Some(progress) = &inner.progress {
        status::write_git_progress(run, progress)?;
    }
    let card = match &event.kind {
        EventKind::CardOpened(card) => Some(&card.id),
        EventKind::CardProposed(proposed) => Some(&proposed.card),
        EventKind::ProposalDiscarded(discarded) => Some(&discarded.card),
        EventKind::CardClosed(closed) => Some(&closed.card),
        _ => None,
    };
    if let Some(card) = card.and_then(|id| inner.state.cards.iter().find(|card| card.id == *id)) {
        cards::write(run, card)?;
    }
    Ok(())
}

//! A journal whose state is followed: what is decided next is decided on what was written last.

use std::sync::{Mutex, PoisonError};

use crate::model::event::{Event, EventKind, Subject};
use crate::model::run::RunState;
use crate::store::{Error, Record};

/// Writes into a journal, and knows what it says then.
#[derive(Debug)]
pub(super) struct Following<'a> {
    journal: &'a dyn Record,
    state: Mutex<RunState>,
}

impl<'a> Following<'a> {
    /// Goes on from `state`.
    pub(super) fn new(journal: &'a dyn Record, state: &RunState) -> Self {
        Self { journal, state: Mutex::new(state.clone()) }
    }

    /// What this part of the state is now.
    pub(super) fn read<T>(&self, part: impl FnOnce(&RunState) -> T) -> T {
        part(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Record for Following<'_> {
    fn record(&self, subject: Subject, kind: EventKind) -> Result<Event, Error> {
        let event = self.journal.record(subject, kind)?;
        self.state.lock().unwrap_or_else(PoisonError::into_inner).apply(&event);
        Ok(event)
    }
}

//! Telling what happens: the rooms that do the work tell, and one writer puts it into the journal.

use super::Error;
use crate::model::AgentName;
use crate::model::event::{Event, EventKind, Subject};

/// Takes in what happens. When `record` returns, the event is in the journal, and on disk if it is one that is acted on.
pub trait Record: std::fmt::Debug + Send + Sync {
    /// Appends an event.
    fn record(&self, subject: Subject, kind: EventKind) -> Result<Event, Error>;

    /// Passes on what an agent printed, for whoever watches. Kept elsewhere; nothing depends on it.
    fn output(&self, _agent: &AgentName, _chunk: &[u8]) {}
}

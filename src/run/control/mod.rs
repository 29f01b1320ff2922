//! Asking a coordinator for something while it works, from another terminal.
//!
//! - [`protocol`] is what goes over the socket: one request a line, one answer a line, both JSON, both versioned.
//! - [`socket`] is where it lies, and what is there when its coordinator has died.
//! - [`server`] is the coordinator's end, [`client`] that of whoever asks.
//! - [`dispatcher`] takes requests to whoever can carry them out, for as long as somebody can.
//!
//! Promises: only the same user, or root, is listened to, and only who can read the run's folder, which no agent can. What is
//! answered with success is in the journal or has happened. A client that says nothing, says too much or does not listen
//! costs one of a few places for a few seconds, and delays nobody who works.

use dispatcher::Dispatcher;
use server::Server;

use super::recorder::Recorder;

pub mod client;
pub(super) mod dispatcher;
pub mod protocol;
pub(super) mod server;
mod socket;

/// Listens for who wants something of this coordinator, which has the run's lock. `None`, with a warning: this file system
/// has no sockets, say; the run goes on without.
pub(super) fn listen(recorder: &Recorder, dispatcher: &Dispatcher) -> Option<Server> {
    let listening = tokio::task::block_in_place(|| Server::listen(recorder.run(), dispatcher));
    let failed = |error| recorder.warn(&format!("this run cannot be paused or steered from another terminal: {error}"));
    listening.map_err(failed).ok()
}

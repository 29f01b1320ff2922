//! One attempt of one agent: its box, its turns, its end.
//!
//! [`attempt::run`] is the whole of it. Around it stand the pieces it is made of: [`supervise`] watches a command,
//! [`output`] keeps what it prints, [`denials`] reads in it what the agent was kept from, [`network`] is what it reaches others
//! by, [`socket`] is how an agent speaks to the program: to end a turn itself, or to [`ask`] for more paths. [`errand`] is one
//! command that is no agent's.
//!
//! Promises: the attempt, its fork point and its base are in the journal before anything of the agent runs. Every turn
//! that began ends with a capture, however it ended, so that no work is lost. When [`attempt::run`] returns, no process
//! of the agent is left. What the agent does wrong is an outcome; `Err` means that we could not do our work.

pub mod ask;
pub mod attempt;
pub mod clock;
pub mod denials;
pub mod errand;
mod error;
pub mod network;
pub mod output;
pub mod socket;
pub mod supervise;
pub(crate) mod turn;

pub use attempt::{Assignment, AttemptEnd};
pub use error::Error;

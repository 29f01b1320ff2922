//! A run, from an accepted plan to the gate and, where asked, to the target.
//!
//! - [`Site`] is where runs happen: one repository and what is around it.
//! - [`start`] makes the run's folder, pins the base and writes the first event.
//! - [`scheduler`] carries the agents to their ends, as many at once as the plan says ([`readiness`] decides), and [`agents`]
//!   each of them through its attempts.
//! - [`asks`] decides what agents ask for while they work.
//! - [`control`] is how another terminal asks for something meanwhile.
//! - [`finish`] integrates, verifies, asks the gate ([`gate`] decides) and lands.
//! - [`Recorder`] is the only writer of the journal.
//!
//! Promises: the journal knows of everything before it is acted on. Each agent is carried to an end of its own, and one
//! that fails takes down only those that build on it. Nothing moves the target but landing, and landing needs an open gate.

mod agents;
mod asks;
mod by_hand;
pub mod clean;
pub mod control;
pub mod coordinator;
pub mod decide;
mod derived;
mod error;
pub mod examine;
mod finish;
mod forecaster;
mod forget;
pub mod gate;
mod hooks;
pub mod insight;
mod inventory;
mod isolation;
mod keep;
mod leftovers;
mod mend_pins;
mod pins;
mod places;
mod premerge;
pub mod propose;
pub mod readiness;
mod recorder;
mod remarks;
pub mod reopen;
pub mod resume;
pub mod retention;
mod scheduler;
mod seat;
mod signals;
mod site;
mod stage;
mod start;
pub mod steer;
pub mod stop;
mod survey;

pub use coordinator::{Options, Report, allow_degraded, execute, open_networks};
pub use error::Error;
pub use hooks::commands_outside;
pub use recorder::{Observer, Recorder, unwatched};
pub use remarks::remarks;
pub use signals::{Ending, Signals};
pub use site::{Site, root_for};

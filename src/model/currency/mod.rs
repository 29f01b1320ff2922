//! What may be done to a branch, and what must not be done twice: the states of a mutation, from the first look at what is
//! to be merged until the branch was seen to hold it.
//!
//! An [`Item`] is one thing that waits to be put on one branch: an agent's work on the candidate, or the candidate on the
//! target. It is a fold of the journal, like everything of a run, so a coordinator that takes over knows what was begun
//! before it came. [`step()`] alone decides what may follow on what. The one who writes the journal asks it first, so that
//! nothing gets in there that it refuses.
//!
//! What it keeps:
//! - **One mutation for each observation.** What was begun once is not begun again by itself, be it by another process. A
//!   person may ask for it again.
//! - **Claim, act, confirm.** Only what was looked at can be claimed, only what was claimed can be confirmed, and only by
//!   the process that claimed it, or by the one that took the run over from it.
//! - **What has moved is looked at anew.** A look changes nothing.
//! - **What waits for a person waits.** That the target moves elsewhere does not wake it.

mod item;
mod permit;
mod refusal;
mod step;
mod table;

#[cfg(test)]
mod tests;

pub use item::{Item, Mutation, Sight, State};
pub use permit::{Authority, Begin, may_begin, permit};
pub use refusal::Refusal;
pub use step::{Asker, Claim, Input, Release, step};
pub use table::table;

/// How often a mutation that was proven to have had no effect is begun by itself: once, and once more.
pub const TRIES: u32 = 2;

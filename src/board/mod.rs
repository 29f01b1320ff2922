//! The board: what waits for a person, and where every agent stands.
//!
//! Cards are made here as pure functions of what was found out elsewhere, and lanes are a fold of a run's state. Nothing
//! here reads a repository, a disk or a clock, and nothing decides what is merged.
//!
//! Promises:
//! - A card says everything a decision needs: who, which paths, both sides, what git said, and commands that exist.
//! - A card's id is made of what it is about. The same matter found twice is the same card, whatever commits it was found
//!   with; another matter is another card.
//! - Every agent stands in exactly one lane.
//!
//! Why not number cards: a number changes with the order of finding, and a decision would then be about something else.

mod conflict;
mod held;
mod identity;
mod landing;
mod lanes;
mod lean;
mod merge_error;
mod request;
mod scope;
mod wording;

#[cfg(test)]
mod tests;

pub use conflict::conflict;
pub use held::{HeldPath, held};
pub use identity::card_id;
pub use landing::landing;
pub use lanes::{Lane, Lanes, Standing, lanes};
pub use lean::{PathFacts, Place, Text, lean};
pub use merge_error::{MergeFault, merge_error};
pub use request::{request_id, scope_request};
pub use scope::scope;
pub use wording::in_run;

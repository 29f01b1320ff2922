//! What people and programs are shown of a run: pure functions from the data of [`model`](crate::model) to text and to
//! stable JSON shapes.
//!
//! Promises:
//! - Nothing here reads a disk, a clock or a terminal, and nothing prints: what cannot be read off a run's state comes in as
//!   [`facts::Facts`], and the text goes out to the caller.
//! - Text and JSON of one thing come from one value (`StatusData` is what `status` shows and what `status --json` prints), so
//!   they cannot tell different stories.
//! - Nothing is invented: what was not measured is `null` in JSON and `-` in text, never a zero.
//! - What an agent wrote (paths, titles, reasons, labels) is escaped by [`text::clean`] before a person sees it: it can
//!   neither move the cursor nor reorder the line nor fake one of ours.
//! - Views are bounded: lists are cut with a count of what was left out, and no view but a patch or a card asked for by
//!   name shows file contents.
//! - Colour adds nothing that a word does not say already.
//!
//! Why not let each verb format for itself: the same run is shown by `run`, `status`, `merge`, `verify`, `land` and `runs`,
//! and must look and be named the same in all of them.

pub mod board;
pub mod card;
pub mod changes;
pub mod damage;
pub mod doctor;
mod excerpt;
pub mod facts;
pub mod gate;
pub mod human;
pub mod inspect;
pub mod json;
pub mod live;
pub mod logs;
pub mod look;
mod moves;
pub mod network;
pub mod preview;
pub mod runs;
pub mod status;
pub mod summary;
pub mod table;
pub mod text;

#[cfg(test)]
pub(crate) mod samples;

pub use facts::{AgentFacts, CheckoutFacts, Facts};
pub use json::{Envelope, Failure};
pub use look::{Look, Tone};

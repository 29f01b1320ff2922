//! The parent verifier: the one who says whether a combined tree is good.
//!
//! [`judge()`] takes a candidate and gives a [`Receipt`](crate::model::receipt::Receipt): by running the plan's command in a
//! box of its own on a fresh worktree of exactly that candidate, or by finding the receipt of an earlier run that judged
//! exactly the same.
//!
//! Promises:
//! - **Only one thing is a pass**: the command ended by itself with 0, and every tracked path is what it was, seen after
//!   nothing of the command lives any more. Whatever else happened is no pass, and what gives no verdict is never a pass.
//! - **A receipt is for one tree, one command and one environment**, and is used again only where all three are equal.
//!   A part of the environment that differs is named, never its value.
//! - **The receipt is on disk before anybody is told** that there is a verdict.
//! - What the verifier writes stays in its box and its worktree, and goes with them.
//!
//! *Why a worktree for each verification, and not one that is reset?* What an earlier command left in it (a build folder, a
//! compiled module whose source is gone) can decide a later verdict.

mod decision;
mod environment;
mod error;
mod judge;
mod parser;
mod scan;
mod transcript;

pub use error::Error;
pub use judge::{Judged, Verification, judge};
pub use parser::{Parsed, Parser, no_parser};

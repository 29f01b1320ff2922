//! The one place that speaks git.
//!
//! Everything that writes, scans or merges is done by the `git` program, through one builder ([`Command`]) that makes it
//! behave the same whatever the user's environment and settings are. Reading objects may go through libgit2 instead, which
//! costs no process; both engines give the same answers, and [`Repository::engine`] says which one is in use.
//!
//! Promises:
//! - Calls are synchronous and bounded in time. A time-out is an error, never an answer.
//! - A repository's own content, a user's settings and the inherited environment change no verdict.
//! - What people, agents or other processes cause is data: [`Preview::Conflict`], [`Swap::Lost`], [`Received::Refused`],
//!   [`FastForward::Refused`]. `Err` means that we could not do our work.
//! - No stash, reset, clean, rebase or force in the user's checkout. [`Checkout::fast_forward`] is the one call that
//!   changes it.
//! - Paths are bytes, and are only ever read from NUL-separated output.
//!
//! Needed from callers: the repository's lock, where a call says so.
//!
//! Why not libgit2 for all of it: its merge gives other verdicts than git's in several kinds of conflict, and its scan of a
//! work tree knows neither sparse checkouts nor filters. Why not a long-lived `git` process: one process costs a few
//! milliseconds, and a wedged one would hold up everything after it.

pub mod checkout;
pub mod command;
pub mod conflict;
pub mod diff;
pub mod error;
mod half;
pub mod history;
pub mod hooks;
mod index_file;
pub mod merge;
pub mod objects;
pub mod obstacles;
pub mod operations;
pub mod pack;
mod patch;
pub mod program;
mod quarantine;
mod reader;
pub mod refs;
pub mod regions;
pub mod repository;
pub mod rescue;
pub mod resolve;
mod scene;
pub mod status;
mod submodules;
pub mod worktrees;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;

pub use checkout::{Before, Checkout, FastForward, Forward, ReadBack, Standing};
pub use command::{Access, Command, Input, Output};
pub use conflict::{Conflict, Message, Side, Stage};
pub use diff::{ChangeKind, LineCount, Renames, TreeChange};
pub use error::Error;
pub use history::Kin;
pub use hooks::Hook;
pub use index_file::{CachedEntry, copy_index, parse_index, with_owner};
pub use merge::{AttributeSource, Merger, Preview, load_user_attributes};
pub use objects::{Blob, Commit, Entry, Mode, ModeKind, NewCommit, Signature};
pub use obstacles::{Found, IndexEntry, Obstacle, ObstacleKind, Scene};
pub use operations::{Operation, OperationKind, load_operations};
pub use pack::{PackLimits, PackRefusal, Received};
pub use program::{Git, PROGRAM_VARIABLE, Version};
pub use reader::Engine;
pub use refs::{Ref, RefEdit, Swap};
pub use regions::{Region, is_text, regions, split_lines};
pub use repository::{Config, Head, Identity, RefStorage, Repository};
pub use rescue::Rescue;
pub use resolve::{Chosen, InFolder, find_in_folder};
pub use status::{Status, StatusEntry, Upstream};
pub use submodules::named_submodules;
pub use worktrees::{Added, Addition, Fill, Place, Removal, Worktree};

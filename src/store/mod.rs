//! Everything the program keeps on disk: where it lies, how it is written so that a crash leaves the old or the new and
//! never a half, who may write it, and how it is removed.
//!
//! Promises:
//! - **One truth per run**: `journal.jsonl`. All else in a run's folder but the frozen plan and the bundles is derived from
//!   it and may be thrown away.
//! - **An effect is on disk before it is acted on.** [`journal::durability`] says for every event whether appending waits
//!   for the disk.
//! - **Damage is never repaired by guessing.** A last line that a crash cut short is moved aside and reported; damage
//!   anywhere else is refused, naming line and byte.
//! - **Locks die with their holder**: the kernel frees them, nobody breaks them, and no pid file is believed.
//! - **Readers write nothing**, create nothing, and wait for nobody.
//! - **Removal follows no link** and leaves the file system and the folder it was given never.
//!
//! Why not a database: a run must stay readable when another's data is damaged, with `less`, and by the next version.
//! Why not a lock file that exists or not: it outlives its holder, and then somebody has to decide by pid.
//!
//! [`layout`] is the only file that knows a path, [`mod@env`] the only one that knows a variable, [`atomic`] the only one that
//! writes a whole file.

pub mod atomic;
pub mod cards;
pub mod child;
pub mod env;
mod error;
pub mod failpoint;
pub mod format;
pub mod journal;
pub mod json;
pub mod layout;
pub mod listing;
pub mod lock;
pub mod outside;
pub mod process;
pub mod receipts;
mod record;
pub mod runs;
pub mod scratch;
pub mod space;
pub mod status;
#[cfg(test)]
mod tests;
pub mod trash;
pub mod watch;

pub use error::{Error, Place, Warning};
pub use format::Format;
pub use journal::{Clock, Durability, JournalTail, JournalWatch, JournalWriter, Position, Reading, Repair};
pub use layout::{Occupant, RepoKey, RunDir, StateDir, Workplace, Workplaces};
pub use lock::{Holder, LockState, RepositoryLock, RunLock};
pub use record::Record;
pub use scratch::Scratch;
pub use trash::Trash;
pub use watch::FolderWatch;

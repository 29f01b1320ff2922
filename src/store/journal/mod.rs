//! The journal of a run: its only truth, one event a line.
//!
//! Writing: one writer, proven by the run's lock, which it owns. A line is one `write`, and appending an effect waits for
//! the disk. After an error nothing more is appended.
//!
//! Reading: any number of readers, who take no lock. `seq` counts from 1 without a gap, so a missing line is noticed.
//!
//! Opening what a crash left:
//! - A last line without its end that *is* a whole event gets its end: it may have been acted on.
//! - Any other last line without its end, or one with NUL bytes (a file system's way to show what never reached the disk),
//!   is moved aside to `journal.torn-<n>`, and reported. It cannot have been acted on: effects are on disk before that.
//! - Anything else that is wrong is damage, and is refused with its line and byte.
//!
//! Limits: a line has no checksum, because it is the public event. A changed bit that leaves a line well-formed is not
//! noticed.

mod durability;
mod salvage;
mod scan;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

pub use durability::{Durability, durability};
pub use salvage::{Salvage, salvage};
pub use scan::{Position, Torn};
pub use tail::{JournalTail, JournalWatch, Reading, read};
pub use writer::{Clock, JournalWriter, Opened, Repair, system_clock};

//! What an agent changed: captured, brought into the repository, written down, and held against its contract.
//!
//! - [`Capturer`] makes a commit of a worktree's files and pins it ([`capture`] says how, and why that way).
//! - [`bundle`] writes a turn's patch and record.
//! - [`contract`] and [`tree_check`] judge, as pure functions of trees.
//!
//! Promise: what is recorded is what lay on the disk when nothing of the agent ran, whatever the agent did to its git
//! directory; and nothing of it reaches the repository but one checked pack and the refs that are ours.

pub mod bundle;
pub mod capture;
pub mod contract;
mod error;
pub mod inside;
mod summary;
pub mod tree_check;

pub use capture::{Captured, Capturer, Pins, Snapshot};
pub use error::Error;
pub use inside::IGNORED_MAX;

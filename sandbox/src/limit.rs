//! What a command was ended for, when it used more than its box may.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What there was too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limited {
    /// Memory of all processes together, in bytes.
    Memory,
    /// Processes and threads at once.
    Processes,
    /// Disk space of what the box can write, in bytes.
    Disk,
    /// The size of one file, in bytes.
    FileSize,
}

/// A limit that was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitHit {
    /// Of what.
    pub what: Limited,
    /// The limit, in the unit of `what`; where it is the machine's, what was left there.
    pub limit: u64,
    /// What the box used when it was last looked at, in the same unit.
    pub used: u64,
    /// Whether the machine itself ran out, rather than the box out of what its policy gives.
    pub of_machine: bool,
}

impl Limited {
    /// Its name, which stays the same from version to version.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Disk => "disk",
            Self::FileSize => "file_size",
        }
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

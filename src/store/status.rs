//! What a run shows to those who only look: `status.json` and `git-progress/latest.json`. Derived, replaced whole, and
//! never read to decide anything.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::layout::RunDir;
use super::{Error, Warning, atomic, json};

/// Replaces the status.
pub fn write<T: Serialize + ?Sized>(run: &RunDir, status: &T) -> Result<(), Error> {
    atomic::write_derived(&run.status(), status)
}

/// Reads the status. A damaged one is absent, with a warning.
pub fn load<T: DeserializeOwned>(run: &RunDir) -> Result<(Option<T>, Option<Warning>), Error> {
    json::load_derived(&run.status())
}

/// Replaces the newest progress.
pub fn write_git_progress<T: Serialize + ?Sized>(run: &RunDir, progress: &T) -> Result<(), Error> {
    atomic::write_derived(&run.git_progress(), progress)
}

/// Reads the newest progress. A damaged one is absent, with a warning.
pub fn load_git_progress<T: DeserializeOwned>(run: &RunDir) -> Result<(Option<T>, Option<Warning>), Error> {
    json::load_derived(&run.git_progress())
}

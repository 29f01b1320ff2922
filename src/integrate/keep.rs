//! Refs that keep from git's collection what a run needs.

use crate::model::{CommitId, RefName};

use super::error::Error;
use super::facts::Facts;

/// Sets a ref that only this run writes.
pub(super) fn set_ref(facts: &Facts<'_>, name: &RefName, commit: &CommitId, why: &str) -> Result<(), Error> {
    Ok(facts.repository.move_ref(name, commit, why)?.require()?)
}

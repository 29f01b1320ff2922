//! Refs that keep from git's collection what a run needs.

use crate::git::Swap;
use crate::model::{CommitId, RefName};

use super::error::Error;
use super::facts::Facts;

/// Sets a ref that only this run writes.
pub(super) fn set_ref(facts: &Facts<'_>, name: &RefName, commit: &CommitId, why: &str) -> Result<(), Error> {
    match facts.repository.move_ref(name, commit, why)? {
        Swap::Done => Ok(()),
        Swap::Lost { name, found, .. } => {
            let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
            Err(Error::CandidateMoved { reference: name, found })
        }
    }
}

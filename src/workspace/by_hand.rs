//! A folder in which a person merges a conflict by hand: an ordinary linked worktree, with no private git directory and no
//! box, for nothing but the person works in it.

use super::create::lock;
use super::error::Error;
use crate::git::Repository;
use crate::model::CommitId;
use crate::store::{StateDir, Workplace, atomic};

/// Makes it, with the merge of `theirs` into `ours` under way, by the merge attributes of `target`.
pub fn merge_by_hand(
    repository: &Repository,
    state: &StateDir,
    place: &Workplace,
    [ours, theirs]: [&CommitId; 2],
    target: &CommitId,
    reason: &str,
) -> Result<(), Error> {
    if let Some(parent) = place.worktree().parent() {
        atomic::create_dir(parent)?;
    }
    let added = {
        let _lock = lock(state)?;
        repository.add_worktree(&Repository::merge_addition(place.worktree(), ours, reason))?
    };
    let begun = repository.begin_merge(&added, theirs, target);
    if begun.is_err() {
        super::remove::undo(repository, state, place, None);
    }
    Ok(begun?)
}

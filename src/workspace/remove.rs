//! Taking a worktree away.
//!
//! The folders are moved aside and deleted without following a link; then the repository's entry is dropped. Whether it
//! may go is the caller's affair: nothing here asks whether its work is safe.

use super::create::lock;
use super::error::Error;
use crate::git::{RefEdit, Repository, Swap};
use crate::model::{CommitId, RefName};
use crate::store::trash::Removed;
use crate::store::{StateDir, Trash, Workplace};

/// Removes a worktree and its private folder. The branch stays: it is what the user may still look at.
pub fn remove(repository: &Repository, state: &StateDir, place: &Workplace) -> Result<Removed, Error> {
    let trash = Trash::of_workplace(place);
    trash.set_aside(place.worktree())?;
    trash.set_aside(place.private())?;
    {
        let _lock = lock(state)?;
        repository.drop_worktree(place.worktree())?;
    }
    Ok(trash.sweep()?)
}

/// Takes back a worktree that could not be finished. What cannot be taken back is named in the diagnostics, and found
/// again by `clean`.
pub(super) fn undo(
    repository: &Repository,
    state: &StateDir,
    place: &Workplace,
    branch: Option<(&RefName, &CommitId)>,
) {
    if let Err(error) = remove(repository, state, place) {
        tracing::warn!(place = %place.worktree().display(), %error, "an unfinished worktree could not be removed");
    }
    if let Some((name, at)) = branch {
        let edit = RefEdit::Delete { name: name.clone(), old: at.object().clone() };
        match repository.swap_refs(&[edit], "sandbox: undo worktree") {
            Ok(Swap::Done | Swap::Lost { .. }) => {}
            Err(error) => {
                tracing::warn!(branch = %name, %error, "the branch of an unfinished worktree could not be deleted");
            }
        }
    }
}

//! A folder in which a person merges a conflict by hand: an ordinary linked worktree, with no private git directory and no
//! box, for nothing but the person works in it.

use std::path::Path;

use super::create::lock;
use super::error::Error;
use crate::git::Repository;
use crate::model::{CommitId, TreeId};
use crate::store::{StateDir, Trash, Workplace, atomic};

/// What lies in the private folder as long as the worktree is being made. Without it a folder that a program that died left
/// half made, and one in which the person gave the merge up, look alike.
const BEING_MADE: &str = "being-made";

/// What git left in the folder, as the id of a tree; in the worktree's own git directory, with which it goes.
const AS_BEGUN: &str = "sandbox-begun";

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
    atomic::create_dir(place.private())?;
    atomic::write(&place.private().join(BEING_MADE), b"")?;
    let added = {
        let _lock = lock(state)?;
        repository.add_worktree(&Repository::merge_addition(place.worktree(), ours, reason))?
    };
    let begun = repository.begin_merge(&added, theirs, target).map_err(Error::from).and_then(|()| {
        let tree = repository.load_merged_by_hand(place.worktree(), &added.admin_dir)?;
        Ok(atomic::write(&added.admin_dir.join(AS_BEGUN), tree.as_str().as_bytes())?)
    });
    if begun.is_err() {
        super::remove::undo(repository, state, place, None);
    }
    begun?;
    is_made(place)
}

/// Whether the files of the folder, as a tree, are what git left there when it was made.
pub fn is_as_begun(admin_dir: &Path, tree: &TreeId) -> bool {
    std::fs::read_to_string(admin_dir.join(AS_BEGUN)).is_ok_and(|begun| begun == tree.as_str())
}

/// Whether it was never told that the folder is ready: nobody can have worked in it.
pub fn is_being_made(place: &Workplace) -> bool {
    place.private().join(BEING_MADE).symlink_metadata().is_ok()
}

/// Has the folder be the person's from now on.
fn is_made(place: &Workplace) -> Result<(), Error> {
    Trash::of_workplace(place).discard(place.private())?;
    Ok(())
}

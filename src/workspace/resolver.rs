//! A worktree in which a command resolves a conflict: one like an agent's, with a private git directory, in which the merge
//! is under way.
//!
//! Its files are those of the tree that git wrote with conflict markers in it. All that makes it a merge (the commit that
//! is merged, the sides in the index) is in the private git directory, and is believed by nobody afterwards.

use super::check::Workspace;
use super::error::Error;
use crate::git::{Conflict, Repository};
use crate::model::CommitId;
use crate::store::atomic;

/// Puts the merge of `theirs` into `ours` under way in a worktree that was made of `conflict`'s tree. Nothing may have run
/// in it yet.
pub fn put_merge_under_way(
    repository: &Repository,
    workspace: &Workspace,
    conflict: &Conflict,
    [ours, theirs]: [&CommitId; 2],
) -> Result<(), Error> {
    let admin = workspace.place.git().join("worktrees").join(workspace.place.name());
    repository.write_unmerged(&admin.join("index"), conflict, [ours, theirs])?;
    for (name, text) in [
        ("HEAD", format!("{ours}\n")),
        ("MERGE_HEAD", format!("{theirs}\n")),
        ("MERGE_MSG", format!("Merge {}\n", theirs.short())),
    ] {
        atomic::write(&admin.join(name), text.as_bytes())?;
    }
    Ok(())
}

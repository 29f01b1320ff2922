//! What stands in the way of landing, in words.

use std::path::Path;

use crate::git::{Obstacle, ObstacleKind, Operation};
use crate::model::gate::{BlockKind, GateBlock};
use crate::model::{CommitId, RefName, RepoPath};

fn block(kind: BlockKind, paths: Vec<RepoPath>, message: String, next: String) -> GateBlock {
    GateBlock { kind, agent: None, card: None, paths, message, next }
}

/// One block for each class of obstacle, with all its paths.
pub(super) fn obstacles(checkout: &Path, found: &[Obstacle]) -> Vec<GateBlock> {
    let mut kinds: Vec<ObstacleKind> = found.iter().map(|obstacle| obstacle.kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds
        .into_iter()
        .map(|kind| {
            let paths: Vec<RepoPath> =
                found.iter().filter(|obstacle| obstacle.kind == kind).map(|obstacle| obstacle.path.clone()).collect();
            let named: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
            let verb = if paths.len() == 1 { "is" } else { "are" };
            let message = format!("{} {verb} {kind} in `{}`", named.join(", "), checkout.display());
            block(BlockKind::CheckoutBusy, paths, message, format!("{}, then land again", kind.remedy()))
        })
        .collect()
}

/// An operation that is not finished.
pub(super) fn operation(worktree: &Path, operation: &Operation) -> GateBlock {
    let message = format!("{} is not finished in `{}`", operation.kind, worktree.display());
    block(BlockKind::CheckoutBusy, Vec::new(), message, format!("{}, then land again", operation.kind.remedy()))
}

/// Git said no although nothing was found in the way.
pub(super) fn git_refused(checkout: &Path, message: &str) -> GateBlock {
    let message = format!("git would not update `{}`: {message}", checkout.display());
    block(BlockKind::CheckoutBusy, Vec::new(), message, "do what git says, then land again".to_owned())
}

/// The branch is checked out in a folder that is not there.
pub(super) fn missing_worktree(target: &RefName, path: &Path) -> GateBlock {
    let message = format!("branch `{}` is checked out in `{}`, which is not there", target.short(), path.display());
    let next = "bring the folder back, or forget it with `git worktree prune`, then land again".to_owned();
    block(BlockKind::CannotLand, Vec::new(), message, next)
}

/// The branch is checked out in the main worktree, and git keeps no note of where that is.
pub(super) fn place_unknown(target: &RefName, git_dir: &Path) -> GateBlock {
    let message = format!(
        "branch `{}` is checked out in the main worktree of `{}`, and git does not record which folder that is",
        target.short(),
        git_dir.display()
    );
    block(BlockKind::CannotLand, Vec::new(), message, "land from that worktree".to_owned())
}

/// The branch is checked out more than once.
pub(super) fn several_holders(target: &RefName, holders: &[&Path]) -> GateBlock {
    let named: Vec<String> = holders.iter().map(|path| format!("`{}`", path.display())).collect();
    let message = format!("branch `{}` is checked out in several worktrees: {}", target.short(), named.join(", "));
    block(BlockKind::CannotLand, Vec::new(), message, "leave it checked out in one, then land again".to_owned())
}

/// The branch is checked out where an agent works.
pub(super) fn agents_worktree(target: &RefName, path: &Path) -> GateBlock {
    let message = format!("branch `{}` is checked out in `{}`, where an agent works", target.short(), path.display());
    block(BlockKind::CannotLand, Vec::new(), message, "check out another branch there, then land again".to_owned())
}

/// The target is no branch that may be moved.
pub(super) fn not_a_target(target: &RefName) -> GateBlock {
    let message = format!("`{target}` is not a branch of yours");
    block(BlockKind::CannotLand, Vec::new(), message, "name a branch as `target`".to_owned())
}

/// A landing was cut short, and what it left cannot be told from the user's own work.
pub(super) fn half_landed(checkout: &Path, paths: Vec<RepoPath>, rescue: Option<&RefName>) -> GateBlock {
    let named: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
    let message = format!(
        "a landing in `{}` was cut short, and {} {} neither as before nor as after it",
        checkout.display(),
        named.join(", "),
        if paths.len() == 1 { "is" } else { "are" },
    );
    let next = match rescue {
        Some(rescue) => format!(
            "put them as they should be (`git show {rescue}:<path>` has them as they were before), then land again"
        ),
        None => "put them as they should be, then land again".to_owned(),
    };
    block(BlockKind::CheckoutBusy, paths, message, next)
}

/// The target is not in the history of the run.
pub(super) fn moved_text(found: Option<&CommitId>) -> String {
    found.map_or_else(|| "it is gone".to_owned(), |found| format!("it is at {found}"))
}

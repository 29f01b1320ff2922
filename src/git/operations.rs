//! What the user is in the middle of: a rebase, a merge, a bisection.
//!
//! `git worktree list` calls a branch in the middle of a rebase "detached", and `update-ref` moves it all the same. So
//! before a branch is moved, the git directory of every worktree is looked at.

use std::fmt;
use std::path::{Path, PathBuf};

use super::error::Error;
use crate::model::RefName;

/// Something begun and not finished in one worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// What it is.
    pub kind: OperationKind,
    /// The branches it will move or go back to, where git notes that.
    pub branches: Vec<RefName>,
    /// The git directory of the worktree.
    pub git_dir: PathBuf,
}

/// The kinds of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// `git rebase`.
    Rebase,
    /// `git am`.
    ApplyMail,
    /// `git merge`.
    Merge,
    /// `git cherry-pick`.
    CherryPick,
    /// `git revert`.
    Revert,
    /// Several picks or reverts, between two of them.
    Sequence,
    /// `git bisect`.
    Bisect,
    /// A git process works on the index, or one died while doing so.
    IndexLocked,
}

impl OperationKind {
    /// How to end it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Rebase => "finish it with `git rebase --continue`, or give it up with `git rebase --abort`",
            Self::ApplyMail => "finish it with `git am --continue`, or give it up with `git am --abort`",
            Self::Merge => "finish it with `git merge --continue`, or give it up with `git merge --abort`",
            Self::CherryPick => {
                "finish it with `git cherry-pick --continue`, or give it up with `git cherry-pick --abort`"
            }
            Self::Revert => "finish it with `git revert --continue`, or give it up with `git revert --abort`",
            Self::Sequence => {
                "finish it with `git cherry-pick --continue` or `git revert --continue`, or give it up with `--abort`"
            }
            Self::Bisect => "end it with `git bisect reset`",
            Self::IndexLocked => "wait until the other git has ended; if none runs, delete `index.lock`",
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rebase => "a rebase",
            Self::ApplyMail => "an `am`",
            Self::Merge => "a merge",
            Self::CherryPick => "a cherry-pick",
            Self::Revert => "a revert",
            Self::Sequence => "a series of picks or reverts",
            Self::Bisect => "a bisection",
            Self::IndexLocked => "a lock on the index",
        })
    }
}

/// What is under way in the worktree that `git_dir` belongs to.
pub fn load_operations(git_dir: &Path) -> Result<Vec<Operation>, Error> {
    let mut found = Vec::new();
    let mut add = |kind, branches| found.push(Operation { kind, branches, git_dir: git_dir.to_owned() });
    if exists(&git_dir.join("rebase-merge"))? {
        let mut branches = branch_in(&git_dir.join("rebase-merge/head-name"))?;
        branches.extend(branches_to_update(&git_dir.join("rebase-merge/update-refs"))?);
        add(OperationKind::Rebase, branches);
    }
    if exists(&git_dir.join("rebase-apply"))? {
        let mail = exists(&git_dir.join("rebase-apply/applying"))?;
        let kind = if mail { OperationKind::ApplyMail } else { OperationKind::Rebase };
        add(kind, branch_in(&git_dir.join("rebase-apply/head-name"))?);
    }
    let plain = [
        ("MERGE_HEAD", OperationKind::Merge),
        ("CHERRY_PICK_HEAD", OperationKind::CherryPick),
        ("REVERT_HEAD", OperationKind::Revert),
        ("sequencer", OperationKind::Sequence),
        ("index.lock", OperationKind::IndexLocked),
    ];
    for (name, kind) in plain {
        if exists(&git_dir.join(name))? {
            add(kind, Vec::new());
        }
    }
    // It stands in `BISECT_START` by its short name, or as an id where no branch was checked out.
    let start = git_dir.join("BISECT_START");
    if exists(&start)? {
        let name = read(&start)?.and_then(|name| RefName::branch(name.trim()).ok());
        add(OperationKind::Bisect, name.into_iter().collect());
    }
    Ok(found)
}

fn exists(path: &Path) -> Result<bool, Error> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::File { doing: "look at", path: path.to_owned(), source }),
    }
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { doing: "read", path: path.to_owned(), source }),
    }
}

/// The branch that `head-name` gives; it says `detached HEAD` where there is none.
fn branch_in(path: &Path) -> Result<Vec<RefName>, Error> {
    Ok(read(path)?.and_then(|name| name.trim().parse().ok()).into_iter().collect())
}

/// The other branches that a rebase with `--update-refs` moves when it ends: a name, and two ids, a line each.
fn branches_to_update(path: &Path) -> Result<Vec<RefName>, Error> {
    let text = read(path)?.unwrap_or_default();
    Ok(text.lines().filter(|line| line.starts_with("refs/")).filter_map(|line| line.parse().ok()).collect())
}

//! Keeping what the user's checkout holds before landing touches it.

use super::checkout::{Checkout, SCAN_TIMEOUT};
use super::command::Access;
use super::error::Error;
use super::index_file::copy_index;
use super::objects::{NewCommit, Signature};
use super::quarantine::Quarantine;
use super::repository::parsed;
use crate::model::{CommitId, TreeId};

/// A checkout as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescue {
    /// A commit of all files, untracked ones included, ignored ones not. Its parents are the branch's tip and
    /// [`Self::index`]. Nothing names it yet: pin it with a ref.
    pub commit: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// A commit of the index.
    pub index: CommitId,
    /// What could not be taken in, in git's words. Empty if everything was.
    pub left_out: Vec<String>,
}

impl Rescue {
    /// Which parent of [`Self::commit`] the commit of the index is.
    pub(super) const INDEX_PARENT: usize = 1;
}

impl Checkout {
    /// Captures the checkout into commits, with a copy of the index: no file of the user's and no index changes.
    ///
    /// `tip` is the commit that is checked out. The copied index keeps what git knows of unchanged files, so this costs one
    /// scan.
    pub fn capture_rescue(&self, tip: &CommitId, author: &Signature, message: &str) -> Result<Rescue, Error> {
        let scratch = Quarantine::in_scratch(self.repository())?;
        let copy = scratch.path().join("index");
        let index = self.repository().git_dir().join("index");
        // Without an index nothing is staged, and git takes an absent one for an empty one.
        copy_index(&index, &copy).map_err(Error::file("copy", &index))?;
        let command = |subcommand| {
            self.command(Access::Write, subcommand)
                .env("GIT_INDEX_FILE", &copy)
                .config("core.splitIndex", "false")
                .config("core.safecrlf", "false")
                .config("advice.addEmbeddedRepo", "false")
                .timeout(SCAN_TIMEOUT)
        };
        let write_tree = || -> Result<TreeId, Error> {
            let output = command("write-tree").success()?;
            parsed(output.what(), output.line()?)
        };
        let commit = |tree: &TreeId, parents: &[CommitId]| {
            let new = NewCommit { tree, parents, author, committer: author, message };
            self.repository().write_commit(&new)
        };
        let index = commit(&write_tree()?, std::slice::from_ref(tip))?;
        let added = command("add").args(["-A", "--ignore-errors"]).run()?;
        match added.code() {
            Some(0 | 1) => {}
            Some(_) | None => return Err(added.failure()),
        }
        let left_out = added.complaint().lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        let tree = write_tree()?;
        let commit = commit(&tree, &[tip.clone(), index.clone()])?;
        Ok(Rescue { commit, tree, index, left_out })
    }
}

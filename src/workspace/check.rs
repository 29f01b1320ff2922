//! A worktree as it was left by us, and whether it still is.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::model::{CommitId, RefName};
use crate::store::Workplace;

/// A worktree of ours.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// Where it lies.
    pub place: Workplace,
    /// Its entry in the repository.
    pub admin_dir: PathBuf,
    /// The commit it was made from.
    pub fork: CommitId,
    /// The branch it is on; `None` where it is on none.
    pub branch: Option<RefName>,
    record: Identity,
}

/// What a worktree is known by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    dot_git: String,
    device: u64,
    inode: u64,
}

/// A worktree as it is kept in the run's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceRecord {
    admin_dir: PathBuf,
    fork: CommitId,
    branch: Option<RefName>,
    identity: Identity,
}

impl WorkspaceRecord {
    /// The common directory of the repository that it belongs to.
    pub fn common_dir(&self) -> Option<&Path> {
        self.admin_dir.parent()?.parent()
    }
}

impl Workspace {
    /// The worktree at `place`, just made.
    pub(super) fn just_made(
        place: Workplace,
        admin_dir: PathBuf,
        dot_git: &[u8],
        fork: CommitId,
        branch: Option<RefName>,
    ) -> Result<Self, Error> {
        let found = place.worktree().symlink_metadata();
        let found = found.map_err(|error| Error::io("look at", place.worktree(), error))?;
        let record = Identity { dot_git: hex::encode(dot_git), device: found.dev(), inode: found.ino() };
        Ok(Self { place, admin_dir, fork, branch, record })
    }

    /// What to keep of it.
    pub fn to_record(&self) -> WorkspaceRecord {
        WorkspaceRecord {
            admin_dir: self.admin_dir.clone(),
            fork: self.fork.clone(),
            branch: self.branch.clone(),
            identity: self.record.clone(),
        }
    }

    /// The worktree that a record tells of, at its place.
    pub fn from_record(record: WorkspaceRecord, place: Workplace) -> Self {
        Self { place, admin_dir: record.admin_dir, fork: record.fork, branch: record.branch, record: record.identity }
    }

    /// Takes note of where its entry is now, and of what its `.git` file holds.
    pub(super) fn set_links(&mut self, admin_dir: PathBuf, dot_git: &[u8]) {
        self.admin_dir = admin_dir;
        self.record.dot_git = hex::encode(dot_git);
    }

    /// The bytes that `.git` had.
    pub(super) fn dot_git(&self) -> Result<Vec<u8>, Error> {
        hex::decode(&self.record.dot_git).map_err(|_| self.tampered("what is kept of its `.git` file is damaged"))
    }

    pub(super) fn tampered(&self, what: &str) -> Error {
        Error::Tampered { path: self.place.worktree().to_owned(), what: what.to_owned() }
    }

    /// Whether the folder is there and still the one that was made.
    pub(super) fn check_folder(&self) -> Result<std::fs::Metadata, Error> {
        let found = self.place.worktree().symlink_metadata().map_err(|_| self.tampered("the folder is gone"))?;
        if !found.is_dir() || (found.dev(), found.ino()) != (self.record.device, self.record.inode) {
            return Err(self.tampered("the folder was replaced by another"));
        }
        Ok(found)
    }

    /// Whether the folder is still the one that was made, and its `.git` file still has the bytes it had. Nothing of the
    /// agent may run meanwhile.
    ///
    /// An agent may have shut itself, and us, out of the folder: its permissions are given back.
    pub fn check(&self) -> Result<(), Error> {
        let worktree = self.place.worktree();
        let tampered = |what: &str| self.tampered(what);
        let found = self.check_folder()?;
        if found.mode() & 0o700 != 0o700 {
            let permissions = std::fs::Permissions::from_mode(found.mode() & 0o777 | 0o700);
            std::fs::set_permissions(worktree, permissions).map_err(|error| Error::io("open up", worktree, error))?;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(worktree.join(".git"), flags, Mode::empty());
        let file = std::fs::File::from(opened.map_err(|_| tampered("its `.git` file is gone or was replaced"))?);
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(tampered("its `.git` is not a file any more"));
        }
        let mut bytes = Vec::new();
        let read = file.take(64 * 1024).read_to_end(&mut bytes);
        read.map_err(|error| Error::io("read", &worktree.join(".git"), error))?;
        // Ours until a box is open, and then the other; a crash in between leaves the mark with either.
        let is_other = || self.place.repointed().symlink_metadata().is_ok() && bytes == self.repointed();
        if hex::encode(&bytes) == self.record.dot_git || is_other() {
            Ok(())
        } else {
            Err(tampered("its `.git` file was changed"))
        }
    }
}

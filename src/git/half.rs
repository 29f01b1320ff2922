//! What a git that was killed in the middle of a checkout leaves behind, told from what anybody else may have made since.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;

use super::checkout::{Checkout, SCAN_TIMEOUT, Standing};
use super::command::Access;
use super::diff::TreeChange;
use super::error::Error;
use super::objects::{Entry, ModeKind};
use super::rescue::Rescue;
use super::{Before, Renames};
use crate::model::{CommitId, RepoPath, TreeId};
use crate::store::process;

impl Checkout {
    /// Removes the lock on the index that a fast-forward left when it was killed. False: there is one, and it may be that of
    /// somebody who is at work.
    ///
    /// Git holds the lock open until it writes the new index, which it does after all files. So an empty lock that no process
    /// has open is a dead one's; and one that is older than a file as the new commit has it is that of the git that wrote the
    /// file. The caller knows that this git is dead.
    pub fn clear_left_lock(&self, standing: &[(RepoPath, Standing)]) -> Result<bool, Error> {
        let lock = self.repository().git_dir().join("index.lock");
        let metadata = match lock.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            Err(source) => return Err(Error::File { doing: "look at", path: lock, source }),
        };
        let is_ours = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
        let is_left = is_ours
            && if metadata.len() == 0 {
                !process::has_open(&lock).unwrap_or(true)
            } else {
                self.is_older_than_new_files(&metadata, standing)
            };
        if !is_left {
            return Ok(false);
        }
        match fs::remove_file(&lock) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::File { doing: "remove", path: lock, source: error })
            }
            _ => Ok(true),
        }
    }

    fn is_older_than_new_files(&self, lock: &Metadata, standing: &[(RepoPath, Standing)]) -> bool {
        let Ok(made) = lock.created() else { return false };
        let new = standing.iter().filter(|(_, at)| *at == Standing::AtNew);
        let mut times = new.filter_map(|(path, _)| path.under(self.top()).symlink_metadata().ok()?.modified().ok());
        times.any(|written| made < written)
    }

    /// Whether a file is the beginning of what git would write there for either end of a change.
    pub(super) fn is_torn(&self, change: &TreeChange) -> Result<bool, Error> {
        let place = change.path.under(self.top());
        let is_file = place.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        for end in change.old.iter().chain(&change.new).filter(|end| is_file && end.mode.kind() == ModeKind::File) {
            if self.begins(&change.path, end)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the file at `path` is the beginning of what git would write there for `entry`.
    fn begins(&self, path: &RepoPath, entry: &Entry) -> Result<bool, Error> {
        let place = path.under(self.top());
        let mut sink = Beginning { file: File::open(&place).map_err(Error::file("read", &place))?, differs: false };
        let shown = self
            .command(Access::Read, "cat-file")
            .timeout(SCAN_TIMEOUT)
            .output_limit(u64::MAX)
            .args(["--filters".as_ref(), joined("--path=", path).as_os_str(), entry.id.as_str().as_ref()])
            .success_to(&mut sink)?;
        drop(shown);
        sink.holds().map_err(Error::file("read", &place))
    }

    /// What of `incoming`, the changes from `old`, was there before, by what was kept then.
    pub fn load_before(&self, old: &CommitId, incoming: &[TreeChange], kept: &CommitId) -> Result<Before, Error> {
        let repository = self.repository();
        let old = repository.load_commit(old)?.tree;
        let kept = repository.load_commit(kept)?;
        let as_new = |tree: &TreeId| -> Result<_, Error> {
            let differing = repository.load_changes(&old, tree, Renames::Ignore)?;
            let is_new = |change: &&TreeChange| {
                let at = differing.binary_search_by(|other| other.path.cmp(&change.path));
                at.is_ok_and(|at| differing[at].new == change.new)
            };
            Ok(incoming.iter().filter(is_new).map(|change| change.path.clone()).collect())
        };
        let index = kept.parents.get(Rescue::INDEX_PARENT).map(|index| repository.load_commit(index)).transpose()?;
        Ok(Before {
            files: as_new(&kept.tree)?,
            index: index.map_or_else(|| Ok(std::collections::BTreeSet::new()), |index| as_new(&index.tree))?,
        })
    }
}

fn joined(option: &str, path: &RepoPath) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from(option);
    text.push(path.as_path());
    text
}

/// Compares a file with what is written here, as far as the file goes.
struct Beginning {
    file: File,
    differs: bool,
}

impl Beginning {
    /// Whether nothing differed, and the file has no more than what was written.
    fn holds(mut self) -> io::Result<bool> {
        Ok(!self.differs && self.file.read(&mut [0])? == 0)
    }
}

impl Write for Beginning {
    fn write(&mut self, expected: &[u8]) -> io::Result<usize> {
        let mut found = Vec::new();
        (&mut self.file).take(expected.len() as u64).read_to_end(&mut found)?;
        self.differs = self.differs || !expected.starts_with(&found);
        Ok(expected.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

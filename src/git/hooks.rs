//! The user's own git hooks: where they are. None is ever run by git on our behalf.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::command::{Access, Command};
use super::error::Error;
use super::repository::Repository;
use crate::model::{CommitId, RepoPath};

/// Hooks that a person's own commits and merges would run, and those of this program do not.
const PASSED_OVER: [&str; 8] = [
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-merge",
    "post-checkout",
    "reference-transaction",
];

/// A hook of a name, as it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hook {
    /// This program.
    At(PathBuf),
    /// A file that cannot be executed, which git passes over.
    NotExecutable(PathBuf),
    /// None, where it would be.
    Absent(PathBuf),
}

impl Repository {
    /// The folder of the user's hooks, as the user's settings say. One that is given relatively lies in the checkout of the
    /// user's: never in another, whose files others may have written.
    pub fn load_hooks_folder(&self) -> Result<PathBuf, Error> {
        let output = Command::new(self.git(), Access::Read, "config")
            .folder(self.common_dir())
            .git_dir(self.git_dir())
            .args(["-z", "--show-scope", "--type=path", "--get-all", "core.hooksPath"])
            .run()?;
        match output.code() {
            Some(0 | 1) => {}
            Some(_) | None => return Err(output.failure()),
        }
        let records: Vec<&[u8]> = output.records().collect();
        let (pairs, _) = records.as_chunks::<2>();
        // Our own processes say that there is none.
        let theirs = pairs.iter().rfind(|[scope, _]| *scope != b"command").map(|[_, path]| *path);
        Ok(match theirs {
            Some(path) => {
                let top = self.top_level().unwrap_or(self.common_dir());
                top.join(Path::new(std::ffi::OsStr::from_bytes(path)))
            }
            None => self.common_dir().join("hooks"),
        })
    }

    /// The user's hook of this name.
    pub fn load_hook(&self, name: &str) -> Result<Hook, Error> {
        let path = self.load_hooks_folder()?.join(name);
        Ok(match path.metadata() {
            Ok(found) if !found.is_file() => Hook::Absent(path),
            Ok(found) if found.permissions().mode() & 0o111 == 0 => Hook::NotExecutable(path),
            Ok(_) => Hook::At(path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Hook::Absent(path),
            Err(source) => return Err(Error::File { doing: "look at", path, source }),
        })
    }

    /// The names of the user's hooks that would run if a person did what this program does.
    pub fn load_passed_over_hooks(&self) -> Result<Vec<&'static str>, Error> {
        let mut found = Vec::new();
        for name in PASSED_OVER {
            if let Hook::At(_) = self.load_hook(name)? {
                found.push(name);
            }
        }
        Ok(found)
    }

    /// The paths in which a worktree of ours or its index differ from a commit. What is in neither does not count.
    pub fn load_touched(&self, worktree: &Path, commit: &CommitId) -> Result<Vec<RepoPath>, Error> {
        let mut touched = Vec::new();
        for staged in [None, Some("--cached")] {
            let command = self.without_filters(worktree, self.within(worktree, Access::Read, "diff"))?;
            let output = command
                .args([
                    "--name-only",
                    "-z",
                    "--no-renames",
                    "--no-ext-diff",
                    "--no-textconv",
                    "--ignore-submodules=all",
                ])
                .args(staged)
                .arg(commit.as_str())
                .timeout(super::checkout::SCAN_TIMEOUT)
                .success()?;
            touched.extend(output.records().map(RepoPath::new));
        }
        touched.sort();
        touched.dedup();
        Ok(touched)
    }
}

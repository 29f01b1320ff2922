//! Files too large for any snapshot: left out by name, instead of taking all the rest along into a time-out.
//!
//! They are looked for only where git is not done in a part of its time. Looking costs a walk, and a file without content
//! (`truncate -s 1T`) costs the one who makes it nothing and git an hour.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use super::{Capture, Result, records};
use crate::git::{Access, Command, Error, Input, Output};
use crate::model::RepoPath;

/// The part of a command's time after which large files are looked for.
const PART: u32 = 10;

/// What staging came to.
pub(super) struct Staged {
    /// What git said.
    pub(super) output: Output,
    /// Files that were left out, a line each.
    pub(super) left_out: Vec<String>,
    /// All that is too large, ignored files among them, from the folder's root.
    pub(super) large: HashSet<Vec<u8>>,
}

impl Capture<'_> {
    /// Stages everything in `root` by a command that `add` makes, but what no pack could hold.
    pub(super) fn stage(&self, root: &Path, add: impl Fn() -> Command) -> Result<Staged> {
        let time = Duration::from_secs(self.request.timeout);
        match add().args(["--", "."]).timeout(time / PART).run() {
            Err(Error::TimedOut { .. }) => {}
            output => return Ok(Staged { output: output?, left_out: Vec::new(), large: HashSet::new() }),
        }
        for lock in ["index.lock", "index-apart.lock"] {
            drop(fs::remove_file(self.request.capture.join(lock)));
        }
        let large = large_files(root, self.request.largest);
        if large.is_empty() {
            return Ok(Staged { output: add().args(["--", "."]).run()?, left_out: Vec::new(), large: HashSet::new() });
        }
        let mut list = b".\0".to_vec();
        for path in &large {
            list.extend_from_slice(b":(top,exclude,literal)");
            list.extend_from_slice(path);
            list.push(0);
        }
        let output = add().args(["--pathspec-from-file=-", "--pathspec-file-nul"]).input(Input::Bytes(list)).run()?;
        let ignored = self.ignored_among(root, &large)?;
        let most = self.request.largest;
        let named = large.iter().filter(|path| !ignored.contains(*path));
        let left_out =
            named.map(|path| format!("`{}` is larger than {most} bytes", RepoPath::new(path.clone()))).collect();
        Ok(Staged { output, left_out, large: large.into_iter().collect() })
    }

    fn ignored_among(&self, root: &Path, paths: &[Vec<u8>]) -> Result<HashSet<Vec<u8>>> {
        let list = paths.iter().flat_map(|path| path.iter().copied().chain([0])).collect();
        let asked = self.command(Access::Read, "check-ignore").work_tree(root).folder(root);
        // It fails where none is ignored.
        let output = asked.args(["-z", "--stdin"]).input(Input::Bytes(list)).run()?;
        Ok(records(&output.stdout).map(<[u8]>::to_vec).collect())
    }
}

/// The files below `root` of more than `most` bytes, by their paths from it, but those of git's own folders. No link is
/// followed; what cannot be looked into is passed over.
fn large_files(root: &Path, most: u64) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(OsStr::from_bytes(&folder))).into_iter().flatten().flatten() {
            let (Ok(metadata), name) = (entry.metadata(), entry.file_name()) else { continue };
            let path =
                if folder.is_empty() { name.as_bytes().to_vec() } else { [&folder, name.as_bytes()].join(&b'/') };
            if metadata.is_dir() && name != ".git" {
                open.push(path);
            } else if metadata.is_file() && metadata.len() > most {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_are_found_wherever_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join(".git")).unwrap();
        for (path, size) in [("small", 9), ("edge", 10), ("large", 11), ("a/b/huge", 1 << 40), (".git/huge", 1 << 40)] {
            let file = fs::OpenOptions::new().create(true).truncate(true).write(true).open(root.join(path)).unwrap();
            file.set_len(size).unwrap();
        }
        std::os::unix::fs::symlink("large", root.join("link")).unwrap();
        std::os::unix::fs::symlink("..", root.join("a/up")).unwrap();
        assert_eq!(large_files(root, 10), [b"a/b/huge".to_vec(), b"large".to_vec()]);
    }
}

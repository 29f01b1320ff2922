//! Files too large for any snapshot: left out by name, instead of taking all the rest along into a time-out or a refusal.
//!
//! They are looked for only where git is not done in a part of its time. Looking costs a walk, and a file without content
//! (`truncate -s 1T`) costs the one who makes it nothing and git an hour.
//!
//! What git is quick with may still be more than a pack may hold. Then the capture is made once more, and without the
//! largest of what is new: as many files as must go for the rest to fit.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use super::index::{GITLINK, index_line};
use super::{Capture, Result, records};
use crate::git::{Access, Command, Error, Input, Output};
use crate::model::RepoPath;

/// The part of a command's time after which large files are looked for.
const PART: u32 = 10;

/// The part of a pack that is left free for folders, commits, and what the agent committed, where files are to fit into it.
const FREE: u64 = 8;

/// The part of a pack above which a file of a repository inside the worktree is left out, where a pack was too large.
const SHARE: u64 = 4;

/// What staging does without.
#[derive(Default)]
pub(super) struct Without {
    /// Files that were chosen to be left out. None: large ones are looked for if git is slow.
    pub(super) spared: Option<Vec<Vec<u8>>>,
    /// Folders that git cannot deal with.
    pub(super) out_of_reach: Vec<Vec<u8>>,
}

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
    /// Stages everything in `root` by a command that `add` makes, but what no pack could hold, and what it is to do without.
    pub(super) fn stage(&self, root: &Path, without: Without, add: impl Fn() -> Command) -> Result<Staged> {
        let Without { spared, out_of_reach } = without;
        let most = self.request.largest;
        let (large, named, why) = if let Some(spared) = spared {
            (spared.clone(), spared, format!("is left out, for the pack would be larger than {most} bytes"))
        } else {
            let time = Duration::from_secs(self.request.timeout);
            match self.add_without(root, add().timeout(time / PART), &out_of_reach) {
                Err(Error::TimedOut { .. }) => {}
                output => return Ok(Staged { output: output?, left_out: Vec::new(), large: HashSet::new() }),
            }
            self.drop_locks();
            let large = large_files(root, most);
            (large.clone(), self.unignored(root, large)?, format!("is larger than {most} bytes"))
        };
        let output = self.add_without(root, add(), &[named.as_slice(), &out_of_reach].concat())?;
        let left_out = named.into_iter().map(|path| format!("`{}` {why}", RepoPath::new(path))).collect();
        Ok(Staged { output, left_out, large: large.into_iter().collect() })
    }

    /// Runs `add` for all in `root` but these paths. One that is ignored is left out by that, and git would complain of it.
    fn add_without(&self, root: &Path, add: Command, paths: &[Vec<u8>]) -> Result<Output> {
        let paths = self.unignored(root, paths.to_vec())?;
        if paths.is_empty() {
            return add.args(["--", "."]).run();
        }
        let mut list = b".\0".to_vec();
        for path in &paths {
            list.extend_from_slice(b":(top,exclude,literal)");
            list.extend_from_slice(path);
            list.push(0);
        }
        let add = add.without_literal_paths().args(["--pathspec-from-file=-", "--pathspec-file-nul"]);
        add.input(Input::Bytes(list)).run()
    }

    /// Removes what a git that was killed left. There is one capture at a time, so nobody else can hold a lock.
    pub(super) fn drop_locks(&self) {
        for lock in ["index.lock", "index-apart.lock"] {
            drop(fs::remove_file(self.request.capture.join(lock)));
        }
    }

    /// Chooses what is left out for the rest to fit into a pack, from the index of a capture whose pack was too large, and
    /// takes it out of that index again: what stood there before stays. What no pack could hold at all is among them.
    pub(super) fn spare_largest(&self) -> Result<Vec<Vec<u8>>> {
        let compared = self.command(Access::Read, "diff-index").args(["--cached", "--raw", "-z", "--no-renames"]);
        let output = compared.args(["--no-abbrev", self.request.previous_tree.as_str()]).success()?;
        let parts: Vec<&[u8]> = records(&output.stdout).collect();
        let changes: Vec<Change<'_>> = parts.chunks_exact(2).filter_map(|pair| change(pair[0], pair[1])).collect();
        let bytes = self.sizes(changes.iter().map(|change| change.new))?;
        let sized: Vec<(u64, &Change<'_>)> = bytes.into_iter().zip(&changes).collect();
        let room = self.request.largest - self.request.largest / FREE;
        let spared = largest_beyond(room, sized);
        let mut paths =
            self.unignored(&self.request.worktree, large_files(&self.request.worktree, self.request.largest))?;
        if spared.is_empty() {
            return Ok(paths);
        }
        let list: Vec<u8> =
            spared.iter().flat_map(|change| index_line(change.old_mode, change.old, change.path)).collect();
        let output = self.update_index(&list)?;
        if output.code() != Some(0) {
            return Err(output.failure());
        }
        paths.extend(spared.into_iter().map(|change| change.path.to_vec()));
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// What a repository inside the worktree spares: nobody knows how much of a pack was its part.
    pub(super) fn large_inside(&self, folder: &Path) -> Result<Vec<Vec<u8>>> {
        self.unignored(folder, large_files(folder, self.request.largest / SHARE))
    }

    /// How many bytes each object takes in store; nothing for one that is not there.
    fn sizes<'i>(&self, ids: impl Iterator<Item = &'i str>) -> Result<Vec<u64>> {
        let list: String = ids.flat_map(|id| [id, "\n"]).collect();
        let asked = self.command(Access::Read, "cat-file").args(["--batch-check=%(objectsize:disk)", "--buffer"]);
        let output = asked.input(Input::Bytes(list.into_bytes())).success()?;
        Ok(output.text()?.lines().map(|size| size.parse().unwrap_or_default()).collect())
    }

    /// Those of `paths` below `root` that no rule has git ignore.
    fn unignored(&self, root: &Path, mut paths: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        if paths.is_empty() {
            return Ok(paths);
        }
        let list = paths.iter().flat_map(|path| [b"./", path.as_slice(), b"\0"].concat()).collect();
        let asked = self.command(Access::Read, "check-ignore").work_tree(root).folder(root).without_literal_paths();
        // The index is that of the worktree, and says nothing of a repository inside.
        let asked = if root == self.request.worktree { asked } else { asked.arg("--no-index") };
        let output = asked.args(["-z", "--stdin"]).input(Input::Bytes(list)).run()?;
        // It fails where none is ignored, by another code than where it cannot tell.
        if !matches!(output.code(), Some(0 | 1)) {
            return Err(output.failure());
        }
        let ignored: HashSet<&[u8]> =
            records(&output.stdout).map(|path| path.strip_prefix(b"./").unwrap_or(path)).collect();
        paths.retain(|path| !ignored.contains(path.as_slice()));
        Ok(paths)
    }
}

/// A file that is new, or another than before.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change<'a> {
    /// Mode and object of what stood there; the mode is zeros where nothing did.
    old_mode: &'a str,
    old: &'a str,
    new: &'a str,
    path: &'a [u8],
}

/// A record of `diff-index --raw`, if something with content stands there now.
fn change<'a>(record: &'a [u8], path: &'a [u8]) -> Option<Change<'a>> {
    let record = std::str::from_utf8(record).ok()?.strip_prefix(':')?;
    let mut fields = record.split(' ');
    let (old_mode, new_mode, old, new) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let new_mode = u32::from_str_radix(new_mode, 8).ok()?;
    (new_mode != 0 && new_mode != GITLINK).then_some(Change { old_mode, old, new, path })
}

/// The largest of these that must go for the rest to have room.
fn largest_beyond<T>(room: u64, mut sized: Vec<(u64, T)>) -> Vec<T> {
    let mut total: u64 = sized.iter().map(|(size, _)| size).sum();
    sized.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    let mut beyond = Vec::new();
    for (size, what) in sized {
        if total <= room {
            break;
        }
        total -= size;
        beyond.push(what);
    }
    beyond
}

/// The files below `root` of more than `most` bytes, by their paths from it, but those of git's own folders, and of
/// repositories inside: git asks for them there. No link is followed; what cannot be looked into is passed over.
fn large_files(root: &Path, most: u64) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(OsStr::from_bytes(&folder))).into_iter().flatten().flatten() {
            let (Ok(metadata), name) = (entry.metadata(), entry.file_name()) else { continue };
            let path =
                if folder.is_empty() { name.as_bytes().to_vec() } else { [&folder, name.as_bytes()].join(&b'/') };
            if metadata.is_dir() && name != ".git" {
                if entry.path().join(".git").symlink_metadata().is_err() {
                    open.push(path);
                }
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

    /// How much room there is, what takes how much, and what goes.
    type Row<'r> = (u64, &'r [(u64, &'r str)], &'r [&'r str]);

    #[test]
    fn as_few_files_go_as_must() {
        let table: [Row<'_>; 7] = [
            (10, &[], &[]),
            (10, &[(5, "a"), (5, "b")], &[]),
            (10, &[(5, "a"), (6, "b")], &["b"]),
            (10, &[(1, "a"), (100, "b"), (2, "c")], &["b"]),
            (10, &[(6, "a"), (7, "b"), (4, "c")], &["b"]),
            (10, &[(6, "a"), (7, "b"), (5, "c")], &["b", "a"]),
            (0, &[(6, "a"), (0, "b")], &["a"]),
        ];
        for (room, sized, expected) in table {
            assert_eq!(largest_beyond(room, sized.to_vec()), expected, "{room} {sized:?}");
        }
    }

    #[test]
    fn only_what_has_content_can_be_spared() {
        let [one, two] = ["1", "2"].map(|digit| digit.repeat(40));
        let read = |modes: &str, status| {
            let record = format!(":{modes} {one} {two} {status}");
            change(record.as_bytes(), b"path").map(|change| (change.old_mode.to_owned(), change.new == two))
        };
        assert_eq!(read("000000 100644", "A"), Some(("000000".to_owned(), true)));
        assert_eq!(read("100755 120000", "T"), Some(("100755".to_owned(), true)));
        assert_eq!(read("100644 000000", "D"), None);
        assert_eq!(read("160000 160000", "M"), None);
        assert_eq!(change(b"rubbish", b"path"), None);
    }

    #[test]
    fn large_files_are_found_wherever_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir_all(root.join("inner/.git")).unwrap();
        for (path, size) in [
            ("small", 9),
            ("edge", 10),
            ("large", 11),
            ("a/b/huge", 1 << 40),
            (".git/huge", 1 << 40),
            ("inner/huge", 1 << 40),
        ] {
            let file = fs::OpenOptions::new().create(true).truncate(true).write(true).open(root.join(path)).unwrap();
            file.set_len(size).unwrap();
        }
        std::os::unix::fs::symlink("large", root.join("link")).unwrap();
        std::os::unix::fs::symlink("..", root.join("a/up")).unwrap();
        assert_eq!(large_files(root, 10), [b"a/b/huge".to_vec(), b"large".to_vec()]);
    }
}

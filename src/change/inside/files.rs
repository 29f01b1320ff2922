//! The first half of a capture: what lies on the disk becomes a tree.
//!
//! Nothing of the agent's git directory takes part but one list of paths, and none of its objects are in reach: an object
//! that it forged or damaged could otherwise stand in for a file's content.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::index::{GITLINK, Index};
use super::{Capture, Result, one_id, records};
use crate::git::{Access, Input, Output};
use crate::model::{RepoPath, TreeId};

/// The largest index of an agent that is read, in bytes.
const INDEX_MAX: u64 = 1 << 30;

/// How many ignored paths are reported.
const IGNORED_MAX: usize = 100_000;

/// How many things that could not be captured are named.
const REFUSED_MAX: usize = 200;

/// What lay on the disk.
pub(super) struct Files {
    /// The tree.
    pub(super) tree: TreeId,
    /// Ignored paths, folders once and ending in `/`.
    pub(super) ignored: Vec<RepoPath>,
    /// What is not in the tree though it is not ignored, a line each.
    pub(super) refused: Vec<String>,
}

impl Capture<'_> {
    /// Stages the whole worktree, and makes a tree of it.
    pub(super) fn files(&self) -> Result<Files> {
        self.ready_index()?;
        let mut refused = self.add_everything()?;
        let staged = Index::load(&self.index(), self.id_length()).map(|index| index.entries).unwrap_or_default();
        let gitlinks = staged.iter().filter(|entry| entry.mode == GITLINK).map(|entry| entry.path.as_slice()).collect();
        let tracked: HashSet<&[u8]> = staged.iter().map(|entry| entry.path.as_slice()).collect();
        refused.extend(self.add_what_the_agent_forced(&tracked, &gitlinks)?);
        let ignored = self.ignored()?;
        refused.extend(self.leave_out_special(&tracked, &gitlinks, &ignored)?);
        refused.truncate(REFUSED_MAX);
        let tree = TreeId::from(one_id(&self.command(Access::Write, "write-tree").success()?)?);
        Ok(Files { tree, ignored, refused })
    }

    fn index(&self) -> PathBuf {
        self.request.capture.join("index")
    }

    fn id_length(&self) -> usize {
        self.request.previous.as_str().len() / 2
    }

    /// Sees to it that there is an index which says of no changed file that it is unchanged.
    fn ready_index(&self) -> Result<()> {
        // Left by a capture that was killed. There is one at a time, so nobody else can hold it.
        drop(fs::remove_file(self.request.capture.join("index.lock")));
        let Some(index) = Index::load(&self.index(), self.id_length()) else {
            drop(fs::remove_file(self.index()));
            let tree = self.request.previous_tree.as_str();
            return self.command(Access::Write, "read-tree").arg(tree).success().map(drop);
        };
        let mut list = Vec::new();
        for entry in index.doubtful() {
            list.extend(format!("{:o} {} 0\t", entry.mode, entry.id).into_bytes());
            list.extend(&entry.path);
            list.push(0);
        }
        if list.is_empty() {
            return Ok(());
        }
        // An entry that is written anew knows nothing of the file's times, so the file is read.
        let update = self.command(Access::Write, "update-index").args(["-z", "--index-info"]);
        update.input(Input::Bytes(list)).success().map(drop)
    }

    /// Stages all that is not ignored. What cannot be read is left out and named; the rest is staged all the same.
    fn add_everything(&self) -> Result<Vec<String>> {
        let add = self.command(Access::Write, "add").config("core.safecrlf", "false");
        let output = add.args(["--all", "--sparse", "--ignore-errors", "--", "."]).run()?;
        match output.code() {
            Some(0 | 1) => Ok(complaints(&output)),
            Some(_) | None => Err(output.failure()),
        }
    }

    /// Stages the paths of the agent's index that an ignore rule kept out. What is in them is read from the disk.
    fn add_what_the_agent_forced(&self, tracked: &HashSet<&[u8]>, gitlinks: &HashSet<&[u8]>) -> Result<Vec<String>> {
        let index = self.request.agent_admin.join("index");
        match index.symlink_metadata() {
            Ok(found) if found.is_file() && found.len() <= INDEX_MAX => {}
            // Without an index nothing was added by force.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Ok(_) | Err(_) => return Ok(vec![UNREADABLE_INDEX.to_owned()]),
        }
        let listed =
            self.command(Access::Read, "ls-files").args(["-z", "--cached"]).env("GIT_INDEX_FILE", &index).run();
        let Some(listed) = listed.ok().filter(|listed| listed.code() == Some(0)) else {
            return Ok(vec![UNREADABLE_INDEX.to_owned()]);
        };
        let forced: BTreeSet<&[u8]> = records(&listed.stdout)
            .filter(|path| !tracked.contains(path) && is_plain(path) && !is_below(path, gitlinks))
            .filter(|path| lies_in(&self.request.worktree, path))
            .collect();
        if forced.is_empty() {
            return Ok(Vec::new());
        }
        let output = self
            .command(Access::Write, "add")
            .config("core.safecrlf", "false")
            .args(["--force", "--sparse", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"])
            .input(Input::Bytes(listed_by_nul(forced)))
            .run()?;
        Ok(complaints(&output))
    }

    /// Looks for what git passes over without a word: pipes, sockets, devices. Where a tracked file became one, the file is
    /// gone.
    fn leave_out_special(
        &self,
        tracked: &HashSet<&[u8]>,
        gitlinks: &HashSet<&[u8]>,
        ignored: &[RepoPath],
    ) -> Result<Vec<String>> {
        let ignored: HashSet<&[u8]> = ignored.iter().map(RepoPath::as_bytes).collect();
        let special = special_files(&self.request.worktree, |path| {
            gitlinks.contains(path) || ignored.contains(path) || ignored.contains([path, b"/"].concat().as_slice())
        });
        let gone: Vec<&[u8]> =
            special.iter().map(|(path, _)| path.as_slice()).filter(|path| tracked.contains(path)).collect();
        if !gone.is_empty() {
            let update = self.command(Access::Write, "update-index").args(["--force-remove", "-z", "--stdin"]);
            update.input(Input::Bytes(listed_by_nul(gone))).success().map(drop)?;
        }
        Ok(special.into_iter().map(|(path, kind)| format!("`{}` is {kind}", RepoPath::new(path))).collect())
    }

    fn ignored(&self) -> Result<Vec<RepoPath>> {
        let output = self
            .command(Access::Read, "ls-files")
            .args(["-z", "--others", "--ignored", "--exclude-standard", "--directory"])
            .success()?;
        Ok(records(&output.stdout).take(IGNORED_MAX).map(RepoPath::new).collect())
    }
}

const UNREADABLE_INDEX: &str = "the agent's index cannot be read: files it added against an ignore rule are left out";

fn listed_by_nul<'p>(paths: impl IntoIterator<Item = &'p [u8]>) -> Vec<u8> {
    let mut list = Vec::new();
    for path in paths {
        list.extend(path);
        list.push(0);
    }
    list
}

/// What git said of paths that it could not add, without what we know from elsewhere.
fn complaints(output: &Output) -> Vec<String> {
    let known = ["warning: adding embedded git repository", "hint:", "error: can only add regular files"];
    let text = output.complaint();
    let is_news = |line: &&str| {
        !line.trim().is_empty()
            && !known.iter().any(|known| line.starts_with(known))
            && !line.ends_with("can only add regular files, symbolic links or git-directories")
    };
    text.lines().filter(is_news).take(REFUSED_MAX).map(str::to_owned).collect()
}

/// Whether a path from a forged index may be handed to git at all.
fn is_plain(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/')
        .all(|part| !part.is_empty() && part != b"." && part != b".." && !part.eq_ignore_ascii_case(b".git"))
}

/// Whether a folder above `path` is one of `folders`.
fn is_below(path: &[u8], folders: &HashSet<&[u8]>) -> bool {
    (0..path.len()).filter(|at| path[*at] == b'/').any(|at| folders.contains(&path[..at]))
}

/// Whether there is a file, or a link, at `path` below `root` that no link on the way leads to.
fn lies_in(root: &Path, path: &[u8]) -> bool {
    let mut at = root.to_owned();
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        at.push(OsStr::from_bytes(part));
        let Ok(found) = at.symlink_metadata() else { return false };
        let fits = if parts.peek().is_some() { found.is_dir() } else { found.is_file() || found.is_symlink() };
        if !fits {
            return false;
        }
    }
    true
}

/// What is neither file nor folder nor link, with what it is instead. Folders that `skip` names are not gone into, nor any
/// git directory. What cannot be looked into is git's to complain of.
fn special_files(root: &Path, skip: impl Fn(&[u8]) -> bool) -> Vec<(Vec<u8>, &'static str)> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(OsStr::from_bytes(&folder))).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            let path =
                if folder.is_empty() { name.as_bytes().to_vec() } else { [&folder, name.as_bytes()].join(&b'/') };
            if kind.is_file() || kind.is_symlink() || name == ".git" || skip(&path) {
                continue;
            }
            if kind.is_dir() {
                open.push(path);
            } else if let Some(what) = name_of(kind) {
                found.push((path, what));
            }
        }
    }
    found.sort();
    found
}

fn name_of(kind: fs::FileType) -> Option<&'static str> {
    match () {
        () if kind.is_fifo() => Some("a named pipe"),
        () if kind.is_socket() => Some("a socket"),
        () if kind.is_char_device() || kind.is_block_device() => Some("a device"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_forged_index() {
        for bad in ["../x", "a/../b", "/x", "a//b", ".git/config", "sub/.GIT/config", "./x", ""] {
            assert!(!is_plain(bad.as_bytes()), "{bad:?} should be refused");
        }
        for good in ["a", "a/b", ".gitignore", "..x", "a/.github/w"] {
            assert!(is_plain(good.as_bytes()), "{good:?} should be taken");
        }
    }

    #[test]
    fn files_behind_links_are_not_in_the_worktree() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("real")).unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("link")).unwrap();
        assert!(lies_in(folder.path(), b"link"));
        assert!(!lies_in(folder.path(), b"link/passwd"));
        assert!(!lies_in(folder.path(), b"real/none"));
        assert!(!lies_in(folder.path(), b"real"), "a whole folder is nothing that an index names");
    }

    #[test]
    fn only_folders_above_count() {
        let folders = HashSet::from([&b"sub"[..]]);
        assert!(is_below(b"sub/x", &folders) && is_below(b"sub/x/y", &folders));
        assert!(!is_below(b"sub", &folders) && !is_below(b"subx/y", &folders));
    }
}

//! The first half of a capture: what lies on the disk becomes a tree.
//!
//! Nothing of the agent's git directory takes part but what its index lists, paths and the commits of submodules, and none of
//! its objects are in reach: an object that it forged or damaged could otherwise stand in for a file's content.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::index::{GITLINK, Index, index_line};
use super::large::Without;
use super::listed::Listing;
use super::{Capture, Result, one_id, records};
use crate::git::{Access, CachedEntry, Input, Output};
use crate::model::{CommitId, RepoPath, TreeId};

/// The most ignored paths that are reported.
pub const IGNORED_MAX: usize = 100_000;

/// How many things that could not be captured are named.
const REFUSED_MAX: usize = 200;

/// How many repositories inside the worktree have their files kept.
const NESTED_MAX: usize = 50;

/// What lay on the disk.
pub(super) struct Files {
    /// The tree.
    pub(super) tree: TreeId,
    /// Commits of the files of repositories inside the worktree: the tree has only the name of a commit for each.
    pub(super) apart: Vec<CommitId>,
    /// Ignored paths, folders once and ending in `/`.
    pub(super) ignored: Vec<RepoPath>,
    /// What is neither in the tree nor ignored, though nothing is lost by it, a line each.
    pub(super) refused: Vec<String>,
    /// What lies on the disk, is not ignored, and is kept nowhere, a line each.
    pub(super) lost: Vec<String>,
}

/// What came of the files that the agent added against an ignore rule.
enum Forced {
    /// They are staged, but for what git complained of.
    Added(Vec<String>),
    /// Nobody can tell which they are.
    Unknown,
}

impl Capture<'_> {
    /// Stages the whole worktree, and makes a tree of it.
    pub(super) fn files(&self) -> Result<Files> {
        self.drop_locks();
        let spared = if self.request.spare { Some(self.spare_largest()?) } else { None };
        let listing = self.listing();
        let out_of_reach = self.out_of_reach(&listing, &self.ready_index()?);
        let (mut lost, large) = self.add_everything(Without { spared, out_of_reach })?;
        let staged = Index::load(&self.index(), self.id_length()).map(|index| index.entries).unwrap_or_default();
        let gitlinks = staged.iter().filter(|entry| entry.mode == GITLINK).map(|entry| entry.path.as_slice()).collect();
        let tracked: HashSet<&[u8]> = staged.iter().map(|entry| entry.path.as_slice()).collect();
        let mut refused = Vec::new();
        match self.add_what_the_agent_forced(&listing, &tracked, &gitlinks, &large)? {
            Forced::Added(complaints) => lost.extend(complaints),
            // Such files are ignored ones, as far as anybody can tell.
            Forced::Unknown => refused.push(UNREADABLE_INDEX.to_owned()),
        }
        let ignored = self.ignored()?;
        let oddities = {
            let ignored: HashSet<&[u8]> = ignored.iter().map(RepoPath::as_bytes).collect();
            oddities(&self.request.worktree, |path| {
                ignored.contains(path) || ignored.contains([path, b"/"].concat().as_slice())
            })
        };
        refused.extend(self.leave_out_special(&tracked, oddities.special)?);
        refused.extend(self.settle_submodules(&listing, !gitlinks.is_empty())?);
        let apart = self.keep_apart(&oddities.repositories, &mut refused, &mut lost)?;
        // The files of a repository without commits are kept apart like those of any other.
        refused.extend(lost.extract_if(.., |line| is_of_empty_repository(line)));
        refused.truncate(REFUSED_MAX);
        lost.truncate(REFUSED_MAX);
        let tree = TreeId::from(one_id(&self.command(Access::Write, "write-tree").success()?)?);
        Ok(Files { tree, apart, ignored, refused, lost })
    }

    pub(super) fn index(&self) -> PathBuf {
        self.request.capture.join("index")
    }

    pub(super) fn id_length(&self) -> usize {
        self.request.previous.as_str().len() / 2
    }

    /// Sees to it that there is an index which says of no changed file that it is unchanged. Gives what it had.
    fn ready_index(&self) -> Result<Vec<CachedEntry>> {
        let Some(index) = Index::load(&self.index(), self.id_length()) else {
            drop(fs::remove_file(self.index()));
            let tree = self.request.previous_tree.as_str();
            self.command(Access::Write, "read-tree").arg(tree).success().map(drop)?;
            return Ok(Index::load(&self.index(), self.id_length()).map(|index| index.entries).unwrap_or_default());
        };
        let mut list = Vec::new();
        for entry in index.doubtful() {
            list.extend(index_line(&format!("{:o}", entry.mode), &entry.id, &entry.path));
        }
        // A repository that is none any more is a folder whose files git would not look for.
        for entry in index.entries.iter().filter(|entry| entry.mode == GITLINK) {
            if is_mere_folder(&self.request.worktree.join(OsStr::from_bytes(&entry.path))) {
                list.extend(index_line("0", &entry.id, &entry.path));
            }
        }
        if list.is_empty() {
            return Ok(index.entries);
        }
        // An entry that is written anew knows nothing of the file's times, so the file is read.
        let output = self.update_index(&list)?;
        if output.code() == Some(0) { Ok(index.entries) } else { Err(output.failure()) }
    }

    /// Stages all that is not ignored. What cannot be read, or is too large, is left out and named; the rest is staged all
    /// the same.
    fn add_everything(&self, without: Without) -> Result<(Vec<String>, HashSet<Vec<u8>>)> {
        let add = || {
            let add = self.command(Access::Write, "add").config("core.safecrlf", "false");
            add.args(["--all", "--sparse", "--ignore-errors"])
        };
        let staged = self.stage(&self.request.worktree, without, add)?;
        let mut lost = staged.left_out;
        lost.extend(complaints(&staged.output));
        match staged.output.code() {
            Some(0 | 1) => Ok((lost, staged.large)),
            Some(_) | None => Err(staged.output.failure()),
        }
    }

    /// Stages the paths of the agent's index that an ignore rule kept out. What is in them is read from the disk.
    fn add_what_the_agent_forced(
        &self,
        listing: &Listing,
        tracked: &HashSet<&[u8]>,
        gitlinks: &HashSet<&[u8]>,
        large: &HashSet<Vec<u8>>,
    ) -> Result<Forced> {
        let entries = match listing {
            // Without an index nothing was added by force.
            Listing::Absent => return Ok(Forced::Added(Vec::new())),
            Listing::Unreadable => return Ok(Forced::Unknown),
            Listing::Of(entries) => entries,
        };
        let forced: BTreeSet<&[u8]> = entries
            .iter()
            .map(|entry| entry.path.as_slice())
            .filter(|path| !tracked.contains(path) && is_plain(path) && !is_below(path, gitlinks))
            .filter(|path| !large.contains(*path))
            .filter(|path| lies_in(&self.request.worktree, path))
            .collect();
        if forced.is_empty() {
            return Ok(Forced::Added(Vec::new()));
        }
        let output = self
            .command(Access::Write, "add")
            .config("core.safecrlf", "false")
            .args(["--force", "--sparse", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"])
            .input(Input::Bytes(listed_by_nul(forced)))
            .run()?;
        Ok(Forced::Added(complaints(&output)))
    }

    /// Names what git passes over without a word: pipes, sockets, devices. Where a tracked file became one, the file is gone.
    fn leave_out_special(
        &self,
        tracked: &HashSet<&[u8]>,
        special: Vec<(Vec<u8>, &'static str)>,
    ) -> Result<Vec<String>> {
        let gone: Vec<&[u8]> =
            special.iter().map(|(path, _)| path.as_slice()).filter(|path| tracked.contains(path)).collect();
        if !gone.is_empty() {
            let update = self.command(Access::Write, "update-index").args(["--force-remove", "-z", "--stdin"]);
            update.input(Input::Bytes(listed_by_nul(gone))).success().map(drop)?;
        }
        Ok(special.into_iter().map(|(path, kind)| format!("`{}` is {kind}", RepoPath::new(path))).collect())
    }

    /// Makes a commit of the files of each repository inside the worktree, so that they are not lost.
    fn keep_apart(
        &self,
        repositories: &[Vec<u8>],
        refused: &mut Vec<String>,
        lost: &mut Vec<String>,
    ) -> Result<Vec<CommitId>> {
        let mut kept = Vec::new();
        for path in repositories.iter().take(NESTED_MAX) {
            let shown = RepoPath::new(path.clone());
            let within = |access, subcommand| {
                let top = self.request.worktree.join(OsStr::from_bytes(path));
                let command = self.command(access, subcommand).work_tree(&top).folder(top);
                command.env("GIT_INDEX_FILE", self.request.capture.join("index-apart"))
            };
            for left_over in ["index-apart", "index-apart.lock"] {
                drop(fs::remove_file(self.request.capture.join(left_over)));
            }
            let add = || {
                let add = within(Access::Write, "add").config("core.safecrlf", "false");
                add.args(["--all", "--ignore-errors"])
            };
            let folder = self.request.worktree.join(OsStr::from_bytes(path));
            let spared = if self.request.spare { Some(self.large_inside(&folder)?) } else { None };
            let added = self.stage(&folder, Without { spared, ..Without::default() }, add)?;
            let complaints = added.left_out.into_iter().chain(complaints(&added.output));
            lost.extend(complaints.map(|line| format!("in `{shown}`: {line}")));
            let written = within(Access::Write, "write-tree").run()?;
            let Some(tree) = written.line().ok().and_then(|line| line.parse::<TreeId>().ok()) else {
                lost.push(format!("`{shown}` is a repository of its own: its files could not be read"));
                continue;
            };
            let commit = self.commit(&tree, &[], &format!("files of the repository {shown}\n"))?;
            refused.push(format!("`{shown}` is a repository of its own: its files are in commit {commit}"));
            kept.push(commit);
        }
        if let Some(more) = repositories.len().checked_sub(NESTED_MAX + 1) {
            lost.push(format!("{} more repositories have their files nowhere", more + 1));
        }
        Ok(kept)
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

/// Whether git complains of a repository inside the worktree that has no commit yet.
fn is_of_empty_repository(complaint: &str) -> bool {
    complaint.starts_with("error: '") && complaint.ends_with("does not have a commit checked out")
}

/// Whether a path from a forged index may be handed to git at all.
pub(super) fn is_plain(path: &[u8]) -> bool {
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

/// Whether there is a folder with something in it that is no repository.
fn is_mere_folder(path: &Path) -> bool {
    let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    is_folder
        && path.join(".git").symlink_metadata().is_err()
        && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
}

/// What a worktree holds beside files, folders and links.
#[derive(Default)]
struct Oddities {
    /// Pipes and the like, with what they are.
    special: Vec<(Vec<u8>, &'static str)>,
    /// Repositories of their own.
    repositories: Vec<Vec<u8>>,
}

/// Goes through all folders but those that `skip` names and those below a repository. What cannot be looked into is git's to
/// complain of.
fn oddities(root: &Path, skip: impl Fn(&[u8]) -> bool) -> Oddities {
    let mut found = Oddities::default();
    let mut open: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(folder) = open.pop() {
        let entries = || fs::read_dir(root.join(OsStr::from_bytes(&folder))).into_iter().flatten().flatten();
        if !folder.is_empty() && entries().any(|entry| entry.file_name() == ".git") {
            found.repositories.push(folder);
            continue;
        }
        for entry in entries() {
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
                found.special.push((path, what));
            }
        }
    }
    found.special.sort();
    found.repositories.sort();
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

//! Settling a conflict: trees made of a merged one and chosen content, and a folder in which a person merges by hand.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::command::{Access, Command, Input};
use super::conflict::Conflict;
use super::error::Error;
use super::index_file::copy_index;
use super::merge::{PINNED, merge_drivers};
use super::objects::{Blob, Entry, Mode, ModeKind};
use super::quarantine::Quarantine;
use super::repository::{Repository, parsed};
use super::worktrees::{Added, Addition, Fill};
use crate::model::{CommitId, ObjectId, RepoPath, TreeId};

/// The largest file that conflict markers are looked for in, in bytes.
const MARKERS_LIMIT: u64 = 32 << 20;

/// What stands at a path, or that nothing does.
pub type Chosen = (RepoPath, Option<Entry>);

impl Repository {
    /// The tree of a conflict with `chosen` in place of what conflicts. Each conflicting path must be chosen; git's own
    /// names for what had no room are left out.
    ///
    /// An error where what was chosen cannot stand beside the rest, as a file where there is a folder.
    pub fn write_resolved(
        &self,
        conflict: &Conflict,
        sides: [&CommitId; 2],
        chosen: &[Chosen],
    ) -> Result<TreeId, Error> {
        let strays = self.load_strays(conflict, sides)?;
        let gone = strays.into_iter().map(|path| (path, None));
        let gone: Vec<Chosen> = gone.chain(chosen.iter().map(|(path, _)| (path.clone(), None))).collect();
        let there: Vec<Chosen> = chosen.iter().filter(|(_, entry)| entry.is_some()).cloned().collect();
        let scratch = Quarantine::in_scratch(self)?;
        let index = scratch.path().join("index");
        let command = |subcommand| self.common(Access::Write, subcommand).env("GIT_INDEX_FILE", &index);
        drop(command("read-tree").arg(conflict.tree.as_str()).success()?);
        // First what goes, so that a folder can take the place of a file.
        for lines in [&gone, &there].map(|chosen| self.index_lines(chosen)) {
            drop(command("update-index").args(["-z", "--index-info"]).input(Input::Bytes(lines)).success()?);
        }
        let output = command("write-tree").success()?;
        parsed(output.what(), output.line()?)
    }

    /// What a tree has at each path of a conflict.
    pub fn load_chosen(&self, conflict: &Conflict, tree: &TreeId) -> Result<Vec<Chosen>, Error> {
        let entry = |path: RepoPath| {
            let found = self.load_entry(tree, &path)?;
            // A folder has no entry of its own: what is in it stands as it was merged.
            Ok((path, found.filter(|entry| entry.mode.kind() != ModeKind::Tree)))
        };
        conflict.paths().into_iter().map(entry).collect()
    }

    /// Writes a tree that holds these objects, for a commit to keep them by. Their names in it mean nothing.
    pub fn write_holding_tree(&self, held: &[(Mode, ObjectId)]) -> Result<TreeId, Error> {
        let mut lines = BTreeSet::new();
        for (mode, id) in held {
            // A commit of another repository is not here to be kept.
            let (mode, kind) = match mode.kind() {
                ModeKind::File | ModeKind::Symlink => (Mode::FILE, "blob"),
                ModeKind::Tree => (Mode::TREE, "tree"),
                ModeKind::Gitlink => continue,
            };
            lines.insert(format!("{mode} {kind} {id}\t{id}\0"));
        }
        let lines = lines.into_iter().collect::<String>().into_bytes();
        let made = self.common(Access::Write, "mktree").args(["-z", "--missing"]).input(Input::Bytes(lines));
        let output = made.success()?;
        parsed(output.what(), output.line()?)
    }

    fn index_lines(&self, chosen: &[Chosen]) -> Vec<u8> {
        let mut lines = Vec::new();
        for (path, entry) in chosen {
            let (mode, id) = entry.as_ref().map_or_else(
                || ("0".to_owned(), self.object_format().zero()),
                |entry| (entry.mode.to_string(), entry.id.clone()),
            );
            lines.extend(format!("{mode} {id}\t").into_bytes());
            lines.extend(path.as_bytes());
            lines.push(0);
        }
        lines
    }

    /// Puts the sides of each conflicting path into an index of the conflict's tree, as a merge leaves them there. Not where
    /// git made up paths to make room: one index cannot hold what wants the same place.
    pub fn write_unmerged(&self, index: &Path, conflict: &Conflict, sides: [&CommitId; 2]) -> Result<(), Error> {
        if conflict.stages.is_empty() || !self.load_strays(conflict, sides)?.is_empty() {
            return Ok(());
        }
        let gone: Vec<Chosen> = conflict.stages.iter().map(|stage| (stage.path.clone(), None)).collect();
        let mut lines = self.index_lines(&gone);
        for stage in &conflict.stages {
            let Entry { mode, id } = &stage.entry;
            lines.extend(format!("{mode} {id} {}\t", stage.side.stage()).into_bytes());
            lines.extend(stage.path.as_bytes());
            lines.push(0);
        }
        let command = self.common(Access::Write, "update-index").env("GIT_INDEX_FILE", index);
        command.args(["-z", "--index-info"]).input(Input::Bytes(lines)).success().map(drop)
    }

    /// The paths of a conflict's tree that git made up.
    fn load_strays(&self, conflict: &Conflict, sides: [&CommitId; 2]) -> Result<Vec<RepoPath>, Error> {
        let tree = self.load_tree(&conflict.tree)?;
        Ok(tree.into_iter().map(|(path, _)| path).filter(|path| Conflict::is_made_up(path, sides)).collect())
    }

    /// Takes a file from a folder outside the repository into its objects, with what the repository's attributes say of
    /// line ends at `path`.
    pub fn write_blob(&self, path: &RepoPath, file: &Path) -> Result<ObjectId, Error> {
        let output = self.common(Access::Write, "hash-object").arg("-w").args(["--path"]).arg(path.as_path());
        let output = output.arg("--").arg(file).success()?;
        parsed(output.what(), output.line()?)
    }

    /// Takes bytes into its objects as they are.
    pub fn write_bytes(&self, bytes: Vec<u8>) -> Result<ObjectId, Error> {
        let output = self.common(Access::Write, "hash-object").args(["-w", "--stdin"]).input(Input::Bytes(bytes));
        let output = output.success()?;
        parsed(output.what(), output.line()?)
    }

    /// Whether a file holds conflict markers that none of `known` holds.
    pub fn has_new_markers(&self, id: &ObjectId, known: &[&ObjectId]) -> Result<bool, Error> {
        let markers = |id: &ObjectId| match self.load_blob(id, MARKERS_LIMIT)? {
            Blob::Whole(bytes) => Ok::<_, Error>(marker_lines(&bytes)),
            Blob::TooLarge { .. } => Ok(0),
        };
        let found = markers(id)?;
        for other in known {
            if markers(other)? >= found {
                return Ok(false);
            }
        }
        Ok(found > 0)
    }

    /// A folder with `ours` checked out and the merge of `theirs` under way in it, as `git merge` leaves one that
    /// conflicts. As in previews, no merge driver of the user's settings runs over what agents made, and merge attributes are
    /// those of `target`. The caller holds the repository's lock while [`Self::add_worktree`] is called.
    pub fn begin_merge(&self, added: &Added, theirs: &CommitId, target: &CommitId) -> Result<(), Error> {
        self.fill_worktree(added, Fill::Checkout { workers: 0 })?;
        let mut command = self.unfiltered(&added.path, "merge")?;
        if self.git().has_attr_source() {
            command = command.global(format!("--attr-source={target}"));
        }
        for (key, value) in PINNED {
            command = command.config(key, value);
        }
        for driver in merge_drivers(self)? {
            command = command.config(driver, "false");
        }
        let output = command
            .config("rerere.enabled", "false")
            .args(["--no-commit", "--no-ff", "--no-edit", "--no-autostash", "--no-verify", theirs.as_str()])
            .run()?;
        // It conflicts, which is what it is here for. The exit code says the same where it could not be begun.
        if self.is_merging(&added.path, &added.admin_dir, theirs)? { Ok(()) } else { Err(output.failure()) }
    }

    /// Whether the merge of `theirs` is under way in such a folder, or has been committed there.
    pub fn is_merging(&self, folder: &Path, admin_dir: &Path, theirs: &CommitId) -> Result<bool, Error> {
        let under_way = admin_dir.join("MERGE_HEAD");
        match std::fs::read_to_string(&under_way) {
            Ok(commits) => return Ok(commits.lines().any(|commit| commit == theirs.as_str())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::File { doing: "read", path: under_way, source }),
        }
        Ok(self.load_committed_merge(folder, theirs)?.is_some())
    }

    /// What [`Self::begin_merge`] needs of a worktree.
    pub fn merge_addition<'a>(path: &'a Path, ours: &'a CommitId, reason: &'a str) -> Addition<'a> {
        Addition { path, commit: ours, place: super::worktrees::Place::Detached, reason }
    }

    /// All files of such a folder as a tree, untracked ones included, ignored ones not. Its index stays as it is.
    pub fn load_merged_by_hand(&self, folder: &Path, admin_dir: &Path) -> Result<TreeId, Error> {
        let scratch = Quarantine::in_scratch(self)?;
        let copy = scratch.path().join("index");
        copy_index(&admin_dir.join("index"), &copy).map_err(Error::file("copy", admin_dir))?;
        let command = |subcommand| Ok::<_, Error>(self.unfiltered(folder, subcommand)?.env("GIT_INDEX_FILE", &copy));
        drop(command("add")?.arg("-A").success()?);
        let output = command("write-tree")?.success()?;
        parsed(output.what(), output.line()?)
    }

    /// What git ignores in such a folder, folders once.
    pub fn load_ignored_in(&self, folder: &Path) -> Result<Vec<RepoPath>, Error> {
        let asked = self.within(folder, Access::Read, "ls-files").args(["-z", "--others", "--ignored"]);
        let output = asked.args(["--exclude-standard", "--directory"]).success()?;
        Ok(output.records().map(RepoPath::new).collect())
    }

    /// Whether such a folder is as its HEAD is, with nothing beside it.
    pub fn has_no_changes(&self, folder: &Path) -> Result<bool, Error> {
        let asked = self.within(folder, Access::Read, "status").args(["--porcelain", "-z", "--untracked-files=all"]);
        Ok(asked.arg("--ignore-submodules=none").success()?.stdout.is_empty())
    }

    /// Those of the paths that a filter of the user's applies to, as the attributes of `folder` say.
    pub fn load_filtered(&self, folder: &Path, paths: &[RepoPath]) -> Result<Vec<(RepoPath, String)>, Error> {
        let input = paths.iter().flat_map(|path| [path.as_bytes(), b"\0"].concat()).collect();
        let asked = self.within(folder, Access::Read, "check-attr").args(["-z", "--stdin", "filter"]);
        let output = asked.input(Input::Bytes(input)).success()?;
        let fields: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
        let filter = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let found = fields.chunks_exact(3).map(|found| (RepoPath::new(found[0]), filter(found[2])));
        Ok(found.filter(|(_, filter)| !matches!(filter.as_str(), "unspecified" | "unset")).collect())
    }

    /// The tree of the commit that was made in such a folder, if the merge of `theirs` was committed there.
    pub fn load_committed_merge(&self, folder: &Path, theirs: &CommitId) -> Result<Option<TreeId>, Error> {
        let head = self.within(folder, Access::Read, "rev-parse").args(["--verify", "HEAD^{commit}"]).success()?;
        let commit = self.load_commit(&parsed(head.what(), head.line()?)?)?;
        Ok(commit.parents.contains(theirs).then_some(commit.tree))
    }

    /// The paths that such a folder's index still has as conflicting.
    pub fn load_unmerged(&self, folder: &Path) -> Result<BTreeSet<RepoPath>, Error> {
        let output = self.within(folder, Access::Read, "ls-files").args(["-u", "-z"]).success()?;
        let records = output.stdout.split(|byte| *byte == 0);
        let paths = records.filter_map(|record| Some(&record[record.iter().position(|byte| *byte == b'\t')? + 1..]));
        Ok(paths.map(RepoPath::new).collect())
    }

    /// A command in a worktree whose files have been written without filters ([`Self::fill_worktree`]).
    fn unfiltered(&self, folder: &Path, subcommand: &'static str) -> Result<Command, Error> {
        let command = self.within(folder, Access::Write, subcommand).timeout(super::checkout::SCAN_TIMEOUT);
        Ok(self.without_filters(folder, command)?.config("core.safecrlf", "false"))
    }
}

/// Lines that begin or end a conflict.
fn marker_lines(bytes: &[u8]) -> usize {
    let is_marker = |line: &&[u8]| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> ");
    bytes.split(|byte| *byte == b'\n').filter(is_marker).count()
}

/// The file of one chosen path in a folder of the user's, as it would stand in a tree. `None`: nothing is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InFolder {
    /// A file, and whether it can be executed.
    File {
        /// Where.
        path: PathBuf,
        /// Whether it can be executed.
        executable: bool,
    },
    /// A link and what it points to.
    Link(Vec<u8>),
    /// Nothing, or a folder: what is in it has paths of its own.
    Nothing,
    /// Something that no tree can hold.
    Other,
}

/// Looks at what a folder of the user's has at a path.
pub fn find_in_folder(folder: &Path, path: &RepoPath) -> Result<InFolder, Error> {
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::PermissionsExt;
    let at = path.under(folder);
    let about = match at.symlink_metadata() {
        Ok(about) => about,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(InFolder::Nothing);
        }
        Err(source) => return Err(Error::File { doing: "look at", path: at, source }),
    };
    Ok(if about.is_file() {
        InFolder::File { executable: about.permissions().mode() & 0o100 != 0, path: at }
    } else if about.is_symlink() {
        let target = std::fs::read_link(&at).map_err(Error::file("read", &at))?;
        InFolder::Link(target.into_os_string().into_vec())
    } else if about.is_dir() {
        InFolder::Nothing
    } else {
        InFolder::Other
    })
}

#[cfg(test)]
mod tests {
    use super::marker_lines;

    #[test]
    fn markers() {
        assert_eq!(marker_lines(b"a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n"), 2);
        assert_eq!(marker_lines(b"title\n=======\n << x\n"), 0);
    }
}

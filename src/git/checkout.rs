//! Landing in a checkout of the user's: looking first, one fast-forward, reading back.
//!
//! This is the one file whose calls change the user's files, and it does so in two calls: [`Checkout::fast_forward`], and
//! [`Checkout::put_back`], which undoes half of one that was killed. The caller holds the repository's lock, has read the
//! target's tip under it, and has journalled what it is about to do.
//!
//! `merge --ff-only` proves ancestry; it is no compare-and-swap. So the tip is read right before, and ref and `ORIG_HEAD`
//! right after.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::{Access, Command, Input};
use super::diff::TreeChange;
use super::error::Error;
use super::objects::{Entry, ModeKind};
use super::obstacles::{Found, Obstacle};
use super::program::Git;
use super::repository::{Repository, parsed};
use crate::model::{CommitId, ObjectId, RefName, RepoPath};

/// The time that a scan of all files may take.
pub(super) const SCAN_TIMEOUT: Duration = Duration::from_mins(10);

/// A checkout that belongs to the user: the main work tree or a linked one. Never one that an agent can write.
#[derive(Debug, Clone)]
pub struct Checkout {
    repository: Repository,
    top: PathBuf,
}

/// A fast-forward to be done.
#[derive(Debug)]
pub struct Forward<'a> {
    /// The branch that is checked out and is to move.
    pub target: &'a RefName,
    /// Where it stands.
    pub old: &'a CommitId,
    /// Where it is to stand.
    pub new: &'a CommitId,
    /// How long that may take.
    pub timeout: Duration,
    /// Something that git, and whatever it starts, keeps open to its end: with a lock on it, others can tell that it has
    /// ended, even if we have not lived to see it.
    pub held: Option<OwnedFd>,
}

/// How a fast-forward ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum FastForward {
    /// Git says that it is done. Read back before relying on it.
    Applied,
    /// Git says no, and has changed nothing.
    Refused {
        /// Git's reason.
        message: String,
    },
}

/// Where a path of the checkout stands between two commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As in the old one.
    AtOld,
    /// As in the new one.
    AtNew,
    /// Nothing is there, though both have something. Git takes a file away before it writes the new one, so this is what
    /// a killed git leaves.
    Absent,
    /// The beginning of the old or the new one: git was killed while it wrote.
    Torn,
    /// Neither: somebody else wrote it.
    Neither,
}

/// What the user's checkout had before a fast-forward as the new commit has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Before {
    /// These files.
    pub files: BTreeSet<RepoPath>,
    /// These paths of the index.
    pub index: BTreeSet<RepoPath>,
}

/// What is there after a fast-forward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadBack {
    /// The target's tip.
    pub tip: Option<ObjectId>,
    /// Where git says the branch was before.
    pub orig_head: Option<ObjectId>,
}

impl ReadBack {
    /// Whether the branch went from `old` to `new`, as claimed.
    pub fn confirms(&self, old: &CommitId, new: &CommitId) -> bool {
        self.tip.as_ref() == Some(new.object()) && self.orig_head.as_ref() == Some(old.object())
    }
}

impl Checkout {
    /// The checkout at `path`.
    pub fn open(git: &Git, path: &Path) -> Result<Self, Error> {
        Self::of(&Repository::discover(git, path)?)
    }

    /// The checkout that a repository was found from.
    pub fn of(repository: &Repository) -> Result<Self, Error> {
        Ok(Self { repository: repository.clone(), top: repository.require_top_level()?.to_owned() })
    }

    /// Its folder.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// The repository, as seen from here.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    pub(super) fn command(&self, access: Access, subcommand: &'static str) -> Command {
        self.repository.here(access, subcommand).config("merge.autoStash", "false").config("submodule.recurse", "false")
    }

    /// Everything of the user's that is in the way of `incoming`, the changes from the target's tip to what is to land,
    /// renames not looked for.
    pub fn load_obstacles(&self, incoming: &[TreeChange]) -> Result<Vec<Obstacle>, Error> {
        Ok(self.load_scene(incoming)?.obstacles(incoming))
    }

    /// Moves a branch, which is checked out here, with its index and its files; or refuses. Git itself would move whatever
    /// branch is checked out, from wherever it stands.
    ///
    /// The caller holds the repository's lock. An error, a time-out included, says nothing about what has happened: read
    /// back with [`Self::load_read_back`] and [`Self::load_standing`].
    pub fn fast_forward(&self, forward: Forward<'_>) -> Result<FastForward, Error> {
        let Forward { target, old, new, timeout, held } = forward;
        let head = self.repository.load_head()?;
        if head.branch() != Some(target) || head.commit() != Some(old) {
            let at = head.commit().map_or("no commit", CommitId::short);
            let on = head.branch().map_or("no branch", RefName::short);
            let message =
                format!("`{}` is no longer checked out at {}: it is {on} at {at}", target.short(), old.short());
            return Ok(FastForward::Refused { message });
        }
        let output = self
            .command(Access::Write, "merge")
            // With `--squash` among them git would update the files and leave the branch.
            .config(format!("branch.{}.mergeOptions", target.short()), "")
            .args([
                "--ff-only",
                "--no-squash",
                "--no-overwrite-ignore",
                "--no-autostash",
                "--no-stat",
                "--no-verify-signatures",
                "-q",
            ])
            .arg(new.as_str())
            .input(held.map_or(Input::Null, Input::Descriptor))
            // Whoever reads what it says may die before it is done. It tells its progress whatever `-q` and `--no-progress`
            // say, and would die of that.
            .env("GIT_PROGRESS_DELAY", "1000000000")
            .timeout(timeout)
            .run()?;
        match output.code() {
            Some(0) => Ok(FastForward::Applied),
            Some(1 | 2 | 128) => Ok(FastForward::Refused { message: output.complaint() }),
            Some(_) | None => Err(output.failure()),
        }
    }

    /// What the target and `ORIG_HEAD` are now.
    pub fn load_read_back(&self, target: &RefName) -> Result<ReadBack, Error> {
        let output = self.command(Access::Read, "rev-parse").args(["-q", "--verify", "ORIG_HEAD"]).run()?;
        let orig_head = match output.code() {
            Some(0) => Some(parsed(output.what(), output.line()?)?),
            Some(1) => None,
            Some(_) | None => return Err(output.failure()),
        };
        Ok(ReadBack { tip: self.repository.load_ref(target)?, orig_head })
    }

    /// Whether the index holds exactly the tree of `commit`.
    pub fn index_is_at(&self, commit: &CommitId) -> Result<bool, Error> {
        let output = self
            .command(Access::Read, "diff-index")
            .args(["--cached", "--quiet", "--ignore-submodules=none", "--no-ext-diff", commit.as_str()])
            .run()?;
        match output.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            Some(_) | None => Err(output.failure()),
        }
    }

    /// Whether the index holds what has come in at each of these paths; elsewhere it may hold anything of the user's.
    pub fn index_holds(&self, incoming: &[TreeChange]) -> Result<bool, Error> {
        let (index, _) = self.load_index()?;
        let is_new = |change: &TreeChange| {
            let indexed = index.get(&change.path);
            indexed.map(|indexed| &indexed.entry) == change.new.as_ref()
                && !indexed.is_some_and(|indexed| indexed.unmerged)
        };
        Ok(incoming.iter().all(is_new))
    }

    /// For each incoming path, whether its file is the old or the new one.
    pub fn load_standing(&self, incoming: &[TreeChange]) -> Result<Vec<(RepoPath, Standing)>, Error> {
        let mut kinds = BTreeMap::new();
        for change in incoming {
            self.look_at(&change.path, &mut kinds)?;
        }
        let files: Vec<&RepoPath> = incoming.iter().map(|change| &change.path).collect();
        let standing = self.load_entries(&files)?;
        let heeds_mode = self.repository.config().text("core.filemode") != Some("false");
        let judge = |change: &TreeChange| {
            let is = |end: Option<&Entry>| match (end, standing.get(&change.path)) {
                // The folder of a submodule is none of ours to change.
                (Some(end), _) if end.mode.kind() == ModeKind::Gitlink => {
                    matches!(kinds.get(&change.path), Some(Found::Folder { .. } | Found::Nothing))
                }
                (None, found) => found.is_none() && !matches!(kinds.get(&change.path), Some(Found::File)),
                (Some(_), None) => false,
                (Some(end), Some(found)) => {
                    let same_mode = !heeds_mode || end.mode.is_executable() == found.mode.is_executable();
                    end.id == found.id && end.mode.kind() == found.mode.kind() && same_mode
                }
            };
            if is(change.old.as_ref()) {
                Standing::AtOld
            } else if is(change.new.as_ref()) {
                Standing::AtNew
            } else if kinds.get(&change.path) == Some(&Found::Nothing) {
                Standing::Absent
            } else {
                Standing::Neither
            }
        };
        let mut judged = Vec::new();
        for change in incoming {
            let mut at = judge(change);
            if at == Standing::Neither && self.is_torn(change)? {
                at = Standing::Torn;
            }
            judged.push((change.path.clone(), at));
        }
        Ok(judged)
    }

    /// Takes back half of a fast-forward to the commit of which `incoming` are the changes from `old`: files whose bytes
    /// are exactly the new ones, or git's half of them, files that are absent, and the index at these paths. What was as the
    /// new commit has it before, by the user's own doing, stays so. Gives the paths that are neither old nor new, of which
    /// nothing was touched; if there is any, nothing at all was.
    ///
    /// The caller holds the repository's lock and knows that the killed git is dead.
    pub fn put_back(&self, old: &CommitId, incoming: &[TreeChange], before: &Before) -> Result<Vec<RepoPath>, Error> {
        let standing = self.load_standing(incoming)?;
        let foreign: Vec<RepoPath> =
            standing.iter().filter(|(_, at)| *at == Standing::Neither).map(|(path, _)| path.clone()).collect();
        if !foreign.is_empty() {
            return Ok(foreign);
        }
        let changed: BTreeSet<&RepoPath> =
            standing.iter().filter(|(_, at)| *at != Standing::AtOld).map(|(path, _)| path).collect();
        let files =
            incoming.iter().filter(|change| changed.contains(&change.path) && !before.files.contains(&change.path));
        let (added, others): (Vec<&TreeChange>, Vec<&TreeChange>) = files.partition(|change| change.old.is_none());
        for change in added {
            self.remove_added(&change.path)?;
        }
        // Git makes folders before what comes into them.
        for change in incoming.iter().filter(|change| change.old.is_none() && !before.files.contains(&change.path)) {
            self.remove_empty_above(&change.path);
        }
        let (index, skipped) = self.load_index()?;
        let is_old = |change: &TreeChange| index.get(&change.path).map(|it| &it.entry) == change.old.as_ref();
        let indexed = incoming.iter().filter(|change| !before.index.contains(&change.path) && !is_old(change));
        let (unknown, known): (Vec<&TreeChange>, Vec<&TreeChange>) = indexed.partition(|change| change.old.is_none());
        self.update_index("--force-remove", unknown.iter().map(|change| &change.path))?;
        self.restore(old, "--staged", &known)?;
        let left_out = |change: &&TreeChange| skipped.contains(&change.path);
        self.update_index("--skip-worktree", known.iter().copied().filter(left_out).map(|change| &change.path))?;
        let wanted: Vec<&TreeChange> = others.into_iter().filter(|change| !left_out(change)).collect();
        self.restore(old, "--worktree", &wanted)?;
        Ok(Vec::new())
    }

    fn update_index<'p>(&self, option: &str, paths: impl Iterator<Item = &'p RepoPath>) -> Result<(), Error> {
        let input = nul_separated(paths);
        if input.is_empty() {
            return Ok(());
        }
        let command = self.command(Access::Write, "update-index").args([option, "-z", "--stdin"]);
        command.input(Input::Bytes(input)).success().map(drop)
    }

    /// Puts what was changed back as `old` has it, in the index or in the files.
    fn restore(&self, old: &CommitId, place: &str, changes: &[&TreeChange]) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        self.command(Access::Write, "restore")
            .arg(format!("--source={old}"))
            .args([place, "--no-overlay", "--no-recurse-submodules"])
            .args(["--pathspec-from-file=-", "--pathspec-file-nul"])
            .input(Input::Bytes(nul_separated(changes.iter().map(|change| &change.path))))
            .success()
            .map(drop)
    }

    /// Removes a file that the fast-forward had added.
    fn remove_added(&self, path: &RepoPath) -> Result<(), Error> {
        let place = path.under(&self.top);
        match fs::remove_file(&place) {
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Err(Error::File { doing: "remove", path: place, source: error })
            }
            _ => Ok(()),
        }
    }

    /// Removes the folders above a path that is gone, as far as they are empty.
    fn remove_empty_above(&self, path: &RepoPath) {
        for above in path.ancestors() {
            match fs::remove_dir(above.under(&self.top)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                // One that is not empty ends it.
                Err(_) => break,
            }
        }
    }
}

fn nul_separated<'a>(paths: impl Iterator<Item = &'a RepoPath>) -> Vec<u8> {
    paths.flat_map(|path| path.as_bytes().iter().copied().chain([0])).collect()
}

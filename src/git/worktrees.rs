//! Linked worktrees: listing, making, filling and dropping them.
//!
//! Making and dropping change the shared list of worktrees, where concurrent git processes have been seen to fail: the
//! caller holds the repository's lock for [`Repository::add_worktree`] and [`Repository::drop_worktree`]. Filling one with
//! files takes long and is done outside the lock, for several at a time.
//!
//! A half-made worktree never stays listed: when adding fails, everything it made is undone. Dropping takes away only
//! the entry that was named; `git worktree prune` is not used, since it also drops the user's own entries whose folder is
//! merely absent for now.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::{Access, Command, Output};
use super::error::Error;
use super::refs::{RefEdit, Swap};
use super::repository::{Repository, parsed};
use crate::model::{CommitId, RefName};

/// The time a checkout may take.
const FILL_TIMEOUT: Duration = Duration::from_mins(30);

/// A worktree as git lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its folder. Of the main one the git directory, if that is bare or nothing tells the folder.
    pub path: PathBuf,
    /// Its own git directory; none if its entry cannot be found.
    pub git_dir: Option<PathBuf>,
    /// The commit that is checked out; none if bare or without a commit.
    pub head: Option<CommitId>,
    /// The branch that is checked out. None also in the middle of a rebase: see [`super::operations`].
    pub branch: Option<RefName>,
    /// Whether it is the bare repository itself.
    pub bare: bool,
    /// Why it is locked, if it is; may be empty.
    pub locked: Option<String>,
    /// Why git would prune it, if it would.
    pub prunable: Option<String>,
}

/// What a new worktree stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A branch that is made for it.
    NewBranch(RefName),
    /// A branch that exists, and is checked out nowhere.
    Branch(RefName),
    /// No branch.
    Detached,
}

/// A worktree to be made.
#[derive(Debug, Clone)]
pub struct Addition<'a> {
    /// Its folder, which must not exist. Its last part becomes the name of the administrative folder.
    pub path: &'a Path,
    /// The commit it begins with.
    pub commit: &'a CommitId,
    /// What it stands on.
    pub place: Place,
    /// Why it is locked, for whoever reads `git worktree list`.
    pub reason: &'a str,
}

/// A worktree that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// Its folder.
    pub path: PathBuf,
    /// Its administrative folder in the repository.
    pub admin_dir: PathBuf,
    /// The exact bytes of its `.git` file. If they are ever others, somebody has tampered with it.
    pub dot_git: Vec<u8>,
    /// The commit it begins with.
    pub commit: CommitId,
}

/// How a new worktree gets its files. The one place to add cheaper ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Git writes every file, with this many processes; 0 means as many as there are cores.
    Checkout {
        /// The number of processes.
        workers: u32,
    },
    /// Not at all: the index stands at the commit, and no file is there.
    IndexOnly,
}

/// Whether there was anything to drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The entry is gone now.
    Dropped,
    /// There was none.
    WasAbsent,
}

impl Repository {
    /// All worktrees, the main one first.
    pub fn load_worktrees(&self) -> Result<Vec<Worktree>, Error> {
        let output = self.common(Access::Read, "worktree").args(["list", "--porcelain", "-z"]).success()?;
        let mut worktrees = parse_list(&output)?;
        let linked = linked_git_dirs(self.common_dir())?;
        // Git takes the main worktree to be the folder around the git directory. With `--separate-git-dir`, in a submodule and
        // with `core.worktree` it is not.
        if let Some(main) = worktrees.first_mut().filter(|main| !main.bare) {
            if let Some(top) = self.top_level().filter(|_| !self.is_linked()) {
                top.clone_into(&mut main.path);
            } else if let Some(set) = self.config().text("core.worktree") {
                let place = self.common_dir().join(set);
                main.path = place.canonicalize().unwrap_or(place);
            }
        }
        for (at, worktree) in worktrees.iter_mut().enumerate() {
            worktree.git_dir = if at == 0 {
                Some(self.common_dir().to_owned())
            } else {
                linked.iter().find(|(path, _)| *path == worktree.path).map(|(_, git_dir)| git_dir.clone())
            };
        }
        Ok(worktrees)
    }

    /// Registers a worktree, locked, with nothing checked out yet: [`Self::fill_worktree`] does that.
    ///
    /// The caller holds the repository's lock.
    pub fn add_worktree(&self, addition: &Addition<'_>) -> Result<Added, Error> {
        if let Place::NewBranch(branch) = &addition.place {
            self.require_free(branch)?;
        }
        if addition.path.symlink_metadata().is_ok() {
            let detail = "something is there already: remove it or choose another place".to_owned();
            return Err(Error::WorktreeOdd { path: addition.path.to_owned(), detail });
        }
        let result = self.register(addition).and_then(|()| self.require_registered(addition));
        if result.is_err() {
            self.undo_addition(addition);
        }
        result
    }

    fn register(&self, addition: &Addition<'_>) -> Result<(), Error> {
        let command = self
            .common(Access::Write, "worktree")
            .config("worktree.guessRemote", "false")
            .config("worktree.useRelativePaths", "false")
            .args(["add", "--no-checkout", "--lock", "--reason", addition.reason]);
        let command = match &addition.place {
            Place::NewBranch(branch) => {
                command.args(["--no-track", "-b", branch.short()]).arg(addition.path).arg(addition.commit.as_str())
            }
            Place::Branch(branch) => command.arg(addition.path).arg(branch.short()),
            Place::Detached => command.arg("--detach").arg(addition.path).arg(addition.commit.as_str()),
        };
        command.success().map(drop)
    }

    /// Looks at what git has made: an entry of our name, that points to our folder, at our commit.
    fn require_registered(&self, addition: &Addition<'_>) -> Result<Added, Error> {
        let odd = |detail: String| Error::WorktreeOdd { path: addition.path.to_owned(), detail };
        let path = addition.path.canonicalize().map_err(Error::file("resolve", addition.path))?;
        let asked =
            self.within(&path, Access::Read, "rev-parse").args(["--absolute-git-dir", "HEAD^{commit}"]).success()?;
        // A path may hold line ends; an id does not.
        let lines = asked.stdout.strip_suffix(b"\n").unwrap_or(&asked.stdout);
        let end = lines.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        let admin_dir = PathBuf::from(OsStr::from_bytes(&lines[..end]));
        let admin_dir = admin_dir.canonicalize().map_err(Error::file("resolve", &admin_dir))?;
        let name = path.file_name().ok_or_else(|| odd("its path has no name".to_owned()))?;
        let expected = self.common_dir().join("worktrees").join(name);
        if admin_dir != expected {
            let detail = format!(
                "its entry is `{}`, not `{}`: another worktree has that name already",
                admin_dir.display(),
                expected.display()
            );
            return Err(odd(detail));
        }
        let head: CommitId = parsed(asked.what(), String::from_utf8_lossy(&lines[end..]).trim_start())?;
        if head != *addition.commit {
            return Err(odd(format!("it stands at {head}, not at {}", addition.commit)));
        }
        let file = path.join(".git");
        let dot_git = fs::read(&file).map_err(Error::file("read", &file))?;
        Ok(Added { path, admin_dir, dot_git, commit: head })
    }

    /// Takes back a failed addition. What cannot be taken back is left to be found by whoever cleans up.
    fn undo_addition(&self, addition: &Addition<'_>) {
        // Nothing of anybody's can be in the folder: it did not exist, and git wrote only `.git` into it.
        let removed =
            self.common(Access::Write, "worktree").args(["remove", "--force", "--force"]).arg(addition.path).success();
        if let Err(error) = removed {
            tracing::debug!(%error, "a failed worktree was not listed");
        }
        for result in [fs::remove_file(addition.path.join(".git")), fs::remove_dir(addition.path)] {
            if let Err(error) = result
                && error.kind() != ErrorKind::NotFound
            {
                tracing::warn!(path = %addition.path.display(), %error, "a failed worktree's folder could not be removed");
            }
        }
        if let Place::NewBranch(branch) = &addition.place {
            let delete = RefEdit::Delete { name: branch.clone(), old: addition.commit.object().clone() };
            match self.swap_refs(&[delete], "sandbox: undo worktree") {
                Ok(Swap::Done | Swap::Lost { .. }) => {}
                Err(error) => tracing::warn!(%branch, %error, "the branch of a failed worktree could not be deleted"),
            }
        }
    }

    /// Refuses a branch that exists, and one whose folder is a branch (`sandbox` beside `sandbox/x`).
    fn require_free(&self, branch: &RefName) -> Result<(), Error> {
        let above = branch.short().match_indices('/').filter_map(|(at, _)| RefName::branch(&branch.short()[..at]).ok());
        let names: Vec<RefName> = std::iter::once(branch.clone()).chain(above).collect();
        match self.first_known(&names)? {
            None => Ok(()),
            Some(found) if found == branch => Err(Error::BranchExists { branch: branch.clone() }),
            Some(found) => Err(Error::BranchInTheWay { branch: branch.clone(), by: found.clone() }),
        }
    }

    /// Writes the files of a new worktree. Needs no lock.
    ///
    /// Filters are left out: a file that a `filter` attribute applies to is written as the repository holds it, a pointer
    /// where the user's settings would fetch a large file, ciphertext where they would decrypt. Whoever reads the worktree
    /// back (a capture, an agent's own git) has none of the user's filters either, and would take each such file for
    /// changed; and no command of the user's settings runs on the host because of what a tree says. On failure the worktree stays registered and half filled; the
    /// caller decides whether to try again or to drop it.
    pub fn fill_worktree(&self, added: &Added, fill: Fill) -> Result<(), Error> {
        let command = self
            .without_filters(&added.path, self.within(&added.path, Access::Write, "read-tree"))?
            // The form that is read back elsewhere without git.
            .config("index.version", "2")
            .config("core.splitIndex", "false")
            .config("core.untrackedCache", "false")
            .config("index.sparse", "false")
            .config("submodule.recurse", "false")
            .timeout(FILL_TIMEOUT);
        let command = match fill {
            Fill::Checkout { workers } => {
                command.config("checkout.workers", workers.to_string()).args(["--reset", "-u"])
            }
            Fill::IndexOnly => command.arg("--reset"),
        };
        command.arg(added.commit.as_str()).success().map(drop)
    }

    /// The command with every filter that is configured where `worktree` lies switched off.
    pub(super) fn without_filters(&self, worktree: &Path, mut command: Command) -> Result<Command, Error> {
        for filter in self.load_filters(worktree)? {
            for (part, nothing) in [("smudge", ""), ("clean", ""), ("process", ""), ("required", "false")] {
                command = command.config(OsStr::from_bytes(&[&filter[..], b".", part.as_bytes()].concat()), nothing);
            }
        }
        Ok(command)
    }

    /// Every `filter.<name>` that is configured where `worktree` lies.
    fn load_filters(&self, worktree: &Path) -> Result<BTreeSet<Vec<u8>>, Error> {
        let asked =
            self.within(worktree, Access::Read, "config").args(["-z", "--name-only", "--get-regexp", "^filter\\."]);
        let output = asked.run()?;
        match output.code() {
            Some(0) => {}
            // There is none.
            Some(1) => return Ok(BTreeSet::new()),
            Some(_) | None => return Err(output.failure()),
        }
        let names = output.stdout.split(|byte| *byte == 0);
        Ok(names.filter_map(|name| Some(name[..name.iter().rposition(|byte| *byte == b'.')?].to_vec())).collect())
    }

    /// Drops the entry of a worktree whose folder has been moved away, locked or not. Touches no file of the work tree, no
    /// branch, and no other entry.
    ///
    /// The caller holds the repository's lock.
    pub fn drop_worktree(&self, path: &Path) -> Result<Removal, Error> {
        if path.symlink_metadata().is_ok() {
            return Err(Error::WorktreeInPlace { path: path.to_owned() });
        }
        let is_listed = || Ok::<_, Error>(self.load_worktrees()?.iter().skip(1).any(|worktree| worktree.path == path));
        if !is_listed()? {
            return Ok(Removal::WasAbsent);
        }
        self.common(Access::Write, "worktree").args(["remove", "--force", "--force"]).arg(path).success().map(drop)?;
        if is_listed()? {
            return Err(Error::WorktreeOdd { path: path.to_owned(), detail: "it is still listed".to_owned() });
        }
        Ok(Removal::Dropped)
    }

    /// Takes a worktree off its branch, so that another may have it. Writes nothing but the worktree's own HEAD, in the
    /// administrative folder, and looks at no file of the worktree.
    pub fn detach_worktree(&self, admin_dir: &Path, commit: &CommitId) -> Result<(), Error> {
        Command::new(self.git(), Access::Write, "update-ref")
            .git_dir(admin_dir)
            .folder(admin_dir)
            .args(["--no-deref", "-m", "sandbox: a newer worktree has the branch", "HEAD", commit.as_str()])
            .success()
            .map(drop)
    }

    /// Sets the index of a worktree to a commit without touching its files. For a worktree that an agent wrote: only the
    /// administrative folder, which is ours, is named, and no file of the worktree is looked at.
    pub fn reset_worktree_index(&self, admin_dir: &Path, commit: &CommitId) -> Result<(), Error> {
        self.common(Access::Write, "read-tree")
            .config("core.splitIndex", "false")
            .env("GIT_INDEX_FILE", admin_dir.join("index"))
            .arg(commit.as_str())
            .success()
            .map(drop)
    }
}

/// The folder and the administrative folder of every linked worktree, read from the repository's own files.
fn linked_git_dirs(common_dir: &Path) -> Result<Vec<(PathBuf, PathBuf)>, Error> {
    let folder = common_dir.join("worktrees");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::File { doing: "read", path: folder, source }),
    };
    let mut found = Vec::new();
    for entry in entries {
        let admin = entry.map_err(Error::file("read", &folder))?.path();
        // An entry without this file is broken; git does not list it either.
        let Ok(bytes) = fs::read(admin.join("gitdir")) else { continue };
        let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let dot_git = admin.join(OsStr::from_bytes(text));
        let Some(worktree) = dot_git.parent() else { continue };
        let worktree = worktree.canonicalize().unwrap_or_else(|_| worktree.to_owned());
        found.push((worktree, admin));
    }
    Ok(found)
}

/// Reads `worktree list --porcelain -z`: attributes closed by NUL, records closed by one more.
fn parse_list(output: &Output) -> Result<Vec<Worktree>, Error> {
    let odd = |detail: &str| Error::unparsable(output.what(), detail);
    let mut worktrees: Vec<Worktree> = Vec::new();
    for field in output.records() {
        let space = field.iter().position(|byte| *byte == b' ');
        let (key, value) = space.map_or((field, &b""[..]), |space| (&field[..space], &field[space + 1..]));
        let text = || String::from_utf8_lossy(value).into_owned();
        if key == b"worktree" {
            let path = PathBuf::from(OsStr::from_bytes(value));
            worktrees.push(Worktree {
                path,
                git_dir: None,
                head: None,
                branch: None,
                bare: false,
                locked: None,
                prunable: None,
            });
            continue;
        }
        let current = worktrees.last_mut().ok_or_else(|| odd("it does not begin with a worktree"))?;
        match key {
            b"bare" => current.bare = true,
            b"HEAD" => {
                let head: CommitId = text().parse().map_err(|_| odd("a head is no object id"))?;
                current.head = Some(head).filter(|head| !head.object().is_zero());
            }
            b"branch" => current.branch = text().parse().ok(),
            b"locked" => current.locked = Some(text()),
            b"prunable" => current.prunable = Some(text()),
            // `detached`, and whatever later versions add.
            _ => {}
        }
    }
    if worktrees.is_empty() { Err(odd("there is no worktree")) } else { Ok(worktrees) }
}

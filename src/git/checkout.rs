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
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::{Access, Command, Input};
use super::diff::TreeChange;
use super::error::Error;
use super::objects::{Blob, Entry, Mode, ModeKind};
use super::obstacles::{Found, IndexEntry, Obstacle, Scene};
use super::program::Git;
use super::repository::{Repository, parsed};
use crate::model::{CommitId, ObjectId, RefName, RepoPath};

/// The most things that are listed below a folder that is in the way.
const LISTED_LIMIT: usize = 1000;

/// How many paths one `hash-object` is given.
const HASHED_AT_ONCE: usize = 256;

/// A link's target is never longer than this.
const LINK_LIMIT: u64 = 64 << 10;

/// A checkout that belongs to the user: the main work tree or a linked one. Never one that an agent can write.
#[derive(Debug, Clone)]
pub struct Checkout {
    repository: Repository,
    top: PathBuf,
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
    /// Neither: somebody else wrote it, or git was killed in the middle of it.
    Neither,
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

    /// Moves the checked-out branch, its index and its files to `commit`, or refuses.
    ///
    /// The caller holds the repository's lock. An error, a time-out included, says nothing about what has happened: read
    /// back with [`Self::load_read_back`] and [`Self::load_standing`].
    pub fn fast_forward(&self, commit: &CommitId, timeout: Duration) -> Result<FastForward, Error> {
        let output = self
            .command(Access::Write, "merge")
            .args(["--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-stat", "--no-verify-signatures", "-q"])
            .arg(commit.as_str())
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
            } else {
                Standing::Neither
            }
        };
        Ok(incoming.iter().map(|change| (change.path.clone(), judge(change))).collect())
    }

    /// Takes back half of a fast-forward to the commit of which `incoming` are the changes from `old`: files whose bytes
    /// are exactly the new ones, and the index at these paths. Gives the paths that are neither old nor new, of which
    /// nothing was touched; if there is any, nothing at all was.
    ///
    /// The caller holds the repository's lock and knows that the killed git is dead.
    pub fn put_back(&self, old: &CommitId, incoming: &[TreeChange]) -> Result<Vec<RepoPath>, Error> {
        let standing = self.load_standing(incoming)?;
        let foreign: Vec<RepoPath> =
            standing.iter().filter(|(_, at)| *at == Standing::Neither).map(|(path, _)| path.clone()).collect();
        if !foreign.is_empty() {
            return Ok(foreign);
        }
        let at_new: BTreeSet<&RepoPath> =
            standing.iter().filter(|(_, at)| *at == Standing::AtNew).map(|(path, _)| path).collect();
        let (added, others): (Vec<&TreeChange>, Vec<&TreeChange>) =
            incoming.iter().partition(|change| change.old.is_none());
        for change in added.iter().filter(|change| at_new.contains(&change.path)) {
            self.remove_added(&change.path)?;
        }
        if !added.is_empty() {
            let input = Input::Bytes(nul_separated(added.iter().map(|change| &change.path)));
            self.command(Access::Write, "update-index")
                .args(["--force-remove", "-z", "--stdin"])
                .input(input)
                .success()
                .map(drop)?;
        }
        if !others.is_empty() {
            let input = Input::Bytes(nul_separated(others.iter().map(|change| &change.path)));
            self.command(Access::Write, "restore")
                .arg(format!("--source={old}"))
                .args(["--staged", "--worktree", "--no-overlay", "--no-recurse-submodules"])
                .args(["--pathspec-from-file=-", "--pathspec-file-nul"])
                .input(input)
                .success()
                .map(drop)?;
        }
        Ok(Vec::new())
    }

    /// Removes a file that the fast-forward had added, and the folders that are empty without it.
    fn remove_added(&self, path: &RepoPath) -> Result<(), Error> {
        let place = path.under(&self.top);
        match fs::remove_file(&place) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::File { doing: "remove", path: place, source: error });
            }
            _ => {}
        }
        for above in path.ancestors() {
            // A folder that is not empty, or is gone, ends it.
            if fs::remove_dir(above.under(&self.top)).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Gathers the facts about incoming paths.
    fn load_scene(&self, incoming: &[TreeChange]) -> Result<Scene, Error> {
        let (index, skipped) = self.load_index()?;
        let mut found = BTreeMap::new();
        for change in incoming {
            self.look_at(&change.path, &mut found)?;
            let comes_a_file = change.new.is_some();
            if comes_a_file && found.get(&change.path) == Some(&(Found::Folder { repository: false })) {
                self.look_below(&change.path, &mut found)?;
            }
        }
        let marked: Vec<&RepoPath> = incoming
            .iter()
            .map(|change| &change.path)
            .filter(|path| index.get(path).is_some_and(|indexed| indexed.marked))
            .collect();
        let standing = self.load_entries(&marked)?;
        let altered = marked
            .into_iter()
            .filter(|path| match (standing.get(path), index.get(path)) {
                (Some(found), Some(indexed)) => *found != indexed.entry,
                (None, _) => !skipped.contains(*path),
                (Some(_), None) => true,
            })
            .cloned()
            .collect();
        let unknown: Vec<&RepoPath> = found
            .iter()
            .filter(|(path, found)| **found == Found::File && !index.contains_key(path))
            .map(|(path, _)| path)
            .collect();
        let ignored = self.load_ignored(&unknown)?;
        let differing = self.load_differing()?;
        Ok(Scene { index, differing, altered, found, ignored, folds_case: self.repository.ignores_case() })
    }

    /// The index, and the paths in it that are left out of the checkout on purpose.
    fn load_index(&self) -> Result<(BTreeMap<RepoPath, IndexEntry>, BTreeSet<RepoPath>), Error> {
        let output = self.command(Access::Read, "ls-files").args(["--stage", "-v", "-z"]).success()?;
        let (mut index, mut skipped) = (BTreeMap::new(), BTreeSet::new());
        for record in output.stdout.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
            let odd = || Error::unparsable(output.what(), "a record is not `tag mode id stage<tab>path`");
            let tab = record.iter().position(|byte| *byte == b'\t').ok_or_else(odd)?;
            let head = std::str::from_utf8(&record[..tab]).map_err(|_| odd())?;
            let fields: Vec<&str> = head.split(' ').collect();
            let &[tag, mode, id, stage] = fields.as_slice() else { return Err(odd()) };
            let path = RepoPath::new(&record[tab + 1..]);
            let skip = tag.eq_ignore_ascii_case("S");
            let marked = skip || tag.bytes().any(|letter| letter.is_ascii_lowercase());
            if skip {
                skipped.insert(path.clone());
            }
            let entry = Entry { mode: Mode::parse(mode).ok_or_else(odd)?, id: id.parse().map_err(|_| odd())? };
            index.insert(path, IndexEntry { entry, unmerged: stage != "0", marked });
        }
        Ok((index, skipped))
    }

    /// Git's letter for each tracked file that differs from the index.
    fn load_differing(&self) -> Result<BTreeMap<RepoPath, u8>, Error> {
        let output = self
            .command(Access::Read, "status")
            .args(["--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=dirty"])
            .success()?;
        let records = output.stdout.split(|byte| *byte == 0).filter(|record| !record.is_empty());
        let odd = || Error::unparsable(output.what(), "a record has not two letters and a space");
        let read = |record: &[u8]| match record {
            [_, letter, b' ', path @ ..] => Ok((RepoPath::new(path), *letter)),
            _ => Err(odd()),
        };
        let all = records.map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(all.into_iter().filter(|(_, letter)| *letter != b' ').collect())
    }

    /// Notes what lies at a path and at the folders above it, from the top down, following no link.
    fn look_at(&self, path: &RepoPath, found: &mut BTreeMap<RepoPath, Found>) -> Result<(), Error> {
        let mut above: Vec<RepoPath> = path.ancestors().collect();
        above.reverse();
        for place in above.into_iter().chain([path.clone()]) {
            let seen = match found.get(&place) {
                Some(seen) => *seen,
                None => look(&place.under(&self.top))?,
            };
            let is_folder = matches!(seen, Found::Folder { .. });
            found.insert(place, seen);
            if !is_folder {
                break;
            }
        }
        found.entry(path.clone()).or_insert(Found::Nothing);
        Ok(())
    }

    /// Notes what lies below a folder, but not inside another repository.
    fn look_below(&self, folder: &RepoPath, found: &mut BTreeMap<RepoPath, Found>) -> Result<(), Error> {
        let mut folders = vec![folder.clone()];
        let mut listed = 0;
        while let Some(folder) = folders.pop() {
            let place = folder.under(&self.top);
            for entry in fs::read_dir(&place).map_err(Error::file("read", &place))? {
                let name = entry.map_err(Error::file("read", &place))?.file_name();
                let path = RepoPath::new([folder.as_bytes(), b"/", name.as_bytes()].concat());
                let seen = look(&path.under(&self.top))?;
                if seen == (Found::Folder { repository: false }) {
                    folders.push(path.clone());
                }
                found.insert(path, seen);
                listed += 1;
                if listed >= LISTED_LIMIT {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Which of these untracked paths the ignore rules name.
    fn load_ignored(&self, paths: &[&RepoPath]) -> Result<BTreeSet<RepoPath>, Error> {
        if paths.is_empty() {
            return Ok(BTreeSet::new());
        }
        // This subcommand refuses to take paths literally; with `./` in front nothing in them means anything.
        let input = paths.iter().flat_map(|path| [b"./", path.as_bytes(), b"\0"].concat()).collect();
        let output = self
            .command(Access::Read, "check-ignore")
            .without_literal_paths()
            .args(["-z", "--stdin"])
            .input(Input::Bytes(input))
            .run()?;
        match output.code() {
            Some(0 | 1) => {
                let named = output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
                Ok(named.map(|path| RepoPath::new(path.strip_prefix(b"./").unwrap_or(path))).collect())
            }
            Some(_) | None => Err(output.failure()),
        }
    }

    /// What git would store for each of these paths as it lies in the checkout; a path where no file or link lies has none.
    fn load_entries(&self, paths: &[&RepoPath]) -> Result<BTreeMap<RepoPath, Entry>, Error> {
        let mut entries = BTreeMap::new();
        let mut files = Vec::new();
        for path in paths {
            let mut seen = BTreeMap::new();
            self.look_at(path, &mut seen)?;
            if seen.get(path) != Some(&Found::File) {
                continue;
            }
            let place = path.under(&self.top);
            let metadata = place.symlink_metadata().map_err(Error::file("look at", &place))?;
            if metadata.is_symlink() {
                let target = fs::read_link(&place).map_err(Error::file("read", &place))?;
                let id = self.hash_link(target.as_os_str().as_bytes())?;
                entries.insert((*path).clone(), Entry { mode: Mode::SYMLINK, id });
            } else if metadata.is_file() {
                let executable = metadata.permissions().mode() & 0o100 != 0;
                files.push((*path, if executable { Mode::EXECUTABLE } else { Mode::FILE }));
            }
        }
        for chunk in files.chunks(HASHED_AT_ONCE) {
            let output = self
                .command(Access::Read, "hash-object")
                .arg("--")
                .args(chunk.iter().map(|(path, _)| path.as_path()))
                .success()?;
            let ids: Vec<&str> = output.text()?.lines().collect();
            if ids.len() != chunk.len() {
                return Err(Error::unparsable(output.what(), "not one id for each path"));
            }
            for ((path, mode), id) in chunk.iter().zip(ids) {
                entries.insert((*path).clone(), Entry { mode: *mode, id: parsed(output.what(), id)? });
            }
        }
        Ok(entries)
    }

    fn hash_link(&self, target: &[u8]) -> Result<ObjectId, Error> {
        let output = self
            .command(Access::Read, "hash-object")
            .args(["--stdin", "--no-filters"])
            .input(Input::Bytes(target.to_vec()))
            .success()?;
        parsed(output.what(), output.line()?)
    }

    /// Where a link that a commit stores points to. For showing obstacles and cards.
    pub fn load_link(&self, id: &ObjectId) -> Result<Option<Vec<u8>>, Error> {
        match self.repository.load_blob(id, LINK_LIMIT)? {
            Blob::Whole(bytes) => Ok(Some(bytes)),
            Blob::TooLarge { .. } => Ok(None),
        }
    }
}

/// What lies at a place, links not followed.
fn look(place: &Path) -> Result<Found, Error> {
    match place.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Ok(Found::Folder { repository: place.join(".git").symlink_metadata().is_ok() })
        }
        Ok(_) => Ok(Found::File),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(Found::Nothing),
        Err(source) => Err(Error::File { doing: "look at", path: place.to_owned(), source }),
    }
}

fn nul_separated<'a>(paths: impl Iterator<Item = &'a RepoPath>) -> Vec<u8> {
    paths.flat_map(|path| path.as_bytes().iter().copied().chain([0])).collect()
}

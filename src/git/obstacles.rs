//! What of the user's stands in the way of landing: decided purely, from facts gathered before.
//!
//! Git's own refusal is a second line. It names one class of paths at a time, brings back a file that the user deleted,
//! and overwrites ignored files unless told otherwise. So we look first, name everything at once, and refuse more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::diff::TreeChange;
use super::objects::{Entry, ModeKind};
use crate::model::RepoPath;

/// One thing in the way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Obstacle {
    /// What is wrong with it.
    pub kind: ObstacleKind,
    /// The path that is in the way.
    pub path: RepoPath,
    /// The incoming path that it is in the way of.
    pub incoming: RepoPath,
}

/// Why a path is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObstacleKind {
    /// It has an unfinished merge.
    Unmerged,
    /// The index holds something else than `HEAD` and than what comes in.
    Staged,
    /// The file was edited, or made executable.
    Modified,
    /// The file was deleted, and git would bring it back.
    Deleted,
    /// A file that git does not know.
    Untracked,
    /// A file that the ignore rules name: it is in no commit, so overwriting it would lose it.
    Ignored,
    /// Another repository.
    NestedRepository,
    /// It is marked so that git does not look at it, and was edited.
    Hidden,
    /// Its name differs only in case, on a file system that does not tell the two apart.
    CaseOnly,
}

impl ObstacleKind {
    /// What to do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Unmerged => "finish the merge",
            Self::Staged => "commit or unstage it",
            Self::Modified => "commit it, or put it back with `git restore`",
            Self::Deleted => "commit the deletion, or put the file back with `git restore`",
            Self::Untracked | Self::Ignored | Self::NestedRepository => "move it away",
            Self::Hidden => "clear its mark with `git update-index`, then commit it or put it back",
            Self::CaseOnly => "rename one of the two",
        }
    }
}

impl fmt::Display for ObstacleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unmerged => "unmerged",
            Self::Staged => "staged",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Untracked => "untracked",
            Self::Ignored => "ignored",
            Self::NestedRepository => "a nested repository",
            Self::Hidden => "edited, but marked assume-unchanged or skip-worktree",
            Self::CaseOnly => "different in case only",
        })
    }
}

/// What lies at a path of the checkout, links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A regular file, a link, or anything else that is no folder.
    File,
    /// A folder.
    Folder {
        /// Whether it has a `.git` of its own.
        repository: bool,
    },
}

/// What the index has at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// Mode and content.
    pub entry: Entry,
    /// Whether it is one of several stages.
    pub unmerged: bool,
    /// Whether it is marked assume-unchanged or skip-worktree.
    pub marked: bool,
}

/// The facts that obstacles are decided on.
#[derive(Debug, Clone, Default)]
pub struct Scene {
    /// The index.
    pub index: BTreeMap<RepoPath, IndexEntry>,
    /// Git's letter for how a tracked file differs from the index, where it does.
    pub differing: BTreeMap<RepoPath, u8>,
    /// Marked paths whose file differs from the index all the same.
    pub altered: BTreeSet<RepoPath>,
    /// What lies at incoming paths, at the folders above them, and below where a file comes.
    pub found: BTreeMap<RepoPath, Found>,
    /// Untracked paths that the ignore rules name.
    pub ignored: BTreeSet<RepoPath>,
    /// Whether names that differ in case only are one file.
    pub folds_case: bool,
}

impl Scene {
    /// Everything in the way of `incoming`, sorted, each path once per kind.
    pub fn obstacles(&self, incoming: &[TreeChange]) -> Vec<Obstacle> {
        let coming: BTreeMap<&RepoPath, &TreeChange> = incoming.iter().map(|change| (&change.path, change)).collect();
        let folded = if self.folds_case { self.folded_index() } else { BTreeMap::new() };
        let mut obstacles = BTreeMap::new();
        if let Some(first) = incoming.first() {
            // Git updates nothing while any path is unmerged, wherever it is.
            for (path, _) in self.index.iter().filter(|(_, indexed)| indexed.unmerged) {
                let incoming = if coming.contains_key(path) { path } else { &first.path };
                obstacles.insert((ObstacleKind::Unmerged, path.clone()), incoming.clone());
            }
        }
        for change in incoming {
            let mut add = |kind, path: &RepoPath| {
                obstacles.entry((kind, path.clone())).or_insert_with(|| change.path.clone());
            };
            self.judge_tracked(change, &mut add);
            if change.new.is_some() {
                self.judge_place(change, &mut add);
                self.judge_above(change, &mut add);
                self.judge_staged_around(change, &coming, &mut add);
                for other in folded.get(&fold(&change.path)).into_iter().flatten() {
                    let leaves = coming.get(other).is_some_and(|change| change.new.is_none());
                    if **other != change.path && !leaves {
                        add(ObstacleKind::CaseOnly, other);
                    }
                }
            }
        }
        obstacles.into_iter().map(|((kind, path), incoming)| Obstacle { kind, path, incoming }).collect()
    }

    /// The incoming path itself, as the index knows it.
    fn judge_tracked(&self, change: &TreeChange, add: &mut impl FnMut(ObstacleKind, &RepoPath)) {
        let path = &change.path;
        let indexed = self.index.get(path);
        if indexed.is_some_and(|indexed| indexed.unmerged) {
            return;
        }
        let staged = indexed.map(|indexed| &indexed.entry);
        if staged != change.old.as_ref() && staged != change.new.as_ref() {
            add(ObstacleKind::Staged, path);
        }
        match self.differing.get(path) {
            None => {}
            // Both sides want it gone.
            Some(b'D') if change.new.is_none() => {}
            Some(b'D') => add(ObstacleKind::Deleted, path),
            Some(_) => add(ObstacleKind::Modified, path),
        }
        if self.altered.contains(path) {
            add(ObstacleKind::Hidden, path);
        }
    }

    /// What lies where something comes, and what lies below it.
    fn judge_place(&self, change: &TreeChange, add: &mut impl FnMut(ObstacleKind, &RepoPath)) {
        let path = &change.path;
        let is_gitlink =
            |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| entry.mode.kind() == ModeKind::Gitlink);
        match self.found.get(path) {
            None | Some(Found::Nothing) => {}
            Some(Found::File) => {
                if !self.index.contains_key(path) {
                    add(self.unknown(path), path);
                }
            }
            // Git leaves the folder of a submodule alone when only its commit changes.
            Some(Found::Folder { .. }) if is_gitlink(&change.old) && is_gitlink(&change.new) => {}
            Some(Found::Folder { repository: true }) => add(ObstacleKind::NestedRepository, path),
            Some(Found::Folder { repository: false }) => {
                let below = self
                    .found
                    .range(path.clone()..)
                    .take_while(|(other, _)| other.as_bytes().starts_with(path.as_bytes()));
                for (other, found) in below.filter(|(other, _)| other.is_below(path)) {
                    match found {
                        Found::Folder { repository: true } => add(ObstacleKind::NestedRepository, other),
                        Found::File if !self.index.contains_key(other) => add(self.unknown(other), other),
                        Found::Nothing | Found::File | Found::Folder { repository: false } => {}
                    }
                }
            }
        }
    }

    /// The folders above, which must be folders.
    fn judge_above(&self, change: &TreeChange, add: &mut impl FnMut(ObstacleKind, &RepoPath)) {
        for above in change.path.ancestors() {
            match self.found.get(&above) {
                Some(Found::Folder { repository: true }) => add(ObstacleKind::NestedRepository, &above),
                Some(Found::File) if !self.index.contains_key(&above) => add(self.unknown(&above), &above),
                None | Some(Found::Nothing | Found::File | Found::Folder { repository: false }) => {}
            }
        }
    }

    /// Tracked paths above and below, where a folder and a file cannot both be: they must leave with this landing, and
    /// then they are judged as incoming paths themselves. One that does not was only staged.
    fn judge_staged_around(
        &self,
        change: &TreeChange,
        coming: &BTreeMap<&RepoPath, &TreeChange>,
        add: &mut impl FnMut(ObstacleKind, &RepoPath),
    ) {
        let mut first_below = change.path.as_bytes().to_vec();
        first_below.push(b'/');
        let below = self.index.range(RepoPath::new(first_below)..).map(|(path, _)| path);
        let below = below.take_while(|path| path.is_below(&change.path));
        let above: Vec<RepoPath> = change.path.ancestors().filter(|above| self.index.contains_key(above)).collect();
        for path in below.chain(&above).filter(|path| !coming.contains_key(path)) {
            add(ObstacleKind::Staged, path);
        }
    }

    /// The kind of a thing that the index does not know.
    fn unknown(&self, path: &RepoPath) -> ObstacleKind {
        if self.ignored.contains(path) { ObstacleKind::Ignored } else { ObstacleKind::Untracked }
    }

    fn folded_index(&self) -> BTreeMap<Vec<u8>, Vec<&RepoPath>> {
        let mut folded: BTreeMap<Vec<u8>, Vec<&RepoPath>> = BTreeMap::new();
        for path in self.index.keys() {
            folded.entry(fold(path)).or_default().push(path);
        }
        folded
    }
}

/// A path with case taken out, as far as that can be said without knowing the file system.
fn fold(path: &RepoPath) -> Vec<u8> {
    match std::str::from_utf8(path.as_bytes()) {
        Ok(text) => text.to_lowercase().into_bytes(),
        Err(_) => path.as_bytes().to_ascii_lowercase(),
    }
}

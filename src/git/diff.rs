//! What differs between two trees.
//!
//! Always by plumbing: `git diff` obeys the user's display settings and an external diff program, `diff-tree` does not.

use super::command::{Access, Command, Output};
use super::error::Error;
use super::objects::{Entry, Mode};
use super::reader;
use super::repository::Repository;
use crate::model::{RepoPath, TreeId};

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeChange {
    /// How it differs.
    pub kind: ChangeKind,
    /// Where it is; for a rename, where it went.
    pub path: RepoPath,
    /// What stood there before; for a rename, at the old place.
    pub old: Option<Entry>,
    /// What stands there now.
    pub new: Option<Entry>,
}

/// How a path differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Its content or mode is another.
    Modified,
    /// It became another kind of thing, a link where a file was.
    TypeChanged,
    /// It came from elsewhere.
    Renamed {
        /// Where it was.
        from: RepoPath,
        /// How alike the two are, in percent.
        similarity: u8,
    },
}

/// Whether renames are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renames {
    /// No: a rename is a deletion and an addition. Exact and cheap; what decisions are made on.
    Ignore,
    /// Yes, as people like to read it. Both ends are given.
    Find,
}

/// Lines added and removed in one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineCount {
    /// The path.
    pub path: RepoPath,
    /// Lines added and removed; none for a binary file.
    pub lines: Option<(u64, u64)>,
}

impl TreeChange {
    /// The path; for a rename, the old one before it.
    pub fn paths(&self) -> impl Iterator<Item = &RepoPath> {
        let from = match &self.kind {
            ChangeKind::Renamed { from, .. } => Some(from),
            ChangeKind::Added | ChangeKind::Deleted | ChangeKind::Modified | ChangeKind::TypeChanged => None,
        };
        from.into_iter().chain([&self.path])
    }
}

impl Repository {
    /// The paths in which two trees differ, sorted by path.
    pub fn load_changes(&self, old: &TreeId, new: &TreeId, renames: Renames) -> Result<Vec<TreeChange>, Error> {
        let mut changes = match renames {
            Renames::Ignore => match self.library_changes(old, new)? {
                Some(changes) => changes,
                None => parse_raw(&self.diff_tree(old, new).args(["-r", "--raw", "--no-renames"]).success()?)?.0,
            },
            Renames::Find => parse_raw(&self.diff_tree(old, new).finding_renames(["-r", "--raw"]).success()?)?.0,
        };
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(changes)
    }

    /// The paths in which two trees differ, renames found, sorted by path, and the lines added and removed in all, as people
    /// are told them: a file that only moved adds none.
    pub fn load_summary(&self, old: &TreeId, new: &TreeId) -> Result<(Vec<TreeChange>, (u64, u64)), Error> {
        if old == new {
            return Ok((Vec::new(), (0, 0)));
        }
        let asked = self.diff_tree(old, new).finding_renames(["-r", "--raw", "--numstat", "--no-textconv"]);
        let output = asked.success()?;
        let (mut changes, counts) = parse_raw(&output)?;
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        let lines = total(counts).ok_or_else(|| Error::unparsable(output.what(), "odd numbers of lines"))?;
        Ok((changes, lines))
    }

    /// Lines added and removed, path by path, renames not looked for.
    pub fn load_line_counts(&self, old: &TreeId, new: &TreeId) -> Result<Vec<LineCount>, Error> {
        let output = self.diff_tree(old, new).args(["-r", "--numstat", "--no-renames", "--no-textconv"]).success()?;
        let odd = || Error::unparsable(output.what(), "a record is not `added<tab>removed<tab>path`");
        let record = |record: &[u8]| -> Option<LineCount> {
            let mut fields = record.splitn(3, |byte| *byte == b'\t');
            let (added, removed, path) = (fields.next()?, fields.next()?, fields.next()?);
            let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse().ok();
            let lines = if added == b"-" { None } else { Some((number(added)?, number(removed)?)) };
            Some(LineCount { path: RepoPath::new(path), lines })
        };
        let records = output.records();
        records.map(|bytes| record(bytes).ok_or_else(odd)).collect()
    }

    /// `diff-tree` between two trees, with what could hide or reorder paths pinned.
    fn diff_tree(&self, old: &TreeId, new: &TreeId) -> DiffTree {
        DiffTree {
            command: self
                .common(Access::Read, "diff-tree")
                .config("diff.orderFile", "/dev/null")
                .config("core.bigFileThreshold", "512m"),
            trees: [old.to_string(), new.to_string()],
        }
    }

    /// The same from git2, where that is the engine.
    fn library_changes(&self, old: &TreeId, new: &TreeId) -> Result<Option<Vec<TreeChange>>, Error> {
        let Some(library) = self.reader().library() else { return Ok(None) };
        let (Some(old_id), Some(new_id)) = (reader::oid(old.object()), reader::oid(new.object())) else {
            return Ok(None);
        };
        let tree = |id, name: &TreeId| library.find_tree(id).map_err(|error| reader::error(name.object(), &error));
        let (one, other) = (tree(old_id, old)?, tree(new_id, new)?);
        let mut options = git2::DiffOptions::new();
        options.include_typechange(true).ignore_submodules(false);
        let wrong = |error: git2::Error| reader::error(new.object(), &error);
        let diff = library.diff_tree_to_tree(Some(&one), Some(&other), Some(&mut options)).map_err(wrong)?;
        diff.deltas().map(|delta| library_change(&delta)).collect::<Result<_, _>>().map(Some)
    }
}

/// `diff-tree` whose trees are still to be appended.
struct DiffTree {
    command: Command,
    trees: [String; 2],
}

impl DiffTree {
    fn config(self, key: &str, value: &str) -> Self {
        Self { command: self.command.config(key, value), ..self }
    }

    fn finding_renames<const N: usize>(self, arguments: [&str; N]) -> Self {
        self.config("diff.renameLimit", "7000").args(arguments).args(["-M50%", "-l7000"])
    }

    fn args<const N: usize>(self, arguments: [&str; N]) -> Self {
        Self { command: self.command.args(arguments), ..self }
    }

    fn success(self) -> Result<Output, Error> {
        self.command
            .args(["-z", "--full-index", "--no-abbrev", "--no-ext-diff", "--ignore-submodules=none"])
            .args(self.trees)
            .success()
    }
}

fn library_change(delta: &git2::DiffDelta<'_>) -> Result<TreeChange, Error> {
    let odd = || Error::unparsable("libgit2 comparing trees", "a change without a path");
    let entry = |file: &git2::DiffFile<'_>| -> Result<Option<Entry>, Error> {
        if !file.exists() {
            return Ok(None);
        }
        let id = file.id().to_string().parse().map_err(|_| odd())?;
        Ok(Some(Entry { mode: Mode::from_bits(u32::from(file.mode())), id }))
    };
    let path = delta.new_file().path_bytes().or_else(|| delta.old_file().path_bytes()).ok_or_else(odd)?;
    let (old, new) = (entry(&delta.old_file())?, entry(&delta.new_file())?);
    let kind = kind_of(old.as_ref(), new.as_ref()).ok_or_else(odd)?;
    Ok(TreeChange { kind, path: RepoPath::new(path), old, new })
}

/// The kind of a change that is no rename, from its two ends.
fn kind_of(old: Option<&Entry>, new: Option<&Entry>) -> Option<ChangeKind> {
    match (old, new) {
        (None, None) => None,
        (None, Some(_)) => Some(ChangeKind::Added),
        (Some(_), None) => Some(ChangeKind::Deleted),
        (Some(old), Some(new)) if old.mode.kind() == new.mode.kind() => Some(ChangeKind::Modified),
        (Some(_), Some(_)) => Some(ChangeKind::TypeChanged),
    }
}

/// Adds up what `--numstat -z` says; none if it says something else.
fn total<'o>(mut records: impl Iterator<Item = &'o [u8]>) -> Option<(u64, u64)> {
    let (mut added, mut removed) = (0, 0);
    while let Some(record) = records.next().filter(|record| !record.is_empty()) {
        let fields: Vec<&[u8]> = record.splitn(3, |byte| *byte == b'\t').collect();
        let &[plus, minus, path] = fields.as_slice() else { return None };
        if path.is_empty() {
            // A rename's two paths stand behind it, in records of their own.
            records.next();
            records.next();
        }
        if plus != b"-" {
            let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
            added += number(plus)?;
            removed += number(minus)?;
        }
    }
    Some((added, removed))
}

/// Reads `--raw -z`, and gives the records that follow, of which none begins with a colon. A rename's paths come old one first.
fn parse_raw(output: &Output) -> Result<(Vec<TreeChange>, impl Iterator<Item = &[u8]>), Error> {
    let odd = |detail: &str| Error::unparsable(output.what(), detail);
    let mut fields = output.stdout.split(|byte| *byte == 0).peekable();
    let mut changes = Vec::new();
    while let Some(head) = fields.next_if(|head| head.starts_with(b":")) {
        let head = std::str::from_utf8(head).map_err(|_| odd("not UTF-8"))?;
        let parts: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let &[old_mode, new_mode, old_id, new_id, status] = parts.as_slice() else {
            return Err(odd("a record has not five fields"));
        };
        let entry = |mode: &str, id: &str| -> Result<Option<Entry>, Error> {
            let mode = Mode::parse(mode).ok_or_else(|| odd("a mode is not octal"))?;
            let id = id.parse().map_err(|_| odd("an id is not one"))?;
            Ok((mode.bits() != 0).then_some(Entry { mode, id }))
        };
        let (old, new) = (entry(old_mode, old_id)?, entry(new_mode, new_id)?);
        let mut path = || fields.next().map(RepoPath::new).ok_or_else(|| odd("a path is missing"));
        let first = path()?;
        let (kind, path) = match status.as_bytes().first() {
            Some(b'R') => {
                let similarity = status[1..].parse().map_err(|_| odd("a similarity is not a number"))?;
                (ChangeKind::Renamed { from: first, similarity }, path()?)
            }
            Some(b'A' | b'D' | b'M' | b'T') => {
                (kind_of(old.as_ref(), new.as_ref()).ok_or_else(|| odd("a change without ends"))?, first)
            }
            Some(_) | None => return Err(odd("an unknown status")),
        };
        changes.push(TreeChange { kind, path, old, new });
    }
    Ok((changes, fields))
}

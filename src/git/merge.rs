//! Merging two commits in the object database, with git's own conflict detection.
//!
//! `git merge-tree --write-tree` touches no checkout, no index and no ref. Its exit code alone says little: 1 means a
//! conflict *or* an argument it could not resolve. So a verdict needs the tree id that a real merge prints first, and a
//! conflict needs a message whose type says so; whatever else comes back is an error and leaves the matter unknown.
//!
//! What could make a conflict vanish is taken away:
//! - Merge attributes come from the *target's* tip, never from what is merged: an agent that writes `merge=union` into a
//!   `.gitattributes` must not silence its own conflict. A git without `--attr-source` gets the target's attribute files,
//!   and nothing else, in a scratch folder that plays the work tree.
//! - The user's merge drivers are commands that could answer "clean" to anything, fed with an agent's bytes, outside the
//!   sandbox. They are overridden by one that always reports a conflict.
//! - Settings that change verdicts are pinned: default driver, renormalisation, rename detection, diff algorithm.
//!
//! One process per merge. The interactive form of the command deadlocks in many of the versions we support.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::command::{Access, Command};
use super::conflict::{self, Conflict};
use super::error::Error;
use super::objects::{Blob, ModeKind};
use super::repository::Repository;
use crate::model::{CommitId, ObjectId, TreeId};
use crate::store::{Scratch, StateDir};

/// Attribute files over this size are ignored by git itself.
const ATTRIBUTES_LIMIT: u64 = 100 << 20;

/// A file over this size is not searched for markers of a conflict within a conflict.
const MARKED_LIMIT: u64 = 8 << 20;

/// How lines are compared: what git's merge uses unless told otherwise.
pub(super) const DIFF_ALGORITHM: &str = "histogram";

/// Settings that decide what a conflict is.
pub(super) const PINNED: [(&str, &str); 8] = [
    ("merge.directoryRenames", "conflict"),
    ("merge.renames", "true"),
    ("merge.renameLimit", "7000"),
    ("merge.conflictStyle", "merge"),
    ("merge.default", "text"),
    ("merge.renormalize", "false"),
    ("diff.algorithm", DIFF_ALGORITHM),
    ("merge.verbosity", "2"),
];

/// What merging two commits would give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preview {
    /// They merge; this is the tree.
    Clean {
        /// The merged tree.
        tree: TreeId,
    },
    /// They do not.
    Conflict(Conflict),
}

/// How merge attributes are kept to the target's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeSource {
    /// Git reads them from the target's tree.
    Tree,
    /// They were written into a scratch folder, since this git cannot.
    Scratch,
}

/// Previews merges for one target. Make a new one when the target moves.
#[derive(Debug)]
pub struct Merger {
    repository: Repository,
    target: CommitId,
    drivers: Vec<OsString>,
    scratch: Option<Scratch>,
}

impl Merger {
    /// A merger that takes merge attributes from `target`, the tip of the branch that the result is meant for.
    pub fn new(repository: &Repository, target: &CommitId) -> Result<Self, Error> {
        let wanted = if repository.git().has_attr_source() { AttributeSource::Tree } else { AttributeSource::Scratch };
        Self::with_source(repository, target, wanted)
    }

    /// As [`Self::new`], with the way to keep the attributes given instead of chosen.
    pub fn with_source(repository: &Repository, target: &CommitId, source: AttributeSource) -> Result<Self, Error> {
        let scratch = match source {
            AttributeSource::Tree => None,
            AttributeSource::Scratch => Some(export_attributes(repository, target)?),
        };
        Ok(Self {
            repository: repository.clone(),
            target: target.clone(),
            drivers: merge_drivers(repository)?,
            scratch,
        })
    }

    /// How merge attributes are kept to the target's.
    pub fn source(&self) -> AttributeSource {
        if self.scratch.is_some() { AttributeSource::Scratch } else { AttributeSource::Tree }
    }

    /// Merges `theirs` into `ours` without touching anything but the object database. Keep the order fixed: `ours` is the
    /// candidate so far, `theirs` what is added.
    pub fn preview(&self, ours: &CommitId, theirs: &CommitId) -> Result<Preview, Error> {
        let output = self.command().args(["--write-tree", "-z", "--messages", ours.as_str(), theirs.as_str()]).run()?;
        match (output.code(), output.stdout.is_empty()) {
            (Some(0), false) => {
                let first = output.stdout.split(|byte| *byte == 0).next().unwrap_or_default();
                let tree = std::str::from_utf8(first).ok().and_then(|text| text.trim_end().parse().ok());
                let tree = tree.ok_or_else(|| Error::unparsable(output.what(), "no tree id"))?;
                Ok(Preview::Clean { tree })
            }
            (Some(1), false) => {
                let mut conflict = conflict::parse(&output.stdout, [ours, theirs])
                    .map_err(|detail| Error::unparsable(output.what(), detail))?;
                let unnamed = self.load_unnamed(&conflict, [ours, theirs])?;
                conflict.disregard_names(&unnamed);
                Ok(Preview::Conflict(conflict))
            }
            // Exit 1 without a tree is an argument that names nothing, not a conflict.
            (Some(_) | None, _) => Err(output.failure()),
        }
    }

    /// Sides of a conflict that are no file of either commit: where a renamed file meets another and is in conflict itself, its
    /// side is a text with markers. They bear the names of the commits, which are taken out here.
    fn load_unnamed(&self, conflict: &Conflict, labels: [&CommitId; 2]) -> Result<BTreeMap<ObjectId, Vec<u8>>, Error> {
        let mut unnamed = BTreeMap::new();
        if !conflict.messages.iter().any(|message| message.kind.contains("rename")) {
            return Ok(unnamed);
        }
        for stage in conflict.stages.iter().filter(|stage| stage.entry.mode.kind() == ModeKind::File) {
            let Blob::Whole(text) = self.repository.load_blob(&stage.entry.id, MARKED_LIMIT)? else { continue };
            if let Some(text) = conflict::without_labels(&text, labels) {
                unnamed.insert(stage.entry.id.clone(), text);
            }
        }
        Ok(unnamed)
    }

    fn command(&self) -> Command {
        let git = self.repository.git();
        let common = self.repository.common_dir();
        let mut command = Command::new(git, Access::Write, "merge-tree").git_dir(common);
        command = match &self.scratch {
            None => command.folder(common).global(format!("--attr-source={}", self.target)),
            Some(scratch) => command.folder(scratch.path()).work_tree(scratch.path()),
        };
        for (key, value) in PINNED {
            command = command.config(key, value);
        }
        for driver in &self.drivers {
            command = command.config(driver, "false");
        }
        command
    }
}

/// The keys of the merge drivers that are configured now.
pub(super) fn merge_drivers(repository: &Repository) -> Result<Vec<OsString>, Error> {
    let output = repository
        .common(Access::Read, "config")
        .args(["-z", "--name-only", "--get-regexp", r"^merge\..*\.driver$"])
        .run()?;
    match output.code() {
        Some(0) => {
            let names = output.records();
            Ok(names.map(|name| OsString::from_vec(name.to_vec())).collect())
        }
        Some(1) => Ok(Vec::new()),
        Some(_) | None => Err(output.failure()),
    }
}

/// Writes the attribute files of a commit, and nothing else, into a new folder.
fn export_attributes(repository: &Repository, target: &CommitId) -> Result<Scratch, Error> {
    let scratch = Scratch::below(&StateDir::in_common_dir(repository.common_dir()).scratch(), "attributes")?;
    let tree = repository.load_commit(target)?.tree;
    for (path, entry) in repository.load_tree(&tree)? {
        // Git does not follow an attribute file that is a link, and no path in a sound tree leads out of it.
        let inside =
            path.components().all(|part| !matches!(part, b"" | b"." | b"..") && !part.eq_ignore_ascii_case(b".git"));
        if path.file_name() != b".gitattributes" || entry.mode.kind() != ModeKind::File || !inside {
            continue;
        }
        match repository.load_blob(&entry.id, ATTRIBUTES_LIMIT)? {
            Blob::Whole(bytes) => write_new(&path.under(scratch.path()), &bytes)?,
            Blob::TooLarge { size } => {
                tracing::debug!(%path, size, "an attribute file is too large, git ignores it too");
            }
        }
    }
    Ok(scratch)
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(bytes)).map_err(Error::file("write", path))
}

/// The merge attributes that the user's own files set, `info/attributes` and `core.attributesFile`: they apply to every
/// merge, and `doctor` lists them. Gives the lines that mention `merge`.
pub fn load_user_attributes(repository: &Repository) -> Result<Vec<String>, Error> {
    let mut files = vec![repository.common_dir().join("info/attributes")];
    let configured =
        repository.common(Access::Read, "config").args(["--type=path", "--get", "core.attributesFile"]).run()?;
    if configured.status.success() {
        files.push(configured.path());
    }
    let mut lines = Vec::new();
    for file in files {
        match std::fs::read(&file) {
            Ok(bytes) => lines.extend(attribute_lines(&bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::File { doing: "read", path: file, source }),
        }
    }
    Ok(lines)
}

fn attribute_lines(bytes: &[u8]) -> impl Iterator<Item = String> {
    let names_merge = |word: &[u8]| {
        let name = word.strip_prefix(b"-").or_else(|| word.strip_prefix(b"!")).unwrap_or(word);
        name == b"merge" || name == b"binary" || name.starts_with(b"merge=")
    };
    bytes
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.starts_with(b"#"))
        .filter(move |line| line.split(u8::is_ascii_whitespace).skip(1).any(names_merge))
        .map(|line| OsStr::from_bytes(line).to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_lines_that_steer_merges() {
        let text = b"*.x merge=union\n# a merge=union\n*.y text\n *.z -merge eol=lf\nmerge text\n*.bin binary\n";
        assert_eq!(attribute_lines(text).collect::<Vec<_>>(), ["*.x merge=union", "*.z -merge eol=lf", "*.bin binary"]);
    }
}

//! What a tree may hold that must not be merged unseen, whoever owns the path.
//!
//! Looked for in the object database, never in the files. Git itself, on receiving the objects, has already refused trees
//! with a `.git` entry, broken objects and dangerous `.gitmodules`; this is about what git allows.

use std::collections::{BTreeMap, BTreeSet};

use crate::git::{ModeKind, TreeChange};
use crate::model::{ObjectId, RepoPath};

/// Something to be told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// Where.
    pub path: RepoPath,
    /// In a line for people.
    pub text: String,
}

/// The kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// A repository inside the tree: only the name of a commit is recorded, the files are not.
    Gitlink,
    /// The files of a bare repository, in which git would run commands of its configuration.
    EmbeddedRepository,
    /// Two names that are one on other file systems.
    Collision,
    /// A link that leads out of the tree.
    OutwardLink,
}

impl FindingKind {
    /// Whether it holds the merge until a person has decided.
    pub fn holds(self) -> bool {
        match self {
            Self::Gitlink | Self::EmbeddedRepository | Self::Collision => true,
            Self::OutwardLink => false,
        }
    }
}

/// Looks through what changed since the fork point (renames not looked for). `target_of` reads a link's target; `present`
/// are the paths of the whole new tree.
pub fn findings<'p>(
    changes: &[TreeChange],
    target_of: impl Fn(&ObjectId) -> Option<Vec<u8>>,
    present: impl IntoIterator<Item = &'p RepoPath>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for change in changes {
        let Some(entry) = &change.new else { continue };
        match entry.mode.kind() {
            ModeKind::Gitlink => found.push(Finding {
                kind: FindingKind::Gitlink,
                path: change.path.clone(),
                text: format!("`{}` is a repository of its own: its files are not in the commit", change.path),
            }),
            ModeKind::Symlink => {
                if let Some(target) = target_of(&entry.id).filter(|target| leads_out(&change.path, target)) {
                    let shown = RepoPath::new(target);
                    found.push(Finding {
                        kind: FindingKind::OutwardLink,
                        path: change.path.clone(),
                        text: format!("`{}` is a link out of the tree, to `{shown}`", change.path),
                    });
                }
            }
            ModeKind::File | ModeKind::Tree => {}
        }
    }
    found.extend(embedded_repositories(changes));
    found.extend(collisions(changes, present));
    found
}

/// Folders to which a `HEAD` and something below `objects` or `refs` were added.
fn embedded_repositories(changes: &[TreeChange]) -> Vec<Finding> {
    let mut heads: BTreeSet<&[u8]> = BTreeSet::new();
    let mut insides: BTreeSet<&[u8]> = BTreeSet::new();
    for change in changes.iter().filter(|change| change.new.is_some()) {
        let path = change.path.as_bytes();
        if let Some(folder) = path.strip_suffix(b"HEAD") {
            heads.insert(folder);
        }
        for marker in [&b"objects/"[..], b"refs/"] {
            for at in find_all(path, marker) {
                insides.insert(&path[..at]);
            }
        }
    }
    let embedded = heads.intersection(&insides).filter(|folder| folder.is_empty() || folder.ends_with(b"/"));
    embedded
        .map(|folder| {
            let path = RepoPath::new(folder.strip_suffix(b"/").unwrap_or(folder));
            let text = format!("`{path}` has the files of a bare repository: git would obey its configuration there");
            Finding { kind: FindingKind::EmbeddedRepository, path, text }
        })
        .collect()
}

fn find_all<'p>(path: &'p [u8], marker: &'p [u8]) -> impl Iterator<Item = usize> + 'p {
    let starts_part = |at: &usize| *at == 0 || path[at - 1] == b'/';
    (0..path.len()).filter(move |at| path[*at..].starts_with(marker)).filter(starts_part)
}

fn collisions<'p>(changes: &[TreeChange], present: impl IntoIterator<Item = &'p RepoPath>) -> Vec<Finding> {
    let added: BTreeSet<&RepoPath> =
        changes.iter().filter(|change| change.old.is_none()).map(|change| &change.path).collect();
    if added.is_empty() {
        return Vec::new();
    }
    let mut folded: BTreeMap<String, Vec<&RepoPath>> = BTreeMap::new();
    for path in present {
        folded.entry(path.to_string_lossy().to_lowercase()).or_default().push(path);
    }
    let mut found = Vec::new();
    for paths in folded.values().filter(|paths| paths.len() > 1) {
        for path in paths.iter().filter(|path| added.contains(*path)) {
            if let Some(other) = paths.iter().find(|other| *other != path) {
                found.push(Finding {
                    kind: FindingKind::Collision,
                    path: (*path).clone(),
                    text: format!("`{path}` and `{other}` are one file where case does not count"),
                });
            }
        }
    }
    found
}

/// Whether a link at `path` with this target leads out of the tree.
fn leads_out(path: &RepoPath, target: &[u8]) -> bool {
    if target.starts_with(b"/") {
        return true;
    }
    let mut depth = path.components().count() - 1;
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::{ChangeKind, Entry, Mode};
    use crate::model::ObjectFormat;

    fn added(path: &str, mode: Mode) -> TreeChange {
        let entry = Entry { mode, id: ObjectFormat::Sha1.zero() };
        TreeChange { kind: ChangeKind::Added, path: path.into(), old: None, new: Some(entry) }
    }

    fn kinds(changes: &[TreeChange], target: &str, present: &[&str]) -> Vec<(FindingKind, String)> {
        let present: Vec<RepoPath> = present.iter().map(|path| RepoPath::from(*path)).collect();
        let found = findings(changes, |_| Some(target.as_bytes().to_vec()), &present);
        found.into_iter().map(|finding| (finding.kind, finding.path.to_string())).collect()
    }

    #[test]
    fn links() {
        for (path, target, out) in [
            ("a/l", "b", false),
            ("a/l", "../b", false),
            ("a/l", "../../b", true),
            ("l", "..", true),
            ("l", "/etc/passwd", true),
            ("a/b/l", "./../../c", false),
            ("a/l", "x/../../../y", true),
        ] {
            assert_eq!(!kinds(&[added(path, Mode::SYMLINK)], target, &[]).is_empty(), out, "{path} -> {target}");
        }
    }

    #[test]
    fn repositories() {
        assert_eq!(kinds(&[added("sub", Mode::GITLINK)], "", &[]), [(FindingKind::Gitlink, "sub".to_owned())]);
        let bare = ["x/bare/HEAD", "x/bare/objects/aa/bb", "x/bare/config"].map(|path| added(path, Mode::FILE));
        assert_eq!(kinds(&bare, "", &[]), [(FindingKind::EmbeddedRepository, "x/bare".to_owned())]);
        let innocent = ["x/HEAD", "y/objects/a", "docs/refs/x", "AHEAD"].map(|path| added(path, Mode::FILE));
        assert_eq!(kinds(&innocent, "", &[]), []);
    }

    #[test]
    fn names_that_collide() {
        let changes = [added("src/A.rs", Mode::FILE)];
        assert_eq!(
            kinds(&changes, "", &["src/a.rs", "src/A.rs", "old/B", "old/b"]),
            [(FindingKind::Collision, "src/A.rs".to_owned())]
        );
    }
}

//! What a tree may hold that must not be merged unseen, whoever owns the path.
//!
//! Looked for in the object database, never in the files. Git itself, on receiving the objects, has already refused trees
//! with a `.git` entry, broken objects and dangerous `.gitmodules`; this is about what git allows.

use std::collections::{BTreeMap, BTreeSet};

use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;

use crate::git::{Entry, ModeKind, TreeChange};
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
    /// The change, where all of it is what was found.
    pub change: Option<TreeChange>,
}

/// The kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// A repository inside the tree: only the name of a commit is recorded, the files are not.
    Gitlink,
    /// A submodule that came, went, or is at another commit: what is there then is decided elsewhere, and seen by nobody here.
    Submodule,
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
            Self::Gitlink | Self::Submodule | Self::EmbeddedRepository | Self::Collision => true,
            Self::OutwardLink => false,
        }
    }
}

/// Looks through what changed since the fork point (renames not looked for). `target_of` reads a link's target; `present`
/// are the paths of the whole new tree, `named` those that its `.gitmodules` names.
pub fn findings<'p>(
    changes: &'p [TreeChange],
    target_of: impl Fn(&ObjectId) -> Option<Vec<u8>>,
    present: impl IntoIterator<Item = &'p RepoPath> + Clone,
    named: &BTreeSet<RepoPath>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for change in changes {
        if is_submodule(change, named) {
            found.push(Finding {
                kind: FindingKind::Submodule,
                path: change.path.clone(),
                text: submodule_text(change),
                change: Some(change.clone()),
            });
        }
        let Some(entry) = &change.new else { continue };
        match entry.mode.kind() {
            ModeKind::Gitlink if is_submodule(change, named) => {}
            ModeKind::Gitlink => found.push(Finding {
                kind: FindingKind::Gitlink,
                path: change.path.clone(),
                text: format!("`{}` is a repository of its own: its files are not in the commit", change.path),
                change: None,
            }),
            ModeKind::Symlink => {
                if let Some(target) = target_of(&entry.id).filter(|target| leads_out(&change.path, target)) {
                    let shown = RepoPath::new(target);
                    found.push(Finding {
                        kind: FindingKind::OutwardLink,
                        path: change.path.clone(),
                        text: format!("`{}` is a link out of the tree, to `{shown}`", change.path),
                        change: None,
                    });
                }
            }
            ModeKind::File | ModeKind::Tree => {}
        }
    }
    found.extend(embedded_repositories(changes, present.clone()));
    found.extend(collisions(changes, present));
    found
}

/// Whether a change is one of a submodule: of what was one, or of what `.gitmodules` names as one. Any other repository is
/// one that was left lying there.
pub fn is_submodule(change: &TreeChange, named: &BTreeSet<RepoPath>) -> bool {
    is_gitlink(change.old.as_ref()) || (is_gitlink(change.new.as_ref()) && named.contains(&change.path))
}

/// Whether a change brings a repository inside of which nothing but [`is_submodule`] tells whether it is a submodule.
pub fn is_new_gitlink(change: &TreeChange) -> bool {
    is_gitlink(change.new.as_ref()) && !is_gitlink(change.old.as_ref())
}

fn is_gitlink(entry: Option<&Entry>) -> bool {
    entry.is_some_and(|entry| match entry.mode.kind() {
        ModeKind::Gitlink => true,
        ModeKind::File | ModeKind::Symlink | ModeKind::Tree => false,
    })
}

fn submodule_text(change: &TreeChange) -> String {
    let path = &change.path;
    let kind = |entry: &Entry| match entry.mode.kind() {
        ModeKind::Gitlink => "a submodule",
        ModeKind::File => "a file",
        ModeKind::Symlink => "a link",
        ModeKind::Tree => "a folder",
    };
    match (&change.old, &change.new) {
        (Some(old), Some(new)) if is_gitlink(Some(old)) && is_gitlink(Some(new)) => {
            format!("the submodule `{path}` was at {} and is at {}", old.id, new.id)
        }
        (Some(old), Some(new)) if is_gitlink(Some(old)) => {
            format!("the submodule `{path}` was at {} and is {} now", old.id, kind(new))
        }
        (Some(old), Some(new)) => format!("`{path}` was {} and is a submodule now, at {}", kind(old), new.id),
        (Some(old), None) => format!("the submodule `{path}` was at {} and is gone", old.id),
        (None, Some(new)) => format!("the submodule `{path}` is new, at {}", new.id),
        (None, None) => format!("the submodule `{path}`"),
    }
}

/// Folders that git takes for a bare repository in the new tree, and in which a part of it was added or changed.
///
/// *Why the whole tree, and parts of any kind?* The parts may come one by one, with what was there before, and git is content
/// with links to folders, or with a `commondir` that names another place for the rest.
fn embedded_repositories<'p>(
    changes: &'p [TreeChange],
    present: impl IntoIterator<Item = &'p RepoPath>,
) -> Vec<Finding> {
    let touched: BTreeSet<&[u8]> = changes
        .iter()
        .filter(|change| change.new.is_some())
        .flat_map(|change| repository_parts(&change.path))
        .map(|(folder, _)| folder)
        .collect();
    if touched.is_empty() {
        return Vec::new();
    }
    let (mut heads, mut others): (BTreeSet<&[u8]>, BTreeSet<&[u8]>) = Default::default();
    let new = changes.iter().filter(|change| change.new.is_some()).map(|change| &change.path);
    for (folder, part) in present.into_iter().chain(new).flat_map(repository_parts) {
        match part {
            Part::Head => heads.insert(folder),
            Part::Store => others.insert(folder),
            Part::Settings => false,
        };
    }
    let embedded = heads.intersection(&others).filter(|folder| touched.contains(*folder));
    embedded
        .map(|folder| {
            let path = RepoPath::new(folder.strip_suffix(b"/").unwrap_or(folder));
            let text = format!("`{path}` has the files of a bare repository: git would obey its configuration there");
            Finding { kind: FindingKind::EmbeddedRepository, path, text, change: None }
        })
        .collect()
}

/// What an entry of a folder is to a bare repository there.
enum Part {
    Head,
    /// Where its objects and refs are.
    Store,
    Settings,
}

/// Whether the name of a path's part alone makes it matter to [`embedded_repositories`].
pub fn is_repository_part(path: &RepoPath) -> bool {
    repository_parts(path).next().is_some()
}

/// The folders, with the slash at their end, in which `path` would be a part of a bare repository.
fn repository_parts(path: &RepoPath) -> impl Iterator<Item = (&[u8], Part)> {
    let path = path.as_bytes();
    let starts = std::iter::once(0).chain((0..path.len()).filter(|at| path[*at] == b'/').map(|at| at + 1));
    starts.filter_map(move |start| {
        let rest = &path[start..];
        let end = rest.iter().position(|byte| *byte == b'/');
        let part = match (&rest[..end.unwrap_or(rest.len())], end) {
            (b"HEAD", None) => Part::Head,
            (b"objects" | b"refs", _) | (b"commondir", None) => Part::Store,
            (b"config", None) => Part::Settings,
            _ => return None,
        };
        Some((&path[..start], part))
    })
}

fn collisions<'p>(changes: &[TreeChange], present: impl IntoIterator<Item = &'p RepoPath>) -> Vec<Finding> {
    let added: BTreeSet<&RepoPath> =
        changes.iter().filter(|change| change.old.is_none()).map(|change| &change.path).collect();
    if added.is_empty() {
        return Vec::new();
    }
    let mut by_fold: BTreeMap<Vec<u8>, Vec<&RepoPath>> = BTreeMap::new();
    for path in present {
        by_fold.entry(folded(path.as_bytes())).or_default().push(path);
    }
    let mut found = Vec::new();
    for paths in by_fold.values().filter(|paths| paths.len() > 1) {
        for path in paths.iter().filter(|path| added.contains(*path)) {
            if let Some(other) = paths.iter().find(|other| *other != path) {
                // They may look the same.
                let why = if composed(path).is_some_and(|name| composed(other) == Some(name)) {
                    "however its letters are put together"
                } else {
                    "where case does not count"
                };
                found.push(Finding {
                    kind: FindingKind::Collision,
                    path: (*path).clone(),
                    text: format!("`{path}` and `{other}` are one file {why}"),
                    change: None,
                });
            }
        }
    }
    found
}

/// What names have in common that are one where case does not count, or where the same letter may be written in several
/// ways. A name that is not UTF-8 has no letters but those of ASCII: two such names differ if their other bytes do.
fn folded(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(name) if name.is_ascii() => name.to_ascii_lowercase().into_bytes(),
        // Unicode's canonical caseless matching (D145): what is folded may be composed in another way than before.
        Ok(name) => name.nfd().default_case_fold().nfc().collect::<String>().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
    }
}

/// The name with each letter in one piece, where it is text.
fn composed(path: &RepoPath) -> Option<String> {
    std::str::from_utf8(path.as_bytes()).ok().map(|name| name.nfc().collect())
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
    use crate::git::{ChangeKind, Mode};
    use crate::model::ObjectFormat;

    fn added(path: &str, mode: Mode) -> TreeChange {
        let entry = Entry { mode, id: ObjectFormat::Sha1.zero() };
        TreeChange { kind: ChangeKind::Added, path: path.into(), old: None, new: Some(entry) }
    }

    fn kinds(changes: &[TreeChange], target: &str, present: &[&str]) -> Vec<(FindingKind, String)> {
        let present: Vec<RepoPath> = present.iter().map(|path| RepoPath::from(*path)).collect();
        let found = findings(changes, |_| Some(target.as_bytes().to_vec()), &present, &BTreeSet::new());
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
        let found = [(FindingKind::EmbeddedRepository, "x".to_owned())];
        // Links instead of folders; a `commondir` instead of both.
        let links = [added("x/HEAD", Mode::FILE), added("x/objects", Mode::SYMLINK), added("x/refs", Mode::SYMLINK)];
        assert_eq!(kinds(&links, "../y", &[]), found);
        let apart = ["x/HEAD", "x/commondir", "y/objects/a", "y/refs/a"].map(|path| added(path, Mode::FILE));
        assert_eq!(kinds(&apart, "", &[]), found);
        // The rest was there before.
        for last in ["x/HEAD", "x/objects/a", "x/refs", "x/config"] {
            let present = ["x/HEAD", "x/objects/a", "x/refs/b", "x/config"];
            assert_eq!(kinds(&[added(last, Mode::FILE)], "", &present), found, "{last}");
            assert_eq!(kinds(&[added("x/other", Mode::FILE)], "", &present), [], "fixtures nobody touched");
        }
    }

    /// What stood and stands at a path, whether `.gitmodules` names it, and what is said of it.
    type Row<'r> = (Option<Entry>, Option<Entry>, bool, &'r [FindingKind], String);

    #[test]
    fn submodules() {
        use FindingKind::{Gitlink, OutwardLink, Submodule};
        let entry = |mode, digit: &str| Some(Entry { mode, id: digit.repeat(40).parse().unwrap() });
        let (link, file) = (|digit| entry(Mode::GITLINK, digit), || entry(Mode::FILE, "f"));
        let [one, two] = ["1", "2"].map(|digit| digit.repeat(40));
        let table: [Row<'_>; 11] = [
            (link("1"), link("2"), true, &[Submodule], format!("was at {one} and is at {two}")),
            (link("1"), link("2"), false, &[Submodule], format!("was at {one} and is at {two}")),
            (link("1"), None, true, &[Submodule], format!("was at {one} and is gone")),
            (link("1"), None, false, &[Submodule], format!("was at {one} and is gone")),
            (link("1"), file(), false, &[Submodule], format!("was at {one} and is a file now")),
            (link("1"), entry(Mode::SYMLINK, "f"), true, &[Submodule, OutwardLink], "and is a link now".to_owned()),
            (None, link("2"), true, &[Submodule], format!("is new, at {two}")),
            (file(), link("2"), true, &[Submodule], format!("was a file and is a submodule now, at {two}")),
            (None, link("2"), false, &[Gitlink], "is a repository of its own".to_owned()),
            (file(), link("2"), false, &[Gitlink], "is a repository of its own".to_owned()),
            (file(), None, true, &[], String::new()),
        ];
        for (old, new, is_named, expected, text) in table {
            let change = TreeChange { kind: ChangeKind::Modified, path: "sub".into(), old, new };
            let named = is_named.then(|| RepoPath::from("sub")).into_iter().collect();
            let changes = [change.clone()];
            let found = findings(&changes, |_| Some(b"/out".to_vec()), &[], &named);
            assert_eq!(found.iter().map(|it| it.kind).collect::<Vec<_>>(), expected, "{change:?}");
            assert!(found.first().is_none_or(|it| it.text.contains(&text)), "{found:?}");
            let own = found.iter().find(|it| it.kind == Submodule).map(|it| it.change.clone());
            assert_eq!(own, expected.contains(&Submodule).then_some(Some(change)));
            assert!(found.iter().all(|it| it.kind.holds() || it.kind == OutwardLink));
        }
    }

    #[test]
    fn names_that_collide() {
        let changes = [added("src/A.rs", Mode::FILE)];
        assert_eq!(
            kinds(&changes, "", &["src/a.rs", "src/A.rs", "old/B", "old/b"]),
            [(FindingKind::Collision, "src/A.rs".to_owned())]
        );
        let table: [(&[u8], &[u8], Option<&str>); 14] = [
            (b"Readme", b"README", Some("case")),
            ("\u{c9}t\u{e9}".as_bytes(), "\u{e9}t\u{e9}".as_bytes(), Some("case")),
            ("caf\u{e9}".as_bytes(), "cafe\u{301}".as_bytes(), Some("letters")),
            ("CAF\u{c9}".as_bytes(), "cafe\u{301}".as_bytes(), Some("case")),
            ("stra\u{df}e".as_bytes(), "STRASSE".as_bytes(), Some("case")),
            ("\u{3b1}\u{3c3}".as_bytes(), "\u{3b1}\u{3c2}".as_bytes(), Some("case")),
            ("\u{1100}\u{1161}".as_bytes(), "\u{ac00}".as_bytes(), Some("letters")),
            // Letters that only look alike are others.
            ("caf\u{e9}".as_bytes(), b"cafe", None),
            ("\u{430}".as_bytes(), b"a", None),
            ("\u{fb01}".as_bytes(), b"fi", Some("case")),
            // What is not UTF-8 is bytes, and only those of ASCII have a case.
            (b"docs-\xfe", b"docs-\xfd", None),
            (b"Docs-\xfe", b"docs-\xfe", Some("case")),
            (b"docs-\xfe", "docs-\u{fffd}".as_bytes(), None),
            (b"docs-\xc9", b"docs-\xe9", None),
        ];
        for (new, known, why) in table {
            let present = [RepoPath::new(known), RepoPath::new(new)];
            let change = TreeChange { path: present[1].clone(), ..added("x", Mode::FILE) };
            let found = findings(&[change], |_| None, &present, &BTreeSet::new());
            let context = format!("{} beside {}", new.escape_ascii(), known.escape_ascii());
            assert_eq!(found.len(), usize::from(why.is_some()), "{context}: {found:?}");
            assert!(found.iter().all(|it| it.text.contains(why.unwrap_or_default())), "{context}: {found:?}");
        }
    }
}

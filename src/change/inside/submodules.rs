//! Submodules, of which the disk cannot tell.
//!
//! A submodule is an empty folder in a worktree, and git takes one whose folder is gone for one that was taken out. So where
//! neither a repository nor a file stands there, the snapshot has what the agent's index says: the commit it names, or that
//! the submodule is gone. *Why believe the index here?* It names a commit of elsewhere and no content, whoever says so, and
//! a person looks at every change of it. To be silent about it would lose what the agent did.
//!
//! A repository that was made in the worktree and is neither the fork point's nor named by `.gitmodules` is a thing of the
//! disk: once its folder is gone it is gone, like a file.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::files::is_plain;
use super::history::read_plain;
use super::index::{GITLINK, Index, index_line};
use super::listed::{Links, Listing};
use super::{Capture, Result};
use crate::git::{Access, CachedEntry, Input, Output, named_submodules};

/// The longest file that leads to a git directory, in bytes.
const LINK_MAX: u64 = 8 << 10;

/// What lies at the path of a submodule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lies {
    /// Nothing at all.
    Nothing,
    /// A folder in which git would find no commit.
    Folder,
    /// A repository at a commit.
    Repository,
    /// A file, or another thing that is no folder.
    Other,
}

/// What the agent's index says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says<'a> {
    /// It is at this commit.
    At(&'a str),
    /// There is none.
    Gone,
    /// That cannot be told.
    Nothing,
}

/// What is known of a path.
#[derive(Debug, Clone, Copy)]
struct Facts<'a> {
    lies: Lies,
    says: Says<'a>,
    /// The commit that stands there as git staged it.
    staged: Option<&'a str>,
    /// The commit that stood there in the snapshot before, where that was looked for.
    before: Option<&'a str>,
}

/// What is to stand there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted<'a> {
    /// What git staged.
    AsStaged,
    /// This commit.
    At(&'a str),
    /// Nothing.
    Nothing,
}

/// The table. `is_known`: whether it is a submodule, and not just a repository that once lay there.
fn wanted(facts: Facts<'_>, is_known: impl FnOnce() -> Result<bool>) -> Result<Wanted<'_>> {
    match facts.lies {
        Lies::Repository | Lies::Other => return Ok(Wanted::AsStaged),
        Lies::Folder | Lies::Nothing => {}
    }
    Ok(match (facts.says, facts.staged) {
        (Says::At(said), Some(staged)) if said == staged => Wanted::AsStaged,
        (Says::At(_), None) if facts.lies == Lies::Nothing && !is_known()? => Wanted::AsStaged,
        (Says::At(said), Some(_) | None) => Wanted::At(said),
        (Says::Gone, Some(_)) => Wanted::Nothing,
        (Says::Nothing, None) => facts.before.map_or(Wanted::AsStaged, Wanted::At),
        (Says::Gone, None) | (Says::Nothing, Some(_)) => Wanted::AsStaged,
    })
}

impl Capture<'_> {
    /// Submodules that were filled in the agent's box, where their git directories lie: git fails at what leads to one that
    /// is not there. `entries` are those of the capture's own index.
    pub(super) fn out_of_reach(&self, listing: &Listing, entries: &[CachedEntry]) -> Vec<Vec<u8>> {
        let said = match listing {
            Listing::Of(entries) => Links::of(entries).at,
            Listing::Absent | Listing::Unreadable => BTreeMap::new(),
        };
        let is_odd = |path: &[u8]| {
            let leads = self.request.worktree.join(OsStr::from_bytes(path)).join(".git");
            leads.symlink_metadata().is_ok_and(|found| found.is_file())
                && lies_at(&self.request.worktree, path) == Lies::Folder
        };
        let own = entries.iter().filter(|entry| entry.mode == GITLINK && is_odd(&entry.path));
        let mut found: Vec<Vec<u8>> = own.map(|entry| entry.path.clone()).collect();
        let new: Vec<Vec<u8>> = said.into_keys().filter(|path| is_plain(path) && is_odd(path)).collect();
        if !new.is_empty() {
            // Whose files are in the snapshot already is looked into like any other folder.
            let tracked: BTreeSet<&[u8]> = entries.iter().map(|entry| entry.path.as_slice()).collect();
            found.extend(
                new.into_iter().filter(|path| !tracked.contains(path.as_slice()) && !is_crossed(path, &tracked)),
            );
        }
        found
    }

    /// Gives each submodule the place in the index that it is to have. What cannot be recorded is named in a line.
    /// `has_staged`: whether git staged any.
    pub(super) fn settle_submodules(&self, listing: &Listing, has_staged: bool) -> Result<Option<String>> {
        let links = match listing {
            Listing::Of(entries) => Links::of(entries),
            Listing::Absent | Listing::Unreadable => Links::default(),
        };
        let is_unsure = !matches!(listing, Listing::Of(_)) || !links.unsure.is_empty();
        let before = if is_unsure { self.links_of(self.request.previous_tree.as_str())? } else { BTreeMap::default() };
        if !has_staged && links.at.is_empty() && before.is_empty() {
            return Ok(None);
        }
        let Some(index) = Index::load(&self.index(), self.id_length()) else { return Ok(None) };
        let of_staged = index.entries.iter().filter(|entry| entry.mode == GITLINK);
        let staged: BTreeMap<&[u8], &str> = of_staged.map(|entry| (entry.path.as_slice(), entry.id.as_str())).collect();
        let paths: BTreeSet<&[u8]> =
            links.at.keys().chain(before.keys()).map(Vec::as_slice).chain(staged.keys().copied()).collect();
        let known = OnceCell::new();
        let (mut gone, mut set) = (BTreeSet::new(), Vec::new());
        for path in paths.into_iter().filter(|path| is_plain(path)) {
            let says = match (links.at.get(path), listing) {
                (Some(id), _) => Says::At(id),
                (None, Listing::Of(_)) if !links.unsure.contains(path) => Says::Gone,
                (None, Listing::Of(_) | Listing::Absent | Listing::Unreadable) => Says::Nothing,
            };
            let facts = Facts {
                lies: lies_at(&self.request.worktree, path),
                says,
                staged: staged.get(path).copied(),
                before: before.get(path).map(String::as_str),
            };
            let is_known = || {
                if known.get().is_none() {
                    drop(known.set(self.known_submodules()?));
                }
                Ok(known.get().is_some_and(|known: &BTreeSet<Vec<u8>>| known.contains(path)))
            };
            match wanted(facts, is_known)? {
                Wanted::AsStaged => {}
                Wanted::At(id) => set.push((path, id)),
                Wanted::Nothing => {
                    gone.insert(path);
                }
            }
        }
        if gone.is_empty() && set.is_empty() {
            return Ok(None);
        }
        let stays = index.entries.iter().map(|entry| entry.path.as_slice()).filter(|path| !gone.contains(path));
        let mut taken: BTreeSet<&[u8]> = stays.collect();
        set.retain(|(path, _)| {
            // Files that lie in its place, or around it, are what is kept.
            let has_room = staged.contains_key(path) || !(taken.contains(path) || is_crossed(path, &taken));
            if has_room {
                taken.insert(path);
            }
            has_room
        });
        let zero = "0".repeat(self.request.previous.as_str().len());
        let mut list: Vec<u8> = gone.iter().flat_map(|path| index_line("0", &zero, path)).collect();
        list.extend(set.iter().flat_map(|(path, id)| index_line("160000", id, path)));
        if list.is_empty() || self.update_index(&list)?.code() == Some(0) {
            return Ok(None);
        }
        // A path of the agent's that git will have in no index must not take the rest along.
        let known = self.links_of(self.request.previous_tree.as_str())?;
        list = gone.iter().flat_map(|path| index_line("0", &zero, path)).collect();
        let sound = set.iter().filter(|(path, _)| known.contains_key(*path));
        list.extend(sound.flat_map(|(path, id)| index_line("160000", id, path)));
        let output = self.update_index(&list)?;
        if output.code() != Some(0) {
            return Err(output.failure());
        }
        Ok(Some("submodules that the agent's index has anew cannot be recorded".to_owned()))
    }

    /// Submodules of the fork point, and those that the `.gitmodules` of what is staged names.
    fn known_submodules(&self) -> Result<BTreeSet<Vec<u8>>> {
        let mut known: BTreeSet<Vec<u8>> = BTreeSet::new();
        if let Some(fork) = self.request.known.first() {
            known.extend(self.links_of(fork.as_str())?.into_keys());
        }
        let named = named_submodules(self.command(Access::Read, "config"), "")?;
        known.extend(named.into_iter().map(|path| path.as_bytes().to_vec()));
        Ok(known)
    }

    /// Has git write entries as `--index-info` takes them, all or none.
    pub(super) fn update_index(&self, list: &[u8]) -> Result<Output> {
        let update = self.command(Access::Write, "update-index").args(["-z", "--index-info"]);
        update.input(Input::Bytes(list.to_vec())).run()
    }
}

/// Whether one of `others` lies below `path`, or `path` below one of them.
fn is_crossed(path: &[u8], others: &BTreeSet<&[u8]>) -> bool {
    let folder = [path, b"/"].concat();
    let is_above = others.range(folder.as_slice()..).next().is_some_and(|other| other.starts_with(&folder));
    is_above || (0..path.len()).filter(|at| path[*at] == b'/').any(|at| others.contains(&path[..at]))
}

/// What lies at `path` below `root`. No link is followed.
fn lies_at(root: &Path, path: &[u8]) -> Lies {
    let mut at = root.to_owned();
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        at.push(OsStr::from_bytes(part));
        match at.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) if parts.peek().is_none() => return Lies::Other,
            Ok(_) | Err(_) => return Lies::Nothing,
        }
    }
    if has_commit(&at) { Lies::Repository } else { Lies::Folder }
}

/// Whether a folder is a repository of its own, with a HEAD in reach. That of a submodule that was filled in the agent's box
/// lies in the agent's git directory, under a name that means nothing here: git finds no commit there, and neither do we.
fn has_commit(folder: &Path) -> bool {
    let git = folder.join(".git");
    let Ok(found) = git.symlink_metadata() else { return false };
    if found.is_dir() {
        return git.join("HEAD").is_file();
    }
    let Some(text) = read_plain(&git, LINK_MAX) else { return false };
    let Some(target) = text.strip_prefix(b"gitdir: ") else { return false };
    folder.join(OsStr::from_bytes(target.trim_ascii_end())).join("HEAD").is_file()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_to_stand_at_the_path_of_a_submodule() {
        use Lies::{Folder, Nothing, Other, Repository};
        let (at_1, at_2) = (Says::At("1"), Says::At("2"));
        let (one, none) = (Some("1"), None);
        // Where git finds something on the disk, that counts.
        for lies in [Repository, Other] {
            for says in [at_2, Says::Gone, Says::Nothing] {
                let facts = Facts { lies, says, staged: one, before: one };
                assert_eq!(wanted(facts, || Ok(true)).unwrap(), Wanted::AsStaged, "{facts:?}");
            }
        }
        let table = [
            // Its folder is there or not, and nothing else has changed.
            (Folder, at_1, one, none, true, Wanted::AsStaged),
            (Nothing, at_1, none, none, true, Wanted::At("1")),
            (Nothing, Says::Nothing, none, one, true, Wanted::At("1")),
            (Folder, Says::Nothing, one, one, true, Wanted::AsStaged),
            // At another commit.
            (Folder, at_2, one, none, true, Wanted::At("2")),
            (Nothing, at_2, none, none, true, Wanted::At("2")),
            // Taken out.
            (Folder, Says::Gone, one, none, true, Wanted::Nothing),
            (Nothing, Says::Gone, none, none, true, Wanted::AsStaged),
            // New; or a repository that was added once and is there no more.
            (Folder, at_2, none, none, false, Wanted::At("2")),
            (Nothing, at_2, none, none, false, Wanted::AsStaged),
        ];
        for (lies, says, staged, before, is_known, expected) in table {
            let facts = Facts { lies, says, staged, before };
            assert_eq!(wanted(facts, || Ok(is_known)).unwrap(), expected, "{facts:?}");
        }
    }

    #[test]
    fn what_lies_at_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |path: &str, text: &str| crate::store::atomic::write(&root.join(path), text.as_bytes()).unwrap();
        for path in ["empty", "in/vain/.git", "cloned/.git", "linked", "lost", "git"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        write("cloned/.git/HEAD", "ref: refs/heads/main\n");
        write("git/HEAD", "ref: refs/heads/main\n");
        write("linked/.git", "gitdir: ../git\n");
        write("lost/.git", "gitdir: /nonexistent/modules/lost\n");
        std::os::unix::fs::symlink("cloned", root.join("link")).unwrap();
        for (path, expected) in [
            ("none", Lies::Nothing),
            ("none/in", Lies::Nothing),
            ("empty", Lies::Folder),
            ("in/vain", Lies::Folder),
            ("lost", Lies::Folder),
            ("cloned", Lies::Repository),
            ("linked", Lies::Repository),
            ("link", Lies::Other),
            ("git/HEAD", Lies::Other),
            ("git/HEAD/below", Lies::Nothing),
            ("link/.git", Lies::Nothing),
        ] {
            assert_eq!(lies_at(root, path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn paths_that_cross() {
        let others = BTreeSet::from([&b"a/b"[..], b"c", b"d-e"]);
        for (path, expected) in [("a", true), ("a/b/x", true), ("c/x/y", true), ("d", false), ("a/c", false)] {
            assert_eq!(is_crossed(path.as_bytes(), &others), expected, "{path}");
        }
    }
}

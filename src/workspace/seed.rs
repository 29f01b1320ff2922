//! Files that git ignores and a worktree needs all the same, copied from the user's checkout: `.env`, `node_modules`.
//!
//! What is copied is named in the plan, or selected by a file `.worktreeinclude` in the checkout's root: patterns in the
//! syntax of `.gitignore`, which take from what git ignores, and from nothing else.
//!
//! Links are copied as links and never followed, so that a link in the checkout cannot bring in what it points to.
//! Whatever is in the worktree already stays: a tracked file is never replaced by the user's changed one. A link in the
//! worktree is not followed either: an agent whose work this one builds on may have committed it, to have the user's files
//! copied to where it leads.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use ignore::WalkBuilder;

use super::error::Error;
use crate::git::Repository;
use crate::model::RepoPath;

/// The file that selects what is copied.
const INCLUDE: &str = ".worktreeinclude";

/// What was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seeded {
    /// How many files and links.
    pub files: u64,
    /// Paths that the plan names and the checkout does not have.
    pub missing: Vec<String>,
    /// What could not be read, or has no place in the worktree, and was passed over, a line each.
    pub passed_over: Vec<String>,
}

/// Copies `wanted`, paths from the checkout's root, from `checkout` to `worktree`.
pub fn seed(checkout: &Path, worktree: &Path, wanted: &[String]) -> Result<Seeded, Error> {
    let mut seeded = Seeded::default();
    for path in wanted {
        let refused = |why: &str| Error::Seed { path: path.clone(), why: why.to_owned() };
        let relative = Path::new(path);
        if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(refused("it must be a path from the repository's root, without `..`"));
        }
        if relative.components().any(|part| part.as_os_str() == ".git") {
            return Err(refused("git directories are not seeded"));
        }
        let source = checkout.join(relative);
        if leads_through_link(checkout, relative) {
            return Err(refused("a folder on the way to it is a link"));
        }
        if !is_open(worktree, relative) {
            // Perhaps an agent's doing, whose work this one builds on: no reason to stop the run.
            seeded.pass_over(format!("{path}: what should be a folder on the way to it is none in the worktree"));
            continue;
        }
        match source.symlink_metadata() {
            Ok(_) => copy_tree(&source, &worktree.join(relative), &mut seeded)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => seeded.missing.push(path.clone()),
            Err(error) => return Err(Error::io("look at", &source, error)),
        }
    }
    Ok(seeded)
}

/// The ignored files that the checkout's `.worktreeinclude` selects, if it has one.
pub fn load_included(repository: &Repository) -> Result<Vec<RepoPath>, Error> {
    let Some(checkout) = repository.top_level() else { return Ok(Vec::new()) };
    let patterns = checkout.join(INCLUDE);
    match patterns.symlink_metadata() {
        Ok(found) if found.is_file() => {}
        Ok(_) => {
            let why = "it is no plain file, and is not followed to where it leads".to_owned();
            return Err(Error::Seed { path: INCLUDE.to_owned(), why });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("look at", &patterns, error)),
    }
    Ok(repository.load_ignored_by(&patterns)?)
}

/// Copies what [`load_included`] gives.
pub fn seed_included(repository: &Repository, worktree: &Path) -> Result<Seeded, Error> {
    let Some(checkout) = repository.top_level() else { return Ok(Seeded::default()) };
    let mut seeded = Seeded::default();
    for path in load_included(repository)? {
        let relative = path.under(Path::new(""));
        if leads_through_link(checkout, &relative) || !is_open(worktree, &relative) {
            seeded.pass_over(format!("{path}: a folder on the way to it is none"));
            continue;
        }
        let target = worktree.join(&relative);
        if let Some(above) = target.parent() {
            fs::create_dir_all(above).map_err(|error| Error::io("create", above, error))?;
        }
        match seeded.copy(&checkout.join(&relative), &target) {
            // It was there a moment ago: the user's own programs go on writing.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    Ok(seeded)
}

impl Seeded {
    /// Copies what can be read. What can not is told of: one file without permissions among thousands is no reason to do
    /// without the others.
    fn copy(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        match copy_one(from, to) {
            Ok(files) => self.files += files,
            Err(Error::Io { operation: "copy", path, source }) if source.kind() == io::ErrorKind::PermissionDenied => {
                self.pass_over(format!("{}: {source}", path.display()));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn pass_over(&mut self, line: String) {
        tracing::warn!("not seeded: {line}");
        self.passed_over.push(line);
    }
}

/// Whether every folder above `relative` is one, or is still to be made.
fn is_open(root: &Path, relative: &Path) -> bool {
    let mut at = root.to_owned();
    relative.parent().into_iter().flat_map(Path::components).all(|part| {
        at.push(part);
        at.symlink_metadata().map_or(true, |there| there.is_dir())
    })
}

fn leads_through_link(root: &Path, relative: &Path) -> bool {
    let mut at = root.to_owned();
    let Some(parent) = relative.parent() else { return false };
    parent.components().any(|part| {
        at.push(part);
        at.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink())
    })
}

fn copy_tree(source: &Path, target: &Path, seeded: &mut Seeded) -> Result<(), Error> {
    if let Some(above) = target.parent() {
        fs::create_dir_all(above).map_err(|error| Error::io("create", above, error))?;
    }
    let place = {
        let (source, target) = (source.to_owned(), target.to_owned());
        move |from: &Path| match from.strip_prefix(&source) {
            Ok(below) if !below.as_os_str().is_empty() => target.join(below),
            Ok(_) | Err(_) => target.clone(),
        }
    };
    let to = place.clone();
    // Where a file or a link stands in the place of a folder, nothing below can be copied.
    let is_free = move |from: &Path| match to(from).symlink_metadata() {
        Ok(there) => there.is_dir(),
        Err(_) => true,
    };
    if source.is_dir() && !is_free(source) {
        return Ok(());
    }
    let walk = WalkBuilder::new(source)
        .standard_filters(false)
        .follow_links(false)
        .filter_entry(move |entry| !entry.file_type().is_some_and(|kind| kind.is_dir()) || is_free(entry.path()))
        .build();
    for entry in walk {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                seeded.pass_over(error.to_string());
                continue;
            }
        };
        seeded.copy(entry.path(), &place(entry.path()))?;
    }
    Ok(())
}

/// Copies one thing, and gives how many files that made.
fn copy_one(from: &Path, to: &Path) -> Result<u64, Error> {
    let metadata = from.symlink_metadata().map_err(|error| Error::io("look at", from, error))?;
    if to.symlink_metadata().is_ok() {
        return Ok(0);
    }
    if metadata.is_dir() {
        return fs::create_dir(to).map(|()| 0).map_err(|error| Error::io("create", to, error));
    }
    if metadata.is_symlink() {
        let target = fs::read_link(from).map_err(|error| Error::io("copy", from, error))?;
        std::os::unix::fs::symlink(target, to).map_err(|error| Error::io("create", to, error))?;
        return Ok(1);
    }
    if !metadata.is_file() {
        return Ok(0);
    }
    // The kernel shares the blocks where the file system can.
    fs::copy(from, to).map_err(|error| Error::io("copy", from, error))?;
    let mode = metadata.permissions().mode() & 0o777 | 0o200;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(|error| Error::io("create", to, error))?;
    Ok(1)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files as users do")]
mod tests {
    use super::*;

    #[test]
    fn links_are_copied_as_links() {
        let from = tempfile::tempdir().unwrap();
        let to = tempfile::tempdir().unwrap();
        fs::create_dir_all(from.path().join("node_modules/a")).unwrap();
        fs::write(from.path().join("node_modules/a/x"), "x").unwrap();
        std::os::unix::fs::symlink("/etc", from.path().join("node_modules/etc")).unwrap();
        fs::write(to.path().join("kept"), "theirs").unwrap();
        fs::write(from.path().join("kept"), "ours").unwrap();
        let wanted = ["node_modules/", "kept", "gone"].map(str::to_owned);
        let seeded = seed(from.path(), to.path(), &wanted).unwrap();
        assert_eq!(seeded, Seeded { files: 2, missing: vec!["gone".to_owned()], passed_over: vec![] });
        assert_eq!(fs::read_link(to.path().join("node_modules/etc")).unwrap(), Path::new("/etc"));
        assert_eq!(fs::read_to_string(to.path().join("kept")).unwrap(), "theirs");
    }

    #[test]
    fn links_in_the_worktree_lead_nowhere() {
        let (from, to, elsewhere) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for file in ["a/b/x", "build/x", "env"] {
            fs::create_dir_all(from.path().join(file).parent().unwrap()).unwrap();
            fs::write(from.path().join(file), "secret").unwrap();
        }
        fs::create_dir(to.path().join("a")).unwrap();
        for link in ["a/b", "build"] {
            std::os::unix::fs::symlink(elsewhere.path(), to.path().join(link)).unwrap();
        }
        std::os::unix::fs::symlink(elsewhere.path().join("env"), to.path().join("env")).unwrap();
        for path in ["a", "build", "env"] {
            assert_eq!(seed(from.path(), to.path(), &[path.to_owned()]).unwrap().files, 0, "{path}");
        }
        fs::write(to.path().join("file"), "").unwrap();
        fs::create_dir(from.path().join("file")).unwrap();
        fs::write(from.path().join("file/x"), "secret").unwrap();
        for path in ["build/x", "file/x"] {
            let through = seed(from.path(), to.path(), &[path.to_owned()]).unwrap();
            assert_eq!((through.files, through.passed_over.len()), (0, 1), "{through:?}");
        }
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_read_is_passed_over_and_told_of() {
        let from = tempfile::tempdir().unwrap();
        let to = tempfile::tempdir().unwrap();
        fs::create_dir_all(from.path().join("all/shut")).unwrap();
        for file in ["all/good", "all/secret", "all/shut/x"] {
            fs::write(from.path().join(file), "x").unwrap();
        }
        let permissions = |path: &str, mode| {
            fs::set_permissions(from.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        permissions("all/secret", 0);
        permissions("all/shut", 0);
        // Set bits mean nothing good in a worktree.
        permissions("all/good", 0o4755);
        let seeded = seed(from.path(), to.path(), &["all".to_owned()]).unwrap();
        permissions("all/shut", 0o700);
        if !rustix::process::geteuid().is_root() {
            assert_eq!((seeded.files, seeded.passed_over.len()), (1, 2), "{seeded:?}");
        }
        let mode = to.path().join("all/good").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
    }

    #[test]
    fn nothing_from_outside_is_seeded() {
        let from = tempfile::tempdir().unwrap();
        let to = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", from.path().join("link")).unwrap();
        for bad in ["../x", "/etc/passwd", "a/../../b", "link/passwd", ".git/config"] {
            assert!(matches!(seed(from.path(), to.path(), &[bad.to_owned()]), Err(Error::Seed { .. })), "{bad}");
        }
    }
}

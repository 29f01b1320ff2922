//! Removing trees that strangers have filled.
//!
//! An agent could fill its worktree with links to the user's files, folders without permissions, and folders ten thousand
//! deep. So a tree is removed like this:
//! 1. Every folder from the root we own down to the tree's parent is opened without following a link.
//! 2. The tree is renamed into the trash, beside it on the same file system. From here on it is gone from its place.
//! 3. Folders in the trash are taken one after another: files and links in them are unlinked, folders in them are *moved up*
//!    into the trash and wait their turn, and what is empty is removed.
//!
//! No path of more than one part is ever resolved, so there is nothing to follow; no recursion, so depth costs neither
//! stack nor file descriptors; and a crash leaves only trash, which the next [`Trash::sweep`] takes.
//!
//! Why not `remove_dir_all`: it stops at a folder without write permission, and needs a descriptor for each level.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::layout::{StateDir, Workplace};
use super::{Error, atomic, failpoint};

/// How often a folder is gone through before we believe that somebody fills it.
const ROUNDS: u32 = 8;

/// A folder that we own, and where in it things wait to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trash {
    root: PathBuf,
    trash: PathBuf,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Files and links.
    pub files: u64,
    /// Folders.
    pub folders: u64,
}

/// How much a tree holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeSize {
    /// Files and links.
    pub files: u64,
    /// The bytes they take on disk, those of folders included.
    pub bytes: u64,
    /// Folders that could not be looked into: without permission, or too deep for a path.
    pub unreadable: u64,
}

impl Trash {
    /// For the program's folder in a repository.
    pub fn of_state(state: &StateDir) -> Self {
        Self { root: state.root().to_owned(), trash: state.trash() }
    }

    /// For the folder that a worktree lies in.
    pub fn of_workplace(place: &Workplace) -> Self {
        Self::of_folder(place.worktree().parent().unwrap_or(Path::new("/")))
    }

    /// For the folder of a repository's worktrees.
    pub fn of_workplaces(root: &Path) -> Self {
        Self::of_folder(root)
    }

    /// For a folder that holds nothing but what is the program's.
    pub(super) fn of_folder(root: &Path) -> Self {
        Self { root: root.to_owned(), trash: root.join(".trash") }
    }

    /// Removes a file or tree below the root. Not being there is fine.
    pub fn discard(&self, victim: &Path) -> Result<Removed, Error> {
        match self.throw(victim)? {
            Some(name) => self.empty(vec![name]),
            None => Ok(Removed::default()),
        }
    }

    /// Renames a file or tree below the root into the trash, which takes a moment whatever its size, and leaves removing
    /// it to [`Trash::sweep`]. Gives whether it was there.
    pub fn set_aside(&self, victim: &Path) -> Result<bool, Error> {
        Ok(self.throw(victim)?.is_some())
    }

    /// Removes all that is in the trash.
    pub fn sweep(&self) -> Result<Removed, Error> {
        let trash = match open_dir(fs::CWD, self.trash.as_os_str()) {
            Ok(trash) => trash,
            Err(Errno::NOENT) => return Ok(Removed::default()),
            Err(error) => return Err(Error::io("open", &self.trash)(error)),
        };
        let names = names_in(&trash).map_err(Error::io("list", &self.trash))?;
        self.empty(names)
    }

    /// The name in the trash; `None` if there was nothing.
    fn throw(&self, victim: &Path) -> Result<Option<OsString>, Error> {
        let (folders, name) = self.parts(victim)?;
        let mut folder = match open_dir(fs::CWD, self.root.as_os_str()) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(Error::io("open", &self.root)(error)),
        };
        for part in folders {
            folder = match open_dir(folder.as_fd(), part) {
                Ok(folder) => folder,
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    return Err(Error::NotOurs { path: victim.to_owned(), reason: "a link stands in its path" });
                }
                Err(error) => return Err(Error::io("open the folder of", victim)(error)),
            };
        }
        // Moving a folder elsewhere changes its `..`, for which it must be writable itself.
        let ready = is_dir(folder.as_fd(), name)
            .and_then(|is_dir| if is_dir { make_ours(folder.as_fd(), name) } else { Ok(()) });
        ready.map_err(|(op, error)| Error::io(op, victim)(error))?;
        atomic::create_dir(&self.trash)?;
        let trash = self.open()?;
        match move_into(folder.as_fd(), name, trash.as_fd()) {
            Ok(thrown) => Ok(Some(thrown)),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::XDEV | Errno::BUSY) => {
                Err(Error::NotOurs { path: victim.to_owned(), reason: "another file system is mounted there" })
            }
            Err(error) => Err(Error::io("move to the trash", victim)(error)),
        }
    }

    /// The folders between the root and the victim, and the victim's name.
    fn parts<'a>(&self, victim: &'a Path) -> Result<(Vec<&'a OsStr>, &'a OsStr), Error> {
        let not_ours = |reason| Error::NotOurs { path: victim.to_owned(), reason };
        let below = victim
            .strip_prefix(&self.root)
            .map_err(|_| not_ours("it does not lie in a folder that belongs to the program"))?;
        let mut parts = Vec::new();
        for part in below.components() {
            match part {
                Component::Normal(name) => parts.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(not_ours("its path leads upwards"));
                }
            }
        }
        let name = parts.pop().ok_or_else(|| not_ours("it is the whole folder that belongs to the program"))?;
        if victim == self.trash {
            return Err(not_ours("it is the trash itself"));
        }
        Ok((parts, name))
    }

    fn open(&self) -> Result<OwnedFd, Error> {
        open_dir(fs::CWD, self.trash.as_os_str()).map_err(Error::io("open", &self.trash))
    }

    fn empty(&self, mut waiting: Vec<OsString>) -> Result<Removed, Error> {
        let trash = self.open()?;
        let mut removed = Removed::default();
        while let Some(name) = waiting.pop() {
            remove_one(trash.as_fd(), &name, &mut waiting, &mut removed)
                .map_err(|(op, error)| Error::io(op, &self.trash.join(&name))(error))?;
        }
        Ok(removed)
    }
}

type Failure = (&'static str, Errno);

/// Removes `name` from the trash; folders in it are moved up, and added to `waiting`.
fn remove_one(
    trash: BorrowedFd<'_>,
    name: &OsStr,
    waiting: &mut Vec<OsString>,
    removed: &mut Removed,
) -> Result<(), Failure> {
    let Some(folder) = open_or_unlink(trash, name, removed)? else { return Ok(()) };
    for _ in 0..ROUNDS {
        for entry in names_in(&folder).map_err(|error| ("list", error))? {
            waiting.extend(move_or_unlink(folder.as_fd(), &entry, trash, removed)?);
        }
        match fs::unlinkat(trash, name, AtFlags::REMOVEDIR) {
            Ok(()) => {
                removed.folders += 1;
                return Ok(());
            }
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(error) => return Err(("remove", error)),
        }
    }
    Err(("empty", Errno::NOTEMPTY))
}

/// The folder `name`, opened and made ours to change; or `None`, when it was something else and is unlinked, or is gone.
fn open_or_unlink(trash: BorrowedFd<'_>, name: &OsStr, removed: &mut Removed) -> Result<Option<OwnedFd>, Failure> {
    if !is_dir(trash, name)? {
        return unlink(trash, name, removed).map(|()| None);
    }
    make_ours(trash, name)?;
    match open_dir(trash, name) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(("open", error)),
    }
}

/// Moves a folder up into the trash, giving its new name, or unlinks what is no folder.
fn move_or_unlink(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    trash: BorrowedFd<'_>,
    removed: &mut Removed,
) -> Result<Option<OsString>, Failure> {
    if !is_dir(folder, name)? {
        return unlink(folder, name, removed).map(|()| None);
    }
    make_ours(folder, name)?;
    match move_into(folder, name, trash) {
        Ok(moved) => Ok(Some(moved)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(("move to the trash", error)),
    }
}

fn is_dir(folder: BorrowedFd<'_>, name: &OsStr) -> Result<bool, Failure> {
    match fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
        // Gone meanwhile: unlinking will find the same, and that is fine.
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(("look at", error)),
    }
}

fn unlink(folder: BorrowedFd<'_>, name: &OsStr, removed: &mut Removed) -> Result<(), Failure> {
    match fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) => {
            removed.files += 1;
            Ok(())
        }
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(("remove", error)),
    }
}

/// Gives the folder's owner all rights to it, without following a link: a handle that only names it, and a change
/// through that handle.
fn make_ours(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Failure> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = match fs::openat(parent, name, flags, Mode::empty()) {
        Ok(handle) => handle,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(("open", error)),
    };
    let mode = fs::fstat(&handle).map_err(|error| ("look at", error))?.st_mode;
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU).map_err(|error| ("make writable", error))
}

/// Moves `name` into the trash under a name that is new there.
fn move_into(from: BorrowedFd<'_>, name: &OsStr, trash: BorrowedFd<'_>) -> Result<OsString, Errno> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let new = OsString::from(format!("{}-{count}", std::process::id()));
        failpoint::before("removal", "").map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        match fs::renameat_with(from, name, trash, &new, RenameFlags::NOREPLACE) {
            Ok(()) => {
                failpoint::after("removal", "");
                return Ok(new);
            }
            // Left from another process that had our number: try the next name.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
}

fn open_dir(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(parent, name, flags, Mode::empty())
}

fn names_in(folder: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name: CString = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(OsString::from_vec(name.into_bytes()));
        }
    }
    Ok(names)
}

/// How much the tree at `path` holds. Follows no link; what disappears meanwhile does not count.
pub fn size(path: &Path) -> Result<TreeSize, Error> {
    let mut size = TreeSize::default();
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let stat = match fs::lstat(&path) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(Errno::ACCESS | Errno::NAMETOOLONG) => {
                size.unreadable += 1;
                continue;
            }
            Err(error) => return Err(Error::io("look at", &path)(error)),
        };
        size.bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            size.files += 1;
            continue;
        }
        let names = open_dir(fs::CWD, path.as_os_str()).and_then(|folder| names_in(&folder));
        match names {
            Ok(names) => waiting.extend(names.into_iter().map(|name| path.join(name))),
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => {}
            Err(Errno::ACCESS | Errno::NAMETOOLONG) => size.unreadable += 1,
            Err(error) => return Err(Error::io("list", &path)(error)),
        }
    }
    Ok(size)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "trees as strangers leave them")]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder we own, with trash in it, and beside it something precious.
    struct Scene {
        _folder: tempfile::TempDir,
        trash: Trash,
        root: PathBuf,
        precious: PathBuf,
    }

    fn scene() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let (root, precious) = (folder.path().join("own"), folder.path().join("precious"));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::create_dir_all(precious.join("deep")).unwrap();
        std::fs::write(precious.join("deep/file"), "x").unwrap();
        Scene { trash: Trash { root: root.clone(), trash: root.join(".trash") }, root, precious, _folder: folder }
    }

    impl Scene {
        fn is_empty(&self) -> bool {
            let left = |path: &Path| std::fs::read_dir(path).map_or(0, Iterator::count);
            left(&self.trash.trash) == 0
        }
    }

    /// What removing looks like without the care taken here: by path, following what it finds.
    fn naive(path: &Path) {
        if path.is_dir() {
            for entry in std::fs::read_dir(path).unwrap() {
                naive(&entry.unwrap().path());
            }
            drop(std::fs::remove_dir(path));
        } else {
            drop(std::fs::remove_file(path));
        }
    }

    #[test]
    fn links_are_removed_and_what_they_name_survives() {
        let plant = |scene: &Scene| {
            let tree = scene.root.join("tree");
            std::fs::create_dir_all(tree.join("a/b")).unwrap();
            std::fs::write(tree.join("a/f"), "x").unwrap();
            symlink(&scene.precious, tree.join("a/b/out")).unwrap();
            symlink(scene.precious.join("deep/file"), tree.join("file")).unwrap();
            symlink("/nowhere", tree.join("dangling")).unwrap();
            tree
        };
        let unprotected = scene();
        naive(&plant(&unprotected));
        assert!(!unprotected.precious.join("deep/file").exists(), "the attack works on the naive remover");

        let scene = scene();
        let tree = plant(&scene);
        let removed = scene.trash.discard(&tree).unwrap();
        assert_eq!(removed, Removed { files: 4, folders: 3 });
        assert!(!tree.exists() && scene.is_empty());
        assert!(scene.precious.join("deep/file").exists());
        assert_eq!(scene.trash.discard(&tree).unwrap(), Removed::default(), "twice is fine");
    }

    #[test]
    fn a_link_itself_can_be_removed() {
        let scene = scene();
        let link = scene.root.join("link");
        symlink(&scene.precious, &link).unwrap();
        assert_eq!(scene.trash.discard(&link).unwrap(), Removed { files: 1, folders: 0 });
        assert!(link.symlink_metadata().is_err() && scene.precious.join("deep/file").exists());
    }

    #[test]
    fn nothing_outside_is_touched() {
        let scene = scene();
        symlink(&scene.precious, scene.root.join("way")).unwrap();
        std::fs::create_dir_all(&scene.trash.trash).unwrap();
        for victim in [
            scene.precious.clone(),
            scene.root.clone(),
            scene.root.join("."),
            scene.root.join("../precious"),
            scene.root.join("x/../../precious"),
            scene.root.join("way/deep"),
            scene.trash.trash.clone(),
            PathBuf::from("/"),
        ] {
            let result = scene.trash.discard(&victim);
            assert!(matches!(result, Err(Error::NotOurs { .. })), "{}: {result:?}", victim.display());
        }
        assert!(scene.precious.join("deep/file").exists());
    }

    #[test]
    fn the_trash_must_be_a_folder_and_no_link() {
        let scene = scene();
        symlink(&scene.precious, &scene.trash.trash).unwrap();
        std::fs::create_dir(scene.root.join("tree")).unwrap();
        assert!(scene.trash.discard(&scene.root.join("tree")).is_err());
        assert!(scene.trash.sweep().is_err());
        assert!(scene.precious.join("deep/file").exists());
    }

    #[test]
    fn depth_and_missing_permissions_are_no_protection() {
        let scene = scene();
        let tree = scene.root.join("tree");
        std::fs::create_dir(&tree).unwrap();
        let mut folder = open_dir(fs::CWD, tree.as_os_str()).unwrap();
        for _ in 0..3000 {
            fs::mkdirat(&folder, "d", Mode::RWXU).unwrap();
            folder = open_dir(folder.as_fd(), OsStr::new("d")).unwrap();
        }
        drop(folder);
        let closed = tree.join("closed");
        std::fs::create_dir_all(closed.join("sub")).unwrap();
        std::fs::write(closed.join("sub/f"), "x").unwrap();
        for folder in [closed.join("sub"), closed, tree.join("d"), tree.clone()] {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o000)).unwrap();
        }
        let removed = scene.trash.discard(&tree).unwrap();
        assert_eq!(removed, Removed { files: 1, folders: 3003 });
        assert!(!tree.exists() && scene.is_empty());
    }

    #[test]
    fn what_was_set_aside_is_swept_later() {
        let scene = scene();
        for name in ["a", "b"] {
            std::fs::create_dir_all(scene.root.join(name).join("x")).unwrap();
            assert!(scene.trash.set_aside(&scene.root.join(name)).unwrap());
            assert!(!scene.root.join(name).exists());
        }
        assert!(!scene.trash.set_aside(&scene.root.join("c")).unwrap());
        assert!(!scene.is_empty());
        assert_eq!(scene.trash.sweep().unwrap(), Removed { files: 0, folders: 4 });
        assert!(scene.is_empty());
    }

    #[test]
    fn sizes_count_what_is_there_and_not_what_links_name() {
        let scene = scene();
        std::fs::write(scene.precious.join("big"), vec![1; 1 << 20]).unwrap();
        std::fs::write(scene.root.join("f"), vec![1; 10_000]).unwrap();
        symlink(&scene.precious, scene.root.join("link")).unwrap();
        let found = size(&scene.root).unwrap();
        assert_eq!((found.files, found.unreadable), (2, 0));
        assert!((10_000..1 << 20).contains(&found.bytes), "{found:?}");
        assert_eq!(size(&scene.root.join("absent")).unwrap(), TreeSize::default());
    }
}

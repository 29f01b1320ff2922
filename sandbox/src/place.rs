//! Finding a mount point in a tree that an agent may have written to.
//!
//! Walks one name at a time and refuses any symlink: an agent may have left one in its home, to have the next box mount
//! something where it should not be. What is missing is made, where the place can be written.

use crate::wire::Fault;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// What to make of a missing last name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Directory,
    File,
    Error,
}

/// A handle on `target` below `root`.
pub(crate) fn find(root: BorrowedFd<'_>, target: &Path, missing: Missing) -> Result<OwnedFd, Fault> {
    let mut at = open(root, OsStr::new("."))?;
    let mut so_far = PathBuf::from("/");
    let mut names = target.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::RootDir | Component::CurDir | Component::ParentDir | Component::Prefix(_) => None,
    });
    let mut next = names.next();
    while let Some(name) = next {
        next = names.next();
        so_far.push(name);
        let make = match (next, missing) {
            (_, Missing::Error) => Missing::Error,
            (Some(_), Missing::Directory | Missing::File) => Missing::Directory,
            (None, last) => last,
        };
        at = step(at.as_fd(), name, make).map_err(|errno| Fault::from(errno).at(so_far.clone()))?;
    }
    Ok(at)
}

fn step(at: BorrowedFd<'_>, name: &OsStr, missing: Missing) -> Result<OwnedFd, Errno> {
    match open(at, name) {
        Err(Errno::NOENT) => {}
        other => return other,
    }
    let made = match missing {
        Missing::Error => return Err(Errno::NOENT),
        Missing::Directory => rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o755)),
        Missing::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(at, name, flags, Mode::from_raw_mode(0o644)).map(drop)
        }
    };
    match made {
        // Another box on the same directory was quicker. Whatever is there now is looked at like any other.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    open(at, name)
}

fn open(at: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    // Without `NOFOLLOW`: with it a symlink at the end would be opened itself instead of being refused.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    loop {
        match rustix::fs::openat2(at, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH) {
            // The kernel asks to try again when something was renamed meanwhile.
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
}

//! How much space folders take, measured a slice at a time, for init has other things to do.
//!
//! Counts blocks that are allocated, not sizes, and each file once: it may have several names, and may get another or move
//! while the walk goes on. No link is followed, and what is mounted in a folder is
//! not of it, which the number of the mount tells even where it is the same file system.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How deep it goes, with a file open at each level. What lies deeper is not seen, and that is told.
const DEEPEST: usize = 200;
/// How many files are remembered. One beyond counts its share at each of its names, which is right as long as it gets no
/// other meanwhile.
const MOST_SEEN: usize = 1 << 20;
/// How many entries are looked at between two looks at the clock.
const STRIDE: u32 = 64;

/// What has been measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Bytes.
    pub(crate) bytes: u64,
    /// Something could not be looked into, so there may be more.
    pub(crate) unseen: bool,
}

/// A walk under way.
#[derive(Debug)]
pub(crate) struct Walk {
    roots: Vec<PathBuf>,
    open: Vec<Dir>,
    mount: u64,
    /// Files that have been counted, by device and number.
    seen: HashSet<(u32, u32, u64)>,
    measured: Measured,
}

const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::MNT_ID);

impl Walk {
    pub(crate) fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots, open: Vec::new(), mount: 0, seen: HashSet::new(), measured: Measured::default() }
    }

    /// Goes on until that time; the sum, when all has been seen.
    pub(crate) fn go_on(&mut self, until: Instant) -> Option<Measured> {
        loop {
            for _ in 0..STRIDE {
                if self.open.is_empty() {
                    let Some(root) = self.roots.pop() else {
                        return Some(self.measured);
                    };
                    self.enter_root(&root);
                } else {
                    self.next_entry();
                }
            }
            if Instant::now() >= until {
                return None;
            }
        }
    }

    fn enter_root(&mut self, root: &Path) {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(root, flags, Mode::empty());
        let found = opened.and_then(|place| rustix::fs::statx(&place, "", AtFlags::EMPTY_PATH, WANTED));
        let Ok(found) = found else {
            self.measured.unseen = true;
            return;
        };
        self.mount = found.stx_mnt_id;
        self.count(&found);
        if is_folder(&found) && self.enter(rustix::fs::CWD, root).is_err() {
            self.measured.unseen = true;
        }
    }

    fn next_entry(&mut self) {
        let Some(dir) = self.open.last_mut() else {
            return;
        };
        let entry = match dir.next() {
            None => {
                self.open.pop();
                return;
            }
            Some(Ok(entry)) => entry,
            Some(Err(_)) => {
                self.measured.unseen = true;
                self.open.pop();
                return;
            }
        };
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            return;
        }
        let Ok(at) = dir.fd() else {
            self.measured.unseen = true;
            return;
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let found = match rustix::fs::statx(at, name, flags, WANTED) {
            Ok(found) => found,
            // Removed meanwhile.
            Err(Errno::NOENT) => return,
            Err(_) => {
                self.measured.unseen = true;
                return;
            }
        };
        if found.stx_mnt_id != self.mount {
            return;
        }
        self.count(&found);
        if !is_folder(&found) {
            return;
        }
        let entered = if self.open.len() < DEEPEST { self.enter_below(name) } else { Err(Errno::NAMETOOLONG) };
        if !matches!(entered, Ok(()) | Err(Errno::NOENT)) {
            self.measured.unseen = true;
        }
    }

    fn enter_below(&mut self, name: &std::ffi::CStr) -> Result<(), Errno> {
        let Some(dir) = self.open.last() else {
            return Ok(());
        };
        let next = open(dir.fd()?.as_fd(), name)?;
        self.open.push(next);
        Ok(())
    }

    fn enter(&mut self, at: BorrowedFd<'_>, path: &Path) -> Result<(), Errno> {
        let dir = open(at, path)?;
        self.open.push(dir);
        Ok(())
    }

    fn count(&mut self, found: &Statx) {
        let mut bytes = found.stx_blocks.saturating_mul(512);
        if !is_folder(found) {
            let file = (found.stx_dev_major, found.stx_dev_minor, found.stx_ino);
            if self.seen.len() >= MOST_SEEN && !self.seen.contains(&file) {
                bytes /= u64::from(found.stx_nlink.max(1));
            } else if !self.seen.insert(file) {
                return;
            }
        }
        self.measured.bytes = self.measured.bytes.saturating_add(bytes);
    }
}

fn open(at: BorrowedFd<'_>, path: impl rustix::path::Arg) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Dir::new(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

fn is_folder(found: &Statx) -> bool {
    FileType::from_raw_mode(u32::from(found.stx_mode)) == FileType::Directory
}

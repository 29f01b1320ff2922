//! Wakes who follows files that grow.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

use super::Error;

/// Watches folders: of each, whether a file in it grew, came, or was closed by who wrote it.
///
/// A folder is watched before the files in it are read, so nothing is missed. To wait, poll the handle; then
/// [`drain`](Self::drain).
#[derive(Debug)]
pub struct FolderWatch {
    inotify: OwnedFd,
    root: PathBuf,
}

impl FolderWatch {
    /// Watches `root`, which must be there.
    pub fn new(root: &Path) -> Result<Self, Error> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(Error::io("watch", root))?;
        let watch = Self { inotify, root: root.to_owned() };
        if watch.add(root)? { Ok(watch) } else { Err(Error::io("watch", root)(std::io::ErrorKind::NotFound)) }
    }

    /// Watches a folder below the root too; where it is not there yet, the nearest above it that is. To be called again
    /// whenever something was seen, until it says that the folder is watched.
    pub fn cover(&self, folder: &Path) -> Result<bool, Error> {
        if self.add(folder)? {
            return Ok(true);
        }
        for above in folder.ancestors().skip(1).take_while(|above| above.starts_with(&self.root)) {
            if self.add(above)? {
                break;
            }
        }
        // It can have come between the two looks.
        self.add(folder)
    }

    /// Takes what the kernel has told so far. Gives whether there was anything.
    pub fn drain(&self) -> Result<bool, Error> {
        let mut room = [MaybeUninit::<u8>::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut room);
        let mut any = false;
        loop {
            match reader.next() {
                Ok(_) => any = true,
                Err(Errno::AGAIN) => return Ok(any),
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::io("watch", &self.root)(error)),
            }
        }
    }

    /// Watching the same folder twice is watching it once.
    fn add(&self, folder: &Path) -> Result<bool, Error> {
        let changes = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE;
        match inotify::add_watch(&self.inotify, folder, changes | WatchFlags::ONLYDIR) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(Error::io("watch", folder)(error)),
        }
    }
}

impl AsFd for FolderWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::store::atomic;

    fn woken(watch: &FolderWatch, seconds: i64) -> bool {
        let limit = Timespec { tv_sec: seconds, tv_nsec: 0 };
        poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&limit)).unwrap();
        watch.drain().unwrap()
    }

    #[test]
    fn a_folder_that_comes_later_is_covered() {
        let root = tempfile::tempdir().unwrap();
        let watch = FolderWatch::new(root.path()).unwrap();
        let deep = root.path().join("a/b/c");
        assert!(!watch.cover(&deep).unwrap());
        assert!(!woken(&watch, 0));
        for part in ["a", "a/b", "a/b/c"] {
            atomic::create_dir(&root.path().join(part)).unwrap();
            assert!(woken(&watch, 20), "{part}");
            assert_eq!(watch.cover(&deep).unwrap(), part == "a/b/c");
        }
        atomic::write(&deep.join("1.1.log"), b"x").unwrap();
        assert!(woken(&watch, 20));
        assert!(FolderWatch::new(&root.path().join("none")).is_err());
    }
}

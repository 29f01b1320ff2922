//! Folders that are needed for a moment, and go with whoever made them.
//!
//! Dropped, a scratch folder is removed. Its maker can be killed before that, so beside each lies a lock that the maker holds
//! as long as it lives: [`sweep`] removes those whose lock is free. The lock is there before the folder and goes after it.
//!
//! *Why not the system's folder for temporary files?* What a killed process left there stays until somebody looks, and on
//! many machines that is never. Here the next start of the program does.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::lock::HeldFile;
use super::{Error, Trash, atomic, layout, listing};

/// What the name of a scratch folder's lock ends in.
const LOCK: &str = ".lock";

/// A folder of this process's own. Gone, with everything in it, when dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    lock: PathBuf,
    _held: HeldFile,
}

impl Scratch {
    /// A new one below `parent`, which is made if it is not there. `label` says what it is for, to whoever looks.
    pub fn below(parent: &Path, label: &str) -> Result<Self, Error> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        atomic::create_dir(parent)?;
        loop {
            let name = format!("{label}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let (folder, lock) = (parent.join(&name), parent.join(name + LOCK));
            // A number is used again after a restart of the machine: then what lies there is a dead process's, or another
            // process's that sees other numbers than we do.
            let Some(held) = HeldFile::try_acquire(&lock)? else { continue };
            if folder.symlink_metadata().is_ok() {
                Trash::of_folder(parent).discard(&folder)?;
            }
            atomic::create_dir(&folder)?;
            return Ok(Self { folder, lock, _held: held });
        }
    }

    /// A new one for this user, in the system's folder for temporary files: where there is no repository to have it in.
    /// Removes what dead processes of this user left there.
    pub fn of_user(label: &str) -> Result<Self, Error> {
        let uid = rustix::process::geteuid().as_raw();
        let parent = layout::users_scratch(uid);
        atomic::create_dir(&parent)?;
        // Anybody can make that folder before us, or put a link in its place.
        let found = parent.symlink_metadata().map_err(Error::io("look at", &parent))?;
        if !found.is_dir() || found.uid() != uid || found.mode() & 0o022 != 0 {
            return Err(Error::NotOurs { path: parent, reason: "it does not belong to you alone" });
        }
        // What cannot be removed is in nobody's way.
        if let Err(error) = sweep(&parent) {
            tracing::warn!(folder = %parent.display(), %error, "scratch folders stay for now");
        }
        Self::below(&parent, label)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now, the next sweep takes.
        match remove(&self.folder, &self.lock) {
            Ok(()) => {}
            Err(error) => tracing::debug!(folder = %self.folder.display(), %error, "a scratch folder stays for now"),
        }
    }
}

/// Removes the scratch folders below `parent` whose makers are dead, and gives how many there were. Those of the living are
/// left alone.
pub fn sweep(parent: &Path) -> Result<u64, Error> {
    let Some(entries) = listing::entries(parent)? else { return Ok(0) };
    let mut swept = 0;
    for entry in entries {
        let name = entry.file_name();
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        let own = name.as_bytes().strip_suffix(LOCK.as_bytes()).unwrap_or(name.as_bytes());
        let folder = parent.join(OsStr::from_bytes(own));
        let lock = parent.join(OsStr::from_bytes(&[own, LOCK.as_bytes()].concat()));
        // Seen a moment ago and gone now: its maker was faster.
        if folder.symlink_metadata().is_err() && lock.symlink_metadata().is_err() {
            continue;
        }
        let Some(_held) = HeldFile::try_acquire(&lock)? else { continue };
        swept += u64::from(folder.symlink_metadata().is_ok());
        remove(&folder, &lock)?;
    }
    Trash::of_folder(parent).sweep()?;
    Ok(swept)
}

fn remove(folder: &Path, lock: &Path) -> Result<(), Error> {
    if let Some(parent) = folder.parent() {
        Trash::of_folder(parent).discard(folder)?;
    }
    match std::fs::remove_file(lock) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("remove", lock)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_as_long_as_it_is_held() {
        let parent = tempfile::tempdir().unwrap();
        let (one, other) = (Scratch::below(parent.path(), "x").unwrap(), Scratch::below(parent.path(), "x").unwrap());
        assert_ne!(one.path(), other.path());
        atomic::write(&one.path().join("deep/file"), b"x").unwrap();
        assert_eq!(sweep(parent.path()).unwrap(), 0, "both are held");
        assert!(one.path().join("deep/file").exists());
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
        drop(other);
        let left = std::fs::read_dir(parent.path()).unwrap().flatten().map(|entry| entry.file_name());
        assert_eq!(left.collect::<Vec<_>>(), [".trash"]);
    }

    #[test]
    fn what_a_dead_process_left_is_swept() {
        let parent = tempfile::tempdir().unwrap();
        assert_eq!(sweep(&parent.path().join("absent")).unwrap(), 0);
        let living = Scratch::below(parent.path(), "x").unwrap();
        // Killed while it had the folder; before it made it; and by a version that had no locks.
        for (folder, lock) in [(Some("x-1-0"), true), (None, true), (Some("old"), false)] {
            if let Some(folder) = folder {
                atomic::write(&parent.path().join(folder).join("file"), b"x").unwrap();
            }
            if lock {
                atomic::write(&parent.path().join(folder.unwrap_or("y-1-0").to_owned() + LOCK), b"").unwrap();
            }
        }
        assert_eq!(sweep(parent.path()).unwrap(), 2);
        let mut left: Vec<_> = std::fs::read_dir(parent.path()).unwrap().flatten().map(|entry| entry.path()).collect();
        left.sort();
        let own = living.path().file_name().unwrap().to_str().unwrap();
        let expected = [".trash", own, &format!("{own}{LOCK}")].map(|name| parent.path().join(name));
        assert_eq!(left, expected);
    }
}

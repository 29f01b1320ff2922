//! A worktree's link to a git directory, where nothing can be mounted in place of the repository's own.
//!
//! Inside a box with mounts, the worktree's `.git` file leads to the agent's git directory, because that lies where the
//! repository's lies outside. Without mounts the file itself must lead elsewhere while a box is open:
//! 1. A mark is written beside the private folders, where no box can write, and is safe on disk.
//! 2. The file is replaced by one that names the agent's git directory.
//! 3. The box runs, and ends.
//! 4. The file is replaced by the one we know, whatever lies there; then the mark is removed.
//!
//! A crash in between leaves the mark, and whoever next takes over the run does step 4. The agent can replace the file: it is
//! looked at without following it, and never believed.
//!
//! *What is weaker here?* Between 2 and 4, git that the *user* runs in the worktree reads what the agent wrote, settings
//! that name programs included. The user is told.

use std::fs::Permissions;
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use sandbox::Form;

use super::check::Workspace;
use super::error::Error;
use super::surroundings::Surroundings;
use crate::store::atomic::{self, Existing};

/// The longest list of object folders that is believed to be one, in bytes.
const LIST_MAX: u64 = 64 * 1024;

impl Workspace {
    /// Makes the worktree ready for a box in which an agent works. Nothing of the agent may run.
    pub fn enter(&self, form: Form, around: &Surroundings) -> Result<(), Error> {
        match form {
            Form::Full => return self.leave(),
            Form::LandlockOnly => {}
        }
        self.leave()?;
        self.check()?;
        borrow_from(self.place.private(), Path::new("git/objects/info/alternates"), &around.common.join("objects"))
            .map_err(|error| self.tampered(&format!("the list of objects its git directory borrows: {error}")))?;
        let mark = self.place.repointed();
        atomic::write(&mark, b"")?;
        atomic::write_for_user(&self.place.worktree().join(".git"), &self.repointed(), Existing::Replace)?;
        let worktree = self.place.worktree().display();
        tracing::warn!("do not run git in `{worktree}` until the run ends: it would read settings that an agent wrote");
        Ok(())
    }

    /// Gives the worktree its own link back, if it does not have it. No box may be open.
    ///
    /// Where the folder is gone, or is another one, there is nothing to give back: nothing is written, and the error says so
    /// this once.
    pub fn leave(&self) -> Result<(), Error> {
        let mark = self.place.repointed();
        if mark.symlink_metadata().is_err() {
            return Ok(());
        }
        let unmark = || std::fs::remove_file(&mark).map_err(|error| Error::io("remove", &mark, error));
        if let Err(error) = self.check_folder() {
            unmark()?;
            return Err(error);
        }
        let mut found = self.check();
        let own = self.place.worktree().join(".git");
        if own.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            let aside = self.set_aside(&own)?;
            found =
                Err(self.tampered(&format!("its `.git` had become a folder, which lies at `{}` now", aside.display())));
        }
        atomic::write_for_user(&own, &self.dot_git()?, Existing::Replace)?;
        unmark()?;
        found
    }

    /// Takes away a folder that lies where our file is to be: git that the user runs in the worktree would read its settings.
    /// What is in it stays, for the user to look at. Gives where.
    fn set_aside(&self, folder: &Path) -> Result<PathBuf, Error> {
        let mut places = (1..).map(|number: u64| self.place.private().join(format!("replaced-git-{number}")));
        let aside = places.find(|place| place.symlink_metadata().is_err()).unwrap_or_default();
        // Moved, a folder gets another parent, so it must be writable; the agent can have seen to it that it is not.
        std::fs::set_permissions(folder, Permissions::from_mode(0o700))
            .map_err(|error| Error::io("open up", folder, error))?;
        atomic::rename(folder, &aside)?;
        Ok(aside)
    }

    /// What the file holds while it leads to the agent's git directory.
    pub(super) fn repointed(&self) -> Vec<u8> {
        let admin = self.place.git().join("worktrees").join(self.place.name());
        [b"gitdir: ", admin.as_os_str().as_bytes(), b"\n"].concat()
    }

    /// Has the capture's git directory borrow from the repository's objects, where a box sees them.
    pub fn aim_capture(&self, objects: &Path) -> Result<(), Error> {
        let list = self.place.capture().join("objects/info/alternates");
        let wanted = [objects.as_os_str().as_bytes(), b"\n"].concat();
        match std::fs::read(&list) {
            Ok(found) if found == wanted => Ok(()),
            Ok(_) | Err(_) => Ok(atomic::write(&list, &wanted)?),
        }
    }
}

/// Adds `objects` to the folders that a git directory below `root` borrows from. An agent may have had it: no link is
/// followed. With mounts, the same folder is the directory's own, and git passes over it.
fn borrow_from(root: &Path, list: &Path, objects: &Path) -> std::io::Result<()> {
    let folder = rustix::fs::openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let mut file = std::fs::File::from(rustix::fs::openat2(&folder, list, flags, Mode::from_raw_mode(0o600), within)?);
    if !file.metadata()?.is_file() {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let line = [objects.as_os_str().as_bytes(), b"\n"].concat();
    let mut text = Vec::new();
    (&mut file).take(LIST_MAX).read_to_end(&mut text)?;
    if text.split_inclusive(|byte| *byte == b'\n').any(|found| found == line) {
        return Ok(());
    }
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
    text.extend(line);
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(&text)
}

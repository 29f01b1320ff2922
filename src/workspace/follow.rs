//! Following the user who moved the repository, or the folder of all worktrees.
//!
//! A worktree and its entry in the repository name each other by their paths. After a move one of them names a place that is
//! not there any more. `git worktree repair` would mend that, but it is git run in a folder that an agent filled; so the two
//! files are written here, from what we know and not from what lies there:
//! 1. The folder must be the one that was made, by device and inode, and its `.git` file hold what was written into it.
//! 2. The entry must lead to where the worktree was, and nothing may be there; else it is another's, as after a copy.
//! 3. The `.git` file is replaced, then the entry's, then our own record. A crash in between is seen in step 1 and 2 again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::check::Workspace;
use super::error::Error;
use crate::store::atomic::{self, Existing};

impl Workspace {
    /// Mends both links where a move broke one. True: the workspace has changed, and its record must be kept anew. Nothing
    /// may run in it.
    pub fn follow(&mut self, common_dir: &Path) -> Result<bool, Error> {
        let admin = common_dir.join("worktrees").join(self.place.name());
        let link = self.place.worktree().join(".git");
        if self.place.worktree().symlink_metadata().is_err() {
            return Ok(false);
        }
        // Without its entry there is nothing to lead to.
        let Some(listed) = load_link(&admin) else { return Ok(false) };
        if self.admin_dir == admin && listed == link {
            return Ok(false);
        }
        if listed != link && listed.symlink_metadata().is_ok() {
            return Err(self.tampered(&format!("its entry in the repository is that of `{}`", listed.display())));
        }
        let wanted = [b"gitdir: ", admin.as_os_str().as_bytes(), b"\n"].concat();
        if let Err(error) = self.check() {
            // A crash came after the file was replaced.
            let mut mended = self.clone();
            mended.set_links(admin.clone(), &wanted);
            mended.check().map_err(|_| error)?;
        }
        atomic::write_for_user(&link, &wanted, Existing::Replace)?;
        if listed != link {
            let text = [link.as_os_str().as_bytes(), b"\n"].concat();
            atomic::write_for_user(&admin.join("gitdir"), &text, Existing::Replace)?;
        }
        self.set_links(admin, &wanted);
        Ok(true)
    }
}

/// The `.git` file that an entry of the repository leads to, if there is such an entry.
pub(super) fn load_link(admin: &Path) -> Option<PathBuf> {
    let bytes = std::fs::read(admin.join("gitdir")).ok()?;
    Some(admin.join(OsStr::from_bytes(bytes.strip_suffix(b"\n").unwrap_or(&bytes))))
}

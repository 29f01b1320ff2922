//! How much room a file system has.

use std::path::Path;

/// Less than this is no room: what is written then fails here or there.
const NONE: u64 = 64 << 10;

/// Whether there is no room left, for bytes or for files, where `path` lies. One that cannot be looked at is not full.
pub fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|space| {
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        // Some file systems count no files.
        free < NONE || (space.f_files > 0 && space.f_favail == 0)
    })
}

//! Where the socket lies: in the run's folder, reached through a handle on that folder.
//!
//! Why through a handle: the address of a socket has room for 107 bytes, and a repository can lie deeper than that.
//! `/proc/self/fd/<n>/control.sock` is short wherever the folder is, and is that very folder even where it is renamed.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use tokio::net::{UnixListener, UnixStream};

use crate::store::RunDir;
use crate::store::layout::CONTROL_SOCKET;

/// A run's folder, held.
#[derive(Debug)]
struct Held(File);

impl Held {
    fn of(run: &RunDir) -> io::Result<Self> {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        Ok(Self(OpenOptions::new().read(true).custom_flags(flags).open(run.root())?))
    }

    /// The socket's path: short, and the same file as [`RunDir::control_socket`].
    fn path(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.0.as_raw_fd().to_string()).join(CONTROL_SOCKET)
    }
}

/// The place of a socket that is listened on. The socket is gone when this is dropped, unless another lies in its place.
#[derive(Debug)]
pub(super) struct Place {
    held: Held,
    inode: (u64, u64),
}

/// Makes the socket of `run`, in place of one that a coordinator left which died. The caller holds the run's lock, so no
/// living coordinator listens there; and holds it until the place is dropped.
pub(super) fn bind(run: &RunDir) -> io::Result<(UnixListener, Place)> {
    let held = Held::of(run)?;
    let path = held.path();
    match std::fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(&path)?;
    // The folder is the user's alone, so nobody else came in before this.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    let made = std::fs::symlink_metadata(&path)?;
    Ok((listener, Place { held, inode: (made.dev(), made.ino()) }))
}

impl Drop for Place {
    fn drop(&mut self) {
        let path = self.held.path();
        let is_ours = std::fs::symlink_metadata(&path).is_ok_and(|found| (found.dev(), found.ino()) == self.inode);
        if is_ours {
            drop(std::fs::remove_file(path));
        }
    }
}

/// Connects to the socket of `run`. Never waits for a coordinator that does not take anybody in.
pub(super) async fn connect(run: &RunDir) -> io::Result<UnixStream> {
    let held = Held::of(run)?;
    UnixStream::connect(held.path()).await
}

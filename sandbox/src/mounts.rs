//! Carrying out the mount steps, in init.
//!
//! All work is done on descriptors: a source is a detached copy of a host tree, a target is found below the new root by
//! [`crate::place`]. The new root is attached over the old one and entered by descriptor, so until the pivot an absolute
//! path still means the host's.

use crate::place::{self, Missing};
use crate::sys::{self, MountAttributes};
use crate::wire::Fault;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Devices that neither keep nor reveal anything.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// The file that masked ones are replaced by; lies in `/dev`, which every box has.
const EMPTY_FILE: &str = ".masked";

/// What has been mounted so far.
#[derive(Default)]
pub(crate) struct Mounts {
    sources: HashMap<u32, OwnedFd>,
    root: Option<OwnedFd>,
    devices: Option<OwnedFd>,
    processes: Option<OwnedFd>,
    hidden: HashMap<PathBuf, OwnedFd>,
}

impl Mounts {
    /// Every mount on its own from here on.
    pub(crate) fn private() -> Result<(), Fault> {
        Ok(rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
    }

    /// Takes hold of a host path, along no symlink: whoever may write on the way could have put one there just now.
    pub(crate) fn clone(&mut self, id: u32, source: &Path, read_only: bool) -> Result<(), Fault> {
        let host = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let found = place::find(host.as_fd(), source, Missing::Error)?;
        let tree = copy(found.as_fd(), Path::new("")).map_err(|fault| fault.at(source))?;
        let mut attributes = MountAttributes::NO_SUID.and(MountAttributes::NO_DEVICES);
        if read_only {
            attributes = attributes.and(MountAttributes::READ_ONLY);
        }
        sys::restrict_mount(tree.as_fd(), attributes, true).map_err(|error| Fault::from(error).at(source))?;
        self.sources.insert(id, tree);
        Ok(())
    }

    /// Makes the new root out of the host's tree, and goes there.
    pub(crate) fn enter_root(&mut self) -> Result<(), Fault> {
        let tree = copy(CWD, Path::new("/"))?;
        let attributes = MountAttributes::READ_ONLY.and(MountAttributes::NO_SUID).and(MountAttributes::NO_DEVICES);
        sys::restrict_mount(tree.as_fd(), attributes, true)?;
        let host = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        attach(tree.as_fd(), host.as_fd())?;
        self.root = Some(tree);
        Ok(())
    }

    /// A `/dev` of its own.
    pub(crate) fn devices(&mut self, size: u64) -> Result<(), Fault> {
        let dev = tmpfs(0o755, 1 << 16)?;
        self.put(dev.as_fd(), Path::new("/dev"), Missing::Error)?;
        for name in DEVICES {
            device(dev.as_fd(), name).map_err(|fault| fault.at(Path::new("/dev").join(name)))?;
        }
        let terminals = new_mount(
            "devpts",
            &[("mode", "0620"), ("ptmxmode", "0666")],
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
        )?;
        rustix::fs::mkdirat(&dev, "pts", Mode::from_raw_mode(0o755))?;
        attach_at(terminals.as_fd(), dev.as_fd(), "pts")?;
        for (target, link) in [
            ("pts/ptmx", "ptmx"),
            ("/proc/self/fd", "fd"),
            ("/proc/self/fd/0", "stdin"),
            ("/proc/self/fd/1", "stdout"),
            ("/proc/self/fd/2", "stderr"),
        ] {
            rustix::fs::symlinkat(target, &dev, link)?;
        }
        let shared = tmpfs(0o1777, size)?;
        rustix::fs::mkdirat(&dev, "shm", Mode::from_raw_mode(0o755))?;
        attach_at(shared.as_fd(), dev.as_fd(), "shm")?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(rustix::fs::openat(&dev, EMPTY_FILE, flags, Mode::from_raw_mode(0o444))?);
        sys::restrict_mount(dev.as_fd(), MountAttributes::READ_ONLY, false)?;
        self.devices = Some(dev);
        Ok(())
    }

    /// A `/proc` of its own.
    pub(crate) fn processes(&mut self) -> Result<(), Fault> {
        let attributes =
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let proc = new_mount("proc", &[], attributes)?;
        self.put(proc.as_fd(), Path::new("/proc"), Missing::Error)?;
        self.processes = Some(proc);
        Ok(())
    }

    /// Sets the number of user namespaces that may be created inside to none. Each user namespace has a limit of its own,
    /// so this needs no right outside and touches nothing there.
    pub(crate) fn forbid_nesting(&self) -> Result<(), Fault> {
        self.set("sys/user/max_user_namespaces", "0")
    }

    /// Bounds the numbers that processes of this pid namespace get. From Linux 6.14 on each has a bound of its own; on an
    /// older kernel this would be the host's.
    pub(crate) fn process_numbers(&self, below: u32) -> Result<(), Fault> {
        self.set("sys/kernel/pid_max", &below.to_string())
    }

    fn set(&self, name: &str, value: &str) -> Result<(), Fault> {
        let proc = self.processes.as_ref().ok_or(Errno::NOENT)?;
        let write = || {
            let file = rustix::fs::openat(proc, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::io::write(&file, value.as_bytes())
        };
        write().map_err(|errno| Fault::from(errno).at(Path::new("/proc").join(name)))?;
        Ok(())
    }

    /// Makes everything in `/proc` read-only that is not about a process of the box.
    pub(crate) fn protect_processes(&self) -> Result<(), Fault> {
        let proc = self.processes.as_ref().ok_or(Errno::NOENT)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(proc, ".", flags, Mode::empty())?;
        for entry in rustix::fs::Dir::new(folder)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if is_host_wide(name, entry.file_type()) {
                protect(proc.as_fd(), name).map_err(|fault| fault.at(Path::new("/proc").join(name)))?;
            }
        }
        Ok(())
    }

    /// A place to write in, where the host has such a directory.
    pub(crate) fn scratch(&self, target: &Path, mode: u32, size: u64) -> Result<(), Fault> {
        let at = match place::find(self.root()?, target, Missing::Error) {
            Ok(at) => at,
            // Whatever a symlink leads to is read-only or private already.
            Err(fault) if fault.errno == Errno::NOENT.raw_os_error() || fault.errno == Errno::LOOP.raw_os_error() => {
                return Ok(());
            }
            Err(fault) => return Err(fault),
        };
        let put = || attach(tmpfs(mode, size)?.as_fd(), at.as_fd());
        put().map_err(|fault: Fault| fault.at(target))
    }

    /// An empty directory over a host one; stays writable for us until [`Self::seal`].
    pub(crate) fn hide(&mut self, target: &Path) -> Result<(), Fault> {
        let empty = tmpfs(0o755, 1 << 20)?;
        self.put(empty.as_fd(), target, Missing::Directory)?;
        self.hidden.insert(target.to_owned(), empty);
        Ok(())
    }

    /// No more changes in a hidden directory.
    pub(crate) fn seal(&self, target: &Path) -> Result<(), Fault> {
        let hidden = self.hidden.get(target).ok_or_else(|| Fault::from(Errno::NOENT).at(target))?;
        sys::restrict_mount(hidden.as_fd(), MountAttributes::READ_ONLY, false)
            .map_err(|error| Fault::from(error).at(target))
    }

    /// A source into its place.
    pub(crate) fn bind(&mut self, id: u32, target: &Path) -> Result<(), Fault> {
        let tree = self.sources.remove(&id).ok_or_else(|| Fault::from(Errno::NOENT).at(target))?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&tree)?.st_mode);
        let missing = if kind == FileType::Directory { Missing::Directory } else { Missing::File };
        self.put(tree.as_fd(), target, missing)
    }

    /// An empty file over a host one, if there is one.
    pub(crate) fn mask(&self, target: &Path) -> Result<(), Fault> {
        let at = match place::find(self.root()?, target, Missing::Error) {
            Err(fault) if fault.errno == Errno::NOENT.raw_os_error() => return Ok(()),
            other => other?,
        };
        let dev = self.devices.as_ref().ok_or(Errno::NOENT)?;
        let put = || {
            let empty = copy(dev.as_fd(), Path::new(EMPTY_FILE))?;
            sys::restrict_mount(empty.as_fd(), MountAttributes::READ_ONLY, true)?;
            attach(empty.as_fd(), at.as_fd())
        };
        put().map_err(|fault: Fault| fault.at(target))
    }

    /// The new root becomes the root.
    pub(crate) fn pivot(self) -> Result<(), Fault> {
        rustix::process::fchdir(self.root()?)?;
        // The old root ends up on top of the new one, at the same place, from where it is taken away.
        rustix::process::pivot_root(".", ".")?;
        rustix::mount::unmount(".", UnmountFlags::DETACH)?;
        Ok(rustix::process::chdir("/")?)
    }

    fn root(&self) -> Result<BorrowedFd<'_>, Fault> {
        Ok(self.root.as_ref().ok_or(Errno::NOENT)?.as_fd())
    }

    fn put(&self, tree: BorrowedFd<'_>, target: &Path, missing: Missing) -> Result<(), Fault> {
        let at = place::find(self.root()?, target, missing)?;
        attach(tree, at.as_fd()).map_err(|fault| fault.at(target))
    }
}

/// Whether an entry of `/proc` is the same for the whole host: all but processes (numbers) and links to them.
fn is_host_wide(name: &OsStr, kind: FileType) -> bool {
    let first = name.as_bytes().first().copied().unwrap_or(b'.');
    kind != FileType::Symlink && first != b'.' && !first.is_ascii_digit()
}

fn protect(proc: BorrowedFd<'_>, name: &OsStr) -> Result<(), Fault> {
    let part = copy(proc, Path::new(name))?;
    sys::restrict_mount(part.as_fd(), MountAttributes::READ_ONLY, true)?;
    attach_at(part.as_fd(), proc, name)
}

/// A detached copy of a tree, with everything mounted in it: without the latter the kernel refuses, for it would uncover
/// what a mount hides. An empty path means the place itself.
fn copy(at: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Fault> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    Ok(rustix::mount::open_tree(at, path, flags)?)
}

fn attach(tree: BorrowedFd<'_>, at: BorrowedFd<'_>) -> Result<(), Fault> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, "", at, "", flags)?)
}

fn attach_at(tree: BorrowedFd<'_>, at: BorrowedFd<'_>, name: impl AsRef<OsStr>) -> Result<(), Fault> {
    let point = place::find(at, &Path::new("/").join(name.as_ref()), Missing::Error)?;
    attach(tree, point.as_fd())
}

fn new_mount(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> Result<OwnedFd, Fault> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    rustix::mount::fsconfig_create(context.as_fd())?;
    Ok(rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn tmpfs(mode: u32, size: u64) -> Result<OwnedFd, Fault> {
    let (mode, size) = (format!("{mode:o}"), size.to_string());
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    new_mount("tmpfs", &[("mode", &mode), ("size", &size)], attributes)
}

/// The host's device, read-only as a mount: it still reads and writes, but its mode, owner and times are out of reach.
fn device(dev: BorrowedFd<'_>, name: &str) -> Result<(), Fault> {
    let tree = copy(CWD, &Path::new("/dev").join(name))?;
    let kind = FileType::from_raw_mode(rustix::fs::statat(&tree, "", AtFlags::EMPTY_PATH)?.st_mode);
    if kind != FileType::CharacterDevice {
        return Err(Fault::from(Errno::NODEV));
    }
    let attributes = MountAttributes::READ_ONLY.and(MountAttributes::NO_SUID).and(MountAttributes::NO_EXEC);
    sys::restrict_mount(tree.as_fd(), attributes, true)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    drop(rustix::fs::openat(dev, name, flags, Mode::from_raw_mode(0o666))?);
    attach_at(tree.as_fd(), dev, name)
}

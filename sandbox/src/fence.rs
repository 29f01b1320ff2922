//! The fence: Landlock rules that say once more what the mounts say, and bound signals and abstract sockets.
//!
//! The mounts already make everything read-only that a box may not write. The rules are there for the day one of them is
//! wrong, or a mount can be got round: they belong to the process and not to the place. They are coarser: what is writable
//! is writable with all below it, so a read-only place in a writable one is held by its mount alone. Reading is bounded by
//! what is hidden and by nothing here.
//!
//! No rules about TCP: they know ports and not addresses. A box without a network has a loopback of its own, where test
//! servers must run, and leads nowhere else; one with the host's network was given just that.

use crate::place::{self, Missing};
use crate::wire::Fault;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, Scope,
};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

/// The first version whose rules ordinary tools can live with: the one before forbids to move a file to another directory.
pub(crate) const FIRST: u8 = 2;
/// The first version that bounds TCP.
pub(crate) const NETWORK: u8 = 4;
/// The first version that bounds signals and abstract sockets.
pub(crate) const SCOPES: u8 = 6;
/// The last version whose rights about files are known to do what is wanted. Later ones are used as this one.
const LAST: u8 = 8;

/// What commands are held to where nothing is mounted.
pub(crate) struct Bounds<'a> {
    /// What may be read, with all below.
    pub(crate) readable: &'a [PathBuf],
    /// What may be read and written, with all below.
    pub(crate) writable: &'a [PathBuf],
    /// What of the readable may not be read.
    pub(crate) hidden: &'a [PathBuf],
    /// Whether TCP is left alone.
    pub(crate) network: bool,
    /// Whether signals and abstract sockets are bounded.
    pub(crate) scopes: bool,
}

/// A set of rules, ready to be applied.
#[derive(Debug)]
pub(crate) struct Fence {
    rules: RulesetCreated,
}

impl Fence {
    /// Makes the rules for the places as they are seen now, which nothing can move any more: they are mounts, or lie in
    /// what is read-only.
    pub(crate) fn new(version: u8, writable: Option<&[PathBuf]>, scopes: bool) -> Result<Self, Fault> {
        let version = ABI::from(i32::from(version.min(LAST)));
        let rights = AccessFs::from_write(version);
        let mut rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        if writable.is_some() {
            rules = rules.handle_access(rights).map_err(fault)?;
        }
        if scopes {
            rules = rules.scope(Scope::from_all(version)).map_err(fault)?;
        }
        let mut rules = rules.create().map_err(fault)?;
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
        for path in writable.unwrap_or_default() {
            let Some((place, rights)) = place(&root, path, rights, version)? else {
                continue;
            };
            rules = rules.add_rule(PathBeneath::new(place, rights)).map_err(|error| fault(error).at(path))?;
        }
        Ok(Self { rules: rules.no_new_privs(false) })
    }

    /// Makes rules about everything that there are rules for.
    pub(crate) fn cage(version: u8, bounds: &Bounds<'_>) -> Result<Self, Fault> {
        let version = ABI::from(i32::from(version.min(LAST)));
        let mut rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        rules = rules.handle_access(AccessFs::from_all(version)).map_err(fault)?;
        if !bounds.network {
            rules = rules.handle_access(AccessNet::from_all(version)).map_err(fault)?;
        }
        if bounds.scopes {
            rules = rules.scope(Scope::from_all(version)).map_err(fault)?;
        }
        let mut rules = rules.create().map_err(fault)?;
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
        let mut readable = Vec::new();
        for path in bounds.readable {
            around(path, bounds.hidden, &mut readable);
        }
        let reads = readable.iter().map(|path| (path, AccessFs::from_read(version)));
        let writes = bounds.writable.iter().map(|path| (path, AccessFs::from_all(version)));
        for (path, rights) in reads.chain(writes) {
            let Some((place, rights)) = place(&root, path, rights, version)? else {
                continue;
            };
            rules = rules.add_rule(PathBeneath::new(place, rights)).map_err(|error| fault(error).at(path))?;
        }
        Ok(Self { rules: rules.no_new_privs(false) })
    }

    /// Puts the fence around this process and all it will start, for good.
    pub(crate) fn apply(&self) -> io::Result<()> {
        self.rules.try_clone()?.restrict_self().map(drop).map_err(|error| io::Error::from_raw_os_error(errno(&error)))
    }
}

/// What of `path` may be read when `hidden` may not: all of it, or each of what it holds apart, for a rule takes nothing away.
/// What is made there later is not among it. A folder that is hidden and named all the same is wanted; a file is not.
fn around(path: &Path, hidden: &[PathBuf], found: &mut Vec<PathBuf>) {
    let is_file = |path: &Path| path.symlink_metadata().is_ok_and(|kind| !kind.is_dir());
    if hidden.iter().any(|hidden| hidden == path) && is_file(path) {
        return;
    }
    if !hidden.iter().any(|hidden| hidden != path && hidden.starts_with(path)) {
        found.push(path.to_owned());
        return;
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let below = entry.path();
        if !hidden.contains(&below) {
            around(&below, hidden, found);
        }
    }
}

/// A handle on one place and the rights that make sense there; `None` where there is nothing to write to.
fn place(
    root: &rustix::fd::OwnedFd,
    path: &Path,
    rights: BitFlags<AccessFs>,
    version: ABI,
) -> Result<Option<(rustix::fd::OwnedFd, BitFlags<AccessFs>)>, Fault> {
    let place = match place::find(root.as_fd(), path, Missing::Error) {
        // A temporary directory that this host does not have, or has as a link to another.
        Err(fault) if [Errno::NOENT, Errno::LOOP].iter().any(|errno| errno.raw_os_error() == fault.errno) => {
            return Ok(None);
        }
        other => other?,
    };
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
    let rights = if kind == FileType::Directory { rights } else { rights & AccessFs::from_file(version) };
    Ok(Some((place, rights)))
}

/// The kernel's answer, which lies at the bottom of the library's error.
fn errno(error: &(dyn std::error::Error + 'static)) -> i32 {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(code) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return code;
        }
        next = error.source();
    }
    // Nothing the kernel said: it lacks what was asked for.
    Errno::OPNOTSUPP.raw_os_error()
}

fn fault(error: impl std::error::Error + 'static) -> Fault {
    Fault::from(Errno::from_raw_os_error(errno(&error)))
}

//! What a box may see and do, as plain data.
//!
//! A policy says nothing about how it is enforced; [`crate::Enforcement::plan`] turns it into steps or says why it cannot.
//! Every path must be absolute and canonical: the mounts refuse to walk through a symlink.

use crate::refusal::Layer;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Whether a bound path can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Access {
    /// Reading only, for this mount and for all below it; metadata cannot change either.
    ReadOnly,
    /// Reading and writing, as far as file modes allow.
    ReadWrite,
}

/// The network a box has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// A network of its own with nothing but the loopback interface.
    None,
    /// The same, and on its loopback one port whose connections come out at [`crate::Sandbox::take_relay`]: what lies behind
    /// is for the parent to decide.
    Relay {
        /// The port.
        port: u16,
    },
    /// The host's network, with everything that listens on it.
    Host,
}

/// Whether processes in the box may create namespaces of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Nesting {
    /// They may not: the user-namespace limit of the box is zero, and the filter of system calls denies it too.
    Denied,
    /// They may, for agents that bring a sandbox. What is mounted stays locked, yet more of the kernel is in reach: the
    /// filter lets namespaces and mounts be made, and Landlock's rules about files, which forbid mounts, are left out. An
    /// ordinary user's box leaves the kernel's part of `/proc` uncovered, so that a fresh one can be mounted inside; its
    /// files belong to root, who does not exist there. In a box of root's they stay covered, and a fresh one is refused by
    /// the kernel.
    Allowed,
}

/// A host directory that takes the place of another path inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateDir {
    /// The directory on the host.
    pub source: PathBuf,
    /// Where it is seen inside.
    pub target: PathBuf,
}

/// A host file or directory shown inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expose {
    /// The file or directory on the host.
    pub source: PathBuf,
    /// Where it is seen inside; made if missing and if the place can be written.
    pub target: PathBuf,
    /// Whether it can be written.
    pub access: Access,
}

impl Expose {
    /// Shows `path` at its own place, read-only.
    pub fn read_only(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { source: path.clone(), target: path, access: Access::ReadOnly }
    }

    /// Shows `path` at its own place, writable.
    pub fn read_write(path: impl Into<PathBuf>) -> Self {
        Self { access: Access::ReadWrite, ..Self::read_only(path) }
    }

    /// The same, seen at `target` instead.
    #[must_use]
    pub fn at(self, target: impl Into<PathBuf>) -> Self {
        Self { target: target.into(), ..self }
    }
}

/// How much a box may use. What is not given is not bounded, but for the number of processes.
///
/// Core dumps are always off: they would be written where the host's pattern says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The most memory of all its processes together, in bytes.
    pub memory: Option<u64>,
    /// The most processes and threads at once; 4096 if not given, where the machine can bound them.
    pub processes: Option<u32>,
    /// Its share of the processor where others want it too, from 1 to 10000; 100 is what everything else has.
    pub cpu_weight: Option<u16>,
    /// The most disk space, in bytes, of what it can write: the working directory, the private directories, and what is
    /// exposed writable.
    pub disk: Option<u64>,
    /// The largest file a process may write, in bytes. One above the inherited limit is lowered to it.
    pub file_size: Option<u64>,
    /// How many files a process may hold open.
    ///
    /// The kernel lets the processes of one user have no more files on their way through sockets than the one that sends holds
    /// open at most. Whoever runs boxes should be allowed more open files than the boxes, or one of them can keep the others
    /// from being set up.
    pub open_files: Option<OpenFiles>,
    /// Size of each temporary file system of the box, in bytes; 256 MiB if not given.
    pub scratch: Option<u64>,
}

/// How many files a process may hold open. What is above the inherited limit is lowered to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// To begin with.
    pub soft: u64,
    /// To what it may raise that.
    pub hard: u64,
}

/// What one box may see and do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The host name seen inside.
    pub hostname: String,
    /// The working directory, seen at its own path.
    pub workdir: PathBuf,
    /// Whether the working directory can be written.
    pub workdir_access: Access,
    /// The directory that stands in for `$HOME`.
    pub home: PrivateDir,
    /// The host directory that stands in for `/tmp`.
    pub tmp: PathBuf,
    /// Directories that are empty and read-only inside, apart from what is exposed below them. They must exist: a place
    /// to hide cannot be made in a tree that is read-only.
    pub hide: Vec<PathBuf>,
    /// Host paths shown inside, parents before children. One that is hidden as well is just exposed.
    pub expose: Vec<Expose>,
    /// Files that are empty and read-only inside. A missing one needs no mask and is passed over.
    pub mask: Vec<PathBuf>,
    /// Paths that can be read but not removed, renamed or written, though what holds them is writable.
    ///
    /// Only the path itself is held. A directory between it and the mount it lies in could still be renamed, so pin
    /// direct children of the working directory or of an exposed path.
    pub pin: Vec<PathBuf>,
    /// The network.
    pub network: Network,
    /// Unix sockets made inside whose listening ends are handed out by [`crate::Sandbox::take_listener`].
    pub listen: Vec<PathBuf>,
    /// Limits on each process.
    pub limits: Limits,
    /// Whether namespaces may be created inside.
    pub nesting: Nesting,
    /// Layers that the box may do without, where this machine cannot give them. Without being named here, one that is
    /// missing is a [`crate::Refusal`].
    pub may_lack: BTreeSet<Layer>,
}

impl Policy {
    /// The tightest policy: a writable `workdir`, a private home and `/tmp`, no network, all else read-only.
    pub fn new(workdir: impl Into<PathBuf>, home: PrivateDir, tmp: impl Into<PathBuf>) -> Self {
        Self {
            hostname: "sandbox".to_owned(),
            workdir: workdir.into(),
            workdir_access: Access::ReadWrite,
            home,
            tmp: tmp.into(),
            hide: Vec::new(),
            expose: Vec::new(),
            mask: Vec::new(),
            pin: Vec::new(),
            network: Network::None,
            listen: Vec::new(),
            limits: Limits::default(),
            nesting: Nesting::Denied,
            may_lack: BTreeSet::new(),
        }
    }

    /// Sets the host name seen inside.
    #[must_use]
    pub fn hostname(mut self, name: impl Into<String>) -> Self {
        self.hostname = name.into();
        self
    }

    /// Sets whether the working directory can be written.
    #[must_use]
    pub fn workdir_access(mut self, access: Access) -> Self {
        self.workdir_access = access;
        self
    }

    /// Hides a directory.
    #[must_use]
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Self {
        self.hide.push(path.into());
        self
    }

    /// Shows a host path.
    #[must_use]
    pub fn expose(mut self, expose: Expose) -> Self {
        self.expose.push(expose);
        self
    }

    /// Empties a file.
    #[must_use]
    pub fn mask(mut self, path: impl Into<PathBuf>) -> Self {
        self.mask.push(path.into());
        self
    }

    /// Holds a path in its place, read-only.
    #[must_use]
    pub fn pin(mut self, path: impl Into<PathBuf>) -> Self {
        self.pin.push(path.into());
        self
    }

    /// Sets the network.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Makes a listening socket inside.
    #[must_use]
    pub fn listen(mut self, path: impl Into<PathBuf>) -> Self {
        self.listen.push(path.into());
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets whether namespaces may be created inside.
    #[must_use]
    pub fn nesting(mut self, nesting: Nesting) -> Self {
        self.nesting = nesting;
        self
    }

    /// Lets the box do without a layer that this machine cannot give.
    #[must_use]
    pub fn may_lack(mut self, layer: Layer) -> Self {
        self.may_lack.insert(layer);
        self
    }
}

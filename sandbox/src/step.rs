//! The steps that make a box, each one thing the kernel is asked to do, in the order given.
//!
//! Their text form is what the plan's tests compare and what a start error names.

use crate::policy::Access;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// One identity inside a box and the one outside that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The number seen by the host.
    pub outer: u32,
    /// The number seen inside; never 0.
    pub inner: u32,
}

/// A limit of the kernel on one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    /// Size of a core dump.
    Core,
    /// Size of a written file.
    FileSize,
    /// Number of open files.
    OpenFiles,
    /// Number of processes and threads of the user in this user namespace, the two that serve the box among them.
    Processes,
}

/// Who carries out a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The process that creates the namespaces and waits for the box to end.
    Outer,
    /// Process 1 of the box, before it takes orders.
    Init,
    /// Each command, between fork and exec.
    Command,
}

/// One step. Sources are named by number, for the same host path may be needed twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// When the machine runs out of memory, the kernel takes the box before other programs.
    KillFirst {
        /// What is added to the kernel's score, in thousandths of the machine's memory.
        score: u32,
    },
    /// A control group of the box's own, made by the parent, for its commands; what serves the box is in one beside it.
    ControlGroup {
        /// Below which group.
        #[serde(with = "crate::wire::path")]
        parent: PathBuf,
        /// The most memory of its commands, in bytes.
        memory: Option<u64>,
        /// The most processes and threads of its commands.
        processes: Option<u32>,
        /// Its share of the processor; 100 is what every other group has.
        cpu_weight: Option<u16>,
    },
    /// New user, mount, pid, ipc, uts and cgroup namespaces, and a network one if asked.
    Unshare {
        /// Whether the box gets a network of its own.
        network: bool,
    },
    /// The one user and the one group that exist inside.
    Map {
        /// The user.
        user: Identity,
        /// The group.
        group: Identity,
    },
    /// Nothing mounted from here on is seen outside, nor the other way round.
    Private,
    /// Takes hold of a host path, before anything covers it.
    Clone {
        /// Its number.
        id: u32,
        /// The host path.
        #[serde(with = "crate::wire::path")]
        source: PathBuf,
        /// Whether the copy can be written.
        access: Access,
    },
    /// The host's whole tree, read-only, without device files and set-user-id programs, as the new root.
    Root,
    /// A `/dev` of harmless devices whose own metadata cannot be changed.
    Devices {
        /// Size of `/dev/shm` in bytes.
        size: u64,
    },
    /// A `/proc` that shows this box alone.
    Processes,
    /// The kernel gives out process numbers of the box below this one only. It gives out the first 300 once and then never
    /// again, so this is 300 more than the processes that are always possible, and at first there can be as many more.
    ProcessNumbers {
        /// The first number that is not given out.
        below: u32,
    },
    /// No user namespace can be created inside.
    ForbidNesting,
    /// Everything in `/proc` that is not about a process of the box becomes read-only.
    ///
    /// File modes are no protection when the box is run by root: the owner of `core_pattern` is root whatever
    /// capabilities are gone, and what stands in it is run by the host. Modes themselves are shared too: a `chmod` of
    /// `/proc/kallsyms` in a box would open it for every user of the host.
    ProtectProcesses,
    /// An empty directory to write in, which vanishes with the box. Passed over if missing or a symlink.
    Scratch {
        /// Where.
        #[serde(with = "crate::wire::path")]
        target: PathBuf,
        /// Its mode.
        mode: u32,
        /// Its size in bytes.
        size: u64,
    },
    /// An empty directory in place of a host one.
    Hide {
        /// Which.
        #[serde(with = "crate::wire::path")]
        target: PathBuf,
    },
    /// A source that was taken hold of, put in its place.
    Bind {
        /// Its number.
        id: u32,
        /// Where.
        #[serde(with = "crate::wire::path")]
        target: PathBuf,
    },
    /// An empty file in place of a host one.
    Mask {
        /// Which.
        #[serde(with = "crate::wire::path")]
        target: PathBuf,
    },
    /// A hidden directory becomes read-only, now that all mount points in it exist.
    Seal {
        /// Which.
        #[serde(with = "crate::wire::path")]
        target: PathBuf,
    },
    /// The new root becomes the root, and the old one is gone.
    Pivot,
    /// The host name.
    Hostname {
        /// The name.
        name: String,
    },
    /// The loopback interface is switched on.
    Loopback,
    /// A unix socket that the box can connect to and the parent process accepts on.
    Listen {
        /// Where.
        #[serde(with = "crate::wire::path")]
        path: PathBuf,
    },
    /// A TCP socket on the box's own loopback that the box can connect to and the parent process accepts on.
    Relay {
        /// The port.
        port: u16,
    },
    /// No capability is left, nor can one come back.
    DropCapabilities,
    /// No program can give more rights than its caller has.
    NoNewPrivileges,
    /// Processes of the box can neither read nor trace the box's init.
    Undumpable,
    /// The supplementary groups, as far as they may be left, and the session's keyring.
    LeaveSession,
    /// A control group of the box's own, for the kernel to kill as one.
    KillGroup {
        /// The group that it is made in.
        #[serde(with = "crate::wire::path")]
        parent: PathBuf,
    },
    /// Orphans of the box become children of its init, and after it of the outer process.
    Adopt,
    /// A link in the private home to something that is shown at its own place, unless something lies there already.
    Link {
        /// Where.
        #[serde(with = "crate::wire::path")]
        target: PathBuf,
        /// To what.
        #[serde(with = "crate::wire::path")]
        source: PathBuf,
    },
    /// A limit on each process.
    Limit {
        /// On what.
        resource: Resource,
        /// How much to begin with.
        soft: u64,
        /// To what a process may raise that.
        hard: u64,
    },
}

impl Step {
    /// A limit that stays as it is.
    pub(crate) const fn limit(resource: Resource, value: u64) -> Self {
        Self::Limit { resource, soft: value, hard: value }
    }

    /// Who carries it out.
    pub const fn stage(&self) -> Stage {
        match self {
            Self::KillFirst { .. }
            | Self::ControlGroup { .. }
            | Self::Unshare { .. }
            | Self::Map { .. }
            | Self::LeaveSession
            | Self::KillGroup { .. } => Stage::Outer,
            Self::Private
            | Self::Clone { .. }
            | Self::Root
            | Self::Devices { .. }
            | Self::Processes
            | Self::ProcessNumbers { .. }
            | Self::ForbidNesting
            | Self::ProtectProcesses
            | Self::Scratch { .. }
            | Self::Hide { .. }
            | Self::Bind { .. }
            | Self::Mask { .. }
            | Self::Seal { .. }
            | Self::Pivot
            | Self::Hostname { .. }
            | Self::Loopback
            | Self::Listen { .. }
            | Self::Relay { .. }
            | Self::DropCapabilities
            | Self::NoNewPrivileges
            | Self::Adopt
            | Self::Link { .. }
            | Self::Undumpable => Stage::Init,
            Self::Limit { .. } => Stage::Command,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KillFirst { score } => write!(f, "kill first, score {score}"),
            Self::ControlGroup { parent, memory, processes, cpu_weight } => {
                write!(f, "control group below {}", parent.display())?;
                memory.iter().try_for_each(|memory| write!(f, ", memory {memory}"))?;
                processes.iter().try_for_each(|processes| write!(f, ", processes {processes}"))?;
                cpu_weight.iter().try_for_each(|weight| write!(f, ", cpu weight {weight}"))
            }
            Self::Unshare { network: true } => f.write_str("unshare user mount pid ipc uts cgroup net"),
            Self::Unshare { network: false } => f.write_str("unshare user mount pid ipc uts cgroup"),
            Self::Map { user, group } => write!(
                f,
                "map user {}={}, group {}={}, setgroups deny",
                user.inner, user.outer, group.inner, group.outer
            ),
            Self::Private => f.write_str("mounts private"),
            Self::Clone { id, source, access } => {
                write!(f, "clone #{id} {} {access}", source.display())
            }
            Self::Root => f.write_str("root read-only, nosuid, nodev"),
            Self::Devices { size } => write!(f, "devices, /dev/shm of {size}"),
            Self::Processes => f.write_str("proc nosuid, nodev, noexec"),
            Self::ProcessNumbers { below } => write!(f, "process numbers below {below}"),
            Self::ForbidNesting => f.write_str("forbid user namespaces"),
            Self::ProtectProcesses => f.write_str("proc parts read-only"),
            Self::Scratch { target, mode, size } => {
                write!(f, "scratch {} mode {mode:o} of {size}", target.display())
            }
            Self::Hide { target } => write!(f, "hide {}", target.display()),
            Self::Bind { id, target } => write!(f, "bind #{id} {}", target.display()),
            Self::Mask { target } => write!(f, "mask {}", target.display()),
            Self::Seal { target } => write!(f, "seal {}", target.display()),
            Self::Pivot => f.write_str("pivot"),
            Self::Hostname { name } => write!(f, "hostname {name}"),
            Self::Loopback => f.write_str("loopback up"),
            Self::Listen { path } => write!(f, "listen {}", path.display()),
            Self::Relay { port } => write!(f, "relay 127.0.0.1:{port}"),
            Self::DropCapabilities => f.write_str("drop capabilities"),
            Self::NoNewPrivileges => f.write_str("no new privileges"),
            Self::Undumpable => f.write_str("init unreadable"),
            Self::LeaveSession => f.write_str("leave groups and keyring"),
            Self::KillGroup { parent } => write!(f, "kill group in {}", parent.display()),
            Self::Adopt => f.write_str("adopt orphans"),
            Self::Link { target, source } => write!(f, "link {} -> {}", target.display(), source.display()),
            Self::Limit { resource, soft, hard } if soft == hard => write!(f, "limit {resource} {hard}"),
            Self::Limit { resource, soft, hard } => write!(f, "limit {resource} {soft}, at most {hard}"),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadOnly => "ro",
            Self::ReadWrite => "rw",
        })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Core => "core",
            Self::FileSize => "file size",
            Self::OpenFiles => "open files",
            Self::Processes => "processes",
        })
    }
}

//! What confines each command for good, from just before its program starts: the last steps of a plan.
//!
//! Apart from [`crate::Step`]s because they are made ready once, when the box starts, and applied many times; and because
//! what they forbid would keep init from its own work.

use crate::deputy;
use crate::fence::{Bounds, Fence};
use crate::filter::Filter;
use crate::policy::Nesting;
use crate::sys;
use crate::wire::Fault;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// One confinement of commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// Landlock rules.
    Landlock {
        /// The version of the kernel's interface.
        version: u8,
        /// Where files may be written and made, with all below, if that is bounded at all. It is not where namespaces may
        /// be nested: the kernel forbids every mount to a process that such rules hold for.
        #[serde(with = "crate::wire::paths")]
        writable: Option<Vec<PathBuf>>,
        /// Whether signals and connections to abstract sockets stay in the box, or rather among what one command started.
        scopes: bool,
    },
    /// Landlock rules that say by themselves what else mounts and a network of its own say.
    Cage {
        /// The version of the kernel's interface.
        version: u8,
        /// Where files may be read and run, with all below.
        #[serde(with = "crate::wire::path_list")]
        readable: Vec<PathBuf>,
        /// Where files may be read, written and made, with all below.
        #[serde(with = "crate::wire::path_list")]
        writable: Vec<PathBuf>,
        /// What of the readable may not be read.
        #[serde(with = "crate::wire::path_list")]
        hidden: Vec<PathBuf>,
        /// Whether TCP is left alone; else there is none.
        network: bool,
        /// Whether signals and connections to abstract sockets stay among what one command started.
        scopes: bool,
    },
    /// The filter of what a box without namespaces could reach by other ways than files.
    Sockets {
        /// Whether it may have sockets of the host's network; else it has none at all. Those with a path it never has.
        network: bool,
    },
    /// Modes, times and owners are changed by init, and only of what may be written.
    Metadata {
        /// Where, with all below.
        #[serde(with = "crate::wire::path_list")]
        writable: Vec<PathBuf>,
    },
    /// The filter of system calls. Always the last one.
    Seccomp {
        /// Whether it lets namespaces and mounts be made.
        nesting: Nesting,
    },
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Landlock { version, writable, scopes } => {
                write!(f, "landlock {version}")?;
                if *scopes {
                    f.write_str(", scopes")?;
                }
                if let Some(writable) = writable {
                    f.write_str(", write only")?;
                    writable.iter().try_for_each(|path| write!(f, " {}", path.display()))?;
                }
                Ok(())
            }
            Self::Cage { version, readable, writable, hidden, network, scopes } => {
                write!(f, "landlock {version}")?;
                if *scopes {
                    f.write_str(", scopes")?;
                }
                if !network {
                    f.write_str(", no tcp")?;
                }
                for (word, paths) in [("write only", writable), ("read only", readable), ("but not", hidden)] {
                    write!(f, ", {word}")?;
                    paths.iter().try_for_each(|path| write!(f, " {}", path.display()))?;
                }
                Ok(())
            }
            Self::Metadata { writable } => {
                f.write_str("metadata by init, only")?;
                writable.iter().try_for_each(|path| write!(f, " {}", path.display()))
            }
            Self::Sockets { network: true } => f.write_str("sockets of the network only"),
            Self::Sockets { network: false } => f.write_str("no sockets"),
            Self::Seccomp { nesting: Nesting::Denied } => f.write_str("seccomp"),
            Self::Seccomp { nesting: Nesting::Allowed } => f.write_str("seccomp, namespaces allowed"),
        }
    }
}

/// A guard that has been made ready.
enum Ready {
    Fence(Fence),
    Filter(Filter),
    Deputy,
}

/// All guards of a box, ready for its commands.
pub(crate) struct Guards {
    ready: Vec<Ready>,
}

impl Guards {
    /// Makes them ready, in init, when the box is otherwise complete. On failure, tells which one it was.
    pub(crate) fn new(guards: &[Guard]) -> Result<Self, (usize, Fault)> {
        let ready = guards.iter().enumerate().map(|(index, guard)| guard.ready().map_err(|fault| (index, fault)));
        Ok(Self { ready: ready.collect::<Result<_, _>>()? })
    }

    /// Confines this process, in order. Gives what init must listen to, if it is to answer calls.
    pub(crate) fn apply(&self) -> io::Result<Option<OwnedFd>> {
        let mut listener = None;
        for ready in &self.ready {
            match ready {
                Ready::Fence(fence) => fence.apply()?,
                Ready::Filter(filter) => filter.apply()?,
                Ready::Deputy => listener = Some(sys::listen_to_calls(&deputy::program())?),
            }
        }
        Ok(listener)
    }

    /// Whether init is to answer calls.
    pub(crate) fn has_deputy(&self) -> bool {
        self.ready.iter().any(|ready| matches!(ready, Ready::Deputy))
    }
}

impl Guard {
    fn ready(&self) -> Result<Ready, Fault> {
        match self {
            Self::Landlock { version, writable, scopes } => {
                Fence::new(*version, writable.as_deref(), *scopes).map(Ready::Fence)
            }
            Self::Cage { version, readable, writable, hidden, network, scopes } => {
                let bounds = Bounds { readable, writable, hidden, network: *network, scopes: *scopes };
                Fence::cage(*version, &bounds).map(Ready::Fence)
            }
            Self::Metadata { .. } => Ok(Ready::Deputy),
            Self::Sockets { network } => Ok(Ready::Filter(Filter::of_sockets(*network)?)),
            Self::Seccomp { nesting } => Ok(Ready::Filter(Filter::new(*nesting)?)),
        }
    }
}

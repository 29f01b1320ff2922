//! Why a policy cannot be enforced on this machine. A refusal means that nothing was run.

use std::fmt;

/// The layer that cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The policy contradicts itself, or names a path that cannot be used. No box can do without.
    Policy,
    /// User, mount, pid and the other namespaces.
    Namespaces,
    /// The filter of system calls.
    Seccomp,
    /// A limit that was asked for.
    Limits,
}

impl Layer {
    /// Those that a policy may allow a box to lack.
    pub const OPTIONAL: [Self; 3] = [Self::Namespaces, Self::Seccomp, Self::Limits];

    /// Its name, in records and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Namespaces => "namespaces",
            Self::Seccomp => "seccomp",
            Self::Limits => "limits",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One line of cause and one of fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{layer}: {cause}; {fix}")]
pub struct Refusal {
    /// The layer that cannot be had.
    pub layer: Layer,
    /// What is wrong.
    pub cause: String,
    /// What to do about it.
    pub fix: String,
}

impl Refusal {
    /// A policy that cannot stand.
    pub(crate) fn policy(cause: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { layer: Layer::Policy, cause: cause.into(), fix: fix.into() }
    }
}

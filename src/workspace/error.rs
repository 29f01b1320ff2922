//! What can go wrong when a worktree is made ready.

use crate::model::Fault;
use std::io;
use std::path::{Path, PathBuf};

/// Why a worktree could not be made, checked or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {operation} `{}`", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Git failed.
    #[error(transparent)]
    Git(#[from] crate::git::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    /// A path of the plan's `expose` cannot be shown.
    #[error("cannot show `{path}` to an agent: {why}")]
    Expose {
        /// The path as written.
        path: String,
        /// Why not.
        why: String,
    },
    /// A folder of the plan's `hide` cannot be hidden.
    #[error("cannot hide `{path}` from an agent: {why}")]
    Hide {
        /// The path as written.
        path: String,
        /// Why not.
        why: String,
    },
    /// A host path of the plan could be made to lead elsewhere by an agent.
    #[error(
        "`{path}`, shown to or hidden from {whose}, lies in `{writable}`, which {writer} may write under `expose_rw`, and so \
         could make lead to any file of yours: list `{writable}` itself, or something outside of it"
    )]
    Movable {
        /// Whose box it is for.
        whose: String,
        /// The path as written.
        path: String,
        /// Who may write around it.
        writer: String,
        /// The path under `expose_rw` as written.
        writable: String,
    },
    /// The plan's `nested` asks for what root's boxes cannot have.
    #[error(
        "`sandbox.nested` is not for root: a sandbox inside needs a fresh /proc, and through one a box of root's could \
         write the kernel's settings; run as an ordinary user, or without `sandbox.nested`"
    )]
    NestedAsRoot,
    /// A path of the plan's `seed` cannot be copied.
    #[error("cannot seed `{path}`: {why}")]
    Seed {
        /// The path as written.
        path: String,
        /// Why not.
        why: String,
    },
    /// The place of the repository makes hiding it impossible.
    #[error("{what} `{}` holds {holds}: agents could not be kept from it; {fix}", path.display())]
    Place {
        /// What lies wrongly.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What it holds.
        holds: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// This program's own file is gone.
    #[error("`{}`, this program, is not there any more: put it back, or install it again, then `sandbox retry` the agent", path.display())]
    Program {
        /// Where it was.
        path: PathBuf,
    },
    /// A folder of ours can be changed by other users.
    #[error("`{}` {why}: agents' files would not be safe in it; set SANDBOX_WORKTREES to a folder of your own", path.display())]
    Exposed {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Something of a worktree is not as it was left.
    #[error("the worktree `{}` was tampered with: {what}", path.display())]
    Tampered {
        /// The worktree.
        path: PathBuf,
        /// What differs.
        what: String,
    },
}

impl Error {
    pub(super) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, path: path.to_owned(), source }
    }
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Git(error) => error.fault(),
            Self::Store(error) => error.fault(),
            Self::Expose { .. } | Self::Hide { .. } | Self::Movable { .. } | Self::Seed { .. } => Fault::Plan,
            Self::NestedAsRoot | Self::Io { .. } | Self::Place { .. } | Self::Program { .. } | Self::Exposed { .. } => {
                Fault::Environment
            }
            Self::Tampered { .. } => Fault::Corrupt,
        }
    }
}

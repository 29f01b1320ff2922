//! What can go wrong on our side while a candidate is judged. What the verifier does wrong is a verdict instead.

use crate::model::Fault;
use std::path::PathBuf;

/// Why a candidate could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The place given belongs to somebody else, and would be emptied.
    #[error("`{}` is not the place of the verifier of run {run}", place.display())]
    Place {
        /// The place.
        place: PathBuf,
        /// The run.
        run: crate::model::RunId,
    },
    /// A file of the verification could not be read or written.
    #[error("cannot {operation} `{}`", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The receipt or the journal could not be written.
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    /// The worktree of the verifier could not be made.
    #[error(transparent)]
    Workspace(#[from] crate::workspace::Error),
    /// The command could not be watched.
    #[error(transparent)]
    Watch(#[from] crate::agent::Error),
    /// The box stopped answering.
    #[error("lost contact with the box of the verifier")]
    Box(#[source] sandbox::BoxError),
}

impl Error {
    pub(super) fn io(operation: &'static str, path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Io { operation, path: path.to_owned(), source }
    }
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Store(error) => error.fault(),
            Self::Workspace(error) => error.fault(),
            Self::Watch(error) => error.fault(),
            Self::Place { .. } => Fault::Internal,
            Self::Io { .. } | Self::Box(_) => Fault::Environment,
        }
    }
}

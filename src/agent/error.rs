//! What can go wrong on our side while an agent is run. What an agent does wrong is an outcome instead.

use crate::model::Fault;
use std::path::PathBuf;

/// Why an attempt could not be carried through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its output could not be kept.
    #[error("cannot write the output of an agent to `{}`", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The journal, or a bundle, could not be written.
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    /// Git failed.
    #[error(transparent)]
    Git(#[from] crate::git::Error),
    /// The worktree could not be made ready.
    #[error(transparent)]
    Workspace(#[from] crate::workspace::Error),
    /// A bundle could not be made.
    #[error(transparent)]
    Change(#[from] crate::change::Error),
    /// The box stopped answering.
    #[error("lost contact with the box of an agent")]
    Box(#[source] sandbox::BoxError),
    /// No pipe could be made.
    #[error("cannot make a pipe for the output of an agent")]
    Pipe(#[source] std::io::Error),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Store(error) => error.fault(),
            Self::Git(error) => error.fault(),
            Self::Workspace(error) => error.fault(),
            Self::Change(error) => error.fault(),
            Self::Output { .. } | Self::Box(_) | Self::Pipe(_) => Fault::Environment,
        }
    }
}

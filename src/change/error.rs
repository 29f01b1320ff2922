//! What can go wrong when a worktree's state is captured, brought in and written down.

use std::path::PathBuf;

use crate::model::Fault;

/// Why a turn could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The worktree could not be turned into a commit. The files are still there.
    #[error("the worktree `{}` could not be captured: {reason}", worktree.display())]
    Capture {
        /// The worktree.
        worktree: PathBuf,
        /// Why not.
        reason: String,
        /// What it came from, where it was an error.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The objects were not fit for the repository. The files are still there.
    #[error("the objects of `{}` were refused: {reason}", worktree.display())]
    Refused {
        /// The worktree.
        worktree: PathBuf,
        /// Why.
        reason: String,
        /// Whether they are just too many.
        is_excess: bool,
    },
    /// The box of the capture could not be had.
    #[error("no box for the capture")]
    Start(#[from] sandbox::StartError),
    /// The box of the capture is not possible here.
    #[error("no box for the capture: {0}")]
    Sandbox(sandbox::Refusal),
    /// The worktree is not as it was left.
    #[error(transparent)]
    Workspace(#[from] crate::workspace::Error),
    /// Git failed.
    #[error(transparent)]
    Git(#[from] crate::git::Error),
    /// A file could not be written.
    #[error(transparent)]
    Store(#[from] crate::store::Error),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Git(error) => error.fault(),
            Self::Store(error) => error.fault(),
            Self::Workspace(error) => error.fault(),
            Self::Start(_) | Self::Sandbox(_) | Self::Capture { .. } | Self::Refused { .. } => Fault::Environment,
        }
    }
}

//! What can go wrong when a worktree's state is captured, brought in and written down.

use std::path::PathBuf;

use crate::model::Fault;
use crate::model::{ObjectId, RefName};

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
    },
    /// A ref of ours was moved by someone else.
    #[error(
        "`{reference}` was moved by something else: it is `{found}`, not `{expected}`; look at what moved it, then `sandbox retry` the agent"
    )]
    RefMoved {
        /// The ref.
        reference: String,
        /// What it should have been.
        expected: String,
        /// What it was.
        found: String,
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
    /// A ref that was not where we left it.
    pub fn ref_moved(name: &RefName, expected: Option<ObjectId>, found: Option<ObjectId>) -> Self {
        let shown = |id: Option<ObjectId>| id.map_or_else(|| "nothing".to_owned(), |id| id.to_string());
        Self::RefMoved { reference: name.to_string(), expected: shown(expected), found: shown(found) }
    }
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Git(error) => error.fault(),
            Self::Store(error) => error.fault(),
            Self::Workspace(error) => error.fault(),
            Self::Start(_) | Self::Sandbox(_) | Self::Capture { .. } | Self::Refused { .. } => Fault::Environment,
            Self::RefMoved { .. } => Fault::Corrupt,
        }
    }
}

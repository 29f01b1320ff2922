//! What can go wrong while merging and landing.

use std::path::PathBuf;

use crate::model::Fault;
use crate::model::{AgentName, CommitId, RefName};

/// Why the work could not be done. Conflicts, work outside a contract, a moved target and the user's changes in the way
/// are not here: those are outcomes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Git failed.
    #[error(transparent)]
    Git(#[from] crate::git::Error),
    /// The journal, a record or a lock failed.
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    /// A tree could not be looked through.
    #[error(transparent)]
    Change(#[from] crate::change::Error),
    /// A card lacks what a decision needs. A fault of ours.
    #[error(transparent)]
    Card(#[from] crate::model::card::Incomplete),
    /// A contract that was accepted with the plan cannot be read. A fault of ours, or a damaged settings file.
    #[error("the contract of agent `{agent}` cannot be read")]
    Contract {
        /// The agent.
        agent: AgentName,
        /// Why not.
        #[source]
        source: crate::plan::ContractError,
    },
    /// What the plan protects cannot be read, though it was accepted with the plan.
    #[error("what the plan protects cannot be read")]
    Protect(#[source] crate::plan::ContractError),
    /// Something else moved the candidate's branch.
    #[error(
        "branch `{}` was moved by something else, to {found}: keep that commit elsewhere if it is wanted, delete the branch, then merge again",
        reference.short()
    )]
    CandidateMoved {
        /// The branch.
        reference: RefName,
        /// Where it stands.
        found: String,
    },
    /// Something else moved the ref that keeps the user's checkout, in the moment it was to be set.
    #[error("`{reference}` was moved by something else at the same time, to {found}: land again")]
    RescueMoved {
        /// The ref.
        reference: RefName,
        /// Where it stands.
        found: String,
    },
    /// The candidate's branch is checked out, where moving it would make every file look changed.
    #[error(
        "branch `{}` is checked out in `{}`: check out another branch there (`git switch --detach` keeps the files), then merge again",
        reference.short(),
        path.display()
    )]
    CandidateCheckedOut {
        /// The branch.
        reference: RefName,
        /// The worktree.
        path: PathBuf,
    },
    /// What is to land is not built on what it was said to be built on.
    #[error("candidate {candidate} is not built on {expected}: merge again before landing")]
    NotBuiltOn {
        /// The candidate.
        candidate: CommitId,
        /// What it was to be built on.
        expected: CommitId,
    },
    /// After landing, the target is neither where it was nor where it was to be.
    #[error(
        "branch `{}` was to go from {before} to {after}, and is at {found}: look at it with `git log`, nothing was undone",
        reference.short()
    )]
    Unclear {
        /// The target.
        reference: RefName,
        /// Where it was.
        before: CommitId,
        /// Where it was to go.
        after: CommitId,
        /// Where it is.
        found: String,
    },
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Git(error) => error.fault(),
            Self::Store(error) => error.fault(),
            Self::Change(error) => error.fault(),
            Self::Contract { .. } | Self::Protect(_) => Fault::Corrupt,
            Self::CandidateMoved { .. }
            | Self::CandidateCheckedOut { .. }
            | Self::RescueMoved { .. }
            | Self::Unclear { .. } => Fault::Repository,
            Self::NotBuiltOn { .. } | Self::Card(_) => Fault::Internal,
        }
    }
}

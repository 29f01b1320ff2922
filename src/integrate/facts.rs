//! What merging needs to know of a run.

use jiff::Timestamp;

use crate::git::{self, Repository, Signature};
use crate::model::CommitId;
use crate::model::event::Identity;
use crate::model::plan::Plan;
use crate::model::run::RunState;
use crate::store::RunDir;

/// A run, as far as it decides what is merged. All of it was fixed when the run began, but the state.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The user's repository.
    pub repository: &'a Repository,
    /// The run's folder, with the records of the turns.
    pub run: &'a RunDir,
    /// The plan as accepted.
    pub plan: &'a Plan,
    /// What the journal tells.
    pub state: &'a RunState,
    /// The commit the run started from.
    pub base: &'a CommitId,
    /// Author and committer of every commit made.
    pub identity: &'a Identity,
    /// When the run began: the date of every commit made.
    pub started_at: Timestamp,
}

impl Facts<'_> {
    pub(super) fn signature(&self) -> Signature {
        signature(self.identity, self.started_at)
    }
}

pub(super) fn signature(identity: &Identity, at: Timestamp) -> Signature {
    Signature {
        identity: git::Identity { name: identity.name.clone(), email: identity.email.clone() },
        seconds: at.as_second(),
        offset_minutes: 0,
    }
}

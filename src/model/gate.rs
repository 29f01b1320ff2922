//! What keeps a run from being complete.

use serde::{Deserialize, Serialize};

use super::ids::{AgentName, CardId};
use super::path::RepoPath;

/// A kind of obstacle. Each stands for one condition of completeness that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// An agent neither completed nor is held by a card.
    AgentIncomplete,
    /// A card waits for a decision.
    OpenCard,
    /// Work of an agent is not part of the candidate.
    NotMerged,
    /// There is nothing to judge a tree with.
    NoVerifier,
    /// The verifier judged the candidate, and it is bad.
    VerifierFailed,
    /// The verifier gave no verdict.
    NoVerdict,
    /// The verifier judged something else than the present candidate.
    VerifierStale,
    /// A file the user had changed was changed since, by something else.
    UserFileChanged,
    /// The run was interrupted.
    Interrupted,
    /// The user's own changes, or the state of the checkout, stand in the way of landing.
    CheckoutBusy,
    /// The target is not where it was, and the one further try did not help.
    TargetMoved,
    /// The user's own hook said no, or changed files.
    HookRefused,
    /// Landing is not possible or not allowed here.
    CannotLand,
}

/// One thing that keeps the run from being complete, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateBlock {
    /// What kind of thing.
    pub kind: BlockKind,
    /// The agent concerned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<AgentName>,
    /// The card concerned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub card: Option<CardId>,
    /// The paths concerned.
    #[serde(default)]
    pub paths: Vec<RepoPath>,
    /// What is wrong, in a line.
    pub message: String,
    /// What to do, in a line.
    pub next: String,
}

//! Data of events of effects that are claimed before they are made, and of what others did to the target.

use serde::{Deserialize, Serialize};

use super::run::Invocation;
use crate::model::currency::{Asker, Release};
use crate::model::ids::{AgentName, CommitId, RefName};

/// Data of `effect.claimed`, `effect.confirmed` and `effect.released`: what was, and what is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// The same in the claim and in its end.
    pub key: String,
    /// What kind of effect.
    pub effect: EffectKind,
    /// The ref that moves.
    pub reference: RefName,
    /// What it was.
    pub before: CommitId,
    /// Whether there was no such ref: then `before` is only what it is built on.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub created: bool,
    /// What it is to be.
    pub after: CommitId,
    /// The user's checkout that is updated with it, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub checkout: Option<std::path::PathBuf>,
    /// What keeps the user's checkout as it was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rescue: Option<RefName>,
    /// More about it, in a line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// The process that writes this.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub invocation: Option<Invocation>,
    /// Whose work it puts on the candidate. Work that the candidate held before, made of the same, is not named.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub works: Vec<ClaimedWork>,
    /// What was observed right before: of the target, where it is the target that moves.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub observation_key: Option<String>,
    /// The how many-th attempt it is for exactly this observation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attempt: Option<u32>,
    /// Who asked for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked: Option<Asker>,
    /// How it came to nothing, where it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub release: Option<Release>,
}

/// An agent's work that is put on the candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimedWork {
    /// The agent.
    pub agent: AgentName,
    /// What was observed of it.
    pub observation_key: String,
    /// The how many-th attempt it is for exactly this observation.
    pub attempt: u32,
}

/// The kinds of effects that are claimed before they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectKind {
    /// Moving the candidate's branch to what the merges gave.
    Merge,
    /// Moving the target.
    Land,
}

/// Data of `target.moved`: something else than this run moved the target, and it was seen now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetMoved {
    /// The branch.
    pub target: RefName,
    /// Where it was when it was last looked at.
    pub from: Option<CommitId>,
    /// Where it is; none where it is gone.
    pub to: Option<CommitId>,
    /// How the two are to each other.
    pub how: Movement,
}

/// How a branch moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Movement {
    /// By commits on top of what it was.
    Advanced,
    /// Back to a commit of its own history.
    Rewound,
    /// To a commit that has not what it was in its history, and is not in it.
    Rewritten,
    /// It was deleted.
    Deleted,
    /// It is there again.
    Restored,
}

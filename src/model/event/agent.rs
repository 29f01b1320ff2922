//! Data of events of an agent's attempts and turns.

use std::collections::BTreeSet;

use sandbox::Layer;
use serde::{Deserialize, Serialize};

use crate::model::ids::{CommitId, RefName, TreeId};
use crate::model::outcome::{AttemptOutcome, LimitMet, ProcessEnd};
use crate::model::path::RepoPath;
use crate::model::plan::Argv;

/// Data of `attempt.started`. Written, and safe on disk, before anything of the agent runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptStarted {
    /// The commit the worktree was made from.
    pub fork_point: CommitId,
    /// The snapshot the attempt begins with: decides what this attempt changed.
    pub base_ref: CommitId,
    /// Its tree.
    pub base_tree: TreeId,
    /// The agent's branch.
    pub branch: RefName,
    /// The worktree.
    pub worktree: std::path::PathBuf,
    /// What drives the agent.
    pub adapter: String,
    /// Globs that it owns beyond the plan's contract: it asked for them, and they were granted before this attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<String>,
    /// Layers its box did without, as was allowed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub degraded: BTreeSet<Layer>,
}

/// Data of `attempt.finished`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptFinished {
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// Why, in a line for people.
    pub reason: String,
    /// How the last command ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end: Option<ProcessEnd>,
    /// The limit of its box that it was ended for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<LimitMet>,
    /// How many processes were still there at the end of its turns, and were killed.
    pub leftover_processes: u32,
    /// How long it took.
    pub duration_ms: u64,
    /// The newest snapshot that may be merged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub snapshot: Option<CommitId>,
    /// Its tree.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tree: Option<TreeId>,
    /// How many paths differ from the fork point.
    pub changed_since_fork: u64,
    /// Paths that differ from the fork point and that the contract does not cover.
    pub outside_since_fork: Vec<RepoPath>,
    /// What is worth knowing beside that.
    #[serde(default)]
    pub hints: Vec<Hint>,
}

impl AttemptFinished {
    /// Whether others may build on what it made: it ended well and kept its contract.
    pub fn can_be_built_on(&self) -> bool {
        self.outcome.lets_dependents_start() && self.outside_since_fork.is_empty()
    }

    /// The end of an attempt of which nothing else is known than how it ended and why.
    pub fn without_work(outcome: AttemptOutcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            reason: reason.into(),
            end: None,
            limit: None,
            leftover_processes: 0,
            duration_ms: 0,
            snapshot: None,
            tree: None,
            changed_since_fork: 0,
            outside_since_fork: Vec::new(),
            hints: Vec::new(),
        }
    }
}

/// Something worth knowing of an attempt, in a line for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hint {
    /// What.
    pub text: String,
    /// Whether it is only what the agent's own output makes likely.
    pub inferred: bool,
}

impl From<String> for Hint {
    /// What we know ourselves.
    fn from(text: String) -> Self {
        Self { text, inferred: false }
    }
}

/// Data of `turn.started`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStarted {
    /// The turn's name.
    pub label: String,
    /// The command.
    pub argv: Argv,
}

/// Data of `turn.finished`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnFinished {
    /// The turn's name.
    pub label: String,
    /// The snapshot.
    pub snapshot: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// The patch, relative to the run's folder; absent where nothing changed.
    pub patch: Option<String>,
    /// How many paths it changed.
    pub changed: u64,
    /// How the command ended.
    pub end: Option<ProcessEnd>,
    /// How many processes it left, which were killed.
    pub leftover_processes: u32,
    /// Whether it was cut short.
    pub interrupted: bool,
    /// Whether the agent ended it itself.
    pub live: bool,
    /// Whether nothing changed.
    pub empty: bool,
}

//! Data of events of the verifier, the gate and hooks.

use std::collections::BTreeSet;

use sandbox::Layer;
use serde::{Deserialize, Serialize};

use crate::model::gate::GateBlock;
use crate::model::ids::{CommitId, TreeId};
use crate::model::outcome::{ProcessEnd, Verdict, VerifyStatus};
use crate::model::path::RepoPath;
use crate::model::plan::Argv;

/// Data of `verify.finished`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyFinished {
    /// The candidate judged.
    pub commit: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// The command.
    pub command: Argv,
    /// The hash the receipt is found by.
    pub receipt: String,
    /// What the command did.
    pub status: VerifyStatus,
    /// What it means.
    pub verdict: Verdict,
    /// Why there is no pass, where there is none.
    pub error: Option<String>,
    /// Whether an earlier receipt served.
    pub reused: bool,
    /// How long the command took.
    pub duration_ms: u64,
    /// The output, relative to the run's folder.
    pub log: Option<String>,
    /// Layers the verifier's box would do without where this was told, as was allowed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub degraded: BTreeSet<Layer>,
}

/// Data of `gate.decided`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateDecided {
    /// Whether the run is complete.
    pub open: bool,
    /// What is in the way, all of it.
    pub blocks: Vec<GateBlock>,
}

/// Data of `hook.finished`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookFinished {
    /// Its name: a point of a run, or that of a git hook.
    pub hook: String,
    /// Where it comes from.
    pub source: HookSource,
    /// The `seq` of the event it was run for; `None` for a git hook.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of: Option<u64>,
    /// The command.
    pub command: Argv,
    /// How it ended; `None` where it did not end by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end: Option<ProcessEnd>,
    /// Whether it was killed because its time was over.
    pub timed_out: bool,
    /// Why it has not done what it is for, in a line; `None` where it ended well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// What it printed, relative to the run's folder; `None` where it printed nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log: Option<String>,
}

/// Where a hook comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookSource {
    /// The plan.
    Plan,
    /// The user's own settings.
    Settings,
    /// The repository's git hooks.
    Git,
}

/// Data of `git_progress_scope_warning`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScopeWarning {
    /// Changed paths that the contract does not cover.
    pub outside_owned_scope: Vec<RepoPath>,
}

/// Data of `git_progress_verifier_fresh`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifierFresh {
    /// The tree judged.
    pub tree: TreeId,
    /// What was said of it.
    pub verdict: Verdict,
}

/// Data of `git_progress_completion_blocked`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletionBlocked {
    /// Paths that the run changed.
    pub changed_paths: Vec<RepoPath>,
    /// Those that no contract covers.
    pub outside_owned_scope: Vec<RepoPath>,
    /// The verifier last run.
    pub verifier_command: Option<Argv>,
    /// The `seq` of the event that told its end.
    pub verifier_seq: Option<u64>,
    /// What to do.
    pub next_action: String,
}

//! Receipts: what a verifier said of exactly one tree.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::TreeId;
use super::outcome::{ProcessEnd, Verdict, VerifyStatus};

/// What a receipt is found by. Two verifications with equal keys judged the same thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptKey {
    /// The tree judged.
    pub tree: TreeId,
    /// The command.
    pub command: Vec<String>,
    /// A hash of what else can change the verdict: the tools, the box, the variables passed in.
    pub environment: String,
}

/// A verdict, and what it was given for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The version of this format.
    pub v: u32,
    /// What was judged.
    pub key: ReceiptKey,
    /// The parts of the environment hash, by name, each hashed: so that a difference can be named without a value.
    pub environment_parts: std::collections::BTreeMap<String, String>,
    /// What was judged: `parent` is the whole candidate.
    pub scope: String,
    /// What the command did.
    pub result: VerificationResult,
    /// What it means.
    pub verdict: Verdict,
    /// Why there is no verdict, where there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// How the command ended, where it ran.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end: Option<ProcessEnd>,
    /// SHA-256 of its whole output.
    pub log_sha256: String,
    /// Tracked paths the command changed.
    pub changed_tracked_paths: Vec<super::path::RepoPath>,
    /// When it was given.
    pub timestamp: Timestamp,
    /// How long the command took, in milliseconds.
    pub duration_ms: u64,
}

/// What a verifier's command did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerificationResult {
    /// Whether it exited with 0.
    pub success: bool,
    /// The end of its output, at most 8,000 characters.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<String>,
    /// What happened.
    pub status: VerifyStatus,
    /// How many tests passed, where the output says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pass_count: Option<u64>,
    /// How many tests failed, where the output says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fail_count: Option<u64>,
    /// The failing tests, absent after a time-out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failures: Option<Vec<TestFailure>>,
}

/// One failing test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestFailure {
    /// Its file; empty where unknown.
    pub file: String,
    /// Its name.
    pub test_name: String,
    /// What it said.
    pub error: String,
    /// Where; empty where unknown.
    pub stack_trace: Vec<String>,
}

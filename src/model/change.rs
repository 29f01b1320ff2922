//! What an agent changed: change sets, checkpoints, the record kept of each turn, and the state of the user's checkout at
//! the run's start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ids::{AgentName, CommitId, ObjectFormat, ObjectId, RefName, RunId, TreeId, TurnId};
use super::outcome::ProcessEnd;
use super::path::RepoPath;

/// Whose doing a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// The user's own session.
    Main,
    /// An agent of the run.
    SubAgent,
    /// The program itself: setup, seeding, merging.
    Runtime,
}

/// Both ends of a rename.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rename {
    /// The path before.
    pub from: RepoPath,
    /// The path after.
    pub to: RepoPath,
}

/// What changed between two trees, and how that stands to a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitChangeSet {
    /// The turn, `2.1`.
    pub turn: TurnId,
    /// Whose doing it is.
    pub actor: Actor,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<AgentName>,
    /// What was run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool_name: Option<String>,
    /// Every path that differs, both ends of a rename included.
    pub changed_paths: Vec<RepoPath>,
    /// Paths that are new.
    pub added_paths: Vec<RepoPath>,
    /// Paths that are gone.
    pub deleted_paths: Vec<RepoPath>,
    /// Paths that moved.
    pub renamed_paths: Vec<Rename>,
    /// Files, insertions and deletions.
    pub diff_stat: DiffStat,
    /// One line a path, `M\tpath`, a rename as `R\tfrom\tto`; odd characters escaped.
    pub name_status: Vec<String>,
    /// Changed paths that the contract does not cover.
    pub outside_owned_scope: Vec<RepoPath>,
    /// The verifier last run on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verifier_command: Option<Vec<String>>,
    /// Whether that verifier judged exactly this state.
    pub verifier_fresh_after_change: bool,
}

/// Files, insertions and deletions of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffStat {
    /// How many files differ.
    pub files: u64,
    /// Lines added, binary files not counted.
    pub insertions: u64,
    /// Lines removed, binary files not counted.
    pub deletions: u64,
}

/// What a checkpoint marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointKind {
    /// The state at the run's start.
    Baseline,
    /// A turn's patch.
    PatchBundle,
    /// A commit of an agent's own.
    Commit,
    /// The merge of an agent's contribution.
    WorktreeMerge,
}

/// A state that can be returned to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitCheckpoint {
    /// Unique within the run.
    pub id: String,
    /// The turn; `None` for what belongs to no turn.
    pub turn: Option<TurnId>,
    /// What it marks.
    pub kind: CheckpointKind,
    /// The commit that stood at the time.
    pub head: Option<CommitId>,
    /// The patch, relative to the run's folder.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub patch_path: Option<String>,
    /// The commit made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub commit_sha: Option<CommitId>,
    /// Paths that differ from the checkpoint before.
    pub changed_paths: Vec<RepoPath>,
    /// The verifier run on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verifier_command: Option<Vec<String>>,
    /// What the verifier said; absent where none has run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verifier_passed: Option<bool>,
}

/// A file as a tree holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHash {
    /// Its path.
    pub path: RepoPath,
    /// Its mode, `100644`; `000000` where it is gone.
    pub mode: String,
    /// Its object id; all zeros where it is gone.
    pub oid: ObjectId,
}

/// What a capture could not put into the tree, so that nobody believes it is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotCaptured {
    /// Ignored paths that were not there at the attempt's start; folders end in `/`. At most [`Self::LISTED`].
    pub ignored: Vec<RepoPath>,
    /// How many ignored paths there were in all.
    pub ignored_total: u64,
    /// Repositories inside the worktree: a gitlink is recorded, their files are not.
    pub nested_repositories: Vec<RepoPath>,
    /// What git said of paths it could not add: sockets, unreadable files, names too long.
    pub refused: Vec<String>,
}

impl NotCaptured {
    /// How many ignored paths are listed by name.
    pub const LISTED: usize = 1000;

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.ignored_total == 0 && self.nested_repositories.is_empty() && self.refused.is_empty()
    }
}

/// The record of one turn, kept beside its patch as `<attempt>.<turn>.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, named in the format")]
pub struct TurnRecord {
    /// The version of this format.
    pub v: u32,
    /// The run.
    pub run_id: RunId,
    /// The agent.
    pub agent: AgentName,
    /// The attempt.
    pub attempt: u32,
    /// The turn, `2.1`.
    pub turn: TurnId,
    /// What the turn was, in a word or a line.
    pub label: String,
    /// What drove the agent.
    pub adapter: String,
    /// How the repository names objects.
    pub object_format: ObjectFormat,
    /// The commit the worktree was made from.
    pub fork_point: CommitId,
    /// The snapshot this attempt began with.
    pub base_ref: CommitId,
    /// The snapshot of this turn.
    pub snapshot: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// The tree the patch starts from: that of the snapshot before.
    pub previous_tree: TreeId,
    /// The patch's file name, absent where nothing changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub patch: Option<String>,
    /// SHA-256 of the patch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub patch_sha256: Option<String>,
    /// What this turn changed.
    pub change_set: GitChangeSet,
    /// The checkpoint it makes.
    pub checkpoint: GitCheckpoint,
    /// The files it changed, as they are now.
    pub file_hashes: Vec<FileHash>,
    /// What the contract allows.
    pub owned_scope: super::plan::Contract,
    /// Paths changed since the fork point that the contract does not cover.
    pub outside_since_fork: Vec<RepoPath>,
    /// What is on the agent's disk but not in the tree.
    pub not_captured: NotCaptured,
    /// Where the agent's own HEAD stood.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent_head: Option<CommitId>,
    /// Other commits of the agent's that the snapshot keeps: branches, stashes.
    pub kept_tips: Vec<CommitId>,
    /// Whether the fork point is no longer an ancestor of the agent's HEAD.
    pub history_rewritten: bool,
    /// How the turn's command ended; absent for turn 0 and for turns that an agent ended itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end: Option<ProcessEnd>,
    /// Whether the turn was cut short.
    pub interrupted: bool,
    /// Whether the agent ended it itself, while running.
    pub live: bool,
    /// Whether nothing changed.
    pub empty: bool,
    /// What the agent says it used; `None` where it says nothing.
    pub usage: Option<serde_json::Value>,
}

/// The state of the user's repository at the run's start, and what has been recorded since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitProgressState {
    /// Whether this is a git repository.
    pub enabled: bool,
    /// Whether there is a git program.
    pub available: bool,
    /// The top of the checkout; `None` in a bare repository.
    pub repo_root: Option<String>,
    /// The branch checked out; `None` when detached.
    pub branch: Option<String>,
    /// Its commit; `None` when there is none yet.
    pub head: Option<CommitId>,
    /// The branch it follows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub upstream: Option<String>,
    /// Tracked files the user had changed.
    pub baseline_dirty_paths: Vec<RepoPath>,
    /// Files the user had not added.
    pub baseline_untracked_paths: Vec<RepoPath>,
    /// How many ignored paths there were, folders counted once.
    pub baseline_ignored_count: u64,
    /// SHA-256 of each file the user had changed, so that a later change of it shows; by its path as people are shown it.
    pub baseline_hashes: BTreeMap<String, String>,
    /// The same of those whose path is another than what people are shown, which may be what another path is.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub baseline_byte_hashes: Vec<BaselineHash>,
    /// The run.
    pub session_id: RunId,
    /// The ref that keeps the base.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session_ref: Option<RefName>,
    /// What has been recorded since, oldest first.
    pub checkpoints: Vec<GitCheckpoint>,
    /// The newest change.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_change_set: Option<GitChangeSet>,
}

/// What stood at a path whose name is no text, or has control characters in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BaselineHash {
    /// The path.
    pub path: RepoPath,
    /// SHA-256 of what stood there.
    pub sha256: String,
}

impl GitProgressState {
    /// Takes down what stood at each path that the user had changed.
    pub fn set_baseline_hashes(&mut self, hashes: BTreeMap<RepoPath, String>) {
        let (plain, odd): (Vec<_>, Vec<_>) = hashes.into_iter().partition(|(path, _)| is_as_shown(path));
        let shown = |(path, hash): &(RepoPath, String)| (path.to_string(), hash.clone());
        // Where two paths are shown alike, the text is that of the one that is it.
        self.baseline_hashes = odd.iter().chain(&plain).map(shown).collect();
        self.baseline_byte_hashes = odd.into_iter().map(|(path, sha256)| BaselineHash { path, sha256 }).collect();
    }

    /// What stood at a path that the user had changed.
    pub fn baseline_hash(&self, path: &RepoPath) -> Option<&str> {
        let odd = self.baseline_byte_hashes.iter().find(|odd| odd.path == *path).map(|odd| &odd.sha256);
        // What another path is shown as says nothing of this one.
        let was_changed =
            [&self.baseline_dirty_paths, &self.baseline_untracked_paths].iter().any(|it| it.contains(path));
        let shown = || self.baseline_hashes.get(&path.to_string()).filter(|_| was_changed);
        odd.or_else(shown).map(String::as_str)
    }
}

/// Whether what people are shown of a path is the path.
fn is_as_shown(path: &RepoPath) -> bool {
    path.to_string().as_bytes() == path.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_are_shown_alike_have_each_its_hash() {
        let (text, bytes, plain) = (RepoPath::from(r"a\xff"), RepoPath::new(&b"a\xff"[..]), RepoPath::from("a"));
        let hashes = [(&text, "1"), (&bytes, "2"), (&plain, "3")];
        let mut state: GitProgressState = serde_json::from_value(serde_json::json!({
            "enabled": true, "available": true, "baselineDirtyPaths": [bytes], "baselineUntrackedPaths": [],
            "baselineIgnoredCount": 0, "baselineHashes": {r"a\xff": "1"}, "sessionId": "login-1", "checkpoints": [],
        }))
        .unwrap();
        // As an older program wrote it.
        assert_eq!(state.baseline_hash(&bytes), Some("1"));
        for (some, expected) in [
            (&hashes[..], [Some("1"), Some("2"), Some("3")]),
            (&hashes[..1], [Some("1"), None, None]),
            (&hashes[1..2], [None, Some("2"), None]),
        ] {
            state.baseline_dirty_paths = some.iter().map(|(path, _)| (*path).clone()).collect();
            state.set_baseline_hashes(some.iter().map(|(path, hash)| ((*path).clone(), (*hash).to_owned())).collect());
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(serde_json::from_str::<GitProgressState>(&json).unwrap(), state);
            assert_eq!([&text, &bytes, &plain].map(|path| state.baseline_hash(path)), expected, "{json}");
        }
    }
}

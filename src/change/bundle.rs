//! A turn's bundle: its patch, and beside it what is known of the turn.
//!
//! The patch takes the tree of the snapshot before to the tree of this one. Applying all patches of an agent in order on
//! its fork point gives every recorded tree exactly. The truth is the snapshot, which a ref keeps; the patch is for
//! people, and for carrying elsewhere.
//!
//! The patch is on disk before the record that names it, and both before the turn is said to be finished.

use std::collections::{BTreeSet, HashSet};
use std::io;

use super::capture::{Captured, Snapshot};
use super::error::Error;
use super::summary::{Authorship, change_set, file_hashes};
use super::{contract, tree_check};
use crate::git::{Blob, Renames, Repository, TreeChange};
use crate::model::change::{Actor, CheckpointKind, GitChangeSet, GitCheckpoint, NotCaptured, TurnRecord};
use crate::model::plan::Contract;
use crate::model::{AgentName, CommitId, ObjectId, ProcessEnd, RepoPath, TreeId, TurnId};
use crate::plan::CompiledContract;
use crate::store::atomic::{self, Existing};
use crate::store::{RunDir, json};

/// The version of the record's format.
pub const VERSION: u32 = 1;

/// The longest link target that is looked at, in bytes.
const LINK_MAX: u64 = 4096;

/// What stays the same over all turns of an attempt.
#[derive(Debug)]
pub struct Ledger<'a> {
    /// The user's repository.
    pub repository: &'a Repository,
    /// The run's folder.
    pub run: &'a RunDir,
    /// The agent.
    pub agent: &'a AgentName,
    /// What drives it.
    pub adapter: &'static str,
    /// The commit the worktree was made from, and its tree.
    pub fork: &'a Snapshot,
    /// The contract as written.
    pub contract: &'a Contract,
    /// The same, ready to judge.
    pub compiled: &'a CompiledContract,
}

/// One turn, captured.
#[derive(Debug)]
pub struct Turn<'a> {
    /// Which.
    pub id: TurnId,
    /// What it was.
    pub label: &'a str,
    /// Whose doing.
    pub actor: Actor,
    /// What was run.
    pub tool: Option<String>,
    /// The snapshot the attempt began with.
    pub base: &'a CommitId,
    /// The tree before.
    pub previous: &'a TreeId,
    /// What was captured.
    pub captured: &'a Captured,
    /// Ignored paths that were there when the attempt began.
    pub ignored_before: &'a HashSet<RepoPath>,
    /// How the command ended.
    pub end: Option<ProcessEnd>,
    /// Whether it was cut short.
    pub interrupted: bool,
    /// Whether the agent ended it itself.
    pub live: bool,
}

/// Writes a turn's bundle. What is there under its name from a crash is replaced by the same.
pub fn write(ledger: &Ledger<'_>, turn: &Turn<'_>) -> Result<TurnRecord, Error> {
    let tree = &turn.captured.snapshot.tree;
    let empty = tree == turn.previous;
    let (changes, lines) = ledger.repository.load_summary(turn.previous, tree)?;
    let exact = ledger.repository.load_changes(turn.previous, tree, Renames::Ignore)?;
    let since_fork = ledger.repository.load_changes(&ledger.fork.tree, tree, Renames::Ignore)?;
    let by = Authorship { turn: turn.id, actor: turn.actor, owner: ledger.agent, tool: turn.tool.clone() };
    let outside = match turn.actor {
        Actor::SubAgent => contract::outside(&exact, ledger.compiled),
        Actor::Main | Actor::Runtime => Vec::new(),
    };
    let set = change_set(&by, &changes, lines, outside);
    let patch = if empty { None } else { Some(write_patch(ledger, turn, tree)?) };
    let missing = not_captured(turn, &since_fork, &named_submodules(ledger.repository, tree, &since_fork)?);
    let hashes = file_hashes(&changes, ledger.repository.object_format());
    let record = record(ledger, turn, set, hashes, patch, &since_fork, missing);
    atomic::write_json(&ledger.run.turn(ledger.agent, turn.id), &record)?;
    Ok(record)
}

fn write_patch(ledger: &Ledger<'_>, turn: &Turn<'_>, tree: &TreeId) -> Result<(String, String), Error> {
    let path = ledger.run.patch(ledger.agent, turn.id);
    let mut failed = None;
    let written = atomic::stream(&path, Existing::Replace, |sink| {
        ledger.repository.write_patch_to(turn.previous, tree, sink).map_err(|error| {
            let told = io::Error::other(error.to_string());
            failed = Some(error);
            told
        })
    });
    match (written, failed) {
        (_, Some(error)) => Err(error.into()),
        (Err(error), None) => Err(error.into()),
        (Ok(written), None) => Ok((format!("{}.patch", turn.id), written.sha256)),
    }
}

fn record(
    ledger: &Ledger<'_>,
    turn: &Turn<'_>,
    set: GitChangeSet,
    file_hashes: Vec<crate::model::change::FileHash>,
    patch: Option<(String, String)>,
    since_fork: &[TreeChange],
    not_captured: NotCaptured,
) -> TurnRecord {
    let captured = turn.captured;
    let (patch, patch_sha256) = patch.unzip();
    let patch_path = patch.as_ref().and_then(|_| ledger.run.relative(&ledger.run.patch(ledger.agent, turn.id)));
    let checkpoint = GitCheckpoint {
        id: format!("{}/{}", ledger.agent, turn.id),
        turn: Some(turn.id),
        kind: CheckpointKind::PatchBundle,
        head: Some(captured.snapshot.commit.clone()),
        patch_path,
        commit_sha: Some(captured.snapshot.commit.clone()),
        changed_paths: set.changed_paths.clone(),
        verifier_command: None,
        verifier_passed: None,
    };
    TurnRecord {
        v: VERSION,
        run_id: ledger.run.id().clone(),
        agent: ledger.agent.clone(),
        attempt: turn.id.attempt,
        turn: turn.id,
        label: turn.label.to_owned(),
        adapter: ledger.adapter.to_owned(),
        object_format: ledger.repository.object_format(),
        fork_point: ledger.fork.commit.clone(),
        base_ref: turn.base.clone(),
        snapshot: captured.snapshot.commit.clone(),
        tree: captured.snapshot.tree.clone(),
        previous_tree: turn.previous.clone(),
        patch,
        patch_sha256,
        empty: set.changed_paths.is_empty(),
        change_set: set,
        checkpoint,
        file_hashes,
        owned_scope: ledger.contract.clone(),
        outside_since_fork: contract::outside(since_fork, ledger.compiled),
        not_captured,
        agent_head: captured.agent_head.clone(),
        kept_tips: captured.tips.clone(),
        history_rewritten: captured.history_rewritten,
        end: turn.end,
        interrupted: turn.interrupted,
        live: turn.live,
        usage: None,
    }
}

fn not_captured(turn: &Turn<'_>, since_fork: &[TreeChange], named: &BTreeSet<RepoPath>) -> NotCaptured {
    let new: Vec<&RepoPath> =
        turn.captured.ignored.iter().filter(|path| !turn.ignored_before.contains(*path)).collect();
    // Of a submodule the commit is all that there is to record.
    let gitlinks = since_fork
        .iter()
        .filter(|change| tree_check::is_new_gitlink(change) && !tree_check::is_submodule(change, named));
    NotCaptured {
        ignored_total: new.len() as u64,
        ignored: new.into_iter().take(NotCaptured::LISTED).cloned().collect(),
        nested_repositories: gitlinks.map(|change| change.path.clone()).collect(),
        refused: [turn.captured.lost.as_slice(), &turn.captured.refused].concat(),
    }
}

/// What is known of a turn; `None` where there is no such turn.
pub fn load(run: &RunDir, agent: &AgentName, turn: TurnId) -> Result<Option<TurnRecord>, crate::store::Error> {
    json::load(&run.turn(agent, turn))
}

/// The paths that the `.gitmodules` of `tree` names, if the changes leave anybody asking.
fn named_submodules(
    repository: &Repository,
    tree: &TreeId,
    changes: &[TreeChange],
) -> Result<BTreeSet<RepoPath>, crate::git::Error> {
    if changes.iter().any(tree_check::is_new_gitlink) { repository.load_submodules(tree) } else { Ok(BTreeSet::new()) }
}

/// What the changes from `fork` to `tree` hold that must not be merged unseen.
pub fn findings(repository: &Repository, fork: &TreeId, tree: &TreeId) -> Result<Vec<tree_check::Finding>, Error> {
    let changes = repository.load_changes(fork, tree, Renames::Ignore)?;
    let target_of = |id: &ObjectId| match repository.load_blob(id, LINK_MAX) {
        Ok(Blob::Whole(bytes)) => Some(bytes),
        // A target that long, or unreadable, is no innocent link.
        Ok(Blob::TooLarge { .. }) | Err(_) => Some(b"/".to_vec()),
    };
    let asks_for_others = |change: &TreeChange| change.old.is_none() || tree_check::is_repository_part(&change.path);
    let present: Vec<RepoPath> = if changes.iter().any(asks_for_others) {
        repository.load_tree(tree)?.into_iter().map(|(path, _)| path).collect()
    } else {
        Vec::new()
    };
    let named = named_submodules(repository, tree, &changes)?;
    Ok(tree_check::findings(&changes, target_of, &present, &named))
}

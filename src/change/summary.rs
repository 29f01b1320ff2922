//! From two trees to a change set: what people and programs are told of a change.

use crate::git::{ChangeKind, TreeChange};
use crate::model::change::{Actor, DiffStat, FileHash, GitChangeSet, Rename};
use crate::model::{AgentName, ObjectFormat, RepoPath, TurnId};

/// Whose change it is.
#[derive(Debug, Clone)]
pub(super) struct Authorship<'a> {
    /// The turn.
    pub turn: TurnId,
    /// Whose doing.
    pub actor: Actor,
    /// The agent.
    pub owner: &'a AgentName,
    /// What was run.
    pub tool: Option<String>,
}

/// The change set of `changes`, in which renames have been looked for, as in the numbers of lines.
pub(super) fn change_set(
    by: &Authorship<'_>,
    changes: &[TreeChange],
    (insertions, deletions): (u64, u64),
    outside: Vec<RepoPath>,
) -> GitChangeSet {
    let mut set = GitChangeSet {
        turn: by.turn,
        actor: by.actor,
        owner: Some(by.owner.clone()),
        tool_name: by.tool.clone(),
        changed_paths: Vec::new(),
        added_paths: Vec::new(),
        deleted_paths: Vec::new(),
        renamed_paths: Vec::new(),
        diff_stat: DiffStat { files: changes.len() as u64, insertions, deletions },
        name_status: changes.iter().map(name_status).collect(),
        outside_owned_scope: outside,
        verifier_command: None,
        verifier_fresh_after_change: false,
    };
    for change in changes {
        set.changed_paths.extend(change.paths().cloned());
        match &change.kind {
            ChangeKind::Added => set.added_paths.push(change.path.clone()),
            ChangeKind::Deleted => set.deleted_paths.push(change.path.clone()),
            ChangeKind::Renamed { from, .. } => {
                set.renamed_paths.push(Rename { from: from.clone(), to: change.path.clone() });
            }
            ChangeKind::Modified | ChangeKind::TypeChanged => {}
        }
    }
    set.changed_paths.sort();
    set.changed_paths.dedup();
    set
}

fn name_status(change: &TreeChange) -> String {
    match &change.kind {
        ChangeKind::Added => format!("A\t{}", change.path),
        ChangeKind::Deleted => format!("D\t{}", change.path),
        ChangeKind::Modified => format!("M\t{}", change.path),
        ChangeKind::TypeChanged => format!("T\t{}", change.path),
        ChangeKind::Renamed { from, similarity } => format!("R{similarity:03}\t{from}\t{}", change.path),
    }
}

/// The changed files as they are now; a path that is gone has mode `000000` and the id of no object.
pub(super) fn file_hashes(changes: &[TreeChange], format: ObjectFormat) -> Vec<FileHash> {
    let gone = |path: &RepoPath| FileHash { path: path.clone(), mode: "000000".to_owned(), oid: format.zero() };
    let mut hashes = Vec::new();
    for change in changes {
        if let ChangeKind::Renamed { from, .. } = &change.kind {
            hashes.push(gone(from));
        }
        hashes.push(match &change.new {
            Some(entry) => FileHash { path: change.path.clone(), mode: entry.mode.to_string(), oid: entry.id.clone() },
            None => gone(&change.path),
        });
    }
    hashes.sort_by(|one, other| one.path.cmp(&other.path));
    hashes
}

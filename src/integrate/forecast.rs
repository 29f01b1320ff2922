//! Conflicts to come: what merging two agents' present snapshots would give, asked while both are still at work.
//!
//! A warning and nothing more: previews when all have ended decide. Only pairs whose changes touch a common path are merged
//! at all, in the object database, so that this costs next to nothing where contracts keep agents apart.

use std::collections::BTreeSet;

use crate::git::{Merger, NewCommit, Preview};
use crate::model::change::{CheckpointKind, GitCheckpoint};
use crate::model::event::OverlapPredicted;
use crate::model::{AgentName, CommitId, RepoPath};
use crate::plan::Graph;

use super::error::Error;
use super::facts::Facts;

/// What one agent has made so far.
#[derive(Debug)]
struct Sketch {
    agent: AgentName,
    /// Its newest tree on its fork point: an agent's own history is not asked.
    commit: CommitId,
}

/// The paths that the turns of an agent changed, as they were told: one that was changed back again is among them.
fn changed<'s>(facts: &Facts<'s>, agent: &AgentName) -> BTreeSet<&'s RepoPath> {
    let of_agent = |checkpoint: &&GitCheckpoint| {
        let turn = checkpoint.id.strip_prefix(agent.as_str()).and_then(|rest| rest.strip_prefix('/'));
        checkpoint.kind == CheckpointKind::PatchBundle && turn.is_some()
    };
    facts.state.checkpoints.iter().filter(of_agent).flat_map(|checkpoint| &checkpoint.changed_paths).collect()
}

/// The conflicts that merging the present work of `agent` with that of each other agent would give, and, with no path, the
/// pairs told of earlier that would merge by now.
pub fn forecast(facts: &Facts<'_>, agent: &AgentName) -> Result<Vec<OverlapPredicted>, Error> {
    let mine = changed(facts, agent);
    let mut merger = None;
    let mut told = Vec::new();
    for other in facts.plan.agents.iter().map(|task| &task.name).filter(|other| *other != agent) {
        let known = facts.state.overlaps.iter().find(|overlap| overlap.is_of(agent, other));
        let found = if !builds_on(facts, agent, other) && touches(&mine, &changed(facts, other)) {
            let merger = match &mut merger {
                Some(merger) => merger,
                none => none.insert(Merger::new(facts.repository, facts.base)?),
            };
            match (sketch(facts, agent)?, sketch(facts, other)?) {
                (Some(mine), Some(theirs)) => conflict(merger, &mine, &theirs)?,
                (None, _) | (_, None) => None,
            }
        } else {
            None
        };
        match (found, known) {
            (Some(found), Some(known)) if found.paths == known.paths && found.kinds == known.kinds => {}
            (Some(found), _) => told.push(found),
            (None, Some(_)) => {
                told.push(OverlapPredicted { with: other.clone(), paths: Vec::new(), kinds: Vec::new() });
            }
            (None, None) => {}
        }
    }
    Ok(told)
}

fn sketch(facts: &Facts<'_>, agent: &AgentName) -> Result<Option<Sketch>, Error> {
    let Some(known) = facts.state.agent(agent) else { return Ok(None) };
    let (Some((_, turn)), Some(fork)) = (known.last_turn(), known.fork_point()) else { return Ok(None) };
    let fork_tree = facts.repository.load_commit(fork)?.tree;
    if turn.tree == fork_tree {
        return Ok(None);
    }
    let signature = facts.signature();
    let commit = facts.repository.write_commit(&NewCommit {
        tree: &turn.tree,
        parents: std::slice::from_ref(fork),
        author: &signature,
        committer: &signature,
        message: "Forecast\n",
    })?;
    Ok(Some(Sketch { agent: agent.clone(), commit }))
}

/// Whether one is made on top of the other, directly or not.
fn builds_on(facts: &Facts<'_>, one: &AgentName, other: &AgentName) -> bool {
    let place = |name: &AgentName| facts.plan.agents.iter().position(|task| task.name == *name);
    let (Some(one), Some(other)) = (place(one), place(other)) else { return false };
    let graph = Graph::of(facts.plan);
    graph.prerequisites(one).contains(&other) || graph.prerequisites(other).contains(&one)
}

/// Whether two sets of paths have one in common, or one lies in a folder that is a path of the other.
fn touches(mine: &BTreeSet<&RepoPath>, theirs: &BTreeSet<&RepoPath>) -> bool {
    let below = |one: &&RepoPath, others: &BTreeSet<&RepoPath>| {
        let bytes = one.as_bytes();
        let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.into_iter().any(|(at, _)| others.contains(&RepoPath::new(&bytes[..at])))
    };
    mine.iter().any(|one| theirs.contains(one) || below(one, theirs)) || theirs.iter().any(|one| below(one, mine))
}

fn conflict(merger: &Merger, mine: &Sketch, theirs: &Sketch) -> Result<Option<OverlapPredicted>, Error> {
    // The order of the plan does not matter here, but the same two are always asked the same.
    let (first, second) = if mine.agent <= theirs.agent { (mine, theirs) } else { (theirs, mine) };
    Ok(match merger.preview(&first.commit, &second.commit)? {
        Preview::Clean { .. } => None,
        Preview::Conflict(conflict) => {
            let (paths, kinds) = (conflict.paths(), conflict.kinds);
            Some(OverlapPredicted { with: theirs.agent.clone(), paths, kinds })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_meet() {
        let meet = |mine: &[&str], theirs: &[&str]| {
            let [mine, theirs] = [mine, theirs].map(|paths| paths.iter().map(|path| RepoPath::from(*path)).collect());
            let (mine, theirs): (Vec<RepoPath>, Vec<RepoPath>) = (mine, theirs);
            touches(&mine.iter().collect(), &theirs.iter().collect())
        };
        assert!(meet(&["a", "b/c"], &["b/c"]));
        assert!(meet(&["b"], &["a", "b/c/d"]) && meet(&["b/c/d"], &["b"]), "a file and a folder of one name");
        assert!(!meet(&["a", "b/c"], &["b/d", "bc", "a-b"]) && !meet(&[], &["a"]));
    }
}

//! Conflicts to come: what merging two agents' present snapshots would give, asked while both are still at work.
//!
//! A warning and nothing more: previews when all have ended decide. Only pairs whose changes touch a common path are merged
//! at all, in the object database, so that this costs next to nothing where contracts keep agents apart.

use crate::git::{Merger, NewCommit, Preview, Renames, TreeChange};
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
    changes: Vec<TreeChange>,
}

/// The conflicts that merging the present work of `agent` with that of each other agent would give, and, with no path, the
/// pairs told of earlier that would merge by now.
pub fn forecast(facts: &Facts<'_>, agent: &AgentName) -> Result<Vec<OverlapPredicted>, Error> {
    let Some(mine) = sketch(facts, agent)? else { return Ok(Vec::new()) };
    let mut merger = None;
    let mut told = Vec::new();
    for other in facts.plan.agents.iter().map(|task| &task.name).filter(|other| *other != agent) {
        let known = facts.state.overlaps.iter().find(|overlap| overlap.is_of(agent, other));
        let found = match sketch(facts, other)? {
            Some(theirs) if !builds_on(facts, agent, other) && touches(&mine.changes, &theirs.changes) => {
                let merger = match &mut merger {
                    Some(merger) => merger,
                    none => none.insert(Merger::new(facts.repository, facts.base)?),
                };
                conflict(merger, &mine, &theirs)?
            }
            Some(_) | None => None,
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
    let changes = facts.repository.load_changes(&fork_tree, &turn.tree, Renames::Ignore)?;
    let signature = facts.signature();
    let commit = facts.repository.write_commit(&NewCommit {
        tree: &turn.tree,
        parents: std::slice::from_ref(fork),
        author: &signature,
        committer: &signature,
        message: "Forecast\n",
    })?;
    Ok(Some(Sketch { agent: agent.clone(), commit, changes }))
}

/// Whether one is made on top of the other, directly or not.
fn builds_on(facts: &Facts<'_>, one: &AgentName, other: &AgentName) -> bool {
    let place = |name: &AgentName| facts.plan.agents.iter().position(|task| task.name == *name);
    let (Some(one), Some(other)) = (place(one), place(other)) else { return false };
    let graph = Graph::of(facts.plan);
    graph.prerequisites(one).contains(&other) || graph.prerequisites(other).contains(&one)
}

/// Whether two sets of changes have a path in common, or one lies in a folder that is a path of the other.
fn touches(mine: &[TreeChange], theirs: &[TreeChange]) -> bool {
    let meets = |one: &RepoPath, other: &RepoPath| one == other || one.is_below(other) || other.is_below(one);
    mine.iter().any(|one| theirs.iter().any(|other| meets(&one.path, &other.path)))
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

//! What keeps the record of a run, and all its refs: work that nothing else holds.
//!
//! A record may go when every agent's newest work is part of a result that landed, and is in a branch of the user's still; or
//! when somebody decided to leave it out; or when there is none. And when each of its refs holds what we put there: what a
//! user committed on an agent's branch is the user's.

use std::collections::BTreeSet;

use super::error::Error;
use super::retention::Pin;
use super::site::Site;
use crate::git::{Ref, Repository};
use crate::model::card::{AnswerKind, CardState};
use crate::model::run::{AgentState, RunState};
use crate::model::{AgentName, CardId, CommitId, ObjectId, RefName, RunId, TurnId};

/// Where refs of runs lie.
pub(super) const PREFIXES: [&str; 2] = ["refs/heads/sandbox/", "refs/sandbox/"];

/// What keeps the record of a run, as it is now; `None` where nothing does. Writes nothing.
pub(super) fn load(site: &Site, state: &RunState) -> Result<Option<Pin>, Error> {
    if let Some(pin) = pin_of_state(state) {
        return Ok(Some(pin));
    }
    let repository = &site.repository;
    if let Some(landed) = &state.landed
        && !is_kept_elsewhere(repository, landed.object())?
    {
        return Ok(Some(Pin::NotReachable(landed.clone())));
    }
    let used: BTreeSet<RefName> = checked_out_elsewhere(site)?;
    let own = own_commits(state);
    for reference in load_refs(repository, &state.run_id)? {
        let is_ours = own.contains(&reference.id) || is_by_name(&reference.name, state);
        if used.contains(&reference.name) {
            return Ok(Some(Pin::CheckedOut(reference.name)));
        }
        if !is_ours && !is_kept_elsewhere(repository, &reference.id)? {
            return Ok(Some(Pin::Unknown(reference.name)));
        }
    }
    Ok(None)
}

/// All refs of a run.
pub(super) fn load_refs(repository: &Repository, run: &RunId) -> Result<Vec<Ref>, Error> {
    let mut found = Vec::new();
    for prefix in PREFIXES {
        found.extend(repository.load_refs(&format!("{prefix}{run}/"))?);
    }
    Ok(found)
}

/// Whether an object is in something of the user's: a branch, a tag, a remote branch.
fn is_kept_elsewhere(repository: &Repository, id: &ObjectId) -> Result<bool, Error> {
    let holding = repository.load_refs_holding(id)?;
    Ok(holding.iter().any(|name| !PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))))
}

/// Branches that are checked out in worktrees that are none of ours.
fn checked_out_elsewhere(site: &Site) -> Result<BTreeSet<RefName>, Error> {
    let listed = site.repository.load_worktrees()?.into_iter();
    let foreign = listed.filter(|worktree| worktree.path.parent() != Some(site.workplaces.root()));
    Ok(foreign.filter_map(|worktree| worktree.branch).collect())
}

/// What of the journal keeps a record.
fn pin_of_state(state: &RunState) -> Option<Pin> {
    if state.finished.is_none() {
        return Some(Pin::CutShort);
    }
    if !state.open_claims.is_empty() {
        return Some(Pin::Landing);
    }
    let cards = state.open_cards().count();
    if cards > 0 {
        return Some(Pin::Cards(cards as u64));
    }
    let unmerged: Vec<AgentName> = state
        .agents
        .iter()
        .filter(|agent| has_work(agent) && !is_merged(agent) && !is_dismissed(state, &agent.name))
        .map(|agent| agent.name.clone())
        .collect();
    if !unmerged.is_empty() {
        return Some(Pin::Unmerged(unmerged));
    }
    let merged = state.agents.iter().any(|agent| has_work(agent) && is_merged(agent));
    (merged && state.landed.is_none()).then_some(Pin::NotLanded)
}

fn has_work(agent: &AgentState) -> bool {
    agent.attempts.iter().flat_map(|attempt| &attempt.turns).any(|(_, turn)| !turn.empty)
}

/// Whether the newest of an agent's work, wherever it was done, is what became part of the candidate.
fn is_merged(agent: &AgentState) -> bool {
    let Some(merge) = agent.merge.as_ref().filter(|merge| merge.merged_as.is_some()) else { return false };
    let turns = || agent.attempts.iter().flat_map(|attempt| &attempt.turns);
    let merged = turns().find(|(_, turn)| turn.snapshot == merge.snapshot).map(|(_, turn)| &turn.tree);
    agent.last_turn().is_some_and(|(_, last)| last.snapshot == merge.snapshot || Some(&last.tree) == merged)
}

fn is_dismissed(state: &RunState, agent: &AgentName) -> bool {
    state.cards.iter().any(|card| {
        card.state == CardState::Closed
            && card.agents.first() == Some(agent)
            && card.answer.as_ref().is_some_and(|answer| answer.kind == AnswerKind::Dismissed)
    })
}

/// The commits that the program made, or started from.
fn own_commits(state: &RunState) -> BTreeSet<ObjectId> {
    let mut own = BTreeSet::new();
    let mut add = |commit: &CommitId| own.insert(commit.object().clone());
    if let Some(started) = &state.started {
        add(&started.base);
    }
    if let Some(candidate) = &state.candidate {
        for commit in [&candidate.head.onto, &candidate.head.from, &candidate.head.to] {
            add(commit);
        }
    }
    for agent in &state.agents {
        if let Some(fork) = agent.fork_point() {
            add(fork);
        }
        for (_, turn) in agent.attempts.iter().flat_map(|attempt| &attempt.turns) {
            add(&turn.snapshot);
        }
    }
    own
}

/// Whether a ref of this name holds nothing but what the program put there, whatever it is: nobody else has reason to move
/// it, and the journal does not tell of its value.
fn is_by_name(name: &RefName, state: &RunState) -> bool {
    let run = &state.run_id;
    if *name == RefName::base(run) || *name == RefName::rescue(run) {
        return true;
    }
    let Some((agent, last)) =
        name.as_str().strip_prefix(&format!("refs/sandbox/{run}/")).and_then(|it| it.split_once('/'))
    else {
        return false;
    };
    let Some(agent) = state.agents.iter().find(|known| known.name.as_str() == agent) else { return false };
    let card = last.strip_prefix("card-").and_then(|card| card.parse::<CardId>().ok());
    // A snapshot that the journal does not tell of is work that nothing else holds.
    let told = |turn: TurnId| agent.attempts.iter().any(|it| it.turns.iter().any(|(known, _)| *known == turn));
    last == "fork"
        || card.is_some_and(|card| state.cards.iter().any(|known| known.id == card))
        || last.parse().is_ok_and(told)
}

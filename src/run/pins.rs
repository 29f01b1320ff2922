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
use crate::model::card::AnswerKind;
use crate::model::event::PreviewResult;
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
    if let Some(landed) = state.landed.as_ref().or_else(|| state.contained_in())
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
        .filter(|agent| has_work(agent) && !is_merged(agent) && !is_left_out(state, agent))
        .map(|agent| agent.name.clone())
        .collect();
    if !unmerged.is_empty() {
        return Some(Pin::Unmerged(unmerged));
    }
    let merged = state.agents.iter().any(|agent| has_work(agent) && is_merged(agent));
    (merged && !state.is_landed() && state.contained_in().is_none()).then_some(Pin::NotLanded)
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

/// Whether a person decided to leave out the newest of an agent's work. What they decided about earlier work, or about paths
/// that it asked for, says nothing of that.
fn is_left_out(state: &RunState, agent: &AgentState) -> bool {
    let Some(merge) = &agent.merge else { return false };
    let is_newest = agent.last_turn().is_some_and(|(_, last)| last.snapshot == merge.snapshot);
    let is_dismissed = |card: &CardId| {
        let known = state.cards.iter().find(|known| known.id == *card && known.is_about(Some(&merge.snapshot)));
        known.and_then(|card| card.answer.as_ref()).is_some_and(|answer| answer.kind == AnswerKind::Dismissed)
    };
    is_newest && (merge.result == PreviewResult::SetAside || merge.cards.iter().any(is_dismissed))
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
    if let Some(branch) = &state.candidate_branch {
        add(branch);
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
    if [RefName::base(run), RefName::rescue(run), RefName::merges(run)].contains(name) {
        return true;
    }
    let Some((agent, last)) =
        name.as_str().strip_prefix(&format!("refs/sandbox/{run}/")).and_then(|it| it.split_once('/'))
    else {
        return false;
    };
    let Some(agent) = state.agents.iter().find(|known| known.name.as_str() == agent) else { return false };
    let card = last
        .strip_prefix("card-")
        .or_else(|| last.strip_prefix("proposal-"))
        .and_then(|card| card.parse::<CardId>().ok());
    // A snapshot that the journal does not tell of is work that nothing else holds.
    let told = |turn: TurnId| agent.attempts.iter().any(|it| it.turns.iter().any(|(known, _)| *known == turn));
    last == "fork"
        || card.is_some_and(|card| state.cards.iter().any(|known| known.id == card))
        || last.parse().is_ok_and(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{CandidateAdvanced, Currency, Effect, EffectKind, RunFinished, TurnFinished};
    use crate::model::run::{AttemptState, CandidateState, MergeState};

    fn commit(digit: char) -> CommitId {
        digit.to_string().repeat(40).parse().unwrap()
    }

    fn turn(number: u32, digit: char, empty: bool) -> (TurnId, TurnFinished) {
        let finished = TurnFinished {
            label: String::new(),
            snapshot: commit(digit),
            tree: digit.to_string().repeat(40).parse().unwrap(),
            patch: None,
            changed: u64::from(!empty),
            end: None,
            leftover_processes: 0,
            interrupted: false,
            live: false,
            empty,
        };
        (TurnId::new(1, number), finished)
    }

    fn agent(turns: Vec<(TurnId, TurnFinished)>, merged: Option<char>) -> AgentState {
        let attempt = AttemptState {
            number: 1,
            started: None,
            started_at: jiff::Timestamp::UNIX_EPOCH,
            finished: None,
            running_turn: None,
            turns,
            outside: Vec::new(),
        };
        let merge = merged.map(|digit| MergeState {
            snapshot: commit(digit),
            result: PreviewResult::Clean,
            currency: Currency::Current,
            cards: Vec::new(),
            blocked_by: Vec::new(),
            merged_as: Some(commit('f')),
            contribution: None,
            history: None,
        });
        AgentState {
            name: "one".parse().unwrap(),
            title: None,
            after: Vec::new(),
            stage: None,
            attempts: vec![attempt],
            merge,
            merging: None,
            retry: None,
        }
    }

    fn candidate(onto: char, to: char) -> CandidateState {
        let head = CandidateAdvanced {
            reference: RefName::branch("sandbox/login-3/integration").unwrap(),
            onto: commit(onto),
            from: commit(onto),
            to: commit(to),
            tree: "0".repeat(40).parse().unwrap(),
            contribution: None,
            merge: None,
            history: None,
        };
        CandidateState { head, merged: Vec::new() }
    }

    fn ended(agents: Vec<AgentState>) -> RunState {
        let finished = Some(RunFinished { exit_code: 0, complete: true, landed: None });
        RunState { finished, agents, ..RunState::new("login-3".parse().unwrap()) }
    }

    #[test]
    fn work_that_is_nowhere_else_pins() {
        let one = || vec!["one".parse().unwrap()];
        let landed = |agents| RunState { landed: Some(commit('f')), ..ended(agents) };
        let cases = vec![
            (ended(Vec::new()), None),
            (RunState { finished: None, ..ended(Vec::new()) }, Some(Pin::CutShort)),
            (ended(vec![agent(vec![turn(1, 'a', true)], None)]), None),
            (ended(vec![agent(vec![turn(1, 'a', false)], None)]), Some(Pin::Unmerged(one()))),
            (ended(vec![agent(vec![turn(1, 'a', false)], Some('a'))]), Some(Pin::NotLanded)),
            (landed(vec![agent(vec![turn(1, 'a', false)], Some('a'))]), None),
            // What was made since then has not landed.
            (
                RunState {
                    candidate: Some(candidate('d', 'e')),
                    ..landed(vec![agent(vec![turn(1, 'a', false)], Some('a'))])
                },
                Some(Pin::NotLanded),
            ),
            (
                RunState {
                    candidate: Some(candidate('f', 'f')),
                    ..landed(vec![agent(vec![turn(1, 'a', false)], Some('a'))])
                },
                None,
            ),
            // The target has all of it, and somebody else put it there.
            (
                RunState {
                    candidate: Some(CandidateState { merged: one(), ..candidate('f', 'f') }),
                    ..ended(vec![agent(vec![turn(1, 'a', false)], Some('a'))])
                },
                None,
            ),
            // What was kept after it was merged is not merged, unless it is the same.
            (
                landed(vec![agent(vec![turn(1, 'a', false), turn(2, 'b', false)], Some('a'))]),
                Some(Pin::Unmerged(one())),
            ),
            (
                landed(vec![agent(vec![turn(1, 'a', false), (TurnId::new(1, 2), turn(2, 'a', true).1)], Some('a'))]),
                None,
            ),
        ];
        for (state, expected) in cases {
            assert_eq!(pin_of_state(&state), expected, "{state:#?}");
        }
        let claim = Effect {
            key: "k".to_owned(),
            effect: EffectKind::Land,
            reference: RefName::branch("main").unwrap(),
            before: commit('a'),
            created: false,
            after: commit('b'),
            checkout: None,
            rescue: None,
            note: None,
            invocation: None,
            works: Vec::new(),
            observation_key: None,
            attempt: None,
            asked: None,
            release: None,
        };
        assert_eq!(pin_of_state(&RunState { open_claims: vec![claim], ..ended(Vec::new()) }), Some(Pin::Landing));
    }
}

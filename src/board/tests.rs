//! Lanes, as a table.

use jiff::Timestamp;

use super::{Lane, MergeFault, lanes, merge_error};
use crate::model::card::CardState;
use crate::model::event::{Currency, PreviewResult, Stage};
use crate::model::run::{AgentState, AttemptState, MergeState, RunState};
use crate::model::{AgentName, AttemptOutcome, CommitId};

fn name(text: &str) -> AgentName {
    text.parse().unwrap()
}

fn commit() -> CommitId {
    "1".repeat(40).parse().unwrap()
}

fn agent(text: &str) -> AgentState {
    AgentState {
        name: name(text),
        title: None,
        after: Vec::new(),
        stage: None,
        attempts: Vec::new(),
        merge: None,
        retry: None,
        merging: None,
    }
}

fn attempted(outcome: Option<AttemptOutcome>) -> AgentState {
    let finished = outcome.map(|outcome| {
        serde_json::from_value(serde_json::json!({
            "outcome": outcome, "reason": "why", "leftoverProcesses": 0, "durationMs": 1, "changedSinceFork": 0,
            "outsideSinceFork": []
        }))
        .unwrap()
    });
    let attempt = AttemptState {
        number: 1,
        started: None,
        started_at: Timestamp::UNIX_EPOCH,
        finished,
        running_turn: None,
        turns: Vec::new(),
        outside: Vec::new(),
    };
    AgentState { attempts: vec![attempt], ..agent("parser") }
}

fn merged(result: PreviewResult, merged: bool) -> AgentState {
    let merge = MergeState {
        snapshot: commit(),
        result,
        currency: Currency::Unknown,
        cards: Vec::new(),
        blocked_by: vec![name("schema")],
        merged_as: merged.then(commit),
        contribution: None,
        history: None,
    };
    AgentState { merge: Some(merge), ..attempted(Some(AttemptOutcome::Completed)) }
}

fn at(stage: Stage) -> AgentState {
    AgentState { stage: Some((stage, Timestamp::UNIX_EPOCH)), ..agent("parser") }
}

fn lane_of(agent: AgentState, card: bool) -> (Lane, String) {
    let mut state = RunState::new("login-1".parse().unwrap());
    if card {
        state.cards.push(merge_error(&agent.name, None, None, &MergeFault::Git, "cause"));
    }
    state.agents.push(agent);
    let lanes = lanes(&state);
    assert_eq!(Lane::ALL.iter().map(|lane| lanes.in_lane(*lane).count()).sum::<usize>(), 1, "exactly one lane");
    assert_eq!((lanes.cards.len(), lanes.agents[0].cards.len()), (usize::from(card), usize::from(card)));
    (lanes.agents[0].lane, lanes.agents[0].reason.clone())
}

#[test]
fn every_agent_stands_in_one_lane() {
    let waiting_for = AgentState { after: vec![name("schema")], ..agent("parser") };
    let completed = || attempted(Some(AttemptOutcome::Completed));
    let table = [
        (agent("parser"), false, Lane::Waiting, "its turn"),
        (waiting_for, false, Lane::Waiting, "schema"),
        (at(Stage::Prepare), false, Lane::Running, "prepared"),
        (at(Stage::Execute), false, Lane::Running, "running"),
        (at(Stage::Execute), true, Lane::Running, "running"),
        (at(Stage::Verify), false, Lane::Checking, "verified"),
        (attempted(None), false, Lane::Running, "attempt 1"),
        (attempted(None), true, Lane::Running, "attempt 1"),
        (completed(), false, Lane::Checking, "not yet merged"),
        (completed(), true, Lane::NeedsHuman, "decision"),
        (merged(PreviewResult::Clean, false), false, Lane::Checking, "cleanly"),
        (merged(PreviewResult::Clean, true), false, Lane::Merged, "candidate"),
        (merged(PreviewResult::Blocked, false), false, Lane::Blocked, "schema"),
        (merged(PreviewResult::Conflict, false), true, Lane::NeedsHuman, "decision"),
        (merged(PreviewResult::Held, false), false, Lane::Checking, "closed"),
    ];
    for (agent, card, lane, word) in table {
        let shown = format!("{agent:?}");
        let (found, reason) = lane_of(agent, card);
        assert_eq!(found, lane, "{shown}");
        assert!(reason.contains(word), "{reason}: {shown}");
    }
    for outcome in AttemptOutcome::ALL {
        let expected = match outcome {
            AttemptOutcome::Completed => Lane::Checking,
            AttemptOutcome::NoChanges => Lane::Merged,
            _ => Lane::Blocked,
        };
        assert_eq!(lane_of(attempted(Some(outcome)), false).0, expected, "{outcome}");
    }
}

#[test]
fn a_card_holds_its_first_agent_only_and_only_while_open() {
    let mut state = RunState::new("login-1".parse().unwrap());
    let mut other = merged(PreviewResult::Clean, true);
    other.name = name("lexer");
    state.agents = vec![attempted(Some(AttemptOutcome::Completed)), other];
    let mut card = merge_error(&name("parser"), None, None, &MergeFault::Git, "cause");
    card.agents.push(name("lexer"));
    state.cards.push(card);
    let found: Vec<Lane> = lanes(&state).agents.iter().map(|standing| standing.lane).collect();
    assert_eq!(found, [Lane::NeedsHuman, Lane::Merged]);
    state.cards[0].state = CardState::Closed;
    assert_eq!(lanes(&state).agents[0].lane, Lane::Checking);
    assert!(lanes(&state).cards.is_empty());
}

#[test]
fn names_are_those_of_the_json() {
    for lane in Lane::ALL {
        assert_eq!(serde_json::to_value(lane).unwrap(), lane.name());
    }
}

//! Whether another attempt follows one that has ended, and whether others may build on it: read off the run's state.
//!
//! Two things make an attempt follow. The agent failed and has tries left; or something it asked for was granted while it
//! worked, which only a new attempt can use. The latter costs it no try, whatever the one before came to, and happens at most
//! [`FOLLOW_UPS_MAX`] times in a run.

use std::collections::BTreeSet;

use super::{AgentState, AttemptState, RunState};
use crate::model::card::{AnswerKind, Card, CardKind};
use crate::model::ids::AgentName;
use crate::model::{AttemptOutcome, RepoPath};

/// How many attempts may follow for what was granted, in a run.
pub const FOLLOW_UPS_MAX: usize = 5;

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it was the last.
    Nothing,
    /// Another try, which is one of those the agent has.
    Try,
    /// One with what was granted meanwhile.
    WithMore,
}

/// What follows an attempt that ended so. `left` tries are left after it; `has_more`: something was granted that it did not
/// have; `stopping`: nothing new is to begin.
pub fn next(outcome: AttemptOutcome, left: u32, has_more: bool, stopping: bool) -> Next {
    if stopping {
        return Next::Nothing;
    }
    let again = outcome.is_worth_another_attempt();
    if has_more && (again || outcome.lets_dependents_start()) {
        Next::WithMore
    } else if again && left > 0 {
        Next::Try
    } else {
        Next::Nothing
    }
}

impl RunState {
    /// Whether an attempt may follow for what was granted and the agent's newest attempt does not have.
    pub fn has_more(&self, agent: &AgentName) -> bool {
        let Some(known) = self.agent(agent) else { return false };
        let granted = self.granted(agent);
        known.follow_ups() < FOLLOW_UPS_MAX && granted.iter().any(|glob| !known.granted().contains(glob))
    }

    /// How many tries the plan gives an agent.
    pub fn tries(&self, agent: &AgentName) -> u32 {
        let briefs = self.started.iter().flat_map(|started| &started.agents);
        briefs.filter(|brief| brief.name == *agent).map(|brief| brief.attempts).next().unwrap_or(1)
    }

    /// What follows the newest attempt of an agent by itself, once that has ended, while somebody works on the run.
    pub fn follows(&self, agent: &AgentState) -> Next {
        let Some(outcome) = agent.outcome() else { return Next::Nothing };
        let left = self.tries(&agent.name).saturating_sub(agent.tries_spent());
        next(outcome, left, self.has_more(&agent.name), self.finished.is_some())
    }

    /// Whether a person has approved of each path that an agent's newest work changes outside its contract.
    pub fn is_scope_approved(&self, agent: &AgentName) -> bool {
        let is_approved = |card: &&Card| {
            card.kind == CardKind::Scope
                && card.agents.first() == Some(agent)
                && card.answer.as_ref().is_some_and(|answer| answer.kind == AnswerKind::Approved)
        };
        let approved: BTreeSet<&RepoPath> =
            self.cards.iter().filter(is_approved).flat_map(|card| &card.paths).collect();
        let finished = self.agent(agent).and_then(|known| known.last_attempt()?.finished.as_ref());
        finished.is_some_and(|finished| finished.outside_since_fork.iter().all(|path| approved.contains(path)))
    }

    /// Whom an agent builds on that it cannot be built on now, if ever: they have not ended, not well, or outside their
    /// contracts.
    pub fn lacking(&self, agent: &AgentState) -> Vec<AgentName> {
        let is_there = |name: &AgentName| {
            let outcome = self.agent(name).and_then(AgentState::outcome);
            outcome.is_some_and(AttemptOutcome::lets_dependents_start) && self.is_scope_approved(name)
        };
        agent.after.iter().filter(|name| !is_there(name)).cloned().collect()
    }
}

impl AgentState {
    /// How many of its tries it has used up: one that failed and was followed by one with more is none of them.
    pub fn tries_spent(&self) -> u32 {
        let granted = |attempt: &AttemptState| attempt.started.as_ref().map_or(0, |started| started.granted.len());
        let failed = |attempt: &AttemptState| {
            attempt.finished.as_ref().is_some_and(|finished| finished.outcome.is_worth_another_attempt())
        };
        let attempts = self.attempts.iter().zip(self.attempts.iter().skip(1).map(Some).chain([None]));
        let of_its_own = attempts.filter(|(attempt, then)| {
            failed(attempt) && then.is_none_or(|then| then.started.is_none() || granted(then) <= granted(attempt))
        });
        u32::try_from(of_its_own.count()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{AttemptFinished, AttemptStarted};

    fn attempt(number: u32, outcome: AttemptOutcome, granted: Option<usize>) -> AttemptState {
        let id: crate::model::ObjectId = "1".repeat(40).parse().unwrap();
        let started = granted.map(|granted| AttemptStarted {
            fork_point: id.clone().into(),
            base_ref: id.clone().into(),
            base_tree: id.clone().into(),
            branch: "refs/heads/x".parse().unwrap(),
            worktree: "/nowhere".into(),
            adapter: "command".to_owned(),
            granted: (0..granted).map(|nth| nth.to_string()).collect(),
            degraded: std::collections::BTreeSet::new(),
        });
        AttemptState {
            number,
            started,
            started_at: jiff::Timestamp::UNIX_EPOCH,
            finished: Some(AttemptFinished::without_work(outcome, "")),
            running_turn: None,
            turns: Vec::new(),
            outside: Vec::new(),
        }
    }

    fn agent(name: &str, after: &[&str], attempts: Vec<AttemptState>) -> AgentState {
        AgentState {
            name: name.parse().unwrap(),
            title: None,
            after: after.iter().map(|name| name.parse().unwrap()).collect(),
            stage: None,
            attempts,
            merge: None,
            merging: None,
            retry: None,
        }
    }

    fn scope_card(agent: &str, paths: &[&str], answer: Option<AnswerKind>) -> Card {
        let answer = answer.map(|kind| serde_json::json!({"kind": kind, "by": "x"}));
        serde_json::from_value(serde_json::json!({
            "id": "c1", "kind": "scope", "state": if answer.is_some() { "closed" } else { "needs-human" },
            "agents": [agent], "paths": paths, "summary": "", "stages": [], "messages": [], "fingerprint": "f",
            "options": [], "answer": answer,
        }))
        .unwrap()
    }

    /// Whom `b` lacks, by how `a` ended, what it changed outside its contract, and what was approved of.
    #[test]
    fn what_is_built_on_has_ended_well_and_has_kept_its_contract_or_was_approved_of() {
        use AttemptOutcome::{Completed, Failed, NoChanges};
        let approved = |paths: &[&str]| vec![scope_card("a", paths, Some(AnswerKind::Approved))];
        let table = [
            (None, &[][..], Vec::new(), false),
            (Some(Failed), &[], Vec::new(), false),
            (Some(Failed), &[], approved(&["x"]), false),
            (Some(Completed), &[], Vec::new(), true),
            (Some(NoChanges), &[], Vec::new(), true),
            (Some(Completed), &["x"], Vec::new(), false),
            (Some(Completed), &["x"], vec![scope_card("a", &["x"], None)], false),
            (Some(Completed), &["x"], vec![scope_card("a", &["x"], Some(AnswerKind::Dismissed))], false),
            (Some(Completed), &["x"], vec![scope_card("c", &["x"], Some(AnswerKind::Approved))], false),
            (Some(Completed), &["x"], approved(&["x"]), true),
            (Some(Completed), &["x", "y"], approved(&["x"]), false),
            // One that closed by itself, with its path taken back, says nothing of what is there now.
            (Some(Completed), &["x"], [approved(&["x"]), vec![scope_card("a", &["z"], None)]].concat(), true),
        ];
        for (outcome, outside, cards, is_there) in table {
            let attempts = outcome.map(|outcome| {
                let mut made = attempt(1, outcome, Some(0));
                let outside = outside.iter().map(|path| RepoPath::from(*path)).collect();
                made.finished.as_mut().unwrap().outside_since_fork = outside;
                made
            });
            let mut state = RunState::new("r-1".parse().unwrap());
            state.agents = vec![agent("a", &[], attempts.into_iter().collect()), agent("b", &["a"], Vec::new())];
            state.cards = cards;
            let lacking = state.lacking(&state.agents[1]);
            assert_eq!(lacking.is_empty(), is_there, "{outcome:?} {outside:?} {:?}", state.cards);
        }
    }

    #[test]
    fn an_attempt_with_more_costs_the_one_before_it_nothing() {
        use AttemptOutcome::{Completed, Failed, Interrupted, SandboxRefused};
        for (attempts, expected) in [
            (&[(Failed, Some(0))][..], 1),
            (&[(Failed, Some(0)), (Failed, Some(0))], 2),
            (&[(Failed, Some(0)), (Failed, Some(1))], 1),
            (&[(Failed, Some(1)), (Failed, Some(1)), (Completed, Some(3))], 1),
            (&[(Failed, Some(0)), (SandboxRefused, None)], 1),
            (&[(Interrupted, Some(0)), (Failed, Some(1))], 1),
        ] {
            let numbered = (1..).zip(attempts).map(|(number, (outcome, granted))| attempt(number, *outcome, *granted));
            let agent = agent("a", &[], numbered.collect());
            assert_eq!(agent.tries_spent(), expected, "{attempts:?}");
        }
    }

    /// Every outcome, with and without tries left and something granted.
    #[test]
    fn what_follows() {
        use AttemptOutcome as O;
        for outcome in O::ALL {
            for (left, more) in [(0, false), (0, true), (2, false), (2, true)] {
                let expected = match (outcome, left, more) {
                    (
                        O::Completed | O::NoChanges | O::Failed | O::TimedOut | O::Idle | O::OutputLimit | O::Limit,
                        _,
                        true,
                    ) => Next::WithMore,
                    (O::Failed | O::TimedOut | O::Idle | O::OutputLimit | O::Limit, 2, false) => Next::Try,
                    _ => Next::Nothing,
                };
                assert_eq!(next(outcome, left, more, false), expected, "{outcome} {left} {more}");
                assert_eq!(next(outcome, left, more, true), Next::Nothing, "{outcome} while stopping");
            }
        }
    }
}

//! Whether another attempt follows one that has ended: a pure function.
//!
//! Two things make one follow. The agent failed and has attempts left; or something it asked for was granted while it worked,
//! which only a new attempt can use. The latter costs it no attempt, whatever the one before came to, and happens at most
//! [`FOLLOW_UPS_MAX`] times in a run.

use crate::model::run::{AgentState, AttemptState, RunState};
use crate::model::{AgentName, AttemptOutcome};

/// How many attempts may follow for what was granted, in a run.
pub(super) const FOLLOW_UPS_MAX: usize = 5;

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: it was the last.
    Nothing,
    /// Another try, which is one of those the agent has.
    Try,
    /// One with what was granted meanwhile.
    WithMore,
}

/// What follows an attempt that ended so. `left` tries are left after it; `has_more`: something was granted that it did not
/// have; `stopping`: nothing new is to begin.
pub(super) fn next(outcome: AttemptOutcome, left: u32, has_more: bool, stopping: bool) -> Next {
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

/// Whether an attempt may follow for what was granted and the agent's newest attempt does not have.
pub(super) fn has_more(state: &RunState, agent: &AgentName) -> bool {
    let Some(known) = state.agent(agent) else { return false };
    let granted = state.granted(agent);
    known.follow_ups() < FOLLOW_UPS_MAX && granted.iter().any(|glob| !known.granted().contains(glob))
}

/// How many of its tries an agent has used up: one that failed and was followed by one with more is none of them.
pub(super) fn spent(agent: &AgentState) -> usize {
    let granted = |attempt: &AttemptState| attempt.started.as_ref().map_or(0, |started| started.granted.len());
    let failed = |attempt: &AttemptState| {
        attempt.finished.as_ref().is_some_and(|finished| finished.outcome.is_worth_another_attempt())
    };
    let attempts = agent.attempts.iter().zip(agent.attempts.iter().skip(1).map(Some).chain([None]));
    let of_its_own = attempts.filter(|(attempt, then)| {
        failed(attempt) && then.is_none_or(|then| then.started.is_none() || granted(then) <= granted(attempt))
    });
    of_its_own.count()
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
            let agent = AgentState {
                name: "a".parse().unwrap(),
                title: None,
                after: Vec::new(),
                stage: None,
                attempts: numbered.collect(),
                merge: None,
                merging: None,
                retry: None,
            };
            assert_eq!(spent(&agent), expected, "{attempts:?}");
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

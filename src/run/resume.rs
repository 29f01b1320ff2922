//! Going on with a whole run that ended before its end: its coordinator died, or it was told to stop.
//!
//! 1. What a coordinator died over is settled: a landing that was claimed, and what agents had changed since their last
//!    turn, which becomes a turn that was cut short ([`super::reopen`]).
//! 2. Each agent goes on from how it stands, as [`opening`] says: a pure function of what the journal tells.
//! 3. What follows is what follows in any run: integrate, verify, the gate, and landing where that was asked for.
//!
//! Each step looks at what is there first, so that nothing is done twice, and a death during `resume` is like any other.

use super::agents::Opening;
use super::coordinator::{Report, close_on_fault, end_in_time, open_networks, require_secrets};
use super::error::Error;
use super::hooks::commands_outside;
use super::reopen::{NeverBegun, Reopened};
use super::scheduler::run_all;
use crate::model::AttemptOutcome;
use crate::model::currency::Asker;
use crate::model::event::{Asked, EventKind, Requester, Subject};
use crate::model::run::tries::{self, Next};
use crate::model::run::{AgentState, RunState};
use crate::plan::boxes;
use crate::store::Record;

/// The exit codes of a run that came to a decision. Others say that it was told to stop, or that it could not go on.
const DECIDED: [u8; 4] = [0, 1, 5, 6];

impl Reopened {
    /// Goes on with the run to its end, from wherever it stands.
    pub async fn resume(mut self) -> Result<Report, Error> {
        // What a person asked for is that the run goes on: what it has tried in vain is not tried again for that.
        self.asked = Asker::Run;
        close_on_fault(self.recorder(), self.do_resume().await)
    }

    async fn do_resume(&self) -> Result<Report, Error> {
        let before = self.state();
        let all = boxes(self.plan()).map(|(_, settings)| settings);
        require_secrets(&self.crew().site, all)?;
        for text in open_networks(self.plan()).into_iter().chain(commands_outside(self.plan())) {
            self.recorder().warn(&text);
        }
        let clock = self.plan().timeout.map(|limit| end_in_time(self.signals(), limit.unsigned_abs()));
        let report = self.go_on(&before).await;
        if let Some(clock) = clock {
            clock.abort();
        }
        report
    }

    async fn go_on(&self, before: &RunState) -> Result<Report, Error> {
        let orders = self.dispatcher().open();
        if before.paused {
            self.recorder().warn("the run was paused when its program ended; it goes on now");
            let by = Requester { pid: Some(std::process::id()), uid: nix::unistd::geteuid().as_raw() };
            let continued = EventKind::RunContinued(Asked { by });
            tokio::task::block_in_place(|| self.recorder().record(Subject::run(), continued))?;
        }
        self.close_stage()?;
        self.finish().settle_claims().await?;
        self.close_interrupted(NeverBegun::GoesOn).await?;
        let state = self.state();
        let came_to_its_end = came_to_its_end(before);
        let jobs = state.started.as_ref().map_or(1, |started| started.jobs);
        run_all(self.crew(), orders, jobs, |task| match state.agent(&task.name) {
            Some(agent) => {
                let has_more = !came_to_its_end && state.has_more(&task.name);
                opening(agent, task.attempts, came_to_its_end, (state.is_scope_approved(&task.name), has_more))
            }
            None => Opening::New,
        })
        .await?;
        if self.signals().ending().is_none() {
            self.integrate_if_out_of_date().await?;
            if !self.state().verifier_is_fresh() {
                self.finish().verify(false).await?;
            }
        }
        self.finish().conclude(self.land_was_asked()).await
    }
}

/// Whether a run was brought to a decision, so that an agent that failed has had all its attempts.
fn came_to_its_end(state: &RunState) -> bool {
    state.finished.as_ref().is_some_and(|finished| DECIDED.contains(&finished.exit_code))
}

/// How an agent with so many attempts goes on. `approved`: others may build on what it did outside its contract. `has_more`:
/// something was granted that its newest attempt did not have, and the one that was to follow for it was never made.
fn opening(agent: &AgentState, attempts: u32, came_to_its_end: bool, (approved, has_more): (bool, bool)) -> Opening {
    // That the run was cut short is no fault of the agent's, and costs it no attempt.
    let left = attempts.saturating_sub(agent.tries_spent());
    // Promised to whoever asked for it, before the coordinator died.
    if let Some(requested) = agent.retry.filter(|_| !agent.attempts.is_empty()) {
        return if requested.from_fork { Opening::Afresh { attempts } } else { Opening::GoOn { attempts } };
    }
    let Some(finished) = agent.last_attempt().and_then(|attempt| attempt.finished.as_ref()) else {
        return Opening::GoOn { attempts: left.max(1) };
    };
    if tries::next(finished.outcome, 0, has_more, false) == Next::WithMore {
        return Opening::GoOn { attempts: left.max(1) };
    }
    match finished.outcome {
        AttemptOutcome::Completed | AttemptOutcome::NoChanges => {
            Opening::Ended { can_be_built_on: approved || finished.can_be_built_on() }
        }
        AttemptOutcome::Interrupted => Opening::GoOn { attempts: left.max(1) },
        // Nothing of it has run; what the machine lacked then may be there now.
        AttemptOutcome::SandboxRefused if !came_to_its_end => Opening::GoOn { attempts: left.max(1) },
        AttemptOutcome::Failed
        | AttemptOutcome::TimedOut
        | AttemptOutcome::Idle
        | AttemptOutcome::OutputLimit
        | AttemptOutcome::Limit
            if left > 0 && !came_to_its_end =>
        {
            Opening::GoOn { attempts: left }
        }
        AttemptOutcome::Blocked => Opening::WasBlocked,
        AttemptOutcome::Failed
        | AttemptOutcome::TimedOut
        | AttemptOutcome::Idle
        | AttemptOutcome::OutputLimit
        | AttemptOutcome::Limit
        | AttemptOutcome::CouldNotStart
        | AttemptOutcome::SetupFailed
        | AttemptOutcome::CaptureFailed
        | AttemptOutcome::HarvestRefused
        | AttemptOutcome::Tampered
        | AttemptOutcome::SandboxRefused
        | AttemptOutcome::Skipped
        | AttemptOutcome::Stale => Opening::Ended { can_be_built_on: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{AttemptFinished, RetryRequested};
    use crate::model::run::AttemptState;

    fn agent(outcomes: &[Option<AttemptOutcome>]) -> AgentState {
        let attempt = |(index, outcome): (usize, &Option<AttemptOutcome>)| AttemptState {
            number: u32::try_from(index + 1).unwrap(),
            started: None,
            started_at: jiff::Timestamp::UNIX_EPOCH,
            finished: outcome.map(|outcome| AttemptFinished::without_work(outcome, "")),
            running_turn: None,
            turns: Vec::new(),
            outside: Vec::new(),
        };
        AgentState {
            name: "a".parse().unwrap(),
            title: None,
            after: Vec::new(),
            stage: None,
            attempts: outcomes.iter().enumerate().map(attempt).collect(),
            merge: None,
            retry: None,
            merging: None,
        }
    }

    /// Every outcome of a last attempt, in a run that was cut short and in one that came to its end, with attempts left and
    /// without.
    #[test]
    fn each_agent_goes_on_from_how_it_stands() {
        use AttemptOutcome as O;
        for outcome in AttemptOutcome::ALL {
            for (attempts, ended) in [(1, false), (1, true), (3, false), (3, true)] {
                let expected = match outcome {
                    O::Completed | O::NoChanges => Opening::Ended { can_be_built_on: true },
                    O::Interrupted => Opening::GoOn { attempts },
                    O::SandboxRefused if !ended => Opening::GoOn { attempts },
                    O::Blocked => Opening::WasBlocked,
                    O::Failed | O::TimedOut | O::Idle | O::OutputLimit | O::Limit if attempts == 3 && !ended => {
                        Opening::GoOn { attempts: 2 }
                    }
                    _ => Opening::Ended { can_be_built_on: false },
                };
                assert_eq!(
                    opening(&agent(&[Some(outcome)]), attempts, ended, (false, false)),
                    expected,
                    "{outcome} {attempts} {ended}"
                );
            }
        }
    }

    #[test]
    fn one_that_never_began_or_was_cut_short_has_what_is_left() {
        use AttemptOutcome::{Failed, Interrupted};
        assert_eq!(opening(&agent(&[]), 2, false, (false, false)), Opening::GoOn { attempts: 2 });
        assert_eq!(
            opening(&agent(&[Some(Failed), Some(Interrupted)]), 2, false, (false, false)),
            Opening::GoOn { attempts: 1 }
        );
        // Cut short in its last attempt: it has that one still.
        assert_eq!(opening(&agent(&[Some(Failed), None]), 1, false, (false, false)), Opening::GoOn { attempts: 1 });
        assert_eq!(
            opening(&agent(&[Some(Failed), Some(Failed)]), 2, false, (false, false)),
            Opening::Ended { can_be_built_on: false }
        );
    }

    #[test]
    fn what_was_granted_and_not_taken_up_yet_is() {
        use AttemptOutcome::{Completed, Failed, Tampered};
        assert_eq!(opening(&agent(&[Some(Completed)]), 1, false, (false, true)), Opening::GoOn { attempts: 1 });
        assert_eq!(opening(&agent(&[Some(Failed)]), 1, false, (false, true)), Opening::GoOn { attempts: 1 });
        let tampered = opening(&agent(&[Some(Tampered)]), 3, false, (false, true));
        assert_eq!(tampered, Opening::Ended { can_be_built_on: false });
    }

    #[test]
    fn one_that_was_promised_another_attempt_has_all_of_them() {
        use AttemptOutcome::Failed;
        for (from_fork, expected) in [(false, Opening::GoOn { attempts: 2 }), (true, Opening::Afresh { attempts: 2 })] {
            let retry = Some(RetryRequested { from_fork, by: Requester { pid: None, uid: 0 } });
            let agent = AgentState { retry, ..agent(&[Some(Failed), Some(Failed)]) };
            assert_eq!(opening(&agent, 2, false, (false, false)), expected);
        }
    }

    #[test]
    fn work_out_of_contract_is_not_built_on() {
        let mut agent = agent(&[Some(AttemptOutcome::Completed)]);
        agent.attempts[0].finished.as_mut().unwrap().outside_since_fork = vec!["x".into()];
        assert_eq!(opening(&agent, 1, false, (false, false)), Opening::Ended { can_be_built_on: false });
        assert_eq!(opening(&agent, 1, false, (true, false)), Opening::Ended { can_be_built_on: true }, "approved");
    }
}

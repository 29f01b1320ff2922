//! Asking something of a run from outside, whether its coordinator lives or not.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::control::client::{Asked, ask};
use super::control::protocol::{Command, Done};
use super::error::Error;
use super::reopen::{Reopened, no_agent};
use crate::model::{AgentName, AttemptOutcome};
use crate::store::lock::run_lock_state;
use crate::store::{FolderWatch, LockState, RunDir};

/// How long a coordinator that has the run's lock may take until it listens, or until it has gone.
const COMES_OR_GOES: Duration = Duration::from_secs(5);

/// After how many nanoseconds the lock is looked at again in that time.
const LOOK_AGAIN: i64 = 50_000_000;

/// Has the living coordinator of `run` do something, waiting up to `patience` for its answer. `None`: none lives.
pub fn steer(run: &RunDir, command: &Command, patience: Duration) -> Result<Option<Done>, Error> {
    // Before the first look, so that a socket that comes after it is noticed.
    let watch = FolderWatch::new(run.root())?;
    let until = Instant::now() + COMES_OR_GOES;
    loop {
        let holder = match run_lock_state(run)? {
            LockState::Free => return Ok(None),
            LockState::Held(holder) => holder,
        };
        let pid = holder.as_ref().map(|holder| holder.invocation.pid);
        match ask(run, command, patience)? {
            Asked::Answered(Ok(done)) => return Ok(Some(done)),
            Asked::Answered(Err(refusal)) => return Err(Error::Refused { run: run.id().clone(), pid, refusal }),
            Asked::NotTaken | Asked::NoAnswer => return Err(Error::NoAnswer { run: run.id().clone(), pid }),
            // Just begun, just ending, or one that decides something and is done in a moment.
            Asked::Nobody => {}
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let age = holder.as_ref().map(|holder| holder.age(jiff::Timestamp::now()));
            return Err(crate::store::Error::Held { run: run.id().clone(), holder, age }.into());
        }
        // A lock that the kernel frees changes no file: look again now and then.
        let tick = Timespec { tv_sec: 0, tv_nsec: LOOK_AGAIN };
        match poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => drop(watch.drain()?),
            Err(error) => return Err(Error::Control { run: run.id().clone(), source: error.into() }),
        }
    }
}

impl Reopened {
    /// Leaves an agent out of a run that nobody coordinates: it is skipped when the run goes on. What it had changed since its
    /// last turn is kept first. False: it was left out already.
    pub async fn skip(&self, agent: &AgentName) -> Result<bool, Error> {
        let state = self.state();
        let known = state.agent(agent).ok_or_else(|| no_agent(&state, agent.as_str()))?;
        match known.outcome() {
            Some(AttemptOutcome::Skipped) => return Ok(false),
            Some(AttemptOutcome::Completed) => {
                let why = "it has completed; `sandbox board` shows whether a card holds its work".to_owned();
                return Err(Error::NotSkipped { agent: agent.clone(), why });
            }
            Some(_) | None => {}
        }
        self.close_agent(known).await?;
        self.crew().not_begun(agent, AttemptOutcome::Skipped, "left out on request")?;
        let recorder = self.recorder();
        tokio::task::block_in_place(|| recorder.end_hooks());
        Ok(true)
    }
}

//! Telling the coordinator of a run to stop: over its socket, or, where it does not listen, by a signal.
//!
//! By a handle on the process, never by its number alone: the lock says who holds it, the process is looked at through a
//! handle, and only if it is the one that took the lock is it told.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::control::client::{Asked, ask};
use super::control::protocol::Command;
use super::error::Error;
use crate::model::event::Invocation;
use crate::store::lock::run_lock_state;
use crate::store::{LockState, RunDir, process};

/// How long it may take to say that it heard.
const TAKES_IN: Duration = Duration::from_secs(2);

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// No coordinator lives: there is nothing to stop.
    NotRunning,
    /// It was told, and has ended.
    Ended(Invocation),
    /// It was told, and was still at work when the wait was over.
    Told(Invocation),
}

/// Tells the coordinator of `run` to end in order, and waits for that up to `patience`.
pub fn stop(run: &RunDir, patience: Duration) -> Result<Stopped, Error> {
    let invocation = match run_lock_state(run)? {
        LockState::Free => return Ok(Stopped::NotRunning),
        LockState::Held(Some(holder)) => holder.invocation,
        LockState::Held(None) => {
            let holder = None;
            return Err(crate::store::Error::Held { run: run.id().clone(), holder, age: None }.into());
        }
    };
    let failed = |source: rustix::io::Errno| Error::NotStopped {
        run: run.id().clone(),
        pid: invocation.pid,
        source: source.into(),
    };
    let Some(pid) = i32::try_from(invocation.pid).ok().and_then(Pid::from_raw) else { return Ok(Stopped::NotRunning) };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH) => return Ok(Stopped::NotRunning),
        Err(error) => return Err(failed(error)),
    };
    // Looked at only now that the handle holds the process: its number cannot pass to another any more.
    if !process::is_same_process_alive(&invocation)? {
        return Ok(Stopped::NotRunning);
    }
    match ask(run, &Command::Stop, TAKES_IN)? {
        // Taken in is as good as done: a signal beside it would be a second request.
        Asked::Answered(Ok(_)) | Asked::NoAnswer => {}
        Asked::Answered(Err(_)) | Asked::NotTaken | Asked::Nobody => {
            pidfd_send_signal(&handle, Signal::TERM).map_err(failed)?;
        }
    }
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let limit = rustix::event::Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit)) {
            Ok(0) => return Ok(Stopped::Told(invocation)),
            Ok(_) => return Ok(Stopped::Ended(invocation)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

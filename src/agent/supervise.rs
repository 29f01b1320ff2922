//! Watching one command in a box until it has ended: its output, its limits, its requests, and a call to stop.
//!
//! What ends a command early does so in two steps: SIGTERM to every process of the box, then, after a grace period, the
//! kill that none survives. Output is taken in all the while, so that a full pipe delays nothing, and thrown away once it
//! is over the limit. The first reason counts: a command that is told to stop for its silence and then prints has still
//! been idle.

use std::os::fd::OwnedFd;
use std::time::Duration;

use sandbox::{Child, Exit, Sandbox};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::clock::WorkClock;
use super::error::Error;
use super::output::{Allowance, OutputLog};
use super::socket::{AgentSocket, Request};
use crate::model::{LimitMet, ProcessEnd};

/// How long a command has between being asked to end and being killed.
pub const GRACE: Duration = Duration::from_secs(5);

/// How long after a command's end its last output is waited for.
const DRAIN: Duration = Duration::from_secs(2);

/// The bounds of an attempt, as far as they are used up.
#[derive(Debug)]
pub struct Bounds {
    /// By what its time is measured.
    pub clock: WorkClock,
    /// When its time is over.
    pub deadline: Instant,
    /// The longest silence.
    pub idle: Duration,
    /// What it may still print.
    pub output: Allowance,
    /// Told when everything is to stop.
    pub stop: CancellationToken,
    /// Told, after `stop`, when not even the grace period counts any more.
    pub kill: CancellationToken,
}

/// Why a command was ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Its time was over.
    TimedOut,
    /// It was silent for too long.
    Idle,
    /// It printed too much.
    OutputLimit,
    /// It met a limit of its box.
    Limit(LimitMet),
    /// The run was stopped.
    Stopped,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// How its main process ended.
    pub end: ProcessEnd,
    /// How many other processes were there still, and were killed.
    pub leftovers: u32,
    /// Why it was ended early, if it was.
    pub cut: Option<Cut>,
}

/// What a supervisor comes back with.
#[derive(Debug)]
pub enum Happening {
    /// The command has ended, and nothing of it is left.
    Ended(Ended),
    /// The agent wants something; the command goes on.
    Requested(Request),
}

/// The pipe a command writes its output and its errors to.
pub fn output_pipe() -> Result<(OwnedFd, OwnedFd, pipe::Receiver), Error> {
    let (sender, receiver) = pipe::pipe().map_err(Error::Pipe)?;
    let write = sender.into_blocking_fd().map_err(Error::Pipe)?;
    let again = write.try_clone().map_err(Error::Pipe)?;
    Ok((write, again, receiver))
}

/// One running command and what is known of it.
#[derive(Debug)]
pub struct Supervisor {
    child: Child,
    output: Option<pipe::Receiver>,
    last_output: Instant,
    cut: Option<Cut>,
    terminated_at: Option<Instant>,
    killed: bool,
}

impl Supervisor {
    /// Watches `child`, whose output comes through `output`.
    pub fn new(child: Child, output: pipe::Receiver, bounds: &Bounds) -> Self {
        let last_output = bounds.clock.now();
        Self { child, output: Some(output), last_output, cut: None, terminated_at: None, killed: false }
    }

    /// Counts the time spent elsewhere, as in a capture the agent asked for, as no silence of its own.
    pub fn heard(&mut self, bounds: &Bounds) {
        self.last_output = bounds.clock.now();
    }

    /// Waits for the next thing that happens.
    pub async fn next(
        &mut self,
        boxed: &Sandbox,
        bounds: &mut Bounds,
        log: &mut OutputLog,
        on_output: &mut (dyn FnMut(&[u8]) + Send),
        mut requests: Option<&mut AgentSocket>,
    ) -> Result<Happening, Error> {
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let (deadline, silence) = (self.deadline(bounds), self.last_output + bounds.idle);
            let clock = bounds.clock.clone();
            // The deadline stands before the output, for a command that prints without a pause must not put off its own
            // end; silence stands behind it, for there is none while there is output to read.
            tokio::select! {
                biased;
                exit = self.child.wait() => {
                    let exit = exit.map_err(Error::Box)?;
                    if exit.escaped > 0 {
                        return Err(Error::Box(sandbox::BoxError::Restless { running: exit.escaped }));
                    }
                    self.drain(bounds, log, on_output, &mut chunk).await?;
                    return Ok(Happening::Ended(self.ended(exit)));
                }
                () = bounds.kill.cancelled(), if !self.killed => {
                    self.cut.get_or_insert(Cut::Stopped);
                    self.terminated_at.get_or_insert_with(|| clock.now());
                    self.kill(boxed).await?;
                }
                () = bounds.stop.cancelled(), if self.cut.is_none() => self.cut = Some(Cut::Stopped),
                () = clock.sleep_until(deadline), if !self.killed => {
                    self.cut.get_or_insert(Cut::TimedOut);
                }
                request = next_request(requests.as_deref_mut()), if self.cut.is_none() => {
                    return Ok(Happening::Requested(request));
                }
                read = read_some(self.output.as_mut(), &mut chunk) => match read {
                    Some(length) => self.take_in(&chunk[..length], bounds, log, on_output)?,
                    None => self.output = None,
                },
                () = clock.sleep_until(silence), if self.cut.is_none() => self.cut = Some(Cut::Idle),
            }
            self.carry_out(boxed, &clock).await?;
        }
    }

    fn ended(&self, exit: Exit) -> Ended {
        let cut = self.cut.or(exit.limit.map(|hit| Cut::Limit(hit.into())));
        Ended { end: process_end(exit), leftovers: exit.leftovers, cut }
    }

    fn take_in(
        &mut self,
        chunk: &[u8],
        bounds: &mut Bounds,
        log: &mut OutputLog,
        on_output: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<(), Error> {
        self.last_output = bounds.clock.now();
        let (kept, over) = bounds.output.take(chunk);
        if !kept.is_empty() {
            log.append(kept)?;
            on_output(kept);
        }
        if over {
            self.cut.get_or_insert(Cut::OutputLimit);
        }
        Ok(())
    }

    /// When it must be ended, or, once it has been asked to end, killed.
    fn deadline(&self, bounds: &Bounds) -> Instant {
        self.terminated_at.map_or(bounds.deadline, |at| at + GRACE)
    }

    /// Does what the state asks for: asks the command to end, then kills it.
    async fn carry_out(&mut self, boxed: &Sandbox, clock: &WorkClock) -> Result<(), Error> {
        match (self.cut, self.terminated_at) {
            (Some(_), None) => {
                self.terminated_at = Some(clock.now());
                boxed.terminate(sandbox::Signal::SIGTERM).await.map_err(Error::Box)
            }
            (Some(_), Some(at)) if !self.killed && clock.now() >= at + GRACE => self.kill(boxed).await,
            (None, _) | (Some(_), Some(_)) => Ok(()),
        }
    }

    async fn kill(&mut self, boxed: &Sandbox) -> Result<(), Error> {
        self.killed = true;
        boxed.kill_all().await.map(drop).map_err(Error::Box)
    }

    /// Takes in what is still in the pipe. Every writer is dead, so the end comes at once.
    async fn drain(
        &mut self,
        bounds: &mut Bounds,
        log: &mut OutputLog,
        on_output: &mut (dyn FnMut(&[u8]) + Send),
        chunk: &mut [u8],
    ) -> Result<(), Error> {
        let until = Instant::now() + DRAIN;
        while self.output.is_some() {
            match tokio::time::timeout_at(until, read_some(self.output.as_mut(), chunk)).await {
                Ok(Some(length)) => self.take_in(&chunk[..length], bounds, log, on_output)?,
                Ok(None) | Err(_) => self.output = None,
            }
        }
        Ok(())
    }
}

/// The next piece of output; `None` at its end. Never ready once there is no pipe.
async fn read_some(output: Option<&mut pipe::Receiver>, chunk: &mut [u8]) -> Option<usize> {
    match output {
        Some(pipe) => pipe.read(chunk).await.ok().filter(|length| *length > 0),
        None => std::future::pending().await,
    }
}

async fn next_request(requests: Option<&mut AgentSocket>) -> Request {
    match requests {
        Some(socket) => socket.next().await,
        None => std::future::pending().await,
    }
}

fn process_end(exit: Exit) -> ProcessEnd {
    match exit.status {
        sandbox::Status::Exited(code) => ProcessEnd::Exited(code),
        sandbox::Status::Signaled(signal) => ProcessEnd::Signaled(signal),
    }
}

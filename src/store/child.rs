//! Attending to one running child, whoever started it: feeding it, reading it, and ending it in time.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal};

/// What is kept of a child's standard error.
const COMPLAINT_LIMIT: usize = 64 * 1024;

/// How often a pipe is read before other things are looked at.
const READS: usize = 64;

/// What a child may use.
#[derive(Debug)]
pub struct Limits {
    /// How long it may take.
    pub timeout: Duration,
    /// How much it may write to its standard output.
    pub output: u64,
    /// How much address space it may take.
    pub memory: Option<u64>,
}

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    /// Its end.
    pub status: ExitStatus,
    /// What it wrote to its standard error, the beginning of it.
    pub stderr: Vec<u8>,
}

/// Why a child was not served to its end. It is dead all the same.
#[derive(Debug)]
pub enum Broken {
    /// Its pipes failed us.
    Pipe(io::Error),
    /// Its time was over.
    TimedOut,
    /// It wrote too much.
    TooMuchOutput,
    /// It was to stop.
    Stopped,
}

/// Serves the child until it has ended, or ends it.
///
/// One thread, one `poll` over the child's process descriptor and its pipes: a child that fills one pipe while we wait on
/// another cannot block us. Once the child itself has ended, what it wrote is in the pipes; its group is then killed, so a
/// helper that it left behind can hold neither us nor the pipes. The child is not reaped before that, so its number cannot
/// have been given to another process.
///
/// Its output is read from its standard output, or from `output` where that leads elsewhere. The child leads a process
/// group of its own. `stop` ends it as soon as something can be read there, or its other end is
/// closed.
pub fn attend(
    mut child: Child,
    output: Option<OwnedFd>,
    feed: Feed,
    sink: Option<&mut dyn Write>,
    limits: &Limits,
    stop: Option<&OwnedFd>,
) -> Result<Ended, Broken> {
    let pid = Pid::from_child(&child);
    let output = output.or_else(|| child.stdout.take().map(OwnedFd::from));
    let result = serve(&mut child, pid, output, feed, sink, limits, stop);
    // An error here says that the group is gone already.
    let _gone = rustix::process::kill_process_group(pid, Signal::KILL);
    let status = child.wait().map_err(Broken::Pipe)?;
    result.map(|stderr| Ended { status, stderr })
}

fn serve(
    child: &mut Child,
    pid: Pid,
    output: Option<OwnedFd>,
    feed: Feed,
    sink: Option<&mut dyn Write>,
    limits: &Limits,
    stop: Option<&OwnedFd>,
) -> Result<Vec<u8>, Broken> {
    let pipe = Broken::Pipe;
    let deadline = Instant::now() + limits.timeout;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(|error| pipe(error.into()))?;
    if let Some(memory) = limits.memory {
        let limit = Rlimit { current: Some(memory), maximum: Some(memory) };
        rustix::process::prlimit(Some(pid), Resource::As, limit).map_err(|error| pipe(error.into()))?;
    }
    let mut output = Source::new(output).map_err(pipe)?;
    let mut complaint = Source::new(child.stderr.take().map(OwnedFd::from)).map_err(pipe)?;
    let mut input = feed;
    input.connect(child.stdin.take().map(OwnedFd::from)).map_err(pipe)?;
    let mut sink = Sink { inner: sink, written: 0, limit: limits.output };
    let mut stderr = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Broken::TimedOut);
        }
        let ready = wait(&process, &input, &output, &complaint, stop, left).map_err(pipe)?;
        if ready.stop {
            return Err(Broken::Stopped);
        }
        if ready.input {
            input.push().map_err(pipe)?;
        }
        if ready.output || ready.ended {
            output.drain(|bytes| sink.take(bytes))?.map_err(pipe)?;
        }
        if ready.complaint || ready.ended {
            let keep = |bytes: &[u8]| {
                let room = COMPLAINT_LIMIT.saturating_sub(stderr.len()).min(bytes.len());
                stderr.extend_from_slice(&bytes[..room]);
                Ok(())
            };
            complaint.drain(keep)?.map_err(pipe)?;
        }
        if ready.ended {
            return Ok(stderr);
        }
    }
}

/// Which descriptors have something for us.
#[expect(clippy::struct_excessive_bools, reason = "one for each descriptor")]
struct Ready {
    ended: bool,
    input: bool,
    output: bool,
    complaint: bool,
    stop: bool,
}

fn wait(
    process: &OwnedFd,
    input: &Feed,
    output: &Source,
    complaint: &Source,
    stop: Option<&OwnedFd>,
    left: Duration,
) -> io::Result<Ready> {
    let mut polled = vec![PollFd::new(process, PollFlags::IN)];
    let mut at = [None; 4];
    at[3] = stop.map(|stop| {
        polled.push(PollFd::new(stop, PollFlags::IN));
        1
    });
    for (slot, (file, flags)) in at.iter_mut().zip([
        input.waits_for(),
        (output.pipe.as_ref(), PollFlags::IN),
        (complaint.pipe.as_ref(), PollFlags::IN),
    ]) {
        if let Some(file) = file {
            *slot = Some(polled.len());
            polled.push(PollFd::new(file, flags));
        }
    }
    let timeout = Timespec::try_from(left).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
    match rustix::event::poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let has = |slot: Option<usize>| slot.is_some_and(|at| !polled[at].revents().is_empty());
    Ok(Ready { ended: has(Some(0)), input: has(at[0]), output: has(at[1]), complaint: has(at[2]), stop: has(at[3]) })
}

/// What goes into the child: bytes that we hold, and then what a descriptor gives.
#[derive(Debug)]
pub struct Feed {
    pipe: Option<File>,
    bytes: Vec<u8>,
    done: usize,
    source: Option<File>,
}

impl Feed {
    /// Nothing.
    pub fn nothing() -> Self {
        Self::bytes(Vec::new())
    }

    /// These bytes.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        Self { pipe: None, bytes, done: 0, source: None }
    }

    /// Whatever comes from a descriptor.
    pub fn stream(source: OwnedFd) -> Self {
        Self { source: Some(source.into()), ..Self::nothing() }
    }

    fn connect(&mut self, pipe: Option<OwnedFd>) -> io::Result<()> {
        self.pipe = pipe.map(File::from);
        self.pipe.as_ref().map_or(Ok(()), nonblocking)?;
        self.close_if_done();
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.done >= self.bytes.len()
    }

    fn close_if_done(&mut self) {
        if self.is_empty() && self.source.is_none() {
            self.pipe = None;
        }
    }

    /// What must happen before [`Self::push`] can go on.
    fn waits_for(&self) -> (Option<&File>, PollFlags) {
        match &self.source {
            Some(source) if self.is_empty() && self.pipe.is_some() => (Some(source), PollFlags::IN),
            Some(_) | None => (self.pipe.as_ref(), PollFlags::OUT),
        }
    }

    /// Takes one step. A child that stops reading is its own business: its exit code tells.
    fn push(&mut self) -> io::Result<()> {
        if let Some(source) = &mut self.source
            && self.done >= self.bytes.len()
        {
            self.bytes.resize(64 * 1024, 0);
            let count = source.read(&mut self.bytes)?;
            self.bytes.truncate(count);
            self.done = 0;
            if count == 0 {
                self.source = None;
            }
        } else if let Some(pipe) = &mut self.pipe {
            match pipe.write(&self.bytes[self.done..]) {
                Ok(count) => self.done += count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    (self.done, self.source) = (self.bytes.len(), None);
                }
                Err(error) => return Err(error),
            }
        }
        self.close_if_done();
        Ok(())
    }
}

/// A pipe that the child writes into.
struct Source {
    pipe: Option<File>,
}

impl Source {
    fn new(descriptor: Option<OwnedFd>) -> io::Result<Self> {
        let pipe = descriptor.map(File::from);
        pipe.as_ref().map_or(Ok(()), nonblocking)?;
        Ok(Self { pipe })
    }

    /// Reads until the pipe is empty or closed, or [`READS`] times: more than a pipe holds, and an end to a flood.
    fn drain(&mut self, mut take: impl FnMut(&[u8]) -> Result<(), Broken>) -> Result<io::Result<()>, Broken> {
        let Some(pipe) = &mut self.pipe else { return Ok(Ok(())) };
        let mut buffer = vec![0; 64 * 1024];
        for _ in 0..READS {
            match pipe.read(&mut buffer) {
                Ok(0) => {
                    self.pipe = None;
                    return Ok(Ok(()));
                }
                Ok(count) => take(&buffer[..count])?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Ok(())),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }
}

/// Where the child's output goes.
struct Sink<'a> {
    inner: Option<&'a mut dyn Write>,
    written: u64,
    limit: u64,
}

impl Sink<'_> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.written += bytes.len() as u64;
        if self.written > self.limit {
            return Err(Broken::TooMuchOutput);
        }
        match &mut self.inner {
            Some(sink) => sink.write_all(bytes).map_err(Broken::Pipe),
            None => Ok(()),
        }
    }
}

fn nonblocking(descriptor: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&descriptor)?;
    Ok(rustix::fs::fcntl_setfl(&descriptor, flags | rustix::fs::OFlags::NONBLOCK)?)
}

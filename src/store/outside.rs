#![expect(
    clippy::disallowed_methods,
    reason = "this is the one place that starts the user's own commands outside a box"
)]
//! Commands of the user's own, run outside every box and with all of the user's authority: hooks.
//!
//! Such a command comes from the user, or from a plan that was frozen before any agent ran, never from what an agent wrote.
//! It gets nothing that steers git, a process group of its own, a time, and a bound on what is kept of its output. When it
//! has ended, however, nothing of its group is left.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fd::OwnedFd;

use super::child::{Broken, Feed, Limits, attend};

/// How much of a command's output is kept.
pub const OUTPUT_MAX: usize = 256 * 1024;

/// A command to be run outside.
#[derive(Debug, Clone)]
pub struct Outside {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The folder it runs in.
    pub folder: PathBuf,
    /// The user's variables. What steers git among them is left out.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables beside those, of whatever name.
    pub more: Vec<(OsString, OsString)>,
    /// What it reads.
    pub input: Vec<u8>,
    /// How long it may take.
    pub timeout: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Done {
    /// How it ended.
    pub end: End,
    /// What it printed, standard output and error as they came, the beginning of it.
    pub output: Vec<u8>,
    /// Whether there was more.
    pub cut: bool,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// Its time was over, and it was killed.
    TimedOut,
    /// It was told to stop, and was killed.
    Stopped,
    /// It could not be started, or not be waited for.
    Failed(String),
}

impl Outside {
    /// Runs it to its end. `stop` ends it as soon as something can be read there, or its other end is closed.
    pub fn run(&self, stop: Option<&OwnedFd>) -> Done {
        let mut kept = Kept::default();
        let end = self.attend(&mut kept, stop).unwrap_or_else(|error| End::Failed(error.to_string()));
        Done { end, output: kept.bytes, cut: kept.cut }
    }

    fn attend(&self, kept: &mut Kept, stop: Option<&OwnedFd>) -> io::Result<End> {
        let (program, arguments) = self.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.iter().filter(|(name, _)| !steers_git(name)).map(|(name, value)| (name, value)))
            .envs(self.more.iter().map(|(name, value)| (name, value)))
            .env("PWD", &self.folder)
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0);
        let child = command.spawn()?;
        // With our ends of the pipe open it would never end.
        drop(command);
        let limits = Limits { timeout: self.timeout, output: u64::MAX, memory: None };
        let feed = Feed::bytes(self.input.clone());
        Ok(match attend(child, Some(reader.into()), feed, Some(kept), &limits, stop) {
            Ok(ended) => End::from(ended.status),
            Err(Broken::TimedOut) => End::TimedOut,
            Err(Broken::Stopped) => End::Stopped,
            Err(Broken::Pipe(error)) => return Err(error),
            Err(Broken::TooMuchOutput) => return Err(io::ErrorKind::FileTooLarge.into()),
        })
    }
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        status.code().map_or_else(|| Self::Signaled(status.signal().unwrap_or_default()), Self::Exited)
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "ended with exit status {code}"),
            Self::Signaled(signal) => write!(f, "was ended by signal {signal}"),
            Self::TimedOut => f.write_str("took too long, and was killed"),
            Self::Stopped => f.write_str("was stopped"),
            Self::Failed(why) => write!(f, "could not be run: {why}"),
        }
    }
}

/// Whether git reads this variable: what was meant for another repository must not reach a hook of this one.
fn steers_git(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"GIT_")
}

/// The beginning of what a command prints. The rest is read and thrown away, so that the command goes on.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    cut: bool,
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = OUTPUT_MAX.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..room]);
        self.cut |= room < bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

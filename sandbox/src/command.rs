//! A command for a box, and the process it becomes.

use crate::error::BoxError;
use crate::limit::LimitHit;
use crate::wire::Status;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

/// Where one standard stream leads.
#[derive(Debug, Default)]
pub enum Stdio {
    /// To `/dev/null`.
    #[default]
    Null,
    /// To a pipe whose other end [`Child`] has.
    Piped,
    /// To this open file, which the command shares with whoever else holds it.
    Fd(OwnedFd),
}

/// A command to run in a box.
#[derive(Debug, Default)]
pub struct Command {
    /// Program and arguments. A name without a slash is looked up in the absolute folders of the `PATH` in `env`.
    pub argv: Vec<OsString>,
    /// The whole environment: nothing is added.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts; the policy's working directory if not given.
    pub cwd: Option<PathBuf>,
    /// A folder below that it starts in instead. It is looked up in the box, and no link on the way leads out of `cwd`.
    pub below: Option<PathBuf>,
    /// Standard input.
    pub stdin: Stdio,
    /// Standard output.
    pub stdout: Stdio,
    /// Standard error.
    pub stderr: Stdio,
    /// Whether it runs beside the main command. Its end then ends nothing else. For work in a frozen box.
    pub aside: bool,
}

impl Command {
    /// A command with an empty environment and no streams.
    pub fn new<I>(argv: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Adds a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets where it starts.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<PathBuf>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// Sets the folder below [`Self::cwd`] that it starts in.
    #[must_use]
    pub fn below(mut self, path: impl Into<PathBuf>) -> Self {
        self.below = Some(path.into());
        self
    }

    /// Sets where standard input comes from.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdio) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sets where standard output goes.
    #[must_use]
    pub fn stdout(mut self, stdout: Stdio) -> Self {
        self.stdout = stdout;
        self
    }

    /// Sets where standard error goes.
    #[must_use]
    pub fn stderr(mut self, stderr: Stdio) -> Self {
        self.stderr = stderr;
        self
    }

    /// Runs it beside the main command.
    #[must_use]
    pub fn aside(mut self) -> Self {
        self.aside = true;
        self
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// What the command itself did.
    pub status: Status,
    /// How many other processes were still there and were killed.
    pub leftovers: u32,
    /// How many of them could not be ended in time; none ever in a pid namespace, where the kernel ends them.
    pub escaped: u32,
    /// The limit of the box that it was ended for, if it was.
    pub limit: Option<LimitHit>,
}

/// A command that was started. Dropping it does not end the command.
#[derive(Debug)]
pub struct Child {
    /// The writing end of its standard input, if that is piped.
    pub stdin: Option<pipe::Sender>,
    /// The reading end of its standard output, if that is piped.
    pub stdout: Option<pipe::Receiver>,
    /// The reading end of its standard error, if that is piped.
    pub stderr: Option<pipe::Receiver>,
    pub(crate) exit: oneshot::Receiver<Exit>,
    pub(crate) ended: Option<Exit>,
}

impl Child {
    /// Waits until it and everything it started is gone. May be dropped and called again.
    ///
    /// The output need not be read for this, and what is in the pipes can be read afterwards: their end of file comes, since
    /// nobody is left to hold them. (A command that fills its pipe waits for a reader, though.)
    pub async fn wait(&mut self) -> Result<Exit, BoxError> {
        if let Some(exit) = self.ended {
            return Ok(exit);
        }
        let exit = (&mut self.exit).await.map_err(|_| BoxError::Gone)?;
        self.ended = Some(exit);
        Ok(exit)
    }
}

/// The ends of one stream: what the command gets and what the parent keeps.
pub(crate) fn input(stdio: Stdio) -> io::Result<(Option<OwnedFd>, Option<pipe::Sender>)> {
    match stdio {
        Stdio::Null => Ok((None, None)),
        Stdio::Fd(file) => Ok((Some(file), None)),
        Stdio::Piped => {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            Ok((Some(read), Some(pipe::Sender::from_owned_fd(write)?)))
        }
    }
}

/// The same for a stream the command writes.
pub(crate) fn output(stdio: Stdio) -> io::Result<(Option<OwnedFd>, Option<pipe::Receiver>)> {
    match stdio {
        Stdio::Null => Ok((None, None)),
        Stdio::Fd(file) => Ok((Some(file), None)),
        Stdio::Piped => {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            Ok((Some(write), Some(pipe::Receiver::from_owned_fd(read)?)))
        }
    }
}

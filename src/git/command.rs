#![expect(clippy::disallowed_methods, reason = "this is the one place that starts git")]
//! Building and running one git process.
//!
//! Every git process of this program comes from here, so that what makes git behave the same everywhere stands in one
//! place: no inherited `GIT_*` variable, a fixed locale, no prompt, no pager, no hook, no file system monitor, no
//! background maintenance, no lazy fetch, paths taken literally, and a time-out. Arguments are bytes; there is no shell.
//!
//! A process that runs out of time is killed with its whole group and gives [`Error::TimedOut`]: its result is unknown,
//! and no caller may read it as "clean" or "nothing there".

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use super::child::{self, Feed, Limits};
use super::error::Error;
use super::program::Git;
use crate::store::failpoint;

/// The time a git process has unless told otherwise.
pub const TIMEOUT: Duration = Duration::from_mins(1);

/// The most that is held of a process's standard output unless told otherwise.
const OUTPUT_LIMIT: u64 = 1 << 30;

/// Options that stand before every subcommand.
const ALWAYS: [&str; 11] = [
    "--no-pager",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "color.ui=false",
];

/// Whether a process only looks or also changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It takes no lock that it can do without.
    Read,
    /// It may write.
    Write,
}

/// What a process reads from its standard input.
#[derive(Debug, Default)]
pub enum Input {
    /// Nothing.
    #[default]
    Null,
    /// These bytes.
    Bytes(Vec<u8>),
    /// Whatever comes from this descriptor: a pipe or a file.
    Descriptor(OwnedFd),
}

/// One git process, not yet started.
#[derive(Debug)]
#[must_use]
pub struct Command {
    git: Git,
    access: Access,
    subcommand: &'static str,
    globals: Vec<OsString>,
    literal: bool,
    configuration: Vec<(OsString, OsString)>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
    input: Input,
    timeout: Duration,
    output_limit: u64,
    memory_limit: Option<u64>,
}

/// How a git process ended, and what it wrote.
#[derive(Debug)]
#[must_use]
pub struct Output {
    what: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Its whole standard output; empty where that went to a sink.
    pub stdout: Vec<u8>,
    /// Its standard error, the beginning of it if it was very long.
    pub stderr: Vec<u8>,
}

impl Command {
    /// The subcommand `subcommand` of `git`.
    pub fn new(git: &Git, access: Access, subcommand: &'static str) -> Self {
        Self {
            git: git.clone(),
            access,
            subcommand,
            globals: Vec::new(),
            literal: true,
            configuration: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: None,
            input: Input::Null,
            timeout: TIMEOUT,
            output_limit: OUTPUT_LIMIT,
            memory_limit: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Adds an option that stands before the subcommand.
    pub fn global(mut self, option: impl AsRef<OsStr>) -> Self {
        self.globals.push(option.as_ref().to_owned());
        self
    }

    /// Leaves out the option that makes paths literal, for the few subcommands that refuse it, and where patterns of
    /// ours are meant. Paths of others then need a `./` in front.
    pub fn without_literal_paths(mut self) -> Self {
        self.literal = false;
        self
    }

    /// Overrides a setting. The key may hold any byte a configuration file can hold.
    pub fn config(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.configuration.push((key.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Names the git directory, and with it stops git from looking for one.
    pub fn git_dir(self, path: &Path) -> Self {
        self.global(joined("--git-dir=", path))
    }

    /// Names the work tree.
    pub fn work_tree(self, path: &Path) -> Self {
        self.global(joined("--work-tree=", path))
    }

    /// The folder it runs in.
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.folder = Some(path.into());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((key.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// What it reads.
    pub fn input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// The time it has.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The most it may write to its standard output, in bytes.
    pub fn output_limit(mut self, limit: u64) -> Self {
        self.output_limit = limit;
        self
    }

    /// The most address space it may take, in bytes.
    pub fn memory_limit(mut self, limit: u64) -> Self {
        self.memory_limit = Some(limit);
        self
    }

    /// Runs it to its end, whatever that is.
    pub fn run(self) -> Result<Output, Error> {
        let mut stdout = Vec::new();
        let mut output = self.start(Stdio::piped(), Some(&mut stdout))?;
        output.stdout = stdout;
        Ok(output)
    }

    /// Runs it; any end but exit code 0 is an error.
    pub fn success(self) -> Result<Output, Error> {
        self.run()?.checked()
    }

    /// Runs it with its output passed on as it comes; any end but exit code 0 is an error.
    pub fn success_to(self, sink: &mut dyn Write) -> Result<Output, Error> {
        self.start(Stdio::piped(), Some(sink))?.checked()
    }

    /// Runs it with its output going straight into a file; any end but exit code 0 is an error.
    pub fn success_to_file(self, file: File) -> Result<Output, Error> {
        self.start(file.into(), None)?.checked()
    }

    fn start(self, stdout: Stdio, sink: Option<&mut dyn Write>) -> Result<Output, Error> {
        if self.access == Access::Read {
            return self.start_now(stdout, sink);
        }
        let subcommand = self.subcommand;
        failpoint::before("git", subcommand).map_err(|source| Error::Spawn { what: self.what(), source })?;
        let output = self.start_now(stdout, sink);
        failpoint::after("git", subcommand);
        output
    }

    fn start_now(self, stdout: Stdio, sink: Option<&mut dyn Write>) -> Result<Output, Error> {
        let what = self.what();
        let mut process = std::process::Command::new(self.git.program());
        process
            .args(ALWAYS)
            .args(self.literal.then_some("--literal-pathspecs"))
            .args(&self.globals)
            .arg(self.subcommand)
            .args(&self.arguments)
            .env_clear()
            .envs(self.git.environment().iter().map(|(key, value)| (key, value)))
            .envs([("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_NO_LAZY_FETCH", "1")])
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .stdout(stdout)
            .stderr(Stdio::piped())
            .process_group(0);
        match self.access {
            Access::Read => {
                process.env("GIT_OPTIONAL_LOCKS", "0");
            }
            Access::Write => {}
        }
        for (at, (key, value)) in self.configuration.iter().enumerate() {
            process.env(format!("GIT_CONFIG_KEY_{at}"), key).env(format!("GIT_CONFIG_VALUE_{at}"), value);
        }
        if !self.configuration.is_empty() {
            process.env("GIT_CONFIG_COUNT", self.configuration.len().to_string());
        }
        if let Some(folder) = &self.folder {
            process.current_dir(folder);
        }
        let feed = match self.input {
            Input::Null => {
                process.stdin(Stdio::null());
                Feed::nothing()
            }
            Input::Bytes(bytes) => {
                process.stdin(Stdio::piped());
                Feed::bytes(bytes)
            }
            // A memory limit is set on the running process, so it must find nothing to work on before.
            Input::Descriptor(descriptor) if self.memory_limit.is_some() => {
                process.stdin(Stdio::piped());
                Feed::stream(descriptor)
            }
            Input::Descriptor(descriptor) => {
                process.stdin(descriptor);
                Feed::nothing()
            }
        };
        let begun = std::time::Instant::now();
        let started = process.spawn().map_err(|source| Error::Spawn { what: what.clone(), source })?;
        // The builder holds our copies of the descriptors it was given; with them open a pipe would never end.
        drop(process);
        let limits = Limits { timeout: self.timeout, output: self.output_limit, memory: self.memory_limit };
        let ended = child::attend(started, feed, sink, &limits, &what);
        tracing::debug!(command = %what, folder = ?self.folder, took = ?begun.elapsed(), status = ?ended.as_ref().map(|ended| ended.status).ok(), "git");
        let ended = ended?;
        Ok(Output { what, status: ended.status, stdout: Vec::new(), stderr: ended.stderr })
    }

    /// The command for people and messages: without the options that every command has.
    fn what(&self) -> String {
        let mut text = format!("git {}", self.subcommand);
        for argument in &self.arguments {
            let shown = argument.to_string_lossy();
            if text.len() + shown.len() > 240 {
                text.push_str(" …");
                break;
            }
            text.push(' ');
            text.extend(shown.chars().flat_map(|character| {
                let escaped = character.is_control().then(|| character.escape_default());
                let plain = escaped.is_none().then_some(character);
                plain.into_iter().chain(escaped.into_iter().flatten())
            }));
        }
        text
    }
}

impl Output {
    /// The command this came from, for messages.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The exit code; none if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The entries of its standard output, where each is ended by a zero byte (`-z`). Empty ones are passed over.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.stdout.split(|byte| *byte == 0).filter(|record| !record.is_empty())
    }

    /// Its standard output as text.
    pub fn text(&self) -> Result<&str, Error> {
        std::str::from_utf8(&self.stdout).map_err(|_| Error::unparsable(&self.what, "not valid UTF-8"))
    }

    /// The one line it wrote, without the line's end.
    pub fn line(&self) -> Result<&str, Error> {
        let text = self.text()?;
        Ok(text.strip_suffix('\n').unwrap_or(text))
    }

    /// The one path it wrote. Only the last line end is taken off: the path itself may hold others.
    pub fn path(&self) -> PathBuf {
        let bytes = self.stdout.strip_suffix(b"\n").unwrap_or(&self.stdout);
        PathBuf::from(OsStr::from_bytes(bytes))
    }

    /// What it wrote to standard error, for people.
    pub fn complaint(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim().to_owned()
    }

    /// The error that says this process failed.
    pub fn failure(self) -> Error {
        Error::Failed { stderr: self.complaint(), what: self.what, status: self.status }
    }

    fn checked(self) -> Result<Self, Error> {
        if self.status.success() { Ok(self) } else { Err(self.failure()) }
    }
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut text = OsString::from(option);
    text.push(path);
    text
}

//! Starting one command, in init: fork, make the child ordinary, exec.

use crate::cgroup::Group;
use crate::guard::Guards;
use crate::plan::Enforcement;
use crate::reach::KillGroup;
use crate::step::{Resource, Step};
use crate::sys;
use crate::wire::{self, ChildStage};
use nix::errno::Errno;
use nix::libc;
use nix::sys::stat::Mode;
use nix::unistd::{ForkResult, Pid};
use rustix::fs::{OFlags, ResolveFlags};
use rustix::net::RecvFlags;
use serde::{Deserialize, Serialize};
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;

/// A command as ordered.
pub(crate) struct Program<'a> {
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: OsString,
    /// The folder below that it starts in; empty for `cwd` itself.
    pub(crate) below: OsString,
    pub(crate) enforcement: &'a Enforcement,
    pub(crate) guards: &'a Guards,
    /// The bounds it joins before anything else of it runs.
    pub(crate) bounds: Option<&'a Group>,
    /// What it is killed by, which it joins then.
    pub(crate) group: Option<&'a KillGroup>,
}

type Failure = (ChildStage, i32);

fn setup<E: Into<std::io::Error>>(error: E) -> Failure {
    (ChildStage::Setup, error.into().raw_os_error().unwrap_or(libc::EIO))
}

/// A command that runs, and what it asks init by.
pub(crate) type Started = (Pid, Option<OwnedFd>);

/// Starts it, with those of the standard streams that are `given` taken from `files`; waits until it runs or has failed.
pub(crate) fn start(program: &Program<'_>, given: [bool; 3], files: Vec<OwnedFd>) -> Result<Started, Failure> {
    let argv = c_strings(program.argv.iter().map(OsString::as_os_str))?;
    let env = program.env.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    let env: Vec<CString> = env.map(CString::new).collect::<Result<_, _>>().map_err(|_| setup(Errno::EINVAL))?;
    let candidates = candidates(program)?;
    let streams = streams(given, files)?;
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(setup)?;
    // Beside the pipe, for that one's end of file is the sign that exec was reached.
    let pair = program.guards.has_deputy().then(UnixDatagram::pair).transpose().map_err(setup)?;
    let (ours, theirs) = pair.unzip();
    match sys::fork_single().map_err(setup)? {
        ForkResult::Child => {
            drop((read, ours));
            let (stage, errno) = run(program, streams, theirs.as_ref(), &candidates, &argv, &env);
            let mut message = [0_u8; 5];
            message[0] = match stage {
                ChildStage::Setup => b's',
                ChildStage::Directory => b'd',
                ChildStage::Guard => b'g',
                ChildStage::Program => b'p',
            };
            message[1..].copy_from_slice(&errno.to_ne_bytes());
            // A pipe takes five bytes at once or not at all; if not at all, the exit code says that it failed.
            let _ = rustix::io::write(&write, &message);
            sys::exit_now(127)
        }
        ForkResult::Parent { child } => {
            drop((write, streams, theirs));
            match answer(&read) {
                Ok(None) => match listener(ours.as_ref()) {
                    Ok(listener) => Ok((child, listener)),
                    // It runs, and would wait for ever for what nobody answers.
                    Err(error) => {
                        let _ = nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL);
                        reap(child);
                        Err(setup(error))
                    }
                },
                Ok(Some(failure)) => {
                    reap(child);
                    Err(failure)
                }
                Err(errno) => Err(setup(errno)),
            }
        }
    }
}

/// What the child has sent, if it was to send anything: it did so before it became the program.
fn listener(from: Option<&UnixDatagram>) -> std::io::Result<Option<OwnedFd>> {
    let Some(from) = from else {
        return Ok(None);
    };
    let handed = wire::receive::<Handed>(from.as_fd(), RecvFlags::DONTWAIT, false)?;
    let listener = handed.and_then(|(Handed, mut files)| files.pop());
    listener.map(Some).ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}

/// What goes with a descriptor that is handed over.
#[derive(Serialize, Deserialize)]
struct Handed;

/// What the child wrote: nothing when exec closed the pipe for it.
fn answer(read: &OwnedFd) -> Result<Option<Failure>, rustix::io::Errno> {
    let mut message = [0_u8; 5];
    let length = loop {
        match rustix::io::read(read, &mut message) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let [stage, a, b, c, d] = message;
    let stage = match (length, stage) {
        (0, _) => return Ok(None),
        (_, b'd') => ChildStage::Directory,
        (_, b'g') => ChildStage::Guard,
        (_, b'p') => ChildStage::Program,
        (_, _) => ChildStage::Setup,
    };
    Ok(Some((stage, i32::from_ne_bytes([a, b, c, d]))))
}

/// Collects a child that is ending by itself.
fn reap(child: Pid) {
    while nix::sys::wait::waitpid(child, None) == Err(Errno::EINTR) {}
}

/// The three streams: those given, and `/dev/null`.
fn streams(given: [bool; 3], files: Vec<OwnedFd>) -> Result<[OwnedFd; 3], Failure> {
    let mut files = files.into_iter();
    let mut next = |is_given: bool| {
        if is_given {
            return files.next().ok_or_else(|| setup(Errno::EBADF));
        }
        rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, rustix::fs::Mode::empty())
            .map_err(setup)
    };
    let [stdin, stdout, stderr] = given;
    Ok([next(stdin)?, next(stdout)?, next(stderr)?])
}

fn c_strings<'a>(words: impl Iterator<Item = &'a OsStr>) -> Result<Vec<CString>, Failure> {
    words.map(|word| CString::new(word.as_bytes()).map_err(|_| setup(Errno::EINVAL))).collect()
}

/// The paths to try, in order: by the `PATH` the command itself gets, never by ours.
fn candidates(program: &Program<'_>) -> Result<Vec<CString>, Failure> {
    let name = program.argv.first().ok_or((ChildStage::Program, libc::ENOENT))?.as_bytes();
    if name.contains(&b'/') {
        return c_strings([OsStr::from_bytes(name)].into_iter());
    }
    let path = program.env.iter().rev().find(|(key, _)| key == "PATH");
    let path = path.map(|(_, value)| value.as_bytes()).unwrap_or_default();
    let all = path
        .split(|byte| *byte == b':')
        .filter(|folder| folder.starts_with(b"/"))
        .map(|folder| CString::new([folder, b"/", name].concat()).map_err(|_| setup(Errno::EINVAL)));
    if name.is_empty() { Ok(Vec::new()) } else { all.collect() }
}

/// In the child: makes it ordinary and becomes the program. Returns only if that failed.
fn run(
    program: &Program<'_>,
    streams: [OwnedFd; 3],
    init: Option<&UnixDatagram>,
    candidates: &[CString],
    argv: &[CString],
    env: &[CString],
) -> Failure {
    if let Err(failure) = prepare(program, streams, init) {
        return failure;
    }
    let mut worst = libc::ENOENT;
    for candidate in candidates {
        let Err(errno) = nix::unistd::execve(candidate, argv, env);
        match errno {
            Errno::ENOENT | Errno::ENOTDIR => {}
            Errno::EACCES => worst = libc::EACCES,
            other => return (ChildStage::Program, other as i32),
        }
    }
    (ChildStage::Program, worst)
}

/// Enters the folder a command starts in. What lies below `cwd` may be the work of whoever is confined, so no link there is
/// followed out of it.
fn enter(cwd: &OsStr, below: &OsStr) -> std::io::Result<()> {
    rustix::process::chdir(cwd)?;
    if below.is_empty() {
        return Ok(());
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let folder = rustix::fs::openat2(rustix::fs::CWD, below, flags, rustix::fs::Mode::empty(), within)?;
    Ok(rustix::process::fchdir(folder)?)
}

fn prepare(program: &Program<'_>, streams: [OwnedFd; 3], init: Option<&UnixDatagram>) -> Result<(), Failure> {
    // First, so that everything it uses is counted.
    program.bounds.map_or(Ok(()), Group::enter).map_err(setup)?;
    if let Some(group) = program.group {
        group.join().map_err(setup)?;
    }
    // A session of its own: no terminal to put input into, and no group that the parent's terminal signals.
    nix::unistd::setsid().map_err(setup)?;
    let [stdin, stdout, stderr] = streams;
    rustix::stdio::dup2_stdin(&stdin).map_err(setup)?;
    rustix::stdio::dup2_stdout(&stdout).map_err(setup)?;
    rustix::stdio::dup2_stderr(&stderr).map_err(setup)?;
    // The files of a work tree get ordinary modes, as if made by hand: they are compared, shared and checked in. What keeps
    // others out is the directory around them.
    nix::sys::stat::umask(Mode::from_bits_truncate(0o022));
    enter(&program.cwd, &program.below).map_err(|error| (ChildStage::Directory, setup(error).1))?;
    for step in program.enforcement.steps() {
        if let Step::Limit { resource, soft, hard } = step {
            limit(*resource, *soft, *hard).map_err(setup)?;
        }
    }
    sys::reset_signals().map_err(setup)?;
    // Closed by exec, not now: the pipe that tells of failure must live until then.
    sys::close_from(3, false).map_err(setup)?;
    // Last, for they forbid some of the above. From here on there is a write to a pipe, exec, and exit.
    let guard = |error: std::io::Error| (ChildStage::Guard, setup(error).1);
    match (program.guards.apply().map_err(guard)?, init) {
        (Some(listener), Some(init)) => wire::tell(init.as_fd(), &Handed, &[listener.as_fd()]).map_err(guard),
        (Some(_), None) => Err(setup(Errno::EBADF)),
        (None, _) => Ok(()),
    }
}

/// Lowers a limit; a hard one that is lower already stays.
fn limit(resource: Resource, soft: u64, hard: u64) -> Result<(), Errno> {
    use nix::sys::resource::{Resource as Kind, getrlimit, setrlimit};
    let kind = match resource {
        Resource::Core => Kind::RLIMIT_CORE,
        Resource::FileSize => Kind::RLIMIT_FSIZE,
        Resource::OpenFiles => Kind::RLIMIT_NOFILE,
        Resource::Processes => Kind::RLIMIT_NPROC,
    };
    let (_, inherited) = getrlimit(kind)?;
    let hard = hard.min(inherited);
    setrlimit(kind, soft.min(hard), hard)
}

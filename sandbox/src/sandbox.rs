//! A running box, as its parent holds it.
//!
//! One task reads the control socket and hands each report to whoever waits for it; another waits for the outer process,
//! whose end says that nothing of the box is left. All methods take `&self`, so a box may be frozen or killed while
//! another task waits for its command.

use crate::cgroup::Leaf;
use crate::command::{self, Child, Command, Exit};
use crate::error::{BoxError, SpawnError, StartError};
use crate::init;
use crate::launch::{self, Control, Launcher};
use crate::plan::Enforcement;
use crate::wire::{Answer, ChildStage, Order, Report};
use nix::sys::signal::Signal;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::net::TcpListener as TcpStdListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// How long a box may take to get ready; it takes milliseconds unless the machine or a file system hangs.
const READY: Duration = Duration::from_secs(20);

/// Those who wait for a report.
#[derive(Default)]
struct Waiting {
    answers: HashMap<u64, oneshot::Sender<Answer>>,
    exits: HashMap<u64, oneshot::Sender<Exit>>,
    /// No report will come any more.
    closed: bool,
}

type Shared = Arc<Mutex<Waiting>>;

/// Whether a box has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It lives.
    NotYet,
    /// With all in it.
    Whole,
    /// But something of it could not be ended in time.
    Escaped,
}

/// A running box. Dropping it kills everything in it.
pub struct Sandbox {
    control: Arc<Control>,
    init: OwnedFd,
    waiting: Shared,
    ended: watch::Receiver<End>,
    reader: JoinHandle<()>,
    listeners: Mutex<HashMap<PathBuf, StdListener>>,
    relay: Mutex<Option<TcpStdListener>>,
    next: AtomicU64,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox")
            .field("init", &self.init)
            .field("ended", &*self.ended.borrow())
            .finish_non_exhaustive()
    }
}

fn lock(shared: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    // Nothing that holds it can panic half-way through a change.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sandbox {
    /// Starts a box. When this returns an error, nothing of it is left.
    pub async fn start(enforcement: &Enforcement, launcher: &Launcher) -> Result<Self, StartError> {
        Self::start_with(enforcement, launcher, None).await
    }

    /// The same, with a file that the box holds open until nothing of it is left, even where its parent was killed. By a lock
    /// on that file, others can wait for the end of a box that is not theirs. No command gets it.
    pub async fn start_holding(
        enforcement: &Enforcement,
        launcher: &Launcher,
        held: OwnedFd,
    ) -> Result<Self, StartError> {
        Self::start_with(enforcement, launcher, Some(held)).await
    }

    async fn start_with(
        enforcement: &Enforcement,
        launcher: &Launcher,
        held: Option<OwnedFd>,
    ) -> Result<Self, StartError> {
        let (leaf, files) = group(enforcement)?;
        let holds = held.is_some();
        let files = held.into_iter().chain(files).collect();
        let (mut outer, control) = launch::launch(launcher)?;
        let order = Order::Start { enforcement: enforcement.clone(), holds };
        let born = tokio::time::timeout(READY, birth(enforcement, &control, (order, files))).await;
        let failure = match born {
            Ok(Ok(Some((init, listeners)))) => {
                return Ok(Self::assemble(enforcement, control, (outer, leaf), init, listeners));
            }
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(StartError::TimedOut { seconds: READY.as_secs() }),
        };
        // Both the hang-up and the death of the outer process end init.
        drop(control);
        let last_words = bury(&mut outer).await;
        Err(failure.unwrap_or(StartError::Died { detail: last_words }))
    }

    fn assemble(
        enforcement: &Enforcement,
        control: Control,
        (outer, leaf): (tokio::process::Child, Option<Leaf>),
        init: OwnedFd,
        listeners: Vec<OwnedFd>,
    ) -> Self {
        let control = Arc::new(control);
        let waiting = Shared::default();
        let (tell_end, ended) = watch::channel(End::NotYet);
        tokio::spawn(keep(outer, leaf, tell_end));
        let reader = tokio::spawn(read(Arc::clone(&control), Arc::clone(&waiting)));
        let paths = enforcement.listeners().map(Path::to_owned);
        let mut files = listeners.into_iter();
        // The map stops at the last path, and leaves the socket of the relay where it is.
        let listeners = paths.zip(files.by_ref().map(StdListener::from)).collect();
        let relay = enforcement.relay().and_then(|_| files.next()).map(TcpStdListener::from);
        Self {
            control,
            init,
            waiting,
            ended,
            reader,
            listeners: Mutex::new(listeners),
            relay: Mutex::new(relay),
            next: AtomicU64::new(1),
        }
    }

    /// Starts a command. One main command runs at a time; the next may start as soon as the last one's
    /// [`Child::wait`] is over.
    ///
    /// Dropped half-way, this may still start the command; [`Self::kill_all`] makes sure that none runs.
    pub async fn spawn(&self, command: Command) -> Result<Child, SpawnError> {
        let program = command.argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (cwd, below) = (command.cwd.clone(), command.below.clone());
        let (theirs_in, stdin) = command::input(command.stdin).map_err(BoxError::from)?;
        let (theirs_out, stdout) = command::output(command.stdout).map_err(BoxError::from)?;
        let (theirs_err, stderr) = command::output(command.stderr).map_err(BoxError::from)?;
        let files = [theirs_in.is_some(), theirs_out.is_some(), theirs_err.is_some()];
        let beside: Vec<OwnedFd> = [theirs_in, theirs_out, theirs_err].into_iter().flatten().collect();

        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell_exit, exit) = oneshot::channel();
        lock(&self.waiting).exits.insert(id, tell_exit);
        let order = Order::Spawn {
            id,
            argv: command.argv,
            env: command.env,
            cwd: cwd.clone().map(OsString::from).unwrap_or_default(),
            below: below.clone().map(OsString::from).unwrap_or_default(),
            files,
            aside: command.aside,
        };
        let answer = self.ask(id, order, beside).await;
        let error = match answer {
            Ok(Answer::Done) => {
                return Ok(Child { stdin, stdout, stderr, exit, ended: None });
            }
            Ok(answer) => {
                let folder = cwd.unwrap_or_default();
                spawn_error(answer, program, below.map_or_else(|| folder.clone(), |below| folder.join(below)))
            }
            Err(error) => error.into(),
        };
        lock(&self.waiting).exits.remove(&id);
        Err(error)
    }

    /// Sends a signal to every process of the box: the polite way to ask them to end.
    pub async fn terminate(&self, signal: Signal) -> Result<(), BoxError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        done(self.ask(id, Order::Signal { id, signal: signal as i32 }, Vec::new()).await?)
    }

    /// Kills every process of the box and returns how many there were, once they are gone. The box itself goes on.
    pub async fn kill_all(&self) -> Result<u32, BoxError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        counted(self.ask(id, Order::KillAll { id }, Vec::new()).await?)
    }

    /// Stops every process of the box and returns how many there are, once none of them runs. Takes 5 seconds at most.
    ///
    /// A hostile process can have the kernel wake it (a timer that sends SIGCONT). So what is seen in a frozen box is good
    /// for a snapshot to look at, never for one to rely on.
    pub async fn freeze(&self) -> Result<u32, BoxError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        counted(self.ask(id, Order::Freeze { id }, Vec::new()).await?)
    }

    /// Lets frozen processes go on.
    pub async fn thaw(&self) -> Result<(), BoxError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        done(self.ask(id, Order::Thaw { id }, Vec::new()).await?)
    }

    /// The listening end of a socket that the policy names; `None` if it names none such, or if it was taken before.
    pub fn take_listener(&self, path: &Path) -> io::Result<Option<UnixListener>> {
        let taken = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
        let Some(listener) = taken else {
            return Ok(None);
        };
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener).map(Some)
    }

    /// The listening end of the relay, on which nobody but the box's processes can connect; `None` if the policy has
    /// none, or if it was taken before. The box's network lives as long as this does, so it is to go with the box.
    pub fn take_relay(&self) -> io::Result<Option<TcpListener>> {
        let taken = self.relay.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(listener) = taken else {
            return Ok(None);
        };
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).map(Some)
    }

    /// Kills the box and waits until the last process of it is gone. Without a pid namespace, tells of processes that could not
    /// be ended in time.
    pub async fn kill(&self) -> Result<(), BoxError> {
        self.signal_init();
        self.ended().await;
        match *self.ended.borrow() {
            End::NotYet | End::Whole => Ok(()),
            End::Escaped => Err(BoxError::Escaped),
        }
    }

    /// The same, for the owner.
    pub async fn shutdown(self) -> Result<(), BoxError> {
        self.kill().await
    }

    /// Waits until the box has ended, for whatever reason, and nothing of it is left.
    pub async fn ended(&self) {
        // An error says that the keeper is gone, which happens only when the runtime ends.
        drop(self.ended.clone().wait_for(|ended| *ended != End::NotYet).await);
    }

    /// By handle, so that it can never hit another process; one that has ended needs no signal.
    fn signal_init(&self) {
        let _ = rustix::process::pidfd_send_signal(self.init.as_fd(), rustix::process::Signal::KILL);
    }

    async fn ask(&self, id: u64, order: Order, files: Vec<OwnedFd>) -> Result<Answer, BoxError> {
        let (tell, answer) = oneshot::channel();
        {
            let mut waiting = lock(&self.waiting);
            if waiting.closed {
                return Err(BoxError::Gone);
            }
            waiting.answers.insert(id, tell);
        }
        match self.control.send(&order, &files).await {
            Ok(()) => {}
            Err(error) => {
                lock(&self.waiting).answers.remove(&id);
                return Err(match error.kind() {
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => BoxError::Gone,
                    _ => BoxError::Control(error),
                });
            }
        }
        // The command's ends of its pipes; with a copy here there would be no end of file.
        drop(files);
        answer.await.map_err(|_| BoxError::Gone)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.signal_init();
        self.reader.abort();
    }
}

/// Makes the control group of a box that is to have one, with the files to hand over.
fn group(enforcement: &Enforcement) -> Result<(Option<Leaf>, Vec<OwnedFd>), StartError> {
    let Some((index, parent, bounds)) = enforcement.control_group() else {
        return Ok((None, Vec::new()));
    };
    let made = Leaf::make(parent, bounds);
    let (leaf, files) =
        made.map_err(|fault| step_error(enforcement, index, fault.path.map(Into::into), fault.errno))?;
    Ok((Some(leaf), files))
}

/// Gives the order to start and follows it until the box is ready; `None` if it ended without a word.
async fn birth(
    enforcement: &Enforcement,
    control: &Control,
    (order, files): (Order, Vec<OwnedFd>),
) -> Result<Option<(OwnedFd, Vec<OwnedFd>)>, StartError> {
    match control.send(&order, &files).await {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(None),
        other => other?,
    }
    drop(files);
    let mut init = None;
    while let Some((report, mut files)) = control.receive().await? {
        match report {
            Report::Born => init = files.pop(),
            Report::Ready => return Ok(init.map(|init| (init, files))),
            Report::Failed { step, path, errno } => {
                return Err(step_error(enforcement, step, path, errno));
            }
            Report::Answer { .. } | Report::Exited { .. } => return Err(unexpected().into()),
        }
    }
    Ok(None)
}

fn step_error(enforcement: &Enforcement, index: usize, path: Option<OsString>, errno: i32) -> StartError {
    let path = path.map(PathBuf::from);
    let Some(step) = enforcement.steps().get(index).cloned() else {
        let guard = index.checked_sub(enforcement.steps().len()).and_then(|index| enforcement.guards().get(index));
        return match guard.cloned() {
            Some(guard) => StartError::Guard { guard, path, source: io::Error::from_raw_os_error(errno) },
            None => unexpected().into(),
        };
    };
    match path {
        Some(path) if errno == nix::libc::ELOOP => StartError::Symlink { step, path },
        path => StartError::Step { step, path, source: io::Error::from_raw_os_error(errno) },
    }
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "unexpected message")
}

/// Ends the outer process of a box that did not start, and returns what it had to say.
async fn bury(outer: &mut tokio::process::Child) -> String {
    drop(outer.start_kill());
    let mut words = Vec::new();
    if let Some(stderr) = outer.stderr.take() {
        // Init may hold the pipe a moment longer, but not for ever: it dies with the outer process.
        drop(tokio::time::timeout(READY, stderr.take(4096).read_to_end(&mut words)).await);
    }
    let status = outer.wait().await;
    let words = String::from_utf8_lossy(&words);
    match (words.trim(), status) {
        ("", Ok(status)) => format!("no message, {status}"),
        ("", Err(error)) => format!("no message, {error}"),
        (words, _) => words.to_owned(),
    }
}

/// Waits for the outer process, which outlives everything in the box.
async fn keep(mut outer: tokio::process::Child, leaf: Option<Leaf>, ended: watch::Sender<End>) {
    // It has no other parent than us, so this fails only if it was collected already.
    let code = outer.wait().await.ok().and_then(|status| status.code());
    // Empty now, unless the outer process was killed from outside. Then the next start removes it.
    drop(leaf);
    ended.send_replace(if code == Some(init::ESCAPED) { End::Escaped } else { End::Whole });
}

/// Hands out reports until the box has ended.
async fn read(control: Arc<Control>, waiting: Shared) {
    while let Ok(Some((report, _))) = control.receive().await {
        let mut waiting = lock(&waiting);
        match report {
            Report::Answer { id, answer } => {
                // Whoever asked may have given up.
                waiting.answers.remove(&id).map(|asker| asker.send(answer));
            }
            Report::Exited { id, status, leftovers, escaped, limit } => {
                waiting.exits.remove(&id).map(|child| child.send(Exit { status, leftovers, escaped, limit }));
            }
            Report::Born | Report::Ready | Report::Failed { .. } => break,
        }
    }
    let mut waiting = lock(&waiting);
    waiting.closed = true;
    waiting.answers.clear();
    waiting.exits.clear();
}

fn spawn_error(answer: Answer, program: String, cwd: PathBuf) -> SpawnError {
    match answer {
        Answer::NotStarted { stage, errno } => {
            let source = io::Error::from_raw_os_error(errno);
            match stage {
                ChildStage::Setup => SpawnError::Setup { program, source },
                ChildStage::Directory => SpawnError::Directory { program, cwd, source },
                ChildStage::Guard => SpawnError::Confine { program, source },
                ChildStage::Program => SpawnError::Program { program, source },
            }
        }
        Answer::Busy => SpawnError::Busy { program },
        Answer::Refused { errno } => BoxError::Refused(io::Error::from_raw_os_error(errno)).into(),
        Answer::Done | Answer::Count(_) | Answer::Restless { .. } => BoxError::Control(unexpected()).into(),
    }
}

fn done(answer: Answer) -> Result<(), BoxError> {
    match answer {
        Answer::Done => Ok(()),
        Answer::Refused { errno } => Err(BoxError::Refused(io::Error::from_raw_os_error(errno))),
        Answer::Count(_) | Answer::NotStarted { .. } | Answer::Busy | Answer::Restless { .. } => {
            Err(BoxError::Control(unexpected()))
        }
    }
}

fn counted(answer: Answer) -> Result<u32, BoxError> {
    match answer {
        Answer::Count(count) => Ok(count),
        Answer::Restless { running } => Err(BoxError::Restless { running }),
        Answer::Refused { errno } => Err(BoxError::Refused(io::Error::from_raw_os_error(errno))),
        Answer::Done | Answer::NotStarted { .. } | Answer::Busy => Err(BoxError::Control(unexpected())),
    }
}

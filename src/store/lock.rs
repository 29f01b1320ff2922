//! Locks that the kernel frees when their holder dies.
//!
//! - The **repository lock** is held for moments and waited for, with a notice, then given up with a typed error.
//! - The **run lock** is held as long as a coordinator lives, and never waited for.
//! - A **box's lock** is held by the processes that serve a box, together with those of other boxes in the same workplace. They
//!   can outlive a coordinator that was killed; whoever goes on with its run waits for them first.
//!
//! All are open-file-description locks on a file that is never removed while it may be held. The holder writes who it is
//! into the file *after* taking the lock; that text is for messages only, and nothing is ever decided by it.
//!
//! Why not `File::lock`: there is no way to ask whether such a lock is held without taking it, and a reader that takes it
//! for a moment makes a coordinator fail that starts in this moment. Why not an ordinary record lock: it is lost when any
//! other handle of the file in the process is closed.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use serde::{Deserialize, Serialize};

use super::layout::{RunDir, StateDir, Workplace};
use super::{Error, atomic, process};
use crate::model::event::Invocation;

/// How long the repository lock is waited for.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How long it is waited for in silence.
pub const SILENCE: Duration = Duration::from_secs(1);

/// Who holds a lock, by their own account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub invocation: Invocation,
    /// Since when.
    pub since: Timestamp,
}

impl Holder {
    /// For how long, seen from `now`.
    pub fn age(&self, now: Timestamp) -> Duration {
        Duration::try_from(now.duration_since(self.since)).unwrap_or_default()
    }
}

/// Whether a lock is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockState {
    /// By nobody.
    Free,
    /// By a living process; by which, where it can be told.
    Held(Option<Holder>),
}

impl LockState {
    /// Whether it is held.
    pub fn is_held(&self) -> bool {
        match self {
            Self::Free => false,
            Self::Held(_) => true,
        }
    }
}

/// How to wait for the repository lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// After how long to give up.
    pub limit: Duration,
    /// After how long to tell the user who is waited for.
    pub notice_after: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { limit: PATIENCE, notice_after: SILENCE }
    }
}

/// The repository lock. Free again when this is dropped.
#[derive(Debug)]
pub struct RepositoryLock {
    held: HeldFile,
}

impl RepositoryLock {
    /// Takes it, waiting as `patience` says. `notice` is called once if it takes long, with the holder.
    pub fn acquire(state: &StateDir, patience: Patience, notice: impl FnOnce(Option<&Holder>)) -> Result<Self, Error> {
        let path = state.lock();
        if let Some(held) = HeldFile::try_acquire(&path)? {
            return Ok(Self { held });
        }
        Ok(Self { held: wait(&path, patience, notice)? })
    }

    /// The lock for a process of ours to hold on to as well. Dropping the lock here frees it all the same; if this process is
    /// killed, it is held until that one has ended.
    pub fn share(&self) -> Result<OwnedFd, Error> {
        self.held.file.try_clone().map(OwnedFd::from).map_err(Error::io("copy", Path::new("the repository's lock")))
    }
}

/// A run's lock. Free again when this is dropped.
#[derive(Debug)]
pub struct RunLock {
    held: HeldFile,
}

impl RunLock {
    /// Takes it, or says who has it. Waits for nobody.
    pub fn try_acquire(run: &RunDir) -> Result<Self, Error> {
        if !run.root().is_dir() {
            return Err(Error::NotFound { what: "run", name: run.id().to_string(), known: Vec::new() });
        }
        let path = run.lock();
        if let Some(held) = HeldFile::try_acquire(&path)? {
            return Ok(Self { held });
        }
        let holder = holder_of(&path);
        let age = holder.as_ref().map(|it| it.age(Timestamp::now()));
        Err(Error::Held { run: run.id().clone(), holder, age })
    }

    /// Whether this is the lock of `run`, however its folder has been renamed since.
    pub(crate) fn is_of(&self, run: &RunDir) -> Result<bool, Error> {
        self.held.is_at(&run.lock())
    }
}

/// Whether the run's coordinator lives. Disturbs nobody and writes nothing.
pub fn run_lock_state(run: &RunDir) -> Result<LockState, Error> {
    state_of(&run.lock())
}

/// Whether the repository lock is held. Disturbs nobody and writes nothing.
pub fn repository_lock_state(state: &StateDir) -> Result<LockState, Error> {
    state_of(&state.lock())
}

/// The lock of a new box in `place`: held until the last copy of what is returned is closed.
pub fn hold_workplace(place: &Workplace) -> Result<OwnedFd, Error> {
    let path = place.box_lock();
    drop(open(&path)?);
    // To be read alone: what serves a box has no need to write there.
    let file = File::open(&path).map_err(Error::io("open", &path))?;
    loop {
        match fcntl(&file, FcntlArg::F_OFD_SETLKW(&whole_file(libc::F_RDLCK))) {
            Ok(_) => return Ok(file.into()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(Error::io("lock", &path)(error)),
        }
    }
}

/// Waits until nothing is left of any box in `place`. `notice` is called once if it takes long.
pub fn await_boxes(place: &Workplace, patience: Patience, notice: impl FnOnce()) -> Result<(), Error> {
    let path = place.box_lock();
    if path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    if HeldFile::try_acquire(&path)?.is_some() {
        return Ok(());
    }
    match wait(&path, patience, |_| notice()) {
        Ok(_) => Ok(()),
        Err(Error::Locked { path, waited, .. }) => {
            Err(Error::BoxLives { worktree: place.worktree().to_owned(), lock: path, waited })
        }
        Err(error) => Err(error),
    }
}

fn state_of(path: &Path) -> Result<LockState, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(LockState::Free),
        Err(error) => return Err(Error::io("open", path)(error)),
    };
    let mut asked = whole_file(libc::F_WRLCK);
    fcntl(&file, FcntlArg::F_OFD_GETLK(&mut asked)).map_err(Error::io("ask for the lock on", path))?;
    let free = i32::from(asked.l_type) == libc::F_UNLCK;
    Ok(if free { LockState::Free } else { LockState::Held(holder_of(path)) })
}

/// Who holds the lock by the file's account, if that process lives; an account can be older than the present holder.
fn holder_of(path: &Path) -> Option<Holder> {
    let holder: Holder = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    process::is_same_process_alive(&holder.invocation).ok()?.then_some(holder)
}

fn whole_file(kind: i32) -> libc::flock {
    libc::flock {
        // The constants are small numbers; the field's type differs between machines.
        l_type: kind.try_into().unwrap_or_default(),
        l_whence: libc::SEEK_SET.try_into().unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// A file that is locked.
#[derive(Debug)]
pub(super) struct HeldFile {
    file: File,
}

impl HeldFile {
    /// Takes the lock, unless it is held.
    pub(super) fn try_acquire(path: &Path) -> Result<Option<Self>, Error> {
        loop {
            let file = open(path)?;
            match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK))) {
                Ok(_) => {}
                Err(Errno::EAGAIN | Errno::EACCES) => return Ok(None),
                Err(error) => return Err(Error::io("lock", path)(error)),
            }
            if let Some(held) = Self::claim(file, path)? {
                return Ok(Some(held));
            }
        }
    }

    /// Takes the lock, blocking until it is free. Only for a thread that can be left behind.
    fn acquire_blocking(path: &Path) -> Result<Self, Error> {
        loop {
            let file = open(path)?;
            match fcntl(&file, FcntlArg::F_OFD_SETLKW(&whole_file(libc::F_WRLCK))) {
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(Error::io("lock", path)(error)),
            }
            if let Some(held) = Self::claim(file, path)? {
                return Ok(held);
            }
        }
    }

    /// Makes sure that the locked file is the one at `path` still, and writes the holder into it.
    fn claim(file: File, path: &Path) -> Result<Option<Self>, Error> {
        let mut held = Self { file };
        if !held.is_at(path)? {
            return Ok(None);
        }
        let holder = Holder { invocation: process::current()?, since: Timestamp::now() };
        let text = serde_json::to_vec(&holder).map_err(|source| Error::Encode { path: path.to_owned(), source })?;
        // A full disk must not keep anybody from cleaning up: without the text, others only know less.
        drop(held.rewrite(&text));
        Ok(Some(held))
    }

    fn is_at(&self, path: &Path) -> Result<bool, Error> {
        let locked = self.file.metadata().map_err(Error::io("look at", path))?;
        match std::fs::symlink_metadata(path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (locked.dev(), locked.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("look at", path)(error)),
        }
    }

    fn rewrite(&mut self, text: &[u8]) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text)
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        // So that the next holder is not mistaken for us while it writes its own name. Closing the file frees the lock,
        // also where this fails.
        drop(self.file.set_len(0));
        let _ = fcntl(self.file.as_fd(), FcntlArg::F_OFD_SETLK(&whole_file(libc::F_UNLCK)));
    }
}

fn open(path: &Path) -> Result<File, Error> {
    if let Some(folder) = path.parent() {
        atomic::create_dir(folder)?;
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(Error::io("open", path))
}

/// Waits in a thread of its own, because a blocking lock knows no time limit. A thread that is given up ends as soon as
/// it gets the lock, and frees it at once.
fn wait(path: &Path, patience: Patience, notice: impl FnOnce(Option<&Holder>)) -> Result<HeldFile, Error> {
    let begun = Instant::now();
    let (sender, receiver) = mpsc::sync_channel(0);
    let owned: PathBuf = path.to_owned();
    std::thread::Builder::new()
        .name("lock".to_owned())
        .spawn(move || {
            // Where nobody waits any more, sending fails, gives the lock back, and so frees it.
            drop(sender.send(HeldFile::acquire_blocking(&owned)));
        })
        .map_err(Error::io("start a thread to wait for", path))?;

    let first = patience.notice_after.min(patience.limit);
    let mut outcome = receiver.recv_timeout(first);
    if matches!(outcome, Err(RecvTimeoutError::Timeout)) && first < patience.limit {
        notice(holder_of(path).as_ref());
        outcome = receiver.recv_timeout(patience.limit.saturating_sub(begun.elapsed()));
    }
    match outcome {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            let holder = holder_of(path);
            let age = holder.as_ref().map(|it| it.age(Timestamp::now()));
            Err(Error::Locked { path: path.to_owned(), holder, age, waited: begun.elapsed() })
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "real processes are what is tested")]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Child, ChildStdin, Command, Stdio};
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::model::RunId;

    const PLAY: &str = "SANDBOX_TEST_HOLD_LOCK";
    const SHORT: Patience = Patience { limit: Duration::from_millis(300), notice_after: Duration::from_millis(50) };
    const LONG: Patience = Patience { limit: Duration::from_secs(20), notice_after: Duration::from_millis(50) };

    fn state(folder: &Path) -> StateDir {
        StateDir::in_common_dir(folder)
    }

    fn run(folder: &Path) -> RunDir {
        let run = state(folder).run(&"login-1".parse::<RunId>().unwrap());
        atomic::create_dir(run.root()).unwrap();
        run
    }

    /// Another process that holds both locks until its input ends.
    struct Other {
        child: Child,
        input: Option<ChildStdin>,
    }

    impl Other {
        fn start(folder: &Path) -> Self {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--nocapture", "store::lock::tests::hold_locks_for_another_test"])
                .env(PLAY, folder)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().ends_with("holding")), "the other process did not get the locks");
            let input = child.stdin.take();
            Self { child, input }
        }

        fn kill(&mut self) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }

    impl Drop for Other {
        fn drop(&mut self) {
            self.input = None;
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }

    /// Played by another process for the tests below; without it, does nothing.
    #[test]
    #[expect(clippy::print_stdout, reason = "tells the other test")]
    fn hold_locks_for_another_test() {
        let Some(folder) = std::env::var_os(PLAY).map(PathBuf::from) else { return };
        let _repository = RepositoryLock::acquire(&state(&folder), SHORT, |_| {}).unwrap();
        let _run = RunLock::try_acquire(&run(&folder)).unwrap();
        println!("holding");
        let mut nothing = Vec::new();
        std::io::stdin().read_to_end(&mut nothing).unwrap();
    }

    #[test]
    fn a_run_has_one_coordinator_and_the_lock_dies_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        assert_eq!(run_lock_state(&run).unwrap(), LockState::Free);
        assert!(!run.lock().exists(), "asking creates nothing");

        let mut other = Other::start(folder.path());
        let pid = other.child.id();
        for _ in 0..50 {
            let LockState::Held(Some(holder)) = run_lock_state(&run).unwrap() else { panic!("not held") };
            assert_eq!(holder.invocation.pid, pid);
        }
        match RunLock::try_acquire(&run) {
            Err(error @ Error::Held { .. }) => {
                let text = error.to_string();
                assert!(text.contains("`login-1`") && text.contains(&format!("process {pid} for ")), "{text}");
            }
            other => panic!("{other:?}"),
        }
        other.kill();
        assert_eq!(run_lock_state(&run).unwrap(), LockState::Free);
        let own = RunLock::try_acquire(&run).unwrap();
        assert!(matches!(RunLock::try_acquire(&run), Err(Error::Held { .. })), "not twice in one process either");
        drop(own);
        assert_eq!(run_lock_state(&run).unwrap(), LockState::Free);
    }

    #[test]
    fn waiting_for_the_repository_lock_ends_with_who_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = state(folder.path());
        let mut other = Other::start(folder.path());
        let pid = other.child.id();
        let mut told = None;
        let error = RepositoryLock::acquire(&state, SHORT, |holder| told = holder.cloned()).unwrap_err();
        assert_eq!(told.unwrap().invocation.pid, pid);
        let text = error.to_string();
        assert!(matches!(error, Error::Locked { age: Some(_), .. }), "{error:?}");
        assert!(text.contains(&format!("process {pid} for ")) && text.contains("waited 0 s"), "{text}");

        other.kill();
        // Also the thread that was given up gets it, and must free it at once.
        drop(RepositoryLock::acquire(&state, LONG, |_| {}).unwrap());
    }

    #[test]
    fn a_killed_holder_lets_a_waiter_in_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let state = state(folder.path());
        let mut other = Other::start(folder.path());
        let begun = Instant::now();
        // Killed while we wait: the notice comes when waiting has begun.
        let held = RepositoryLock::acquire(&state, LONG, |_| other.kill()).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert!(repository_lock_state(&state).unwrap().is_held());
        drop(held);
        assert!(!repository_lock_state(&state).unwrap().is_held());
    }

    #[test]
    fn the_boxes_of_a_workplace_are_waited_for_together() {
        use crate::store::{Occupant, RepoKey, Workplaces};
        let folder = tempfile::tempdir().unwrap();
        let places = Workplaces::new(folder.path(), &RepoKey::of_common_dir(Path::new("/x/.git")));
        let place = places.place(&"login-1".parse().unwrap(), &Occupant::Verify);
        await_boxes(&place, SHORT, || panic!("there was none")).unwrap();
        assert!(!place.private().exists(), "asking creates nothing");

        let (first, second) = (hold_workplace(&place).unwrap(), hold_workplace(&place).unwrap());
        // Whoever has a copy holds it.
        let copy = first.try_clone().unwrap();
        drop(first);
        let mut told = false;
        let error = await_boxes(&place, SHORT, || told = true).unwrap_err();
        assert!(told && matches!(error, Error::BoxLives { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("login-1--verify`, after 0 s") && text.contains("fuser "), "{text}");
        assert_eq!(error.fault(), crate::model::Fault::Locked);
        drop(second);
        assert!(await_boxes(&place, SHORT, || {}).is_err());
        await_boxes(&place, LONG, || drop(copy)).unwrap();
        await_boxes(&place, SHORT, || panic!("it is free")).unwrap();
    }

    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let state = state(folder.path());
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let held = RepositoryLock::acquire(&state, LONG, |_| {}).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(held);
                    }
                });
            }
        });
    }

    #[test]
    fn what_a_dead_holder_wrote_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        let mut own = process::current().unwrap();
        own.start_ticks += 1;
        let stranger = Holder { invocation: own, since: Timestamp::UNIX_EPOCH };
        atomic::write_json(&run.lock(), &stranger).unwrap();
        // A live process has that number, but not that start: the lock is free, whatever the file says.
        assert_eq!(run_lock_state(&run).unwrap(), LockState::Free);
        let held = RunLock::try_acquire(&run).unwrap();
        atomic::write_json(&folder.path().join("x"), &stranger).unwrap();
        assert_eq!(holder_of(&folder.path().join("x")), None);
        assert!(matches!(run_lock_state(&run).unwrap(), LockState::Held(Some(_))));
        drop(held);
    }

    #[test]
    fn who_waited_for_a_file_that_was_replaced_gets_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let state = state(folder.path());
        let first = RepositoryLock::acquire(&state, LONG, |_| {}).unwrap();
        let second = RepositoryLock::acquire(&state, LONG, |_| {
            std::fs::remove_file(state.lock()).unwrap();
            drop(first);
        })
        .unwrap();
        assert!(repository_lock_state(&state).unwrap().is_held(), "two could hold it, each in a file of its own");
        drop(second);
    }

    #[test]
    fn a_lock_whose_file_was_replaced_is_not_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        let held = RunLock::try_acquire(&run).unwrap();
        assert!(held.is_of(&run).unwrap());
        std::fs::remove_file(run.lock()).unwrap();
        assert!(!held.is_of(&run).unwrap());
        drop(RunLock::try_acquire(&run).unwrap());
        assert!(!held.is_of(&run).unwrap());
    }
}

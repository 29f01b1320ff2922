//! Init at work: takes orders from the parent, reaps, and keeps the promise that a command's end is the end of everything it
//! started.
//!
//! One thread, one loop. The kernel delivers to process 1 only signals it asks for, so nothing inside can disturb it.
//! Processes are signalled here with `kill(-1)`, which reaches those of this pid namespace and no other.

use crate::cgroup::Group;
use crate::guard::Guards;
use crate::limit::LimitHit;
use crate::plan::Enforcement;
use crate::program::{self, Program};
use crate::sys;
use crate::usage;
use crate::watchdog::Watchdog;
use crate::wire::{self, Answer, Order, Report, Status};
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

/// How long processes may take to stop.
const FREEZE: Duration = Duration::from_secs(5);
/// After this long, processes are let go on for a moment and stopped again: one that waits for the child of a `vfork`
/// cannot stop while that child is stopped itself.
const NUDGE: Duration = Duration::from_millis(100);

/// A command that runs.
#[derive(Clone, Copy)]
struct Running {
    id: u64,
    /// Its end leaves the other processes alone.
    aside: bool,
}

struct Init<'a> {
    enforcement: &'a Enforcement,
    guards: &'a Guards,
    control: BorrowedFd<'a>,
    running: HashMap<Pid, Running>,
    group: Option<&'a Group>,
    watchdog: Watchdog<'a>,
}

/// Serves until the parent is gone.
pub(crate) fn serve(
    enforcement: &Enforcement,
    guards: &Guards,
    group: Option<&Group>,
    control: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut watched = SigSet::empty();
    watched.add(Signal::SIGCHLD);
    watched.thread_block()?;
    let ended = SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let watchdog = Watchdog::new(enforcement, group, &usage::processes);
    let mut init = Init { enforcement, guards, control, running: HashMap::new(), group, watchdog };
    loop {
        let mut fds = [PollFd::new(&control, PollFlags::IN), PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN)];
        let wait = init.watchdog.wait().and_then(|wait| Timespec::try_from(wait).ok());
        match rustix::event::poll(&mut fds, wait.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let [orders, ends] = fds.map(|fd| fd.revents());
        // Before any order still in the queue: who gave it is gone.
        if orders.intersects(PollFlags::HUP | PollFlags::ERR) {
            return Ok(());
        }
        if ends.contains(PollFlags::IN) {
            while ended.read_signal()?.is_some() {}
            init.reap()?;
        }
        if orders.contains(PollFlags::IN) {
            match wire::receive::<Order>(control, RecvFlags::empty(), true)? {
                None => return Ok(()),
                Some((order, files)) => init.obey(order, files)?,
            }
        }
        init.watch()?;
    }
}

impl Init<'_> {
    fn obey(&mut self, order: Order, files: Vec<std::os::fd::OwnedFd>) -> io::Result<()> {
        let (id, answer) = match order {
            Order::Start(_) => return Err(io::Error::from(io::ErrorKind::InvalidData)),
            Order::Spawn { id, argv, env, cwd, files: given, aside } => {
                let cwd = if cwd.is_empty() { self.enforcement.workdir().as_os_str() } else { OsStr::new(&cwd) };
                let cwd = cwd.to_owned();
                let (enforcement, guards, group) = (self.enforcement, self.guards, self.group);
                let program = Program { argv, env, cwd, enforcement, guards, group };
                (id, self.spawn(id, &program, given, files, aside))
            }
            Order::Signal { id, signal } => (id, refused(sys::signal_box(signal), Answer::Done)),
            Order::KillAll { id } => {
                let count = self.kill_all()?;
                (id, Answer::Count(count))
            }
            Order::Freeze { id } => (id, self.freeze()?),
            Order::Thaw { id } => (id, refused(sys::signal_box(libc::SIGCONT), Answer::Done)),
        };
        self.tell(&Report::Answer { id, answer })
    }

    fn spawn(
        &mut self,
        id: u64,
        program: &Program<'_>,
        given: [bool; 3],
        files: Vec<std::os::fd::OwnedFd>,
        aside: bool,
    ) -> Answer {
        if !aside && self.running.values().any(|running| !running.aside) {
            return Answer::Busy;
        }
        match program::start(program, given, files) {
            Ok(pid) => {
                if self.running.is_empty() {
                    // What came of the command before is not this one's affair.
                    self.watchdog.rest();
                }
                self.running.insert(pid, Running { id, aside });
                self.watchdog.begin();
                Answer::Done
            }
            Err((stage, errno)) => Answer::NotStarted { stage, errno },
        }
    }

    /// Collects what has ended. When that was the main command, ends all else first and then says so.
    fn reap(&mut self) -> io::Result<()> {
        while let Some((pid, status)) = reap_one(WaitPidFlag::WNOHANG)? {
            let Some(running) = self.running.remove(&pid) else {
                continue;
            };
            if running.aside {
                self.tell(&Report::Exited { id: running.id, status, leftovers: 0, limit: None })?;
                continue;
            }
            // Those that ended by themselves meanwhile are no leftovers.
            let mut asides = Vec::new();
            while let Some((pid, status)) = reap_one(WaitPidFlag::WNOHANG)? {
                asides.extend(self.running.remove(&pid).map(|running| (running, status)));
            }
            let mut limit = self.watchdog.judge_end(status);
            let leftovers = self.sweep(&mut asides)?;
            limit = limit.or_else(|| self.watchdog.judge_what_is_left());
            self.tell(&Report::Exited { id: running.id, status, leftovers, limit })?;
            self.tell_ends(asides, 0, None)?;
        }
        Ok(())
    }

    /// Looks at what the box uses, and ends everything in it if that is too much.
    fn watch(&mut self) -> io::Result<()> {
        if self.running.is_empty() {
            self.watchdog.rest();
        }
        match self.watchdog.look() {
            Some(hit) => self.end_all(Some(hit)).map(drop),
            None => Ok(()),
        }
    }

    fn kill_all(&mut self) -> io::Result<u32> {
        self.end_all(None)
    }

    fn end_all(&mut self, limit: Option<LimitHit>) -> io::Result<u32> {
        let mut ends = Vec::new();
        while let Some((pid, status)) = reap_one(WaitPidFlag::WNOHANG)? {
            ends.extend(self.running.remove(&pid).map(|running| (running, status)));
        }
        let already = count(ends.len());
        let killed = self.sweep(&mut ends)?;
        let commands = count(ends.len()).saturating_sub(already);
        self.tell_ends(ends, killed.saturating_sub(commands), limit)?;
        Ok(killed)
    }

    /// Kills everything and collects it until nothing is left; the number of processes this killed.
    ///
    /// One signal would do, for a fork in progress fails while a signal is pending. Repeating costs nothing.
    fn sweep(&mut self, ends: &mut Vec<(Running, Status)>) -> io::Result<u32> {
        let mut killed = 0;
        self.group.iter().for_each(|group| group.kill());
        loop {
            match sys::signal_box(libc::SIGKILL) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                other => other?,
            }
            let Some((pid, status)) = reap_one(WaitPidFlag::empty())? else {
                return Ok(killed);
            };
            if status == Status::Signaled(libc::SIGKILL) {
                killed += 1;
            }
            ends.extend(self.running.remove(&pid).map(|running| (running, status)));
        }
    }

    fn tell_ends(&self, ends: Vec<(Running, Status)>, leftovers: u32, limit: Option<LimitHit>) -> io::Result<()> {
        ends.into_iter().try_for_each(|(running, status)| {
            let leftovers = if running.aside { 0 } else { leftovers };
            self.tell(&Report::Exited { id: running.id, status, leftovers, limit })
        })
    }

    /// Stops everything, and answers once nothing in the box can run.
    fn freeze(&self) -> io::Result<Answer> {
        let start = Instant::now();
        let mut nudged = start;
        loop {
            match sys::signal_box(libc::SIGSTOP) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                    return Ok(Answer::Count(0));
                }
                other => other?,
            }
            let (running, stopped) = census()?;
            if running == 0 {
                return Ok(Answer::Count(stopped));
            }
            if start.elapsed() > FREEZE {
                return Ok(Answer::Restless { running });
            }
            if nudged.elapsed() > NUDGE {
                nudged = Instant::now();
                sys::signal_box(libc::SIGCONT)?;
            }
            if self.hung_up(Duration::from_millis(1))? {
                sys::exit_now(0);
            }
        }
    }

    /// Waits a little, and tells whether the parent went away meanwhile.
    fn hung_up(&self, wait: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.control, PollFlags::empty())];
        let wait = Timespec::try_from(wait).map_err(|_| io::ErrorKind::InvalidInput)?;
        match rustix::event::poll(&mut fds, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [control] = fds;
        Ok(control.revents().intersects(PollFlags::HUP | PollFlags::ERR))
    }

    fn tell(&self, report: &Report) -> io::Result<()> {
        wire::tell(self.control, report, &[])
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// A box without processes is no failure: there was nobody to signal.
fn refused(result: io::Result<()>, done: Answer) -> Answer {
    match result.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)) {
        Ok(()) | Err(libc::ESRCH) => done,
        Err(errno) => Answer::Refused { errno },
    }
}

/// Collects one ended process; `None` if there is none, or none any more.
fn reap_one(flags: WaitPidFlag) -> io::Result<Option<(Pid, Status)>> {
    loop {
        match nix::sys::wait::waitpid(None, Some(flags)) {
            Ok(WaitStatus::Exited(pid, code)) => return Ok(Some((pid, Status::Exited(code)))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                return Ok(Some((pid, Status::Signaled(signal as i32))));
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(None),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Processes that can still run, and those that are stopped.
///
/// Every thread counts: a process is stopped one thread after the other.
fn census() -> io::Result<(u32, u32)> {
    let (mut running, mut stopped) = (0, 0);
    for entry in std::fs::read_dir("/proc")? {
        let Ok(name) = entry.map(|entry| entry.file_name()) else {
            continue;
        };
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if pid == 1 {
            continue;
        }
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        let mut states = threads.filter_map(|thread| std::fs::read(thread.ok()?.path().join("stat")).ok());
        if states.any(|stat| runs(&stat)) {
            running += 1;
        } else {
            stopped += 1;
        }
    }
    Ok((running, stopped))
}

/// Whether the thread this `stat` is of can still run. Its state follows the name, which may itself hold `)`.
fn runs(stat: &[u8]) -> bool {
    let after = stat.iter().rposition(|byte| *byte == b')').map(|at| at + 2);
    let state = after.and_then(|at| stat.get(at)).copied();
    !matches!(state, Some(b'T' | b't' | b'Z' | b'X' | b'x'))
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn a_name_cannot_pass_for_a_state() {
        assert!(runs(b"7 (sh) R 1 7 7"));
        assert!(runs(b"7 (a) T 1) S 1 7 7"));
        assert!(runs(b"7 (dd) D 1 7 7"));
        assert!(!runs(b"7 (R) S) T 1 7 7"));
        assert!(!runs(b"7 (x) Z 1 7 7"));
        assert!(runs(b""), "what cannot be read is not known to be stopped");
    }
}

//! Init at work: takes orders from the parent, reaps, and keeps the promise that a command's end is the end of everything it
//! started.
//!
//! One thread, one loop. The kernel delivers to process 1 only signals it asks for, so nothing inside can disturb it; where
//! init is no process 1, the rules on commands keep their signals from it. Who is signalled, and how, is [`crate::reach`]'s.

use crate::cgroup::Group;
use crate::deputy;
use crate::guard::{Guard, Guards};
use crate::limit::LimitHit;
use crate::plan::Enforcement;
use crate::program::{self, Program};
use crate::reach::{self, Family, Reach, Sweep};
use crate::stat::Stat;
use crate::watchdog::Watchdog;
use crate::wire::{self, Answer, Order, Report, Status};
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
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
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
    family: &'a Family,
    control: BorrowedFd<'a>,
    running: HashMap<Pid, Running>,
    bounds: Option<&'a Group>,
    watchdog: Watchdog<'a>,
    /// Where commands ask for what they may not do themselves.
    asking: Vec<OwnedFd>,
}

/// Serves until the parent is gone.
pub(crate) fn serve(
    enforcement: &Enforcement,
    guards: &Guards,
    family: &Family,
    bounds: Option<&Group>,
    control: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut watched = SigSet::empty();
    watched.add(Signal::SIGCHLD);
    match enforcement.reach() {
        Reach::Namespace => {}
        // That the outer process is dead.
        Reach::Descendants => watched.add(Signal::SIGTERM),
    }
    watched.thread_block()?;
    let ended = SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let watchdog = Watchdog::new(enforcement, family, bounds);
    let (running, asking) = (HashMap::new(), Vec::new());
    let mut init = Init { enforcement, guards, family, control, running, bounds, watchdog, asking };
    loop {
        let mut fds =
            vec![PollFd::new(&control, PollFlags::IN), PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN)];
        fds.extend(init.asking.iter().map(|asking| PollFd::new(asking, PollFlags::IN)));
        let wait = init.watchdog.wait().and_then(|wait| Timespec::try_from(wait).ok());
        match rustix::event::poll(&mut fds, wait.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let happened: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        let Some(([orders, ends], asking)) = happened.split_first_chunk::<2>() else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let (orders, ends) = (*orders, *ends);
        // Before any order still in the queue: who gave it is gone.
        if orders.intersects(PollFlags::HUP | PollFlags::ERR) {
            return Ok(());
        }
        init.answer(asking);
        if ends.contains(PollFlags::IN) {
            while let Some(signal) = ended.read_signal()? {
                if signal.ssi_signo == Signal::SIGTERM as u32 {
                    return Ok(());
                }
            }
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
    /// Answers those who ask, one call each; forgets those whose processes are gone.
    fn answer(&mut self, happened: &[PollFlags]) {
        let writable = self.enforcement.guards().iter().find_map(|guard| match guard {
            Guard::Metadata { writable } => Some(writable.as_slice()),
            Guard::Landlock { .. } | Guard::Cage { .. } | Guard::Sockets { .. } | Guard::Seccomp { .. } => None,
        });
        let mut happened = happened.iter();
        self.asking.retain(|asking| {
            let now = happened.next().copied().unwrap_or(PollFlags::empty());
            if now.contains(PollFlags::IN) {
                deputy::answer(asking.as_fd(), writable.unwrap_or_default());
            }
            !now.intersects(PollFlags::HUP | PollFlags::ERR)
        });
    }

    fn obey(&mut self, order: Order, files: Vec<std::os::fd::OwnedFd>) -> io::Result<()> {
        let (id, answer) = match order {
            Order::Start { .. } => return Err(io::Error::from(io::ErrorKind::InvalidData)),
            Order::Spawn { id, argv, env, cwd, below, files: given, aside } => {
                let cwd = if cwd.is_empty() { self.enforcement.workdir().as_os_str() } else { OsStr::new(&cwd) };
                let (enforcement, guards) = (self.enforcement, self.guards);
                let (bounds, group) = (self.bounds, self.family.group());
                let program = Program { argv, env, cwd: cwd.to_owned(), below, enforcement, guards, bounds, group };
                (id, self.spawn(id, &program, given, files, aside))
            }
            Order::Signal { id, signal } => (id, refused(self.family.signal(signal), Answer::Done)),
            Order::KillAll { id } => (id, self.kill_all()?),
            Order::Freeze { id } => (id, self.freeze()?),
            Order::Thaw { id } => (id, refused(self.family.signal(libc::SIGCONT), Answer::Done)),
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
            Ok((pid, asking)) => {
                if self.running.is_empty() {
                    // What came of the command before is not this one's affair.
                    self.watchdog.rest();
                }
                self.asking.extend(asking);
                self.running.insert(pid, Running { id, aside });
                self.watchdog.begin();
                Answer::Done
            }
            Err((stage, errno)) => Answer::NotStarted { stage, errno },
        }
    }

    /// Collects what has ended. When that was the main command, ends all else first and then says so.
    fn reap(&mut self) -> io::Result<()> {
        while let Some((pid, status)) = reap_one()? {
            let Some(running) = self.running.remove(&pid) else {
                continue;
            };
            if running.aside {
                self.tell_end(running.id, status, Sweep::default(), None)?;
                continue;
            }
            // Those that ended by themselves meanwhile are no leftovers.
            let mut asides = self.reap_all()?;
            let mut limit = self.watchdog.judge_end(status);
            let sweep = self.sweep(&mut asides)?;
            limit = limit.or_else(|| self.watchdog.judge_what_is_left());
            self.tell_end(running.id, status, sweep, limit)?;
            self.tell_ends(asides, Sweep::default(), None)?;
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

    fn kill_all(&mut self) -> io::Result<Answer> {
        self.end_all(None)
    }

    fn end_all(&mut self, limit: Option<LimitHit>) -> io::Result<Answer> {
        let mut ends = self.reap_all()?;
        let already = count(ends.len());
        let sweep = self.sweep(&mut ends)?;
        let commands = count(ends.len()).saturating_sub(already);
        self.tell_ends(ends, Sweep { killed: sweep.killed.saturating_sub(commands), ..sweep }, limit)?;
        Ok(if sweep.escaped > 0 { Answer::Restless { running: sweep.escaped } } else { Answer::Count(sweep.killed) })
    }

    /// Collects what has ended by itself.
    fn reap_all(&mut self) -> io::Result<Vec<(Running, Status)>> {
        let mut ends = Vec::new();
        while let Some((pid, status)) = reap_one()? {
            ends.extend(self.running.remove(&pid).map(|running| (running, status)));
        }
        Ok(ends)
    }

    /// Kills everything and collects it until nothing is left.
    fn sweep(&mut self, ends: &mut Vec<(Running, Status)>) -> io::Result<Sweep> {
        self.bounds.iter().for_each(|group| group.kill());
        let running = &mut self.running;
        self.family.sweep(|pid, status| {
            let status = status_of(status);
            ends.extend(running.remove(&pid).map(|running| (running, status)));
            status == Status::Signaled(libc::SIGKILL)
        })
    }

    fn tell_end(
        &self,
        id: u64,
        status: Status,
        Sweep { killed: leftovers, escaped }: Sweep,
        limit: Option<LimitHit>,
    ) -> io::Result<()> {
        self.tell(&Report::Exited { id, status, leftovers, escaped, limit })
    }

    fn tell_ends(&self, ends: Vec<(Running, Status)>, sweep: Sweep, limit: Option<LimitHit>) -> io::Result<()> {
        ends.into_iter().try_for_each(|(running, status)| {
            self.tell_end(running.id, status, if running.aside { Sweep::default() } else { sweep }, limit)
        })
    }

    /// Stops everything, and answers once nothing in the box can run.
    fn freeze(&self) -> io::Result<Answer> {
        let start = Instant::now();
        let mut nudged = start;
        loop {
            self.family.signal(libc::SIGSTOP)?;
            let (running, stopped) = census(&self.family.members()?);
            if running == 0 {
                return Ok(Answer::Count(stopped));
            }
            if start.elapsed() > FREEZE {
                return Ok(Answer::Restless { running });
            }
            if nudged.elapsed() > NUDGE {
                nudged = Instant::now();
                self.family.signal(libc::SIGCONT)?;
            }
            if self.hung_up(Duration::from_millis(1))? {
                return Err(io::ErrorKind::BrokenPipe.into());
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

fn refused(result: io::Result<()>, done: Answer) -> Answer {
    match result.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)) {
        Ok(()) => done,
        Err(errno) => Answer::Refused { errno },
    }
}

/// Collects one process that has ended; `None` if there is none, or none any more.
fn reap_one() -> io::Result<Option<(Pid, Status)>> {
    let collected = reach::collect_one(WaitPidFlag::WNOHANG)?;
    Ok(collected.ended().map(|(pid, status)| (pid, status_of(status))))
}

/// How one that was collected ended.
fn status_of(status: WaitStatus) -> Status {
    match status {
        WaitStatus::Signaled(_, signal, _) => Status::Signaled(signal as i32),
        WaitStatus::Exited(_, code) => Status::Exited(code),
        // Only ended ones are collected.
        _ => Status::Exited(0),
    }
}

/// Of these, processes that can still run, and those that are stopped.
///
/// Every thread counts: a process is stopped one thread after the other.
fn census(members: &[Pid]) -> (u32, u32) {
    let (mut running, mut stopped) = (0, 0);
    for pid in members {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        let mut states = threads.filter_map(|thread| Stat::read(&thread.ok()?.path().join("stat")));
        if states.any(|stat| stat.can_run()) {
            running += 1;
        } else {
            stopped += 1;
        }
    }
    (running, stopped)
}

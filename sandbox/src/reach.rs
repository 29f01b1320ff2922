//! Who belongs to a box, and how all of them are signalled: the one file where many processes are signalled at once.
//!
//! In a pid namespace that is the kernel's affair: init's `kill(-1)` reaches the namespace and nothing else. Without one,
//! the same call would end every process of the user, so it is out of reach there: it takes a [`Namespace`], which exists
//! only in process 1 of one. What is left then is descent:
//!
//! - Init, and the outer process behind it, adopt orphans. A process can leave its parent, session and group, but never its
//!   descent from an adopter; so once an adopter has no child left, nothing of the box is left. That is known, not guessed.
//! - A process is signalled only by a handle on it, and only if it is seen to descend from the adopter *after* the handle was
//!   taken: a number may be used again, a handle is one process for ever. And descent never ends, so what was true once
//!   is true when the signal arrives.
//! - What is not certain is *when* it ends: a process that forks faster than it is found could go on. A control group of the
//!   box's own is killed as one by the kernel. Where none can be made, ending is tried for [`PATIENCE`], and what is
//!   left then is told ([`Sweep::escaped`]).
//!
//! *Why not stop everything first and kill then?* A stopped parent keeps its children in its family; a killed one gives them
//! to the adopter, where they are found at once, as its own children, and cannot be mistaken. And killing is sure to keep a
//! process from forking again, while another may continue one that is stopped.

use crate::cgroup;
use crate::stat::Stat;
use crate::sys;
use nix::libc;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, Signal};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How the processes of a box are told from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// They are those of a pid namespace.
    Namespace,
    /// They descend from the box's init.
    Descendants,
}

/// How long processes that descend from init are looked for before the rest counts as escaped.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sweep {
    /// How many processes it killed.
    pub(crate) killed: u32,
    /// How many were still there when time was up.
    pub(crate) escaped: u32,
}

/// All processes of a box but init, as init reaches them.
#[derive(Debug)]
pub(crate) enum Family {
    Namespace(Namespace),
    Descendants(Descendants),
}

impl Family {
    /// The family of this process, which is the init of a box that is made by now.
    pub(crate) fn of_init(reach: Reach, group: Option<KillGroup>) -> io::Result<Self> {
        Ok(match reach {
            Reach::Namespace => Self::Namespace(Namespace::entered()?),
            Reach::Descendants => Self::Descendants(Descendants::new(group)),
        })
    }

    /// The group that commands must join before anything else of them runs.
    pub(crate) fn group(&self) -> Option<&KillGroup> {
        match self {
            Self::Namespace(_) => None,
            Self::Descendants(descendants) => descendants.group.as_ref(),
        }
    }

    /// Sends a signal to all of them. That there are none is no failure.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        match self {
            Self::Namespace(namespace) => namespace.signal(signal),
            Self::Descendants(descendants) => descendants.signal(signal),
        }
    }

    /// The numbers of all of them.
    pub(crate) fn members(&self) -> io::Result<Vec<Pid>> {
        match self {
            Self::Namespace(_) => Ok(numbers()?.filter(|pid| *pid != Pid::from_raw(1)).collect()),
            Self::Descendants(own) => {
                let mut members = Vec::new();
                each_descendant(own.top, |member| members.push(member.pid))?;
                Ok(members)
            }
        }
    }

    /// Kills all of them, and collects them until none is left. Each that is collected is told to `collect`, which says
    /// whether it was killed.
    pub(crate) fn sweep(&self, mut collect: impl FnMut(Pid, WaitStatus) -> bool) -> io::Result<Sweep> {
        match self {
            Self::Namespace(namespace) => namespace.sweep(&mut collect),
            Self::Descendants(descendants) => descendants.sweep(&mut collect),
        }
    }
}

/// The pid namespace of which this process is the first.
#[derive(Debug)]
pub(crate) struct Namespace(());

impl Namespace {
    fn entered() -> io::Result<Self> {
        if Pid::this() == Pid::from_raw(1) { Ok(Self(())) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        match sys::signal_namespace(self, signal) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => other,
        }
    }

    /// One signal would do, for a fork in progress fails while a signal is pending. Repeating costs nothing.
    fn sweep(&self, collect: &mut dyn FnMut(Pid, WaitStatus) -> bool) -> io::Result<Sweep> {
        let mut sweep = Sweep::default();
        loop {
            self.signal(libc::SIGKILL)?;
            let Some((pid, status)) = collect_one(WaitPidFlag::empty())?.ended() else {
                return Ok(sweep);
            };
            sweep.killed += u32::from(collect(pid, status));
        }
    }
}

/// The processes that descend from this one, which adopts orphans.
#[derive(Debug)]
pub(crate) struct Descendants {
    /// This process.
    top: Pid,
    group: Option<KillGroup>,
}

impl Descendants {
    /// Has orphans among the descendants of this process become its children, instead of the machine's init's.
    ///
    /// Refuses where `/proc` counts processes otherwise than this one does: what is read there would be of others.
    pub(crate) fn adopt() -> io::Result<()> {
        if fs::read_link("/proc/self")?.as_os_str() != Pid::this().to_string().as_str() {
            return Err(io::Error::from_raw_os_error(libc::ENOTSUP));
        }
        Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
    }

    /// Those of this process, which adopts orphans.
    pub(crate) fn new(group: Option<KillGroup>) -> Self {
        Self { top: Pid::this(), group }
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        let Some(signal) = Signal::from_named_raw(signal) else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        each_descendant(self.top, |member| member.signal(signal))
    }

    pub(crate) fn sweep(&self, collect: &mut dyn FnMut(Pid, WaitStatus) -> bool) -> io::Result<Sweep> {
        /// Every so many rounds the whole family is looked for, not only the children: many that fork, none of which
        /// ends by itself, would be met one generation at a time.
        const WIDE: u32 = 16;
        let begun = Instant::now();
        let mut sweep = Sweep::default();
        for round in 0_u32.. {
            self.group.iter().for_each(KillGroup::kill);
            if round % WIDE == 1 {
                each_descendant(self.top, |member| member.signal(Signal::KILL))?;
            }
            children_of_this()?.iter().for_each(|child| child.signal(Signal::KILL));
            loop {
                match collect_one(WaitPidFlag::WNOHANG)? {
                    Collected::Ended(pid, status) => sweep.killed += u32::from(collect(pid, status)),
                    Collected::Later => break,
                    Collected::NoChild => return Ok(sweep),
                }
            }
            if begun.elapsed() > PATIENCE {
                let mut left = 0_u32;
                each_descendant(self.top, |_| left = left.saturating_add(1))?;
                sweep.escaped = left.max(1);
                return Ok(sweep);
            }
            // One that was killed needs the processor to end.
            std::thread::yield_now();
        }
        Ok(sweep)
    }
}

/// A process, by a handle that stays its own.
struct Member {
    pid: Pid,
    handle: OwnedFd,
}

impl Member {
    /// A handle on the process that has this number now, if there is one.
    fn hold(pid: Pid) -> Option<Self> {
        let number = rustix::process::Pid::from_raw(pid.as_raw())?;
        let handle = rustix::process::pidfd_open(number, PidfdFlags::empty()).ok()?;
        Some(Self { pid, handle })
    }

    /// One that has ended meanwhile needs no signal.
    fn signal(&self, signal: Signal) {
        let _ = rustix::process::pidfd_send_signal(self.handle.as_fd(), signal);
    }

    /// Whether it is a child of this process, as the kernel says: only for a child can one wait.
    fn is_child(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        nix::sys::wait::waitid(Id::PIDFd(self.handle.as_fd()), flags).is_ok()
    }
}

/// The children of this process.
fn children_of_this() -> io::Result<Vec<Member>> {
    let held = |pid| Member::hold(pid).filter(Member::is_child);
    let own = Pid::this();
    // Not every kernel has this file; what is not listed here is found by its parent.
    if let Ok(list) = fs::read_to_string(format!("/proc/{own}/task/{own}/children")) {
        return Ok(list.split_ascii_whitespace().filter_map(|pid| held(Pid::from_raw(pid.parse().ok()?))).collect());
    }
    Ok(numbers()?.filter(|pid| parent_of(*pid) == Some(own)).filter_map(held).collect())
}

/// Shows each process that descends from `top`, seen to do so after a handle on it was taken. One handle at a time: there may
/// be more processes than a process may have files.
fn each_descendant(top: Pid, mut show: impl FnMut(&Member)) -> io::Result<()> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for pid in numbers()? {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut found, mut open) = (Vec::new(), vec![top]);
    while let Some(next) = open.pop() {
        // Taken out, so that a circle made of numbers that were used again comes to an end.
        for child in children.remove(&next).unwrap_or_default() {
            found.push(child);
            open.push(child);
        }
    }
    found.into_iter().filter_map(Member::hold).filter(|it| descends(it.pid, top)).for_each(|it| show(&it));
    Ok(())
}

/// Whether the process with this number descends from `top`, which lives.
///
/// The way up is read twice. A process's parent changes only once, to an adopter above it, when the parent ends. So where
/// both readings agree, every link of the way held at one moment, between the two; one reading alone could put together
/// links of different times, over a number that was used again.
fn descends(pid: Pid, top: Pid) -> bool {
    let way = || {
        let mut way = vec![pid];
        while let Some(last) = way.last()
            && *last != top
        {
            let parent = parent_of(*last).filter(|parent| !way.contains(parent) && parent.as_raw() > 0)?;
            way.push(parent);
        }
        Some(way)
    };
    pid != top && way().is_some_and(|first| way() == Some(first))
}

/// The numbers of all processes that can be seen.
fn numbers() -> io::Result<impl Iterator<Item = Pid>> {
    let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).map(Pid::from_raw))
}

fn parent_of(pid: Pid) -> Option<Pid> {
    Stat::of(pid)?.parent()
}

/// What came of looking for an ended child.
pub(crate) enum Collected {
    /// One had ended, and is collected.
    Ended(Pid, WaitStatus),
    /// None has ended yet.
    Later,
    /// There is no child at all.
    NoChild,
}

impl Collected {
    /// The ended one.
    pub(crate) fn ended(self) -> Option<(Pid, WaitStatus)> {
        match self {
            Self::Ended(pid, status) => Some((pid, status)),
            Self::Later | Self::NoChild => None,
        }
    }
}

/// Collects one ended child.
pub(crate) fn collect_one(flags: WaitPidFlag) -> io::Result<Collected> {
    loop {
        match nix::sys::wait::waitpid(None, Some(flags)) {
            Ok(status @ (WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..))) => {
                return Ok(Collected::Ended(pid, status));
            }
            Ok(WaitStatus::StillAlive) => return Ok(Collected::Later),
            Err(nix::Error::ECHILD) => return Ok(Collected::NoChild),
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A control group of a box's own, which the kernel kills as one.
#[derive(Clone, Debug)]
pub(crate) struct KillGroup {
    folder: PathBuf,
}

impl KillGroup {
    /// A new one in `parent`, with a name that nobody else has.
    pub(crate) fn make(parent: &Path) -> io::Result<Self> {
        cgroup::remove_left_overs(parent);
        let folder = parent.join(cgroup::own_name());
        fs::create_dir(&folder)?;
        let group = Self { folder };
        // Older kernels have none.
        match group.folder.join("cgroup.kill").symlink_metadata() {
            Ok(_) => Ok(group),
            Err(error) => {
                group.remove();
                Err(error)
            }
        }
    }

    /// Moves this process into it, with all it will start.
    pub(crate) fn join(&self) -> io::Result<()> {
        self.write("cgroup.procs", b"0")
    }

    /// Kills all in it. Nobody in it can keep that from happening; where it fails for another reason, its members are killed
    /// one by one all the same.
    fn kill(&self) {
        drop(self.write("cgroup.kill", b"1"));
    }

    /// Removes it. One that is not empty stays.
    pub(crate) fn remove(&self) {
        let _ = rustix::fs::rmdir(&self.folder);
    }

    fn write(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        let file = rustix::fs::open(
            self.folder.join(file),
            rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?;
        rustix::io::write(&file, bytes).map(drop)?;
        Ok(())
    }
}

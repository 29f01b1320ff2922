//! Control groups, version 2: finding a place where groups can be made, and one group for each box.
//!
//! ```text
//! parent/                                  found by the probe; its controllers are on for what lies below
//!   sandbox-box-<pid>-<start time>-<n>/    one box: its share of the processor
//!     commands/                            its commands: memory and processes
//!     apart/                               what serves it, so that running out of memory does not take the one who tells
//! ```
//!
//! The kernel wants processes at the ends of the tree only, and whoever moves one must be able to write `cgroup.procs` of
//! the nearest group above both places. So a program cannot in general make groups below its own; the parent is the own
//! group, or the nearest one above it, that can be written and passes controllers on.
//!
//! The names say whose they are: what a program that was killed has left is removed by the next one that makes a box there.
//! Sources: `Documentation/admin-guide/cgroup-v2.rst` of the kernel, `proc_pid_mountinfo(5)`, `cgroups(7)`.

use crate::stat::Stat;
use crate::wire::Fault;
use nix::unistd::Pid;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the names of our groups begin with.
const PREFIX: &str = "sandbox-box-";
const COMMANDS: &str = "commands";
const APART: &str = "apart";

/// A place below which this program can make control groups, and what they can bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroups {
    /// The group below which they are made.
    pub parent: PathBuf,
    /// Whether they bound memory.
    pub memory: bool,
    /// Whether they bound the number of processes.
    pub processes: bool,
    /// Whether they have a share of the processor.
    pub cpu: bool,
}

impl ControlGroups {
    /// Looks for places, the best first. That a process can be moved there is still to be tried.
    pub(crate) fn find() -> Vec<Self> {
        Self::among(&places())
    }

    /// Those of the candidates where a group can be made that bounds something. Of those that bound as much, the first.
    fn among(candidates: &[PathBuf]) -> Vec<Self> {
        let mut all: Vec<Self> = candidates.iter().filter_map(|parent| Self::at(parent)).collect();
        all.sort_by_key(|groups| std::cmp::Reverse(groups.count()));
        all
    }

    fn count(&self) -> u8 {
        [self.memory, self.processes, self.cpu].into_iter().map(u8::from).sum()
    }

    /// Tries one place, by making a group.
    fn at(parent: &Path) -> Option<Self> {
        let tried = parent.join(own_name());
        std::fs::create_dir(&tried).ok()?;
        std::fs::remove_dir(&tried).ok()?;
        let words = |name: &str| std::fs::read_to_string(parent.join(name)).unwrap_or_default();
        let has = |text: &str, word: &str| text.split_whitespace().any(|other| other == word);
        let (offered, passed_on) = (words("cgroup.controllers"), words("cgroup.subtree_control"));
        for controller in ["memory", "pids", "cpu"] {
            if has(&offered, controller) && !has(&passed_on, controller) {
                // Refused where the group holds processes, or is not ours to change; what counts is read back.
                let _ = write(CWD, &parent.join("cgroup.subtree_control"), &format!("+{controller}"));
            }
        }
        let passed_on = words("cgroup.subtree_control");
        let of = |word| has(&passed_on, word);
        let groups = Self { parent: parent.to_owned(), memory: of("memory"), processes: of("pids"), cpu: of("cpu") };
        (groups.count() > 0).then_some(groups)
    }
}

/// The program's own group, and all above it.
pub(crate) fn places() -> Vec<PathBuf> {
    let read = |path: &str| std::fs::read(path).unwrap_or_default();
    candidates(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

/// The same, from what the kernel says.
fn candidates(own: &[u8], mounts: &[u8]) -> Vec<PathBuf> {
    let own = lines(own).find_map(|line| line.strip_prefix(b"0::")).map(|path| PathBuf::from(OsStr::from_bytes(path)));
    let Some(own) = own.filter(|own| own.is_absolute() && !own.components().any(|part| part == Component::ParentDir))
    else {
        return Vec::new();
    };
    for line in lines(mounts) {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [_, _, _, root, point, ..] = fields.as_slice() else {
            continue;
        };
        let kind = fields.iter().position(|field| *field == b"-").and_then(|dash| fields.get(dash + 1));
        if kind != Some(&b"cgroup2".as_slice()) {
            continue;
        }
        let (root, point) = (unescaped(root), unescaped(point));
        if let Ok(below) = own.strip_prefix(&root) {
            return below.ancestors().map(|part| point.join(part).components().collect()).collect();
        }
    }
    Vec::new()
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

/// A path of `mountinfo`, where white space and backslashes stand in octal.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            path.push(byte);
            rest = after.get(3..).unwrap_or_default();
        } else {
            path.push(*first);
            rest = after;
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

/// A name that no other process gives, nor this one twice.
pub(crate) fn own_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let pid = std::process::id();
    let start = start_time(pid).unwrap_or(0);
    format!("{PREFIX}{pid}-{start}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn start_time(pid: u32) -> Option<u64> {
    Stat::of(Pid::from_raw(i32::try_from(pid).ok()?))?.start()
}

/// Whether a group of this name is one of ours whose maker is gone.
fn is_left_over(name: &OsStr) -> bool {
    let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
        return false;
    };
    let numbers: Vec<Option<u64>> = rest.split('-').map(|number| number.parse().ok()).collect();
    match numbers.as_slice() {
        [Some(pid), Some(start), Some(_)] => u32::try_from(*pid).is_ok_and(|pid| start_time(pid) != Some(*start)),
        _ => false,
    }
}

/// Removes what programs that are gone have left. The kernel removes no group that has a process in it.
pub(crate) fn remove_left_overs(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if is_left_over(&entry.file_name()) {
            remove(&entry.path());
        }
    }
}

fn remove(group: &Path) -> bool {
    // An inner one that is not there is as good as removed; what counts is the outer one.
    for inner in [COMMANDS, APART] {
        drop(std::fs::remove_dir(group.join(inner)));
    }
    match std::fs::remove_dir(group) {
        Ok(()) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn write(at: BorrowedFd<'_>, path: &Path, text: &str) -> Result<(), Errno> {
    let file = rustix::fs::openat(at, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes()).map(drop)
}

/// What a group bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) memory: Option<u64>,
    pub(crate) processes: Option<u32>,
    pub(crate) cpu_weight: Option<u16>,
}

impl Bounds {
    /// The controllers that the inner groups need.
    fn controllers(self) -> String {
        let memory = self.memory.map(|_| "+memory");
        let processes = self.processes.map(|_| "+pids");
        [memory, processes].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// What is written where, in order, and whether a kernel may lack it.
    fn settings(self) -> Vec<(PathBuf, String, bool)> {
        let commands = Path::new(COMMANDS);
        let mut all = Vec::new();
        if let Some(weight) = self.cpu_weight {
            all.push((PathBuf::from("cpu.weight"), weight.to_string(), false));
        }
        if let Some(memory) = self.memory {
            all.push((commands.join("memory.max"), memory.to_string(), false));
            // Missing where the kernel does not account for swap, or has none.
            all.push((commands.join("memory.swap.max"), "0".to_owned(), true));
            // Linux 4.19. All or nothing: an agent that lost one process at random would be none the wiser.
            all.push((commands.join("memory.oom.group"), "1".to_owned(), false));
        }
        if let Some(processes) = self.processes {
            all.push((commands.join("pids.max"), processes.to_string(), false));
        }
        all
    }
}

/// The group of one box, as its parent holds it. Dropped, it is removed if it is empty.
#[derive(Debug)]
pub(crate) struct Leaf {
    path: PathBuf,
}

impl Leaf {
    /// Makes the group, and opens what the box needs of it: see [`Group::of`]. The files keep the rights they are opened
    /// with, whatever becomes of the process that has them.
    pub(crate) fn make(parent: &Path, bounds: Bounds) -> Result<(Self, Vec<OwnedFd>), Fault> {
        remove_left_overs(parent);
        let path = parent.join(own_name());
        std::fs::create_dir(&path).map_err(|error| Fault::from(error).at(&path))?;
        // Removed again if what follows fails.
        let leaf = Self { path };
        let files = leaf.set_up(bounds)?;
        Ok((leaf, files))
    }

    fn set_up(&self, bounds: Bounds) -> Result<Vec<OwnedFd>, Fault> {
        let at = |name: &Path| self.path.join(name);
        let controllers = bounds.controllers();
        if !controllers.is_empty() {
            let control = at(Path::new("cgroup.subtree_control"));
            write(CWD, &control, &controllers).map_err(|errno| Fault::from(errno).at(&control))?;
        }
        for inner in [COMMANDS, APART] {
            let inner = at(Path::new(inner));
            match std::fs::create_dir(&inner) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                other => other.map_err(|error| Fault::from(error).at(&inner))?,
            }
        }
        for (name, value, may_lack) in bounds.settings() {
            match write(CWD, &at(&name), &value) {
                Err(Errno::NOENT) if may_lack => {}
                other => other.map_err(|errno| Fault::from(errno).at(at(&name)))?,
            }
        }
        let open = |name: &Path, flags: OFlags| {
            let path = at(name);
            rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| Fault::from(errno).at(path))
        };
        let commands = Path::new(COMMANDS);
        let mut files = vec![
            open(commands, OFlags::RDONLY | OFlags::DIRECTORY)?,
            open(&commands.join("cgroup.procs"), OFlags::WRONLY)?,
            open(&Path::new(APART).join("cgroup.procs"), OFlags::WRONLY)?,
        ];
        // Linux 5.14. Without it the pid namespace does the same.
        files.extend(open(&commands.join("cgroup.kill"), OFlags::WRONLY).ok());
        Ok(files)
    }

    /// Removes it. False: a process is still in it.
    pub(crate) fn remove(&self) -> bool {
        remove(&self.path)
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The same group, as seen by the processes that serve its box.
#[derive(Debug)]
pub(crate) struct Group {
    commands: OwnedFd,
    enter: OwnedFd,
    apart: OwnedFd,
    kill: Option<OwnedFd>,
}

impl Group {
    /// From the files that came with the order to start.
    pub(crate) fn of(files: Vec<OwnedFd>) -> Option<Self> {
        let mut files = files.into_iter();
        Some(Self { commands: files.next()?, enter: files.next()?, apart: files.next()?, kill: files.next() })
    }

    /// This process becomes one of the commands.
    pub(crate) fn enter(&self) -> Result<(), Errno> {
        rustix::io::write(&self.enter, b"0").map(drop)
    }

    /// This process becomes one that serves the box.
    pub(crate) fn step_aside(&self) -> Result<(), Errno> {
        rustix::io::write(&self.apart, b"0").map(drop)
    }

    /// Kills the commands, where the kernel can. Whether it could is of no account: init kills them as well.
    pub(crate) fn kill(&self) {
        if let Some(kill) = &self.kill {
            let _ = rustix::io::write(kill, b"1");
        }
    }

    /// The number in a file that holds just that.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.read(name)?.trim().parse().ok()
    }

    /// The number after `key` in a file of keys and numbers.
    pub(crate) fn count(&self, name: &str, key: &str) -> Option<u64> {
        keyed(&self.read(name)?, key)
    }

    fn read(&self, name: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.commands.as_fd(), name, flags, Mode::empty()).ok()?;
        let mut text = [0; 512];
        let length = rustix::io::read(&file, &mut text).ok()?;
        String::from_utf8(text.get(..length)?.to_vec()).ok()
    }
}

/// The number after `key` in a text of a key and a number a line.
pub(crate) fn keyed(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
mod tests;

//! Init's watch over what its box uses, while a command runs.
//!
//! Each look is cheap: a few small files of `/proc` and the free space of the file systems. Processes are gone through only
//! where a limit asks for it, folders are walked when a file system has filled up so far that the limit could have been
//! reached, and else in a fiftieth of the time at most. The time between looks grows with what a look costs.

use crate::bounds::{DEFAULT_PROCESSES, Watch};
use crate::cgroup::Group;
use crate::limit::{LimitHit, Limited};
use crate::plan::Enforcement;
use crate::reach::Family;
use crate::usage::{self, Device, Held, Machine};
use crate::walk::{Measured, Walk};
use crate::wire::Status;
use nix::libc;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks at a box that has limits.
const LIMITED: Duration = Duration::from_millis(100);
/// Between two looks at one that has none, for the machine's sake.
const UNLIMITED: Duration = Duration::from_millis(250);
/// Between two looks when a limit is near, or a walk is under way.
const NEAR: Duration = Duration::from_millis(20);
/// The rest after a look, in times of the processor's time it took: looking costs a thirtieth of a processor at most.
const REST: u32 = 30;
/// But no longer than this, however many processes there are.
const LONGEST: Duration = Duration::from_millis(500);
/// How long a walk goes on at a time.
const SLICE: Duration = Duration::from_millis(5);
/// Folders are walked again after this many times what it took, whatever the file systems say: what this box writes may be
/// hidden by what another removes.
const AGAIN: u32 = 50;
/// But not sooner, and not later, than this.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_mins(1);
/// Folders that take no longer than this are always walked when a command has ended.
const QUICK: Duration = Duration::from_millis(250);
/// How long the last walk, when a command has ended, may take.
const LAST: Duration = Duration::from_secs(10);

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A file system that the box can fill.
#[derive(Clone, Debug)]
struct Disk {
    path: PathBuf,
    device: Device,
    /// What was in use when the box was made, and when the last walk began.
    at_first: u64,
    at_walk: u64,
    free_at_first: u64,
    now: u64,
    free: u64,
}

impl Disk {
    fn look(&mut self) {
        // Left as it is where it cannot be told: the next walk does not depend on it.
        if let Ok((_, used, free)) = usage::space(&self.path) {
            (self.now, self.free) = (used, free);
        }
    }

    /// Whether it is nearly full, and has become so since the box was made.
    fn is_scarce(&self) -> bool {
        self.free < GIB.min(self.free_at_first / 4) && self.gained() > GIB
    }

    fn gained(&self) -> u64 {
        self.now.saturating_sub(self.at_first)
    }

    /// What a box that holds `held` is ended for, to leave the machine some space. It is blamed for what it has and for
    /// what the file system has gained, whichever is less.
    fn judge(&self, held: u64) -> Option<LimitHit> {
        let added = held.min(self.gained());
        let to_blame = self.is_scarce() && added > GIB;
        to_blame.then_some(LimitHit { what: Limited::Disk, limit: self.free, used: added, of_machine: true })
    }
}

/// How much memory the machine is to have left.
fn reserve(machine: &Machine) -> u64 {
    (512 * MIB).min(machine.total / 16)
}

/// What a box that uses so much is ended for.
fn judge_memory(machine: &Machine, used: u64, most: Option<u64>) -> Option<LimitHit> {
    let hit = |limit, of_machine| Some(LimitHit { what: Limited::Memory, limit, used, of_machine });
    match most {
        Some(most) if used >= most => hit(most, false),
        _ if machine.available < reserve(machine) && used > machine.total / 4 => hit(machine.available, true),
        Some(_) | None => None,
    }
}

/// What has been found out about the space in use.
#[derive(Debug, Default)]
struct Space {
    disks: Vec<Disk>,
    walk: Option<Walk>,
    /// What the walk under way has taken so far.
    spent: Duration,
    /// The last sum, and when it was there and what it took.
    held: Option<Measured>,
    first: Option<u64>,
    ended: Option<Instant>,
    took: Duration,
}

/// The watch over one box.
pub(crate) struct Watchdog<'a> {
    watch: &'a Watch,
    /// The processes of the box.
    family: &'a Family,
    group: Option<&'a Group>,
    file_size: Option<u64>,
    page: u64,
    scratch: Vec<PathBuf>,
    space: Space,
    shared_at_least: u64,
    swapped_at_first: u64,
    kills_at_first: u64,
    group_kills_at_first: u64,
    refusals_at_first: u64,
    used: u64,
    /// Processes that let nobody see their files, when that was last asked. One that has just been started does so for a
    /// moment; one that is among them again hides them.
    unseen: Vec<u32>,
    filling: bool,
    /// The most processes seen in one look.
    crowd: u64,
    crowded: bool,
    was_crowded: bool,
    due: Option<Instant>,
}

impl<'a> Watchdog<'a> {
    pub(crate) fn new(enforcement: &'a Enforcement, family: &'a Family, group: Option<&'a Group>) -> Self {
        let watch = enforcement.watch();
        let machine = Machine::read().unwrap_or_default();
        let paths = |all: &[std::ffi::OsString]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let space = Space { disks: disks(enforcement.workdir(), &paths(&watch.writable)), ..Space::default() };
        Self {
            watch,
            family,
            group,
            file_size: enforcement.file_size(),
            page: rustix::param::page_size() as u64,
            // Where the host has no such folder, or a link to elsewhere, there is none.
            scratch: paths(&watch.scratch).into_iter().filter(|path| usage::is_in_memory(path)).collect(),
            space,
            shared_at_least: machine.shared,
            swapped_at_first: machine.swapped,
            kills_at_first: usage::killed_for_memory(),
            group_kills_at_first: group_kills(group),
            refusals_at_first: refusals(group),
            used: 0,
            unseen: Vec::new(),
            filling: false,
            crowd: 0,
            crowded: false,
            was_crowded: false,
            due: None,
        }
    }

    /// A command is to be watched from now on.
    pub(crate) fn begin(&mut self) {
        if self.due.is_none() {
            self.kills_at_first = usage::killed_for_memory();
            self.group_kills_at_first = group_kills(self.group);
            self.refusals_at_first = refusals(self.group);
            (self.crowded, self.was_crowded, self.crowd) = (false, false, 0);
            self.due = Some(Instant::now() + NEAR);
        }
    }

    /// Nothing runs any more.
    pub(crate) fn rest(&mut self) {
        self.due = None;
    }

    /// How long until the next look; `None` while there is nothing to watch.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Looks, if it is time; what the box is to be ended for.
    pub(crate) fn look(&mut self) -> Option<LimitHit> {
        let begun = Instant::now();
        if self.due.is_none_or(|due| due > begun) {
            return None;
        }
        let before = processor_time();
        let (hit, near) = self.look_now();
        let took = processor_time().saturating_sub(before);
        let few = self.watch.processes.is_some_and(|most| most < DEFAULT_PROCESSES);
        let limited = few || self.watch.memory.is_some() || self.watch.disk.is_some();
        let usual = if limited { LIMITED } else { UNLIMITED };
        self.due = Some(Instant::now() + if near { NEAR } else { usual }.max((took * REST).min(LONGEST)));
        if self.space.walk.is_some() {
            self.due = Some(Instant::now() + NEAR.max(took * 4));
        }
        hit
    }

    fn look_now(&mut self) -> (Option<LimitHit>, bool) {
        let (memory, near) = self.look_at_memory();
        if memory.is_some() {
            return (memory, near);
        }
        let crowd = self.look_at_processes();
        if crowd.is_some() {
            return (crowd, near);
        }
        (self.look_at_disks(), near || self.filling)
    }

    fn look_at_memory(&mut self) -> (Option<LimitHit>, bool) {
        let Ok(machine) = Machine::read() else {
            return (None, false);
        };
        self.shared_at_least = self.shared_at_least.min(machine.shared);
        let reserve = reserve(&machine);
        let most = self.watch.memory;
        if most.is_none() && machine.available >= reserve {
            return (None, machine.available < 2 * reserve);
        }
        self.used = self.memory(&machine);
        let near = machine.available < 2 * reserve || most.is_some_and(|most| self.used > most / 2);
        (judge_memory(&machine, self.used, most), near)
    }

    /// The memory of the box, in bytes; more exactly the more there may be.
    fn memory(&mut self, machine: &Machine) -> u64 {
        if let Some(used) = self.group.and_then(|group| group.number("memory.current")) {
            return used;
        }
        let processes = self.processes().unwrap_or_default();
        let files: u64 = self.scratch.iter().filter_map(|path| usage::space(path).ok()).map(|(_, used, _)| used).sum();
        let private = usage::private(&processes, self.page);
        let grown = machine.shared.saturating_sub(self.shared_at_least);
        let swapped = machine.swapped.saturating_sub(self.swapped_at_first);
        let most = self.watch.memory.unwrap_or(machine.total / 4);
        let quick = private + files;
        if quick >= most || quick + grown.saturating_sub(files) + swapped < most {
            return quick;
        }
        let scratch: Vec<Device> = self.scratch.iter().filter_map(|path| Some(usage::space(path).ok()?.0)).collect();
        let (held, hides) = self.nameless(&processes, &scratch);
        let (private, mapped) = usage::resident(&processes);
        // What several have mapped is counted for each of them, but there is no more of it than the machine has come to hold.
        // A process that lets nobody see its files is taken to have all of that.
        let seen = files + mapped + held.in_memory + usage::segments();
        private + files.max(if hides { grown } else { grown.min(seen) })
    }

    /// What files without a name hold, and whether some process hides its files.
    fn nameless(&mut self, processes: &[u32], counted: &[Device]) -> (Held, bool) {
        let disks: Vec<Device> = self.space.disks.iter().map(|disk| disk.device).collect();
        let held = usage::nameless(processes, &disks, counted);
        let hides = held.unseen.iter().any(|pid| self.unseen.contains(pid));
        self.unseen.clone_from(&held.unseen);
        (held, hides)
    }

    fn look_at_processes(&mut self) -> Option<LimitHit> {
        let most = self.watch.processes?;
        let count = self.count_processes(u64::from(most))?;
        let crowded = count >= u64::from(most);
        let hit = crowded && self.crowded;
        self.crowded = crowded;
        self.filling = count > u64::from(most) / 2;
        self.crowd = self.crowd.max(count);
        self.was_crowded |= crowded;
        hit.then_some(LimitHit { what: Limited::Processes, limit: u64::from(most), used: count, of_machine: false })
    }

    /// The processes of the box but its init.
    fn processes(&self) -> io::Result<Vec<u32>> {
        Ok(self.family.members()?.into_iter().filter_map(|pid| u32::try_from(pid.as_raw()).ok()).collect())
    }

    /// How many there are, where they can be as many as that.
    fn count_processes(&self, most: u64) -> Option<u64> {
        if let Some(count) = self.group.and_then(|group| group.number("pids.current")) {
            return Some(count);
        }
        if usage::threads_of_machine() < most {
            return Some(0);
        }
        Some(usage::threads(&self.processes().ok()?))
    }

    fn look_at_disks(&mut self) -> Option<LimitHit> {
        let now = Instant::now();
        self.space.disks.iter_mut().for_each(Disk::look);
        if self.space.walk.is_none() && self.is_walk_due(now) {
            self.space.begin(self.watch);
        }
        self.space.go_on(SLICE)?;
        self.judge_space()
    }

    fn is_walk_due(&self, now: Instant) -> bool {
        let space = &self.space;
        let rested = space.ended.is_none_or(|ended| now >= ended + space.took);
        let forced = space.ended.is_none_or(|ended| now >= ended + (space.took * AGAIN).clamp(SOONEST, LATEST));
        match self.watch.disk {
            Some(most) => forced || (rested && space.could_be() >= most) || (rested && space.is_scarce()),
            None => rested && space.is_scarce(),
        }
    }

    /// What the last walk says.
    fn judge_space(&mut self) -> Option<LimitHit> {
        let used = self.held_on_disk();
        let space = &self.space;
        if let Some(most) = self.watch.disk.filter(|most| used > *most) {
            return Some(LimitHit { what: Limited::Disk, limit: most, used, of_machine: false });
        }
        space.disks.first()?.judge(used)
    }

    /// What was measured, with the files that have no name. Where something could not be seen, everything that the file
    /// systems have gained counts as the box's: one that hides files must not gain by it.
    fn held_on_disk(&mut self) -> u64 {
        let (held, hides) = self.nameless(&self.processes().unwrap_or_default(), &[]);
        let space = &self.space;
        let measured = space.held.unwrap_or_default();
        let used = measured.bytes + held.on_disk;
        if measured.unseen || hides {
            let gained: u64 = space.disks.iter().map(Disk::gained).sum();
            return used.max(space.first.unwrap_or(0) + gained);
        }
        used
    }

    /// What the end of a command was about, before anything else is killed; `None` where no limit had a part in it.
    pub(crate) fn judge_end(&mut self, status: Status) -> Option<LimitHit> {
        let own = |what, limit, used| LimitHit { what, limit, used, of_machine: false };
        if let Some(most) = self.file_size
            && is_by(status, libc::SIGXFSZ)
        {
            return Some(own(Limited::FileSize, most, most));
        }
        if group_kills(self.group) > self.group_kills_at_first {
            let limit = self.group.and_then(|group| group.number("memory.max")).unwrap_or(0);
            return Some(own(Limited::Memory, limit, limit));
        }
        if is_by(status, libc::SIGKILL) && usage::killed_for_memory() > self.kills_at_first {
            let left = Machine::read().unwrap_or_default().available;
            return Some(LimitHit { what: Limited::Memory, limit: left, used: self.used, of_machine: true });
        }
        if status == Status::Exited(0) {
            return None;
        }
        let most = u64::from(self.watch.processes?);
        // Those that met the limit, and the shell that started them, have ended themselves by now.
        let nearly = most - (most / 16).max(2).min(most / 2);
        let count = self.count_processes(nearly).unwrap_or(0);
        let met = self.was_crowded || count >= nearly || refusals(self.group) > self.refusals_at_first;
        met.then_some(own(Limited::Processes, most, count.max(self.crowd)))
    }

    /// Measures once more when everything is dead, if there may be too much: a command may have been quicker than the watch.
    pub(crate) fn judge_what_is_left(&mut self) -> Option<LimitHit> {
        let most = self.watch.disk?;
        self.space.disks.iter_mut().for_each(Disk::look);
        if self.space.could_be() < most && self.space.took > QUICK {
            return None;
        }
        self.space.begin(self.watch);
        self.space.go_on(LAST)?;
        self.judge_space()
    }
}

impl Space {
    /// What could be in use by now, if all that the file systems have gained were the box's.
    fn could_be(&self) -> u64 {
        let gained: u64 = self.disks.iter().map(|disk| disk.now.saturating_sub(disk.at_walk)).sum();
        self.held.map_or(u64::MAX, |held| held.bytes.saturating_add(gained))
    }

    /// Whether the file system of the working directory is nearly full, and has become so.
    fn is_scarce(&self) -> bool {
        self.disks.first().is_some_and(Disk::is_scarce)
    }

    fn begin(&mut self, watch: &Watch) {
        for disk in &mut self.disks {
            disk.at_walk = disk.now;
        }
        self.spent = Duration::ZERO;
        self.walk = Some(Walk::new(watch.writable.iter().map(PathBuf::from).collect()));
    }

    /// Goes on with the walk for so long; `None` while it is not done.
    fn go_on(&mut self, time: Duration) -> Option<()> {
        let begun = Instant::now();
        let measured = self.walk.as_mut()?.go_on(begun + time);
        self.spent += begun.elapsed();
        let measured = measured?;
        self.walk = None;
        self.held = Some(measured);
        self.first.get_or_insert(measured.bytes);
        self.ended = Some(Instant::now());
        self.took = self.spent;
        Some(())
    }
}

/// The file systems that a box can fill; the working directory's first.
fn disks(workdir: &Path, writable: &[PathBuf]) -> Vec<Disk> {
    let mut all: Vec<Disk> = Vec::new();
    for path in [workdir].into_iter().chain(writable.iter().map(PathBuf::as_path)) {
        let Ok((device, used, free)) = usage::space(path) else {
            continue;
        };
        if all.iter().all(|disk| disk.device != device) {
            let (path, now) = (path.to_owned(), used);
            all.push(Disk { path, device, at_first: used, at_walk: used, free_at_first: free, now, free });
        }
    }
    all
}

/// What this thread has had of the processor. On a busy machine time goes by without any, and the watch must not slow down
/// just then.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn group_kills(group: Option<&Group>) -> u64 {
    group.and_then(|group| group.count("memory.events", "oom_kill")).unwrap_or(0)
}

/// How many processes a group refused, for there were enough.
fn refusals(group: Option<&Group>) -> u64 {
    group.and_then(|group| group.count("pids.events", "max")).unwrap_or(0)
}

/// Whether a command died by a signal, or is a shell that tells of one that did.
fn is_by(status: Status, signal: i32) -> bool {
    status == Status::Signaled(signal) || status == Status::Exited(128 + signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_keeps_a_reserve_of_memory() {
        let machine = |total, available| Machine { total, available, ..Machine::default() };
        let table = [
            // Enough is left, however much the box uses.
            (machine(24 * GIB, 513 * MIB), 20 * GIB, None, None),
            // Too little is left, and it is this box that has it.
            (machine(24 * GIB, 511 * MIB), 7 * GIB, None, Some((511 * MIB, true))),
            // Too little is left, and others have it.
            (machine(24 * GIB, 1), 6 * GIB, None, None),
            // A small machine keeps less.
            (machine(4 * GIB, 257 * MIB), 3 * GIB, None, None),
            (machine(4 * GIB, 255 * MIB), 3 * GIB, None, Some((255 * MIB, true))),
            // Its own limit comes first.
            (machine(4 * GIB, 1), 3 * GIB, Some(3 * GIB), Some((3 * GIB, false))),
            (machine(4 * GIB, 3 * GIB), 2 * GIB, Some(3 * GIB), None),
            (machine(4 * GIB, 100 * MIB), 2 * GIB, Some(3 * GIB), Some((100 * MIB, true))),
        ];
        for (machine, used, most, expected) in table {
            let hit = judge_memory(&machine, used, most);
            assert_eq!(hit.map(|hit| (hit.limit, hit.of_machine)), expected, "{machine:?} {used} {most:?}");
            assert!(hit.is_none_or(|hit| hit.what == Limited::Memory && hit.used == used));
        }
    }

    #[test]
    fn the_machine_keeps_a_reserve_of_disk() {
        let disk = |free_at_first, free, gained| Disk {
            path: PathBuf::new(),
            device: (0, 0),
            at_first: GIB,
            at_walk: GIB,
            free_at_first,
            now: GIB + gained,
            free,
        };
        let table = [
            (disk(60 * GIB, 2 * GIB, 50 * GIB), 50 * GIB, None),
            (disk(60 * GIB, GIB - 1, 50 * GIB), 50 * GIB, Some(50 * GIB)),
            // Others filled it, and this box has little, or had what it has before.
            (disk(60 * GIB, 1, 50 * GIB), GIB, None),
            (disk(60 * GIB, 1, GIB), 50 * GIB, None),
            // Nearly full when it began: a quarter of that is kept.
            (disk(2 * GIB, 600 * MIB, 3 * GIB), 3 * GIB, None),
            (disk(2 * GIB, 500 * MIB, 3 * GIB), 2 * GIB, Some(2 * GIB)),
        ];
        for (disk, held, expected) in table {
            let hit = disk.judge(held);
            assert_eq!(hit.map(|hit| hit.used), expected, "{disk:?} {held}");
            assert!(hit.is_none_or(|hit| hit.of_machine && hit.limit == disk.free && hit.what == Limited::Disk));
        }
    }

    #[test]
    fn a_shell_passes_on_what_its_command_died_of() {
        assert!(is_by(Status::Signaled(25), 25) && is_by(Status::Exited(153), 25));
        assert!(!is_by(Status::Exited(25), 25) && !is_by(Status::Signaled(9), 25));
    }
}

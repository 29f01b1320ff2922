//! What the processes of a box use, read from `/proc`.
//!
//! Two ways of counting memory. The quick one reads `statm` of each process: private pages. The whole one adds what is
//! shared or swapped out, or held by a memory file or a segment that nobody has mapped. It is taken when the machine's own
//! count of such memory has grown far enough to matter.
//!
//! Not seen by either: what the kernel holds for a process (page tables, pipes, socket buffers), and a memory file on its
//! way through a socket or of a process that made itself unreadable. The machine's reserve is for those.
//! Sources: `proc_pid_statm(5)`, `proc_pid_status(5)`, `proc_meminfo(5)`, `proc_sysvipc(5)`.

use crate::cgroup::keyed;
use crate::stat::Stat;
use rustix::fs::{AtFlags, CWD, FileType, OFlags, StatxFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

/// A file that a process has open and that has no name any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Nameless {
    device: (u32, u32),
    inode: u64,
}

/// What nameless files hold, by where: on the file systems asked about, and elsewhere, which is memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub(crate) on_disk: u64,
    pub(crate) in_memory: u64,
    /// Processes whose files could not be looked at.
    pub(crate) unseen: Vec<u32>,
}

/// A file system, by its device.
pub(crate) type Device = (u32, u32);

/// Threads of all of them. One that ends meanwhile counts as none.
pub(crate) fn threads(processes: &[u32]) -> u64 {
    processes.iter().map(|pid| threads_of(*pid)).sum()
}

/// The folder of a process's threads has a link for each of them, beside its own two.
fn threads_of(pid: u32) -> u64 {
    let path = format!("/proc/{pid}/task");
    match rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::NLINK) {
        Ok(found) => u64::from(found.stx_nlink).saturating_sub(2).max(1),
        Err(_) => 0,
    }
}

/// What the first thread of a process has in its file `name` that is good. They share what is asked about, but one that has
/// ended has nothing any more; and the first, whose files stand for the process, may end before the others.
fn of_some_thread(pid: u32, name: &str, is_good: impl Fn(&str) -> bool) -> Option<String> {
    let first = std::fs::read_to_string(format!("/proc/{pid}/{name}")).ok()?;
    if is_good(&first) {
        return Some(first);
    }
    let others = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let text = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join(name)).ok();
    others.filter_map(Result::ok).filter_map(text).find(|text| is_good(text))
}

/// Private memory of all processes, in bytes.
pub(crate) fn private(processes: &[u32], page: u64) -> u64 {
    processes
        .iter()
        .filter_map(|pid| of_some_thread(*pid, "statm", |statm| !statm.starts_with("0 ")))
        .map(|statm| {
            let mut fields = statm.split(' ').skip(1).map(|number| number.parse::<u64>().unwrap_or(0));
            let (resident, shared) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
            resident.saturating_sub(shared) * page
        })
        .sum()
}

/// Private memory, that in swap, and what is shared and mapped, of all processes, in bytes.
pub(crate) fn resident(processes: &[u32]) -> (u64, u64) {
    let mut sums = (0, 0);
    let has_memory = |status: &str| status.contains("\nVmRSS:");
    for status in processes.iter().filter_map(|pid| of_some_thread(*pid, "status", has_memory)) {
        let field = |name| status_field(&status, name);
        sums.0 += field("RssAnon:") + field("VmSwap:");
        sums.1 += field("RssShmem:");
    }
    sums
}

/// A field of `status` or `meminfo`, in bytes: there it stands in units of 1024.
fn status_field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Segments of shared memory of the box's ipc namespace, mapped or not, in bytes.
pub(crate) fn segments() -> u64 {
    segments_of(&std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default())
}

fn segments_of(table: &str) -> u64 {
    let mut lines = table.lines();
    let heads: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let columns = ["rss", "swap"].map(|name| heads.iter().position(|head| *head == name));
    let sum = |line: &str| -> u64 {
        let fields: Vec<&str> = line.split_whitespace().collect();
        columns.iter().filter_map(|column| fields.get((*column)?)?.parse::<u64>().ok()).sum()
    };
    lines.map(sum).sum()
}

fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH))
}

/// The open files of a process: those of its first thread, or of the next if that one has ended. A thread that parted from the
/// files of the others hides its own.
fn open_files(pid: u32) -> io::Result<Vec<PathBuf>> {
    let list = |folder: &Path| std::fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>();
    let has_ended = |thread: &Path| Stat::read(&thread.join("stat")).is_some_and(|stat| stat.is_dead());
    let first = PathBuf::from(format!("/proc/{pid}"));
    if !has_ended(&first) {
        return list(&first.join("fd"));
    }
    let threads = list(&first.join("task"))?;
    for thread in threads.iter().filter(|thread| !has_ended(thread)) {
        match list(&thread.join("fd")) {
            // It has ended in between; the next may not have.
            Err(error) if is_gone(&error) => {}
            listed => return listed,
        }
    }
    Ok(Vec::new())
}

/// What files without a name hold that processes have open: as big as named ones, and found by no walk.
pub(crate) fn nameless(processes: &[u32], disks: &[Device], counted: &[Device]) -> Held {
    let (mut held, mut seen) = (Held::default(), HashSet::new());
    for pid in processes {
        let files = match open_files(*pid) {
            Ok(files) => files,
            // It has ended, so it has none.
            Err(error) if is_gone(&error) => continue,
            Err(_) => {
                held.unseen.push(*pid);
                continue;
            }
        };
        for file in files {
            let found = match rustix::fs::statx(CWD, &file, AtFlags::empty(), StatxFlags::BASIC_STATS) {
                Ok(found) => found,
                // Root may list them all the same.
                Err(Errno::ACCESS | Errno::PERM) => {
                    held.unseen.push(*pid);
                    break;
                }
                Err(_) => continue,
            };
            let device = (found.stx_dev_major, found.stx_dev_minor);
            let regular = FileType::from_raw_mode(u32::from(found.stx_mode)) == FileType::RegularFile;
            if !regular || found.stx_nlink != 0 || counted.contains(&device) {
                continue;
            }
            if !seen.insert(Nameless { device, inode: found.stx_ino }) {
                continue;
            }
            let bytes = found.stx_blocks.saturating_mul(512);
            if disks.contains(&device) {
                held.on_disk += bytes;
            } else {
                held.in_memory += bytes;
            }
        }
    }
    held
}

/// The machine's memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) total: u64,
    pub(crate) available: u64,
    /// Shared memory, files of temporary file systems and memory files.
    pub(crate) shared: u64,
    pub(crate) swapped: u64,
}

impl Machine {
    pub(crate) fn read() -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read_to_string("/proc/meminfo")?))
    }

    fn parse(text: &str) -> Self {
        let field = |name| status_field(text, name);
        Self {
            total: field("MemTotal:"),
            available: field("MemAvailable:"),
            shared: field("Shmem:"),
            swapped: field("SwapTotal:").saturating_sub(field("SwapFree:")),
        }
    }
}

/// Threads of the whole machine, which cannot be fewer than the box's.
pub(crate) fn threads_of_machine() -> u64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let threads = text.split(' ').nth(3).and_then(|field| field.split('/').nth(1)?.parse().ok());
    threads.unwrap_or(u64::MAX)
}

/// How many processes the kernel has killed for want of memory, on the whole machine.
pub(crate) fn killed_for_memory() -> u64 {
    std::fs::read_to_string("/proc/vmstat").ok().and_then(|text| keyed(&text, "oom_kill")).unwrap_or(0)
}

/// Whether a folder is of a file system that lives in memory. A link is no folder.
pub(crate) fn is_in_memory(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let place = rustix::fs::open(path, flags, rustix::fs::Mode::empty());
    place.and_then(rustix::fs::fstatfs).is_ok_and(|found| found.f_type == nix::libc::TMPFS_MAGIC)
}

/// The space of the file system at `path`: used and free for the user, in bytes; and its device.
pub(crate) fn space(path: &Path) -> io::Result<(Device, u64, u64)> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    let found = rustix::fs::statx(&place, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    let space = rustix::fs::fstatvfs(&place)?;
    let used = space.f_blocks.saturating_sub(space.f_bfree).saturating_mul(space.f_frsize);
    Ok(((found.stx_dev_major, found.stx_dev_minor), used, space.f_bavail.saturating_mul(space.f_frsize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_texts_are_read() {
        let text = "MemTotal:       24683652 kB\nMemFree:  1 kB\nMemAvailable:   24045560 kB\nShmem:    8 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n";
        let read = Machine::parse(text);
        assert_eq!((read.total, read.available), (24_683_652 * 1024, 24_045_560 * 1024));
        assert_eq!((read.shared, read.swapped), (8192, 6144));
        assert_eq!(Machine::parse(""), Machine::default());
        let shm = "       key      shmid perms       size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n         0          0   600    1048576  1 1 0 0 0 0 0 0 0 0 524288 4096\n";
        assert_eq!(segments_of(shm), 528_384);
        assert_eq!(segments_of(""), 0);
    }

    #[test]
    fn only_a_temporary_file_system_is_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/shm", &link).unwrap();
        assert!(is_in_memory(Path::new("/dev/shm")), "these tests need a /dev/shm");
        for other in [Path::new("/proc"), Path::new("/none"), &link] {
            assert!(!is_in_memory(other), "{}", other.display());
        }
    }

    #[test]
    fn own_use_is_seen() {
        let own = [std::process::id()];
        let ballast = vec![1_u8; 64 << 20];
        let page = rustix::param::page_size() as u64;
        assert!(private(&own, page) >= 64 << 20, "{}", private(&own, page));
        assert!(resident(&own).0 >= 64 << 20);
        assert!(threads(&own) >= 1 && threads_of_machine() >= threads(&own));
        drop(ballast);
        let memory = rustix::fs::memfd_create(c"nameless", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&memory, &vec![1_u8; 1 << 20]).unwrap();
        let held = nameless(&own, &[], &[]);
        assert!(held.in_memory >= 1 << 20 && held.unseen.is_empty(), "{held:?}");
    }
}

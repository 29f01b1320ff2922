//! Telling one process from another that got the same number.
//!
//! A number alone says nothing: it is used again. Number, start time and boot together name one process for ever.
//! Nothing here signals anybody; whoever does must ask [`is_same_process_alive`] first.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Error;
use crate::model::event::Invocation;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// This process.
pub fn current() -> Result<Invocation, Error> {
    let pid = std::process::id();
    let path = PathBuf::from("/proc/self/stat");
    let found = read(&path, pid)?;
    found.ok_or_else(|| Error::Io { op: "read", path, source: ErrorKind::NotFound.into() })
}

/// The process that has the number `pid` now. `None`: none has, or it has ended and only waits to be reaped.
pub fn identity(pid: u32) -> Result<Option<Invocation>, Error> {
    read(&PathBuf::from(format!("/proc/{pid}/stat")), pid)
}

/// Whether exactly this process lives. A stranger with its number does not count.
pub fn is_same_process_alive(invocation: &Invocation) -> Result<bool, Error> {
    Ok(identity(invocation.pid)?.as_ref() == Some(invocation))
}

/// Whether any process that we may look at has the file open.
pub fn has_open(file: &Path) -> Result<bool, Error> {
    // Not by its path: a process may see the file at another one.
    let wanted = file.metadata().map_err(Error::io("look at", file))?;
    let processes = std::fs::read_dir("/proc").map_err(Error::io("read", Path::new("/proc")))?;
    // Those of others cannot be looked at, and those that end meanwhile are gone.
    let opened = processes.flatten().filter_map(|process| std::fs::read_dir(process.path().join("fd")).ok());
    let mut files = opened.flat_map(Iterator::flatten).filter_map(|file| file.path().metadata().ok());
    Ok(files.any(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino())))
}

fn read(path: &Path, pid: u32) -> Result<Option<Invocation>, Error> {
    let line = match std::fs::read(path) {
        Ok(line) => line,
        // ESRCH: it ended between opening and reading.
        Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH) => {
            return Ok(None);
        }
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    let (phase, start_ticks) = parse(&line)
        .ok_or_else(|| Error::damaged(path, "it has no start time", "mount /proc of this machine there"))?;
    if matches!(phase, b'Z' | b'X' | b'x') {
        return Ok(None);
    }
    let boot_id = std::fs::read_to_string(BOOT_ID).map_err(Error::io("read", Path::new(BOOT_ID)))?;
    Ok(Some(Invocation { pid, start_ticks, boot_id: boot_id.trim().to_owned() }))
}

/// State and start time of a line of `/proc/<pid>/stat`. The command's name stands in brackets and may hold anything,
/// closing brackets and spaces too, so counting begins behind the last one.
fn parse(line: &[u8]) -> Option<(u8, u64)> {
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(line.get(name_end + 1..)?).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    // The state is field 3, the start time field 22.
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "real processes are what is tested")]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_cannot_forge_the_start_time() {
        let plain = b"7 (sh) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
        assert_eq!(parse(plain), Some((b'S', 4242)));
        let hostile = b"7 (a) Z 1 ) b) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
        assert_eq!(parse(hostile), Some((b'S', 4242)));
        for broken in [&b""[..], b"7 (sh", b"7 (sh) S 1 2", b"7 (sh) S \xff"] {
            assert_eq!(parse(broken), None);
        }
    }

    #[test]
    fn only_exactly_this_process_counts_as_alive() {
        let own = current().unwrap();
        assert!(is_same_process_alive(&own).unwrap());
        let other_start = Invocation { start_ticks: own.start_ticks + 1, ..own.clone() };
        let other_boot = Invocation { boot_id: "elsewhere".to_owned(), ..own.clone() };
        // Believing the number alone would call both alive.
        assert!(identity(other_start.pid).unwrap().is_some());
        assert!(!is_same_process_alive(&other_start).unwrap());
        assert!(!is_same_process_alive(&other_boot).unwrap());
    }

    #[test]
    fn a_file_is_open_as_long_as_somebody_has_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = std::fs::File::create(&path).unwrap();
        assert!(has_open(&path).unwrap());
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(file).spawn().unwrap();
        assert!(has_open(&path).unwrap(), "by another process");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!has_open(&path).unwrap());
    }

    #[test]
    fn a_process_that_ended_is_dead_before_it_is_reaped() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let it = identity(child.id()).unwrap().unwrap();
        assert!(is_same_process_alive(&it).unwrap());
        child.kill().unwrap();
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        // Wait until it has ended, and leave it unreaped.
        nix::sys::wait::waitid(
            nix::sys::wait::Id::Pid(pid),
            nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT,
        )
        .unwrap();
        assert!(!is_same_process_alive(&it).unwrap());
        child.wait().unwrap();
        assert!(!is_same_process_alive(&it).unwrap());
    }
}

//! What a probe runs in an empty box: the very things that the guards should stop.

use crate::protection::Protection;
use crate::sys;
use nix::libc;
use nix::sched::CloneFlags;
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::DumpableBehavior;
use std::os::fd::AsRawFd as _;

/// The argument that asks a program to be the canary.
pub(crate) const ASKED: &str = "__sandbox-canary";

/// Where a box can be written as far as mounts go, and where the probe's rules do not allow it.
const CAGE: &str = "/dev/shm/canary";

/// The word that says that nothing is mounted: everybody may write here, so that nothing but rules can refuse it.
pub(crate) const NO_MOUNTS: &str = "no-mounts";
const NULL: &str = "/dev/null";

/// Nothing was stopped that should not be, and all that should be was.
pub(crate) const STOPPED: i32 = 0;
const NOT_FILTERED: i32 = 3;
const NOT_FENCED: i32 = 4;
const NOT_READABLE: i32 = 5;
const NOT_CUT_OFF: i32 = 6;
/// Init did not do what it is to do for commands.
pub(crate) const NOT_ANSWERED: i32 = 7;

/// A file in memory, of which the canary may change the mode; and where it lies, as the kernel has it.
const OWN: &str = "sandbox-canary";
pub(crate) const OWN_LIES: &str = "/memfd:sandbox-canary (deleted)";

/// Tries what `expected` names and tells by its exit code whether it was stopped.
pub(crate) fn sing(expected: &[String]) -> i32 {
    let wanted = |protection: Protection| expected.iter().any(|word| word == protection.name());
    // Asks for no namespace, so that nothing but a filter can refuse it.
    if wanted(Protection::Seccomp) && nix::sched::unshare(CloneFlags::empty()) != Err(nix::Error::EPERM) {
        return NOT_FILTERED;
    }
    let written = if expected.iter().any(|word| word == NO_MOUNTS) {
        rustix::fs::open(NULL, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map(drop)
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::open(CAGE, flags, Mode::from_raw_mode(0o600)).map(drop)
    };
    if wanted(Protection::LandlockFiles) && written != Err(Errno::ACCESS) {
        return NOT_FENCED;
    }
    if rustix::fs::open("/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).is_err() {
        return NOT_READABLE;
    }
    let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None);
    if wanted(Protection::SocketFilter) && socket.map(drop) != Err(Errno::PERM) {
        return NOT_CUT_OFF;
    }
    if wanted(Protection::BoundMetadata) && may_be_read() && !changes_a_mode() {
        return NOT_ANSWERED;
    }
    STOPPED
}

/// Whether others of its user may look into this process. They may not where the user may run this program but not read it,
/// and that says nothing of other programs.
fn may_be_read() -> bool {
    rustix::process::dumpable_behavior() == Ok(DumpableBehavior::Dumpable)
}

/// Has the mode of a file changed by its path, for which init must read this process's memory.
fn changes_a_mode() -> bool {
    let change = || {
        let file = rustix::fs::memfd_create(OWN, MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)?;
        rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), Mode::RUSR)?;
        rustix::fs::fstat(&file)
    };
    change().is_ok_and(|facts| Mode::from_raw_mode(facts.st_mode) == Mode::RUSR)
}

/// Calls that a box denies and that anybody may make outside of one, with whether they are denied to this process. They
/// are made with arguments that mean nothing, so that they do nothing wherever they are let through.
///
/// For a program that looks at a box from inside. A machine may deny some of them to everybody.
pub fn seldom_calls() -> [(&'static str, bool); 3] {
    let calls = [("ptrace", libc::SYS_ptrace), ("io_uring", libc::SYS_io_uring_setup), ("keyctl", libc::SYS_keyctl)];
    calls.map(|(name, call)| (name, sys::answer_to(call, 9999) == libc::EPERM))
}

/// Becomes the canary and never returns.
pub(crate) fn main() -> ! {
    let expected: Vec<String> = std::env::args().skip(2).collect();
    sys::exit_now(sing(&expected))
}

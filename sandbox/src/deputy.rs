//! Changing modes, times and owners, for boxes without namespaces: init does it for commands, where they may write.
//!
//! No rule of Landlock bounds these calls, so a command could change them of every file of its user's. Denying them outright is
//! no way: `git`, compilers and every `chmod +x` need them. So each such call stops its caller until init has answered.
//! Init reads the path from the caller's memory, walks it from the caller's own folder to a handle, looks where what it
//! holds lies, and if that may be written by the box, changes it by way of that very handle. The call itself is never let
//! through: what a path leads to could be another thing by then.
//!
//! So also for a call that names an open file and no path: by one that is open for reading alone, the kernel changes what is not
//! to be written. Calls that only old programs make (`utime`, `utimes`, `futimesat`) are denied.

use crate::sys::{self, Asked};
use nix::libc;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use seccompiler::sock_filter;
use std::ffi::{CStr, OsStr};
use std::io::IoSliceMut;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The longest path, with its end, in bytes.
const PATH_MAX: usize = 4096;

/// For which the C library has no name yet; it has one number on all architectures.
const FCHMODAT2: libc::c_long = 452;

/// The calls that init answers.
#[cfg(target_arch = "x86_64")]
const CALLS: [libc::c_long; 12] = [
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_fchmod,
    libc::SYS_fchown,
];
#[cfg(not(target_arch = "x86_64"))]
const CALLS: [libc::c_long; 6] =
    [libc::SYS_fchmodat, FCHMODAT2, libc::SYS_fchownat, libc::SYS_utimensat, libc::SYS_fchmod, libc::SYS_fchown];

/// What a call asks for.
enum Change {
    Mode(Mode),
    Times(Timestamps),
    Owner(u32, u32),
}

/// A call, taken apart.
struct Call {
    /// The folder a relative path begins at, or without a path the thing itself, as the caller numbers it.
    folder: i32,
    /// Where the path lies in the caller's memory.
    path: Option<u64>,
    flags: u64,
    change: Change,
}

/// The filter that has the calls answered by init.
pub(crate) fn program() -> Vec<sock_filter> {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const ANSWER: u16 = 0x06;
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let count = CALLS.len();
    // The number of the call comes first in what a filter sees; one that is on the list jumps over the rest of it.
    let mut program = vec![instruction(LOAD, 0, 0, 0)];
    for (index, call) in CALLS.iter().enumerate() {
        let over = u8::try_from(count - index).unwrap_or(u8::MAX);
        program.push(instruction(EQUAL, over, 0, u32::try_from(*call).unwrap_or(u32::MAX)));
    }
    program.push(instruction(ANSWER, 0, 0, libc::SECCOMP_RET_ALLOW));
    program.push(instruction(ANSWER, 0, 0, libc::SECCOMP_RET_USER_NOTIF));
    program
}

/// Answers one call that waits at `listener`, for a box that may write below `writable`.
pub(crate) fn answer(listener: BorrowedFd<'_>, writable: &[PathBuf]) {
    // Whoever asked may have been killed meanwhile; then there is nobody to answer.
    let Ok(asked) = sys::next_asked(listener) else { return };
    let answer = match carry_out(listener, &asked, writable) {
        Ok(()) => Ok(()),
        Err(errno) => Err(errno.raw_os_error()),
    };
    sys::answer_asked(listener, asked.id, answer);
}

fn carry_out(listener: BorrowedFd<'_>, asked: &Asked, writable: &[PathBuf]) -> Result<(), Errno> {
    let call = take_apart(asked)?;
    let path = call.path.map(|at| read_path(asked.caller, at)).transpose()?;
    let held = find(asked.caller, &call, path.as_deref())?;
    // What was read is the caller's own only if it still waits: else its number may be another's.
    if !sys::still_asked(listener, asked.id) {
        return Err(Errno::SRCH);
    }
    let by_handle = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
    let lies = rustix::fs::readlink(&by_handle, Vec::new())?;
    let lies = Path::new(OsStr::from_bytes(lies.as_bytes()));
    if !writable.iter().any(|place| lies.starts_with(place)) {
        return Err(Errno::PERM);
    }
    match call.change {
        // By the handle's own path: no call for modes takes a handle like this one.
        Change::Mode(mode) => rustix::fs::chmod(&by_handle, mode)?,
        Change::Times(times) => rustix::fs::utimensat(&held, "", &times, AtFlags::EMPTY_PATH)?,
        Change::Owner(user, group) => {
            // The largest number says that this one stays.
            let given = |raw: u32| (raw != u32::MAX).then_some(raw);
            let (user, group) = (given(user).map(Uid::from_raw), given(group).map(Gid::from_raw));
            rustix::fs::chownat(&held, "", user, group, AtFlags::EMPTY_PATH)?;
        }
    }
    Ok(())
}

/// The kernel looks at the low half of these arguments only.
#[expect(clippy::cast_possible_truncation, reason = "as the kernel takes them")]
fn take_apart(asked: &Asked) -> Result<Call, Errno> {
    let [first, second, third, fourth, fifth, _] = asked.arguments;
    let mode = |mode: u64| Change::Mode(Mode::from_raw_mode(mode as u32 & 0o7777));
    let owner = |user: u64, group: u64| Change::Owner(user as u32, group as u32);
    let folder = (first as u32).cast_signed();
    let at = |path: u64, flags: u64, change: Change| Ok(Call { folder, path: Some(path), flags, change });
    #[cfg(target_arch = "x86_64")]
    let here = |flags: u64, change: Change| Ok(Call { folder: libc::AT_FDCWD, path: Some(first), flags, change });
    match asked.call {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod => here(0, mode(second)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chown => here(0, owner(second, third)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_lchown => here(u64::from(libc::AT_SYMLINK_NOFOLLOW.unsigned_abs()), owner(second, third)),
        libc::SYS_fchmod => Ok(Call { folder, path: None, flags: 0, change: mode(second) }),
        libc::SYS_fchown => Ok(Call { folder, path: None, flags: 0, change: owner(second, third) }),
        libc::SYS_fchmodat => at(second, 0, mode(third)),
        FCHMODAT2 => at(second, fourth, mode(third)),
        libc::SYS_fchownat => at(second, fifth, owner(third, fourth)),
        libc::SYS_utimensat => {
            let times = if third == 0 { now() } else { read_times(asked.caller, third)? };
            // Without a path it is about the open file itself.
            let path = (second != 0).then_some(second);
            Ok(Call { folder, path, flags: fourth, change: Change::Times(times) })
        }
        _ => Err(Errno::PERM),
    }
}

fn now() -> Timestamps {
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    Timestamps { last_access: now, last_modification: now }
}

fn read_times(caller: Pid, at: u64) -> Result<Timestamps, Errno> {
    let mut bytes = [0_u8; 32];
    if read(caller, at, &mut bytes)? < bytes.len() {
        return Err(Errno::FAULT);
    }
    let mut words = bytes.as_chunks::<8>().0.iter().map(|word| i64::from_ne_bytes(*word));
    let mut next = || words.next().unwrap_or_default();
    let last_access = Timespec { tv_sec: next(), tv_nsec: next() };
    Ok(Timestamps { last_access, last_modification: Timespec { tv_sec: next(), tv_nsec: next() } })
}

fn read_path(caller: Pid, at: u64) -> Result<PathBuf, Errno> {
    let mut bytes = [0_u8; PATH_MAX];
    let mut length = 0;
    // A page at a time: what lies behind the path need not be there.
    while length < PATH_MAX {
        let from = at.wrapping_add(length as u64);
        let page = (PATH_MAX - usize::try_from(from % PATH_MAX as u64).unwrap_or(0)).min(PATH_MAX - length);
        let got = read(caller, from, &mut bytes[length..length + page])?;
        if let Ok(text) = CStr::from_bytes_until_nul(&bytes[..length + got]) {
            return Ok(PathBuf::from(OsStr::from_bytes(text.to_bytes())));
        }
        if got == 0 {
            return Err(Errno::FAULT);
        }
        length += got;
    }
    Err(Errno::NAMETOOLONG)
}

fn read(caller: Pid, at: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let base = usize::try_from(at).map_err(|_| Errno::FAULT)?;
    let remote = [RemoteIoVec { base, len: into.len() }];
    process_vm_readv(caller, &mut [IoSliceMut::new(into)], &remote)
        .map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

/// A handle on what the call is about, as its caller would have found it.
fn find(caller: Pid, call: &Call, path: Option<&Path>) -> Result<OwnedFd, Errno> {
    let handle = OFlags::PATH | OFlags::CLOEXEC;
    let of_caller = |name: String| rustix::fs::open(format!("/proc/{caller}/{name}"), handle, Mode::empty());
    let itself = || of_caller(format!("fd/{}", call.folder));
    let Some(path) = path else {
        return itself();
    };
    let empty = u64::from(libc::AT_EMPTY_PATH.unsigned_abs());
    if path.as_os_str().is_empty() {
        return if call.flags & empty == 0 { Err(Errno::NOENT) } else { itself() };
    }
    // How the C library changes the mode of what it holds a handle on. `self` would be init here.
    if let Ok(number) = path.strip_prefix("/proc/self/fd")
        && let Some(number) = number.to_str().and_then(|number| number.parse::<u32>().ok())
    {
        return of_caller(format!("fd/{number}"));
    }
    let folder = match call.folder {
        libc::AT_FDCWD => of_caller("cwd".to_owned())?,
        _ if path.is_absolute() => rustix::fs::openat(CWD, "/", handle, Mode::empty())?,
        number => of_caller(format!("fd/{number}"))?,
    };
    let nofollow = u64::from(libc::AT_SYMLINK_NOFOLLOW.unsigned_abs());
    let flags = if call.flags & nofollow == 0 { handle } else { handle | OFlags::NOFOLLOW };
    rustix::fs::openat2(folder.as_fd(), path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
}

//! The system calls that no safe wrapper exists for: the only file of the project with `unsafe` in it, apart
//! from the attacks of this crate's tests.
#![expect(unsafe_code, reason = "each block is one system call, with its reason")]

use crate::reach::Namespace;
use nix::libc;
use nix::unistd::{ForkResult, Pid};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use tokio::io::unix::AsyncFd;

/// How many signals the kernel has.
const KERNEL_SIGNALS: libc::c_int = 64;

/// Mount attributes, as `mount_setattr` takes them.
#[derive(Clone, Copy)]
pub(crate) struct MountAttributes(u64);

impl MountAttributes {
    pub(crate) const READ_ONLY: Self = Self(libc::MOUNT_ATTR_RDONLY);
    pub(crate) const NO_SUID: Self = Self(libc::MOUNT_ATTR_NOSUID);
    pub(crate) const NO_DEVICES: Self = Self(libc::MOUNT_ATTR_NODEV);
    pub(crate) const NO_EXEC: Self = Self(libc::MOUNT_ATTR_NOEXEC);

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Adds attributes to the mount that `mount` is the root of, and to all mounts below it if `recursive`.
pub(crate) fn restrict_mount(mount: BorrowedFd<'_>, add: MountAttributes, recursive: bool) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: add.0, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the descriptor is open for the call, the path is an empty C string, and the structure lives until the call
    // returns; its size is passed, so the kernel reads no further.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Forks. The caller must be the only thread, which it checks.
pub(crate) fn fork_single() -> io::Result<ForkResult> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    // SAFETY: with one thread no lock can be held by another, so the child may do what the parent may.
    unsafe { nix::unistd::fork() }.map_err(io::Error::from)
}

/// Marks all descriptors from `first` on as closed on exec, or closes them at once.
pub(crate) fn close_from(first: u32, now: bool) -> io::Result<()> {
    let flags = if now { 0 } else { libc::CLOSE_RANGE_CLOEXEC };
    // SAFETY: plain numbers. With `now` the caller has no object that owns a descriptor from `first` on, so no later use
    // or second close of one can follow.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Every signal back to its default action, and none blocked: exec keeps both what is ignored and what is blocked.
pub(crate) fn reset_signals() -> io::Result<()> {
    // The kernel's own form of an action, whose zeroes mean the default one; longer than it is on any architecture.
    let default = [0_u64; 8];
    for signal in 1..=KERNEL_SIGNALS {
        // SAFETY: the kernel reads a structure no longer than the array, and writes nothing. It installs no handler, so no
        // code of ours can be run by a signal. Not by way of the C library, which keeps two signals to itself and would
        // leave them ignored if whoever started us ignored them. What the kernel refuses (KILL, STOP) is as wanted.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<u64>(), size_of::<u64>())
        };
    }
    nix::sys::signal::sigprocmask(
        nix::sys::signal::SigmaskHow::SIG_SETMASK,
        Some(&nix::sys::signal::SigSet::empty()),
        None,
    )
    .map_err(io::Error::from)
}

/// Blocks what asks a process to end or to stop, in this process and in those it makes; commands have it taken back
/// ([`reset_signals`]). Who is to see to the end of a box ends after it: not when a terminal closes, nor when the kernel
/// wakes a group of which a member was stopped and whose parent has died.
pub(crate) fn block_polite_signals() -> io::Result<()> {
    use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
    let polite = [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
        Signal::SIGTSTP,
        Signal::SIGTTIN,
        Signal::SIGTTOU,
    ];
    let set: SigSet = polite.into_iter().collect();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), None).map_err(io::Error::from)
}

/// Joins a session keyring of its own, so that the keys of the user's session cannot be asked for.
///
/// Where the kernel refuses, it either has no keys or a filter that holds inside of boxes as well; and the filter of each
/// box forbids the calls that ask for keys. So nothing depends on this alone, least of all on the user's quota of keys.
pub(crate) fn leave_session_keyring() {
    // SAFETY: a number and a null pointer, which asks for a keyring without a name.
    unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<u8>()) };
}

/// Whether the kernel has filters of system calls, with the answers that are needed.
pub(crate) fn has_seccomp() -> bool {
    [libc::SECCOMP_RET_ERRNO, libc::SECCOMP_RET_KILL_PROCESS].iter().all(|action: &u32| {
        // SAFETY: the kernel reads one number, which lives until the call returns.
        let answer = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const *action) };
        answer == 0
    })
}

/// What the kernel answers to a call whose arguments mean nothing to it: 0, or the number of the error.
pub(crate) fn answer_to(call: libc::c_long, argument: libc::c_long) -> i32 {
    // SAFETY: no pointer among the arguments but null ones, which the kernel refuses to read; none of the calls that are
    // asked with this does anything for such arguments.
    let answer = unsafe { libc::syscall(call, argument, 0_usize, 0_usize, 0_usize) };
    if answer >= 0 { 0 } else { io::Error::last_os_error().raw_os_error().unwrap_or(0) }
}

/// The version of Landlock that the kernel offers, if any.
pub(crate) fn landlock_version() -> Option<u8> {
    /// Asks for the version instead of making rules.
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel takes no structure, which the null pointer and the size of 0 say.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    u8::try_from(version).ok().filter(|version| *version > 0)
}

/// Switches the loopback interface on.
pub(crate) fn loopback_up() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let socket: OwnedFd = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: a structure of numbers and byte arrays, for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    // SAFETY: both calls read and write the structure only, which lives until they return; the flags are the union's
    // field for these two requests.
    let result = unsafe {
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) == 0 {
            request.ifr_ifru.ifru_flags |= i16::try_from(libc::IFF_UP).unwrap_or(1);
            libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)
        } else {
            -1
        }
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) id: u64,
    pub(crate) caller: Pid,
    pub(crate) call: libc::c_long,
    pub(crate) arguments: [u64; 6],
}

/// Puts a filter on this process whose questions come out at the descriptor returned.
pub(crate) fn listen_to_calls(program: &[seccompiler::sock_filter]) -> io::Result<OwnedFd> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut() };
    // SAFETY: the kernel reads `len` instructions, which live until the call returns and have the layout it wants. What it
    // returns is a new descriptor, which nobody else has.
    unsafe {
        let made = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        );
        match i32::try_from(made) {
            Ok(made) if made >= 0 => Ok(OwnedFd::from_raw_fd(made)),
            Ok(_) | Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

/// Takes the next call that waits; an error where its caller is gone.
pub(crate) fn next_asked(listener: BorrowedFd<'_>) -> io::Result<Asked> {
    // SAFETY: a structure of numbers, for which all zeroes is a value, as the kernel asks for.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the structure, which lives until the call returns.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Asked {
        id: asked.id,
        caller: Pid::from_raw(asked.pid.cast_signed()),
        call: libc::c_long::from(asked.data.nr),
        arguments: asked.data.args,
    })
}

/// Whether the call still waits, and so its caller is who it was.
pub(crate) fn still_asked(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads one number, which lives until the call returns.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
}

/// Answers a call: done, or the error it fails with. A caller that is gone needs no answer.
pub(crate) fn answer_asked(listener: BorrowedFd<'_>, id: u64, answer: Result<(), i32>) {
    respond(listener, libc::seccomp_notif_resp { id, val: 0, error: answer.err().map_or(0, |errno| -errno), flags: 0 });
}

fn respond(listener: BorrowedFd<'_>, response: libc::seccomp_notif_resp) {
    // SAFETY: the kernel reads the structure, which lives until the call returns.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const response) };
}

/// Has the runtime watch a socket.
pub(crate) fn watch(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always gives the same descriptor, and keeps it open for as long as it is registered: nothing
    // takes it out of the `AsyncFd` or replaces it.
    unsafe { AsyncFd::register(socket) }.map_err(io::Error::from)
}

/// Ends this process without running what a library may have left to run at exit.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process; nothing of it is used afterwards.
    unsafe { libc::_exit(code) }
}

/// Sends a signal to every process of the pid namespace but its init, which the caller is.
pub(crate) fn signal_namespace(_own: &Namespace, signal: i32) -> io::Result<()> {
    // Nothing but process 1 can have a `Namespace`. Anywhere else this would reach every process of the user.
    if Pid::this() != Pid::from_raw(1) {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    // SAFETY: plain numbers; as process 1 of its namespace the caller reaches nothing outside.
    if unsafe { libc::kill(-1, signal) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

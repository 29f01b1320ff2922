//! Single system calls, as an attack would begin with them. Each is harmless: it asks for nothing, or names nothing.
#![expect(unsafe_code, reason = "calls that no library wraps, made to see what the kernel answers")]

use nix::errno::Errno;
use nix::libc;

/// `open_tree_attr`, which has no name yet.
const OPEN_TREE_ATTR: libc::c_long = 467;

/// By name: the number and what is passed.
fn arguments(name: &str) -> Option<(libc::c_long, [libc::c_long; 6])> {
    let none = [0; 6];
    // No file, where one is asked for first.
    let bad = [-1, 0, 0, 0, 0, 0];
    let user = libc::c_long::from(libc::CLONE_NEWUSER | libc::SIGCHLD);
    let socket = |family: libc::c_int, kind: libc::c_int| [family.into(), kind.into(), 0, 0, 0, 0];
    let high = 1 << 32;
    Some(match name {
        // To trace nobody; and to be traced by the parent, after which any signal would stop this process.
        "ptrace" => (libc::SYS_ptrace, [16, 0, 0, 0, 0, 0]),
        "ptrace-me" => (libc::SYS_ptrace, none),
        "process_vm_readv" => {
            (libc::SYS_process_vm_readv, [libc::c_long::from(std::process::id().cast_signed()), 0, 0, 0, 0, 0])
        }
        "process_vm_writev" => {
            (libc::SYS_process_vm_writev, [libc::c_long::from(std::process::id().cast_signed()), 0, 0, 0, 0, 0])
        }
        "pidfd_getfd" => (libc::SYS_pidfd_getfd, bad),
        "io_uring_setup" => (libc::SYS_io_uring_setup, none),
        "io_uring_enter" => (libc::SYS_io_uring_enter, bad),
        "io_uring_register" => (libc::SYS_io_uring_register, bad),
        "bpf" => (libc::SYS_bpf, bad),
        "perf_event_open" => (libc::SYS_perf_event_open, none),
        "userfaultfd" => (libc::SYS_userfaultfd, [1, 0, 0, 0, 0, 0]),
        // The session keyring's number.
        "keyctl" => (libc::SYS_keyctl, [0, -3, 0, 0, 0, 0]),
        "add_key" => (libc::SYS_add_key, none),
        "request_key" => (libc::SYS_request_key, none),
        "open_by_handle_at" => (libc::SYS_open_by_handle_at, bad),
        "kexec_load" => (libc::SYS_kexec_load, [0, 0, 0, -1, 0, 0]),
        "kexec_file_load" => (libc::SYS_kexec_file_load, [-1, -1, 0, 0, -1, 0]),
        "init_module" => (libc::SYS_init_module, none),
        "finit_module" => (libc::SYS_finit_module, bad),
        "delete_module" => (libc::SYS_delete_module, none),
        "unshare" => (libc::SYS_unshare, none),
        "setns" => (libc::SYS_setns, bad),
        "mount" => (libc::SYS_mount, none),
        "umount2" => (libc::SYS_umount2, none),
        "pivot_root" => (libc::SYS_pivot_root, none),
        "open_tree" => (libc::SYS_open_tree, bad),
        "open_tree_attr" => (OPEN_TREE_ATTR, bad),
        "move_mount" => (libc::SYS_move_mount, [-1, 0, -1, 0, 0, 0]),
        "fsopen" => (libc::SYS_fsopen, none),
        "fsconfig" => (libc::SYS_fsconfig, bad),
        "fsmount" => (libc::SYS_fsmount, bad),
        "fspick" => (libc::SYS_fspick, bad),
        "mount_setattr" => (libc::SYS_mount_setattr, bad),
        "clone-user" => (libc::SYS_clone, [user, 0, 0, 0, 0, 0]),
        "clone-user-high" => (libc::SYS_clone, [user | high, 0, 0, 0, 0, 0]),
        "clone3" => (libc::SYS_clone3, none),
        "tiocsti" => (libc::SYS_ioctl, [-1, 0x5412, 0, 0, 0, 0]),
        "tiocsti-high" => (libc::SYS_ioctl, [-1, 0x5412 | high, 0, 0, 0, 0]),
        "tioclinux" => (libc::SYS_ioctl, [-1, 0x541C, 0, 0, 0, 0]),
        "vsock" => (libc::SYS_socket, socket(libc::AF_VSOCK, libc::SOCK_STREAM)),
        "packet" => (libc::SYS_socket, socket(libc::AF_PACKET, libc::SOCK_RAW)),
        "alg" => (libc::SYS_socket, socket(libc::AF_ALG, libc::SOCK_SEQPACKET)),
        "alg-high" => (libc::SYS_socket, [libc::c_long::from(libc::AF_ALG) | high, 5, 0, 0, 0, 0]),
        "unix" => (libc::SYS_socket, socket(libc::AF_UNIX, libc::SOCK_STREAM)),
        "netlink" => (libc::SYS_socket, socket(libc::AF_NETLINK, libc::SOCK_RAW)),
        // The x32 form of `getpid` and of `ptrace`.
        #[cfg(target_arch = "x86_64")]
        "x32-getpid" => (0x4000_0000 | libc::SYS_getpid, none),
        #[cfg(target_arch = "x86_64")]
        "x32-ptrace" => (0x4000_0000 + 521, none),
        _ => return None,
    })
}

/// The name of the kernel's answer, `ok` if it was no error.
pub(crate) fn call(name: &str) -> Result<String, String> {
    let (number, words) = arguments(name).ok_or_else(|| format!("no such call: {name}"))?;
    let [first, second, third, fourth, fifth, sixth] = words;
    // SAFETY: every pointer passed is null, which the kernel answers with an error; the numbers name no object of this
    // process. A child made by `clone` shares nothing and ends at once.
    let answer = unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) };
    if answer == 0 && number == libc::SYS_clone {
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) }
    }
    Ok(if answer < 0 { format!("{:?}", Errno::last()) } else { "ok".to_owned() })
}

/// A call by way of the 32-bit interface, where every number means another call.
#[cfg(target_arch = "x86_64")]
pub(crate) fn call_as_i386() -> String {
    /// `getpid` there.
    const GETPID: u32 = 20;
    let pid: u32;
    // SAFETY: the call takes nothing and changes nothing but the register of its answer.
    unsafe { std::arch::asm!("int 0x80", inlateout("eax") GETPID => pid, options(nostack)) };
    if pid == std::process::id() { "ok".to_owned() } else { format!("{pid}") }
}

/// Takes standard input for its terminal, if it may, and types into it.
pub(crate) fn type_for_the_user() -> String {
    let letter = [b'x'; 1];
    // SAFETY: plain numbers, and one letter that lives until the call returns.
    let typed = unsafe {
        libc::ioctl(0, libc::TIOCSCTTY, 0);
        libc::ioctl(0, 0x5412, letter.as_ptr())
    };
    if typed < 0 { format!("{:?}", Errno::last()) } else { "typed".to_owned() }
}

/// In a session keyring of its own from here on, with a key in it.
pub(crate) fn make_key() -> Result<(), Errno> {
    let (kind, name, secret) = (c"user", c"sandbox-test", b"secret");
    // SAFETY: strings and bytes that live until the calls return, with their lengths.
    let made = unsafe {
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<u8>());
        libc::syscall(
            libc::SYS_add_key,
            kind.as_ptr(),
            name.as_ptr(),
            secret.as_ptr(),
            secret.len(),
            libc::KEY_SPEC_SESSION_KEYRING,
        )
    };
    Errno::result(made).map(drop)
}

/// What the key of the session says.
pub(crate) fn read_key() -> Result<String, Errno> {
    let (kind, name, mut secret) = (c"user", c"sandbox-test", [0_u8; 64]);
    // SAFETY: strings that live until the calls return, and a buffer with its length.
    let length = unsafe {
        let key = libc::syscall(libc::SYS_request_key, kind.as_ptr(), name.as_ptr(), std::ptr::null::<u8>(), 0);
        Errno::result(key)?;
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_READ, key, secret.as_mut_ptr(), secret.len())
    };
    let length = usize::try_from(Errno::result(length)?).unwrap_or(0);
    Ok(String::from_utf8_lossy(&secret[..length.min(secret.len())]).into_owned())
}

/// Asks for a limit of another process.
pub(crate) fn limit_of(pid: i32) -> Result<(), Errno> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one structure, which lives until the call returns.
    Errno::result(unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) }).map(drop)
}

/// Ends this thread alone, the first of its process too.
pub(crate) fn end_thread() -> ! {
    // SAFETY: takes a number, and does not come back. Nothing that lies on this thread's stack is another's.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    std::process::abort()
}

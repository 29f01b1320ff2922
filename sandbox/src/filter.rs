//! The filter of system calls: what no command has an honest use for, and much of what attacks on the kernel begin with.
//!
//! A list of what is denied, not of what is allowed: programs that agents run are not known beforehand, and a call that
//! is new in the kernel is denied to them by file modes, namespaces and missing capabilities as before. A denied call
//! answers "not permitted", as it would to any ordinary user somewhere. `clone3` answers "no such call", for its flags lie
//! in memory that a filter cannot read; the C libraries then take `clone`, whose flags are looked at.
//!
//! Three small programs, for each has one answer only; the kernel runs all of them and takes the strictest answer.

use crate::policy::Nesting;
use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};
use std::collections::BTreeMap;
use std::io;

/// `open_tree_attr`, for which the C library has no name yet; it has one number on all architectures.
const OPEN_TREE_ATTR: libc::c_long = 467;

/// Reach into other processes, the kernel's own interpreters, its keys, files by number, and code for the kernel.
const ALWAYS: [libc::c_long; 19] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_open_by_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
];

/// What makes namespaces and mounts.
const NESTING: [libc::c_long; 13] = [
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
];

/// The flags of `clone` that make namespaces. The one for time is none of them: `clone` has the signal in its place.
const NEW_SPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Putting input into a terminal, as if its user had typed it.
const TYPE_FOR_THE_USER: [u64; 2] = [0x5412, 0x541C];

/// The families a socket may have. The others are rarely used, often attacked, and some of them (`AF_VSOCK`) know
/// nothing of network namespaces.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Memory, semaphores and queues that all processes of a user share where there is no namespace of their own for them. Each
/// can be found by its name and, those of System V, used by its number alone: denying the ways to find them is not enough.
const SHARED: [libc::c_long; 18] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmdt,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_notify,
    libc::SYS_mq_getsetattr,
];

/// Attributes of files, which no other rule bounds. "Not supported" is what programs take in their stride: many file systems
/// have none.
const ATTRIBUTES: [libc::c_long; 9] = [
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

/// For which the C library has no name yet; they have one number on all architectures.
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const FILE_SETATTR: libc::c_long = 469;

/// Requests that change a file by a descriptor that is open for reading alone, if the file is the caller's:
/// `FS_IOC_SETFLAGS` (immutable, append-only, no dump), `FS_IOC_SETVERSION`, `EXT4_IOC_SETVERSION`, each also as 32-bit programs
/// spell it, `FS_IOC_FSSETXATTR`, `FS_IOC_ENABLE_VERITY`, `FS_IOC_SET_ENCRYPTION_POLICY`. From `linux/fs.h`, `linux/fsverity.h`,
/// `linux/fscrypt.h`.
const FILE_FLAGS: [u64; 9] = [
    0x4008_6602,
    0x4004_6602,
    0x4008_7602,
    0x4004_7602,
    0x4008_6604,
    0x4004_6604,
    0x401c_5820,
    0x4080_6685,
    0x800c_6613,
];

/// The calls that change a file's mode, with the place of the mode among their arguments.
const MODES: [(libc::c_long, u8); 3] = [(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (FCHMODAT2, 2)];

/// For which the C library has no name yet.
const FCHMODAT2: libc::c_long = 452;

/// The bits of a mode that let a program run as the file's owner or group.
const SET_ID: [libc::mode_t; 2] = [libc::S_ISUID, libc::S_ISGID];

/// What a socket may be of where a network of its own does not bound it: the host's network, if that is given at all, but
/// never another process by a path, which no rule bounds.
const NETWORK_FAMILIES: [libc::c_int; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Kinds of pairs of sockets that can be pointed at another address afterwards.
const WITHOUT_CONNECTION: [libc::c_int; 2] = [libc::SOCK_DGRAM, libc::SOCK_RAW];

/// Programs for the kernel, ready to be applied.
#[derive(Debug)]
pub(crate) struct Filter {
    programs: Vec<BpfProgram>,
}

impl Filter {
    /// Translates the rules. Fails only on an architecture that nobody has looked at.
    pub(crate) fn new(nesting: Nesting) -> io::Result<Self> {
        let architecture = architecture()?;
        let translate = |rules: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int| -> io::Result<BpfProgram> {
            let answer = SeccompAction::Errno(errno.unsigned_abs());
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture).map_err(unfit)?;
            filter.try_into().map_err(unfit)
        };
        let mut programs = vec![translate(denied(nesting)?, libc::EPERM)?];
        if nesting == Nesting::Denied {
            programs.push(translate(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?);
        }
        if architecture == TargetArch::x86_64 {
            programs.push(without_x32());
        }
        Ok(Self { programs })
    }

    /// The filter of a box that has no namespaces, beside the other one.
    pub(crate) fn of_sockets(network: bool) -> io::Result<Self> {
        let architecture = architecture()?;
        let translate = |rules, errno: libc::c_int| -> io::Result<BpfProgram> {
            let answer = SeccompAction::Errno(errno.unsigned_abs());
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture).map_err(unfit)?;
            filter.try_into().map_err(unfit)
        };
        Ok(Self {
            programs: vec![translate(unbounded(network)?, libc::EPERM)?, translate(unsupported()?, libc::EOPNOTSUPP)?],
        })
    }

    /// Puts the filter on this process and all it will start, for good.
    pub(crate) fn apply(&self) -> io::Result<()> {
        self.programs.iter().try_for_each(|program| {
            seccompiler::apply_filter(program).map_err(|error| match error {
                seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
                other => unfit(other),
            })
        })
    }
}

fn unfit(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

fn architecture() -> io::Result<TargetArch> {
    match std::env::consts::ARCH {
        "x86_64" => Ok(TargetArch::x86_64),
        "aarch64" => Ok(TargetArch::aarch64),
        _ => Err(io::Error::from(io::ErrorKind::Unsupported)),
    }
}

/// Whether there is a filter for the architecture this program was built for.
pub(crate) fn is_known_here() -> bool {
    architecture().is_ok()
}

/// The calls that are not permitted, each with the conditions of which one must hold; none means always.
fn denied(nesting: Nesting) -> io::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
    // The kernel looks at the low half of each of these arguments only, and so must the conditions.
    let one = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions).map_err(unfit);
    let when = |argument, comparison, value| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value).map_err(unfit)
    };
    let typing = TYPE_FOR_THE_USER.iter().map(|request| one(vec![when(1, SeccompCmpOp::Eq, *request)?]));
    rules.insert(libc::SYS_ioctl, typing.collect::<io::Result<_>>()?);
    let none_of = FAMILIES.iter().map(|family| when(0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs())));
    rules.insert(libc::SYS_socket, vec![one(none_of.collect::<io::Result<_>>()?)?]);
    if nesting == Nesting::Denied {
        rules.extend(NESTING.iter().map(|call| (*call, Vec::new())));
        let spaces = NEW_SPACES.iter().map(|flag| {
            let flag = u64::from(flag.cast_unsigned());
            one(vec![when(0, SeccompCmpOp::MaskedEq(flag), flag)?])
        });
        rules.insert(libc::SYS_clone, spaces.collect::<io::Result<_>>()?);
    }
    Ok(rules)
}

/// The calls that reach other processes of the same user where only rules on files hold, each with the conditions of which
/// one must hold; none means always.
fn unbounded(network: bool) -> io::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let one = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions).map_err(unfit);
    let when = |argument, comparison, value| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value).map_err(unfit)
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = SHARED.iter().map(|call| (*call, Vec::new())).collect();
    let mut families = Vec::new();
    if network {
        let none_of = NETWORK_FAMILIES.iter().map(|family| when(0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs())));
        families.push(one(none_of.collect::<io::Result<_>>()?)?);
    }
    rules.insert(libc::SYS_socket, families);
    // The flags of a socket stand above its kind.
    let pairs = WITHOUT_CONNECTION
        .iter()
        .map(|kind| one(vec![when(1, SeccompCmpOp::MaskedEq(0xf), u64::from(kind.unsigned_abs()))?]));
    rules.insert(libc::SYS_socketpair, pairs.collect::<io::Result<_>>()?);
    for (call, argument) in MODES {
        let bits = SET_ID
            .iter()
            .map(|bit| one(vec![when(argument, SeccompCmpOp::MaskedEq(u64::from(*bit)), u64::from(*bit))?]));
        rules.insert(call, bits.collect::<io::Result<_>>()?);
    }
    #[cfg(target_arch = "x86_64")]
    {
        let bits =
            SET_ID.iter().map(|bit| one(vec![when(1, SeccompCmpOp::MaskedEq(u64::from(*bit)), u64::from(*bit))?]));
        rules.insert(libc::SYS_chmod, bits.collect::<io::Result<_>>()?);
    }
    // To every process there is; and limits and priorities of others: all three take 0 for oneself.
    rules.insert(libc::SYS_kill, vec![one(vec![when(0, SeccompCmpOp::Eq, u64::from(u32::MAX))?])?]);
    rules.insert(libc::SYS_prlimit64, vec![one(vec![when(0, SeccompCmpOp::Ne, 0)?])?]);
    rules.insert(libc::SYS_setpriority, vec![one(vec![when(1, SeccompCmpOp::Ne, 0)?])?]);
    Ok(rules)
}

/// The calls that change what no rule bounds of a file: its attributes and flags.
fn unsupported() -> io::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ATTRIBUTES.iter().map(|call| (*call, Vec::new())).collect();
    // The kernel looks at the low half of a request only.
    let flags = FILE_FLAGS.iter().map(|request| {
        let is = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *request).map_err(unfit)?;
        SeccompRule::new(vec![is]).map_err(unfit)
    });
    rules.insert(libc::SYS_ioctl, flags.collect::<io::Result<_>>()?);
    Ok(rules)
}

/// The calls of the x32 interface have numbers of their own, by which they would pass all other rules. The architecture
/// is the same, and a range is more than a rule can say.
fn without_x32() -> BpfProgram {
    /// The bit that all numbers of that interface have.
    const X32: u32 = 0x4000_0000;
    /// Load a word from a place; compare with a constant; answer with a constant.
    const LOAD: u16 = 0x20;
    const AT_LEAST: u16 = 0x35;
    const ANSWER: u16 = 0x06;
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        // The number of the call comes first in what a filter sees.
        instruction(LOAD, 0, 0, 0),
        instruction(AT_LEAST, 0, 1, X32),
        instruction(ANSWER, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        instruction(ANSWER, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program answers to a call: the few instructions that filters consist of, carried out.
    fn answer(program: &BpfProgram, call: i64, args: [u64; 6]) -> u32 {
        let arch = if cfg!(target_arch = "x86_64") { 0xC000_003E } else { 0xC000_00B7 };
        let mut data = Vec::new();
        data.extend(i32::try_from(call).unwrap().to_le_bytes());
        data.extend(u32::to_le_bytes(arch));
        data.extend(0_u64.to_le_bytes());
        data.extend(args.iter().flat_map(|arg| arg.to_le_bytes()));
        let (mut at, mut value) = (0, 0_u32);
        loop {
            let step = &program[at];
            at += 1;
            let (class, k) = (u32::from(step.code) & 7, step.k);
            let mut jump = |taken: bool| at += usize::from(if taken { step.jt } else { step.jf });
            match (class, u32::from(step.code) & 0xf0) {
                (libc::BPF_LD, _) => {
                    let from = k as usize;
                    value = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
                }
                (libc::BPF_ALU, libc::BPF_AND) => value &= k,
                (libc::BPF_JMP, libc::BPF_JA) => at += k as usize,
                (libc::BPF_JMP, libc::BPF_JEQ) => jump(value == k),
                (libc::BPF_JMP, libc::BPF_JGE) => jump(value >= k),
                (libc::BPF_JMP, libc::BPF_JGT) => jump(value > k),
                (libc::BPF_RET, _) => return k,
                other => panic!("{other:?}"),
            }
        }
    }

    /// The strictest of the answers, as the kernel has it; errors come before allowing.
    fn verdict(nesting: Nesting, call: i64, args: [u64; 6]) -> Option<i32> {
        let filter = Filter::new(nesting).unwrap();
        let answers = filter.programs.iter().map(|program| answer(program, call, args));
        let strictest = answers.min_by_key(|answer| answer & 0xffff_0000).unwrap();
        (strictest != libc::SECCOMP_RET_ALLOW).then(|| i32::try_from(strictest & 0xffff).unwrap())
    }

    #[test]
    fn what_each_call_is_answered() {
        use Nesting::{Allowed, Denied};
        let high = 1_u64 << 32;
        let user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
        // What the C library starts threads and processes with.
        let thread = 0x003d_0f00;
        let table = [
            (libc::SYS_ptrace, [0; 6], Some(libc::EPERM), Some(libc::EPERM)),
            (libc::SYS_unshare, [0; 6], Some(libc::EPERM), None),
            (OPEN_TREE_ATTR, [0; 6], Some(libc::EPERM), None),
            (libc::SYS_clone3, [0; 6], Some(libc::ENOSYS), None),
            (libc::SYS_clone, [17, 0, 0, 0, 0, 0], None, None),
            (libc::SYS_clone, [thread, 0, 0, 0, 0, 0], None, None),
            (libc::SYS_clone, [user + 17, 0, 0, 0, 0, 0], Some(libc::EPERM), None),
            (libc::SYS_clone, [user | thread | high, 0, 0, 0, 0, 0], Some(libc::EPERM), None),
            (libc::SYS_ioctl, [0, 0x5413, 0, 0, 0, 0], None, None),
            (libc::SYS_ioctl, [0, 0x5412, 0, 0, 0, 0], Some(libc::EPERM), Some(libc::EPERM)),
            (libc::SYS_ioctl, [0, high + 0x5412, 0, 0, 0, 0], Some(libc::EPERM), Some(libc::EPERM)),
            (libc::SYS_ioctl, [0, 0x541C, 0, 0, 0, 0], Some(libc::EPERM), Some(libc::EPERM)),
            (libc::SYS_socket, [1, 0, 0, 0, 0, 0], None, None),
            (libc::SYS_socket, [2, 0, 0, 0, 0, 0], None, None),
            (libc::SYS_socket, [high + 10, 0, 0, 0, 0, 0], None, None),
            (libc::SYS_socket, [16, 0, 0, 0, 0, 0], None, None),
            (libc::SYS_socket, [17, 0, 0, 0, 0, 0], Some(libc::EPERM), Some(libc::EPERM)),
            (libc::SYS_socket, [38, 0, 0, 0, 0, 0], Some(libc::EPERM), Some(libc::EPERM)),
            (libc::SYS_socket, [high + 40, 0, 0, 0, 0, 0], Some(libc::EPERM), Some(libc::EPERM)),
            (libc::SYS_socketpair, [17, 0, 0, 0, 0, 0], None, None),
            (libc::SYS_openat, [0; 6], None, None),
            (libc::SYS_execve, [0; 6], None, None),
        ];
        for (call, args, denied, allowed) in table {
            assert_eq!(verdict(Denied, call, args), denied, "{call} {args:x?}");
            assert_eq!(verdict(Allowed, call, args), allowed, "{call} {args:x?}, nesting allowed");
        }
        if cfg!(target_arch = "x86_64") {
            for call in [0x4000_0000, 0x4000_0000 | libc::SYS_ptrace, 0x4000_0000 + 521] {
                assert_eq!(verdict(Allowed, call, [0; 6]), Some(libc::ENOSYS));
            }
        }
    }

    #[test]
    fn every_call_on_the_lists_is_denied() {
        for call in ALWAYS {
            assert_eq!(verdict(Nesting::Denied, call, [0; 6]), Some(libc::EPERM), "{call}");
            assert_eq!(verdict(Nesting::Allowed, call, [0; 6]), Some(libc::EPERM), "{call}");
        }
        for call in NESTING {
            assert_eq!(verdict(Nesting::Denied, call, [0; 6]), Some(libc::EPERM), "{call}");
            assert_eq!(verdict(Nesting::Allowed, call, [0; 6]), None, "{call}");
        }
        for flag in NEW_SPACES {
            let args = [u64::from(flag.cast_unsigned()), 0, 0, 0, 0, 0];
            assert_eq!(verdict(Nesting::Denied, libc::SYS_clone, args), Some(libc::EPERM), "{flag:x}");
        }
    }

    /// What a box without namespaces answers, beside the rest.
    fn without_namespaces(call: i64, args: [u64; 6]) -> Option<i32> {
        let filter = Filter::of_sockets(true).unwrap();
        let answers = filter.programs.iter().map(|program| answer(program, call, args));
        let strictest = answers.min_by_key(|answer| answer & 0xffff_0000).unwrap();
        (strictest != libc::SECCOMP_RET_ALLOW).then(|| i32::try_from(strictest & 0xffff).unwrap())
    }

    #[test]
    fn nothing_shared_is_used_by_its_number() {
        for call in SHARED {
            assert_eq!(without_namespaces(call, [0; 6]), Some(libc::EPERM), "{call}");
        }
    }

    #[test]
    fn flags_of_files_stay_as_they_are() {
        for request in FILE_FLAGS {
            for request in [request, request | 1 << 32] {
                let args = [3, request, 0, 0, 0, 0];
                assert_eq!(without_namespaces(libc::SYS_ioctl, args), Some(libc::EOPNOTSUPP), "{request:x}");
            }
        }
        // To read them, and what terminals are asked.
        for request in [0x8008_6601, 0x801c_581f, 0x5401, 0x5413] {
            assert_eq!(without_namespaces(libc::SYS_ioctl, [3, request, 0, 0, 0, 0]), None, "{request:x}");
        }
        for call in ATTRIBUTES {
            assert_eq!(without_namespaces(call, [0; 6]), Some(libc::EOPNOTSUPP), "{call}");
        }
    }

    #[test]
    fn another_architecture_is_killed() {
        let filter = Filter::new(Nesting::Denied).unwrap();
        // The check comes first in a program: the architecture, a comparison, death if it is another.
        let first = &filter.programs[0];
        assert_eq!(first[0].k, 4, "the architecture is looked at");
        assert!(first.iter().take(4).any(|step| step.k == libc::SECCOMP_RET_KILL_PROCESS), "{first:?}");
    }
}

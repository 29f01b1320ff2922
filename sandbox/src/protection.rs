//! What is in force in a box, by name: for records, and for those who want to know.

use crate::bounds::Watch;
use crate::guard::Guard;
use crate::plan::Enforcement;
use crate::step::{Resource, Step};
use std::fmt;

/// One thing that protects the host from what runs in a box. Its name is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protection {
    /// Its users are others than the host's.
    UserNamespace,
    /// Its mounts are its own.
    MountNamespace,
    /// It sees no process but its own.
    PidNamespace,
    /// Its shared memory and message queues are its own.
    IpcNamespace,
    /// Its host name is its own.
    UtsNamespace,
    /// It sees no control group but its own.
    CgroupNamespace,
    /// Its network is its own, with nothing but loopback.
    NetworkNamespace,
    /// What was not made writable is read-only.
    ReadOnlyRoot,
    /// The parts of `/proc` that all of the host shares are read-only.
    ReadOnlyProc,
    /// It can make no namespace.
    NoNesting,
    /// No capability is left.
    NoCapabilities,
    /// No program gives more rights than its caller has.
    NoNewPrivileges,
    /// A command can write where it should and nowhere else, by rules on the process.
    LandlockFiles,
    /// A command can signal only what it started, and connect to no abstract socket but theirs, by rules on the process.
    LandlockScopes,
    /// System calls are filtered.
    Seccomp,
    /// The memory of all its processes together is bounded.
    MemoryLimit,
    /// The number of its processes is bounded.
    ProcessLimit,
    /// It has a share of the processor.
    CpuWeight,
    /// The space of what it can write is bounded.
    DiskLimit,
    /// The size of each file it writes is bounded.
    FileSizeLimit,
    /// A command can read where it should and nowhere else, by rules on the process.
    LandlockReads,
    /// A command can neither connect nor listen over TCP, by rules on the process.
    LandlockNetwork,
    /// What a box without namespaces could reach over sockets and shared memory is filtered.
    SocketFilter,
    /// Modes, times and owners can be changed where files can be written and nowhere else.
    BoundMetadata,
    /// Its processes are killed as one, as a control group of their own.
    KillGroup,
}

impl Protection {
    /// Its name, which stays the same from version to version.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserNamespace => "user-namespace",
            Self::MountNamespace => "mount-namespace",
            Self::PidNamespace => "pid-namespace",
            Self::IpcNamespace => "ipc-namespace",
            Self::UtsNamespace => "uts-namespace",
            Self::CgroupNamespace => "cgroup-namespace",
            Self::NetworkNamespace => "network-namespace",
            Self::ReadOnlyRoot => "read-only-root",
            Self::ReadOnlyProc => "read-only-proc",
            Self::NoNesting => "no-nested-namespaces",
            Self::NoCapabilities => "no-capabilities",
            Self::NoNewPrivileges => "no-new-privileges",
            Self::LandlockFiles => "landlock-files",
            Self::LandlockScopes => "landlock-scopes",
            Self::Seccomp => "seccomp",
            Self::MemoryLimit => "memory-limit",
            Self::ProcessLimit => "process-limit",
            Self::CpuWeight => "cpu-weight",
            Self::DiskLimit => "disk-limit",
            Self::FileSizeLimit => "file-size-limit",
            Self::LandlockReads => "landlock-reads",
            Self::LandlockNetwork => "landlock-network",
            Self::SocketFilter => "socket-filter",
            Self::BoundMetadata => "bound-metadata",
            Self::KillGroup => "kill-group",
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Enforcement {
    /// What is really in force once a command of this box runs, from the plan's own steps: each must succeed, or nothing
    /// starts. Sorted, each once.
    pub fn layers(&self) -> Vec<Protection> {
        let mut all: Vec<Protection> = self.steps().iter().flat_map(of_step).collect();
        all.extend(self.guards().iter().flat_map(of_guard));
        all.extend(of_watch(self.watch()));
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn of_step(step: &Step) -> Vec<Protection> {
    match step {
        Step::Unshare { network } => {
            let mut spaces = vec![
                Protection::UserNamespace,
                Protection::MountNamespace,
                Protection::PidNamespace,
                Protection::IpcNamespace,
                Protection::UtsNamespace,
                Protection::CgroupNamespace,
            ];
            spaces.extend(network.then_some(Protection::NetworkNamespace));
            spaces
        }
        Step::Root => vec![Protection::ReadOnlyRoot],
        Step::ProtectProcesses => vec![Protection::ReadOnlyProc],
        Step::ForbidNesting => vec![Protection::NoNesting],
        Step::DropCapabilities => vec![Protection::NoCapabilities],
        Step::NoNewPrivileges => vec![Protection::NoNewPrivileges],
        Step::KillGroup { .. } => vec![Protection::KillGroup],
        Step::ControlGroup { memory, processes, cpu_weight, .. } => {
            let memory = memory.map(|_| Protection::MemoryLimit);
            let processes = processes.map(|_| Protection::ProcessLimit);
            memory.into_iter().chain(processes).chain(cpu_weight.map(|_| Protection::CpuWeight)).collect()
        }
        Step::ProcessNumbers { .. } | Step::Limit { resource: Resource::Processes, .. } => {
            vec![Protection::ProcessLimit]
        }
        Step::Limit { resource: Resource::FileSize, .. } => vec![Protection::FileSizeLimit],
        Step::KillFirst { .. }
        | Step::Map { .. }
        | Step::Private
        | Step::Clone { .. }
        | Step::Devices { .. }
        | Step::Processes
        | Step::Scratch { .. }
        | Step::Hide { .. }
        | Step::Bind { .. }
        | Step::Mask { .. }
        | Step::Seal { .. }
        | Step::Pivot
        | Step::Hostname { .. }
        | Step::Loopback
        | Step::Listen { .. }
        | Step::Relay { .. }
        | Step::Undumpable
        | Step::LeaveSession
        | Step::Adopt
        | Step::Link { .. }
        | Step::Limit { resource: Resource::Core | Resource::OpenFiles, .. } => Vec::new(),
    }
}

fn of_watch(watch: &Watch) -> impl Iterator<Item = Protection> {
    let memory = watch.memory.map(|_| Protection::MemoryLimit);
    memory.into_iter().chain(watch.disk.map(|_| Protection::DiskLimit))
}

fn of_guard(guard: &Guard) -> Vec<Protection> {
    match guard {
        Guard::Landlock { writable, scopes, .. } => {
            let files = writable.is_some().then_some(Protection::LandlockFiles);
            files.into_iter().chain(scopes.then_some(Protection::LandlockScopes)).collect()
        }
        Guard::Cage { network, scopes, .. } => {
            let mut all = vec![Protection::LandlockFiles, Protection::LandlockReads];
            all.extend((!network).then_some(Protection::LandlockNetwork));
            all.extend(scopes.then_some(Protection::LandlockScopes));
            all
        }
        Guard::Metadata { .. } => vec![Protection::BoundMetadata],
        Guard::Sockets { .. } => vec![Protection::SocketFilter],
        Guard::Seccomp { .. } => vec![Protection::Seccomp],
    }
}

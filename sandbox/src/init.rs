//! The two processes between the parent and a command.
//!
//! The *outer* process creates the namespaces, forks *init*, hands out a pidfd of it and waits. It ends only when the kernel
//! has removed the last process of the box, which makes its end the proof that nothing is left. Init carries out the
//! steps and then serves orders ([`crate::serve`]).
//!
//! Both hold a control socket whose other end only the parent has. When the parent is gone, however it went, init sees the
//! hang-up and exits, and the kernel kills what is left in the namespace.

use crate::canary;
use crate::cgroup::Group;
use crate::guard::Guards;
use crate::mounts::Mounts;
use crate::plan::Enforcement;
use crate::reach::{Descendants, Family, KillGroup, Reach, Sweep};
use crate::serve;
use crate::step::{Identity, Stage, Step};
use crate::sys;
use crate::wire::{self, Fault, Order, Report};
use nix::sched::CloneFlags;
use nix::sys::stat::Mode;
use nix::sys::wait::WaitStatus;
use nix::unistd::{ForkResult, Pid};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, PidfdFlags, Signal};
use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// The end of an outer process that something of its box outlived.
pub(crate) const ESCAPED: i32 = 86;

/// The argument that asks a program to be the outer process.
pub(crate) const ASKED: &str = "__sandbox-init";

/// Becomes a box's init and never returns, if this process was started to be that (or what a probe runs inside of a box);
/// else does nothing.
///
/// Must be the first thing in `main`: the kernel gives a new user namespace to single-threaded processes only.
pub fn init_main_if_asked() {
    match std::env::args_os().nth(1) {
        Some(first) if first == ASKED => sys::exit_now(outer()),
        Some(first) if first == canary::ASKED => canary::main(),
        Some(_) | None => {}
    }
}

/// What is passed on from step to step in init.
struct Build<'a> {
    mounts: Mounts,
    listeners: Vec<UnixListener>,
    relay: Option<TcpListener>,
    control: BorrowedFd<'a>,
}

fn outer() -> i32 {
    // Nothing the parent left open may reach a box, and a copy of the parent's end would keep a box alive without it.
    if sys::close_from(3, true).is_err() || sys::block_polite_signals().is_err() {
        return 1;
    }
    let Ok(control) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3) else {
        return 1;
    };
    if null_stdin().is_err() {
        return 1;
    }
    // For what is made before the box has its own `/`; modes that matter are given where a thing is made.
    nix::sys::stat::umask(Mode::from_bits_truncate(0o022));
    let order = wire::receive::<Order>(control.as_fd(), RecvFlags::empty(), true);
    let Ok(Some((Order::Start { enforcement, holds }, mut files))) = order else {
        return 1;
    };
    // Open until this process and init have ended. No command gets it: exec closes its copy.
    let _held = (holds && !files.is_empty()).then(|| files.remove(0));
    let separated = separate(&enforcement, Group::of(files).as_ref(), control.as_fd());
    // Only init's copy may keep the parent waiting: when init ends, the parent must see the hang-up.
    drop(control);
    let Ok((init, group)) = separated else {
        return 1;
    };
    let code = wait_for(init);
    match enforcement.reach() {
        Reach::Namespace => code,
        Reach::Descendants => bury(code, group.as_ref()),
    }
}

/// Ends what init, however it went, left behind: it has come down to this process.
fn bury(code: i32, group: Option<&KillGroup>) -> i32 {
    let sweep = Descendants::new(group.cloned()).sweep(&mut |_, _| false);
    group.into_iter().for_each(KillGroup::remove);
    match sweep {
        Ok(Sweep { escaped: 0, .. }) => code,
        Ok(_) | Err(_) => ESCAPED,
    }
}

fn null_stdin() -> Result<(), Errno> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
    rustix::stdio::dup2_stdin(null)
}

fn report_fault(control: BorrowedFd<'_>, step: usize, fault: Fault) {
    let report = Report::Failed { step, path: fault.path.map(Into::into), errno: fault.errno };
    // If nobody listens any more there is nobody to tell.
    drop(wire::tell(control, &report, &[]));
}

/// Carries out the outer steps and forks init; the parent has been told of what failed.
fn separate(
    enforcement: &Enforcement,
    bounds: Option<&Group>,
    control: BorrowedFd<'_>,
) -> Result<(Pid, Option<KillGroup>), ()> {
    let mut last = 0;
    let mut group = None;
    for (index, step) in enforcement.steps().iter().enumerate() {
        last = index;
        match step.stage() {
            Stage::Outer => {
                outer_step(step, bounds, &mut group).map_err(|fault| report_fault(control, index, fault))?;
            }
            Stage::Init | Stage::Command => {}
        }
    }
    if let (Some(bounds), Some((index, ..))) = (bounds, enforcement.control_group()) {
        // Only now: the group that a process is in when it makes the namespace is the root of what commands see.
        bounds.step_aside().map_err(|errno| report_fault(control, index, errno.into()))?;
    }
    let forked = match enforcement.reach() {
        Reach::Namespace => Ok(()),
        // What init leaves behind comes to the outer process.
        Reach::Descendants => Descendants::adopt().map_err(Fault::from),
    };
    let forked = forked.and_then(|()| fork_init(enforcement, control, bounds, group.clone()));
    match forked {
        Ok(init) => Ok((init, group)),
        Err(fault) => {
            group.iter().for_each(KillGroup::remove);
            report_fault(control, last, fault);
            Err(())
        }
    }
}

fn outer_step(step: &Step, bounds: Option<&Group>, group: &mut Option<KillGroup>) -> Result<(), Fault> {
    match step {
        Step::KillFirst { score } => kill_first(*score),
        Step::ControlGroup { .. } => Ok(bounds.ok_or(Errno::BADF)?.enter()?),
        Step::LeaveSession => leave_session(),
        Step::KillGroup { parent } => {
            *group = Some(KillGroup::make(parent).map_err(|error| Fault::from(error).at(parent))?);
            Ok(())
        }
        Step::Unshare { network } => unshare(*network),
        Step::Map { user, group } => map(*user, *group),
        other => Err(misplaced(other)),
    }
}

fn misplaced(_step: &Step) -> Fault {
    Fault::from(Errno::INVAL)
}

/// Raises the score, unless it is as high already. Everything in the box inherits it.
fn kill_first(score: u32) -> Result<(), Fault> {
    let path = "/proc/self/oom_score_adj";
    let raise = || {
        let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
        let mut text = [0; 16];
        let length = rustix::io::read(&file, &mut text)?;
        let now =
            text.get(..length).and_then(|text| std::str::from_utf8(text).ok()).and_then(|now| now.trim().parse().ok());
        if now.is_some_and(|now: i64| now >= i64::from(score)) {
            return Ok(());
        }
        rustix::io::pwrite(&file, score.to_string().as_bytes(), 0).map(drop)
    };
    match raise() {
        // A program that its user may run but not read does not own its files in `/proc`.
        Err(Errno::ACCESS) => Ok(()),
        other => other.map_err(|errno| Fault::from(errno).at(path)),
    }
}

/// The groups of root's session would stay on as rights to host files. Others may not drop theirs.
fn leave_session() -> Result<(), Fault> {
    match nix::unistd::setgroups(&[]) {
        Ok(()) | Err(nix::Error::EPERM) => {}
        Err(error) => return Err(error.into()),
    }
    sys::leave_session_keyring();
    Ok(())
}

fn unshare(network: bool) -> Result<(), Fault> {
    leave_session()?;
    let mut spaces = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    if network {
        spaces |= CloneFlags::CLONE_NEWNET;
    }
    Ok(nix::sched::unshare(spaces)?)
}

fn map(user: Identity, group: Identity) -> Result<(), Fault> {
    let write = |path: &str, text: String| -> Result<(), Fault> {
        let write = || {
            let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
            rustix::io::write(&file, text.as_bytes())
        };
        write().map_err(|errno| Fault::from(errno).at(path))?;
        Ok(())
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{} {} 1\n", user.inner, user.outer))?;
    write("/proc/self/gid_map", format!("{} {} 1\n", group.inner, group.outer))
}

/// Forks init and tells the parent of it. Init goes on only once it would die with this process.
fn fork_init(
    enforcement: &Enforcement,
    control: BorrowedFd<'_>,
    bounds: Option<&Group>,
    group: Option<KillGroup>,
) -> Result<Pid, Fault> {
    let last_signal = match enforcement.reach() {
        Reach::Namespace => Signal::KILL,
        // It must end its family before itself.
        Reach::Descendants => Signal::TERM,
    };
    let (armed_read, armed_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (go_read, go_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match sys::fork_single()? {
        ForkResult::Child => {
            drop((armed_read, go_write));
            // Process-bound although it is thread-bound: the outer process has one thread, which lives as long as it.
            let armed = rustix::process::set_parent_process_death_signal(Some(last_signal))
                .and_then(|()| rustix::io::write(&armed_write, b"a"));
            drop(armed_write);
            // The end of file says that the outer process died before the signal was armed.
            if armed.is_err() || rustix::io::read(&go_read, &mut [0; 1]) != Ok(1) {
                sys::exit_now(1);
            }
            drop(go_read);
            sys::exit_now(init(enforcement, control, bounds, group))
        }
        ForkResult::Parent { child } => {
            drop((armed_write, go_read));
            let ready = rustix::io::read(&armed_read, &mut [0; 1])?;
            let pid = rustix::process::Pid::from_raw(child.as_raw()).ok_or(Errno::SRCH)?;
            // Not reaped yet, so the number is this process whether it lives or not.
            let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
            if ready == 1 {
                wire::tell(control, &Report::Born, &[handle.as_fd()])?;
                rustix::io::write(&go_write, b"g")?;
            }
            Ok(child)
        }
    }
}

/// Waits for the end of init, which is the end of the box.
fn wait_for(init: Pid) -> i32 {
    loop {
        match nix::sys::wait::waitpid(init, None) {
            Ok(WaitStatus::Exited(_, code)) => return code,
            Ok(WaitStatus::Signaled(..)) => return 0,
            Err(nix::Error::EINTR) | Ok(_) => {}
            Err(_) => return 1,
        }
    }
}

fn init(enforcement: &Enforcement, control: BorrowedFd<'_>, bounds: Option<&Group>, group: Option<KillGroup>) -> i32 {
    let mut build = Build { mounts: Mounts::default(), listeners: Vec::new(), relay: None, control };
    for (index, step) in enforcement.steps().iter().enumerate() {
        if step.stage() != Stage::Init {
            continue;
        }
        if let Err(fault) = build.step(step) {
            report_fault(build.control, index, fault);
            return 1;
        }
    }
    let guards = match Guards::new(enforcement.guards()) {
        Ok(guards) => guards,
        Err((index, fault)) => {
            report_fault(build.control, enforcement.steps().len() + index, fault);
            return 1;
        }
    };
    let Ok(family) = Family::of_init(enforcement.reach(), group) else {
        return 1;
    };
    let unix = build.listeners.iter().map(|listener| listener.as_fd());
    let files: Vec<BorrowedFd<'_>> = unix.chain(build.relay.iter().map(|listener| listener.as_fd())).collect();
    if wire::tell(control, &Report::Ready, &files).is_err() {
        return 1;
    }
    drop(build);
    let served = serve::serve(enforcement, &guards, &family, bounds, control);
    match enforcement.reach() {
        Reach::Namespace => {}
        // What is left after this is the outer process's to end, and to tell of.
        Reach::Descendants => {
            drop(family.sweep(|_, _| false));
            family.group().into_iter().for_each(KillGroup::remove);
        }
    }
    match served {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

impl Build<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Fault> {
        match step {
            Step::Private => Mounts::private(),
            Step::Clone { id, source, access } => self.mounts.clone(*id, source, access.is_read_only()),
            Step::Root => self.mounts.enter_root(),
            Step::Devices { size } => self.mounts.devices(*size),
            Step::Processes => self.mounts.processes(),
            Step::ProcessNumbers { below } => self.mounts.process_numbers(*below),
            Step::ForbidNesting => self.mounts.forbid_nesting(),
            Step::ProtectProcesses => self.mounts.protect_processes(),
            Step::Scratch { target, mode, size } => self.mounts.scratch(target, *mode, *size),
            Step::Hide { target } => self.mounts.hide(target),
            Step::Bind { id, target } => self.mounts.bind(*id, target),
            Step::Mask { target } => self.mounts.mask(target),
            Step::Seal { target } => self.mounts.seal(target),
            Step::Pivot => std::mem::take(&mut self.mounts).pivot(),
            Step::Hostname { name } => Ok(nix::unistd::sethostname(name)?),
            Step::Loopback => Ok(sys::loopback_up()?),
            Step::Listen { path } => {
                self.listeners.push(listen(path).map_err(|fault| fault.at(path))?);
                Ok(())
            }
            Step::Relay { port } => {
                // A socket stays in the network it was made in, whoever holds it: what is accepted on it comes from here.
                self.relay = Some(TcpListener::bind((Ipv4Addr::LOCALHOST, *port))?);
                Ok(())
            }
            Step::DropCapabilities => drop_capabilities(),
            Step::NoNewPrivileges => Ok(rustix::thread::set_no_new_privs(true)?),
            Step::Undumpable => Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?),
            Step::Adopt => {
                rustix::process::chdir("/")?;
                Ok(Descendants::adopt()?)
            }
            Step::Link { target, source } => link(target, source).map_err(|fault| fault.at(target)),
            Step::KillFirst { .. }
            | Step::ControlGroup { .. }
            | Step::Unshare { .. }
            | Step::Map { .. }
            | Step::LeaveSession
            | Step::KillGroup { .. }
            | Step::Limit { .. } => Err(misplaced(step)),
        }
    }
}

/// A listening socket, whose directory is made if missing. Bound by way of the directory's descriptor: the kernel takes
/// 107 bytes of path at most.
fn listen(path: &Path) -> Result<UnixListener, Fault> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or(OsStr::new("socket"));
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
    let directory = crate::place::find(root.as_fd(), parent, crate::place::Missing::Directory)?;
    rustix::process::fchdir(&directory)?;
    let listener = UnixListener::bind(OsStr::from_bytes(name.as_bytes()));
    rustix::process::chdir("/")?;
    Ok(listener?)
}

/// A link in a tree that an agent may have written to, whose folder is made if missing. What lies there already stays.
fn link(target: &Path, source: &Path) -> Result<(), Fault> {
    let parent = target.parent().unwrap_or(Path::new("/"));
    let name = target.file_name().unwrap_or(OsStr::new("link"));
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
    let folder = crate::place::find(root.as_fd(), parent, crate::place::Missing::Directory)?;
    match rustix::fs::symlinkat(source, folder, name) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Drops every capability, those that a program could bring back included.
fn drop_capabilities() -> Result<(), Fault> {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    rustix::thread::clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // A capability this kernel does not know.
            Ok(()) | Err(Errno::INVAL) => {}
            // Nor could one come back to a process that may not even drop them: no new privilege comes after this.
            Err(Errno::PERM) if rustix::thread::capabilities(None)?.permitted.is_empty() => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

//! From policy and host facts to steps, without a system call.
//!
//! The order is fixed by what the kernel and an agent could otherwise do with it: sources are taken hold of before anything
//! is covered, `/proc` is mounted while the host's is still in view (the kernel allows a fresh one only then), mounts go
//! from short paths to long ones so that none buries another, and directories are sealed once their mount points exist.

use crate::check::{self, Placed};
use crate::fence;
use crate::guard::Guard;
use crate::host::{Host, Kernel};
use crate::policy::{Access, Nesting, Network, Policy};
use crate::refusal::{Layer, Refusal};
use crate::step::{Identity, Resource, Step};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// Size of a temporary file system when the policy names none.
const SCRATCH: u64 = 256 << 20;

/// The user and group seen inside by a box that root runs: programs behave differently for user 0, or refuse to run.
const STAND_IN: u32 = 1000;

/// The steps that make one box, and where its commands start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    steps: Vec<Step>,
    guards: Vec<Guard>,
    #[serde(with = "crate::wire::path")]
    workdir: PathBuf,
}

impl Enforcement {
    /// Decides how `policy` is enforced on `host`, or why it cannot be.
    pub fn plan(policy: &Policy, host: &Host) -> Result<Self, Refusal> {
        refuse_host(host)?;
        check::check(policy)?;
        let placed = check::placed(policy);
        let network = policy.network != Network::Host;
        let size = policy.limits.scratch.unwrap_or(SCRATCH);

        let mut steps = outer(host, network);
        steps.push(Step::Private);
        steps.extend(clones(&placed));
        steps.push(Step::Root);
        steps.push(Step::Devices { size });
        steps.push(Step::Processes);
        if policy.nesting == Nesting::Denied {
            steps.push(Step::ForbidNesting);
        }
        if !may_have_fresh_processes(policy, host) {
            steps.push(Step::ProtectProcesses);
        }
        steps.extend(mounts(policy, &placed, size));
        steps.push(Step::Pivot);
        steps.push(Step::Hostname { name: policy.hostname.clone() });
        if network {
            steps.push(Step::Loopback);
        }
        steps.extend(policy.listen.iter().map(|path| Step::Listen { path: path.clone() }));
        steps.extend([Step::DropCapabilities, Step::NoNewPrivileges, Step::Undumpable]);
        steps.extend(limits(policy));
        let guards = guards(policy, &placed, host);
        Ok(Self { steps, guards, workdir: policy.workdir.clone() })
    }

    /// A box with nothing in it but the host read-only: what a probe starts, to see whether boxes can be had at all.
    pub(crate) fn empty(host: &Host) -> Self {
        let mut steps = outer(host, true);
        steps.extend([
            Step::Private,
            Step::Root,
            Step::Devices { size: 1 << 20 },
            Step::Processes,
            Step::ForbidNesting,
            Step::ProtectProcesses,
            Step::Pivot,
            Step::Loopback,
            Step::DropCapabilities,
            Step::NoNewPrivileges,
        ]);
        // Rules that allow to write nowhere, so that one can see whether they hold.
        let mut guards: Vec<Guard> = landlock(host, Some(Vec::new())).into_iter().collect();
        guards.extend(host.seccomp.then_some(Guard::Seccomp { nesting: Nesting::Denied }));
        Self { steps, guards, workdir: PathBuf::from("/") }
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What confines each command, in order, after all steps.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Where commands start unless they say otherwise.
    pub fn workdir(&self) -> &Path {
        &self.workdir
    }

    /// The paths of the sockets made inside, in order.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &Path> {
        self.steps.iter().filter_map(|step| if let Step::Listen { path } = step { Some(path.as_path()) } else { None })
    }

    /// The same without one kind of step, for tests that show what is lost without it.
    #[doc(hidden)]
    #[must_use]
    pub fn without(mut self, dropped: impl Fn(&Step) -> bool) -> Self {
        self.steps.retain(|step| !dropped(step));
        self
    }

    /// The same with another guard before the others, for tests of what one guard does alone.
    #[doc(hidden)]
    #[must_use]
    pub fn with_guard(mut self, guard: Guard) -> Self {
        self.guards.insert(0, guard);
        self
    }

    /// The same without one kind of guard.
    #[doc(hidden)]
    #[must_use]
    pub fn without_guard(mut self, dropped: impl Fn(&Guard) -> bool) -> Self {
        self.guards.retain(|guard| !dropped(guard));
        self
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))?;
        self.guards.iter().try_for_each(|guard| writeln!(f, "{guard}"))
    }
}

fn refuse_host(host: &Host) -> Result<(), Refusal> {
    let namespaces = |cause, fix| Refusal { layer: Layer::Namespaces, cause, fix };
    if let Some(obstacle) = &host.obstacle {
        return Err(namespaces(obstacle.cause(), obstacle.fix()));
    }
    if !host.seccomp {
        return Err(Refusal {
            layer: Layer::Seccomp,
            cause: "system calls cannot be filtered here".to_owned(),
            fix: "run on x86-64 or 64-bit ARM, with a kernel built with CONFIG_SECCOMP_FILTER".to_owned(),
        });
    }
    if host.kernel < Kernel::OLDEST {
        return Err(namespaces(
            format!("the kernel is {}, older than {}", host.kernel, Kernel::OLDEST),
            format!("run on Linux {} or newer", Kernel::OLDEST),
        ));
    }
    Ok(())
}

/// The id inside a box of a user or group `outer` outside, where that is the one that runs the box.
pub fn id_inside(outer: u32) -> u32 {
    if outer == 0 { STAND_IN } else { outer }
}

/// Whether a sandbox inside may have a `/proc` of its own: the kernel gives one only while no part of the box's is covered.
///
/// An ordinary user's box can do without the covers, for what they protect belongs to root, who does not exist inside. A
/// box of root's cannot: its user owns the kernel's settings.
fn may_have_fresh_processes(policy: &Policy, host: &Host) -> bool {
    policy.nesting == Nesting::Allowed && host.uid != 0
}

fn outer(host: &Host, network: bool) -> Vec<Step> {
    let identity = |outer| Identity { outer, inner: id_inside(outer) };
    vec![Step::Unshare { network }, Step::Map { user: identity(host.uid), group: identity(host.gid) }]
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn clones(placed: &[Placed]) -> impl Iterator<Item = Step> {
    placed.iter().enumerate().map(|(index, bind)| Step::Clone {
        id: number(index),
        source: bind.source.clone(),
        access: bind.access,
    })
}

/// Which of two mounts on paths of one length comes first; only masks and pins may lie on another's target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Scratch,
    Hide,
    Bind,
    Mask,
    Pin,
}

/// The directories to write in that vanish with the box, with their modes.
fn scratch(policy: &Policy, placed: &[Placed]) -> impl Iterator<Item = (&'static str, u32)> {
    let taken = |path: &Path| placed.iter().any(|p| p.target == path) || policy.hide.iter().any(|hide| hide == path);
    [("/var/tmp", 0o1777), ("/run", 0o755)].into_iter().filter(move |(path, _)| !taken(Path::new(path)))
}

fn mounts(policy: &Policy, placed: &[Placed], size: u64) -> Vec<Step> {
    let scratch = scratch(policy, placed)
        .map(|(path, mode)| (Rank::Scratch, Step::Scratch { target: PathBuf::from(path), mode, size }));
    let hidden = check::hidden(policy, placed);
    let hides = hidden.iter().map(|path| (Rank::Hide, Step::Hide { target: path.clone() }));
    let binds = placed.iter().enumerate().map(|(index, bind)| {
        let rank = if bind.pinned { Rank::Pin } else { Rank::Bind };
        (rank, Step::Bind { id: number(index), target: bind.target.clone() })
    });
    let masks = policy.mask.iter().map(|path| (Rank::Mask, Step::Mask { target: path.clone() }));

    let mut all: Vec<(Rank, Step)> = scratch.chain(hides).chain(binds).chain(masks).collect();
    all.sort_by_key(|(rank, step)| (depth(step), *rank));
    let mut steps: Vec<Step> = all.into_iter().map(|(_, step)| step).collect();
    steps.extend(hidden.into_iter().map(|target| Step::Seal { target }));
    steps
}

/// Number of components of the path a mount step covers.
fn depth(step: &Step) -> usize {
    match step {
        Step::Scratch { target, .. } | Step::Hide { target } | Step::Bind { target, .. } | Step::Mask { target } => {
            target.components().count()
        }
        Step::Unshare { .. }
        | Step::Map { .. }
        | Step::Private
        | Step::Clone { .. }
        | Step::Root
        | Step::Devices { .. }
        | Step::Processes
        | Step::ForbidNesting
        | Step::ProtectProcesses
        | Step::Seal { .. }
        | Step::Pivot
        | Step::Hostname { .. }
        | Step::Loopback
        | Step::Listen { .. }
        | Step::DropCapabilities
        | Step::NoNewPrivileges
        | Step::Undumpable
        | Step::Limit { .. } => 0,
    }
}

fn limits(policy: &Policy) -> Vec<Step> {
    let asked = [(Resource::FileSize, policy.limits.file_size), (Resource::OpenFiles, policy.limits.open_files)];
    let mut steps = vec![Step::Limit { resource: Resource::Core, value: 0 }];
    steps.extend(asked.into_iter().filter_map(|(resource, value)| Some(Step::Limit { resource, value: value? })));
    steps
}

fn guards(policy: &Policy, placed: &[Placed], host: &Host) -> Vec<Guard> {
    let files = (policy.nesting == Nesting::Denied).then(|| writable(policy, placed));
    let mut guards: Vec<Guard> = landlock(host, files).into_iter().collect();
    guards.push(Guard::Seccomp { nesting: policy.nesting });
    guards
}

/// The rules this host can have; `None` if that is nothing.
fn landlock(host: &Host, writable: Option<Vec<PathBuf>>) -> Option<Guard> {
    let version = host.landlock.filter(|version| *version >= fence::FIRST)?;
    let scopes = version >= fence::SCOPES;
    (writable.is_some() || scopes).then_some(Guard::Landlock { version, writable, scopes })
}

/// Where the mounts let something be written, without what lies in another of them.
fn writable(policy: &Policy, placed: &[Placed]) -> Vec<PathBuf> {
    let binds = placed.iter().filter(|bind| !bind.access.is_read_only()).map(|bind| bind.target.clone());
    let mut all: Vec<PathBuf> = ["/dev", "/proc"].into_iter().map(PathBuf::from).chain(binds).collect();
    all.extend(scratch(policy, placed).map(|(path, _)| PathBuf::from(path)));
    all.sort();
    // What lies in another comes right after it, or after others that do.
    all.dedup_by(|next, before| next.starts_with(before));
    all
}

/// Keeps the access of a clone in one place for those who carry it out.
impl Access {
    pub(crate) const fn is_read_only(self) -> bool {
        matches!(self, Self::ReadOnly)
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

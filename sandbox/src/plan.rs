//! From policy and host facts to steps, without a system call.
//!
//! The order is fixed by what the kernel and an agent could otherwise do with it: sources are taken hold of before anything
//! is covered, `/proc` is mounted while the host's is still in view (the kernel allows a fresh one only then), mounts go
//! from short paths to long ones so that none buries another, and directories are sealed once their mount points exist.

use crate::bounds::{self, Watch};
use crate::cgroup::{self, ControlGroups};
use crate::check::{self, Placed};
use crate::fence;
use crate::form::{self, Form};
use crate::guard::Guard;
use crate::host::Host;
use crate::landlock_only;
use crate::policy::{Access, Nesting, Network, Policy};
use crate::reach::Reach;
use crate::refusal::{Layer, Refusal};
use crate::seen::Places;
use crate::step::{Identity, Resource, Step};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// Size of a temporary file system when the policy names none.
const SCRATCH: u64 = 256 << 20;

/// What the box of a probe may use, to see whether it can be bounded.
const EMPTY_MEMORY: u64 = 256 << 20;
const EMPTY_PROCESSES: u32 = 400;

/// The user and group seen inside by a box that root runs: programs behave differently for user 0, or refuse to run.
const STAND_IN: u32 = 1000;

/// The steps that make one box, and where its commands start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    steps: Vec<Step>,
    guards: Vec<Guard>,
    watch: Watch,
    #[serde(with = "crate::wire::path")]
    workdir: PathBuf,
    reach: Reach,
    #[serde(skip)]
    places: Places,
    #[serde(skip)]
    left_out: Vec<&'static str>,
}

impl Enforcement {
    /// Decides how `policy` is enforced on `host`, or why it cannot be.
    pub fn plan(policy: &Policy, host: &Host) -> Result<Self, Refusal> {
        form::refuse(policy, host)?;
        check::check(policy)?;
        match host.form() {
            Form::Full => Self::full(policy, host),
            Form::LandlockOnly => landlock_only::plan(policy, host),
        }
    }

    fn full(policy: &Policy, host: &Host) -> Result<Self, Refusal> {
        let placed = check::placed(policy);
        let network = policy.network != Network::Host;
        let size = policy.limits.scratch.unwrap_or(SCRATCH);
        let in_memory = scratch(policy, &placed).map(|(path, _)| OsString::from(path));
        let bounds = bounds::plan(policy, host, &placed, in_memory.chain([OsString::from("/dev/shm")]))?;

        let mut steps = bounds.outer;
        steps.extend(outer(host, network));
        steps.push(Step::Private);
        steps.extend(clones(&placed));
        steps.push(Step::Root);
        steps.push(Step::Devices { size });
        steps.push(Step::Processes);
        steps.extend(bounds.numbers);
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
        if let Network::Relay { port } = policy.network {
            steps.push(Step::Relay { port });
        }
        steps.extend([Step::DropCapabilities, Step::NoNewPrivileges, Step::Undumpable]);
        steps.extend(bounds.command);
        let guards = guards(policy, &placed, host);
        Ok(Self {
            steps,
            guards,
            watch: bounds.watch,
            workdir: policy.workdir.clone(),
            reach: Reach::Namespace,
            places: Places::of(policy),
            left_out: bounds.left_out,
        })
    }

    /// A box of other parts.
    pub(crate) fn of_parts(
        steps: Vec<Step>,
        guards: Vec<Guard>,
        watch: Watch,
        workdir: PathBuf,
        places: Places,
    ) -> Self {
        Self { steps, guards, watch, workdir, reach: Reach::Descendants, places, left_out: Vec::new() }
    }

    /// The same, which does without these limits.
    pub(crate) fn leaving_out(self, left_out: Vec<&'static str>) -> Self {
        Self { left_out, ..self }
    }

    /// A box with nothing in it but the host read-only: what a probe starts, to see whether boxes can be had at all.
    pub(crate) fn empty(host: &Host) -> Self {
        let group = |groups: &ControlGroups| Step::ControlGroup {
            parent: groups.parent.clone(),
            memory: groups.memory.then_some(EMPTY_MEMORY),
            processes: groups.processes.then_some(EMPTY_PROCESSES),
            cpu_weight: groups.cpu.then_some(100),
        };
        let mut steps: Vec<Step> = host.control_groups.iter().map(group).collect();
        steps.extend(outer(host, true));
        steps.extend([Step::Private, Step::Root, Step::Devices { size: 1 << 20 }, Step::Processes]);
        steps.extend(host.process_numbers.then_some(Step::ProcessNumbers { below: EMPTY_PROCESSES }));
        steps.extend([
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
        Self {
            steps,
            guards,
            watch: Watch::default(),
            workdir: PathBuf::from("/"),
            reach: Reach::Namespace,
            places: Places::default(),
            left_out: Vec::new(),
        }
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What confines each command, in order, after all steps.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// What init watches while a command runs.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The control group of the box, if it has one: below which, and what it bounds.
    pub(crate) fn control_group(&self) -> Option<(usize, &Path, cgroup::Bounds)> {
        self.steps.iter().enumerate().find_map(|(index, step)| match step {
            Step::ControlGroup { parent, memory, processes, cpu_weight } => {
                let (memory, processes, cpu_weight) = (*memory, *processes, *cpu_weight);
                Some((index, parent.as_path(), cgroup::Bounds { memory, processes, cpu_weight }))
            }
            _ => None,
        })
    }

    /// The largest file that a command may write, if that is bounded.
    pub(crate) fn file_size(&self) -> Option<u64> {
        self.steps.iter().find_map(|step| match step {
            Step::Limit { resource: Resource::FileSize, hard, .. } => Some(*hard),
            _ => None,
        })
    }

    /// Where commands start unless they say otherwise.
    pub fn workdir(&self) -> &Path {
        &self.workdir
    }

    /// Limits that the policy asks for, and that are left out because the machine cannot enforce them and the policy may lack
    /// [`Layer::Limits`]; by the names of [`crate::Means`].
    pub fn left_out(&self) -> &[&'static str] {
        &self.left_out
    }

    /// The layers this box does without, as its policy allows.
    pub fn lacks(&self) -> BTreeSet<Layer> {
        let namespaces = match self.reach {
            Reach::Namespace => None,
            Reach::Descendants => Some(Layer::Namespaces),
        };
        let is_filter = |guard: &Guard| matches!(guard, Guard::Seccomp { .. });
        let seccomp = (!self.guards.iter().any(is_filter)).then_some(Layer::Seccomp);
        let limits = (!self.left_out.is_empty()).then_some(Layer::Limits);
        [namespaces, seccomp, limits].into_iter().flatten().collect()
    }

    /// How the processes of the box are told from others.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Where a path of the policy's is seen inside: there, or, without mounts, where it lies on the host.
    pub fn seen(&self, path: &Path) -> PathBuf {
        match self.reach {
            Reach::Namespace => path.to_owned(),
            Reach::Descendants => self.places.on_the_host(path),
        }
    }

    /// The home as seen inside.
    pub fn home(&self) -> PathBuf {
        self.seen(self.places.home())
    }

    /// The folder for temporary files as seen inside.
    pub fn tmp(&self) -> PathBuf {
        self.seen(Path::new(check::TMP))
    }

    /// The paths of the sockets made inside, in order.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &Path> {
        self.steps.iter().filter_map(|step| if let Step::Listen { path } = step { Some(path.as_path()) } else { None })
    }

    /// The port of the relay, if there is one.
    pub(crate) fn relay(&self) -> Option<u16> {
        self.steps.iter().find_map(|step| if let Step::Relay { port } = step { Some(*port) } else { None })
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
        self.guards.iter().try_for_each(|guard| writeln!(f, "{guard}"))?;
        self.watch.fmt(f)
    }
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
        Step::KillFirst { .. }
        | Step::ControlGroup { .. }
        | Step::Unshare { .. }
        | Step::Map { .. }
        | Step::Private
        | Step::Clone { .. }
        | Step::Root
        | Step::Devices { .. }
        | Step::Processes
        | Step::ProcessNumbers { .. }
        | Step::ForbidNesting
        | Step::ProtectProcesses
        | Step::Seal { .. }
        | Step::Pivot
        | Step::Hostname { .. }
        | Step::Loopback
        | Step::Listen { .. }
        | Step::Relay { .. }
        | Step::DropCapabilities
        | Step::NoNewPrivileges
        | Step::Undumpable
        | Step::LeaveSession
        | Step::KillGroup { .. }
        | Step::Adopt
        | Step::Link { .. }
        | Step::Limit { .. } => 0,
    }
}

fn guards(policy: &Policy, placed: &[Placed], host: &Host) -> Vec<Guard> {
    let files = (policy.nesting == Nesting::Denied).then(|| writable(policy, placed));
    let mut guards: Vec<Guard> = landlock(host, files).into_iter().collect();
    // Missing only where the policy allows that.
    guards.extend(host.seccomp.then_some(Guard::Seccomp { nesting: policy.nesting }));
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

//! How the limits of a policy are enforced on a machine, or why they cannot be. Part of the plan, without a system call.
//!
//! | limit | first choice | else | else |
//! |---|---|---|---|
//! | memory | control group | init's watch | |
//! | processes | control group | numbers of the pid namespace, and init's watch | `RLIMIT_NPROC`, and init's watch; refused for root |
//! | disk | init's watch | | |
//! | file size | `RLIMIT_FSIZE` | | |
//! | share of the processor | control group | refused | |
//!
//! A box without namespaces has no control group for its limits.
//!
//! No `RLIMIT_AS` and no `RLIMIT_DATA`: programs reserve far more than they use (Node, Go, sanitizers). No nice value for
//! the share: it is a process's and not a group's, and the kernel's grouping by session cancels it.

use crate::cgroup::ControlGroups;
use crate::check::Placed;
use crate::form::Form;
use crate::host::{Host, Kernel, Shortcoming};
use crate::policy::{Limits, OpenFiles, Policy};
use crate::refusal::{Layer, Refusal};
use crate::step::{Resource, Step};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// The most processes of a box whose policy names no number, where one can be enforced. Well above what builds use, and
/// well below what a machine can bear.
pub(crate) const DEFAULT_PROCESSES: u32 = 4096;

/// What the kernel keeps back of the numbers of a pid namespace once it has given all out: `RESERVED_PIDS` of `kernel/pid.c`.
const RESERVED_NUMBERS: u32 = 300;

/// The largest `kernel.pid_max`.
const MOST_NUMBERS: u32 = 1 << 22;

/// The two that `RLIMIT_NPROC` counts beside the commands: the one that made the namespaces, and init.
const SERVING: u64 = 2;

/// How much the kernel prefers a box when it must kill something for want of memory: half of the machine's.
const KILL_FIRST: u32 = 500;

/// The names of the two limits that not every machine can enforce.
const PROCESSES: &str = "processes";
const CPU_WEIGHT: &str = "cpu_weight";

const DELEGATE: &str = "start the program by `systemd-run --user --scope -p Delegate=yes …`";

const WITH_NAMESPACES: &str = "run on a machine with namespaces";

/// What init watches while a command runs. What is `None` is not watched, for the kernel bounds it or nobody does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// The most memory of all processes of the box, in bytes.
    pub memory: Option<u64>,
    /// The most processes and threads. The kernel holds the box to this number or a few hundred more; the watch is for
    /// ending what has come so far.
    pub processes: Option<u32>,
    /// The most disk space of what the box can write, in bytes.
    pub disk: Option<u64>,
    /// What the box can write, as seen inside.
    pub writable: Vec<OsString>,
    /// Where it can write and memory is what holds it.
    pub scratch: Vec<OsString>,
}

impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.memory.iter().try_for_each(|most| writeln!(f, "watch memory {most}"))?;
        self.processes.iter().try_for_each(|most| writeln!(f, "watch processes {most}"))?;
        if let Some(most) = self.disk {
            write!(f, "watch disk {most} of")?;
            self.writable.iter().try_for_each(|path| write!(f, " {}", path.display()))?;
            writeln!(f)?;
        }
        writeln!(f, "watch the machine's memory and disk")
    }
}

/// The steps and the watch for the limits of one policy.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) outer: Vec<Step>,
    pub(crate) numbers: Option<Step>,
    pub(crate) command: Vec<Step>,
    pub(crate) watch: Watch,
    /// Limits that the policy asks for and lets be left out, by name.
    pub(crate) left_out: Vec<&'static str>,
}

/// How the number of processes is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByProcess {
    ControlGroup,
    Numbers,
    Rlimit,
}

/// Where boxes can have control groups for their limits. A box without namespaces has none: a command of its could not be in it
/// and in the group that it is killed by.
fn groups(host: &Host) -> Option<&ControlGroups> {
    match host.form() {
        Form::Full => host.control_groups.as_ref(),
        Form::LandlockOnly => None,
    }
}

/// The best means this machine has.
pub(crate) fn process_means(host: &Host) -> Option<ByProcess> {
    if groups(host).is_some_and(|groups| groups.processes) {
        Some(ByProcess::ControlGroup)
    } else if host.form() == Form::LandlockOnly {
        // The other two count by namespace.
        None
    } else if host.process_numbers {
        Some(ByProcess::Numbers)
    } else if host.uid != 0 && host.kernel >= Kernel::COUNTS_BY_NAMESPACE {
        Some(ByProcess::Rlimit)
    } else {
        None
    }
}

/// Decides.
pub(crate) fn plan(
    policy: &Policy,
    host: &Host,
    placed: &[Placed],
    scratch: impl Iterator<Item = OsString>,
) -> Result<Bounds, Refusal> {
    let writable = |bind: &Placed| bind.target.clone();
    let scratch = scratch.collect();
    decide(policy, host, placed.iter().filter(|bind| !bind.access.is_read_only()).map(writable), scratch)
}

/// The same for a box without namespaces, where what is written lies where it is on the host.
pub(crate) fn plan_without_namespaces(policy: &Policy, host: &Host, placed: &[Placed]) -> Result<Bounds, Refusal> {
    let writable = |bind: &Placed| bind.source.clone();
    decide(policy, host, placed.iter().filter(|bind| !bind.access.is_read_only()).map(writable), Vec::new())
}

fn decide(
    policy: &Policy,
    host: &Host,
    writable: impl Iterator<Item = PathBuf>,
    scratch: Vec<OsString>,
) -> Result<Bounds, Refusal> {
    let limits = &policy.limits;
    let mut bounds = Bounds { outer: vec![Step::KillFirst { score: KILL_FIRST }], ..Bounds::default() };
    bounds.watch.writable = writable.map(PathBuf::into_os_string).collect();
    bounds.watch.scratch = scratch;
    bounds.watch.disk = limits.disk;

    let groups = groups(host);
    let memory = limits.memory.filter(|_| groups.is_some_and(|groups| groups.memory));
    bounds.watch.memory = limits.memory.filter(|_| memory.is_none());
    let cpu_weight = match limits.cpu_weight {
        Some(_) if !groups.is_some_and(|groups| groups.cpu) => {
            lacking(&policy.may_lack, no_share(host))?;
            bounds.left_out.push(CPU_WEIGHT);
            None
        }
        other => other,
    };
    let processes = processes(policy, host, &mut bounds)?;

    if let Some(groups) = groups {
        bounds.outer.push(Step::ControlGroup { parent: groups.parent.clone(), memory, processes, cpu_weight });
    }
    bounds.command.push(Step::limit(Resource::Core, 0));
    bounds.command.extend(limits.file_size.map(|most| Step::limit(Resource::FileSize, most)));
    bounds.command.extend(limits.open_files.map(|OpenFiles { soft, hard }| Step::Limit {
        resource: Resource::OpenFiles,
        soft,
        hard,
    }));
    Ok(bounds)
}

/// Refuses what [`plan`] would refuse.
pub(crate) fn check(limits: &Limits, may_lack: &BTreeSet<Layer>, host: &Host) -> Result<(), Refusal> {
    if limits.cpu_weight.is_some() && !groups(host).is_some_and(|groups| groups.cpu) {
        lacking(may_lack, no_share(host))?;
    }
    match (limits.processes, process_means(host)) {
        (Some(most), None) => lacking(may_lack, no_processes(host, most)),
        (None, _) | (_, Some(_)) => Ok(()),
    }
}

/// Bounds the number of processes, and gives the number that a control group is to have.
fn processes(policy: &Policy, host: &Host, bounds: &mut Bounds) -> Result<Option<u32>, Refusal> {
    let most = policy.limits.processes.unwrap_or(DEFAULT_PROCESSES).max(1);
    let Some(means) = process_means(host) else {
        if let Some(most) = policy.limits.processes {
            lacking(&policy.may_lack, no_processes(host, most))?;
            bounds.left_out.push(PROCESSES);
        }
        return Ok(None);
    };
    bounds.watch.processes = Some(most);
    match means {
        ByProcess::ControlGroup => return Ok(Some(most)),
        ByProcess::Numbers => {
            let below = most.saturating_add(RESERVED_NUMBERS).min(MOST_NUMBERS);
            bounds.numbers = Some(Step::ProcessNumbers { below });
        }
        ByProcess::Rlimit => {
            bounds.command.push(Step::limit(Resource::Processes, u64::from(most) + SERVING));
        }
    }
    Ok(None)
}

/// A limit that cannot be had: left out where the policy lets it, else refused.
fn lacking(may_lack: &BTreeSet<Layer>, refusal: Refusal) -> Result<(), Refusal> {
    if may_lack.contains(&Layer::Limits) { Ok(()) } else { Err(refusal) }
}

fn no_share(host: &Host) -> Refusal {
    let (why, instead) = match host.form() {
        Form::Full => ("none can be made here", DELEGATE),
        Form::LandlockOnly => ("boxes without namespaces have none", WITH_NAMESPACES),
    };
    Refusal {
        layer: Layer::Limits,
        cause: format!("a share of the processor needs a control group with the `cpu` controller, and {why}"),
        fix: format!("{instead}, or do not ask for a share"),
    }
}

fn no_processes(host: &Host, most: u32) -> Refusal {
    let (of, fix) = match host.form() {
        Form::LandlockOnly => ("a box without namespaces", format!("{WITH_NAMESPACES}, or do not ask for this limit")),
        Form::Full if host.uid == 0 => {
            ("a box that root runs", format!("run on Linux 6.14 or newer or as an ordinary user, or {DELEGATE}"))
        }
        Form::Full => ("one box alone", format!("run on Linux 5.14 or newer, or {DELEGATE}")),
    };
    let cause = format!("nothing here bounds the processes of {of}, so {most} cannot be the most");
    Refusal { layer: Layer::Limits, cause, fix }
}

/// What boxes do without here although nobody asked for it.
pub(crate) fn shortcomings(host: &Host) -> Option<Shortcoming> {
    if process_means(host).is_some() {
        return None;
    }
    let Refusal { fix, .. } = no_processes(host, DEFAULT_PROCESSES);
    Some(Shortcoming { of: "limits", cause: "nothing bounds how many processes a box may have".to_owned(), fix })
}

/// How one limit is enforced here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Means {
    /// What is bounded.
    pub limit: &'static str,
    /// By what; an error has the cause and the fix.
    pub by: Result<String, Shortcoming>,
}

/// All of them, in the order of [`crate::Limits`].
pub(crate) fn means(host: &Host) -> Vec<Means> {
    let groups = groups(host);
    let group =
        |has: bool| groups.filter(|_| has).map(|groups| format!("control group below {}", groups.parent.display()));
    let short = |Refusal { cause, fix, .. }: Refusal| Shortcoming { of: "limits", cause, fix };
    let watch = |often: &str| format!("watched by each box's init, {often}");
    let memory = group(groups.is_some_and(|groups| groups.memory)).unwrap_or_else(|| watch("ten times a second"));
    let processes = match process_means(host) {
        Some(ByProcess::ControlGroup) => Ok(group(true).unwrap_or_default()),
        Some(ByProcess::Numbers) => Ok("kernel.pid_max of each box".to_owned()),
        Some(ByProcess::Rlimit) => Ok("RLIMIT_NPROC, counted in each box".to_owned()),
        None => Err(short(no_processes(host, DEFAULT_PROCESSES))),
    };
    let share = group(groups.is_some_and(|groups| groups.cpu)).ok_or_else(|| short(no_share(host)));
    vec![
        Means { limit: "memory", by: Ok(memory) },
        Means { limit: PROCESSES, by: processes },
        Means { limit: CPU_WEIGHT, by: share },
        Means { limit: "disk", by: Ok(watch("by free space and by measuring")) },
        Means { limit: "file_size", by: Ok("RLIMIT_FSIZE".to_owned()) },
    ]
}

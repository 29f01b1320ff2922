//! The plan of a box on a machine without namespaces: rules on processes where otherwise mounts would be.
//!
//! Nothing is put in place of anything else, so a private directory is used where it lies ([`crate::Enforcement::seen`] says
//! where that is), and what is hidden is merely not among what may be read. That turns the plan round: a box with mounts
//! sees the host but for what is hidden, this one sees nothing but the system's folders and what is exposed.

use crate::bounds::{self, Watch};
use crate::canary;
use crate::check::{self, Placed};
use crate::fence;
use crate::guard::Guard;
use crate::host::Host;
use crate::plan::Enforcement;
use crate::policy::{Access, Expose, Nesting, Network, Policy};
use crate::refusal::Refusal;
use crate::seen::{Places, SHARED_FOLDERS};
use crate::step::Step;
use std::path::{Path, PathBuf};

/// Where programs, libraries and settings of the system lie. One that does not exist, or is a link to another, is passed over.
const SYSTEM: [&str; 15] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/proc",
    "/sys",
    "/run/current-system",
];

/// Devices that hold nothing of anybody's.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

pub(crate) fn plan(policy: &Policy, host: &Host) -> Result<Enforcement, Refusal> {
    let placed: Vec<Placed> = check::placed(policy).into_iter().filter(|place| !place.pinned).collect();
    refuse_mixed(&placed)?;
    let bounds = bounds::plan_without_namespaces(policy, host, &placed)?;
    let mut steps = bounds.outer;
    steps.extend(outer(host));
    steps.push(Step::Adopt);
    steps.extend(links(policy));
    steps.extend([Step::DropCapabilities, Step::NoNewPrivileges, Step::Undumpable]);
    steps.extend(bounds.command);
    let network = policy.network == Network::Host;
    let guards = guards(host, cage(policy, &placed, host, network), network);
    let boxed = Enforcement::of_parts(steps, guards, bounds.watch, policy.workdir.clone(), Places::of(policy));
    Ok(boxed.leaving_out(bounds.left_out))
}

/// A box that may read everything and write nothing: what a probe starts.
pub(crate) fn empty(host: &Host) -> Enforcement {
    let mut steps = outer(host);
    steps.extend([Step::Adopt, Step::DropCapabilities, Step::NoNewPrivileges]);
    let cage = host.landlock.map(|version| Guard::Cage {
        version,
        readable: vec!["/".into()],
        writable: Vec::new(),
        hidden: Vec::new(),
        network: false,
        scopes: version >= fence::SCOPES,
    });
    let mut guards = guards(host, cage, false);
    for guard in &mut guards {
        if let Guard::Metadata { writable } = guard {
            writable.push(canary::OWN_LIES.into());
        }
    }
    Enforcement::of_parts(steps, guards, Watch::default(), "/".into(), Places::default())
}

fn outer(host: &Host) -> Vec<Step> {
    let group = host.kill_group.iter().map(|parent| Step::KillGroup { parent: parent.clone() });
    [Step::LeaveSession].into_iter().chain(group).collect()
}

fn guards(host: &Host, cage: Option<Guard>, network: bool) -> Vec<Guard> {
    // Devices are everybody's: writing to them is one thing, taking them away another.
    let is_device = |path: &PathBuf| DEVICES.iter().any(|device| path == Path::new(device));
    let writable = match &cage {
        Some(Guard::Cage { writable, .. }) => writable.iter().filter(|path| !is_device(path)).cloned().collect(),
        Some(_) | None => Vec::new(),
    };
    let filters =
        [Guard::Metadata { writable }, Guard::Sockets { network }, Guard::Seccomp { nesting: Nesting::Denied }];
    cage.into_iter().chain(filters.into_iter().filter(|_| host.seccomp)).collect()
}

fn cage(policy: &Policy, placed: &[Placed], host: &Host, network: bool) -> Option<Guard> {
    let version = host.landlock?;
    let sources = |access| placed.iter().filter(move |place| place.access == access).map(|place| place.source.clone());
    let mut writable: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).chain(sources(Access::ReadWrite)).collect();
    let mut hidden: Vec<PathBuf> = policy.hide.iter().chain(&policy.mask).cloned().collect();
    hidden.push(policy.home.target.clone());
    hidden.extend(SHARED_FOLDERS.map(PathBuf::from));
    let is_hidden = |folder: &Path| hidden.iter().any(|hidden| folder.starts_with(hidden));
    // One that the host keeps for itself below a hidden folder is not the system's.
    let system = SYSTEM.iter().map(PathBuf::from).filter(|folder| folder.starts_with("/run") || !is_hidden(folder));
    let mut readable: Vec<PathBuf> = system.chain(sources(Access::ReadOnly)).collect();
    for list in [&mut writable, &mut readable, &mut hidden] {
        list.sort();
        list.dedup();
    }
    Some(Guard::Cage { version, readable, writable, hidden, network, scopes: version >= fence::SCOPES })
}

/// Refuses to show read-only what lies in something writable: a rule gives rights and takes none away.
fn refuse_mixed(placed: &[Placed]) -> Result<(), Refusal> {
    for wide in placed.iter().filter(|place| place.access == Access::ReadWrite) {
        let inside = |place: &&Placed| place.access == Access::ReadOnly && place.source.starts_with(&wide.source);
        if let Some(place) = placed.iter().find(inside) {
            return Err(Refusal::policy(
                format!(
                    "`{}` cannot be kept read-only in `{}` without namespaces",
                    place.source.display(),
                    wide.source.display()
                ),
                "make namespaces available, or do not expose the wider one writable",
            ));
        }
    }
    Ok(())
}

/// What is to be read in the home, and lies elsewhere. What lies below something else that is exposed is found by way of that.
fn links(policy: &Policy) -> impl Iterator<Item = Step> {
    let is_below = |one: &Expose, other: &Expose| one.target != other.target && one.target.starts_with(&other.target);
    let is_apart = move |expose: &&Expose| {
        expose.access == Access::ReadOnly && !policy.expose.iter().any(|other| is_below(expose, other))
    };
    policy.expose.iter().filter(is_apart).filter_map(|expose| {
        let below =
            expose.target.strip_prefix(&policy.home.target).ok().filter(|below| !below.as_os_str().is_empty())?;
        Some(Step::Link { target: policy.home.source.join(below), source: expose.source.clone() })
    })
}

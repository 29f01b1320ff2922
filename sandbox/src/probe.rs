//! Finding out what this machine can do, by doing it: an empty box is started, the canary is run in it, and it is ended.

use crate::canary;
use crate::cgroup::{self, ControlGroups};
use crate::command::Command;
use crate::error::StartError;
use crate::filter;
use crate::form::Form;
use crate::host::{self, Host, Kernel, Obstacle, Settings};
use crate::landlock_only;
use crate::launch::Launcher;
use crate::plan::Enforcement;
use crate::sandbox::Sandbox;
use crate::sys;
use crate::wire::Status;

/// In how many places a control group is tried; the rest bound no more.
const PLACES: usize = 3;

impl Host {
    /// Looks at this machine. Asking the kernel's settings would not do: containers and security modules refuse what these
    /// allow.
    pub async fn probe(launcher: &Launcher) -> Self {
        let offered = Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            kernel: Kernel::parse(&rustix::system::uname().release().to_string_lossy()),
            landlock: sys::landlock_version(),
            seccomp: filter::is_known_here() && sys::has_seccomp(),
            obstacle: None,
            control_groups: None,
            process_numbers: false,
            kill_group: None,
            metadata: true,
        };
        let groups = ControlGroups::find();
        // Everything at once, for that is how it is on most machines.
        let all = Self { control_groups: groups.first().cloned(), process_numbers: numbered(&offered), ..offered };
        if confines(&all, launcher).await == Ok(true) {
            return all;
        }
        let offered = all.with_limits(groups, launcher).await;
        if confines(&offered, launcher).await == Ok(true) {
            return offered;
        }
        // Something does not hold: the box itself, or one of the two things in it.
        let bare = Self { landlock: None, seccomp: false, ..offered.clone() };
        if let Err(obstacle) = confines(&bare, launcher).await {
            return without_namespaces(Self { obstacle: Some(obstacle), ..offered }, launcher).await;
        }
        let filtered = Self { seccomp: offered.seccomp, ..bare.clone() };
        let fenced = Self { landlock: offered.landlock, ..bare.clone() };
        Self {
            seccomp: offered.seccomp && confines(&filtered, launcher).await == Ok(true),
            landlock: if confines(&fenced, launcher).await == Ok(true) { offered.landlock } else { None },
            ..offered
        }
    }
}

impl Host {
    /// The same with what limits can be enforced by here, as far as an empty box starts with it.
    async fn with_limits(self, groups: Vec<ControlGroups>, launcher: &Launcher) -> Self {
        let mut known = Self { control_groups: None, process_numbers: numbered(&self), ..self };
        if known.process_numbers && !starts(&known, launcher).await {
            known.process_numbers = false;
        }
        for groups in groups.into_iter().take(PLACES) {
            let grouped = Self { control_groups: Some(groups), ..known.clone() };
            if starts(&grouped, launcher).await {
                return grouped;
            }
        }
        known
    }
}

/// Never on an older kernel, where a box that root runs would set the host's own bound.
fn numbered(host: &Host) -> bool {
    host.kernel >= Kernel::NUMBERS_BY_NAMESPACE
}

/// Whether an empty box starts, without guards.
async fn starts(host: &Host, launcher: &Launcher) -> bool {
    let bare = Host { landlock: None, seccomp: false, ..host.clone() };
    match Sandbox::start(&Enforcement::empty(&bare), launcher).await {
        Ok(sandbox) => sandbox.kill().await.is_ok(),
        Err(_) => false,
    }
}

/// What a machine can do that has no namespaces.
async fn without_namespaces(offered: Host, launcher: &Launcher) -> Host {
    let holds = async |host: &Host| confines(host, launcher).await == Ok(true);
    let mut host = Host { kill_group: cgroup::places().into_iter().next(), ..offered };
    if holds(&host).await {
        return host;
    }
    let kill_group = host.kill_group.take();
    let bare = Host { landlock: None, seccomp: false, ..host.clone() };
    let filtered = Host { seccomp: host.seccomp, ..bare.clone() };
    let fenced = Host { landlock: host.landlock, ..bare.clone() };
    let grouped = Host { kill_group: kill_group.clone(), ..bare };
    // The canary tries that last, so that all else held.
    let filtered = sung(&filtered, launcher).await;
    let metadata = filtered != Ok(Some(canary::NOT_ANSWERED));
    Host {
        seccomp: host.seccomp && matches!(filtered, Ok(Some(canary::STOPPED | canary::NOT_ANSWERED))),
        metadata,
        landlock: if holds(&fenced).await { host.landlock } else { None },
        kill_group: if kill_group.is_some() && holds(&grouped).await { kill_group } else { None },
        ..host
    }
}

/// Whether the guards that `host` has hold in an empty box, or what keeps one from starting.
async fn confines(host: &Host, launcher: &Launcher) -> Result<bool, Obstacle> {
    Ok(sung(host, launcher).await? == Some(canary::STOPPED))
}

/// With what code the canary ended, if it could be had at all.
async fn sung(host: &Host, launcher: &Launcher) -> Result<Option<i32>, Obstacle> {
    let other = |error: &dyn std::error::Error| Obstacle::Other { step: None, error: error.to_string() };
    let plan = match host.form() {
        Form::Full => Enforcement::empty(host),
        Form::LandlockOnly => landlock_only::empty(host),
    };
    let sandbox = match Sandbox::start(&plan, launcher).await {
        Ok(sandbox) => sandbox,
        Err(StartError::Guard { .. }) => return Ok(None),
        Err(error) => return Err(obstacle(&error, host.uid)),
    };
    // The program that init is, for no other is known to be there.
    let mut argv = vec!["/proc/self/exe", canary::ASKED];
    argv.extend(plan.layers().iter().map(|protection| protection.name()));
    match host.form() {
        Form::Full => {}
        Form::LandlockOnly => argv.push(canary::NO_MOUNTS),
    }
    let sung = match sandbox.spawn(Command::new(argv)).await {
        Ok(mut child) => match child.wait().await.map(|exit| exit.status) {
            Ok(Status::Exited(code)) => Some(code),
            Ok(Status::Signaled(_)) | Err(_) => None,
        },
        Err(_) => None,
    };
    sandbox.kill().await.map_err(|error| other(&error))?;
    Ok(sung)
}

fn obstacle(error: &StartError, uid: u32) -> Obstacle {
    match error {
        StartError::Step { step, source, .. } => host::diagnose(Some(step), source, uid, settings()),
        StartError::Launch { .. }
        | StartError::Guard { .. }
        | StartError::Symlink { .. }
        | StartError::Died { .. }
        | StartError::TimedOut { .. }
        | StartError::Control(_) => Obstacle::Other { step: None, error: error.to_string() },
    }
}

fn settings() -> Settings {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse().ok();
    Settings {
        max_user_namespaces: read("user/max_user_namespaces"),
        unprivileged_userns_clone: read("kernel/unprivileged_userns_clone"),
        apparmor_restricts: read("kernel/apparmor_restrict_unprivileged_userns"),
    }
}

//! What this machine can do, as plain data, and what stands in the way in words a user can act on.

use crate::bounds::{self, Means};
use crate::cgroup::ControlGroups;
use crate::fence;
use crate::form::Form;
use crate::policy::Limits;
use crate::refusal::{Layer, Refusal};
use crate::step::Step;
use std::collections::BTreeSet;
use std::fmt;

/// A kernel version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
}

impl Kernel {
    /// The oldest that can make a whole tree read-only in one call.
    pub const OLDEST: Self = Self { major: 5, minor: 12 };

    /// The oldest that counts a user's processes in each user namespace apart.
    pub(crate) const COUNTS_BY_NAMESPACE: Self = Self { major: 5, minor: 14 };

    /// The oldest where `kernel.pid_max` is each pid namespace's own. Before, writing it in a box changes the host's.
    pub(crate) const NUMBERS_BY_NAMESPACE: Self = Self { major: 6, minor: 14 };

    /// Reads a release string such as `6.18.44-generic`; what cannot be read counts as 0.
    pub fn parse(release: &str) -> Self {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        Self { major: numbers.next().unwrap_or(0), minor: numbers.next().unwrap_or(0) }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The facts about this machine that decide whether and how a box can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Kernel version.
    pub kernel: Kernel,
    /// The version of Landlock, if commands could be confined by it.
    pub landlock: Option<u8>,
    /// Whether commands could be confined by a filter of system calls.
    pub seccomp: bool,
    /// What keeps an empty box from starting, if anything does.
    pub obstacle: Option<Obstacle>,
    /// Where control groups can be made for boxes, if anywhere.
    pub control_groups: Option<ControlGroups>,
    /// Whether each pid namespace has a bound of its own for the numbers of its processes.
    pub process_numbers: bool,
    /// The control group in which a box without namespaces can have one of its own. Looked for only where there are none.
    pub kill_group: Option<std::path::PathBuf>,
    /// Whether the init of a box without namespaces can change modes and times for its commands, for which it must read their
    /// memory. Looked for only where there are none; else it is taken for true.
    pub metadata: bool,
}

/// Something that boxes do without on this machine, because the rest holds without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortcoming {
    /// What it is about: `landlock` or `limits`.
    pub of: &'static str,
    /// What is lost, in one line.
    pub cause: String,
    /// What to do about it, in one line.
    pub fix: String,
}

impl Host {
    /// What boxes do without here: worth a warning, no reason to refuse.
    pub fn shortcomings(&self) -> Vec<Shortcoming> {
        self.other_shortcomings().into_iter().chain(bounds::shortcomings(self)).collect()
    }

    /// Why a box with these limits cannot be made here, if it cannot. `may_lack` as in [`crate::Policy`].
    pub fn check_limits(&self, limits: &Limits, may_lack: &BTreeSet<Layer>) -> Result<(), Refusal> {
        bounds::check(limits, may_lack, self)
    }

    /// How each limit of a policy is enforced here, or why it cannot be.
    pub fn means(&self) -> Vec<Means> {
        bounds::means(self)
    }

    fn other_shortcomings(&self) -> Vec<Shortcoming> {
        let of = |cause: String, fix: &str| vec![Shortcoming { of: "landlock", cause, fix: fix.to_owned() }];
        if self.form() == Form::LandlockOnly {
            return self.shortcomings_without_namespaces();
        }
        match self.landlock {
            None => of(
                "Landlock is not in use: what a box may write is bounded by its mounts alone".to_owned(),
                "run on Linux 5.19 or newer with `landlock` among the `lsm=` of the kernel's command line",
            ),
            Some(version) if version < fence::FIRST => of(
                format!("Landlock {version} would forbid to move files, so a box is bounded by its mounts alone"),
                "run on Linux 5.19 or newer",
            ),
            Some(version) if version < fence::SCOPES => of(
                format!("Landlock {version} cannot bound abstract sockets: with the host's network they are in reach"),
                "run on Linux 6.12 or newer",
            ),
            Some(_) => Vec::new(),
        }
    }
}

impl Host {
    fn shortcomings_without_namespaces(&self) -> Vec<Shortcoming> {
        let mut all = Vec::new();
        if self.landlock.is_some_and(|version| version < fence::SCOPES) {
            all.push(Shortcoming {
                of: "namespaces",
                cause: "a command can signal other processes of yours: this kernel's Landlock does not bound signals"
                    .to_owned(),
                fix: "make namespaces available, or run on Linux 6.12 or newer".to_owned(),
            });
        }
        if self.kill_group.is_none() {
            all.push(Shortcoming {
                of: "namespaces",
                cause:
                    "leaky-possible: what a command leaves behind is looked for and killed one by one, and one that \
                        forks fast enough may get away"
                        .to_owned(),
                fix: "make namespaces available, or run under `systemd-run --user --scope -p Delegate=yes`".to_owned(),
            });
        }
        all
    }
}

/// What keeps boxes from starting on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The kernel lacks a call.
    OldKernel,
    /// `user.max_user_namespaces` is 0.
    NamespacesOff,
    /// `kernel.unprivileged_userns_clone` is 0.
    UnprivilegedOff,
    /// `AppArmor` takes the rights away that a user namespace should give.
    AppArmor,
    /// A system-call filter or a container forbids namespaces.
    Filtered,
    /// Parts of `/proc` are masked, so the kernel refuses a fresh one.
    ProcMasked,
    /// Something else; the step and the kernel's answer.
    Other {
        /// The step in its text form, if one was reached.
        step: Option<String>,
        /// What happened.
        error: String,
    },
}

impl Obstacle {
    /// What is wrong, in one line.
    pub fn cause(&self) -> String {
        match self {
            Self::OldKernel => format!("the kernel is older than {}", Kernel::OLDEST),
            Self::NamespacesOff => "user namespaces are switched off (user.max_user_namespaces is 0)".to_owned(),
            Self::UnprivilegedOff => {
                "user namespaces are for root only (kernel.unprivileged_userns_clone is 0)".to_owned()
            }
            Self::AppArmor => "AppArmor restricts user namespaces".to_owned(),
            Self::Filtered => "a container or system-call filter forbids namespaces".to_owned(),
            Self::ProcMasked => {
                "parts of /proc are masked, as in a container, so no fresh /proc can be mounted".to_owned()
            }
            Self::Other { step: Some(step), error } => format!("an empty box cannot start: {step}: {error}"),
            Self::Other { step: None, error } => format!("an empty box cannot start: {error}"),
        }
    }

    /// What to do about it, in one line.
    pub fn fix(&self) -> String {
        match self {
            Self::OldKernel => format!("run on Linux {} or newer", Kernel::OLDEST),
            Self::NamespacesOff => "run `sysctl -w user.max_user_namespaces=15000` as root".to_owned(),
            Self::UnprivilegedOff => "run `sysctl -w kernel.unprivileged_userns_clone=1` as root".to_owned(),
            Self::AppArmor => "give this program an AppArmor profile with `userns,`, or run \
                 `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` as root"
                .to_owned(),
            Self::Filtered => {
                "let the container create namespaces (for docker: `--security-opt seccomp=unconfined`)".to_owned()
            }
            Self::ProcMasked => {
                "start the container with its /proc unmasked (for docker: `--security-opt systempaths=unconfined`)"
                    .to_owned()
            }
            Self::Other { .. } => "check the container and security settings of this machine".to_owned(),
        }
    }
}

/// The kernel settings that explain a refusal; `None` where a kernel has no such setting.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) max_user_namespaces: Option<u64>,
    pub(crate) unprivileged_userns_clone: Option<u64>,
    pub(crate) apparmor_restricts: Option<u64>,
}

/// Names what a failed step means under these settings, for this user.
pub(crate) fn diagnose(step: Option<&Step>, error: &std::io::Error, uid: u32, settings: Settings) -> Obstacle {
    use nix::libc::{EACCES, ENOSPC, ENOSYS, EPERM, EUSERS};
    let code = error.raw_os_error().unwrap_or(0);
    let denied = code == EPERM || code == EACCES;
    let unshare = matches!(step, Some(Step::Unshare { .. }));
    if code == ENOSYS {
        Obstacle::OldKernel
    } else if unshare && (settings.max_user_namespaces == Some(0) || code == ENOSPC || code == EUSERS) {
        Obstacle::NamespacesOff
    } else if denied && unshare && uid != 0 && settings.unprivileged_userns_clone == Some(0) {
        Obstacle::UnprivilegedOff
    } else if denied && uid != 0 && settings.apparmor_restricts == Some(1) {
        Obstacle::AppArmor
    } else if denied && matches!(step, Some(Step::Processes)) {
        Obstacle::ProcMasked
    } else if denied && matches!(step, Some(Step::Unshare { .. } | Step::Map { .. } | Step::Private)) {
        Obstacle::Filtered
    } else {
        Obstacle::Other { step: step.map(ToString::to_string), error: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc::{EIO, ENOSPC, ENOSYS, EPERM};
    use std::io::Error;

    #[test]
    fn kernel_releases_are_read() {
        assert_eq!(Kernel::parse("6.18.44-fc-v857"), Kernel { major: 6, minor: 18 });
        assert_eq!(Kernel::parse("5.4"), Kernel { major: 5, minor: 4 });
        assert_eq!(Kernel::parse("odd"), Kernel { major: 0, minor: 0 });
        assert!(Kernel::parse("5.4") < Kernel::OLDEST);
    }

    #[test]
    fn each_failure_gets_its_name() {
        let unshare = Step::Unshare { network: true };
        let off = Settings { max_user_namespaces: Some(0), ..Settings::default() };
        let root_only = Settings { unprivileged_userns_clone: Some(0), ..Settings::default() };
        let apparmor = Settings { apparmor_restricts: Some(1), ..Settings::default() };
        let plain = Settings { max_user_namespaces: Some(9), ..Settings::default() };
        let table = [
            (Some(&unshare), ENOSPC, 0, off, Obstacle::NamespacesOff),
            (Some(&unshare), ENOSPC, 7, plain, Obstacle::NamespacesOff),
            (Some(&unshare), EPERM, 7, root_only, Obstacle::UnprivilegedOff),
            (Some(&unshare), EPERM, 0, root_only, Obstacle::Filtered),
            (Some(&Step::Root), EPERM, 7, apparmor, Obstacle::AppArmor),
            (Some(&Step::Processes), EPERM, 7, plain, Obstacle::ProcMasked),
            (Some(&unshare), EPERM, 7, plain, Obstacle::Filtered),
            (Some(&Step::Root), ENOSYS, 7, plain, Obstacle::OldKernel),
        ];
        for (step, errno, uid, settings, expected) in table {
            let found = diagnose(step, &Error::from_raw_os_error(errno), uid, settings);
            assert_eq!(found, expected, "{step:?} {errno} {uid}");
            assert!(!found.cause().is_empty() && !found.fix().is_empty());
        }
        let other = diagnose(Some(&Step::Pivot), &Error::from_raw_os_error(EIO), 7, plain);
        assert!(other.cause().contains("pivot"), "{}", other.cause());
    }
}

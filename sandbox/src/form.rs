//! The two forms a box can have, and what the weaker one needs.

use crate::fence;
use crate::host::{Host, Kernel};
use crate::policy::{Nesting, Network, Policy};
use crate::refusal::{Layer, Refusal};
use std::collections::BTreeSet;

/// What a box is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Namespaces and mounts, and in them everything else.
    Full,
    /// Rules on processes alone, where this machine has no namespaces to give. Paths are those of the host.
    LandlockOnly,
}

impl Host {
    /// The form that boxes have here.
    pub fn form(&self) -> Form {
        if self.obstacle.is_none() && self.kernel >= Kernel::OLDEST { Form::Full } else { Form::LandlockOnly }
    }

    /// The layers that this machine cannot give to any box. A limit is not among them: whether it can be had depends on
    /// which it is, and [`crate::Enforcement::lacks`] tells.
    pub fn lacks(&self) -> BTreeSet<Layer> {
        let namespaces = (self.form() == Form::LandlockOnly).then_some(Layer::Namespaces);
        namespaces.into_iter().chain((!self.seccomp).then_some(Layer::Seccomp)).collect()
    }

    /// Why namespaces cannot be had, if they cannot.
    fn no_namespaces(&self) -> Option<Refusal> {
        let refusal = |cause, fix| Some(Refusal { layer: Layer::Namespaces, cause, fix });
        match &self.obstacle {
            Some(obstacle) => refusal(obstacle.cause(), obstacle.fix()),
            None if self.kernel < Kernel::OLDEST => refusal(
                format!("the kernel is {}, older than {}", self.kernel, Kernel::OLDEST),
                format!("run on Linux {} or newer", Kernel::OLDEST),
            ),
            None => None,
        }
    }

    /// Why a box without namespaces cannot be had here, if it cannot: what is left must hold all the more.
    pub fn refuses_landlock_only(&self) -> Option<Refusal> {
        let refusal = |layer, cause: String, fix: &str| Some(Refusal { layer, cause, fix: fix.to_owned() });
        match self.landlock {
            Some(version) if version >= fence::NETWORK => {}
            Some(version) => {
                return refusal(
                    Layer::Policy,
                    format!("Landlock {version} knows nothing of a network: without namespaces, none could be denied"),
                    "make namespaces available, or run on Linux 6.7 or newer",
                );
            }
            None => {
                return refusal(
                    Layer::Policy,
                    "there is no Landlock either: without namespaces nothing would bound what a command reads and writes"
                        .to_owned(),
                    "make namespaces available, or boot Linux 6.7 or newer with `landlock` among the `lsm=` of the \
                     kernel's command line",
                );
            }
        }
        if !self.seccomp {
            return refusal(
                Layer::Policy,
                "there is no filter of system calls either: without namespaces, sockets and signals would be unbounded"
                    .to_owned(),
                "make one of the two available",
            );
        }
        if self.metadata {
            return None;
        }
        refusal(
            Layer::Policy,
            "a process may not read another's memory either (kernel.yama.ptrace_scope is 2 or 3, or a filter forbids it): \
             without namespaces, no command could change a file's mode or times"
                .to_owned(),
            "make namespaces available, or run `sysctl -w kernel.yama.ptrace_scope=1` as root (from 3, that needs a restart)",
        )
    }
}

/// Refuses where the machine lacks what `policy` may not.
pub(crate) fn refuse(policy: &Policy, host: &Host) -> Result<(), Refusal> {
    if let Some(refusal) = host.no_namespaces() {
        if !policy.may_lack.contains(&Layer::Namespaces) {
            return Err(refusal);
        }
        if let Some(refusal) = host.refuses_landlock_only() {
            return Err(refusal);
        }
        return refuse_without_namespaces(policy);
    }
    if !host.seccomp && !policy.may_lack.contains(&Layer::Seccomp) {
        return Err(Refusal {
            layer: Layer::Seccomp,
            cause: "system calls cannot be filtered here".to_owned(),
            fix: "run on x86-64 or 64-bit ARM, with a kernel built with CONFIG_SECCOMP_FILTER".to_owned(),
        });
    }
    Ok(())
}

/// Refuses what a box without namespaces could only pretend to do.
fn refuse_without_namespaces(policy: &Policy) -> Result<(), Refusal> {
    match policy.network {
        Network::None | Network::Host => {}
        Network::Relay { .. } => {
            return Err(Refusal::policy(
                "a list of allowed addresses cannot be enforced without namespaces: the rules that are left know ports, \
                 not addresses",
                "make namespaces available, or ask for no network, or for the host's",
            ));
        }
    }
    match policy.nesting {
        Nesting::Denied => Ok(()),
        Nesting::Allowed => Err(Refusal::policy(
            "namespaces cannot be nested where there are none",
            "make namespaces available, or do not allow them inside",
        )),
    }
}

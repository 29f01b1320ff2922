//! Whether this machine can keep agents apart as a plan wants it, and what the record says of that.

use std::collections::{BTreeMap, BTreeSet};

use sandbox::{Enforcement, Form, Host, Layer, Nesting, Policy, PrivateDir, Refusal};

use super::error::Error;
use crate::model::plan::{Plan, SandboxSettings};
use crate::plan::boxes;
use crate::workspace::{network_of, refuse_nested_root};

/// By whose box it is: the limits it does without, by name.
pub(super) type LeftOut = BTreeMap<String, Vec<&'static str>>;

/// Lets every box of a plan do without `layers`, for a verb that was told so.
pub(super) fn allow(plan: &mut Plan, layers: &BTreeSet<Layer>) {
    plan.sandbox.allow_degraded.extend(layers);
    for agent in &mut plan.agents {
        agent.sandbox.allow_degraded.extend(layers);
    }
    if let Some(verify) = &mut plan.verify {
        verify.sandbox.allow_degraded.extend(layers);
    }
}

/// What a box of the program's own may lack, as a capture's: what a box whose files it reads may lack.
pub(super) fn may_lack(plan: &Plan) -> BTreeSet<Layer> {
    boxes(plan).flat_map(|(_, settings)| settings.allow_degraded.iter().copied()).collect()
}

/// Refuses where one box of the plan could not be made here as it is wanted. Creates nothing.
pub(super) fn require(host: &Host, plan: &Plan) -> Result<(), Error> {
    for (whose, settings) in boxes(plan) {
        planned(host, &whose, settings)?;
        if settings.nested {
            refuse_nested_root()?;
        }
    }
    Ok(())
}

/// A box of the plan, as far as the machine matters to it.
fn planned(host: &Host, whose: &str, settings: &SandboxSettings) -> Result<Enforcement, Error> {
    let policy = Policy { may_lack: settings.allow_degraded.clone(), ..usual(settings) };
    Enforcement::plan(&policy, host).map_err(|refusal| unfit(host, whose, &refusal))
}

/// The limits that boxes of the plan do without here, as they may, each with whose box it is.
pub(super) fn left_out(host: &Host, plan: &Plan) -> Result<LeftOut, Error> {
    let mut all = LeftOut::new();
    for (whose, settings) in boxes(plan) {
        let missing = planned(host, &whose, settings)?.left_out().to_vec();
        if !missing.is_empty() {
            all.insert(whose, missing);
        }
    }
    Ok(all)
}

/// The layers that some box of the plan does without here.
pub(super) fn lacks(host: &Host, left_out: &LeftOut) -> BTreeSet<Layer> {
    host.lacks().into_iter().chain((!left_out.is_empty()).then_some(Layer::Limits)).collect()
}

/// A box like those of the plan, as far as the machine matters to it.
fn usual(settings: &SandboxSettings) -> Policy {
    let home = PrivateDir { source: "/private/home".into(), target: "/home/user".into() };
    let network = network_of(&settings.network);
    let nesting = if settings.nested { Nesting::Allowed } else { Nesting::Denied };
    Policy::new("/worktree", home, "/private/tmp").network(network).nesting(nesting).limits(settings.limits.of_box())
}

fn unfit(host: &Host, whose: &str, refusal: &Refusal) -> Error {
    let flag = way_on(host, refusal.layer);
    let cause = match refusal.layer {
        Layer::Policy => format!("{whose} cannot be kept in: {}", refusal.cause),
        Layer::Limits => format!("{whose}: {}", refusal.cause),
        Layer::Namespaces | Layer::Seccomp => refusal.cause.clone(),
    };
    Error::Unfit { cause, fix: refusal.fix.clone(), flag }
}

/// The flag to go on without a layer, where that is possible here.
pub(super) fn way_on(host: &Host, layer: Layer) -> Option<String> {
    let possible = match layer {
        Layer::Policy => false,
        Layer::Namespaces => host.refuses_landlock_only().is_none(),
        Layer::Seccomp | Layer::Limits => true,
    };
    possible.then(|| format!("--allow-degraded={layer}"))
}

/// The layers that keep agents apart on this machine, by name, for the record: what the box of an agent really has, where
/// the plan gives it no network of the host's.
pub(super) fn layers(host: &Host) -> Result<Vec<String>, Error> {
    let policy = Layer::OPTIONAL.into_iter().fold(usual(&SandboxSettings::default()), Policy::may_lack);
    let enforcement = Enforcement::plan(&policy, host).map_err(|refusal| unfit(host, "an agent", &refusal))?;
    let boxed = enforcement.layers().into_iter().map(|layer| layer.name().to_owned());
    Ok(boxed.chain(["private-git-directory", "private-home"].map(str::to_owned)).collect())
}

/// What is done without, as it is said at the start, a line each. What is missing though nothing depends on it goes to the
/// diagnostics.
pub(super) fn warnings(host: &Host, left_out: &LeftOut) -> Vec<String> {
    let lacks = host.shortcomings();
    for lack in &lacks {
        tracing::warn!(fix = %lack.fix, "{}", lack.cause);
    }
    let weaker = match host.form() {
        Form::Full => "the rest holds",
        Form::LandlockOnly => "agents are held by rules on their processes alone, see docs/threat-model.md",
    };
    let missing = host.lacks().into_iter();
    let missing = missing.map(|layer| format!("degraded, as was allowed: this machine gives no {layer}; {weaker}"));
    let lacks = lacks.into_iter().filter(|_| host.form() == Form::LandlockOnly).map(|lack| lack.cause);
    let without = left_out.iter().map(|(whose, limits)| {
        let limits: Vec<String> = limits.iter().map(|limit| format!("`{limit}`")).collect();
        let limits = limits.join(" and ");
        format!("degraded, as was allowed: {whose} runs without the limit {limits}, which cannot be enforced here")
    });
    missing.chain(without).chain(lacks).collect()
}

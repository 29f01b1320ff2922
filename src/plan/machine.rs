//! Whether a machine can enforce the limits that a plan asks for. Known before anything is made, and so told before: an
//! agent that runs without a limit it was to have would be found out only by the damage.

use sandbox::{Host, Refusal};

use super::finding::{Code, Finding, Severity};
use crate::model::plan::{Plan, SandboxSettings};

/// The boxes of a plan whose limits the machine cannot enforce, and why.
pub fn unenforceable(plan: &Plan, host: &Host) -> Vec<(String, Refusal)> {
    let check = |(whose, settings): (String, &SandboxSettings)| {
        let refusal = host.check_limits(&settings.limits.of_box(), &settings.allow_degraded).err()?;
        Some((whose, refusal))
    };
    boxes(plan).filter_map(check).collect()
}

/// The same as warnings: the plan may be meant for another machine. A run of it here is refused.
pub fn check_against_machine(plan: &Plan, host: &Host) -> Vec<Finding> {
    let finding = |(whose, refusal): (String, Refusal)| {
        let message = format!("{whose} has a limit that cannot be enforced here: {}", refusal.cause);
        Finding::new(Severity::Warning, Code::NotHere, message).with_help(refusal.fix)
    };
    unenforceable(plan, host).into_iter().map(finding).collect()
}

/// Whether any limit of the plan depends on the machine, so that it is worth looking at.
pub fn depends_on_machine(plan: &Plan) -> bool {
    boxes(plan).any(|(_, settings)| settings.limits.processes.is_some() || settings.limits.cpu_weight.is_some())
}

/// The boxes of a plan, each with whose it is.
pub fn boxes(plan: &Plan) -> impl Iterator<Item = (String, &SandboxSettings)> {
    let agents = plan.agents.iter().map(|agent| (format!("agent `{}`", agent.name), &agent.sandbox));
    agents.chain(plan.verify.iter().map(|verify| ("the verifier".to_owned(), &verify.sandbox)))
}

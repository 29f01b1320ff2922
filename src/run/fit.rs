//! Whether this machine can enforce the limits that a plan asks for.
//!
//! Known before anything is made, and so refused before: an agent that runs without a limit it was to have would be found
//! out only by the damage.

use sandbox::{Host, Refusal};

use super::error::Error;
use crate::model::plan::{Plan, SandboxSettings};

/// Refuses a plan with a limit that cannot be enforced here.
pub(super) fn require_limits(plan: &Plan, host: &Host) -> Result<(), Error> {
    match unenforceable(plan, host).into_iter().next() {
        None => Ok(()),
        Some((whose, refusal)) => Err(Error::Unfit { cause: format!("{whose}: {}", refusal.cause), fix: refusal.fix }),
    }
}

/// The boxes of a plan whose limits a machine cannot enforce, and why.
pub fn unenforceable(plan: &Plan, host: &Host) -> Vec<(String, Refusal)> {
    let agents = plan.agents.iter().map(|agent| (format!("agent `{}`", agent.name), &agent.sandbox));
    let verifier = plan.verify.iter().map(|verify| ("the verifier".to_owned(), &verify.sandbox));
    let check = |(whose, settings): (String, &SandboxSettings)| {
        let refusal = host.check_limits(&settings.limits.of_box(), &settings.allow_degraded).err()?;
        Some((whose, refusal))
    };
    agents.chain(verifier).filter_map(check).collect()
}

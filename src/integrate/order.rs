//! The order of merging: plan order, and everything after what it builds on.

use crate::model::AgentName;
use crate::model::plan::Plan;
use crate::plan::Graph;

/// The order in which agents are merged, as places in the plan. `contained[n]` are agents whose work is in the fork point
/// of agent `n` besides its prerequisites: they come before it too. Every agent is in the answer once; agents that wait
/// for each other, which only such fork points can cause, come last, in plan order.
pub fn merge_order(plan: &Plan, contained: &[Vec<usize>]) -> Vec<usize> {
    let place = |name: &AgentName| plan.agents.iter().position(|agent| agent.name == *name);
    let after = plan.agents.iter().enumerate().map(|(at, agent)| {
        let named = agent.after.iter().filter_map(place);
        let found = contained.get(at).into_iter().flatten().copied();
        named.chain(found).filter(|other| *other != at).collect()
    });
    let mut order = Graph::new(after.collect()).order();
    let left: Vec<usize> = (0..plan.agents.len()).filter(|agent| !order.contains(agent)).collect();
    order.extend(left);
    order
}

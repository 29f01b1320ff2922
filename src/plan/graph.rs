//! The order that `after` asks for, as pure functions over numbers: agent `n` is the `n`th of the plan.
//!
//! All answers are stable: where `after` leaves a choice, the plan's order decides, never a hash or a clock.

use crate::model::AgentName;
use crate::model::plan::Plan;

/// Who comes after whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    after: Vec<Vec<usize>>,
}

impl Graph {
    /// `after[n]` are the agents that agent `n` comes after. Numbers that are no agent are left out.
    pub fn new(mut after: Vec<Vec<usize>>) -> Self {
        let count = after.len();
        for list in &mut after {
            list.retain(|agent| *agent < count);
            list.sort_unstable();
            list.dedup();
        }
        Self { after }
    }

    /// The graph of a plan.
    pub fn of(plan: &Plan) -> Self {
        let place = |name: &AgentName| plan.agents.iter().position(|agent| agent.name == *name);
        Self::new(plan.agents.iter().map(|agent| agent.after.iter().filter_map(place).collect()).collect())
    }

    /// How many agents there are.
    pub fn len(&self) -> usize {
        self.after.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty()
    }

    /// The order of merging: every agent after its prerequisites, and otherwise in plan order. Members of a cycle, and
    /// what comes after them, are left out.
    pub fn order(&self) -> Vec<usize> {
        let mut placed = vec![false; self.len()];
        let mut order = Vec::new();
        while let Some(next) =
            (0..self.len()).find(|agent| !placed[*agent] && self.after[*agent].iter().all(|before| placed[*before]))
        {
            placed[next] = true;
            order.push(next);
        }
        order
    }

    /// What could run side by side, if there were room for all: each wave needs only the waves before it.
    pub fn waves(&self) -> Vec<Vec<usize>> {
        let mut wave_of = vec![0; self.len()];
        let mut waves: Vec<Vec<usize>> = Vec::new();
        for agent in self.order() {
            let wave = self.after[agent].iter().map(|before| wave_of[*before] + 1).max().unwrap_or(0);
            wave_of[agent] = wave;
            if waves.len() <= wave {
                waves.resize_with(wave + 1, Vec::new);
            }
            waves[wave].push(agent);
        }
        for wave in &mut waves {
            wave.sort_unstable();
        }
        waves
    }

    /// Everything that `agent` builds on, directly or not, in the order of merging.
    pub fn prerequisites(&self, agent: usize) -> Vec<usize> {
        let needed = self.reached(agent, &self.after);
        self.order().into_iter().filter(|other| needed[*other] && *other != agent).collect()
    }

    /// Everything that builds on `agent`, directly or not, in the order of merging.
    pub fn dependents(&self, agent: usize) -> Vec<usize> {
        let mut before = vec![Vec::new(); self.len()];
        for (later, list) in self.after.iter().enumerate() {
            for earlier in list {
                before[*earlier].push(later);
            }
        }
        let needing = self.reached(agent, &before);
        self.order().into_iter().filter(|other| needing[*other] && *other != agent).collect()
    }

    fn reached(&self, from: usize, edges: &[Vec<usize>]) -> Vec<bool> {
        let mut reached = vec![false; self.len()];
        let mut open = edges.get(from).cloned().unwrap_or_default();
        while let Some(agent) = open.pop() {
            if !std::mem::replace(&mut reached[agent], true) {
                open.extend(&edges[agent]);
            }
        }
        reached
    }

    /// One cycle for each knot of agents that wait for each other, as its members in the order of `after`: the first waits
    /// for the second, and the last for the first. It begins with the member that is first in the plan. An agent that
    /// waits for itself is a cycle of one.
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let reaches: Vec<Vec<bool>> = (0..self.len()).map(|agent| self.reached(agent, &self.after)).collect();
        let mut told = vec![false; self.len()];
        let mut cycles = Vec::new();
        for agent in 0..self.len() {
            if !reaches[agent][agent] || told[agent] {
                continue;
            }
            for other in 0..self.len() {
                told[other] |= reaches[agent][other] && reaches[other][agent];
            }
            cycles.push(self.way_back(agent));
        }
        cycles
    }

    /// The shortest way from `start` to itself.
    fn way_back(&self, start: usize) -> Vec<usize> {
        let mut came_from = vec![None; self.len()];
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(agent) = queue.pop_front() {
            for next in &self.after[agent] {
                if *next == start {
                    let mut members = vec![agent];
                    let mut at = agent;
                    while let Some(before) = came_from[at] {
                        members.push(before);
                        at = before;
                    }
                    members.reverse();
                    return members;
                }
                if came_from[*next].is_none() {
                    came_from[*next] = Some(agent);
                    queue.push_back(*next);
                }
            }
        }
        vec![start]
    }
}

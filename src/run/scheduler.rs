//! Which agents may start now: a pure function of how all of them stand.
//!
//! An agent starts when every agent it names under `after` has ended well and kept its contract, and when fewer than
//! `jobs` agents are at work. Where several may, the one that comes first in the plan does. An agent that waits for one
//! that will not come any more is blocked, and so is whoever waits for it.

use crate::model::AgentName;

/// How one agent stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The agent.
    pub name: AgentName,
    /// Whom it waits for.
    pub after: Vec<AgentName>,
    /// How far it is.
    pub stand: Stand,
}

/// How far an agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stand {
    /// It has not begun.
    Waiting,
    /// It is at work.
    Running,
    /// It has ended. Others may build on it only if it ended well and kept its contract.
    Ended {
        /// Whether others may build on it.
        can_be_built_on: bool,
    },
}

/// What is to be done now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Agents to start.
    pub start: Vec<AgentName>,
    /// Agents that cannot start any more, each with those it waits for in vain.
    pub block: Vec<(AgentName, Vec<AgentName>)>,
}

/// Decides. `stopping`: nothing new is to begin.
pub fn decide(entries: &[Entry], jobs: usize, stopping: bool) -> Decision {
    let running = entries.iter().filter(|entry| entry.stand == Stand::Running).count();
    let mut free = if stopping { 0 } else { jobs.saturating_sub(running) };
    let mut decision = Decision::default();
    for entry in entries.iter().filter(|entry| entry.stand == Stand::Waiting) {
        let stands: Vec<(&AgentName, Option<Stand>)> = entry
            .after
            .iter()
            .map(|name| (name, entries.iter().find(|other| other.name == *name).map(|other| other.stand)))
            .collect();
        let in_vain: Vec<AgentName> = stands
            .iter()
            .filter(|(_, stand)| match stand {
                Some(Stand::Ended { can_be_built_on }) => !can_be_built_on,
                Some(Stand::Waiting | Stand::Running) => false,
                None => true,
            })
            .map(|(name, _)| (*name).clone())
            .collect();
        if !in_vain.is_empty() {
            decision.block.push((entry.name.clone(), in_vain));
        } else if free > 0
            && stands.iter().all(|(_, stand)| matches!(stand, Some(Stand::Ended { can_be_built_on: true })))
        {
            decision.start.push(entry.name.clone());
            free -= 1;
        }
    }
    decision
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Stand = Stand::Ended { can_be_built_on: true };
    const BAD: Stand = Stand::Ended { can_be_built_on: false };

    fn name(text: &str) -> AgentName {
        text.parse().unwrap()
    }

    fn entry(text: &str, after: &[&str], stand: Stand) -> Entry {
        Entry { name: name(text), after: after.iter().map(|text| name(text)).collect(), stand }
    }

    fn starts(entries: &[Entry], jobs: usize) -> Vec<String> {
        decide(entries, jobs, false).start.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn plan_order_and_jobs_decide() {
        let entries = ["a", "b", "c"].map(|text| entry(text, &[], Stand::Waiting));
        assert_eq!(starts(&entries, 2), ["a", "b"]);
        assert_eq!(starts(&entries, 9), ["a", "b", "c"]);
        let busy = [entry("a", &[], Stand::Running), entry("b", &[], Stand::Waiting)];
        assert_eq!(starts(&busy, 1), [] as [&str; 0]);
    }

    #[test]
    fn prerequisites() {
        for (stand, starting, blocked) in
            [(Stand::Waiting, false, false), (Stand::Running, false, false), (GOOD, true, false), (BAD, false, true)]
        {
            let decision = decide(&[entry("a", &[], stand), entry("b", &["a"], Stand::Waiting)], 9, false);
            assert_eq!(decision.start.contains(&name("b")), starting, "{stand:?}");
            assert_eq!(decision.block, if blocked { vec![(name("b"), vec![name("a")])] } else { vec![] }, "{stand:?}");
        }
    }

    #[test]
    fn nothing_starts_while_stopping() {
        let decision = decide(&[entry("a", &[], Stand::Waiting)], 9, true);
        assert_eq!(decision, Decision::default());
    }

    /// Whatever the graph and the ends: carried out step by step, every agent ends or is blocked, never more than `jobs`
    /// run, and one that is blocked waits for one that failed or is blocked itself.
    #[test]
    fn every_agent_comes_to_an_end() {
        for seed in 0_u32..2000 {
            let bit = |n: u32| seed.wrapping_mul(2_654_435_761).rotate_left(n * 3) & 1 == 1;
            let names = ["a", "b", "c", "d", "e"];
            let mut entries: Vec<Entry> = (0..5_usize)
                .map(|at| {
                    let after: Vec<&str> = (0..at)
                        .filter(|other| bit(u32::try_from(at * 5 + other).unwrap()))
                        .map(|other| names[other])
                        .collect();
                    entry(names[at], &after, Stand::Waiting)
                })
                .collect();
            let jobs = 1 + (seed % 3) as usize;
            for _ in 0..20 {
                let decision = decide(&entries, jobs, false);
                for (blocked, by) in &decision.block {
                    assert!(by.iter().all(|by| entries.iter().any(|entry| entry.name == *by && entry.stand == BAD)));
                    entries.iter_mut().find(|entry| entry.name == *blocked).unwrap().stand = BAD;
                }
                for started in &decision.start {
                    entries.iter_mut().find(|entry| entry.name == *started).unwrap().stand = Stand::Running;
                }
                assert!(entries.iter().filter(|entry| entry.stand == Stand::Running).count() <= jobs);
                if let Some(at) = entries.iter().position(|entry| entry.stand == Stand::Running) {
                    entries[at].stand = if bit(u32::try_from(at).unwrap() + 40) { GOOD } else { BAD };
                }
            }
            assert!(entries.iter().all(|entry| matches!(entry.stand, Stand::Ended { .. })), "seed {seed}");
        }
    }
}

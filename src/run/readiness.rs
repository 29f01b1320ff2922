//! Which agents may start now: a pure function of how all of them stand.
//!
//! An agent starts when every agent it names under `after` has ended well and kept its contract, and when fewer than
//! `jobs` agents are at work. Where several may, the one that comes first in the plan does. An agent that waits for one
//! that will not come any more is blocked, and so is whoever waits for it. While the run is paused nothing starts, and what
//! can be told without starting anything is told.

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
    /// It never began, for one that it builds on did not end well.
    Blocked,
    /// It never began, and is not to.
    LeftOut,
}

/// Whether anything new may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intake {
    /// It may.
    Open,
    /// Not until the run is continued.
    Paused,
    /// Not any more in this life of the run.
    Closed,
}

/// What is to be done now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Agents to start.
    pub start: Vec<AgentName>,
    /// Agents that cannot start any more, each with those it waits for in vain.
    pub block: Vec<(AgentName, Vec<AgentName>)>,
}

/// Decides.
pub fn decide(entries: &[Entry], jobs: usize, intake: Intake) -> Decision {
    let running = entries.iter().filter(|entry| entry.stand == Stand::Running).count();
    let mut free = match intake {
        Intake::Open => jobs.saturating_sub(running),
        Intake::Paused | Intake::Closed => 0,
    };
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
                Some(Stand::Blocked | Stand::LeftOut) | None => true,
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

/// What has to wait again when an agent that has ended is to be tried again: those that were blocked because of it.
///
/// An error names those that keep it from being tried again: they have begun on top of what it made, and would be judged
/// together with other work than they know.
pub fn reopen(entries: &[Entry], agent: &AgentName) -> Result<Vec<AgentName>, Vec<AgentName>> {
    let (mut again, mut in_the_way): (Vec<AgentName>, Vec<AgentName>) = (Vec::new(), Vec::new());
    let mut of_concern = vec![agent.clone()];
    // A plan has no cycles, and an agent comes in only once.
    while let Some(below) = of_concern.pop() {
        for entry in entries.iter().filter(|entry| entry.after.contains(&below)) {
            if again.contains(&entry.name) || in_the_way.contains(&entry.name) {
                continue;
            }
            match entry.stand {
                Stand::Waiting | Stand::LeftOut => {}
                Stand::Blocked => {
                    again.push(entry.name.clone());
                    of_concern.push(entry.name.clone());
                }
                Stand::Running | Stand::Ended { .. } => in_the_way.push(entry.name.clone()),
            }
        }
    }
    if in_the_way.is_empty() { Ok(again) } else { Err(in_the_way) }
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
        decide(entries, jobs, Intake::Open).start.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn plan_order_and_jobs_decide() {
        let entries = ["a", "b", "c"].map(|text| entry(text, &[], Stand::Waiting));
        assert_eq!(starts(&entries, 2), ["a", "b"]);
        assert_eq!(starts(&entries, 9), ["a", "b", "c"]);
        let busy = [entry("a", &[], Stand::Running), entry("b", &[], Stand::Waiting)];
        assert_eq!(starts(&busy, 1), [] as [&str; 0]);
    }

    const EVERY: [Stand; 6] = [Stand::Waiting, Stand::Running, GOOD, BAD, Stand::Blocked, Stand::LeftOut];

    /// Every stand of two prerequisites and of the agent itself, with room and without, in every state of the run: against
    /// the rule as it is written at the top of this file.
    #[test]
    fn every_stand_of_two_prerequisites() {
        let mut cases = 0;
        for (one, other, own) in EVERY.into_iter().flat_map(|one| {
            EVERY.into_iter().flat_map(move |other| EVERY.into_iter().map(move |own| (one, other, own)))
        }) {
            for intake in [Intake::Open, Intake::Paused, Intake::Closed] {
                for jobs in 0..=3 {
                    let entries = [entry("a", &[], one), entry("b", &[], other), entry("c", &["a", "b"], own)];
                    let decision = decide(&entries, jobs, intake);
                    let case = format!("{one:?} {other:?} {own:?} {intake:?} {jobs}");
                    cases += 1;
                    let running = [one, other, own].iter().filter(|stand| **stand == Stand::Running).count();
                    assert!(decision.start.len() + running <= jobs.max(running), "{case}");
                    if intake != Intake::Open {
                        assert!(decision.start.is_empty(), "{case}");
                    }
                    let in_vain: Vec<AgentName> = [("a", one), ("b", other)]
                        .into_iter()
                        .filter(|(_, stand)| [BAD, Stand::Blocked, Stand::LeftOut].contains(stand))
                        .map(|(text, _)| name(text))
                        .collect();
                    let is_blocked = own == Stand::Waiting && !in_vain.is_empty();
                    let expected = if is_blocked { vec![(name("c"), in_vain)] } else { vec![] };
                    assert_eq!(decision.block, expected, "{case}");
                    let may = own == Stand::Waiting && one == GOOD && other == GOOD;
                    let starts = may && intake == Intake::Open && jobs > running;
                    assert_eq!(decision.start.contains(&name("c")), starts, "{case}");
                }
            }
        }
        assert_eq!(cases, 6 * 6 * 6 * 3 * 4);
    }

    #[test]
    fn who_can_be_tried_again() {
        let reopened = |stand: Stand, above: Stand| {
            let entries = [entry("a", &[], BAD), entry("b", &["a"], stand), entry("c", &["b"], above)];
            let names = |names: Vec<AgentName>| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            reopen(&entries, &name("a")).map(names).map_err(|names| names.iter().map(ToString::to_string).collect())
        };
        let yes = |text: &str| Ok(text.to_owned());
        let no = |text: &str| Err(vec![text.to_owned()]);
        for (stand, above, expected) in [
            (Stand::Blocked, Stand::Blocked, yes("b c")),
            (Stand::Blocked, Stand::LeftOut, yes("b")),
            // It ended in another life of the run, on top of other work.
            (Stand::Blocked, BAD, no("c")),
            (Stand::LeftOut, Stand::Blocked, yes("")),
            (Stand::Waiting, Stand::Waiting, yes("")),
            (Stand::Running, Stand::Waiting, no("b")),
            (GOOD, Stand::Running, no("b")),
            (BAD, Stand::Blocked, no("b")),
        ] {
            assert_eq!(reopened(stand, above), expected, "{stand:?} {above:?}");
        }
        assert_eq!(reopen(&[entry("a", &[], BAD), entry("b", &[], GOOD)], &name("a")), Ok(vec![]), "not concerned");
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
                let decision = decide(&entries, jobs, Intake::Open);
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

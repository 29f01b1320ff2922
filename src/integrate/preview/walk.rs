//! Going through the agents, one after the other: which of the rules decides about each.

use std::collections::BTreeMap;

use super::held::Undecided;
use super::origin::Origin;
use super::{Placed, Previewed, Question};
use crate::board::{self, MergeFault};
use crate::git::{self, Merger};
use crate::integrate::contribution::{Contribution, Work};
use crate::integrate::currency::{Observation, currency, observation_key};
use crate::integrate::error::Error;
use crate::integrate::fork::{Fork, fork_point};
use crate::integrate::message::Terms;
use crate::model::os_refusal::OsRefusal;
use crate::model::plan::AgentTask;
use crate::model::{AgentName, CommitId, RefName, TreeId};
use crate::plan::{Graph, Protected};
use crate::store::space;

/// Going through the agents, one after the other.
pub(super) struct Walk<'q, 'a> {
    pub(super) question: &'q Question<'a>,
    pub(super) graph: Graph,
    pub(super) merger: Merger,
    pub(super) protected: Protected,
    pub(super) start: CommitId,
    pub(super) candidate: CommitId,
    pub(super) tree: TreeId,
    pub(super) done: BTreeMap<usize, Placed>,
    pub(super) origins: Vec<Origin>,
}

impl Walk<'_, '_> {
    pub(super) fn step(&mut self, at: usize) -> Result<Previewed, Error> {
        let facts = self.question.facts;
        let task = &facts.plan.agents[at];
        if let Some(seen) = self.question.left_out.iter().find(|seen| seen.agent == task.name) {
            return Ok(seen.clone());
        }
        let onto = self.candidate.clone();
        let (placed, merges) = self.place(at, task)?;
        let work = &self.origins[at].work;
        let made = match work {
            Work::Made(made) => Some(made.as_ref()),
            Work::Absent(_) | Work::Nothing | Work::Unusable { .. } => None,
        };
        let contains_tip = match made {
            Some(made) if merges.is_some() => Some(self.contains(at, made, &onto)?),
            Some(_) | None => None,
        };
        let currency = currency(contains_tip, merges);
        let route = self.route(at);
        let observation_key = observation_key(&Observation {
            common_dir: facts.repository.common_dir(),
            target: self.question.target,
            tip: &onto,
            head: made.map(|made| &made.commit),
            status: currency,
            route: &route,
        });
        let snapshot = match work {
            Work::Made(made) => Some(made.snapshot.clone()),
            Work::Unusable { snapshot, .. } => snapshot.clone(),
            Work::Absent(_) | Work::Nothing => None,
        };
        let contribution = made.cloned();
        let agent = task.name.clone();
        Ok(Previewed { agent, contribution, snapshot, onto, currency, route, observation_key, placed })
    }

    /// Whether the tip is in the history of an agent's work. A tip that was made here can only be there as one of the merges
    /// that its fork point is made of, and then git need not be asked.
    fn contains(&self, at: usize, made: &Contribution, tip: &CommitId) -> Result<bool, Error> {
        if made.fork == *tip || self.origins[at].makings.merges.contains(tip) {
            return Ok(true);
        }
        if *tip != self.start {
            return Ok(false);
        }
        Ok(self.question.facts.repository.is_ancestor(tip, &made.commit)?)
    }

    /// What becomes of one agent, and whether git merges it, where git was asked.
    fn place(&mut self, at: usize, task: &AgentTask) -> Result<(Placed, Option<bool>), Error> {
        let origin = &self.origins[at];
        let made = match &origin.work {
            Work::Absent(outcome) => return Ok((Placed::Absent(*outcome), None)),
            Work::Nothing => return Ok((Placed::Nothing, None)),
            Work::Unusable { snapshot, fault, cause } => {
                let card = board::merge_error(&task.name, snapshot.as_ref(), None, fault, cause);
                return Ok((self.failed(card), None));
            }
            Work::Made(made) => made.as_ref().clone(),
        };
        if origin.landed {
            return Ok((Placed::Contained, Some(true)));
        }
        if let Some((fault, cause)) = self.taken(&made)? {
            return Ok((self.error(&made, &fault, &cause), None));
        }
        if let Some(foreign) = &origin.makings.foreign {
            let cause = format!(
                "its fork point is made of {}, which is not in the target's history: what was taken out of it would come back",
                foreign.short()
            );
            return Ok((self.error(&made, &MergeFault::ForeignFork, &cause), None));
        }
        let blocked = self.blocked(at);
        if !blocked.is_empty() {
            return Ok((Placed::Blocked(blocked), None));
        }
        let stale = self.stale(at)?;
        if !stale.is_empty() {
            return Ok((Placed::Stale(stale), None));
        }
        let mut terms = Terms::default();
        let held = match self.undecided(self.held(at, task, &made)?, &mut terms) {
            Undecided::SetAside(card) => return Ok((Placed::SetAside(card), None)),
            Undecided::Cards(cards) => cards,
        };
        // What could not be told is asked once more, before it is told to a person.
        let ask = || self.merger.preview(&self.candidate, &made.commit);
        let preview = ask().or_else(|_| ask());
        let merges = match &preview {
            Ok(git::Preview::Clean { .. }) => Some(true),
            Ok(git::Preview::Conflict(_)) => Some(false),
            Err(_) => None,
        };
        if !held.is_empty() {
            return Ok((Placed::Held(held), merges));
        }
        let placed = match preview {
            Ok(git::Preview::Clean { tree }) => self.take_in(at, &made, tree, &terms)?,
            Ok(git::Preview::Conflict(conflict)) => self.settle(at, &made, &conflict, terms)?,
            // That git could not be run, or had no room, says nothing about the work.
            Err(error)
                if OsRefusal::behind(&error).is_some()
                    || space::is_full(self.question.facts.repository.common_dir()) =>
            {
                return Err(error.into());
            }
            Err(error) => self.error(&made, &MergeFault::Git, &error.to_string()),
        };
        Ok((placed, merges))
    }

    /// Why an agent's work is somebody else's now, where it is: a person who put something on its branch may well expect that
    /// to be merged, and what is merged is the agent's last snapshot.
    fn taken(&self, made: &Contribution) -> Result<Option<(MergeFault, String)>, Error> {
        let facts = &self.question.facts;
        let branch = RefName::agent_branch(facts.run.id(), &made.agent);
        let found = facts.repository.load_ref(&branch)?.filter(|at| at != made.snapshot.object());
        Ok(found.map(|at| {
            let (name, snapshot) = (branch.short(), made.snapshot.short());
            let cause = format!(
                "something else moved its branch `{name}` from {snapshot} to {at}: if that is not to be lost keep it by another \
                 name, then `git branch -f {name} {snapshot}`, or `sandbox retry {}`",
                made.agent
            );
            (MergeFault::BranchTaken(at), cause)
        }))
    }

    /// Agents that keep this one from being merged: of all it builds on, those that are not merged for a reason of their
    /// own.
    fn blocked(&self, at: usize) -> Vec<AgentName> {
        let mut causes = Vec::new();
        for needed in self.needed(at) {
            match self.done.get(&needed) {
                Some(placed) if placed.is_in() => {}
                Some(Placed::Blocked(others)) => causes.extend(others.iter().filter_map(|name| self.place_of(name))),
                Some(_) | None => causes.push(needed),
            }
        }
        causes.sort_unstable();
        causes.dedup();
        causes.into_iter().map(|agent| self.name(agent)).collect()
    }

    /// Agents whose work its fork point should hold and does not, or holds as it was before.
    fn stale(&self, at: usize) -> Result<Vec<AgentName>, Error> {
        let origin = &self.origins[at];
        let mut changed = Vec::new();
        for (agent, held) in &origin.makings.holds {
            // Its own earlier work, from which it was begun anew, is not what it builds on.
            if *agent != at && self.current(*agent).is_none_or(|made| made.commit != *held) {
                changed.push(*agent);
            }
        }
        let mut missing = Vec::new();
        for needed in self.graph.prerequisites(at) {
            let Some(made) = self.current(needed) else { continue };
            let is_held = origin.makings.holds.iter().any(|(_, held)| *held == made.commit);
            if !is_held && !self.origins[needed].landed {
                missing.push(needed);
            }
        }
        // Two prerequisites that made the same change: the fork point holds it, but not both contributions.
        if !missing.is_empty() && !self.is_fork_of_now(at)? {
            changed.extend(missing);
        }
        changed.sort_unstable();
        changed.dedup();
        Ok(changed.into_iter().map(|agent| self.name(agent)).collect())
    }

    /// Whether an agent's fork point is what making it anew would give.
    fn is_fork_of_now(&self, at: usize) -> Result<bool, Error> {
        let Some(made) = self.current(at) else { return Ok(false) };
        Ok(fork_point(&self.question.facts, &made.agent)? == Fork::Commit(made.fork.clone()))
    }

    /// Everything an agent builds on: its prerequisites, and what its fork point is made of.
    fn needed(&self, at: usize) -> Vec<usize> {
        let mut needed = self.graph.prerequisites(at);
        needed.extend(self.origins[at].contained().into_iter().filter(|other| *other != at));
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    fn route(&self, at: usize) -> String {
        let names: Vec<String> = self.needed(at).into_iter().map(|agent| self.name(agent).to_string()).collect();
        if names.is_empty() { "independent".to_owned() } else { names.join(" ") }
    }

    pub(super) fn current(&self, at: usize) -> Option<&Contribution> {
        match &self.origins[at].work {
            Work::Made(made) => Some(made),
            Work::Absent(_) | Work::Nothing | Work::Unusable { .. } => None,
        }
    }

    pub(super) fn name(&self, at: usize) -> AgentName {
        self.question.facts.plan.agents[at].name.clone()
    }

    fn place_of(&self, name: &AgentName) -> Option<usize> {
        self.question.facts.plan.agents.iter().position(|task| task.name == *name)
    }
}

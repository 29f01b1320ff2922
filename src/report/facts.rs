//! What a report tells beside the journal: the clock, whether a coordinator lives, and what was measured just now.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::model::AgentName;
use crate::model::change::DiffStat;

/// What the caller found out. What it did not measure stays `None` and is shown as not known.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The present time.
    pub now: Timestamp,
    /// Whether the process that coordinates the run still lives, told by identity and not by its number alone.
    pub coordinator_alive: bool,
    /// The user's checkout as it is now.
    pub checkout: Option<CheckoutFacts>,
    /// What was measured of each agent.
    pub agents: BTreeMap<AgentName, AgentFacts>,
}

impl Facts {
    /// Nothing measured but the time and whether a coordinator lives.
    pub fn new(now: Timestamp, coordinator_alive: bool) -> Self {
        Self { now, coordinator_alive, checkout: None, agents: BTreeMap::new() }
    }

    /// Whether an agent's worktree was found to be gone.
    pub fn has_no_worktree(&self, agent: &AgentName) -> bool {
        self.agents.get(agent).is_some_and(|measured| measured.worktree_gone)
    }
}

/// The user's checkout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckoutFacts {
    /// The branch checked out; `None` when detached.
    pub branch: Option<String>,
    /// How many files differ from the branch's commit, untracked ones included.
    pub dirty: u64,
}

/// What was measured of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentFacts {
    /// Files in its worktree that differ from its last snapshot.
    pub dirty: Option<u64>,
    /// What it changed since its fork point, as of its last snapshot.
    pub stat: Option<DiffStat>,
    /// Whether its worktree is gone, so that it cannot go on there.
    pub worktree_gone: bool,
}

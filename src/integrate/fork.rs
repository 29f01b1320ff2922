//! The commit that an agent's worktree is made from.

use crate::model::card::Card;
use crate::model::{AgentName, CommitId};

use super::error::Error;
use super::facts::Facts;
use super::preview::{Placed, Question, preview};

/// What an agent can begin with.
#[derive(Debug, Clone, PartialEq)]
pub enum Fork {
    /// This commit. Pin it before anything relies on it.
    Commit(CommitId),
    /// Nothing: two of its prerequisites conflict with each other. It is the card that merging them will give, too.
    Conflict(Box<Card>),
    /// Nothing: these prerequisites did not complete, or may not be merged.
    Blocked(Vec<AgentName>),
}

/// The fork point of `agent`: the run's base, with exactly the contributions of its prerequisites, direct or not, merged
/// onto it in the order of merging. The same facts give the same commit, so that it can be made again after a crash.
pub fn fork_point(facts: &Facts<'_>, agent: &AgentName) -> Result<Fork, Error> {
    // A prerequisite that was begun anew stands on a candidate, and so on the target's tip of that time.
    let newest = facts.state.candidate.as_ref().map(|candidate| candidate.head.onto.clone());
    let trusted: Vec<CommitId> = std::iter::once(facts.base.clone()).chain(newest).collect();
    let question = Question {
        facts: *facts,
        target: None,
        onto: facts.base,
        trusted: &trusted,
        for_agent: Some(agent),
        left_out: &[],
    };
    let previews = preview(&question)?;
    let mut causes: Vec<AgentName> = Vec::new();
    for previewed in previews.agents {
        match previewed.placed {
            // What is blocked is so for the sake of agents that are named already.
            Placed::Nothing | Placed::Contained | Placed::Merged { .. } | Placed::Refused(_) | Placed::Blocked(_) => {}
            Placed::Conflict(card) => return Ok(Fork::Conflict(card)),
            Placed::Absent(_) | Placed::Held(_) | Placed::SetAside(_) | Placed::Stale(_) | Placed::Error(_) => {
                causes.push(previewed.agent);
            }
        }
    }
    if causes.is_empty() { Ok(Fork::Commit(previews.candidate)) } else { Ok(Fork::Blocked(causes)) }
}

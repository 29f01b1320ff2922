//! Previews: every agent's work held against the tip and merged in the object database, in order, each onto what the ones
//! before it gave.
//!
//! For each agent, the first of these that applies decides:
//! 1. It offers nothing, or its records are in doubt.
//! 2. Its work is in the target already.
//! 3. Its branch was moved by something else; or its fork point is made of something that is neither in the target nor a
//!    merge of this run: the target was rewritten.
//! 4. Something it builds on, by the plan or by its fork point, is not merged: it is blocked.
//! 5. What it builds on has changed since its worktree was made: it is stale.
//! 6. It changed paths outside its contract, or made something that must not be merged unseen: it is held, unless a person
//!    approved of exactly that.
//! 7. Git merges it, or says why not; then what a person decided about exactly this conflict holds.
//!
//! Where a person decided to leave out exactly this work, for whatever of these, it is left out.

mod held;
mod merging;
mod origin;
mod walk;

use std::collections::BTreeMap;

use self::origin::{Origin, load_origins};
use self::walk::Walk;
use super::contribution::Contribution;
use super::error::Error;
use super::facts::Facts;
use super::message;
use super::order::merge_order;
use crate::git::{self, Merger, NewCommit};
use crate::model::card::Card;
use crate::model::currency::Refusal;
use crate::model::event::{Currency, Shape};
use crate::model::{AgentName, AttemptOutcome, CardId, CommitId, RefName, RepoPath, TreeId};
use crate::plan::{Graph, Protected};

pub use self::merging::as_chosen;

/// What becomes of an agent's work.
#[derive(Debug, Clone, PartialEq)]
pub enum Placed {
    /// It did not complete; how it ended, if it did.
    Absent(Option<AttemptOutcome>),
    /// It completed and has nothing to merge.
    Nothing,
    /// All of it is there already, so no merge is made.
    Contained,
    /// It merges.
    Merged {
        /// The merge commit.
        commit: CommitId,
        /// Its tree.
        tree: TreeId,
        /// What form the work has, where the plan asks for the agents' own commits.
        history: Option<Shape>,
        /// The paths that the merge changes in the candidate.
        changed: Vec<RepoPath>,
    },
    /// It merges, and the run may not begin that by itself any more.
    Refused(Refusal),
    /// It conflicts.
    Conflict(Box<Card>),
    /// It is held for what it contains.
    Held(Vec<Card>),
    /// A person decided, on this card, to leave it out.
    SetAside(CardId),
    /// It builds on these agents, which are not merged.
    Blocked(Vec<AgentName>),
    /// These agents' work has changed since its worktree was made from it.
    Stale(Vec<AgentName>),
    /// The merge could not be computed.
    Error(Box<Card>),
}

impl Placed {
    /// The cards it gives.
    pub fn cards(&self) -> &[Card] {
        match self {
            Self::Conflict(card) | Self::Error(card) => std::slice::from_ref(card),
            Self::Held(cards) => cards,
            Self::Absent(_)
            | Self::Nothing
            | Self::Contained
            | Self::Merged { .. }
            | Self::Refused(_)
            | Self::SetAside(_)
            | Self::Blocked(_)
            | Self::Stale(_) => &[],
        }
    }

    /// Whether what builds on it may be merged.
    pub fn is_in(&self) -> bool {
        match self {
            Self::Nothing | Self::Contained | Self::Merged { .. } => true,
            Self::Absent(_)
            | Self::Refused(_)
            | Self::Conflict(_)
            | Self::Held(_)
            | Self::SetAside(_)
            | Self::Blocked(_)
            | Self::Stale(_)
            | Self::Error(_) => false,
        }
    }
}

/// One agent, previewed.
#[derive(Debug, Clone, PartialEq)]
pub struct Previewed {
    /// The agent.
    pub agent: AgentName,
    /// Its work, where it offers any that is sound.
    pub contribution: Option<Contribution>,
    /// The snapshot it is about.
    pub snapshot: Option<CommitId>,
    /// The exact commit it was held against.
    pub onto: CommitId,
    /// How it stands to that.
    pub currency: Currency,
    /// Whose work it builds on: `independent`, or the names.
    pub route: String,
    /// Equal for two previews of the same thing.
    pub observation_key: String,
    /// What becomes of it.
    pub placed: Placed,
}

/// All agents of a plan, previewed onto one tip.
#[derive(Debug)]
pub(super) struct Previews {
    /// In the order of merging.
    pub(super) agents: Vec<Previewed>,
    /// What the merges give.
    pub(super) candidate: CommitId,
    /// Its tree.
    pub(super) tree: TreeId,
}

/// What to preview, and onto what.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) facts: Facts<'a>,
    /// For the observation key only.
    pub(super) target: Option<&'a RefName>,
    /// What the first one is merged onto, and where merge attributes come from.
    pub(super) onto: &'a CommitId,
    /// Commits whose whole history may come along: what is in the target anyway.
    pub(super) trusted: &'a [CommitId],
    /// Only what this agent builds on, itself left out; all agents if none.
    pub(super) for_agent: Option<&'a AgentName>,
    /// Those that are left out, as they were seen when that was decided.
    pub(super) left_out: &'a [Previewed],
}

pub(super) fn preview(question: &Question<'_>) -> Result<Previews, Error> {
    let facts = &question.facts;
    let origins = load_origins(question)?;
    let contained: Vec<Vec<usize>> = origins.iter().map(Origin::contained).collect();
    let chosen = chosen(question, &contained);
    let tree = facts.repository.load_commit(question.onto)?.tree;
    let start = start(question, &tree)?;
    let mut walk = Walk {
        question,
        graph: Graph::of(facts.plan),
        merger: Merger::new(facts.repository, question.onto)?,
        protected: Protected::new(&facts.plan.protect).map_err(Error::Protect)?,
        candidate: start.clone(),
        start,
        tree,
        done: BTreeMap::new(),
        origins,
    };
    let mut agents = Vec::new();
    for at in merge_order(facts.plan, &contained) {
        if chosen[at] {
            let previewed = walk.step(at)?;
            walk.done.insert(at, previewed.placed.clone());
            agents.push(previewed);
        }
    }
    Ok(Previews { agents, candidate: walk.candidate, tree: walk.tree })
}

/// What the first agent is merged onto: the target's tip. Where squashed commits have landed on it, it has none of the
/// merges behind them in its history, and what builds on those would be held against the wrong base. So one commit of the
/// same tree joins the two.
fn start(question: &Question<'_>, tree: &TreeId) -> Result<CommitId, Error> {
    let facts = &question.facts;
    for step in facts.state.steps.iter().rev() {
        let Some(merge) = &step.merge else { continue };
        if facts.repository.is_ancestor(&step.to, question.onto)? {
            // Where somebody deleted the ref that keeps it, what builds on it is held against what is left.
            match facts.repository.load_commit(merge) {
                Ok(_) => {}
                Err(git::Error::MissingObject { .. }) => return Ok(question.onto.clone()),
                Err(error) => return Err(error.into()),
            }
            let signature = facts.signature();
            return Ok(facts.repository.write_commit(&NewCommit {
                tree,
                parents: &[question.onto.clone(), merge.clone()],
                author: &signature,
                committer: &signature,
                message: &message::join(facts.run.id(), merge),
            })?);
        }
    }
    Ok(question.onto.clone())
}

/// The agents that are asked about.
fn chosen(question: &Question<'_>, contained: &[Vec<usize>]) -> Vec<bool> {
    let plan = question.facts.plan;
    let place = question.for_agent.and_then(|name| plan.agents.iter().position(|task| task.name == *name));
    let Some(agent) = place else { return vec![question.for_agent.is_none(); plan.agents.len()] };
    let graph = Graph::of(plan);
    let mut chosen = vec![false; plan.agents.len()];
    let mut open = graph.prerequisites(agent);
    while let Some(next) = open.pop() {
        if next != agent && !std::mem::replace(&mut chosen[next], true) {
            open.extend(contained.get(next).into_iter().flatten());
        }
    }
    chosen
}

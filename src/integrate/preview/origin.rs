//! What an agent offers, what its fork point is made of, and what of both is in the target already.

use std::collections::BTreeMap;

use super::Question;
use crate::integrate::contribution::{Work, contribution};
use crate::integrate::error::Error;
use crate::integrate::history::{Own, own};
use crate::integrate::message;
use crate::model::plan::History;
use crate::model::{AgentName, CommitId};

/// What an agent offers, and what its fork point is made of.
pub(super) struct Origin {
    pub(super) work: Work,
    /// Its own commits, where the plan asks for them.
    pub(super) own: Option<Own>,
    pub(super) makings: Makings,
    /// Whether the work is in the target already.
    pub(super) landed: bool,
}

/// What a fork point is made of.
#[derive(Default)]
pub(super) struct Makings {
    /// Agents and contributions that it holds and the target does not.
    pub(super) holds: Vec<(usize, CommitId)>,
    /// The merges that brought them in.
    pub(super) merges: Vec<CommitId>,
    /// A commit below them that is not in the target either.
    pub(super) foreign: Option<CommitId>,
}

impl Origin {
    pub(super) fn contained(&self) -> Vec<usize> {
        self.makings.holds.iter().map(|(agent, _)| *agent).collect()
    }
}

pub(super) fn load_origins(question: &Question<'_>) -> Result<Vec<Origin>, Error> {
    let facts = &question.facts;
    let mut trust = Trust { question, known: BTreeMap::new() };
    let mut origins = Vec::new();
    for task in &facts.plan.agents {
        let work = contribution(facts, &task.name)?;
        let mut origin = Origin { work, own: None, makings: Makings::default(), landed: false };
        if let Work::Made(made) = &origin.work {
            let (fork, commit) = (made.fork.clone(), made.commit.clone());
            origin.landed = *question.onto != *facts.base && trust.has_landed(&commit)?;
            if !origin.landed {
                origin.makings = trust.unfold(&fork)?;
                origin.own = match facts.plan.history {
                    History::Commits => Some(own(facts, made)?),
                    History::Merge | History::Squash => None,
                };
            }
        }
        origins.push(origin);
    }
    Ok(origins)
}

/// Tells what is in the target from what is not.
struct Trust<'q, 'a> {
    question: &'q Question<'a>,
    known: BTreeMap<CommitId, bool>,
}

impl Trust<'_, '_> {
    fn is_in_target(&mut self, commit: &CommitId) -> Result<bool, Error> {
        if self.question.trusted.contains(commit) {
            return Ok(true);
        }
        if let Some(known) = self.known.get(commit) {
            return Ok(*known);
        }
        let mut found = false;
        for tip in self.question.trusted {
            found = found || self.question.facts.repository.is_ancestor(commit, tip)?;
        }
        self.known.insert(commit.clone(), found);
        Ok(found)
    }

    /// Whether a contribution is in the target: itself, or what it became part of a candidate by. Nothing is believed that
    /// stands in a message there: agents may have written it.
    fn has_landed(&mut self, contribution: &CommitId) -> Result<bool, Error> {
        if self.is_in_target(contribution)? {
            return Ok(true);
        }
        let steps = &self.question.facts.state.steps;
        for step in steps.iter().filter(|step| step.contribution == *contribution) {
            if self.is_in_target(&step.to)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a fork point apart into the merges of this run that it is made of, down to what is in the target. Fork points
    /// are ours, from the journal: their messages can be believed.
    fn unfold(&mut self, fork: &CommitId) -> Result<Makings, Error> {
        let facts = self.question.facts;
        let mut makings = Makings::default();
        let mut at = fork.clone();
        loop {
            if self.is_in_target(&at)? {
                return Ok(makings);
            }
            let commit = facts.repository.load_commit(&at)?;
            let text = commit.message_text();
            let [first, second] = commit.parents.as_slice() else {
                return Ok(Makings { foreign: Some(at), ..makings });
            };
            // Of what it joins, the target holds everything already.
            if message::is_join(facts.run.id(), &text) {
                at = first.clone();
                continue;
            }
            let merged = message::merged(facts.run.id(), &text);
            let place = |name: &AgentName| facts.plan.agents.iter().position(|task| task.name == *name);
            let Some((agent, merged)) = merged.and_then(|merged| Some((place(&merged.agent)?, merged))) else {
                return Ok(Makings { foreign: Some(at), ..makings });
            };
            makings.holds.push((agent, merged.contribution.unwrap_or_else(|| second.clone())));
            makings.merges.push(at);
            at = first.clone();
        }
    }
}

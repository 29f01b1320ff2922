//! The candidate: begun anew at the target's tip, then advanced by each merge.
//!
//! In this order: the journal says that the candidate begins anew; the branch is set there; everything is previewed; the
//! journal gets all previews, then all new cards, then the closing of cards that no longer apply, then one step for each
//! merge; the branch is set to the last. A crash in between leaves the branch at a commit that the journal knows, and
//! integrating again begins anew.

use std::collections::BTreeSet;

use crate::git::{RefEdit, Swap};
use crate::model::card::Card;
use crate::model::change::{CheckpointKind, GitCheckpoint};
use crate::model::event::{CandidateAdvanced, CardClosed, EventKind, MergePreviewed, PreviewResult, Subject};
use crate::model::{AgentName, CardId, CommitId, ObjectId, RefName, TreeId};
use crate::store::Record;

use super::error::Error;
use super::facts::Facts;
use super::open::open_card;
use super::preview::{Placed, Previewed, Previews, Question, preview};

/// A request to make the candidate.
#[derive(Debug, Clone)]
pub struct Integration<'a> {
    /// The run.
    pub facts: Facts<'a>,
    /// The branch the result is meant for, if any.
    pub target: Option<RefName>,
    /// The target's tip, read just now.
    pub onto: CommitId,
    /// Where it is told.
    pub journal: &'a dyn Record,
}

/// A candidate that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Integrated {
    /// The candidate: [`Self::onto`] where nothing was merged.
    pub candidate: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// What it is built on.
    pub onto: CommitId,
    /// Every agent, in the order of merging.
    pub agents: Vec<Previewed>,
    /// Cards that are new.
    pub opened: Vec<CardId>,
    /// Cards that no longer apply.
    pub closed: Vec<CardId>,
}

impl Integrated {
    /// What became of an agent.
    pub fn agent(&self, name: &AgentName) -> Option<&Placed> {
        self.agents.iter().find(|previewed| previewed.agent == *name).map(|previewed| &previewed.placed)
    }
}

/// Makes the candidate from the agents' present snapshots.
pub fn integrate(integration: &Integration<'_>) -> Result<Integrated, Error> {
    let facts = &integration.facts;
    let reference = RefName::integration(facts.run.id());
    let begun = begin(integration, &reference)?;
    let previews = preview(&Question {
        facts: *facts,
        target: integration.target.as_ref(),
        onto: &integration.onto,
        trusted: std::slice::from_ref(&integration.onto),
        for_agent: None,
    })?;
    for previewed in &previews.agents {
        tell_preview(integration, previewed)?;
    }
    let opened = open_cards(integration, &previews)?;
    let closed = close_cards(integration, &previews)?;
    tell_merges(integration, &reference, &previews)?;
    swap(integration, &reference, Some(&begun), &previews.candidate)?;
    Ok(Integrated {
        candidate: previews.candidate,
        tree: previews.tree,
        onto: integration.onto.clone(),
        agents: previews.agents,
        opened,
        closed,
    })
}

/// Sets the candidate to the target's tip.
fn begin(integration: &Integration<'_>, reference: &RefName) -> Result<ObjectId, Error> {
    let facts = &integration.facts;
    let found = facts.repository.load_ref(reference)?;
    if let Some(found) = &found {
        if !is_known(facts, found) && found != integration.onto.object() {
            return Err(Error::CandidateMoved { reference: reference.clone(), found: found.to_string() });
        }
        let holder = facts.repository.load_worktrees()?.into_iter().find(|it| it.branch.as_ref() == Some(reference));
        if let Some(holder) = holder {
            return Err(Error::CandidateCheckedOut { reference: reference.clone(), path: holder.path });
        }
    }
    let begun = CandidateAdvanced {
        reference: reference.clone(),
        onto: integration.onto.clone(),
        from: found.clone().map_or_else(|| integration.onto.clone(), CommitId::from),
        to: integration.onto.clone(),
        tree: facts.repository.load_commit(&integration.onto)?.tree,
        contribution: None,
    };
    integration.journal.record(Subject::run(), EventKind::CandidateAdvanced(begun))?;
    swap(integration, reference, found.as_ref(), &integration.onto)?;
    Ok(integration.onto.object().clone())
}

/// Whether the journal knows that the candidate was, or was to be, this commit.
fn is_known(facts: &Facts<'_>, found: &ObjectId) -> bool {
    let head = facts.state.candidate.iter().flat_map(|it| [&it.head.onto, &it.head.from, &it.head.to]);
    let steps = facts.state.agents.iter().filter_map(|agent| agent.merge.as_ref()?.merged_as.as_ref());
    head.chain(steps).any(|commit| commit.object() == found)
}

fn swap(
    integration: &Integration<'_>,
    reference: &RefName,
    old: Option<&ObjectId>,
    new: &CommitId,
) -> Result<(), Error> {
    let (name, new) = (reference.clone(), new.object().clone());
    let edit = match old {
        Some(old) if *old == new => return Ok(()),
        Some(old) => RefEdit::Update { name, new, old: old.clone() },
        None => RefEdit::Create { name, new },
    };
    match integration.facts.repository.swap_refs(&[edit], "sandbox: candidate")? {
        Swap::Done => Ok(()),
        Swap::Lost { name, found, .. } => {
            let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
            Err(Error::CandidateMoved { reference: name, found })
        }
    }
}

/// Tells of one preview; what offered nothing was not previewed.
fn tell_preview(integration: &Integration<'_>, previewed: &Previewed) -> Result<(), Error> {
    let (result, blocked_by) = match &previewed.placed {
        Placed::Absent(_) | Placed::Nothing => return Ok(()),
        Placed::Contained | Placed::Merged { .. } => (PreviewResult::Clean, Vec::new()),
        Placed::Conflict(_) => (PreviewResult::Conflict, Vec::new()),
        Placed::Held(_) => (PreviewResult::Held, Vec::new()),
        Placed::SetAside(_) => (PreviewResult::SetAside, Vec::new()),
        Placed::Blocked(by) | Placed::Stale(by) => (PreviewResult::Blocked, by.clone()),
        Placed::Error(_) => (PreviewResult::Error, Vec::new()),
    };
    // Without a snapshot there is no preview to tell of; the card tells.
    let Some(snapshot) = previewed.snapshot.clone() else { return Ok(()) };
    let told = MergePreviewed {
        onto: previewed.onto.clone(),
        contribution: previewed.contribution.as_ref().map(|made| made.commit.clone()),
        snapshot,
        currency: previewed.currency,
        result,
        cards: previewed.placed.cards().iter().map(|card| card.id.clone()).collect(),
        blocked_by,
        observation_key: previewed.observation_key.clone(),
    };
    integration.journal.record(Subject::agent(&previewed.agent), EventKind::MergePreviewed(told))?;
    Ok(())
}

/// Opens the cards that are not open yet. One that is open stays as it is.
fn open_cards(integration: &Integration<'_>, previews: &Previews) -> Result<Vec<CardId>, Error> {
    let mut opened: Vec<CardId> = Vec::new();
    for previewed in &previews.agents {
        for card in previewed.placed.cards() {
            let is_new = !opened.contains(&card.id);
            if is_new && open_card(&integration.facts, integration.journal, &previewed.agent, card)? {
                opened.push(card.id.clone());
            }
        }
    }
    Ok(opened)
}

/// Closes cards of earlier that these previews have an answer to.
fn close_cards(integration: &Integration<'_>, previews: &Previews) -> Result<Vec<CardId>, Error> {
    let standing: BTreeSet<&CardId> =
        previews.agents.iter().flat_map(|it| it.placed.cards()).map(|card| &card.id).collect();
    let mut closed = Vec::new();
    for card in integration.facts.state.open_cards().filter(|card| !standing.contains(&card.id)) {
        let waiting = card.agents.first();
        let previewed = previews.agents.iter().find(|it| Some(&it.agent) == waiting);
        let Some(resolution) = previewed.and_then(|it| resolution(card, it)) else { continue };
        let kind = EventKind::CardClosed(CardClosed { card: card.id.clone(), resolution, answer: None });
        integration.journal.record(waiting.map_or_else(Subject::run, Subject::agent), kind)?;
        closed.push(card.id.clone());
    }
    Ok(closed)
}

/// How a card came to be closed; none if it is not known whether it still applies.
fn resolution(card: &Card, previewed: &Previewed) -> Option<String> {
    let agent = &previewed.agent;
    match &previewed.placed {
        Placed::Merged { .. } => Some(format!("`{agent}` merges cleanly now")),
        Placed::Contained => Some(format!("the work of `{agent}` is there already")),
        Placed::Nothing => Some(format!("`{agent}` has nothing to merge any more")),
        Placed::Absent(outcome) => {
            let outcome = outcome.map_or("not finished", |outcome| outcome.name());
            Some(format!("`{agent}` does not offer the work that this was about any more: {outcome}"))
        }
        Placed::Conflict(_) | Placed::Held(_) | Placed::Error(_) => {
            let now = previewed.placed.cards().first()?;
            Some(format!("it is no longer this {} but another matter: card {}", card.kind, now.id))
        }
        // It was not held against anything this time.
        Placed::Blocked(_) | Placed::Stale(_) => None,
        Placed::SetAside(by) => Some(format!("the work of `{agent}` is left out, as was decided on card {by}")),
    }
}

/// Tells of every merge, in order.
fn tell_merges(integration: &Integration<'_>, reference: &RefName, previews: &Previews) -> Result<(), Error> {
    let facts = &integration.facts;
    let mut at = integration.onto.clone();
    let mut at_tree = facts.repository.load_commit(&at)?.tree;
    for previewed in &previews.agents {
        let Some(made) = &previewed.contribution else { continue };
        let changed = match &previewed.placed {
            Placed::Merged { changed, .. } => Some(changed),
            Placed::Contained => None,
            Placed::Absent(_)
            | Placed::Nothing
            | Placed::Conflict(_)
            | Placed::Held(_)
            | Placed::SetAside(_)
            | Placed::Blocked(_)
            | Placed::Stale(_)
            | Placed::Error(_) => continue,
        };
        let from = at.clone();
        if let Placed::Merged { commit, tree, .. } = &previewed.placed {
            (at, at_tree) = (commit.clone(), tree.clone());
        }
        // What is contained is part of the candidate as it is: a step that leads nowhere.
        let advanced = CandidateAdvanced {
            reference: reference.clone(),
            onto: integration.onto.clone(),
            from: from.clone(),
            to: at.clone(),
            tree: at_tree.clone(),
            contribution: Some(made.commit.clone()),
        };
        let subject = Subject::agent(&previewed.agent);
        integration.journal.record(subject.clone(), EventKind::CandidateAdvanced(advanced))?;
        let id = format!("{}/merge-{}", previewed.agent, at.short());
        let is_new = !facts.state.checkpoints.iter().any(|known| known.id == id);
        if let Some(changed) = changed.filter(|_| is_new) {
            let checkpoint = GitCheckpoint {
                id,
                turn: Some(made.turn),
                kind: CheckpointKind::WorktreeMerge,
                head: Some(from),
                patch_path: None,
                commit_sha: Some(at.clone()),
                changed_paths: changed.clone(),
                verifier_command: None,
                verifier_passed: None,
            };
            integration.journal.record(subject, EventKind::CheckpointCreated(Box::new(checkpoint)))?;
        }
    }
    Ok(())
}

//! Opening cards, and keeping from git's collection what a decision about one needs.

use crate::git::{Mode, NewCommit};
use crate::model::card::{Card, CardKind, CompleteCard};
use crate::model::event::{EventKind, Subject};
use crate::model::{AgentName, ObjectId, RefName};
use crate::store::Record;

use super::error::Error;
use super::facts::Facts;
use super::keep::set_ref;

/// Opens a card, unless it waits already: then it stays as it is. True: it was opened.
pub fn open_card(facts: &Facts<'_>, journal: &dyn Record, agent: &AgentName, card: &Card) -> Result<bool, Error> {
    let waits = waiting(facts, card).is_some();
    if !waits {
        tell(facts, journal, agent, card)?;
    }
    Ok(!waits)
}

/// Opens a card, or tells it anew where it waits and says something else of its matter than is so now: whoever decides is
/// to see what it will be applied to. True: it was opened.
pub(super) fn open_or_update(
    facts: &Facts<'_>,
    journal: &dyn Record,
    agent: &AgentName,
    card: &Card,
) -> Result<bool, Error> {
    let Some(known) = waiting(facts, card) else { return open_card(facts, journal, agent, card) };
    if !known.says_the_same(card) {
        tell(facts, journal, agent, card)?;
        if known.sides != card.sides {
            forget_proposal(facts, card)?;
        }
    }
    Ok(false)
}

/// The card as it waits, where it does.
fn waiting<'f>(facts: &Facts<'f>, card: &Card) -> Option<&'f Card> {
    facts.state.open_cards().find(|known| known.id == card.id)
}

fn tell(facts: &Facts<'_>, journal: &dyn Record, agent: &AgentName, card: &Card) -> Result<(), Error> {
    let complete = CompleteCard::new(card.clone())?;
    keep(facts, card)?;
    journal.record(Subject::agent(agent), EventKind::CardOpened(complete))?;
    Ok(())
}

/// Lets go of the ref that keeps what was proposed for other sides.
fn forget_proposal(facts: &Facts<'_>, card: &Card) -> Result<(), Error> {
    let Some(agent) = card.agents.first() else { return Ok(()) };
    let name = RefName::proposal(facts.run.id(), agent, &card.id);
    Ok(facts.repository.drop_ref(&name, "sandbox: proposal")?.require()?)
}

/// Keeps both sides of a conflict, and the content that git found in conflict, from git's collection. The content is kept
/// by itself, too: where two commits have several bases, git merges these first, and what comes of that is in no commit.
fn keep(facts: &Facts<'_>, card: &Card) -> Result<(), Error> {
    let (Some(sides), Some(agent), CardKind::Conflict) = (&card.sides, card.agents.first(), card.kind) else {
        return Ok(());
    };
    let name = RefName::card(facts.run.id(), agent, &card.id);
    let signature = facts.signature();
    let held: Vec<(Mode, ObjectId)> =
        card.stages.iter().filter_map(|stage| Some((Mode::parse(&stage.mode)?, stage.oid.clone()))).collect();
    let commit = facts.repository.write_commit(&NewCommit {
        tree: &facts.repository.write_holding_tree(&held)?,
        parents: &[sides.ours.clone(), sides.theirs.clone()],
        author: &signature,
        committer: &signature,
        message: &format!("What card {} is about\n", card.id),
    })?;
    set_ref(facts, &name, &commit, "sandbox: card")
}

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
    if facts.state.open_cards().any(|known| known.id == card.id) {
        return Ok(false);
    }
    let complete = CompleteCard::new(card.clone())?;
    keep(facts, card)?;
    journal.record(Subject::agent(agent), EventKind::CardOpened(complete))?;
    Ok(true)
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

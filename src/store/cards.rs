//! The cards as files, one each. Derived from the journal: for people and scripts that look without us.

use super::layout::RunDir;
use super::{Error, Warning, atomic, json, listing};
use crate::model::CardId;
use crate::model::card::Card;

/// Writes a card as it stands now.
pub fn write(run: &RunDir, card: &Card) -> Result<(), Error> {
    atomic::write_derived(&run.card(&card.id), card)
}

/// Reads a card. A damaged one is absent, with a warning.
pub fn load(run: &RunDir, id: &CardId) -> Result<(Option<Card>, Option<Warning>), Error> {
    json::load_derived(&run.card(id))
}

/// Reads all cards, ordered by id. Damaged ones are left out, with warnings.
pub fn list(run: &RunDir) -> Result<(Vec<Card>, Vec<Warning>), Error> {
    let (mut cards, mut warnings) = (Vec::new(), Vec::new());
    for entry in listing::entries(&run.cards())?.unwrap_or_default() {
        let path = entry.path();
        let Some(id) = path.file_stem().and_then(|stem| stem.to_str()?.parse::<CardId>().ok()) else { continue };
        let (card, warning) = load(run, &id)?;
        cards.extend(card);
        warnings.extend(warning);
    }
    cards.sort_by(|a, b| a.id.cmp(&b.id));
    Ok((cards, warnings))
}

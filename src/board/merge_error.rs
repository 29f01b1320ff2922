//! The card of a merge that could not be computed.

use sha2::{Digest, Sha256};

use super::identity::card_id;
use super::wording::{begin_anew, leave_out, look_at, option};
use crate::model::card::{Card, CardKind, CardState, Sides};
use crate::model::{AgentName, CommitId};

/// The card of `agent`, whose snapshot could not be merged for `cause`. It is about that snapshot: the cause's wording may
/// change without being another matter.
pub fn merge_error(agent: &AgentName, snapshot: Option<&CommitId>, sides: Option<Sides>, cause: &str) -> Card {
    let agents = vec![agent.clone()];
    let fingerprint = hex::encode(Sha256::digest(snapshot.map_or("none", CommitId::as_str)));
    let id = card_id(CardKind::MergeError, &agents, &fingerprint);
    Card {
        kind: CardKind::MergeError,
        state: CardState::NeedsHuman,
        agents,
        paths: Vec::new(),
        summary: format!("`{agent}` could not be merged: {cause}"),
        sides,
        snapshot: snapshot.cloned(),
        stages: Vec::new(),
        messages: Vec::new(),
        fingerprint,
        options: vec![
            option("once the cause is gone: merge again", "sandbox merge"),
            look_at(agent),
            begin_anew(agent),
            leave_out(&id, agent),
        ],
        id,
        request: None,
        resolution: None,
        answer: None,
        proposal: None,
        history: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_about_the_snapshot() {
        let parser = "parser".parse().unwrap();
        let snapshot: CommitId = "1".repeat(40).parse().unwrap();
        let card = merge_error(&parser, Some(&snapshot), None, "git did not end in time");
        assert_eq!(card.summary, "`parser` could not be merged: git did not end in time");
        assert_eq!(card.id, merge_error(&parser, Some(&snapshot), None, "otherwise").id);
        assert_ne!(card.id, merge_error(&parser, None, None, "git did not end in time").id);
    }
}

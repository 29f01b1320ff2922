//! What a card must have before anybody is asked about it.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::{Card, CardKind};

/// A card that a person can decide about. Only such a card can be opened: one that lacks what a decision needs would park an
/// agent's work where nobody can take it up again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CompleteCard(Box<Card>);

impl CompleteCard {
    /// The card, if nothing is missing in it.
    pub fn new(card: Card) -> Result<Self, Incomplete> {
        let missing = card.missing();
        if missing.is_empty() { Ok(Self(Box::new(card))) } else { Err(Incomplete { kind: card.kind, missing }) }
    }
}

impl Deref for CompleteCard {
    type Target = Card;

    fn deref(&self) -> &Card {
        &self.0
    }
}

/// A card that was not opened, for it lacks what a decision needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomplete {
    /// What it was to be about.
    pub kind: CardKind,
    /// What is missing, in words.
    pub missing: Vec<&'static str>,
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} card without {} is not opened", self.kind, self.missing.join(", "))
    }
}

impl std::error::Error for Incomplete {}

impl Card {
    /// What a decision about it needs and it does not have.
    pub fn missing(&self) -> Vec<&'static str> {
        let (paths, sides) = match self.kind {
            CardKind::Conflict => (true, true),
            CardKind::Scope
            | CardKind::Protected
            | CardKind::NestedRepository
            | CardKind::Submodule
            | CardKind::UnsafeTree => (true, false),
            CardKind::MergeError | CardKind::ScopeRequest | CardKind::Landing => (false, false),
        };
        // Some conflicts have no stages; then what git said is all the evidence there is.
        let evidence = self.kind != CardKind::Conflict || !self.stages.is_empty() || !self.messages.is_empty();
        let needed = [
            // The run's own waits for none of them.
            ("an agent", self.kind != CardKind::Landing && self.agents.is_empty()),
            ("a reason", self.summary.trim().is_empty()),
            ("paths", paths && self.paths.is_empty()),
            ("both sides", sides && self.sides.is_none()),
            ("evidence", !evidence),
            ("a fingerprint", self.fingerprint.is_empty()),
            ("options", self.options.is_empty()),
            ("a request", self.kind == CardKind::ScopeRequest && self.request.is_none()),
            ("a landing", self.kind == CardKind::Landing && self.landing.is_none()),
        ];
        needed.into_iter().filter(|(_, lacks)| *lacks).map(|(what, _)| what).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::card::{CardOption, CardState, ConflictMessage, CutLanding, ScopeRequest, Sides};
    use crate::model::{CommitId, RepoPath, TurnId};

    fn whole(kind: CardKind) -> Card {
        let commit: CommitId = "1".repeat(40).parse().unwrap();
        Card {
            id: "c1a2".parse().unwrap(),
            kind,
            state: CardState::NeedsHuman,
            agents: vec!["parser".parse().unwrap()],
            paths: vec![RepoPath::from("a")],
            summary: "what happened".to_owned(),
            sides: Some(Sides { ours: commit.clone(), theirs: commit, base: None }),
            stages: Vec::new(),
            messages: vec![ConflictMessage { kind: "k".to_owned(), paths: Vec::new(), text: "t".to_owned() }],
            fingerprint: "f".to_owned(),
            options: vec![CardOption { title: "t".to_owned(), command: "sandbox merge".to_owned() }],
            request: Some(ScopeRequest { owns: vec!["a".to_owned()], why: "w".to_owned(), turn: TurnId::new(1, 1) }),
            landing: Some(CutLanding {
                target: "refs/heads/main".parse().unwrap(),
                before: "1".repeat(40).parse().unwrap(),
                after: "2".repeat(40).parse().unwrap(),
                checkout: None,
                rescue: None,
            }),
            snapshot: None,
            resolution: None,
            answer: None,
            proposal: None,
            history: Vec::new(),
        }
    }

    #[test]
    fn an_incomplete_card_cannot_be_opened() {
        type Take = fn(&mut Card);
        let takes: [(&str, Take); 9] = [
            ("an agent", |card| card.agents.clear()),
            ("a reason", |card| card.summary = " ".to_owned()),
            ("paths", |card| card.paths.clear()),
            ("both sides", |card| card.sides = None),
            ("evidence", |card| card.messages.clear()),
            ("a fingerprint", |card| card.fingerprint.clear()),
            ("options", |card| card.options.clear()),
            ("a request", |card| card.request = None),
            ("a landing", |card| card.landing = None),
        ];
        for kind in CardKind::ALL {
            let mut needs = vec!["an agent", "a reason", "a fingerprint", "options"];
            match kind {
                CardKind::Conflict => needs.extend(["paths", "both sides", "evidence"]),
                CardKind::Scope
                | CardKind::Protected
                | CardKind::NestedRepository
                | CardKind::Submodule
                | CardKind::UnsafeTree => {
                    needs.push("paths");
                }
                CardKind::MergeError => {}
                CardKind::ScopeRequest => needs.push("a request"),
                CardKind::Landing => needs = vec!["a reason", "a fingerprint", "options", "a landing"],
            }
            assert!(CompleteCard::new(whole(kind)).is_ok(), "{kind}");
            for (what, take) in takes {
                let mut card = whole(kind);
                take(&mut card);
                let refused = CompleteCard::new(card).err();
                let expected = needs.contains(&what).then(|| Incomplete { kind, missing: vec![what] });
                assert_eq!(refused, expected, "{kind} without {what}");
            }
        }
        let mut nothing = whole(CardKind::Conflict);
        for (_, take) in &takes {
            take(&mut nothing);
        }
        assert_eq!(nothing.missing().len(), takes.len() - 2, "it asks for nothing, and lands nothing");
    }
}

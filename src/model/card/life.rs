//! What happened to a card, step by step, and what a command proposed for it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Answer, Card, CardState, ResolvedPath};
use crate::model::CommitId;
use crate::model::event::Event;

/// One step in the life of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CardStep {
    /// What happened.
    pub step: CardStepKind,
    /// The event that tells it.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// The person who did it, where one did: `Name <address>`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// Why, or how, in a line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

/// What can happen to a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CardStepKind {
    /// It began to wait.
    Opened,
    /// It had been closed, and the same matter came up again.
    Reopened,
    /// A command proposed a resolution.
    Proposed,
    /// The proposal was turned down.
    ProposalDiscarded,
    /// A person decided, and it was closed by that.
    Answered,
    /// It was closed without a decision: the matter is gone.
    Closed,
}

impl fmt::Display for CardStepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Opened => "opened",
            Self::Reopened => "reopened",
            Self::Proposed => "proposed",
            Self::ProposalDiscarded => "proposal discarded",
            Self::Answered => "answered",
            Self::Closed => "closed",
        })
    }
}

/// A resolution that a command made in a box, and that nobody has taken yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// The command that made it.
    pub command: Vec<String>,
    /// Who had it run, `Name <address>`.
    pub by: String,
    /// What is to stand at each conflicting path.
    pub resolved: Vec<ResolvedPath>,
    /// A commit that holds it, and both sides; a ref names it.
    pub kept_in: CommitId,
}

impl Card {
    /// The card as an event opens it: with the life it had before, if this is not the first time.
    #[must_use]
    pub fn opened_by(&self, event: &Event, before: Option<Self>) -> Self {
        let (was_open, mut history) =
            before.map_or((false, Vec::new()), |card| (card.state == CardState::NeedsHuman, card.history));
        if !was_open {
            let step = if history.is_empty() { CardStepKind::Opened } else { CardStepKind::Reopened };
            history.push(CardStep::of(event, step));
        }
        Self { history, ..self.clone() }
    }

    /// Takes in that an event closed it.
    pub fn close_by(&mut self, event: &Event, resolution: &str, answer: Option<&Answer>) {
        self.state = CardState::Closed;
        self.resolution = Some(resolution.to_owned());
        self.answer = answer.cloned();
        self.proposal = None;
        let kind = if answer.is_some() { CardStepKind::Answered } else { CardStepKind::Closed };
        self.history.push(CardStep {
            by: answer.map(|answer| answer.by.clone()),
            why: Some(resolution.to_owned()),
            ..CardStep::of(event, kind)
        });
    }

    /// Takes in that an event proposed a resolution.
    pub fn propose_by(&mut self, event: &Event, proposal: &Proposal) {
        let (by, why) = (Some(proposal.by.clone()), Some(shell_words::join(&proposal.command)));
        self.history.push(CardStep { by, why, ..CardStep::of(event, CardStepKind::Proposed) });
        self.proposal = Some(proposal.clone());
    }

    /// Takes in that an event turned its proposal down.
    pub fn discard_by(&mut self, event: &Event, by: &str, why: Option<&str>) {
        let (by, why) = (Some(by.to_owned()), why.map(str::to_owned));
        self.history.push(CardStep { by, why, ..CardStep::of(event, CardStepKind::ProposalDiscarded) });
        self.proposal = None;
    }
}

impl CardStep {
    fn of(event: &Event, step: CardStepKind) -> Self {
        Self { step, seq: event.seq, at: event.timestamp, by: None, why: None }
    }
}

//! What happened to a card, step by step, and what a command proposed for it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Answer, AnswerKind, Card, CardState, ResolvedPath};
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
    /// It waited already, and tells of its matter as it is now: the agent did more.
    Updated,
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
            Self::Updated => "updated",
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
    /// The card as an event opens it: with the life it had before, if this is not the first time. What was proposed for it
    /// stays only while it is about the same two sides.
    #[must_use]
    pub fn opened_by(&self, event: &Event, before: Option<Self>) -> Self {
        let step = |kind, why: Option<&str>| CardStep { why: why.map(str::to_owned), ..CardStep::of(event, kind) };
        let Some(Self { mut history, mut proposal, .. }) = before.clone() else {
            return Self { history: vec![step(CardStepKind::Opened, None)], ..self.clone() };
        };
        match before {
            Some(card) if card.state == CardState::Closed => {
                proposal = None;
                let was_left_out = card.answer.is_some_and(|answer| answer.kind == AnswerKind::Dismissed);
                let why = was_left_out.then_some("what was dismissed was other work of the agent's");
                history.push(step(CardStepKind::Reopened, why));
            }
            Some(card) if !card.says_the_same(self) => {
                let is_other = card.sides != self.sides;
                let what = if card.snapshot == self.snapshot { "what is so now" } else { "the agent's present work" };
                let lost = if proposal.is_some() && is_other { "; what was proposed was for earlier work" } else { "" };
                proposal = proposal.filter(|_| !is_other);
                history.push(step(CardStepKind::Updated, Some(&format!("it tells of {what}{lost}"))));
            }
            Some(_) | None => {}
        }
        Self { proposal, history, ..self.clone() }
    }

    /// Whether another telling of it says the same of its matter. That the candidate is another commit does not count: the
    /// target moves on, and what waits is left what it is, with whatever a person is doing about it.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let theirs = |card: &Self| card.sides.as_ref().map(|sides| sides.theirs.clone());
        // What can be done follows from the rest.
        self.kind == other.kind
            && self.snapshot == other.snapshot
            && self.landing == other.landing
            && theirs(self) == theirs(other)
            && (&self.agents, &self.paths, &self.summary) == (&other.agents, &other.paths, &other.summary)
            && (&self.stages, &self.messages, &self.request) == (&other.stages, &other.messages, &other.request)
    }

    /// Whether it is about this very work of the agent's. One that does not tell is about whatever work the matter comes up
    /// in: an older version wrote it.
    pub fn is_about(&self, snapshot: Option<&CommitId>) -> bool {
        self.snapshot.is_none() || self.snapshot.as_ref() == snapshot
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::card::{CardKind, CardOption, CompleteCard, Sides};
    use crate::model::event::{CardClosed, CardProposed, EventKind, Subject};
    use crate::model::run::RunState;

    fn commit(digit: char) -> CommitId {
        digit.to_string().repeat(40).parse().unwrap()
    }

    /// A card about a snapshot, with both sides; none of an older version.
    fn card(ours: char, theirs: char, snapshot: Option<char>) -> Card {
        Card {
            id: "c1".parse().unwrap(),
            kind: CardKind::MergeError,
            state: CardState::NeedsHuman,
            agents: vec!["parser".parse().unwrap()],
            paths: Vec::new(),
            summary: "what happened".to_owned(),
            sides: Some(Sides { ours: commit(ours), theirs: commit(theirs), base: None }),
            snapshot: snapshot.map(commit),
            stages: Vec::new(),
            messages: Vec::new(),
            fingerprint: "f".to_owned(),
            options: vec![CardOption { title: "t".to_owned(), command: "sandbox merge".to_owned() }],
            request: None,
            landing: None,
            resolution: None,
            answer: None,
            proposal: None,
            history: Vec::new(),
        }
    }

    fn opened(card: Card) -> EventKind {
        EventKind::CardOpened(CompleteCard::new(card).unwrap())
    }

    fn closed(kind: AnswerKind) -> EventKind {
        let answer = Answer { kind, by: "Ada".to_owned(), why: None, resolved: Vec::new(), kept_in: None };
        let resolution = format!("{kind} by Ada");
        EventKind::CardClosed(CardClosed { card: "c1".parse().unwrap(), resolution, answer: Some(answer) })
    }

    fn proposed() -> EventKind {
        let (command, by) = (vec!["merge".to_owned()], "Ada".to_owned());
        let proposal = Proposal { command, by, resolved: Vec::new(), kept_in: commit('9') };
        EventKind::CardProposed(Box::new(CardProposed { card: "c1".parse().unwrap(), proposal }))
    }

    fn state(kinds: Vec<EventKind>) -> RunState {
        let event = |(at, kind)| Event {
            v: 1,
            seq: at as u64 + 1,
            timestamp: Timestamp::UNIX_EPOCH,
            run_id: "login-1".parse().unwrap(),
            subject: Subject::run(),
            kind,
        };
        let events: Vec<Event> = kinds.into_iter().enumerate().map(event).collect();
        RunState::fold("login-1".parse().unwrap(), &events)
    }

    #[test]
    fn a_card_that_is_told_again_says_what_is_so_now() {
        let one = || card('a', 'b', Some('1'));
        let resummed = Card { summary: "otherwise".to_owned(), ..one() };
        // What is told again, whether that is a step, and whether a proposal stays.
        let table = [
            (one(), false, true),
            (resummed, true, true),
            (card('c', 'b', Some('1')), false, true),
            (card('c', 'd', Some('2')), true, false),
            (card('a', 'b', Some('2')), true, true),
        ];
        for (again, is_step, stays) in table {
            let state = state(vec![opened(one()), proposed(), opened(again.clone())]);
            let found = &state.cards[0];
            assert!(found.says_the_same(&again) && found.state == CardState::NeedsHuman, "{found:?}");
            let steps: Vec<CardStepKind> = found.history.iter().map(|step| step.step).collect();
            let expected = [CardStepKind::Opened, CardStepKind::Proposed, CardStepKind::Updated];
            assert_eq!(steps, expected[..2 + usize::from(is_step)], "{again:?}");
            assert_eq!(found.proposal.is_some(), stays, "{again:?}");
        }
    }

    /// That work is left out is said of the work that the card was about. What else is decided is said of what stands at its
    /// paths.
    #[test]
    fn a_dismissal_is_of_the_work_it_was_given_for() {
        use AnswerKind::{Approved, Dismissed, Resolved};
        // Decided about, asked about, and whether the decision is about that, too.
        let table = [
            (Some('1'), Some('1'), true),
            (Some('1'), Some('2'), false),
            (Some('1'), None, false),
            // An older version wrote it.
            (None, Some('2'), true),
            (None, None, true),
        ];
        for kind in [Approved, Resolved, Dismissed] {
            for (decided, asked, expected) in table {
                let state = state(vec![opened(card('a', 'b', decided)), closed(kind)]);
                let found = state.answer(&card('a', 'c', asked)).map(|answer| answer.kind);
                assert_eq!(found, (kind != Dismissed || expected).then_some(kind), "{kind} {decided:?} {asked:?}");
            }
        }
        let again =
            state(vec![opened(card('a', 'b', Some('1'))), closed(Dismissed), opened(card('a', 'c', Some('2')))]);
        let card = &again.cards[0];
        assert_eq!((card.answer.as_ref(), card.state), (None, CardState::NeedsHuman));
        assert!(card.history[2].why.as_ref().is_some_and(|why| why.contains("other work")), "{:?}", card.history);
    }
}

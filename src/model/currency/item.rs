//! One thing that waits to be put on one branch.

use serde::Serialize;

use super::refusal::Refusal;
use crate::model::event::{Currency, Invocation};
use crate::model::{CardId, CommitId};

/// Where an item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It was looked at, and nothing stands in its way.
    Observed,
    /// Some process has said that it puts it on the branch now.
    Claimed,
    /// That process has ended without telling what became of it.
    Reconciling,
    /// The branch was seen to hold it.
    Confirmed,
    /// It waits for a person.
    Parked,
    /// It must be looked at anew before anything is done.
    Inspecting,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Observed, Self::Claimed, Self::Reconciling, Self::Confirmed, Self::Parked, Self::Inspecting];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Observed => "observed",
            Self::Claimed => "claimed",
            Self::Reconciling => "reconciling",
            Self::Confirmed => "confirmed",
            Self::Parked => "parked",
            Self::Inspecting => "inspecting",
        }
    }

    /// What it means, in a line.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Observed => "it was looked at, and nothing stands in its way",
            Self::Claimed => "a process has written down that it moves the branch now",
            Self::Reconciling => "that process ended without telling what became of it",
            Self::Confirmed => "the branch was seen to hold it",
            Self::Parked => "it waits for a person's decision",
            Self::Inspecting => "it must be looked at anew before anything is done",
        }
    }

    /// Whether a mutation is under way, or may be.
    pub fn is_open(self) -> bool {
        match self {
            Self::Claimed | Self::Reconciling => true,
            Self::Observed | Self::Confirmed | Self::Parked | Self::Inspecting => false,
        }
    }
}

/// What was seen when an item was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sight {
    /// The same for the same: a hash over repository, branch, its tip, head, status and route.
    pub key: String,
    /// What is to be put on the branch.
    pub head: Option<CommitId>,
    /// How that stands to the branch's tip.
    pub status: Currency,
    /// Whose work it builds on.
    pub route: String,
}

/// How far the one mutation is that an observation allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mutation {
    /// Not begun, or begun and proven to have had no effect.
    None,
    /// Begun.
    Begun,
    /// Seen to have happened.
    Done,
}

/// One thing that waits to be put on one branch, and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// Where it stands.
    pub state: State,
    /// What was last seen of it.
    pub sight: Sight,
    /// The cards it is parked for, as they were when it was last parked. A card's id is a hash of its matter, of which the
    /// target's tip is no part.
    pub parked_for: Vec<CardId>,
    /// How far the one mutation is that this sight allows.
    pub mutation: Mutation,
    /// How many mutations of this sight failed and were proven to have had no effect.
    pub without_effect: u32,
    /// Who claimed it.
    pub claimed_by: Option<Invocation>,
}

impl Item {
    /// What is seen for the first time. It is looked at before anything else.
    pub fn new(sight: Sight) -> Self {
        Self {
            state: State::Inspecting,
            sight,
            parked_for: Vec::new(),
            mutation: Mutation::None,
            without_effect: 0,
            claimed_by: None,
        }
    }

    /// Whether nothing more is begun by itself for what was last seen.
    pub fn is_spent(&self) -> bool {
        self.mutation != Mutation::None || self.without_effect >= super::TRIES
    }

    /// Why the run would not begin it by itself now, though no card holds it and nothing of it is under way.
    pub fn refusal(&self) -> Option<Refusal> {
        match self.state {
            State::Observed if self.is_spent() => Some(Refusal::Spent),
            State::Inspecting => Some(Refusal::InspectionPending),
            State::Observed | State::Claimed | State::Reconciling | State::Confirmed | State::Parked => None,
        }
    }

    /// Which attempt a claim would be, from 1.
    pub fn next_attempt(&self) -> u32 {
        self.without_effect.saturating_add(1)
    }

    /// The same item after it was seen like this. What was done about another sight says nothing about this one.
    pub(super) fn seen(&self, sight: &Sight) -> Self {
        if self.sight.key == sight.key {
            return self.clone();
        }
        Self { sight: sight.clone(), mutation: Mutation::None, without_effect: 0, ..self.clone() }
    }
}

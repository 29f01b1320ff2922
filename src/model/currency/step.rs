//! What may follow on what: one pure function over every state and every input.

use serde::{Deserialize, Serialize};

use super::item::{Item, Mutation, Sight, State};
use super::refusal::Refusal;
use crate::model::CardId;
use crate::model::event::Invocation;

/// Who asks for a mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Asker {
    /// The run, of its own accord.
    #[default]
    Run,
    /// A person, by a command that asks for exactly this.
    User,
}

/// That a mutation begins now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim<'a> {
    /// What was seen, and is acted on.
    pub key: &'a str,
    /// Who acts.
    pub invocation: &'a Invocation,
    /// Who asked for it.
    pub asked: Asker,
}

/// How a mutation came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Release {
    /// Branch, index and files are as they were: nothing has happened.
    Untouched,
    /// Something had begun, and was taken back.
    Undone,
    /// The branch was moved by something else.
    Moved,
}

/// What happens to an item.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// Something moved, or is made anew: what is known of it holds no longer.
    Inspect,
    /// It was looked at, and nothing stands in its way.
    Mergeable(&'a Sight),
    /// It was looked at, and these cards hold it.
    Held(&'a Sight, &'a [CardId]),
    /// It was looked at, and it cannot be told what would come of it, or not yet.
    Unclear(&'a Sight),
    /// A person decided about it.
    Decided,
    /// A mutation begins.
    Claim(Claim<'a>),
    /// This process saw that it happened.
    Confirm(&'a Invocation),
    /// This process saw that it did not happen.
    Release(&'a Invocation, Release),
    /// The branch holds it already, whoever saw to that.
    Found,
    /// The process that claimed it has ended.
    Abandon,
}

/// What becomes of an item, or why it may not be.
pub fn step(item: &Item, input: &Input<'_>) -> Result<Item, Refusal> {
    match input {
        Input::Inspect => inspect(item),
        Input::Mergeable(sight) => {
            let seen = look(item, sight)?;
            // What was confirmed under this very key is not done again.
            let state = if seen.mutation == Mutation::Done { State::Confirmed } else { State::Observed };
            Ok(Item { state, parked_for: Vec::new(), ..seen })
        }
        Input::Held(sight, cards) => {
            let seen = look(item, sight)?;
            if cards.is_empty() {
                return Err(Refusal::IncompleteCard);
            }
            Ok(Item { state: State::Parked, parked_for: cards.to_vec(), ..seen })
        }
        Input::Unclear(sight) => Ok(Item { state: State::Inspecting, ..look(item, sight)? }),
        Input::Decided => decided(item),
        Input::Claim(claim) => claimed(item, claim),
        Input::Confirm(invocation) => {
            require_claimer(item, invocation)?;
            Ok(Item { state: State::Confirmed, mutation: Mutation::Done, claimed_by: None, ..item.clone() })
        }
        Input::Release(invocation, how) => {
            require_claimer(item, invocation)?;
            Ok(released(item, *how))
        }
        Input::Found => {
            require_settled(item)?;
            match item.state {
                State::Parked => Err(Refusal::Parked),
                State::Observed | State::Confirmed | State::Inspecting | State::Claimed | State::Reconciling => {
                    Ok(Item { state: State::Confirmed, mutation: Mutation::Done, ..item.clone() })
                }
            }
        }
        Input::Abandon => match item.state {
            State::Claimed | State::Reconciling => Ok(Item { state: State::Reconciling, ..item.clone() }),
            State::Observed | State::Confirmed | State::Parked | State::Inspecting => Err(Refusal::NothingClaimed),
        },
    }
}

fn inspect(item: &Item) -> Result<Item, Refusal> {
    require_settled(item)?;
    Ok(Item { state: State::Inspecting, ..item.clone() })
}

/// An item as it is after a look. One that is parked is not looked at in passing: that begins with an inspection.
fn look(item: &Item, sight: &Sight) -> Result<Item, Refusal> {
    require_settled(item)?;
    match item.state {
        State::Parked => Err(Refusal::Parked),
        State::Observed | State::Confirmed | State::Inspecting | State::Claimed | State::Reconciling => {
            Ok(item.seen(sight))
        }
    }
}

fn decided(item: &Item) -> Result<Item, Refusal> {
    require_settled(item)?;
    let state = match item.state {
        State::Parked | State::Inspecting => State::Inspecting,
        State::Observed | State::Claimed | State::Reconciling | State::Confirmed => item.state,
    };
    Ok(Item { state, ..item.clone() })
}

fn claimed(item: &Item, claim: &Claim<'_>) -> Result<Item, Refusal> {
    match item.state {
        State::Claimed | State::Reconciling => return Err(Refusal::ClaimOpen),
        State::Parked => return Err(Refusal::Parked),
        State::Inspecting => return Err(Refusal::InspectionPending),
        State::Observed | State::Confirmed => {}
    }
    if item.sight.key != claim.key {
        return Err(Refusal::OtherKey);
    }
    let without_effect = match claim.asked {
        Asker::Run if item.is_spent() => return Err(Refusal::Spent),
        Asker::Run => item.without_effect,
        // Their word begins the counting anew.
        Asker::User => 0,
    };
    let claimed_by = Some(claim.invocation.clone());
    Ok(Item { state: State::Claimed, mutation: Mutation::Begun, without_effect, claimed_by, ..item.clone() })
}

fn released(item: &Item, how: Release) -> Item {
    let interrupted = item.state == State::Reconciling;
    let (state, counts) = match how {
        // That its process died before it came to it is no fault of the attempt's.
        Release::Untouched => (State::Observed, !interrupted),
        Release::Undone => (State::Observed, true),
        Release::Moved => (State::Inspecting, false),
    };
    let without_effect = item.without_effect.saturating_add(u32::from(counts));
    Item { state, mutation: Mutation::None, without_effect, claimed_by: None, ..item.clone() }
}

/// Refuses while a mutation is under way, or may be.
fn require_settled(item: &Item) -> Result<(), Refusal> {
    if item.state.is_open() { Err(Refusal::ClaimOpen) } else { Ok(()) }
}

/// Refuses to settle a claim that is another living process's, or that there is not.
fn require_claimer(item: &Item, invocation: &Invocation) -> Result<(), Refusal> {
    match item.state {
        State::Claimed if item.claimed_by.as_ref() == Some(invocation) => Ok(()),
        State::Claimed => Err(Refusal::Foreign),
        // Whoever holds the run now.
        State::Reconciling => Ok(()),
        State::Observed | State::Confirmed | State::Parked | State::Inspecting => Err(Refusal::NothingClaimed),
    }
}

//! Every state and every input, as a table for the documentation: made by asking [`step`].

use super::item::{Item, Mutation, Sight, State};
use super::step::{Asker, Claim, Input, Release, step};
use crate::model::CardId;
use crate::model::event::{Currency, Invocation};

/// The states and what they mean, then what each input makes of each state.
pub fn table() -> String {
    let states: Vec<String> =
        State::ALL.iter().map(|state| format!("| `{}` | {} |", state.name(), state.meaning())).collect();
    let names: Vec<&str> = State::ALL.iter().map(|state| state.name()).collect();
    let inputs: Vec<String> =
        rows().into_iter().map(|(name, answers)| format!("| {name} | {} |", answers.join(" | "))).collect();
    format!(
        "| state | meaning |\n|---|---|\n{}\n\n| what happens | {} |\n|---|---|---|---|---|---|---|\n{}\n",
        states.join("\n"),
        names.join(" | "),
        inputs.join("\n"),
    )
}

/// One row for each input, with what becomes of an item in each state: the state it comes to, or the refusal's name.
pub(super) fn rows() -> Vec<(&'static str, [String; 6])> {
    let me = Invocation { pid: 1, start_ticks: 1, boot_id: String::new() };
    let other = Invocation { pid: 2, ..me.clone() };
    let sight = Sight { key: "k".to_owned(), head: None, status: Currency::Behind, route: String::new() };
    let moved = Sight { key: "l".to_owned(), ..sight.clone() };
    let cards: Vec<CardId> = "c000000000001".parse().into_iter().collect();
    let claim = |asked| Claim { key: "k", invocation: &me, asked };
    let inputs: Vec<(&'static str, Input<'_>)> = vec![
        ("the target or the work moved, or the candidate is made anew", Input::Inspect),
        ("looked at: mergeable, as before", Input::Mergeable(&sight)),
        ("looked at: mergeable, and something moved", Input::Mergeable(&moved)),
        ("looked at: held by cards", Input::Held(&sight, &cards)),
        ("looked at: held, and no card says why", Input::Held(&sight, &[])),
        ("looked at: cannot be told, or waits for another agent", Input::Unclear(&sight)),
        ("a person decided on a card", Input::Decided),
        ("claimed by the run itself", Input::Claim(claim(Asker::Run))),
        ("claimed because a person asks for it", Input::Claim(claim(Asker::User))),
        ("claimed for something that was not looked at", Input::Claim(Claim { key: "l", ..claim(Asker::Run) })),
        ("confirmed by who claimed it, or who took over", Input::Confirm(&me)),
        ("confirmed by another process", Input::Confirm(&other)),
        ("released: nothing has happened", Input::Release(&me, Release::Untouched)),
        ("released: half of it was taken back", Input::Release(&me, Release::Undone)),
        ("released: the branch was moved by something else", Input::Release(&me, Release::Moved)),
        ("released by another process", Input::Release(&other, Release::Untouched)),
        ("the branch holds it already", Input::Found),
        ("the process that claimed it has ended", Input::Abandon),
    ];
    let answer = |state, input: &Input<'_>| match step(&standing(state, &sight, &me, &cards), input) {
        Ok(item) => item.state.name().to_owned(),
        Err(refusal) => format!("**{}**", refusal.name()),
    };
    inputs.iter().map(|(name, input)| (*name, State::ALL.map(|state| answer(state, input)))).collect()
}

/// An item as it comes to be in this state, for the first time.
pub(super) fn standing(state: State, sight: &Sight, by: &Invocation, cards: &[CardId]) -> Item {
    let (mutation, claimed_by) = match state {
        State::Observed | State::Parked | State::Inspecting => (Mutation::None, None),
        State::Claimed | State::Reconciling => (Mutation::Begun, Some(by.clone())),
        State::Confirmed => (Mutation::Done, None),
    };
    let parked_for = if state == State::Parked { cards.to_vec() } else { Vec::new() };
    Item { state, parked_for, mutation, claimed_by, ..Item::new(sight.clone()) }
}

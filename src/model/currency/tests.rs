//! Every state with every input, and what goes over several of them.

use super::table::{rows, standing};
use super::*;
use crate::model::CardId;
use crate::model::event::{Currency, Invocation};

fn process(pid: u32) -> Invocation {
    Invocation { pid, start_ticks: 7, boot_id: "b".to_owned() }
}

fn sight(key: &str) -> Sight {
    Sight { key: key.to_owned(), head: None, status: Currency::Behind, route: "independent".to_owned() }
}

fn card(digit: char) -> CardId {
    format!("c{}", digit.to_string().repeat(12)).parse().unwrap()
}

fn claim(asked: Asker) -> (Invocation, Asker) {
    (process(1), asked)
}

fn try_claim(item: &Item, key: &str, (invocation, asked): &(Invocation, Asker)) -> Result<Item, Refusal> {
    step(item, &Input::Claim(Claim { key, invocation, asked: *asked }))
}

/// Goes through inputs that are all allowed.
fn after(item: &Item, inputs: &[Input<'_>]) -> Item {
    inputs.iter().fold(item.clone(), |item, input| step(&item, input).unwrap_or_else(|why| panic!("{input:?}: {why}")))
}

/// The whole machine. Observed, Claimed, Reconciling, Confirmed, Parked, Inspecting.
#[test]
fn every_state_and_every_input() {
    let wanted: [(&str, [&str; 6]); 18] = [
        (
            "the target or the work moved, or the candidate is made anew",
            ["inspecting", "!ClaimOpen", "!ClaimOpen", "inspecting", "inspecting", "inspecting"],
        ),
        (
            "looked at: mergeable, as before",
            ["observed", "!ClaimOpen", "!ClaimOpen", "confirmed", "!Parked", "observed"],
        ),
        (
            "looked at: mergeable, and something moved",
            ["observed", "!ClaimOpen", "!ClaimOpen", "observed", "!Parked", "observed"],
        ),
        ("looked at: held by cards", ["parked", "!ClaimOpen", "!ClaimOpen", "parked", "!Parked", "parked"]),
        (
            "looked at: held, and no card says why",
            ["!IncompleteCard", "!ClaimOpen", "!ClaimOpen", "!IncompleteCard", "!Parked", "!IncompleteCard"],
        ),
        (
            "looked at: cannot be told, or waits for another agent",
            ["inspecting", "!ClaimOpen", "!ClaimOpen", "inspecting", "!Parked", "inspecting"],
        ),
        (
            "a person decided on a card",
            ["observed", "!ClaimOpen", "!ClaimOpen", "confirmed", "inspecting", "inspecting"],
        ),
        (
            "claimed by the run itself",
            ["claimed", "!ClaimOpen", "!ClaimOpen", "!Spent", "!Parked", "!InspectionPending"],
        ),
        (
            "claimed because a person asks for it",
            ["claimed", "!ClaimOpen", "!ClaimOpen", "claimed", "!Parked", "!InspectionPending"],
        ),
        (
            "claimed for something that was not looked at",
            ["!OtherKey", "!ClaimOpen", "!ClaimOpen", "!OtherKey", "!Parked", "!InspectionPending"],
        ),
        (
            "confirmed by who claimed it, or who took over",
            ["!NothingClaimed", "confirmed", "confirmed", "!NothingClaimed", "!NothingClaimed", "!NothingClaimed"],
        ),
        (
            "confirmed by another process",
            ["!NothingClaimed", "!Foreign", "confirmed", "!NothingClaimed", "!NothingClaimed", "!NothingClaimed"],
        ),
        (
            "released: nothing has happened",
            ["!NothingClaimed", "observed", "observed", "!NothingClaimed", "!NothingClaimed", "!NothingClaimed"],
        ),
        (
            "released: half of it was taken back",
            ["!NothingClaimed", "observed", "observed", "!NothingClaimed", "!NothingClaimed", "!NothingClaimed"],
        ),
        (
            "released: the branch was moved by something else",
            ["!NothingClaimed", "inspecting", "inspecting", "!NothingClaimed", "!NothingClaimed", "!NothingClaimed"],
        ),
        (
            "released by another process",
            ["!NothingClaimed", "!Foreign", "observed", "!NothingClaimed", "!NothingClaimed", "!NothingClaimed"],
        ),
        ("the branch holds it already", ["confirmed", "!ClaimOpen", "!ClaimOpen", "confirmed", "!Parked", "confirmed"]),
        (
            "the process that claimed it has ended",
            ["!NothingClaimed", "reconciling", "reconciling", "!NothingClaimed", "!NothingClaimed", "!NothingClaimed"],
        ),
    ];
    let found = rows();
    assert_eq!(found.len(), wanted.len());
    for ((name, answers), (wanted_name, wanted)) in found.into_iter().zip(wanted) {
        assert_eq!(name, wanted_name);
        let wanted = wanted.map(|text| match text.strip_prefix('!') {
            Some(refusal) => format!("**{refusal}**"),
            None => text.to_owned(),
        });
        assert_eq!(answers, wanted, "{name}");
    }
}

/// Whatever comes after a claim, no second one is made by itself for the same sight, unless the first is proven to have had
/// no effect; and then one more.
#[test]
fn at_most_one_mutation_for_each_sight_and_one_more_try() {
    let (here, there) = (sight("k"), sight("l"));
    let me = process(1);
    let observed = after(&Item::new(here.clone()), &[Input::Mergeable(&here)]);
    assert!(!observed.is_spent());
    let by_run = claim(Asker::Run);
    let claimed = try_claim(&observed, "k", &by_run).unwrap();
    assert!(claimed.is_spent(), "from the moment it is begun");
    let again = [Input::Inspect, Input::Mergeable(&here)];

    let confirmed = after(&claimed, &[Input::Confirm(&me)]);
    assert_eq!(
        try_claim(&after(&confirmed, &again), "k", &by_run),
        Err(Refusal::Spent),
        "seen again, it is not done again"
    );
    let elsewhere = after(&confirmed, &[Input::Inspect, Input::Mergeable(&there)]);
    assert!(try_claim(&elsewhere, "l", &by_run).is_ok(), "what has moved is something else");

    for how in [Release::Untouched, Release::Undone] {
        let once = after(&claimed, &[Input::Release(&me, how)]);
        let second = try_claim(&after(&once, &again), "k", &by_run).unwrap();
        let twice = after(&second, &[Input::Release(&me, how)]);
        assert_eq!(try_claim(&twice, "k", &by_run), Err(Refusal::Spent), "{how:?}");
        assert_eq!(try_claim(&after(&twice, &again), "k", &by_run), Err(Refusal::Spent), "{how:?}, looked at again");
        assert!(try_claim(&twice, "k", &claim(Asker::User)).is_ok(), "{how:?}, and a person asks");
    }
}

#[test]
fn a_death_before_the_deed_costs_no_try_and_one_after_half_of_it_does() {
    let here = sight("k");
    let (dead, next) = (process(1), process(2));
    let mut item = after(&Item::new(here.clone()), &[Input::Mergeable(&here)]);
    for _ in 0..5 {
        let claimed = try_claim(&item, "k", &(dead.clone(), Asker::Run)).unwrap();
        item = after(&claimed, &[Input::Abandon, Input::Release(&next, Release::Untouched)]);
        assert_eq!((item.without_effect, item.state), (0, State::Observed));
    }
    for tries in 1..=TRIES {
        let claimed = try_claim(&item, "k", &(dead.clone(), Asker::Run)).unwrap();
        item = after(&claimed, &[Input::Abandon, Input::Release(&next, Release::Undone)]);
        assert_eq!(item.without_effect, tries);
    }
    assert_eq!(try_claim(&item, "k", &(next, Asker::Run)), Err(Refusal::Spent));
}

/// That the first process lives and only seems dead does not let it write once it was taken over.
#[test]
fn who_was_taken_over_has_no_say_any_more() {
    let here = sight("k");
    let (stale, next) = (process(1), process(2));
    let observed = after(&Item::new(here.clone()), &[Input::Mergeable(&here)]);
    let claimed = try_claim(&observed, "k", &(stale.clone(), Asker::Run)).unwrap();
    assert_eq!(step(&claimed, &Input::Confirm(&next)), Err(Refusal::Foreign), "not taken over yet");
    let settled = after(&claimed, &[Input::Abandon, Input::Release(&next, Release::Untouched)]);
    let claimed = try_claim(&settled, "k", &(next.clone(), Asker::Run)).unwrap();
    for late in [Input::Confirm(&stale), Input::Release(&stale, Release::Untouched)] {
        assert_eq!(step(&claimed, &late), Err(Refusal::Foreign), "{late:?}");
    }
    let done = after(&claimed, &[Input::Confirm(&next)]);
    for late in [Input::Release(&next, Release::Untouched), Input::Release(&stale, Release::Untouched)] {
        assert_eq!(step(&done, &late), Err(Refusal::NothingClaimed), "what was seen to happen did happen: {late:?}");
    }
}

#[test]
fn what_is_parked_stays_so_until_its_own_matter_changes() {
    let (here, moved) = (sight("k"), sight("l"));
    let dirty = |key: &str| Sight { status: Currency::Dirty, ..sight(key) };
    let (one, other) = ([card('1')], [card('2')]);
    let parked = after(&Item::new(here.clone()), &[Input::Held(&dirty("k"), &one)]);
    // The target moved elsewhere.
    let looked = after(&parked, &[Input::Inspect]);
    assert_eq!(try_claim(&looked, "k", &claim(Asker::User)), Err(Refusal::InspectionPending));
    let still = after(&looked, &[Input::Held(&dirty("l"), &one)]);
    assert_eq!((still.state, &still.parked_for), (State::Parked, &parked.parked_for));
    // It moved where it conflicts, or does not any more.
    let anew = after(&still, &[Input::Inspect, Input::Held(&dirty("m"), &other)]);
    assert_ne!(anew.parked_for, parked.parked_for);
    let free = after(&still, &[Input::Inspect, Input::Mergeable(&moved)]);
    assert_eq!((free.state, free.parked_for.len()), (State::Observed, 0));
    // That it could not be told is no reason to forget what it waits for.
    let unclear = after(&still, &[Input::Inspect, Input::Unclear(&moved)]);
    assert_eq!(unclear.parked_for, still.parked_for);
    // A person's word is one to look again, and no more.
    let decided = after(&still, &[Input::Decided]);
    assert_eq!(decided.state, State::Inspecting);
    assert_eq!(try_claim(&decided, "l", &claim(Asker::User)), Err(Refusal::InspectionPending));
}

#[test]
fn each_operation_has_its_own_authority_and_what_is_not_known_is_no_permission() {
    let (yes, no, unknown) = (Some(true), Some(false), None);
    let table = [
        (vec![yes, yes], Authority::Granted),
        (vec![yes, no], Authority::Denied),
        (vec![yes, unknown], Authority::Unknown),
        (vec![no, unknown], Authority::Denied),
        (vec![unknown, unknown], Authority::Unknown),
        (vec![no], Authority::Denied),
        (vec![], Authority::Granted),
    ];
    for (conditions, wanted) in table {
        assert_eq!(Authority::of(&conditions), wanted, "{conditions:?}");
    }
    let me = process(1);
    let here = sight("k");
    for state in State::ALL {
        let item = standing(state, &here, &me, &[card('1')]);
        for (authority, ending, wanted) in [
            (Authority::Denied, false, Some(Refusal::Denied)),
            (Authority::Denied, true, Some(Refusal::Denied)),
            (Authority::Unknown, false, Some(Refusal::AuthorityUnknown)),
            (Authority::Unknown, true, Some(Refusal::AuthorityUnknown)),
            (Authority::Granted, true, Some(Refusal::Ending)),
            (Authority::Granted, false, None),
        ] {
            let claim = Claim { key: "k", invocation: &me, asked: Asker::Run };
            let permitted = permit(&item, &Begin { authority, ending, claim });
            match wanted {
                Some(refusal) => assert_eq!(permitted, Err(refusal), "{state:?} {authority:?} {ending}"),
                None => assert_eq!(permitted, step(&item, &Input::Claim(claim)), "{state:?}"),
            }
        }
    }
}

//! Fork points, and work that is stale.

use super::world::{World, failed, name, put, task};
use crate::integrate::{Fork, Placed, fork_point};
use crate::model::AttemptOutcome;
use crate::model::card::CardKind;

fn chain() -> World {
    World::new(vec![
        task("last", &["last/**"], &["left", "right"]),
        task("left", &["a.txt"], &["root"]),
        task("root", &["b.txt"], &[]),
        task("right", &["c.txt"], &[]),
        task("aside", &["aside"], &[]),
    ])
}

fn fork(world: &World, agent: &str) -> Fork {
    let state = world.state();
    fork_point(&world.facts(&state), &name(agent)).unwrap()
}

#[test]
fn a_fork_point_is_exactly_the_prerequisites_on_the_base() {
    let world = chain();
    assert_eq!(world.fork("root"), world.base);
    assert_eq!(fork(&world, "left"), Fork::Blocked(vec![name("root")]));
    world.works("root", &world.base, &[put("b.txt", "root\n")]);
    world.works("aside", &world.base, &[put("aside", "x\n")]);
    let left = world.fork("left");
    assert_eq!(world.content(&left, "b.txt"), "root");
    assert!(!world.paths(&left).contains(&"aside".to_owned()));
    assert_eq!(left, world.fork("left"), "made again, it is the same commit");
    world.works("left", &left, &[put("a.txt", "left\n")]);
    world.works("right", &world.base, &[]);
    let last = world.fork("last");
    assert_eq!((world.content(&last, "a.txt"), world.content(&last, "b.txt")), ("left".into(), "root".into()));

    // What was merged for it is merged no second time.
    world.works("last", &last, &[put("last/x", "x\n")]);
    let made = world.integrate();
    assert_eq!(world.state().open_cards().count(), 0);
    assert_eq!(world.state().candidate.unwrap().merged, ["root", "left", "last", "aside"].map(name));
    assert_eq!(world.content(&made.candidate, "last/x"), "x");
    assert_eq!(world.repository.merge_bases(&made.candidate, &last).unwrap(), std::slice::from_ref(&last));

    // Also when the target has moved on.
    world.user_commits("src/lib.rs", "user\n");
    let made = world.integrate();
    assert_eq!(world.state().candidate.unwrap().merged.len(), 4);
    assert_eq!(world.content(&made.candidate, "src/lib.rs"), "user");
}

#[test]
fn prerequisites_that_conflict_give_the_card_that_merging_gives() {
    let world = World::new(vec![
        task("one", &["a.txt"], &[]),
        task("two", &["a.txt"], &[]),
        task("last", &["c.txt"], &["one", "two"]),
    ]);
    world.works("one", &world.base, &[put("a.txt", "one\n")]);
    world.works("two", &world.base, &[put("a.txt", "two\n")]);
    let Fork::Conflict(card) = fork(&world, "last") else { panic!("a conflict") };
    assert_eq!((card.kind, card.agents.clone()), (CardKind::Conflict, vec![name("two"), name("one")]));
    assert_eq!(world.integrate().opened, [card.id]);
}

#[test]
fn a_prerequisite_outside_its_contract_lets_nobody_start() {
    let world = chain();
    world.works("root", &world.base, &[put("c.txt", "not mine\n")]);
    assert_eq!(fork(&world, "left"), Fork::Blocked(vec![name("root")]));
}

#[test]
fn two_prerequisites_with_the_same_change() {
    let world = World::new(vec![
        task("one", &["a.txt"], &[]),
        task("two", &["a.txt"], &[]),
        task("last", &["c.txt"], &["one", "two"]),
    ]);
    world.works("one", &world.base, &[put("a.txt", "same\n")]);
    world.works("two", &world.base, &[put("a.txt", "same\n")]);
    let last = world.fork("last");
    world.works("last", &last, &[put("c.txt", "x\n")]);
    let made = world.integrate();
    assert_eq!(made.agent(&name("two")), Some(&Placed::Contained));
    assert!(matches!(made.agent(&name("last")), Some(Placed::Merged { .. })), "{:?}", made.agent(&name("last")));
}

#[test]
fn a_newer_snapshot_of_a_prerequisite_makes_what_builds_on_it_stale() {
    let world = chain();
    let root = world.works("root", &world.base, &[put("b.txt", "root\n")]);
    let left = world.fork("left");
    world.works("left", &left, &[put("a.txt", "left\n")]);
    world.works("right", &world.base, &[put("c.txt", "right\n")]);
    let last = world.fork("last");
    world.works("last", &last, &[put("last/x", "x\n")]);
    let newer = world.commit(&root, std::slice::from_ref(&root), &[put("b.txt", "newer\n")]);
    world.tell(&world.attempt("root", 2, &world.base, &root, &newer));
    let made = world.integrate();
    assert_eq!(made.agent(&name("left")), Some(&Placed::Stale(vec![name("root")])));
    assert_eq!(made.agent(&name("last")), Some(&Placed::Blocked(vec![name("left")])));
    assert_eq!(world.content(&made.candidate, "b.txt"), "newer");
    assert_eq!(fork(&world, "last"), Fork::Blocked(vec![name("left")]));
    // A retry from the new fork point is merged.
    let fork = world.fork("left");
    let again = world.commit(&fork, std::slice::from_ref(&fork), &[put("a.txt", "left again\n")]);
    world.tell(&world.attempt("left", 2, &fork, &fork, &again));
    let made = world.integrate();
    assert_eq!(world.content(&made.candidate, "a.txt"), "left again");
    // A prerequisite that now changes nothing is a change, too.
    let none = world.commit(&newer, std::slice::from_ref(&newer), &[put("b.txt", "b\n")]);
    world.tell(&world.attempt("root", 3, &world.base, &newer, &none));
    let made = world.integrate();
    assert_eq!(made.agent(&name("root")), Some(&Placed::Nothing));
    assert_eq!(made.agent(&name("left")), Some(&Placed::Stale(vec![name("root")])));
}

#[test]
fn begun_anew_on_a_candidate_it_brings_along_only_what_is_accepted() {
    let world = World::new(vec![task("one", &["a.txt"], &[]), task("two", &["b.txt"], &[])]);
    world.works("one", &world.base, &[put("a.txt", "one\n")]);
    let two = world.works("two", &world.base, &[put("b.txt", "two\n")]);
    let candidate = world.integrate().candidate;
    // `one` begins anew on the candidate, which holds `two` and its own earlier work.
    let again = world.commit(&candidate, std::slice::from_ref(&candidate), &[put("a.txt", "one again\n")]);
    world.tell(&world.attempt("one", 2, &candidate, &candidate, &again));
    let made = world.integrate();
    assert_eq!(world.content(&made.candidate, "a.txt"), "one again");
    assert_eq!(world.state().candidate.unwrap().merged, [name("two"), name("one")], "after what it is made of");
    // `two` fails when tried again: what `one` holds of it must not come along.
    world.tell(&failed("two", 2, AttemptOutcome::Failed));
    let made = world.integrate();
    assert_eq!(made.agent(&name("one")), Some(&Placed::Blocked(vec![name("two")])));
    assert_eq!(made.candidate, world.base);
    // Or has another snapshot.
    let other = world.commit(&two, std::slice::from_ref(&two), &[put("b.txt", "two, better\n")]);
    world.tell(&world.attempt("two", 3, &world.base, &two, &other));
    let made = world.integrate();
    assert_eq!(made.agent(&name("one")), Some(&Placed::Stale(vec![name("two")])));
    assert_eq!(world.content(&made.candidate, "a.txt"), "1\n2\n3\n4\n5");
}

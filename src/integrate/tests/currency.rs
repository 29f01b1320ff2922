#![expect(clippy::disallowed_methods, reason = "tests write files as users do")]
//! What is begun by itself, how often, and by whose leave.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::world::{Leave, World, failed, main_branch, name, put, task};
use crate::integrate::{Error, Integrated, Landed, Placed, see_target};
use crate::model::currency::{Asker, Authority, Refusal, Release, State};
use crate::model::event::{Effect, EffectKind, EventKind, Movement};
use crate::model::{AttemptOutcome, ObjectId, RefName};
use crate::store::Record;

/// One agent that changes a file and makes another, in the order in which git writes them.
fn world() -> World {
    let world = World::new(vec![task("one", &["**"], &[])]);
    world.works("one", &world.base, &[put("a.txt", "new\n"), put("new/file", "n\n")]);
    world
}

/// The effects of a kind, as they were told.
fn effects(world: &World, kind: EffectKind) -> Vec<(String, Effect)> {
    let events = world.journal.borrow().events();
    let told = events.into_iter().filter_map(|event| {
        let name = event.kind.name().trim_start_matches("effect.").to_owned();
        match event.kind {
            EventKind::EffectClaimed(effect)
            | EventKind::EffectConfirmed(effect)
            | EventKind::EffectReleased(effect) => Some((name, effect)),
            _ => None,
        }
    });
    told.filter(|(_, effect)| effect.effect == kind).collect()
}

fn words(world: &World, kind: EffectKind) -> Vec<String> {
    effects(world, kind).into_iter().map(|(word, _)| word).collect()
}

fn state_of(world: &World) -> Option<State> {
    world.state().agent(&name("one")).unwrap().merging.as_ref().map(|item| item.state)
}

fn branch_of(world: &World) -> Option<ObjectId> {
    world.repository.load_ref(&RefName::integration(world.run.id())).unwrap()
}

/// What was merged before stays on the branch, be it that something else is to come there or nothing at all.
#[test]
fn what_is_refused_leaves_the_branch_where_it_was() {
    let yes = || true;
    let table = [
        (Leave { authority: Authority::Denied, ..Leave::default() }, Refusal::Denied),
        (Leave { authority: Authority::Unknown, ..Leave::default() }, Refusal::AuthorityUnknown),
        (Leave { ending: &yes, ..Leave::default() }, Refusal::Ending),
    ];
    for (leave, refusal) in table {
        let world = world();
        let made = world.integrate();
        let on = world.user_commits("c.txt", "theirs\n");
        let refused = world.integrate_with(&leave).unwrap();
        assert_eq!((refused.held_back, refused.candidate), (Some(refusal), on.clone()));
        assert_eq!(branch_of(&world).as_ref(), Some(made.candidate.object()), "{refusal}");
        // There is nothing to merge any more.
        world.tell(&failed("one", 2, AttemptOutcome::Failed));
        assert_eq!(world.integrate_with(&leave).unwrap().held_back, Some(refusal));
        assert_eq!(branch_of(&world).as_ref(), Some(made.candidate.object()), "{refusal}");
        assert_eq!(words(&world, EffectKind::Merge), ["claimed", "confirmed"], "{refusal}");
        let allowed = world.integrate();
        assert_eq!((allowed.held_back, branch_of(&world).as_ref()), (None, Some(on.object())));
        let claim = effects(&world, EffectKind::Merge).pop().unwrap().1;
        assert_eq!(
            (claim.before, claim.after, claim.works.len()),
            (made.candidate, on, 0),
            "taking out is claimed, too"
        );
    }
}

/// Two whose merge failed as often as it may, a third that builds on one of them, and a fourth that comes later.
#[test]
fn what_may_not_be_tried_again_keeps_nothing_else_from_being_merged() {
    let world = World::new(vec![
        task("one", &["a.txt"], &[]),
        task("two", &["b.txt"], &[]),
        task("three", &["three"], &["one"]),
        task("four", &["c.txt"], &[]),
    ]);
    world.works("one", &world.base, &[put("a.txt", "one\n")]);
    world.works("two", &world.base, &[put("b.txt", "two\n")]);
    let fork = world.fork("three");
    world.works("three", &fork, &[put("three", "three\n")]);
    let run = |asked| world.integrate_with(&Leave { asked, ..Leave::default() });
    // Where there is a ref below it, git makes no ref of that name.
    let below = "refs/heads/sandbox/login-1/integration/below";
    world.run("update-ref", &[below, world.base.as_str()]);
    assert!(run(Asker::Run).is_err());
    assert_eq!(words(&world, EffectKind::Merge), ["claimed", "released", "claimed", "released"]);
    world.run("update-ref", &["-d", below]);
    world.works("four", &world.base, &[put("c.txt", "four\n")]);

    for round in 0..2 {
        let made = run(Asker::Run).unwrap();
        let left_out: Vec<_> = made.left_out().map(|(agent, refusal)| (agent.to_string(), refusal)).collect();
        let spent = ["one", "two", "three"].map(|agent| (agent.to_owned(), Refusal::Spent));
        assert_eq!(left_out, spent, "{round}: each is told");
        assert_eq!(made.held_back, None);
        assert_eq!(branch_of(&world).as_ref(), Some(made.candidate.object()));
        assert_eq!(world.content(&made.candidate, "c.txt"), "four", "{round}: the rest is merged");
        assert_eq!(world.content(&made.candidate, "a.txt"), "1\n2\n3\n4\n5");
        let claims = effects(&world, EffectKind::Merge).into_iter().filter(|(word, _)| word == "claimed");
        let works: Vec<Vec<String>> =
            claims.map(|(_, effect)| effect.works.iter().map(|work| work.agent.to_string()).collect()).collect();
        assert_eq!(works.len(), 3, "{round}: and once");
        assert_eq!(works[2], ["four"]);
        let item = world.state().agent(&name("one")).unwrap().merging.clone().unwrap();
        assert_eq!((item.state, item.refusal()), (State::Observed, Some(Refusal::Spent)), "it is known why");
    }
    // A person's word.
    let made = run(Asker::User).unwrap();
    assert_eq!(made.left_out().count(), 0);
    for (path, content) in [("a.txt", "one"), ("b.txt", "two"), ("three", "three"), ("c.txt", "four")] {
        assert_eq!(world.content(&made.candidate, path), content);
    }
}

/// What builds on work that is left out waits for it, though it was never tried itself.
#[test]
fn what_builds_on_work_that_is_left_out_waits_for_it() {
    let world = World::new(vec![task("one", &["a.txt"], &[]), task("two", &["two"], &["one"])]);
    world.works("one", &world.base, &[put("a.txt", "one\n")]);
    let below = "refs/heads/sandbox/login-1/integration/below";
    world.run("update-ref", &[below, world.base.as_str()]);
    let asked = || Leave { asked: Asker::Run, ..Leave::default() };
    assert!(world.integrate_with(&asked()).is_err());
    world.run("update-ref", &["-d", below]);
    let fork = world.fork("two");
    world.works("two", &fork, &[put("two", "two\n")]);
    let made = world.integrate_with(&asked()).unwrap();
    assert_eq!(made.agent(&name("two")), Some(&Placed::Blocked(vec![name("one")])));
    assert_eq!((made.candidate, branch_of(&world)), (world.base.clone(), None));
}

/// Between the claim and the move: what was looked at is looked at once more, and in the moment of the move.
#[test]
fn an_agents_branch_that_moves_before_the_candidate_does_cancels_the_claim() {
    let world = world();
    let snapshot = world.state().agents[0].last_turn().unwrap().1.snapshot.clone();
    let branch = RefName::agent_branch(world.run.id(), &name("one"));
    let theirs = world.commit(&snapshot, std::slice::from_ref(&snapshot), &[put("b.txt", "theirs\n")]);
    world.run("update-ref", &[branch.as_str(), snapshot.as_str()]);
    // The last that is asked before the claim.
    let ending = || {
        world.run("update-ref", &[branch.as_str(), theirs.as_str()]);
        false
    };
    let made = world.integrate_with(&Leave { ending: &ending, ..Leave::default() }).unwrap();
    assert!(made.moved.as_ref().is_some_and(|what| what.contains("sandbox/login-1/one")), "{made:?}");
    assert_eq!((made.candidate, branch_of(&world)), (world.base.clone(), None));
    let told = effects(&world, EffectKind::Merge);
    assert_eq!(told.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>(), ["claimed", "released"]);
    assert_eq!(told[1].1.release, Some(Release::Moved));
    assert_eq!(state_of(&world), Some(State::Inspecting));
    assert!(matches!(world.integrate().agent(&name("one")), Some(Placed::Error(_))), "and then it is told to a person");
}

/// Each operation with each authority: the other one is not concerned.
#[test]
fn what_is_not_allowed_or_not_known_to_be_is_not_begun() {
    let table = [
        (Authority::Granted, None),
        (Authority::Denied, Some(Refusal::Denied)),
        (Authority::Unknown, Some(Refusal::AuthorityUnknown)),
    ];
    for (authority, refusal) in table {
        let world = world();
        let made = world.integrate_with(&Leave { authority, ..Leave::default() }).unwrap();
        assert_eq!(made.held_back, refusal, "{authority:?}");
        assert_eq!(made.candidate == world.base, refusal.is_some(), "{authority:?}");
        let wanted = refusal.is_none().then(|| made.candidate.object().clone());
        assert_eq!(branch_of(&world), wanted, "{authority:?}: what is refused makes no branch either");
        assert_eq!(made.agents.len(), 1, "looking is allowed always");
        let wanted = if refusal.is_none() { State::Confirmed } else { State::Observed };
        assert_eq!(state_of(&world), Some(wanted), "{authority:?}");

        let made = world.integrate();
        assert!(made.held_back.is_none());
        let before = world.users();
        let landed = world.land_with(&made, &main_branch(), &Leave { authority, ..Leave::default() }).unwrap();
        match refusal {
            Some(refusal) => {
                assert_eq!(landed, Landed::NotBegun(refusal));
                assert_eq!((world.users(), words(&world, EffectKind::Land).len()), (before, 0), "{authority:?}");
            }
            None => assert!(matches!(landed, Landed::Done { .. }), "{authority:?} {landed:?}"),
        }
    }
}

#[test]
fn when_the_run_ends_nothing_new_is_begun_and_what_was_begun_is_settled() {
    let world = world();
    let made = world.integrate_with(&Leave { ending: &|| true, ..Leave::default() }).unwrap();
    assert_eq!((made.held_back, made.candidate), (Some(Refusal::Ending), world.base.clone()));
    assert_eq!(words(&world, EffectKind::Merge).len(), 0);
    let made = world.integrate();
    // Time is over in the very moment between the last look and the claim.
    let asked = Cell::new(0);
    let ending = || asked.replace(asked.get() + 1) > 0;
    let before = world.users();
    let landed = world.land_with(&made, &main_branch(), &Leave { ending: &ending, ..Leave::default() }).unwrap();
    assert_eq!(landed, Landed::NotBegun(Refusal::Ending));
    assert_eq!((world.users(), words(&world, EffectKind::Land).len(), asked.get()), (before, 0, 2));
    // One that was claimed is found out about all the same.
    let open = effect_of_landing(&world, &made);
    world.journal.borrow().record(crate::model::event::Subject::run(), EventKind::EffectClaimed(open)).unwrap();
    let landed = world.land_with(&made, &main_branch(), &Leave { ending: &|| true, ..Leave::default() }).unwrap();
    assert_eq!(landed, Landed::NotBegun(Refusal::Ending));
    assert_eq!(words(&world, EffectKind::Land), ["claimed", "released"]);
}

fn effect_of_landing(world: &World, made: &Integrated) -> Effect {
    let mut effect = effects(world, EffectKind::Merge).pop().unwrap().1;
    effect.key = "land".to_owned();
    effect.effect = EffectKind::Land;
    effect.reference = main_branch();
    effect.before = made.onto.clone();
    effect.after = made.candidate.clone();
    effect.works = Vec::new();
    effect
}

/// A git that came as far as the branch, which another one holds: its files are taken back, and it is done once more.
#[test]
fn half_a_landing_is_taken_back_and_tried_once_more_after_a_moment() {
    let land = |world: &World, made: &Integrated, asked: Asker, leave: bool| {
        let lock: PathBuf = world.repository.common_dir().join("refs/heads/main.lock");
        fs::write(&lock, "").unwrap();
        let pauses = Cell::new(0);
        let pause = |time: Duration| {
            assert!(time > Duration::ZERO && time < Duration::from_secs(1));
            pauses.set(pauses.get() + 1);
            if !leave {
                fs::remove_file(&lock).unwrap();
            }
        };
        let landed = world.land_with(made, &main_branch(), &Leave { asked, pause: &pause, ..Leave::default() });
        drop(fs::remove_file(&lock));
        (landed, pauses.get())
    };
    let one = world();
    let made = one.integrate();
    let (landed, pauses) = land(&one, &made, Asker::Run, false);
    assert!(matches!(landed, Ok(Landed::Done { .. })), "{landed:?}");
    assert_eq!((words(&one, EffectKind::Land), pauses), (vec_of(&["claimed", "released", "claimed", "confirmed"]), 1));
    assert_eq!(one.run("status", &["--porcelain"]), "");

    // It stays as it is: two tries, and no third by itself, whoever asks again in the run's name.
    let two = world();
    let made = two.integrate();
    let before = users(&two);
    let (landed, pauses) = land(&two, &made, Asker::Run, true);
    assert!(matches!(landed, Ok(Landed::Refused(_)) | Err(Error::Git(_))), "{landed:?}");
    assert_eq!((words(&two, EffectKind::Land).len(), pauses, users(&two)), (4, 1, before.clone()));
    let (landed, pauses) = land(&two, &made, Asker::Run, false);
    assert_eq!((landed.unwrap(), pauses), (Landed::NotBegun(Refusal::Spent), 0));
    assert_eq!((words(&two, EffectKind::Land).len(), users(&two)), (4, before));
    let attempts: Vec<_> = effects(&two, EffectKind::Land).into_iter().map(|(_, effect)| effect.attempt).collect();
    assert_eq!(attempts, [Some(1), Some(1), Some(2), Some(2)]);
    // A person's word.
    let landed = two.land_with(&made, &main_branch(), &Leave { asked: Asker::User, ..Leave::default() }).unwrap();
    assert!(matches!(landed, Landed::Done { .. }), "{landed:?}");
}

/// What is the user's, but for the times that the index remembers, as files that were taken back are newer, and for what
/// git says of where it began.
fn users(world: &World) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut users = world.users();
    users.retain(|key, _| key != "git index" && key != "git ORIG_HEAD");
    let status = world.run("status", &["--porcelain"]);
    users.insert("status".to_owned(), status.into_bytes());
    users
}

fn vec_of(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_lock_that_another_git_holds_for_a_moment_is_waited_for() {
    let world = world();
    let made = world.integrate();
    let lock = world.repository.common_dir().join("index.lock");
    fs::write(&lock, "").unwrap();
    let pause = |_: Duration| fs::remove_file(&lock).unwrap();
    let landed = world.land_with(&made, &main_branch(), &Leave { pause: &pause, ..Leave::default() }).unwrap();
    assert!(matches!(landed, Landed::Done { .. }), "{landed:?}");
    assert_eq!(words(&world, EffectKind::Land), ["claimed", "confirmed"], "looking was no attempt");
}

#[test]
fn what_was_merged_for_exactly_this_is_laid_out_again_and_is_no_new_attempt() {
    let world = world();
    let made = world.integrate();
    for asked in [Asker::Run, Asker::User, Asker::Run] {
        let again = world.integrate_with(&Leave { asked, ..Leave::default() }).unwrap();
        assert_eq!((&again.candidate, again.held_back), (&made.candidate, None));
        assert_eq!(state_of(&world), Some(State::Confirmed));
    }
    let claimed = effects(&world, EffectKind::Merge).into_iter().filter(|(word, _)| word == "claimed");
    let works: Vec<usize> = claimed.map(|(_, effect)| effect.works.len()).collect();
    assert_eq!(works, [1], "its branch stands where it is to be");
    // The target has moved: it is another matter.
    world.user_commits("c.txt", "theirs\n");
    assert!(world.integrate_with(&Leave { asked: Asker::Run, ..Leave::default() }).unwrap().held_back.is_none());
    assert_eq!(effects(&world, EffectKind::Merge).pop().unwrap().1.works.len(), 1);
}

/// Every way a branch can move: told once each, and a branch that stands still is not told of.
#[test]
fn each_move_of_the_target_is_told_once_and_as_what_it_is() {
    let world = world();
    let on = world.commit(&world.base, std::slice::from_ref(&world.base), &[put("b.txt", "on\n")]);
    let aside = world.commit(&world.base, std::slice::from_ref(&world.base), &[put("b.txt", "aside\n")]);
    world.run("switch", &["-q", "--detach"]);
    let table = [
        (Some(&on), Movement::Advanced),
        (Some(&aside), Movement::Rewritten),
        (Some(&world.base), Movement::Rewound),
        (None, Movement::Deleted),
        (Some(&on), Movement::Restored),
    ];
    for (to, how) in table {
        match to {
            Some(to) => world.run("update-ref", &["refs/heads/main", to.as_str()]),
            None => world.run("update-ref", &["-d", "refs/heads/main"]),
        };
        for _ in 0..2 {
            let journal = world.journal.borrow();
            let tip = see_target(&world.repository, &*journal, &journal.state(), &main_branch()).unwrap();
            assert_eq!(tip.as_ref(), to, "{how:?}");
        }
        let state = world.state();
        assert_eq!((state.target_moves.last().map(|moved| moved.how), state.target_tip.as_ref()), (Some(how), to));
    }
    assert_eq!(world.state().target_moves.len(), table.len());
}

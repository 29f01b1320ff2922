#![expect(clippy::disallowed_methods, reason = "tests write files as users do")]
//! What is begun by itself, how often, and by whose leave.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::world::{Leave, World, main_branch, name, put, task};
use crate::integrate::{Error, Integrated, Landed, see_target};
use crate::model::currency::{Asker, Authority, Refusal, State};
use crate::model::event::{Effect, EffectKind, EventKind, Movement};
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
        let branch = world.repository.load_ref(&world.state().candidate.unwrap().head.reference).unwrap();
        assert_eq!(branch.as_ref(), Some(made.candidate.object()), "{authority:?}");
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
    assert_eq!(works, [1, 0, 0, 0]);
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

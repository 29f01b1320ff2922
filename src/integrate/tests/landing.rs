#![expect(clippy::disallowed_methods, reason = "tests write files as users do")]
//! Landing, and everything that is in its way.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::world::{World, main_branch, put, remove, run_git, task};
use crate::git::{Access, Checkout, Command, Forward};
use crate::integrate::{Integrated, Landed, Settled, settle};
use crate::model::currency::Release;
use crate::model::event::{Effect, EffectKind, EventKind, Subject};
use crate::model::gate::{BlockKind, GateBlock};
use crate::model::{RefName, RepoPath};
use crate::store::Record;
use crate::store::lock::Patience;

/// A candidate that edits, adds and deletes.
fn world() -> (World, Integrated) {
    world_with("")
}

fn world_with(settings: &str) -> (World, Integrated) {
    let world = World::with_settings(vec![task("one", &["**"], &[])], settings);
    world.works(
        "one",
        &world.base,
        &[put("a.txt", "new\n"), put("new/file", "n\n"), put("build.log", "log\n"), remove("c.txt")],
    );
    let made = world.integrate();
    assert_ne!(made.candidate, world.base);
    (world, made)
}

/// What is told of landings.
fn kinds(world: &World) -> Vec<String> {
    let events = world.journal.borrow().events();
    let landings = events.iter().filter(|event| match &event.kind {
        EventKind::EffectClaimed(effect) | EventKind::EffectConfirmed(effect) | EventKind::EffectReleased(effect) => {
            effect.effect == EffectKind::Land
        }
        _ => false,
    });
    landings.map(|event| event.kind.name().to_owned()).collect()
}

fn refused(landed: Landed) -> Vec<GateBlock> {
    match landed {
        Landed::Refused(blocks) if !blocks.is_empty() => blocks,
        other => panic!("not refused: {other:?}"),
    }
}

fn stuck(landed: Landed) -> Vec<GateBlock> {
    match landed {
        Landed::Stuck(blocks) => blocks,
        other => panic!("it can be told: {other:?}"),
    }
}

#[test]
fn a_clean_checkout_goes_with_the_target() {
    let (world, made) = world();
    let landed = world.land(&made);
    let checkout = Some(world.root().canonicalize().unwrap());
    assert_eq!(landed, Landed::Done { commit: made.candidate.clone(), checkout, already: false });
    assert_eq!(world.run("status", &["--porcelain"]), "");
    assert_eq!(world.run("symbolic-ref", &["HEAD"]), "refs/heads/main");
    assert_eq!(fs::read_to_string(world.root().join("a.txt")).unwrap(), "new\n");
    assert!(!world.root().join("c.txt").exists());
    assert_eq!(kinds(&world), ["effect.claimed", "effect.confirmed"]);
    assert_eq!(world.state().landed, Some(made.candidate.clone()));
    assert!(world.state().open_claims.is_empty());

    // Again: nothing is done twice.
    let before = world.users();
    let again = world.land(&made);
    assert_eq!(again, Landed::Done { commit: made.candidate.clone(), checkout: None, already: true });
    assert_eq!((world.users(), kinds(&world).len()), (before, 2));
    // Nor once the user has gone on.
    let user = world.user_commits("b.txt", "on\n");
    assert_eq!(world.land(&made), Landed::Done { commit: user, checkout: None, already: true });
    // And merging again finds all of it there.
    let next = world.integrate();
    assert_eq!(next.candidate, next.onto);
    assert_eq!(world.land(&next), Landed::Nothing);
    // Not where somebody took it back meanwhile.
    let back = world.run("rev-parse", &["main~2"]);
    world.run("reset", &["-q", "--hard", &back]);
    assert_eq!(world.land(&next), Landed::Moved { found: Some(back.parse().unwrap()) });
    world.run("checkout", &["-q", "--detach"]);
    world.run("branch", &["-q", "-D", "main"]);
    assert_eq!(world.land(&next), Landed::Moved { found: None });
}

#[test]
fn what_the_user_changed_elsewhere_stays() {
    let (world, made) = world();
    world.write("b.txt", "edited\n");
    world.write("src/lib.rs", "staged\n");
    world.run("add", &["src/lib.rs"]);
    world.write("untracked", "u\n");
    world.write("x.log", "ignored\n");
    let status = world.run("status", &["--porcelain"]);
    assert!(matches!(world.land(&made), Landed::Done { already: false, .. }));
    assert_eq!(world.run("status", &["--porcelain"]), status);
    assert_eq!(fs::read_to_string(world.root().join("b.txt")).unwrap(), "edited\n");
    assert_eq!(fs::read_to_string(world.root().join("x.log")).unwrap(), "ignored\n");
    assert_eq!(world.run("show", &[":src/lib.rs"]), "staged");
    assert_eq!(world.run("stash", &["list"]), "");
    // All of it was kept before.
    let rescue = RefName::rescue(world.run.id());
    assert_eq!(world.run("show", &[&format!("{rescue}:b.txt")]), "edited");
    assert_eq!(world.run("show", &[&format!("{rescue}:untracked")]), "u");
}

#[test]
fn everything_in_the_way_is_named_and_nothing_is_touched() {
    type Setup = fn(&World);
    let table: [(&str, Setup, &str, &str); 11] = [
        ("modified", |world| world.write("a.txt", "mine\n"), "a.txt", "modified"),
        (
            "staged",
            |world| {
                world.write("a.txt", "mine\n");
                world.run("add", &["a.txt"]);
            },
            "a.txt",
            "staged",
        ),
        (
            "staged, and the file as before",
            |world| {
                world.write("a.txt", "mine\n");
                world.run("add", &["a.txt"]);
                world.write("a.txt", "1\n2\n3\n4\n5\n");
            },
            "a.txt",
            "staged",
        ),
        ("edited, and deleted by the landing", |world| world.write("c.txt", "mine\n"), "c.txt", "modified"),
        ("untracked", |world| world.write("new/file", "mine\n"), "new/file", "untracked"),
        ("untracked, with equal content", |world| world.write("new/file", "n\n"), "new/file", "untracked"),
        ("a file where a folder is needed", |world| world.write("new", "mine\n"), "new", "untracked"),
        ("ignored", |world| world.write("build.log", "mine\n"), "build.log", "ignored"),
        ("deleted", |world| fs::remove_file(world.root().join("a.txt")).unwrap(), "a.txt", "deleted"),
        (
            "made executable",
            |world| fs::set_permissions(world.root().join("a.txt"), fs::Permissions::from_mode(0o755)).unwrap(),
            "a.txt",
            "modified",
        ),
        (
            "hidden",
            |world| {
                world.run("update-index", &["--assume-unchanged", "a.txt"]);
                world.write("a.txt", "mine\n");
            },
            "a.txt",
            "assume-unchanged",
        ),
    ];
    for (what, setup, path, word) in table {
        let (world, made) = world();
        setup(&world);
        let before = world.users();
        let blocks = refused(world.land(&made));
        assert_eq!(world.users(), before, "{what}");
        assert!(blocks.iter().all(|block| block.kind == BlockKind::CheckoutBusy && !block.next.is_empty()), "{what}");
        let named = blocks.iter().any(|block| {
            block.paths.contains(&RepoPath::from(path)) && block.message.contains(word) && block.message.contains(path)
        });
        assert!(named, "{what}: {blocks:?}");
        assert!(kinds(&world).is_empty(), "{what}: nothing was claimed");
    }
}

#[test]
fn all_obstacles_at_once() {
    let (world, made) = world();
    world.write("a.txt", "mine\n");
    world.write("new/file", "mine\n");
    world.write("build.log", "mine\n");
    let blocks = refused(world.land(&made));
    let mut paths: Vec<String> = blocks.iter().flat_map(|block| &block.paths).map(ToString::to_string).collect();
    paths.sort();
    assert_eq!(paths, ["a.txt", "build.log", "new/file"]);
}

#[test]
fn an_automatic_stash_does_not_bite() {
    let settings = "[merge]\nautoStash = true\nff = false\n[pull]\nrebase = true\n[rebase]\nautoStash = true\n";
    // Without protection: git stashes the edit, fails to pop it, leaves markers in the file, and exits with 0.
    let (trapped, made) = world_with(settings);
    trapped.write("a.txt", "mine\n");
    let plain = Command::new(&trapped.git, Access::Write, "merge").folder(trapped.root());
    let plain = plain.args(["--ff", "--no-edit", made.candidate.as_str()]).run().unwrap();
    assert_eq!(plain.code(), Some(0));
    assert!(fs::read_to_string(trapped.root().join("a.txt")).unwrap().contains("<<<<<<<"));

    let (world, made) = world_with(settings);
    world.write("a.txt", "mine\n");
    let before = world.users();
    refused(world.land(&made));
    assert_eq!(world.users(), before);
    world.run("restore", &["a.txt"]);
    world.write("b.txt", "mine\n");
    assert!(matches!(world.land(&made), Landed::Done { .. }));
    assert_eq!(world.run("stash", &["list"]), "");
    assert_eq!(world.run("status", &["--porcelain"]), " M b.txt");
}

#[test]
fn unfinished_operations_are_named() {
    let (world, made) = world();
    let side = world.commit(&world.base, std::slice::from_ref(&world.base), &[put("b.txt", "side\n")]);
    world.run("branch", &["side", side.as_str()]);
    world.run("merge", &["-q", "--no-ff", "--no-commit", "side"]);
    let before = world.users();
    let blocks = refused(world.land(&made));
    assert!(blocks[0].message.contains("a merge") && blocks[0].next.contains("--abort"), "{blocks:?}");
    assert_eq!(world.users(), before);
    world.run("merge", &["--abort"]);

    // A rebase elsewhere: git calls the branch detached there, and a plain update of the ref would pull it away.
    world.run("switch", &["-q", "--detach"]);
    let other = world.folder.path().join("other");
    world.run("worktree", &["add", "-q", other.to_str().unwrap(), "main"]);
    let rebase = Command::new(&world.git, Access::Write, "rebase").folder(&other);
    let rebase = rebase.args(["-q", "--no-ff", "--exec", "false", "--root"]).env("GIT_EDITOR", "true").run().unwrap();
    assert_ne!(rebase.code(), Some(0), "it stops in the middle");
    let blocks = refused(world.land(&made));
    assert!(blocks[0].message.contains("a rebase") && blocks[0].message.contains("other"), "{blocks:?}");
    assert_eq!(world.repository.load_ref(&main_branch()).unwrap().as_ref(), Some(world.base.object()));
    run_git(&world.git, &other, "rebase", &["--abort"]);

    fs::write(world.repository.common_dir().join("worktrees/other/index.lock"), "").unwrap();
    let blocks = refused(world.land(&made));
    assert!(blocks[0].message.contains("a lock on the index"), "{blocks:?}");
}

#[test]
fn checked_out_in_another_worktree_that_one_is_updated_or_named() {
    let (world, made) = world();
    world.run("switch", &["-q", "-c", "mine"]);
    world.write("a.txt", "mine, and on another branch\n");
    let other = world.folder.path().join("other");
    world.run("worktree", &["add", "-q", other.to_str().unwrap(), "main"]);
    fs::write(other.join("a.txt"), "edited there\n").unwrap();
    let (here, there) = (world.users(), world.users_of(&other));
    let blocks = refused(world.land(&made));
    assert!(blocks[0].message.contains("other") && blocks[0].message.contains("a.txt"), "{blocks:?}");
    assert_eq!((world.users(), world.users_of(&other)), (here, there));

    run_git(&world.git, &other, "restore", &["a.txt"]);
    let Landed::Done { checkout: Some(checkout), .. } = world.land(&made) else { panic!("landed") };
    assert_eq!(checkout, other.canonicalize().unwrap());
    assert_eq!(fs::read_to_string(other.join("a.txt")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(world.root().join("a.txt")).unwrap(), "mine, and on another branch\n");
}

#[test]
fn a_worktree_that_is_gone_or_is_an_agents_is_refused() {
    let (world, made) = world();
    world.run("switch", &["-q", "--detach"]);
    let gone = world.folder.path().join("gone");
    world.run("worktree", &["add", "-q", gone.to_str().unwrap(), "main"]);
    let aside = world.folder.path().join("aside");
    fs::rename(&gone, &aside).unwrap();
    let blocks = refused(world.land(&made));
    assert!(blocks[0].kind == BlockKind::CannotLand && blocks[0].message.contains("gone"), "{blocks:?}");
    world.run("worktree", &["prune"]);
    let agents = world.folder.path().join("login-1--one");
    world.run("worktree", &["add", "-q", agents.to_str().unwrap(), "main"]);
    let blocks = refused(world.land(&made));
    assert!(blocks[0].message.contains("where an agent works"), "{blocks:?}");
    assert_eq!(world.repository.load_ref(&main_branch()).unwrap().as_ref(), Some(world.base.object()));
}

#[test]
fn checked_out_nowhere_only_the_ref_moves() {
    let (world, made) = world();
    world.run("switch", &["-q", "-c", "mine"]);
    world.write("a.txt", "mine\n");
    let before = world.users();
    let landed = world.land(&made);
    assert_eq!(landed, Landed::Done { commit: made.candidate.clone(), checkout: None, already: false });
    let mut after = world.users();
    let refs = String::from_utf8(after.insert("refs".to_owned(), before["refs"].clone()).unwrap()).unwrap();
    assert_eq!(after, before, "no file, no index, no HEAD");
    assert!(refs.contains(&format!("refs/heads/main {}", made.candidate)), "{refs}");
    assert_eq!(kinds(&world), ["effect.claimed", "effect.confirmed"]);
}

#[test]
fn a_bare_repository_will_do() {
    let (world, made) = world();
    world.run("config", &["core.bare", "true"]);
    let bare = crate::git::Repository::discover(&world.git, world.repository.common_dir()).unwrap();
    assert!(bare.is_bare());
    let world = World { repository: bare, ..world };
    assert!(matches!(world.land(&made), Landed::Done { checkout: None, already: false, .. }));
    assert_eq!(world.repository.load_ref(&main_branch()).unwrap().as_ref(), Some(made.candidate.object()));
}

#[test]
fn a_target_that_moved_is_left_alone() {
    let (world, made) = world();
    let user = world.user_commits("b.txt", "on\n");
    let before = world.users();
    assert_eq!(world.land(&made), Landed::Moved { found: Some(user.object().clone()) });
    assert_eq!((world.users(), kinds(&world).len()), (before, 0));
    // Back before what it is built on: a fast-forward would still be one.
    world.run("reset", &["-q", "--hard", world.base.as_str()]);
    let built = world.integrate();
    let ahead = world.commit(&built.candidate, std::slice::from_ref(&built.candidate), &[put("b.txt", "more\n")]);
    let claimed = Integrated { onto: built.candidate.clone(), candidate: ahead, ..built };
    assert_eq!(world.land(&claimed), Landed::Moved { found: Some(world.base.object().clone()) });
    world.run("switch", &["-q", "--detach"]);
    world.run("branch", &["-q", "-D", "main"]);
    assert_eq!(world.land(&claimed), Landed::Moved { found: None });
}

#[test]
fn only_the_users_branches_are_targets_and_only_descendants_land() {
    let (world, made) = world();
    for target in ["refs/tags/v1", "refs/heads/sandbox/login-1/one", "refs/heads/sandbox"] {
        let landed = world.try_land(&made, &target.parse().unwrap()).unwrap();
        assert_eq!(refused(landed)[0].kind, BlockKind::CannotLand, "{target}");
    }
    let unrelated = world.commit(&world.base, &[], &[put("a.txt", "x\n")]);
    let wrong = Integrated { candidate: unrelated, ..made };
    assert!(matches!(world.try_land(&wrong, &main_branch()), Err(crate::integrate::Error::NotBuiltOn { .. })));
    assert!(kinds(&world).is_empty());
}

/// As a coordinator that died after its claim had written it.
fn claim(world: &World, made: &Integrated, checkout: bool) -> Effect {
    let effect = Effect {
        key: "land".to_owned(),
        effect: EffectKind::Land,
        reference: main_branch(),
        before: made.onto.clone(),
        created: false,
        after: made.candidate.clone(),
        checkout: checkout.then(|| world.root()),
        rescue: Some(RefName::rescue(world.run.id())),
        note: None,
        invocation: None,
        works: Vec::new(),
        observation_key: None,
        attempt: None,
        asked: None,
        release: None,
    };
    world.journal.borrow().record(Subject::run(), EventKind::EffectClaimed(effect.clone())).unwrap();
    effect
}

fn settled(world: &World, claim: &Effect) -> Settled {
    let journal = world.journal.borrow();
    settle(&world.repository, &world.state_dir, &*journal, claim, Patience::default(), &|_| {}).unwrap()
}

#[test]
fn a_landing_that_was_cut_short_is_settled_from_what_is_there() {
    // Before anything was done.
    let (world, made) = world();
    let open = claim(&world, &made, true);
    let before = world.users();
    assert_eq!(settled(&world, &open), Settled::Released(Release::Untouched));
    assert_eq!((world.users(), world.state().open_claims.len()), (before, 0));

    // After all was done.
    let open = claim(&world, &made, true);
    let checkout = Checkout::open(&world.git, &world.root()).unwrap();
    let (target, timeout) = (&open.reference, Duration::from_mins(1));
    let forward = Forward { target, old: &open.before, new: &open.after, timeout, held: None };
    let forwarded = checkout.fast_forward(forward).unwrap();
    assert_eq!(forwarded, crate::git::FastForward::Applied);
    assert_eq!(settled(&world, &open), Settled::Confirmed);
    assert_eq!(world.state().landed, Some(made.candidate.clone()));
    assert_eq!(world.land(&made), Landed::Done { commit: made.candidate.clone(), checkout: None, already: true });
    assert_eq!(kinds(&world).iter().filter(|name| *name == "effect.confirmed").count(), 1);
}

#[test]
fn half_a_landing_is_taken_back_and_done_again() {
    let (world, made) = world();
    claim(&world, &made, true);
    // Git was killed after some files, before the index.
    world.write("a.txt", "new\n");
    world.write("new/file", "n\n");
    assert!(matches!(world.land(&made), Landed::Done { already: false, .. }));
    assert_eq!(world.run("status", &["--porcelain"]), "");
    assert_eq!(kinds(&world), ["effect.claimed", "effect.released", "effect.claimed", "effect.confirmed"]);
}

#[test]
fn half_a_landing_mixed_with_the_users_work_is_named_and_left() {
    let (world, made) = world();
    claim(&world, &made, true);
    world.write("new/file", "n\n");
    world.write("a.txt", "the user has edited it since\n");
    let before = world.users();
    let blocks = stuck(world.land(&made));
    assert_eq!(blocks[0].paths, [RepoPath::from("a.txt")]);
    assert!(blocks[0].next.contains("refs/sandbox/login-1/rescue"), "{blocks:?}");
    assert_eq!(world.users(), before);
    assert_eq!(world.state().open_claims.len(), 1, "still open");

    let lock = world.repository.common_dir().join("index.lock");
    let at_work = fs::File::create(&lock).unwrap();
    let blocks = stuck(world.land(&made));
    assert!(blocks[0].message.contains("a lock on the index"), "{blocks:?}");
    assert!(lock.exists(), "nobody's lock is removed");
    drop(at_work);
}

#[test]
fn a_claimed_ref_that_moved_elsewhere_is_released() {
    let (world, made) = world();
    world.run("switch", &["-q", "--detach"]);
    let open = claim(&world, &made, false);
    let other = world.commit(&world.base, std::slice::from_ref(&world.base), &[put("b.txt", "x\n")]);
    world.run("update-ref", &["refs/heads/main", other.as_str()]);
    assert_eq!(settled(&world, &open), Settled::Released(Release::Moved));
    assert_eq!(world.land(&made), Landed::Moved { found: Some(other.object().clone()) });
}

#[test]
fn what_earlier_landings_kept_stays() {
    let (world, made) = world();
    world.write("untracked", "first\n");
    assert!(matches!(world.land(&made), Landed::Done { .. }));
    let rescue = RefName::rescue(world.run.id());
    let first = world.repository.load_ref(&rescue).unwrap().unwrap();
    world.write("untracked", "second\n");
    let snapshot = world.commit(&made.candidate, std::slice::from_ref(&made.candidate), &[put("a.txt", "next\n")]);
    world.tell(&world.attempt("one", 2, &made.candidate, &made.candidate, &snapshot));
    let next = world.integrate();
    assert!(matches!(world.land(&next), Landed::Done { already: false, .. }));
    assert_eq!(world.run("show", &[&format!("{rescue}:untracked")]), "second");
    assert!(world.run("rev-list", &[rescue.as_str()]).lines().any(|line| line == first.as_str()));
}

//! The executor killed at any instant: nothing is lost, nothing is left running, and the run can be gone on with.

use std::fs;

use serde_json::Value;

use crate::flow::plan;
use crate::going::{assert_none_left, until};
use crate::world::World;

/// A plan whose agents do something that takes no time.
const QUICK: &str = r#"
[run]
name = "quick"
jobs = 2
[verify]
command = ["sh", "-ec", "test -f docs/a; test -f docs/b"]
[agents.a]
owns = ["docs/a"]
run = ["sh", "-ec", "echo a > docs/a"]
[agents.b]
owns = ["docs/b"]
after = ["a"]
run = ["sh", "-ec", "cat docs/a > docs/b; echo b >> docs/b"]
"#;

/// When the executor dies.
#[derive(Debug, Clone, Copy)]
struct Death {
    /// Of the git calls from outside a box whose arguments match this pattern of the shell's.
    call: &'static str,
    /// The how many-th, from 1.
    nth: usize,
    /// Whether git does its work all the same, as when the executor dies while git is at it; else git never runs.
    git_goes_on: bool,
}

/// Puts a `git` before the real one that kills its parent at one of its calls.
fn fatal_git(world: &World, death: Death) {
    let control = world.state().join("control");
    fs::create_dir_all(&control).unwrap();
    fs::write(control.join("calls"), "").unwrap();
    let Death { call, nth, git_goes_on } = death;
    let work = if git_goes_on { r#"/usr/bin/git "$@""# } else { "" };
    let control = control.display();
    world.script(
        "git",
        &format!(
            r#"
if test -f {control}/calls; then
    case "$*" in
        {call})
            echo x >> {control}/calls
            if test "$(wc -l < {control}/calls)" -eq {nth}; then
                rm {control}/calls
                kill -KILL $PPID
                {work}
                touch {control}/done
                exit 1
            fi;;
    esac
fi
exec /usr/bin/git "$@"
"#
        ),
    );
}

fn died(world: &World) -> bool {
    !world.state().join("control/calls").exists()
}

/// Lets git be git again.
fn mend_git(world: &World) {
    drop(fs::remove_file(world.bin.join("git")));
}

fn status(world: &World) -> Value {
    world.sandbox(&["status", "--json"]).expect(0).json()["data"].clone()
}

/// What an undisturbed run lands.
fn undisturbed(text: &str) -> String {
    let world = World::new();
    world.sandbox(&["run", &plan(&world, text), "--land"]).expect(0);
    world.git(&["rev-parse", "main^{tree}"])
}

/// Kills a run at `death`, looks at what is left, and goes on with it by the ordinary verbs until it has landed. False: it
/// ended before it could die.
fn die_and_go_on(death: Death, expected: &str) -> bool {
    let world = World::new();
    world.write("src/b.txt", "my own change\n");
    let before = world.picture();
    fatal_git(&world, death);
    let ran = world.sandbox(&["run", &plan(&world, QUICK), "--land"]);
    if !died(&world) {
        ran.expect(0);
        return false;
    }
    mend_git(&world);
    assert_eq!(ran.code, None, "{death:?}: {ran:?}");
    until("git has ended", || world.state().join("control/done").exists().then_some(()));
    // The one call that changes the user's checkout is the landing.
    if !world.repo.join("docs/b").exists() {
        assert_eq!(world.picture(), before, "{death:?}");
    }
    let Some(first) = fs::read_dir(world.store().join("runs")).ok().and_then(|mut runs| runs.next()) else {
        // Killed before the run was there: nothing is left of it but perhaps the program's own folder.
        world.sandbox(&["run", &plan(&world, QUICK), "--land"]).expect(0);
        return true;
    };
    drop(first);
    let journal = world.store().join("runs/quick-1/journal.jsonl");
    if !journal.exists() || fs::read(&journal).unwrap().is_empty() {
        // Killed before its first event.
        let ran = world.sandbox(&["status"]);
        assert!(!ran.stdout.contains("running"), "{death:?} {ran:?}");
        for verb in ["merge", "verify", "land"] {
            let ran = world.sandbox(&[verb]);
            assert!(ran.code == Some(8) && ran.stderr.contains("quick-1"), "{death:?} {verb} {ran:?}");
        }
        world.sandbox(&["clean", "quick-1"]).expect(0);
        world.sandbox(&["run", &plan(&world, QUICK), "--land"]).expect(0);
        return true;
    }
    let now = status(&world);
    assert_eq!(now["state"], "interrupted", "{death:?} {now:#}");
    assert_none_left(&world.home().display().to_string());
    for agent in ["a", "b"] {
        let now = status(&world);
        let row = now["agents"].as_array().unwrap().iter().find(|row| row["agent"] == agent).unwrap().clone();
        assert_ne!(row["state"], "running", "{death:?} {row:#}");
        if !["completed", "no_changes"].contains(&row["state"].as_str().unwrap()) {
            let ran = world.sandbox(&["retry", agent]);
            // Without `b` the verifier fails, which it should.
            assert!(matches!(ran.code, Some(0 | 1 | 6)), "{death:?} {agent} {ran:?}");
        }
    }
    let ran = world.sandbox(&["merge"]);
    assert!(matches!(ran.code, Some(0)), "{death:?} merge {ran:?} {:#}", status(&world));
    let ran = world.sandbox(&["land"]);
    assert_eq!(ran.code, Some(0), "{death:?} land {ran:?} {:#}", status(&world));
    assert_eq!(world.git(&["rev-parse", "main^{tree}"]), expected, "{death:?}");
    assert_eq!(world.read("src/b.txt"), "my own change\n");
    assert_eq!(world.git(&["status", "--porcelain"]), " M src/b.txt", "{death:?}");
    assert_eq!(world.git(&["fsck", "--no-dangling", "--no-progress"]), "");
    world.sandbox(&["clean", "quick-1"]).expect(0);
    let listed = world.git(&["worktree", "list"]);
    assert_eq!(listed.lines().count(), 1, "{death:?} {listed}");
    true
}

/// Every git call of a run, one after the other. Takes minutes; the test after it takes the ones that matter most.
#[test]
#[ignore = "takes minutes"]
fn killed_at_any_git_call_a_run_reaches_what_it_would_have_reached() {
    let expected = undisturbed(QUICK);
    let from = std::env::var("FROM").map_or(1, |text| text.parse().unwrap());
    for git_goes_on in [false, true] {
        let mut failed = Vec::new();
        for nth in from.. {
            match std::panic::catch_unwind(|| die_and_go_on(Death { call: "*", nth, git_goes_on }, &expected)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => failed.push(nth),
            }
        }
        assert!(failed.is_empty(), "{failed:?}");
    }
}

/// The instants that differ: what is half done, and what is done and not yet told.
#[test]
fn killed_in_each_stage_a_run_reaches_what_it_would_have_reached() {
    let expected = undisturbed(QUICK);
    for (call, nth, git_goes_on) in [
        // Its folder is there, and not its first event.
        ("*update-ref*base*", 1, false),
        // Prepare: the worktree is listed and half made, or not yet.
        ("*worktree?add*", 1, true),
        ("*read-tree?--reset*", 2, false),
        // Harvest: the pack is in, nothing pinned; pinned, and not told.
        ("*update-ref*capture*", 2, false),
        ("*update-ref*capture*", 1, true),
        ("*update-ref*capture*", 4, true),
        // Integrate.
        ("*update-ref*candidate*", 1, true),
        ("*update-ref*candidate*", 2, false),
        // The verifier's worktree is there.
        ("*worktree?add*--detach*", 1, true),
        // Landing: claimed and not done; done and not confirmed.
        ("*merge?--ff-only*", 1, false),
        ("*merge?--ff-only*", 1, true),
    ] {
        let death = Death { call, nth, git_goes_on };
        assert!(die_and_go_on(death, &expected), "{death:?} never came");
    }
}

//! `sandbox resume`: a run that was cut short goes on to where it would have come undisturbed, and does nothing twice.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Value;
use worktree_sandbox::model::event::Event;
use worktree_sandbox::model::run::RunState;

use crate::flow::plan;
use crate::going::{Going, assert_none_left, processes_with};
use crate::world::World;

/// `slow` waits to be killed in its first attempt; `after` builds on it; `free` does not.
const PLAN: &str = r#"
[run]
name = "long"
jobs = 1
[verify]
command = ["sh", "-ec", "test -f docs/slow; test -f docs/after; test -f docs/free"]
[agents.slow]
owns = ["docs/slow*"]
turns = [
    ["sh", "-ec", "echo first >> docs/slow"],
    ["sh", "-ec", "echo partial > docs/slow-half; test $SANDBOX_ATTEMPT != 1 || sleep 86511; rm docs/slow-half; echo done > docs/slow"],
]
[agents.after]
owns = ["docs/after"]
after = ["slow"]
run = ["sh", "-ec", "cp docs/slow docs/after"]
[agents.free]
owns = ["docs/free"]
run = ["sh", "-ec", "echo free > docs/free"]
"#;

fn status(world: &World) -> Value {
    world.sandbox(&["status", "--json"]).expect(0).json()["data"].clone()
}

fn outcomes(world: &World) -> Vec<(String, String, u64)> {
    let now = status(world);
    let rows = now["agents"].as_array().unwrap().iter().map(|row| {
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        (text("agent"), text("state"), row["attempt"].as_u64().unwrap_or(0))
    });
    rows.collect()
}

fn count(world: &World, kind: &str) -> usize {
    let journal = fs::read_to_string(world.store().join("runs/long-1/journal.jsonl")).unwrap();
    let events = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == kind).count()
}

/// Starts the plan and waits until its first agent is in the turn that never ends.
fn started(world: &World, arguments: &[&str]) -> Going {
    let file = plan(world, PLAN);
    let mut line = vec!["run", &file, "--json"];
    line.extend(arguments);
    let mut going = Going::start(world, &line);
    going.wait_for(|event| event["type"] == "turn.started" && event["turn"] == "1.2");
    crate::going::until("it is at work", || (!processes_with("sleep 86511").is_empty()).then_some(()));
    going
}

#[test]
fn a_killed_run_goes_on_to_the_target() {
    let world = World::new();
    let going = started(&world, &["--land"]);
    going.signal(Signal::SIGKILL);
    drop(going.wait_dead());
    assert_none_left("sleep 86511");
    let told = world.sandbox(&["status"]).expect(0).stdout;
    assert!(told.contains("interrupted") && !told.contains("running"), "{told}");

    let resumed = world.sandbox(&["resume", "--json"]).expect(0);
    // What the first attempt had done is kept as it was, though the second took it away.
    let patch = world.sandbox(&["inspect", "slow", "--turn", "1.2", "--patch"]).expect(0).stdout;
    assert!(patch.contains("+partial"), "{patch}");
    assert_eq!(world.git(&["show", "main:docs/slow"]), "done");
    assert_eq!(world.git(&["show", "main:docs/after"]), "done");
    assert_eq!(world.git(&["show", "main:docs/free"]), "free");
    let expected = [("slow", 2), ("after", 1), ("free", 1)];
    let expected = expected.map(|(name, attempt)| (name.to_owned(), "completed".to_owned(), attempt));
    assert_eq!(outcomes(&world), expected);
    // The events go on where they stopped.
    let first: Value = serde_json::from_str(resumed.stdout.lines().next().unwrap()).unwrap();
    assert!(first["seq"].as_u64().unwrap() > 5, "{first}");
    assert_eq!(status(&world)["state"], "landed");
}

#[test]
fn a_run_that_was_told_to_stop_goes_on() {
    let world = World::new();
    let going = started(&world, &[]);
    going.signal(Signal::SIGINT);
    let ended = going.wait();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let told = world.sandbox(&["status"]).expect(0).stdout;
    assert!(told.contains("slow   interrupted") && told.contains("after  blocked"), "{told}");
    let main = world.git(&["rev-parse", "main"]);
    world.sandbox(&["resume"]).expect(0);
    assert_eq!(world.git(&["rev-parse", "main"]), main, "nobody asked for landing");
    assert!(outcomes(&world).iter().all(|(_, state, _)| state == "completed"), "{:?}", outcomes(&world));
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.git(&["show", "main:docs/after"]), "done");
}

#[test]
fn what_is_done_is_not_done_again() {
    let world = World::new();
    let text = PLAN.replace("sleep 86511", "true");
    world.sandbox(&["run", &plan(&world, &text), "--land"]).expect(0);
    let before = (world.git(&["for-each-ref"]), outcomes(&world), world.picture());
    let counts = ["attempt.started", "verify.finished", "effect.claimed"].map(|kind| count(&world, kind));
    world.sandbox(&["resume"]).expect(0);
    assert_eq!((world.git(&["for-each-ref"]), outcomes(&world), world.picture()), before);
    let after = ["attempt.started", "verify.finished", "effect.claimed"].map(|kind| count(&world, kind));
    assert_eq!(counts, after);
}

#[test]
fn a_failed_agent_stays_failed_in_a_run_that_came_to_its_end() {
    let world = World::new();
    let text = PLAN.replace("test $SANDBOX_ATTEMPT != 1 || sleep 86511", "exit 3");
    // The verifier fails, for want of what `slow` should have made.
    world.sandbox(&["run", &plan(&world, &text)]).expect(6);
    let before = outcomes(&world);
    world.sandbox(&["resume"]).expect(6);
    assert_eq!(outcomes(&world), before);
    assert_eq!(count(&world, "attempt.started"), 2, "of `slow` and `free`");
}

#[test]
fn a_run_at_work_is_not_resumed() {
    let world = World::new();
    let going = started(&world, &[]);
    let refused = world.sandbox(&["resume"]).expect(7);
    assert!(refused.stderr.contains(&going.pid().to_string()), "{refused:?}");
    going.signal(Signal::SIGINT);
    drop(going.wait());
}

#[test]
fn an_agent_whose_worktree_is_gone_is_named() {
    let world = World::new();
    let going = started(&world, &[]);
    going.signal(Signal::SIGKILL);
    drop(going.wait_dead());
    assert_none_left("sleep 86511");
    let key = fs::read_dir(world.worktrees()).unwrap().next().unwrap().unwrap().path();
    fs::remove_dir_all(key.join("long-1--slow")).unwrap();
    // It is named, and the others go on; the verifier fails for want of it.
    let ran = world.sandbox(&["resume"]).expect(6);
    assert!(ran.stdout.contains("sandbox retry slow --fresh"), "{ran:?}");
    let now = outcomes(&world);
    assert_eq!(now[2].1, "completed", "{now:?}");
    // It is found where it was made, wherever others would be made now.
    let text = PLAN.replace("test $SANDBOX_ATTEMPT != 1 || sleep 86511", "exit 3");
    world.sandbox(&["run", &plan(&world, &text)]).expect(6);
    let elsewhere = world.home().join("elsewhere").display().to_string();
    let mut command = world.sandbox_command(&["retry", "slow"]);
    let told = command.env("SANDBOX_WORKTREES", &elsewhere).output().unwrap();
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("slow  attempt 2 starts"), "{told}");
    assert!(!Path::new(&elsewhere).exists());
}

/// What was captured of a turn that was cut short is told like any other.
#[test]
fn a_turn_that_was_cut_short_is_part_of_the_progress() {
    let world = World::new();
    let going = started(&world, &[]);
    going.signal(Signal::SIGKILL);
    drop(going.wait_dead());
    assert_none_left("sleep 86511");
    let before = count(&world, "git_progress_change_detected");
    // The verifier fails, for want of what never began; what was cut short is kept first.
    drop(world.sandbox(&["merge"]));
    assert_eq!(count(&world, "git_progress_change_detected"), before + 1);
    assert_eq!(world.git(&["show", "refs/sandbox/long-1/slow/1.2:docs/slow-half"]), "partial");
}

/// The events of a run that was killed, gone on with, and has cards.
fn journal_of_a_life() -> Vec<Event> {
    let world = World::new();
    let going = started(&world, &[]);
    going.signal(Signal::SIGKILL);
    drop(going.wait_dead());
    world.sandbox(&["resume"]).expect(0);
    let text = fs::read_to_string(world.store().join("runs/long-1/journal.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A state is a fold of its events: in parts or at once, and in whatever order a damaged journal might give them.
#[test]
fn folding_in_parts_equals_folding_all() {
    let events = journal_of_a_life();
    assert!(events.len() > 40, "{}", events.len());
    let run = events[0].run_id.clone();
    let cases = (Just(events).prop_shuffle(), any::<prop::sample::Index>(), any::<bool>());
    let config = ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() };
    let checked = TestRunner::new(config).run(&cases, |(mut events, cut, in_order)| {
        if in_order {
            events.sort_by_key(|event| event.seq);
        }
        let all = RunState::fold(run.clone(), &events);
        let (prefix, rest) = events.split_at(cut.index(events.len()));
        let mut parts = RunState::fold(run.clone(), prefix);
        for event in rest {
            parts.apply(event);
        }
        prop_assert_eq!(parts, all);
        Ok(())
    });
    checked.unwrap();
}

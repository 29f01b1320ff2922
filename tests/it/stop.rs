//! Ending a run before it is done: by another process, by a key, by the run's own time. What was done by then is kept.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::flow::plan;
use crate::going::{Going, assert_none_left, until};
use crate::world::World;

/// Three agents: one ends when asked to, one never does, one has not begun. Each says when it is at work by a file in its
/// worktree; the number is for finding its processes.
const THREE: &str = r#"
[run]
name = "three"
jobs = 2
[verify]
command = ["true"]
[agents.polite]
owns = ["docs/**"]
run = ["sh", "-c", "trap 'echo asked > docs/asked; exit 3' TERM; echo partial > docs/polite; sleep 86411 & wait"]
[agents.stubborn]
owns = ["src/**"]
run = ["sh", "-c", "trap '' TERM; echo partial > src/stubborn; while :; do sleep 86411; done"]
[agents.later]
owns = ["later"]
run = ["touch", "later"]
"#;

/// A run whose first two agents are at work.
fn begin(world: &World, marker: &str) -> Going {
    let text = THREE.replace("86411", marker);
    let going = Going::start(world, &["run", &plan(world, &text), "--json"]);
    for file in ["three-1--polite/docs/polite", "three-1--stubborn/src/stubborn"] {
        until(file, || find(world, file));
    }
    going
}

/// A file in a worktree, by its path from the folder of all worktrees.
fn find(world: &World, file: &str) -> Option<()> {
    let keys = fs::read_dir(world.worktrees()).ok()?;
    keys.flatten().any(|key| key.path().join(file).exists()).then_some(())
}

fn outcomes(world: &World) -> Vec<(String, String)> {
    let status = world.sandbox(&["status", "--json"]).expect(0).json();
    let row = |row: &Value| (row["agent"].as_str().unwrap().to_owned(), row["state"].as_str().unwrap().to_owned());
    status["data"]["agents"].as_array().unwrap().iter().map(row).collect()
}

/// What a run that was ended leaves: every agent interrupted, and what each had done by then kept.
#[track_caller]
fn assert_all_is_kept(world: &World, marker: &str) {
    assert_none_left(marker);
    let interrupted = ["polite", "stubborn", "later"].map(|agent| (agent.to_owned(), "interrupted".to_owned()));
    assert_eq!(outcomes(world), interrupted);
    for (agent, words) in [("polite", "+partial"), ("stubborn", "+partial")] {
        let patch = world.sandbox(&["inspect", agent, "--patch"]).expect(0).stdout;
        assert!(patch.contains(words), "{patch}");
    }
    let status = world.sandbox(&["status", "--json"]).expect(0).json();
    assert_eq!(status["data"]["state"], "incomplete", "{status:#}");
}

#[test]
fn stop_ends_a_run_in_order() {
    let world = World::new();
    let before = world.picture();
    let going = begin(&world, "86401");
    let pid = going.pid().to_string();
    // A verb that must write waits for nobody: it says who is at work.
    for verb in [&["merge"][..], &["land"], &["verify"], &["retry", "later"]] {
        let ran = world.sandbox(verb).expect(7);
        assert!(ran.stderr.contains(&pid) && ran.stderr.contains("three-1"), "{verb:?} {ran:?}");
    }
    let kept = world.sandbox(&["clean", "three-1"]).expect(0);
    assert!(kept.stdout.contains("the run is at work"), "{kept:?}");
    assert_eq!(world.sandbox(&["status", "--json"]).expect(0).json()["data"]["state"], "running");

    let stopped = world.sandbox(&["stop", "--json"]).expect(0).json();
    assert_eq!((&stopped["data"]["wasRunning"], &stopped["data"]["ended"]), (&true.into(), &true.into()));
    let ran = going.wait().expect(143);
    assert_all_is_kept(&world, "86401");
    assert_eq!(world.picture(), before);
    let last = ran.json_lines().pop().unwrap();
    assert_eq!((&last["type"], &last["data"]["exitCode"]), (&"run.finished".into(), &143.into()), "{last}");
    // It was asked first, and had the time to answer.
    let asked = world.git(&["show", "refs/sandbox/three-1/polite/1.1:docs/asked"]);
    assert_eq!(asked, "asked");

    let again = world.sandbox(&["stop"]).expect(0);
    assert!(again.stdout.contains("three-1 is not running"), "{again:?}");
}

#[test]
fn ctrl_c_ends_a_run_in_order_and_a_second_time_at_once() {
    let world = World::new();
    let going = begin(&world, "86402");
    going.signal(Signal::SIGINT);
    going.wait().expect(130);
    assert_all_is_kept(&world, "86402");

    // Without the second one it would take as long as the grace period, which the stubborn one uses up.
    let world = World::new();
    let mut going = begin(&world, "86403");
    let begun = Instant::now();
    going.signal(Signal::SIGINT);
    going.wait_for(|event| event["type"] == "attempt.finished" && event["agent"] == "polite");
    going.signal(Signal::SIGINT);
    going.wait().expect(130);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_all_is_kept(&world, "86403");
}

#[test]
fn a_run_that_is_out_of_time_ends_in_order() {
    let world = World::new();
    let text = r#"
[run]
name = "late"
timeout = "2s"
[verify]
command = ["true"]
[agents.slow]
owns = ["docs/**"]
run = ["sh", "-c", "echo partial > docs/slow; exec sleep 86404"]
"#;
    let ran = world.sandbox(&["run", &plan(&world, text)]).expect(1);
    assert!(ran.stdout.contains("the run's time is over"), "{ran:?}");
    assert_none_left("sleep 86404");
    assert!(world.sandbox(&["inspect", "slow", "--patch"]).expect(0).stdout.contains("+partial"));
}

#[test]
fn a_stop_during_verification_is_no_verdict() {
    let world = World::new();
    let text = r#"
[run]
name = "judge"
[verify]
command = ["sh", "-c", "touch verifying; exec sleep 86405"]
[agents.quick]
owns = ["docs/**"]
run = ["touch", "docs/new"]
"#;
    let before = world.picture();
    let going = Going::start(&world, &["run", &plan(&world, text), "--json", "--land"]);
    until("the verifier is at work", || find(&world, "judge-1--verify/verifying"));
    going.signal(Signal::SIGTERM);
    let events = going.wait().expect(143).json_lines();
    assert_none_left("sleep 86405");
    let verified = events.iter().find(|event| event["type"] == "verify.finished").unwrap();
    assert_eq!(verified["data"]["verdict"], "none", "{verified:#}");
    assert_eq!(world.picture(), before);
    // What was interrupted is judged anew, and no receipt of it serves.
    fs::write(world.home().join("plan.toml"), "").unwrap();
    let going = Going::start(&world, &["verify"]);
    until("the verifier is at work", || find(&world, "judge-1--verify/verifying"));
    going.signal(Signal::SIGTERM);
    going.wait().expect(143);
}

/// A process of nobody's business here.
struct Stranger(std::process::Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_number_that_passed_to_a_stranger_is_never_signalled() {
    let world = World::new();
    let going = begin(&world, "86406");
    going.signal(Signal::SIGKILL);
    drop(going.wait_dead());
    assert_none_left("86406");
    // A stranger has the number that the dead coordinator's records name: with the start time of another, and with none.
    let stranger = Command::new("sleep").arg("86407").stdin(Stdio::null()).spawn().unwrap();
    let mut stranger = Stranger(stranger);
    let pid = stranger.0.id();
    let run = world.store().join("runs/three-1");
    let told = fs::read_to_string(run.join("journal.jsonl")).unwrap();
    let mut first: Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    let mut invocation = first["data"]["invocation"].take();
    invocation["pid"] = pid.into();
    let lock = serde_json::json!({ "invocation": invocation, "since": "2026-01-01T00:00:00Z" });
    for text in [lock.to_string(), format!("{pid}\n"), String::new()] {
        fs::write(run.join("run.lock"), &text).unwrap();
        let stopped = world.sandbox(&["stop"]).expect(0);
        assert!(stopped.stdout.contains("is not running"), "{text} {stopped:?}");
        let status = world.sandbox(&["status", "--json"]).expect(0).json();
        assert_eq!(status["data"]["state"], "interrupted", "{text}");
    }
    drop(world.sandbox(&["retry", "later"]));
    world.sandbox(&["clean", "three-1"]).expect(0);
    assert_eq!(stranger.0.try_wait().unwrap(), None, "it lives");
    stranger.0.kill().unwrap();
    assert_eq!(stranger.0.wait().unwrap().signal(), Some(9));
}

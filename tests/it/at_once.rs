//! Several programs at once on one repository: who writes is one at a time and named, who reads waits for nobody and never
//! sees half of anything.

use std::fs;
use std::io::ErrorKind;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use serde_json::Value;
use worktree_sandbox::store::lock::{Patience, RunLock};
use worktree_sandbox::store::{RepositoryLock, StateDir};

use crate::flow::plan;
use crate::going::{Going, until};
use crate::world::{World, program};

const ONE: &str =
    "[run]\nname = 'x'\n[verify]\ncommand = ['true']\n[agents.one]\nowns = ['one']\nrun = ['touch', 'one']\n";
const SLOW: &str =
    "[run]\nname = 'x'\n[verify]\ncommand = ['true']\n[agents.one]\nowns = ['one']\nrun = ['sleep', '86701']\n";

const READERS: [&[&str]; 8] = [
    &["status"],
    &["status", "--json"],
    &["inspect", "one"],
    &["inspect", "one", "--patch"],
    &["logs"],
    &["logs", "one"],
    &["board"],
    &["runs"],
];

/// All locks are held by another process that lives: this one.
#[test]
fn readers_wait_for_nobody_and_writers_name_who_is_there() {
    let world = World::new();
    world.sandbox(&["run", &plan(&world, ONE)]).expect(0);
    let state = StateDir::in_common_dir(&world.repo.join(".git"));
    let run = state.run(&"x-1".parse().unwrap());
    let of_run = RunLock::try_acquire(&run).unwrap();
    let of_repository = RepositoryLock::acquire(&state, Patience::default(), |_| {}).unwrap();
    for reader in READERS {
        world.sandbox(reader).expect(0);
    }
    let own = std::process::id().to_string();
    for writer in [&["merge", "x-1"][..], &["verify"], &["land"], &["retry", "one", "--fresh"], &["pause"]] {
        let said = world.sandbox(writer).expect(7).stderr;
        assert!(said.contains(&format!("process {own}")) && said.contains("for "), "{writer:?} {said}");
    }
    // A new run waits for its number, says for whom, and goes on as soon as it can.
    let said = world.home().join("said");
    let mut command = world.sandbox_command(&["run", &plan(&world, ONE)]);
    let mut waiting = command.stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap()).spawn().unwrap();
    let words = format!("waiting for another `sandbox` on this repository (process {own})");
    until("it says for whom it waits", || fs::read_to_string(&said).unwrap().contains(&words).then_some(()));
    assert_eq!(waiting.try_wait().unwrap(), None);
    drop(of_repository);
    let ended = until("it goes on", || waiting.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0), "{}", fs::read_to_string(&said).unwrap());
    drop(of_run);
    world.sandbox(&["merge", "x-1"]).expect(0);
}

#[test]
fn a_lock_of_a_dead_process_is_free_at_once() {
    let world = World::new();
    let mut going = Going::start(&world, &["run", &plan(&world, SLOW), "--json"]);
    going.wait_for(|event| event["type"] == "turn.started");
    let held = world.sandbox(&["merge"]).expect(7);
    assert!(held.stderr.contains(&format!("process {}", going.pid())), "{held:?}");
    going.signal(Signal::SIGKILL);
    drop(going.wait_dead());
    // The file says still that it is held.
    let text = fs::read_to_string(world.store().join("runs/x-1/run.lock")).unwrap();
    assert!(text.contains("pid"), "{text}");
    assert_eq!(world.sandbox(&["status", "--json"]).expect(0).json()["data"]["state"], "interrupted");
    world.sandbox(&["merge"]).expect(1);
}

#[test]
fn all_worktrees_of_a_repository_are_one_place() {
    let world = World::new();
    let other = world.home().join("other");
    world.git(&["worktree", "add", "-q", other.to_str().unwrap(), "-b", "side"]);
    let from_other = |arguments: &[&str]| {
        let mut command = world.command(program());
        crate::world::Ran::from(command.args(arguments).current_dir(&other).output().unwrap())
    };
    let mut going = Going::start(&world, &["run", &plan(&world, SLOW), "--json"]);
    going.wait_for(|event| event["type"] == "turn.started");
    let pid = going.pid().to_string();
    assert_eq!(from_other(&["status", "--json"]).expect(0).json()["data"]["state"], "running");
    assert!(from_other(&["merge"]).expect(7).stderr.contains(&pid));
    from_other(&["pause"]).expect(0);
    assert_eq!(world.sandbox(&["status", "--json"]).expect(0).json()["data"]["paused"], true);
    // A run of its own goes beside it, and has the next number.
    let path = plan(&world, &ONE.replace("'x'", "'y'"));
    let events = from_other(&["run", &path, "--json"]).expect(0).json_lines();
    assert_eq!((&events[0]["runId"], &events[0]["data"]["target"]), (&"y-2".into(), &"refs/heads/side".into()));
    from_other(&["stop", "x-1"]).expect(0);
    going.wait().expect(143);
}

#[test]
fn nobody_ever_reads_half_of_anything() {
    let world = World::new();
    let mut text = "[run]\nname = 'x'\njobs = 3\n[verify]\ncommand = ['true']\n".to_owned();
    for agent in ["a", "b", "c"] {
        let turns: Vec<String> = (1..=6).map(|turn| format!("['sh', '-c', 'echo {turn} >> {agent}']")).collect();
        text.extend([format!("[agents.{agent}]\nowns = ['{agent}']\nturns = [{}]\n", turns.join(", "))]);
    }
    let mut going = Going::start(&world, &["run", &plan(&world, &text), "--json"]);
    going.wait_for(|event| event["type"] == "run.started");
    let run = world.store().join("runs/x-1");
    let over = AtomicBool::new(false);
    let follower = Going::start(&world, &["logs", "--follow", "--json"]);
    let counts = std::thread::scope(|scope| {
        let files = scope.spawn(|| {
            let mut read = 0;
            while !over.load(Ordering::Relaxed) {
                for name in ["status.json", "git-progress/latest.json", "settings.json", "host.json"] {
                    match fs::read(run.join(name)) {
                        Ok(bytes) => drop(
                            serde_json::from_slice::<Value>(&bytes).unwrap_or_else(|error| panic!("{name}: {error}")),
                        ),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{name}"),
                    }
                    read += 1;
                }
            }
            read
        });
        let verbs = scope.spawn(|| {
            let mut seen = 0;
            let mut asked = 0;
            while !over.load(Ordering::Relaxed) {
                let events = world.sandbox(&["logs", "--json"]).expect(0).json_lines();
                let numbers = events.iter().map(|event| event["seq"].as_u64().unwrap());
                assert!(numbers.eq(1..=events.len() as u64), "no gap");
                assert!(events.len() >= seen, "what was told is not taken back");
                seen = events.len();
                let status = world.sandbox(&["status", "--json"]).expect(0).json();
                assert_eq!(status["data"]["agents"].as_array().unwrap().len(), 3);
                asked += 1;
            }
            asked
        });
        let ended = going.wait();
        over.store(true, Ordering::Relaxed);
        ended.expect(0);
        (files.join().unwrap(), verbs.join().unwrap())
    });
    assert!(counts.0 > 10 && counts.1 > 1, "{counts:?}");
    let told = follower.wait().expect(0).json_lines();
    let journal = fs::read_to_string(run.join("journal.jsonl")).unwrap();
    assert_eq!(told.len(), journal.lines().count());
}

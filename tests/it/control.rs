//! Steering a run from another terminal while it goes on: pausing, stopping and skipping agents, trying them again.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::flow::plan;
use crate::going::{Going, assert_none_left, until};
use crate::world::{Ran, USER, World, is_root};

/// A plan whose agents wait for leave: each of them writes `<dir>/ready`, waits for `<dir>/go`, and does the rest of its line.
struct Agents {
    jobs: usize,
    lines: Vec<(&'static str, &'static str, &'static str)>,
    verify: &'static str,
}

impl Agents {
    /// `lines`: an agent's name, more keys of it, and what it does in the end.
    fn new(jobs: usize, lines: &[(&'static str, &'static str, &'static str)]) -> Self {
        Self { jobs, lines: lines.to_vec(), verify: "true" }
    }

    fn text(&self) -> String {
        let mut text =
            format!("[run]\nname = \"x\"\njobs = {}\n[verify]\ncommand = ['sh', '-c', '{}']\n", self.jobs, self.verify);
        for (name, keys, then) in &self.lines {
            let script = format!(
                "mkdir -p {name}; touch {name}/ready; until test -e {name}/go; do sleep 0.02; done; rm {name}/go; {then}"
            );
            text.extend([format!(
                "[agents.{name}]\nowns = ['{name}/**']\n{keys}\nrun = ['sh', '-c', '''{script}''']\n"
            )]);
        }
        text
    }

    fn start(&self, world: &World, more: &[&str]) -> Going {
        let path = plan(world, &self.text());
        let arguments: Vec<&str> = ["run", &path, "--json"].into_iter().chain(more.iter().copied()).collect();
        Going::start(world, &arguments)
    }
}

fn folder(world: &World, agent: &str) -> Option<PathBuf> {
    let keys = fs::read_dir(world.worktrees()).ok()?;
    keys.flatten().map(|key| key.path().join(format!("x-1--{agent}"))).find(|path| path.exists())
}

fn ready(world: &World, agent: &str) {
    until(&format!("{agent} is at work"), || folder(world, agent)?.join(agent).join("ready").exists().then_some(()));
}

fn go(world: &World, agent: &str) {
    ready(world, agent);
    fs::write(folder(world, agent).unwrap().join(agent).join("go"), "").unwrap();
}

fn status(world: &World) -> Value {
    world.sandbox(&["status", "--json"]).expect(0).json()["data"].clone()
}

fn state_of(world: &World, agent: &str) -> String {
    let status = status(world);
    let rows = status["agents"].as_array().unwrap();
    rows.iter().find(|row| row["agent"] == agent).unwrap()["state"].as_str().unwrap().to_owned()
}

fn socket(world: &World) -> PathBuf {
    world.store().join("runs/x-1/control.sock")
}

fn ended(agent: &'static str) -> impl Fn(&Value) -> bool {
    move |event| event["type"] == "attempt.finished" && event["agent"] == agent
}

/// Where the first event is that is looked for.
#[track_caller]
fn place(events: &[Value], what: &str, wanted: impl Fn(&Value) -> bool) -> usize {
    events.iter().position(wanted).unwrap_or_else(|| panic!("no {what} in {events:#?}"))
}

#[test]
fn a_paused_run_begins_nothing_new_until_it_is_continued() {
    let world = World::new();
    let agents = Agents::new(
        2,
        &[
            ("one", "", "echo 1 > one/f"),
            ("two", "attempts = 2", "test -e two/again || { touch two/again; exit 1; }"),
            ("three", "", "echo 3 > three/f"),
        ],
    );
    let mut going = agents.start(&world, &["--land"]);
    ready(&world, "one");
    ready(&world, "two");
    let said = world.sandbox(&["pause", "--json"]).expect(0).json();
    assert_eq!(said["data"], json!({ "paused": true, "changed": true }));
    assert_eq!(world.sandbox(&["pause", "--json"]).expect(0).json()["data"]["changed"], false);
    let now = status(&world);
    assert_eq!((&now["state"], &now["paused"]), (&json!("running"), &json!(true)));
    assert!(world.sandbox(&["status"]).expect(0).stdout.contains("running, paused"));
    // A place gets free, and an attempt fails that has another: neither is used.
    go(&world, "one");
    going.wait_for(ended("one"));
    go(&world, "two");
    going.wait_for(ended("two"));
    assert_eq!(state_of(&world, "three"), "pending");
    let said = world.sandbox(&["resume", "--json"]).expect(0).json();
    assert_eq!(said["data"], json!({ "paused": false, "changed": true }));
    // It is at work, and not paused any more: as ever.
    world.sandbox(&["resume"]).expect(7);
    go(&world, "three");
    go(&world, "two");
    let events = going.wait().expect(0).json_lines();
    let paused = place(&events, "pause", |event| event["type"] == "run.paused");
    let continued = place(&events, "going on", |event| event["type"] == "run.continued");
    assert_eq!(events[paused]["data"]["by"]["uid"], nix::unistd::geteuid().as_raw());
    assert!(paused < continued);
    assert!(place(&events, "three", |event| event["agent"] == "three") > continued);
    let second = |event: &Value| event["agent"] == "two" && event["attempt"] == 2;
    assert!(place(&events, "a second attempt", second) > continued);
    assert_eq!(status(&world)["paused"], false);
    assert!(!socket(&world).exists(), "gone with its coordinator");
}

#[test]
fn a_run_whose_agents_have_all_ended_waits_as_well_while_it_is_paused() {
    let world = World::new();
    let mut going = Agents::new(1, &[("one", "", "echo 1 > one/f")]).start(&world, &[]);
    ready(&world, "one");
    world.sandbox(&["pause"]).expect(0);
    go(&world, "one");
    going.wait_for(ended("one"));
    // Nothing is at work any more, and there is time to have it done again.
    let queued = until("it is taken back", || {
        Some(world.sandbox(&["retry", "one", "--json"])).filter(|ran| ran.code == Some(0))
    });
    assert_eq!(queued.json()["data"], json!({ "agent": "one", "queued": true, "fromFork": false }));
    world.sandbox(&["resume"]).expect(0);
    go(&world, "one");
    let events = going.wait().expect(0).json_lines();
    let continued = place(&events, "going on", |event| event["type"] == "run.continued");
    assert!(place(&events, "merging", |event| event["data"]["stage"] == "integrate") > continued);
    assert_eq!(events.iter().filter(|event| ended("one")(event)).count(), 2);
    // A paused run is ended like any other.
    let world = World::new();
    let going = Agents::new(1, &[("one", "", "true"), ("two", "", "true")]).start(&world, &[]);
    ready(&world, "one");
    world.sandbox(&["pause"]).expect(0);
    world.sandbox(&["stop"]).expect(0);
    going.wait().expect(143);
    let now = status(&world);
    assert_eq!((&now["state"], &now["paused"]), (&json!("incomplete"), &json!(false)));
}

#[test]
fn one_agent_is_stopped_and_the_others_go_on() {
    let world = World::new();
    let agents = Agents::new(
        3,
        &[
            ("one", "", "echo 1 > one/f"),
            ("two", "attempts = 3", "sleep 86501"),
            ("after", "after = ['two']", "true"),
            ("last", "after = ['one']", "true"),
        ],
    );
    let going = agents.start(&world, &[]);
    ready(&world, "one");
    go(&world, "two");
    // By another of its names, and by two at once.
    let both: Vec<Ran> = std::thread::scope(|scope| {
        let stop = |arguments: &'static [&'static str]| scope.spawn(|| world.sandbox(arguments));
        let both = [stop(&["stop", "tw", "--json"]), stop(&["stop", "two", "--run", "x-1", "--json"])];
        both.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let told = both.iter().filter(|ran| ran.code == Some(0)).map(|ran| ran.json()["data"].clone());
    let told: Vec<Value> = told.collect();
    assert!(!told.is_empty(), "{both:?}");
    for data in told {
        assert_eq!(data, json!({ "agent": "two", "wasRunning": true, "outcome": "interrupted" }));
    }
    for late in both.into_iter().filter(|ran| ran.code != Some(0)) {
        assert!(late.expect(7).stdout.contains("has ended already"));
    }
    assert_none_left("sleep 86501");
    assert_eq!((state_of(&world, "two").as_str(), state_of(&world, "after").as_str()), ("interrupted", "blocked"));
    // One that waits is ended too; and no other attempt of either is made in this run.
    world.sandbox(&["stop", "last"]).expect(0);
    let late = world.sandbox(&["stop", "two"]).expect(7);
    assert!(late.stderr.contains("agent `two` has ended already: interrupted"), "{late:?}");
    world.sandbox(&["stop", "nobody"]).expect(2);
    go(&world, "one");
    let events = going.wait().expect(1).json_lines();
    let why = &events[place(&events, "block", ended("after"))]["data"]["reason"];
    assert!(why.as_str().unwrap().contains("`two`"), "{why}");
    assert_eq!(events.iter().filter(|event| ended("two")(event)).count(), 1);
    assert_eq!(state_of(&world, "one"), "completed");
    // What it had done is kept; and whoever goes on with the run goes on with it.
    assert!(world.sandbox(&["inspect", "two", "--files"]).expect(0).stdout.contains("two/ready"));
    let at_rest = world.sandbox(&["stop", "two", "--json"]).expect(0).json();
    assert_eq!(at_rest["data"], json!({ "agent": "two", "wasRunning": false, "outcome": "interrupted" }));
}

#[test]
fn what_is_skipped_is_left_out_and_the_rest_lands() {
    let world = World::new();
    let agents = Agents::new(
        2,
        &[
            ("one", "", "echo 1 > one/f"),
            ("two", "", "sleep 86502"),
            ("three", "after = ['two']", "true"),
            ("four", "after = ['one']", "true"),
        ],
    );
    let going = agents.start(&world, &["--land"]);
    ready(&world, "one");
    go(&world, "two");
    let skipped = world.sandbox(&["skip", "two", "--json"]).expect(0).json();
    let expected = json!({ "agent": "two", "outcome": "skipped", "wasRunning": true, "changed": true });
    assert_eq!(skipped["data"], expected);
    assert_none_left("sleep 86502");
    for agent in ["three", "four", "four"] {
        world.sandbox(&["skip", agent]).expect(0);
    }
    go(&world, "one");
    going.wait().expect(0);
    assert_eq!(
        ["one", "two", "three", "four"].map(|agent| state_of(&world, agent)),
        ["completed", "skipped", "skipped", "skipped"]
    );
    assert_eq!(world.git(&["ls-tree", "--name-only", "HEAD", "one/", "two/"]), "one/f\none/ready");
    assert!(world.sandbox(&["inspect", "two", "--files"]).expect(0).stdout.contains("two/ready"), "kept all the same");
}

#[test]
fn a_run_of_which_everything_is_skipped_is_not_complete() {
    let world = World::new();
    let going = Agents::new(1, &[("one", "", "true")]).start(&world, &["--land"]);
    ready(&world, "one");
    world.sandbox(&["skip", "one"]).expect(0);
    going.wait().expect(1);
}

#[test]
fn one_is_skipped_in_a_run_that_nobody_coordinates() {
    let world = World::new();
    let agents = Agents::new(2, &[("one", "", "echo 1 > one/f"), ("two", "", "sleep 86503"), ("three", "", "true")]);
    let going = agents.start(&world, &["--land"]);
    ready(&world, "one");
    ready(&world, "two");
    world.sandbox(&["pause"]).expect(0);
    going.signal(Signal::SIGKILL);
    drop(going.wait_dead());
    // It is left behind, and nobody is there.
    assert!(socket(&world).symlink_metadata().unwrap().file_type().is_socket());
    let now = status(&world);
    assert_eq!((&now["state"], &now["paused"]), (&json!("interrupted"), &json!(true)));
    assert!(world.sandbox(&["status"]).expect(0).stdout.contains("interrupted while paused"));
    let nobody = world.sandbox(&["pause"]).expect(2);
    assert!(nobody.stderr.contains("x-1") && nobody.stderr.contains("is not at work"), "{nobody:?}");

    for (agent, changed) in [("two", true), ("three", true), ("two", false)] {
        let skipped = world.sandbox(&["skip", agent, "--json"]).expect(0).json();
        let expected = json!({ "agent": agent, "outcome": "skipped", "wasRunning": false, "changed": changed });
        assert_eq!(skipped["data"], expected);
    }
    // What the one had done when its coordinator died is kept.
    assert!(world.sandbox(&["inspect", "two", "--files"]).expect(0).stdout.contains("two/ready"));
    assert_eq!(status(&world)["state"], "interrupted", "it is not over by that");
    let resumed = Going::start(&world, &["resume", "--json"]);
    go(&world, "one");
    let resumed = resumed.wait().expect(0);
    assert!(resumed.stderr.contains("the run was paused"), "{resumed:?}");
    place(&resumed.json_lines(), "going on", |event| event["type"] == "run.continued");
    assert_eq!(["one", "two", "three"].map(|agent| state_of(&world, agent)), ["completed", "skipped", "skipped"]);
    assert_eq!(world.git(&["ls-tree", "--name-only", "HEAD", "one/", "two/"]), "one/f\none/ready");
    let completed = world.sandbox(&["skip", "one"]).expect(2);
    assert!(completed.stderr.contains("has completed"), "{completed:?}");
}

#[test]
fn an_agent_is_tried_again_while_the_run_goes_on() {
    let world = World::new();
    let agents = Agents::new(
        2,
        &[
            ("one", "", "echo 1 > one/f"),
            ("two", "", "test -e two/flag && exit 0; touch two/flag; exit 1"),
            ("three", "after = ['two']", "echo 3 > three/f"),
            ("four", "after = ['three']", "true"),
        ],
    );
    let mut going = agents.start(&world, &[]);
    ready(&world, "one");
    let early = world.sandbox(&["retry", "two"]).expect(7);
    assert!(early.stderr.contains("has not ended yet") && early.stderr.contains(&going.pid().to_string()), "{early:?}");
    go(&world, "two");
    going.wait_for(ended("four"));
    assert_eq!(["two", "three", "four"].map(|agent| state_of(&world, agent)), ["failed", "blocked", "blocked"]);
    let blocked = world.sandbox(&["retry", "three"]).expect(7);
    assert!(blocked.stderr.contains("is blocked"), "{blocked:?}");
    let fresh = world.sandbox(&["retry", "two", "--fresh"]).expect(7);
    assert!(fresh.stderr.contains("x-1"), "{fresh:?}");
    world.sandbox(&["retry", "two"]).expect(0);
    go(&world, "two");
    ready(&world, "three");
    // It ends well this time, and another builds on it now.
    let late = world.sandbox(&["retry", "two"]).expect(7);
    assert!(late.stderr.contains("`three` builds on what agent `two` made"), "{late:?}");
    for agent in ["three", "four", "one"] {
        go(&world, agent);
    }
    going.wait().expect(0);
    let states = ["one", "two", "three", "four"].map(|agent| state_of(&world, agent));
    assert_eq!(states, ["completed"; 4]);
}

#[test]
fn from_its_fork_point_an_agent_begins_in_a_new_worktree() {
    // Alive, and at rest.
    for alive in [true, false] {
        let world = World::new();
        let agents = Agents::new(
            2,
            &[("one", "", "echo 1 > one/f"), ("two", "", "test ! -e two/flag || exit 9; touch two/flag; exit 1")],
        );
        let mut going = agents.start(&world, &[]);
        ready(&world, "one");
        go(&world, "two");
        going.wait_for(ended("two"));
        let retry = &["retry", "two", "--from-fork", "--json"];
        let new = || folder(&world, "two.2").filter(|path| path.join("two/ready").exists());
        let leave = |path: PathBuf| fs::write(path.join("two/go"), "").unwrap();
        if alive {
            until("it is taken back", || (world.sandbox(retry).code == Some(0)).then_some(()));
            leave(until("the new worktree", new));
            going.wait_for(ended("two"));
            go(&world, "one");
            going.wait().expect(1);
        } else {
            go(&world, "one");
            going.wait().expect(1);
            let going = Going::start(&world, retry);
            leave(until("the new worktree", new));
            going.wait().expect(1);
        }
        // It did not see what it had made before, which is where it was, and pinned.
        let attempts = world.sandbox(&["inspect", "two", "--json"]).expect(0).json();
        let ends: Vec<&Value> =
            attempts["data"]["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["reason"]).collect();
        assert_eq!(ends.len(), 2, "{attempts:#}");
        assert!(ends.iter().all(|end| end.as_str().unwrap().ends_with("exit status 1")), "{ends:?}");
        assert!(folder(&world, "two").unwrap().join("two/flag").exists());
        for turn in ["1.1", "2.1"] {
            let tree = world.git(&["ls-tree", "--name-only", &format!("refs/sandbox/x-1/two/{turn}"), "two/"]);
            assert_eq!(tree, "two/flag\ntwo/ready", "{turn}");
        }
        let base = world.git(&["rev-parse", "refs/sandbox/x-1/base"]);
        assert_eq!(world.git(&["rev-parse", "refs/sandbox/x-1/two/2.1^"]), base, "one step from the fork point");
    }
}

#[test]
fn a_promised_attempt_is_made_though_the_coordinator_dies() {
    let world = World::new();
    let agents = Agents::new(1, &[("one", "", "test -e one/flag || { touch one/flag; exit 1; }"), ("two", "", "true")]);
    let mut going = agents.start(&world, &[]);
    go(&world, "one");
    going.wait_for(ended("one"));
    ready(&world, "two");
    // There is no room for it yet.
    world.sandbox(&["retry", "one"]).expect(0);
    going.signal(Signal::SIGKILL);
    drop(going.wait_dead());
    let going = Going::start(&world, &["resume", "--json"]);
    go(&world, "one");
    go(&world, "two");
    going.wait().expect(0);
    assert_eq!(["one", "two"].map(|agent| state_of(&world, agent)), ["completed", "completed"]);
}

#[test]
fn it_is_too_late_once_the_agents_have_ended() {
    let world = World::new();
    let mut agents = Agents::new(1, &[("one", "", "echo 1 > one/f")]);
    agents.verify = "touch judging; until test -e done; do sleep 0.02; done; rm judging done";
    let going = agents.start(&world, &[]);
    go(&world, "one");
    until("the verifier is at work", || folder(&world, "verify")?.join("judging").exists().then_some(()));
    for verb in [&["pause"][..], &["skip", "one"], &["retry", "one"], &["stop", "one"], &["resume"]] {
        let late = world.sandbox(verb).expect(7);
        assert!(late.stderr.contains("its agents have all ended"), "{verb:?} {late:?}");
        assert!(late.stderr.contains(&going.pid().to_string()), "{verb:?} {late:?}");
    }
    fs::write(folder(&world, "verify").unwrap().join("done"), "").unwrap();
    going.wait().expect(0);
}

/// Says a line to the coordinator as it is, and gives its answer.
fn say(world: &World, line: &str) -> Value {
    let mut stream = UnixStream::connect(socket(world)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // It may have answered and closed before all is said.
    drop(stream.write_all(line.as_bytes()));
    let mut answer = String::new();
    drop(BufReader::new(stream).read_line(&mut answer));
    serde_json::from_str(&answer).unwrap_or(Value::Null)
}

#[test]
fn only_who_may_is_listened_to_and_nobody_holds_it_up() {
    let world = World::new();
    let mut going = Agents::new(1, &[("one", "", "echo 1 > one/f")]).start(&world, &[]);
    ready(&world, "one");
    let path = socket(&world);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let key = fs::read_to_string(path.with_file_name("control.key")).unwrap();
    let pong = say(&world, &format!("{}\n", json!({ "v": 1, "key": key, "command": "ping" })));
    assert_eq!(pong["ok"], json!({ "done": "pong", "run": "x-1", "pid": going.pid() }));
    let long = format!("{{\"v\":1,\"x\":\"{}\"}}\n", "x".repeat(5000));
    for (line, kind) in [
        (json!({ "v": 1, "command": "pause" }).to_string(), "denied"),
        (json!({ "v": 1, "key": "x", "command": "pause" }).to_string(), "denied"),
        (json!({ "v": 1, "key": key, "command": "land" }).to_string(), "unknown_request"),
        (json!({ "v": 9, "key": key, "command": "pause" }).to_string(), "unsupported_version"),
        (json!({ "v": 1, "key": key, "command": "skip", "agent": "nobody" }).to_string(), "unknown_agent"),
        ("pause".to_owned(), "bad_request"),
        (long, "bad_request"),
    ] {
        assert_eq!(say(&world, &format!("{line}\n"))["error"]["kind"], kind, "{line}");
    }
    // More than there is room for, each of whom says nothing, or half of something.
    let mut silent: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&path).unwrap()).collect();
    for stream in silent.iter_mut().step_by(2) {
        stream.write_all(b"{\"v\":1,").unwrap();
    }
    until("it is listened to again", || (world.sandbox(&["pause"]).code == Some(0)).then_some(()));
    drop(silent);
    assert_eq!(status(&world)["paused"], true);
    world.sandbox(&["resume"]).expect(0);
    go(&world, "one");
    going.wait_for(ended("one"));
    going.wait().expect(0);
}

#[test]
fn another_user_is_refused_even_where_the_folders_are_open() {
    // An ordinary user cannot become another one.
    if !is_root() {
        return;
    }
    let mut world = World::new();
    let going = Agents::new(1, &[("one", "", "echo 1 > one/f")]).start(&world, &[]);
    ready(&world, "one");
    for place in [world.store(), world.store().join("runs"), world.store().join("runs/x-1")] {
        fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in ["control.sock", "control.key", "journal.jsonl", "run.lock"] {
        fs::set_permissions(world.store().join("runs/x-1").join(name), fs::Permissions::from_mode(0o666)).unwrap();
    }
    for place in [world.store().join("FORMAT"), world.home().join(".gitconfig")] {
        fs::set_permissions(place, fs::Permissions::from_mode(0o644)).unwrap();
    }
    world.set("GIT_CONFIG_COUNT", "1");
    world.set("GIT_CONFIG_KEY_0", "safe.directory");
    world.set("GIT_CONFIG_VALUE_0", "*");
    fs::write(world.home().join(".gitconfig"), "[safe]\n\tdirectory = *\n").unwrap();
    let mut command = world.sandbox_command(&["pause"]);
    command.uid(USER).gid(USER);
    let refused = Ran::from(command.output().unwrap()).expect(4);
    assert!(refused.stderr.contains(&format!("user 0, and user {USER} asks")), "{refused:?}");
    assert_eq!(status(&world)["paused"], false);
    go(&world, "one");
    going.wait().expect(0);
}

#[test]
fn an_agent_neither_sees_nor_reaches_it() {
    let world = World::new();
    let store = world.store().display().to_string();
    let repo = world.repo.display().to_string();
    world.script(
        "attack",
        &format!(
            "mkdir -p one; touch one/ready; until test -e one/go; do sleep 0.02; done; rm one/go
             {{ ls -a {store} {store}/runs/x-1; cat {store}/runs/x-1/control.key; }} > one/seen 2>&1
             for place in {store}/runs/x-1/control.sock /proc/self/cwd/../../control.sock; do test -e $place && echo there >> one/seen; done
             for verb in 'pause' 'stop' 'skip two' 'retry two'; do sandbox -C {repo} $verb >> one/said 2>&1 && echo DONE >> one/said; done
             exit 0\n"
        ),
    );
    let text = format!("{}[agents.other]\nowns = ['one/**']\nrun = ['attack']\n", Agents::new(1, &[]).text())
        .replace("agents.other", "agents.one");
    let going = Going::start(&world, &["run", &plan(&world, &text), "--json"]);
    ready(&world, "one");
    // From outside all of it works.
    assert!(socket(&world).exists());
    world.sandbox(&["pause"]).expect(0);
    world.sandbox(&["resume"]).expect(0);
    go(&world, "one");
    let events = going.wait().expect(0).json_lines();
    let asked = events.iter().filter(|event| event["type"] == "run.paused").count();
    assert_eq!(asked, 1, "that from outside");
    let seen = world.git(&["show", "refs/sandbox/x-1/one/1.1:one/seen"]);
    assert!(!seen.contains("control") || seen.contains("No such file"), "{seen}");
    assert!(!seen.contains("there"), "{seen}");
    let said = world.git(&["show", "refs/sandbox/x-1/one/1.1:one/said"]);
    assert!(!said.contains("DONE") && said.contains("there is no run"), "{said}");
}

#[test]
fn a_repository_may_lie_deeper_than_a_sockets_address_is_long() {
    let outer = tempfile::tempdir().unwrap();
    fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let deep = outer.path().join("deep".repeat(30)).join("er".repeat(40));
    fs::create_dir_all(&deep).unwrap();
    let short = tempfile::tempdir().unwrap();
    let world = World::below(&deep).with_state(short.path().to_owned());
    world.write("README.md", "x\n");
    world.commit("base");
    assert!(socket(&world).as_os_str().len() > 108);
    let going = Agents::new(1, &[("one", "", "echo 1 > one/f")]).start(&world, &[]);
    ready(&world, "one");
    world.sandbox(&["pause"]).expect(0);
    assert!(socket(&world).exists());
    world.sandbox(&["resume"]).expect(0);
    go(&world, "one");
    going.wait().expect(0);
}

#[test]
fn without_a_socket_a_run_goes_on_and_says_so() {
    let world = World::new();
    // The run's folder is made under this name, and what is in the way in it cannot be removed as a file.
    let going = Agents::new(1, &[("one", "", "exit 1")]).start(&world, &[]);
    go(&world, "one");
    going.wait().expect(1);
    fs::create_dir(socket(&world)).unwrap();
    let going = Going::start(&world, &["retry", "one"]);
    ready(&world, "one");
    until("it is at work again", || Path::new(&socket(&world)).is_dir().then_some(()));
    go(&world, "one");
    let ran = going.wait().expect(1);
    assert!(ran.stderr.contains("cannot be paused or steered"), "{ran:?}");
    assert!(socket(&world).is_dir(), "what is not ours stays");
}

/// Everything at once, again and again, while agents end: whatever is answered, every agent comes to one end, and the run
/// to its own.
#[test]
fn whatever_comes_together_every_agent_has_one_end() {
    let world = World::new();
    let lines =
        [("one", "", "true"), ("two", "", "exit 1"), ("three", "after = ['one']", "true"), ("four", "", "true")];
    let mut text = Agents::new(2, &[]).text();
    for (name, keys, then) in lines {
        text.extend([format!(
            "[agents.{name}]\nowns = ['{name}']\n{keys}\nrun = ['sh', '-c', 'echo x >> {name}; {then}']\n"
        )]);
    }
    let going = Going::start(&world, &["run", &plan(&world, &text), "--json"]);
    until("the run", || world.store().join("runs/x-1/journal.jsonl").exists().then_some(()));
    let verbs: [&[&str]; 8] = [
        &["pause"],
        &["resume"],
        &["stop", "one", "--run", "x-1"],
        &["skip", "two"],
        &["retry", "two"],
        &["skip", "three"],
        &["stop", "four", "--run", "x-1"],
        &["status"],
    ];
    std::thread::scope(|scope| {
        for verb in verbs.iter().chain(&verbs) {
            let world = &world;
            scope.spawn(move || {
                let ran = world.sandbox(verb);
                // Done; too late; at rest by now (where a verb then does what it does at rest).
                assert!(matches!(ran.code, Some(0 | 1 | 2 | 7)), "{verb:?} {ran:?}");
            });
        }
    });
    // Whoever came last may have paused it.
    drop(world.sandbox(&["resume"]));
    let ended = going.wait();
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    let journal = fs::read_to_string(world.store().join("runs/x-1/journal.jsonl")).unwrap();
    let events: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for agent in ["one", "two", "three", "four"] {
        let ends = events.iter().filter(|event| event["type"] == "attempt.finished" && event["agent"] == agent);
        let numbers: Vec<u64> = ends.map(|event| event["attempt"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "each attempt of {agent} ended once");
        assert!(!numbers.is_empty(), "{agent}");
    }
    let now = status(&world);
    assert!(now["state"] == "complete" || now["state"] == "incomplete", "{now:#}");
}

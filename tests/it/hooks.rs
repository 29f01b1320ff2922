//! The user's own commands: for what happens in a run, and git's `pre-merge-commit` before a landing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::flow::plan;
use crate::going::{Going, until};
use crate::world::World;

/// A command that keeps what it is given: `keep NAME` appends its input to a file, and its surroundings to another.
const KEEP: &str = r#"
cat >> "$HOME/$1.events"
{ pwd; env | grep -E '^(SANDBOX|GIT)_' | sort; } > "$HOME/$1.surroundings"
"#;

fn kept(world: &World, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(world.home().join(format!("{name}.events"))).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn journal(world: &World, run: &str) -> Vec<Value> {
    let text = fs::read_to_string(world.store().join(format!("runs/{run}/journal.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_type<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

const AGENT: &str = r#"
[verify]
command = ["true"]
[agents.one]
owns = ["docs/**"]
run = ["sh", "-ec", "echo y > docs/x.txt; git config sandbox.hook.gateDecided 'touch pwned'; git config --global sandbox.hook.landed 'touch pwned' || true"]
"#;

#[test]
fn each_point_has_its_command_run_with_the_event() {
    let mut world = World::new();
    world.script("keep", KEEP);
    world.set("GIT_AUTHOR_NAME", "leaks");
    let points = ["run_started", "agent_finished", "card_opened", "gate_decided", "landed"];
    let hooks = points.map(|point| format!("{point} = [\"keep\", \"{point}\"]\n")).concat();
    world.git(&["config", "sandbox.hook.landed", "keep 'of settings'"]);
    world.git(&["config", "sandbox.hook.agentFinished", "keep \"of agents\""]);
    let text = format!("[run]\nname = \"h\"\n[hooks]\n{hooks}{AGENT}");
    let ran = world.sandbox(&["run", &plan(&world, &text), "--land"]).expect(0);
    assert!(ran.stderr.contains("outside every box") && ran.stderr.contains("keep landed"), "{}", ran.stderr);
    let events = journal(&world, "h-1");
    let of = |kind: &str| of_type(&events, kind).into_iter().cloned().collect::<Vec<Value>>();
    assert_eq!(kept(&world, "run_started"), of("run.started"));
    assert_eq!(kept(&world, "agent_finished"), of("attempt.finished"));
    assert_eq!(kept(&world, "gate_decided"), of("gate.decided"));
    let mut landed = of("effect.confirmed");
    landed.retain(|event| event["data"]["effect"] == "land");
    assert_eq!((landed.len(), &kept(&world, "landed")), (1, &landed));
    assert_eq!(kept(&world, "of settings"), landed, "the user's own come beside the plan's");
    assert_eq!(kept(&world, "of agents"), of("attempt.finished"));
    assert_eq!(kept(&world, "card_opened").len(), 0);
    assert!(!world.repo.join("pwned").exists(), "what an agent sets is no hook");
    let around = fs::read_to_string(world.home().join("agent_finished.surroundings")).unwrap();
    let folder = world.store().join("runs/h-1");
    let expected = format!(
        "{}\nSANDBOX_AGENT=one\nSANDBOX_EVENT=attempt.finished\nSANDBOX_HOOK=agent_finished\nSANDBOX_RUN=h-1\nSANDBOX_RUN_DIR={}\n",
        world.repo.display(),
        folder.display()
    );
    assert_eq!(around, expected);
    let told = of("hook.finished");
    assert_eq!(told.len(), 6, "{told:?}");
    assert!(
        told.iter().all(|event| event["data"]["error"].is_null() && event["data"]["end"]["value"] == 0),
        "{told:?}"
    );
    let seq = landed[0]["seq"].clone();
    let landed: Vec<&Value> = told.iter().filter(|event| event["data"]["of"] == seq).collect();
    assert_eq!(
        landed.iter().map(|event| event["data"]["source"].as_str().unwrap()).collect::<Vec<_>>(),
        ["plan", "settings"]
    );
    assert_eq!(events.last().unwrap()["type"], "run.finished");
}

#[test]
fn a_card_has_its_command_run() {
    let world = World::new();
    world.script("keep", KEEP);
    let text = "[run]\nname = \"h\"\n[hooks]\ncard_opened = [\"keep\", \"card\"]\n[verify]\ncommand = [\"true\"]\n[agents.one]\nowns = [\"docs/**\"]\nrun = [\"sh\", \"-c\", \"echo y > README.md\"]\n";
    world.sandbox(&["run", &plan(&world, text)]).expect(5);
    let cards = kept(&world, "card");
    assert_eq!(cards.len(), 1);
    assert_eq!((&cards[0]["data"]["kind"], &cards[0]["agent"]), (&Value::from("scope"), &Value::from("one")));
    world.sandbox(&["merge"]).expect(5);
    assert_eq!(kept(&world, "card").len(), 1, "it is open already");
}

/// No agent waits for a hook, and the program waits for it at its end.
#[test]
fn a_slow_hook_holds_up_no_agent() {
    let world = World::new();
    let go = world.home().join("go");
    world.script("slow", &format!("while [ ! -e {} ]; do sleep 0.02; done; echo done\n", go.display()));
    let text = format!("[run]\nname = \"h\"\n[hooks]\nrun_started = [\"slow\"]\n{AGENT}");
    let mut going = Going::start(&world, &["run", &plan(&world, &text), "--json"]);
    going.wait_for(|event| event["type"] == "gate.decided");
    assert!(of_type(&journal(&world, "h-1"), "hook.finished").is_empty());
    fs::write(&go, "").unwrap();
    going.wait_for(|event| event["type"] == "run.finished");
    assert_eq!(going.wait().code, Some(0));
    let events = journal(&world, "h-1");
    let hook = &of_type(&events, "hook.finished")[0]["data"];
    let log = world.store().join("runs/h-1").join(hook["log"].as_str().unwrap());
    assert_eq!(fs::read_to_string(log).unwrap(), "done\n");
}

#[test]
fn what_goes_wrong_with_a_hook_is_told_and_changes_nothing() {
    let world = World::new();
    let pid = world.home().join("pid");
    world.script("hang", &format!("sleep 1000 & echo $! > {}; wait\n", pid.display()));
    world.script("flood", "head -c 3000000 /dev/zero | tr '\\0' x; exit 3\n");
    let text = format!(
        "[run]\nname = \"h\"\n[hooks]\nrun_started = [\"hang\"]\nagent_finished = [\"flood\"]\ngate_decided = [\"no-such-program\"]\ntimeout = \"1s\"\n{AGENT}"
    );
    let ran = world.sandbox(&["run", &plan(&world, &text)]).expect(0);
    let events = journal(&world, "h-1");
    let told = of_type(&events, "hook.finished");
    let of = |name: &str| &told.iter().find(|event| event["data"]["hook"] == name).unwrap()["data"];
    assert_eq!(of("run_started")["timedOut"], true);
    assert_eq!(of("agent_finished")["end"]["value"], 3);
    assert!(of("gate_decided")["error"].as_str().unwrap().starts_with("could not be run"));
    for words in ["took too long", "exit status 3", "could not be run"] {
        assert!(ran.stderr.contains(words), "no `{words}` in {}", ran.stderr);
    }
    let log = world.store().join("runs/h-1").join(of("agent_finished")["log"].as_str().unwrap());
    let kept = fs::read_to_string(log).unwrap();
    assert!(kept.len() < 300_000 && kept.ends_with("(more was printed, and not kept)\n"));
    // Nothing of a hook is left, not what it started either.
    let left = fs::read_to_string(&pid).unwrap();
    let status = format!("/proc/{}/stat", left.trim());
    until("the hook's child to be gone", || {
        let line = fs::read_to_string(&status).ok();
        line.is_none_or(|line| line.contains(") Z ")).then_some(())
    });
}

#[test]
fn a_resumed_run_runs_no_hook_twice_and_leaves_none_out() {
    let world = World::new();
    world.script("keep", KEEP);
    let text = r#"
[run]
name = "h"
[hooks]
run_started = ["keep", "started"]
agent_finished = ["keep", "finished"]
[verify]
command = ["true"]
[agents.one]
owns = ["docs/**"]
run = ["sh", "-c", "echo y > docs/x.txt"]
[agents.two]
owns = ["src/**"]
run = ["sh", "-c", "if [ $SANDBOX_ATTEMPT = 1 ]; then exec sleep 1000; fi; echo z > src/a.txt"]
"#;
    let mut going = Going::start(&world, &["run", &plan(&world, text), "--json", "--jobs", "2"]);
    going.wait_for(|event| event["type"] == "turn.started" && event["agent"] == "two");
    going.wait_for(|event| event["type"] == "hook.finished" && event["data"]["hook"] == "agent_finished");
    going.signal(Signal::SIGKILL);
    going.wait_dead();
    let before = kept(&world, "finished").len();
    assert_eq!(before, 1);
    world.sandbox(&["resume"]).expect(0);
    let events = journal(&world, "h-1");
    let ended: Vec<u64> =
        of_type(&events, "attempt.finished").iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    let run: Vec<u64> = kept(&world, "finished").iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(run, ended, "each once");
    assert_eq!(kept(&world, "started").len(), 1);
    // One whose end was not written down is owed: the journal of a program that died is made by hand.
    let path = world.store().join("runs/h-1/journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let upto = text.lines().position(|line| line.contains("\"hook.finished\"")).unwrap();
    let cut: String = text.split_inclusive('\n').take(upto).collect();
    assert!(cut.contains("run.started"));
    fs::write(&path, cut).unwrap();
    world.sandbox(&["resume"]);
    assert_eq!(kept(&world, "started").len(), 2, "the end of the first was not written down");
}

#[test]
fn a_setting_that_is_no_hook_is_refused_before_anything_is_made() {
    for (key, value, words) in [
        ("sandbox.hook.landet", "x", "names nothing that happens"),
        ("sandbox.hook.landed", "'", "is no command"),
        ("sandbox.hook.landed", "", "is no command"),
        ("sandbox.hook.timeout", "soon", "is no duration"),
    ] {
        let world = World::new();
        world.git(&["config", key, value]);
        let before = world.picture();
        let ran = world.sandbox(&["run", &plan(&world, &format!("[run]\nname = \"h\"\n{AGENT}"))]);
        assert!(
            ran.code != Some(0) && ran.stderr.contains(words) && ran.stderr.contains(key),
            "{key}={value}: {ran:?}"
        );
        assert_eq!(world.picture(), before);
        assert!(!world.store().join("runs").exists() || fs::read_dir(world.store().join("runs")).unwrap().count() == 0);
    }
}

/// Puts a git hook of the user's where git looks for it.
fn git_hook(folder: &Path, text: &str) {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join("pre-merge-commit");
    fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

const LANDING: &str = r#"
[run]
name = "h"
[verify]
command = ["true"]
[agents.one]
owns = ["docs/**", "tools/**", "new.txt"]
run = ["sh", "-ec", "echo y > docs/x.txt; echo n > new.txt; if [ -d tools ]; then echo 'touch $HOME/agents' >> tools/pre-merge-commit; fi"]
"#;

fn landing() -> World {
    let world = World::new();
    world.write("src/b.txt", "mine, and not committed\n");
    world
}

#[test]
fn the_users_merge_hook_sees_the_landing_as_a_merge_and_lets_it_pass() {
    let world = landing();
    world.sandbox(&["run", &plan(&world, LANDING)]).expect(0);
    let hooks = world.repo.join(".git/hooks");
    git_hook(
        &hooks,
        r#"set -e
{ pwd; echo "$GIT_DIR"; echo "$GIT_INDEX_FILE"; git rev-parse HEAD MERGE_HEAD; git diff --cached --name-only; cat new.txt; } > "$HOME/seen"
echo built > ignored-by-nobody.tmp
"#,
    );
    let (tip, candidate) = (world.git(&["rev-parse", "main"]), world.git(&["rev-parse", "sandbox/h-1/integration"]));
    world.sandbox(&["land", "--hooks"]).expect(0);
    let seen = fs::read_to_string(world.home().join("seen")).unwrap();
    let lines: Vec<&str> = seen.lines().collect();
    assert!(lines[0].ends_with("h-1--hook.merge") && !Path::new(lines[0]).exists(), "{seen}");
    assert!(
        lines[1].ends_with(".git/worktrees/h-1--hook.merge") && lines[2] == format!("{}/index", lines[1]),
        "{seen}"
    );
    assert_eq!(lines[3..], [tip.as_str(), &candidate, "docs/x.txt", "new.txt", "n"]);
    assert_eq!(world.git(&["rev-parse", "main"]), candidate);
    assert_eq!(world.read("src/b.txt"), "mine, and not committed\n");
    assert!(!world.repo.join("ignored-by-nobody.tmp").exists());
    let events = journal(&world, "h-1");
    let told = &of_type(&events, "hook.finished")[0]["data"];
    assert_eq!((told["hook"].as_str(), told["source"].as_str()), (Some("pre-merge-commit"), Some("git")));
    let worktrees = world.git(&["worktree", "list"]);
    assert!(!worktrees.contains("hook.merge"), "{worktrees}");
}

#[test]
fn a_merge_hook_that_says_no_or_changes_files_refuses_the_landing() {
    for (name, hook, words) in [
        ("fails", "echo 'too long a day' >&2; exit 7", vec!["exit status 7", "too long a day"]),
        ("dies", "kill -9 $$", vec!["signal 9"]),
        ("edits", "echo more >> new.txt", vec!["changed `new.txt`"]),
        ("stages", "echo more >> new.txt; git add new.txt; echo n > new.txt", vec!["changed `new.txt`"]),
        ("deletes", "git rm -qf docs/x.txt", vec!["changed `docs/x.txt`"]),
        ("adds", "echo x > added; git add added", vec!["changed `added`"]),
    ] {
        let world = landing();
        world.sandbox(&["run", &plan(&world, LANDING)]).expect(0);
        git_hook(&world.repo.join(".git/hooks"), hook);
        let before = world.picture();
        let ran = world.sandbox(&["land", "--hooks", "--json"]).expect(1);
        let block = &ran.json()["data"]["blocks"][0];
        assert_eq!(block["kind"], "hook_refused", "{name}: {block}");
        for word in words {
            assert!(block["message"].as_str().unwrap().contains(word), "{name}: {block}");
        }
        assert_eq!(world.picture(), before, "{name}");
        assert!(!world.git(&["worktree", "list"]).contains("hook.merge"), "{name}");
        // It was asked for; without, it has no say.
        world.sandbox(&["land"]).expect(0);
    }
}

/// Which program runs with the user's authority is never up to what is to land.
#[test]
fn the_merge_hook_is_the_users_version_of_it() {
    let world = landing();
    git_hook(&world.repo.join("tools"), "touch $HOME/users\n");
    world.commit("hooks");
    world.git(&["config", "core.hooksPath", "tools"]);
    world.sandbox(&["run", &plan(&world, LANDING)]).expect(0);
    let landing = world.git(&["show", "sandbox/h-1/integration:tools/pre-merge-commit"]);
    assert!(landing.contains("agents"), "{landing}");
    world.sandbox(&["land", "--hooks"]).expect(0);
    assert!(world.home().join("users").exists() && !world.home().join("agents").exists());
}

#[test]
fn without_a_merge_hook_it_is_said_that_none_was_run() {
    let world = landing();
    world.sandbox(&["run", &plan(&world, LANDING)]).expect(0);
    git_hook(&world.repo.join(".git/hooks"), "exit 1");
    let file = world.repo.join(".git/hooks/pre-merge-commit");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let ran = world.sandbox(&["land", "--hooks"]).expect(0);
    assert!(ran.stderr.contains("cannot be executed"), "{}", ran.stderr);
    let world = landing();
    world.sandbox(&["run", &plan(&world, LANDING)]).expect(0);
    let ran = world.sandbox(&["land", "--hooks"]).expect(0);
    assert!(ran.stderr.contains("there is no hook"), "{}", ran.stderr);
}

#[test]
fn doctor_says_what_own_commits_go_through_and_those_of_the_program_do_not() {
    let world = World::new();
    let found = |world: &World| {
        let told = world.sandbox(&["doctor", "--json"]).expect(0).json();
        let checks = told["data"]["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == "commits").unwrap().clone()
    };
    assert_eq!(found(&world)["state"], "ok");
    world.git(&["config", "commit.gpgSign", "true"]);
    git_hook(&world.repo.join(".git/hooks"), "exit 1");
    let told = found(&world);
    assert_eq!(told["state"], "warning");
    let words = told["found"].as_str().unwrap();
    assert!(words.contains("commit.gpgSign") && words.contains("pre-merge-commit"), "{words}");
    // And so it is: neither keeps a run from landing.
    world.sandbox(&["run", &plan(&world, LANDING), "--land"]).expect(0);
    assert!(!world.git(&["cat-file", "commit", "main"]).contains("gpgsig"));
}

//! Agents that take too much, beside two that do not: the offender is ended and told of, the others complete and merge, and
//! nothing is left. Each hog has a bound of its own and is first shown to get all it wants where nothing stops it.

use serde_json::{Value, json};
use worktree_sandbox::model::AttemptOutcome;

use crate::bench::Bench;
use crate::flow::plan;
use crate::going::assert_none_left;
use crate::world::World;

/// One way to take too much.
struct Hog {
    name: &'static str,
    /// A shell line; `MARK` is for finding its processes.
    script: &'static str,
    /// What holds it, as in a plan.
    limits: &'static str,
    outcome: &'static str,
    /// What is told of it.
    reason: &'static str,
    /// The structured form of that.
    limit: Option<(&'static str, u64)>,
}

const HOGS: [Hog; 7] = [
    Hog {
        name: "fork bomb",
        script: "i=0; while [ $i -lt 700 ]; do sleep MARK & i=$((i+1)); done; echo x > own/x",
        limits: "processes = 100",
        outcome: "limit",
        reason: "process limit 100 reached; ",
        limit: Some(("processes", 100)),
    },
    Hog {
        name: "memory hog",
        script: "head -c 400M /dev/zero | tail -n 1 | wc -c > own/x; : MARK",
        limits: "memory = '100MiB'",
        outcome: "limit",
        reason: "memory limit 100 MiB reached; ",
        limit: Some(("memory", 100 << 20)),
    },
    Hog {
        name: "memory in files",
        script: "head -c 200M /dev/zero > /dev/shm/big; sleep 0.2; rm /dev/shm/big; echo x > own/x; : MARK",
        limits: "memory = '100MiB'",
        outcome: "limit",
        reason: "memory limit 100 MiB reached",
        limit: Some(("memory", 100 << 20)),
    },
    Hog {
        name: "log flood",
        script: "head -c 8M /dev/zero | tr '\\\\0' x; echo x > own/x; : MARK",
        limits: "output = '1MiB'",
        outcome: "output_limit",
        reason: "wrote more than 1048576 bytes of output",
        limit: None,
    },
    Hog {
        name: "full worktree",
        script: "head -c 150M /dev/zero > big; echo x > own/x; : MARK",
        limits: "disk = '40MiB'",
        outcome: "limit",
        reason: "disk limit 40 MiB reached",
        limit: Some(("disk", 40 << 20)),
    },
    Hog {
        name: "full temporary folder",
        script: "head -c 150M /dev/zero > /tmp/big; echo x > own/x; : MARK",
        limits: "disk = '40MiB'",
        outcome: "limit",
        reason: "disk limit 40 MiB reached",
        limit: Some(("disk", 40 << 20)),
    },
    Hog {
        name: "large file",
        script: "head -c 4M /dev/zero > /tmp/big; echo x > own/x; : MARK",
        limits: "file_size = '2MiB'",
        outcome: "limit",
        reason: "file size limit 2 MiB reached",
        limit: Some(("file_size", 2 << 20)),
    },
];

/// A hog between two ordinary agents, all at once.
fn three(script: &str, limits: &str) -> String {
    let ordinary = "i=0; while [ $i -lt 100 ]; do echo $i; /bin/true; i=$((i+1)); done > ";
    format!(
        r#"
[run]
name = "three"
jobs = 3
[verify]
command = ["true"]
[agents.first]
owns = ["docs/**"]
run = ["sh", "-ec", "{ordinary}docs/new.md"]
[agents.hog]
owns = ["own/**", "big"]
run = ["sh", "-ec", "mkdir own; {script}"]
sandbox.limits = {{ {limits} }}
[agents.last]
owns = ["src/**"]
run = ["sh", "-ec", "{ordinary}src/new.txt"]
"#
    )
}

fn row<'v>(status: &'v Value, agent: &str) -> &'v Value {
    status["data"]["agents"].as_array().unwrap().iter().find(|row| row["agent"] == agent).unwrap()
}

#[test]
fn one_that_takes_too_much_ends_alone() {
    for (number, hog) in HOGS.iter().enumerate() {
        let mark = format!("8{number}{}", std::process::id());
        let script = hog.script.replace("MARK", &mark);
        let world = World::new();
        let free = world.sandbox(&["run", &plan(&world, &three(&script, "")), "--json"]);
        assert_eq!(free.code, Some(0), "{}: without a limit: {}", hog.name, free.stderr);

        let before = world.picture();
        let ran = world.sandbox(&["run", &plan(&world, &three(&script, hog.limits)), "--json"]).expect(1);
        assert_none_left(&mark);
        assert_eq!(world.picture(), before, "{}", hog.name);
        let events = ran.json_lines();
        assert_eq!(events.last().unwrap()["type"], "run.finished", "{}: the executor is alive", hog.name);
        let ended = events.iter().find(|event| event["type"] == "attempt.finished" && event["agent"] == "hog").unwrap();
        let data = &ended["data"];
        assert_eq!(data["outcome"], hog.outcome, "{}: {data:#}", hog.name);
        let reason = data["reason"].as_str().unwrap();
        assert!(reason.starts_with(hog.reason), "{}: {reason}", hog.name);
        assert!(!reason.contains("137") && !reason.contains("signal"), "{reason}");
        if let Some((what, limit)) = hog.limit {
            let told = &data["limit"];
            assert_eq!((&told["what"], &told["limit"]), (&json!(what), &json!(limit)), "{}: {told}", hog.name);
            assert_eq!(told["ofMachine"], json!(false));
            assert!(told["used"].as_u64().unwrap() >= limit, "{told}");
        } else {
            assert!(data.get("limit").is_none(), "{data}");
        }

        let status = world.sandbox(&["status", "--json"]).expect(0).json();
        assert_eq!(row(&status, "hog")["limit"], data.get("limit").cloned().unwrap_or(Value::Null), "{}", hog.name);
        let shown = world.sandbox(&["status"]).expect(0).stdout;
        assert_eq!(shown.contains(&format!("! hog: {reason}")), hog.limit.is_some(), "{}: {shown}", hog.name);
        let inspected = world.sandbox(&["inspect", "hog"]).expect(0).stdout;
        assert!(inspected.contains(reason), "{inspected}");
        for (agent, file) in [("first", "docs/new.md"), ("last", "src/new.txt")] {
            assert_eq!(row(&status, agent)["state"], "completed", "{}: {agent}", hog.name);
            let merged = world.git(&["show", &format!("sandbox/three-2/integration:{file}")]);
            assert!(merged.ends_with("99"), "{}: {agent} is merged", hog.name);
        }
    }
}

#[test]
fn a_verifier_that_takes_too_much_gives_no_verdict() {
    let world = World::new();
    let text = r#"
[run]
name = "v"
[sandbox]
limits = { memory = "100MiB" }
[verify]
command = ["sh", "-c", "head -c 400M /dev/zero | tail -n 1 | wc -c"]
[agents.a]
owns = ["docs/**"]
run = ["sh", "-c", "echo x > docs/new.md"]
"#;
    let free = world.sandbox(&["run", &plan(&world, &text.replace("memory = \"100MiB\"", "")), "--json"]);
    free.expect(0);
    let events = world.sandbox(&["run", &plan(&world, text), "--json"]).expect(6).json_lines();
    let verified = events.iter().find(|event| event["type"] == "verify.finished").unwrap();
    assert_eq!(verified["data"]["verdict"], "none", "{verified:#}");
    assert_eq!(verified["data"]["error"], "memory limit 100 MiB reached");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_that_takes_too_much_fails_by_name() {
    let mut bench = Bench::new(World::new()).await;
    let script = "head -c 30M /dev/urandom > docs/random";
    let end = bench.attempt(&[script]).await;
    assert_eq!(end.outcome, AttemptOutcome::Completed, "{}", bench.reason());
    bench.capturer.memory = 1 << 20;
    let end = bench.attempt(&[script]).await;
    assert_eq!(end.outcome, AttemptOutcome::CaptureFailed, "{}", bench.reason());
    assert!(bench.reason().contains("memory limit 1 MiB reached"), "{}", bench.reason());
    assert!(bench.worktree().join("docs/random").is_file(), "the files are still there");
}

#[test]
fn options_of_exec_are_limits() {
    let world = World::new();
    let hog = "head -c 400M /dev/zero | tail -n 1 | wc -c > x";
    world.sandbox(&["exec", "--name", "free", "--", "sh", "-c", hog]).expect(1);
    for (option, value, script, reason) in [
        ("--memory", "100MiB", hog, "memory limit 100 MiB reached"),
        ("--processes", "50", "for i in $(seq 400); do sleep 1000 & done; wait", "process limit 50 reached"),
        ("--disk", "20MiB", "head -c 100M /dev/zero > x", "disk limit 20 MiB reached"),
    ] {
        let ran =
            world.sandbox(&["exec", "--name", "hog", option, value, "--json", "--", "sh", "-c", script]).expect(1);
        let ended = ran.json_lines().into_iter().find(|event| event["type"] == "attempt.finished").unwrap();
        assert_eq!(ended["data"]["outcome"], "limit", "{option}: {ended:#}");
        assert!(ended["data"]["reason"].as_str().unwrap().starts_with(reason), "{option}: {ended:#}");
    }
}

/// Whether this machine gives boxes a share of the processor is read from what the program says of it.
#[test]
fn what_cannot_be_enforced_is_refused_before_anything_is_made() {
    let world = World::new();
    let doctor = world.sandbox(&["doctor", "--json"]).json();
    let checks = doctor["data"]["checks"].as_array().unwrap();
    let limits = checks.iter().find(|check| check["name"] == "limits").unwrap()["found"].as_str().unwrap();
    for name in ["memory: ", "processes: ", "cpu_weight: ", "disk: ", "file_size: "] {
        assert!(limits.contains(name), "{limits}");
    }
    let text = three("echo x > own/x", "cpu_weight = 50");
    let path = plan(&world, &text);
    let (before, ran) = (world.picture(), world.sandbox(&["run", &path]));
    let checked = world.sandbox(&["plan", "check", &path]).expect(0);
    if limits.contains("cpu_weight: cannot be had") {
        let ran = ran.expect(4);
        assert!(ran.stderr.contains("agent `hog`: a share of the processor"), "{}", ran.stderr);
        assert!(ran.stderr.contains("systemd-run --user --scope"), "{}", ran.stderr);
        assert!(world.sandbox(&["runs"]).stdout.contains("no runs") || !world.store().join("runs").exists());
        assert_eq!(world.picture(), before);
        assert!(checked.stdout.contains("cannot be enforced here"), "{}", checked.stdout);
    } else {
        ran.expect(0);
        assert!(!checked.stdout.contains("cannot be enforced here"), "{}", checked.stdout);
    }
}

#[test]
fn a_box_holds_fewer_open_files_than_who_runs_it() {
    let world = World::new();
    // Who may hold no more than a box could not hand anything to another box while the first floods the kernel's queues.
    let script = "ulimit -Sn; ulimit -Hn; grep 'open files' /proc/1/limits";
    let program = crate::world::program();
    let asked =
        format!("ulimit -Sn 300; ulimit -Hn 900; exec '{}' exec --name a -- sh -c \"{script}\"", program.display());
    let mut command = world.command("/bin/bash");
    let ran: crate::world::Ran = command.args(["-c", &asked]).output().unwrap().into();
    let said = world.sandbox(&["logs", "a"]).expect(0).stdout;
    let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.contains(&vec!["300"]) && lines.contains(&vec!["450"]), "{said} {ran:?}");
    // The first process of the box has what the executor has: the hard limit as its soft one.
    assert!(lines.contains(&vec!["Max", "open", "files", "900", "900", "files"]), "{said} {ran:?}");
}

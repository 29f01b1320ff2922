//! The verbs that only look: what they show, what they leave alone, and how they end.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::flow::plan;
use crate::world::{Ran, World, program};

const TWO: &str = r#"
[run]
name = "two"
[verify]
command = ["test", "-f", "docs/new.md"]
[agents.writer]
owns = ["docs/**"]
turns = [["sh", "-ec", "echo one > docs/new.md; printf '\\033[31mred\\033[0m\\n'"], ["sh", "-ec", "echo two >> docs/new.md; printf 'a\\000b' > docs/bin"]]
[agents.coder]
owns = ["src/a.txt"]
run = ["sed", "-i", "s/a line 10/changed/", "src/a.txt"]
"#;

fn run(world: &World, text: &str, code: i32) {
    let path = plan(world, text);
    drop(world.sandbox(&["run", &path]).expect(code));
}

/// Every file below a folder, with its size and times.
fn listing(folder: &Path, into: &mut Vec<(PathBuf, u64, i64, i64)>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let metadata = entry.path().symlink_metadata().unwrap();
        into.push((entry.path(), metadata.len(), metadata.mtime_nsec(), metadata.ctime_nsec()));
        if metadata.is_dir() {
            listing(&entry.path(), into);
        }
    }
}

fn git_dir(world: &World) -> Vec<(PathBuf, u64, i64, i64)> {
    let mut found = Vec::new();
    listing(&world.repo.join(".git"), &mut found);
    found.sort();
    found
}

/// Makes every folder of the program's state read-only, or writable again.
fn set_writable(folder: &Path, writable: bool) {
    fs::set_permissions(folder, fs::Permissions::from_mode(if writable { 0o700 } else { 0o500 })).unwrap();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            set_writable(&entry.path(), writable);
        }
    }
}

const LOOKING: [&[&str]; 14] = [
    &["status"],
    &["runs"],
    &["board"],
    &["logs"],
    &["logs", "writer"],
    &["logs", "verify"],
    &["inspect", "writer"],
    &["inspect", "writer", "--turn", "1.2"],
    &["inspect", "writer", "--patch"],
    &["inspect", "writer", "--patch", "--reverse"],
    &["inspect", "writer", "--turn", "1.2", "--patch"],
    &["inspect", "writer", "--stat"],
    &["inspect", "writer", "--files"],
    &["inspect", "writer", "--output"],
];

#[test]
fn looking_writes_nothing_and_needs_no_worktree() {
    let world = World::new();
    run(&world, TWO, 0);
    let inspect = |world: &World| -> Vec<String> {
        LOOKING.iter().filter(|verb| verb[0] == "inspect").map(|verb| world.sandbox(verb).expect(0).stdout).collect()
    };
    let with_worktrees = inspect(&world);
    fs::remove_dir_all(world.worktrees()).unwrap();
    set_writable(&world.store(), false);
    let before = (git_dir(&world), world.picture());
    assert_eq!(inspect(&world), with_worktrees);
    for verb in LOOKING {
        drop(world.sandbox(verb).expect(0));
    }
    assert_eq!((git_dir(&world), world.picture()), before);
    assert!(!world.worktrees().exists(), "nor is anything made elsewhere");
    set_writable(&world.store(), true);
}

#[test]
fn a_patch_does_what_it_says_and_its_reverse_undoes_it() {
    let world = World::new();
    run(&world, TWO, 0);
    let apply = |patch: &str, on: &str| {
        let (file, index) = (world.home().join("p.patch"), world.home().join("index"));
        fs::write(&file, patch).unwrap();
        let git = |arguments: &[&str]| {
            let mut command = world.command("git");
            let ran: Ran = command.args(arguments).env("GIT_INDEX_FILE", &index).output().unwrap().into();
            ran.expect(0).stdout.trim_end().to_owned()
        };
        git(&["read-tree", on]);
        git(&["apply", "--cached", file.to_str().unwrap()]);
        git(&["write-tree"])
    };
    let data = world.sandbox(&["inspect", "writer", "--json"]).expect(0).json();
    let tree = data["data"]["attempts"][0]["turns"][1]["tree"].as_str().unwrap().to_owned();
    let fork = data["data"]["forkPoint"].as_str().unwrap().to_owned();
    let fork_tree = world.git(&["rev-parse", &format!("{fork}^{{tree}}")]);
    assert_eq!(data["data"]["diffStat"]["files"], 2);

    let patch = world.sandbox(&["inspect", "writer", "--patch"]).expect(0).stdout;
    assert_eq!(apply(&patch, &fork), tree);
    let reverse = world.sandbox(&["inspect", "writer", "--patch", "--reverse"]).expect(0).stdout;
    assert_eq!(apply(&reverse, &tree), fork_tree);

    // Turn by turn comes to the same, and a turn's reverse undoes only that turn.
    let turn = |turn: &str| world.sandbox(&["inspect", "writer", "--turn", turn, "--patch"]).expect(0).stdout;
    let first = apply(&turn("1.1"), &fork);
    assert_eq!(apply(&turn("1.2"), &first), tree);
    let back = world.sandbox(&["inspect", "writer", "--turn", "1.2", "--patch", "--reverse"]).expect(0).stdout;
    assert_eq!(apply(&back, &tree), first);
    let stored = fs::read_to_string(world.store().join("runs/two-1/agents/writer/turns/1.2.patch")).unwrap();
    assert_eq!(turn("1.2"), stored);
    let json = world.sandbox(&["inspect", "writer", "--turn", "1.2", "--patch", "--json"]).expect(0).json();
    assert_eq!(json["data"]["patch"], stored);

    // A stored patch that was changed since is not passed on.
    fs::write(world.store().join("runs/two-1/agents/writer/turns/1.2.patch"), stored.replace("two", "evil")).unwrap();
    let refused = world.sandbox(&["inspect", "writer", "--turn", "1.2", "--patch"]).expect(8);
    assert!(refused.stdout.is_empty() && refused.stderr.contains("is not the patch that was written"), "{refused:?}");
}

#[test]
fn names_are_cut_to_what_is_unique_and_unknown_ones_are_told() {
    let world = World::new();
    let none = world.sandbox(&["status"]).expect(2);
    assert!(none.stderr.contains("there is no run"), "{none:?}");
    run(&world, TWO, 0);
    assert_eq!(world.sandbox(&["inspect", "w", "--json"]).expect(0).json()["data"]["agent"], "writer");
    assert_eq!(world.sandbox(&["status", "tw", "--json"]).expect(0).json()["run"], "two-1");
    for arguments in [&["inspect", "nobody"][..], &["logs", "nobody"]] {
        let unknown = world.sandbox(arguments).expect(2);
        assert!(unknown.stderr.contains("writer, coder"), "{unknown:?}");
    }
    let turn = world.sandbox(&["inspect", "writer", "--turn", "7.1", "--json"]).expect(2).json();
    assert_eq!((&turn["error"]["hints"][0], &turn["run"]), (&"it has 1.1, 1.2".into(), &"two-1".into()));
    for arguments in [&["board", "show", "c9"][..], &["status", "none"]] {
        drop(world.sandbox(arguments).expect(2));
    }
}

#[test]
fn status_stays_small_whatever_was_changed() {
    let world = World::new();
    let text = r#"
[run]
name = "big"
[agents.big]
owns = ["docs/**"]
run = ["sh", "-ec", "seq 1 10000 | sed 's/^/unmistakable /' > docs/x.txt"]
"#;
    run(&world, text, 1);
    for arguments in [&["status"][..], &["status", "--json"]] {
        let shown = world.sandbox(arguments).expect(0).stdout;
        assert!(!shown.contains("unmistakable"), "{shown}");
        assert!(shown.len() < 4096, "{} bytes", shown.len());
    }
    let patch = world.sandbox(&["inspect", "big", "--patch"]).expect(0).stdout;
    assert_eq!(patch.lines().filter(|line| line.starts_with("+unmistakable")).count(), 10_000);
    let dirty = || world.sandbox(&["status", "--json"]).expect(0).json()["data"]["checkout"].clone();
    assert_eq!(dirty(), serde_json::json!({"branch": "main", "dirty": 0}));
    world.write("src/a.txt", "mine\n");
    world.write("new/file.txt", "mine\n");
    assert_eq!(dirty(), serde_json::json!({"branch": "main", "dirty": 2}));
}

/// A program of the world that was started; killed when dropped.
struct Started {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Started {
    fn new(world: &World, arguments: &[&str]) -> Self {
        let mut child = world.sandbox_command(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads until a line holds `text`.
    #[track_caller]
    fn until(&mut self, text: &str) -> String {
        let mut all = String::new();
        while !all.lines().last().is_some_and(|line| line.contains(text)) {
            assert!(self.lines.read_line(&mut all).unwrap() > 0, "it ended before `{text}`:\n{all}");
        }
        all
    }

    /// Reads the rest, and gives it with the exit code.
    fn end(mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap().code())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// An agent that waits, within a bound, until the test lets it go on.
const WAITING: &str = r#"
[run]
name = "wait"
[agents.slow]
owns = ["docs/**"]
turns = [["sh", "-ec", "echo one > docs/new.md"], ["sh", "-ec", "echo ready; for i in $(seq 600); do [ -e docs/go ] && break; sleep 0.1; done; echo done"]]
"#;

#[test]
fn what_goes_on_can_be_followed_and_ends_by_itself() {
    let world = World::new();
    let path = plan(&world, WAITING);
    let mut running = Started::new(&world, &["run", &path, "--json"]);
    drop(running.until("\"run.started\""));
    let mut logs = Started::new(&world, &["logs", "slow", "--follow"]);
    let events = Started::new(&world, &["logs", "--follow", "--json"]);
    assert_eq!(logs.until("ready"), "ready\n");
    let mut watch = Started::new(&world, &["status", "--watch", "--json"]);
    let first: Value = serde_json::from_str(&watch.until("\"status\"")).unwrap();
    assert_eq!(first["data"]["state"], "running");

    let status = world.sandbox(&["status", "--json"]).expect(0).json();
    assert_eq!(status["data"]["agents"][0]["state"], "running");
    let inspect = world.sandbox(&["inspect", "slow", "--json"]).expect(0).json();
    assert_eq!(inspect["data"]["attempts"][0]["turns"][0]["turn"], "1.1");
    let work = world.sandbox(&["inspect", "slow", "--patch"]).expect(0).stdout;
    assert!(work.contains("+one"), "{work}");

    let worktree = PathBuf::from(inspect["data"]["worktree"].as_str().unwrap());
    fs::write(worktree.join("docs/go"), "").unwrap();
    assert_eq!(logs.end(), ("done\n".to_owned(), Some(0)));
    let (seen, code) = watch.end();
    let last: Value = serde_json::from_str(seen.lines().last().unwrap()).unwrap();
    assert_eq!((&last["data"]["state"], code), (&"incomplete".into(), Some(0)), "there is no verifier");
    let (told, code) = events.end();
    assert!(told.lines().last().unwrap().contains("\"run.finished\"") && code == Some(0), "{told}");
    assert_eq!(running.end().1, Some(1));
}

#[test]
fn who_follows_notices_that_the_coordinator_was_killed() {
    let world = World::new();
    let path = plan(&world, WAITING);
    let mut running = Started::new(&world, &["run", &path, "--json"]);
    drop(running.until("\"run.started\""));
    let mut logs = Started::new(&world, &["logs", "slow", "--follow"]);
    drop(logs.until("ready"));
    let mut watch = Started::new(&world, &["status", "--watch", "--json"]);
    drop(watch.until("\"running\""));
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    assert_eq!(logs.end().1, Some(0));
    let (seen, code) = watch.end();
    let last: Value = serde_json::from_str(seen.lines().last().unwrap()).unwrap();
    assert_eq!((&last["data"]["state"], code), (&"interrupted".into(), Some(0)));
    let status = world.sandbox(&["status", "--json"]).expect(0).json();
    assert_eq!(status["data"]["state"], "interrupted");
    assert_eq!(status["data"]["agents"][0]["state"], "interrupted");
    assert_eq!(world.sandbox(&["runs", "--json"]).expect(0).json()["data"]["runs"][0]["state"], "interrupted");
}

#[test]
fn output_is_raw_in_a_pipe_and_whole_in_json() {
    let world = World::new();
    run(&world, TWO, 0);
    assert_eq!(world.sandbox(&["logs", "writer"]).expect(0).stdout, "\u{1b}[31mred\u{1b}[0m\n");
    assert_eq!(world.sandbox(&["inspect", "writer", "--turn", "1.2", "--output"]).expect(0).stdout, "");
    let json = world.sandbox(&["logs", "writer", "--json"]).expect(0).json();
    assert_eq!(json["data"]["of"], "writer");
    assert_eq!(json["data"]["outputs"][0]["text"], "\u{1b}[31mred\u{1b}[0m\n");
    assert_eq!(json["data"]["outputs"][0]["turn"], "1.1");
    let followed = world.sandbox(&["logs", "writer", "--follow"]).expect(0);
    assert_eq!(followed.stdout, "\u{1b}[31mred\u{1b}[0m\n", "what is over ends at once");
}

#[test]
fn json_stands_alone_without_a_stdin_and_pipes_have_no_colours() {
    let mut world = World::new();
    run(&world, TWO, 0);
    world.set("TERM", "xterm-256color");
    let path = plan(&world, TWO);
    let more: [&[&str]; 4] =
        [&["plan", "check", &path], &["doctor"], &["run", &path, "--dry-run"], &["status", "nope"]];
    for verb in LOOKING.iter().copied().chain(more).filter(|verb| *verb != ["logs"]) {
        let mut closed = world.command("sh");
        let closed = closed.args(["-c", "exec \"$0\" \"$@\" --json <&-"]).arg(program()).args(verb);
        let ran: Ran = closed.output().unwrap().into();
        let value = ran.json();
        assert_eq!(value["v"], 1, "{verb:?}: {value}");
        assert!(value["data"].is_null() == (ran.code != Some(0)), "{verb:?}: {value}");
        let raw_output = ["--output", "writer"].iter().any(|word| verb.last() == Some(word)) && verb[0] != "inspect";
        let human = world.sandbox(verb);
        if !raw_output && !verb.contains(&"--output") {
            assert!(!human.stdout.contains('\u{1b}') && !human.stderr.contains('\u{1b}'), "{verb:?}: {human:?}");
        }
    }
    for event in world.sandbox(&["logs", "--json"]).expect(0).json_lines() {
        assert!(event["type"].is_string(), "{event}");
    }
}

#[test]
fn a_plan_is_checked_with_or_without_a_repository() {
    let world = World::new();
    let good = plan(&world, TWO);
    let checked = world.sandbox(&["plan", "check", &good, "--json"]).expect(0).json();
    assert_eq!(checked["data"]["findings"], serde_json::json!([]));
    assert_eq!(checked["data"]["agents"], serde_json::json!(["writer", "coder"]));

    let nothing = plan(&world, &TWO.replace("docs/**", "nowhere/**"));
    let checked = world.sandbox(&["plan", "check", &nothing, "--json"]).expect(0).json();
    assert_eq!(checked["data"]["findings"][0]["code"], "contract-matches-nothing");
    let outside = world.sandbox(&["-C", "/", "plan", "check", &nothing, "--json"]).expect(0).json();
    assert_eq!(outside["data"]["findings"], serde_json::json!([]), "there is nothing to hold it against");

    let bad = plan(&world, "[run]\nname = \"Bad Name\"\nspeed = 3\n[agents.a]\nrun = [\"true\"]\n");
    for folder in [".", "/"] {
        let refused = world.sandbox(&["-C", folder, "plan", "check", &bad, "--json"]).expect(3).json();
        let findings = refused["error"]["details"]["findings"].as_array().unwrap();
        assert!(findings.len() >= 3, "{findings:#?}");
        assert_eq!((&findings[0]["line"], &refused["error"]["kind"]), (&2.into(), &"plan".into()));
    }
    let human = world.sandbox(&["plan", "check", &bad]).expect(3);
    assert!(human.stdout.is_empty() && human.stderr.contains("plan.toml:2:8: error"), "{human:?}");
    let missing = world.sandbox(&["plan", "check", "none.toml"]).expect(2);
    assert!(missing.stderr.contains("none.toml"), "{missing:?}");
    drop(world.sandbox(&["plan", "check", "."]).expect(2));
}

#[test]
fn a_dry_run_creates_nothing() {
    let world = World::new();
    let path = plan(&world, TWO);
    let before = git_dir(&world);
    let shown = world.sandbox(&["run", &path, "--dry-run"]).expect(0).stdout;
    assert!(shown.contains("nothing was run") && shown.contains("sed -i"), "{shown}");
    let json = world.sandbox(&["run", &path, "--dry-run", "--json"]).expect(0).json();
    assert_eq!(json["data"]["waves"], serde_json::json!([["writer", "coder"]]));
    assert_eq!(git_dir(&world), before);
}

#[test]
fn cards_are_listed_and_shown() {
    let world = World::new();
    let text = r#"
[run]
name = "scope"
[verify]
command = ["true"]
[agents.stray]
owns = ["docs/**"]
run = ["sh", "-ec", "echo x > src/a.txt"]
"#;
    assert_eq!(world.sandbox(&["runs"]).expect(0).stdout, "no runs in this repository yet\n");
    run(&world, text, 5);
    let board = world.sandbox(&["board", "--json"]).expect(0).json();
    let card = &board["data"]["lanes"][0]["cards"][0];
    assert_eq!((&board["command"], &card["kind"]), (&"board list".into(), &"scope".into()));
    let id = card["id"].as_str().unwrap();
    let shown = world.sandbox(&["board", "show", id, "--json"]).expect(0).json();
    assert_eq!(shown["data"]["paths"], serde_json::json!(["src/a.txt"]));
    let text = world.sandbox(&["board", "show", id]).expect(0).stdout;
    assert!(text.contains("src/a.txt"), "{text}");
    let status = world.sandbox(&["status"]).expect(0).stdout;
    assert!(status.contains("! stray: outside its contract: src/a.txt") && status.contains(id), "{status}");
    let runs = world.sandbox(&["runs", "--json"]).expect(0).json();
    assert_eq!((&runs["data"]["runs"][0]["openCards"], &runs["data"]["runs"][0]["exitCode"]), (&1.into(), &5.into()));
}

#[test]
fn damage_is_told_and_hides_nothing_else() {
    let world = World::new();
    run(&world, TWO, 0);
    run(&world, TWO, 0);
    let journal = world.store().join("runs/two-1/journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("\"seq\":2", "\"seq\":9", 1)).unwrap();
    let damaged = world.sandbox(&["status", "two-1", "--json"]).expect(8).json();
    assert_eq!((&damaged["error"]["kind"], &damaged["run"]), (&"corrupt".into(), &"two-1".into()));
    let listed = world.sandbox(&["runs", "--json"]).expect(8).json();
    assert_eq!(listed["data"]["runs"].as_array().unwrap().len(), 1);
    assert!(listed["warnings"][0].as_str().unwrap().contains("journal.jsonl"), "{listed}");
    drop(world.sandbox(&["status"]).expect(0));

    fs::write(world.store().join("FORMAT"), "99\n").unwrap();
    let newer = world.sandbox(&["status", "--json"]).expect(0).json();
    assert!(newer["warnings"][0].as_str().unwrap().contains("format 99"), "{newer}");
    let path = plan(&world, TWO);
    drop(world.sandbox(&["run", &path]).expect(8));
    let doctor = world.sandbox(&["doctor", "--json"]).expect(4).json();
    assert_eq!(doctor["data"]["fit"], false);
}

#[test]
fn doctor_tries_every_layer_and_says_what_keeps_a_run_from_starting() {
    let mut world = World::new();
    let before = (git_dir(&world), world.picture());
    let fit = world.sandbox(&["doctor", "--json"]).expect(0).json();
    assert_eq!((git_dir(&world), world.picture()), before);
    let layers = fit["data"]["layers"].as_array().unwrap();
    assert!(layers.len() >= 7 && layers.iter().all(|layer| layer["present"] == true), "{layers:#?}");
    let state = |data: &Value, name: &str| {
        let checks = data["data"]["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).map(|check| check["state"].as_str().unwrap().to_owned())
    };
    assert_eq!(state(&fit, "commit").as_deref(), Some("ok"));

    let outside = world.sandbox(&["-C", "/", "doctor", "--json"]).expect(0).json();
    assert_eq!((state(&outside, "repository").as_deref(), state(&outside, "commit")), (Some("ok"), None));

    world.write(".git/info/attributes", "*.lock merge=union\n");
    let noted = world.sandbox(&["doctor", "--json"]).expect(0).json();
    assert_eq!(state(&noted, "attributes").as_deref(), Some("warning"));

    let unborn = World::without_commits();
    let unborn = unborn.sandbox(&["doctor", "--json"]).expect(4).json();
    assert_eq!(state(&unborn, "commit").as_deref(), Some("failed"));

    let around = world.repo.parent().unwrap().parent().unwrap().to_owned();
    world.set("SANDBOX_WORKTREES", around);
    let place = world.sandbox(&["doctor", "--json"]).expect(4).json();
    assert_eq!(state(&place, "place").as_deref(), Some("failed"));
    world.set("SANDBOX_WORKTREES", "relative");
    let setting = world.sandbox(&["doctor", "--json"]).expect(4).json();
    assert_eq!(state(&setting, "worktrees").as_deref(), Some("failed"));

    world.set("SANDBOX_GIT", "/nonexistent/git");
    let without = world.sandbox(&["doctor", "--json"]).expect(4).json();
    assert_eq!(state(&without, "git").as_deref(), Some("failed"));
}

#[test]
fn outside_a_repository_what_needs_one_says_so() {
    let world = World::new();
    for verb in [&["status"][..], &["runs"], &["board"], &["logs"], &["inspect", "a"]] {
        let arguments: Vec<&str> = ["-C", "/"].iter().chain(verb).copied().collect();
        let refused = world.sandbox(&arguments).expect(4);
        assert!(refused.stderr.contains("not in a git repository"), "{verb:?}: {refused:?}");
    }
}

#[test]
fn one_agent_can_be_judged_and_landed_without_a_plan() {
    let world = World::new();
    let base = world.git(&["rev-parse", "main"]);
    let exec = |verify: &str, more: &[&str]| {
        let mut arguments = vec!["exec", "--name", "fix"];
        if !verify.is_empty() {
            arguments.extend(["--verify", verify]);
        }
        arguments.extend(more);
        arguments.extend(["--", "sh", "-ec", "echo fixed > docs/x.txt"]);
        world.sandbox(&arguments)
    };
    drop(exec("", &["--land"]).expect(2));
    drop(exec("grep -q never docs/x.txt", &["--land"]).expect(6));
    assert_eq!(world.git(&["rev-parse", "main"]), base);
    drop(exec("grep -q 'fixed' docs/x.txt", &["--land"]).expect(0));
    assert_eq!(world.read("docs/x.txt"), "fixed\n");
}

/// A folder becomes a repository only where that is asked for, and gets a commit only where that is.
#[test]
fn init_makes_a_repository_where_asked() {
    let world = World::new();
    let folder = world.state().join("project");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a"), "a\n").unwrap();
    let at = folder.display().to_string();
    let init = |more: &[&str]| world.sandbox(&[&["-C", &at, "init"], more].concat());
    init(&["first.toml"]).expect(0);
    assert!(!folder.join(".git").exists());
    let made = init(&["second.toml", "--git"]).expect(0);
    assert!(made.stdout.contains("no commit yet"), "{made:?}");
    assert_eq!(world.try_git(&["-C", &at, "rev-parse", "-q", "--verify", "HEAD"]).code, Some(1));
    std::fs::write(folder.join("there.toml"), "").unwrap();
    let refused = init(&["third.toml", "--git"]).expect(2);
    assert!(refused.stderr.contains("already") && !folder.join("third.toml").exists(), "{refused:?}");
    std::fs::remove_dir_all(folder.join(".git")).unwrap();
    init(&["there.toml", "--git"]).expect(2);
    assert!(!folder.join(".git").exists(), "nothing is made where the plan cannot be written");
    std::fs::remove_file(folder.join("there.toml")).unwrap();
    // Every agent could read what is committed.
    for secret in [".env", "deep/.ENV.local", "deep/server.key", ".ssh/config", ".env.example"] {
        std::fs::create_dir_all(folder.join(secret).parent().unwrap()).unwrap();
        std::fs::write(folder.join(secret), "secret").unwrap();
    }
    let made = init(&["--git", "--commit", "--json"]).expect(0);
    assert!(made.stderr.is_empty(), "{made:?}");
    let made = made.json();
    assert_eq!(
        made["data"]["leftOut"],
        serde_json::json!([".env", ".ssh/config", "deep/.ENV.local", "deep/server.key"])
    );
    assert_eq!(made["data"]["commit"], world.git(&["-C", &at, "rev-parse", "HEAD"]));
    assert_eq!(world.git(&["-C", &at, "ls-files"]), ".env.example\na\nfirst.toml\nplan.toml\nsecond.toml");
    // A folder of the repository, and the home directory.
    world.write("inner/x", "");
    for (folder, words) in [(world.repo.join("inner"), "already"), (world.home(), "home directory")] {
        let refused = world.sandbox(&["-C", folder.to_str().unwrap(), "init", "x.toml", "--git"]).expect(2);
        assert!(refused.stderr.contains(words), "{refused:?}");
        assert!(!folder.join(".git").exists() && !folder.join("x.toml").exists());
    }
    world.sandbox(&["init", "y.toml", "--commit"]).expect(2);
}

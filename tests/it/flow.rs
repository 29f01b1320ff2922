//! Whole runs, over the program, on real repositories.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::world::{Ran, World};

/// Puts a plan beside the repository and gives its path.
pub(crate) fn plan(world: &World, text: &str) -> String {
    let path = world.home().join("plan.toml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Runs a plan with `--json` and gives the events.
fn events(world: &World, text: &str, more: &[&str], code: i32) -> Vec<Value> {
    let path = plan(world, text);
    let arguments: Vec<&str> = ["run", &path, "--json"].into_iter().chain(more.iter().copied()).collect();
    world.sandbox(&arguments).expect(code).json_lines()
}

/// The data of the only event of a type, and of an agent where one is named.
#[track_caller]
fn only<'e>(events: &'e [Value], kind: &str, agent: Option<&str>) -> &'e Value {
    let found: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == kind && agent.is_none_or(|agent| event["agent"] == agent))
        .collect();
    assert_eq!(found.len(), 1, "{kind} of {agent:?} in {events:#?}");
    &found[0]["data"]
}

fn outcome(events: &[Value], agent: &str) -> String {
    only(events, "attempt.finished", Some(agent))["outcome"].as_str().unwrap().to_owned()
}

const TWO: &str = r#"
[run]
name = "two"
[verify]
command = ["sh", "-ec", "grep -q changed src/a.txt; test -f docs/new.md"]
[agents.writer]
owns = ["docs/**"]
title = "Write the docs"
turns = [["sh", "-ec", "echo one > docs/new.md"], ["sh", "-ec", "echo two >> docs/new.md; git add -A; git commit -qm mine"]]
[agents.coder]
owns = ["src/a.txt"]
run = ["sed", "-i", "s/a line 10/changed/", "src/a.txt"]
"#;

#[test]
fn a_run_completes_and_touches_nothing_of_the_users() {
    let world = World::new();
    world.write("README.md", "my own change\n");
    world.write("notes.txt", "not added\n");
    let before = world.picture();
    let events = events(&world, TWO, &[], 0);
    assert_eq!(world.picture(), before);
    assert_eq!((outcome(&events, "writer").as_str(), outcome(&events, "coder").as_str()), ("completed", "completed"));
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>());
    let merged = world.git(&["show", "sandbox/two-1/integration:docs/new.md"]);
    assert_eq!(merged, "one\ntwo");
    assert_eq!(
        world.git(&["show", "sandbox/two-1/integration:README.md"]),
        "readme",
        "the user's change is not merged"
    );
    let subject = world.git(&["log", "--format=%s", "--first-parent", "main..sandbox/two-1/integration"]);
    assert_eq!(subject, "Merge agent coder\nMerge agent writer: Write the docs");
    let trailers = world.git(&[
        "log",
        "-1",
        "--format=%(trailers:key=Sandbox-Agent,key=Sandbox-Contract)",
        "sandbox/two-1/integration",
    ]);
    assert_eq!(trailers, "Sandbox-Agent: coder\nSandbox-Contract: kept");
}

#[test]
fn landing_moves_the_target_and_keeps_what_is_the_users() {
    let world = World::new();
    world.write("src/b.txt", "my own change\n");
    world.write("notes.txt", "not added\n");
    events(&world, TWO, &["--land"], 0);
    assert_eq!(world.read("docs/new.md"), "one\ntwo\n");
    assert!(world.read("src/a.txt").contains("changed"));
    assert_eq!(world.read("src/b.txt"), "my own change\n");
    assert_eq!(world.git(&["status", "--porcelain"]), " M src/b.txt\n?? notes.txt");
    assert_eq!(world.git(&["log", "-1", "--format=%s"]), "Merge agent coder");
    assert_eq!(world.git(&["rev-parse", "main"]), world.git(&["rev-parse", "sandbox/two-1/integration"]));
}

#[test]
fn landing_later_is_the_same_as_landing_at_once() {
    let world = World::new();
    events(&world, TWO, &[], 0);
    let before = world.git(&["rev-parse", "main"]);
    let landed = world.sandbox(&["land", "--json"]).expect(0).json();
    assert_eq!((landed["v"].as_u64(), landed["command"].as_str()), (Some(1), Some("land")));
    assert_ne!(world.git(&["rev-parse", "main"]), before);
    // A second time there is nothing to do, and nothing happens.
    let at = world.git(&["rev-parse", "main"]);
    let again = world.sandbox(&["land"]);
    assert!(matches!(again.code, Some(0 | 1)), "{again:?}");
    assert_eq!(world.git(&["rev-parse", "main"]), at);
}

#[test]
fn a_moved_target_is_merged_once_more_and_verified() {
    let world = World::new();
    events(&world, TWO, &[], 0);
    world.write("src/b.txt", "a colleague's\n");
    let colleague = world.commit("meanwhile");
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.git(&["log", "--format=%H", "-1", "--grep=meanwhile"]), colleague);
    assert_eq!(world.read("src/b.txt"), "a colleague's\n");
    assert_eq!(world.read("docs/new.md"), "one\ntwo\n");
}

const CONFLICT: &str = r#"
[run]
name = "clash"
jobs = 3
[verify]
command = ["true"]
[agents.one]
owns = ["docs/one.md"]
shares = ["src/a.txt"]
run = ["sh", "-ec", "sed -i 's/a line 10/one/' src/a.txt; echo 1 > docs/one.md"]
[agents.two]
owns = ["docs/two.md"]
shares = ["src/a.txt"]
run = ["sh", "-ec", "sed -i 's/a line 10/two/' src/a.txt; echo 2 > docs/two.md"]
[agents.three]
owns = ["docs/three.md"]
after = ["two"]
run = ["sh", "-ec", "test -f docs/two.md; echo 3 > docs/three.md"]
[agents.four]
owns = ["src/b.txt"]
run = ["sed", "-i", "s/b line 3/four/", "src/b.txt"]
"#;

#[test]
fn a_conflict_becomes_a_card_and_blocks_only_what_builds_on_it() {
    let world = World::new();
    let before = world.picture();
    let events = events(&world, CONFLICT, &["--land"], 5);
    assert_eq!(world.picture(), before, "nothing lands while a card waits");
    let card = only(&events, "card.opened", None);
    assert_eq!(card["kind"], "conflict");
    assert_eq!(card["agents"], serde_json::json!(["two", "one"]));
    assert_eq!(card["paths"], serde_json::json!(["src/a.txt"]));
    assert_eq!(card["stages"].as_array().unwrap().len(), 3);
    assert!(card["sides"]["base"].is_string() && card["fingerprint"].as_str().unwrap().len() == 64);
    let previews: Vec<(String, String)> = events
        .iter()
        .filter(|event| event["type"] == "merge.previewed")
        .map(|event| {
            (event["agent"].as_str().unwrap().to_owned(), event["data"]["result"].as_str().unwrap().to_owned())
        })
        .collect();
    let expected = [("one", "clean"), ("two", "conflict"), ("three", "blocked"), ("four", "clean")];
    assert_eq!(previews, expected.map(|(agent, result)| (agent.to_owned(), result.to_owned())));
    let blocks = &only(&events, "gate.decided", None)["blocks"];
    let message = blocks.as_array().unwrap().iter().find(|block| block["agent"] == "three").unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(message.contains("`two`"), "{message}");
    // All cards and previews are there before the parent verifier begins.
    let position = |kind: &str, stage: Option<&str>| {
        events
            .iter()
            .rposition(|event| event["type"] == kind && stage.is_none_or(|stage| event["data"]["stage"] == stage))
    };
    let verifier = position("stage.enter", Some("parent-verify")).unwrap();
    assert!(position("card.opened", None).unwrap() < verifier && position("merge.previewed", None).unwrap() < verifier);
    let merged = world.git(&["ls-tree", "-r", "--name-only", "sandbox/clash-1/integration"]);
    assert!(merged.contains("docs/one.md") && !merged.contains("docs/two.md") && !merged.contains("docs/three.md"));
    // The board says the same, now and later.
    let id = card["id"].as_str().unwrap();
    let shown = world.sandbox(&["board", "show", &id[..4], "--json"]).expect(0).json();
    assert_eq!(shown["data"]["card"]["id"].as_str().or(shown["data"]["id"].as_str()), Some(id));
}

#[test]
fn the_order_of_finishing_changes_nothing() {
    // The same plan with one agent at a time and with all at once, and once more with the first one slow.
    let slow = CONFLICT.replace(
        "sed -i 's/a line 10/one/'",
        "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sed -i 's/a line 10/one/'",
    );
    let result = |text: &str| {
        let world = World::new();
        let events = events(&world, text, &[], 5);
        let card = only(&events, "card.opened", None).clone();
        (
            world.git(&["rev-parse", "sandbox/clash-1/integration^{tree}"]),
            card["id"].clone(),
            card["fingerprint"].clone(),
        )
    };
    let first = result(CONFLICT);
    assert_eq!(result(&CONFLICT.replace("jobs = 3", "jobs = 1")), first);
    assert_eq!(result(&slow), first);
}

#[test]
fn work_outside_the_contract_is_refused_at_merge_whichever_attempt_did_it() {
    let world = World::new();
    let text = r#"
[run]
name = "scope"
[verify]
command = ["true"]
[agents.stray]
owns = ["docs/**"]
attempts = 2
run = ["sh", "-ec", "echo x >> docs/x.txt; if [ $SANDBOX_ATTEMPT = 1 ]; then git mv src/b.txt docs/b.txt; git commit -qm moved; exit 3; fi"]
"#;
    let events = events(&world, text, &[], 5);
    let finished: Vec<&Value> = events.iter().filter(|event| event["type"] == "attempt.finished").collect();
    assert_eq!(finished.len(), 2);
    assert_eq!(
        (&finished[0]["data"]["outcome"], &finished[1]["data"]["outcome"]),
        (&"failed".into(), &"completed".into())
    );
    // The second attempt did nothing wrong by itself: its own change is inside.
    let bases: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "attempt.started")
        .map(|event| &event["data"]["baseRef"])
        .collect();
    assert_ne!(bases[0], bases[1], "each attempt has a base of its own");
    let card = only(&events, "card.opened", None);
    assert_eq!((card["kind"].as_str(), &card["paths"]), (Some("scope"), &serde_json::json!(["src/b.txt"])));
    assert!(events.iter().any(|event| event["type"] == "git_progress_scope_warning"));
    assert!(events.iter().any(|event| event["type"] == "git_progress_completion_blocked"));
}

#[test]
fn history_that_an_agent_forges_makes_nothing_look_merged() {
    let world = World::new();
    world.git(&["switch", "-q", "-c", "colleague"]);
    world.write("src/b.txt", "precious\n");
    let theirs = world.commit("precious work");
    world.git(&["switch", "-q", "main"]);
    let text = r#"
[run]
name = "forge"
[verify]
command = ["true"]
[agents.forger]
owns = ["docs/**"]
run = ["sh", "-ec", "git merge -q -s ours -m forged colleague; echo y > docs/y.txt; git add -A; git commit -qm y"]
"#;
    // First the attack without our protection: an ordinary merge of the agent's own history hides the colleague's work.
    events(&world, text, &["--land"], 0);
    let ancestor = world.try_git(&["merge-base", "--is-ancestor", &theirs, "main"]);
    assert_eq!(ancestor.code, Some(1), "the colleague's commit does not look merged");
    world.git(&["merge", "-q", "-m", "later", "colleague"]);
    assert_eq!(world.read("src/b.txt"), "precious\n", "and can still be merged");
    assert_eq!(world.read("docs/y.txt"), "y\n");
}

#[test]
fn each_way_to_end_has_its_outcome_and_leaves_its_work() {
    let world = World::new();
    let text = r#"
[run]
name = "ends"
jobs = 8
[verify]
command = ["true"]
[agents.good]
owns = ["docs/good"]
run = ["touch", "docs/good"]
[agents.lazy]
owns = ["docs/lazy"]
run = ["true"]
[agents.fails]
owns = ["docs/fails"]
run = ["sh", "-c", "echo partial > docs/fails; exit 3"]
[agents.absent]
owns = ["docs/absent"]
run = ["no-such-program-anywhere"]
[agents.slow]
owns = ["docs/slow"]
run = ["sh", "-c", "echo partial > docs/slow; trap '' TERM; setsid sleep 300 & sleep 300; sleep 300"]
sandbox = { limits = { time = "2s" } }
[agents.silent]
owns = ["docs/silent"]
run = ["sh", "-c", "echo partial > docs/silent; exec sleep 300"]
sandbox = { limits = { idle = "2s" } }
[agents.loud]
owns = ["docs/loud"]
run = ["sh", "-c", "echo partial > docs/loud; exec yes"]
sandbox = { limits = { output = "64KiB" } }
[agents.waits]
owns = ["docs/waits"]
after = ["fails"]
run = ["touch", "docs/waits"]
"#;
    let begun = Instant::now();
    let events = events(&world, text, &[], 1);
    assert!(begun.elapsed() < Duration::from_mins(1));
    for (agent, expected) in [
        ("good", "completed"),
        ("lazy", "no_changes"),
        ("fails", "failed"),
        ("absent", "could_not_start"),
        ("slow", "timed_out"),
        ("silent", "idle"),
        ("loud", "output_limit"),
        ("waits", "blocked"),
    ] {
        let finished = only(&events, "attempt.finished", Some(agent));
        assert_eq!(finished["outcome"], expected, "{finished:#}");
        assert!(!finished["reason"].as_str().unwrap().is_empty());
        if ["fails", "slow", "silent", "loud"].contains(&agent) {
            let patch = world.sandbox(&["inspect", agent, "--patch"]).expect(0).stdout;
            assert!(patch.contains("+partial"), "{agent}: {patch}");
        }
    }
    let slow = only(&events, "attempt.finished", Some("slow"));
    assert!(slow["reason"].as_str().unwrap().contains("timed out after"), "{slow}");
    assert!(slow["leftoverProcesses"].as_u64().unwrap() >= 1, "{slow}");
    let waits = only(&events, "attempt.finished", Some("waits"));
    assert!(waits["reason"].as_str().unwrap().contains("`fails`"), "{waits}");
}

#[test]
fn a_tree_that_fails_together_does_not_land() {
    let world = World::new();
    // Each is right alone; together they are not.
    world.write("src/lib.sh", "old() { echo hi; }\n");
    world.write("src/main.sh", ". ./src/lib.sh\nold\n");
    world.commit("lib");
    let text = r#"
[run]
name = "pair"
[verify]
command = ["sh", "-ec", "for f in src/main*.sh; do sh -e $f; done"]
[agents.renames]
owns = ["src/lib.sh", "src/main.sh"]
run = ["sed", "-i", "s/old/new/", "src/lib.sh", "src/main.sh"]
[agents.calls]
owns = ["src/main2.sh"]
run = ["sh", "-ec", "printf '. ./src/lib.sh\nold\n' > src/main2.sh; sh -e src/main2.sh"]
"#;
    let before = world.picture();
    let events = events(&world, text, &["--land"], 6);
    assert_eq!(only(&events, "verify.finished", None)["verdict"], "fail");
    assert_eq!(world.picture(), before);
    world.sandbox(&["land"]).expect(6);
    assert_eq!(world.picture(), before);
}

#[test]
fn a_verdict_that_is_none_is_no_pass() {
    for (verify, code, verdict) in [
        ("", 1, None),
        ("[verify]\ncommand = [\"no-such-verifier\"]\n", 6, Some("none")),
        ("[verify]\ncommand = [\"sleep\", \"300\"]\ntimeout = \"1s\"\n", 6, Some("none")),
        ("[verify]\ncommand = [\"sh\", \"-c\", \"kill -9 $$\"]\n", 6, Some("none")),
        ("[verify]\ncommand = [\"sh\", \"-c\", \"echo more >> README.md\"]\n", 6, Some("blocked")),
    ] {
        let world = World::new();
        let text =
            format!("[run]\nname = \"v\"\n{verify}[agents.a]\nowns = [\"docs/**\"]\nrun = [\"touch\", \"docs/n\"]\n");
        let before = world.picture();
        let events = events(&world, &text, &["--land"], code);
        let said = events
            .iter()
            .find(|event| event["type"] == "verify.finished")
            .map(|event| event["data"]["verdict"].as_str().unwrap());
        assert_eq!(said, verdict, "{verify}");
        assert_eq!(world.picture(), before, "{verify}");
    }
}

#[test]
fn exactly_as_many_agents_run_at_once_as_the_plan_says() {
    let world = World::new();
    let head = "[run]
name = \"jobs\"
jobs = 3
[verify]
command = [\"true\"]
"
    .to_owned();
    let agent = |number: u32| {
        format!(
            "[agents.a{number}]
owns = [\"docs/{number}\"]
run = [\"sh\", \"-ec\", \"touch docs/{number}; sleep 0.4\"]
"
        )
    };
    let text: String = std::iter::once(head).chain((0..8).map(agent)).collect();
    let events = events(&world, &text, &[], 0);
    let (mut now, mut most) = (0, 0);
    for event in &events {
        match event["type"].as_str().unwrap() {
            "turn.started" => now += 1,
            "turn.finished" => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    assert_eq!(most, 3);
}

#[test]
fn an_agent_with_prerequisites_begins_with_their_work_and_no_other() {
    let world = World::new();
    let text = r#"
[run]
name = "after"
jobs = 4
[verify]
command = ["true"]
[agents.base-a]
owns = ["docs/a"]
run = ["sh", "-ec", "echo a > docs/a"]
[agents.base-b]
owns = ["docs/b"]
run = ["sh", "-ec", "echo b > docs/b"]
[agents.other]
owns = ["docs/other"]
run = ["sh", "-ec", "echo o > docs/other"]
[agents.top]
owns = ["docs/top"]
after = ["base-a", "base-b"]
run = ["sh", "-ec", "test ! -e docs/other; cat docs/a docs/b > docs/top"]
"#;
    let events = events(&world, text, &["--land"], 0);
    assert_eq!(outcome(&events, "top"), "completed");
    assert_eq!(world.read("docs/top"), "a\nb\n");
    assert_eq!(world.read("docs/other"), "o\n");
}

#[test]
fn retry_goes_on_in_the_same_worktree_and_fresh_on_top_of_the_candidate() {
    let world = World::new();
    let text = r#"
[run]
name = "again"
[verify]
command = ["true"]
[agents.one]
owns = ["docs/one"]
shares = ["src/a.txt"]
run = ["sh", "-ec", "sed -i 's/a line 10/one/' src/a.txt"]
[agents.two]
owns = ["docs/two"]
shares = ["src/a.txt"]
run = ["sh", "-ec", "echo $SANDBOX_ATTEMPT >> docs/two; sed -i 's/a line 10/two/; s/^one$/one and two/' src/a.txt"]
"#;
    let path = plan(&world, text);
    world.sandbox(&["run", &path]).expect(5);
    world.sandbox(&["retry", "two"]).expect(5);
    let kept = world.git(&["show", "refs/sandbox/again-1/two/2.1:docs/two"]);
    assert_eq!(kept, "1\n2", "nothing was wiped");
    world.sandbox(&["retry", "two", "--fresh"]).expect(0);
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.read("docs/two"), "3\n");
    assert!(world.read("src/a.txt").contains("one and two"));
    assert_eq!(world.git(&["show", "refs/sandbox/again-1/two/2.1:docs/two"]), "1\n2", "the old work is still kept");
    // Each attempt changed what it did itself: what was there when it began, be it its own of before or what others made and
    // was merged, is none of it.
    let record = |turn: &str| -> Value {
        let file = world.store().join(format!("runs/again-1/agents/two/turns/{turn}.json"));
        serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
    };
    for (turn, paths, patch) in [
        ("1.1", &["docs/two", "src/a.txt"][..], "+1\n"),
        ("2.1", &["docs/two"], "+2\n"),
        ("3.1", &["docs/two", "src/a.txt"], "+3\n"),
    ] {
        let record = record(turn);
        assert_eq!(record["changeSet"]["changedPaths"], Value::from(paths), "{turn}: {record:#}");
        assert_eq!(
            record["baseRef"].as_str().unwrap(),
            world.git(&["rev-parse", &format!("refs/sandbox/again-1/two/{}.0", &turn[..1])])
        );
        let shown = world.sandbox(&["inspect", "two", "--turn", turn, "--patch"]).expect(0).stdout;
        assert!(shown.contains(patch) && !shown.contains("docs/one"), "{turn}: {shown}");
    }
    let last = world.sandbox(&["inspect", "two", "--turn", "3.1", "--patch"]).expect(0).stdout;
    assert!(last.contains("-one\n+one and two\n"), "it began on what `one` made: {last}");
}

#[test]
fn exec_runs_one_agent_on_the_same_path() {
    let world = World::new();
    let before = world.picture();
    let ran: Ran =
        world.sandbox(&["exec", "--name", "one", "--owns", "docs/**", "--", "sh", "-c", "echo 1 > docs/one"]).expect(1);
    assert!(ran.stdout.contains("completed"), "{ran:?}");
    assert_eq!(world.picture(), before);
    let ran = world
        .sandbox(&["exec", "--name", "one", "--owns", "docs/**", "--", "sh", "-c", "echo 1 > README.md"])
        .expect(5);
    assert!(ran.stdout.contains("outside"), "{ran:?}");
    world
        .sandbox(&[
            "exec",
            "--name",
            "one",
            "--verify",
            "test -f docs/one",
            "--land",
            "--",
            "sh",
            "-c",
            "echo 1 > docs/one",
        ])
        .expect(0);
    assert_eq!(world.read("docs/one"), "1\n");
}

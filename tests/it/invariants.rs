//! What must always hold, each by the strongest evidence there is for it. The rooms' own tests go into the corners.

use std::fs;

use serde_json::Value;

use crate::flow::plan;
use crate::going::{Going, assert_none_left};
use crate::world::World;

/// An agent that tries to reach everything around it, by the paths outside.
const REACHES: &str = r#"
[run]
name = "reach"
[verify]
command = ["true"]
[agents.one]
owns = ["docs/**"]
run = ["sh", "-c", '''
echo mine > docs/new
cd @REPO@ 2>/dev/null && { echo evil > README.md; echo evil > .git/HEAD; git update-ref refs/heads/main $(git rev-parse main~0) ; git update-ref -d refs/heads/main; git config core.fsmonitor evil; }
echo evil > @HOME@/.bashrc; echo evil > @HOME@/.gitconfig
for f in @REPO@/.git/refs/heads/main @REPO@/.git/config @REPO@/.git/hooks/pre-commit @STATE@/sandbox/worktrees/*/*--two/docs/evil; do echo evil > $f; done
kill -9 @PID@
kill -9 -1
true
''']
[agents.two]
owns = ["src/**"]
run = ["sh", "-ec", "echo two > src/two"]
"#;

#[test]
fn i1_nothing_an_agent_does_reaches_anything_but_its_own_refs() {
    let world = World::new();
    let mut stranger = std::process::Command::new("sleep").arg("86601").spawn().unwrap();
    let text = REACHES
        .replace("@REPO@", &world.repo.display().to_string())
        .replace("@HOME@", &world.home().display().to_string())
        .replace("@STATE@", &world.state().display().to_string())
        .replace("@PID@", &stranger.id().to_string());
    let (before, config) = (world.picture(), fs::read(world.home().join(".gitconfig")).unwrap());
    let ran = world.sandbox(&["run", &plan(&world, &text)]);
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let alive = stranger.try_wait().unwrap();
    drop(stranger.kill());
    drop(stranger.wait());
    assert_eq!(alive, None, "the stranger was killed");
    assert_eq!(world.picture(), before);
    assert_eq!(fs::read(world.home().join(".gitconfig")).unwrap(), config);
    assert!(!world.home().join(".bashrc").exists());
    assert_eq!(world.git(&["show", "refs/sandbox/reach-1/two/1.1:src/two"]), "two");
    let two = world.git(&["diff", "--name-only", "main", "refs/sandbox/reach-1/two/1.1"]);
    assert_eq!(two, "src/two", "nothing of the sibling");
}

#[test]
fn i2_every_way_to_end_leaves_its_work_pinned_and_as_a_patch() {
    let world = World::new();
    let text = r#"
[run]
name = "ends"
[verify]
command = ["true"]
[agents.fails]
owns = ["docs/**"]
run = ["sh", "-c", "echo partial > docs/fails; exit 3"]
[agents.dies]
owns = ["src/dies"]
run = ["sh", "-c", "echo partial > src/dies; kill -9 $$"]
[agents.late]
owns = ["src/late"]
run = ["sh", "-c", "echo partial > src/late; sleep 86602"]
sandbox = { limits = { time = "1s" } }
[agents.strays]
owns = ["src/strays"]
run = ["sh", "-c", "echo partial > README.md"]
"#;
    world.sandbox(&["run", &plan(&world, text)]).expect(5);
    for agent in ["fails", "dies", "late", "strays"] {
        let pinned = format!("refs/sandbox/ends-1/{agent}/1.1");
        let patch = world.sandbox(&["inspect", agent, "--patch"]).expect(0).stdout;
        assert!(patch.contains("+partial"), "{agent}: {patch}");
        // The patch, put on the fork point, gives the very tree.
        let file = world.home().join("one.patch");
        fs::write(&file, &patch).unwrap();
        let index = world.home().join("index").display().to_string();
        drop(fs::remove_file(&index));
        let mut tree = String::new();
        for arguments in [&["read-tree", "main"][..], &["apply", "--cached", file.to_str().unwrap()], &["write-tree"]] {
            let output = world.command("git").args(arguments).env("GIT_INDEX_FILE", &index).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            tree = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        }
        assert_eq!(tree, world.git(&["rev-parse", &format!("{pinned}^{{tree}}")]), "{agent}");
    }
    world.sandbox(&["clean", "ends-1"]).expect(0);
    world.git(&["gc", "-q", "--prune=now"]);
    for agent in ["fails", "dies", "late", "strays"] {
        let patch = world.sandbox(&["inspect", agent, "--patch"]).expect(0).stdout;
        assert!(patch.contains("+partial"), "{agent}");
    }
}

/// One agent that does its work.
const PLAIN: &str = r#"
[run]
name = "plain"
[verify]
command = ["test", "-f", "docs/new"]
[agents.one]
owns = ["docs/**"]
run = ["sh", "-ec", "echo new > docs/new"]
"#;

#[test]
fn i3_only_landing_touches_what_is_the_users() {
    let world = World::new();
    world.write("src/a.txt", "to be stashed\n");
    world.git(&["stash", "-q"]);
    world.write("src/a.txt", "staged\n");
    world.git(&["add", "src/a.txt"]);
    world.write("src/a.txt", "staged and edited\n");
    world.write("notes", "untracked\n");
    let before = world.picture();
    world.sandbox(&["run", &plan(&world, PLAIN)]).expect(0);
    for verb in [&["verify", "--fresh"][..], &["merge"], &["retry", "one"], &["stop"], &["status"], &["board"]] {
        drop(world.sandbox(verb));
        assert_eq!(world.picture(), before, "{verb:?}");
    }
    // And landing no more than it must: one ref, and the files that come in.
    drop(world.sandbox(&["merge"]));
    let landed = world.sandbox(&["land"]);
    if landed.code == Some(0) {
        let mut after = world.picture();
        assert!(after.remove("docs/new").is_some());
        for key in
            ["src/a.txt", "notes", "src/b.txt", ".git/config", ".git/HEAD", ".git/logs/refs/stash", ".git/MERGE_HEAD"]
        {
            assert_eq!(after.get(key), before.get(key), "{key}");
        }
    } else {
        assert_eq!(world.picture(), before, "{landed:?}");
    }
    assert_eq!(world.git(&["show", ":src/a.txt"]), "staged");
}

#[test]
fn i4_nothing_that_went_wrong_is_swallowed_and_no_verdict_is_no_pass() {
    for (verify, code) in [
        ("command = [\"false\"]", 6),
        ("command = [\"no-such-program\"]", 6),
        ("command = [\"sh\", \"-c\", \"kill -9 $$\"]", 6),
        ("command = [\"sh\", \"-c\", \"echo more >> docs/new\"]", 6),
        ("command = [\"sleep\", \"86603\"]\ntimeout = \"1s\"", 6),
    ] {
        let world = World::new();
        let text = PLAIN.replace("command = [\"test\", \"-f\", \"docs/new\"]", verify);
        let before = world.picture();
        let ran = world.sandbox(&["run", &plan(&world, &text), "--land"]).expect(code);
        assert!(ran.stdout.contains("main was not touched"), "{ran:?}");
        world.sandbox(&["land"]).expect(code);
        assert_eq!(world.picture(), before, "{verify}");
    }
}

#[test]
fn i5_the_order_of_finishing_changes_nothing() {
    // Two that conflict and one that builds on the others; whichever ends first.
    let text = |delays: [&str; 3], jobs: u8| {
        let [one, two, three] = delays;
        format!(
            r#"
[run]
name = "order"
jobs = {jobs}
[verify]
command = ["true"]
[agents.one]
owns = ["docs/one"]
shares = ["src/a.txt"]
run = ["sh", "-ec", "{one} sed -i 's/a line 10/one/' src/a.txt; echo 1 > docs/one"]
[agents.two]
owns = ["docs/two"]
shares = ["src/a.txt"]
run = ["sh", "-ec", "{two} sed -i 's/a line 10/two/' src/a.txt; echo 2 > docs/two"]
[agents.three]
owns = ["docs/three"]
after = ["one"]
run = ["sh", "-ec", "{three} cp docs/one docs/three"]
"#
        )
    };
    let result = |text: &str| {
        let world = World::new();
        let events = world.sandbox(&["run", &plan(&world, text), "--json"]).expect(5).json_lines();
        let cards: Vec<Value> = events
            .iter()
            .filter(|event| event["type"] == "card.opened")
            .map(|event| event["data"]["id"].clone())
            .collect();
        (world.git(&["rev-parse", "sandbox/order-1/integration^{tree}"]), cards)
    };
    let slow = "sleep 0.4;";
    let first = result(&text(["", "", ""], 3));
    assert_eq!(result(&text([slow, "", ""], 3)), first);
    assert_eq!(result(&text(["", slow, ""], 3)), first);
    assert_eq!(result(&text(["", "", ""], 1)), first);
}

#[test]
fn i6_killed_and_gone_on_with_a_run_reaches_the_same() {
    // `crash.rs` does so at every git call of a run, landing included.
    let expected = {
        let world = World::new();
        world.sandbox(&["run", &plan(&world, PLAIN), "--land"]).expect(0);
        world.git(&["rev-parse", "main^{tree}"])
    };
    let world = World::new();
    let text = PLAIN.replace("echo new > docs/new", "test $SANDBOX_ATTEMPT != 1 || sleep 86604; echo new > docs/new");
    let mut going = Going::start(&world, &["run", &plan(&world, &text), "--json", "--land"]);
    going.wait_for(|event| event["type"] == "turn.started");
    going.signal(nix::sys::signal::Signal::SIGKILL);
    drop(going.wait_dead());
    assert_none_left("sleep 86604");
    world.sandbox(&["retry", "one"]).expect(0);
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.git(&["rev-parse", "main^{tree}"]), expected);
}

#[test]
fn i7_no_process_outlives_its_attempt() {
    let world = World::new();
    // Children in sessions of their own, one that ignores every signal it can, one that forks on and on.
    let text = r#"
[run]
name = "leaves"
[verify]
command = ["true"]
[agents.one]
owns = ["docs/**"]
run = ["sh", "-c", '''
setsid sh -c 'trap "" TERM INT HUP; while :; do sleep 86605; done' &
nohup setsid sleep 86605 > /dev/null 2>&1 &
(setsid sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 86605 & done; exec sleep 86605' &)
echo new > docs/new
''']
"#;
    let events = world.sandbox(&["run", &plan(&world, text), "--json"]).expect(0).json_lines();
    assert_none_left("86605");
    let finished = events.iter().find(|event| event["type"] == "attempt.finished").unwrap();
    assert!(finished["data"]["leftoverProcesses"].as_u64().unwrap() >= 2, "they were there: {finished:#}");
}

#[test]
fn i8_isolation_that_cannot_be_had_is_a_refusal() {
    let world = World::new();
    let begun = Going::start(&world, &["run", &plan(&world, &PLAIN.replace("echo new", "id -u; echo new")), "--json"]);
    let events = begun.wait().expect(0).json_lines();
    let layers = events[0]["data"]["isolation"].as_array().unwrap().clone();
    for layer in ["user-namespace", "mount-namespace", "pid-namespace", "network-namespace", "no-new-privileges"] {
        assert!(layers.iter().any(|told| told == layer), "{layer} in {layers:?}");
    }
    // Without namespaces: refused, with cause and fix, and nothing has run; not run without them. That it is so from the
    // machine's side is in `bad_input.rs`; this is from inside a box, where none can be made.
    let text = PLAIN.replace(
        "echo new > docs/new",
        "cp -r . /tmp/inner; cd /tmp/inner; rm -rf .git; git init -q; git add -A; git -c user.name=x -c user.email=x@y commit -qm x; sandbox exec --name inner -- touch docs/ran > ../told 2>&1 || code=$?; test $code = 4; cd - > /dev/null; cp /tmp/told docs/new; ! find / -name ran -path '*docs/ran' 2>/dev/null | grep -q .",
    );
    let ran = world.sandbox(&["run", &plan(&world, &text)]);
    assert_eq!(ran.code, Some(0), "{ran:?} {}", world.sandbox(&["logs", "one"]).stdout);
    let told = world.git(&["show", "sandbox/plain-2/integration:docs/new"]);
    assert!(told.contains("error: ") && told.contains("hint: "), "{told}");
}

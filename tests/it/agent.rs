//! One attempt of an agent: how it ends, what is kept of it, what it can ask for, and that nothing of it is left.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use worktree_sandbox::model::change::{Actor, CheckpointKind};
use worktree_sandbox::model::event::EventKind;
use worktree_sandbox::model::{AttemptOutcome, ProcessEnd, RefName, RepoPath, TurnId};

use crate::bench::{Bench, assert_same, disk, sh};
use crate::world::World;

/// Processes of the whole machine that have `marker` in their environment.
fn marked_ids(marker: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_marked = |id: &i32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes())
    };
    ids.filter(is_marked).collect()
}

/// What those processes are.
fn marked(marker: &str) -> Vec<String> {
    let name = |id: i32| fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default().replace('\0', " ");
    marked_ids(marker).into_iter().map(name).collect()
}

fn paths(names: &[&str]) -> Vec<RepoPath> {
    names.iter().map(|name| RepoPath::from(*name)).collect()
}

/// A command that does not end by itself, and ends when asked to.
const FOREVER: &str = "echo x > partial; echo begun; exec sleep 300";

#[tokio::test(flavor = "multi_thread")]
async fn every_end_has_a_name_and_loses_nothing() {
    // What is run, how it is bounded, what it is called and why, and whether the turn was cut short.
    type Bound = fn(&mut Bench);
    let table: [(&str, Bound, AttemptOutcome, &str, bool); 8] = [
        ("echo x > partial; exit 3", |_| {}, AttemptOutcome::Failed, "ended with exit status 3", false),
        ("echo x > partial; kill -9 $$", |_| {}, AttemptOutcome::Failed, "ended with signal 9", true),
        (
            FOREVER,
            |bench| bench.task().sandbox.limits.time = SignedDuration::from_millis(1500),
            AttemptOutcome::TimedOut,
            "timed out after 1s 500ms",
            true,
        ),
        (
            FOREVER,
            |bench| bench.task().sandbox.limits.idle = SignedDuration::from_millis(700),
            AttemptOutcome::Idle,
            "silent for 700ms",
            true,
        ),
        (
            "echo x > partial; exec yes",
            |bench| bench.task().sandbox.limits.output = 100_000,
            AttemptOutcome::OutputLimit,
            "wrote more than 100000 bytes of output",
            true,
        ),
        (FOREVER, |bench| stop_when_begun(bench, false), AttemptOutcome::Interrupted, "stopped", true),
        (
            "trap '' TERM; echo x > partial; echo begun; sleep 300; sleep 300",
            |bench| stop_when_begun(bench, true),
            AttemptOutcome::Interrupted,
            "stopped",
            true,
        ),
        ("echo x > partial", |_| {}, AttemptOutcome::Completed, "every turn ended well", false),
    ];
    for (script, bound, outcome, reason, cut) in table {
        let mut bench = Bench::new(World::new()).await;
        let marker = format!("MARK={}", bench.worktree().display());
        bound(&mut bench);
        let end = bench.attempt(&[&format!("export {marker}; {script}"), "echo never > second"]).await;
        let wanted_second = outcome == AttemptOutcome::Completed;
        bench.expect(&end, outcome);
        assert!(bench.reason().contains(reason), "{script}: {}", bench.reason());
        let record = bench.record(1, 1);
        assert_eq!((record.interrupted, record.live, record.empty), (cut, false, false), "{script}");
        assert_eq!(bench.snapshot()[&b"partial"[..]].1, b"x\n", "{script}");
        assert_eq!(bench.worktree().join("second").exists(), wanted_second, "{script}");
        assert_eq!(bench.finished().end, bench.records().last().unwrap().end, "{script}");
        bench.check_replay();
        assert_eq!(marked(&marker), Vec::<String>::new(), "{script}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_box_that_is_killed_from_outside_ends_its_agent_alone() {
    let mut bench = Bench::new(World::new()).await;
    let marker = format!("MARK={}", bench.worktree().display());
    let sought = marker.clone();
    bench.memory.on_output(move |_| {
        // The parent of the agent's own process, as seen from outside, is the init of its box.
        for id in marked_ids(&sought) {
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:\t")?.parse::<i32>().ok());
            if let Some(parent) = parent.filter(|parent| *parent > 1) {
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(parent), nix::sys::signal::Signal::SIGKILL).unwrap();
                return;
            }
        }
    });
    let script = format!("export {marker}; exec sh -c 'echo x > partial; echo begun; exec sleep 300'");
    let end = bench.attempt(&[&script, "echo never > second"]).await;
    bench.expect(&end, AttemptOutcome::Failed);
    assert!(bench.reason().contains("its box was lost"), "{}", bench.reason());
    assert_eq!(bench.snapshot()[&b"partial"[..]].1, b"x\n");
    assert!(bench.record(1, 1).interrupted);
    assert_eq!(marked(&marker), Vec::<String>::new());
    bench.check_replay();
}

/// Has the attempt stopped as soon as it has printed something; at once, or in order.
fn stop_when_begun(bench: &mut Bench, at_once: bool) {
    let (stop, kill) = (bench.stop.clone(), bench.kill.clone());
    bench.memory.on_output(move |_| {
        stop.cancel();
        if at_once {
            kill.cancel();
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_begin_says_why() {
    let mut bench = Bench::new(World::new()).await;
    let end = bench.attempt_with(vec![vec!["no-such-program".to_owned()]]).await;
    bench.expect(&end, AttemptOutcome::CouldNotStart);
    assert!(bench.reason().contains("no-such-program"), "{}", bench.reason());
    assert!(bench.record(1, 1).interrupted && bench.record(1, 1).end.is_none());

    bench.task().sandbox.expose = vec!["~/nothing".to_owned()];
    let end = bench.attempt(&["true"]).await;
    bench.expect(&end, AttemptOutcome::SandboxRefused);
    assert!(bench.reason().contains("~/nothing"), "{}", bench.reason());
    bench.task().sandbox.expose.clear();

    for (setup, reason) in [("echo no >&2; exit 4", "exit status 4"), ("kill -9 $$", "signal 9")] {
        bench.setup = Some(sh(setup));
        let end = bench.attempt(&["echo never > never"]).await;
        bench.expect(&end, AttemptOutcome::SetupFailed);
        assert!(bench.reason().contains("setup") && bench.reason().contains(reason), "{}", bench.reason());
    }
    bench.setup = Some(vec!["no-such-setup".to_owned()]);
    let end = bench.attempt(&["echo never > never"]).await;
    bench.expect(&end, AttemptOutcome::SetupFailed);
    bench.setup = None;

    bench.capturer.environment.program = "/nonexistent/sandbox".into();
    let end = bench.attempt(&["true"]).await;
    bench.expect(&end, AttemptOutcome::SandboxRefused);
    assert!(bench.reason().contains("/nonexistent/sandbox"), "{}", bench.reason());
    bench.capturer.environment = bench.world.environment();

    bench.stop.cancel();
    let end = bench.attempt(&["echo never > never"]).await;
    bench.expect(&end, AttemptOutcome::Interrupted);
    bench.stop = tokio_util::sync::CancellationToken::new();

    assert!(!bench.worktree().join("never").exists());
    let end = bench.attempt(&["true"]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_is_the_runtimes_doing() {
    let mut bench = Bench::new(World::new()).await;
    bench.setup = Some(sh("echo made > made; sandbox turn early && exit 9; echo built"));
    let end = bench.attempt(&["cat made; echo x > work"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert!(bench.memory.printed().contains("the setup command has no turns"), "{}", bench.memory.printed());
    let (setup, work) = (bench.record(1, 0), bench.record(1, 1));
    assert_eq!((setup.change_set.actor, setup.change_set.changed_paths), (Actor::Runtime, paths(&["made"])));
    assert_eq!((work.change_set.actor, work.change_set.changed_paths.clone()), (Actor::SubAgent, paths(&["work"])));
    assert_eq!(bench.started()[0].base_ref, setup.snapshot);
    assert_eq!(work.base_ref, setup.snapshot);
    bench.check_replay();
}

#[tokio::test(flavor = "multi_thread")]
async fn tampering_is_an_outcome_of_its_own() {
    for (name, tamper) in [
        ("other bytes", "echo 'gitdir: /tmp/x' > .git"),
        ("gone", "rm .git"),
        ("a folder", "rm .git; mkdir .git"),
        ("a link", "mv .git x; ln -s x .git"),
        ("another folder", "mv \"$PWD\" \"$PWD.old\"; cp -a \"$PWD.old\" \"$PWD\""),
    ] {
        let mut bench = Bench::new(World::new()).await;
        let worktree = bench.worktree().to_owned();
        let mut shell = bench.world.command("sh");
        shell.current_dir(&worktree).args(["-ec", tamper]);
        assert!(shell.status().unwrap().success(), "{name}");
        let end = bench.attempt(&["echo x > x"]).await;
        bench.expect(&end, AttemptOutcome::Tampered);
        assert!(bench.reason().contains(worktree.to_str().unwrap()), "{name}: {}", bench.reason());
        assert_eq!(bench.latest, bench.fork, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_locks_itself_out_is_captured_all_the_same() {
    let mut bench = Bench::new(World::new()).await;
    let end = bench.attempt(&["echo x > x; chmod 000 .", "echo y > y"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert_eq!(bench.snapshot()[&b"x"[..]].1, b"x\n");
    assert_eq!(bench.snapshot()[&b"y"[..]].1, b"y\n");
}

/// Processes that try to outlive their command: in the background, in a session of their own, twice forked, without ears
/// for any signal, forking on and on, with the output held open. The one that forks on gives up by itself after some
/// seconds: without a box nothing else could be relied on to end it.
const ESCAPEES: &str = r#"
sleep 300 &
setsid sleep 300 &
( ( setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 300; done' & ) & )
nohup sh -c 'trap "" TERM; sleep 300; sleep 300' >/dev/null 2>&1 &
perl -e 'use POSIX; $SIG{TERM}="IGNORE"; for (1..1000) { my $p = fork(); if ($p) { exit 0 } setsid(); select(undef, undef, undef, 0.002) }' &
sleep 0.1
"#;

/// Ends every process that has `marker`; each was started by this test. Gives how many there were.
fn kill_marked(marker: &str) -> usize {
    let mut killed = 0;
    let until = Instant::now() + Duration::from_secs(30);
    let mut quiet = 0;
    // One that forks on can be missed while it does, so it must be missed often.
    while quiet < 5 {
        assert!(Instant::now() < until, "processes with {marker} do not end");
        let found = marked_ids(marker);
        quiet = if found.is_empty() { quiet + 1 } else { 0 };
        for id in found {
            let id = nix::unistd::Pid::from_raw(id);
            killed += usize::from(nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGKILL).is_ok());
        }
    }
    killed
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outlives_its_command() {
    let mut bench = Bench::new(World::new()).await;
    let marker = format!("MARK={}", bench.worktree().display());
    // Without a box they do live on.
    let bare = format!("{marker}.bare");
    let mut unboxed = bench.world.command("sh");
    unboxed.args(["-c", &format!("export {bare}; {ESCAPEES} exit 0")]);
    unboxed.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    assert!(unboxed.status().unwrap().success());
    let killed = kill_marked(&bare);
    assert!(killed >= 4, "without a box they live on, and {killed} did");

    let begun = Instant::now();
    let end = bench.attempt(&[&format!("export {marker}; {ESCAPEES} exit 0"), "test ! -e late; echo x > x"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert!(begun.elapsed() < Duration::from_secs(30), "it waited for what was left: {:?}", begun.elapsed());
    assert_eq!(marked(&marker), Vec::<String>::new());
    assert!(bench.finished().leftover_processes >= 4, "{}", bench.finished().leftover_processes);
    let told = bench.memory.told();
    let counts: Vec<u32> = told
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::TurnFinished(finished) => Some(finished.leftover_processes),
            _ => None,
        })
        .collect();
    assert!(counts[0] >= 4 && counts[1] == 0, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deaf_processes_are_killed_after_their_grace() {
    let mut bench = Bench::new(World::new()).await;
    let marker = format!("MARK={}", bench.worktree().display());
    bench.task().sandbox.limits.time = SignedDuration::from_secs(1);
    let end = bench.attempt(&[&format!("export {marker}; trap '' TERM; {ESCAPEES} while :; do sleep 300; done")]).await;
    bench.expect(&end, AttemptOutcome::TimedOut);
    let reason = bench.reason();
    let killed: u32 = reason.rsplit(", ").next().and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0);
    assert!(
        reason.starts_with("timed out after 1s, ") && reason.ends_with(" processes killed") && killed >= 2,
        "{reason}"
    );
    assert_eq!(bench.finished().leftover_processes, killed);
    assert_eq!(bench.finished().end, Some(ProcessEnd::Signaled(9)));
    assert_eq!(marked(&marker), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_output_puts_off_no_limit() {
    let mut bench = Bench::new(World::new()).await;
    bench.task().sandbox.limits.time = SignedDuration::from_millis(1200);
    bench.task().sandbox.limits.output = u64::MAX;
    let end = bench.attempt(&["exec yes"]).await;
    bench.expect(&end, AttemptOutcome::TimedOut);
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_passed_on_as_it_comes() {
    let mut bench = Bench::new(World::new()).await;
    // The command goes on only when its first line has arrived here, so a line held back would be the end of it.
    let answer = bench.worktree().join("answer");
    let early = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&early);
    let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
    bench.memory.on_output(move |chunk| {
        let mut heard = heard.lock().unwrap();
        heard.extend_from_slice(chunk);
        if heard.ends_with(b"first\n") {
            seen.store(!answer.exists(), Ordering::SeqCst);
            fs::write(&answer, "").unwrap();
        }
    });
    bench.task().sandbox.limits.time = SignedDuration::from_secs(20);
    let script = "echo first; until test -e answer; do sleep 0.02; done; rm answer; printf 'no end' >&2; echo x > x";
    let end = bench.attempt(&[script, "printf second"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert!(early.load(Ordering::SeqCst));
    let logs: Vec<String> = (1..=2)
        .map(|turn| fs::read_to_string(bench.run.output(bench.agent(), TurnId::new(1, turn))).unwrap())
        .collect();
    assert_eq!(logs, ["first\nno end", "second"]);
    assert_eq!(bench.memory.printed(), logs.concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_turn_and_each_attempt_is_a_step_of_its_own() {
    let mut bench = Bench::new(World::new()).await;
    bench.owns(&["src/**", "own"]);
    let first = "test $SANDBOX_TURN = 1.1; test $SANDBOX_ATTEMPT = 1; test -z \"${SANDBOX_PREVIOUS_OUTCOME:-}\"; echo f > foreign; git add foreign; git commit -qm foreign; echo o > own";
    let end = bench
        .attempt(&[first, "test $SANDBOX_TURN = 1.2; git commit -qm 'staged' --allow-empty; echo 2 >> own; exit 1"])
        .await;
    bench.expect(&end, AttemptOutcome::Failed);
    assert_eq!(bench.record(1, 1).outside_since_fork, paths(&["foreign"]));
    assert_eq!(bench.record(1, 1).change_set.outside_owned_scope, paths(&["foreign"]));
    assert_eq!(bench.record(1, 2).change_set.changed_paths, paths(&["own"]));

    // Between the attempts somebody looks at the worktree, and leaves a file.
    fs::write(bench.worktree().join("src/between"), "x\n").unwrap();
    let second = "test $SANDBOX_TURN = 2.1; test $SANDBOX_PREVIOUS_OUTCOME = failed; test -e foreign; test \"$(cat own)\" = 'o\n2'; test \"$(git log --format=%s -1)\" = staged; echo 3 > src/third";
    let end = bench.attempt(&[second]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert_eq!(bench.record(2, 0).change_set.actor, Actor::Runtime);
    assert_eq!(bench.record(2, 0).change_set.changed_paths, paths(&["src/between"]));
    assert_eq!(bench.record(2, 1).change_set.changed_paths, paths(&["src/third"]), "the attempt's own changes alone");
    assert_eq!(bench.record(2, 1).change_set.outside_owned_scope, paths(&[]));
    assert_eq!(bench.record(2, 1).outside_since_fork, paths(&["foreign"]), "the first attempt's changes still count");
    assert_eq!(bench.finished().outside_since_fork, paths(&["foreign"]));

    let starts = bench.started();
    assert_eq!(starts[0].base_ref, bench.fork.commit);
    assert_eq!(starts[1].base_ref, bench.record(2, 0).snapshot);
    assert!(starts.iter().all(|start| start.fork_point == bench.fork.commit));
    for (attempt, start) in (1..).zip(&starts) {
        let name = RefName::snapshot(bench.run.id(), bench.agent(), TurnId::new(attempt, 0));
        assert_eq!(bench.repository.load_ref(&name).unwrap().as_ref(), Some(start.base_ref.object()), "{name}");
    }

    // A third attempt that does nothing begins where the second ended, under a ref of its own.
    let end = bench.attempt(&["true"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert!(bench.record(3, 1).empty);
    assert_eq!(bench.started()[2].base_ref, bench.record(2, 1).snapshot);
    bench.check_replay();
    assert_same("after three attempts", &bench.snapshot(), &disk(bench.worktree()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_attempt_is_known_before_anything_of_it_runs() {
    let mut bench = Bench::new(World::new()).await;
    let touched = bench.worktree().join("touched");
    let early = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&early);
    bench.memory.observe(move |event| {
        if matches!(event.kind, EventKind::AttemptStarted(_)) {
            seen.store(!touched.exists(), Ordering::SeqCst);
        }
    });
    let end = bench.attempt(&["echo x > touched"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert!(early.load(Ordering::SeqCst));
    let expected = [
        "attempt.started",
        "turn.started 1.1",
        "git_progress_change_detected 1.1",
        "git_progress_checkpoint_created 1.1",
        "turn.finished 1.1",
        "attempt.finished",
    ];
    assert_eq!(bench.event_names(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_has_everything_by_its_name() {
    let mut bench = Bench::new(World::new()).await;
    bench.owns(&["src/**"]);
    let end = bench
        .attempt(&[
            "git mv src/b.txt src/c.txt; echo x >> README.md; rm docs/x.txt; chmod +x src/a.txt; echo n > src/n",
        ])
        .await;
    bench.expect(&end, AttemptOutcome::Completed);
    let path = bench.run.turn(bench.agent(), TurnId::new(1, 1));
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for key in [
        "v",
        "runId",
        "agent",
        "attempt",
        "turn",
        "label",
        "adapter",
        "objectFormat",
        "forkPoint",
        "baseRef",
        "snapshot",
        "tree",
        "previousTree",
        "patch",
        "patchSha256",
        "changeSet",
        "checkpoint",
        "fileHashes",
        "ownedScope",
        "outsideSinceFork",
        "notCaptured",
        "agentHead",
        "keptTips",
        "historyRewritten",
        "end",
        "interrupted",
        "live",
        "empty",
        "usage",
    ] {
        assert!(json.get(key).is_some(), "{key} is missing");
    }
    let set = &json["changeSet"];
    assert_eq!(set["turn"], "1.1");
    assert_eq!((&set["actor"], &set["owner"], &set["toolName"]), (&"sub_agent".into(), &"worker".into(), &"sh".into()));
    assert_eq!(
        set["changedPaths"],
        serde_json::json!(["README.md", "docs/x.txt", "src/a.txt", "src/b.txt", "src/c.txt", "src/n"])
    );
    assert_eq!(set["addedPaths"], serde_json::json!(["src/n"]));
    assert_eq!(set["deletedPaths"], serde_json::json!(["docs/x.txt"]));
    assert_eq!(set["renamedPaths"], serde_json::json!([{"from": "src/b.txt", "to": "src/c.txt"}]));
    assert_eq!(set["outsideOwnedScope"], serde_json::json!(["README.md", "docs/x.txt"]));
    assert_eq!(set["diffStat"], serde_json::json!({"files": 5, "insertions": 2, "deletions": 1}));
    assert_eq!(set["verifierFreshAfterChange"], false);
    assert!(set["nameStatus"].as_array().unwrap().contains(&"R100\tsrc/b.txt\tsrc/c.txt".into()), "{set}");
    let checkpoint = &json["checkpoint"];
    assert_eq!(checkpoint["kind"], serde_json::to_value(CheckpointKind::PatchBundle).unwrap());
    assert_eq!(checkpoint["patchPath"], "agents/worker/turns/1.1.patch");
    assert!(checkpoint.get("verifierPassed").is_none(), "no verifier has run");
    let executable = json["fileHashes"].as_array().unwrap().iter().find(|hash| hash["path"] == "src/a.txt").unwrap();
    assert_eq!(executable["mode"], "100755");
    assert!(bench.run.root().join("agents/worker/turns/1.1.patch").is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_can_end_a_turn_itself() {
    let mut bench = Bench::new(World::new()).await;
    let script = "echo 1 > one; sandbox turn 'first part'; echo 2 > two; sleep 0.3; sandbox turn second; sleep 0.3; sandbox turn; echo 4 > four";
    let end = bench.attempt(&[script, "test $SANDBOX_TURN = 1.5; echo 5 > five"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let printed = bench.memory.printed();
    assert!(printed.contains("turn 1.1 1 changed paths") && printed.contains("turn 1.2 1 changed paths"), "{printed}");
    let facts: Vec<(String, bool, bool, Vec<RepoPath>)> = bench
        .records()
        .into_iter()
        .map(|record| (record.label, record.live, record.empty, record.change_set.changed_paths))
        .collect();
    let turn = |label: &str, live, empty, changed: &[&str]| (label.to_owned(), live, empty, paths(changed));
    assert_eq!(facts[0], turn("first part", true, false, &["one"]));
    assert_eq!(facts[1], turn("second", true, false, &["two"]));
    assert_eq!(facts[2], turn("turn", true, true, &[]));
    assert_eq!((facts[3].1, facts[3].3.clone()), (false, paths(&["four"])));
    assert_eq!((facts[4].1, facts[4].3.clone()), (false, paths(&["five"])));
    assert!(bench.record(1, 1).end.is_none() && bench.record(1, 4).end == Some(ProcessEnd::Exited(0)));
    bench.check_replay();
    let outside = bench.world.sandbox(&["turn", "x"]);
    assert!(outside.code == Some(2) && outside.stderr.contains("no agent's box"), "{outside:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_turn_is_taken_of_a_worktree_that_stands_still() {
    let mut bench = Bench::new(World::new()).await;
    // A process of its own writes both files all the time, always the same into both.
    let script = r#"
perl -e '$n = 0; while (1) { $n++; for (qw(left right)) { open my $f, ">", "$_.tmp"; print $f "$n\n"; close $f; rename "$_.tmp", $_ } }' &
until test -e right; do :; done
for i in 1 2 3; do sandbox turn $i; sleep 0.25; done
kill $!; wait 2>/dev/null || true
"#;
    let end = bench.attempt(&[script]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let number = |turn: u32, name: &[u8]| -> u64 {
        let files = bench.tree(&bench.record(1, turn).tree);
        String::from_utf8_lossy(&files[name].1).trim().parse().unwrap()
    };
    for turn in 1..=3 {
        let (left, right) = (number(turn, b"left"), number(turn, b"right"));
        assert!(left == right || left == right + 1, "turn {turn}: {left} and {right}");
        assert!(bench.record(1, turn).live);
    }
    assert!(number(1, b"left") < number(3, b"left"), "it goes on between the turns");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turn_socket_takes_nothing_else() {
    let mut bench = Bench::new(World::new()).await;
    let ask = r#"
ask() { perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new(Peer => "/run/sandbox/turn.sock") or die "no socket"; $s->print(join "", map { eval qq("$_") } @ARGV); $s->shutdown(1) if $ENV{HALF}; print "> ", scalar(<$s>) // "nothing\n"' "$@"; }
ask 'land\n'; ask 'spawn sh\n'; ask ''"\\n"; ask 'turning x\n'; ask '\x00\xff\n'
perl -e 'print "turn ", "x" x 5000' > /tmp/long; perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new(Peer => "/run/sandbox/turn.sock"); open F, "/tmp/long"; $s->print(<F>); print "> ", scalar(<$s>) // "nothing\n"'
perl -MIO::Socket::UNIX -e 'for $said ("turn a\x1b[2Jb\nturn c\n", "turn too soon\n") { $s = IO::Socket::UNIX->new(Peer => "/run/sandbox/turn.sock"); $s->print($said); print "> ", scalar(<$s>) // "nothing\n" }'
rm -f /run/sandbox/turn.sock || true
echo x > x
"#;
    let end = bench.attempt(&[ask]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let printed = bench.memory.printed();
    let answers: Vec<&str> = printed.lines().filter(|line| line.starts_with("> ")).collect();
    assert_eq!(answers.len(), 8, "{printed}");
    for answer in &answers[..5] {
        assert!(answer.contains("error the only requests are"), "{printed}");
    }
    assert!(answers[5].contains("too long"), "{printed}");
    assert!(answers[6].starts_with("> ok 1.1 "), "{printed}");
    assert!(answers[7].contains("wait a moment"), "{printed}");
    assert_eq!(bench.record(1, 1).label, "a[2Jb");
    assert_eq!(bench.records().len(), 2);
}

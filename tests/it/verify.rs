//! The verifier, with real git, real boxes and real processes.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use sandbox::{Host, Launcher};
use tokio_util::sync::CancellationToken;
use worktree_sandbox::agent::clock::WorkClock;
use worktree_sandbox::change::{Capturer, Snapshot};
use worktree_sandbox::git::{Git, Head, Repository};
use worktree_sandbox::model::event::{Event, EventKind, Subject, VerifyFinished};
use worktree_sandbox::model::plan::{SandboxSettings, VerifySettings};
use worktree_sandbox::model::receipt::{Receipt, TestFailure};
use worktree_sandbox::model::{CommitId, ProcessEnd, RepoPath, RunId, TreeId, Verdict, VerifyStatus};
use worktree_sandbox::store::{self, Occupant, Record, RepoKey, RunDir, StateDir, Workplace, Workplaces, receipts};
use worktree_sandbox::verify::{Error, Judged, Parsed, Parser, Verification, judge, no_parser};
use worktree_sandbox::workspace::Surroundings;

use crate::world::World;

/// Longer than any test may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// A journal in memory. It also looks whether the receipt is there when the verdict is told.
#[derive(Debug)]
struct Notes {
    run: RunId,
    state: StateDir,
    events: Mutex<Vec<Event>>,
}

impl Record for Notes {
    fn record(&self, subject: Subject, kind: EventKind) -> Result<Event, store::Error> {
        if let EventKind::VerifyFinished(finished) = &kind {
            assert!(self.state.receipt(&finished.receipt).is_file(), "told before the receipt was there");
        }
        let mut events = self.events.lock().unwrap();
        let seq = events.len() as u64 + 1;
        let event = Event { v: 1, seq, timestamp: Timestamp::now(), run_id: self.run.clone(), subject, kind };
        events.push(event.clone());
        Ok(event)
    }
}

/// A repository with one commit, and everything a verification of it needs.
struct Scene {
    world: World,
    capturer: Capturer,
    head: Head,
    state: StateDir,
    run: RunDir,
    places: Workplaces,
    notes: Notes,
    first: Snapshot,
}

impl Scene {
    /// With files `a.txt` and `run.sh`.
    async fn new() -> Self {
        let mut world = World::without_commits();
        world.set("TOKEN", "secret");
        world.set("TERM", "xterm");
        let first = commit(&world, &[("a.txt", "one\n"), ("run.sh", "test -f a.txt\n")]);
        let environment = world.environment();
        let git = Git::find_in(None, world.variables()).unwrap();
        let repository = Repository::discover(&git, &world.repo).unwrap();
        let state = StateDir::in_common_dir(repository.common_dir());
        let run = state.run(&"login-1".parse().unwrap());
        let places = Workplaces::new(&world.worktrees(), &RepoKey::of_common_dir(repository.common_dir()));
        let head = repository.load_head().unwrap();
        let capturer = Capturer {
            host: Host::probe(&Launcher::new(&environment.program)).await,
            surroundings: Surroundings::load(&repository, &world.worktrees()).unwrap(),
            may_lack: std::collections::BTreeSet::new(),
            incoming: state.incoming(),
            repository,
            environment,
            pinned: std::collections::BTreeMap::new(),
            date: 1_700_000_000,
            pack_size: 64 << 20,
            memory: 8 << 30,
            timeout: Duration::from_secs(30),
        };
        let notes = Notes { run: run.id().clone(), state: state.clone(), events: Mutex::default() };
        Self { world, capturer, head, state, run, places, notes, first }
    }

    fn place(&self) -> Workplace {
        self.places.place(self.run.id(), &Occupant::Verify)
    }

    fn of<'s>(&'s self, settings: &'s VerifySettings) -> Verification<'s> {
        Verification {
            run: &self.run,
            state: &self.state,
            settings,
            capturer: &self.capturer,
            head: &self.head,
            place: self.place(),
            candidate: self.first.clone(),
            fresh: false,
            number: 1,
            parser: no_parser,
            journal: &self.notes,
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
            clock: WorkClock::default(),
        }
    }

    async fn judge(&self, settings: &VerifySettings) -> Judged {
        finish(self.of(settings)).await.unwrap()
    }

    /// Runs a shell script as the verifier.
    async fn try_script(&self, script: &str) -> Judged {
        self.judge(&shell(script)).await
    }

    fn told(&self) -> Vec<EventKind> {
        self.notes.events.lock().unwrap().iter().map(|event| event.kind.clone()).collect()
    }

    fn last_finished(&self) -> VerifyFinished {
        let finished = self.told().into_iter().rev().find_map(|kind| match kind {
            EventKind::VerifyFinished(finished) => Some(finished),
            _ => None,
        });
        finished.unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.run.verify_output(1)).unwrap()
    }
}

async fn finish(verification: Verification<'_>) -> Result<Judged, Error> {
    tokio::time::timeout(PATIENCE, judge(verification)).await.unwrap()
}

fn commit(world: &World, files: &[(&str, &str)]) -> Snapshot {
    for (path, text) in files {
        world.write(path, text);
    }
    let commit = world.commit("x").parse::<CommitId>().unwrap();
    Snapshot { commit, tree: world.git(&["rev-parse", "HEAD^{tree}"]).parse::<TreeId>().unwrap() }
}

fn command(argv: &[&str]) -> VerifySettings {
    VerifySettings {
        command: argv.iter().map(|part| (*part).to_owned()).collect(),
        timeout: SignedDuration::from_secs(30),
        workdir: None,
        sandbox: SandboxSettings::default(),
    }
}

fn shell(script: &str) -> VerifySettings {
    command(&["sh", "-c", script])
}

fn summary(judged: &Judged) -> (VerifyStatus, Verdict, bool) {
    let receipt = &judged.receipt;
    assert_eq!(receipt.result.success, receipt.result.status == VerifyStatus::Success, "{receipt:?}");
    (receipt.result.status, receipt.verdict, judged.reused)
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_0_on_an_unchanged_tree_is_the_only_pass() {
    let scene = Scene::new().await;
    let judged =
        scene.try_script("cat a.txt; echo wrong >&2; echo built > new.txt; mkdir -p sub; git init -q sub/r").await;
    assert_eq!(summary(&judged), (VerifyStatus::Success, Verdict::Pass, false), "{judged:?}");
    let receipt = &judged.receipt;
    assert_eq!((receipt.end, receipt.error.as_deref()), (Some(ProcessEnd::Exited(0)), None));
    assert_eq!(receipt.result.output.as_deref(), Some("one\nwrong\n"));
    assert_eq!(receipt.result.failures, Some(Vec::new()));
    assert_eq!(receipt.scope, "parent");
    assert_eq!(scene.log(), "one\nwrong\n");
    let finished = scene.last_finished();
    assert_eq!(finished.log.as_deref(), Some("verify/1.log"));
    assert_eq!((finished.verdict, finished.reused, finished.error), (Verdict::Pass, false, None));
    assert_eq!(judged.seq, 1);
    assert!(matches!(&scene.told()[..], [EventKind::VerifyFinished(_), EventKind::VerifierFresh(fresh)]
        if fresh.tree == scene.first.tree));
    assert!(judged.warnings.is_empty(), "{judged:?}");

    let judged = scene.try_script("echo no; exit 3").await;
    assert_eq!(summary(&judged), (VerifyStatus::TestFailure, Verdict::Fail, false));
    assert_eq!(judged.receipt.result.failures, Some(Vec::new()));
    assert_eq!(scene.last_finished().error.as_deref(), Some("`sh -c 'echo no; exit 3'` ended with exit status 3"));
    // One log is of one command, though the number came twice.
    assert_eq!(scene.log(), "no\n");
    let fresh = scene.told().into_iter().filter(|kind| matches!(kind, EventKind::VerifierFresh(_))).count();
    assert_eq!(fresh, 1, "a failure makes nothing fresh");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_trees_that_pass_alone_fail_together() {
    let scene = Scene::new().await;
    let script = "! { test -f left && test -f right; }";
    let left = commit(&scene.world, &[("left", "")]);
    let judged = finish(Verification { candidate: left, ..scene.of(&shell(script)) }).await.unwrap();
    assert_eq!(judged.receipt.verdict, Verdict::Pass);
    let both = commit(&scene.world, &[("right", "")]);
    let judged = finish(Verification { candidate: both, ..scene.of(&shell(script)) }).await.unwrap();
    assert_eq!(summary(&judged), (VerifyStatus::TestFailure, Verdict::Fail, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_verdict_is_never_a_pass() {
    let scene = Scene::new().await;
    let none = |judged: &Judged, status: VerifyStatus, why: &str| {
        assert_eq!(summary(judged), (status, Verdict::None, false), "{judged:?}");
        let error = scene.last_finished().error.unwrap();
        assert!(error.contains(why), "{error}");
    };
    // It answers the call to end with 0, which is no verdict of its own.
    let mut late = shell("trap 'exit 0' TERM; echo begun; while :; do sleep 0.05; done");
    late.timeout = SignedDuration::from_secs(1);
    let judged = scene.judge(&late).await;
    none(&judged, VerifyStatus::Timeout, "timed out after 1s");
    assert_eq!(judged.receipt.result.failures, None);
    assert!(judged.receipt.result.output.unwrap().starts_with("begun\n"));

    let judged = scene.try_script("kill -SEGV $$").await;
    none(&judged, VerifyStatus::Error, "signal 11");
    assert_eq!(judged.receipt.end, Some(ProcessEnd::Signaled(11)));
    assert_eq!(judged.receipt.result.failures, Some(Vec::new()));

    let judged = scene.judge(&command(&["no-such-program"])).await;
    none(&judged, VerifyStatus::Error, "no-such-program");
    assert_eq!((judged.receipt.end, judged.receipt.result.output.as_deref()), (None, None));

    let mut loud = shell("yes | head -c 100000");
    loud.sandbox.limits.output = 1_000;
    let judged = scene.judge(&loud).await;
    none(&judged, VerifyStatus::Error, "more than 1000 bytes");
    assert_eq!(scene.log().len(), 1_000);

    let mut unseen = shell("true");
    unseen.sandbox.expose = vec![scene.world.repo.display().to_string()];
    none(&scene.judge(&unseen).await, VerifyStatus::Error, "cannot show");

    let stop = CancellationToken::new();
    stop.cancel();
    let judged = finish(Verification { stop, ..scene.of(&shell("sleep 100")) }).await.unwrap();
    none(&judged, VerifyStatus::Error, "stopped");
    assert!(!scene.told().iter().any(|kind| matches!(kind, EventKind::VerifierFresh(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_that_changes_what_it_judges_is_not_believed() {
    let scene = Scene::new().await;
    for (script, paths) in [
        ("echo two > a.txt", &["a.txt"][..]),
        ("rm a.txt", &["a.txt"]),
        ("chmod +x a.txt", &["a.txt"]),
        ("ln -sf run.sh a.txt", &["a.txt"]),
        ("rm a.txt; mkdir a.txt; touch a.txt/b", &["a.txt"]),
        ("mv a.txt b.txt; echo >> run.sh", &["a.txt", "run.sh"]),
        // Same size, same times.
        ("touch -r a.txt t; printf 'two\\n' > a.txt; touch -r t a.txt", &["a.txt"]),
        // Its own git directory says that nothing changed.
        ("echo two > a.txt; git update-index --assume-unchanged a.txt; git commit -qam x || true", &["a.txt"]),
        ("echo '*' > .gitignore; echo two > a.txt", &["a.txt"]),
    ] {
        let judged = scene.try_script(script).await;
        assert_eq!(summary(&judged), (VerifyStatus::Success, Verdict::Blocked, false), "{script}: {judged:?}");
        let expected: Vec<_> = paths.iter().map(|path| RepoPath::new(*path)).collect();
        assert_eq!(judged.receipt.changed_tracked_paths, expected, "{script}");
        assert!(scene.last_finished().error.unwrap().contains("a.txt"), "{script}");
        // And is asked again the next time.
        assert!(!scene.try_script(script).await.reused, "{script}");
    }
    let judged = scene.try_script("chmod 000 a.txt").await;
    assert!(!judged.receipt.verdict.is_pass(), "{judged:?}");
    // The repository and the user's files are as they were.
    assert_eq!(std::fs::read_to_string(scene.world.repo.join("a.txt")).unwrap(), "one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_verifier_leaves_behind_is_dead_before_the_tree_is_looked_at() {
    let scene = Scene::new().await;
    let begun = Instant::now();
    let script = "setsid sh -c 'echo up > up.txt; sleep 30; echo two > a.txt' >/dev/null 2>&1 & \
                  while ! test -s up.txt; do sleep 0.01; done";
    let judged = scene.try_script(script).await;
    assert_eq!(summary(&judged), (VerifyStatus::Success, Verdict::Pass, false), "{judged:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let place = scene.place();
    assert!(!place.worktree().exists() && !place.private().exists());
    let worktrees = scene.capturer.repository.load_worktrees().unwrap();
    assert!(worktrees.iter().all(|worktree| worktree.path != place.worktree()), "{worktrees:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_serves_again_for_exactly_the_same() {
    let mut scene = Scene::new().await;
    let settings = VerifySettings {
        sandbox: SandboxSettings { env: vec!["TOKEN".to_owned()], ..shell("").sandbox },
        ..shell("test \"$TOKEN\" = secret")
    };
    let first = scene.judge(&settings).await;
    assert_eq!(summary(&first), (VerifyStatus::Success, Verdict::Pass, false));
    let again = scene.judge(&settings).await;
    assert_eq!(summary(&again), (VerifyStatus::Success, Verdict::Pass, true));
    assert_eq!(again.receipt, first.receipt);
    assert_eq!(scene.last_finished().log, None);
    assert_eq!(scene.told().iter().filter(|kind| matches!(kind, EventKind::VerifierFresh(_))).count(), 2);

    // In another run, too.
    let other_run = scene.state.run(&"login-2".parse().unwrap());
    let place = scene.places.place(other_run.id(), &Occupant::Verify);
    let judged = finish(Verification { run: &other_run, place, ..scene.of(&settings) }).await.unwrap();
    assert!(judged.reused);

    let judged = finish(Verification { fresh: true, ..scene.of(&settings) }).await.unwrap();
    assert_eq!(summary(&judged), (VerifyStatus::Success, Verdict::Pass, false));

    // Another command, another tree, another value.
    assert!(!scene.judge(&VerifySettings { command: vec!["true".to_owned()], ..settings.clone() }).await.reused);
    let other = commit(&scene.world, &[("b.txt", "b")]);
    let judged = finish(Verification { candidate: other, ..scene.of(&settings) }).await.unwrap();
    assert!(!judged.reused && judged.differing.is_empty());
    scene.capturer.environment.variables.insert("TOKEN".into(), "other".into());
    let judged = scene.judge(&settings).await;
    assert_eq!(summary(&judged), (VerifyStatus::TestFailure, Verdict::Fail, false));
    assert_eq!(judged.differing, ["variable TOKEN"]);
    // A failure serves again as well.
    assert_eq!(summary(&scene.judge(&settings).await), (VerifyStatus::TestFailure, Verdict::Fail, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_receipt_is_none() {
    let scene = Scene::new().await;
    let settings = shell("exit 1");
    let judged = scene.judge(&settings).await;
    assert_eq!(judged.receipt.verdict, Verdict::Fail);
    let path = scene.state.receipt(&receipts::key_hash(&judged.receipt.key).unwrap());
    let forged = std::fs::read_to_string(&path).unwrap().replace("\"fail\"", "\"pass\"");
    store::atomic::write(&path, forged.as_bytes()).unwrap();
    let judged = scene.judge(&settings).await;
    assert_eq!(summary(&judged), (VerifyStatus::TestFailure, Verdict::Fail, false));
    assert!(judged.warnings.iter().any(|warning| warning.contains("changed since")), "{judged:?}");

    // A receipt that gives no verdict is not used either, however whole it is.
    let none = Receipt { verdict: Verdict::None, ..judged.receipt };
    receipts::store(&scene.state, &none).unwrap();
    assert_eq!(summary(&scene.judge(&settings).await), (VerifyStatus::TestFailure, Verdict::Fail, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_box_shows_the_candidate_and_little_else() {
    let scene = Scene::new().await;
    scene.world.write("a.txt", "not committed\n");
    let script = "set -e
        test \"$(cat a.txt)\" = one
        test \"$(git rev-parse HEAD)\" = \"$1\"
        test -z \"$(git status --porcelain)\"
        ! git symbolic-ref -q HEAD
        test -z \"$TOKEN\"; test \"${TERM-unset}\" = unset
        test \"$SANDBOX_VERIFY\" = 1; test \"$SANDBOX_RUN\" = login-1
        test ! -e \"$2\"
        test ! -e /run/sandbox/turn.sock
        test \"$(tail -n +3 /proc/net/dev | wc -l)\" = 1";
    let (head, top) = (scene.first.commit.to_string(), scene.world.repo.join("a.txt").display().to_string());
    let judged = scene.judge(&command(&["sh", "-xc", script, "sh", &head, &top])).await;
    assert_eq!(summary(&judged), (VerifyStatus::Success, Verdict::Pass, false), "{judged:#?}");
    assert!(scene.world.repo.join("a.txt").is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_verification_left_is_removed_and_nothing_else() {
    let scene = Scene::new().await;
    let place = scene.place();
    // As after a crash: a worktree that is registered, with a file that would decide the verdict.
    let path = place.worktree().display().to_string();
    scene.world.git(&["worktree", "add", "--detach", "--quiet", &path]);
    store::atomic::write(&place.worktree().join("left.txt"), b"").unwrap();
    store::atomic::create_dir(&place.private().join("git")).unwrap();
    let judged = scene.try_script("test ! -e left.txt").await;
    assert_eq!(judged.receipt.verdict, Verdict::Pass, "{judged:?}");

    // The place of an agent, or of another run, is nobody's to empty.
    let agents = scene.places.place(scene.run.id(), &Occupant::agent(&"parser".parse().unwrap()));
    let others = scene.places.place(&"login-2".parse().unwrap(), &Occupant::Verify);
    for foreign in [agents, others] {
        store::atomic::create_dir(foreign.worktree()).unwrap();
        let refused = finish(Verification { place: foreign.clone(), ..scene.of(&shell("true")) }).await;
        assert!(matches!(refused, Err(Error::Place { .. })), "{refused:?}");
        assert!(foreign.worktree().is_dir());
    }
}

/// A parser of this test's own.
fn by_line(output: &[u8]) -> Parsed {
    let text = String::from_utf8_lossy(output);
    let failed = text.lines().filter_map(|line| line.strip_prefix("not ok "));
    let failures: Vec<_> = failed
        .map(|name| TestFailure {
            file: String::new(),
            test_name: name.to_owned(),
            error: "no".to_owned(),
            stack_trace: Vec::new(),
        })
        .collect();
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count() as u64;
    Parsed { pass_count: Some(passed), fail_count: Some(failures.len() as u64), failures }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parser_explains_a_verdict_and_never_makes_one() {
    let scene = Scene::new().await;
    let with = async |parser: Parser, script: &str, seconds: i64| {
        let settings = VerifySettings { timeout: SignedDuration::from_secs(seconds), ..shell(script) };
        finish(Verification { parser, fresh: true, ..scene.of(&settings) }).await.unwrap().receipt
    };
    let failing = "echo ok 1; echo not ok 2; exit 1";
    let receipt = with(by_line, failing, 30).await;
    assert_eq!((receipt.result.pass_count, receipt.result.fail_count), (Some(1), Some(1)));
    assert_eq!(receipt.result.failures.unwrap()[0].test_name, "2");
    let receipt = with(no_parser, failing, 30).await;
    assert_eq!((receipt.result.pass_count, receipt.result.fail_count), (None, None));
    assert_eq!(receipt.result.failures, Some(Vec::new()));
    // The exit status decides, whatever the output says.
    assert_eq!(with(by_line, "echo ok 1; exit 1", 30).await.verdict, Verdict::Fail);
    assert_eq!(with(by_line, "echo not ok 1", 30).await.verdict, Verdict::Pass);
    assert_eq!(with(by_line, "exit 1", 30).await.result.failures, Some(Vec::new()));
    // A command that did not end itself has said nothing yet.
    let receipt = with(by_line, "echo not ok 2; exec sleep 100", 1).await;
    assert_eq!((receipt.result.status, receipt.result.failures), (VerifyStatus::Timeout, None));
    assert_eq!(receipt.result.fail_count, None);
}

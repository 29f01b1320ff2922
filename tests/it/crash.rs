//! The executor killed at any instant: nothing is lost, nothing is left running, and the run can be gone on with.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::flow::plan;
use crate::going::{Going, assert_none_left, processes_with, until};
use crate::world::World;

/// A plan whose agents do something that takes no time.
pub(crate) const QUICK: &str = r#"
[run]
name = "quick"
jobs = 2
[verify]
command = ["sh", "-ec", "test -f docs/a; test -f docs/b"]
[agents.a]
owns = ["docs/a"]
run = ["sh", "-ec", "echo a > docs/a"]
[agents.b]
owns = ["docs/b"]
after = ["a"]
run = ["sh", "-ec", "cat docs/a > docs/b; echo b >> docs/b"]
"#;

/// When the executor dies.
#[derive(Debug, Clone, Copy)]
struct Death {
    /// Of the git calls from outside a box whose arguments match this pattern of the shell's.
    call: &'static str,
    /// The how many-th, from 1.
    nth: usize,
    /// Whether git does its work all the same, as when the executor dies while git is at it; else git never runs.
    git_goes_on: bool,
}

/// Puts a `git` before the real one that kills its parent at one of its calls.
fn fatal_git(world: &World, death: Death) {
    let control = world.state().join("control");
    fs::create_dir_all(&control).unwrap();
    fs::write(control.join("calls"), "").unwrap();
    let Death { call, nth, git_goes_on } = death;
    let work = if git_goes_on { r#"/usr/bin/git "$@""# } else { "" };
    let control = control.display();
    world.script(
        "git",
        &format!(
            r#"
if test -f {control}/calls; then
    case "$*" in
        {call})
            echo x >> {control}/calls
            if test "$(wc -l < {control}/calls)" -eq {nth}; then
                rm {control}/calls
                kill -KILL $PPID
                {work}
                touch {control}/done
                exit 1
            fi;;
    esac
fi
exec /usr/bin/git "$@"
"#
        ),
    );
}

fn died(world: &World) -> bool {
    !world.state().join("control/calls").exists()
}

/// Lets git be git again.
fn mend_git(world: &World) {
    drop(fs::remove_file(world.bin.join("git")));
}

fn status(world: &World) -> Value {
    world.sandbox(&["status", "--json"]).expect(0).json()["data"].clone()
}

/// What a run comes to: the trees that its branches and the target have, and those that its other refs keep, its cards with
/// what became of each, and how each agent stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) trees: BTreeMap<String, String>,
    /// Of each agent's turns the last: a run that died has more attempts than one that did not.
    pins: BTreeMap<String, String>,
    cards: Vec<String>,
    agents: Vec<String>,
}

impl Outcome {
    #[track_caller]
    pub(crate) fn of(world: &World) -> Self {
        let branches = world.git(&["for-each-ref", "--format=%(refname) %(tree)", "refs/heads"]);
        let trees = branches.lines().filter_map(|line| line.split_once(' '));
        let now = status(world);
        let board = world.sandbox(&["board", "--json"]).expect(0).json();
        let lanes = board["data"]["lanes"].as_array().unwrap().iter();
        let cards = lanes.flat_map(|lane| lane["cards"].as_array().unwrap());
        let agents = now["agents"].as_array().unwrap().iter();
        assert_turns_are_kept(world);
        Self {
            trees: trees.map(|(name, tree)| (name.to_owned(), tree.to_owned())).collect(),
            pins: pins(world),
            cards: cards.map(of_card).collect(),
            agents: agents.map(|row| format!("{} {} {}", row["agent"], row["state"], row["merge"]["result"])).collect(),
        }
    }

    /// As if the run had been the first.
    pub(crate) fn renumber(&mut self) {
        let name = |name: &String| name.replace("quick-2/", "quick-1/");
        for trees in [&mut self.trees, &mut self.pins] {
            *trees = trees.iter().map(|(reference, tree)| (name(reference), tree.clone())).collect();
        }
    }
}

/// A card, with what was said to it.
fn of_card(card: &Value) -> String {
    ["id", "kind", "state", "agents", "paths", "resolution"].map(|key| card[key].to_string()).join(" ")
}

/// The trees that the program's own refs keep. Of an agent's turns the last alone, by no number.
fn pins(world: &World) -> BTreeMap<String, String> {
    let listed = world.git(&["for-each-ref", "--format=%(refname) %(tree)", "refs/sandbox"]);
    let mut last: BTreeMap<String, ((u32, u32), String)> = BTreeMap::new();
    let mut pins = BTreeMap::new();
    for (name, tree) in listed.lines().filter_map(|line| line.split_once(' ')) {
        let (folder, own) = name.rsplit_once('/').unwrap();
        let numbers = own.split_once('.').and_then(|(attempt, turn)| Some((attempt.parse().ok()?, turn.parse().ok()?)));
        match numbers {
            Some(turn) if last.get(folder).is_some_and(|(other, _)| *other > turn) => {}
            Some(turn) => drop(last.insert(folder.to_owned(), (turn, tree.to_owned()))),
            None => drop(pins.insert(name.to_owned(), tree.to_owned())),
        }
    }
    pins.extend(last.into_iter().map(|(folder, (_, tree))| (format!("{folder}/last turn"), tree)));
    pins
}

/// Asserts that every turn that a journal tells of is kept by its ref, at the very commit.
#[track_caller]
fn assert_turns_are_kept(world: &World) {
    let listed = world.git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/sandbox"]);
    let kept: BTreeMap<&str, &str> = listed.lines().filter_map(|line| line.split_once(' ')).collect();
    for run in fs::read_dir(world.store().join("runs")).into_iter().flatten().flatten() {
        let journal = fs::read_to_string(run.path().join("journal.jsonl")).unwrap_or_default();
        for event in journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            if event["type"] == "turn.finished" {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let [run, agent, turn] = ["runId", "agent", "turn"].map(|key| text(&event[key]));
                let name = format!("refs/sandbox/{run}/{agent}/{turn}");
                assert_eq!(kept.get(name.as_str()), Some(&text(&event["data"]["snapshot"]).as_str()), "{name}");
            }
        }
    }
}

/// What an undisturbed run comes to, in a checkout with a change of the user's own.
pub(crate) fn undisturbed(text: &str, code: i32) -> Outcome {
    let (world, _) = world_with_changes();
    world.sandbox(&["run", &plan(&world, text), "--land"]).expect(code);
    Outcome::of(&world)
}

/// How a run is gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By<'a> {
    /// `retry`, `merge` and `land`, as they are needed.
    Verbs,
    /// `resume`, which dies at these of all its places, one death after the other, and then comes to its end.
    Resume(&'a [usize]),
}

/// `resume`, undisturbed.
const RESUME: By<'_> = By::Resume(&[]);

/// Kills a run at `death`, looks at what is left, and goes on with it until it has landed. False: it ended before it could
/// die.
fn die_and_go_on(death: Death, by: By<'_>, expected: &Outcome) -> bool {
    let (world, before) = world_with_changes();
    fatal_git(&world, death);
    let ran = world.sandbox(&["run", &plan(&world, QUICK), "--land"]);
    if !died(&world) {
        ran.expect(0);
        return false;
    }
    mend_git(&world);
    assert_eq!(ran.code, None, "{death:?}: {ran:?}");
    until("git has ended", || world.state().join("control/done").exists().then_some(()));
    go_on_from_death(&world, &before, &format!("{death:?}"), by, expected);
    true
}

/// A repository with a change of the user's own, and its picture.
pub(crate) fn world_with_changes() -> (World, BTreeMap<String, String>) {
    let world = World::new();
    world.write("src/b.txt", "my own change\n");
    let before = world.picture();
    (world, before)
}

#[track_caller]
fn go_on_from_death(world: &World, before: &BTreeMap<String, String>, death: &str, by: By<'_>, expected: &Outcome) {
    // The one call that changes the user's checkout is the landing.
    if !world.repo.join("docs/b").exists() {
        assert_eq!(world.picture(), *before, "{death}");
    }
    let journal = world.store().join("runs/quick-1/journal.jsonl");
    if fs::read(journal).unwrap_or_default().is_empty() {
        go_on_without_a_beginning(world, death);
    } else {
        go_on(world, death, by, expected);
    }
}

/// Killed before the run's first event: nothing is left of it that could be gone on with, and nothing in the way.
#[track_caller]
fn go_on_without_a_beginning(world: &World, death: &str) {
    if world.store().join("runs/quick-1").exists() {
        assert!(!world.sandbox(&["status"]).stdout.contains("running"), "{death:?}");
        for verb in ["merge", "verify", "land"] {
            let ran = world.sandbox(&[verb]);
            assert!(ran.code == Some(8) && ran.stderr.contains("quick-1"), "{death:?} {verb} {ran:?}");
        }
        world.sandbox(&["clean", "quick-1"]).expect(0);
    }
    world.sandbox(&["run", &plan(world, QUICK), "--land"]).expect(0);
}

/// Goes on with a run until it has landed.
#[track_caller]
fn go_on(world: &World, death: &str, by: By<'_>, expected: &Outcome) {
    assert_is_cut_short(world, death);
    match by {
        By::Verbs => go_on_by_verbs(world, death),
        By::Resume(deaths) => {
            for nth in deaths {
                // One that has nothing left to do comes to its end before it can die.
                if run_to_death(world, &["resume"], &format!("*:{nth}")) {
                    assert_is_cut_short(world, death);
                }
            }
            drop(world.sandbox(&["resume"]).expect(0));
        }
    }
    assert_eq!(Outcome::of(world), *expected, "{death:?}");
    assert_eq!(world.read("src/b.txt"), "my own change\n");
    assert_eq!(world.git(&["status", "--porcelain"]), " M src/b.txt", "{death:?}");
    assert_eq!(world.git(&["fsck", "--no-dangling", "--no-progress"]), "");
    world.sandbox(&["clean", "quick-1"]).expect(0);
    let listed = world.git(&["worktree", "list"]);
    assert_eq!(listed.lines().count(), 1, "{death:?} {listed}");
}

/// Nothing is left of a run that died, and whoever asks is told so; it may have died with everything done.
#[track_caller]
fn assert_is_cut_short(world: &World, death: &str) {
    assert_none_left(&world.home().display().to_string());
    let now = status(world);
    assert!(["landed", "interrupted"].contains(&now["state"].as_str().unwrap()), "{death} {now:#}");
    for row in now["agents"].as_array().unwrap() {
        assert_ne!(row["state"], "running", "{death} {row:#}");
    }
}

#[track_caller]
fn go_on_by_verbs(world: &World, death: &str) {
    for agent in ["a", "b"] {
        let now = status(world);
        let row = now["agents"].as_array().unwrap().iter().find(|row| row["agent"] == agent).unwrap().clone();
        assert_ne!(row["state"], "running", "{death:?} {row:#}");
        if !["completed", "no_changes"].contains(&row["state"].as_str().unwrap()) {
            let ran = world.sandbox(&["retry", agent]);
            // Without `b` the verifier fails, which it should.
            assert!(matches!(ran.code, Some(0 | 1 | 6)), "{death:?} {agent} {ran:?}");
        }
    }
    let ran = world.sandbox(&["merge"]);
    assert!(matches!(ran.code, Some(0)), "{death:?} merge {ran:?} {:#}", status(world));
    let ran = world.sandbox(&["land"]);
    assert_eq!(ran.code, Some(0), "{death:?} land {ran:?} {:#}", status(world));
}

/// Runs `sandbox` so that it dies when it comes to a place for the n-th time. False: it ended before that.
#[track_caller]
fn run_to_death(world: &World, arguments: &[&str], place: &str) -> bool {
    let mut command = world.sandbox_command(arguments);
    let status = command.env("SANDBOX_DIE_AT", place).output().unwrap().status;
    assert!(status.signal() == Some(9) || status.success(), "{place}: {status}");
    !status.success()
}

/// The places that a run comes to, in order, each with the stage it is in.
fn places() -> Vec<(String, String)> {
    let (world, _) = world_with_changes();
    let log = world.state().join("places");
    let file = plan(&world, QUICK);
    let mut command = world.sandbox_command(&["run", &file, "--land"]);
    assert!(command.env("SANDBOX_DIE_LOG", &log).output().unwrap().status.success());
    let journal = fs::read_to_string(world.store().join("runs/quick-1/journal.jsonl")).unwrap();
    let events = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut stages =
        events.filter(|event| event["type"] == "stage.enter").map(|event| event["data"]["stage"].to_string());
    let mut stage = String::new();
    let mut found = Vec::new();
    for place in fs::read_to_string(log).unwrap().lines() {
        if place == "journal stage.enter after" {
            stage = stages.next().unwrap();
        }
        found.push((stage.clone(), place.to_owned()));
    }
    found
}

/// Where a run is killed for the suite: after each kind of effect, in each stage, the first time; and for those that come
/// again and again, the last time. What is dead before an effect is dead after the one before it.
fn chosen(places: &[(String, String)]) -> Vec<String> {
    let mut chosen = Vec::new();
    for (at, (stage, place)) in places.iter().enumerate() {
        let is_first = !places[..at].iter().any(|(other, same)| same == place && other == stage);
        let is_last = !places[at + 1..].iter().any(|(_, same)| same == place);
        let nth = places[..=at].iter().filter(|(_, same)| same == place).count();
        // Written by the clock, so in no order with the rest.
        let by_clock = place.contains("status.json") || place.contains("latest.json");
        if place.ends_with(" after") && (is_first || is_last) && !(by_clock && nth > 1) {
            chosen.push(format!("{place}:{nth}"));
        }
    }
    chosen
}

fn die_at_and_go_on(place: &str, by: By<'_>, expected: &Outcome) -> bool {
    let (world, before) = world_with_changes();
    if !run_to_death(&world, &["run", &plan(&world, QUICK), "--land"], place) {
        return false;
    }
    go_on_from_death(&world, &before, place, by, expected);
    true
}

/// Every third of the chosen places, beginning with this one.
fn killed_at_every_third(first: usize) {
    let expected = undisturbed(QUICK, 0);
    let chosen = chosen(&places());
    assert!(chosen.len() >= 80, "{chosen:#?}");
    for (at, place) in chosen.iter().enumerate().skip(first).step_by(3) {
        // Going on dies, too: at none, one, or two of its places, here or there.
        let deaths = [at * 7 % 90 + 1, at * 5 % 40 + 1];
        let by = if at % 4 == 3 { By::Verbs } else { By::Resume(&deaths[..at % 4]) };
        // The very last of a run may be a little later or earlier in the next.
        assert!(die_at_and_go_on(place, by, &expected) || at + 4 > chosen.len(), "{place} never came");
    }
}

#[test]
fn killed_after_any_kind_of_effect_a_run_reaches_what_it_would_have_reached() {
    killed_at_every_third(0);
}

#[test]
fn killed_after_any_kind_of_effect_a_run_reaches_what_it_would_have_reached_second_third() {
    killed_at_every_third(1);
}

#[test]
fn killed_after_any_kind_of_effect_a_run_reaches_what_it_would_have_reached_last_third() {
    killed_at_every_third(2);
}

/// One is out of its contract, two conflict, one is on its own: nothing lands, and each has its card or its merge.
const CARDS: &str = r#"
[run]
name = "quick"
jobs = 1
[verify]
command = ["true"]
[agents.strays]
owns = ["docs/stray"]
run = ["sh", "-ec", "echo stray > README.md"]
[agents.left]
owns = ["docs/left"]
shares = ["src/a.txt"]
run = ["sh", "-ec", "sed -i 's/a line 10/left/' src/a.txt"]
[agents.right]
owns = ["docs/right"]
shares = ["src/a.txt"]
run = ["sh", "-ec", "sed -i 's/a line 10/right/' src/a.txt"]
[agents.free]
owns = ["docs/free"]
run = ["sh", "-ec", "echo free > docs/free"]
"#;

#[test]
fn killed_over_its_cards_a_run_opens_each_once() {
    let text = CARDS;
    let expected = undisturbed(text, 5);
    assert_eq!(expected.cards.len(), 2, "{expected:?}");
    for (at, place) in [
        "journal card.opened before:1",
        "journal card.opened after:1",
        "journal card.opened after:2",
        "file cards/json after:1",
        "git merge-tree after:2",
        "journal merge.previewed after:3",
        "journal candidate.advanced after:1",
        "journal gate.decided before:1",
    ]
    .iter()
    .enumerate()
    {
        let world = World::new();
        let before = world.picture();
        assert!(run_to_death(&world, &["run", &plan(&world, text), "--land"], place), "{place} never came");
        assert_is_cut_short(&world, place);
        if at % 2 == 1 {
            let mut command = world.sandbox_command(&["resume"]);
            let died = command.env("SANDBOX_DIE_AT", format!("*:{}", at * 6)).output().unwrap().status;
            assert!(died.signal() == Some(9) || died.code() == Some(5), "{place}: {died}");
        }
        world.sandbox(&["resume"]).expect(5);
        assert_eq!(Outcome::of(&world), expected, "{place}");
        assert_eq!(world.picture(), before, "{place}");
    }
}

/// The plan grants what an agent asks for, and another attempt follows that has it.
const ASKS: &str = r#"
[run]
name = "quick"
[verify]
command = ["test", "-f", "docs/more"]
[agents.asks]
owns = ["docs/asks"]
may_ask = ["docs/more"]
run = ["sh", "-ec", """
if test -n "$SANDBOX_GRANTED"; then echo more > docs/more; exit 0; fi
echo asks > docs/asks; sandbox ask --owns docs/more --why more"""]
"#;

#[test]
fn killed_over_a_grant_it_is_granted_once() {
    let expected = undisturbed(ASKS, 0);
    assert_eq!(expected.cards.len(), 1, "{expected:?}");
    for place in [
        "journal card.opened before:1",
        "journal card.opened after:1",
        "journal card.closed after:1",
        "journal attempt.finished after:1",
        "journal attempt.started after:2",
    ] {
        let (world, _) = world_with_changes();
        assert!(run_to_death(&world, &["run", &plan(&world, ASKS), "--land"], place), "{place} never came");
        assert_is_cut_short(&world, place);
        world.sandbox(&["resume"]).expect(0);
        assert_eq!(Outcome::of(&world), expected, "{place}");
        let started = attempts_started(&world, "quick-1");
        assert_eq!(started.last().unwrap()["granted"], serde_json::json!(["docs/more"]), "{place}");
    }
}

/// The data of each `attempt.started` in a run's journal.
fn attempts_started(world: &World, run: &str) -> Vec<Value> {
    let journal = fs::read_to_string(world.store().join(format!("runs/{run}/journal.jsonl"))).unwrap();
    let events = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == "attempt.started").map(|event| event["data"].clone()).collect()
}

/// What an attempt begins with is on disk before anything of the agent runs: killed at its first moment, it is known what it
/// changed.
#[test]
fn what_an_attempt_begins_with_outlives_a_death_at_its_first_moment() {
    for place in ["journal attempt.started after:1", "journal turn.started before:1", "journal turn.started after:1"] {
        let (world, _) = world_with_changes();
        assert!(run_to_death(&world, &["run", &plan(&world, QUICK), "--land"], place), "{place} never came");
        let started = attempts_started(&world, "quick-1");
        assert_eq!(started.len(), 1, "{place}");
        let base = world.git(&["rev-parse", "refs/sandbox/quick-1/a/1.0"]);
        assert_eq!(started[0]["baseRef"], base.as_str(), "{place}");
        assert_eq!(started[0]["forkPoint"], world.git(&["rev-parse", "main"]).as_str(), "{place}");
        // Whatever git cleans up.
        world.git(&["reflog", "expire", "--expire=now", "--all"]);
        world.git(&["gc", "-q", "--prune=now"]);
        assert_eq!(world.git(&["cat-file", "-t", &base]), "commit", "{place}");
        world.sandbox(&["resume"]).expect(0);
    }
}

/// Every place of a run, one after the other, and as many deaths again of what goes on with it. Takes minutes.
#[test]
#[ignore = "takes minutes"]
fn killed_at_any_place_a_run_reaches_what_it_would_have_reached() {
    let expected = undisturbed(QUICK, 0);
    let from = std::env::var("FROM").map_or(1, |text| text.parse().unwrap());
    let mut failed = Vec::new();
    for nth in from.. {
        let deaths = [nth * 7 % 150 + 1];
        let by = By::Resume(&deaths[..nth % 2]);
        match std::panic::catch_unwind(|| die_at_and_go_on(&format!("*:{nth}"), by, &expected)) {
            Ok(true) => {}
            Ok(false) => break,
            Err(_) => failed.push(nth),
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// Every git call of a run, one after the other. Takes minutes; the test after it takes the ones that matter most.
#[test]
#[ignore = "takes minutes"]
fn killed_at_any_git_call_a_run_reaches_what_it_would_have_reached() {
    let expected = undisturbed(QUICK, 0);
    let from = std::env::var("FROM").map_or(1, |text| text.parse().unwrap());
    for (git_goes_on, by) in
        [(false, RESUME), (true, RESUME), (false, By::Verbs), (true, By::Verbs), (false, By::Resume(&[30]))]
    {
        let mut failed = Vec::new();
        for nth in from.. {
            match std::panic::catch_unwind(|| die_and_go_on(Death { call: "*", nth, git_goes_on }, by, &expected)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => failed.push(nth),
            }
        }
        assert!(failed.is_empty(), "{failed:?}");
    }
}

/// The instants that differ: what is half done, and what is done and not yet told.
#[test]
fn killed_in_each_stage_a_run_reaches_what_it_would_have_reached() {
    let expected = undisturbed(QUICK, 0);
    let cases = [
        // Its folder is there, and not its first event.
        ("*update-ref*base*", 1, false),
        // Prepare: the worktree is listed and half made, or not yet.
        ("*worktree?add*", 1, true),
        ("*read-tree?--reset*", 2, false),
        // Harvest: the pack is in, nothing pinned; pinned, and not told.
        ("*update-ref*capture*", 2, false),
        ("*update-ref*capture*", 1, true),
        ("*update-ref*capture*", 4, true),
        // Integrate.
        ("*update-ref*candidate*", 1, true),
        ("*update-ref*candidate*", 1, false),
        // The verifier's worktree is there.
        ("*worktree?add*--detach*", 1, true),
        // Landing: claimed and not done; done and not confirmed.
        ("*merge?--ff-only*", 1, false),
        ("*merge?--ff-only*", 1, true),
    ];
    for (at, (call, nth, git_goes_on)) in cases.into_iter().enumerate() {
        let death = Death { call, nth, git_goes_on };
        for by in [RESUME, if at % 2 == 0 { By::Verbs } else { By::Resume(&[25, 10]) }] {
            assert!(die_and_go_on(death, by, &expected), "{death:?} never came");
        }
    }
}

#[test]
fn killed_while_it_integrates_a_run_lands_all_of_it_or_nothing() {
    let expected = undisturbed(QUICK, 0);
    for (call, nth) in [("*merge-tree*", 2), ("*update-ref*candidate*", 1)] {
        let death = Death { call, nth, git_goes_on: false };
        let (world, _) = world_with_changes();
        fatal_git(&world, death);
        let ran = world.sandbox(&["run", &plan(&world, QUICK)]);
        assert_eq!(ran.code, None, "{death:?} {ran:?}");
        mend_git(&world);
        world.sandbox(&["land"]).expect(0);
        assert_eq!(Outcome::of(&world), expected, "{death:?}");
        let kept = world.git(&["rev-parse", "sandbox/quick-1/integration"]);
        assert_eq!(kept, world.git(&["rev-parse", "main"]), "{death:?}");
    }
}

#[test]
fn killed_while_an_agent_begins_afresh_it_can_begin_afresh_again() {
    let text = QUICK.replace("echo a > docs/a", "test $SANDBOX_ATTEMPT != 1; echo a > docs/a");
    for git_goes_on in [false, true] {
        let death = Death { call: "*worktree?add*", nth: 1, git_goes_on };
        let world = World::new();
        world.sandbox(&["run", &plan(&world, &text)]).expect(1);
        fatal_git(&world, death);
        let ran = world.sandbox(&["retry", "a", "--fresh"]);
        assert_eq!(ran.code, None, "{death:?} {ran:?}");
        until("git has ended", || world.state().join("control/done").exists().then_some(()));
        mend_git(&world);
        // Without `b` the verifier fails, which it should.
        world.sandbox(&["retry", "a", "--fresh"]).expect(6);
        world.sandbox(&["retry", "b"]).expect(0);
        world.sandbox(&["land"]).expect(0);
        assert_eq!(world.read("docs/b"), "a\nb\n", "{death:?}");
    }
}

/// Kills a run while something of it is at work in a box, which tells so by a file in a worktree.
#[track_caller]
fn kill_at(world: &World, text: &str, file: &str, marker: &str) {
    let before = world.picture();
    let going = Going::start(world, &["run", &plan(world, text), "--json"]);
    until(file, || worktree_file(world, file).exists().then_some(()));
    assert!(!processes_with(marker).is_empty(), "it is at work");
    going.signal(Signal::SIGKILL);
    drop(going.wait_dead());
    assert_none_left(marker);
    assert_eq!(world.picture(), before);
    let now = status(world);
    assert_eq!(now["state"], "interrupted", "{now:#}");
    for row in now["agents"].as_array().unwrap() {
        assert_ne!(row["state"], "running", "{row:#}");
    }
}

fn worktree_file(world: &World, file: &str) -> PathBuf {
    let key = fs::read_dir(world.worktrees()).ok().and_then(|mut keys| keys.next()).and_then(Result::ok);
    key.map_or_else(|| world.worktrees(), |key| key.path()).join(file)
}

/// Two turns are done, the third is cut short; its children are in sessions of their own.
const LONG: &str = r#"
[run]
name = "long"
[verify]
command = ["test", "-f", "docs/new"]
[agents.one]
owns = ["docs/**"]
turns = [
    ["sh", "-ec", "echo first > docs/new"],
    ["sh", "-ec", "test $SANDBOX_ATTEMPT = 1 || exit 0; echo live >> docs/new; sandbox turn half; trap '' TERM; echo partial >> docs/new; git add -A; setsid sleep 86501 & echo untracked > docs/untracked; sleep 86501; sleep 86501"],
]
"#;

#[test]
fn killed_in_the_middle_of_a_turn_nothing_is_lost() {
    let world = World::new();
    kill_at(&world, LONG, "long-1--one/docs/untracked", "sleep 86501");
    // From what it began with it can be told what it changed.
    let started = attempts_started(&world, "long-1");
    let base = world.git(&["rev-parse", "refs/sandbox/long-1/one/1.0"]);
    assert_eq!((started.len(), &started[0]["baseRef"]), (1, &Value::from(base)));
    // The turns before are there, the one that the agent ended itself included.
    for (turn, words) in [("1.1", "+first"), ("1.2", "+live")] {
        let patch = world.sandbox(&["inspect", "one", "--turn", turn, "--patch"]).expect(0).stdout;
        assert!(patch.contains(words), "{turn}: {patch}");
    }
    assert_eq!(fs::read_to_string(worktree_file(&world, "long-1--one/docs/new")).unwrap(), "first\nlive\npartial\n");
    // What has no verdict does not land.
    let before = world.picture();
    world.sandbox(&["land"]).expect(1);
    assert_eq!(world.picture(), before);
    // What was left is kept before anything runs, even by that; and the next attempt begins with exactly it.
    let kept = world.git(&["show", "refs/sandbox/long-1/one/1.3:docs/new"]);
    assert_eq!(kept, "first\nlive\npartial");
    world.sandbox(&["retry", "one"]).expect(0);
    assert_eq!(world.git(&["show", "refs/sandbox/long-1/one/2.0:docs/untracked"]), "untracked");
    let patch = world.sandbox(&["inspect", "one", "--turn", "1.3", "--patch"]).expect(0).stdout;
    assert!(patch.contains("+partial") && patch.contains("+untracked"), "{patch}");
}

#[test]
fn cleaning_up_after_a_death_keeps_what_was_not_captured() {
    let world = World::new();
    kill_at(&world, &LONG.replace("86501", "86502"), "long-1--one/docs/untracked", "sleep 86502");
    // Not named, it stays where it is.
    let kept = world.sandbox(&["clean"]).expect(0);
    assert!(kept.stdout.contains("not complete"), "{kept:?}");
    assert!(worktree_file(&world, "long-1--one").exists());
    let cleaned = world.sandbox(&["clean", "long-1"]).expect(0);
    assert!(cleaned.stdout.contains("kept as turn 1.3"), "{cleaned:?}");
    assert!(!worktree_file(&world, "long-1--one").exists());
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
    let patch = world.sandbox(&["inspect", "one", "--turn", "1.3", "--patch"]).expect(0).stdout;
    assert!(patch.contains("+partial") && patch.contains("+untracked"), "{patch}");
    assert_eq!(world.git(&["show", "sandbox/long-1/one:docs/new"]), "first\nlive\npartial");
    // And it outlives git's own cleaning up.
    world.git(&["reflog", "expire", "--expire=now", "--all"]);
    world.git(&["gc", "-q", "--prune=now"]);
    world.git(&["worktree", "prune"]);
    assert_eq!(world.git(&["show", "refs/sandbox/long-1/one/1.3:docs/untracked"]), "untracked");
    // Gone on with it cannot be in the same worktree, which is said.
    let ran = world.sandbox(&["retry", "one"]).expect(2);
    assert!(ran.stderr.contains("--fresh"), "{ran:?}");
    world.sandbox(&["retry", "one", "--fresh"]).expect(0);
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.read("docs/new"), "first\n");
}

/// What lies in a worktree, is not ignored, and git cannot keep: how it is made, and what the refusal names.
const LOST: [(&str, &str, &str); 3] = [
    ("file", "echo work > docs/lost; chmod 0 docs/lost", "docs/lost"),
    ("folder", "mkdir docs/lost; echo work > docs/lost/file; chmod 0 docs/lost", "docs/lost"),
    ("nested", "git init -q docs/inner; echo work > docs/inner/lost; chmod 0 docs/inner/lost", "lost"),
];

#[test]
fn cleaning_up_leaves_what_no_capture_can_keep() {
    let world = World::new();
    for (name, how, named) in LOST {
        let run = format!("{name}-1");
        let command = format!("echo kept > docs/{name}; {how}");
        world.sandbox(&["exec", "--name", name, "--verify", "true", "--", "sh", "-ec", &command]).expect(0);
        let run = world.sandbox(&["runs", "--json"]).expect(0).json()["data"]["runs"][0]["run"]
            .as_str()
            .map_or(run, str::to_owned);
        // Whoever looks at the agent is told.
        let told = world.sandbox(&["inspect", name, "--run", &run]).expect(0).stdout;
        assert!(told.contains("turn 1.1 lacks files") && told.contains(named), "{told}");
        let worktree = worktree_file(&world, &format!("{run}--{name}"));
        for arguments in [&["clean"][..], &["clean", &run]] {
            let cleaned = world.sandbox(arguments).expect(0);
            assert!(cleaned.stdout.contains("not all of it could be captured"), "{name}: {cleaned:?}");
            assert!(cleaned.stdout.contains(named), "{name}: {cleaned:?}");
            assert!(worktree.join("docs").join(name).exists(), "{name}");
        }
        // Mended, it is kept, and the worktree goes.
        let mended = Command::new("chmod").args(["-R", "u+rwX"]).arg(&worktree).status().unwrap();
        assert!(mended.success());
        let cleaned = world.sandbox(&["clean", &run]).expect(0);
        assert!(cleaned.stdout.contains("kept as turn 1."), "{name}: {cleaned:?}");
        assert!(!worktree.exists(), "{name}");
    }
}

#[test]
fn killed_during_setup_or_the_verifier() {
    let world = World::new();
    let text = r#"
[run]
name = "long"
[workspace]
setup = ["sh", "-ec", "touch begun; setsid sleep 86503 & sleep 86503"]
[verify]
command = ["true"]
[agents.one]
owns = ["docs/**"]
run = ["touch", "docs/new"]
"#;
    kill_at(&world, text, "long-1--one/begun", "sleep 86503");
    let world = World::new();
    let text = r#"
[run]
name = "long"
[verify]
command = ["sh", "-ec", "touch begun; setsid sleep 86504 & sleep 86504"]
[agents.one]
owns = ["docs/**"]
run = ["touch", "docs/new"]
"#;
    kill_at(&world, text, "long-1--verify/begun", "sleep 86504");
    let before = world.picture();
    assert_eq!(status(&world)["agents"][0]["state"], "completed");
    // A verdict that was never given is none.
    assert_eq!(status(&world)["verifier"], Value::Null);
    assert_eq!(world.picture(), before);
}

#[test]
fn a_run_after_a_death_has_the_next_number_and_the_old_one_stays() {
    let world = World::new();
    kill_at(&world, &LONG.replace("86501", "86505"), "long-1--one/docs/untracked", "sleep 86505");
    let text = LONG.replace("test $SANDBOX_ATTEMPT = 1 || exit 0; ", "exit 0; ");
    world.sandbox(&["run", &plan(&world, &text), "--land"]).expect(0);
    let told = world.sandbox(&["status", "--json"]).expect(0).json();
    assert_eq!((&told["run"], &told["data"]["state"]), (&"long-2".into(), &"landed".into()));
    assert_eq!(fs::read_to_string(worktree_file(&world, "long-1--one/docs/new")).unwrap(), "first\nlive\npartial\n");
    let patch = world.sandbox(&["inspect", "one", "--run", "long-1", "--turn", "1.2", "--patch"]).expect(0).stdout;
    assert!(patch.contains("+live"), "{patch}");
}

#[test]
fn two_runs_at_once_on_one_repository() {
    let world = World::new();
    let one = world.home().join("one.toml");
    let two = world.home().join("two.toml");
    fs::write(&one, QUICK.replace("quick", "left")).unwrap();
    fs::write(&two, QUICK.replace("quick", "right").replace("docs/a", "docs/c").replace("docs/b", "docs/d")).unwrap();
    let before = world.picture();
    let runs = [&one, &two, &one].map(|path| Going::start(&world, &["run", path.to_str().unwrap(), "--json"]));
    let mut ids: Vec<String> = Vec::new();
    for run in runs {
        let events = run.wait().expect(0).json_lines();
        ids.push(events[0]["runId"].as_str().unwrap().to_owned());
    }
    assert_eq!(world.picture(), before);
    let mut numbers: Vec<&str> = ids.iter().map(|id| id.rsplit('-').next().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, ["1", "2", "3"], "{ids:?}");
    // Each lands, the second on top of the first.
    world.sandbox(&["land", &ids[0]]).expect(0);
    world.sandbox(&["land", &ids[1]]).expect(0);
    assert_eq!((world.read("docs/b"), world.read("docs/d")), ("a\nb\n".to_owned(), "a\nb\n".to_owned()));
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_journal_whose_last_line_is_torn_is_gone_on_with() {
    let world = World::new();
    world.sandbox(&["run", &plan(&world, QUICK)]).expect(0);
    let journal = world.store().join("runs/quick-1/journal.jsonl");
    let whole = fs::read(&journal).unwrap();
    // Cut in the middle of its last line, and in the middle of its last but one.
    let last_line = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for cut in [whole.len() - 1, last_line + 10, last_line - 5] {
        fs::write(&journal, &whole[..cut]).unwrap();
        let seen = world.sandbox(&["status", "--json"]).expect(0);
        assert_eq!(fs::read(&journal).unwrap(), &whole[..cut], "looking repairs nothing");
        assert_ne!(seen.json()["data"]["state"], "running");
        world.sandbox(&["merge"]).expect(0);
        for line in fs::read_to_string(&journal).unwrap().lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
    }
    // Damage in the middle is told, and not written over.
    let mut damaged = whole.clone();
    damaged[200] = b'\n';
    fs::write(&journal, &damaged).unwrap();
    let ran = world.sandbox(&["merge"]).expect(8);
    assert!(ran.stderr.contains("journal.jsonl"), "{ran:?}");
    assert_eq!(fs::read(&journal).unwrap(), damaged);
}

#[test]
fn state_of_a_newer_version_is_read_and_never_written() {
    let world = World::new();
    world.sandbox(&["run", &plan(&world, QUICK)]).expect(0);
    let format = world.store().join("FORMAT");
    assert!(format.exists());
    fs::write(&format, "9999\n").unwrap();
    let files = |world: &World| {
        let listed = world.command("find").args([".git/sandbox", "-type", "f", "-printf", "%p %s %T@\n"]).output();
        let mut lines: Vec<String> =
            String::from_utf8(listed.unwrap().stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (before, refs) = (files(&world), world.git(&["for-each-ref"]));
    let path = plan(&world, QUICK);
    for verb in [
        &["run", &path][..],
        &["merge"],
        &["verify"],
        &["land"],
        &["retry", "a"],
        &["clean", "quick-1"],
        &["exec", "--name", "x", "--", "true"],
    ] {
        let ran = world.sandbox(verb);
        assert_eq!(ran.code, Some(8), "{verb:?} {ran:?}");
        assert!(ran.stderr.contains("9999"), "{verb:?} {ran:?}");
    }
    let seen = world.sandbox(&["status"]).expect(0);
    assert!(seen.stderr.contains("9999"), "{seen:?}");
    assert_eq!((files(&world), world.git(&["for-each-ref"])), (before, refs));
}

/// A damaged record of one run: its worktree stays and is named, those of others go.
#[test]
fn cleaning_up_goes_round_a_damaged_run() {
    let world = World::new();
    let text = |name: &str| {
        format!("[run]\nname = \"{name}\"\n[agents.a]\nowns = [\"docs/**\"]\nrun = [\"sh\", \"-c\", \"exit 0\"]\n")
    };
    for name in ["broken", "sound"] {
        fs::write(world.home().join(format!("{name}.toml")), text(name)).unwrap();
        let file = world.home().join(format!("{name}.toml")).display().to_string();
        drop(world.sandbox(&["run", &file]));
    }
    let journal = world.store().join("runs/broken-1/journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, whole.replacen("\"seq\":2", "\"seq\":7", 1)).unwrap();
    let planned = world.sandbox(&["clean", "--dry-run"]).expect(0).stdout;
    assert!(planned.contains("broken-1") && planned.contains("cannot be told"), "{planned}");
    world.sandbox(&["clean"]).expect(0);
    assert!(worktree_file(&world, "broken-1--a").exists());
    let refused = world.sandbox(&["clean", "broken-1"]);
    assert!(matches!(refused.code, Some(0 | 8)) && worktree_file(&world, "broken-1--a").exists(), "{refused:?}");
}

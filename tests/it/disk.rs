//! A disk that is full, a limit that is met, a place that may not be written: the program stops, says what is wrong and
//! what to do, leaves nothing half made, and goes on once the cause is gone.

use std::collections::BTreeSet;
use std::fs;

use crate::crash::{Outcome, QUICK, undisturbed, world_with_changes};
use crate::flow::plan;
use crate::world::{Ran, World, is_root, program};

/// The errors that stand for a cause, and what the hint must speak of.
const CAUSES: [(&str, &str); 6] = [
    ("ENOSPC", "sandbox clean"),
    ("EDQUOT", "quota"),
    ("EMFILE", "ulimit -n"),
    ("EACCES", "owner"),
    ("EROFS", "read-only"),
    ("EIO", "disk"),
];

/// The effects that can be refused, in order, each kind once.
fn effects() -> Vec<String> {
    let (world, _) = world_with_changes();
    let log = world.state().join("places");
    let file = plan(&world, QUICK);
    let mut command = world.sandbox_command(&["run", &file, "--land"]);
    assert!(command.env("SANDBOX_DIE_LOG", &log).output().unwrap().status.success());
    let text = fs::read_to_string(log).unwrap();
    let mut seen = BTreeSet::new();
    text.lines().filter(|place| place.ends_with(" before") && seen.insert(*place)).map(str::to_owned).collect()
}

/// Whether a refusal of this effect stops nothing: a file can be made anew, what it is for can be done without, or it is
/// asked for once more.
fn stops_nothing(place: &str, from_then_on: bool) -> bool {
    let is_of = |kinds: &[&str]| kinds.iter().any(|kind| place.contains(kind));
    is_of(&["status.json", "latest.json", "cards/", "removal", "control."])
        || !from_then_on && is_of(&["git merge-tree"])
}

fn refused_at_every_second(first: usize) {
    let expected = undisturbed(QUICK, 0);
    let effects = effects();
    assert!(effects.len() >= 40, "{effects:#?}");
    let mut failed = Vec::new();
    for (at, place) in effects.iter().enumerate().skip(first).step_by(2) {
        let (cause, hint) = CAUSES[at % CAUSES.len()];
        // Once, as when somebody else made room meanwhile; or from then on, as when nobody did.
        let on = if at % 4 < 2 { "+" } else { "" };
        let what = format!("{place}:1{on}:{cause}");
        let outcome = std::panic::catch_unwind(|| {
            let (world, before) = world_with_changes();
            let mut command = world.sandbox_command(&["run", &plan(&world, QUICK), "--land"]);
            let ran: Ran = command.env("SANDBOX_FAIL_AT", &what).output().unwrap().into();
            if !stops_nothing(place, on == "+") {
                assert_eq!(ran.code, Some(4), "{what} {ran:?}");
                assert!(ran.stderr.contains("error: ") && ran.stderr.contains(hint), "{what} {ran:?}");
            }
            if !world.repo.join("docs/b").exists() {
                assert_eq!(world.picture(), before, "{what}");
            }
            let runs = world.sandbox(&["runs", "--json"]).expect(0).json();
            let number = runs["data"]["runs"].as_array().unwrap().len();
            if number == 0 {
                world.sandbox(&["run", &plan(&world, QUICK), "--land"]).expect(0);
            } else if fs::read(world.store().join("runs/quick-1/journal.jsonl")).unwrap_or_default().is_empty() {
                world.sandbox(&["clean", "quick-1"]).expect(0);
                world.sandbox(&["run", &plan(&world, QUICK), "--land"]).expect(0);
                return;
            } else {
                world.sandbox(&["resume"]).expect(0);
            }
            let mut found = Outcome::of(&world);
            found.renumber();
            assert_eq!(found, expected, "{what} {ran:?}");
            assert_eq!(world.git(&["status", "--porcelain"]), " M src/b.txt", "{what}");
        });
        if outcome.is_err() {
            failed.push(what);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn refused_any_effect_a_run_stops_and_goes_on_later() {
    refused_at_every_second(0);
}

#[test]
fn refused_any_effect_a_run_stops_and_goes_on_later_second_half() {
    refused_at_every_second(1);
}

/// Runs in a mount namespace whose places are a file system with this much room, and then, with more of it, goes on.
const SMALL_DISK: &str = r#"
mount -t tmpfs -o size=24m tmpfs "$DISK"
cp -a "$TEMPLATE/." "$DISK"
free=$(df -k --output=avail "$DISK" | tail -1)
head -c $(((free - LEFT) * 1024)) /dev/zero > "$DISK/ballast"
cd "$DISK/repo"
export HOME="$DISK" XDG_STATE_HOME="$DISK/state"
code=0; "$PROGRAM" run "$PLAN" --land > /dev/null 2> "$TOLD" || code=$?
rm "$DISK/ballast"
echo "code $code"
if test $code != 0; then cat "$TOLD"; fi
if test -e .git/sandbox/runs/quick-1; then "$PROGRAM" resume > /dev/null; else "$PROGRAM" run "$PLAN" --land > /dev/null; fi
echo "tree $(git rev-parse 'main^{tree}')"
"$PROGRAM" doctor --run > /dev/null && echo sound
"#;

/// A template of a home with a repository in it, and the tree that the plan leads to.
fn template(world: &World) -> (std::path::PathBuf, String) {
    let expected = undisturbed(QUICK, 0).trees["refs/heads/main"].clone();
    (world.home(), expected)
}

#[test]
fn a_disk_that_fills_up_stops_a_run_and_room_lets_it_go_on() {
    if !is_root() {
        // Only root may mount; what an ordinary user meets is below.
        return;
    }
    let world = World::new();
    let (template, expected) = template(&world);
    let disk = world.state().join("disk");
    fs::create_dir_all(&disk).unwrap();
    let file = plan(&world, QUICK);
    let mut stopped = 0;
    for left in [0, 40, 80, 120, 160, 240, 320, 480] {
        let mut command = world.command("unshare");
        command.args(["-m", "sh", "-ec", SMALL_DISK]);
        command.env("DISK", &disk).env("TEMPLATE", &template).env("PLAN", &file).env("PROGRAM", program());
        command.env("TOLD", world.state().join("told"));
        let ran: Ran = command.env("LEFT", left.to_string()).output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{left} KiB: {ran:?}");
        assert!(ran.stdout.contains(&format!("tree {expected}\nsound")), "{left} KiB: {ran:?}");
        if !ran.stdout.contains("code 0") {
            stopped += 1;
            assert!(ran.stdout.contains("code 4") && ran.stdout.contains("sandbox clean"), "{left} KiB: {ran:?}");
        }
    }
    assert!(stopped >= 4, "the disk was never full");
}

/// Runs the plan behind a limit of the shell's, then goes on without it.
fn behind(limit: &str, hint: &str) -> bool {
    let expected = undisturbed(QUICK, 0);
    let (world, before) = world_with_changes();
    let file = plan(&world, QUICK);
    let mut command = world.command("sh");
    let script = format!("{limit}; exec {} run {file} --land", program().display());
    let ran: Ran = command.args(["-c", &script]).output().unwrap().into();
    let stopped = ran.code != Some(0);
    if stopped {
        assert_eq!(ran.code, Some(4), "{limit}: {ran:?}");
        assert!(ran.stderr.contains(hint), "{limit}: {ran:?}");
        assert_eq!(world.picture(), before, "{limit}");
    }
    if world.store().join("runs/quick-1").exists() {
        world.sandbox(&["resume"]).expect(0);
    } else {
        world.sandbox(&["run", &file, "--land"]).expect(0);
    }
    let mut found = Outcome::of(&world);
    found.renumber();
    assert_eq!(found, expected, "{limit} {ran:?}");
    stopped
}

#[test]
fn without_descriptors_a_run_stops_and_says_how_to_have_more() {
    let stopped = [10, 14, 18, 22, 26].map(|most| behind(&format!("ulimit -n {most}"), "ulimit -n"));
    assert!(stopped.contains(&true), "no limit was met");
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_no_death() {
    assert!([1, 2, 4].map(|blocks| behind(&format!("ulimit -f {blocks}"), "ulimit -f")).contains(&true));
}

/// What may not be written, as a script in the repository takes it away; and how it is given back.
#[test]
fn what_may_not_be_written_is_named_and_nothing_is_half_made() {
    let cases: &[(&str, &str, &str)] = if is_root() {
        &[
            ("mount --bind .git/sandbox .git/sandbox; mount -o remount,ro,bind .git/sandbox", "true", "read-only"),
            ("mount --bind .git .git; mount -o remount,ro,bind .git", "true", "read-only"),
            (
                "mount --bind $HOME/../state $HOME/../state; mount -o remount,ro,bind $HOME/../state",
                "true",
                "SANDBOX_WORKTREES",
            ),
        ]
    } else {
        &[
            ("chmod -w .git/sandbox/runs", "chmod +w .git/sandbox/runs", "owner"),
            ("chmod -w .git/sandbox", "chmod +w .git/sandbox", "owner"),
            ("chmod -w .git/refs/heads", "chmod +w .git/refs/heads", ""),
            ("chmod -w .git/objects", "chmod +w .git/objects", ""),
            ("chmod -w $HOME/../state", "chmod +w $HOME/../state", "SANDBOX_WORKTREES"),
        ]
    };
    for (take, give, hint) in cases {
        let world = World::new();
        fs::create_dir_all(world.store().join("runs")).unwrap();
        fs::write(world.store().join("FORMAT"), "1\n").unwrap();
        let file = plan(&world, QUICK);
        let before = world.picture();
        let script =
            format!("{take}; code=0; {} run {file} --land || code=$?; {give}; exit $code", program().display());
        let shell: &[&str] = if is_root() { &["unshare", "-m", "sh"] } else { &["sh"] };
        let mut command = world.command(shell[0]);
        let ran: Ran = command.args(&shell[1..]).args(["-ec", &script]).output().unwrap().into();
        assert_eq!(ran.code, Some(4), "{take}: {ran:?}");
        assert!(ran.stderr.contains("error: ") && ran.stderr.contains(hint), "{take}: {ran:?}");
        assert_eq!(world.picture(), before, "{take}");
        let runs = world.sandbox(&["runs", "--json"]).expect(0).json()["data"]["runs"].as_array().unwrap().len();
        if runs == 0 {
            world.sandbox(&["run", &file, "--land"]).expect(0);
        } else {
            world.sandbox(&["resume"]).expect(0);
        }
        assert_eq!(world.read("docs/b"), "a\nb\n", "{take}");
    }
}

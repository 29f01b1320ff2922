//! A disk that is full, a limit that is met, a place that may not be written: the program stops, says what is wrong and
//! what to do, leaves nothing half made, and goes on once the cause is gone.

use std::collections::BTreeSet;
use std::fs;

use crate::crash::{Outcome, QUICK, undisturbed, world_with_changes};
use crate::flow::plan;

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

/// What a refusal of this effect stops: nothing, where a file can be made anew.
fn is_derived(place: &str) -> bool {
    ["status.json", "latest.json", "cards/", "removal"].iter().any(|kind| place.contains(kind))
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
            let ran: crate::world::Ran = command.env("SANDBOX_FAIL_AT", &what).output().unwrap().into();
            if !is_derived(place) {
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

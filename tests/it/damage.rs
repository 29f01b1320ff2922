//! `doctor --run`: what of a run's record is damaged, what depends on it, and what is written anew.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::crash::QUICK;
use crate::flow::plan;
use crate::world::World;

fn finished() -> World {
    let world = World::new();
    world.sandbox(&["run", &plan(&world, QUICK)]).expect(0);
    world
}

fn folder(world: &World) -> PathBuf {
    world.store().join("runs/quick-1")
}

/// Every file of the run with its bytes.
fn record(world: &World) -> Vec<(String, Vec<u8>)> {
    let listed = world.command("find").arg(folder(world)).args(["-type", "f"]).output().unwrap();
    let mut files: Vec<(String, Vec<u8>)> = String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .map(|path| (path.to_owned(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

fn findings(told: &Value) -> Vec<(String, String, String)> {
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let findings = told["data"]["findings"].as_array().unwrap().iter();
    findings.map(|finding| (text(finding, "file"), text(finding, "fault"), text(finding, "remedy"))).collect()
}

#[test]
fn a_sound_run_is_told_to_be_sound() {
    let world = finished();
    let told = world.sandbox(&["doctor", "--run"]).expect(0).stdout;
    assert!(told.contains("nothing is damaged") && told.contains("  a: 1.1"), "{told}");
    let told = world.sandbox(&["doctor", "--run", "quick-1", "--json"]).expect(0).json();
    assert_eq!((&told["data"]["sound"], findings(&told).len()), (&Value::Bool(true), 0), "{told:#}");
    assert_eq!(told["data"]["journal"]["lastType"], "run.finished");
    world.sandbox(&["doctor", "--repair"]).expect(2);
    let unknown = world.sandbox(&["doctor", "--run", "nope"]).expect(2);
    assert!(unknown.stderr.contains("nope"), "{unknown:?}");
}

/// How the record is damaged, by a script in its folder; the file and the fault that are told; whether it is repaired.
const DAMAGES: [(&str, &str, &str, bool); 14] = [
    ("rm status.json", "status.json", "missing", true),
    ("echo '{' > status.json", "status.json", "damaged", true),
    ("echo '{}' > status.json", "status.json", "stale", true),
    ("rm git-progress/latest.json", "git-progress/latest.json", "missing", true),
    ("printf '{\"v\":1,\"seq\":99' >> journal.jsonl", "journal.jsonl", "torn", true),
    ("sed -i '5s/\"seq\":5/\"seq\":6/' journal.jsonl", "journal.jsonl", "damaged", false),
    ("sed -i '5d' journal.jsonl", "journal.jsonl", "damaged", false),
    ("sed -i '7s/^.\\{9\\}/\\x00\\x00/' journal.jsonl", "journal.jsonl", "damaged", false),
    ("sed -i '4s/\"v\":1/\"v\":9/' journal.jsonl", "journal.jsonl", "newer", false),
    ("rm journal.jsonl", "journal.jsonl", "missing", false),
    ("rm settings.json", "settings.json", "missing", false),
    ("rm agents/a/turns/1.1.patch", "agents/a/turns/1.1.patch", "missing", false),
    ("echo >> agents/a/turns/1.1.patch", "agents/a/turns/1.1.patch", "damaged", false),
    ("echo '{' > agents/b/turns/1.1.json", "agents/b/turns/1.1.json", "damaged", false),
];

#[test]
fn every_damage_is_named_and_only_what_follows_from_the_journal_is_written_anew() {
    let world = finished();
    let copy = world.state().join("copy");
    let sh = |script: &str| {
        let mut command = world.command("sh");
        let ran = command.args(["-ec", script]).current_dir(folder(&world)).output().unwrap();
        assert!(ran.status.success(), "{script}: {ran:?}");
    };
    sh(&format!("cp -a . {}", copy.display()));
    let whole = record(&world);
    for (damage, file, fault, repairable) in DAMAGES {
        sh(damage);
        let damaged = record(&world);
        let told = world.sandbox(&["doctor", "--run", "--json"]).expect(8).json();
        let found = findings(&told);
        let remedy = if repairable { "derivable" } else { "none" };
        assert!(found.contains(&(file.to_owned(), fault.to_owned(), remedy.to_owned())), "{damage}: {told:#}");
        assert_eq!(record(&world), damaged, "{damage}: looking writes nothing");
        let text = world.sandbox(&["doctor", "--run"]).expect(8).stdout;
        assert!(text.contains(file) && text.contains("needed for: "), "{damage}: {text}");
        let repaired = world.sandbox(&["doctor", "--run", "--repair", "--json"]);
        if repairable {
            assert_eq!(repaired.code, Some(0), "{damage}: {repaired:?}");
            assert!(findings(&repaired.json()).iter().all(|(_, _, remedy)| remedy == "repaired"), "{damage}");
            let now: Vec<_> = record(&world).into_iter().filter(|(path, _)| !path.contains("torn")).collect();
            assert_eq!(now, whole, "{damage}");
        } else {
            assert_eq!(repaired.code, Some(8), "{damage}: {repaired:?}");
            assert_eq!(record(&world), damaged, "{damage}: nothing is written over it");
        }
        sh(&format!("find . -mindepth 1 -delete; cp -a {}/. .", copy.display()));
    }
}

#[test]
fn what_can_still_be_read_behind_a_damage_is_told() {
    let world = finished();
    let journal = folder(&world).join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    let lines = whole.lines().count();
    fs::write(&journal, whole.replacen("\"seq\":12,", "\"seq\":99,", 1)).unwrap();
    let told = world.sandbox(&["doctor", "--run", "--json"]).expect(8).json();
    let journal = &told["data"]["journal"];
    assert_eq!((&journal["lastSeq"], &journal["agents"][0]["turns"][0]), (&11.into(), &"1.1".into()), "{told:#}");
    assert_eq!(journal["beyond"].as_array().unwrap().len(), lines - 11);
    // What was done is not lost with the record of it.
    assert_eq!(world.git(&["show", "refs/sandbox/quick-1/b/1.1:docs/b"]), "a\nb");
}

/// What git was told to forget is noticed, with the way to bring it back.
#[test]
fn a_pin_that_is_gone_is_named() {
    let world = finished();
    let pin = "refs/sandbox/quick-1/a/1.1";
    let commit = world.git(&["rev-parse", pin]);
    world.git(&["update-ref", "-d", pin]);
    let told = world.sandbox(&["doctor", "--run"]).expect(8).stdout;
    let again = format!("git update-ref {pin} {commit}");
    assert!(told.contains(&again), "{told}");
    world.git(&["update-ref", pin, &commit]);
    world.sandbox(&["doctor", "--run"]).expect(0);
}

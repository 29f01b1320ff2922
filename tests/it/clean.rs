//! Cleaning up: what goes, what stays and why, and that nothing is lost by it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::world::World;

/// Runs one agent that writes a file of its own.
fn exec(world: &World, name: &str, script: &str, land: bool) {
    let mut arguments = vec!["exec", "--name", name, "--verify", "true"];
    arguments.extend(land.then_some("--land"));
    arguments.extend(["--", "sh", "-ec", script]);
    drop(world.sandbox(&arguments));
}

/// A world with three runs that landed, the newest last: `a-1`, `b-2`, `c-3`.
fn three() -> World {
    let world = World::new();
    for name in ["a", "b", "c"] {
        exec(&world, name, &format!("echo {name} > docs/{name}"), true);
    }
    world
}

fn root(world: &World) -> PathBuf {
    fs::read_dir(world.worktrees()).unwrap().next().unwrap().unwrap().path()
}

/// What `clean` says of each worktree or record.
fn verdicts(world: &World, key: &str, arguments: &[&str]) -> BTreeMap<String, (String, String)> {
    let told = world.sandbox(&[&["clean", "--json"], arguments].concat()).expect(0).json();
    let items = told["data"][key].as_array().unwrap().clone();
    let text = |item: &Value, key: &str| item[key].as_str().unwrap().to_owned();
    items.iter().map(|item| (text(item, "run"), (text(item, "action"), text(item, "reason")))).collect()
}

fn gone(world: &World, key: &str, arguments: &[&str]) -> Vec<String> {
    let all = verdicts(world, key, arguments).into_iter();
    all.filter(|(_, (action, _))| action == "remove").map(|(run, _)| run).collect()
}

/// Every file below these folders, with its times.
fn picture(folders: &[&Path]) -> String {
    let mut lines = Vec::new();
    for folder in folders {
        let listed = std::process::Command::new("find").arg(folder).args(["-printf", "%p %s %m %T@ %C@\n"]).output();
        lines.extend(String::from_utf8(listed.unwrap().stdout).unwrap().lines().map(str::to_owned));
    }
    lines.sort();
    lines.join("\n")
}

#[test]
fn limits_come_from_flags_and_from_the_users_settings() {
    let world = three();
    let all = ["a-1", "b-2", "c-3"];
    let (state, root) = (world.repo.join(".git"), root(&world));
    let before = (picture(&[&state, &root]), world.git(&["for-each-ref"]));
    let size =
        world.sandbox(&["clean", "--dry-run", "--json"]).expect(0).json()["data"]["worktrees"][0]["bytes"].clone();
    let two_of_them = (size.as_u64().unwrap() * 5 / 2).to_string();
    let cases: [(&[&str], &[&str], &[&str]); 9] = [
        (&[], &[], &all),
        (&[], &["--keep", "2"], &["a-1"]),
        (&[], &["--keep", "3"], &[]),
        (&[], &["--older-than", "14d"], &[]),
        (&[], &["--older-than", "2w", "--max-bytes", "1"], &all),
        (&[], &["--max-bytes", &two_of_them], &["a-1"]),
        (&[], &["--max-bytes", "1", "--keep", "1"], &["a-1", "b-2"]),
        (&["keep", "2"], &[], &["a-1"]),
        // A flag counts for more than the setting; one that is not given leaves it as it is.
        (&["keep", "1", "maxBytes", "1KiB", "olderThan", "30d"], &["--keep", "2"], &["a-1"]),
    ];
    for (settings, flags, expected) in cases {
        for pair in settings.chunks_exact(2) {
            world.git(&["config", "--global", &format!("sandbox.clean.{}", pair[0]), pair[1]]);
        }
        let found = gone(&world, "worktrees", &[&["--dry-run"], flags].concat());
        assert_eq!(found, expected, "{settings:?} {flags:?}");
    }
    for wrong in [&["--older-than", "14"][..], &["--keep", "-1"], &["--max-bytes", "0"], &["a-1", "--keep", "1"]] {
        world.sandbox(&[&["clean"], wrong].concat()).expect(2);
    }
    world.git(&["config", "--global", "sandbox.clean.olderThan", "soon"]);
    let refused = world.sandbox(&["clean"]).expect(2);
    assert!(refused.stderr.contains("sandbox.clean.olderThan"), "{refused:?}");
    world.git(&["config", "--global", "--remove-section", "sandbox.clean"]);
    // Nothing of all that has changed anything.
    assert_eq!((picture(&[&state, &root]), world.git(&["for-each-ref"])), before);

    let done = world.sandbox(&["clean", "--keep", "1"]).expect(0);
    assert!(done.stdout.contains("it is the newest run") && done.stdout.contains("KiB freed"), "{done:?}");
    let left: Vec<_> = fs::read_dir(&root).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().any(|name| name == "c-3--c") && !left.iter().any(|name| name == "a-1--a"), "{left:?}");
    assert_eq!(fs::read_dir(root.join(".trash")).unwrap().count(), 0);
    // Old runs stay readable.
    for arguments in [&["inspect", "a", "--run", "a-1"][..], &["logs", "a", "--run", "a-1"], &["board", "--run", "a-1"]]
    {
        let told = world.sandbox(arguments).expect(0);
        assert_eq!(told.stderr, "", "{arguments:?}");
    }
    let patch = world.sandbox(&["inspect", "a", "--run", "a-1", "--patch"]).expect(0).stdout;
    assert!(patch.contains("+a"), "{patch}");
    assert_eq!(world.sandbox(&["runs", "--json"]).expect(0).json()["data"]["runs"].as_array().unwrap().len(), 3);
}

#[test]
fn ignored_files_are_listed_and_single_ones_keep_the_worktree() {
    let world = World::new();
    world.write(".gitignore", "target/\n*.db\n.env\n");
    world.write(".worktreeinclude", ".env\n");
    world.git(&["add", "."]);
    world.commit("ignores");
    world.write(".env", "secret\n");
    exec(
        &world,
        "built",
        "echo x > docs/built; mkdir target; head -c 20000 /dev/zero > target/out; test -f .env",
        true,
    );
    exec(&world, "only", "echo x > docs/only; echo rows > docs/results.db; mkdir target; echo o > target/o", true);
    let found = verdicts(&world, "worktrees", &[]);
    assert_eq!(found["built-1"].0, "remove", "{found:?}");
    let (action, reason) = &found["only-2"];
    assert!(action == "keep" && reason.contains("`docs/results.db`, which git ignores, lies only there"), "{found:?}");
    assert_eq!(fs::read_to_string(root(&world).join("only-2--only/docs/results.db")).unwrap(), "rows\n");
    let list = world.store().join("runs/built-1/agents/built/ignored.1.json");
    let kept: Value = serde_json::from_str(&fs::read_to_string(&list).unwrap()).unwrap();
    let paths: Vec<&str> = kept["paths"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!((paths, &kept["complete"]), (vec![".env", "target/"], &true.into()));
    assert!(kept["paths"][1]["bytes"].as_u64().unwrap() >= 20_000 && kept["paths"][1]["files"] == 1, "{kept}");

    world.git(&["config", "sandbox.clean.ignored", "true"]);
    let told = world.sandbox(&["clean"]).expect(0).stdout;
    assert!(
        told.contains("runs/only-2/agents/only/ignored.1.json") && !root(&world).join("only-2--only").exists(),
        "{told}"
    );
}

#[test]
fn records_go_only_when_asked_for_and_nothing_in_them_is_needed() {
    let world = three();
    exec(&world, "open", "echo x > docs/open", false);
    exec(&world, "fails", "echo x > docs/fails; exit 1", false);
    exec(&world, "idle", "exit 0", false);
    world.sandbox(&["clean", "--records"]).expect(2);
    // What a user put on an agent's branch is the user's.
    let tree = world.git(&["rev-parse", "sandbox/b-2/b^{tree}"]);
    let own = world.git(&["commit-tree", "-p", "sandbox/b-2/b", "-m", "mine", &tree]);
    world.git(&["update-ref", "refs/heads/sandbox/b-2/b", &own]);
    let runs = ["a-1", "b-2", "c-3", "open-4", "fails-5", "idle-6"];
    let before = world.git(&["for-each-ref"]);
    let planned = verdicts(&world, "records", &[&["--dry-run", "--records"][..], &runs].concat());
    assert_eq!(world.git(&["for-each-ref"]), before);
    for (run, words) in [
        ("a-1", None),
        ("b-2", Some("`sandbox/b-2/b` holds what its record does not know")),
        ("c-3", None),
        ("open-4", Some("its result was not landed")),
        ("fails-5", Some("work of `fails` is not part of the result")),
        ("idle-6", None),
    ] {
        let (action, reason) = &planned[run];
        assert_eq!(action == "keep", words.is_some(), "{run}: {planned:?}");
        assert!(words.is_none_or(|words| reason.contains(words)), "{run}: {planned:?}");
    }
    let done = world.sandbox(&[&["clean", "--records"][..], &runs].concat()).expect(0);
    for (run, is_there) in
        [("a-1", false), ("b-2", true), ("c-3", false), ("open-4", true), ("fails-5", true), ("idle-6", false)]
    {
        assert_eq!(world.store().join("runs").join(run).exists(), is_there, "{run}: {done:?}");
        let refs = world.git(&["for-each-ref", &format!("refs/sandbox/{run}"), &format!("refs/heads/sandbox/{run}")]);
        assert_eq!(!refs.is_empty(), is_there, "{run}: {refs}");
    }
    assert_eq!(world.git(&["show", "sandbox/b-2/b"]).lines().last().map(str::trim), Some("mine"));
    // What landed is in the branch it landed in, and no number is used again.
    assert_eq!(world.git(&["show", "main:docs/a"]), "a");
    exec(&world, "next", "echo x > docs/next", false);
    assert!(world.store().join("runs/next-7").is_dir());
    // Where what landed was taken back, the record is all there is.
    world.git(&["reset", "-q", "--hard", "main~3"]);
    world.git(&["update-ref", "-d", "refs/heads/sandbox/b-2/b"]);
    let planned = verdicts(&world, "records", &["--dry-run", "--records", "b-2"]);
    assert!(planned["b-2"].1.contains("in none of your branches any more"), "{planned:?}");
}

#[test]
fn receipts_go_with_the_last_run_that_tells_of_them() {
    let world = three();
    let receipts = || {
        let folders = fs::read_dir(world.store().join("receipts")).unwrap().flatten();
        folders.map(|folder| fs::read_dir(folder.path()).unwrap().count()).sum::<usize>()
    };
    assert_eq!(receipts(), 3);
    world.sandbox(&["clean", "--records", "--keep", "1"]).expect(0);
    assert_eq!(receipts(), 1);
    assert_eq!(gone(&world, "records", &["--dry-run", "--records", "--older-than", "1d"]), Vec::<String>::new());
}

#[test]
fn what_a_killed_process_left_is_swept() {
    let world = World::new();
    exec(&world, "a", "echo a > docs/a", false);
    // Something of the user's, so that landing keeps a copy of the checkout.
    world.write("docs/x.txt", "mine\n");
    let scratch = world.store().join("scratch");
    let left = || -> Vec<String> {
        let entries = fs::read_dir(&scratch).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name != ".trash").collect()
    };
    let temporary = world.home().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = world.sandbox_command(&["land"]);
    command.env("SANDBOX_DIE_AT", "git write-tree before:1").env("TMPDIR", &temporary);
    let ended = command.output().unwrap();
    assert!(ended.status.code().is_none(), "it was to die: {ended:?}");
    assert!(left().iter().any(|name| name.starts_with("git-")), "{:?}", left());
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "nothing lies elsewhere");
    world.sandbox(&["clean"]).expect(0);
    assert_eq!(left(), Vec::<String>::new());
    world.sandbox(&["resume"]).expect(0);
    world.sandbox(&["land"]).expect(0);
    assert_eq!(left(), Vec::<String>::new());
    assert_eq!((world.read("docs/x.txt"), world.read("docs/a")), ("mine\n".to_owned(), "a\n".to_owned()));
}

#[test]
fn worktrees_of_a_run_that_was_begun_elsewhere_are_found() {
    let mut world = World::new();
    let elsewhere = world.home().join("elsewhere");
    world.set("SANDBOX_WORKTREES", &elsewhere);
    exec(&world, "a", "echo a > docs/a", true);
    world.set("SANDBOX_WORKTREES", "");
    exec(&world, "b", "echo b > docs/b", true);
    assert_eq!(gone(&world, "worktrees", &[]), ["a-1", "b-2"]);
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
    let left = fs::read_dir(fs::read_dir(&elsewhere).unwrap().next().unwrap().unwrap().path()).unwrap();
    let mut left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    left.sort();
    assert_eq!(left, [".private", ".trash"]);
}

/// Has a run be of long ago: all that its journal tells happened then.
fn age(world: &World, run: &str) {
    let journal = world.store().join(format!("runs/{run}/journal.jsonl"));
    let text = fs::read_to_string(&journal).unwrap();
    let line = |line: &str| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        let at = event["timestamp"].as_str().unwrap();
        event["timestamp"] = format!("2020-01-01{}", &at[10..]).into();
        event.to_string() + "\n"
    };
    fs::write(journal, text.lines().map(line).collect::<String>()).unwrap();
}

/// What the limits say goes is what goes: the worktrees alone, or with `--records` all of the run.
#[test]
fn what_is_old_or_beyond_what_is_kept_goes_and_nothing_else() {
    let world = three();
    let root = root(&world);
    let left = || -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(&root).unwrap().flatten().map(|it| it.file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.starts_with('.') && !name.ends_with("--verify"));
        names.sort();
        names
    };
    let refs = world.git(&["for-each-ref"]);
    age(&world, "b-2");
    assert_eq!(gone(&world, "worktrees", &["--older-than", "30d"]), ["b-2"]);
    assert_eq!(left(), ["a-1--a", "c-3--c"], "neither the older one by number, which is not as old, nor the newest");
    // One of the newest stays, however old it is.
    age(&world, "c-3");
    assert_eq!(gone(&world, "worktrees", &["--older-than", "30d", "--keep", "1"]), Vec::<String>::new());
    assert_eq!(gone(&world, "worktrees", &["--keep", "1"]), ["a-1"]);
    assert_eq!(left(), ["c-3--c"]);
    assert_eq!(gone(&world, "worktrees", &["--keep", "1"]), Vec::<String>::new(), "a second time there is nothing");
    assert_eq!(world.git(&["for-each-ref"]), refs, "what they made is kept");
    // The same of records.
    assert_eq!(gone(&world, "records", &["--records", "--older-than", "30d", "--keep", "1"]), ["b-2"]);
    let listed = world.sandbox(&["runs", "--json"]).expect(0).json();
    let names: Vec<&str> =
        listed["data"]["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert_eq!(names, ["c-3", "a-1"]);
    for run in ["a-1", "b-2", "c-3"] {
        let is_there = !world.git(&["for-each-ref", &format!("refs/sandbox/{run}")]).is_empty();
        assert_eq!(is_there, run != "b-2", "{run}");
    }
    assert_eq!(world.read("docs/b"), "b\n", "what landed stays");
}

//! What a user, a machine or another program gets wrong: one clear message, the right exit code, nothing left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::flow::plan;
use crate::world::{Ran, World, is_root, program};

const GOOD: &str = r#"
[run]
name = "good"
[verify]
command = ["true"]
[agents.one]
owns = ["docs/**"]
run = ["touch", "docs/new"]
"#;

/// Asserts that a command was refused, with a message that has these words in it, and that it left nothing behind.
#[track_caller]
fn assert_refused(world: &World, ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    for word in words {
        assert!(ran.stderr.contains(word), "no `{word}` in {ran:?}");
    }
    assert_eq!(ran.stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{ran:?}");
    assert!(ran.stdout.is_empty() && !ran.stderr.contains("panicked"), "{ran:?}");
    assert_nothing_is_left(world);
}

#[track_caller]
fn assert_nothing_is_left(world: &World) {
    assert_eq!(names(&world.store().join("runs")), [""; 0], "no run");
    let common = world.repo.join(".git");
    assert_eq!(names(&common.join("worktrees")), [""; 0], "no worktree");
    assert!(!common.join("refs/sandbox").exists() && !common.join("refs/heads/sandbox").exists(), "no ref");
    for key in names(&world.worktrees()) {
        assert_eq!(names(&world.worktrees().join(key)), [""; 0], "no folder");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_plan_that_is_wrong_is_refused_with_its_place() {
    let world = World::new();
    let before = world.picture();
    let agent =
        |name: &str, rest: &str| format!("{GOOD}[agents.{name}]\nowns = [\"src/**\"]\nrun = [\"true\"]\n{rest}");
    let long = "x".repeat(300);
    for (text, words) in [
        ("[run\nname = 1".to_owned(), vec!["plan.toml:1:"]),
        (String::new(), vec!["plan.toml"]),
        (GOOD.replace("name = \"good\"", "name = \"good\"\ncolour = 1"), vec!["colour", "plan.toml:4:"]),
        (GOOD.replace("owns", "own"), vec!["own", "plan.toml:7:"]),
        (GOOD.replace("\"good\"", "\"../x\""), vec!["../x", "plan.toml:3:"]),
        (GOOD.replace("\"good\"", "\"\""), vec!["name", "plan.toml:3:"]),
        (GOOD.replace("\"good\"", "\"-x\""), vec!["-x"]),
        (GOOD.replace("\"good\"", "\"a b\""), vec!["a b"]),
        (GOOD.replace("\"good\"", &format!("\"{long}\"")), vec!["name"]),
        (agent("\"../../x\"", ""), vec!["../../x", "plan.toml:9:"]),
        (agent("\"\"", ""), vec!["plan.toml:9:"]),
        (agent(&long, ""), vec!["plan.toml:9:"]),
        (agent("\"a b\"", ""), vec!["a b"]),
        (agent("\"-x\"", ""), vec!["-x"]),
        (agent("verify", ""), vec!["verify", "reserved"]),
        (agent("integration", ""), vec!["integration", "reserved"]),
        (agent("one", ""), vec!["plan.toml:9:"]),
        (agent("two", "after = [\"nobody\"]\n"), vec!["nobody", "plan.toml:12:"]),
        (agent("two", "after = [\"two\"]\n"), vec!["two"]),
        (
            agent("two", "after = [\"three\"]\n[agents.three]\nowns = [\"x\"]\nrun = [\"true\"]\nafter = [\"two\"]\n"),
            vec!["two", "three"],
        ),
        (agent("two", "").replace("src/**", "docs/x"), vec!["docs/x", "one", "two"]),
        (agent("two", "").replace("src/**", "/etc/**"), vec!["/etc/**"]),
        (agent("two", "").replace("src/**", "../x"), vec!["../x"]),
        (agent("two", "use = \"claude\"\n"), vec!["plan.toml:12:", "not supported by this version"]),
        (agent("two", "prompt = \"do it\"\n"), vec!["plan.toml:12:"]),
        (GOOD.replace("run = [\"touch\", \"docs/new\"]", "run = []"), vec!["plan.toml:8:"]),
        (GOOD.replace("run = [\"touch\", \"docs/new\"]", "run = \"touch docs/new\""), vec!["plan.toml:8:"]),
        (GOOD.replace("run = [\"touch\", \"docs/new\"]\n", ""), vec!["one"]),
    ] {
        let path = plan(&world, &text);
        let ran = world.sandbox(&["run", &path]);
        assert_refused(&world, &ran, 3, &words);
        // The same when it is only checked, and as JSON nothing but JSON.
        let checked = world.sandbox(&["plan", "check", &path, "--json"]).expect(3);
        assert_eq!(checked.json()["error"]["exitCode"], 3, "{checked:?}");
        assert_nothing_is_left(&world);
    }
    assert_eq!(world.picture(), before);
    assert!(!world.store().exists(), "not even the program's own folder");
}

#[test]
fn all_findings_are_told_at_once() {
    let world = World::new();
    let text = GOOD.replace("\"good\"", "\"Good\"").replace("owns", "own");
    let ran = world.sandbox(&["run", &plan(&world, &text)]);
    assert_refused(&world, &ran, 3, &["Good", "own", "plan.toml:3:", "plan.toml:7:"]);
}

#[test]
fn wrong_usage() {
    let world = World::new();
    for (arguments, words) in [
        (&["run"][..], vec!["PLAN"]),
        (&["fly"], vec!["fly"]),
        (&["run", "--colour"], vec!["--colour"]),
        (&["run", "no-such-plan.toml"], vec!["no-such-plan.toml"]),
        (&["run", "src"], vec!["src"]),
        (&["status"], vec!["no run"]),
        (&["inspect", "one"], vec!["no run"]),
        (&["retry", "one"], vec!["no run"]),
        (&["land"], vec!["no run"]),
        (&["stop"], vec!["no run"]),
        (&["clean", "good-1"], vec!["good-1"]),
        (&["status", "../../x"], vec!["../../x"]),
        (&["exec", "--name", "../x", "--", "true"], vec!["../x"]),
        (&["exec", "--name", "one"], vec!["<COMMAND>"]),
    ] {
        let ran = world.sandbox(arguments);
        assert!(ran.code == Some(2), "{arguments:?} {ran:?}");
        for word in words {
            assert!(ran.stderr.to_lowercase().contains(&word.to_lowercase()), "{arguments:?}: no `{word}` in {ran:?}");
        }
        assert!(ran.stdout.is_empty(), "{ran:?}");
    }
    assert_nothing_is_left(&world);
}

#[test]
fn no_repository_or_none_to_work_on() {
    let world = World::new();
    let path = plan(&world, GOOD);
    let elsewhere = world.home().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let run_in =
        |folder: &Path| -> Ran { world.sandbox_command(&["run", &path]).current_dir(folder).output().unwrap().into() };
    assert_refused(&world, &run_in(&elsewhere), 4, &["elsewhere", "not", "repository"]);
    assert_eq!(names(&elsewhere), [""; 0], "and none is made");

    world.git(&["clone", "-q", "--bare", ".", "../bare.git"]);
    let bare = world.home().join("bare.git");
    let ran = run_in(&bare);
    assert_refused(&world, &ran, 4, &["bare"]);
    assert!(!bare.join("sandbox").exists());

    let unborn = World::without_commits();
    let ran = unborn.sandbox(&["run", &plan(&unborn, GOOD)]);
    assert_refused(&unborn, &ran, 4, &["no commit", "git commit"]);

    // A home that is a repository: an agent could not be kept from it.
    let mut home = World::new();
    let repo = home.repo.clone();
    home.set("HOME", &repo);
    home.git(&["config", "user.email", "x@example.org"]);
    let ran = home.sandbox(&["run", &plan(&home, GOOD)]);
    assert_refused(&home, &ran, 4, &["home", "repo"]);

    // Worktrees in the repository itself.
    let mut inside = World::new();
    let place = inside.repo.join("worktrees");
    inside.set("SANDBOX_WORKTREES", &place);
    let ran = inside.sandbox(&["run", &plan(&inside, GOOD)]);
    assert_refused(&inside, &ran, 4, &["worktrees"]);
    assert!(!place.exists());
}

#[test]
fn a_target_that_is_not_there() {
    let world = World::new();
    let ran = world.sandbox(&["run", &plan(&world, &GOOD.replace("\"good\"", "\"good\"\ntarget = \"release\""))]);
    assert_refused(&world, &ran, 4, &["release"]);
    let ran = world.sandbox(&["run", &plan(&world, &GOOD.replace("\"good\"", "\"good\"\ntarget = \"a..b\""))]);
    assert!(matches!(ran.code, Some(3 | 4)), "{ran:?}");
    assert_nothing_is_left(&world);
}

#[test]
fn a_git_that_is_absent_old_or_broken() {
    let world = World::new();
    let path = plan(&world, GOOD);
    world.script("git", "echo 'git version 2.20.1'\n");
    assert_refused(&world, &world.sandbox(&["run", &path]), 4, &["2.20.1", "2.38"]);
    world.script("git", "echo 'this is no git'\n");
    assert_refused(&world, &world.sandbox(&["run", &path]), 4, &["is not git", "SANDBOX_GIT"]);
    for script in ["exit 3\n", "exit 0\n"] {
        world.script("git", script);
        assert_refused(&world, &world.sandbox(&["run", &path]), 4, &["is not git"]);
    }
    fs::remove_file(world.bin.join("git")).unwrap();
    let ran: Ran = world.sandbox_command(&["run", &path]).env("PATH", &world.bin).output().unwrap().into();
    assert_refused(&world, &ran, 4, &["git was not found", "SANDBOX_GIT"]);
}

#[test]
fn what_no_box_could_be_made_for_stops_the_run_before_it_begins() {
    let world = World::new();
    let path = plan(&world, GOOD);
    let ran: Ran = world.sandbox_command(&["run", &path]).env("HOME", "/").output().unwrap().into();
    assert_refused(&world, &ran, 4, &["home directory", "HOME"]);
    if is_root() {
        let path = plan(&world, &format!("{GOOD}\n[sandbox]\nnested = true\n"));
        assert_refused(&world, &world.sandbox(&["run", &path]), 4, &["`sandbox.nested`", "as an ordinary user"]);
    }
}

#[test]
fn worktrees_that_cannot_be_made_stop_the_run_before_it_begins() {
    let mut world = World::new();
    let path = plan(&world, GOOD);
    let before = world.picture();
    // A file where the folder should be, a place where nobody can make a folder, and one where only root could.
    fs::write(world.home().join("file"), "").unwrap();
    for place in [world.home().join("file/below"), "/proc/worktrees".into()] {
        world.set("SANDBOX_WORKTREES", &place);
        let ran = world.sandbox(&["run", &path]);
        assert_refused(&world, &ran, 4, &[&place.display().to_string(), "SANDBOX_WORKTREES"]);
    }
    if !is_root() {
        let closed = world.home().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
        world.set("SANDBOX_WORKTREES", &closed);
        assert_refused(&world, &world.sandbox(&["run", &path]), 4, &["closed", "SANDBOX_WORKTREES"]);
    }
    assert_eq!(world.picture(), before);
}

#[test]
fn a_state_folder_that_cannot_be_written() {
    if is_root() {
        // Root writes everywhere; the run of the suite by another user has it.
        return;
    }
    let world = World::new();
    let path = plan(&world, GOOD);
    let git = world.repo.join(".git");
    fs::set_permissions(&git, fs::Permissions::from_mode(0o555)).unwrap();
    let ran = world.sandbox(&["run", &path]);
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    assert_refused(&world, &ran, 4, &[".git/sandbox"]);

    // A run that is there can still be looked at when nothing can be written.
    world.sandbox(&["run", &path]).expect(0);
    let store = world.store();
    for folder in [&store, &store.join("runs"), &store.join("runs/good-1")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o555)).unwrap();
    }
    for arguments in [&["status"][..], &["inspect", "one", "--patch"], &["board"], &["runs"], &["logs", "one"]] {
        world.sandbox(arguments).expect(0);
    }
    // Without its journal no step of it is taken.
    let journal = store.join("runs/good-1/journal.jsonl");
    let (told, refs) = (fs::read(&journal).unwrap(), world.git(&["for-each-ref"]));
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o444)).unwrap();
    let ran = world.sandbox(&["merge"]).expect(4);
    assert!(ran.stderr.contains("good-1"), "{ran:?}");
    assert_eq!((fs::read(&journal).unwrap(), world.git(&["for-each-ref"])), (told, refs));
    for folder in [&store, &store.join("runs"), &store.join("runs/good-1")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn where_no_user_namespace_can_be_had_nothing_runs() {
    let world = World::new();
    let path = plan(&world, GOOD);
    let before = world.picture();
    let script =
        format!("echo 0 > /proc/sys/user/max_user_namespaces || exit 99; exec {} run {path}", program().display());
    let mut command = world.command("unshare");
    let ran: Ran = command.args(["--user", "--map-root-user", "sh", "-c", &script]).output().unwrap().into();
    if ran.code == Some(99) || ran.stderr.contains("unshare") {
        // This machine does not let the test take namespaces away; there is nothing to see.
        return;
    }
    assert_refused(&world, &ran, 4, &["namespace", "hint: "]);
    assert_eq!(world.picture(), before);
}

#[test]
fn variables_of_an_outer_git_steer_nothing() {
    let world = World::new();
    let other = World::new();
    let (before, others) = (world.picture(), other.picture());
    let path = plan(&world, GOOD);
    // Without protection git itself would go elsewhere.
    let outer = |command: &mut std::process::Command| {
        command
            .env("GIT_DIR", other.repo.join(".git"))
            .env("GIT_INDEX_FILE", other.repo.join(".git/index"))
            .env("GIT_WORK_TREE", &other.repo)
            .env("GIT_OBJECT_DIRECTORY", other.repo.join(".git/objects"))
            .env("GIT_PREFIX", "src/");
    };
    let mut git = world.command("git");
    outer(&mut git);
    let led: Ran = git.args(["rev-parse", "--show-toplevel"]).output().unwrap().into();
    assert_eq!(led.stdout.trim(), other.repo.display().to_string());

    let mut command = world.sandbox_command(&["run", &path]);
    outer(&mut command);
    Ran::from(command.output().unwrap()).expect(0);
    assert_eq!((world.picture(), other.picture()), (before, others));
    assert!(!other.store().exists());
    assert_eq!(world.git(&["ls-tree", "--name-only", "sandbox/good-1/integration", "docs/"]), "docs/new\ndocs/x.txt");
}

#[test]
fn a_command_that_is_not_there_is_an_outcome() {
    let world = World::new();
    let ran = world.sandbox(&["run", &plan(&world, &GOOD.replace("\"touch\"", "\"no-such-program\""))]).expect(1);
    assert!(ran.stdout.contains("could_not_start") && ran.stdout.contains("no-such-program"), "{ran:?}");
}

#[test]
fn a_detached_head_can_be_worked_on_and_not_landed_on() {
    let world = World::new();
    world.git(&["switch", "-q", "--detach"]);
    let before = world.picture();
    let ran = world.sandbox(&["run", &plan(&world, GOOD), "--land"]).expect(1);
    assert!(ran.stdout.contains("no branch to land on"), "{ran:?}");
    assert_eq!(world.picture(), before);
}

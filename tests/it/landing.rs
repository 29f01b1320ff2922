//! Landing on a checkout in every state: refused by name with nothing changed, or done with everything of the user's kept.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::flow::plan;
use crate::going::{Going, until};
use crate::world::{Ran, World};

/// Changes `src/a.txt`, deletes `docs/x.txt`, adds `new/file` and `new/deep/file`.
const PLAN: &str = r#"
[run]
name = "all"
[verify]
command = ["test", "-f", "new/file"]
[agents.one]
owns = ["src/a.txt", "docs/**", "new/**"]
run = ["sh", "-ec", "sed -i 's/a line 10/changed/' src/a.txt; rm docs/x.txt; mkdir -p new/deep; echo n > new/file; git add -f new/file; echo d > new/deep/file"]
"#;

/// A world whose ignore rules name one of the paths that come in.
fn ready() -> World {
    let world = World::new();
    world.write(".gitignore", "*.ignored\nnew/file\n");
    world.commit("rules");
    world
}

/// Runs the plan without landing.
fn run(world: &World, text: &str) {
    world.sandbox(&["run", &plan(world, text)]).expect(0);
}

/// Asserts that landing is refused with these words, and that not a byte of the user's has changed.
#[track_caller]
fn assert_refused(world: &World, name: &str, words: &[&str]) {
    let before = world.picture();
    let ran: Ran = world.sandbox(&["land"]);
    assert_eq!(ran.code, Some(1), "{name}: {ran:?}");
    for word in words {
        assert!(ran.stdout.contains(word), "{name}: no `{word}` in {ran:?}");
    }
    assert_eq!(world.picture(), before, "{name}");
}

/// Asserts that the run has landed.
#[track_caller]
fn assert_landed(world: &World, name: &str) {
    let ran = world.sandbox(&["land"]);
    assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
    assert_eq!(world.git(&["rev-parse", "main"]), world.git(&["rev-parse", "sandbox/all-1/integration"]), "{name}");
    assert!(world.read("src/a.txt").contains("changed"), "{name}");
    assert_eq!((world.read("new/file"), world.repo.join("docs/x.txt").exists()), ("n\n".to_owned(), false), "{name}");
}

/// What the newest end of the run tells that the target was set to.
fn told_landed(world: &World) -> serde_json::Value {
    let journal = fs::read_to_string(world.store().join("runs/all-1/journal.jsonl")).unwrap();
    let event: serde_json::Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    assert_eq!(event["type"], "run.finished");
    event["data"]["landed"].clone()
}

/// What the target has already, and not by this run, has not landed; what the run put there stays landed, wherever the target
/// went since.
#[test]
fn where_the_target_has_everything_there_is_nothing_to_land() {
    let world = ready();
    run(&world, PLAN);
    world.git(&["merge", "-q", "--squash", "sandbox/all-1/integration"]);
    world.git(&["commit", "-qm", "by hand"]);
    for verb in ["merge", "land"] {
        let before = world.picture();
        let ran = world.sandbox(&[verb]).expect(0);
        assert!(ran.stdout.contains("there is nothing to land: main has all of it"), "{verb}: {ran:?}");
        assert!(ran.stdout.contains("sandbox clean all-1") && !ran.stdout.contains("sandbox land"), "{verb}: {ran:?}");
        assert_eq!((world.picture(), told_landed(&world)), (before, serde_json::Value::Null), "{verb}");
    }
    let status = world.sandbox(&["status", "--json"]).expect(0).json();
    assert_eq!((&status["data"]["state"], &status["data"]["landed"]), (&"complete".into(), &serde_json::Value::Null));
    // Nothing of it is needed any more.
    world.sandbox(&["clean", "--records", "all-1"]).expect(0);
    assert!(!world.store().join("runs/all-1").exists());

    let world = ready();
    run(&world, PLAN);
    assert_landed(&world, "first");
    world.write("README.md", "on\n");
    world.git(&["commit", "-qam", "on"]);
    world.sandbox(&["merge"]).expect(0);
    let ran = world.sandbox(&["land"]).expect(0);
    let tip = world.git(&["rev-parse", "main"]);
    assert!(ran.stdout.contains(&format!("landed: main is now {}", &tip[..10])), "{ran:?}");
    assert_eq!(told_landed(&world), tip);
}

/// What the user can have done before landing.
type Deed = fn(&World);

#[test]
fn whatever_of_the_users_is_in_the_way_is_named_and_kept() {
    let cases: [(&str, Deed, &[&str]); 13] = [
        ("edited", |world| world.write("src/a.txt", "mine\n"), &["`src/a.txt`"]),
        (
            "staged",
            |world| {
                world.write("src/a.txt", "mine\n");
                world.git(&["add", "src/a.txt"]);
            },
            &["`src/a.txt`"],
        ),
        (
            "staged and put back in the file",
            |world| {
                let old = world.read("src/a.txt");
                world.write("src/a.txt", "mine\n");
                world.git(&["add", "src/a.txt"]);
                world.write("src/a.txt", &old);
            },
            &["`src/a.txt`"],
        ),
        ("deleted", |world| fs::remove_file(world.repo.join("src/a.txt")).unwrap(), &["`src/a.txt`"]),
        ("edited what is to be deleted", |world| world.write("docs/x.txt", "mine\n"), &["`docs/x.txt`"]),
        ("untracked", |world| world.write("new/deep/file", "mine\n"), &["`new/deep/file`"]),
        ("untracked, a file for a folder", |world| world.write("new/deep", "mine\n"), &["`new/deep`"]),
        ("untracked, a folder for a file", |world| world.write("new/deep/file/inner", "mine\n"), &["new/deep/file"]),
        ("ignored", |world| world.write("new/file", "mine\n"), &["`new/file`"]),
        (
            "made executable",
            |world| fs::set_permissions(world.repo.join("src/a.txt"), fs::Permissions::from_mode(0o755)).unwrap(),
            &["`src/a.txt`"],
        ),
        ("a link for a folder", |world| std::os::unix::fs::symlink("src", world.repo.join("new")).unwrap(), &["`new`"]),
        (
            "in the middle of a merge",
            |world| {
                world.git(&["switch", "-q", "-c", "other"]);
                world.write("src/b.txt", "other\n");
                world.commit("other");
                world.git(&["switch", "-q", "main"]);
                world.git(&["merge", "-q", "--no-commit", "--no-ff", "other"]);
            },
            &["merge is not finished"],
        ),
        (
            "in the middle of a cherry-pick",
            |world| {
                world.git(&["switch", "-q", "-c", "other"]);
                world.write("src/b.txt", "other\n");
                world.commit("other");
                world.git(&["switch", "-q", "main"]);
                world.git(&["cherry-pick", "--no-commit", "other"]);
                world.git(&["update-ref", "CHERRY_PICK_HEAD", "other"]);
            },
            &["cherry-pick is not finished"],
        ),
    ];
    for (name, deed, words) in cases {
        let world = ready();
        run(&world, PLAN);
        deed(&world);
        assert_refused(&world, name, words);
    }
}

#[test]
fn a_rebase_in_progress_is_waited_for() {
    let world = ready();
    world.git(&["switch", "-q", "-c", "other", "main~1"]);
    world.write(".gitignore", "conflict\n");
    world.commit("other");
    world.git(&["switch", "-q", "main"]);
    run(&world, PLAN);
    // The branch counts as checked out while it is rebased, although HEAD is on none.
    let stopped = world.try_git(&["rebase", "-q", "other"]);
    assert_ne!(stopped.code, Some(0), "{stopped:?}");
    assert_refused(&world, "rebase", &["rebase", "not finished"]);
    world.git(&["rebase", "--abort"]);
    assert_landed(&world, "after it");
}

#[test]
fn what_is_not_in_the_way_is_kept_as_it_is() {
    let world = ready();
    world.write("edited", "old\n");
    world.write("gone", "old\n");
    world.commit("more");
    run(&world, PLAN);
    world.write("src/b.txt", "staged\n");
    world.git(&["add", "src/b.txt"]);
    world.write("src/b.txt", "staged, then edited\n");
    world.write("edited", "mine\n");
    world.write("notes", "untracked\n");
    world.write("x.ignored", "ignored\n");
    fs::remove_file(world.repo.join("gone")).unwrap();
    world.git(&["stash", "push", "-q", "edited"]);
    world.write("edited", "mine again\n");
    let stash = world.git(&["stash", "list"]);
    let config = fs::read(world.repo.join(".git/config")).unwrap();
    assert_landed(&world, "beside");
    let now = world.git(&["status", "--porcelain"]);
    assert!(now.contains(" M edited") && now.contains(" D gone") && now.contains("?? notes"), "{now}");
    assert_eq!(world.git(&["show", ":src/b.txt"]), "staged");
    assert_eq!(world.read("src/b.txt"), "staged, then edited\n");
    assert_eq!((world.read("edited"), world.read("x.ignored")), ("mine again\n".to_owned(), "ignored\n".to_owned()));
    assert_eq!(world.git(&["stash", "list"]), stash);
    assert_eq!(fs::read(world.repo.join(".git/config")).unwrap(), config);
    assert!(!world.repo.join(".git/MERGE_HEAD").exists());
}

#[test]
fn the_users_settings_for_merging_change_nothing() {
    let world = ready();
    for (key, value) in [
        ("merge.autoStash", "true"),
        ("rebase.autoStash", "true"),
        ("pull.rebase", "true"),
        ("merge.ff", "false"),
        ("merge.verifySignatures", "true"),
        ("branch.main.mergeOptions", "--no-ff --squash"),
        ("core.autocrlf", "input"),
        ("commit.gpgSign", "true"),
    ] {
        world.git(&["config", key, value]);
    }
    for hook in ["pre-merge-commit", "post-merge", "post-checkout", "pre-commit", "reference-transaction"] {
        let path = world.repo.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\ntouch {}/hooked\nexit 1\n", world.home().display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    run(&world, PLAN);
    world.write("src/a.txt", "mine\n");
    assert_refused(&world, "autostash", &["`src/a.txt`"]);
    assert_eq!(world.git(&["stash", "list"]), "");
    fs::write(world.repo.join("src/a.txt"), world.git(&["show", "HEAD:src/a.txt"]) + "\n").unwrap();
    world.write("src/b.txt", "mine\n");
    assert_landed(&world, "autostash");
    assert_eq!(world.read("src/b.txt"), "mine\n");
    assert_eq!(world.git(&["stash", "list"]), "");
    assert!(!world.home().join("hooked").exists(), "a hook of the user's ran");
}

#[test]
fn a_target_that_is_not_checked_out_moves_alone() {
    let world = ready();
    world.git(&["branch", "release"]);
    world.write("src/b.txt", "main goes on\n");
    world.commit("on main");
    world.write("src/a.txt", "my own change\n");
    let text = PLAN.replace("\"all\"", "\"all\"\ntarget = \"release\"\nland = \"auto\"");
    let before = world.picture();
    let old = world.git(&["rev-parse", "release"]);
    run(&world, &text);
    assert_ne!(world.git(&["rev-parse", "release"]), old, "`land = \"auto\"` needs no flag");
    assert_eq!(world.git(&["rev-parse", "release"]), world.git(&["rev-parse", "sandbox/all-1/integration"]));
    assert_eq!(world.git(&["show", "release:src/b.txt"]), world.git(&["show", "main~1:src/b.txt"]), "nothing of main");
    let mut after = world.picture();
    after.insert("refs".to_owned(), before["refs"].clone());
    assert_eq!(after, before, "only the one ref");
}

#[test]
fn a_target_in_another_worktree_takes_that_checkout_along() {
    let world = ready();
    let other = world.home().join("other");
    world.git(&["worktree", "add", "-q", "-b", "release", other.to_str().unwrap()]);
    fs::write(other.join("src/b.txt"), "mine\n").unwrap();
    let text = PLAN.replace("\"all\"", "\"all\"\ntarget = \"release\"");
    let before = world.picture();
    run(&world, &text);
    fs::write(other.join("src/a.txt"), "mine\n").unwrap();
    assert_refused(&world, "another worktree", &["`src/a.txt`", "other"]);
    assert_eq!(fs::read_to_string(other.join("src/a.txt")).unwrap(), "mine\n");
    fs::write(other.join("src/a.txt"), world.git(&["show", "release:src/a.txt"]) + "\n").unwrap();
    world.sandbox(&["land"]).expect(0);
    assert!(fs::read_to_string(other.join("src/a.txt")).unwrap().contains("changed"));
    assert_eq!(fs::read_to_string(other.join("src/b.txt")).unwrap(), "mine\n");
    let mut after = world.picture();
    after.insert("refs".to_owned(), before["refs"].clone());
    assert_eq!(after, before, "this checkout is on another branch");
}

#[test]
fn a_plan_that_says_never_does_not_land() {
    let world = ready();
    let text = PLAN.replace("\"all\"", "\"all\"\nland = \"never\"");
    let before = world.picture();
    run(&world, &text);
    assert_eq!(world.picture(), before);
    assert_refused(&world, "never", &["never"]);
    world.sandbox(&["run", &plan(&world, &text), "--land"]).expect(1);
    assert_eq!(world.picture(), before);
}

#[test]
fn without_being_asked_nothing_lands() {
    let world = ready();
    let text = PLAN;
    let before = world.picture();
    run(&world, text);
    for verb in [&["merge"][..], &["verify"], &["verify", "--fresh"], &["status"], &["clean"]] {
        world.sandbox(verb).expect(0);
        assert_eq!(world.picture(), before, "{verb:?}");
    }
}

#[test]
fn landing_again_does_nothing_and_says_that_it_is_done() {
    let world = ready();
    run(&world, PLAN);
    assert_landed(&world, "once");
    let before = world.picture();
    for _ in 0..2 {
        world.sandbox(&["land"]).expect(0);
        assert_eq!(world.picture(), before);
    }
    // Also when the branch has gone on since.
    world.write("src/b.txt", "later\n");
    world.commit("later");
    let before = world.picture();
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.picture(), before);
    assert_eq!(world.sandbox(&["status", "--json"]).expect(0).json()["data"]["state"], "landed");
}

#[test]
fn what_was_taken_out_of_the_target_does_not_come_back() {
    let world = ready();
    world.write("src/b.txt", "to be dropped\n");
    world.commit("dropped");
    run(&world, PLAN);
    world.git(&["reset", "-q", "--hard", "HEAD~1"]);
    let before = world.picture();
    let ran = world.sandbox(&["land"]).expect(5);
    assert!(ran.stdout.contains("would come back"), "{ran:?}");
    assert_eq!(world.picture(), before);
}

#[test]
fn a_target_that_is_gone_is_not_made_anew() {
    let world = ready();
    world.git(&["branch", "release"]);
    let text = PLAN.replace("\"all\"", "\"all\"\ntarget = \"release\"");
    run(&world, &text);
    world.git(&["branch", "-q", "-D", "release"]);
    let before = world.picture();
    let ran = world.sandbox(&["land"]);
    assert!(matches!(ran.code, Some(1 | 4)), "{ran:?}");
    assert!(format!("{}{}", ran.stdout, ran.stderr).contains("release"), "{ran:?}");
    assert_eq!(world.picture(), before);
}

/// Many files, one of which is written by way of a filter that waits.
const MANY: &str = r#"
[run]
name = "all"
[verify]
command = ["test", "-f", "new/bulk/1500"]
[agents.one]
owns = ["src/a.txt", "docs/**", "new/**"]
run = ["sh", "-ec", "sed -i 's/a line 10/changed/' src/a.txt; rm docs/x.txt; mkdir -p new/bulk; for i in $(seq 1 1500); do echo $i > new/bulk/$i; done"]
"#;

/// The git that updates the checkout.
fn git_at_work(world: &World) -> Option<i32> {
    fs::read_dir("/proc").unwrap().flatten().find_map(|process| {
        let line = fs::read(process.path().join("cmdline")).ok()?;
        let is_it = String::from_utf8_lossy(&line).contains("--ff-only");
        let here = fs::read_link(process.path().join("cwd")).ok()? == world.repo;
        (is_it && here).then(|| process.file_name().to_str()?.parse().ok())?
    })
}

#[test]
fn a_landing_that_is_cut_off_in_the_middle_of_the_files_is_finished_or_undone() {
    use nix::sys::signal::{Signal, killpg};
    for git_goes_on in [true, false] {
        let world = World::new();
        run(&world, MANY);
        let (at_work, go) = (world.home().join("at-work"), world.home().join("go"));
        let wait = format!("cat; touch {0}; while ! test -e {1}; do sleep 0.01; done", at_work.display(), go.display());
        world.git(&["config", "filter.slow.smudge", &format!("sh -c '{wait}'")]);
        world.git(&["config", "filter.slow.clean", "cat"]);
        fs::write(world.repo.join(".git/info/attributes"), "new/bulk/750 filter=slow\n").unwrap();
        world.write("src/b.txt", "mine\n");
        world.write("notes", "mine\n");
        let landing = Going::start(&world, &["land"]);
        until("git writes files", || at_work.exists().then_some(()));
        assert!(world.repo.join("new/bulk/1").exists() && world.repo.join(".git/index.lock").exists());
        let git = git_at_work(&world).unwrap();
        landing.signal(Signal::SIGKILL);
        drop(landing.wait_dead());
        let next = if git_goes_on {
            // It waits for that git, whose work it then finds done.
            let next = Going::start(&world, &["land"]);
            fs::write(&go, "").unwrap();
            next
        } else {
            killpg(nix::unistd::Pid::from_raw(git), Signal::SIGKILL).unwrap();
            until("git is dead", || git_at_work(&world).is_none().then_some(()));
            fs::write(&go, "").unwrap();
            Going::start(&world, &["land"])
        };
        let ran = next.wait();
        assert_eq!(ran.code, Some(0), "{git_goes_on}: {ran:?}");
        assert_eq!(world.git(&["rev-parse", "main"]), world.git(&["rev-parse", "sandbox/all-1/integration"]));
        assert_eq!(world.git(&["status", "--porcelain"]), " M src/b.txt\n?? notes", "{git_goes_on}");
        assert_eq!((world.read("src/b.txt"), world.read("new/bulk/750")), ("mine\n".to_owned(), "750\n".to_owned()));
        let journal = fs::read_to_string(world.store().join("runs/all-1/journal.jsonl")).unwrap();
        let landings: Vec<&str> = journal.lines().filter(|line| line.contains("\"effect\":\"land\"")).collect();
        let count = |what: &str| landings.iter().filter(|line| line.contains(what)).count();
        assert_eq!(count("\"effect.released\""), usize::from(!git_goes_on), "{landings:?}");
        assert_eq!(count("\"effect.confirmed\""), 1, "{landings:?}");
    }
}

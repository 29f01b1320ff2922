//! What the user's other tools do to a run: each is noticed, and handled or named with what to do next.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::flow::plan;
use crate::going::{Going, until};
use crate::world::{Ran, World};

/// A run with one agent that completed, and one that failed once and does not fail again.
const PLAN: &str = r#"
[run]
name = "t"
[verify]
command = ["true"]
[agents.one]
owns = ["docs/one"]
run = ["sh", "-ec", "echo one >> docs/one"]
[agents.two]
owns = ["docs/two"]
run = ["sh", "-ec", "echo two >> docs/two; test $SANDBOX_ATTEMPT != 1"]
"#;

struct Story {
    world: World,
    /// Where the repository's worktrees lie.
    root: PathBuf,
}

impl Story {
    fn new() -> Self {
        let world = World::new();
        world.sandbox(&["run", &plan(&world, PLAN)]).expect(1);
        let root = fs::read_dir(world.worktrees()).unwrap().next().unwrap().unwrap().path();
        Self { world, root }
    }

    fn worktree(&self, agent: &str) -> PathBuf {
        self.root.join(format!("t-1--{agent}"))
    }

    fn warnings(&self, arguments: &[&str]) -> String {
        let told = self.world.sandbox(arguments).expect(0).json();
        told["warnings"].as_array().into_iter().flatten().map(|it| it.as_str().unwrap().to_owned() + "\n").collect()
    }

    fn delete_refs(&self) {
        let refs = self.world.git(&["for-each-ref", "--format=%(refname)", "refs/sandbox", "refs/heads/sandbox"]);
        for name in refs.lines() {
            self.world.git(&["update-ref", "-d", name]);
        }
    }

    /// The failed agent succeeds in the worktree it has had, and all lands.
    fn goes_on(&self, case: &str) {
        self.world.sandbox(&["retry", "two"]).expect(0);
        self.world.sandbox(&["land"]).expect(0);
        assert_eq!(self.world.git(&["show", "main:docs/two"]), "two\ntwo", "{case}: in the worktree it had");
        assert_eq!(self.warnings(&["status", "--json"]), "", "{case}: nothing is left to be said");
        let cleaned = self.world.sandbox(&["clean", "t-1"]).expect(0);
        assert_eq!(cleaned.stdout.matches("removed").count(), 2, "{case}: {cleaned:?}");
        assert_eq!(self.world.git(&["worktree", "list"]).lines().count(), 1, "{case}");
        assert!(!self.worktree("one").exists() && !self.worktree("two").exists(), "{case}");
    }
}

/// What somebody does, and what `status` says of it.
type Case = (&'static str, fn(&mut Story), &'static [&'static str]);

#[test]
fn what_can_be_mended_is() {
    let cases: [Case; 7] = [
        (
            "collects garbage",
            |story| {
                story.world.git(&["reflog", "expire", "--expire=now", "--all"]);
                story.world.git(&["gc", "-q", "--prune=now"]);
                story.world.git(&["worktree", "prune", "--expire=now"]);
            },
            &[],
        ),
        (
            "removes a worktree's entry",
            |story| {
                story.world.git(&["worktree", "unlock", story.worktree("two").to_str().unwrap()]);
                // As `git worktree prune` does while the folder is not mounted.
                fs::remove_dir_all(story.world.repo.join(".git/worktrees/t-1--two")).unwrap();
            },
            &["has no entry of the worktree of agent `two`"],
        ),
        (
            "deletes the refs that keep snapshots",
            |story| {
                let refs = story.world.git(&["for-each-ref", "--format=%(refname)", "refs/sandbox"]);
                refs.lines().for_each(|name| drop(story.world.git(&["update-ref", "-d", name])));
            },
            &["3 refs were deleted", "`sandbox merge t-1` makes them again"],
        ),
        (
            "moves the repository",
            |story| {
                let moved = story.world.home().join("moved");
                fs::rename(&story.world.repo, &moved).unwrap();
                story.world.repo = moved;
            },
            &["or the worktree of agent `one`, was moved", "or the worktree of agent `two`, was moved"],
        ),
        (
            "moves the repository, and another takes its place",
            |story| {
                let moved = story.world.home().join("moved");
                fs::rename(&story.world.repo, &moved).unwrap();
                story.world.git_in(&story.world.home(), &["init", "-q", "repo"]);
                story.world.repo = moved;
            },
            &["or the worktree of agent `two`, was moved"],
        ),
        (
            "sets another folder for worktrees",
            |story| {
                let elsewhere = story.world.home().join("elsewhere");
                story.world.set("SANDBOX_WORKTREES", elsewhere);
            },
            &[],
        ),
        (
            "moves the folder of worktrees, and says so",
            |story| {
                let elsewhere = story.world.home().join("elsewhere");
                fs::rename(story.world.worktrees(), &elsewhere).unwrap();
                story.root = elsewhere.join(story.root.file_name().unwrap());
                story.world.set("SANDBOX_WORKTREES", elsewhere);
            },
            &["is not there", "SANDBOX_WORKTREES"],
        ),
    ];
    for (case, does, told) in cases {
        let mut story = Story::new();
        does(&mut story);
        let warnings = story.warnings(&["status", "--json"]);
        for words in told {
            assert!(warnings.contains(words), "{case}: {warnings}");
        }
        assert_eq!(told.is_empty(), warnings.is_empty(), "{case}: {warnings}");
        assert_eq!(story.warnings(&["inspect", "two", "--json"]), warnings, "{case}: looking mends nothing");
        if case == "moves the folder of worktrees, and says so" {
            // Where the folder is known, the next status would say only what a mended run says.
            story.world.sandbox(&["retry", "two"]).expect(0);
            story.world.sandbox(&["land"]).expect(0);
            assert_eq!(story.world.git(&["show", "main:docs/two"]), "two\ntwo", "{case}");
            story.world.sandbox(&["clean", "t-1"]).expect(0);
            assert!(!story.worktree("two").exists(), "{case}");
            continue;
        }
        story.goes_on(case);
    }
}

/// A verb, its exit code, and what it says.
type Says = (&'static [&'static str], i32, &'static str);

/// What the user does, how, and what is said then.
type Mishap = (&'static str, fn(&mut Story), &'static [Says]);

#[test]
fn what_cannot_be_mended_is_named() {
    let cases: [Mishap; 7] = [
        (
            "deletes the worktrees",
            |story| {
                for agent in ["one", "two"] {
                    fs::remove_dir_all(story.worktree(agent)).unwrap();
                }
                story.world.git(&["worktree", "prune", "--expire=now"]);
            },
            &[
                (&["status"], 0, "`sandbox retry two --fresh --run t-1` makes a new one"),
                (&["inspect", "two"], 0, "is gone, and not by `sandbox clean`"),
                (&["doctor"], 0, "is gone, and not by `sandbox clean`"),
                (&["inspect", "one", "--patch"], 0, "+one"),
                (&["merge"], 1, "sandbox retry two --fresh --run t-1"),
                (&["retry", "two"], 2, "`sandbox retry two --fresh`"),
                (&["clean", "t-1"], 0, "its folder is gone; its turns are kept"),
                (&["status"], 0, "two"),
            ],
        ),
        (
            "removes a worktree by git",
            |story| {
                story.world.git(&["worktree", "remove", "-f", "-f", story.worktree("two").to_str().unwrap()]);
            },
            &[
                (&["status"], 0, "`sandbox retry two --fresh --run t-1` makes a new one"),
                (&["retry", "two"], 2, "`sandbox retry two --fresh`"),
                // The private folder is found, too.
                (&["clean", "t-1"], 0, "its folder is gone; its turns are kept"),
            ],
        ),
        (
            "puts another folder in its place",
            |story| {
                let two = story.worktree("two");
                fs::rename(&two, story.world.home().join("aside")).unwrap();
                fs::create_dir(&two).unwrap();
                fs::write(two.join("precious"), "x\n").unwrap();
            },
            &[
                (&["status"], 0, "another folder lies at"),
                (&["retry", "two"], 1, "replaced by another"),
                (&["clean", "t-1"], 0, "the folder was replaced by another"),
            ],
        ),
        (
            "deletes the branches",
            |story| {
                for branch in ["one", "two", "integration"] {
                    story.world.git(&["update-ref", "-d", &format!("refs/heads/sandbox/t-1/{branch}")]);
                }
            },
            &[
                (&["status"], 0, "`sandbox/t-1/two`, was deleted: its turns are kept; `sandbox retry two --fresh"),
                (&["retry", "two"], 2, "its branch `sandbox/t-1/two` is gone; use `sandbox retry two --fresh`"),
                (&["merge"], 1, "sandbox inspect two"),
                (&["retry", "two", "--fresh"], 0, "t-1 is complete"),
            ],
        ),
        (
            "deletes every ref, and collects",
            |story| {
                story.delete_refs();
                fs::remove_dir_all(&story.root).unwrap();
                fs::remove_dir_all(story.world.repo.join(".git/worktrees")).unwrap();
                story.world.git(&["reflog", "expire", "--expire=now", "--all"]);
                story.world.git(&["gc", "-q", "--prune=now"]);
            },
            &[
                (&["status"], 0, "refs were deleted"),
                (&["inspect", "one"], 0, "is gone from the repository"),
                (&["inspect", "one", "--stat"], 8, "--turn 1.1 --patch"),
                (&["inspect", "one", "--turn", "1.1", "--patch"], 0, "+one"),
                (&["merge"], 5, "snapshots are gone from the repository"),
            ],
        ),
        (
            "deletes every ref, and collects, but leaves the worktrees",
            |story| {
                story.delete_refs();
                fs::remove_dir_all(story.world.repo.join(".git/worktrees")).unwrap();
                story.world.git(&["reflog", "expire", "--expire=now", "--all"]);
                story.world.git(&["gc", "-q", "--prune=now"]);
            },
            // What was pinned is pinned no more, so it is captured anew.
            &[(&["clean", "t-1"], 0, "what had changed since was kept as turn 1.2")],
        ),
        (
            "removes the program's folder",
            |story| fs::remove_dir_all(story.world.store()).unwrap(),
            &[
                (&["status"], 2, "there is no run in this repository yet"),
                (&["clean"], 0, "there is no record of its run"),
                (&["clean", "--dry-run"], 0, "there are refs of run `t-1`, and no record of it"),
            ],
        ),
    ];
    for (case, does, says) in cases {
        let mut story = Story::new();
        does(&mut story);
        for (arguments, code, words) in says {
            let ran = story.world.sandbox(arguments);
            let told = format!("{}{}", ran.stdout, ran.stderr);
            assert_eq!(ran.code, Some(*code), "{case}: {arguments:?}: {told}");
            assert!(told.contains(words), "{case}: {arguments:?}: {told}");
        }
        if case == "puts another folder in its place" {
            assert_eq!(fs::read_to_string(story.worktree("two").join("precious")).unwrap(), "x\n");
        }
        if case == "removes the program's folder" {
            assert!(story.worktree("one").join("docs/one").exists());
        }
    }
}

#[test]
fn a_copy_leaves_what_belongs_to_the_original() {
    let story = Story::new();
    let copy = story.world.home().join("copy");
    let copied = story.world.command("cp").arg("-a").arg(&story.world.repo).arg(&copy).status().unwrap();
    assert!(copied.success());
    let in_copy = |arguments: &[&str]| -> Ran {
        story.world.sandbox_command(arguments).current_dir(&copy).output().unwrap().into()
    };
    let told = in_copy(&["status"]).expect(0).stderr;
    assert!(told.contains("is a copy of the one at") && told.contains("--fresh"), "{told}");
    let told = in_copy(&["retry", "two"]).expect(2).stderr;
    assert!(told.contains("copy of the repository") && told.contains("`sandbox retry two --fresh`"), "{told}");
    in_copy(&["clean", "t-1"]).expect(0);
    for agent in ["one", "two"] {
        assert!(story.worktree(agent).join("docs").is_dir(), "{agent}");
    }
    // The original does not notice.
    story.goes_on("copied");
}

#[test]
fn links_are_not_mended_towards_what_an_agent_made_of_them() {
    let mut story = Story::new();
    let link = story.worktree("two").join(".git");
    fs::remove_file(&link).unwrap();
    let precious = story.world.home().join("precious");
    fs::write(&precious, "x\n").unwrap();
    symlink(&precious, &link).unwrap();
    let moved = story.world.home().join("moved");
    fs::rename(&story.world.repo, &moved).unwrap();
    story.world.repo = moved;
    let told = story.world.sandbox(&["retry", "two"]).expect(1);
    assert!(format!("{}{}", told.stdout, told.stderr).contains("`.git` file is gone or was replaced"), "{told:?}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "x\n");
    assert!(Path::new(&link).is_symlink());
}

#[test]
fn a_repository_that_is_moved_while_a_run_is_at_work_ends_the_run_and_loses_nothing() {
    let mut world = World::new();
    let waits = "
[run]
name = 't'
[verify]
command = ['true']
[agents.one]
owns = ['docs/one']
run = ['sh', '-ec', 'echo one > docs/one; touch begun; while ! test -e go; do sleep 0.02; done; rm -f begun go']
";
    let mut going = Going::start(&world, &["run", &plan(&world, waits), "--json"]);
    going.wait_for(|event| event["type"] == "turn.started");
    let root = fs::read_dir(world.worktrees()).unwrap().next().unwrap().unwrap().path();
    let worktree = root.join("t-1--one");
    until("the agent has begun", || worktree.join("begun").exists().then_some(()));
    let (here, moved) = (world.repo.clone(), world.home().join("moved"));
    fs::rename(&here, &moved).unwrap();
    fs::write(worktree.join("go"), "").unwrap();
    let ended = going.wait().expect(4);
    assert!(
        ended.stderr.contains("was moved or removed") && ended.stderr.contains("`sandbox resume t-1`"),
        "{ended:?}"
    );
    let made = std::process::Command::new("find").arg(&here).output().unwrap();
    assert!(!here.exists(), "nothing is made where it was: {}", String::from_utf8_lossy(&made.stdout));
    world.repo = moved;
    // Its command would wait for good: what it did is there, and was not told of.
    assert_eq!(world.sandbox(&["status", "--json"]).expect(0).json()["data"]["state"], "interrupted");
    fs::write(worktree.join("go"), "").unwrap();
    world.sandbox(&["resume"]).expect(0);
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.git(&["show", "main:docs/one"]), "one");
}

//! A few cases of the soak, and that its auditor is not blind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::crash::QUICK;
use crate::flow::plan;
use crate::world::{Ran, World, program};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name)
}

/// Random plans, killed at random: the same as `make soak`, for a few seeds that are always the same.
#[test]
fn a_few_random_plans_survive_their_deaths() {
    let mut command = Command::new(script("soak"));
    command.env("SANDBOX_PROGRAM", program()).env("SOAK_SEED", "7").env("SOAK_CASES", "5");
    let ran: Ran = command.output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("5 cases from seed 7") && ran.stdout.contains(" 0 broken"), "{ran:?}");
}

struct Audited {
    world: World,
    picture: PathBuf,
}

impl Audited {
    fn new() -> Self {
        let world = World::new();
        world.write("src/a.txt", "stashed\n");
        world.git(&["stash", "-q"]);
        world.write("notes", "mine\n");
        let picture = world.state().join("picture");
        let ran: Ran =
            world.command(script("audit").to_str().unwrap()).arg("--picture").arg(&world.repo).output().unwrap().into();
        fs::write(&picture, ran.expect(0).stdout).unwrap();
        Self { world, picture }
    }

    fn audit(&self) -> Ran {
        let mut command = self.world.command(script("audit").to_str().unwrap());
        command.arg(&self.world.repo).arg(&self.picture).arg(self.world.worktrees());
        command.output().unwrap().into()
    }
}

#[test]
fn the_audit_finds_nothing_after_a_run_that_landed() {
    let audited = Audited::new();
    audited.world.sandbox(&["run", &plan(&audited.world, QUICK), "--land"]).expect(0);
    let told = audited.audit().expect(0).stdout;
    assert!(told.contains("audited: 2 turns, 0 broken"), "{told}");
}

/// Each promise, broken by hand: what is done in the repository, and what the auditor says.
const BREAKS: [(&str, &str); 12] = [
    ("echo other > notes", "what is the user's has changed"),
    ("git stash drop -q", "what is the user's has changed"),
    ("git config user.x y", "what is the user's has changed"),
    ("echo x > .git/hooks/pre-commit", "what is the user's has changed"),
    ("git update-ref refs/heads/other main", "what is the user's has changed"),
    ("git commit -q --allow-empty -m x; git update-ref refs/heads/main HEAD", "no run claimed it"),
    ("git update-ref -d refs/sandbox/quick-1/a/1.1", "does not pin"),
    (
        "echo >> .git/sandbox/runs/quick-1/agents/a/turns/1.1.patch; sed -i s/+a/+b/ .git/sandbox/runs/quick-1/agents/a/turns/1.1.patch",
        "gives",
    ),
    ("rm .git/sandbox/runs/quick-1/agents/b/turns/1.1.json", "turns are told of"),
    ("sed -i 4d .git/sandbox/runs/quick-1/journal.jsonl", "has no event before"),
    ("sed -i '/turn.finished/{p;}' .git/sandbox/runs/quick-1/journal.jsonl", "twice"),
    ("flock .git/sandbox/lock \"$AUDIT\" . \"$PICTURE\" > out || { cat out; rm out; exit 1; }", "a lock is held"),
];

#[test]
fn the_audit_finds_whatever_is_broken() {
    for (breaks, said) in BREAKS {
        let audited = Audited::new();
        audited.world.sandbox(&["run", &plan(&audited.world, QUICK)]).expect(0);
        audited.audit().expect(0);
        let mut command = audited.world.command("sh");
        command.args(["-ec", breaks]).env("AUDIT", script("audit")).env("PICTURE", &audited.picture);
        let broken: Ran = command.output().unwrap().into();
        let told = if breaks.starts_with("flock") { broken } else { audited.audit() };
        assert_eq!(told.code, Some(1), "{breaks}: {told:?}");
        assert!(told.stdout.contains("BROKEN: ") && told.stdout.contains(said), "{breaks}: {told:?}");
    }
}

#[test]
fn the_audit_finds_a_process_that_is_left() {
    let audited = Audited::new();
    audited.world.sandbox(&["run", &plan(&audited.world, QUICK)]).expect(0);
    let mut left = Command::new("sleep").arg("86600").current_dir(audited.world.worktrees()).spawn().unwrap();
    let told = audited.audit();
    drop(left.kill());
    drop(left.wait());
    assert!(told.code == Some(1) && told.stdout.contains("a process is left"), "{told:?}");
    audited.audit().expect(0);
}

//! A few cases of the soak, and that its auditor is not blind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::crash::QUICK;
use crate::flow::plan;
use crate::world::{Ran, World, program};

/// The scripts as they were when this was built: their folder may be out of the reach of whoever runs this.
fn scripts(world: &World) -> PathBuf {
    let folder = world.state().join("scripts");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in [
        ("audit", include_str!("../../scripts/audit")),
        ("common.sh", include_str!("../../scripts/common.sh")),
        ("soak", include_str!("../../scripts/soak")),
    ] {
        fs::write(folder.join(name), text).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// Random plans, killed at random: the same as `make soak`, for a few seeds that are always the same.
#[test]
fn a_few_random_plans_survive_their_deaths() {
    let world = World::new();
    let mut command = Command::new(scripts(&world).join("soak"));
    command.env("SANDBOX_PROGRAM", program()).env("SOAK_SEED", "7").env("SOAK_CASES", "4");
    let ran: Ran = command.output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("4 cases from seed 7") && ran.stdout.contains(" 0 broken"), "{ran:?}");
}

struct Audited {
    world: World,
    audit: PathBuf,
    picture: PathBuf,
}

impl Audited {
    /// A user in the middle of something, pictured, and then a run.
    fn new(arguments: &[&str]) -> Self {
        let world = World::new();
        world.write("src/a.txt", "stashed\n");
        world.git(&["stash", "-q"]);
        world.write("notes", "mine\n");
        let (audit, picture) = (scripts(&world).join("audit"), world.state().join("picture"));
        let pictured: Ran = Command::new(&audit).arg("--picture").arg(&world.repo).output().unwrap().into();
        fs::write(&picture, pictured.expect(0).stdout).unwrap();
        world.sandbox(&[&["run", &plan(&world, QUICK)], arguments].concat()).expect(0);
        Self { world, audit, picture }
    }

    fn audit(&self) -> Ran {
        let mut command = Command::new(&self.audit);
        command.arg(&self.world.repo).arg(&self.picture).arg(self.world.worktrees()).output().unwrap().into()
    }
}

#[test]
fn the_audit_finds_nothing_after_a_run_that_landed() {
    let told = Audited::new(&["--land"]).audit().expect(0).stdout;
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
    let audited = Audited::new(&[]);
    audited.audit().expect(0);
    let sh = |script: &str| -> Ran {
        let mut command = audited.world.command("sh");
        command.args(["-ec", script]).env("AUDIT", &audited.audit).env("PICTURE", &audited.picture);
        command.env("COPY", audited.world.state().join("copy")).output().unwrap().into()
    };
    sh("cp -a . \"$COPY\"").expect(0);
    for (breaks, said) in BREAKS {
        let broken = sh(breaks);
        let told = if breaks.starts_with("flock") { broken } else { audited.audit() };
        assert_eq!(told.code, Some(1), "{breaks}: {told:?}");
        assert!(told.stdout.contains("BROKEN: ") && told.stdout.contains(said), "{breaks}: {told:?}");
        sh("find . -mindepth 1 -delete; cp -a \"$COPY/.\" .").expect(0);
    }
    let mut left = Command::new("sleep").arg("86600").current_dir(audited.world.worktrees()).spawn().unwrap();
    let told = audited.audit();
    drop(left.kill());
    drop(left.wait());
    assert!(told.code == Some(1) && told.stdout.contains("a process is left"), "{told:?}");
    audited.audit().expect(0);
}

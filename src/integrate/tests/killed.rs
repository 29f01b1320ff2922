#![expect(clippy::disallowed_methods, reason = "tests write files as users do")]
//! Landings whose git is killed: at each file, for good at the ref; what is left is undone, and then they are done.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::world::{Edit, World, remove, task};
use crate::integrate::{Integrated, Landed};
use crate::model::gate::BlockKind;

/// How many files come in.
const FILES: usize = 40;

/// A candidate of many files, whose writing goes through a filter that counts them, and kills git with all it has started at
/// the one that `fatal` names.
fn world() -> (World, Integrated) {
    let filter = "[filter \"count\"]\nsmudge = \"sh \\\"$HOME/filter\\\"\"\nclean = cat\n";
    let world = World::with_settings(vec![task("one", &["**"], &[])], filter);
    let script =
        r#"cat; echo x >> "$HOME/count"; test "$(wc -l < "$HOME/count")" -ne "$(cat "$HOME/fatal")" || kill -9 0"#;
    fs::write(world.folder.path().join("home/filter"), script).unwrap();
    fs::write(world.repository.common_dir().join("info/attributes"), "*.data filter=count\n").unwrap();
    arm(&world, 0);
    let mut edits = vec![Edit::Put("a.txt", "100755", "new\n".to_owned()), remove("c.txt"), remove("src/lib.rs")];
    for number in 0..FILES {
        let mut text = String::new();
        (0..200).for_each(|line| writeln!(text, "line {line} of {number}").unwrap());
        let path = format!("data/{}/{number}.data", number % 4).leak();
        edits.push(Edit::Put(path, "100644", text));
    }
    edits.push(Edit::Put("src/lib.rs/is/a/folder", "100644", "x\n".to_owned()));
    world.works("one", &world.base, &edits);
    let made = world.integrate();
    world.write("b.txt", "the user's\n");
    world.write("untracked", "the user's\n");
    (world, made)
}

fn arm(world: &World, fatal: usize) {
    fs::write(world.folder.path().join("home/fatal"), fatal.to_string()).unwrap();
    drop(fs::remove_file(world.folder.path().join("home/count")));
}

fn lock_exists(world: &World) -> bool {
    world.repository.common_dir().join("index.lock").exists()
}

#[test]
fn killed_at_any_file_nothing_is_left_of_it() {
    let (world, made) = world();
    // An index is written anew by a refresh; so what it says is compared, and not its bytes.
    let state = || {
        let mut users = world.users();
        users.retain(|key, _| key != "git index" && key != "git ORIG_HEAD");
        (users, world.run("status", &["--porcelain"]), world.run("ls-files", &["-s"]))
    };
    let before = state();
    for fatal in [1, 2, 3, FILES / 2, FILES - 1, FILES] {
        arm(&world, fatal);
        let error = world.try_land(&made, &super::world::main_branch()).unwrap_err();
        assert!(error.to_string().contains("signal"), "{fatal}: {error}");
        assert_eq!(state(), before, "{fatal}");
        assert!(!lock_exists(&world), "{fatal}");
        assert!(world.state().open_claims.is_empty(), "{fatal}");
    }
    arm(&world, 0);
    assert!(matches!(world.land(&made), Landed::Done { already: false, .. }));
    assert_eq!(world.run("status", &["--porcelain"]), " M b.txt\n?? untracked");
}

#[test]
fn killed_together_with_the_program_it_is_undone_at_the_next_start() {
    for fatal in [1, FILES / 2, FILES] {
        let (world, made) = world();
        // As the program does it, up to its death: the claim is in the journal, and nothing after it.
        arm(&world, fatal);
        assert!(world.try_land(&made, &super::world::main_branch()).is_err());
        let events = world.journal.borrow().events();
        let claimed = events.iter().rposition(|event| event.kind.name() == "effect.claimed").unwrap();
        let left = crate::git::Checkout::open(&world.git, &world.root()).unwrap();
        let main = super::world::main_branch();
        let forward = crate::git::Forward {
            target: &main,
            old: &made.onto,
            new: &made.candidate,
            timeout: std::time::Duration::from_mins(1),
            held: None,
        };
        arm(&world, fatal);
        assert!(left.fast_forward(forward).is_err());
        assert!(lock_exists(&world));
        world.begin();
        for event in &events[1..=claimed] {
            crate::store::Record::record(&*world.journal.borrow(), event.subject.clone(), event.kind.clone()).unwrap();
        }
        world.run("update-ref", &["refs/heads/sandbox/login-1/integration", made.candidate.as_str()]);
        assert_eq!(world.state().open_claims.len(), 1);
        arm(&world, 0);
        assert!(matches!(world.land(&made), Landed::Done { already: false, .. }), "{fatal}");
        assert_eq!(world.run("status", &["--porcelain"]), " M b.txt\n?? untracked", "{fatal}");
        let executable = fs::metadata(world.root().join("a.txt")).unwrap().permissions().mode() & 0o111;
        assert_ne!(executable, 0);
    }
}

/// All files are written, and the index; the ref cannot be.
#[test]
fn what_fails_at_the_ref_is_put_back() {
    for sparse in [false, true] {
        let (world, made) = world();
        if sparse {
            world.run("sparse-checkout", &["set", "--no-cone", "/*", "!/a.txt", "!/data/1/"]);
        }
        let state = || {
            let mut users = world.users();
            users.retain(|key, _| key != "git index" && key != "git ORIG_HEAD");
            (users, world.run("status", &["--porcelain"]), world.run("ls-files", &["-s", "-v"]))
        };
        let before = state();
        let lock = world.repository.common_dir().join("refs/heads/main.lock");
        fs::write(&lock, "").unwrap();
        let Landed::Refused(blocks) = world.land(&made) else { panic!("refused") };
        assert!(blocks[0].kind == BlockKind::CheckoutBusy && blocks[0].message.contains("main.lock"), "{blocks:?}");
        assert_eq!(state(), before);
        fs::remove_file(lock).unwrap();
        assert!(matches!(world.land(&made), Landed::Done { already: false, .. }));
        assert_eq!(world.run("status", &["--porcelain"]), " M b.txt\n?? untracked");
        assert_eq!(world.root().join("a.txt").exists(), !sparse);
    }
}

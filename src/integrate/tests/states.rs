#![expect(clippy::disallowed_methods, reason = "tests write files as users do")]
//! Every state that a checkout can have when something lands in it. What is expected stands in `docs/landing.md`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::world::{World, put, remove, run_git, task};
use crate::git::{Access, Command, Input, Repository};
use crate::integrate::{Integrated, Landed};
use crate::store::StateDir;

const DOCS: &str = include_str!("../../../docs/landing.md");

/// The rows of one of its tables: a state, and what is said of it in either column.
fn documented(table: &str) -> BTreeMap<&'static str, [&'static str; 2]> {
    let begun = DOCS.split(&format!("<!-- {table} -->")).nth(1).unwrap();
    let rows = begun.split("<!-- end -->").next().unwrap().lines().filter(|line| line.starts_with('|')).skip(2);
    let cells =
        |line: &'static str| -> Vec<&'static str> { line.trim_matches('|').split('|').map(str::trim).collect() };
    rows.map(|line| match cells(line).as_slice() {
        [state, first, second] => (*state, [*first, *second]),
        other => panic!("{other:?}"),
    })
    .collect()
}

/// A path of each kind: all in the way of what lands, or none.
struct Spots {
    changed: &'static str,
    deleted: &'static str,
    added: &'static str,
    folder: &'static str,
    ignored: &'static str,
    /// What `added` and `changed` have once it has landed.
    content: [&'static str; 2],
}

const IN_THE_WAY: Spots = Spots {
    changed: "a.txt",
    deleted: "c.txt",
    added: "new/file",
    folder: "new",
    ignored: "build.log",
    content: ["n\n", "new\n"],
};

const ELSEWHERE: Spots = Spots {
    changed: "b.txt",
    deleted: "src/lib.rs",
    added: "mine/file",
    folder: "mine",
    ignored: "other.log",
    content: ["n\n", "new\n"],
};

/// A candidate that edits, adds and deletes.
fn ready() -> (World, Integrated) {
    let world = World::new(vec![task("one", &["**"], &[])]);
    let edits = [put("a.txt", "new\n"), put("new/file", "n\n"), put("build.log", "log\n"), remove("c.txt")];
    world.works("one", &world.base, &edits);
    let made = world.integrate();
    (world, made)
}

/// What is the same before and after a landing that leaves everything of the user's as it is.
fn own(world: &World, root: &Path, landing: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let mut seen = world.users_of(root);
    seen.retain(|key, _| {
        let path = key.strip_prefix("file ").and_then(|key| key.rsplit_once(' ')).map(|(path, _)| path);
        let moves = ["refs", "git index", "git ORIG_HEAD", "git logs/HEAD"].contains(&key.as_str());
        !moves && path.is_none_or(|path| !landing.contains(&path))
    });
    for arguments in [
        &["status", "--porcelain=v1", "-uall", "--ignored"][..],
        &["diff", "--cached", "--raw"],
        &["diff", "--raw"],
        &["stash", "list"],
        &["ls-files", "-v"],
    ] {
        let text =
            Command::new(&world.git, Access::Read, "-c").args(["core.quotePath=false"]).args(arguments).folder(root);
        let text = text.success().unwrap().stdout;
        let lines = String::from_utf8(text).unwrap();
        let kept =
            lines.lines().filter(|line| !landing.iter().any(|path| line.split_whitespace().last() == Some(path)));
        seen.insert(format!("{arguments:?}"), kept.collect::<Vec<_>>().join("\n").into_bytes());
    }
    seen
}

const LANDING: [&str; 5] = ["a.txt", "c.txt", "build.log", "new", "new/file"];

#[track_caller]
fn assert_refused(world: &World, made: &Integrated, words: &str, what: &str) {
    let before = world.users();
    let events = world.journal.borrow().names().len();
    let Landed::Refused(blocks) = world.land(made) else { panic!("{what}: not refused") };
    assert_eq!(world.users(), before, "{what}");
    assert_eq!(world.journal.borrow().names().len(), events, "{what}: nothing was claimed");
    assert!(blocks.iter().any(|block| block.message.contains(words)), "{what}: no `{words}` in {blocks:?}");
    assert!(blocks.iter().all(|block| !block.next.is_empty()), "{what}: {blocks:?}");
}

#[track_caller]
fn assert_done(world: &World, root: &Path, made: &Integrated, what: &str) {
    let before = own(world, root, &LANDING);
    let landed = world.land(made);
    assert!(matches!(landed, Landed::Done { checkout: Some(_), already: false, .. }), "{what}: {landed:?}");
    let after = own(world, root, &LANDING);
    for (key, value) in &before {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(after.get(key).map(|it| shown(it.as_slice())), Some(shown(value)), "{what}: {key}");
    }
    assert_eq!(after.len(), before.len(), "{what}");
}

type Deed = fn(&World, &Spots);

fn set_mode(world: &World, path: &str) {
    fs::set_permissions(world.root().join(path), fs::Permissions::from_mode(0o755)).unwrap();
}

fn delete(world: &World, path: &str) {
    fs::remove_file(world.root().join(path)).unwrap();
}

const PATHS: [(&str, Deed); 35] = [
    ("edited", |world, at| world.write(at.changed, "mine\n")),
    ("staged", |world, at| {
        world.write(at.changed, "mine\n");
        world.run("add", &[at.changed]);
    }),
    ("staged, and the file as before", |world, at| {
        let old = fs::read_to_string(world.root().join(at.changed)).unwrap();
        world.write(at.changed, "mine\n");
        world.run("add", &[at.changed]);
        world.write(at.changed, &old);
    }),
    ("staged, then edited again", |world, at| {
        world.write(at.changed, "mine\n");
        world.run("add", &[at.changed]);
        world.write(at.changed, "mine again\n");
    }),
    ("edited, and the landing deletes it", |world, at| world.write(at.deleted, "mine\n")),
    ("deleted", |world, at| delete(world, at.changed)),
    ("deletion staged", |world, at| drop(world.run("rm", &["-q", at.changed]))),
    ("deleted, and the landing deletes it", |world, at| delete(world, at.deleted)),
    ("renamed, staged", |world, at| drop(world.run("mv", &[at.changed, "renamed"]))),
    ("made executable", |world, at| set_mode(world, at.changed)),
    ("made executable, staged", |world, at| {
        set_mode(world, at.changed);
        world.run("add", &[at.changed]);
    }),
    ("replaced by a link", |world, at| {
        delete(world, at.changed);
        symlink("elsewhere", world.root().join(at.changed)).unwrap();
    }),
    ("replaced by a folder", |world, at| {
        delete(world, at.changed);
        world.write(&format!("{}/inner", at.changed), "mine\n");
    }),
    ("untracked", |world, at| world.write(at.added, "mine\n")),
    ("untracked, with the content that comes", |world, at| world.write(at.added, at.content[0])),
    ("untracked, a file where a folder comes", |world, at| world.write(at.folder, "mine\n")),
    ("untracked, a folder where a file comes", |world, at| world.write(&format!("{}/in/ner", at.added), "mine\n")),
    ("untracked, a link where a folder comes", |world, at| symlink("src", world.root().join(at.folder)).unwrap()),
    ("untracked, a named pipe", |world, at| {
        let place = world.root().join(at.added);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        nix::unistd::mkfifo(&place, nix::sys::stat::Mode::S_IRWXU).unwrap();
    }),
    ("ignored", |world, at| world.write(at.ignored, "mine\n")),
    ("an empty folder", |world, at| fs::create_dir_all(world.root().join(at.added)).unwrap()),
    ("a repository of its own", |world, at| drop(world.run("init", &["-q", at.added]))),
    ("a repository of its own, with a commit", |world, at| {
        world.run("clone", &["-q", ".", at.added]);
        world.write(&format!("{}/edited", at.added), "mine\n");
    }),
    ("staged as new, with the content that comes", |world, at| {
        world.write(at.added, at.content[0]);
        world.run("add", &[at.added]);
    }),
    ("staged as new, with other content", |world, at| {
        world.write(at.added, "mine\n");
        world.run("add", &[at.added]);
    }),
    ("to be added (`git add -N`)", |world, at| {
        world.write(at.added, "mine\n");
        world.run("add", &["-N", at.added]);
    }),
    ("unmerged, with no merge under way", |world, at| {
        let id = world.run("rev-parse", &[&format!("HEAD:{}", at.changed)]);
        let stages = [1, 2, 3].map(|stage| format!("100644 {id} {stage}\t{}\n", at.changed)).concat();
        let gone = format!("0 {}\t{}\n", "0".repeat(40), at.changed);
        let command = Command::new(&world.git, Access::Write, "update-index").arg("--index-info").folder(world.root());
        drop(command.input(Input::Bytes((gone + &stages).into())).success().unwrap());
    }),
    ("assume-unchanged, and edited", |world, at| {
        world.run("update-index", &["--assume-unchanged", at.changed]);
        world.write(at.changed, "mine\n");
    }),
    ("assume-unchanged, and as it was", |world, at| {
        drop(world.run("update-index", &["--assume-unchanged", at.changed]));
    }),
    ("skip-worktree, and edited", |world, at| {
        world.run("update-index", &["--skip-worktree", at.changed]);
        world.write(at.changed, "mine\n");
    }),
    ("outside a sparse checkout", |world, at| {
        world.run("sparse-checkout", &["set", "--no-cone", "/*", &format!("!/{}", at.changed)]);
        assert!(!world.root().join(at.changed).exists());
    }),
    ("outside a sparse checkout, and there all the same", |world, at| {
        world.run("sparse-checkout", &["set", "--no-cone", "/*", &format!("!/{}", at.changed)]);
        world.write(at.changed, "mine\n");
    }),
    ("stashed", |world, at| {
        world.write(at.changed, "mine\n");
        world.run("stash", &["push", "-q"]);
    }),
    ("written again with the same content", |world, at| {
        let old = fs::read_to_string(world.root().join(at.changed)).unwrap();
        world.write(at.changed, &old);
    }),
    ("another name in all but case (`core.ignoreCase`)", |world, at| {
        let other = at.added.to_uppercase();
        world.write(&other, "mine\n");
        world.run("add", &[&other]);
        world.run("config", &["core.ignoreCase", "true"]);
    }),
];

#[test]
fn every_state_of_a_path() {
    let documented = documented("paths");
    let tested: Vec<&str> = PATHS.iter().map(|(state, _)| *state).collect();
    assert!(
        documented.len() == tested.len() && tested.iter().all(|state| documented.contains_key(state)),
        "{documented:?}"
    );
    let (world, made) = ready();
    let kept = world.folder.path().join("kept");
    copy(&world.root(), &kept);
    let events = world.journal.borrow().events();
    let mut world = world;
    for (state, deed) in PATHS {
        for (spots, expected) in [IN_THE_WAY, ELSEWHERE].iter().zip(documented[state]) {
            let what = format!("{state}, {}", if spots.changed == "a.txt" { "in the way" } else { "elsewhere" });
            deed(&world, spots);
            world.repository = Repository::discover(&world.git, &world.root()).unwrap();
            if let Some(words) = expected.strip_prefix("refused: ") {
                assert_refused(&world, &made, words, &what);
            } else {
                assert!(["done", "kept"].contains(&expected), "{expected}");
                assert_done(&world, &world.root(), &made, &what);
            }
            // Back to how it was.
            fs::remove_dir_all(world.root()).unwrap();
            copy(&kept, &world.root());
            world.run("update-index", &["-q", "--refresh"]);
            world.begin();
            for event in &events[1..] {
                crate::store::Record::record(&*world.journal.borrow(), event.subject.clone(), event.kind.clone())
                    .unwrap();
            }
            world.run("update-ref", &["refs/heads/sandbox/login-1/integration", made.candidate.as_str()]);
        }
    }
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let place = to.join(path.file_name().unwrap());
        if path.is_dir() && !path.is_symlink() {
            copy(&path, &place);
        } else {
            fs::copy(&path, &place).unwrap();
        }
    }
}

/// Where the state is: where the target is checked out, or in a worktree on another branch.
#[derive(Clone, Copy, PartialEq)]
enum Where {
    Target,
    Other,
}

/// The worktree for it.
fn place(world: &World, at: Where) -> PathBuf {
    match at {
        Where::Target => world.root(),
        Where::Other => linked(world, "side"),
    }
}

/// A linked worktree on a branch, which is made if it is not there.
fn linked(world: &World, branch: &str) -> PathBuf {
    let other = world.folder.path().join("other");
    let place = other.to_str().unwrap();
    if branch == "main" {
        world.run("worktree", &["add", "-q", "--force", place, branch]);
    } else {
        world.run("worktree", &["add", "-q", "-b", branch, place, "main"]);
    }
    other
}

/// Git in a folder, whatever it says.
fn stops(world: &World, folder: &Path, subcommand: &'static str, arguments: &[&str]) {
    let command = Command::new(&world.git, Access::Write, subcommand).args(arguments).folder(folder);
    let ran = command.env("GIT_EDITOR", "true").run().unwrap();
    assert_ne!(ran.code(), Some(0), "{subcommand} {arguments:?} stops in the middle");
}

/// Two commits on top of the base, the second of which does not apply to the base.
fn chain(world: &World) -> [String; 2] {
    let one = world.commit(&world.base, std::slice::from_ref(&world.base), &[put("b.txt", "one\n")]);
    let two = world.commit(&one, std::slice::from_ref(&one), &[put("b.txt", "two\n")]);
    world.run("branch", &["chain", two.as_str()]);
    [one.to_string(), two.to_string()]
}

type Setting = fn(&mut World, Where) -> PathBuf;

const CHECKOUTS: [(&str, Setting); 17] = [
    ("a merge", |world, at| {
        let (folder, [one, _]) = (place(world, at), chain(world));
        run_git(&world.git, &folder, "merge", &["-q", "--no-ff", "--no-commit", &one]);
        folder
    }),
    ("a rebase", |world, at| {
        let folder = place(world, at);
        stops(world, &folder, "rebase", &["-q", "--no-ff", "--exec", "false", "--root"]);
        folder
    }),
    ("a rebase that takes the target along", |world, at| {
        world.run("switch", &["-q", "--detach"]);
        let folder = linked(world, "side");
        run_git(&world.git, &folder, "commit", &["-q", "--allow-empty", "-m", "more"]);
        stops(world, &folder, "rebase", &["-q", "--no-ff", "--update-refs", "--exec", "false", "--root"]);
        if at == Where::Target {
            world.run("switch", &["-q", "--ignore-other-worktrees", "main"]);
        }
        folder
    }),
    ("a rebase by patches", |world, at| {
        let folder = place(world, at);
        let unrelated = world.commit(&world.base, &[], &[put("a.txt", "other\n")]);
        stops(world, &folder, "rebase", &["-q", "--apply", "--onto", unrelated.as_str(), "--root"]);
        folder
    }),
    ("an `am`", |world, at| {
        let (folder, [_, two]) = (place(world, at), chain(world));
        let mail = world.folder.path().join("mail");
        fs::write(&mail, world.run("format-patch", &["-1", "--stdout", &two]) + "\n").unwrap();
        stops(world, &folder, "am", &["-q", mail.to_str().unwrap()]);
        folder
    }),
    ("a cherry-pick", |world, at| {
        let (folder, [_, two]) = (place(world, at), chain(world));
        stops(world, &folder, "cherry-pick", &[&two]);
        folder
    }),
    ("a series of picks, between two", |world, at| {
        let (folder, [one, two]) = (place(world, at), chain(world));
        stops(world, &folder, "cherry-pick", &[&two, &one]);
        run_git(&world.git, &folder, "checkout", &["-q", "HEAD", "--", "b.txt"]);
        run_git(&world.git, &folder, "update-ref", &["-d", "CHERRY_PICK_HEAD"]);
        folder
    }),
    ("a revert", |world, at| {
        let (folder, [_, two]) = (place(world, at), chain(world));
        stops(world, &folder, "revert", &["--no-edit", &two]);
        folder
    }),
    ("a bisection", |world, at| {
        let folder = place(world, at);
        run_git(&world.git, &folder, "bisect", &["start"]);
        folder
    }),
    ("a bisection that began on the target", |world, at| {
        let folder = match at {
            Where::Target => world.root(),
            Where::Other => {
                world.run("switch", &["-q", "--detach"]);
                linked(world, "main")
            }
        };
        run_git(&world.git, &folder, "bisect", &["start"]);
        run_git(&world.git, &folder, "switch", &["-q", "--detach"]);
        folder
    }),
    ("a lock on the index", |world, at| {
        let folder = place(world, at);
        let git_dir = run_git(&world.git, &folder, "rev-parse", &["--absolute-git-dir"]);
        fs::write(Path::new(&git_dir).join("index.lock"), "").unwrap();
        folder
    }),
    ("a detached HEAD", |world, at| {
        let folder = place(world, at);
        run_git(&world.git, &folder, "switch", &["-q", "--detach"]);
        folder
    }),
    ("another branch", |world, at| {
        let folder = place(world, at);
        run_git(&world.git, &folder, "switch", &["-q", "-c", "mine"]);
        folder
    }),
    ("the target checked out twice", |world, _| linked(world, "main")),
    ("the target checked out in a folder that is gone", |world, _| {
        world.run("switch", &["-q", "--detach"]);
        let folder = linked(world, "main");
        fs::rename(&folder, world.folder.path().join("aside")).unwrap();
        world.root()
    }),
    ("the target checked out, and git has no note of where", |world, at| {
        let apart = world.folder.path().join("apart");
        world.run("init", &["-q", "--separate-git-dir", apart.to_str().unwrap()]);
        let folder = place(world, at);
        world.repository = Repository::discover(&world.git, &folder).unwrap();
        world.state_dir = StateDir::in_common_dir(world.repository.common_dir());
        world.run = world.state_dir.run(world.run.id());
        folder
    }),
    ("a bare repository", |world, at| {
        world.run("config", &["core.bare", "true"]);
        world.repository = Repository::discover(&world.git, world.repository.common_dir()).unwrap();
        assert!(world.repository.is_bare());
        match at {
            Where::Target => world.folder.path().join("repo/.git"),
            Where::Other => {
                let common = world.repository.common_dir().to_owned();
                let other = world.folder.path().join("other");
                run_git(&world.git, &common, "worktree", &["add", "-q", other.to_str().unwrap(), "main"]);
                other
            }
        }
    }),
];

#[test]
fn every_state_of_a_checkout() {
    let documented = documented("checkouts");
    let tested: Vec<&str> = CHECKOUTS.iter().map(|(state, _)| *state).collect();
    assert!(
        documented.len() == tested.len() && tested.iter().all(|state| documented.contains_key(state)),
        "{documented:?}"
    );
    for (state, setting) in CHECKOUTS {
        for (at, expected) in [Where::Target, Where::Other].into_iter().zip(documented[state]) {
            let what = format!("{state}, {}", if at == Where::Target { "on the target" } else { "elsewhere" });
            let (mut world, made) = ready();
            let folder = setting(&mut world, at);
            let bare = world.repository.is_bare();
            let seen = |world: &World| {
                let mut seen =
                    if folder.join(".git").exists() { own(world, &folder, &LANDING) } else { BTreeMap::new() };
                if !bare {
                    seen.extend(
                        own(world, &world.root(), &LANDING)
                            .into_iter()
                            .map(|(key, value)| (format!("root {key}"), value)),
                    );
                }
                seen
            };
            let before = seen(&world);
            if let Some(words) = expected.strip_prefix("refused: ") {
                let events = world.journal.borrow().names().len();
                let Landed::Refused(blocks) = world.land(&made) else { panic!("{what}: not refused") };
                assert!(blocks.iter().any(|block| block.message.contains(words)), "{what}: no `{words}` in {blocks:?}");
                assert!(blocks.iter().all(|block| !block.next.is_empty()), "{what}: {blocks:?}");
                assert_eq!(world.journal.borrow().names().len(), events, "{what}");
                let tip = world.repository.load_ref(&super::world::main_branch()).unwrap();
                assert_eq!(tip.as_ref(), Some(world.base.object()), "{what}");
            } else {
                let Landed::Done { checkout, already: false, .. } = world.land(&made) else { panic!("{what}") };
                let moves_alone = match expected {
                    "only the ref moves" => true,
                    "done" => false,
                    other => panic!("{other}"),
                };
                assert_eq!(checkout.is_none(), moves_alone, "{what}");
            }
            assert_eq!(seen(&world), before, "{what}");
        }
    }
}

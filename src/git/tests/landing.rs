//! Landing in the user's checkout: nothing of the user's is lost.
#![expect(clippy::disallowed_methods, reason = "tests write files as users do")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use super::super::testing::{File, Fixture, each_git, file, script, somebody};
use super::super::*;
use crate::model::{CommitId, RefName, RepoPath};

const MINUTE: Duration = Duration::from_mins(1);

/// A checkout at one commit, and another to land in it.
struct Landing {
    fixture: Fixture,
    checkout: Checkout,
    old: CommitId,
    new: CommitId,
    incoming: Vec<TreeChange>,
}

impl Landing {
    fn with(fixture: Fixture, old: &[File], new: &[File]) -> Self {
        let old = fixture.commit(&[], old);
        let new = fixture.commit(&[&old], new);
        fixture.check_out(&old);
        let checkout = Checkout::of(&fixture.repository).unwrap();
        let incoming =
            fixture.repository.load_changes(&fixture.tree(&old), &fixture.tree(&new), Renames::Ignore).unwrap();
        Self { fixture, checkout, old, new, incoming }
    }

    /// One whose incoming paths are of every kind.
    fn every_kind(fixture: Fixture) -> Self {
        let kept = || [file("kept", "k\n"), file(".gitignore", "*.log\ncache/\n")];
        let old = [
            file("changed", "1\n"),
            file("removed", "r\n"),
            file("dir to file/x", "x\n"),
            file("file to dir", "x\n"),
            file("mode", "m\n"),
            file("d/deep", "1\n"),
        ];
        let new = [
            file("changed", "2\n"),
            file("added", "a\n"),
            file("dir to file", "now a file\n"),
            file("file to dir/x", "x\n"),
            File("mode", "100755", b"m\n".to_vec()),
            file("d/deep", "2\n"),
            file("new/er/x", "x\n"),
        ];
        Self::with(fixture, &[&old[..], &kept()].concat(), &[&new[..], &kept()].concat())
    }

    fn obstacles(&self) -> Vec<(ObstacleKind, String)> {
        let found = self.checkout.load_obstacles(&self.incoming).unwrap();
        found.into_iter().map(|found| (found.kind, found.path.to_string())).collect()
    }

    fn land(&self) -> FastForward {
        let main = RefName::branch("main").unwrap();
        self.checkout.fast_forward(self.forward(&main)).unwrap()
    }

    fn forward<'a>(&'a self, target: &'a RefName) -> Forward<'a> {
        Forward { target, old: &self.old, new: &self.new, timeout: MINUTE, held: None }
    }

    fn put_back(&self) -> Vec<RepoPath> {
        self.checkout.put_back(&self.old, &self.incoming, &Before::default()).unwrap()
    }

    /// As after a git that was killed, which we know to be dead.
    fn clear_lock(&self) -> bool {
        self.checkout.clear_left_lock(&self.checkout.load_standing(&self.incoming).unwrap()).unwrap()
    }

    fn landed(&self) -> bool {
        let main = RefName::branch("main").unwrap();
        let read = self.checkout.load_read_back(&main).unwrap();
        let all = self.checkout.load_standing(&self.incoming).unwrap();
        read.confirms(&self.old, &self.new)
            && self.checkout.index_holds(&self.incoming).unwrap()
            && all.iter().all(|(_, standing)| *standing == Standing::AtNew)
    }
}

#[test]
fn a_clean_checkout_and_work_elsewhere() {
    each_git(|git| {
        for fixture in [Fixture::new(git), Fixture::hostile(git)] {
            let landing = Landing::every_kind(fixture);
            let write = |path: &str, text: &str| landing.fixture.write(path, text);
            write("kept", "edited\n");
            write("own", "untracked\n");
            write("staged", "staged\n");
            write("x.log", "ignored\n");
            write("d/cache/y", "ignored below a tracked folder\n");
            landing.fixture.run("add", ["staged"]);
            assert_eq!(landing.obstacles(), []);
            let standing = landing.checkout.load_standing(&landing.incoming).unwrap();
            assert!(standing.iter().all(|(_, standing)| *standing == Standing::AtOld), "{standing:?}");
            assert!(!landing.landed());
            assert_eq!(landing.land(), FastForward::Applied);
            assert!(landing.landed());
            for (path, text) in [
                ("kept", "edited\n"),
                ("own", "untracked\n"),
                ("staged", "staged\n"),
                ("x.log", "ignored\n"),
                ("added", "a\n"),
            ] {
                assert_eq!(fs::read_to_string(landing.fixture.root().join(path)).unwrap(), text);
            }
            assert_eq!(landing.fixture.run("diff", ["--cached", "--name-only", "--ignore-submodules=none"]), "staged");
            assert_eq!(landing.fixture.run("stash", ["list"]), "");
        }
    });
}

type Harm = (&'static str, fn(&Landing), &'static [(ObstacleKind, &'static str)]);

/// What a user may have done, and what of it is in the way.
const HARMS: &[Harm] = &[
    ("edited", |l| l.fixture.write("changed", "mine\n"), &[(ObstacleKind::Modified, "changed")]),
    ("edited what goes", |l| l.fixture.write("removed", "mine\n"), &[(ObstacleKind::Modified, "removed")]),
    (
        "staged",
        |l| {
            l.fixture.write("changed", "mine\n");
            l.fixture.run("add", ["changed"]);
        },
        &[(ObstacleKind::Staged, "changed")],
    ),
    ("deleted", |l| fs::remove_file(l.fixture.root().join("changed")).unwrap(), &[(ObstacleKind::Deleted, "changed")]),
    (
        "made executable",
        |l| fs::set_permissions(l.fixture.root().join("changed"), fs::Permissions::from_mode(0o755)).unwrap(),
        &[(ObstacleKind::Modified, "changed")],
    ),
    (
        "replaced by a link",
        |l| {
            fs::remove_file(l.fixture.root().join("changed")).unwrap();
            symlink("kept", l.fixture.root().join("changed")).unwrap();
        },
        &[(ObstacleKind::Modified, "changed")],
    ),
    ("untracked", |l| l.fixture.write("added", "mine\n"), &[(ObstacleKind::Untracked, "added")]),
    ("untracked and equal", |l| l.fixture.write("added", "a\n"), &[(ObstacleKind::Untracked, "added")]),
    ("an untracked file for a folder", |l| l.fixture.write("new", "mine\n"), &[(ObstacleKind::Untracked, "new")]),
    (
        "a link for a folder",
        |l| symlink("d", l.fixture.root().join("new")).unwrap(),
        &[(ObstacleKind::Untracked, "new")],
    ),
    (
        "ignored",
        |l| {
            l.fixture.write(".git/info/exclude", "added\n");
            l.fixture.write("added", "mine\n");
        },
        &[(ObstacleKind::Ignored, "added")],
    ),
    (
        "ignored and deeper",
        |l| {
            l.fixture.write(".git/info/exclude", "x\n");
            l.fixture.write("new/er/x", "mine\n");
        },
        &[(ObstacleKind::Ignored, "new/er/x")],
    ),
    (
        "a folder for a file",
        |l| {
            l.fixture.write("added/one", "1");
            l.fixture.write("added/two/a.log", "2");
        },
        &[(ObstacleKind::Untracked, "added/one"), (ObstacleKind::Ignored, "added/two/a.log")],
    ),
    (
        "untracked in what becomes a file",
        |l| l.fixture.write("dir to file/own", "mine\n"),
        &[(ObstacleKind::Untracked, "dir to file/own")],
    ),
    (
        "ignored in what becomes a file",
        |l| l.fixture.write("dir to file/own.log", "mine\n"),
        &[(ObstacleKind::Ignored, "dir to file/own.log")],
    ),
    (
        "staged in what becomes a file",
        |l| {
            l.fixture.write("dir to file/own", "mine\n");
            l.fixture.run("add", ["dir to file/own"]);
        },
        &[(ObstacleKind::Staged, "dir to file/own")],
    ),
    (
        "staged for a folder",
        |l| {
            l.fixture.write("new", "mine\n");
            l.fixture.run("add", ["new"]);
        },
        &[(ObstacleKind::Staged, "new")],
    ),
    (
        "a repository for a file",
        |l| {
            l.fixture.run("init", ["-q", "added"]);
        },
        &[(ObstacleKind::NestedRepository, "added")],
    ),
    (
        "a repository for a folder",
        |l| {
            l.fixture.run("init", ["-q", "new"]);
        },
        &[(ObstacleKind::NestedRepository, "new")],
    ),
    (
        "a repository in what becomes a file",
        |l| {
            l.fixture.run("init", ["-q", "dir to file/in"]);
        },
        &[(ObstacleKind::NestedRepository, "dir to file/in")],
    ),
    (
        "unchanged by word only",
        |l| {
            l.fixture.run("update-index", ["--assume-unchanged", "changed"]);
            l.fixture.write("changed", "mine\n");
        },
        &[(ObstacleKind::Hidden, "changed")],
    ),
    (
        "skipped by word only",
        |l| {
            l.fixture.run("update-index", ["--skip-worktree", "changed"]);
            l.fixture.write("changed", "mine\n");
        },
        &[(ObstacleKind::Hidden, "changed")],
    ),
    (
        "about to be added",
        |l| {
            l.fixture.write("added", "mine\n");
            l.fixture.run("add", ["-N", "added"]);
        },
        &[(ObstacleKind::Staged, "added"), (ObstacleKind::Modified, "added")],
    ),
    (
        "several at once",
        |l| {
            l.fixture.write("changed", "mine\n");
            l.fixture.write("added", "mine\n");
            l.fixture.write("d/deep", "mine\n");
        },
        &[(ObstacleKind::Modified, "changed"), (ObstacleKind::Modified, "d/deep"), (ObstacleKind::Untracked, "added")],
    ),
];

#[test]
fn whatever_is_in_the_way_is_named_before_and_survives() {
    each_git(|git| {
        for (name, harm, expected) in HARMS {
            let landing = Landing::every_kind(Fixture::new(git));
            harm(&landing);
            let state = || (Fixture::snapshot(&landing.fixture.root().join(".git")), landing.fixture.files());
            let before = state();
            let expected: Vec<_> = expected.iter().map(|(kind, path)| (*kind, (*path).to_owned())).collect();
            assert_eq!(landing.obstacles(), expected, "{name}");
            assert_eq!(before, state(), "{name}: looking changes nothing");
        }
    });
}

#[test]
fn gits_own_refusal_is_a_second_line_with_holes() {
    each_git(|git| {
        let mut holes = Vec::new();
        for (name, harm, _) in HARMS {
            let landing = Landing::every_kind(Fixture::hostile(git));
            harm(&landing);
            let before = landing.fixture.files();
            match landing.land() {
                FastForward::Refused { message } => {
                    assert_eq!(before, landing.fixture.files(), "{name}: {message}");
                    assert!(!message.is_empty());
                }
                FastForward::Applied => holes.push(*name),
            }
        }
        // It brings back what was deleted, drops what was staged, writes into another repository. So we look first.
        assert_eq!(holes, ["deleted", "staged in what becomes a file", "a repository for a folder"]);
    });
}

#[test]
fn what_is_no_obstacle() {
    type Fine = (&'static str, fn(&Landing));
    let fine: &[Fine] = &[
        ("staged and equal", |l| {
            l.fixture.write("added", "a\n");
            l.fixture.run("add", ["added"]);
        }),
        ("gone and to go", |l| fs::remove_file(l.fixture.root().join("removed")).unwrap()),
        ("touched", |l| l.fixture.write("changed", "1\n")),
        ("an empty folder", |l| fs::create_dir_all(l.fixture.root().join("added")).unwrap()),
        ("unchanged by word and truly", |l| drop(l.fixture.run("update-index", ["--assume-unchanged", "changed"]))),
    ];
    each_git(|git| {
        for (name, harm) in fine {
            let landing = Landing::every_kind(Fixture::new(git));
            harm(&landing);
            assert_eq!(landing.obstacles(), [], "{name}");
            assert_eq!(landing.land(), FastForward::Applied, "{name}");
            assert!(landing.landed(), "{name}");
        }
    });
}

#[test]
fn a_target_that_has_moved_is_refused() {
    each_git(|git| {
        let landing = Landing::every_kind(Fixture::new(git));
        let elsewhere = landing.fixture.commit(&[&landing.old], &[file("kept", "k\n")]);
        landing.fixture.check_out(&elsewhere);
        assert!(matches!(landing.land(), FastForward::Refused { .. }));
        landing.fixture.check_out(&landing.old);
        landing.fixture.run("checkout", ["-q", "-b", "other"]);
        assert!(matches!(landing.land(), FastForward::Refused { .. }), "another branch is checked out");
        landing.fixture.run("checkout", ["-q", "main"]);
        landing.fixture.write(".git/index.lock", "");
        assert!(matches!(landing.land(), FastForward::Refused { .. }));
        assert!(landing.clear_lock());
        assert_eq!(landing.land(), FastForward::Applied);
    });
}

#[test]
fn names_that_differ_in_case_only() {
    each_git(|git| {
        let landing =
            Landing::with(Fixture::new(git), &[file("readme", "r\n")], &[file("readme", "r\n"), file("README", "R\n")]);
        assert_eq!(landing.obstacles(), []);
        landing.fixture.run("config", ["core.ignoreCase", "true"]);
        let checkout = Checkout::of(&landing.fixture.again()).unwrap();
        let landing = Landing { checkout, ..landing };
        assert_eq!(landing.obstacles(), [(ObstacleKind::CaseOnly, "readme".to_owned())]);
    });
}

#[test]
fn half_a_landing_is_taken_back_or_left_alone() {
    each_git(|git| {
        let landing = Landing::every_kind(Fixture::new(git));
        let before = landing.fixture.files();
        // As git leaves it when killed: some files written, the index and the ref not.
        let root = landing.fixture.root();
        landing.fixture.write("changed", "2\n");
        landing.fixture.write("new/er/x", "x\n");
        fs::remove_file(root.join("removed")).unwrap();
        fs::remove_dir_all(root.join("dir to file")).unwrap();
        landing.fixture.write("dir to file", "now a file\n");
        fs::remove_file(root.join("file to dir")).unwrap();
        landing.fixture.write("file to dir/x", "x\n");
        let half = landing.fixture.files();
        landing.fixture.write("d/deep", "somebody else's\n");
        let foreign = landing.put_back();
        assert_eq!(foreign, [RepoPath::from("d/deep")]);
        assert_eq!(fs::read(root.join("changed")).unwrap(), b"2\n", "nothing was touched");
        landing.fixture.write("d/deep", "1\n");
        assert_eq!(half, landing.fixture.files());
        assert_eq!(landing.put_back(), []);
        assert_eq!(before, landing.fixture.files());
        assert!(landing.checkout.index_is_at(&landing.old).unwrap());
        assert_eq!(landing.land(), FastForward::Applied);
        assert!(landing.landed());
        // And when all but the ref was done.
        landing.fixture.run("update-ref", ["refs/heads/main", landing.old.as_str()]);
        assert_eq!(landing.put_back(), []);
        assert_eq!(before, landing.fixture.files());
        assert!(landing.checkout.index_is_at(&landing.old).unwrap());
    });
}

#[test]
fn a_rescue_holds_everything_and_touches_nothing() {
    each_git(|git| {
        for fixture in [Fixture::new(git), Fixture::hostile(git)] {
            let landing = Landing::every_kind(fixture);
            landing.fixture.write("changed", "staged\n");
            landing.fixture.run("add", ["changed"]);
            landing.fixture.write("changed", "edited\n");
            landing.fixture.write("own \u{fc}/x", "untracked\n");
            landing.fixture.write("x.log", "ignored\n");
            fs::remove_file(landing.fixture.root().join("removed")).unwrap();
            let index = || fs::read(landing.fixture.root().join(".git/index")).unwrap();
            let refs = || landing.fixture.repository.load_refs("refs/").unwrap();
            let before = (index(), landing.fixture.files(), refs());
            let rescue = landing.checkout.capture_rescue(&landing.old, &somebody(), "before landing").unwrap();
            assert_eq!(before, (index(), landing.fixture.files(), refs()));
            assert_eq!(rescue.left_out, Vec::<String>::new());
            let repository = &landing.fixture.repository;
            let commit = repository.load_commit(&rescue.commit).unwrap();
            assert_eq!(commit.parents, [landing.old.clone(), rescue.index.clone()]);
            let content = |commit: &CommitId, path: &str| {
                let entry = repository.load_entry(&landing.fixture.tree(commit), &RepoPath::from(path)).unwrap()?;
                match repository.load_blob(&entry.id, 100).unwrap() {
                    Blob::Whole(bytes) => String::from_utf8(bytes).ok(),
                    Blob::TooLarge { .. } => None,
                }
            };
            assert_eq!(content(&rescue.commit, "changed").as_deref(), Some("edited\n"));
            assert_eq!(content(&rescue.index, "changed").as_deref(), Some("staged\n"));
            assert_eq!(content(&rescue.commit, "own \u{fc}/x").as_deref(), Some("untracked\n"));
            assert_eq!(content(&rescue.commit, "removed"), None);
            assert_eq!(content(&rescue.commit, "x.log"), None);
        }
    });
}

/// A file edited in the same moment as it was staged, and the index written: only its content tells.
#[test]
fn a_rescue_holds_an_edit_of_the_same_moment() {
    each_git(|git| {
        let landing = Landing::every_kind(Fixture::new(git));
        let fixture = &landing.fixture;
        // So that the moment is the one thing git goes by, and can be set.
        fixture.run("config", ["core.trustctime", "false"]);
        fixture.run("config", ["core.checkStat", "minimal"]);
        let moment = std::time::SystemTime::now() - Duration::from_mins(1);
        let set = |path: &str| {
            let file = fs::File::options().write(true).open(fixture.root().join(path)).unwrap();
            file.set_modified(moment).unwrap();
        };
        fixture.write("changed", "staged\n");
        set("changed");
        fixture.run("add", ["changed"]);
        set(".git/index");
        fixture.write("changed", "edited\n");
        set("changed");
        let rescue = landing.checkout.capture_rescue(&landing.old, &somebody(), "before landing").unwrap();
        let entry = fixture.repository.load_entry(&rescue.tree, &RepoPath::from("changed")).unwrap().unwrap();
        let content = fixture.repository.load_blob(&entry.id, 100).unwrap();
        assert_eq!(content, Blob::Whole(b"edited\n".to_vec()));
    });
}

#[test]
fn a_rescue_says_what_it_could_not_take() {
    each_git(|git| {
        let landing = Landing::every_kind(Fixture::new(git));
        landing.fixture.run("init", ["-q", "nested"]);
        landing.fixture.write("own", "untracked\n");
        let rescue = landing.checkout.capture_rescue(&landing.old, &somebody(), "m").unwrap();
        assert!(rescue.left_out.iter().any(|line| line.contains("nested")), "{rescue:?}");
        let tree = landing.fixture.tree(&rescue.commit);
        assert!(landing.fixture.repository.load_entry(&tree, &RepoPath::from("own")).unwrap().is_some());
    });
}

#[test]
fn killed_in_the_middle() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        // Writing this one file of the new commit kills git, with everything it has started, while it writes files.
        let filter = fixture.folder.path().join("filter");
        script(&filter, "content=$(cat); case $content in *new*) kill -9 0;; esac; printf '%s\\n' \"$content\"");
        fixture.run("config", ["filter.slow.smudge", &format!("'{}'", filter.display())]);
        fixture.run("config", ["filter.slow.clean", "cat"]);
        fixture.write(".git/info/attributes", "m filter=slow\n");
        let both = |text: &str| ["a", "b", "m", "y", "z"].map(|path| file(path, format!("{text}\n")));
        let old = [&both("old")[..], &[file("gone", "g\n")]].concat();
        let new = [&both("new")[..], &[file("come/x", "c\n")]].concat();
        let landing = Landing::with(fixture, &old, &new);
        landing.fixture.write("own", "mine\n");
        let before = landing.fixture.files();
        let main = RefName::branch("main").unwrap();
        let result = landing.checkout.fast_forward(landing.forward(&main));
        let Err(Error::Failed { status, .. }) = result else { panic!("{result:?}") };
        assert_eq!(status.signal(), Some(9));

        assert_ne!(before, landing.fixture.files(), "it was in the middle");
        let lock = landing.fixture.root().join(".git/index.lock");
        assert!(lock.exists());
        assert!(!landing.landed());
        let read = landing.checkout.load_read_back(&main).unwrap();
        assert_eq!(read.tip.as_ref(), Some(landing.old.object()));
        assert!(landing.clear_lock() && !lock.exists());
        let standing = landing.checkout.load_standing(&landing.incoming).unwrap();
        for (path, expected) in [("a", Standing::AtNew), ("m", Standing::Absent), ("gone", Standing::AtNew)] {
            assert!(standing.contains(&(RepoPath::from(path), expected)), "{standing:?}");
        }
        assert_eq!(landing.put_back(), []);
        assert_eq!(before, landing.fixture.files());
        assert!(landing.checkout.index_is_at(&landing.old).unwrap());
        landing.fixture.run("config", ["filter.slow.smudge", "cat"]);
        assert_eq!(landing.checkout.load_obstacles(&landing.incoming).unwrap(), []);
        assert_eq!(landing.land(), FastForward::Applied);
        assert!(landing.landed());
    });
}

#[test]
fn what_lies_outside_a_sparse_checkout() {
    each_git(|git| {
        let landing = Landing::every_kind(Fixture::new(git));
        landing.fixture.run("sparse-checkout", ["set", "kept-folder"]);
        let checkout = Checkout::of(&landing.fixture.again()).unwrap();
        let landing = Landing { checkout, ..landing };
        assert!(!landing.fixture.root().join("d/deep").exists());
        assert_eq!(landing.obstacles(), []);
        assert_eq!(landing.land(), FastForward::Applied);
        assert!(landing.checkout.index_holds(&landing.incoming).unwrap());
        assert!(!landing.fixture.root().join("d/deep").exists());
    });
}

#[test]
fn a_linked_worktree_is_landed_in_like_the_main_one() {
    each_git(|git| {
        let landing = Landing::every_kind(Fixture::new(git));
        let place = landing.fixture.folder.path().join("linked");
        landing.fixture.run("checkout", ["-q", "--detach"]);
        landing.fixture.run("worktree", ["add".as_ref(), "-q".as_ref(), place.as_os_str(), "main".as_ref()]);
        let main = landing.fixture.files();
        let checkout = Checkout::open(&landing.fixture.git, &place).unwrap();
        let landing = Landing { checkout, ..landing };
        fs::write(place.join("added"), "mine").unwrap();
        assert_eq!(landing.obstacles(), [(ObstacleKind::Untracked, "added".to_owned())]);
        fs::remove_file(place.join("added")).unwrap();
        let rescue = landing.checkout.capture_rescue(&landing.old, &somebody(), "m").unwrap();
        assert_eq!(rescue.tree, landing.fixture.tree(&landing.old));
        assert_eq!(landing.land(), FastForward::Applied);
        assert!(landing.landed());
        assert_eq!(main, landing.fixture.files());
    });
}

#[test]
fn the_lock_of_somebody_at_work_stays() {
    each_git(|git| {
        let landing = Landing::every_kind(Fixture::new(git));
        let lock = landing.fixture.root().join(".git/index.lock");
        assert!(landing.clear_lock(), "there is none");
        // Empty, and open: somebody is writing files.
        let open = fs::File::create(&lock).unwrap();
        assert!(!landing.clear_lock());
        drop(open);
        assert!(landing.clear_lock() && !lock.exists());
        // Full: somebody is at an editor, or was, and nothing of what comes in is newer.
        landing.fixture.write(".git/index.lock", "an index\n");
        assert!(!landing.clear_lock());
        // Made before a file that is as it is to be: by what made that.
        landing.fixture.write("changed", "2\n");
        let written = |after: bool| {
            let (now, hour) = (std::time::SystemTime::now(), Duration::from_hours(1));
            let file = fs::File::options().write(true).open(landing.fixture.root().join("changed")).unwrap();
            file.set_modified(if after { now + hour } else { now - hour }).unwrap();
        };
        written(false);
        assert!(!landing.clear_lock(), "made after it");
        written(true);
        assert!(landing.clear_lock() && !lock.exists());
    });
}

#[test]
fn half_a_file_is_gits_and_anything_else_the_users() {
    each_git(|git| {
        let long = "a line of text\n".repeat(20_000);
        let other = long.replace("text", "more");
        let landing = Landing::with(Fixture::new(git), &[file("f", &long)], &[file("f", &other), file("new", &other)]);
        let is = |path: &str, standing| {
            let all = landing.checkout.load_standing(&landing.incoming).unwrap();
            assert!(all.contains(&(RepoPath::from(path), standing)), "{path}: {all:?}");
        };
        let before = landing.fixture.files();
        for half in ["", &other[..10], &other[..200_000], &long[..100_000]] {
            landing.fixture.write("f", half);
            is("f", Standing::Torn);
        }
        landing.fixture.write("new", &other[..7]);
        is("new", Standing::Torn);
        assert_eq!(landing.put_back(), []);
        assert_eq!(landing.fixture.files(), before);
        for foreign in ["x".to_owned(), format!("{other}x"), format!("{}x", &other[..50_000])] {
            landing.fixture.write("f", &foreign);
            is("f", Standing::Neither);
            assert_eq!(landing.put_back(), [RepoPath::from("f")]);
        }
    });
}

#[test]
fn what_the_user_had_as_it_is_to_be_is_not_taken_back() {
    each_git(|git| {
        let landing = Landing::every_kind(Fixture::new(git));
        landing.fixture.write("added", "a\n");
        landing.fixture.run("add", ["added"]);
        fs::remove_file(landing.fixture.root().join("removed")).unwrap();
        let state = || (landing.fixture.files(), landing.fixture.run("status", ["--porcelain"]));
        let before = state();
        let rescue = landing.checkout.capture_rescue(&landing.old, &somebody(), "m").unwrap();
        // All but the ref.
        assert_eq!(landing.land(), FastForward::Applied);
        landing.fixture.run("update-ref", ["refs/heads/main", landing.old.as_str()]);
        let kept = landing.checkout.load_before(&landing.old, &landing.incoming, &rescue.commit).unwrap();
        assert_eq!(landing.checkout.put_back(&landing.old, &landing.incoming, &kept).unwrap(), []);
        assert_eq!(state(), before);
    });
}

/// Where a submodule stands when the commit of it that is recorded moves, or is to go: git leaves its folder alone.
#[test]
fn a_submodule_that_moves() {
    each_git(|git| {
        for goes in [false, true] {
            let fixture = Fixture::new(git);
            let one = fixture.commit(&[], &[file("f", "1\n")]);
            let two = fixture.commit(&[&one], &[file("f", "2\n")]);
            let part = |commit: &CommitId| File("part", "160000", commit.as_str().into());
            let new = if goes { vec![file("kept", "k\n")] } else { vec![file("kept", "k\n"), part(&two)] };
            let landing = Landing::with(fixture, &[file("kept", "k\n"), part(&one)], &new);
            let place = landing.fixture.root().join("part");
            let within = |arguments: &[&str]| {
                let run = Command::new(&landing.fixture.git, Access::Write, "checkout").args(arguments).folder(&place);
                drop(run.success().unwrap());
            };
            drop(fs::remove_dir(&place));
            landing.fixture.run("clone", ["-q", ".", "part"]);
            within(&["-q", "--detach", two.as_str()]);
            assert_eq!(landing.obstacles(), [(ObstacleKind::Modified, "part".to_owned())], "its own commit is another");
            within(&["-q", "--detach", one.as_str()]);
            fs::write(place.join("f"), "edited\n").unwrap();
            fs::write(place.join("untracked"), "u\n").unwrap();
            let inside = Fixture::snapshot(&place);
            assert_eq!(landing.obstacles(), []);
            assert_eq!(landing.land(), FastForward::Applied);
            let read = landing.checkout.load_read_back(&RefName::branch("main").unwrap()).unwrap();
            assert!(read.confirms(&landing.old, &landing.new));
            assert!(landing.checkout.index_holds(&landing.incoming).unwrap());
            assert_eq!(Fixture::snapshot(&place), inside);
        }
    });
}

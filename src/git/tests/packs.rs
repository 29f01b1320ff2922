//! Taking packs from others.
#![expect(clippy::disallowed_methods, reason = "tests write files as agents do")]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use super::super::testing::{File, Fixture, each_git, file};
use super::super::*;
use crate::model::CommitId;

const LIMITS: PackLimits = PackLimits { size: 10 << 20, time: Duration::from_secs(30), memory: None };

/// A repository, and a copy of it in which somebody has gone on working.
struct Pair {
    ours: Fixture,
    theirs: Fixture,
    known: CommitId,
}

impl Pair {
    fn new(git: &Git) -> Self {
        let (ours, theirs) = (Fixture::new(git), Fixture::new(git));
        let files = [file("f", "base\n".repeat(100)), file("g", "x\n")];
        let known = ours.commit(&[], &files);
        assert_eq!(known, theirs.commit(&[], &files));
        Self { ours, theirs, known }
    }

    /// The pack of `commit` without what is known, as an agent's side makes it.
    fn pack(&self, commit: &CommitId) -> Vec<u8> {
        let wanted = format!("{commit}\n^{}\n", self.known);
        let command = Command::new(&self.theirs.git, Access::Read, "pack-objects");
        let command = command.args(["--revs", "--thin", "--delta-base-offset", "--stdout", "-q"]);
        command.folder(self.theirs.root()).input(Input::Bytes(wanted.into_bytes())).success().unwrap().stdout
    }

    fn incoming(&self) -> PathBuf {
        self.ours.root().join(".git/sandbox/incoming")
    }

    /// What lies there, but for the folder that what is removed goes through.
    fn quarantines(&self) -> usize {
        let names = fs::read_dir(self.incoming()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name != ".trash").count()
    }

    fn receive(&self, pack: &[u8], commit: &CommitId, limits: &PackLimits) -> Result<Received, Error> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(pack).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let stream = Input::Descriptor(file.into());
        let received = self.ours.repository.receive_pack(stream, commit, &self.incoming(), "r-1--a", limits);
        assert_eq!(self.quarantines(), 0, "the quarantine is gone");
        received
    }

    /// That this is refused, and how; and that nothing of it was kept.
    fn refused(&self, pack: &[u8], commit: &CommitId, limits: &PackLimits) -> PackRefusal {
        let objects = Fixture::snapshot(&self.ours.root().join(".git/objects"));
        let received = self.receive(pack, commit, limits).unwrap();
        let same = objects == Fixture::snapshot(&self.ours.root().join(".git/objects"));
        assert!(same, "something was kept");
        match received {
            Received::Refused(refusal) => refusal,
            Received::Stored { .. } => panic!("it was taken"),
        }
    }
}

/// Git writes the HEAD of a worktree that it makes as zeros first.
#[test]
fn a_worktree_that_is_being_made_is_in_nobodys_way() {
    each_git(|git| {
        let pair = Pair::new(git);
        let commit = pair.theirs.commit(&[&pair.known], &[file("f", "changed\n")]);
        let half = pair.ours.root().join(".git/worktrees/half");
        fs::create_dir_all(&half).unwrap();
        fs::write(half.join("HEAD"), format!("{}\n", "0".repeat(40))).unwrap();
        fs::write(half.join("commondir"), "../..\n").unwrap();
        fs::write(half.join("gitdir"), "/nonexistent/half/.git\n").unwrap();
        let walk = Command::new(git, Access::Read, "rev-list").args(["--quiet", "--not", "--all"]);
        let walk = walk.folder(pair.ours.root()).run().unwrap();
        assert!(walk.complaint().contains("bad object worktrees/half/HEAD"), "{}", walk.complaint());
        let received = pair.receive(&pair.pack(&commit), &commit, &LIMITS).unwrap();
        assert!(matches!(received, Received::Stored { .. }), "{received:?}");
    });
}

#[test]
fn a_good_pack_is_taken() {
    each_git(|git| {
        let pair = Pair::new(git);
        let commit = pair
            .theirs
            .commit(&[&pair.known], &[file("f", format!("{}more\n", "base\n".repeat(100))), file("new", "n")]);
        let pack = pair.pack(&commit);
        assert!(pair.ours.repository.load_commit(&commit).is_err());
        let received = pair.receive(&pack, &commit, &LIMITS).unwrap();
        let Received::Stored { commit: stored, pack: Some(path), size } = received else { panic!("{received:?}") };
        assert_eq!(stored, commit);
        assert!(size > 0 && path.with_extension("idx").exists());
        for repository in [pair.ours.repository.clone(), pair.ours.again()] {
            assert_eq!(repository.load_commit(&commit).unwrap().parents, std::slice::from_ref(&pair.known));
        }
        pair.ours.run("fsck", ["--strict", commit.as_str()]);
        // The same once more changes nothing, and neither does one without anything new.
        let objects = Fixture::snapshot(&pair.ours.root().join(".git/objects"));
        let again = pair.receive(&pack, &commit, &LIMITS).unwrap();
        assert!(matches!(again, Received::Stored { .. }), "{again:?}");
        let empty = pair.receive(&pair.pack(&pair.known), &pair.known, &LIMITS).unwrap();
        assert!(matches!(&empty, Received::Stored { pack: None, .. }), "{empty:?}");
        assert_eq!(objects, Fixture::snapshot(&pair.ours.root().join(".git/objects")));
    });
}

#[test]
fn sha256_packs() {
    each_git(|git| {
        let make = || Fixture::initialised(git, &["--object-format=sha256"]);
        let (ours, theirs) = (make(), make());
        let known = ours.commit(&[], &[file("f", "x")]);
        assert_eq!(known, theirs.commit(&[], &[file("f", "x")]));
        let pair = Pair { ours, theirs, known };
        let commit = pair.theirs.commit(&[&pair.known], &[file("f", "y")]);
        assert!(matches!(pair.receive(&pair.pack(&commit), &commit, &LIMITS).unwrap(), Received::Stored { .. }));
    });
}

#[test]
fn bad_packs_are_refused_by_kind() {
    each_git(|git| {
        let pair = Pair::new(git);
        let commit = pair.theirs.commit(&[&pair.known], &[file("f", "other\n".repeat(1000)), file("h", "h")]);
        let good = pair.pack(&commit);

        let small = PackLimits { size: 40, ..LIMITS };
        assert_eq!(pair.refused(&good, &commit, &small), PackRefusal::TooLarge { limit: 40 });
        for cut in [0, 5, 12, good.len() / 2, good.len() - 1] {
            let refusal = pair.refused(&good[..cut], &commit, &LIMITS);
            assert!(matches!(refusal, PackRefusal::Malformed { .. }), "cut at {cut}: {refusal:?}");
        }
        for at in [3, 20, good.len() - 1] {
            let mut bent = good.clone();
            bent[at] ^= 0x55;
            let refusal = pair.refused(&bent, &commit, &LIMITS);
            assert!(
                matches!(refusal, PackRefusal::Malformed { .. } | PackRefusal::Incomplete { .. }),
                "{at}: {refusal:?}"
            );
        }
        let another: CommitId = "1".repeat(40).parse().unwrap();
        assert!(matches!(pair.refused(&good, &another, &LIMITS), PackRefusal::Incomplete { .. }));
        let tree = CommitId::from(pair.theirs.tree(&commit).object().clone());
        assert!(matches!(pair.refused(&good, &tree, &LIMITS), PackRefusal::NotACommit { .. }));
    });
}

#[test]
fn objects_that_would_harm_are_refused() {
    each_git(|git| {
        let bad: [(&str, Vec<File>); 4] = [
            ("a .git folder", vec![file(".git/config", "[core]\n")]),
            ("a .git folder by another name", vec![file(".GIT/config", "[core]\n")]),
            ("a way out", vec![file("../out", "x")]),
            (
                "a submodule command",
                vec![file(".gitmodules", "[submodule \"x\"]\npath = x\nurl = y\nupdate = !touch /tmp/x\n")],
            ),
        ];
        for (what, files) in bad {
            let pair = Pair::new(git);
            let name = files[0].0;
            // Fast-import refuses some of these names, so the tree is made by hand.
            let blob = {
                let hash = Command::new(&pair.theirs.git, Access::Write, "hash-object").args(["-w", "--stdin"]);
                let hash = hash.folder(pair.theirs.root()).input(Input::Bytes(files[0].2.clone()));
                hash.success().unwrap().line().unwrap().to_owned()
            };
            let mktree = |text: String| {
                let make = Command::new(&pair.theirs.git, Access::Write, "mktree").folder(pair.theirs.root());
                make.input(Input::Bytes(text.into_bytes())).success().unwrap().line().unwrap().to_owned()
            };
            let tree = match name.split_once('/') {
                Some((folder, name)) => {
                    let inner = mktree(format!("100644 blob {blob}\t{name}\n"));
                    mktree(format!("040000 tree {inner}\t{folder}\n"))
                }
                None => mktree(format!("100644 blob {blob}\t{name}\n")),
            };
            let commit = pair.theirs.run("commit-tree", [tree.as_str(), "-p", pair.known.as_str(), "-m", "m"]);
            let commit: CommitId = commit.parse().unwrap();
            let refusal = pair.refused(&pair.pack(&commit), &commit, &LIMITS);
            assert!(matches!(refusal, PackRefusal::Unsound { .. }), "{what}: {refusal:?}");
        }
    });
}

#[test]
fn what_is_missing_is_named() {
    each_git(|git| {
        let pair = Pair::new(git);
        let commit = pair.theirs.commit(&[&pair.known], &[file("f", "other\n"), file("d/h", "h")]);
        let without = |objects: &str| {
            let pack = Command::new(&pair.theirs.git, Access::Read, "pack-objects").args(["--stdout", "-q"]);
            let pack = pack.folder(pair.theirs.root()).input(Input::Bytes(objects.as_bytes().to_vec()));
            pack.success().unwrap().stdout
        };
        let tree = pair.theirs.tree(&commit);
        for objects in [format!("{commit}\n"), format!("{commit}\n{tree}\n")] {
            let refusal = pair.refused(&without(&objects), &commit, &LIMITS);
            assert!(matches!(refusal, PackRefusal::Incomplete { .. }), "{refusal:?}");
        }
    });
}

#[test]
fn a_sender_that_stops_sending_is_given_up_on() {
    each_git(|git| {
        let pair = Pair::new(git);
        let commit = pair.theirs.commit(&[&pair.known], &[file("f", "y")]);
        let (read, write) = std::io::pipe().unwrap();
        let mut sender = fs::File::from(std::os::fd::OwnedFd::from(write));
        sender.write_all(&pair.pack(&commit)[..20]).unwrap();
        let limits = PackLimits { time: Duration::from_millis(800), ..LIMITS };
        let stream = Input::Descriptor(read.into());
        let received = pair.ours.repository.receive_pack(stream, &commit, &pair.incoming(), "x", &limits).unwrap();
        assert_eq!(received, Received::Refused(PackRefusal::TimedOut { limit: limits.time }));
        assert_eq!(pair.quarantines(), 0);
        drop(sender);
    });
}

#[test]
fn a_pack_that_unfolds_into_too_much_is_stopped() {
    each_git(|git| {
        let pair = Pair::new(git);
        let commit = pair.theirs.commit(&[&pair.known], &[file("f", vec![b'x'; 150 << 20])]);
        let pack = pair.pack(&commit);
        assert!(pack.len() < 1 << 20, "{} bytes", pack.len());
        // Files over git's threshold are streamed; one just under it is held whole.
        let limits = PackLimits { memory: Some(120 << 20), ..LIMITS };
        assert_eq!(pair.refused(&pack, &commit, &limits), PackRefusal::Memory);
        let limits = PackLimits { memory: Some(4 << 30), ..LIMITS };
        assert!(matches!(pair.receive(&pack, &commit, &limits).unwrap(), Received::Stored { .. }));
    });
}

#[test]
fn a_fault_of_ours_is_not_the_senders() {
    each_git(|git| {
        let pair = Pair::new(git);
        let commit = pair.theirs.commit(&[&pair.known], &[file("f", "y")]);
        fs::write(pair.ours.root().join(".git/sandbox"), "a file where the folder should be").unwrap();
        let stream = Input::Bytes(pair.pack(&commit));
        let received = pair.ours.repository.receive_pack(stream, &commit, &pair.incoming(), "x", &LIMITS);
        assert!(matches!(received, Err(Error::Store(_))), "{received:?}");
    });
}

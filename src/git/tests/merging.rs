//! Every kind of conflict, in both directions, with each git and each way to keep attributes to the target's.

use super::super::testing::{Fixture, each_git, file};
use super::super::*;
use super::cases::{cases, lines};
use super::reference::{Reference, Verdict};
use crate::model::{CommitId, RepoPath};

/// Each way to keep attributes that this git can do.
fn mergers(fixture: &Fixture, target: &CommitId) -> Vec<Merger> {
    let mut sources = vec![AttributeSource::Scratch];
    if fixture.git.has_attr_source() {
        sources.push(AttributeSource::Tree);
    }
    sources.into_iter().map(|source| Merger::with_source(&fixture.repository, target, source).unwrap()).collect()
}

fn kinds(preview: &Preview) -> Vec<&str> {
    match preview {
        Preview::Clean { .. } => Vec::new(),
        Preview::Conflict(conflict) => conflict.kinds.iter().map(String::as_str).collect(),
    }
}

fn conflict(preview: Preview) -> Conflict {
    match preview {
        Preview::Clean { tree } => panic!("it merged to {tree}"),
        Preview::Conflict(conflict) => conflict,
    }
}

fn table(fixture: &Fixture) {
    let reference = Reference::new(&fixture.repository, &fixture.folder.path().join("reference"));
    for case in cases() {
        let base = fixture.commit(&[], &case.base);
        let ours = fixture.commit(&[&base], &case.ours);
        let theirs = fixture.commit(&[&base], &case.theirs);
        let before = Fixture::snapshot(&fixture.root().join(".git/refs"));
        for merger in mergers(fixture, &base) {
            let forth = merger.preview(&ours, &theirs).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            let back = merger.preview(&theirs, &ours).unwrap();
            reference.assert_same(&Verdict::of(&forth), [&ours, &theirs]);
            reference.assert_same(&Verdict::of(&back), [&theirs, &ours]);
            let context = format!("{} ({:?})", case.name, merger.source());
            assert_eq!(kinds(&forth), case.kinds, "{context}");
            assert_eq!(kinds(&back), case.kinds, "{context}, backwards");
            match (forth, back) {
                (Preview::Clean { tree }, Preview::Clean { tree: other }) => {
                    // A union has the lines of either side in the order of the sides.
                    assert_eq!(tree == other, !case.name.starts_with("26"), "{context}");
                }
                (Preview::Conflict(forth), Preview::Conflict(back)) => {
                    assert_eq!(forth.stages.len(), back.stages.len(), "{context}");
                    assert_eq!(forth.stages.is_empty(), case.name.starts_with("16"), "{context}");
                    for path in forth.paths().iter().chain(&back.paths()) {
                        assert!(!path.to_string().contains('~'), "{context}: {path}");
                    }
                }
                other => panic!("{context}: {other:?}"),
            }
        }
        assert_eq!(before, Fixture::snapshot(&fixture.root().join(".git/refs")));
    }
}

#[test]
fn every_kind_of_conflict_is_found() {
    each_git(|git| table(&Fixture::new(git)));
}

/// Every conflict, resolved with either side as it is: that side stands at each of its paths, nothing of git's own making is
/// left, and the rest is as it was merged.
#[test]
fn every_kind_of_conflict_is_resolved_with_either_side() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let repository = &fixture.repository;
        let mut resolved = 0;
        for case in cases().into_iter().filter(|case| !case.kinds.is_empty()) {
            let base = fixture.commit(&[], &case.base);
            let sides = [fixture.commit(&[&base], &case.ours), fixture.commit(&[&base], &case.theirs)];
            let merger = Merger::new(repository, &base).unwrap();
            let conflict = conflict(merger.preview(&sides[0], &sides[1]).unwrap());
            for side in &sides {
                let context = format!("{} with {side}", case.name);
                let chosen = repository.load_chosen(&conflict, &fixture.tree(side)).unwrap();
                let tree = repository.write_resolved(&conflict, [&sides[0], &sides[1]], &chosen);
                let tree = tree.unwrap_or_else(|error| panic!("{context}: {error}"));
                resolved += 1;
                for (path, entry) in &chosen {
                    let found = repository.load_entry(&tree, path).unwrap();
                    let found = found.filter(|entry| entry.mode.kind() != ModeKind::Tree);
                    assert_eq!(found, *entry, "{context}: {path}");
                }
                for (path, entry) in repository.load_tree(&tree).unwrap() {
                    assert!(!Conflict::is_made_up(&path, [&sides[0], &sides[1]]), "{context}: {path}");
                    if entry.mode.kind() == ModeKind::File {
                        assert!(!repository.has_new_markers(&entry.id, &[]).unwrap(), "{context}: {path}");
                    }
                }
            }
        }
        assert!(resolved > 40, "{resolved}");
    });
}

#[test]
fn sha256_changes_no_verdict() {
    each_git(|git| table(&Fixture::initialised(git, &["--object-format=sha256"])));
}

#[test]
fn hostile_settings_change_no_verdict() {
    each_git(|git| table(&Fixture::hostile(git)));
}

#[test]
fn the_same_conflict_has_the_same_fingerprint_wherever_the_target_is() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        for case in cases().into_iter().filter(|case| !case.kinds.is_empty()) {
            let base = fixture.commit(&[], &case.base);
            let theirs = fixture.commit(&[&base], &case.theirs);
            let mut elsewhere = case.ours.clone();
            elsewhere.push(file("unrelated", "moved on\n"));
            let ours = fixture.commit(&[&base], &case.ours);
            let further = fixture.commit(&[&ours], &elsewhere);
            let merger = Merger::new(&fixture.repository, &base).unwrap();
            let one = conflict(merger.preview(&ours, &theirs).unwrap());
            let other = conflict(merger.preview(&further, &theirs).unwrap());
            assert_eq!(one.fingerprint, other.fingerprint, "{}", case.name);
            assert_ne!(one.tree, other.tree, "{}", case.name);
            assert_eq!(one.fingerprint.len(), 64);
        }
        let base = fixture.commit(&[], &[file("f", lines(&[]))]);
        let sides = ["a", "b", "c"].map(|text| fixture.commit(&[&base], &[file("f", lines(&[(1, text)]))]));
        let merger = Merger::new(&fixture.repository, &base).unwrap();
        let one = conflict(merger.preview(&sides[0], &sides[1]).unwrap());
        let other = conflict(merger.preview(&sides[0], &sides[2]).unwrap());
        assert_ne!(one.fingerprint, other.fingerprint, "other content is another conflict");
    });
}

#[test]
fn a_conflict_shows_all_sides() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let name = "\u{fc}n \\\"q\\\"\\n.txt"; // as fast-import quotes it
        let base = fixture.commit(&[], &[file(name, lines(&[]))]);
        let ours = fixture.commit(&[&base], &[file(name, lines(&[(1, "ours")]))]);
        let theirs = fixture.commit(&[&base], &[file(name, lines(&[(1, "theirs")]))]);
        let merger = Merger::new(&fixture.repository, &base).unwrap();
        let conflict = conflict(merger.preview(&ours, &theirs).unwrap());
        let path = RepoPath::from("\u{fc}n \"q\"\n.txt");
        assert_eq!(conflict.paths(), std::slice::from_ref(&path));
        for (side, commit) in [(Side::Base, &base), (Side::Ours, &ours), (Side::Theirs, &theirs)] {
            let entry = fixture.repository.load_entry(&fixture.tree(commit), &path).unwrap();
            assert_eq!(conflict.side(&path, side), entry.as_ref());
        }
    });
}

#[test]
fn case_33_criss_cross_history() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let base = fixture.commit(&[], &[file("f", lines(&[]))]);
        let a = fixture.commit(&[&base], &[file("f", lines(&[(1, "a")]))]);
        let b = fixture.commit(&[&base], &[file("f", lines(&[(20, "b")]))]);
        let ab = fixture.commit(&[&a, &b], &[file("f", lines(&[(1, "a"), (20, "b"), (10, "x")]))]);
        let ba = fixture.commit(&[&b, &a], &[file("f", lines(&[(1, "a"), (20, "b"), (10, "y")]))]);
        assert_eq!(fixture.repository.merge_bases(&ab, &ba).unwrap().len(), 2);
        let merger = Merger::new(&fixture.repository, &base).unwrap();
        let reference = Reference::new(&fixture.repository, &fixture.folder.path().join("reference"));
        for (ours, theirs) in [(&ab, &ba), (&ba, &ab)] {
            let preview = merger.preview(ours, theirs).unwrap();
            assert_eq!(kinds(&preview), ["contents"]);
            reference.assert_same(&Verdict::of(&preview), [ours, theirs]);
        }
    });
}

/// Base, and two edits that conflict as text or combine, with the attributes that each commit carries.
fn with_attributes(fixture: &Fixture, target: &str, agent: &str, [one, other]: [&str; 2]) -> [CommitId; 3] {
    let files = |attributes: &str, text: &str| {
        let mut files = vec![file("f", text)];
        if !attributes.is_empty() {
            files.push(file(".gitattributes", attributes));
        }
        files
    };
    let base = fixture.commit(&[], &files(target, &lines(&[])));
    let ours = fixture.commit(&[&base], &files(target, one));
    let theirs = fixture.commit(&[&base], &files(agent, other));
    [base, ours, theirs]
}

#[test]
fn attributes_that_an_agent_plants_do_nothing() {
    each_git(|git| {
        for planted in ["f merge=union\n", "f merge=ours\n", "* merge=union\n"] {
            let fixture = Fixture::new(git);
            fixture.run("config", ["merge.ours.driver", "true"]);
            let texts = [lines(&[(1, "a")]), lines(&[(1, "b")])];
            let [base, ours, theirs] = with_attributes(&fixture, "", planted, [&texts[0], &texts[1]]);
            // The danger is real: with the agent's file in the checkout, plain git says that all is well.
            fixture.check_out(&theirs);
            let plain = fixture.try_run("merge-tree", ["--write-tree", ours.as_str(), theirs.as_str()]);
            assert_eq!(plain.code(), Some(0), "{planted}: {}", plain.complaint());
            for merger in mergers(&fixture, &base) {
                let preview = merger.preview(&ours, &theirs).unwrap();
                assert_eq!(kinds(&preview), ["contents"], "{planted} {:?}", merger.source());
            }
        }
    });
}

#[test]
fn attributes_of_the_target_count() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let same = [lines(&[(1, "a")]), lines(&[(1, "b")])];
        let apart = [lines(&[(1, "a")]), lines(&[(20, "b")])];
        for (attributes, texts, expected) in [
            ("f merge=union\n", &same, &[][..]),
            ("f -merge\n", &apart, &["binary", "contents"]),
            ("f binary\n", &apart, &["binary", "contents"]),
            ("f merge=text\n", &same, &["contents"]),
        ] {
            let [base, ours, theirs] = with_attributes(&fixture, attributes, attributes, [&texts[0], &texts[1]]);
            // Whatever lies in the checkout is no source of attributes.
            fixture.write(".gitattributes", "f merge=union\n");
            for merger in mergers(&fixture, &base) {
                let preview = merger.preview(&ours, &theirs).unwrap();
                assert_eq!(kinds(&preview), expected, "{attributes} {:?}", merger.source());
            }
        }
    });
}

#[test]
fn a_target_that_asks_for_the_users_driver_gets_a_conflict() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let witness = fixture.folder.path().join("ran");
        fixture.run("config", ["merge.mine.driver", &format!("touch '{}'; exit 0", witness.display())]);
        let texts = [lines(&[(1, "a")]), lines(&[(20, "b")])];
        let [base, ours, theirs] =
            with_attributes(&fixture, "f merge=mine\n", "f merge=mine\n", [&texts[0], &texts[1]]);
        for merger in mergers(&fixture, &base) {
            assert_eq!(kinds(&merger.preview(&ours, &theirs).unwrap()), ["contents"]);
        }
        assert!(!witness.exists(), "the driver ran");
    });
}

#[test]
fn what_is_no_merge_is_an_error_and_never_a_verdict() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let base = fixture.commit(&[], &[file("f", "x\n")]);
        let unrelated = fixture.commit(&[], &[file("g", "x\n")]);
        let absent: CommitId = "1".repeat(40).parse().unwrap();
        for merger in mergers(&fixture, &base) {
            assert!(matches!(merger.preview(&base, &unrelated), Err(Error::Failed { .. })));
            assert!(matches!(merger.preview(&base, &absent), Err(Error::Failed { .. })));
            assert!(matches!(merger.preview(&absent, &base), Err(Error::Failed { .. })));
        }
    });
}

#[test]
fn the_users_own_merge_attributes_are_listed() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        assert!(load_user_attributes(&fixture.repository).unwrap().is_empty());
        fixture.write(".git/info/attributes", "*.lock merge=union\n*.txt text\n");
        fixture.write("../own", "*.bin -merge\n");
        fixture.run("config", ["core.attributesFile", &fixture.folder.path().join("own").display().to_string()]);
        assert_eq!(load_user_attributes(&fixture.repository).unwrap(), ["*.lock merge=union", "*.bin -merge"]);
    });
}

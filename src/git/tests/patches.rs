//! A stored patch gives back exactly the tree it was made from.
#![expect(clippy::disallowed_methods, reason = "tests write files as users do")]

use std::fs;

use super::super::testing::{File, Fixture, each_git, file, link};
use super::super::*;
use crate::model::CommitId;

/// Commits that differ in every way a patch must carry, each from the one before.
fn chain(fixture: &Fixture) -> Vec<CommitId> {
    let text = "one\ntwo\nthree\n".repeat(10);
    let random: Vec<u8> = (0..5000_u32).map(|at| u8::try_from(at.wrapping_mul(2_654_435_761) >> 24).unwrap()).collect();
    let steps: [Vec<File>; 7] = [
        vec![],
        vec![
            file("text", &text),
            file("bin", &random),
            file("empty", ""),
            link("link", "text"),
            file("a/b/c", "deep\n"),
        ],
        vec![
            file("text", text.replace("two", "2")),
            file("bin", &random[1..]),
            link("link", "bin"),
            file("no end", "no newline"),
        ],
        vec![
            File("text", "100755", text.clone().into()),
            file("no end", "no newline\n"),
            file("crlf", "a\r\nb\r\n"),
            file("blank", "a \n\n\n\tb\n"),
        ],
        vec![
            file("crlf", "a\nb\r\n"),
            file("blank", "a\n\n\n b\n"),
            file("\u{fc}n \\\"q\\\"\\n\\377\\t", "odd"),
            file("-dash", "x"),
            file("*", "x"),
        ],
        vec![
            file("crlf/now a folder", "x\n"),
            link("blank", "crlf"),
            File("sub", "160000", b"1".repeat(40)),
            file("moved", &text),
        ],
        vec![File("sub", "160000", b"2".repeat(40)), file("moved again", &text), file("latin", b"\xe4\xf6\n")],
    ];
    let mut commits: Vec<CommitId> = Vec::new();
    for files in &steps {
        let parents: Vec<&CommitId> = commits.last().into_iter().collect();
        let commit = fixture.commit(&parents, files);
        commits.push(commit);
    }
    commits
}

#[test]
fn replaying_gives_every_tree_whatever_the_users_settings() {
    each_git(|git| {
        let mut patches = Vec::new();
        for fixture in [Fixture::new(git), Fixture::hostile(git)] {
            let commits = chain(&fixture);
            fixture.write(".git/info/attributes", "text -diff\n*.x diff=y\n");
            // Scratch folders come and go in the program's own.
            let snapshot = || {
                let mut all = Fixture::snapshot(&fixture.root().join(".git"));
                all.retain(|path, _| !path.starts_with(fixture.root().join(".git/sandbox")));
                all
            };
            let before = snapshot();
            let mut all = Vec::new();
            for pair in commits.windows(2) {
                let [old, new] = [fixture.tree(&pair[0]), fixture.tree(&pair[1])];
                let path = fixture.folder.path().join("patch");
                fixture.repository.write_patch(&old, &new, fs::File::create(&path).unwrap()).unwrap();
                let mut streamed = Vec::new();
                fixture.repository.write_patch_to(&old, &new, &mut streamed).unwrap();
                assert_eq!(streamed, fs::read(&path).unwrap());
                assert_eq!(fixture.repository.replay_patch(&old, &path).unwrap(), new);
                let wrong = fixture.repository.replay_patch(&new, &path);
                assert!(matches!(wrong, Err(Error::Failed { .. })) || old == new, "{wrong:?}");
                all.push(streamed);
            }
            assert!(before == snapshot(), "replaying writes nothing");
            patches.push(all);
        }
        assert_eq!(patches[0], patches[1], "settings change no byte");
    });
}

#[test]
fn an_empty_patch_replays_to_the_same_tree() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let tree = fixture.tree(&fixture.commit(&[], &[file("f", "x\n")]));
        let path = fixture.folder.path().join("patch");
        fixture.repository.write_patch(&tree, &tree, fs::File::create(&path).unwrap()).unwrap();
        assert!(fs::read(&path).unwrap().is_empty());
        assert_eq!(fixture.repository.replay_patch(&tree, &path).unwrap(), tree);
    });
}

#[test]
fn people_read_renames() {
    each_git(|git| {
        let fixture = Fixture::hostile(git);
        let text = "line\n".repeat(20);
        let old = fixture.tree(&fixture.commit(&[], &[file("a", &text)]));
        let new = fixture.tree(&fixture.commit(&[], &[file("b", &text)]));
        let mut patch = Vec::new();
        fixture.repository.write_readable_patch(&old, &new, &mut patch).unwrap();
        assert_eq!(
            String::from_utf8(patch).unwrap(),
            "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n"
        );
    });
}

#[test]
fn any_two_trees() {
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    let names = ["a", "b", "d/a", "d/e/f", " x y", "\u{fc}.txt", "-n"];
    let one_file = (
        proptest::sample::select(names.to_vec()),
        proptest::sample::select(vec!["100644", "100755", "120000"]),
        proptest::collection::vec(proptest::sample::select(b"ab\n\r\t \0\xff".to_vec()), 1..40),
    );
    let tree = proptest::collection::btree_map(one_file.0, (one_file.1, one_file.2), 0..5);
    each_git(|git| {
        let fixture = Fixture::hostile(git);
        let files = |tree: &std::collections::BTreeMap<&'static str, (&'static str, Vec<u8>)>| -> Vec<File> {
            tree.iter().map(|(path, (mode, content))| File(path, mode, content.clone())).collect()
        };
        let mut runner =
            TestRunner::new(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() });
        let result = runner.run(&(tree.clone(), tree.clone()), |(old, new)| {
            let [old, new] = [old, new].map(|tree| fixture.tree(&fixture.commit(&[], &files(&tree))));
            let path = fixture.folder.path().join("patch");
            fixture.repository.write_patch(&old, &new, fs::File::create(&path).unwrap()).unwrap();
            prop_assert_eq!(fixture.repository.replay_patch(&old, &path).unwrap(), new);
            Ok(())
        });
        result.unwrap();
    });
}

//! Objects and tree diffs: both engines say the same.

use super::super::testing::{File, Fixture, each_git, file, link, somebody};
use super::super::*;
use crate::model::{CommitId, ObjectId, RepoPath};

/// The repository with each engine.
fn engines(fixture: &Fixture) -> [Repository; 2] {
    let open = |engine| Repository::discover_with(&fixture.git, &fixture.root(), engine).unwrap();
    let both = [open(None), open(Some(Engine::Program))];
    assert_eq!(both.each_ref().map(Repository::engine), [Engine::Library, Engine::Program]);
    both
}

fn changed(fixture: &Fixture) -> [CommitId; 2] {
    let text = "text\n".repeat(30);
    let base = fixture.commit(
        &[],
        &[
            file("a/deleted", "gone\n"),
            file("a/moved", &text),
            file("edited", "1\n"),
            file("becomes link", "x\n"),
            file("becomes folder", "x\n"),
            file("mode", "x\n"),
            File("sub", "160000", b"1".repeat(40)),
        ],
    );
    let next = fixture.commit(
        &[&base],
        &[
            file("b/moved", format!("{text}more\n")),
            file("edited", "2\n"),
            link("becomes link", "edited"),
            file("becomes folder/f", "x\n"),
            File("mode", "100755", b"x\n".to_vec()),
            File("sub", "160000", b"2".repeat(40)),
            file("\u{fc}n \\\"q\\\"\\n\\377", "odd"),
        ],
    );
    [base, next]
}

#[test]
fn both_engines_read_the_same() {
    each_git(|git| {
        for fixture in [Fixture::new(git), Fixture::hostile(git)] {
            let [base, next] = changed(&fixture);
            let [library, program] = engines(&fixture);
            let commit = library.load_commit(&next).unwrap();
            assert_eq!(commit, program.load_commit(&next).unwrap());
            assert_eq!(commit.parents, std::slice::from_ref(&base));
            let old = library.load_commit(&base).unwrap().tree;

            let changes = library.load_changes(&old, &commit.tree, Renames::Ignore).unwrap();
            assert_eq!(changes, program.load_changes(&old, &commit.tree, Renames::Ignore).unwrap());
            let kinds: Vec<_> = changes.iter().map(|change| (change.path.clone(), change.kind.clone())).collect();
            let of = |text: &str| RepoPath::from(text);
            assert_eq!(
                kinds,
                [
                    (of("a/deleted"), ChangeKind::Deleted),
                    (of("a/moved"), ChangeKind::Deleted),
                    (of("b/moved"), ChangeKind::Added),
                    (of("becomes folder"), ChangeKind::Deleted),
                    (of("becomes folder/f"), ChangeKind::Added),
                    (of("becomes link"), ChangeKind::TypeChanged),
                    (of("edited"), ChangeKind::Modified),
                    (of("mode"), ChangeKind::Modified),
                    (of("sub"), ChangeKind::Modified),
                    (RepoPath::new("\u{fc}n \"q\"\n".bytes().chain([0xff]).collect::<Vec<_>>()), ChangeKind::Added),
                ]
            );
            for change in changes.iter().filter(|change| change.path != of("becomes folder")) {
                for repository in [&library, &program] {
                    assert_eq!(repository.load_entry(&old, &change.path).unwrap(), change.old, "{}", change.path);
                    assert_eq!(
                        repository.load_entry(&commit.tree, &change.path).unwrap(),
                        change.new,
                        "{}",
                        change.path
                    );
                }
            }
            for repository in [&library, &program] {
                let folder = repository.load_entry(&commit.tree, &of("b")).unwrap().unwrap();
                assert_eq!(folder.mode, Mode::TREE);
                assert_eq!(repository.load_entry(&commit.tree, &of("edited/below")).unwrap(), None);
                let id = repository.load_entry(&commit.tree, &of("edited")).unwrap().unwrap().id;
                assert_eq!(repository.load_blob(&id, 2).unwrap(), Blob::Whole(b"2\n".to_vec()));
                assert_eq!(repository.load_blob(&id, 1).unwrap(), Blob::TooLarge { size: 2 });
                let absent: ObjectId = "1".repeat(40).parse().unwrap();
                assert!(matches!(repository.load_blob(&absent, 9), Err(Error::MissingObject { .. })));
                assert!(matches!(
                    repository.load_commit(&absent.clone().into()),
                    Err(Error::MissingObject { .. } | Error::Failed { .. })
                ));
                assert!(repository.load_blob(base.object(), 999).is_err(), "a commit is no blob");
                assert!(repository.load_commit(&id.into()).is_err(), "a blob is no commit");
            }
        }
    });
}

#[test]
fn renames_give_both_ends() {
    each_git(|git| {
        for fixture in [Fixture::new(git), Fixture::hostile(git)] {
            let [base, next] = changed(&fixture);
            let changes =
                fixture.repository.load_changes(&fixture.tree(&base), &fixture.tree(&next), Renames::Find).unwrap();
            let renamed: Vec<_> = changes.iter().filter(|change| change.path == RepoPath::from("b/moved")).collect();
            let [change] = renamed.as_slice() else { panic!("{renamed:?}") };
            let ChangeKind::Renamed { from, similarity } = &change.kind else { panic!("{change:?}") };
            assert_eq!((from.to_string().as_str(), change.path.to_string().as_str()), ("a/moved", "b/moved"));
            assert!((90..100).contains(similarity), "{similarity}");
            let gone = fixture.repository.load_entry(&fixture.tree(&base), from).unwrap();
            assert_eq!(change.old, gone);
        }
    });
}

#[test]
fn numbers_of_lines() {
    each_git(|git| {
        for fixture in [Fixture::new(git), Fixture::hostile(git)] {
            let base = fixture.commit(&[], &[file("a", "1\n2\n"), file("bin", b"\0a")]);
            let next = fixture.commit(&[&base], &[file("a", "1\n3\n4\n"), file("bin", b"\0b")]);
            let [old, new] = [fixture.tree(&base), fixture.tree(&next)];
            let counts = fixture.repository.load_line_counts(&old, &new).unwrap();
            let counts: Vec<_> = counts.into_iter().map(|count| (count.path.to_string(), count.lines)).collect();
            assert_eq!(counts, [("a".to_owned(), Some((2, 1))), ("bin".to_owned(), None)]);
            assert_eq!(fixture.repository.load_summary(&old, &new).unwrap().1, (2, 1));
            let long = "line\n".repeat(20);
            let before = fixture.commit(&[], &[file("x", &long), file("y\tz", "1\n"), file("bin", b"\0a")]);
            let moved =
                [file("m", long.clone() + "more\n"), file("y\tz", "2\n"), file("bin", b"\0b"), file("n", "n\n")];
            let after = fixture.commit(&[&before], &moved);
            let (before, after) = (fixture.tree(&before), fixture.tree(&after));
            let (changes, totals) = fixture.repository.load_summary(&before, &after).unwrap();
            assert_eq!(changes, fixture.repository.load_changes(&before, &after, Renames::Find).unwrap());
            assert_eq!(fixture.repository.load_summary(&before, &before).unwrap(), (Vec::new(), (0, 0)));
            assert_eq!(totals, (3, 1), "a file that moved counts for what changed in it");
        }
    });
}

#[test]
fn a_commit_is_written_as_asked() {
    each_git(|git| {
        let mut ids = Vec::new();
        for fixture in [Fixture::new(git), Fixture::hostile(git)] {
            let base = fixture.commit(&[], &[file("f", "x\n")]);
            let tree = fixture.tree(&base);
            let author = Signature { seconds: 5, ..somebody() };
            let new = NewCommit {
                tree: &tree,
                parents: std::slice::from_ref(&base),
                author: &author,
                committer: &somebody(),
                message: "S\u{fc}bject\n\nSandbox-Run: r-1",
            };
            let id = fixture.repository.write_commit(&new).unwrap();
            for repository in engines(&fixture) {
                let commit = repository.load_commit(&id).unwrap();
                assert_eq!((commit.tree, commit.parents), (tree.clone(), vec![base.clone()]));
                assert_eq!((commit.author, commit.committer), (author.clone(), somebody()));
                assert_eq!(commit.message, "S\u{fc}bject\n\nSandbox-Run: r-1\n".as_bytes());
                assert!(repository.is_ancestor(&base, &id).unwrap());
                assert!(!repository.is_ancestor(&id, &base).unwrap());
                assert_eq!(repository.merge_bases(&id, &base).unwrap(), std::slice::from_ref(&base));
            }
            ids.push(id);
        }
        assert_eq!(ids[0], ids[1], "the user's settings do not change the id");
    });
}

#[test]
fn revisions_of_people() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let one = fixture.commit(&[], &[file("f", "1")]);
        let two = fixture.commit(&[&one], &[file("f", "2")]);
        fixture.check_out(&two);
        fixture.run("tag", ["-a", "-m", "m", "v1", one.as_str()]);
        let resolve = |text: &str| fixture.repository.resolve(text);
        for (text, commit) in [("main", &two), ("HEAD~1", &one), ("v1", &one), (&one.as_str()[..10], &one), ("@", &two)]
        {
            assert_eq!(resolve(text).unwrap(), *commit, "{text}");
        }
        for bad in ["", "nope", "--all", "-h", "HEAD:f", "main\0", "HEAD..main", "main main", "^main"] {
            assert!(matches!(resolve(bad), Err(Error::NoSuchCommit { .. })), "{bad:?} gave {:?}", resolve(bad));
        }
    });
}

#[test]
fn replaced_objects_are_left_to_git() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let one = fixture.commit(&[], &[file("f", "1")]);
        let two = fixture.commit(&[], &[file("f", "2")]);
        fixture.run("branch", ["b", one.as_str()]);
        assert_eq!(fixture.again().engine(), Engine::Library);
        fixture.run("replace", [one.as_str(), two.as_str()]);
        assert_eq!(fixture.again().engine(), Engine::Program);
        assert_eq!(fixture.again().load_commit(&one).unwrap().tree, fixture.tree(&two));
    });
}

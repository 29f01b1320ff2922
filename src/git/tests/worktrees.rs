//! Making, filling and dropping worktrees.
#![expect(clippy::disallowed_methods, reason = "tests move and remove folders as the workspace does")]

use std::fs;
use std::path::{Path, PathBuf};

use super::super::testing::{Fixture, each_git, file, link};
use super::super::*;
use crate::model::{CommitId, RefName};

fn branch(name: &str) -> RefName {
    RefName::branch(name).unwrap()
}

fn addition<'a>(path: &'a Path, commit: &'a CommitId, place: Place) -> Addition<'a> {
    Addition { path, commit, place, reason: "sandbox r-1/a" }
}

/// A repository with some files, and a folder for worktrees beside it.
fn prepared(fixture: &Fixture) -> (CommitId, PathBuf) {
    let commit = fixture.commit(&[], &[file("a/f", "x\r\ny\n"), link("l", "a/f"), file("g", "z\n")]);
    fixture.check_out(&commit);
    (commit, fixture.folder.path().canonicalize().unwrap())
}

#[test]
fn a_life() {
    each_git(|git| {
        for fixture in [Fixture::new(git), Fixture::hostile(git)] {
            let repository = &fixture.repository;
            let (commit, root) = prepared(&fixture);
            let path = root.join("w\u{fc} 1/r-1--a");
            let parent = fixture.files();
            let added =
                repository.add_worktree(&addition(&path, &commit, Place::NewBranch(branch("sandbox/r-1/a")))).unwrap();
            assert_eq!(added.admin_dir, repository.common_dir().join("worktrees/r-1--a"));
            assert_eq!(added.dot_git, format!("gitdir: {}\n", added.admin_dir.display()).into_bytes());
            assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "only .git until it is filled");
            repository.fill_worktree(&added, Fill::Checkout { workers: 0 }).unwrap();
            assert_eq!(fs::read(path.join("g")).unwrap(), b"z\n");
            assert_eq!(fs::read_link(path.join("l")).unwrap(), Path::new("a/f"));
            let own = Repository::discover(&fixture.git, &path).unwrap();
            assert!(own.load_status().unwrap().is_clean());

            let listed = repository.load_worktrees().unwrap();
            assert_eq!(listed.len(), 2);
            assert_eq!(listed[0].git_dir.as_deref(), Some(repository.common_dir()));
            assert_eq!(
                listed[1],
                Worktree {
                    path: path.clone(),
                    git_dir: Some(added.admin_dir.clone()),
                    head: Some(commit.clone()),
                    branch: Some(branch("sandbox/r-1/a")),
                    bare: false,
                    locked: Some("sandbox r-1/a".to_owned()),
                    prunable: None,
                }
            );
            // As after a harvest: the branch has moved, and git is not to look at the agent's files.
            let next = fixture.commit(&[&commit], &[file("other", "o\n")]);
            repository.reset_worktree_index(&added.admin_dir, &next).unwrap();
            assert_eq!(fs::read(path.join("g")).unwrap(), b"z\n");

            assert!(matches!(repository.drop_worktree(&path), Err(Error::WorktreeInPlace { .. })));
            fs::rename(&path, root.join("trash")).unwrap();
            assert_eq!(repository.drop_worktree(&path).unwrap(), Removal::Dropped);
            assert_eq!(repository.drop_worktree(&path).unwrap(), Removal::WasAbsent);
            assert!(!added.admin_dir.exists());
            assert!(repository.load_ref(&branch("sandbox/r-1/a")).unwrap().is_some(), "the branch stays");
            assert_eq!(parent, fixture.files());
        }
    });
}

#[test]
fn dropping_one_leaves_the_users_absent_ones() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let (commit, root) = prepared(&fixture);
        for name in ["users", "ours"] {
            drop(fixture.repository.add_worktree(&addition(&root.join(name), &commit, Place::Detached)).unwrap());
            fs::rename(root.join(name), root.join(format!("{name} away"))).unwrap();
        }
        fixture.run("worktree", ["unlock".as_ref(), root.join("users").as_os_str()]);
        assert_eq!(fixture.repository.drop_worktree(&root.join("ours")).unwrap(), Removal::Dropped);
        let left: Vec<_> = fixture.repository.load_worktrees().unwrap().into_iter().skip(1).collect();
        assert_eq!(left.len(), 1);
        assert!(left[0].path == root.join("users") && left[0].prunable.is_some(), "git would have pruned it: {left:?}");
    });
}

#[test]
fn a_failed_addition_leaves_nothing() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let repository = &fixture.repository;
        let (commit, root) = prepared(&fixture);
        let before = || {
            let refs = repository.load_refs("refs/").unwrap();
            (refs, repository.load_worktrees().unwrap(), repository.common_dir().join("worktrees").exists())
        };
        let start = before();
        let refused = |path: &Path, commit: &CommitId, place: Place| {
            let error = repository.add_worktree(&addition(path, commit, place)).unwrap_err();
            assert_eq!(before().0, start.0, "{error}");
            error
        };
        let absent: CommitId = "1".repeat(40).parse().unwrap();
        let error = refused(&root.join("w"), &absent, Place::NewBranch(branch("new")));
        assert!(matches!(error, Error::Failed { .. }), "{error}");
        assert!(!root.join("w").exists());
        let error = refused(&root.join("w"), &commit, Place::NewBranch(branch("main")));
        assert!(matches!(error, Error::BranchExists { .. }), "{error}");
        let error = refused(&root.join("w"), &commit, Place::NewBranch(branch("main/a/b")));
        assert!(matches!(&error, Error::BranchInTheWay { by, .. } if *by == branch("main")), "{error}");
        let error = refused(&root.join("repo"), &commit, Place::Detached);
        assert!(matches!(error, Error::WorktreeOdd { .. }), "{error}");
        assert_eq!(before(), start);

        // A worktree of the user's has our name: git would choose another one for the entry.
        fs::create_dir(root.join("elsewhere")).unwrap();
        let users = repository.add_worktree(&addition(&root.join("elsewhere/w"), &commit, Place::Detached)).unwrap();
        let error = refused(&root.join("w"), &commit, Place::NewBranch(branch("new")));
        assert!(matches!(error, Error::WorktreeOdd { .. }), "{error}");
        assert!(!root.join("w").exists());
        assert_eq!(repository.load_worktrees().unwrap().len(), 2);
        assert!(users.admin_dir.exists());
    });
}

#[test]
fn an_index_without_files() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let (commit, root) = prepared(&fixture);
        let added = fixture.repository.add_worktree(&addition(&root.join("w"), &commit, Place::Detached)).unwrap();
        fixture.repository.fill_worktree(&added, Fill::IndexOnly).unwrap();
        assert_eq!(fs::read_dir(root.join("w")).unwrap().count(), 1);
        assert!(added.admin_dir.join("index").exists());
        assert!(Checkout::open(&fixture.git, &root.join("w")).unwrap().index_is_at(&commit).unwrap());
    });
}

#[test]
fn a_bare_repository_has_worktrees_too() {
    each_git(|git| {
        let fixture = Fixture::initialised(git, &["--bare"]);
        let commit = fixture.commit(&[], &[file("f", "x\n")]);
        let root = fixture.folder.path().canonicalize().unwrap();
        let place = Place::NewBranch(branch("sandbox/r-1/a"));
        let added = fixture.repository.add_worktree(&addition(&root.join("w"), &commit, place)).unwrap();
        fixture.repository.fill_worktree(&added, Fill::Checkout { workers: 1 }).unwrap();
        assert_eq!(fs::read(root.join("w/f")).unwrap(), b"x\n");
        let listed = fixture.repository.load_worktrees().unwrap();
        assert!(listed[0].bare && !listed[1].bare);
    });
}

#[test]
fn settings_stay_as_they_are() {
    each_git(|git| {
        let fixture = Fixture::hostile(git);
        let (commit, root) = prepared(&fixture);
        let config = fs::read(fixture.root().join(".git/config")).unwrap();
        for at in 0..4 {
            let path = root.join(format!("w{at}"));
            let place = Place::NewBranch(branch(&format!("sandbox/r-1/a{at}")));
            drop(fixture.repository.add_worktree(&addition(&path, &commit, place)).unwrap());
        }
        assert_eq!(config, fs::read(fixture.root().join(".git/config")).unwrap());
    });
}

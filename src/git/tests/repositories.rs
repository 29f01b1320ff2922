//! Finding a repository, and what is known of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use super::super::testing::{Fixture, each_git, file, skip};
use super::super::*;
use crate::model::{ObjectFormat, RefName, RepoPath};

#[test]
fn from_everywhere_in_it() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let commit = fixture.commit(&[], &[file("deep/er/f", "x\n")]);
        fixture.check_out(&commit);
        let top = fixture.root().canonicalize().unwrap();
        let deep = Repository::discover(&fixture.git, &fixture.root().join("deep/er")).unwrap();
        assert_eq!(deep.top_level(), Some(top.as_path()));
        assert_eq!(deep.common_dir(), top.join(".git"));
        assert!(
            !deep.is_linked() && !deep.is_bare() && !deep.is_shallow() && !deep.is_sparse() && !deep.is_partial_clone()
        );
        assert_eq!(deep.object_format(), ObjectFormat::Sha1);
        assert_eq!(deep.ref_storage(), RefStorage::Files);
        assert_eq!(deep.identity().unwrap().email, "tester@example.com");
        assert_eq!(deep.resolve("HEAD").unwrap(), commit);
        assert!(!deep.has_submodules(&commit).unwrap());

        let odd = fixture.folder.path().join("li nked\n\u{fc} \"x\"");
        fixture.run("worktree", ["add".as_ref(), "-q".as_ref(), "-b".as_ref(), "side".as_ref(), odd.as_os_str()]);
        let linked = Repository::discover(&fixture.git, &odd.join("deep")).unwrap();
        assert!(linked.is_linked());
        assert_eq!(linked.top_level(), Some(odd.canonicalize().unwrap().as_path()));
        assert_eq!(linked.common_dir(), deep.common_dir());
        assert_eq!(linked.key(), deep.key());
        assert_eq!(linked.load_head().unwrap().branch().unwrap().short(), "side");
    });
}

#[test]
fn bare_unborn_and_detached() {
    each_git(|git| {
        let unborn = Fixture::new(git);
        let head = unborn.repository.load_head().unwrap();
        let main = RefName::branch("main").unwrap();
        assert_eq!(head, Head::Branch { name: main.clone(), commit: None });
        assert!(matches!(head.require_commit(), Err(Error::NoCommit { branch }) if branch == main));
        assert!(matches!(unborn.repository.resolve("HEAD"), Err(Error::NoSuchCommit { .. })));

        let commit = unborn.commit(&[], &[file("f", "x\n")]);
        unborn.run("checkout", ["-q", "--detach", commit.as_str()]);
        assert_eq!(unborn.repository.load_head().unwrap(), Head::Detached(commit));

        let bare = Fixture::initialised(git, &["--bare"]);
        assert!(bare.repository.is_bare());
        assert_eq!(bare.repository.top_level(), None);
        assert!(matches!(bare.repository.load_status(), Err(Error::Bare { .. })));
    });
}

#[test]
fn no_repository() {
    each_git(|git| {
        let folder = tempfile::tempdir().unwrap();
        let found = Repository::discover(git, folder.path());
        assert!(matches!(found, Err(Error::NotARepository { .. })), "{found:?}");
        let found = Repository::discover(git, &folder.path().join("absent"));
        assert!(matches!(found, Err(Error::NotARepository { .. })), "{found:?}");
    });
}

#[test]
fn somebody_elses_repository_is_refused_with_gits_own_fix() {
    if !rustix::process::geteuid().is_root() {
        skip("giving a repository to somebody else needs root");
        return;
    }
    each_git(|git| {
        let fixture = Fixture::new(git);
        let root = fixture.root();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        for place in [root.clone(), root.join(".git")] {
            chown(place, Some(12345), Some(12345)).unwrap();
        }
        let found = Repository::discover(&fixture.git, &root);
        let Err(Error::DubiousOwnership { fix, .. }) = found else { panic!("{found:?}") };
        assert!(fix.starts_with("git config --global --add safe.directory"), "{fix}");
    });
}

#[test]
fn formats_that_git2_cannot_open_use_the_program() {
    each_git(|git| {
        let sha256 = Fixture::initialised(git, &["--object-format=sha256"]);
        assert_eq!(sha256.repository.object_format(), ObjectFormat::Sha256);
        assert_eq!(sha256.repository.engine(), Engine::Program);
        assert!(sha256.repository.engine_reason().is_some());
        let commit = sha256.commit(&[], &[file("f", "x\n")]);
        assert_eq!(commit.as_str().len(), 64);
        assert!(sha256.repository.load_commit(&commit).is_ok());

        if git.version() >= (Version { major: 2, minor: 45, patch: 0 }) {
            let reftable = Fixture::initialised(git, &["--ref-format=reftable"]);
            assert_eq!(reftable.repository.ref_storage(), RefStorage::Reftable);
            let commit = reftable.commit(&[], &[file("f", "x\n")]);
            let name: RefName = "refs/sandbox/x".parse().unwrap();
            let create = RefEdit::Create { name: name.clone(), new: commit.object().clone() };
            assert_eq!(reftable.repository.swap_refs(&[create], "test").unwrap(), Swap::Done);
            assert_eq!(reftable.repository.load_ref(&name).unwrap().as_ref(), Some(commit.object()));
            assert!(reftable.repository.load_commit(&commit).is_ok());
        }
    });
}

#[test]
fn kinds_of_clone() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let one = fixture.commit(&[], &[file("a/f", "x\n"), file("b/f", "y\n")]);
        let two = fixture.commit(&[&one], &[file("a/f", "z\n"), file("b/f", "y\n")]);
        fixture.check_out(&two);
        fixture.run("config", ["uploadpack.allowFilter", "true"]);
        let origin = format!("file://{}", fixture.root().display());
        for (options, shallow, partial, sparse) in [
            (&["--depth=1"][..], true, false, false),
            (&["--filter=blob:none", "--no-checkout"], false, true, false),
            (&["--sparse"], false, false, true),
        ] {
            let place = fixture.folder.path().join(format!("clone{}", options[0]));
            let clone = Command::new(&fixture.git, Access::Write, "clone").args(["-q"]).args(options);
            drop(clone.arg(&origin).arg(&place).folder(fixture.folder.path()).success().unwrap());
            let clone = Repository::discover(&fixture.git, &place).unwrap();
            assert_eq!((clone.is_shallow(), clone.is_partial_clone(), clone.is_sparse()), (shallow, partial, sparse));
            assert_eq!(clone.load_commit(&two).unwrap().parents, std::slice::from_ref(&one));
            if partial {
                assert_eq!(clone.engine(), Engine::Program);
                let tree = clone.load_commit(&two).unwrap().tree;
                let entry = clone.load_entry(&tree, &RepoPath::from("a/f")).unwrap().unwrap();
                let blob = clone.load_blob(&entry.id, 100);
                assert!(matches!(blob, Err(Error::MissingObject { .. } | Error::Failed { .. })), "{blob:?}");
            }
        }
    });
}

#[test]
fn the_state_of_the_checkout() {
    each_git(|git| {
        for fixture in [Fixture::new(git), Fixture::hostile(git)] {
            let text = "old\n".repeat(20);
            let commit = fixture.commit(
                &[],
                &[
                    file("was", &text),
                    file("edited", "x\n"),
                    file("gone", "x\n"),
                    file(".gitignore", "*.log\nbuild/\n"),
                ],
            );
            fixture.check_out(&commit);
            assert!(fixture.repository.load_status().unwrap().is_clean());
            fixture.run("mv", ["was", "is"]);
            fixture.write("edited", "y\n");
            fs::remove_file(fixture.root().join("gone")).unwrap();
            fixture.write("new d/\u{fc}n\u{ef} \"q\"\n.txt", "content");
            fixture.write("-dash", "");
            fixture.write("a.log", "");
            fixture.write("build/one", "");
            fixture.write("build/two", "");
            let index = fs::read(fixture.root().join(".git/index")).unwrap();
            let status = fixture.repository.load_status().unwrap();
            assert_eq!(fs::read(fixture.root().join(".git/index")).unwrap(), index);
            let changed: Vec<_> = status
                .changed
                .iter()
                .map(|entry| {
                    (entry.index, entry.worktree, entry.path.to_string(), entry.from.as_ref().map(ToString::to_string))
                })
                .collect();
            assert_eq!(
                changed,
                [
                    (' ', 'M', "edited".to_owned(), None),
                    (' ', 'D', "gone".to_owned(), None),
                    ('R', ' ', "is".to_owned(), Some("was".to_owned())),
                ]
            );
            let untracked = [RepoPath::from("-dash"), RepoPath::from("new d/\u{fc}n\u{ef} \"q\"\n.txt")];
            assert_eq!(status.untracked, untracked);
            assert_eq!(status.ignored, 2);
            let content = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73";
            assert_eq!(status.hashes.get(&untracked[1]).map(String::as_str), Some(content));
            assert_eq!(status.hashes.len(), 4);
        }
    });
}

#[test]
fn the_branch_that_is_followed() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let one = fixture.commit(&[], &[file("f", "1\n")]);
        let two = fixture.commit(&[&one], &[file("f", "2\n")]);
        fixture.check_out(&two);
        assert_eq!(fixture.repository.load_upstream().unwrap(), None);
        fixture.run("branch", ["up", one.as_str()]);
        fixture.run("branch", ["-q", "--set-upstream-to=up"]);
        let upstream = fixture.repository.load_upstream().unwrap().unwrap();
        assert_eq!((upstream.name.as_str(), upstream.distance), ("refs/heads/up", Some((1, 0))));
        fixture.run("update-ref", ["-d", "refs/heads/up"]);
        assert_eq!(fixture.repository.load_upstream().unwrap().unwrap().distance, None);
    });
}

#[test]
fn what_is_under_way() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let base = fixture.commit(&[], &[file("f", "base\n")]);
        let other = fixture.commit(&[&base], &[file("f", "other\n")]);
        let main = fixture.commit(&[&base], &[file("f", "main\n")]);
        fixture.check_out(&main);
        let git_dir = fixture.root().join(".git");
        let found = || -> Vec<_> {
            let operations = load_operations(&git_dir).unwrap();
            operations
                .into_iter()
                .map(|found| (found.kind, found.branches.first().map(|branch| branch.short().to_owned())))
                .collect()
        };
        let main = || Some("main".to_owned());
        assert!(found().is_empty());
        drop(fixture.try_run("merge", [other.as_str()]));
        assert_eq!(found(), [(OperationKind::Merge, None)]);
        fixture.run("merge", ["--abort"]);
        drop(fixture.try_run("rebase", [other.as_str()]));
        assert_eq!(found()[0], (OperationKind::Rebase, main()));
        let listed = fixture.repository.load_worktrees().unwrap();
        assert_eq!(listed[0].branch, None, "git hides the branch, which is why we look");
        fixture.run("rebase", ["--abort"]);
        drop(fixture.try_run("rebase", ["--apply", other.as_str()]));
        assert_eq!(found()[0], (OperationKind::Rebase, main()));
        fixture.run("rebase", ["--abort"]);
        drop(fixture.try_run("cherry-pick", [other.as_str()]));
        assert!(found().contains(&(OperationKind::CherryPick, None)));
        fixture.run("cherry-pick", ["--abort"]);
        drop(fixture.try_run("revert", ["--no-edit", other.as_str()]));
        assert!(found().contains(&(OperationKind::Revert, None)), "{:?}", found());
        fixture.run("revert", ["--abort"]);
        fixture.run("bisect", ["start"]);
        assert_eq!(found(), [(OperationKind::Bisect, main())]);
        fixture.run("bisect", ["reset"]);
        fixture.write(".git/index.lock", "");
        assert_eq!(found(), [(OperationKind::IndexLocked, None)]);
        fs::remove_file(git_dir.join("index.lock")).unwrap();
        assert!(found().is_empty());
    });
}

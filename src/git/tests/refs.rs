//! Moving refs.

use std::sync::Barrier;

use super::super::testing::{Fixture, each_git, file};
use super::super::*;
use crate::model::RefName;

fn name(text: &str) -> RefName {
    text.parse().unwrap()
}

#[test]
fn all_or_nothing() {
    each_git(|git| {
        for fixture in [Fixture::new(git), Fixture::hostile(git)] {
            let repository = &fixture.repository;
            let [one, two] = ["1", "2"].map(|text| fixture.commit(&[], &[file("f", text)]).object().clone());
            let (a, b) = (name("refs/sandbox/r-1/a"), name("refs/sandbox/r-1/b"));
            assert_eq!(repository.load_ref(&a).unwrap(), None);
            let create = [&a, &b].map(|name| RefEdit::Create { name: name.clone(), new: one.clone() });
            assert_eq!(repository.swap_refs(&create, "test").unwrap(), Swap::Done);
            let lost = repository.swap_refs(&create[..1], "test").unwrap();
            assert_eq!(lost, Swap::Lost { name: a.clone(), expected: None, found: Some(one.clone()) });

            let edits = [
                RefEdit::Update { name: a.clone(), new: two.clone(), old: one.clone() },
                RefEdit::Delete { name: b.clone(), old: two.clone() },
            ];
            let lost = repository.swap_refs(&edits, "test").unwrap();
            assert_eq!(lost, Swap::Lost { name: b.clone(), expected: Some(two.clone()), found: Some(one.clone()) });
            assert_eq!(repository.load_ref(&a).unwrap().as_ref(), Some(&one), "nothing moved");

            let verify = RefEdit::Verify { name: b.clone(), old: None };
            let update = RefEdit::Update { name: a.clone(), new: two.clone(), old: one.clone() };
            assert!(matches!(repository.swap_refs(&[update.clone(), verify], "test").unwrap(), Swap::Lost { .. }));
            let verify = RefEdit::Verify { name: b.clone(), old: Some(one.clone()) };
            assert_eq!(repository.swap_refs(&[update, verify], "a\nb").unwrap(), Swap::Done);
            let listed = repository.load_refs("refs/sandbox/r-1/").unwrap();
            let listed: Vec<_> = listed.into_iter().map(|found| (found.name, found.id)).collect();
            assert_eq!(listed, [(a.clone(), two.clone()), (b.clone(), one.clone())]);
            let delete = RefEdit::Delete { name: a.clone(), old: two.clone() };
            assert_eq!(repository.swap_refs(std::slice::from_ref(&delete), "test").unwrap(), Swap::Done);
            let gone = repository.swap_refs(&[delete], "test").unwrap();
            assert_eq!(gone, Swap::Lost { name: a, expected: Some(two), found: None });
        }
    });
}

#[test]
fn an_edit_that_git_cannot_do_is_an_error() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let one = fixture.commit(&[], &[file("f", "1")]).object().clone();
        let create = |text: &str| RefEdit::Create { name: name(text), new: one.clone() };
        assert_eq!(fixture.repository.swap_refs(&[create("refs/heads/sandbox")], "x").unwrap(), Swap::Done);
        let below = fixture.repository.swap_refs(&[create("refs/heads/sandbox/below")], "x");
        assert!(matches!(below, Err(Error::Failed { .. })), "{below:?}");
        let bad = fixture.repository.swap_refs(&[create("refs/heads/a..b")], "x");
        assert!(bad.is_err());
    });
}

#[test]
fn one_winner() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let ids: Vec<_> = (0..8).map(|at| fixture.commit(&[], &[file("f", at.to_string())]).object().clone()).collect();
        let barrier = Barrier::new(ids.len());
        let results: Vec<Swap> = std::thread::scope(|scope| {
            let (barrier, repository) = (&barrier, &fixture.repository);
            let threads: Vec<_> = ids
                .iter()
                .map(|id| {
                    scope.spawn(move || {
                        barrier.wait();
                        let create = RefEdit::Create { name: name("refs/sandbox/race"), new: id.clone() };
                        repository.swap_refs(&[create], "race").unwrap()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| **result == Swap::Done).count(), 1, "{results:?}");
    });
}

#[test]
fn a_packed_refs_file_that_git_reads() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let one = fixture.commit(&[], &[file("f", "1")]);
        fixture.run("tag", ["-a", "-m", "m", "v1", one.as_str()]);
        fixture.run("branch", ["b", one.as_str()]);
        let text = fixture.repository.load_packed_refs(|name| !name.starts_with(b"refs/test/")).unwrap();
        let text = String::from_utf8(text).unwrap();
        let tag = fixture.run("rev-parse", ["refs/tags/v1"]);
        let expected =
            format!("# pack-refs with: peeled fully-peeled sorted \n{one} refs/heads/b\n{tag} refs/tags/v1\n^{one}\n");
        assert_eq!(text, expected);
        let tags = fixture.repository.load_refs("refs/tags/").unwrap();
        assert_eq!(tags[0].peeled.as_ref(), Some(one.object()));
    });
}

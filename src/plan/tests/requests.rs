//! What is asked for, held against contracts and the plan's own rule.

use proptest::prelude::*;

use super::globs::PATHS;
use crate::model::plan::Contract;
use crate::model::{AgentName, RepoPath};
use crate::plan::{Allowed, Budget, CompiledContract, GlobSet, Protected, Wanted, is_covered};

fn set(globs: &[&str]) -> GlobSet {
    GlobSet::compile(&globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>()).unwrap()
}

fn contract(owns: &[&str], shares: &[&str]) -> Contract {
    let texts = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
    Contract { owns: texts(owns), shares: texts(shares) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    /// Over `a`, `b`, `/` and `.`, five bytes are enough to tell each two of these lists apart.
    #[test]
    fn covered_is_what_brute_force_says(
        wanted in proptest::sample::select(
            &["a", "a/*", "a/**", "**/b", "*", "a/?", "{a,b}/a", "[ab]", "a/a*", "b/[ab]/**"][..]),
        owns in proptest::collection::vec(
            proptest::sample::select(
                &["a", "b", "a/*", "a/**", "**/b", "**", "*", "*/**", "a/[ab]", "a/[!ab]*", "{a,b}/**"][..]),
            0..4),
        shares in proptest::collection::vec(proptest::sample::select(&["b/**", "**/a", "?"][..]), 0..2),
    ) {
        let contract = CompiledContract::new(&contract(&owns, &shares)).unwrap();
        let set = set(&[wanted]);
        let covered = is_covered(&set, &contract, &mut Budget::default()).unwrap();
        let is_outside = |path: &RepoPath| set.matches(path) && contract.allows(path) == Allowed::Outside;
        let outside = PATHS.iter().map(|path| RepoPath::from(path.as_str())).find(is_outside);
        // A byte that none of the globs names is like `.` to all of them, but alone it is no part of a path.
        let odd = ["c", "a/c", "c/c", "cc", "a/cc", "c/b", "b/a/c", "ac", "a/a/c", "a/c/c"].map(RepoPath::from);
        let odd = odd.into_iter().find(is_outside);
        prop_assert_eq!(covered, outside.is_none() && odd.is_none(), "{} {:?} {:?} {:?}", wanted, owns, shares, outside);
    }
}

#[test]
fn inclusion_is_exact() {
    for (wanted, cover, covered) in [
        (&["docs/a"][..], &["docs/**"][..], true),
        (&["docs/**"], &["docs/a"], false),
        (&["docs/**"], &["docs/*"], false),
        (&["docs/*"], &["docs/[a-z]*", "docs/[!a-z]*"], true),
        (&["docs/*"], &["docs/[a-z]*", "docs/[!a-y]*"], true),
        (&["docs/*"], &["docs/[a-y]*", "docs/[!a-z]*"], false),
        (&["**"], &["*", "*/**"], true),
        (&["**"], &["*"], false),
        (&["src/{a,b}.rs"], &["src/a.rs", "src/b.rs"], true),
        (&["src/{a,b,c}.rs"], &["src/a.rs", "src/b.rs"], false),
        (&["a", "b"], &["a"], false),
        (&["a"], &[], false),
    ] {
        let cover = CompiledContract::new(&contract(cover, &[])).unwrap();
        assert_eq!(is_covered(&set(wanted), &cover, &mut Budget::default()).unwrap(), covered, "{wanted:?}");
    }
    let shared = CompiledContract::new(&contract(&["a"], &["b"])).unwrap();
    assert!(is_covered(&set(&["a", "b"]), &shared, &mut Budget::default()).unwrap(), "what is shared is its to change");
    assert!(is_covered(&set(&["**"]), &shared, &mut Budget::new(1)).is_err(), "never guessed");
}

#[test]
fn what_the_plan_grants_and_why_not() {
    let theirs = CompiledContract::new(&contract(&["docs/theirs/**"], &["docs/shared"])).unwrap();
    let others: Vec<(AgentName, CompiledContract)> = vec![("other".parse().unwrap(), theirs)];
    for (wanted, may_ask, objection) in [
        (&["docs/a"][..], &["docs/**"][..], None),
        (&["docs/a", "x"], &["docs/**"], Some("`x`: the plan's `may_ask` does not cover it, `x` for one")),
        (&["docs/**"], &["docs/**"], Some("`docs/**`: `docs/theirs/a` is in the contract of `other`")),
        (&["docs/shared"], &["docs/**"], Some("`docs/shared` is in the contract of `other`")),
        (&["**"], &[], Some("does not cover it")),
        // Protected paths: what names them must be named by the rule; what only covers them names none.
        (&["src/**"], &["**"], None),
        (&[".github/workflows/ci.yml"], &["**"], Some("protected by `.github/**`, which `may_ask` does not name")),
        (&[".github/workflows/ci.yml"], &[".github/workflows/**"], None),
        (&[".github/**"], &[".github/workflows/**", "**"], Some("protected by `.github/**`")),
        (&["src/.gitattributes"], &["src/**"], Some("protected by `**/.gitattributes`")),
        (&["src/.gitattributes"], &["src/.gitattributes"], None),
        (&[".gitlab-ci.yml"], &["*.yml"], Some("protected by `.gitlab-ci.yml`")),
        (&["gate/x"], &["gate*/**"], Some("protected by `gate/**`")),
        (&["gate/x"], &["gate/*"], None),
    ] {
        let (globs, may_ask) = (set(wanted), set(may_ask));
        let protected = Protected::new(&["gate/**".to_owned()]).unwrap();
        let asked = Wanted { globs: &globs, may_ask: &may_ask, protected: &protected, others: &others };
        let objections = asked.objections(&mut Budget::default()).unwrap();
        match objection {
            None => assert!(objections.is_empty(), "{wanted:?}: {objections:?}"),
            Some(part) => assert!(objections.iter().any(|told| told.contains(part)), "{wanted:?}: {objections:?}"),
        }
    }
}

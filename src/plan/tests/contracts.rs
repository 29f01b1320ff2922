use proptest::prelude::*;

use super::globs::PATHS;
use crate::model::RepoPath;
use crate::model::plan::Contract;
use crate::plan::{Allowed, Budget, Code, CompiledContract, check_against_tree, load};

fn contract(owns: &[String], shares: &[String]) -> CompiledContract {
    CompiledContract::new(&Contract { owns: owns.to_vec(), shares: shares.to_vec() }).unwrap_or_default()
}

fn texts(globs: &[&str]) -> Vec<String> {
    globs.iter().map(|glob| (*glob).to_owned()).collect()
}

#[test]
fn a_path_is_owned_shared_or_outside() {
    let contract = contract(&texts(&["src/**"]), &texts(&["Cargo.lock", "src/shared.rs"]));
    for (path, allowed) in [
        ("src/a.rs", Allowed::Owned),
        ("Cargo.lock", Allowed::Shared),
        ("src/shared.rs", Allowed::Shared),
        ("Cargo.toml", Allowed::Outside),
        ("src", Allowed::Outside),
    ] {
        assert_eq!(contract.allows(&RepoPath::from(path)), allowed, "{path}");
    }
}

#[test]
fn a_bad_glob_is_named() {
    let error = CompiledContract::new(&Contract { owns: texts(&["a", "/b"]), shares: Vec::new() }).unwrap_err();
    assert!(error.to_string().starts_with("`/b` is not a glob: it begins with `/`"), "{error}");
}

#[test]
fn only_what_both_share_may_overlap() {
    type Lists<'a> = (&'a [&'a str], &'a [&'a str]);
    let table: &[(Lists<'_>, Lists<'_>, bool)] = &[
        ((&["a/**"], &["x"]), (&["b/**"], &["x"]), false),
        // One shares it, the other owns it.
        ((&["a/**", "x"], &[]), (&["b/**"], &["x"]), true),
        // Owned by one, but listed under `shares` by both.
        ((&["a/**"], &["a/x"]), (&["b/**"], &["a/x"]), false),
        ((&["**"], &["x", "y"]), (&["y"], &["y"]), false),
        // The shared lists cover the overlap only together.
        ((&["d/*.rs"], &["d/a*", "d/[!a]*"]), (&["d/a.rs", "d/b.rs"], &["d/*.rs"]), false),
        // The shared lists leave something out.
        ((&["d/**"], &["d/*"]), (&["d/**"], &["d/**"]), true),
        ((&["d/**"], &["d/**"]), (&["d/**"], &["d/**"]), false),
        ((&["d/**"], &["**/x"]), (&["d/x"], &["d/{x,y}"]), true),
        ((&["d/**"], &["**/[xy]"]), (&["d/x"], &["d/{x,y}"]), false),
    ];
    for ((owns, shares), (other_owns, other_shares), overlapping) in table {
        let first = contract(&texts(owns), &texts(shares));
        let second = contract(&texts(other_owns), &texts(other_shares));
        for (first, second) in [(&first, &second), (&second, &first)] {
            let found = first.overlaps(second, &mut Budget::default()).unwrap();
            assert_eq!(!found.is_empty(), *overlapping, "{owns:?} {other_owns:?}: {found:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn overlaps_are_those_of_brute_force(
        lists in proptest::collection::vec(
            proptest::collection::vec(
                proptest::sample::select(&["a", "b", "a/*", "a/**", "**/b", "**", "*", "a/?", "{a,b}/a", "[!a]", "a/a*"][..]), 0..3),
            4..=4,
        )
    ) {
        let all: Vec<_> = lists.iter().map(|list| texts(list)).collect();
        let (first, second) = (contract(&all[0], &all[1]), contract(&all[2], &all[3]));
        let found = first.overlaps(&second, &mut Budget::default()).unwrap();
        let is_bad = |path: &RepoPath| match (first.allows(path), second.allows(path)) {
            (Allowed::Outside, _) | (_, Allowed::Outside) | (Allowed::Shared, Allowed::Shared) => false,
            (Allowed::Owned, Allowed::Owned | Allowed::Shared) | (Allowed::Shared, Allowed::Owned) => true,
        };
        for overlap in &found {
            prop_assert!(is_bad(&overlap.path), "{:?} {}", all, overlap.path);
        }
        let bad = PATHS.iter().map(|path| RepoPath::from(path.as_str())).find(is_bad);
        prop_assert!(bad.is_none() || !found.is_empty(), "{:?} {:?}", all, bad);
    }
}

#[test]
fn a_contract_that_matches_no_file_is_warned_of() {
    let text = "[agents.a]\nowns = ['src/**']\nrun = ['x']\n[agents.b]\nowns = ['dosc/**', 'x']\nrun = ['x']\n";
    let (plan, _) = load("p.toml", text).unwrap();
    let tree = ["README.md", "docs/a.md", "src/main.rs"].map(RepoPath::from);
    let warnings = check_against_tree(&plan, tree).unwrap();
    let messages: Vec<_> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(messages, ["no file falls under what `b` owns: `dosc/**`, `x`"]);
    assert_eq!(check_against_tree(&plan, []).unwrap().len(), 2);
}

#[test]
fn folders_to_start_in_that_are_not_there_are_warned_of() {
    let text = "[verify]\ncommand = ['x']\nworkdir = 'docs/'\n[agents.a]\nowns = ['docs/**']\nrun = ['x']\nworkdir = 'docs/a'\n\
                [agents.b]\nowns = ['src/**']\nrun = ['x']\nworkdir = 'src'\n";
    let (plan, _) = load("p.toml", text).unwrap();
    assert_eq!(plan.verify.as_ref().unwrap().workdir.as_deref(), Some("docs"));
    let told = |tree: &[&str]| -> Vec<String> {
        let tree = tree.iter().map(|path| RepoPath::from(*path));
        let found = check_against_tree(&plan, tree).unwrap().into_iter().filter(|it| it.code == Code::NoWorkdir);
        found.map(|finding| finding.message).collect()
    };
    assert_eq!(
        told(&["docs/a.md", "docs/ab/x", "src"]),
        [
            "`a` starts in `docs/a`, which is no folder of the repository",
            "`b` starts in `src`, which is no folder of the repository"
        ]
    );
    assert!(told(&["docs/a/x", "src/y/z"]).is_empty());
    for (path, part) in [
        ("../x", "leads out"),
        ("/x", "from the checkout's root"),
        ("a//b", "empty part"),
        (".", "empty part"),
        ("a/.git/x", "git's own"),
    ] {
        let text = format!("[verify]\ncommand = ['x']\n[agents.a]\nowns = ['a']\nrun = ['x']\nworkdir = '{path}'\n");
        let found = load("p.toml", &text).unwrap_err();
        assert!(found.findings[0].message.contains(part), "{path}: {found:?}");
    }
}

/// Many agents with globs that begin with `**` are an ordinary plan, and must stay one.
#[test]
fn a_hundred_agents_are_compared_within_the_budget() {
    use std::fmt::Write;
    let mut text = String::from("run.name = 'many'\n");
    for nth in 0..100 {
        let globs = format!(
            "'**/x{nth}.rs', '**/{{a,b}}/*-{nth}.rs', 'src/m{nth}/**/*.c', 'docs/*/{nth}/*.md', 'lib/*-{nth}/**/*.h'"
        );
        writeln!(text, "agents.a{nth} = {{ owns = [{globs}], shares = ['Cargo.lock'], run = ['x'] }}").unwrap();
    }
    let started = std::time::Instant::now();
    let (plan, _) = load("p.toml", &text).unwrap_or_else(|found| panic!("{}", found.render(false)));
    assert_eq!(plan.agents.len(), 100);
    assert!(started.elapsed().as_secs() < 60, "it took {:?}", started.elapsed());
}

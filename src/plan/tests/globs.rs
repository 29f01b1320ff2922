use std::sync::LazyLock;

use globset::GlobBuilder;
use proptest::prelude::*;

use crate::model::RepoPath;
use crate::plan::{Budget, Glob, GlobError, GlobSet, OverlapError, TooComplex, overlap};

fn matches(glob: &str, path: &str) -> bool {
    GlobSet::compile(&[glob.to_owned()]).is_ok_and(|set| set.matches(&RepoPath::from(path)))
}

#[test]
fn a_glob_matches_what_it_says_and_nothing_else() {
    let table: &[(&str, &[&str], &[&str])] = &[
        ("src/a", &["src/a"], &["src/ab.rs", "src/a/b", "src", "a", "x/src/a", "src/A"]),
        ("src", &["src"], &["src/a", "srcs", "a/src"]),
        ("src/", &["src/a", "src/a/b", "src/.hidden"], &["src", "srcs/a", "a/src/b"]),
        ("src/**", &["src/a", "src/a/b"], &["src", "src2/a"]),
        ("**", &["a", "a/b", ".x/y"], &[]),
        ("*", &["a", ".a"], &["a/b"]),
        ("src/*", &["src/a", "src/.a"], &["src/a/b", "src"]),
        ("src/*.rs", &["src/a.rs", "src/.rs"], &["src/a/b.rs", "src/a.rsx", "src/a.RS"]),
        ("**/*.rs", &["a.rs", "a/b.rs", "a/b/c.rs"], &["a.rs/b", "a.r"]),
        ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a/xb", "ab", "a/b/c", "xa/b"]),
        ("**/a/**/b", &["a/b", "x/a/y/b", "a/a/b"], &["b", "x/b"]),
        ("**/**/a", &["a", "x/a", "x/y/a"], &["xa"]),
        ("a?c", &["abc", "a.c"], &["a/c", "ac", "abbc"]),
        ("[a-c]x", &["ax", "cx"], &["dx", "x", "Ax"]),
        ("[!a-c]x", &["dx", "Ax", ".x"], &["ax", "/x"]),
        ("[^a]", &["b"], &["a", "/"]),
        ("[]-]", &["]", "-"], &["a"]),
        ("[a\\]]", &["a", "]"], &["b"]),
        ("a[+-9]b", &["a.b", "a0b"], &["a/b"]),
        ("{a,b/c}/d", &["a/d", "b/c/d"], &["b/d", "c/d", "a/c/d"]),
        ("a{,b}", &["a", "ab"], &["b", "abb"]),
        // Stars that meet where braces end stay within a folder.
        ("*{x,}*", &["a", "axb", "ab"], &["a/b", "a/x"]),
        ("{*,x}*", &["a", "xa"], &["a/b"]),
        ("{**,x}/y", &["y", "a/y", "x/y", "a/b/y"], &["xy"]),
        ("{a,{b,c}x}/**", &["a/1", "bx/1", "cx/2/3"], &["b/1", "x/1"]),
        ("{src/,docs}", &["src/a", "docs"], &["docs/a", "src"]),
        ("a,b", &["a,b"], &["a", "b"]),
        ("\\*\\[\\{", &["*[{"], &["a[{"]),
        ("\\!x", &["!x"], &["x"]),
        ("ü/*", &["ü/ä"], &["u/a"]),
    ];
    for (glob, inside, outside) in table {
        for path in *inside {
            assert!(matches(glob, path), "`{glob}` should match `{path}`");
        }
        for path in *outside {
            assert!(!matches(glob, path), "`{glob}` should not match `{path}`");
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_bytes() {
    let path = RepoPath::new(&b"src/\xff\xfe.rs"[..]);
    assert!(Glob::new("src/*.rs").unwrap().matches(&path));
    assert!(Glob::new("src/??.rs").unwrap().matches(&path));
    assert!(!Glob::new("src/?.rs").unwrap().matches(&path));
}

#[test]
fn what_is_no_glob_is_refused() {
    let deep = "{a,".repeat(17) + "b" + &"}".repeat(17);
    let table = [
        ("", GlobError::Empty),
        ("/a", GlobError::LeadingSlash),
        ("/", GlobError::LeadingSlash),
        ("{,a}/b", GlobError::EmptyPart),
        ("a/{,b}/c", GlobError::EmptyPart),
        // Not the folder `a` with all that is in it, which an empty choice hardly means.
        ("a/{b,}", GlobError::EmptyPart),
        ("{a,}", GlobError::EmptyPart),
        ("!a", GlobError::Negation),
        ("a//b", GlobError::EmptyPart),
        ("a//", GlobError::EmptyPart),
        ("../x", GlobError::DotPart),
        ("a/../b", GlobError::DotPart),
        ("./a", GlobError::DotPart),
        ("a/..", GlobError::DotPart),
        ("{a,..}/b", GlobError::DotPart),
        ("a**", GlobError::GluedStars),
        ("**.rs", GlobError::GluedStars),
        ("***", GlobError::GluedStars),
        ("{**,a}b", GlobError::GluedStars),
        ("[a", GlobError::OpenClass),
        ("[]", GlobError::OpenClass),
        ("[a/b]", GlobError::BadClass),
        ("[ä]", GlobError::BadClass),
        ("[z-a]", GlobError::BackwardRange),
        ("{a", GlobError::OpenBrace),
        ("a}", GlobError::OpenBrace),
        ("a\\", GlobError::TrailingBackslash),
        ("a\0", GlobError::Nul),
        (".git/config", GlobError::MatchesNothing),
        ("a/.GIT/**", GlobError::MatchesNothing),
        ("[.][.]/a", GlobError::MatchesNothing),
        (deep.as_str(), GlobError::TooComplex),
    ];
    for (text, error) in table {
        assert_eq!(Glob::new(text), Err(error), "{text:?}");
    }
    assert_eq!(Glob::new(&"a".repeat(1025)), Err(GlobError::TooLong));
    assert_eq!(GlobSet::compile(&["a".to_owned(), "/b".to_owned()]), Err((1, GlobError::LeadingSlash)));
}

#[test]
fn braces_are_bounded_before_they_grow() {
    let started = std::time::Instant::now();
    assert_eq!(Glob::new(&"{a,b}".repeat(200)), Err(GlobError::TooComplex));
    assert!(Glob::new(&"{a,b}".repeat(8)).is_ok());
    assert!(started.elapsed().as_secs() < 5);
}

#[test]
fn stars_do_not_make_matching_slow() {
    let glob = Glob::new(&"*a".repeat(400)).unwrap();
    let started = std::time::Instant::now();
    assert!(!glob.matches(&RepoPath::from(format!("{}b", "a".repeat(4000)).as_str())));
    assert!(started.elapsed().as_secs() < 10, "it took {:?}", started.elapsed());
}

#[test]
fn overlap_is_about_possible_paths() {
    let table: &[(&str, &str, Option<&str>)] = &[
        ("src/**", "src/*.rs", Some("src/.rs")),
        ("src/**", "docs/**", None),
        ("src", "src/**", None),
        ("src/a", "src/ab.rs", None),
        ("src/a/**", "src/ab/**", None),
        ("**", "x", Some("x")),
        ("*.rs", "*.md", None),
        ("*a", "a*", Some("a")),
        ("*", "a/*", None),
        ("**/*.rs", "src/parser/**", Some("src/parser/.rs")),
        ("**/test/**", "src/**", Some("src/test/a")),
        ("a/**/b", "a/*/c", None),
        ("a/**/b", "a/*", Some("a/b")),
        ("[a-m]*", "[n-z]*", None),
        ("[a-n]x", "[n-z]x", Some("nx")),
        ("{a,b}/c", "{b,d}/*", Some("b/c")),
        ("{a,b}/c", "{d,e}/*", None),
        ("A", "a", None),
        // Both could only be met by a path that no repository has.
        ("?", "[.]", None),
        (".*", "*.", Some(".a.")),
        (".g?t", ".[a-g]i?", None),
        (".g?[a-t]", ".[a-g]i?", Some(".gia")),
    ];
    for (a, b, path) in table {
        for (a, b) in [(a, b), (b, a)] {
            let found = match overlap(a, b) {
                Ok(found) => found.map(|path| path.to_string()),
                // A glob that can match nothing overlaps with nothing.
                Err(OverlapError::Glob(GlobError::MatchesNothing)) => None,
                Err(error) => panic!("{error}"),
            };
            if let Some(found) = &found {
                assert!(matches(a, found) && matches(b, found), "{a} {b}: {found}");
            }
            let same_length = |found: &String| path.is_some_and(|path| path.len() == found.len());
            assert!(found.as_deref() == *path || found.as_ref().is_some_and(same_length), "{a} {b}: {found:?}");
        }
    }
}

#[test]
fn comparing_is_bounded_and_says_so() {
    let many = (0..60).map(|nth| format!("**/{}*", ["a", "b"][nth % 2])).collect::<Vec<_>>().join("/");
    let other = (0..60).map(|nth| format!("**/*{}", ["a", "b"][nth % 2])).collect::<Vec<_>>().join("/");
    let started = std::time::Instant::now();
    let answer = overlap(&many, &other);
    assert!(matches!(answer, Ok(Some(_)) | Err(OverlapError::TooComplex(_))), "{answer:?}");
    assert!(started.elapsed().as_secs() < 30, "it took {:?}", started.elapsed());
    let contract = |owns: &str| {
        let contract = crate::model::plan::Contract { owns: vec![owns.to_owned()], shares: Vec::new() };
        crate::plan::CompiledContract::new(&contract).unwrap()
    };
    let tight = contract("**/a").overlaps(&contract("**/*a"), &mut Budget::new(3));
    assert_eq!(tight, Err(TooComplex));
}

/// One part of a path, of few letters so that globs and paths meet often.
fn part() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ab]",
        3 => Just("*".to_owned()),
        1 => Just("?".to_owned()),
        1 => Just("[ab]".to_owned()),
        1 => Just("[!a]".to_owned()),
        1 => Just("{a,b}".to_owned()),
        1 => Just("{a,}".to_owned()),
        1 => Just(".".to_owned()),
    ];
    proptest::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat())
}

fn glob() -> impl Strategy<Value = String> {
    let part = prop_oneof![3 => part(), 1 => Just("**".to_owned())];
    proptest::collection::vec(part, 1..4)
        .prop_map(|parts| parts.join("/"))
        .prop_filter("a glob of ours", |text| Glob::new(text).is_ok())
}

/// Every path of a few bytes over a few letters that a repository can have.
pub(super) static PATHS: LazyLock<Vec<String>> = LazyLock::new(|| paths(5));

fn paths(length: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut longest = all.clone();
    for _ in 0..length {
        longest = longest.iter().flat_map(|path| ["a", "b", "/", "."].map(|next| format!("{path}{next}"))).collect();
        all.extend(longest.iter().cloned());
    }
    all.retain(|path| path.split('/').all(|part| !matches!(part, "" | "." | "..")));
    all
}

fn oracle(glob: &str) -> globset::GlobMatcher {
    let built = GlobBuilder::new(glob).literal_separator(true).empty_alternates(true).build();
    built.unwrap_or_else(|error| panic!("{glob}: {error}")).compile_matcher()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn matching_agrees_with_globset(text in glob()) {
        let (ours, theirs) = (Glob::new(&text).unwrap(), oracle(&text));
        for path in PATHS.iter() {
            prop_assert_eq!(ours.matches(&RepoPath::from(path.as_str())), theirs.is_match(path), "{} {}", &text, &path);
        }
    }

    #[test]
    fn overlap_is_sound_and_complete(a in glob(), b in glob()) {
        let found = overlap(&a, &b).unwrap();
        if let Some(path) = &found {
            for text in [&a, &b] {
                prop_assert!(Glob::new(text).unwrap().matches(path), "{} {}", text, path);
                prop_assert!(oracle(text).is_match(path.as_path()), "globset: {} {}", text, path);
            }
            let possible = path.components().all(|part| !matches!(part, b"" | b"." | b".."));
            prop_assert!(possible, "{}", path);
        }
        let (first, second) = (oracle(&a), oracle(&b));
        let common = PATHS.iter().find(|path| first.is_match(path) && second.is_match(path));
        prop_assert!(common.is_none() || found.is_some(), "{} {} {:?}", a, b, common);
    }

    #[test]
    fn any_text_is_a_glob_or_is_refused(text in "[ab/*?{},!\\[\\]\\\\.^-]{0,24}", path in "[ab/.]{0,12}") {
        if let Ok(glob) = Glob::new(&text) {
            let path = RepoPath::from(path.as_str());
            prop_assert_eq!(glob.matches(&path), GlobSet::compile(&[text]).unwrap().matches(&path));
        }
    }
}

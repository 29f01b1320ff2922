//! What holds for the sources as a text: which way imports go, where dangerous things are done, and that nothing is
//! forgotten or left half done. These tests read the checkout, so the run by another user leaves them out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms, from the top down. A room may use those below it, and itself.
const ROOMS: [&str; 14] = [
    "main",
    "cli",
    "report",
    "run",
    "integrate",
    "verify",
    "agent",
    "change",
    "workspace",
    "board",
    "plan",
    "git",
    "store",
    "model",
];

/// Rooms in which time does not pass: what they do is computed, or done at once.
const WITHOUT_TIME: [&str; 7] = ["report", "integrate", "board", "plan", "git", "store", "model"];

/// Product files that may do what `clippy.toml` bans elsewhere, each the one place of its kind.
const DANGEROUS: [&str; 6] = [
    "sandbox/src/launch.rs",
    "src/git/command.rs",
    "src/git/pack.rs",
    "src/store/atomic.rs",
    "src/store/outside.rs",
    "src/workspace/private.rs",
];

/// Product files that may start a process: boxes, git, and the user's own commands outside every box.
const STARTS_PROCESSES: [&str; 3] = ["sandbox/src/launch.rs", "src/git/command.rs", "src/store/outside.rs"];

/// Product files that may touch the standard streams: the printer, what asks how wide a terminal is, and the half of a
/// capture that speaks over pipes.
const STREAMS: [&str; 3] = ["src/change/inside.rs", "src/cli/printer.rs", "src/cli/settings.rs"];

/// The checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file of the checkout that is not built or git's, with its path from the root.
pub(crate) fn files() -> BTreeMap<String, PathBuf> {
    fn walk(folder: &Path, found: &mut BTreeMap<String, PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            if path.symlink_metadata().unwrap().is_symlink() || name == ".git" || name == "target" {
                continue;
            }
            if path.is_dir() {
                walk(&path, found);
            } else {
                found.insert(name, path);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root(), &mut found);
    found
}

/// Every source file below these folders.
fn sources(folders: &[&str]) -> BTreeMap<String, String> {
    let rust = files().into_iter().filter(|(name, _)| Path::new(name).extension().is_some_and(|kind| kind == "rs"));
    let wanted = rust.filter(|(name, _)| folders.iter().any(|folder| name.starts_with(folder)));
    let read: BTreeMap<String, String> = wanted.map(|(name, path)| (name, fs::read_to_string(path).unwrap())).collect();
    assert!(!read.is_empty(), "no sources below {folders:?}");
    read
}

/// The product's sources: without comments, without what stands in quotes, without tests.
fn product() -> BTreeMap<String, String> {
    let all = sources(&["src/", "sandbox/src/"]).into_iter();
    all.filter(|(name, _)| !is_test_file(name)).map(|(name, text)| (name, without_tests(&code(&text)))).collect()
}

fn is_test_file(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or_default();
    name.contains("/tests/") || ["tests.rs", "testing.rs", "samples.rs"].contains(&file) || file.ends_with("_tests.rs")
}

/// The source with every comment and every literal blanked out, line by line as it was.
fn code(text: &str) -> String {
    let bytes: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let blank = |out: &mut String, part: &[char]| out.extend(part.iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = match rest {
            ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
            ['/', '*', ..] => block_comment(rest),
            ['"', ..] => quoted(rest, 1),
            ['r' | 'b' | 'c', ..] if !is_word(at.checked_sub(1).map(|before| bytes[before])) => prefixed(rest),
            ['\'', ..] => character(rest),
            _ => 0,
        };
        if length == 0 {
            out.push(bytes[at]);
            at += 1;
        } else {
            blank(&mut out, &rest[..length]);
            at += length;
        }
    }
    out
}

fn is_word(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// Whether the code has this word.
fn names(code: &str, word: &str) -> bool {
    code.split(|c: char| !is_word(Some(c))).any(|other| other == word)
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of a string that opens with its `open`th character.
fn quoted(rest: &[char], open: usize) -> usize {
    let mut at = open;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a literal with a prefix: `b"…"`, `r#"…"#`, `br"…"`, `b'x'`; 0 if it is none.
fn prefixed(rest: &[char]) -> usize {
    let letters = rest.iter().take_while(|c| ['b', 'r', 'c'].contains(c)).count();
    let hashes = rest[letters..].iter().take_while(|c| **c == '#').count();
    let raw = rest[..letters].contains(&'r');
    match rest.get(letters + hashes) {
        Some('"') if raw => {
            let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            let from = letters + hashes + 1;
            let end = rest[from..].windows(close.len()).position(|window| window == close);
            end.map_or(rest.len(), |end| from + end + close.len())
        }
        Some('"') if hashes == 0 && letters == 1 => quoted(rest, letters + 1),
        Some('\'') if hashes == 0 && letters == 1 => letters + character(&rest[letters..]),
        _ => 0,
    }
}

/// The length of a character literal; 0 if it is a lifetime.
fn character(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', _, tail @ ..] => 3 + tail.iter().position(|c| *c == '\'').map_or(0, |end| end + 1),
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}

/// Code without the items that are for tests only.
fn without_tests(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..at]);
        let item = &rest[at..];
        let open = item.find('{').unwrap_or(item.len());
        let end = match item.find(';') {
            Some(semicolon) if semicolon < open => semicolon + 1,
            _ => matching_brace(item, open),
        };
        rest = &item[end..];
    }
    out.push_str(rest);
    out
}

/// Where the block that opens at `open` ends.
fn matching_brace(text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < open) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// The room a file belongs to; `None` for the crate's root, which only names the rooms.
fn room_of(name: &str) -> Option<&str> {
    match name.strip_prefix("src/")?.split_once('/') {
        Some((room, _)) => Some(room),
        None if name == "src/main.rs" => Some("main"),
        None => None,
    }
}

/// The rooms that a piece of code names, by `crate::`, through groups, or by as many `super::` as lead to the root.
fn rooms_named(name: &str, code: &str) -> BTreeSet<String> {
    let text: String = code.split_whitespace().collect::<Vec<_>>().join(" ").replace(" ::", "::").replace(":: ", "::");
    let mut found = BTreeSet::new();
    for start in ["crate::", "worktree_sandbox::"] {
        for (at, _) in text.match_indices(start) {
            if !is_word(text[..at].chars().next_back()) && !text[..at].ends_with('$') {
                found.extend(heads(&text[at + start.len()..]));
            }
        }
    }
    let depth = name.trim_end_matches("/mod.rs").split('/').count() - 1;
    let to_the_root = "super::".repeat(depth);
    for (at, _) in text.match_indices(&to_the_root) {
        let named = heads(&text[at + to_the_root.len()..]);
        found.extend(named.into_iter().filter(|head| ROOMS.contains(&head.as_str())));
    }
    found
}

/// The first name of a path, or the first names of all paths in a group.
fn heads(path: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| is_word(Some(*c))).collect::<String>();
    let Some(group) = path.strip_prefix('{') else { return vec![word(path)] };
    let (mut depth, mut part, mut names) = (0, String::new(), Vec::new());
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => names.push(word(std::mem::take(&mut part).trim())),
            _ => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                part.push(c);
            }
        }
    }
    names.push(word(part.trim()));
    names.retain(|name| !name.is_empty());
    names
}

#[test]
fn the_reader_of_sources_sees_code_and_nothing_else() {
    let text = r##"
use crate::{model::{A, git::B}, store}; // crate::cli
/* crate::run /* nested */ crate::run */
let a = "crate::cli \" // "; let b = r#"crate::" cli"#; let c = '"'; let d: &'static str = b"crate::cli";
fn x() { crate::git::run(); super::super::plan::load(); $crate::report::no(); super::super::own(); }
#[cfg(test)]
mod tests { use crate::cli; fn y() { if true { } } }
#[cfg(test)]
mod more;
fn z() { crate :: board :: b() }
"##;
    let code = without_tests(&code(text));
    assert_eq!(code.lines().count(), text.lines().count() - 2, "{code}");
    let named: Vec<String> = rooms_named("src/agent/x.rs", &code).into_iter().collect();
    assert_eq!(named, ["board", "git", "model", "plan", "store"], "{code}");
    assert!(!code.contains("cli") && code.contains("'static"), "{code}");
}

#[test]
fn imports_go_down() {
    let place = |room: &str| ROOMS.iter().position(|other| *other == room);
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, text) in sources(&["src/"]) {
        let Some(room) = room_of(&name) else { continue };
        let own = place(room).unwrap_or_else(|| panic!("{name} lies in a room this test does not know"));
        seen.insert(room.to_owned());
        for used in rooms_named(&name, &code(&text)) {
            match place(&used) {
                Some(other) if other >= own => {}
                Some(_) => wrong.push(format!("{name} uses `{used}`, which is above `{room}`")),
                None => wrong.push(format!("{name} uses `crate::{used}`: name the room it comes from")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen.len() > 10, "only {seen:?} were found");
}

#[test]
fn the_map_of_the_house_has_every_room_in_its_place() {
    let map = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let rows = map.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let shown: Vec<&str> = rows.map(|(room, _)| room.trim_end_matches(".rs")).collect();
    let wanted: Vec<&str> = ROOMS.into_iter().chain(["sandbox/"]).collect();
    assert_eq!(shown, wanted, "the rooms of docs/architecture.md, from the top down");
}

#[test]
fn the_isolation_crate_knows_nothing_of_agents() {
    let manifest = fs::read_to_string(root().join("sandbox/Cargo.toml")).unwrap();
    assert!(!manifest.contains("worktree-sandbox"), "the isolation crate depends on nothing of the house");
    for (name, text) in sources(&["sandbox/src/"]) {
        assert!(!code(&text).contains("worktree_sandbox"), "{name}");
    }
}

#[test]
fn some_rooms_know_no_time() {
    for (name, code) in product() {
        if room_of(&name).is_some_and(|room| WITHOUT_TIME.contains(&room)) {
            assert!(!code.contains("tokio") && !code.contains("async fn"), "{name} waits: that is for the rooms above");
        }
    }
}

#[test]
fn dangerous_things_have_one_place() {
    let mut lifted = Vec::new();
    for (name, code) in product() {
        if code.contains("disallowed_methods") {
            lifted.push(name.clone());
        }
        let starts = code
            .match_indices("process::")
            .any(|(at, way)| heads(&code[at + way.len()..]).iter().any(|head| head == "Command"));
        assert!(!starts || STARTS_PROCESSES.contains(&name.as_str()), "{name} starts a process");
        for way in ["println!", "eprintln!", "print!", "eprint!", "dbg!"] {
            assert!(!code.contains(way), "{name} prints with `{way}`: only the printer does that");
        }
        for way in ["io::stdout()", "io::stderr()"] {
            assert!(!code.contains(way) || STREAMS.contains(&name.as_str()), "{name} takes hold of `{way}`");
        }
        let writes = ["fs::write(", "fs::rename(", "File::create(", "remove_dir_all(", "thread::sleep("];
        let written = writes.iter().find(|way| code.contains(**way));
        assert!(written.is_none() || DANGEROUS.contains(&name.as_str()), "{name} uses `{}`", written.unwrap());
    }
    assert_eq!(lifted, DANGEROUS, "the files for which the ban on dangerous calls is lifted");
}

#[test]
fn unsafe_code_stays_in_the_isolation_crate() {
    for (name, code) in product() {
        let is_unsafe = names(&code, "unsafe");
        assert!(!is_unsafe || name.starts_with("sandbox/src/"), "{name} is unsafe");
    }
    for name in ["src/lib.rs", "src/main.rs"] {
        let text = fs::read_to_string(root().join(name)).unwrap();
        assert!(text.contains("#![forbid(unsafe_code)]"), "{name}");
    }
}

#[test]
fn every_test_file_is_part_of_its_suite() {
    for suite in ["tests/it", "tests/bench", "sandbox/tests/real"] {
        let main = code(&fs::read_to_string(root().join(suite).join("main.rs")).unwrap());
        for entry in fs::read_dir(root().join(suite)).unwrap() {
            let path = entry.unwrap().path();
            let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let declared = main.lines().any(|line| line.trim_start_matches("pub ").trim() == format!("mod {module};"));
            assert!(module == "main" || declared, "`mod {module};` is missing in {suite}/main.rs");
        }
    }
}

#[test]
fn nothing_is_left_half_done() {
    let marks = [concat!("to", "do!"), concat!("unimpl", "emented!")];
    for (name, text) in sources(&["src/", "sandbox/", "tests/"]) {
        let code = code(&text);
        for mark in marks {
            assert!(!code.contains(mark), "{name} contains `{mark}`");
        }
    }
}

/// A test may be left out of the everyday run for one reason, and `make sweep` runs it.
#[test]
fn no_test_is_left_out_for_good() {
    let (mark, reason) = (concat!("#[ig", "nore"), concat!("#[ig", "nore = \"takes minutes\"]"));
    for (name, text) in sources(&["src/", "sandbox/", "tests/"]) {
        let (left_out, for_that_reason) = (code(&text).matches(mark).count(), text.matches(reason).count());
        assert_eq!(left_out, for_that_reason, "{name} leaves out a test");
    }
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    assert!(makefile.contains("\nsweep:") && makefile.contains("-- --ignored"), "`make sweep` runs what is left out");
}

/// Places of one machine, which mean nothing on another.
#[test]
fn one_file_has_the_names_of_our_variables() {
    let known = worktree_sandbox::store::env::ALL.iter().map(|variable| variable.name);
    let ours = known.filter(|name| name.starts_with("SANDBOX_")).chain(["SANDBOX_DIE_AT", "SANDBOX_DIE_LOG"]);
    let sources = sources(&["src/"]);
    for name in ours {
        let quoted = format!("\"{name}\"");
        let holders: Vec<&str> =
            sources.iter().filter(|(_, text)| text.contains(&quoted)).map(|(path, _)| path.as_str()).collect();
        assert_eq!(holders, ["src/store/env.rs"], "{name}");
    }
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    let places = [concat!("/wo", "rk"), concat!("/fa", "rm"), concat!("../sha", "red")];
    let mut found = Vec::new();
    for (name, path) in files() {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        for place in places {
            for (at, _) in text.match_indices(place) {
                // `./work` and `state/work` are names within something.
                let before = text[..at].chars().next_back();
                let within = is_word(before) || before.is_some_and(|c| ".}>)*-".contains(c));
                let goes_on = text[at + place.len()..].starts_with(|c: char| is_word(Some(c)) || c == '-');
                if !within && !goes_on {
                    found.push(format!("{name}: {place}"));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn scripts_can_be_started() {
    use std::os::unix::fs::PermissionsExt;
    let mut seen = 0;
    for (name, path) in files() {
        if name == ".ci/run" || name.starts_with("scripts/") {
            let text = fs::read_to_string(&path).unwrap();
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(text.starts_with("#!"), mode & 0o111 == 0o111, "{name}: a script has `#!` and can be executed");
            assert!(text.contains("set -euo pipefail") || !text.starts_with("#!"), "{name} goes on after an error");
            seen += 1;
        }
    }
    assert!(seen > 0, "no scripts were found");
}

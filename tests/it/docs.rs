//! The documents say what the code does: every table that is made from the code is compared with it, every example is
//! read by the code it is an example for, and every link leads somewhere. These tests read the checkout, so the run by
//! another user leaves them out.
//!
//! With `UPDATE_DOCS=1` the parts that are made from the code are written anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use worktree_sandbox::cli::{Cli, Exit};
use worktree_sandbox::model::event::{Event, EventKind};
use worktree_sandbox::model::{AgentName, RunId, TurnId};
use worktree_sandbox::store::{Occupant, RepoKey, StateDir, Workplaces, env};
use worktree_sandbox::{model, plan};

use crate::source_rules::{files, root};
use crate::world::World;

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every document, with its path from the root.
fn documents() -> Vec<(String, String)> {
    let found = files().into_iter().filter(|(name, _)| Path::new(name).extension().is_some_and(|kind| kind == "md"));
    let read: Vec<_> = found.map(|(name, path)| (name, fs::read_to_string(path).unwrap())).collect();
    assert!(read.len() > 10, "only {} documents were found", read.len());
    read
}

/// Compares the part of a document that is made from the code, or writes it anew where that is asked for.
fn compare(name: &str, part: &str, wanted: &str) {
    let text = read(name);
    let (open, close) = (format!("<!-- generated: {part} -->\n"), "<!-- end -->");
    let hint = "run `UPDATE_DOCS=1 cargo test --test it docs::`, and look at what changed";
    let from = text.find(&open).unwrap_or_else(|| panic!("{name} has no part `{open}`")) + open.len();
    let to = from + text[from..].find(close).unwrap_or_else(|| panic!("the part `{part}` of {name} does not end"));
    if text[from..to] == *wanted {
        return;
    }
    assert!(std::env::var_os("UPDATE_DOCS").is_some(), "the part `{part}` of {name} is not what the code says; {hint}");
    fs::write(root().join(name), format!("{}{wanted}{}", &text[..from], &text[to..])).unwrap();
}

/// The fenced blocks of a document that are in this language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let open = format!("\n```{language}\n");
    let parts = text.split(open.as_str()).skip(1);
    parts.map(|part| part.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

/// The section under a heading, up to the next one that is not below it.
fn section<'t>(text: &'t str, heading: &str) -> Option<&'t str> {
    let line = format!("\n{heading}\n");
    let from = text.find(&line)? + line.len();
    let level = heading.split(' ').next().unwrap_or_default().len();
    let ends = (1..=level).filter_map(|level| text[from..].find(&format!("\n{} ", "#".repeat(level)))).min();
    Some(&text[from..ends.map_or(text.len(), |end| from + end)])
}

#[test]
fn every_key_of_a_plan_is_documented() {
    compare("docs/plan.md", "plan::reference_table", &plan::reference_table());
    let protected = plan::PROTECTED.map(|glob| format!("`{glob}`")).join(", ");
    compare("docs/plan.md", "plan::PROTECTED", &format!("{protected}\n"));
}

#[test]
fn every_state_of_what_waits_to_be_merged_is_documented() {
    compare("docs/currency.md", "model::currency::table", &model::currency::table());
}

#[test]
fn every_plan_that_is_shown_is_one() {
    let mut seen = 0;
    for (name, text) in documents() {
        for block in blocks(&text, "toml") {
            let (_, findings) = plan::load("example.toml", &block)
                .unwrap_or_else(|findings| panic!("a plan in {name}:\n{}", findings.render(false)));
            assert!(findings.is_empty(), "a plan in {name}: {findings:?}");
            seen += 1;
        }
    }
    assert!(seen >= 2, "plan.md and README.md each show a plan");
}

#[test]
fn every_variable_is_documented() {
    compare("docs/environment.md", "store::env::table", &env::table());
}

#[test]
fn every_exit_code_is_documented() {
    let mut table = String::from("| code | meaning |\n|---|---|\n");
    for exit in Exit::ALL {
        writeln!(table, "| {} | {} |", exit.code(), exit.meaning()).unwrap();
    }
    compare("docs/exit-codes.md", "cli::exit", &table);
}

#[test]
fn every_event_is_documented() {
    let text = read("docs/events.md");
    let named: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    let known: BTreeSet<&str> = EventKind::NAMES.iter().copied().collect();
    assert_eq!(named, known, "the headings of docs/events.md are the types of events");
    for name in known {
        let section = section(&text, &format!("### `{name}`")).unwrap();
        let examples = blocks(section, "json");
        assert_eq!(examples.len(), 1, "`{name}` has one example");
        let example: serde_json::Value = serde_json::from_str(&examples[0]).unwrap();
        let event: Event =
            serde_json::from_value(example.clone()).unwrap_or_else(|error| panic!("the example of `{name}`: {error}"));
        assert_eq!(event.kind.name(), name, "the example of `{name}`");
        assert_eq!(
            serde_json::to_value(&event).unwrap(),
            example,
            "the example of `{name}` has every field, and no other"
        );
        for field in example["data"].as_object().unwrap().keys() {
            assert!(section.contains(&format!("| `{field}` |")), "`{name}` does not explain `{field}`");
        }
    }
}

#[test]
fn every_outcome_and_every_block_is_documented() {
    let text = read("docs/events.md");
    for outcome in model::AttemptOutcome::ALL {
        assert!(text.contains(&format!("| `{outcome}` |")), "the outcome `{outcome}` is missing in docs/events.md");
    }
}

#[test]
fn every_place_on_disk_is_documented() {
    let text = read("docs/state.md");
    let run: RunId = "login-3".parse().unwrap();
    let agent: AgentName = "api".parse().unwrap();
    let state = StateDir::in_common_dir(Path::new("/r/.git"));
    let folder = state.run(&run);
    let work = Workplaces::new(Path::new("/w"), &RepoKey::of_common_dir(Path::new("/r/.git")));
    let place = work.place(&run, &Occupant::agent(&agent));
    let places = [
        (state.format(), "FORMAT "),
        (state.lock(), "lock "),
        (state.next(), "next "),
        (state.incoming(), "incoming/"),
        (state.trash(), "trash/"),
        (state.receipt("abcd"), "receipts/<aa>/<key>.json"),
        (folder.lock(), "run.lock "),
        (folder.control_socket(), "control.sock "),
        (folder.control_key(), "control.key "),
        (folder.plan(), "plan.toml "),
        (folder.settings(), "settings.json "),
        (folder.host(), "host.json "),
        (folder.journal(), "journal.jsonl "),
        (folder.torn(1), "journal.torn-<n>"),
        (folder.status(), "status.json "),
        (folder.git_progress(), "git-progress/latest.json"),
        (folder.card(&"c1a2".parse().unwrap()), "cards/<card>.json"),
        (folder.patch(&agent, TurnId::new(1, 1)), "agents/<agent>/turns/<attempt>.<turn>.patch"),
        (folder.turn(&agent, TurnId::new(1, 1)), "agents/<agent>/turns/<attempt>.<turn>.json"),
        (folder.hook_output("12-landed"), "hooks/<seq>-<hook>.log"),
        (folder.output(&agent, TurnId::new(1, 1)), "agents/<agent>/output/<attempt>.<turn>.log"),
        (folder.verify_output(1), "verify/<n>.log"),
        (folder.resolver_output(&"c1a2".parse().unwrap()), "resolve/<card>.log"),
        (folder.resolver_network(), "resolve/network.jsonl"),
        (
            work.place(&run, &Occupant::Resolver("c1a2".parse().unwrap())).worktree().to_owned(),
            "<run>--resolve.<card>/",
        ),
        (place.worktree().to_owned(), "<run>--<agent>/"),
        (place.git(), "git/"),
        (place.capture(), "capture/"),
        (place.capture_home(), "capture-box/"),
        (place.home(), "home/"),
        (place.tmp(), "tmp/"),
        (work.private_root(), ".private/"),
        (work.trash(), ".trash/"),
    ];
    for (path, shown) in places {
        // What the document shows stands for the path that the code makes.
        let filled = [
            ("<aa>", "ab"),
            ("<key>", "abcd"),
            ("<n>", "1"),
            ("<seq>-<hook>", "12-landed"),
            ("<card>", "c1a2"),
            ("<agent>", "api"),
            ("<attempt>.<turn>", "1.1"),
            ("<run>", "login-3"),
        ];
        let filled = filled
            .iter()
            .fold(shown.trim_end_matches([' ', '/']).to_owned(), |all, (name, value)| all.replace(name, value));
        assert!(path.to_str().unwrap().contains(&format!("/{filled}")), "{} is not {shown}", path.display());
        assert!(text.contains(shown), "{shown} is missing in docs/state.md");
    }
}

#[test]
fn every_command_is_documented() {
    let mut seen = 0;
    let mut cli = Cli::command();
    cli.build();
    compare("docs/commands.md", "sandbox", &options_table(cli.get_arguments().filter(|arg| arg.is_global_set())));
    for verb in visible(&cli) {
        seen += 1;
        let nested: Vec<&Command> = visible(verb).collect();
        let path = format!("sandbox {}", verb.get_name());
        compare("docs/commands.md", &path, &described(verb, &path));
        for inner in nested {
            let path = format!("{path} {}", inner.get_name());
            compare("docs/commands.md", &path, &described(inner, &path));
        }
    }
    assert!(seen > 10, "only {seen} verbs were found");
    let known: BTreeSet<String> = visible(&cli).map(|verb| format!("## `sandbox {}`", verb.get_name())).collect();
    let text = read("docs/commands.md");
    let headed: BTreeSet<String> =
        text.lines().filter(|line| line.starts_with("## `sandbox ")).map(str::to_owned).collect();
    assert_eq!(headed, known, "the headings of docs/commands.md are the verbs");
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
}

/// A command as its help tells it.
fn described(command: &Command, path: &str) -> String {
    let mut out = format!("{}.\n", command.get_about().unwrap().to_string().trim_end_matches('.'));
    let own = || {
        command
            .get_arguments()
            .filter(|arg| !arg.is_global_set() && arg.get_id() != "help" && arg.get_id() != "version")
    };
    if command.get_subcommands().count() == 0 || own().count() > 0 {
        let usage = command.clone().bin_name(path).render_usage().to_string();
        writeln!(out, "\n```text\n{}\n```", usage.trim_start_matches("Usage: ")).unwrap();
    }
    let shared =
        command.get_arguments().filter(|arg| arg.is_global_set() && arg.get_help_heading() != Some("Everywhere"));
    let table = options_table(own().chain(shared));
    if table.lines().count() > 2 {
        write!(out, "\n{table}").unwrap();
    }
    if let Some(after) = command.get_after_help() {
        writeln!(out, "\n```text\n{}\n```", after.to_string().trim_end()).unwrap();
    }
    out
}

fn options_table<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let mut table = String::from("| option | meaning |\n|---|---|\n");
    for argument in arguments.filter(|argument| !argument.is_hide_set()) {
        let value = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
        let value = value.filter(|_| argument.get_action().takes_values());
        let long = argument.get_long().map(|long| format!("--{long}"));
        let short = argument.get_short().map(|short| format!("-{short}"));
        let mut shown = [short, long].into_iter().flatten().collect::<Vec<_>>().join(", ");
        match (&value, shown.is_empty()) {
            (Some(value), true) => shown = format!("<{value}>"),
            (Some(value), false) => write!(shown, " <{value}>").unwrap(),
            (None, _) => {}
        }
        let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|");
        let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if !defaults.is_empty() && argument.get_action().takes_values() {
            write!(help, " [default: {}]", defaults.join(", ")).unwrap();
        }
        let possible: Vec<String> =
            argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
        if !possible.is_empty() && argument.get_action().takes_values() {
            write!(help, ": {}", possible.join(", ")).unwrap();
        }
        writeln!(table, "| `{shown}` | {help} |").unwrap();
    }
    table
}

#[test]
fn every_link_leads_somewhere() {
    let mut seen = 0;
    for (name, text) in documents() {
        let folder = root().join(&name).parent().unwrap().to_owned();
        for part in text.split("](").skip(1) {
            let link = part.split(')').next().unwrap();
            if link.starts_with("http") || link.contains(char::is_whitespace) {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { root().join(&name) } else { folder.join(path) };
            assert!(target.exists(), "{name} links to {link}, which is not there");
            if !anchor.is_empty() {
                let there = fs::read_to_string(&target).unwrap();
                let anchors: Vec<String> = there.lines().filter(|line| line.starts_with('#')).map(anchor_of).collect();
                assert!(anchors.iter().any(|known| known == anchor), "{name} links to {link}: no such heading");
            }
            seen += 1;
        }
    }
    assert!(seen > 10, "only {seen} links were found");
}

/// Every row of `docs/attacks.md` names tests, and they are there.
#[test]
fn every_attack_is_made_by_a_test() {
    let text = read("docs/attacks.md");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #")).collect();
    assert!(rows.len() > 30, "only {} rows were found", rows.len());
    for row in rows {
        let tests: Vec<&str> = row.rsplit('|').nth(1).unwrap().split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test is named: {row}");
        for test in tests {
            let (module, name) = test.rsplit_once("::").unwrap();
            let file = match module.split_once("::") {
                Some(("real", file)) => format!("sandbox/tests/real/{file}.rs"),
                Some((room, file)) => format!("src/{room}/{file}.rs"),
                None => format!("tests/it/{module}.rs"),
            };
            let source = read(&file);
            assert!(source.contains(&format!("fn {name}()")), "`{test}` is not in {file}");
        }
    }
}

/// How a heading is linked to.
fn anchor_of(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    words.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
}

/// `make` and `scripts/` commands that documents name are there.
#[test]
fn what_documents_tell_to_run_is_there() {
    let makefile = read("Makefile");
    let mut seen = 0;
    for (name, text) in documents() {
        for line in
            text.split("\n```sh\n").skip(1).flat_map(|block| block.split("\n```").next().unwrap_or_default().lines())
        {
            let mut words = line.split_whitespace();
            match (words.next(), words.next()) {
                (Some("make"), Some(target)) => {
                    assert!(makefile.contains(&format!("\n{target}:")), "{name}: `{line}`: no such target");
                    seen += 1;
                }
                (Some(script), _) if script.starts_with("scripts/") => {
                    assert!(root().join(script).exists(), "{name}: `{line}`");
                }
                _ => {}
            }
        }
    }
    assert!(seen > 0, "the documents name no target of the Makefile");
}

/// Asks every query on a run that has a bit of everything, and compares the keys of the answer with the document.
#[test]
fn every_answer_in_json_is_documented() {
    const PLAN: &str = r#"
[run]
name = "p"
[verify]
command = ["true"]
[agents.one]
owns = ["src/**"]
run = ["sh", "-c", "echo 2 > src/a.txt; echo hello"]
[agents.two]
owns = ["docs/**"]
run = ["sh", "-c", "echo 2 > docs/x.txt; echo 3 > src/a.txt"]
"#;
    let world = World::new();
    fs::write(world.home().join("p.toml"), PLAN).unwrap();
    let events = world.sandbox(&["run", "../p.toml", "--json"]).expect(5);
    assert!(events.json_lines().iter().all(|line| line["type"].is_string() && line["seq"].is_u64()));
    let board = world.sandbox(&["board", "--json"]).expect(0).json();
    let card = board["data"]["lanes"][0]["cards"][0]["id"].as_str().unwrap().to_owned();
    let text = read("docs/json.md");
    let row = keys_of(&text, "### An agent's row");
    let asked = |arguments: &[&str], code: i32, heading: &str| {
        let answer = world.sandbox(&[arguments, &["--json"]].concat()).expect(code).json();
        let keys: BTreeSet<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, BTreeSet::from(["v", "command", "run", "data", "warnings"]), "{arguments:?}");
        let mut known = keys_of(&text, heading);
        if heading == "### `inspect AGENT`" {
            known.extend(row.clone());
        }
        explained(&answer["data"], &known, &format!("{arguments:?}"));
        answer
    };
    let status = asked(&["status"], 0, "### `status`");
    explained(&status["data"]["agents"][0], &row, "a row");
    for verb in ["merge", "verify", "land"] {
        asked(&[verb], 5, "### `merge`");
    }
    asked(&["inspect", "one"], 0, "### `inspect AGENT`");
    asked(&["inspect", "one", "--turn", "1.1"], 0, "### `inspect AGENT --turn A.T`");
    asked(&["inspect", "one", "--patch"], 0, "### `inspect AGENT --patch`");
    asked(&["inspect", "one", "--stat"], 0, "### `inspect AGENT --stat`");
    asked(&["inspect", "one", "--files"], 0, "### `inspect AGENT --files`");
    asked(&["inspect", "one", "--network"], 0, "### `inspect AGENT --network`");
    asked(&["inspect", "one", "--output"], 0, "### `logs AGENT`");
    asked(&["logs", "verify"], 0, "### `logs AGENT`");
    asked(&["board"], 0, "### `board list`");
    asked(&["board", "show", &card], 0, "### `board show CARD`");
    asked(&["runs"], 0, "### `runs`");
    asked(&["run", "../p.toml", "--dry-run"], 0, "### `run PLAN --dry-run`");
    asked(&["plan", "check", "../p.toml"], 0, "### `plan check PLAN`");
    asked(&["stop"], 0, "### `stop`");
    asked(&["stop", "one"], 0, "### `stop AGENT`");
    asked(&["clean", "--dry-run"], 0, "### `clean`");
    asked(&["doctor"], 0, "### `doctor`");
    asked(&["doctor", "--run"], 0, "### `doctor --run`");
    asked(&["init", "new.toml"], 0, "### `init FILE`");
    asked(&["completions", "bash"], 0, "### `completions SHELL`");
    asked(&["man"], 0, "### `man`");
}

/// The keys that the table under a heading explains, each with whether it may be absent.
fn keys_of(text: &str, heading: &str) -> BTreeMap<String, bool> {
    let section = section(text, heading).unwrap_or_else(|| panic!("docs/json.md has no `{heading}`"));
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let keys: BTreeMap<String, bool> =
        rows.map(|(key, rest)| (key.to_owned(), rest.contains("may be absent"))).collect();
    assert!(!keys.is_empty(), "`{heading}` explains nothing");
    keys
}

fn explained(data: &serde_json::Value, known: &BTreeMap<String, bool>, what: &str) {
    let found: BTreeSet<&str> = data.as_object().unwrap().keys().map(String::as_str).collect();
    for key in &found {
        assert!(known.contains_key(*key), "docs/json.md does not explain `{key}` of {what}");
    }
    for (key, may_be_absent) in known {
        assert!(*may_be_absent || found.contains(key.as_str()), "{what} has no `{key}`, as docs/json.md has it");
    }
}

/// A message or a document that names a command names one that there is, with options that it has.
#[test]
fn every_command_that_is_named_exists() {
    let mut cli = Cli::command();
    cli.build();
    let mut seen = 0;
    for (name, path) in files() {
        let is_text = Path::new(&name).extension().is_some_and(|kind| kind == "rs" || kind == "md");
        if !is_text || name.starts_with("sandbox/") || name.starts_with("tests/") {
            continue;
        }
        for (command, place) in commands_in(&fs::read_to_string(path).unwrap()) {
            check_named(&cli, &command, &format!("{name}:{place}"));
            seen += 1;
        }
    }
    assert!(seen > 50, "only {seen} commands were found");
}

/// What stands in backticks and begins with the program's name, and the lines of shell blocks that do; with the line.
fn commands_in(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let spans = line.split('`').skip(1).step_by(2).filter(|span| span.starts_with("sandbox "));
        found.extend(spans.map(|span| (span.to_owned(), at + 1)));
        if line.starts_with("sandbox ") {
            found.push((line.split(" # ").next().unwrap_or(line).to_owned(), at + 1));
        }
    }
    found
}

fn check_named(cli: &Command, command: &str, place: &str) {
    let command = command.split(['|', '>']).next().unwrap_or(command);
    let words = command.split(" -- ").next().unwrap_or(command).split_whitespace().skip(1);
    let (mut at, mut arguments_began) = (cli, false);
    for word in words {
        if let Some(option) = word.strip_prefix("--") {
            let option = option.split('=').next().unwrap_or(option);
            let known = at.get_arguments().any(|argument| argument.get_long() == Some(option)) || option == "help";
            assert!(known, "{place}: `{command}` has an option that there is not: --{option}");
        } else if let Some(inner) = at.find_subcommand(word) {
            at = inner;
        } else {
            let takes_one = at.get_positionals().next().is_some() || arguments_began;
            let placeholder = word.starts_with(['<', '{', '[', '-']);
            assert!(takes_one || placeholder || at.get_name() == "help", "{place}: `{command}`: what is `{word}`?");
            arguments_began = true;
        }
    }
}

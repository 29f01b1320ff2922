//! What people see. The texts are snapshots: a change to them is a change to look at.

use std::collections::BTreeSet;

use sandbox::{Host, Kernel, Layer};

use crate::model::RepoPath;
use crate::model::plan::Plan;
use crate::plan::{Code, Finding, check_against_machine, check_against_tree, depends_on_machine, load, unenforceable};

const MANY: &str = r#"[run]
name = "Login"
jbos = 4
jobs = "four"

[sandbox]
limits = { time = "0s", memory = "4kB" }

[workspace]
setup = "npm ci"

[agents."../x"]
owns = ["/src"]
run = ["true"]

[agents.docs]
owns = ["src/**"]
after = ["parser", "zeta"]
run = []

[agents.parser]
owns = ["src/*.rs"]
after = ["docs"]
prompt = "Do it"

[agents.parser]
owns = []
"#;

#[test]
fn many_findings_at_once() {
    let findings = load("dir/plan.toml", MANY).unwrap_err();
    assert_eq!(findings.to_string(), "dir/plan.toml has 14 errors");
    insta::assert_snapshot!(findings.render(false), @r##"
    dir/plan.toml:2:8: error: `run.name` cannot be used: `Login` is not a valid name: use lower-case letters, digits and single dashes between them, at most 32 characters
      |
    2 | name = "Login"
      |        ^^^^^^^
    dir/plan.toml:3:1: error: unknown key `run.jbos`
      |
    3 | jbos = 4
      | ^^^^
      |
      = help: did you mean `jobs`?
    dir/plan.toml:4:8: error: `run.jobs` must be a whole number, not a string
      |
    4 | jobs = "four"
      |        ^^^^^^
    dir/plan.toml:7:19: error: `sandbox.limits.time` must be longer than nothing
      |
    7 | limits = { time = "0s", memory = "4kB" }
      |                   ^^^^
      |
      = help: write a duration such as `"90s"`, `"30m"` or `"1h 30m"`
    dir/plan.toml:7:34: error: `sandbox.limits.memory` must be at least `1MiB`
      |
    7 | limits = { time = "0s", memory = "4kB" }
      |                                  ^^^^^
    dir/plan.toml:10:9: error: `workspace.setup` must be a list: the program and its arguments, not a string
       |
    10 | setup = "npm ci"
       |         ^^^^^^^^
       |
       = help: write `["npm", "ci"]`
    dir/plan.toml:12:9: error: `../x` is not a valid name: use lower-case letters, digits and single dashes between them, at most 32 characters
       |
    12 | [agents."../x"]
       |         ^^^^^^
    dir/plan.toml:13:9: error: `agents."../x".owns` has `/src`, which is not a glob: it begins with `/`: globs start at the repository's root, so leave the slash out
       |
    13 | owns = ["/src"]
       |         ^^^^^^
    dir/plan.toml:18:10: error: these agents wait for each other: `docs` after `parser` after `docs`
       |
    18 | after = ["parser", "zeta"]
       |          ^^^^^^^^
    dir/plan.toml:18:20: error: `docs` comes after `zeta`, which is no agent of this plan
       |
    18 | after = ["parser", "zeta"]
       |                    ^^^^^^
       |
       = help: the agents are `../x`, `parser`
    dir/plan.toml:19:7: error: `agents.docs.run` is an empty list: name at least the program
       |
    19 | run = []
       |       ^^
    dir/plan.toml:22:9: error: `docs` and `parser` may both change `src/.rs`: `src/*.rs` overlaps with `src/**` on line 17
       |
    22 | owns = ["src/*.rs"]
       |         ^^^^^^^^^^
       |
       = help: make the globs disjoint, or list the common paths under `shares` of both
    dir/plan.toml:24:1: error: `agents.parser.prompt` is not supported by this version
       |
    24 | prompt = "Do it"
       | ^^^^^^
    dir/plan.toml:26:9: error: the table `parser` is there already
       |
    26 | [agents.parser]
       |         ^^^^^^
    dir/plan.toml: warning: there is no verifier, so the result will be `unverified` and cannot land
      = help: add `[verify]` with a `command`
    "##);
}

#[test]
fn a_text_that_is_no_toml_is_one_finding() {
    let findings = load("plan.toml", "[run]\nname = \"a\njobs = \n[agents.a\nowns = 1 2\n").unwrap_err();
    insta::assert_snapshot!(findings.render(false), @r##"
    plan.toml:2:10: error: not valid TOML: invalid basic string, expected `"`
      |
    2 | name = "a
      |          ^
    "##);
}

#[test]
fn what_has_no_place_has_no_line() {
    let findings = load("My Plan.toml", "").unwrap_err();
    insta::assert_snapshot!(findings.render(false), @r##"
    My Plan.toml: error: the plan has no name, and its file's cannot be used: `My Plan` is not a valid name: use lower-case letters, digits and single dashes between them, at most 32 characters
      = help: write `name = "…"` in `[run]`
    My Plan.toml: error: the plan has no agents
      = help: add a table `[agents.NAME]` with `owns` and `run`
    My Plan.toml: warning: there is no verifier, so the result will be `unverified` and cannot land
      = help: add `[verify]` with a `command`
    "##);
}

#[test]
fn json_has_places_and_stable_codes() {
    let findings = load("p.toml", "agents.a.owns = ['é', '/x']\nagents.a.run = ['x']\n").unwrap_err();
    let json = serde_json::to_value(&findings).unwrap();
    let expected = serde_json::json!({
        "file": "p.toml",
        "findings": [
            {
                "severity": "error",
                "code": "bad-glob",
                "message": "`agents.a.owns` has `/x`, which is not a glob: it begins with `/`: globs start at the repository's root, so leave the slash out",
                "span": { "start": 23, "end": 27 },
                "line": 1,
                "column": 23,
                "help": null,
            },
            {
                "severity": "warning",
                "code": "no-verifier",
                "message": "there is no verifier, so the result will be `unverified` and cannot land",
                "span": null,
                "line": null,
                "column": null,
                "help": "add `[verify]` with a `command`",
            },
        ],
    });
    assert_eq!(json, expected);
}

#[test]
fn colour_is_never_the_only_sign() {
    let findings = load("p.toml", "[agents.a]\nowns = ['/x']\nrun = ['x']\n").unwrap_err();
    let (plain, colored) = (findings.render(false), findings.render(true));
    assert!(!plain.contains('\u{1b}') && plain.contains(": error: ") && plain.contains("^^^^"));
    assert!(colored.contains("\u{1b}["));
}

#[test]
fn a_plan_cannot_write_to_the_terminal() {
    let text = "[agents.\"\\u001b[31m\\u202e\"]\nowns = ['\u{202e}/**/**x']\nrun = ['x']\n\"\\u001b]0;x\\u0007\" = 1\n";
    let rendered = load("p\u{1b}.toml", text).unwrap_err().render(false);
    let shown: Vec<_> = rendered.lines().filter(|line| line.contains(": error: ")).collect();
    assert_eq!(shown.len(), 4, "{rendered}");
    assert!(!shown.concat().contains(['\u{1b}', '\u{7}', '\u{202e}']), "{rendered:?}");
    assert!(!rendered.contains(['\u{1b}', '\u{7}']), "{rendered:?}");
}

const HEAD: &str = "verify.command = ['true']\n";

/// Plans with one thing wrong: the finding's code, its place, and a part of its message.
const ONE_EACH: &[(&str, Code, (usize, usize), &str)] = &[
    ("[run]\nname = \n", Code::Syntax, (3, 8), "not valid TOML"),
    ("[agents.a]\nowns = ['a']\nowns = ['b']\nrun = ['x']", Code::DuplicateKey, (4, 1), "`owns` is there already"),
    ("[agents.a]\nowns = ['a']\nrun = ['x']\n[agents.a]\nowns = ['b']", Code::DuplicateKey, (5, 9), "the table `a`"),
    ("[agnts.a]\n[agents.a]\nowns = ['a']\nrun = ['x']", Code::UnknownKey, (2, 2), "unknown key `agnts`"),
    (
        "[agents.a]\nowns = ['a']\nrun = ['x']\nprompt = 'x'",
        Code::NotSupported,
        (5, 1),
        "not supported by this version",
    ),
    ("[agents.a]\nowns = 'a'\nrun = ['x']", Code::WrongType, (3, 8), "must be a list of strings, not a string"),
    ("[[agents]]\nowns = ['a']", Code::WrongType, (2, 3), "`agents` must be a table"),
    ("agents.a = 1", Code::WrongType, (2, 8), "`agents.a` must be a table"),
    (
        "agents.a.owns = ['a', 3]\nagents.a.run = ['x']",
        Code::WrongType,
        (2, 23),
        "must be a string, not a whole number",
    ),
    ("run.land = 'atuo'\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadValue, (2, 12), "cannot be `atuo`"),
    ("run.jobs = -1\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadValue, (2, 12), "from 0 to 1024"),
    ("agents.a = { owns = ['a'], run = ['x'], attempts = 0 }", Code::BadValue, (2, 52), "from 1 to 100"),
    ("agents.a = { owns = ['a'], run = ['x'], use = 'comand' }", Code::BadValue, (2, 47), "cannot be `comand`"),
    ("agents.a = { owns = ['a'], run = ['x'], title = \"a\\nb\" }", Code::BadValue, (2, 49), "one line"),
    ("[agents.'../x']\nowns = ['a']\nrun = ['x']", Code::BadName, (2, 9), "`../x` is not a valid name"),
    ("[agents.'']\nowns = ['a']\nrun = ['x']", Code::BadName, (2, 9), "is not a valid name"),
    ("[agents.'a b']\nowns = ['a']\nrun = ['x']", Code::BadName, (2, 9), "is not a valid name"),
    ("[agents.-a]\nowns = ['a']\nrun = ['x']", Code::BadName, (2, 9), "is not a valid name"),
    ("run.name = ''\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadName, (2, 12), "`run.name` cannot be used"),
    ("[agents.base]\nowns = ['a']\nrun = ['x']", Code::ReservedName, (2, 9), "`base` is a reserved name"),
    ("[agents]", Code::NoAgents, (0, 0), "no agents"),
    ("[agents.a]\nrun = ['x']", Code::MissingOwns, (2, 9), "does not say what it `owns`"),
    ("[agents.a]\nowns = []\nrun = ['x']", Code::MissingOwns, (2, 9), "may change nothing"),
    ("[agents.a]\nowns = ['a']", Code::MissingCommand, (2, 9), "nothing to run"),
    ("[agents.a]\nowns = ['a']\nrun = ['x']\nturns = [['y']]", Code::RunAndTurns, (5, 9), "both `run` and `turns`"),
    ("[agents.a]\nowns = ['a']\nrun = []", Code::EmptyCommand, (4, 7), "empty list"),
    ("[agents.a]\nowns = ['a']\nrun = ['']", Code::EmptyCommand, (4, 7), "empty text"),
    ("[agents.a]\nowns = ['a']\nturns = []", Code::EmptyCommand, (4, 9), "empty list"),
    ("[agents.a]\nowns = ['a']\nturns = [['x'], []]", Code::EmptyCommand, (4, 17), "empty list"),
    ("[agents.a]\nowns = ['a', '../b']\nrun = ['x']", Code::BadGlob, (3, 14), "`../b`, which is not a glob"),
    ("run.timeout = '1x'\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadDuration, (2, 15), "not a duration"),
    ("sandbox.limits.output = '1x'\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadSize, (2, 25), "not a size"),
    ("run.target = 'a..b'\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadBranch, (2, 14), "cannot be `a..b`"),
    ("sandbox.env = ['1A']\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadVariable, (2, 16), "`1A`"),
    ("verify.env = ['HOME']\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadVariable, (2, 15), "sets itself"),
    ("workspace.seed = ['a/../../x']\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadPath, (2, 19), "leads out"),
    ("workspace.seed = ['/etc']\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadPath, (2, 19), "not a path from"),
    (
        "sandbox.network.allow = ['a.example']\nagents.a = { owns = ['a'], run = ['x'] }",
        Code::BadEndpoint,
        (2, 26),
        "`a.example`, which has no port",
    ),
    (
        "sandbox.network.inject.b = { header = 'x' }\nagents.a = { owns = ['a'], run = ['x'] }",
        Code::BadInjection,
        (2, 24),
        "the secret for `b` has no `env`",
    ),
    ("sandbox.expose = ['x']\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadPath, (2, 19), "begins neither"),
    ("sandbox.expose_rw = ['x']\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadPath, (2, 22), "begins neither"),
    ("sandbox.hide = ['/']\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadPath, (2, 17), "hide everything"),
    ("sandbox.nested = 'x'\nagents.a = { owns = ['a'], run = ['x'] }", Code::WrongType, (2, 18), "not a string"),
    ("sandbox.expose = ['/']\nagents.a = { owns = ['a'], run = ['x'] }", Code::BadPath, (2, 19), "show everything"),
    ("agents.a = { owns = ['a'], run = ['x'], after = ['b'] }", Code::UnknownAgent, (2, 50), "which is no agent"),
    ("agents.a = { owns = ['a'], run = ['x'], after = ['a'] }", Code::AfterItself, (2, 50), "after itself"),
    (
        "agents.a = { owns = ['a'], run = ['x'], after = ['b', 'b'] }\nagents.b = { owns = ['b'], run = ['x'] }",
        Code::DuplicateAfter,
        (2, 55),
        "twice",
    ),
    (
        "agents.a = { owns = ['a'], run = ['x'], after = ['c'] }\nagents.b = { owns = ['b'], run = ['x'], after = ['a'] }\nagents.c = { owns = ['c'], run = ['x'], after = ['b'] }",
        Code::Cycle,
        (2, 50),
        "`a` after `c` after `b` after `a`",
    ),
    (
        "agents.a = { owns = ['src/'], run = ['x'] }\nagents.b = { owns = ['b'], shares = ['src/x'], run = ['x'] }",
        Code::Overlap,
        (3, 38),
        "`a` and `b` may both change `src/x`: `src/x` overlaps with `src/` on line 2",
    ),
];

fn found_in(text: &str) -> Vec<Finding> {
    load("plan.toml", text).map_or_else(|refused| refused.findings, |(_, warnings)| warnings)
}

#[test]
fn each_kind_of_error_is_told_alone_and_at_its_place() {
    for (text, code, (line, column), part) in ONE_EACH {
        let findings = found_in(&format!("{HEAD}{text}\n"));
        let [finding] = findings.as_slice() else { panic!("{text}\n{findings:#?}") };
        assert_eq!(finding.code, *code, "{text}\n{finding:?}");
        assert_eq!((finding.line.unwrap_or(0), finding.column.unwrap_or(0)), (*line, *column), "{text}\n{finding:?}");
        assert!(finding.message.contains(part), "{text}\n{finding:?}");
    }
}

#[test]
fn a_name_of_three_hundred_letters_is_refused_in_one_line() {
    let findings = found_in(&format!("{HEAD}[agents.{}]\nowns = ['a']\nrun = ['x']\n", "x".repeat(300)));
    let [finding] = findings.as_slice() else { panic!("{findings:#?}") };
    assert_eq!((finding.code, finding.line, finding.column), (Code::BadName, Some(2), Some(9)));
    assert!(finding.message.len() < 200, "{}", finding.message);
}

#[test]
fn every_code_is_found_somewhere() {
    let mut met: BTreeSet<Code> = ONE_EACH.iter().map(|(_, code, _, _)| *code).collect();
    let alone = "[agents.a]\nowns = ['none']\nrun = ['x']\nworkdir = 'none'\n";
    met.extend(found_in(alone).iter().map(|finding| finding.code));
    let (plan, _) = load("plan.toml", alone).unwrap();
    met.extend(check_against_tree(&plan, [RepoPath::from("x")]).unwrap().iter().map(|finding| finding.code));
    met.extend(check_against_machine(&bounded(), &bare_machine()).iter().map(|finding| finding.code));
    met.extend(found_in(&"#".repeat((1 << 20) + 1)).iter().map(|finding| finding.code));
    met.extend(found_in(&hard_to_compare()).iter().map(|finding| finding.code));
    let missing: Vec<_> = Code::ALL.iter().filter(|code| !met.contains(code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A plan with every limit there is.
fn bounded() -> Plan {
    let limits = "{ memory = '1GiB', processes = 9, disk = '1GiB', file_size = '1GiB', cpu_weight = 50 }";
    let text =
        format!("[sandbox]\nlimits = {limits}\n[verify]\ncommand = ['x']\n[agents.a]\nowns = ['**']\nrun = ['x']\n");
    load("plan.toml", &text).unwrap().0
}

/// One where root has nothing to bound processes with.
fn bare_machine() -> Host {
    Host {
        uid: 0,
        gid: 0,
        kernel: Kernel { major: 5, minor: 15 },
        landlock: None,
        seccomp: true,
        obstacle: None,
        control_groups: None,
        kill_group: None,
        metadata: true,
        process_numbers: false,
    }
}

#[test]
fn what_a_machine_cannot_enforce_is_told_for_each_box() {
    let mut plan = bounded();
    let told: Vec<String> =
        check_against_machine(&plan, &bare_machine()).into_iter().map(|finding| finding.message).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("agent `a` has a limit that cannot be enforced here"), "{told:?}");
    assert!(told[1].starts_with("the verifier has a limit"), "{told:?}");
    plan.agents[0].sandbox.limits.cpu_weight = None;
    let of_user = Host { uid: 7, ..bare_machine() };
    assert_eq!(unenforceable(&plan, &of_user).len(), 1, "the verifier's share alone");
    assert!(depends_on_machine(&plan));
    plan.verify.as_mut().unwrap().sandbox.allow_degraded.insert(Layer::Limits);
    assert_eq!(unenforceable(&plan, &of_user), []);
}

/// Contracts whose comparison is refused: which of the shared globs are alive takes one of very many sets.
fn hard_to_compare() -> String {
    let shares = |letter: char| format!("['*{letter}{}']", "[ab]".repeat(24));
    format!(
        "agents.a = {{ owns = ['*'], shares = {}, run = ['x'] }}\nagents.b = {{ owns = ['*[ab]'], shares = {}, run = ['x'] }}\n",
        shares('a'),
        shares('b'),
    )
}

#[test]
fn hints_name_what_was_probably_meant() {
    for (text, help) in [
        ("[run]\ntimout = '1h'", "did you mean `timeout`?"),
        ("[agents.a]\nown = ['a']", "did you mean `owns`?"),
        (
            "[sandbox]\nxyzzy = 1",
            "known here are `network`, `expose`, `expose_rw`, `hide`, `env`, `nested`, `limits`, `allow_degraded`",
        ),
        ("[run]\nland = 'nevr'", "did you mean `\"never\"`? It may be `\"never\"`, `\"manual\"`, `\"auto\"`"),
        ("[workspace]\nsetup = 'a \"b c\"'", "write `[\"a\", \"b c\"]`"),
        ("[agents.parser]\n[agents.docs]\nafter = ['praser']", "did you mean `parser`?"),
        ("[sandbox]\nenv = ['A=1']", "write the name only; its value is passed in"),
    ] {
        let findings = found_in(text);
        assert!(findings.iter().any(|finding| finding.help.as_deref() == Some(help)), "{text}\n{findings:#?}");
    }
}

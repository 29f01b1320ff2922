use jiff::SignedDuration;
use proptest::prelude::*;

use crate::model::plan::{LandMode, Limits, Network, SandboxSettings};
use crate::plan::{Code, Single, load, render};

const FULL: &str = r#"
[run]
name = "login"
target = "main"
jobs = 4
land = "manual"
timeout = "2h"

[sandbox]
network = "host"
expose = ["~/.cargo/registry"]
env = ["ANTHROPIC_API_KEY"]
limits = { time = "1h 30m", output = "1MiB" }

[workspace]
seed = [".env", "node_modules/"]
setup = ["npm", "ci"]

[verify]
command = ["cargo", "test"]
timeout = "20m"

[agents.zebra]
title = "Stripes"
owns = ["src/zebra/**", "tests/zebra.rs"]
shares = ["Cargo.lock"]
after = ["ant"]
attempts = 2
turns = [["a"], ["b", "c d"]]

[agents.zebra.sandbox]
network = "none"
limits = { idle = "5m", output = 1000 }

[agents.ant]
owns = ["docs/"]
shares = ["Cargo.lock"]
run = ["sh", "-c", "make docs"]
sandbox.env = []
"#;

#[test]
fn a_whole_plan() {
    let (plan, warnings) = load("x.toml", FULL).unwrap();
    assert_eq!(warnings, []);
    assert_eq!((plan.name.as_str(), plan.target.as_deref(), plan.jobs), ("login", Some("main"), 4));
    assert_eq!((plan.land, plan.timeout), (LandMode::Manual, Some(SignedDuration::from_hours(2))));
    assert_eq!(plan.workspace.seed, [".env", "node_modules"]);
    assert_eq!(plan.workspace.setup.as_deref(), Some(&["npm".to_owned(), "ci".to_owned()][..]));
    // The order of the file, not of the alphabet.
    let names: Vec<_> = plan.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["zebra", "ant"]);

    let zebra = &plan.agents[0];
    assert_eq!((zebra.title.as_deref(), zebra.attempts), (Some("Stripes"), 2));
    assert_eq!(zebra.after[0].as_str(), "ant");
    assert_eq!(zebra.turns, [vec!["a"], vec!["b", "c d"]]);
    // Key by key: what the agent says, else what `[sandbox]` says, else the default.
    let limits = Limits {
        time: SignedDuration::from_mins(90),
        idle: SignedDuration::from_mins(5),
        output: 1000,
        ..Limits::default()
    };
    assert_eq!(zebra.sandbox.limits, limits);
    assert_eq!((zebra.sandbox.network.clone(), zebra.sandbox.env.len()), (Network::None, 1));

    let ant = &plan.agents[1];
    assert_eq!(ant.turns, [["sh", "-c", "make docs"]]);
    assert_eq!(ant.sandbox.limits.idle, Limits::default().idle);
    assert_eq!((ant.sandbox.network.clone(), ant.sandbox.env.len()), (Network::Host, 0));
    assert_eq!(ant.sandbox.expose, ["~/.cargo/registry"]);

    // The verifier has what `[sandbox]` shows and bounds, but not its network and variables.
    let verify = plan.verify.unwrap();
    assert_eq!(verify.timeout, SignedDuration::from_mins(20));
    assert_eq!((verify.sandbox.network, verify.sandbox.env.len()), (Network::None, 0));
    assert_eq!(verify.sandbox.expose, ["~/.cargo/registry"]);
    assert_eq!(verify.sandbox.limits.output, 1 << 20);
    assert_eq!(verify.sandbox.limits.time, verify.timeout);
}

#[test]
fn a_small_plan_gets_defaults_and_one_warning() {
    let (plan, warnings) = load("plans/log-in.toml", "[agents.a]\nowns = ['**']\nrun = ['true']\n").unwrap();
    assert_eq!((plan.name.as_str(), plan.target, plan.jobs, plan.land), ("log-in", None, 0, LandMode::Manual));
    assert_eq!(plan.agents[0].sandbox, SandboxSettings::default());
    assert_eq!(plan.agents[0].attempts, 1);
    let codes: Vec<_> = warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, [Code::NoVerifier]);
}

#[test]
fn durations_and_sizes() {
    let with = |key: &str, value: &str| {
        load("p.toml", &format!("[sandbox.limits]\n{key} = {value}\n[agents.a]\nowns = ['**']\nrun = ['x']\n"))
            .map(|(plan, _)| plan.agents[0].sandbox.limits)
            .map_err(|found| found.findings[0].code)
    };
    for (text, seconds) in [("'30m'", 1800), ("'1h 30m'", 5400), ("'90s'", 90), ("'1h30m5s'", 5405)] {
        assert_eq!(with("time", text).unwrap().time, SignedDuration::from_secs(seconds), "{text}");
    }
    for bad in ["'0s'", "'-5m'", "'5m ago'", "''", "'5'", "'9000h'", "'five minutes'", "'99999999999999999999h'"] {
        assert_eq!(with("time", bad), Err(Code::BadDuration), "{bad}");
    }
    assert_eq!(with("time", "30"), Err(Code::WrongType));
    for (text, bytes) in [("'64MiB'", 64 << 20), ("'5 GiB'", 5 << 30), ("4096", 4096), ("'7'", 7), ("'2kB'", 2000)] {
        assert_eq!(with("output", text).unwrap().output, bytes, "{text}");
    }
    for bad in ["0", "-1", "'0MiB'", "'64 mib'", "'MiB'", "''", "'1.5GiB'", "'99999999999TiB'", "'-1'"] {
        assert_eq!(with("output", bad), Err(Code::BadSize), "{bad}");
    }
    assert_eq!(with("output", "true"), Err(Code::WrongType));
}

#[test]
fn one_agent_without_a_file() {
    let plan = Single::new("fix", vec!["make".to_owned()]).into_plan().unwrap();
    assert_eq!((plan.name.as_str(), plan.agents[0].name.as_str()), ("fix", "fix"));
    assert_eq!(plan.agents[0].contract.owns, ["**"]);
    assert_eq!(plan.agents[0].turns, [["make"]]);

    let mut single = Single::new("../x", Vec::new());
    single.owns = vec!["src/**".to_owned(), "/y".to_owned()];
    single.attempts = 0;
    single.target = Some("-f".to_owned());
    let findings = single.into_plan().unwrap_err();
    let codes: Vec<_> = findings.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::BadName, Code::BadGlob, Code::EmptyCommand, Code::BadBranch, Code::BadValue]);
    assert!(findings.render(false).contains("error: what it owns has `/y`, which is not a glob"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// A plan with a piece torn out and another put in is accepted or refused, with places that lie in it.
    #[test]
    fn no_text_makes_it_fail(cut in 0..FULL.len(), length in 0..40_usize, put in "[\\PC\n\r\t\u{0}\\[\\]='\"{}]{0,12}") {
        let (head, rest) = FULL.split_at(cut);
        let text = format!("{head}{put}{}", rest.get(length..).unwrap_or_default());
        match load("plan.toml", &text) {
            Ok((_, warnings)) => prop_assert!(warnings.len() <= 1),
            Err(found) => {
                prop_assert!(found.has_errors());
                for finding in &found.findings {
                    if let Some(span) = &finding.span {
                        prop_assert!(text.get(span.clone()).is_some());
                        prop_assert!(finding.line.is_some_and(|line| line <= text.matches('\n').count() + 1));
                    }
                }
                prop_assert!(!found.render(true).is_empty());
                let plain = render("x", &text, &found.findings, false);
                prop_assert!(!plain.contains('\u{1b}'), "an escape in plain text: {:?}", plain);
            }
        }
    }
}

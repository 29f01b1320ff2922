//! Every documented key has its effect, or is refused.

use crate::plan::{Code, Key, load, reference, reference_table};

const BASE: [(&str, &str); 4] = [
    ("agents.one.owns", "['one/**']"),
    ("agents.one.run", "['true']"),
    ("agents.two.owns", "['two/**']"),
    ("verify.command", "['true']"),
];

/// A value of the key that is not what holds without it.
fn other_value(key: &Key) -> &'static str {
    match key.path.strip_prefix("agents.*.").unwrap_or(key.path) {
        "run.name" => "'other'",
        "run.target" => "'release/1'",
        "run.jobs" | "attempts" => "3",
        "run.land" => "'auto'",
        "run.history" => "'squash'",
        "run.message" => "'{title} ({agent} of {run})'",
        "run.timeout" | "verify.timeout" => "'1h 30m'",
        "sandbox.network" => "'host'",
        "verify.network" => "{ deny = ['b.example:1'], inject = { 'a.example' = { header = 'x', env = 'K' } } }",
        "sandbox.network.allow" | "sandbox.network.deny" => "['a.example:443', '*.b.example:*', '[::1]:80']",
        "sandbox.network.inject.*.header" => "'x-other'",
        "sandbox.network.inject.*.env" | "sandbox.network.inject.*.base_url" => "'OTHER'",
        "sandbox.network.inject.*.prefix" => "'Bearer '",
        "sandbox.expose" => "['~/.cargo/registry', '/opt/x']",
        "sandbox.expose_rw" => "['~/.cache/build', '/opt/x']",
        "sandbox.hide" => "['/srv/sockets']",
        "sandbox.nested" => "true",
        "sandbox.env" | "verify.env" => "['API_KEY']",
        "hooks.timeout" | "sandbox.limits.time" | "sandbox.limits.idle" => "'7m'",
        "sandbox.limits.output" | "sandbox.limits.memory" | "sandbox.limits.disk" | "sandbox.limits.file_size" => {
            "'5GiB'"
        }
        "sandbox.limits.processes" | "sandbox.limits.cpu_weight" => "512",
        "sandbox.allow_degraded" => "['seccomp']",
        "workspace.seed" => "['.env', 'node_modules/']",
        "workspace.setup" | "verify.command" | "run" | "verify" => "['make', 'x']",
        "turns" => "[['a'], ['b', 'c']]",
        "verify.protect" | "owns" | "shares" => "['three/**']",
        "verify.cache" => "['target']",
        hook if hook.starts_with("hooks.") => "['notify', 'x']",
        "title" => "'The first'",
        "after" => "['two']",
        "use" => "'command'",
        "prompt" | "prompt_file" | "workdir" => "'x'",
        unknown => panic!("say here what `{unknown}` may be"),
    }
}

fn plan_with(path: &str, value: &str) -> String {
    let mut text = String::new();
    for (key, base) in BASE {
        if key != path {
            text.push_str(&[key, " = ", base, "\n"].concat());
        }
    }
    text += if path == "agents.two.run" { "" } else { "agents.two.run = ['true']\n" };
    if path == "agents.one.turns" {
        text = text.replace("agents.one.run = ['true']\n", "");
    }
    // What an injection cannot be without.
    let injection = "sandbox.network.inject.one.";
    if path.starts_with(injection) {
        for (key, base) in [("header", "'x-key'"), ("env", "'KEY'")] {
            if path.strip_prefix(injection) != Some(key) {
                text.push_str(&[injection, key, " = ", base, "\n"].concat());
            }
        }
    }
    text + &format!("{path} = {value}\n")
}

#[test]
fn every_key_has_its_effect_or_is_refused() {
    let (alone, warnings) = load("plan.toml", &plan_with("agents.one.attempts", "1")).unwrap();
    assert_eq!(warnings, []);
    let injecting = plan_with("sandbox.network.inject.one.prefix", "''");
    let injecting = load("plan.toml", &injecting).unwrap().0;
    for key in reference() {
        let path = key.path.replace('*', "one");
        let base = if path.contains(".inject.") { injecting.clone() } else { alone.clone() };
        let text = plan_with(&path, other_value(key));
        let answer = load("plan.toml", &text);
        if key.path == "agents.*.use" {
            // The one adapter there is says what holds anyway; any other is refused.
            assert_eq!(answer.unwrap().0, base);
            let findings = load("plan.toml", &text.replace("'command'", "'claude'")).unwrap_err().findings;
            assert_eq!(findings[0].code, Code::NotSupported);
        } else if key.supported {
            let (plan, _) = answer.unwrap_or_else(|findings| panic!("{path}: {}", findings.render(false)));
            assert_ne!(plan, base, "`{path}` is accepted and does nothing");
        } else {
            let findings = answer.expect_err(&path).findings;
            let refusal = findings.iter().find(|finding| finding.code == Code::NotSupported);
            let refusal = refusal.unwrap_or_else(|| panic!("`{path}` is not refused: {findings:?}"));
            assert!(refusal.message.contains("not supported by this version"), "{}", refusal.message);
            assert_eq!(refusal.line, Some(text.lines().count()), "{path}");
            assert!(refusal.column.is_some());
        }
    }
}

#[test]
fn the_reference_lists_every_key_once() {
    let table = reference_table();
    for key in reference() {
        assert_eq!(table.matches(&format!("\n| `{}` |", key.path)).count(), 1);
        assert!(!key.meaning.is_empty() && (key.supported != key.default.is_empty()), "{}", key.path);
    }
    assert_eq!(table.lines().count(), reference().len() + 2);
}

//! `run --dry-run`: what a run of a plan would do.

use super::look::{Look, Tone};
use super::text;
use crate::model::Bytes;
use crate::model::plan::{AllowList, History, LandMode, Limits, Network};
use crate::plan::{AgentPreview, BoxPreview, Preview};

/// The preview as text. Its JSON is the [`Preview`] itself.
pub fn render(preview: &Preview, look: Look) -> String {
    let mut out = format!("{}  nothing was run\n", Tone::Strong.paint(preview.name.as_str(), look));
    let mut fact = |name: &str, value: &str| out.extend([&text::padded(name, 10), &text::clean(value), "\n"]);
    fact("target", preview.target.as_deref().unwrap_or("the branch checked out"));
    fact("at once", &if preview.jobs == 0 { "one agent a core".to_owned() } else { preview.jobs.to_string() });
    fact("landing", land(preview.land));
    if let Some(timeout) = preview.timeout {
        fact("time", &text::duration(timeout));
    }
    if !preview.seed.is_empty() {
        fact("seed", &text::list(&preview.seed, text::LISTED));
    }
    if let Some(setup) = &preview.setup {
        fact("setup", &setup.line);
    }
    if preview.history != History::default() {
        fact("history", preview.history.name());
    }
    for (point, command) in &preview.hooks {
        fact("hook", &format!("{} runs {}, outside every box", point.name(), command.line));
    }
    for (number, wave) in preview.waves.iter().enumerate() {
        fact(if number == 0 { "order" } else { "then" }, &text::list(wave, usize::MAX));
    }
    match &preview.verify {
        Some(verify) => {
            let limit = text::duration(verify.timeout);
            fact("verifier", &format!("{}  (at most {limit}; {})", verify.command.line, bounds(&verify.sandbox)));
        }
        None => fact("verifier", "none: the result cannot land"),
    }
    for agent in &preview.agents {
        out.push('\n');
        out.push_str(&render_agent(agent, look));
    }
    out
}

fn land(mode: LandMode) -> &'static str {
    match mode {
        LandMode::Never => "never",
        LandMode::Manual => "only when asked for",
        LandMode::Auto => "as soon as nothing is in the way",
    }
}

fn render_agent(agent: &AgentPreview, look: Look) -> String {
    let title = agent.title.as_ref().map_or_else(String::new, |title| format!("  {}", text::clean(title)));
    let mut out = format!("{}{title}\n", Tone::Strong.paint(agent.name.as_str(), look));
    let mut fact = |name: &str, value: &str| out.extend(["  ", &text::padded(name, 8), &text::clean(value), "\n"]);
    if !agent.prerequisites.is_empty() {
        fact("after", &text::list(&agent.prerequisites, usize::MAX));
    }
    fact("owns", &text::list(&agent.owns, usize::MAX));
    if !agent.shares.is_empty() {
        fact("shares", &text::list(&agent.shares, usize::MAX));
    }
    for turn in &agent.turns {
        fact("runs", &turn.line);
    }
    if agent.attempts > 1 {
        fact("tries", &agent.attempts.to_string());
    }
    let limits = agent.sandbox.limits;
    let idle = text::duration(limits.idle);
    let time = text::duration(limits.time);
    let output = match (limits.output >> 20, limits.output.trailing_zeros()) {
        (mebibytes, 20..) => format!("{mebibytes} MiB"),
        (_, 0..20) => text::count(limits.output, "byte", "bytes"),
    };
    let more = more_limits(&limits);
    fact("within", &format!("{time}, {idle} of silence, {output} of output{more}; {}", bounds(&agent.sandbox)));
    out
}

/// The limits that hold only where the plan gives them.
fn more_limits(limits: &Limits) -> String {
    let sizes = [(limits.memory, "memory"), (limits.disk, "disk"), (limits.file_size, "a file")];
    let mut words: Vec<String> =
        sizes.into_iter().filter_map(|(size, of)| Some(format!("{} of {of}", Bytes(size?)))).collect();
    words.extend(limits.processes.map(|most| text::count(most.into(), "process", "processes")));
    words.extend(limits.cpu_weight.map(|weight| format!("weight {weight} of the processor")));
    words.iter().flat_map(|word| [", ", word]).collect()
}

fn bounds(sandbox: &BoxPreview) -> String {
    let mut words = vec![match &sandbox.network {
        Network::None => "no network".to_owned(),
        Network::Host => "the host's network".to_owned(),
        Network::Allow(list) => listed(list),
    }];
    if !sandbox.expose.is_empty() {
        words.push(format!("sees {}", text::list(&sandbox.expose, usize::MAX)));
    }
    if !sandbox.expose_rw.is_empty() {
        words.push(format!("writes {}", text::list(&sandbox.expose_rw, usize::MAX)));
    }
    if !sandbox.hide.is_empty() {
        words.push(format!("does not see {}", text::list(&sandbox.hide, usize::MAX)));
    }
    if sandbox.nested {
        words.push("may make namespaces".to_owned());
    }
    if !sandbox.env.is_empty() {
        words.push(format!("gets {}", text::list(&sandbox.env, usize::MAX)));
    }
    words.join(", ")
}

fn listed(list: &AllowList) -> String {
    let secrets = list.inject.keys().map(|host| format!("{host} with a secret"));
    let all: Vec<String> = list.allow.iter().cloned().chain(secrets).collect();
    let but = if list.deny.is_empty() { String::new() } else { format!(" but {}", text::list(&list.deny, usize::MAX)) };
    if all.is_empty() {
        return "a network that reaches nothing".to_owned();
    }
    format!("the network as far as {}{but}", text::list(&all, usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::load;

    #[test]
    fn a_list_of_hosts_in_words() {
        let injection = crate::model::plan::Injection {
            header: "x".to_owned(),
            env: "KEY".to_owned(),
            prefix: String::new(),
            base_url: None,
        };
        let mut list = AllowList::default();
        assert_eq!(listed(&list), "a network that reaches nothing");
        list.inject.insert("b.example".to_owned(), injection);
        assert_eq!(listed(&list), "the network as far as b.example with a secret");
        list.allow.push("*.a.example:443".to_owned());
        list.deny.push("c.a.example:443".to_owned());
        assert_eq!(listed(&list), "the network as far as *.a.example:443, b.example with a secret but c.a.example:443");
    }

    #[test]
    fn dry_run() {
        let plan = r#"
            [run]
            name = "login"
            [sandbox]
            env = ["API_KEY"]
            hide = ["/srv/sockets"]
            nested = true
            [workspace]
            seed = [".env"]
            setup = ["npm", "ci"]
            [verify]
            command = ["make", "test"]
            [agents.schema]
            owns = ["db/**"]
            run = ["sh", "-c", "echo 'a b'"]
            [agents.ui]
            title = "The page"
            owns = ["ui/**"]
            shares = ["lock"]
            after = ["schema"]
            attempts = 2
            turns = [["one"], ["two"]]
            sandbox = { expose = ["~/data"], expose_rw = ["/opt/x"], nested = false, limits = { memory = "4GiB", disk = "5GiB", processes = 512, cpu_weight = 50, file_size = "1GiB" } }
        "#;
        let (plan, _) = load("plan.toml", plan).unwrap();
        insta::assert_snapshot!(render(&Preview::new(&plan), Look::PLAIN), @r"
        login  nothing was run
        target    the branch checked out
        at once   one agent a core
        landing   only when asked for
        seed      .env
        setup     npm ci
        order     schema
        then      ui
        verifier  make test  (at most 30m 00s; no network, does not see /srv/sockets, may make namespaces)

        schema
          owns    db/**
          runs    sh -c 'echo '\''a b'\'''
          within  30m 00s, 10m 00s of silence, 64 MiB of output; no network, does not see /srv/sockets, may make namespaces, gets API_KEY

        ui  The page
          after   schema
          owns    ui/**
          shares  lock
          runs    one
          runs    two
          tries   2
          within  30m 00s, 10m 00s of silence, 64 MiB of output, 4 GiB of memory, 5 GiB of disk, 1 GiB of a file, 512 processes, weight 50 of the processor; no network, sees ~/data, writes /opt/x, does not see /srv/sockets, gets API_KEY
        ");
    }
}

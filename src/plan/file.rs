//! From the text of a plan file to a [`Plan`], or to everything that is wrong with it.
//!
//! In order: TOML; unknown and unsupported keys; each value by itself; then the agents among each other. Only a text that
//! is no TOML ends the search early: what follows a broken line would be guesswork.

use std::ops::Range;
use std::path::Path;

use jiff::SignedDuration;
use sandbox::Layer;
use toml::Spanned;
use toml::de::DeTable;

use crate::model::AgentName;
use crate::model::plan::{
    AgentTask, Argv, Contract, HookPoint, Hooks, Limits, Network, Plan, SandboxSettings, VerifySettings,
    WorkspaceSettings,
};

use super::check;
use super::finding::{Code, Finding, Findings, Severity, line_of};
use super::keys;
use super::network;
use super::reader::{Reader, Section};
use super::value::{self, shown};

/// The longest plan file, in bytes.
pub const MAX_FILE: usize = 1 << 20;

/// Reads a plan. `path_label` is what messages call it; the name of that file is the plan's name where `run.name` does not
/// say another.
///
/// Gives the plan and its warnings, or everything that was found if one of it is an error.
pub fn load(path_label: &str, text: &str) -> Result<(Plan, Vec<Finding>), Findings> {
    let refused = |findings| Findings::new(path_label, text, findings);
    if text.len() > MAX_FILE {
        let message = format!("the plan is longer than {MAX_FILE} bytes");
        return Err(refused(vec![Finding::new(Severity::Error, Code::TooLarge, message)]));
    }
    let mut reader = Reader::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    if !syntax(&mut reader, text, &errors) {
        return Err(refused(reader.into_findings()));
    }
    reader.check_keys(document.get_ref());
    let plan = read(&mut reader, path_label, &Section::root(document.get_ref()));
    let found = refused(reader.into_findings());
    match plan {
        Some(plan) if !found.has_errors() => Ok((plan, found.findings)),
        _ => Err(found),
    }
}

/// Tells of what is no TOML, and says whether the rest is worth reading. Keys written twice do no harm to the rest; after
/// anything else only the first error means something.
fn syntax(reader: &mut Reader<'_>, text: &str, errors: &[toml::de::Error]) -> bool {
    let span = |error: &toml::de::Error| error.span().unwrap_or(text.len()..text.len());
    let (duplicates, broken): (Vec<_>, Vec<_>) = errors.iter().partition(|error| error.message() == "duplicate key");
    let mut inside = 0..0;
    for error in duplicates {
        let place = span(error);
        // All keys of a table written twice are there already; the table says it for them.
        if inside.contains(&place.start) {
            continue;
        }
        let line = text.get(line_of(text, place.start)).unwrap_or_default();
        let key = shown(text.get(place.clone()).unwrap_or_default());
        let message = if line.trim_start().starts_with('[') {
            inside = place.end
                ..text
                    .len()
                    .min(place.end + text.get(place.end..).and_then(|rest| rest.find("\n[")).unwrap_or(text.len()));
            format!("the table {key} is there already")
        } else {
            format!("the key {key} is there already")
        };
        reader.error(Code::DuplicateKey, place, message, None);
    }
    let first = broken.into_iter().min_by_key(|error| span(error).start);
    if let Some(error) = first {
        let message = error.message().replace('\n', "; ");
        reader.error(Code::Syntax, span(error), format!("not valid TOML: {message}"), None);
    }
    first.is_none()
}

/// An agent as far as it could be read, with the places that later checks point at.
pub(super) struct Draft {
    pub(super) key: String,
    pub(super) span: Range<usize>,
    pub(super) owns: Vec<Spanned<String>>,
    /// `owns` is there, and lists nothing.
    pub(super) owns_is_empty_list: bool,
    pub(super) shares: Vec<Spanned<String>>,
    pub(super) after: Vec<Spanned<String>>,
    /// Only where the name is right.
    task: Option<AgentTask>,
}

fn read<'t>(reader: &mut Reader<'t>, label: &str, root: &Section<'_, 't>) -> Option<Plan> {
    let run = root.section("run");
    let workspace = root.section("workspace");
    let defaults = root.section("sandbox");
    let sandbox = SandboxKeys::read(reader, &defaults).over(&SandboxSettings::default());
    check_variables(reader, &defaults, &sandbox);
    let name = plan_name(reader, label, &run);
    let target = reader.take_text(&run, "target", value::branch);
    let jobs = reader.take(&run, "jobs", |value| value::number(value, 0, 1024));
    let land = reader.take(&run, "land", value::land);
    let history = reader.take(&run, "history", value::history).unwrap_or_default();
    let message = reader.take_text(&run, "message", value::subject);
    let timeout = reader.take(&run, "timeout", value::duration);
    let seed = reader.take_list(&workspace, "seed", "strings", |value| value::inside(value::text(value)?));
    let setup = reader.take(&workspace, "setup", value::command);
    let verify = read_verify(reader, root, &sandbox);
    let protect = reader.take_texts(&root.section("verify"), "protect", value::glob).map(plain).unwrap_or_default();
    let hooks = read_hooks(reader, root);
    let drafts = read_agents(reader, root, &sandbox);
    check::agents(reader, &drafts);
    Some(Plan {
        name: name?,
        target,
        jobs: jobs.unwrap_or(0) as usize,
        land: land.unwrap_or_default(),
        history,
        message,
        timeout,
        workspace: WorkspaceSettings { seed: plain(seed.unwrap_or_default()), setup },
        sandbox,
        verify,
        protect,
        hooks,
        agents: drafts.into_iter().map(|draft| draft.task).collect::<Option<_>>()?,
    })
}

fn plain<T>(spanned: Vec<Spanned<T>>) -> Vec<T> {
    spanned.into_iter().map(Spanned::into_inner).collect()
}

fn plan_name<'t>(reader: &mut Reader<'t>, label: &str, run: &Section<'_, 't>) -> Option<AgentName> {
    if run.value("name").is_some() {
        return reader.take(run, "name", |value| {
            value::name(value::text(value)?).map_err(|mut wrong| {
                wrong.message.insert_str(0, "cannot be used: ");
                wrong
            })
        });
    }
    let stem = Path::new(label).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    value::name(stem)
        .map_err(|wrong| {
            let message = format!("the plan has no name, and its file's cannot be used: {}", wrong.message);
            let finding = Finding::new(Severity::Error, wrong.code, message);
            reader.push(finding.with_help("write `name = \"…\"` in `[run]`"));
        })
        .ok()
}

/// The keys of a `[sandbox]`, of the plan or of an agent, as far as they are there.
#[derive(Default)]
struct SandboxKeys {
    network: Option<Network>,
    expose: Option<Vec<String>>,
    expose_rw: Option<Vec<String>>,
    hide: Option<Vec<String>>,
    env: Option<Vec<String>>,
    allow_degraded: Option<Vec<Layer>>,
    nested: Option<bool>,
    time: Option<SignedDuration>,
    idle: Option<SignedDuration>,
    output: Option<u64>,
    memory: Option<u64>,
    processes: Option<u32>,
    cpu_weight: Option<u32>,
    disk: Option<u64>,
    file_size: Option<u64>,
}

impl SandboxKeys {
    fn read<'t>(reader: &mut Reader<'t>, section: &Section<'_, 't>) -> Self {
        let limits = section.section("limits");
        Self {
            network: network::read(reader, section),
            expose: reader.take_texts(section, "expose", value::expose).map(plain),
            expose_rw: reader.take_texts(section, "expose_rw", value::expose).map(plain),
            hide: reader.take_texts(section, "hide", value::hide).map(plain),
            nested: reader.take(section, "nested", value::yes_or_no),
            env: reader.take_texts(section, "env", value::variable).map(plain),
            allow_degraded: reader.take_list(section, "allow_degraded", "layers", value::layer).map(plain),
            time: reader.take(&limits, "time", value::duration),
            idle: reader.take(&limits, "idle", value::duration),
            output: reader.take(&limits, "output", value::size),
            memory: reader.take(&limits, "memory", value::size_of_box),
            processes: reader.take(&limits, "processes", |value| {
                value::number(value, *value::PROCESSES.start(), *value::PROCESSES.end())
            }),
            cpu_weight: reader.take(&limits, "cpu_weight", |value| value::number(value, 1, 10_000)),
            disk: reader.take(&limits, "disk", value::size_of_box),
            file_size: reader.take(&limits, "file_size", value::size),
        }
    }

    /// `defaults`, with what is written here instead, key by key.
    fn over(self, defaults: &SandboxSettings) -> SandboxSettings {
        SandboxSettings {
            network: self.network.unwrap_or_else(|| defaults.network.clone()),
            expose: self.expose.unwrap_or_else(|| defaults.expose.clone()),
            expose_rw: self.expose_rw.unwrap_or_else(|| defaults.expose_rw.clone()),
            hide: self.hide.unwrap_or_else(|| defaults.hide.clone()),
            nested: self.nested.unwrap_or(defaults.nested),
            env: self.env.unwrap_or_else(|| defaults.env.clone()),
            allow_degraded: match self.allow_degraded {
                Some(layers) => layers.into_iter().collect(),
                None => defaults.allow_degraded.clone(),
            },
            limits: Limits {
                time: self.time.unwrap_or(defaults.limits.time),
                idle: self.idle.unwrap_or(defaults.limits.idle),
                output: self.output.unwrap_or(defaults.limits.output),
                memory: self.memory.or(defaults.limits.memory),
                processes: self.processes.or(defaults.limits.processes),
                cpu_weight: self.cpu_weight.and_then(|it| u16::try_from(it).ok()).or(defaults.limits.cpu_weight),
                disk: self.disk.or(defaults.limits.disk),
                file_size: self.file_size.or(defaults.limits.file_size),
            },
        }
    }
}

/// The box of a verifier: what the plan's `[sandbox]` shows, hides and bounds, but nothing of outside is writable, network
/// and variables are only as given here, and the time is the verifier's own.
pub fn verifier_sandbox(
    defaults: &SandboxSettings,
    network: Network,
    env: Vec<String>,
    timeout: SignedDuration,
) -> SandboxSettings {
    let limits = Limits { time: timeout, ..defaults.limits };
    SandboxSettings { network, env, expose_rw: Vec::new(), limits, ..defaults.clone() }
}

/// The verifier of a run without a plan file: a command that is judged within what the agent's box has, but without its
/// network and variables.
pub fn verifier_for_exec(command: Argv, sandbox: &SandboxSettings) -> VerifySettings {
    let timeout = Limits::default().time;
    let sandbox = verifier_sandbox(sandbox, Network::None, Vec::new(), timeout);
    VerifySettings { command, timeout, workdir: None, sandbox }
}

fn read_verify<'t>(
    reader: &mut Reader<'t>,
    root: &Section<'_, 't>,
    sandbox: &SandboxSettings,
) -> Option<VerifySettings> {
    let section = root.section("verify");
    let command = reader.take(&section, "command", value::command);
    let timeout = reader.take(&section, "timeout", value::duration).unwrap_or(sandbox.limits.time);
    let workdir = reader.take(&section, "workdir", |value| value::inside(value::text(value)?));
    let network = network::read(reader, &section).unwrap_or_default();
    let env = reader.take_texts(&section, "env", value::variable).map(plain).unwrap_or_default();
    match (root.key_span("verify"), section.value("command")) {
        (None, _) => {
            let message = "there is no verifier, so the result will be `unverified` and cannot land";
            let finding = Finding::new(Severity::Warning, Code::NoVerifier, message);
            reader.push(finding.with_help("add `[verify]` with a `command`"));
        }
        (Some(span), None) => {
            let message = "`verify` has no `command`".to_owned();
            reader.error(Code::MissingCommand, span, message, Some("name what judges the result".to_owned()));
        }
        (Some(_), Some(_)) => {}
    }
    let sandbox = verifier_sandbox(sandbox, network, env, timeout);
    check_variables(reader, &section, &sandbox);
    command.map(|command| VerifySettings { command, timeout, workdir, sandbox })
}

fn read_hooks<'t>(reader: &mut Reader<'t>, root: &Section<'_, 't>) -> Hooks {
    let section = root.section("hooks");
    let mut hooks = Hooks::default();
    for point in HookPoint::ALL {
        if let Some(command) = reader.take(&section, point.name(), value::command) {
            hooks.commands.insert(point, command);
        }
    }
    if let Some(timeout) = reader.take(&section, "timeout", value::duration) {
        hooks.timeout = timeout;
    }
    hooks
}

/// Tells of variables that would be in a box twice, at the network that is written in `section`, or its variables.
fn check_variables<'t>(reader: &mut Reader<'t>, section: &Section<'_, 't>, settings: &SandboxSettings) {
    let Some(span) = section.key_span("network").or_else(|| section.key_span("env")) else { return };
    for (message, help) in network::check_variables(settings) {
        reader.error(Code::BadInjection, span.clone(), message, Some(help));
    }
}

fn read_agents<'t>(reader: &mut Reader<'t>, root: &Section<'_, 't>, sandbox: &SandboxSettings) -> Vec<Draft> {
    let agents = root.section("agents");
    let (mut any, mut drafts) = (false, Vec::new());
    for (key, span, section) in agents.entries() {
        any = true;
        if section.is_table() {
            drafts.push(read_agent(reader, key, span, &section, sandbox));
        }
    }
    let written_otherwise = root.value("agents").is_some_and(|value| !value.get_ref().is_table());
    if !any && !written_otherwise {
        let finding = Finding::new(Severity::Error, Code::NoAgents, "the plan has no agents");
        reader.push(finding.with_help("add a table `[agents.NAME]` with `owns` and `run`"));
    }
    drafts
}

fn read_agent<'t>(
    reader: &mut Reader<'t>,
    key: &str,
    span: Range<usize>,
    section: &Section<'_, 't>,
    sandbox: &SandboxSettings,
) -> Draft {
    let name = value::name(key).map_err(|wrong| reader.error(wrong.code, span.clone(), wrong.message, wrong.help)).ok();
    let owns = reader.take_texts(section, "owns", value::glob);
    let shares = reader.take_texts(section, "shares", value::glob).unwrap_or_default();
    if section.value("owns").is_none() {
        let help = "list the paths it may change; `[\"**\"]` says everything".to_owned();
        reader.error(
            Code::MissingOwns,
            span.clone(),
            format!("{} does not say what it `owns`", shown(key)),
            Some(help),
        );
    }
    let after = reader.take_texts(section, "after", |_| Ok(())).unwrap_or_default();
    let title = reader.take_text(section, "title", value::line);
    let attempts = reader.take(section, "attempts", |value| value::number(value, 1, 100)).unwrap_or(1);
    let adapter = reader.take(section, "use", value::adapter);
    let turns = read_turns(reader, key, &span, section, adapter.is_none() && section.value("use").is_some());
    let workdir = reader.take(section, "workdir", |value| value::inside(value::text(value)?));
    let may_ask = reader.take_texts(section, "may_ask", value::glob).map(plain).unwrap_or_default();
    let own_box = section.section("sandbox");
    let sandbox = SandboxKeys::read(reader, &own_box).over(sandbox);
    check_variables(reader, &own_box, &sandbox);
    let owns = owns.unwrap_or_default();
    let empty_list =
        section.value("owns").and_then(|value| value.get_ref().as_array()).is_some_and(|list| list.is_empty());
    let after_names = after.iter().filter_map(|name| name.get_ref().parse().ok()).collect();
    let text = |globs: &[Spanned<String>]| globs.iter().map(|glob| glob.get_ref().clone()).collect();
    let contract = Contract { owns: text(&owns), shares: text(&shares) };
    let task = name.map(|name| AgentTask {
        name,
        title,
        contract,
        after: after_names,
        attempts,
        turns,
        workdir,
        may_ask,
        sandbox,
    });
    Draft { key: key.to_owned(), span, owns, owns_is_empty_list: empty_list, shares, after, task }
}

/// The commands of an agent. `told` says that its way of running was refused already, so that nothing is missing.
fn read_turns<'t>(
    reader: &mut Reader<'t>,
    key: &str,
    span: &Range<usize>,
    section: &Section<'_, 't>,
    told: bool,
) -> Vec<Argv> {
    let run = reader.take(section, "run", value::command);
    let turns = reader.take_list(section, "turns", "commands", value::command).map(plain);
    let asked = told || section.value("prompt").is_some() || section.value("prompt_file").is_some();
    match (section.value("run"), section.value("turns")) {
        (Some(_), Some(second)) => {
            let message = format!("{} has both `run` and `turns`", shown(key));
            let help = "`run` is one command; `turns` is a list of them".to_owned();
            reader.error(Code::RunAndTurns, second.span(), message, Some(help));
        }
        (None, None) if !asked => {
            let message = format!("{} has nothing to run", shown(key));
            reader.error(Code::MissingCommand, span.clone(), message, Some("add `run` or `turns`".to_owned()));
        }
        (None, Some(list)) if list.get_ref().as_array().is_some_and(|list| list.is_empty()) => {
            let message = format!("`agents.{key}.turns` is an empty list: give at least one command");
            reader.error(Code::EmptyCommand, list.span(), message, None);
        }
        (Some(_), None) | (None, Some(_) | None) => {}
    }
    run.map_or_else(|| turns.unwrap_or_default(), |run| vec![run])
}

/// What a name was probably meant to be, as a hint.
pub(super) fn name_hint<'k>(name: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    keys::nearest(name, known.clone()).map_or_else(
        || format!("the agents are {}", known.map(shown).collect::<Vec<_>>().join(", ")),
        |near| format!("did you mean {}?", shown(near)),
    )
}

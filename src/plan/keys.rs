//! Every key of a plan file: one table, from which come the hints about unknown keys, the refusals of keys whose effect is
//! not built, and the reference that `docs/plan.md` is checked against.

/// One key of a plan file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Where it stands; `*` is the name of an agent.
    pub path: &'static str,
    /// What its value is.
    pub kind: &'static str,
    /// What holds where it is not written.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// Whether this version does it. A key it does not do is refused, never ignored.
    pub supported: bool,
}

const fn key(path: &'static str, kind: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key { path, kind, default, meaning, supported: true }
}

const fn later(path: &'static str, kind: &'static str, meaning: &'static str) -> Key {
    Key { path, kind, default: "", meaning, supported: false }
}

const NETWORK: &str = "`\"none\"`, `\"host\"` or a table";
const LAYERS: &str = "list of `\"namespaces\"`, `\"seccomp\"`, `\"limits\"`";
const COMMAND: &str = "command";
const BOOL: &str = "`true` or `false`";

const KEYS: &[Key] = &[
    key("run.name", "name", "the file's name", "what the runs of this plan are counted under"),
    key("run.target", "branch", "the branch checked out", "the branch the result is meant for"),
    key("run.jobs", "number", "0", "how many agents run at once, exactly; 0 is one for each core"),
    key(
        "run.land",
        "`\"never\"`, `\"manual\"` or `\"auto\"`",
        "`\"manual\"`",
        "whether the result may, or should, land",
    ),
    key(
        "run.history",
        "`\"merge\"`, `\"squash\"` or `\"commits\"`",
        "`\"merge\"`",
        "what form the agents' work has in the target's history",
    ),
    key("run.message", "one line", "`\"Merge agent {agent}: {title}\"`", "the subject of an agent's commit in it"),
    key("run.timeout", "duration", "none", "how long the whole run may take"),
    key("sandbox.network", NETWORK, "`\"none\"`", "what network an agent has"),
    key(
        "sandbox.network.allow",
        "list of `HOST:PORT`",
        "`[]`",
        "what may be reached through the proxy, and nothing else",
    ),
    key("sandbox.network.deny", "list of `HOST:PORT`", "`[]`", "what may not, whatever `allow` says"),
    key(
        "sandbox.network.inject.*.header",
        "header",
        "required",
        "the header that a request to this host gets the secret in",
    ),
    key(
        "sandbox.network.inject.*.env",
        "name",
        "required",
        "your variable that holds the secret; inside it holds a stand-in",
    ),
    key("sandbox.network.inject.*.prefix", "text", "`\"\"`", "what stands before the secret, such as `\"Bearer \"`"),
    key(
        "sandbox.network.inject.*.base_url",
        "name",
        "none",
        "a variable that inside holds the address to ask instead of the host's",
    ),
    key("sandbox.expose", "list of paths", "`[]`", "paths from outside to show read-only"),
    key("sandbox.expose_rw", "list of paths", "`[]`", "paths from outside to show writable"),
    key("sandbox.hide", "list of paths", "`[]`", "folders of the host to hide"),
    key("sandbox.env", "list of names", "`[]`", "environment variables to pass in"),
    key(
        "sandbox.nested",
        BOOL,
        "`false`",
        "whether programs inside may make namespaces, as for a sandbox of their own",
    ),
    key("sandbox.limits.time", "duration", "`\"30m\"`", "the longest an attempt may take"),
    key("sandbox.limits.idle", "duration", "`\"10m\"`", "the longest an attempt may be silent"),
    key("sandbox.limits.output", "size", "`\"64MiB\"`", "the most output of an attempt"),
    key("sandbox.limits.memory", "size", "none", "the most memory of an agent's processes together"),
    key("sandbox.limits.processes", "number", "4096", "the most processes and threads of an agent at once"),
    key("sandbox.limits.disk", "size", "none", "the most disk space of what an agent can write"),
    key("sandbox.limits.file_size", "size", "none", "the largest file an agent may write"),
    key("sandbox.limits.cpu_weight", "number", "100", "an agent's share of the processor where others want it too"),
    key("sandbox.allow_degraded", LAYERS, "`[]`", "layers of the sandbox that this machine may be unable to give"),
    key("workspace.seed", "list of paths", "`[]`", "ignored files of the checkout to copy into each worktree"),
    key("workspace.setup", COMMAND, "none", "run once in each new worktree, inside the sandbox"),
    key("verify.command", COMMAND, "none", "what judges the combined result; exit 0 is the only pass"),
    key("verify.timeout", "duration", "`sandbox.limits.time`", "the longest the verifier may take"),
    key("verify.network", NETWORK, "`\"none\"`", "what network the verifier has, written like `sandbox.network`"),
    key("verify.env", "list of names", "`[]`", "environment variables to pass to the verifier"),
    key("verify.protect", "list of globs", "`[]`", "more paths whose change waits for a decision, whoever owns them"),
    later("verify.cache", "list of paths", "folders kept between verifications of a run"),
    key("hooks.run_started", COMMAND, "none", "run outside every box when the run begins"),
    key("hooks.agent_finished", COMMAND, "none", "run outside every box when an attempt of an agent ends"),
    key("hooks.card_opened", COMMAND, "none", "run outside every box when a card is opened"),
    key("hooks.gate_decided", COMMAND, "none", "run outside every box when the gate is asked"),
    key("hooks.landed", COMMAND, "none", "run outside every box when the target was moved"),
    key("hooks.timeout", "duration", "`\"30s\"`", "the longest each of these may take"),
    key("agents.*.title", "one line", "none", "what the agent is for"),
    key("agents.*.owns", "list of globs", "required", "the paths that are the agent's alone"),
    key("agents.*.shares", "list of globs", "`[]`", "paths that several agents may change"),
    key("agents.*.after", "list of agents", "`[]`", "agents whose work this one builds on"),
    key("agents.*.attempts", "number", "1", "how often it may be tried"),
    key("agents.*.run", COMMAND, "this or `turns`", "the agent's command, one turn"),
    key("agents.*.turns", "list of commands", "this or `run`", "the agent's commands, a turn each"),
    key("agents.*.use", "`\"command\"`", "`\"command\"`", "what runs the agent"),
    later("agents.*.prompt", "text", "what the agent is asked to do"),
    later("agents.*.prompt_file", "path", "a file with what the agent is asked to do"),
    later("agents.*.verify", COMMAND, "what judges this agent's work alone"),
    later("agents.*.workdir", "path", "the folder the agent starts in"),
    key(
        "agents.*.sandbox.network",
        NETWORK,
        "`sandbox.network`",
        "this agent's network, written like `sandbox.network`",
    ),
    key("agents.*.sandbox.expose", "list of paths", "`sandbox.expose`", "this agent's paths from outside"),
    key("agents.*.sandbox.expose_rw", "list of paths", "`sandbox.expose_rw`", "this agent's paths to write outside"),
    key("agents.*.sandbox.hide", "list of paths", "`sandbox.hide`", "the folders this agent does not see"),
    key("agents.*.sandbox.env", "list of names", "`sandbox.env`", "this agent's environment variables"),
    key("agents.*.sandbox.nested", BOOL, "`sandbox.nested`", "whether this agent may make namespaces"),
    key("agents.*.sandbox.limits.time", "duration", "`sandbox.limits.time`", "the longest an attempt of it may take"),
    key("agents.*.sandbox.limits.idle", "duration", "`sandbox.limits.idle`", "the longest it may be silent"),
    key("agents.*.sandbox.limits.output", "size", "`sandbox.limits.output`", "the most output of an attempt of it"),
    key("agents.*.sandbox.limits.memory", "size", "`sandbox.limits.memory`", "the most memory of its processes"),
    key("agents.*.sandbox.limits.processes", "number", "`sandbox.limits.processes`", "the most processes of it"),
    key("agents.*.sandbox.limits.disk", "size", "`sandbox.limits.disk`", "the most disk space of what it can write"),
    key("agents.*.sandbox.limits.file_size", "size", "`sandbox.limits.file_size`", "the largest file it may write"),
    key("agents.*.sandbox.limits.cpu_weight", "number", "`sandbox.limits.cpu_weight`", "its share of the processor"),
    key("agents.*.sandbox.allow_degraded", LAYERS, "`sandbox.allow_degraded`", "layers that its own may lack"),
];

/// Every key, in the order of the reference.
pub fn reference() -> &'static [Key] {
    KEYS
}

/// The reference as a Markdown table.
pub fn reference_table() -> String {
    let mut table = String::from("| key | value | default | meaning |\n|---|---|---|---|\n");
    for key in KEYS {
        let default = if key.supported { key.default } else { "not supported by this version" };
        table.push_str(&["| `", key.path, "` | ", key.kind, " | ", default, " | ", key.meaning, " |\n"].concat());
    }
    table
}

/// What stands at a place of a plan file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Key(Key),
    Section,
    Unknown,
}

/// What stands at `path`, where an agent's name is written `*`.
pub(super) fn entry(path: &str) -> Entry {
    if let Some(key) = KEYS.iter().find(|key| key.path == path) {
        return Entry::Key(*key);
    }
    let inside = |key: &Key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    if KEYS.iter().any(inside) { Entry::Section } else { Entry::Unknown }
}

/// The keys and sections that may stand directly in the section `path`, those this version knows the effect of.
pub(super) fn children(path: &str) -> Vec<&'static str> {
    let mut names = Vec::new();
    for key in KEYS.iter().filter(|key| key.supported) {
        let rest = if path.is_empty() {
            Some(key.path)
        } else {
            key.path.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'))
        };
        let name = rest.and_then(|rest| rest.split('.').next());
        if let Some(name) = name.filter(|name| !names.contains(name)) {
            names.push(name);
        }
    }
    names
}

/// The one of `known` that `word` was probably meant to be.
pub(super) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word: Vec<char> = word.chars().take(64).flat_map(char::to_lowercase).collect();
    let best = known.into_iter().map(|other| (distance(&word, &other.chars().collect::<Vec<_>>()), other));
    let (distance, nearest) = best.min_by_key(|(distance, _)| *distance)?;
    (distance <= (word.len() / 3).clamp(1, 3)).then_some(nearest)
}

/// How many characters must be added, dropped, replaced or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (at, row) in rows.iter_mut().enumerate() {
        row[0] = at;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

//! A plan as accepted: every default filled in, every name checked. How it is read from a file is the `plan` room's affair.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use sandbox::Layer;
use serde::{Deserialize, Serialize};

use super::ids::AgentName;

/// A command: the program and its arguments. Never a shell line.
pub type Argv = Vec<String>;

/// Host paths as a plan writes them, each with where it led when the run started.
pub type PinnedPaths = BTreeMap<String, std::path::PathBuf>;

/// Which paths an agent owns, as globs over paths from the repository's root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contract {
    /// Paths that are the agent's alone.
    pub owns: Vec<String>,
    /// Paths that several agents may change.
    pub shares: Vec<String>,
}

/// A plan whose every finding has been dealt with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The plan's name; runs are counted under it.
    pub name: AgentName,
    /// The branch the result is meant for, as written; `None` is the branch that is checked out.
    pub target: Option<String>,
    /// How many agents run at once, exactly; 0 is one for each core.
    pub jobs: usize,
    /// Whether landing may, or should, follow.
    pub land: LandMode,
    /// What of an agent's work becomes of the target's history.
    #[serde(default)]
    pub history: History,
    /// The subject of a merge, with the [`PLACEHOLDERS`] in it; `None` for the usual one.
    #[serde(default)]
    pub message: Option<String>,
    /// How long the whole run may take.
    pub timeout: Option<SignedDuration>,
    /// How worktrees are prepared.
    pub workspace: WorkspaceSettings,
    /// What boxes show and are held to where nothing of their own says otherwise.
    #[serde(default)]
    pub sandbox: SandboxSettings,
    /// The parent verifier.
    pub verify: Option<VerifySettings>,
    /// Globs of more paths whose change waits for a decision, whoever owns them.
    #[serde(default)]
    pub protect: Vec<String>,
    /// The user's commands for what happens in a run.
    #[serde(default)]
    pub hooks: Hooks,
    /// The agents, in the order of the file. That order decides merging.
    pub agents: Vec<AgentTask>,
}

/// Commands that are run outside every box when something happens in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hooks {
    /// What is run when.
    pub commands: BTreeMap<HookPoint, Argv>,
    /// How long each may take.
    pub timeout: SignedDuration,
}

impl Default for Hooks {
    fn default() -> Self {
        Self { commands: BTreeMap::new(), timeout: SignedDuration::from_secs(30) }
    }
}

/// When a hook is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPoint {
    /// A run began.
    RunStarted,
    /// An attempt of an agent ended.
    AgentFinished,
    /// A card was opened.
    CardOpened,
    /// The gate was asked.
    GateDecided,
    /// The target was moved.
    Landed,
}

impl HookPoint {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::RunStarted, Self::AgentFinished, Self::CardOpened, Self::GateDecided, Self::Landed];

    /// Its name in plans and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::RunStarted => "run_started",
            Self::AgentFinished => "agent_finished",
            Self::CardOpened => "card_opened",
            Self::GateDecided => "gate_decided",
            Self::Landed => "landed",
        }
    }
}

impl Plan {
    /// The agent of that name.
    pub fn agent(&self, name: &AgentName) -> Option<&AgentTask> {
        self.agents.iter().find(|agent| agent.name == *name)
    }
}

/// What `land` in the plan says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LandMode {
    /// Landing is refused, even when asked for.
    Never,
    /// Landing happens only when asked for.
    #[default]
    Manual,
    /// Landing follows at once when the gate opens.
    Auto,
}

/// What form the work of agents has in the target's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum History {
    /// A merge of one commit that holds all of an agent's work.
    #[default]
    Merge,
    /// One commit with one parent.
    Squash,
    /// A merge of the agent's own commits, made again one by one.
    Commits,
}

impl History {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Merge, Self::Squash, Self::Commits];

    /// The word for it in plans and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Squash => "squash",
            Self::Commits => "commits",
        }
    }
}

/// What may stand in the subject of a merge, to be replaced: the agent's name, its title (its name, where it has none), and
/// the run.
pub const PLACEHOLDERS: [&str; 3] = ["{agent}", "{title}", "{run}"];

/// What network a box has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// None but its own loopback.
    #[default]
    None,
    /// The host's, unfiltered.
    Host,
    /// Its own loopback, and a proxy that lets through what is listed.
    Allow(AllowList),
}

impl Network {
    /// A network of these endpoints alone; none where there is none of them.
    pub fn listed(endpoints: &[String]) -> Option<Self> {
        let list = AllowList { allow: endpoints.to_vec(), ..AllowList::default() };
        (!endpoints.is_empty()).then_some(Self::Allow(list))
    }
}

/// What a proxy lets through. Endpoints are `HOST:PORT`, as the `sandbox` crate reads them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowList {
    /// What may be reached.
    pub allow: Vec<String>,
    /// What may not, whatever `allow` says.
    #[serde(default)]
    pub deny: Vec<String>,
    /// Secrets put into requests on their way out, by host; the agent never holds them.
    #[serde(default)]
    pub inject: BTreeMap<String, Injection>,
}

/// A secret that requests to one host get on their way out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Injection {
    /// The header that holds it.
    pub header: String,
    /// The variable of the user's environment whose value it is. Inside, a variable of this name holds a stand-in.
    pub env: String,
    /// What stands before the value, such as `Bearer `.
    #[serde(default)]
    pub prefix: String,
    /// A variable that inside holds the address to ask instead of the host's own.
    #[serde(default)]
    pub base_url: Option<String>,
}

/// What an agent's box lets in and bounds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSettings {
    /// The network.
    pub network: Network,
    /// Paths from outside to show read-only; a leading `~/` is the user's home.
    pub expose: Vec<String>,
    /// Paths from outside to show writable.
    #[serde(default)]
    pub expose_rw: Vec<String>,
    /// Folders of the host to hide.
    #[serde(default)]
    pub hide: Vec<String>,
    /// Variables to pass in, by name.
    pub env: Vec<String>,
    /// Whether programs may make namespaces of their own inside.
    #[serde(default)]
    pub nested: bool,
    /// Layers that may be missing on this machine.
    #[serde(default)]
    pub allow_degraded: BTreeSet<Layer>,
    /// Bounds on each attempt.
    pub limits: Limits,
}

/// Bounds on each attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Wall time of one attempt.
    pub time: SignedDuration,
    /// The longest silence of one attempt.
    pub idle: SignedDuration,
    /// The most bytes of output of one attempt.
    pub output: u64,
    /// The most memory of all its processes together, in bytes.
    #[serde(default)]
    pub memory: Option<u64>,
    /// The most processes and threads at once.
    #[serde(default)]
    pub processes: Option<u32>,
    /// Its share of the processor, where 100 is what everything else has.
    #[serde(default)]
    pub cpu_weight: Option<u16>,
    /// The most disk space of what it can write, in bytes.
    #[serde(default)]
    pub disk: Option<u64>,
    /// The largest file it may write, in bytes.
    #[serde(default)]
    pub file_size: Option<u64>,
}

impl Limits {
    /// What the box itself is held to; time, silence and output are the supervisor's affair.
    pub fn of_box(&self) -> sandbox::Limits {
        sandbox::Limits {
            memory: self.memory,
            processes: self.processes,
            cpu_weight: self.cpu_weight,
            disk: self.disk,
            file_size: self.file_size,
            ..sandbox::Limits::default()
        }
    }
}

impl Default for Limits {
    /// What holds where a plan says nothing.
    fn default() -> Self {
        Self {
            time: SignedDuration::from_mins(30),
            idle: SignedDuration::from_mins(10),
            output: 64 << 20,
            memory: None,
            processes: None,
            cpu_weight: None,
            disk: None,
            file_size: None,
        }
    }
}

/// How worktrees are prepared before an agent starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSettings {
    /// Ignored files of the parent checkout to copy in, as paths from its root.
    pub seed: Vec<String>,
    /// A command run once in each new worktree, inside the sandbox.
    pub setup: Option<Argv>,
}

/// The parent verifier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifySettings {
    /// What judges the combined tree: exit 0 is the only pass.
    pub command: Argv,
    /// How long it may take.
    pub timeout: SignedDuration,
    /// The folder it starts in, as a path from the repository's root; the root itself if none.
    #[serde(default)]
    pub workdir: Option<String>,
    /// Its box: the plan's `[sandbox]` for `expose` and `limits`; network and variables only as `[verify]` says.
    pub sandbox: SandboxSettings,
}

/// One agent of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTask {
    /// Its name.
    pub name: AgentName,
    /// What it is for, in one line, for people and for the merge commit's subject.
    pub title: Option<String>,
    /// What it owns.
    pub contract: Contract,
    /// Agents whose work it builds on.
    pub after: Vec<AgentName>,
    /// How often it may be tried.
    pub attempts: u32,
    /// Its commands, one turn each.
    pub turns: Vec<Argv>,
    /// The folder its commands start in, as a path from the repository's root; the root itself if none.
    #[serde(default)]
    pub workdir: Option<String>,
    /// Globs of paths that it is given when it asks for them.
    #[serde(default)]
    pub may_ask: Vec<String>,
    /// Its box.
    pub sandbox: SandboxSettings,
}

/// Everything of a run's settings that is fixed when it starts, kept in the run's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSettings {
    /// The plan as accepted.
    pub plan: Plan,
    /// Whether landing was asked for on the command line, or by the plan.
    pub land: bool,
    /// Values of environment variables are never kept: only the names that were passed.
    pub passed_env: Vec<String>,
    /// Where worktrees lie.
    pub worktrees_root: std::path::PathBuf,
    /// The git common directory of the repository, by which the folder of its worktrees is called. `None` in a run that was
    /// begun by a version that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_dir: Option<std::path::PathBuf>,
    /// Where the host paths of the plan led. Empty, too, in a run that was begun by a version that did not keep it.
    #[serde(default)]
    pub pinned_paths: PinnedPaths,
    /// The hooks of the user's own settings, as they were when the run began.
    #[serde(default)]
    pub user_hooks: Hooks,
    /// Anything a later version adds is carried along unread.
    #[serde(default)]
    pub extra: BTreeMap<String, serde_json::Value>,
}

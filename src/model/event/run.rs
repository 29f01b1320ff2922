//! Data of events of a run as a whole: how it began and ended, its stages, and what was asked of it meanwhile.

use std::collections::BTreeSet;

use sandbox::Layer;
use serde::{Deserialize, Serialize};

use crate::model::change::GitProgressState;
use crate::model::ids::{AgentName, CommitId, RefName, TreeId};
use crate::model::plan::Argv;

/// Which process speaks: enough to tell it from another that got the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Invocation {
    /// The process id.
    pub pid: u32,
    /// When the process started, in clock ticks since boot (`/proc/<pid>/stat`, field 22).
    pub start_ticks: u64,
    /// The boot it belongs to (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
}

/// Who is named as author and committer of the program's own commits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
}

impl Default for Identity {
    fn default() -> Self {
        Self { name: "sandbox".to_owned(), email: "sandbox@localhost".to_owned() }
    }
}

/// An agent as the run knows it from its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentBrief {
    /// Its name.
    pub name: AgentName,
    /// What it is for.
    pub title: Option<String>,
    /// Whose work it builds on.
    pub after: Vec<AgentName>,
    /// How often it may be tried.
    pub attempts: u32,
}

/// Data of `run.started`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted {
    /// The program's version.
    pub version: String,
    /// The coordinator.
    pub invocation: Invocation,
    /// The branch the result is meant for; `None` when the checkout is detached and the plan names none.
    pub target: Option<RefName>,
    /// The commit the run starts from.
    pub base: CommitId,
    /// Its tree.
    pub base_tree: TreeId,
    /// How many agents run at once.
    pub jobs: usize,
    /// Whether landing was asked for.
    pub land: bool,
    /// The agents, in plan order.
    pub agents: Vec<AgentBrief>,
    /// The parent verifier's command.
    pub verify_command: Option<Argv>,
    /// Author and committer of the program's commits in this run.
    pub identity: Identity,
    /// The version of git.
    pub git_version: String,
    /// What keeps agents apart from the rest, layer by layer.
    pub isolation: Vec<String>,
    /// Layers that this machine did not give and that the plan or a flag let the run do without.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub degraded: BTreeSet<Layer>,
    /// The user's repository as it was.
    pub baseline: GitProgressState,
}

/// Data of `run.finished`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFinished {
    /// The exit code.
    pub exit_code: u8,
    /// Whether the gate was open.
    pub complete: bool,
    /// What the target was set to, where it was.
    pub landed: Option<CommitId>,
}

/// Who asked for something while a run was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The process that asked; `null` where it lives in another namespace of processes.
    pub pid: Option<u32>,
    /// Its user.
    pub uid: u32,
}

impl Requester {
    /// For a reason in a line: ` by process 7`, or nothing.
    pub fn words(&self) -> String {
        self.pid.map(|pid| format!(" by process {pid}")).unwrap_or_default()
    }
}

/// Data of `run.paused` and `run.continued`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Who asked for it.
    pub by: Requester,
}

/// Data of `retry.requested`. Written before the attempt is promised to whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryRequested {
    /// Whether it begins in a new worktree, made from the agent's own fork point.
    pub from_fork: bool,
    /// Who asked for it.
    pub by: Requester,
}

/// The kinds of work a run consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Worktree, private git directory, seed and setup of one agent.
    Prepare,
    /// An attempt of one agent.
    Execute,
    /// An agent's own verifier.
    Verify,
    /// Previews, cards and the candidate.
    Integrate,
    /// The parent verifier.
    ParentVerify,
    /// Moving the target.
    Land,
    /// The gate.
    Complete,
}

/// Data of `stage.enter`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageEnter {
    /// The agent's name, or the run's id for what concerns the whole.
    pub story_id: String,
    /// The stage.
    pub stage: Stage,
    /// Who works on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub invocation: Option<Invocation>,
}

/// Data of `stage.exit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageExit {
    /// The agent's name, or the run's id for what concerns the whole.
    pub story_id: String,
    /// The stage.
    pub stage: Stage,
    /// How it went, in a word.
    pub result: String,
    /// How long it took.
    pub duration_ms: u64,
}

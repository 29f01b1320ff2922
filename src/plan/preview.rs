//! What a run of a plan would do, as plain data: for `run --dry-run`. Nothing is looked up, so it is the same everywhere.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use sandbox::Layer;
use serde::Serialize;

use crate::model::AgentName;
use crate::model::plan::{Argv, History, HookPoint, LandMode, Limits, Network, Plan, SandboxSettings};

use super::graph::Graph;

/// What a run of a plan would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The plan's name.
    pub name: AgentName,
    /// The branch the result is meant for; `None` is the branch that is checked out.
    pub target: Option<String>,
    /// How many agents run at once; 0 is one for each core.
    pub jobs: usize,
    /// Whether landing may, or should, follow.
    pub land: LandMode,
    /// What form the agents' work would have in the target's history.
    pub history: History,
    /// How long the whole run may take.
    pub timeout: Option<SignedDuration>,
    /// Ignored files to copy into each worktree.
    pub seed: Vec<String>,
    /// What is run once in each worktree.
    pub setup: Option<CommandPreview>,
    /// What could run side by side, if there were room for all.
    pub waves: Vec<Vec<AgentName>>,
    /// The agents in the order in which their work would be merged.
    pub agents: Vec<AgentPreview>,
    /// What would judge the result.
    pub verify: Option<VerifyPreview>,
    /// What would be run outside every box, and when.
    pub hooks: BTreeMap<HookPoint, CommandPreview>,
}

/// A command, to run and to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandPreview {
    /// The program and its arguments.
    pub argv: Argv,
    /// The same as a shell line, for people.
    pub line: String,
}

impl CommandPreview {
    fn new(argv: &Argv) -> Self {
        Self { argv: argv.clone(), line: shell_words::join(argv) }
    }
}

/// What one agent would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentPreview {
    /// Its name.
    pub name: AgentName,
    /// What it is for.
    pub title: Option<String>,
    /// Which wave it is in, counted from 1.
    pub wave: usize,
    /// The agents it names as prerequisites.
    pub after: Vec<AgentName>,
    /// Those and theirs, in the order in which they are merged into what it starts from.
    pub prerequisites: Vec<AgentName>,
    /// The paths that are its own.
    pub owns: Vec<String>,
    /// The paths it may change beside others.
    pub shares: Vec<String>,
    /// How often it may be tried.
    pub attempts: u32,
    /// Its commands, a turn each.
    pub turns: Vec<CommandPreview>,
    /// Its box.
    pub sandbox: BoxPreview,
}

/// What a box lets in and bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BoxPreview {
    /// The network.
    pub network: Network,
    /// Paths from outside.
    pub expose: Vec<String>,
    /// Paths from outside that it can write.
    pub expose_rw: Vec<String>,
    /// Folders it does not see.
    pub hide: Vec<String>,
    /// Names of variables passed in, never their values.
    pub env: Vec<String>,
    /// Whether it may make namespaces of its own.
    pub nested: bool,
    /// Layers it may do without.
    pub allow_degraded: BTreeSet<Layer>,
    /// Bounds.
    pub limits: Limits,
}

impl From<&SandboxSettings> for BoxPreview {
    fn from(settings: &SandboxSettings) -> Self {
        let SandboxSettings { network, expose, expose_rw, hide, env, nested, allow_degraded, limits } =
            settings.clone();
        Self { network, expose, expose_rw, hide, env, nested, allow_degraded, limits }
    }
}

/// What would judge the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyPreview {
    /// Its command.
    pub command: CommandPreview,
    /// How long it may take.
    pub timeout: SignedDuration,
    /// Its box.
    pub sandbox: BoxPreview,
}

impl Preview {
    /// What a run of `plan` would do.
    pub fn new(plan: &Plan) -> Self {
        let graph = Graph::of(plan);
        let names = |places: &[usize]| places.iter().map(|place| plan.agents[*place].name.clone()).collect();
        let waves = graph.waves();
        let agents = graph.order().into_iter().map(|place| {
            let agent = &plan.agents[place];
            AgentPreview {
                name: agent.name.clone(),
                title: agent.title.clone(),
                wave: waves.iter().position(|wave| wave.contains(&place)).map_or(1, |wave| wave + 1),
                after: agent.after.clone(),
                prerequisites: names(&graph.prerequisites(place)),
                owns: agent.contract.owns.clone(),
                shares: agent.contract.shares.clone(),
                attempts: agent.attempts,
                turns: agent.turns.iter().map(CommandPreview::new).collect(),
                sandbox: (&agent.sandbox).into(),
            }
        });
        Self {
            name: plan.name.clone(),
            target: plan.target.clone(),
            jobs: plan.jobs,
            land: plan.land,
            history: plan.history,
            timeout: plan.timeout,
            seed: plan.workspace.seed.clone(),
            setup: plan.workspace.setup.as_ref().map(CommandPreview::new),
            waves: waves.iter().map(|wave| names(wave)).collect(),
            agents: agents.collect(),
            verify: plan.verify.as_ref().map(|verify| VerifyPreview {
                command: CommandPreview::new(&verify.command),
                timeout: verify.timeout,
                sandbox: (&verify.sandbox).into(),
            }),
            hooks: plan.hooks.commands.iter().map(|(point, argv)| (*point, CommandPreview::new(argv))).collect(),
        }
    }
}

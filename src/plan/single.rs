//! A plan of one agent, without a file: what `exec` runs.

use crate::model::plan::{
    AgentTask, Argv, Contract, History, Hooks, LandMode, Network, Plan, SandboxSettings, VerifySettings,
    WorkspaceSettings,
};

use super::finding::{Finding, Findings, Severity};
use super::value::{self, Wrong, shown};

/// What a plan of one agent is made from. Begin with [`Single::new`] and set what differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Single {
    /// The name of the agent and of the plan.
    pub name: String,
    /// What it is for.
    pub title: Option<String>,
    /// The paths it may change; nothing at all means everything.
    pub owns: Vec<String>,
    /// Its command.
    pub command: Argv,
    /// The folder its command starts in, as a path from the repository's root.
    pub workdir: Option<String>,
    /// How often it may be tried.
    pub attempts: u32,
    /// Its box.
    pub sandbox: SandboxSettings,
    /// How its worktree is prepared.
    pub workspace: WorkspaceSettings,
    /// The parent verifier.
    pub verify: Option<VerifySettings>,
    /// The branch the result is meant for.
    pub target: Option<String>,
    /// Whether landing may, or should, follow.
    pub land: LandMode,
}

impl Single {
    /// An agent that owns everything, in a box with the defaults of a plan.
    pub fn new(name: &str, command: Argv) -> Self {
        Self {
            name: name.to_owned(),
            title: None,
            owns: Vec::new(),
            command,
            workdir: None,
            attempts: 1,
            sandbox: SandboxSettings::default(),
            workspace: WorkspaceSettings::default(),
            verify: None,
            target: None,
            land: LandMode::default(),
        }
    }

    /// The plan, or everything that is wrong with it: the same rules hold as for a plan file.
    pub fn into_plan(mut self) -> Result<Plan, Findings> {
        if self.owns.is_empty() {
            self.owns.push("**".to_owned());
        }
        let label = format!("agent {}", shown(&self.name));
        let mut findings = self.findings();
        let name = value::name(&self.name).map_err(|wrong| findings.insert(0, finding("the name", wrong)));
        let Some(name) = name.ok().filter(|_| findings.is_empty()) else {
            return Err(Findings::new(&label, "", findings));
        };
        // None is dropped here: a wrong one is among the findings.
        self.workspace.seed = self.workspace.seed.iter().filter_map(|path| value::inside(path).ok()).collect();
        let agent = AgentTask {
            name: name.clone(),
            title: self.title,
            contract: Contract { owns: self.owns, shares: Vec::new() },
            after: Vec::new(),
            attempts: self.attempts,
            turns: vec![self.command],
            workdir: self.workdir.and_then(|path| value::inside(&path).ok()),
            may_ask: Vec::new(),
            sandbox: self.sandbox.clone(),
        };
        Ok(Plan {
            name,
            target: self.target,
            jobs: 1,
            land: self.land,
            history: History::default(),
            message: None,
            timeout: None,
            workspace: self.workspace,
            sandbox: self.sandbox,
            verify: self.verify,
            protect: Vec::new(),
            hooks: Hooks::default(),
            agents: vec![agent],
        })
    }

    /// What is wrong with all but the name.
    fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut check = |what: &str, checked: Result<(), Wrong>| {
            findings.extend(checked.err().map(|wrong| finding(what, wrong)));
        };
        for glob in &self.owns {
            check("what it owns", value::glob(glob));
        }
        check("the command", value::command_words(&self.command));
        if let Some(workdir) = &self.workdir {
            check("the folder to start in", value::inside(workdir).map(|_| ()));
        }
        if let Some(title) = &self.title {
            check("the title", value::line(title));
        }
        if let Some(target) = &self.target {
            check("the target", value::branch(target));
        }
        let verify = self.verify.iter();
        for sandbox in verify.clone().map(|verify| &verify.sandbox).chain([&self.sandbox]) {
            for variable in &sandbox.env {
                check("the environment", value::variable(variable));
            }
            for (name, size) in [("memory", sandbox.limits.memory), ("disk", sandbox.limits.disk)] {
                check(name, size.map_or(Ok(()), value::box_size));
            }
            if let Network::Allow(list) = &sandbox.network {
                for endpoint in &list.allow {
                    check("the network", value::endpoint(endpoint));
                }
            }
            for path in sandbox.expose.iter().chain(&sandbox.expose_rw) {
                check("what is exposed", value::expose(path));
            }
            for path in &sandbox.hide {
                check("what is hidden", value::hide(path));
            }
        }
        for path in &self.workspace.seed {
            check("what is seeded", value::inside(path).map(|_| ()));
        }
        if let Some(setup) = &self.workspace.setup {
            check("the setup command", value::command_words(setup));
        }
        for verify in verify {
            check("the verifier", value::command_words(&verify.command));
        }
        check("the number of attempts", value::attempts(self.attempts));
        findings
    }
}

fn finding(what: &str, wrong: Wrong) -> Finding {
    let finding = Finding::new(Severity::Error, wrong.code, format!("{what} {}", wrong.message));
    match wrong.help {
        Some(help) => finding.with_help(help),
        None => finding,
    }
}

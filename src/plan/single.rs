//! A plan of one agent, without a file: what `exec` runs.

use crate::model::AgentName;
use crate::model::plan::{
    AgentTask, Argv, Contract, LandMode, Plan, SandboxSettings, VerifySettings, WorkspaceSettings,
};

use super::file::default_sandbox;
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
            attempts: 1,
            sandbox: default_sandbox(),
            workspace: WorkspaceSettings::default(),
            verify: None,
            target: None,
            land: LandMode::default(),
        }
    }

    /// The plan, or everything that is wrong with it: the same rules hold as for a plan file.
    pub fn into_plan(self) -> Result<Plan, Findings> {
        let mut wrongs: Vec<(String, Wrong)> = Vec::new();
        let name: Option<AgentName> = match value::name(&self.name) {
            Ok(name) => Some(name),
            Err(wrong) => {
                wrongs.push(("the name".to_owned(), wrong));
                None
            }
        };
        let owns = if self.owns.is_empty() { vec!["**".to_owned()] } else { self.owns };
        let mut check = |what: String, checked: Result<(), Wrong>| {
            if let Err(wrong) = checked {
                wrongs.push((what, wrong));
            }
        };
        for glob in &owns {
            check("what it owns".to_owned(), value::glob(glob));
        }
        check("the command".to_owned(), value::command_words(&self.command));
        if let Some(title) = &self.title {
            check("the title".to_owned(), value::line(title));
        }
        if let Some(target) = &self.target {
            check("the target".to_owned(), value::branch(target));
        }
        for variable in &self.sandbox.env {
            check("the environment".to_owned(), value::variable(variable));
        }
        for path in &self.sandbox.expose {
            check("what is exposed".to_owned(), value::expose(path));
        }
        let mut workspace = self.workspace;
        for path in &mut workspace.seed {
            match value::seed(path) {
                Ok(clean) => *path = clean,
                Err(wrong) => check("what is seeded".to_owned(), Err(wrong)),
            }
        }
        for (what, argv) in [
            ("the setup command", workspace.setup.as_ref()),
            ("the verifier", self.verify.as_ref().map(|verify| &verify.command)),
        ] {
            if let Some(argv) = argv {
                check(what.to_owned(), value::command_words(argv));
            }
        }
        check("the number of attempts".to_owned(), value::attempts(self.attempts));
        let findings: Vec<_> = wrongs.into_iter().map(finding).collect();
        let Some(name) = name.filter(|_| findings.is_empty()) else {
            return Err(Findings::new(&format!("agent {}", shown(&self.name)), "", findings));
        };
        let agent = AgentTask {
            name: name.clone(),
            title: self.title,
            contract: Contract { owns, shares: Vec::new() },
            after: Vec::new(),
            attempts: self.attempts,
            turns: vec![self.command],
            sandbox: self.sandbox,
        };
        Ok(Plan {
            name,
            target: self.target,
            jobs: 1,
            land: self.land,
            timeout: None,
            workspace,
            verify: self.verify,
            agents: vec![agent],
        })
    }
}

fn finding((what, wrong): (String, Wrong)) -> Finding {
    let mut finding = Finding::new(Severity::Error, wrong.code, format!("{what} {}", wrong.message));
    finding.help = wrong.help;
    finding
}

//! `plan check`, and what `run` needs of a plan file: its text, and what it would do.

use std::path::Path;

use sandbox::{Host, Launcher};
use serde::Serialize;

use super::args::PlanFile;
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::printer::Printer;
use super::rooms::refused;
use super::settings::Settings;
use crate::git::{self, Git, Repository};
use crate::model::plan::Plan;
use crate::model::{AgentName, CommitId, RepoPath};
use crate::plan::{self, Finding, Findings, MAX_FILE, Preview};
use crate::report::preview::render;
use crate::report::{Envelope, text};
use crate::workspace::{HostEnvironment, pin};

/// Data of `plan check` of a plan that is accepted. Of one that is refused, `error.details` has `file` and `findings`.
#[derive(Debug, Serialize)]
struct CheckData {
    /// The file, as it was typed.
    file: String,
    /// The plan's name.
    plan: AgentName,
    /// Its agents, in the order of merging.
    agents: Vec<AgentName>,
    /// Warnings.
    findings: Vec<Finding>,
}

/// Shows everything that is wrong, or doubtful, in a plan. Inside a repository, also what does not fit its newest commit.
pub(super) fn check(args: &PlanFile, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let label = args.file.display().to_string();
    let text = read(&settings.resolve(&args.file), &label)?;
    let (plan, mut findings) = load(&label, &text, settings)?;
    findings.extend(against_repository(&plan, settings, printer)?);
    findings.extend(against_machine(&plan)?);
    warn_of_paths(&plan, printer);
    let counted = match findings.len() {
        0 => String::new(),
        count => format!(", {}", text::count(count as u64, "warning", "warnings")),
    };
    let agents = text::count(text::len(&plan.agents), "agent", "agents");
    let shown = plan::render(&label, &text, &findings, settings.look.color);
    printer.answer(&format!("{shown}{}: a good plan, {agents}{counted}\n", text::clean(&label)));
    let agents = Preview::new(&plan).agents.into_iter().map(|agent| agent.name).collect();
    let data = CheckData { file: label, plan: plan.name, agents, findings };
    printer.json(&Envelope::answer("plan check", None, data, printer.warnings()));
    Ok(Exit::Complete)
}

/// The text of a plan file.
pub(super) fn read(path: &Path, label: &str) -> Result<String, Error> {
    let cannot = |source: std::io::Error| {
        let error = Error::new(ErrorKind::Usage, format!("cannot read the plan `{label}`"));
        let missing = source.kind() == std::io::ErrorKind::NotFound;
        let error = error.because(source);
        if missing { error.hint("`sandbox init` writes a starter plan") } else { error }
    };
    // So that a folder, a device or a huge file by mistake is no trouble. The reader of plans names the bound.
    let metadata = path.metadata().map_err(cannot)?;
    if !metadata.is_file() {
        return Err(Error::new(ErrorKind::Usage, format!("the plan `{label}` is not a file")));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(cannot)?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_FILE as u64 + 1), &mut bytes).map_err(cannot)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::new(ErrorKind::Plan, format!("the plan `{label}` is not text in UTF-8: byte {at} is wrong"))
    })
}

/// The plan and its warnings; an error with everything that was found where it is refused.
pub(super) fn load(label: &str, text: &str, settings: &Settings) -> Result<(Plan, Vec<Finding>), Error> {
    plan::load(label, text).map_err(|findings: Findings| {
        let shown = findings.render(settings.err_look.color);
        refused(&findings, shown)
    })
}

/// What would be done, and nothing else: for `run --dry-run`.
#[expect(clippy::unnecessary_wraps, reason = "every verb has this form")]
pub(super) fn preview(plan: &Plan, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    warn_of_paths(plan, printer);
    let data = Preview::new(plan);
    printer.answer(&render(&data, settings.look));
    printer.json(&Envelope::answer("run", None, data, printer.warnings()));
    Ok(Exit::Complete)
}

/// What does not fit the newest commit. Nothing outside a repository, and in one without a commit.
fn against_repository(plan: &Plan, settings: &Settings, printer: &mut Printer) -> Result<Vec<Finding>, Error> {
    let paths = match paths_at_head(settings) {
        Ok(Some(paths)) => paths,
        Ok(None) => return Ok(Vec::new()),
        Err(error) => {
            printer.warn(&format!("the contracts were not held against the repository: {error}"));
            return Ok(Vec::new());
        }
    };
    Ok(plan::check_against_tree(plan, paths)?)
}

/// Host paths for which `run` would refuse the plan here: they are not there, or an agent could make them lead elsewhere. No
/// more than a warning, since they are this machine's and not the plan's.
fn warn_of_paths(plan: &Plan, printer: &mut Printer) {
    let Some(environment) = HostEnvironment::of_this_process() else { return };
    if let Err(error) = pin(&environment, plan) {
        printer.warn(&format!("`sandbox run` would refuse the plan on this machine: {error}"));
    }
}

/// What this machine cannot enforce.
fn against_machine(plan: &Plan) -> Result<Vec<Finding>, Error> {
    // A probe takes longer than all the rest.
    let environment = HostEnvironment::of_this_process().filter(|_| plan::depends_on_machine(plan));
    let Some(environment) = environment else {
        return Ok(Vec::new());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Error::new(ErrorKind::Environment, "cannot start what watches a box").because(error))?;
    let host = runtime.block_on(Host::probe(&Launcher::new(&environment.program)));
    Ok(plan::check_against_machine(plan, &host))
}

fn paths_at_head(settings: &Settings) -> Result<Option<Vec<RepoPath>>, git::Error> {
    let repository = match Git::find(None).and_then(|git| Repository::discover(&git, &settings.dir)) {
        Ok(repository) => repository,
        Err(git::Error::NotARepository { .. } | git::Error::GitMissing { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let head = repository.load_head()?;
    let Some(commit) = head.commit() else { return Ok(None) };
    paths_of(&repository, commit).map(Some)
}

/// Every path that a commit has.
pub(super) fn paths_of(repository: &Repository, commit: &CommitId) -> Result<Vec<RepoPath>, git::Error> {
    let tree = repository.load_commit(commit)?.tree;
    Ok(repository.load_tree(&tree)?.into_iter().map(|(path, _)| path).collect())
}

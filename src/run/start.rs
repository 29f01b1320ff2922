//! The start of a run: its number, its folder, the pinned base, the first event.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::coordinator::Options;
use super::error::Error;
use super::hooks::{HookSet, Runner};
use super::recorder::{Observer, Recorder};
use super::site::Site;
use crate::git::{Head, RefEdit};
use crate::model::change::GitProgressState;
use crate::model::event::{AgentBrief, EventKind, RunStarted, Subject};
use crate::model::plan::{Hooks, PinnedPaths, Plan, RunSettings};
use crate::model::{CommitId, RefName, RunId};
use crate::store::lock::{Patience, RepositoryLock, waiting_words};
use crate::store::{JournalWriter, Record, RunDir, atomic, process, runs};

/// What a run starts from.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// What HEAD was.
    pub(super) head: Head,
    /// The branch the result is meant for.
    pub(super) target: Option<RefName>,
    /// The target's tip, or HEAD where there is no target: what worktrees are made from.
    pub(super) base: CommitId,
}

/// What keeps agents apart in a run, and what does not.
#[derive(Debug)]
pub(super) struct Isolation {
    /// The layers there are, by name.
    pub(super) layers: Vec<String>,
    /// Those that are missing.
    pub(super) degraded: std::collections::BTreeSet<sandbox::Layer>,
    /// Where the host paths of the plan lead.
    pub(super) pinned: PinnedPaths,
}

/// Finds out what a run of `plan` would start from. Creates nothing.
pub(super) fn origin(site: &Site, plan: &Plan) -> Result<Origin, Error> {
    site.repository.require_top_level()?;
    let head = site.load_head()?;
    let target = match &plan.target {
        Some(branch) => Some(RefName::branch(branch).map_err(|_| Error::NoTarget { branch: branch.clone() })?),
        None => head.branch().cloned(),
    };
    let base = match &target {
        Some(target) => {
            let tip = site.repository.load_ref(target)?;
            tip.map(CommitId::from).ok_or_else(|| Error::NoTarget { branch: target.short().to_owned() })?
        }
        None => head.require_commit()?.clone(),
    };
    // A sparse checkout needs only a part of the files, and agents have the same part.
    if site.repository.is_partial_clone() && !site.repository.is_sparse() {
        site.repository.require_files(&base)?;
    }
    Ok(Origin { head, target, base })
}

/// Makes the run known: from here on it has a number, a folder and a journal.
pub(super) fn start(
    site: &Site,
    plan: &Plan,
    options: &Options,
    origin: &Origin,
    isolation: Isolation,
    (hooks, kill): (HookSet, CancellationToken),
    mut observer: Box<dyn Observer>,
) -> Result<Recorder, Error> {
    site.require_writable()?;
    site.require_room()?;
    site.sweep_scratch();
    let land = options.land;
    let (run, lock) = {
        let waiting = |holder: Option<&crate::store::Holder>| observer.warning(&waiting_words(holder));
        let held = RepositoryLock::acquire(&site.state, Patience::default(), waiting)?;
        runs::create(&site.state, &held, &plan.name, largest_number(site)?, |folder| {
            freeze(site, plan, options, &isolation.pinned, &hooks.user, folder)
        })?
    };
    let started = RunStarted {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        invocation: process::current()?,
        target: origin.target.clone(),
        base: origin.base.clone(),
        base_tree: site.repository.load_commit(&origin.base)?.tree,
        jobs: options.jobs,
        land,
        agents: plan.agents.iter().map(brief).collect(),
        verify_command: plan.verify.as_ref().map(|verify| verify.command.clone()),
        identity: site.identity(),
        git_version: site.repository.git().version().to_string(),
        isolation: isolation.layers,
        degraded: isolation.degraded,
        baseline: baseline(site, &origin.head, run.id())?,
    };
    pin_base(site, run.id(), &origin.base)?;
    let (writer, opened) = JournalWriter::open(&run, lock, site.clock.clone())?;
    let recorder = Recorder::new(writer, &opened.events, observer);
    recorder.run_hooks(Runner::start(hooks, site, &recorder, &opened.events, kill)?);
    recorder.record(Subject::run(), EventKind::RunStarted(Box::new(started)))?;
    Ok(recorder)
}

fn brief(agent: &crate::model::plan::AgentTask) -> AgentBrief {
    AgentBrief {
        name: agent.name.clone(),
        title: agent.title.clone(),
        after: agent.after.clone(),
        attempts: agent.attempts,
    }
}

/// Writes what never changes again into the new folder.
fn freeze(
    site: &Site,
    plan: &Plan,
    options: &Options,
    pinned: &PinnedPaths,
    user_hooks: &Hooks,
    folder: &RunDir,
) -> Result<(), crate::store::Error> {
    atomic::write(&folder.plan(), options.plan_text.as_bytes())?;
    let mut names: Vec<String> = plan.agents.iter().flat_map(|agent| agent.sandbox.env.clone()).collect();
    names.extend(plan.verify.iter().flat_map(|verify| verify.sandbox.env.clone()));
    names.sort();
    names.dedup();
    let settings = RunSettings {
        plan: plan.clone(),
        land: options.land,
        passed_env: names,
        worktrees_root: site.worktrees_root.clone(),
        common_dir: Some(site.repository.common_dir().to_owned()),
        pinned_paths: pinned.clone(),
        user_hooks: user_hooks.clone(),
        extra: std::collections::BTreeMap::new(),
    };
    atomic::write_json(&folder.settings(), &settings)?;
    atomic::write_json(&folder.host(), &options.host)
}

fn pin_base(site: &Site, run: &RunId, base: &CommitId) -> Result<(), Error> {
    let pin = RefEdit::Create { name: RefName::base(run), new: base.object().clone() };
    Ok(site.repository.swap_refs(&[pin], "sandbox: base")?.require()?)
}

/// The largest run number that a ref carries, be it of a run that this repository has no record of.
fn largest_number(site: &Site) -> Result<u64, Error> {
    let mut largest = 0;
    for prefix in ["refs/heads/sandbox/", "refs/sandbox/"] {
        for reference in site.repository.load_refs(prefix)? {
            let run = reference.name.as_str().strip_prefix(prefix).and_then(|rest| rest.split('/').next());
            let number = run.and_then(|run| run.parse::<RunId>().ok()).map_or(0, |run| run.number());
            largest = largest.max(number);
        }
    }
    Ok(largest)
}

/// The user's repository as it is now.
fn baseline(site: &Site, head: &Head, run: &RunId) -> Result<GitProgressState, Error> {
    let repository = &site.repository;
    let mut state = GitProgressState {
        enabled: true,
        available: true,
        repo_root: repository.top_level().map(|path| path.display().to_string()),
        branch: head.branch().map(|branch| branch.short().to_owned()),
        head: head.commit().cloned(),
        upstream: repository.load_upstream()?.map(|upstream| upstream.name.short().to_owned()),
        baseline_dirty_paths: Vec::new(),
        baseline_untracked_paths: Vec::new(),
        baseline_ignored_count: 0,
        baseline_hashes: std::collections::BTreeMap::new(),
        baseline_byte_hashes: Vec::new(),
        session_id: run.clone(),
        session_ref: Some(RefName::base(run)),
        checkpoints: vec![baseline_checkpoint(head)],
        last_change_set: None,
    };
    if repository.top_level().is_some() {
        let status = repository.load_status()?;
        state.baseline_dirty_paths = status.changed.iter().map(|entry| entry.path.clone()).collect();
        state.baseline_untracked_paths = status.untracked;
        state.baseline_ignored_count = status.ignored as u64;
        state.set_baseline_hashes(status.hashes);
    }
    Ok(state)
}

fn baseline_checkpoint(head: &Head) -> crate::model::change::GitCheckpoint {
    crate::model::change::GitCheckpoint {
        id: "baseline".to_owned(),
        turn: None,
        kind: crate::model::change::CheckpointKind::Baseline,
        head: head.commit().cloned(),
        patch_path: None,
        commit_sha: None,
        changed_paths: Vec::new(),
        verifier_command: None,
        verifier_passed: None,
    }
}

/// The plan a run was started with.
pub(super) fn load_settings(run: &RunDir) -> Result<RunSettings, Error> {
    let path = run.settings();
    crate::store::json::load(&path)?.ok_or_else(|| missing(&path))
}

fn missing(path: &Path) -> Error {
    crate::store::Error::NotFound { what: "file", name: path.display().to_string(), known: Vec::new() }.into()
}

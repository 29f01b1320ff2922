//! The rehearsal of `doctor`: an agent in a scratch repository, from the worktree to the harvest, as in a run. It commits, and
//! what it made must be in the repository afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use sandbox::Host;
use tokio_util::sync::CancellationToken;

use crate::agent::{self, Assignment, attempt::with_causes};
use crate::change::{Capturer, Snapshot};
use crate::git::{Access, Command, Git, Place, Repository};
use crate::model::event::{Event, EventKind, Subject};
use crate::model::{AgentName, AttemptOutcome, RefName, RunId};
use crate::plan::{CompiledContract, Single};
use crate::report::doctor::LayerCheck;
use crate::store::{self, Occupant, Record, RepoKey, StateDir, Workplaces};
use crate::workspace::{Commission, HostEnvironment, Surroundings, create, require_fit};

/// How long it may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// What the agent does.
const WORK: &str = "echo made > made && git add made && git commit -q -m made && echo more > more";

/// Listens to the attempt: the reason for its end is told where it is none to be glad of.
#[derive(Debug)]
struct Listener {
    run: RunId,
    reason: std::sync::Mutex<String>,
}

impl Record for Listener {
    fn record(&self, subject: Subject, kind: EventKind) -> Result<Event, store::Error> {
        if let (EventKind::AttemptFinished(finished), Ok(mut reason)) = (&kind, self.reason.lock()) {
            reason.clone_from(&finished.reason);
        }
        Ok(Event { v: 1, seq: 1, timestamp: Timestamp::now(), run_id: self.run.clone(), subject, kind })
    }
}

/// Rehearses, and says how it went.
pub(super) async fn rehearse(git: &Git, host: &Host, environment: &HostEnvironment) -> LayerCheck {
    let done = tokio::time::timeout(PATIENCE, perform(git, host, environment)).await;
    let done = done.unwrap_or_else(|_| Err(format!("not done within {} s", PATIENCE.as_secs())));
    LayerCheck {
        name: "git",
        present: done.is_ok(),
        probed: "having an agent commit in a scratch repository, and taking its work in",
        fix: done.is_err().then(|| "mend what is named; SANDBOX_LOG=debug tells more".to_owned()),
        found: done.err().unwrap_or_else(|| "its commit and its files are there".to_owned()),
    }
}

async fn perform(git: &Git, host: &Host, environment: &HostEnvironment) -> Result<(), String> {
    let scratch = store::Scratch::of_user("doctor").map_err(|error| told(&error))?;
    let root = scratch.path().canonicalize().map_err(|error| told(&error))?;
    let (folder, worktrees) = (root.join("repository"), root.join("worktrees"));
    let repository = make_repository(git, &folder)?;
    let (name, run): (AgentName, RunId) = match ("doctor".parse(), "doctor-1".parse()) {
        (Ok(name), Ok(run)) => (name, run),
        (Err(error), _) | (_, Err(error)) => return Err(told(&error)),
    };
    let state = StateDir::in_common_dir(repository.common_dir());
    let run_dir = state.run(&run);
    store::atomic::create_dir(run_dir.root()).map_err(|error| told(&error))?;
    let surroundings = Surroundings::load(&repository, &worktrees).map_err(|error| told(&error))?;
    require_fit(&surroundings, environment).map_err(|error| told(&error))?;
    let head = repository.load_head().map_err(|error| told(&error))?;
    let fork = head.require_commit().map_err(|error| told(&error))?.clone();
    let key = RepoKey::of_common_dir(repository.common_dir());
    let workspace = create(&Commission {
        repository: &repository,
        head: &head,
        state: &state,
        environment,
        place: Workplaces::new(&worktrees, &key).place(&run, &Occupant::agent(&name)),
        fork: fork.clone(),
        stand: Place::NewBranch(RefName::agent_branch(&run, &name)),
        reason: "sandbox doctor".to_owned(),
    })
    .map_err(|error| told(&error))?;
    let plan = Single::new(name.as_str(), ["sh", "-c", WORK].map(str::to_owned).to_vec()).into_plan();
    let plan = plan.map_err(|findings| findings.to_string())?;
    let task = plan.agents.first().ok_or("no agent")?;
    let contract = CompiledContract::new(&task.contract).map_err(|error| told(&error))?;
    let capturer = Capturer {
        repository: repository.clone(),
        surroundings,
        environment: environment.clone(),
        pinned: BTreeMap::new(),
        host: host.clone(),
        may_lack: BTreeSet::new(),
        incoming: state.incoming(),
        date: 0,
        pack_size: 64 << 20,
        memory: 1 << 30,
        timeout: PATIENCE,
    };
    let tree = repository.load_commit(&fork).map_err(|error| told(&error))?.tree;
    let fork = Snapshot { commit: fork, tree };
    let journal = Listener { run, reason: std::sync::Mutex::default() };
    let end = agent::attempt::run(Assignment {
        run: &run_dir,
        task,
        contract: &contract,
        attempt: 1,
        workspace: &workspace,
        fork: &fork,
        latest: fork.clone(),
        branch_at: fork.commit.clone(),
        setup: None,
        before: None,
        capturer: &capturer,
        journal: &journal,
        stop: CancellationToken::new(),
        kill: CancellationToken::new(),
    });
    let end = end.await.map_err(|error| told(&error))?;
    if end.outcome != AttemptOutcome::Completed {
        let reason = journal.reason.into_inner().unwrap_or_default();
        return Err(format!("{}: {reason}", end.outcome));
    }
    let entries = repository.load_tree(&end.latest.tree).map_err(|error| told(&error))?;
    let names: Vec<String> = entries.into_iter().map(|(path, _)| path.to_string()).collect();
    if names == ["made", "more"] { Ok(()) } else { Err(format!("its files are not there, but {names:?}")) }
}

fn make_repository(git: &Git, folder: &Path) -> Result<Repository, String> {
    let made = Command::new(git, Access::Write, "init").arg("-q").arg(folder).success().map(drop);
    made.map_err(|error| told(&error))?;
    let commit = Command::new(git, Access::Write, "commit").folder(folder);
    let who = [("user.name", "sandbox"), ("user.email", "sandbox@localhost"), ("commit.gpgSign", "false")];
    let commit = who.iter().fold(commit, |commit, (key, value)| commit.config(key, value));
    commit.args(["-q", "--allow-empty", "-m", "scratch"]).success().map_err(|error| told(&error)).map(drop)?;
    Repository::discover(git, folder).map_err(|error| told(&error))
}

fn told(error: &dyn std::error::Error) -> String {
    with_causes(error)
}

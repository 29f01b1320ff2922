//! What a capture takes in, whatever the agent did to its worktree and to its git directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use sandbox::{Host, Launcher};
use tokio_util::sync::CancellationToken;
use worktree_sandbox::agent::{self, Assignment, AttemptEnd};
use worktree_sandbox::change::{Capturer, Snapshot};
use worktree_sandbox::git::{Git, Place, Repository};
use worktree_sandbox::model::event::{Event, EventKind, Subject};
use worktree_sandbox::model::plan::{AgentTask, Argv, Contract, Plan};
use worktree_sandbox::model::{AttemptOutcome, RefName, RunId};
use worktree_sandbox::plan::{CompiledContract, Single};
use worktree_sandbox::store::{Occupant, Record, RepoKey, RunDir, StateDir, Workplaces};
use worktree_sandbox::workspace::{Commission, Surroundings, Workspace, create};

use crate::world::World;

/// Remembers what it is told.
#[derive(Debug, Default)]
struct Memory(Mutex<Vec<Event>>);

impl Record for Memory {
    fn record(&self, subject: Subject, kind: EventKind) -> Result<Event, worktree_sandbox::store::Error> {
        let mut events = self.0.lock().unwrap();
        let seq = events.len() as u64 + 1;
        let event = Event { v: 1, seq, timestamp: Timestamp::now(), run_id: "t-1".parse().unwrap(), subject, kind };
        events.push(event.clone());
        Ok(event)
    }
}

/// One agent's worktree in a world, and what is needed to make attempts in it.
struct Bench {
    world: World,
    repository: Repository,
    run: RunDir,
    plan: Plan,
    workspace: Workspace,
    capturer: Capturer,
    fork: Snapshot,
    latest: Snapshot,
    branch_at: worktree_sandbox::model::CommitId,
    attempt: u32,
    memory: Memory,
}

fn sh(script: &str) -> Argv {
    vec!["sh".to_owned(), "-ec".to_owned(), script.to_owned()]
}

impl Bench {
    async fn new(world: World) -> Self {
        let environment = world.environment();
        let git = Git::find_in(None, world.variables()).unwrap();
        let repository = Repository::discover(&git, &world.repo).unwrap();
        let head = repository.load_head().unwrap();
        let fork = head.require_commit().unwrap().clone();
        let state = StateDir::in_common_dir(repository.common_dir());
        let run_id: RunId = "t-1".parse().unwrap();
        let run = state.run(&run_id);
        std::fs::create_dir_all(run.root()).unwrap();
        let root = world.worktrees();
        let key = RepoKey::of_common_dir(repository.common_dir());
        let plan = Single::new("worker", sh("true")).into_plan().unwrap();
        let agent = plan.agents[0].name.clone();
        let place = Workplaces::new(&root, &key).place(&run_id, &Occupant::agent(&agent));
        let workspace = create(&Commission {
            repository: &repository,
            head: &head,
            state: &state,
            environment: &environment,
            place,
            fork: fork.clone(),
            stand: Place::NewBranch(RefName::agent_branch(&run_id, &agent)),
            reason: "test".to_owned(),
        })
        .unwrap();
        let host = Host::probe(&Launcher::new(&environment.program)).await;
        assert!(host.obstacle.is_none(), "{:?}", host.obstacle);
        let capturer = Capturer {
            repository: repository.clone(),
            surroundings: Surroundings::load(&repository, &root).unwrap(),
            environment,
            host,
            incoming: state.incoming(),
            date: 1_700_000_000,
            pack_size: 64 << 20,
            timeout: Duration::from_mins(1),
        };
        let tree = repository.load_commit(&fork).unwrap().tree;
        let fork = Snapshot { commit: fork, tree };
        let (latest, branch_at) = (fork.clone(), fork.commit.clone());
        Self {
            world,
            repository,
            run,
            plan,
            workspace,
            capturer,
            fork,
            latest,
            branch_at,
            attempt: 0,
            memory: Memory::default(),
        }
    }

    fn task(&self) -> &AgentTask {
        &self.plan.agents[0]
    }

    /// Makes an attempt with these commands, a turn each.
    async fn attempt(&mut self, turns: &[&str]) -> AttemptEnd {
        self.attempt += 1;
        self.plan.agents[0].turns = turns.iter().map(|script| sh(script)).collect();
        let contract = CompiledContract::new(&Contract { owns: vec!["**".to_owned()], shares: vec![] }).unwrap();
        let end = agent::attempt::run(Assignment {
            run: &self.run,
            task: self.task(),
            contract: &contract,
            attempt: self.attempt,
            workspace: &self.workspace,
            fork: &self.fork,
            latest: self.latest.clone(),
            branch_at: self.branch_at.clone(),
            setup: None,
            before: None,
            capturer: &self.capturer,
            journal: &self.memory,
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
        })
        .await
        .unwrap();
        self.latest = end.latest.clone();
        self.branch_at = end.branch_at.clone();
        end
    }

    /// The files of the newest snapshot, with their content.
    fn snapshot(&self) -> BTreeMap<String, String> {
        let listed = self.world.git(&["ls-tree", "-r", "-z", "--name-only", self.latest.commit.as_str()]);
        let paths = listed.split('\0').filter(|path| !path.is_empty());
        paths
            .map(|path| (path.to_owned(), self.world.git(&["show", &format!("{}:{path}", self.latest.commit)])))
            .collect()
    }

    fn last_reason(&self) -> String {
        let events = self.memory.0.lock().unwrap();
        events
            .iter()
            .rev()
            .find_map(|event| match &event.kind {
                EventKind::AttemptFinished(finished) => Some(finished.reason.clone()),
                _ => None,
            })
            .unwrap()
    }

    fn worktree(&self) -> &Path {
        self.workspace.place.worktree()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_on_the_disk_is_captured() {
    let mut bench = Bench::new(World::new()).await;
    let before = bench.world.picture();
    let end = bench
        .attempt(&["echo new > new.txt; echo more >> src/a.txt; rm docs/x.txt; mv src/b.txt src/c.txt; ln -s a.txt src/l; printf '\\000\\001' > bin; chmod +x README.md"])
        .await;
    assert_eq!(end.outcome, AttemptOutcome::Completed, "{}", bench.last_reason());
    let files = bench.snapshot();
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["README.md", "bin", "new.txt", "src/a.txt", "src/c.txt", "src/l"]);
    assert_eq!(files["new.txt"], "new");
    assert_eq!(bench.world.picture(), before);
    assert!(bench.repository.common_dir().join("sandbox/runs/t-1/agents/worker/turns/1.1.patch").is_file());
    assert!(bench.worktree().join("new.txt").is_file());
}

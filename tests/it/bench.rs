//! One agent's worktree in a world, and what is needed to make attempts in it through the library.
//!
//! What is told is looked at in the moment it is told: when a turn's end is recorded nothing of the agent runs, so the disk
//! can be compared with what was captured, turn by turn, within one attempt.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use sandbox::{Host, Launcher};
use tokio_util::sync::CancellationToken;
use worktree_sandbox::agent::clock::WorkClock;
use worktree_sandbox::agent::{self, Assignment, AttemptEnd};
use worktree_sandbox::change::{Capturer, Snapshot, bundle};
use worktree_sandbox::git::{Blob, Git, Place, Repository};
use worktree_sandbox::model::change::TurnRecord;
use worktree_sandbox::model::event::{AttemptFinished, AttemptStarted, Event, EventKind, Subject};
use worktree_sandbox::model::plan::{AgentTask, Argv, Contract, Plan};
use worktree_sandbox::model::{AgentName, AttemptOutcome, CommitId, RefName, RunId, TreeId, TurnId};
use worktree_sandbox::plan::{Scope, Single};
use worktree_sandbox::store::{self, Occupant, Record, RepoKey, RunDir, StateDir, Workplace, Workplaces};
use worktree_sandbox::workspace::{Commission, Surroundings, Workspace, create};

use crate::world::World;

/// Longer than any attempt of a test may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Files by path: mode and content. A link's content is its target.
pub(crate) type Files = BTreeMap<Vec<u8>, (String, Vec<u8>)>;

/// What is called with each event, in the moment it is told.
type Observer = dyn Fn(&Event) + Send + Sync;

/// What is called with each piece of output.
type OnOutput = dyn Fn(&[u8]) + Send + Sync;

/// Remembers what it is told, and what agents print.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) output: Mutex<Vec<u8>>,
    observer: Mutex<Option<Arc<Observer>>>,
    on_output: Mutex<Option<Arc<OnOutput>>>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("events", &self.events).finish_non_exhaustive()
    }
}

impl Record for Memory {
    fn record(&self, subject: Subject, kind: EventKind) -> Result<Event, store::Error> {
        let event = {
            let mut events = self.events.lock().unwrap();
            let seq = events.len() as u64 + 1;
            let event = Event { v: 1, seq, timestamp: Timestamp::now(), run_id: run_id(), subject, kind };
            events.push(event.clone());
            event
        };
        let observer = self.observer.lock().unwrap().clone();
        if let Some(observer) = observer {
            observer(&event);
        }
        Ok(event)
    }

    fn output(&self, _: &AgentName, chunk: &[u8]) {
        self.output.lock().unwrap().extend_from_slice(chunk);
        let on_output = self.on_output.lock().unwrap().clone();
        if let Some(on_output) = on_output {
            on_output(chunk);
        }
    }
}

impl Memory {
    /// Has `observer` called with each event, instead of whoever was called before.
    pub(crate) fn observe(&self, observer: impl Fn(&Event) + Send + Sync + 'static) {
        *self.observer.lock().unwrap() = Some(Arc::new(observer));
    }

    /// Has `on_output` called with what agents print.
    pub(crate) fn on_output(&self, on_output: impl Fn(&[u8]) + Send + Sync + 'static) {
        *self.on_output.lock().unwrap() = Some(Arc::new(on_output));
    }

    /// Everything told so far.
    pub(crate) fn told(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    /// What agents printed so far.
    pub(crate) fn printed(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }
}

pub(crate) fn run_id() -> RunId {
    "t-1".parse().unwrap()
}

pub(crate) fn sh(script: &str) -> Argv {
    vec!["sh".to_owned(), "-ec".to_owned(), script.to_owned()]
}

/// One agent's worktree, and what is needed to make attempts in it.
pub(crate) struct Bench {
    pub(crate) world: World,
    pub(crate) repository: Repository,
    pub(crate) state: StateDir,
    pub(crate) run: RunDir,
    pub(crate) plan: Plan,
    pub(crate) workspace: Workspace,
    pub(crate) capturer: Capturer,
    pub(crate) fork: Snapshot,
    pub(crate) latest: Snapshot,
    pub(crate) branch_at: CommitId,
    pub(crate) attempts: u32,
    pub(crate) memory: Arc<Memory>,
    pub(crate) setup: Option<Argv>,
    pub(crate) before: Option<AttemptOutcome>,
    pub(crate) stop: CancellationToken,
    pub(crate) kill: CancellationToken,
}

impl Bench {
    pub(crate) async fn new(world: World) -> Self {
        let environment = world.environment();
        let own_git = world.variables().get(OsStr::new(worktree_sandbox::git::PROGRAM_VARIABLE)).cloned();
        let git = Git::find_in(own_git, world.variables()).unwrap();
        let repository = Repository::discover(&git, &world.repo).unwrap();
        let head = repository.load_head().unwrap();
        let fork = head.require_commit().unwrap().clone();
        let state = StateDir::in_common_dir(repository.common_dir());
        let run = state.run(&run_id());
        fs::create_dir_all(run.root()).unwrap();
        let plan = Single::new("worker", sh("true")).into_plan().unwrap();
        let root = world.worktrees();
        let place = place(&world, &repository, &plan.agents[0].name);
        let workspace = create(&Commission {
            repository: &repository,
            head: &head,
            state: &state,
            environment: &environment,
            place,
            fork: fork.clone(),
            stand: Place::NewBranch(RefName::agent_branch(&run_id(), &plan.agents[0].name)),
            reason: "test".to_owned(),
        })
        .unwrap();
        let host = Host::probe(&Launcher::new(&environment.program)).await;
        assert!(host.obstacle.is_none(), "{:?}", host.obstacle);
        let capturer = Capturer {
            repository: repository.clone(),
            surroundings: Surroundings::load(&repository, &root).unwrap(),
            environment,
            pinned: BTreeMap::new(),
            host,
            may_lack: std::collections::BTreeSet::new(),
            incoming: state.incoming(),
            date: 1_700_000_000,
            pack_size: 64 << 20,
            memory: 8 << 30,
            timeout: Duration::from_secs(30),
        };
        let tree = repository.load_commit(&fork).unwrap().tree;
        let fork = Snapshot { commit: fork, tree };
        let (latest, branch_at) = (fork.clone(), fork.commit.clone());
        Self {
            world,
            repository,
            state,
            run,
            plan,
            workspace,
            capturer,
            fork,
            latest,
            branch_at,
            attempts: 0,
            memory: Arc::default(),
            setup: None,
            before: None,
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
        }
    }

    pub(crate) fn task(&mut self) -> &mut AgentTask {
        &mut self.plan.agents[0]
    }

    pub(crate) fn agent(&self) -> &AgentName {
        &self.plan.agents[0].name
    }

    /// Makes an attempt with these scripts, a turn each.
    pub(crate) async fn attempt(&mut self, turns: &[&str]) -> AttemptEnd {
        self.attempt_with(turns.iter().map(|script| sh(script)).collect()).await
    }

    /// Makes an attempt with these commands, a turn each.
    pub(crate) async fn attempt_with(&mut self, turns: Vec<Argv>) -> AttemptEnd {
        self.attempts += 1;
        self.task().turns = turns;
        let scope = Scope::new(&self.plan.agents[0], &[]).unwrap();
        let attempt = agent::attempt::run(Assignment {
            run: &self.run,
            task: &self.plan.agents[0],
            scope: &scope,
            clerk: None,
            attempt: self.attempts,
            workspace: &self.workspace,
            fork: &self.fork,
            latest: self.latest.clone(),
            branch_at: self.branch_at.clone(),
            setup: self.setup.as_ref(),
            before: self.before,
            capturer: &self.capturer,
            journal: &*self.memory,
            stop: self.stop.clone(),
            kill: self.kill.clone(),
            clock: WorkClock::default(),
        });
        let end = tokio::time::timeout(PATIENCE, attempt).await;
        let end = end.unwrap_or_else(|_| panic!("an attempt that never ends")).unwrap();
        self.latest = end.latest.clone();
        self.branch_at = end.branch_at.clone();
        self.before = Some(end.outcome);
        end
    }

    /// The same, and asserts how it ended.
    #[track_caller]
    pub(crate) fn expect(&self, end: &AttemptEnd, outcome: AttemptOutcome) {
        assert_eq!(end.outcome, outcome, "{}\n{}", self.reason(), self.memory.printed());
    }

    /// Sets what the agent owns.
    pub(crate) fn owns(&mut self, globs: &[&str]) {
        let owns = globs.iter().map(|glob| (*glob).to_owned()).collect();
        self.task().contract = Contract { owns, shares: vec![] };
    }

    pub(crate) fn worktree(&self) -> &Path {
        self.workspace.place.worktree()
    }

    /// The files of a tree.
    pub(crate) fn tree(&self, tree: &TreeId) -> Files {
        let entries = self.repository.load_tree(tree).unwrap().into_iter();
        let content = |entry: &worktree_sandbox::git::Entry| match entry.mode.to_string().as_str() {
            "160000" => entry.id.to_string().into_bytes(),
            _ => match self.repository.load_blob(&entry.id, 1 << 24).unwrap() {
                Blob::Whole(bytes) => bytes,
                Blob::TooLarge { .. } => panic!("a test's file is small"),
            },
        };
        entries.map(|(path, entry)| (path.as_bytes().to_vec(), (entry.mode.to_string(), content(&entry)))).collect()
    }

    /// The newest snapshot's files.
    pub(crate) fn snapshot(&self) -> Files {
        self.tree(&self.latest.tree)
    }

    /// The names in the newest snapshot.
    pub(crate) fn names(&self) -> Vec<String> {
        self.snapshot().keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    /// The record of a turn, as it is on disk.
    #[track_caller]
    pub(crate) fn record(&self, attempt: u32, turn: u32) -> TurnRecord {
        let id = TurnId::new(attempt, turn);
        let record = bundle::load(&self.run, self.agent(), id).unwrap();
        record.unwrap_or_else(|| panic!("no record of {id}"))
    }

    /// Every record there is, in order.
    pub(crate) fn records(&self) -> Vec<TurnRecord> {
        let mut records: Vec<TurnRecord> = fs::read_dir(self.run.turns(self.agent()))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
            .map(|path| serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap())
            .collect();
        records.sort_by_key(|record| (record.turn.attempt, record.turn.turn));
        records
    }

    /// Applies every patch in order to the fork point, and asserts that each gives the tree that its record names, and that
    /// each snapshot is kept by a ref.
    pub(crate) fn check_replay(&self) {
        let mut tree = self.fork.tree.clone();
        let records = self.records();
        assert!(!records.is_empty(), "nothing was recorded");
        for record in records {
            let turn = record.turn;
            assert_eq!(record.previous_tree, tree, "{turn} begins where the turn before ended");
            match &record.patch {
                Some(name) => {
                    let path = self.run.turns(self.agent()).join(name);
                    tree = self.repository.replay_patch(&tree, &path).unwrap();
                    let hash = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(fs::read(&path).unwrap()));
                    assert_eq!(record.patch_sha256, Some(hash), "{turn}");
                    assert!(!record.empty, "{turn}");
                }
                None => assert!(record.empty && record.patch_sha256.is_none(), "{turn}"),
            }
            assert_eq!(tree, record.tree, "{turn}");
            let keep = RefName::snapshot(self.run.id(), self.agent(), turn);
            let kept = self.repository.load_ref(&keep).unwrap();
            assert_eq!(kept.as_ref(), Some(record.snapshot.object()), "{turn} is kept");
            assert_eq!(self.repository.load_commit(&record.snapshot).unwrap().tree, tree, "{turn}");
        }
    }

    /// What the last attempt's end said.
    pub(crate) fn finished(&self) -> AttemptFinished {
        let told = self.memory.told().into_iter().rev();
        let mut ends = told.filter_map(|event| match event.kind {
            EventKind::AttemptFinished(finished) => Some(finished),
            _ => None,
        });
        ends.next().unwrap_or_else(|| panic!("no attempt has ended"))
    }

    /// What each attempt's start said.
    pub(crate) fn started(&self) -> Vec<AttemptStarted> {
        let told = self.memory.told().into_iter();
        told.filter_map(|event| match event.kind {
            EventKind::AttemptStarted(started) => Some(started),
            _ => None,
        })
        .collect()
    }

    pub(crate) fn reason(&self) -> String {
        self.finished().reason
    }

    /// The name of each event told, with its turn where it has one.
    pub(crate) fn event_names(&self) -> Vec<String> {
        let name = |event: &Event| {
            let json = serde_json::to_value(event).unwrap();
            let turn = json.get("turn").and_then(|turn| turn.as_str()).map(|turn| format!(" {turn}"));
            format!("{}{}", json["type"].as_str().unwrap(), turn.unwrap_or_default())
        };
        self.memory.told().iter().map(name).collect()
    }
}

/// Where the agent's worktree lies.
pub(crate) fn place(world: &World, repository: &Repository, agent: &AgentName) -> Workplace {
    let key = RepoKey::of_common_dir(repository.common_dir());
    Workplaces::new(&world.worktrees(), &key).place(&run_id(), &Occupant::agent(agent))
}

/// The files of a folder, as git would see them: without its `.git`, without folders that are repositories of their own,
/// without what is neither file nor link.
pub(crate) fn disk(root: &Path) -> Files {
    fn walk(root: &Path, folder: &Path, found: &mut Files) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec();
                found.insert(name, ("120000".to_owned(), target));
            } else if metadata.is_dir() {
                if path.file_name().unwrap() != ".git" && !path.join(".git").exists() {
                    walk(root, &path, found);
                }
            } else if metadata.is_file() && name != b".git" {
                let mode = if metadata.mode() & 0o100 == 0 { "100644" } else { "100755" };
                // What nobody may read has no content to compare.
                found.insert(name, (mode.to_owned(), fs::read(&path).unwrap_or_default()));
            }
        }
    }
    let mut found = Files::new();
    walk(root, root, &mut found);
    found
}

/// Asserts that two sets of files are the same, and shows where they differ.
#[track_caller]
pub(crate) fn assert_same(what: &str, captured: &Files, disk: &Files) {
    let shown = |files: &Files, path: &Vec<u8>| match files.get(path) {
        Some((mode, content)) => {
            let text: String = content.escape_ascii().to_string().chars().take(80).collect();
            format!("{mode} {text}")
        }
        None => "absent".to_owned(),
    };
    let paths: std::collections::BTreeSet<&Vec<u8>> = captured.keys().chain(disk.keys()).collect();
    let different: Vec<String> = paths
        .into_iter()
        .filter(|path| captured.get(*path) != disk.get(*path))
        .map(|path| {
            format!("  {}: captured {}, on disk {}", path.escape_ascii(), shown(captured, path), shown(disk, path))
        })
        .collect();
    assert!(different.is_empty(), "{what}:\n{}", different.join("\n"));
}

/// The hash of every file below a git directory but those that a run may write: its own folder, refs, reflogs and worktrees.
pub(crate) fn foreign_files(git_dir: &Path) -> BTreeMap<PathBuf, String> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            let ours = ["sandbox", "worktrees", "refs/sandbox", "refs/heads/sandbox", "logs/refs/heads/sandbox"];
            if ours.iter().any(|ours| name == Path::new(ours)) {
                continue;
            }
            if path.symlink_metadata().unwrap().is_dir() {
                walk(root, &path, found);
            } else {
                let content = fs::read(&path).unwrap();
                found.insert(name, hex::encode(<sha2::Sha256 as sha2::Digest>::digest(content)));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(git_dir, git_dir, &mut found);
    found
}

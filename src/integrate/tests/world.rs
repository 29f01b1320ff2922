#![expect(clippy::disallowed_methods, reason = "tests write files as users do")]
//! A repository and a run in it, for tests: real git, a home of its own, a journal in memory.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use tempfile::TempDir;

use crate::change::bundle::{self, Ledger, Turn};
use crate::change::{Captured, Snapshot};
use crate::git::{Access, Command, Git, Input, NewCommit, Repository};
use crate::integrate::facts::signature;
use crate::integrate::{Facts, Fork, Integrated, Integration, Landed, Landing, fork_point, integrate, land};
use crate::model::change::{Actor, GitProgressState};
use crate::model::currency::{Asker, Authority};
use crate::model::event::{
    AgentBrief, AttemptFinished, AttemptStarted, Event, EventKind, Identity, Invocation, RunStarted, Subject,
    TurnFinished, VERSION,
};
use crate::model::plan::{AgentTask, Contract, History, Hooks, LandMode, Plan, SandboxSettings, WorkspaceSettings};
use crate::model::run::RunState;
use crate::model::{AgentName, AttemptOutcome, CommitId, ProcessEnd, RefName, RunId, TreeId, TurnId};
use crate::plan::CompiledContract;
use crate::store::lock::Patience;
use crate::store::{Record, RunDir, StateDir, atomic};

pub(super) fn name(text: &str) -> AgentName {
    text.parse().unwrap()
}

pub(super) fn main_branch() -> RefName {
    "refs/heads/main".parse().unwrap()
}

pub(super) fn date() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// A journal that is kept in memory.
#[derive(Debug)]
pub(super) struct Journal {
    run: RunId,
    events: Mutex<Vec<Event>>,
}

impl Journal {
    fn new(run: &RunId) -> Self {
        Self { run: run.clone(), events: Mutex::new(Vec::new()) }
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.events().iter().map(|event| event.kind.name().to_owned()).collect()
    }

    pub(super) fn state(&self) -> RunState {
        RunState::fold(self.run.clone(), &self.events())
    }

    /// The same, for another journal.
    fn take_in(&self, events: &[(Subject, EventKind)]) {
        for (subject, kind) in events {
            self.record(subject.clone(), kind.clone()).unwrap();
        }
    }
}

impl Record for Journal {
    fn record(&self, subject: Subject, kind: EventKind) -> Result<Event, crate::store::Error> {
        let mut events = self.events.lock().unwrap();
        let seq = events.len() as u64 + 1;
        let event = Event { v: VERSION, seq, timestamp: date(), run_id: self.run.clone(), subject, kind };
        events.push(event.clone());
        Ok(event)
    }
}

/// One change of a tree.
#[derive(Debug, Clone)]
pub(super) enum Edit {
    Put(&'static str, &'static str, String),
    Remove(&'static str),
}

pub(super) fn put(path: &'static str, content: &str) -> Edit {
    Edit::Put(path, "100644", content.to_owned())
}

pub(super) fn gitlink(path: &'static str, commit: &CommitId) -> Edit {
    Edit::Put(path, "160000", commit.to_string())
}

pub(super) fn remove(path: &'static str) -> Edit {
    Edit::Remove(path)
}

/// An agent of the plan.
pub(super) fn task(agent: &str, owns: &[&str], after: &[&str]) -> AgentTask {
    AgentTask {
        name: name(agent),
        title: Some(format!("work of {agent}")),
        contract: Contract { owns: owns.iter().map(|glob| (*glob).to_owned()).collect(), shares: Vec::new() },
        after: after.iter().map(|it| name(it)).collect(),
        attempts: 3,
        turns: Vec::new(),
        workdir: None,
        may_ask: Vec::new(),
        sandbox: SandboxSettings::default(),
    }
}

/// By whose leave something is done, and how it is waited.
pub(super) struct Leave<'a> {
    pub(super) asked: Asker,
    pub(super) authority: Authority,
    pub(super) ending: &'a dyn Fn() -> bool,
    pub(super) pause: &'a dyn Fn(Duration),
}

impl Default for Leave<'_> {
    fn default() -> Self {
        Self { asked: Asker::User, authority: Authority::Granted, ending: &|| false, pause: &|_| {} }
    }
}

/// What an agent did, to be told to a journal.
#[derive(Debug, Clone)]
pub(super) struct Told {
    events: Vec<(Subject, EventKind)>,
}

pub(super) struct World {
    pub(super) folder: TempDir,
    pub(super) git: Git,
    pub(super) repository: Repository,
    pub(super) state_dir: StateDir,
    pub(super) run: RunDir,
    pub(super) plan: Plan,
    pub(super) base: CommitId,
    pub(super) identity: Identity,
    pub(super) journal: RefCell<Journal>,
}

pub(super) const BASE: &[(&str, &str)] = &[
    ("a.txt", "1\n2\n3\n4\n5\n"),
    ("b.txt", "b\n"),
    ("c.txt", "c\n"),
    ("src/lib.rs", "lib\n"),
    (".gitignore", "*.log\n"),
];

impl World {
    pub(super) fn new(agents: Vec<AgentTask>) -> Self {
        Self::with_settings(agents, "")
    }

    pub(super) fn with_settings(agents: Vec<AgentTask>, settings: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("integrate ü ").tempdir().unwrap();
        let home = folder.path().join("home");
        fs::create_dir_all(&home).unwrap();
        let user = "[user]\nname = User\nemail = user@example.com\n[init]\ndefaultBranch = main\n";
        fs::write(home.join(".gitconfig"), format!("{user}{settings}")).unwrap();
        let pairs: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            ("HOME".into(), home.clone().into()),
            ("XDG_CONFIG_HOME".into(), home.join(".config").into()),
        ];
        let git = Git::find_in(None, pairs).unwrap();
        let root = folder.path().join("repo");
        fs::create_dir(&root).unwrap();
        run_git(&git, &root, "init", &["-q", "--initial-branch=main"]);
        for (path, content) in BASE {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), content).unwrap();
        }
        run_git(&git, &root, "add", &["-A"]);
        run_git(&git, &root, "commit", &["-q", "-m", "base"]);
        let repository = Repository::discover(&git, &root).unwrap();
        let base = repository.resolve("main").unwrap();
        let state_dir = StateDir::in_common_dir(repository.common_dir());
        let run = state_dir.run(&"login-1".parse().unwrap());
        atomic::create_dir(run.root()).unwrap();
        let journal = RefCell::new(Journal::new(run.id()));
        let plan = Plan {
            name: name("login"),
            target: None,
            jobs: 2,
            land: LandMode::Manual,
            history: History::default(),
            message: None,
            timeout: None,
            workspace: WorkspaceSettings::default(),
            sandbox: crate::model::plan::SandboxSettings::default(),
            verify: None,
            protect: Vec::new(),
            hooks: Hooks::default(),
            agents,
        };
        let identity = Identity::default();
        let world = Self { folder, git, repository, state_dir, run, plan, base, identity, journal };
        world.begin();
        world
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// Begins with an empty journal and without a candidate.
    pub(super) fn begin(&self) {
        self.run("update-ref", &["-d", RefName::integration(self.run.id()).as_str()]);
        let journal = Journal::new(self.run.id());
        journal.record(Subject::run(), EventKind::RunStarted(Box::new(self.started()))).unwrap();
        drop(self.journal.replace(journal));
    }

    fn started(&self) -> RunStarted {
        let brief = |task: &AgentTask| AgentBrief {
            name: task.name.clone(),
            title: task.title.clone(),
            after: task.after.clone(),
            attempts: task.attempts,
        };
        RunStarted {
            version: "0".to_owned(),
            invocation: Invocation { pid: 1, start_ticks: 1, boot_id: "b".to_owned() },
            target: Some(main_branch()),
            base: self.base.clone(),
            base_tree: self.tree(&self.base),
            jobs: 1,
            land: false,
            agents: self.plan.agents.iter().map(brief).collect(),
            verify_command: None,
            identity: self.identity.clone(),
            git_version: "2".to_owned(),
            isolation: Vec::new(),
            degraded: std::collections::BTreeSet::new(),
            baseline: GitProgressState {
                enabled: true,
                available: true,
                repo_root: None,
                branch: None,
                head: None,
                upstream: None,
                baseline_dirty_paths: Vec::new(),
                baseline_untracked_paths: Vec::new(),
                baseline_ignored_count: 0,
                baseline_hashes: BTreeMap::new(),
                baseline_byte_hashes: Vec::new(),
                session_id: self.run.id().clone(),
                session_ref: None,
                checkpoints: Vec::new(),
                last_change_set: None,
            },
        }
    }

    pub(super) fn run(&self, subcommand: &'static str, arguments: &[&str]) -> String {
        run_git(&self.git, &self.root(), subcommand, arguments)
    }

    pub(super) fn write(&self, path: &str, content: &str) {
        let place = self.root().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    }

    pub(super) fn tree(&self, commit: &CommitId) -> TreeId {
        self.repository.load_commit(commit).unwrap().tree
    }

    pub(super) fn parents(&self, commit: &CommitId) -> Vec<CommitId> {
        self.repository.load_commit(commit).unwrap().parents
    }

    pub(super) fn message(&self, commit: &CommitId) -> String {
        self.repository.load_commit(commit).unwrap().message_text()
    }

    pub(super) fn content(&self, commit: &CommitId, path: &str) -> String {
        self.run("cat-file", &["-p", &format!("{commit}:{path}")])
    }

    pub(super) fn paths(&self, commit: &CommitId) -> Vec<String> {
        self.repository.load_tree(&self.tree(commit)).unwrap().iter().map(|(path, _)| path.to_string()).collect()
    }

    /// A commit with the tree of `from` and these edits.
    pub(super) fn commit(&self, from: &CommitId, parents: &[CommitId], edits: &[Edit]) -> CommitId {
        let index = self.folder.path().join("scratch-index");
        drop(fs::remove_file(&index));
        let command = |subcommand| {
            Command::new(&self.git, Access::Write, subcommand).folder(self.root()).env("GIT_INDEX_FILE", &index)
        };
        drop(command("read-tree").arg(from.as_str()).success().unwrap());
        let mut lines = Vec::new();
        for edit in edits {
            match edit {
                Edit::Put(path, "160000", commit) => lines.extend(format!("160000 {commit}\t{path}\0").into_bytes()),
                Edit::Put(path, mode, content) => {
                    let hashed = command("hash-object")
                        .args(["-w", "--stdin", "--no-filters"])
                        .input(Input::Bytes(content.as_bytes().to_vec()))
                        .success()
                        .unwrap();
                    lines.extend(format!("{mode} {}\t{path}\0", hashed.line().unwrap()).into_bytes());
                }
                Edit::Remove(path) => lines.extend(format!("0 {}\t{path}\0", "0".repeat(40)).into_bytes()),
            }
        }
        let input = Input::Bytes(lines);
        drop(command("update-index").args(["-z", "--index-info"]).input(input).success().unwrap());
        let tree: TreeId = command("write-tree").success().unwrap().line().unwrap().parse().unwrap();
        let author = signature(&self.identity, date());
        let new = NewCommit { tree: &tree, parents, author: &author, committer: &author, message: "work" };
        self.repository.write_commit(&new).unwrap()
    }

    /// The user commits to the target, which is checked out.
    pub(super) fn user_commits(&self, path: &str, content: &str) -> CommitId {
        self.write(path, content);
        self.run("add", &[path]);
        self.run("commit", &["-q", "-m", "user"]);
        self.repository.resolve("main").unwrap()
    }

    /// What an attempt with one turn did, whose snapshot is this.
    pub(super) fn attempt(
        &self,
        agent: &str,
        number: u32,
        fork: &CommitId,
        before: &CommitId,
        after: &CommitId,
    ) -> Told {
        let task = self.plan.agent(&name(agent)).unwrap();
        let fork = Snapshot { commit: fork.clone(), tree: self.tree(fork) };
        let snapshot = Snapshot { commit: after.clone(), tree: self.tree(after) };
        let compiled = CompiledContract::new(&task.contract).unwrap();
        let turn = TurnId::new(number, 1);
        let ledger = Ledger {
            repository: &self.repository,
            run: &self.run,
            agent: &task.name,
            adapter: "command",
            fork: &fork,
            contract: &task.contract,
            compiled: &compiled,
        };
        let captured = Captured {
            snapshot: snapshot.clone(),
            agent_head: None,
            history_rewritten: false,
            tips: Vec::new(),
            ignored: Vec::new(),
            refused: Vec::new(),
            lost: Vec::new(),
        };
        let record = bundle::write(
            &ledger,
            &Turn {
                id: turn,
                label: "t",
                actor: Actor::SubAgent,
                tool: None,
                base: before,
                previous: &self.tree(before),
                captured: &captured,
                ignored_before: &HashSet::new(),
                end: Some(ProcessEnd::Exited(0)),
                interrupted: false,
                live: false,
            },
        )
        .unwrap();
        let outcome = if snapshot.tree == fork.tree { AttemptOutcome::NoChanges } else { AttemptOutcome::Completed };
        let started = AttemptStarted {
            fork_point: fork.commit,
            base_ref: before.clone(),
            base_tree: self.tree(before),
            branch: RefName::agent_branch(self.run.id(), &task.name),
            worktree: PathBuf::from("/nowhere"),
            adapter: "command".to_owned(),
            granted: Vec::new(),
            degraded: std::collections::BTreeSet::new(),
        };
        let finished = TurnFinished {
            label: "t".to_owned(),
            snapshot: snapshot.commit.clone(),
            tree: snapshot.tree.clone(),
            patch: None,
            changed: 1,
            end: Some(ProcessEnd::Exited(0)),
            leftover_processes: 0,
            interrupted: false,
            live: false,
            empty: record.empty,
        };
        let ended = ended(outcome, Some(&snapshot));
        let subject = Subject::attempt(&task.name, number);
        let events = vec![
            (subject.clone(), EventKind::AttemptStarted(started)),
            (Subject::turn(&task.name, turn), EventKind::TurnFinished(finished)),
            (subject, EventKind::AttemptFinished(ended)),
        ];
        Told { events }
    }

    pub(super) fn tell(&self, told: &Told) {
        self.journal.borrow().take_in(&told.events);
    }

    /// An agent's first attempt, from the base or another fork point, told at once.
    pub(super) fn works(&self, agent: &str, fork: &CommitId, edits: &[Edit]) -> CommitId {
        let snapshot = self.commit(fork, std::slice::from_ref(fork), edits);
        self.tell(&self.attempt(agent, 1, fork, fork, &snapshot));
        snapshot
    }

    pub(super) fn state(&self) -> RunState {
        self.journal.borrow().state()
    }

    /// The fork point of an agent whose prerequisites allow one.
    pub(super) fn fork(&self, agent: &str) -> CommitId {
        let state = self.state();
        match fork_point(&self.facts(&state), &name(agent)).unwrap() {
            Fork::Commit(commit) => commit,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn facts<'a>(&'a self, state: &'a RunState) -> Facts<'a> {
        Facts {
            repository: &self.repository,
            run: &self.run,
            plan: &self.plan,
            state,
            base: &self.base,
            identity: &self.identity,
            started_at: date(),
        }
    }

    pub(super) fn integrate(&self) -> Integrated {
        self.try_integrate().unwrap()
    }

    pub(super) fn try_integrate(&self) -> Result<Integrated, crate::integrate::Error> {
        self.integrate_with(&Leave::default())
    }

    pub(super) fn integrate_with(&self, leave: &Leave<'_>) -> Result<Integrated, crate::integrate::Error> {
        let state = self.state();
        let journal = self.journal.borrow();
        integrate(&Integration {
            facts: self.facts(&state),
            target: Some(main_branch()),
            onto: self.repository.resolve("main").unwrap(),
            asked: leave.asked,
            authority: leave.authority,
            ending: leave.ending,
            pause: leave.pause,
            journal: &*journal,
        })
    }

    pub(super) fn land(&self, integrated: &Integrated) -> Landed {
        self.try_land(integrated, &main_branch()).unwrap()
    }

    pub(super) fn try_land(
        &self,
        integrated: &Integrated,
        target: &RefName,
    ) -> Result<Landed, crate::integrate::Error> {
        self.land_with(integrated, target, &Leave::default())
    }

    pub(super) fn land_with(
        &self,
        integrated: &Integrated,
        target: &RefName,
        leave: &Leave<'_>,
    ) -> Result<Landed, crate::integrate::Error> {
        let state = self.state();
        let journal = self.journal.borrow();
        land(&Landing {
            repository: &self.repository,
            state_dir: &self.state_dir,
            run: &self.run,
            state: &state,
            target,
            expected_tip: &integrated.onto,
            candidate: &integrated.candidate,
            identity: &self.identity,
            started_at: date(),
            timeout: Duration::from_mins(1),
            patience: Patience::default(),
            notice: &|_| {},
            asked: leave.asked,
            authority: leave.authority,
            ending: leave.ending,
            pause: leave.pause,
            journal: &*journal,
        })
    }

    /// Everything of the user's: refs that are not ours, HEAD, index, and every file with its content.
    pub(super) fn users(&self) -> BTreeMap<String, Vec<u8>> {
        self.users_of(&self.root())
    }

    pub(super) fn users_of(&self, root: &Path) -> BTreeMap<String, Vec<u8>> {
        let mut seen = BTreeMap::new();
        walk(root, root, &mut seen);
        let refs = self.run("for-each-ref", &["--format=%(refname) %(objectname)"]);
        let refs: Vec<&str> = refs
            .lines()
            .filter(|it| !it.starts_with("refs/sandbox/") && !it.starts_with("refs/heads/sandbox/"))
            .collect();
        seen.insert("refs".to_owned(), refs.join("\n").into_bytes());
        let git_dir = run_git(&self.git, root, "rev-parse", &["--absolute-git-dir"]);
        for name in [
            "index",
            "HEAD",
            "ORIG_HEAD",
            "MERGE_HEAD",
            "CHERRY_PICK_HEAD",
            "REVERT_HEAD",
            "logs/HEAD",
            "config.worktree",
        ] {
            seen.insert(format!("git {name}"), fs::read(Path::new(&git_dir).join(name)).unwrap_or_default());
        }
        for name in ["config", "logs/refs/stash", "info/exclude", "info/sparse-checkout"] {
            let place = self.repository.common_dir().join(name);
            seen.insert(format!("common {name}"), fs::read(place).unwrap_or_default());
        }
        seen
    }
}

fn walk(root: &Path, folder: &Path, seen: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let key = format!("file {} {:o}", path.strip_prefix(root).unwrap().display(), metadata.permissions().mode());
        if metadata.is_dir() {
            // What lies in repositories within is the user's, too.
            if folder != root || path.file_name().unwrap() != ".git" {
                seen.insert(key, Vec::new());
                walk(root, &path, seen);
            }
        } else if metadata.is_symlink() {
            seen.insert(key, fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
        } else {
            seen.insert(key, if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() });
        }
    }
}

fn ended(outcome: AttemptOutcome, snapshot: Option<&Snapshot>) -> AttemptFinished {
    AttemptFinished {
        outcome,
        reason: String::new(),
        end: None,
        limit: None,
        leftover_processes: 0,
        duration_ms: 1,
        snapshot: snapshot.map(|it| it.commit.clone()),
        tree: snapshot.map(|it| it.tree.clone()),
        changed_since_fork: 1,
        // Never believed: the tests say so.
        outside_since_fork: Vec::new(),
        hints: Vec::new(),
    }
}

/// What an attempt told that ended otherwise.
pub(super) fn failed(agent: &str, number: u32, outcome: AttemptOutcome) -> Told {
    let subject = Subject::attempt(&name(agent), number);
    Told { events: vec![(subject, EventKind::AttemptFinished(ended(outcome, None)))] }
}

pub(super) fn run_git(git: &Git, folder: &Path, subcommand: &'static str, arguments: &[&str]) -> String {
    let output = Command::new(git, Access::Write, subcommand).args(arguments).folder(folder).success().unwrap();
    String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
}

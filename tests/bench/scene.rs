//! A repository of some size, and what is needed to work in it as a run does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sandbox::{Host, Launcher};
use tempfile::TempDir;
use worktree_sandbox::change::{Capturer, Snapshot};
use worktree_sandbox::git::{Git, Head, Repository};
use worktree_sandbox::model::{CommitId, RunId};
use worktree_sandbox::store::{RepoKey, StateDir, Workplaces};
use worktree_sandbox::workspace::{HostEnvironment, Surroundings};

/// How many branches stand ready to be merged.
pub(crate) const BRANCHES: usize = 100;

/// How many files lie in one folder.
const IN_A_FOLDER: usize = 50;

/// The repository and its surroundings. Gone when dropped.
pub(crate) struct Scene {
    pub(crate) files: usize,
    pub(crate) root: PathBuf,
    pub(crate) repo: PathBuf,
    pub(crate) head: Head,
    pub(crate) fork: Snapshot,
    pub(crate) state: StateDir,
    pub(crate) work: Workplaces,
    pub(crate) capturer: Capturer,
    pub(crate) run: RunId,
    _dir: TempDir,
}

impl Scene {
    pub(crate) async fn new(files: usize) -> Self {
        let dir = tempfile::Builder::new().prefix("sandbox-bench-").tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let repo = root.join("home/repo");
        fs::create_dir_all(&repo).unwrap();
        make_repository(&root, &repo, files);
        let variables = variables(&root);
        let environment = HostEnvironment { home: root.join("home"), variables: variables.clone(), program: program() };
        let git = Git::find_in(None, variables).unwrap();
        let repository = Repository::discover(&git, &repo).unwrap();
        let head = repository.load_head().unwrap();
        let commit = head.require_commit().unwrap().clone();
        let tree = repository.load_commit(&commit).unwrap().tree;
        let state = StateDir::in_common_dir(repository.common_dir());
        fs::create_dir_all(state.root()).unwrap();
        let worktrees = root.join("worktrees");
        let host = Host::probe(&Launcher::new(program())).await;
        assert!(host.obstacle.is_none(), "no boxes can be made here: {:?}", host.obstacle);
        let capturer = Capturer {
            surroundings: Surroundings::load(&repository, &worktrees).unwrap(),
            may_lack: std::collections::BTreeSet::new(),
            incoming: state.incoming(),
            environment,
            pinned: std::collections::BTreeMap::new(),
            host,
            date: 1_700_000_000,
            pack_size: 1 << 30,
            memory: 8 << 30,
            timeout: Duration::from_mins(5),
            repository: repository.clone(),
        };
        let work = Workplaces::new(&worktrees, &RepoKey::of_common_dir(repository.common_dir()));
        let fork = Snapshot { commit, tree };
        Self { files, root, repo, head, fork, state, work, capturer, run: "bench-1".parse().unwrap(), _dir: dir }
    }

    /// Runs plain git, as the user would.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.root, &self.repo, arguments)
    }

    /// The same in another folder.
    pub(crate) fn git_in(&self, folder: &Path, arguments: &[&str]) -> String {
        git(&self.root, folder, arguments)
    }

    /// The program, as the user would start it.
    pub(crate) fn sandbox(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.env_clear().envs(variables(&self.root)).current_dir(&self.repo).args(arguments);
        command.env("SANDBOX_WORKTREES", self.root.join("worktrees")).stdin(Stdio::null());
        command
    }

    /// The tip of branch `number`, which changes one file of its own.
    pub(crate) fn branch(&self, number: usize) -> CommitId {
        self.git(&["rev-parse", &format!("refs/heads/work-{number}")]).parse().unwrap()
    }
}

pub(crate) fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_sandbox"))
}

fn variables(root: &Path) -> BTreeMap<OsString, OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    [("HOME", root.join("home").into_os_string()), ("PATH", path), ("LANG", "C.UTF-8".into())]
        .map(|(name, value)| (name.into(), value))
        .into()
}

fn git(root: &Path, folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.env_clear().envs(variables(root)).current_dir(folder).args(arguments).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// The path of file `number`.
pub(crate) fn path(number: usize) -> String {
    format!("src/part{:03}/{:02}/file{number}.txt", number / (IN_A_FOLDER * 20), number / IN_A_FOLDER % 20)
}

fn content(number: usize, change: &str) -> String {
    let lines = (0..20).map(|line| format!("file {number}, line {line}: some words to fill it{change}\n"));
    lines.collect()
}

/// A repository of so many files, and branches that each change one of them.
fn make_repository(root: &Path, repo: &Path, files: usize) {
    fs::write(root.join("home/.gitconfig"), "[user]\n\tname = Bench\n\temail = bench@example.org\n").unwrap();
    git(root, repo, &["init", "-q", "-b", "main"]);
    let mut import = Command::new("git");
    import.env_clear().envs(variables(root)).current_dir(repo).args(["fast-import", "--quiet"]);
    let mut child = import.stdin(Stdio::piped()).spawn().unwrap();
    let mut stream = std::io::BufWriter::new(child.stdin.take().unwrap());
    let who = "Bench <bench@example.org> 1700000000 +0000";
    let mut commit = |branch: &str, from: &str, numbers: &mut dyn Iterator<Item = usize>, change: &str| {
        write!(stream, "commit refs/heads/{branch}\ncommitter {who}\ndata 4\nwork\n{from}").unwrap();
        for number in numbers {
            let text = content(number, change);
            write!(stream, "M 100644 inline {}\ndata {}\n{text}\n", path(number), text.len()).unwrap();
        }
        writeln!(stream).unwrap();
    };
    commit("main", "", &mut (0..files), "");
    for number in 0..BRANCHES {
        let file = number * (files / BRANCHES);
        commit(&format!("work-{number}"), "from refs/heads/main\n", &mut std::iter::once(file), " (changed)");
    }
    drop(stream);
    assert!(child.wait().unwrap().success());
    git(root, repo, &["reset", "-q", "--hard", "main"]);
    git(root, repo, &["status"]);
}

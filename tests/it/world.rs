//! A hermetic world for one test: a home, a repository and a place for worktrees of its own, and nothing else.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use worktree_sandbox::workspace::HostEnvironment;

/// The user that tests run as when they are not to run as root.
pub(crate) const USER: u32 = 12345;

/// Names another copy of the program, for the run of the suite by another user.
pub(crate) const PROGRAM_VARIABLE: &str = "SANDBOX_TEST_PROGRAM";

/// Names the folders in which a world's programs are looked for, for the run of the suite with another git.
pub(crate) const SEARCH_VARIABLE: &str = "SANDBOX_TEST_SEARCH";

/// The program under test.
pub(crate) fn program() -> PathBuf {
    std::env::var_os(PROGRAM_VARIABLE).map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_sandbox")), PathBuf::from)
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// One test's world. Gone when dropped.
pub(crate) struct World {
    root: TempDir,
    /// The directory that `PATH` begins with, for programs of the test's own.
    pub(crate) bin: PathBuf,
    /// The repository.
    pub(crate) repo: PathBuf,
    state: PathBuf,
    extra: BTreeMap<OsString, OsString>,
}

/// How a program ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    /// Asserts the exit code, showing everything if it is another.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// The one JSON value on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON ({error}):\n{}\nstderr:\n{}", self.stdout, self.stderr))
    }

    /// The JSON values on stdout, a line each.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<serde_json::Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON ({error}): {line}")))
            .collect()
    }
}

impl World {
    /// A world with a repository that has one commit: `README.md`, `src/a.txt`, `src/b.txt`, `docs/x.txt`.
    pub(crate) fn new() -> Self {
        let world = Self::without_commits();
        world.write("README.md", "readme\n");
        world.write("src/a.txt", &lines("a"));
        world.write("src/b.txt", &lines("b"));
        world.write("docs/x.txt", "x\n");
        world.commit("base");
        world
    }

    /// A world whose repository has no commit yet.
    pub(crate) fn without_commits() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// The same, somewhere in a folder.
    pub(crate) fn below(folder: &Path) -> Self {
        let root = tempfile::Builder::new().prefix("sandbox-test-").tempdir_in(folder).unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let base = root.path().canonicalize().unwrap();
        let (bin, repo) = (base.join("bin"), base.join("home/repo"));
        let state = base.join("state");
        for folder in [&bin, &repo, &state] {
            fs::create_dir_all(folder).unwrap();
        }
        let world = Self { root, bin, repo, state, extra: BTreeMap::new() };
        fs::write(
            world.home().join(".gitconfig"),
            "[user]\n\tname = Tester\n\temail = tester@example.org\n[init]\n\tdefaultBranch = main\n",
        )
        .unwrap();
        world.git(&["init", "-q"]);
        world
    }

    fn base(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.base().join("home")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.state.clone()
    }

    /// The same world with its state, and so its worktrees, elsewhere.
    pub(crate) fn with_state(mut self, state: PathBuf) -> Self {
        self.state = state;
        self
    }

    /// Where worktrees lie.
    pub(crate) fn worktrees(&self) -> PathBuf {
        self.state().join("sandbox/worktrees")
    }

    /// The program's folder in the repository.
    pub(crate) fn store(&self) -> PathBuf {
        self.repo.join(".git/sandbox")
    }

    /// Sets a variable for every program of this world.
    pub(crate) fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.extra.insert(name.into(), value.as_ref().to_owned());
    }

    pub(crate) fn variables(&self) -> BTreeMap<OsString, OsString> {
        let system = std::env::var(SEARCH_VARIABLE).unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
        let path = format!("{}:{system}", self.bin.display());
        let mut variables: BTreeMap<OsString, OsString> = [
            ("HOME", self.home().into_os_string()),
            ("XDG_STATE_HOME", self.state().into_os_string()),
            ("PATH", path.into()),
            ("LANG", "C.UTF-8".into()),
        ]
        .map(|(name, value)| (name.into(), value))
        .into();
        variables.extend(self.extra.clone());
        variables
    }

    /// What the library calls the user's environment.
    pub(crate) fn environment(&self) -> HostEnvironment {
        HostEnvironment { home: self.home(), variables: self.variables(), program: program() }
    }

    /// A command of this world's user, in the repository.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.variables()).current_dir(&self.repo).stdin(Stdio::null());
        command
    }

    /// Runs `sandbox` with these arguments.
    pub(crate) fn sandbox(&self, arguments: &[&str]) -> Ran {
        self.command(program()).args(arguments).output().unwrap().into()
    }

    /// `sandbox`, not yet started.
    pub(crate) fn sandbox_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(program());
        command.args(arguments);
        command
    }

    /// Runs git in the repository; it must succeed.
    #[track_caller]
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let ran = self.try_git(arguments).expect(0);
        ran.stdout.trim_end().to_owned()
    }

    /// Runs git in another folder; it must succeed.
    #[track_caller]
    pub(crate) fn git_in(&self, folder: &Path, arguments: &[&str]) {
        Ran::from(self.command("git").current_dir(folder).args(arguments).output().unwrap()).expect(0);
    }

    /// Runs git in the repository.
    pub(crate) fn try_git(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command("git");
        command.args(arguments);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_DATE"), "2026-01-01T00:00:00Z");
        }
        command.output().unwrap().into()
    }

    /// Writes a file of the repository's checkout.
    pub(crate) fn write(&self, path: &str, content: &str) {
        let file = self.repo.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.repo.join(path)).unwrap()
    }

    /// Commits everything.
    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Puts an executable script on `PATH`, below the home.
    pub(crate) fn script(&self, name: &str, text: &str) {
        let file = self.bin.join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Everything of the repository that must not change: refs that are not ours, HEAD, index, config, hooks, the files of
    /// the checkout with their content, mode and time.
    pub(crate) fn picture(&self) -> BTreeMap<String, String> {
        let mut picture = BTreeMap::new();
        let refs = self.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let foreign =
            refs.lines().filter(|line| !line.starts_with("refs/sandbox/") && !line.starts_with("refs/heads/sandbox/"));
        picture.insert("refs".to_owned(), foreign.collect::<Vec<_>>().join("\n"));
        for name in
            ["HEAD", "config", "index", "ORIG_HEAD", "MERGE_HEAD", "info/exclude", "logs/HEAD", "logs/refs/stash"]
        {
            let bytes = fs::read(self.repo.join(".git").join(name))
                .map(|bytes| format!("{:?}", bytes.escape_ascii().to_string()));
            picture.insert(format!(".git/{name}"), bytes.unwrap_or_else(|_| "absent".to_owned()));
        }
        for hook in fs::read_dir(self.repo.join(".git/hooks")).into_iter().flatten().flatten() {
            picture.insert(format!("hook {}", hook.file_name().to_string_lossy()), String::new());
        }
        files(&self.repo, &self.repo, &mut picture);
        picture
    }
}

/// A file of twenty lines that merges well.
pub(crate) fn lines(name: &str) -> String {
    (1..=20).map(|line| format!("{name} line {line}")).collect::<Vec<_>>().join("\n") + "\n"
}

fn files(root: &Path, folder: &Path, picture: &mut BTreeMap<String, String>) {
    use std::os::unix::fs::MetadataExt;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let metadata = path.symlink_metadata().unwrap();
        if name == ".git" {
            continue;
        }
        if metadata.is_dir() {
            files(root, &path, picture);
            picture.insert(name, format!("folder {:o}", metadata.mode()));
        } else {
            let content = if metadata.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string()
            } else {
                OsString::from(hex::encode(fs::read(&path).unwrap()))
            };
            picture.insert(
                name,
                format!("{:o} {}.{} {}", metadata.mode(), metadata.mtime(), metadata.mtime_nsec(), content.display()),
            );
        }
    }
}

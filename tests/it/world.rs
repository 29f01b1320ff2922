//! A hermetic world for one test: a home, a repository and a place for worktrees of its own, and nothing else.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use worktree_sandbox::workspace::HostEnvironment;

/// The user that tests run as when they are not to run as root.
pub const USER: u32 = 12345;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_sandbox");

/// Whose world it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum As {
    /// Whoever runs the tests.
    Caller,
    /// An ordinary user, where the tests are run by root.
    User,
}

/// Both users, or one where there is only one.
pub fn everyone() -> Vec<As> {
    if is_root() { vec![As::Caller, As::User] } else { vec![As::Caller] }
}

pub fn is_root() -> bool {
    rustix_euid() == 0
}

fn rustix_euid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// One test's world. Gone when dropped.
pub struct World {
    root: TempDir,
    user: As,
    program: PathBuf,
    /// The directory that `PATH` begins with, for programs of the test's own.
    pub bin: PathBuf,
    /// The repository.
    pub repo: PathBuf,
    extra: BTreeMap<OsString, OsString>,
}

/// How a program ended, and what it wrote.
#[must_use]
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
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
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// The one JSON value on stdout.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON ({error}):\n{}\nstderr:\n{}", self.stdout, self.stderr))
    }

    /// The JSON values on stdout, a line each.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON ({error}): {line}")))
            .collect()
    }
}

impl World {
    /// A world with a repository that has one commit: `README.md`, `src/a.txt`, `src/b.txt`, `docs/x.txt`.
    pub fn new(user: As) -> Self {
        let world = Self::bare_of_commits(user);
        world.write("README.md", "readme\n");
        world.write("src/a.txt", &lines("a"));
        world.write("src/b.txt", &lines("b"));
        world.write("docs/x.txt", "x\n");
        world.commit("base");
        world
    }

    /// A world whose repository has no commit yet.
    pub fn bare_of_commits(user: As) -> Self {
        let root = tempfile::Builder::new().prefix("sandbox-test-").tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let base = root.path().canonicalize().unwrap();
        let (bin, repo) = (base.join("bin"), base.join("home/repo"));
        for folder in [&bin, &repo, &base.join("state")] {
            fs::create_dir_all(folder).unwrap();
        }
        // A copy of its own, since an ordinary user may not reach the build's folder.
        let program = match user {
            As::Caller => PathBuf::from(PROGRAM),
            As::User => {
                fs::copy(PROGRAM, base.join("sandbox")).unwrap();
                base.join("sandbox")
            }
        };
        let world = Self { root, user, program, bin, repo, extra: BTreeMap::new() };
        fs::write(world.home().join(".gitconfig"), "[user]\n\tname = Tester\n\temail = tester@example.org\n[init]\n\tdefaultBranch = main\n").unwrap();
        world.hand_over();
        world.git(&["init", "-q"]);
        world
    }

    fn base(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap()
    }

    pub fn home(&self) -> PathBuf {
        self.base().join("home")
    }

    pub fn state(&self) -> PathBuf {
        self.base().join("state")
    }

    /// Where worktrees lie.
    pub fn worktrees(&self) -> PathBuf {
        self.state().join("sandbox/worktrees")
    }

    /// The program's folder in the repository.
    pub fn store(&self) -> PathBuf {
        self.repo.join(".git/sandbox")
    }

    /// Gives everything to the user whose world it is.
    pub fn hand_over(&self) {
        if self.user == As::User {
            give(&self.base());
        }
    }

    /// Sets a variable for every program of this world.
    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.extra.insert(name.into(), value.as_ref().to_owned());
    }

    pub fn variables(&self) -> BTreeMap<OsString, OsString> {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.bin.display());
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
    pub fn environment(&self) -> HostEnvironment {
        HostEnvironment { home: self.home(), variables: self.variables(), program: self.program.clone() }
    }

    /// A command of this world's user, in the repository.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.variables()).current_dir(&self.repo).stdin(Stdio::null());
        if self.user == As::User {
            command.uid(USER).gid(USER);
        }
        command
    }

    /// Runs `sandbox` with these arguments.
    pub fn sandbox(&self, arguments: &[&str]) -> Ran {
        self.command(&self.program).args(arguments).output().unwrap().into()
    }

    /// `sandbox`, not yet started.
    pub fn sandbox_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.program);
        command.args(arguments);
        command
    }

    /// Runs git in the repository; it must succeed.
    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        let ran = self.try_git(arguments).expect(0);
        ran.stdout.trim_end().to_owned()
    }

    /// Runs git in the repository.
    pub fn try_git(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command("git");
        command.args(arguments);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_DATE"), "2026-01-01T00:00:00Z");
        }
        command.output().unwrap().into()
    }

    /// Writes a file of the repository's checkout.
    pub fn write(&self, path: &str, content: &str) {
        let file = self.repo.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        self.hand_over();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.repo.join(path)).unwrap()
    }

    /// Commits everything.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Puts an executable script on `PATH`, below the home.
    pub fn script(&self, name: &str, text: &str) {
        let file = self.bin.join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        self.hand_over();
    }

    /// Everything of the repository that must not change: refs that are not ours, HEAD, index, config, hooks, the files of
    /// the checkout with their content, mode and time.
    pub fn picture(&self) -> BTreeMap<String, String> {
        let mut picture = BTreeMap::new();
        let refs = self.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let foreign = refs.lines().filter(|line| !line.starts_with("refs/sandbox/") && !line.starts_with("refs/heads/sandbox/"));
        picture.insert("refs".to_owned(), foreign.collect::<Vec<_>>().join("\n"));
        for name in ["HEAD", "config", "index", "ORIG_HEAD", "MERGE_HEAD", "info/exclude", "logs/HEAD", "logs/refs/stash"] {
            let bytes = fs::read(self.repo.join(".git").join(name)).map(|bytes| format!("{:?}", bytes.escape_ascii().to_string()));
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
pub fn lines(name: &str) -> String {
    (1..=20).map(|line| format!("{name} line {line}\n")).collect()
}

fn give(path: &Path) {
    nix::unistd::fchownat(
        nix::fcntl::AT_FDCWD,
        path,
        Some(USER.into()),
        Some(USER.into()),
        nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW,
    )
    .unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap().flatten() {
            give(&entry.path());
        }
    }
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
            let content = if metadata.is_symlink() { fs::read_link(&path).unwrap().into_os_string() } else { OsString::from(hex::encode(fs::read(&path).unwrap())) };
            picture.insert(name, format!("{:o} {}.{} {}", metadata.mode(), metadata.mtime(), metadata.mtime_nsec(), content.display()));
        }
    }
}


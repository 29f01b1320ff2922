#![expect(clippy::print_stdout, reason = "a test says which git it ran with, and what it skipped")]
#![expect(clippy::disallowed_methods, reason = "tests write files as users and agents do")]
//! Real repositories for tests: their own home, their own settings, every git that is installed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::model::{CommitId, TreeId};

/// Settings that a hostile or merely lively user may have. None of them may change what we do.
pub(super) const HOSTILE_SETTINGS: &str = r#"
[user]
    name = Tester
    email = tester@example.com
[init]
    defaultBranch = main
[color]
    ui = always
[core]
    quotePath = false
    hooksPath = /nonexistent/hooks
    fsmonitor = /bin/false
    abbrev = 5
    autocrlf = input
    safecrlf = true
    compression = 0
    bigFileThreshold = 1
    pager = false
    logAllRefUpdates = false
[diff]
    noprefix = true
    mnemonicPrefix = true
    external = false
    renames = copies
    algorithm = patience
    context = 0
    interHunkContext = 9
    suppressBlankEmpty = true
    orderFile = /dev/null
    ignoreSubmodules = all
    submodule = log
    indentHeuristic = false
    relative = true
    wordRegex = .
    colorMoved = zebra
[apply]
    whitespace = error
    ignoreWhitespace = change
[status]
    showUntrackedFiles = no
    branch = true
    short = true
    relativePaths = true
    renames = false
[merge]
    default = union
    renormalize = true
    directoryRenames = false
    renames = false
    renameLimit = 1
    conflictStyle = diff3
    autoStash = true
    verbosity = 0
    ff = false
    verifySignatures = true
[merge "ours"]
    driver = true
[merge "Odd=name.x"]
    driver = true
[pull]
    rebase = true
[rebase]
    autoStash = true
[rerere]
    enabled = true
    autoUpdate = true
[commit]
    gpgSign = true
[i18n]
    commitEncoding = ISO-8859-1
[checkout]
    defaultRemote = none
    guess = true
[worktree]
    guessRemote = true
    useRelativePaths = false
[branch]
    autoSetupMerge = always
[log]
    showSignature = true
    date = relative
[submodule]
    recurse = true
[advice]
    detachedHead = true
[index]
    version = 4
[pack]
    indexVersion = 1
"#;

const PLAIN_SETTINGS: &str = "[user]\nname = Tester\nemail = tester@example.com\n[init]\ndefaultBranch = main\n";

/// Runs a test with each git of this machine. There must be one.
pub(super) fn each_git(test: impl Fn(&Git)) {
    let mut found = BTreeMap::new();
    for candidate in ["git", "/usr/local/bin/git", "/usr/bin/git"] {
        if let Ok(git) = Git::find(Some(candidate.into())) {
            found.entry(git.version()).or_insert(git);
        }
    }
    assert!(!found.is_empty(), "these tests need a git");
    for git in found.values() {
        println!("with git {}", git.version());
        test(git);
    }
}

/// Says aloud that a test, or a part of it, was not run.
pub(super) fn skip(reason: &str) {
    println!("SKIPPED: {reason}");
}

/// An executable script.
pub(super) fn script(path: &Path, body: &str) {
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What stands at a path of a commit to be made.
#[derive(Debug, Clone)]
pub(crate) struct File(pub(crate) &'static str, pub(crate) &'static str, pub(crate) Vec<u8>);

/// A regular file.
pub(super) fn file(path: &'static str, content: impl AsRef<[u8]>) -> File {
    File(path, "100644", content.as_ref().to_vec())
}

/// A symbolic link.
pub(super) fn link(path: &'static str, target: &str) -> File {
    File(path, "120000", target.as_bytes().to_vec())
}

/// A repository with a home of its own.
pub(super) struct Fixture {
    pub(super) folder: TempDir,
    pub(super) git: Git,
    pub(super) repository: Repository,
    commits: std::cell::Cell<u32>,
}

impl Fixture {
    /// A repository with nothing in it.
    pub(super) fn new(git: &Git) -> Self {
        Self::with(git, PLAIN_SETTINGS, [], &[])
    }

    /// One whose user's settings are as bad as can be, in an environment that wants to redirect everything.
    pub(super) fn hostile(git: &Git) -> Self {
        let trap = "/nonexistent/trap";
        let environment = [
            ("GIT_DIR", trap),
            ("GIT_WORK_TREE", trap),
            ("GIT_INDEX_FILE", trap),
            ("GIT_OBJECT_DIRECTORY", trap),
            ("GIT_COMMON_DIR", trap),
            ("GIT_NAMESPACE", "trap"),
            ("GIT_EXTERNAL_DIFF", "/bin/false"),
            ("GIT_DIFF_OPTS", "--unified=0"),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "core.bare"),
            ("GIT_CONFIG_VALUE_0", "true"),
            ("GIT_CONFIG_PARAMETERS", "'core.worktree=/nonexistent'"),
            ("GIT_CONFIG_GLOBAL", trap),
            ("GIT_AUTHOR_DATE", "1999-01-01T00:00:00"),
            ("GIT_LITERAL_PATHSPECS", "0"),
            ("GIT_GLOB_PATHSPECS", "1"),
            ("GIT_ATTR_SOURCE", "HEAD"),
            ("GIT_REF_PARANOIA", "1"),
            ("GIT_PAGER", "/bin/false"),
            ("GIT_CEILING_DIRECTORIES", "/"),
            ("LANG", "de_DE.UTF-8"),
            ("LANGUAGE", "de"),
        ];
        Self::with(git, HOSTILE_SETTINGS, environment, &[])
    }

    /// One made by `git init` with these options.
    pub(super) fn initialised(git: &Git, options: &[&str]) -> Self {
        Self::with(git, PLAIN_SETTINGS, [], options)
    }

    fn with<const N: usize>(git: &Git, settings: &str, environment: [(&str, &str); N], options: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("git test ü ").tempdir().unwrap();
        let home = folder.path().join("home");
        fs::create_dir_all(home.join(".config")).unwrap();
        fs::write(home.join(".gitconfig"), settings).unwrap();
        let pairs: Vec<(OsString, OsString)> = [
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            ("HOME".into(), home.clone().into()),
            ("XDG_CONFIG_HOME".into(), home.join(".config").into()),
        ]
        .into_iter()
        .chain(environment.map(|(key, value)| (key.into(), value.into())))
        .collect();
        let git = Git::find_in(Some(git.program().into()), pairs).unwrap();
        let root = folder.path().join("repo");
        fs::create_dir(&root).unwrap();
        drop(
            Command::new(&git, Access::Write, "init")
                .args(["-q", "--initial-branch=main"])
                .args(options)
                .folder(&root)
                .success()
                .unwrap(),
        );
        let repository = Repository::discover(&git, &root).unwrap();
        Self { folder, git, repository, commits: std::cell::Cell::new(0) }
    }

    /// The repository's folder.
    pub(super) fn root(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// The repository, found again after its settings changed.
    pub(super) fn again(&self) -> Repository {
        Repository::discover(&self.git, &self.root()).unwrap()
    }

    /// Runs git in the repository's folder and gives its one line of output.
    pub(super) fn run<A: AsRef<OsStr>>(
        &self,
        subcommand: &'static str,
        arguments: impl IntoIterator<Item = A>,
    ) -> String {
        let output =
            Command::new(&self.git, Access::Write, subcommand).args(arguments).folder(self.root()).success().unwrap();
        String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
    }

    /// Runs git, whatever it says.
    pub(super) fn try_run<A: AsRef<OsStr>>(
        &self,
        subcommand: &'static str,
        arguments: impl IntoIterator<Item = A>,
    ) -> Output {
        Command::new(&self.git, Access::Write, subcommand).args(arguments).folder(self.root()).run().unwrap()
    }

    /// Writes a file of the work tree.
    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let place = self.root().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    }

    /// Writes a commit with exactly these files, kept by a ref of its own.
    pub(super) fn commit(&self, parents: &[&CommitId], files: &[File]) -> CommitId {
        let number = self.commits.get() + 1;
        self.commits.set(number);
        let mut stream = format!(
            "commit refs/test/c{number}\nmark :1\nauthor A <a@example.com> {0} +0000\ncommitter C <c@example.com> {0} +0000\ndata 2\nm\n\n",
            1_700_000_000 + number
        )
        .into_bytes();
        for (at, parent) in parents.iter().enumerate() {
            stream.extend(format!("{} {parent}\n", if at == 0 { "from" } else { "merge" }).bytes());
        }
        stream.extend(b"deleteall\n");
        for File(path, mode, content) in files {
            if *mode == "160000" {
                // An id, or a digit to make one of.
                let length = self.repository.object_format().hex_len();
                let text = String::from_utf8_lossy(content);
                let id = if text.len() == length { text.into_owned() } else { text[..1].repeat(length) };
                stream.extend(format!("M 160000 {id} \"{path}\"\n").bytes());
            } else {
                stream.extend(format!("M {mode} inline \"{path}\"\ndata {}\n", content.len()).bytes());
                stream.extend(content);
                stream.push(b'\n');
            }
        }
        stream.extend(b"get-mark :1\ndone\n");
        let output = Command::new(&self.git, Access::Write, "fast-import")
            .args(["--quiet", "--done"])
            .folder(self.root())
            .input(Input::Bytes(stream))
            .success()
            .unwrap();
        output.line().unwrap().parse().unwrap()
    }

    /// The tree of a commit.
    pub(super) fn tree(&self, commit: &CommitId) -> TreeId {
        self.repository.load_commit(commit).unwrap().tree
    }

    /// Makes `main` the commit, checked out.
    pub(super) fn check_out(&self, commit: &CommitId) {
        self.run("reset", ["-q", "--hard", commit.as_str()]);
    }

    /// Every file below the folder with its content, kind and permissions; for comparing before and after.
    pub(super) fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut all = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                let content = if metadata.is_symlink() {
                    fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                } else if metadata.is_file() {
                    fs::read(&path).unwrap()
                } else {
                    Vec::new()
                };
                if metadata.is_dir() {
                    folders.push(path.clone());
                }
                all.insert(path, (metadata.permissions().mode(), content));
            }
        }
        all
    }

    /// The work tree without the git directory.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut all = Self::snapshot(&self.root());
        all.retain(|path, _| !path.starts_with(self.root().join(".git")));
        all
    }
}

/// Somebody at some time.
pub(super) fn somebody() -> Signature {
    Signature {
        identity: Identity { name: "Some Body".to_owned(), email: "some@example.com".to_owned() },
        seconds: 1_700_000_000,
        offset_minutes: 90,
    }
}

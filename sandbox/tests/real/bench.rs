//! A place for one test: directories, a policy over them, boxes on it.

use sandbox::{Child, Command, Enforcement, Exit, Host, Launcher, Policy, PrivateDir, Sandbox, Status, Stdio};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;

/// No wait may be longer.
pub(crate) const SOON: Duration = Duration::from_mins(1);

pub(crate) struct Bench {
    pub(crate) root: PathBuf,
    pub(crate) host: Host,
    pub(crate) launcher: Launcher,
    _dir: tempfile::TempDir,
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: Exit,
    pub(crate) out: String,
}

impl Ran {
    pub(crate) fn ok(&self) -> bool {
        self.exit.status == Status::Exited(0)
    }
}

/// The helper program; a test that changes its user brings a copy that the user can reach.
pub(crate) fn helper() -> PathBuf {
    std::env::var_os("SANDBOX_TEST_BOX")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_sandbox-test-box")), PathBuf::from)
}

pub(crate) async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(SOON, what).await.expect("took too long")
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["work", "home", "user", "tmp", "sibling", "shared"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::fs::write(root.join("sibling/secret"), "secret").unwrap();
        std::fs::write(root.join("shared/file"), "shared").unwrap();
        std::fs::write(root.join("work/.git"), "gitdir: elsewhere\n").unwrap();
        let launcher = Launcher::new(helper());
        let host = soon(Host::probe(&launcher)).await;
        assert_eq!(host.obstacle, None, "these tests need a machine where boxes can be made");
        Self { root, host, launcher, _dir: dir }
    }

    /// The tightest policy, with the helper at `/run/helper`.
    pub(crate) fn policy(&self) -> Policy {
        let home = PrivateDir { source: self.root.join("home"), target: self.root.join("user") };
        Policy::new(self.root.join("work"), home, self.root.join("tmp"))
            .expose(sandbox::Expose::read_only(helper()).at("/run/helper"))
    }

    pub(crate) fn plan(&self, policy: &Policy) -> Enforcement {
        Enforcement::plan(policy, &self.host).unwrap()
    }

    pub(crate) async fn start(&self, policy: &Policy) -> Sandbox {
        soon(Sandbox::start(&self.plan(policy), &self.launcher)).await.unwrap()
    }

    /// Runs a script in a box of its own.
    pub(crate) async fn sh(&self, policy: &Policy, script: &str) -> Ran {
        let sandbox = self.start(policy).await;
        let ran = run(&sandbox, shell(script)).await;
        soon(sandbox.shutdown()).await.unwrap();
        ran
    }

    /// Runs a script in a box that is made by other steps.
    pub(crate) async fn sh_by(&self, plan: &Enforcement, script: &str) -> Ran {
        let sandbox = soon(Sandbox::start(plan, &self.launcher)).await.unwrap();
        let ran = run(&sandbox, shell(script)).await;
        soon(sandbox.shutdown()).await.unwrap();
        ran
    }
}

/// A script, with both outputs in one pipe.
pub(crate) fn shell(script: &str) -> Command {
    Command::new(["/bin/sh", "-c", &format!("exec 2>&1; {script}")]).env("PATH", "/usr/bin:/bin")
}

/// Runs a command to its end, with what it said.
pub(crate) async fn run(sandbox: &Sandbox, command: Command) -> Ran {
    let mut child = soon(sandbox.spawn(command.stdout(Stdio::Piped))).await.unwrap();
    let stdout = child.stdout.take().unwrap();
    let (exit, out) = soon(async { tokio::join!(child.wait(), read(stdout)) }).await;
    Ran { exit: exit.unwrap(), out }
}

/// Runs the helper outside of any box and returns what it said.
pub(crate) fn plainly(args: &[&str]) -> String {
    let output = std::process::Command::new("timeout").arg("20").arg(helper()).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Everything up to the end of file: to the death of the last process that could still write.
pub(crate) async fn read(mut from: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut text = String::new();
    soon(from.read_to_string(&mut text)).await.unwrap();
    text
}

/// The first line, which says that a command has come so far.
pub(crate) async fn line(child: &mut Child) -> String {
    let mut text = Vec::new();
    let from = child.stdout.as_mut().unwrap();
    while text.last() != Some(&b'\n') {
        text.push(soon(from.read_u8()).await.unwrap());
    }
    String::from_utf8(text).unwrap().trim().to_owned()
}

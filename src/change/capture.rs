//! Capturing a worktree: a box of its own in which the files become a commit, and the way of that commit into the
//! repository.
//!
//! Steps, each needing the one before:
//! 1. The caller sees to it that nothing of the agent runs: it is dead, or stopped.
//! 2. A capture box is started. The agent was never in it; the worktree is read-only there.
//! 3. Inside, [`super::inside`] makes the commit and writes what the repository lacks as a pack into a pipe.
//! 4. Outside, git indexes the pack in a quarantine, with fsck on and a size limit; only a connected history leaves it.
//! 5. One transaction creates the ref that keeps the snapshot and moves the agent's branch, from the value we last wrote.
//!
//! *Why a box of its own, and not a command in the agent's box?* What the agent can see it can prepare. The capture's git
//! directory must be where no agent ever looks, and its worktree where nothing can write any more; two boxes give that by
//! their mounts alone, and serve the same way when an attempt is found after a crash, with no agent's box left.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use sandbox::{Command as BoxCommand, Enforcement, Host, Launcher, Sandbox, Stdio};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use super::error::Error;
use super::inside::{self, Report, Request};
use crate::git::{Input, PackLimits, Received, RefEdit, Repository, Swap};
use crate::model::{AgentName, CommitId, RefName, RepoPath, RunId, TreeId, TurnId};
use crate::workspace::{HostEnvironment, Surroundings, Workspace, capture_box, seen};

/// What every capture of a run needs.
#[derive(Debug)]
pub struct Capturer {
    /// The user's repository.
    pub repository: Repository,
    /// The user's environment.
    pub environment: HostEnvironment,
    /// What boxes must hide.
    pub surroundings: Surroundings,
    /// What this machine can do.
    pub host: Host,
    /// Where packs wait until they are checked.
    pub incoming: std::path::PathBuf,
    /// The date of all snapshots of the run, as seconds since 1970.
    pub date: i64,
    /// The most bytes one capture may bring in.
    pub pack_size: u64,
    /// How long one capture may take.
    pub timeout: Duration,
}

/// A captured state of a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The commit that holds it.
    pub commit: CommitId,
    /// Its tree.
    pub tree: TreeId,
}

/// A capture: the state, and what is to be said of it.
#[derive(Debug, Clone)]
pub struct Captured {
    /// The state. That of the capture before, where nothing is new.
    pub snapshot: Snapshot,
    /// Where the agent's own HEAD stood.
    pub agent_head: Option<CommitId>,
    /// Whether the agent's HEAD no longer descends from the fork point.
    pub history_rewritten: bool,
    /// Commits of the agent's own that the snapshot keeps.
    pub tips: Vec<CommitId>,
    /// Ignored paths, folders once.
    pub ignored: Vec<RepoPath>,
    /// What git could not add, in its words.
    pub refused: Vec<String>,
}

/// The refs that a capture moves.
#[derive(Debug, Clone)]
pub struct Pins {
    /// Keeps the snapshot; made by the capture.
    pub keep: RefName,
    /// The agent's branch and the value we last gave it, if the worktree is on one.
    pub branch: Option<(RefName, CommitId)>,
}

impl Pins {
    /// The refs of a turn of an agent.
    pub fn of_turn(run: &RunId, agent: &AgentName, turn: TurnId, branch_at: &CommitId) -> Self {
        Self {
            keep: RefName::snapshot(run, agent, turn),
            branch: Some((RefName::agent_branch(run, agent), branch_at.clone())),
        }
    }
}

impl Capturer {
    /// Captures `workspace`, whose state before was `previous`, and pins it. Nothing may run in the worktree.
    pub async fn capture(
        &self,
        workspace: &Workspace,
        previous: &Snapshot,
        message: &str,
        pins: Option<&Pins>,
    ) -> Result<Captured, Error> {
        tokio::task::block_in_place(|| workspace.check())?;
        let policy = capture_box(&self.environment, &self.surroundings, &workspace.place);
        let enforcement = Enforcement::plan(&policy, &self.host).map_err(Error::Sandbox)?;
        let boxed = Sandbox::start(&enforcement, &Launcher::new(&self.environment.program)).await?;
        let within = self.timeout + Duration::from_secs(5);
        let result = tokio::time::timeout(within, self.capture_in(&boxed, workspace, previous, message)).await;
        // Whatever filters left behind dies with the box.
        let closed = boxed.shutdown().await;
        let report = match (result, closed) {
            (Ok(report), Ok(())) => report?,
            (Ok(_), Err(error)) => return Err(failed(workspace, error.to_string())),
            (Err(_), _) => {
                let reason = format!("it took longer than {} s", within.as_secs());
                return Err(failed(workspace, reason));
            }
        };
        let snapshot = Snapshot {
            commit: report.commit.clone().unwrap_or_else(|| previous.commit.clone()),
            tree: report.tree.clone(),
        };
        if let Some(pins) = pins {
            tokio::task::block_in_place(|| self.pin(pins, &snapshot.commit))?;
        }
        Ok(Captured {
            snapshot,
            agent_head: report.agent_head,
            history_rewritten: report.history_rewritten,
            tips: report.tips,
            ignored: report.ignored,
            refused: report.refused,
        })
    }

    async fn capture_in(
        &self,
        boxed: &Sandbox,
        workspace: &Workspace,
        previous: &Snapshot,
        message: &str,
    ) -> Result<Report, Error> {
        let failed = |reason: String| failed(workspace, reason);
        let request = serde_json::to_vec(&self.request(workspace, previous, message))
            .map_err(|error| failed(error.to_string()))?;
        let mut command = BoxCommand::new([seen::PROGRAM, inside::ARGUMENT])
            .cwd("/")
            .stdin(Stdio::Piped)
            .stdout(Stdio::Piped)
            .stderr(Stdio::Piped);
        for (name, value) in self.variables() {
            command = command.env(name, value);
        }
        let mut child = boxed.spawn(command).await.map_err(|error| failed(error.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            let sent = tokio::io::AsyncWriteExt::write_all(&mut stdin, &request).await;
            sent.map_err(|error| failed(error.to_string()))?;
        }
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed("its box has no output".to_owned()));
        };
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        let read = (&mut stdout).take(inside::REPORT_MAX).read_until(b'\n', &mut line).await;
        read.map_err(|error| failed(error.to_string()))?;
        let report: Option<Report> = serde_json::from_slice(&line).ok();
        let received = match &report {
            Some(Report { commit: Some(commit), .. }) => Some(self.receive(stdout, commit, workspace).await?),
            Some(Report { commit: None, .. }) | None => None,
        };
        let mut complaint = Vec::new();
        let read = stderr.take(64 * 1024).read_to_end(&mut complaint).await;
        read.map_err(|error| failed(error.to_string()))?;
        let exit = child.wait().await.map_err(|error| failed(error.to_string()))?;
        let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
        match (report, exit.status, received) {
            (Some(report), sandbox::Status::Exited(0), None | Some(Received::Stored { .. })) => Ok(report),
            (Some(_), sandbox::Status::Exited(0), Some(Received::Refused(refusal))) => {
                let worktree = workspace.place.worktree().to_owned();
                Err(Error::Refused { worktree, reason: refusal.to_string() })
            }
            (_, status, _) if complaint.is_empty() => Err(failed(format!("the capture ended with {status:?}"))),
            (_, _, _) => Err(failed(complaint)),
        }
    }

    /// Passes the pack on to git outside. What was read ahead with the report's line belongs to the pack.
    async fn receive(
        &self,
        mut stdout: BufReader<tokio::net::unix::pipe::Receiver>,
        commit: &CommitId,
        workspace: &Workspace,
    ) -> Result<Received, Error> {
        let broken = |error: io::Error| failed(workspace, error.to_string());
        let (mut sender, receiver) = tokio::net::unix::pipe::pipe().map_err(broken)?;
        let stream: OwnedFd = receiver.into_blocking_fd().map_err(broken)?;
        let repository = self.repository.clone();
        let commit = commit.clone();
        let incoming = self.incoming.clone();
        let label = workspace.place.name().to_owned();
        let limits = PackLimits { size: self.pack_size, time: self.timeout, memory: None };
        let receiving = tokio::task::spawn_blocking(move || {
            repository.receive_pack(Input::Descriptor(stream), &commit, &incoming, &label, &limits)
        });
        // Git may refuse the pack before its end, and then reads no further: that is no fault of the pipe.
        let copied = tokio::io::copy(&mut stdout, &mut sender).await;
        drop(sender);
        let outcome = receiving.await.map_err(|error| failed(workspace, error.to_string()))??;
        match (copied, &outcome) {
            (Err(error), Received::Stored { .. }) => Err(broken(error)),
            (Ok(_), _) | (Err(_), Received::Refused(_)) => Ok(outcome),
        }
    }

    fn request(&self, workspace: &Workspace, previous: &Snapshot, message: &str) -> Request {
        Request {
            git: self.repository.git().program().to_owned(),
            worktree: workspace.place.worktree().to_owned(),
            capture: seen::CAPTURE.into(),
            agent_admin: std::path::Path::new(seen::AGENT).join("worktrees").join(workspace.place.name()),
            agent_common: seen::AGENT.into(),
            previous: previous.commit.clone(),
            previous_tree: previous.tree.clone(),
            known: vec![workspace.fork.clone()],
            message: message.to_owned(),
            date: self.date,
            timeout: self.timeout.as_secs(),
        }
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        let path = std::env::join_paths(self.environment.search_path()).unwrap_or_default();
        vec![("PATH".into(), path), ("HOME".into(), "/nonexistent".into()), ("LC_ALL".into(), "C".into())]
    }

    /// Creates the ref that keeps a snapshot, and moves the branch, both or none.
    pub fn pin(&self, pins: &Pins, commit: &CommitId) -> Result<(), Error> {
        let mut edits = vec![RefEdit::Create { name: pins.keep.clone(), new: commit.object().clone() }];
        if let Some((branch, at)) = &pins.branch {
            edits.push(RefEdit::Update {
                name: branch.clone(),
                new: commit.object().clone(),
                old: at.object().clone(),
            });
        }
        match self.repository.swap_refs(&edits, "sandbox: capture")? {
            Swap::Done => Ok(()),
            Swap::Lost { name, expected, found } => Err(Error::ref_moved(&name, expected, found)),
        }
    }
}

fn failed(workspace: &Workspace, reason: String) -> Error {
    Error::Capture { worktree: workspace.place.worktree().to_owned(), reason }
}

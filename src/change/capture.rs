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

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use sandbox::{Command as BoxCommand, Enforcement, Form, Host, Layer, Policy, Refusal, Sandbox, Status, Stdio};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use super::error::Error;
use super::inside::{self, Report, Request};
use crate::git::{Input, PackLimits, PackRefusal, Received, RefEdit, Repository};
use crate::model::plan::PinnedPaths;
use crate::model::{AgentName, CommitId, LimitMet, RefName, RepoPath, RunId, TreeId, TurnId};
use crate::store::failpoint;
use crate::store::lock::hold_workplace;
use crate::workspace::{HostEnvironment, Surroundings, Workspace, capture_box, seen, without_mounts};

/// What every capture of a run needs.
#[derive(Debug)]
pub struct Capturer {
    /// The user's repository.
    pub repository: Repository,
    /// The user's environment.
    pub environment: HostEnvironment,
    /// What boxes must hide.
    pub surroundings: Surroundings,
    /// Where the host paths of the plan led when the run started.
    pub pinned: PinnedPaths,
    /// What this machine can do.
    pub host: Host,
    /// What a capture's box may do without.
    pub may_lack: BTreeSet<Layer>,
    /// Where packs wait until they are checked.
    pub incoming: std::path::PathBuf,
    /// The date of all snapshots of the run, as seconds since 1970.
    pub date: i64,
    /// The most bytes one capture may bring in.
    pub pack_size: u64,
    /// The most memory of one capture, in bytes. Its processes have the bound of any box.
    pub memory: u64,
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
    /// What is not captured though no file is lost by it.
    pub refused: Vec<String>,
    /// What lies in the worktree, is not ignored, and is kept nowhere else: files git could not add, in its words.
    pub lost: Vec<String>,
}

impl Captured {
    /// What of the worktree is kept nowhere, in a line; `None` where nothing is lost.
    pub fn kept_nowhere(&self) -> Option<String> {
        let first = self.lost.first()?;
        Some(match self.lost.len() {
            1 => first.clone(),
            several => format!("{first}; and {} more", several - 1),
        })
    }
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
        self.capture_but(workspace, previous, message, pins, &[]).await
    }

    /// The same, but without the commits of the agent's that `disowned` names.
    pub async fn capture_but(
        &self,
        workspace: &Workspace,
        previous: &Snapshot,
        message: &str,
        pins: Option<&Pins>,
        disowned: &[CommitId],
    ) -> Result<Captured, Error> {
        let request = Request { disowned: disowned.to_vec(), ..self.request(workspace, previous, message) };
        let report = self.report(workspace, &request).await?;
        self.pinned(report, previous, pins)
    }

    /// Captures the files alone, for an agent whose commits are not fit for the repository. Gives also the ids in its refs
    /// that are left out.
    pub async fn capture_files(
        &self,
        workspace: &Workspace,
        previous: &Snapshot,
        message: &str,
        pins: Option<&Pins>,
    ) -> Result<(Captured, Vec<CommitId>), Error> {
        let request = Request { keep_history: false, ..self.request(workspace, previous, message) };
        let mut report = self.report(workspace, &request).await?;
        let left_out = std::mem::take(&mut report.left_out);
        Ok((self.pinned(report, previous, pins)?, left_out))
    }

    /// How a box is made here.
    pub fn enforcement(&self, policy: Policy) -> Result<Enforcement, Refusal> {
        let policy = match self.host.form() {
            Form::Full => policy,
            Form::LandlockOnly => without_mounts(policy, &self.environment, &self.surroundings),
        };
        Enforcement::plan(&policy, &self.host)
    }

    /// Has a capture made in a box of its own, and its objects brought into the repository. What is too much for a pack is
    /// captured once more, without the largest files.
    async fn report(&self, workspace: &Workspace, request: &Request) -> Result<Report, Error> {
        match self.report_once(workspace, request).await {
            Err(Error::Refused { is_excess: true, .. }) => {
                self.report_once(workspace, &Request { spare: true, ..request.clone() }).await
            }
            other => other,
        }
    }

    async fn report_once(&self, workspace: &Workspace, request: &Request) -> Result<Report, Error> {
        tokio::task::block_in_place(|| {
            self.environment.require_program()?;
            workspace.check()
        })?;
        let mut policy = capture_box(&self.environment, &self.surroundings, &workspace.place);
        policy.limits.memory = Some(self.memory);
        policy.may_lack.clone_from(&self.may_lack);
        let enforcement = self.enforcement(policy).map_err(Error::Sandbox)?;
        let request = &Request {
            capture: enforcement.seen(&request.capture),
            agent_admin: enforcement.seen(&request.agent_admin),
            agent_common: enforcement.seen(&request.agent_common),
            ..request.clone()
        };
        let objects = enforcement.seen(seen::PARENT_OBJECTS.as_ref());
        let held = tokio::task::block_in_place(|| {
            workspace.aim_capture(&objects)?;
            Ok::<_, Error>(hold_workplace(&workspace.place)?)
        })?;
        let boxed = Sandbox::start_holding(&enforcement, &self.environment.launcher(), held).await?;
        failpoint::after("box", "capture");
        let within = self.timeout + Duration::from_secs(5);
        let result = tokio::time::timeout(within, self.report_from(&boxed, &enforcement, workspace, request)).await;
        // Whatever filters left behind dies with the box.
        let closed = boxed.shutdown().await;
        failpoint::after("capture", "");
        match (result, closed) {
            (Ok(report), Ok(())) => report,
            (Ok(_), Err(error)) => Err(failed_by(workspace, error)),
            (Err(_), _) => Err(failed(workspace, format!("it took longer than {} s", within.as_secs()))),
        }
    }

    fn pinned(&self, report: Report, previous: &Snapshot, pins: Option<&Pins>) -> Result<Captured, Error> {
        let commit = report.commit.unwrap_or_else(|| previous.commit.clone());
        let snapshot = Snapshot { commit, tree: report.tree };
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
            lost: report.lost,
        })
    }

    async fn report_from(
        &self,
        boxed: &Sandbox,
        enforcement: &Enforcement,
        workspace: &Workspace,
        request: &Request,
    ) -> Result<Report, Error> {
        let request = serde_json::to_vec(request).map_err(|error| failed_by(workspace, error))?;
        let program = enforcement.seen(seen::PROGRAM.as_ref()).into_os_string();
        let mut command = BoxCommand::new([program, inside::ARGUMENT.into()])
            .cwd("/")
            .stdin(Stdio::Piped)
            .stdout(Stdio::Piped)
            .stderr(Stdio::Piped);
        for (name, value) in self.variables() {
            command = command.env(name, value);
        }
        let mut child = boxed.spawn(command).await.map_err(|error| failed_by(workspace, error))?;
        if let Some(mut stdin) = child.stdin.take() {
            let sent = tokio::io::AsyncWriteExt::write_all(&mut stdin, &request).await;
            sent.map_err(|error| failed_by(workspace, error))?;
        }
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed(workspace, "its box has no output"));
        };
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        let read = (&mut stdout).take(inside::REPORT_MAX).read_until(b'\n', &mut line).await;
        read.map_err(|error| failed_by(workspace, error))?;
        let report: Option<Report> = serde_json::from_slice(&line).ok();
        let received = match &report {
            Some(Report { commit: Some(commit), .. }) => Some(self.receive(stdout, commit, workspace).await?),
            Some(Report { commit: None, .. }) | None => None,
        };
        let mut complaint = Vec::new();
        let read = stderr.take(64 * 1024).read_to_end(&mut complaint).await;
        read.map_err(|error| failed_by(workspace, error))?;
        let exit = child.wait().await.map_err(|error| failed_by(workspace, error))?;
        if let Some(hit) = exit.limit {
            return Err(failed(workspace, LimitMet::from(hit)));
        }
        let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
        verdict(report, exit.status, received, &complaint).map_err(|fault| {
            let worktree = workspace.place.worktree().to_owned();
            match fault {
                Fault::Failed(reason) => Error::Capture { worktree, reason, source: None },
                Fault::Refused(reason) => Error::Refused { worktree, reason, is_excess: false },
                Fault::Excess(reason) => Error::Refused { worktree, reason, is_excess: true },
            }
        })
    }

    /// Passes the pack on to git outside. What was read ahead with the report's line belongs to the pack.
    async fn receive(
        &self,
        mut stdout: BufReader<tokio::net::unix::pipe::Receiver>,
        commit: &CommitId,
        workspace: &Workspace,
    ) -> Result<Received, Error> {
        let fault = |error: io::Error| failed_by(workspace, error);
        let (mut sender, receiver) = tokio::net::unix::pipe::pipe().map_err(fault)?;
        let stream: OwnedFd = receiver.into_blocking_fd().map_err(fault)?;
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
        let outcome = receiving.await.map_err(|error| failed_by(workspace, error))??;
        match (copied, &outcome) {
            (Err(error), Received::Stored { .. }) => Err(fault(error)),
            (Ok(_), _) | (Err(_), Received::Refused(_)) => Ok(outcome),
        }
    }

    fn request(&self, workspace: &Workspace, previous: &Snapshot, message: &str) -> Request {
        Request {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            git: self.surroundings.git.clone(),
            worktree: workspace.place.worktree().to_owned(),
            capture: seen::CAPTURE.into(),
            agent_admin: std::path::Path::new(seen::AGENT).join("worktrees").join(workspace.place.name()),
            agent_common: seen::AGENT.into(),
            previous: previous.commit.clone(),
            previous_tree: previous.tree.clone(),
            known: vec![workspace.fork.clone()],
            keep_history: true,
            disowned: Vec::new(),
            message: message.to_owned(),
            date: self.date,
            timeout: self.timeout.as_secs(),
            largest: self.pack_size,
            spare: false,
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
        Ok(self.repository.swap_refs(&edits, "sandbox: capture")?.require()?)
    }
}

fn failed(workspace: &Workspace, reason: impl std::fmt::Display) -> Error {
    Error::Capture { worktree: workspace.place.worktree().to_owned(), reason: format!("{reason}"), source: None }
}

/// The same for an error, which is kept: what the machine lacked is no fault of the agent's.
fn failed_by(workspace: &Workspace, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let reason = "its box could not be spoken to".to_owned();
    Error::Capture { worktree: workspace.place.worktree().to_owned(), reason, source: Some(Box::new(error)) }
}

/// Why there is no snapshot.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// It could not be made.
    Failed(String),
    /// What it is made of is not fit for the repository.
    Refused(String),
    /// It is more than is taken in.
    Excess(String),
}

/// What came of a capture, from what both sides of the pipe say. The side that stopped first knows why.
fn verdict(
    report: Option<Report>,
    status: Status,
    received: Option<Received>,
    complaint: &str,
) -> Result<Report, Fault> {
    let ended = |code: u8| status == Status::Exited(i32::from(code));
    let told = || if complaint.is_empty() { format!("it ended with {status:?}") } else { complaint.to_owned() };
    match (report, received) {
        (Some(report), None | Some(Received::Stored { .. })) if ended(0) => Ok(report),
        // A pack that was cut off is malformed; why it was cut off is the reason.
        (Some(_), Some(_)) if ended(inside::NO_PACK) => Err(Fault::Refused(told())),
        (Some(_), Some(Received::Refused(refusal))) if ended(0) || ended(inside::NOT_READ) => Err(match refusal {
            PackRefusal::TooLarge { .. } => Fault::Excess(refusal.to_string()),
            PackRefusal::Unsound { .. }
            | PackRefusal::TimedOut { .. }
            | PackRefusal::Memory
            | PackRefusal::Incomplete { .. }
            | PackRefusal::Malformed { .. }
            | PackRefusal::NotACommit { .. } => Fault::Refused(refusal.to_string()),
        }),
        (_, _) => Err(Fault::Failed(told())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectFormat;

    #[test]
    fn whoever_stopped_first_says_why() {
        let commit = CommitId::from(ObjectFormat::Sha1.zero());
        let report = || Report {
            commit: Some(commit.clone()),
            tree: TreeId::from(ObjectFormat::Sha1.zero()),
            tips: Vec::new(),
            left_out: Vec::new(),
            agent_head: None,
            history_rewritten: false,
            ignored: Vec::new(),
            refused: Vec::new(),
            lost: Vec::new(),
        };
        let stored = || Some(Received::Stored { commit: commit.clone(), pack: None, size: 0 });
        let large = || Some(Received::Refused(PackRefusal::TooLarge { limit: 5 }));
        let cut = || Some(Received::Refused(PackRefusal::Malformed { message: "early EOF".to_owned() }));
        let failed = |reason: &str| Some(Fault::Failed(reason.to_owned()));
        let refused = |reason: &str| Some(Fault::Refused(reason.to_owned()));
        let excess = |reason: &str| Some(Fault::Excess(reason.to_owned()));
        let bad = || Some(Received::Refused(PackRefusal::Unsound { message: "bad tree".to_owned() }));
        let exited = |code: u8| Status::Exited(i32::from(code));
        let limit = "the pack is larger than 5 bytes";
        let table = [
            ("good", Some(report()), exited(0), stored(), "", None),
            ("no change", Some(report()), exited(0), None, "", None),
            ("refused at the end", Some(report()), exited(0), large(), "", excess(limit)),
            (
                "unfit",
                Some(report()),
                exited(0),
                bad(),
                "",
                refused("an object in the pack is not acceptable: bad tree"),
            ),
            ("refused before", Some(report()), exited(inside::NOT_READ), large(), "not read", excess(limit)),
            ("objects missing", Some(report()), exited(inside::NO_PACK), cut(), "no tree", refused("no tree")),
            ("stored, yet cut", Some(report()), exited(inside::NO_PACK), stored(), "no tree", refused("no tree")),
            ("failed while packing", Some(report()), exited(1), cut(), "disk full", failed("disk full")),
            ("killed", Some(report()), Status::Signaled(9), stored(), "", failed("it ended with Signaled(9)")),
            ("failed", None, exited(1), None, "no git", failed("no git")),
            ("said nothing", None, exited(0), None, "", failed("it ended with Exited(0)")),
        ];
        for (name, report, status, received, complaint, expected) in table {
            let found = verdict(report, status, received, complaint);
            assert_eq!(found.err(), expected, "{name}");
        }
    }
}

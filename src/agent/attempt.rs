//! An attempt, from the start of its box to its end.
//!
//! Steps:
//! 1. The box. If it cannot be had, the attempt ends here and nothing of the agent has run.
//! 2. `setup`, in a new worktree.
//! 3. Turn 0: the state the attempt begins with is captured and pinned. It decides what this attempt changed.
//! 4. `attempt.started`, safe on disk.
//! 5. Each command: spawned, watched, and at its end everything it left is killed, the worktree captured, the turn written
//!    down. A turn that an agent ends itself is captured with all its processes stopped.
//! 6. The box ends, and the worktree's link to the repository is looked at once more.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::time::Duration;

use sandbox::{BoxError, Command as BoxCommand, Enforcement, Sandbox, SpawnError, Stdio};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ask::{Ask, Clerk};
use super::clock::WorkClock;
use super::denials::{Denials, Reach};
use super::error::Error;
use super::network::{self, Gateway};
use super::output::{Allowance, OutputLog};
use super::socket::{AgentSocket, Asker, Request, Wish};
use super::supervise::{Bounds, Cut, Ended, Happening, Supervisor, output_pipe};
use super::turn::{Progress, Scribe, TurnEnd};
use crate::change::bundle::Ledger;
use crate::change::{self, Captured, Capturer, Snapshot};
use crate::model::change::Actor;
use crate::model::event::{AttemptFinished, AttemptStarted, EventKind, Hint, Subject, TurnStarted};
use crate::model::os_refusal::OsRefusal;
use crate::model::plan::{AgentTask, Argv};
use crate::model::{AgentName, AttemptOutcome, CommitId, LimitMet, ProcessEnd, RefName, RepoPath, TurnId};
use crate::plan::Scope;
use crate::store::lock::hold_workplace;
use crate::store::{Record, RunDir, failpoint, space};
use crate::workspace::{Workspace, box_variables, seen, working_box};

/// What drives an agent that is a command.
pub const ADAPTER: &str = "command";

/// One attempt to be made.
#[derive(Debug)]
pub struct Assignment<'a> {
    /// The run's folder.
    pub run: &'a RunDir,
    /// The agent's task.
    pub task: &'a AgentTask,
    /// What it may change in this attempt.
    pub scope: &'a Scope,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Its worktree.
    pub workspace: &'a Workspace,
    /// The commit the worktree was made from.
    pub fork: &'a Snapshot,
    /// The newest snapshot of the worktree; the fork point in the first attempt.
    pub latest: Snapshot,
    /// Where the agent's branch stands.
    pub branch_at: CommitId,
    /// A command to run first, in a new worktree.
    pub setup: Option<&'a Argv>,
    /// How the attempt before ended.
    pub before: Option<AttemptOutcome>,
    /// What captures are made with.
    pub capturer: &'a Capturer,
    /// What is told goes here.
    pub journal: &'a dyn Record,
    /// Where what it asks for is decided; without one it is told that nothing can be asked for.
    pub clerk: Option<&'a dyn Clerk>,
    /// Told when everything is to stop.
    pub stop: CancellationToken,
    /// Told when not even the grace period counts any more.
    pub kill: CancellationToken,
    /// By what its time is measured.
    pub clock: WorkClock,
}

/// How an attempt ended, and where it leaves the worktree.
#[derive(Debug, Clone)]
pub struct AttemptEnd {
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// The newest snapshot.
    pub latest: Snapshot,
    /// Where the agent's branch stands.
    pub branch_at: CommitId,
}

/// Why an attempt stops before its last turn is done.
struct Stop {
    outcome: AttemptOutcome,
    reason: String,
    end: Option<ProcessEnd>,
    limit: Option<LimitMet>,
}

impl Stop {
    fn new(outcome: AttemptOutcome, reason: impl Into<String>) -> Self {
        Self { outcome, reason: reason.into(), end: None, limit: None }
    }
}

/// The limit that a command was ended for.
fn limit_of(cut: Option<Cut>) -> Option<LimitMet> {
    match cut {
        Some(Cut::Limit(met)) => Some(met),
        Some(Cut::TimedOut | Cut::Idle | Cut::OutputLimit | Cut::Stopped) | None => None,
    }
}

/// Either the work goes on, or the attempt stops for a reason that is the agent's or the machine's.
type Going<T> = Result<Result<T, Stop>, Error>;

/// Makes the attempt.
pub async fn run(assignment: Assignment<'_>) -> Result<AttemptEnd, Error> {
    let begun = Instant::now();
    let mut attempt = Attempt::new(&assignment);
    let worked = match attempt.open_box().await {
        Ok(Err(stop)) => Ok(Some(stop)),
        Ok(Ok(Opened { boxed, mut socket, gateway })) => {
            let stop = attempt.work(&boxed, socket.as_mut()).await;
            let closed = boxed.shutdown().await;
            if let Some(gateway) = gateway {
                attempt.hints.extend(gateway.close().await.into_iter().map(Hint::from));
            }
            stop.and_then(|stop| closed_well(stop, closed))
        }
        Err(error) => Err(error),
    };
    // The worktree gets its own link back whatever happened; what the agent made of the other is told below.
    let left = tokio::task::block_in_place(|| assignment.workspace.leave());
    let stop = match (worked?, left) {
        (_, Err(error @ crate::workspace::Error::Tampered { .. })) => {
            Some(Stop::new(AttemptOutcome::Tampered, error.to_string()))
        }
        (_, Err(error)) => return Err(error.into()),
        (stop, Ok(())) => stop,
    };
    attempt.finish(stop, begun.elapsed())
}

/// A box, with what serves it.
struct Opened {
    boxed: Sandbox,
    socket: Option<AgentSocket>,
    gateway: Option<Gateway>,
}

/// What outlives a box that has no namespace to end with is this agent's misfortune: nothing of it may be merged.
fn closed_well(stop: Option<Stop>, closed: Result<(), BoxError>) -> Result<Option<Stop>, Error> {
    match closed {
        Ok(()) => Ok(stop),
        Err(error @ BoxError::Escaped) => Ok(Some(Stop::new(AttemptOutcome::Failed, error.to_string()))),
        Err(error) => Err(Error::Box(error)),
    }
}

struct Attempt<'a> {
    of: &'a Assignment<'a>,
    enforcement: Option<Enforcement>,
    scribe: Scribe<'a>,
    bounds: Bounds,
    progress: Progress,
    leftovers: u32,
    last_end: Option<ProcessEnd>,
    hints: Vec<Hint>,
    denials: Option<Denials>,
    started: bool,
}

impl<'a> Attempt<'a> {
    fn new(of: &'a Assignment<'a>) -> Self {
        let limits = &of.task.sandbox.limits;
        let ledger = Ledger {
            repository: &of.capturer.repository,
            run: of.run,
            agent: &of.task.name,
            adapter: ADAPTER,
            fork: of.fork,
            contract: &of.scope.contract,
            compiled: &of.scope.compiled,
        };
        Self {
            of,
            enforcement: None,
            scribe: Scribe { capturer: of.capturer, workspace: of.workspace, ledger, journal: of.journal },
            bounds: Bounds {
                deadline: of.clock.now() + limits.time.unsigned_abs(),
                clock: of.clock.clone(),
                idle: limits.idle.unsigned_abs(),
                output: Allowance::new(limits.output),
                stop: of.stop.clone(),
                kill: of.kill.clone(),
            },
            progress: Progress {
                latest: of.latest.clone(),
                branch_at: of.branch_at.clone(),
                base: of.latest.commit.clone(),
                ignored_before: HashSet::new(),
                record: None,
                disowned: Vec::new(),
            },
            leftovers: 0,
            last_end: None,
            hints: Vec::new(),
            denials: None,
            started: false,
        }
    }

    async fn open_box(&mut self) -> Going<Opened> {
        let Assignment { task, workspace, capturer, run, attempt, .. } = self.of;
        let refused = |reason: String| Ok(Err(Stop::new(AttemptOutcome::SandboxRefused, reason)));
        if let Err(error) = capturer.environment.require_program() {
            return refused(error.to_string());
        }
        let Capturer { environment, surroundings, pinned, .. } = capturer;
        let policy = match working_box(environment, surroundings, &workspace.place, &task.sandbox, pinned) {
            Ok(policy) => policy,
            Err(
                error @ (crate::workspace::Error::Expose { .. }
                | crate::workspace::Error::Hide { .. }
                | crate::workspace::Error::NestedAsRoot),
            ) => return refused(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        let mut programs = capturer.environment.search_path();
        programs.extend(capturer.environment.tool_folders());
        self.denials = Some(Denials::new(Reach::new(&policy, programs)));
        let enforcement = match capturer.enforcement(policy) {
            Ok(enforcement) => enforcement,
            Err(refusal) => return refused(refusal.to_string()),
        };
        let proxy = match network::prepare(&task.sandbox.network, &capturer.environment, network::OF_AGENTS).await {
            Ok(proxy) => proxy,
            Err(reason) => return refused(reason),
        };
        match tokio::task::block_in_place(|| workspace.enter(capturer.host.form(), &capturer.surroundings)) {
            Ok(()) => {}
            Err(error @ crate::workspace::Error::Tampered { .. }) => {
                return Ok(Err(Stop::new(AttemptOutcome::Tampered, error.to_string())));
            }
            Err(error) => return Err(error.into()),
        }
        let enforcement = self.enforcement.insert(enforcement);
        let held = tokio::task::block_in_place(|| hold_workplace(&workspace.place))?;
        match Sandbox::start_holding(enforcement, &capturer.environment.launcher(), held).await {
            Ok(boxed) => {
                failpoint::after("box", "agent");
                let listener = boxed.take_listener(seen::TURN_SOCKET.as_ref()).map_err(Error::Pipe)?;
                let open = |setup| Gateway::open(&boxed, setup, run.network(&task.name), u64::from(*attempt));
                let gateway = proxy.map(open).transpose().map_err(Error::Pipe)?.flatten();
                Ok(Ok(Opened { boxed, socket: listener.map(AgentSocket::new), gateway }))
            }
            // A machine that has run out of something may have it another time: no verdict on this agent.
            Err(error) if OsRefusal::behind(&error).is_some_and(OsRefusal::is_lack) => {
                Err(change::Error::Start(error).into())
            }
            Err(error) => refused(with_causes(&error)),
        }
    }

    async fn work(&mut self, boxed: &Sandbox, mut socket: Option<&mut AgentSocket>) -> Result<Option<Stop>, Error> {
        if let Some(setup) = self.of.setup
            && let Err(stop) = self.set_up(boxed, setup, socket.as_deref_mut()).await?
        {
            return Ok(Some(stop));
        }
        if let Err(stop) = self.begin().await? {
            return Ok(Some(stop));
        }
        let mut turn = 1;
        for argv in &self.of.task.turns {
            if self.of.stop.is_cancelled() {
                return Ok(Some(Stop::new(AttemptOutcome::Interrupted, "stopped before its next turn")));
            }
            if let Err(stop) = self.take_turn(boxed, argv, &mut turn, socket.as_deref_mut()).await? {
                return Ok(Some(stop));
            }
            turn += 1;
        }
        Ok(None)
    }

    /// Runs the setup command. What it writes is part of the state the attempt begins with.
    async fn set_up(&mut self, boxed: &Sandbox, argv: &Argv, socket: Option<&mut AgentSocket>) -> Going<()> {
        let turn = TurnId::new(self.of.attempt, 0);
        let ended = match self.run_command(boxed, argv, turn, socket).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(stop)) => return Ok(Err(Stop { outcome: AttemptOutcome::SetupFailed, ..stop })),
            Err(Error::Box(error)) => return Ok(Err(Stop::new(AttemptOutcome::SetupFailed, lost(&error)))),
            Err(error) => return Err(error),
        };
        self.leftovers += ended.leftovers;
        match ended {
            Ended { cut: Some(Cut::Stopped), .. } => {
                Ok(Err(Stop::new(AttemptOutcome::Interrupted, "stopped during setup")))
            }
            Ended { cut: None, end, .. } if end.is_success() => Ok(Ok(())),
            Ended { end, cut, .. } => {
                let why = cut.map_or_else(|| end.to_string(), |cut| self.cut_text(cut, ended.leftovers));
                let reason = format!("setup `{}` failed: {why}", shell_words::join(argv));
                Ok(Err(Stop { outcome: AttemptOutcome::SetupFailed, reason, end: Some(end), limit: limit_of(cut) }))
            }
        }
    }

    /// Captures the state the attempt begins with, and makes the attempt known.
    async fn begin(&mut self) -> Going<()> {
        let turn = TurnId::new(self.of.attempt, 0);
        let captured = match self.capture_start(turn).await {
            Ok(captured) => captured,
            Err(error) => return stop_of_capture(error),
        };
        self.progress.base = captured.snapshot.commit.clone();
        self.progress.ignored_before = captured.ignored.iter().cloned().collect::<HashSet<RepoPath>>();
        if captured.snapshot.tree != self.progress.latest.tree {
            let ended = TurnEnd { label: "start".to_owned(), ..TurnEnd::default() };
            self.scribe.write(turn, Actor::Runtime, &ended, &captured, &mut self.progress)?;
        }
        self.progress.latest = captured.snapshot.clone();
        let started = AttemptStarted {
            fork_point: self.of.fork.commit.clone(),
            base_ref: captured.snapshot.commit,
            base_tree: captured.snapshot.tree,
            branch: RefName::agent_branch(self.of.run.id(), &self.of.task.name),
            worktree: self.of.workspace.place.worktree().to_owned(),
            adapter: ADAPTER.to_owned(),
            granted: self.of.scope.granted.clone(),
            degraded: self.enforcement.as_ref().map(Enforcement::lacks).unwrap_or_default(),
        };
        self.scribe.record(self.subject(), EventKind::AttemptStarted(started))?;
        self.started = true;
        Ok(Ok(()))
    }

    /// The state the attempt begins with. Commits that an attempt before made and that are not fit for the repository do
    /// not keep this one from beginning: they stay where they are, and are not asked for again.
    async fn capture_start(&mut self, turn: TurnId) -> Result<Captured, change::Error> {
        let refused = match self.scribe.capture(turn, "start", &mut self.progress).await {
            Err(change::Error::Refused { reason, .. }) => reason,
            other => return other,
        };
        let (captured, left_out) = self.scribe.capture_files(turn, "start", &refused, &mut self.progress).await?;
        self.hints.push(format!("commits of an attempt before are not kept: {refused}").into());
        self.progress.disowned = left_out;
        Ok(captured)
    }

    /// One command and the turns that come of it: one, and one more for each that the agent ends itself.
    async fn take_turn(
        &mut self,
        boxed: &Sandbox,
        argv: &Argv,
        turn: &mut u32,
        socket: Option<&mut AgentSocket>,
    ) -> Going<()> {
        let label = shell_words::join(argv);
        let ended = match self.run_turns(boxed, argv, &label, turn, socket).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(stop)) => return Ok(Err(stop)),
            Err(Error::Box(error)) => return self.lose_box(boxed, *turn, label, &error).await,
            Err(error) => return Err(error),
        };
        self.leftovers += ended.leftovers;
        self.last_end = Some(ended.end);
        let told = TurnEnd {
            label,
            tool: argv.first().cloned(),
            end: Some(ended.end),
            leftovers: ended.leftovers,
            // An agent that was killed was cut short too, whoever killed it.
            interrupted: ended.cut.is_some() || matches!(ended.end, ProcessEnd::Signaled(_)),
            live: false,
        };
        if let Err(stop) = self.close_turn(TurnId::new(self.of.attempt, *turn), &told).await? {
            return Ok(Err(stop));
        }
        Ok(match stop_of_command(&ended) {
            None => Ok(()),
            Some(outcome) => {
                let reason = match ended.cut {
                    Some(cut) => self.cut_text(cut, ended.leftovers),
                    None => format!("`{}` ended with {}", shell_words::join(argv), ended.end),
                };
                Err(Stop { outcome, reason, end: Some(ended.end), limit: limit_of(ended.cut) })
            }
        })
    }

    /// The box is gone under the command, killed from outside or for lack of memory. That is this agent's misfortune and
    /// nobody else's: what there is is captured.
    async fn lose_box(&mut self, boxed: &Sandbox, turn: u32, label: String, error: &BoxError) -> Going<()> {
        match boxed.kill().await {
            Ok(()) | Err(BoxError::Escaped) => {}
            Err(error) => return Err(Error::Box(error)),
        }
        let told = TurnEnd { label, interrupted: true, ..TurnEnd::default() };
        if let Err(stop) = self.close_turn(TurnId::new(self.of.attempt, turn), &told).await? {
            return Ok(Err(stop));
        }
        Ok(Err(Stop::new(AttemptOutcome::Failed, lost(error))))
    }

    async fn close_turn(&mut self, turn: TurnId, ended: &TurnEnd) -> Going<()> {
        let error = match self.scribe.capture(turn, &ended.label, &mut self.progress).await {
            Ok(captured) => {
                self.scribe.write(turn, Actor::SubAgent, ended, &captured, &mut self.progress)?;
                self.note_lost(turn, &captured);
                return Ok(Ok(()));
            }
            Err(error) => error,
        };
        // The attempt is over, but the files must not be lost with the commits.
        if let change::Error::Refused { reason, .. } = &error {
            match self.scribe.capture_files(turn, &ended.label, reason, &mut self.progress).await {
                Ok((captured, _)) => {
                    self.scribe.write(turn, Actor::SubAgent, ended, &captured, &mut self.progress)?;
                    self.note_lost(turn, &captured);
                }
                Err(again) => tracing::debug!(%again, "the files alone were refused too"),
            }
        }
        stop_of_capture(error)
    }

    /// What a capture had to leave out is told with the attempt: nobody looks for it in the record of a turn.
    fn note_lost(&mut self, turn: TurnId, captured: &Captured) {
        if let Some(lost) = captured.kept_nowhere() {
            self.hints.push(format!("turn {turn} lacks files that could not be captured: {lost}").into());
        }
    }

    async fn run_turns(
        &mut self,
        boxed: &Sandbox,
        argv: &Argv,
        label: &str,
        turn: &mut u32,
        mut socket: Option<&mut AgentSocket>,
    ) -> Going<Ended> {
        let started = TurnStarted { label: label.to_owned(), argv: argv.clone() };
        let id = |turn: u32| TurnId::new(self.of.attempt, turn);
        self.scribe.record(Subject::turn(&self.of.task.name, id(*turn)), EventKind::TurnStarted(started.clone()))?;
        let mut log = OutputLog::open(&self.of.run.output(&self.of.task.name, id(*turn)))?;
        let mut supervisor = match self.spawn(boxed, argv, id(*turn), self.of.task.workdir.as_deref()).await? {
            Ok(supervisor) => supervisor,
            Err(stop) => return self.could_not_start(id(*turn), label, stop).await,
        };
        loop {
            let (journal, agent, denials) = (self.of.journal, &self.of.task.name, &mut self.denials);
            let mut on_output = |chunk: &[u8]| take_in(journal, agent, denials.as_mut(), chunk);
            let happening =
                supervisor.next(boxed, &mut self.bounds, &mut log, &mut on_output, socket.as_deref_mut()).await?;
            match happening {
                Happening::Ended(ended) => return Ok(Ok(ended)),
                Happening::Requested(Request { wish: Wish::Paths(ask), asker }) => {
                    self.answer(id(*turn), ask, asker).await?;
                    supervisor.heard(&self.bounds);
                }
                Happening::Requested(Request { wish: Wish::Turn(label), asker }) => {
                    let at = TurnId::new(self.of.attempt, *turn);
                    if self.live_turn(boxed, at, argv, (label, asker)).await? {
                        *turn += 1;
                        let next = TurnId::new(self.of.attempt, *turn);
                        self.scribe.record(Subject::turn(agent, next), EventKind::TurnStarted(started.clone()))?;
                        log = OutputLog::open(&self.of.run.output(agent, next))?;
                    }
                    supervisor.heard(&self.bounds);
                }
            }
        }
    }

    /// A turn whose command never ran has a record all the same, so that its place is not empty.
    async fn could_not_start(&mut self, turn: TurnId, label: &str, stop: Stop) -> Going<Ended> {
        let told = TurnEnd { label: label.to_owned(), interrupted: true, ..TurnEnd::default() };
        match self.close_turn(turn, &told).await? {
            Ok(()) => Ok(Err(stop)),
            Err(worse) => Ok(Err(worse)),
        }
    }

    /// Captures a turn that the agent ends itself, with everything in the box stopped. False: it was not captured, which
    /// the agent is told.
    async fn live_turn(
        &mut self,
        boxed: &Sandbox,
        turn: TurnId,
        argv: &Argv,
        (label, asker): (String, Asker),
    ) -> Result<bool, Error> {
        if let Err(error) = boxed.freeze().await {
            boxed.thaw().await.map_err(Error::Box)?;
            asker.answer(Err(error.to_string())).await;
            return Ok(false);
        }
        let captured = self.scribe.capture(turn, &label, &mut self.progress).await;
        boxed.thaw().await.map_err(Error::Box)?;
        let captured = match captured {
            Ok(captured) => captured,
            Err(error) => {
                asker.answer(Err(with_causes(&error))).await;
                return Ok(false);
            }
        };
        let told = TurnEnd { label, tool: argv.first().cloned(), live: true, ..TurnEnd::default() };
        self.scribe.write(turn, Actor::SubAgent, &told, &captured, &mut self.progress)?;
        self.note_lost(turn, &captured);
        let changed = self.progress.record.as_ref().map_or(0, |record| record.change_set.changed_paths.len());
        asker.answer(Ok(format!("{turn} {changed} changed paths"))).await;
        Ok(true)
    }

    /// Has a request for more paths decided, and tells the agent. Nothing of this attempt changes by it.
    async fn answer(&self, turn: TurnId, ask: Ask, asker: Asker) -> Result<(), Error> {
        let Some(clerk) = self.of.clerk else {
            asker.answer(Err("nothing can be asked for here".to_owned())).await;
            return Ok(());
        };
        let decided = tokio::task::block_in_place(|| clerk.decide(&self.of.task.name, turn, ask))?;
        let told = decided.and_then(|reply| serde_json::to_string(&reply).map_err(|error| error.to_string()));
        asker.answer(told).await;
        Ok(())
    }

    /// Runs a command to its end, with no turns of its own.
    async fn run_command(
        &mut self,
        boxed: &Sandbox,
        argv: &Argv,
        turn: TurnId,
        mut socket: Option<&mut AgentSocket>,
    ) -> Going<Ended> {
        let mut log = OutputLog::open(&self.of.run.output(&self.of.task.name, turn))?;
        let mut supervisor = match self.spawn(boxed, argv, turn, None).await? {
            Ok(supervisor) => supervisor,
            Err(stop) => return Ok(Err(stop)),
        };
        let (journal, agent, denials) = (self.of.journal, &self.of.task.name, &mut self.denials);
        let mut on_output = |chunk: &[u8]| take_in(journal, agent, denials.as_mut(), chunk);
        loop {
            let happening =
                supervisor.next(boxed, &mut self.bounds, &mut log, &mut on_output, socket.as_deref_mut()).await?;
            match happening {
                Happening::Ended(ended) => return Ok(Ok(ended)),
                Happening::Requested(request) => {
                    request.asker.answer(Err("the setup command has no turns, and asks for nothing".to_owned())).await;
                }
            }
        }
    }

    /// Starts a command in `folder` of the worktree, or at its root.
    async fn spawn(&mut self, boxed: &Sandbox, argv: &Argv, turn: TurnId, folder: Option<&str>) -> Going<Supervisor> {
        let (stdout, stderr, output) = output_pipe()?;
        let mut command = BoxCommand::new(argv.iter().map(OsString::from))
            .cwd(self.of.workspace.place.worktree())
            .stdout(Stdio::Fd(stdout))
            .stderr(Stdio::Fd(stderr));
        if let Some(folder) = folder {
            command = command.below(folder);
        }
        for (name, value) in self.variables(turn) {
            command = command.env(name, value);
        }
        match boxed.spawn(command).await {
            Ok(child) => {
                failpoint::after("command", "agent");
                Ok(Ok(Supervisor::new(child, output, &self.bounds)))
            }
            Err(SpawnError::Box(error)) => Err(Error::Box(error)),
            Err(error) => Ok(Err(Stop::new(AttemptOutcome::CouldNotStart, not_started(&error, folder)))),
        }
    }

    fn variables(&mut self, turn: TurnId) -> Vec<(OsString, OsString)> {
        let Assignment { task, scope, run, capturer, attempt, before, .. } = self.of;
        let (passed, missing) = capturer.environment.passed(&task.sandbox.env);
        for name in missing {
            let hint = Hint::from(format!("the variable {name} is named in the plan and not set"));
            if !self.hints.contains(&hint) {
                self.hints.push(hint);
            }
        }
        // What names the box's own places comes last, so that a plan cannot point them elsewhere.
        let mut variables = passed;
        let own_places = self.enforcement.iter().flat_map(|it| box_variables(&capturer.environment, it));
        variables.extend(own_places);
        variables.extend(crate::workspace::network_variables(&task.sandbox.network));
        let mut own = |name: &str, value: String| {
            variables.insert(name.into(), value.into());
        };
        own("SANDBOX_RUN", run.id().to_string());
        own("SANDBOX_AGENT", task.name.to_string());
        own("SANDBOX_ATTEMPT", attempt.to_string());
        own("SANDBOX_TURN", turn.to_string());
        if let Some(before) = before {
            own("SANDBOX_PREVIOUS_OUTCOME", before.to_string());
        }
        if !scope.granted.is_empty() {
            own("SANDBOX_GRANTED", scope.granted.join("\n"));
        }
        variables.into_iter().collect()
    }

    fn subject(&self) -> Subject {
        Subject::attempt(&self.of.task.name, self.of.attempt)
    }

    fn cut_text(&self, cut: Cut, leftovers: u32) -> String {
        let limits = &self.of.task.sandbox.limits;
        let killed = match leftovers {
            0 => String::new(),
            1 => ", 1 process killed".to_owned(),
            n => format!(", {n} processes killed"),
        };
        match cut {
            Cut::TimedOut => format!("timed out after {:#}{killed}", limits.time),
            Cut::Idle => format!("silent for {:#}{killed}", limits.idle),
            Cut::OutputLimit => format!("wrote more than {} bytes of output{killed}", limits.output),
            Cut::Limit(met) => format!("{met}{}", killed.replacen(", ", "; ", 1)),
            Cut::Stopped => format!("stopped{killed}"),
        }
    }

    fn finish(mut self, stop: Option<Stop>, took: Duration) -> Result<AttemptEnd, Error> {
        let stop = self.judge(stop);
        self.hints.extend(self.denials.take().into_iter().flat_map(Denials::end));
        let record = self.progress.record.as_ref();
        let changed = record.map_or(Ok(0), |_| self.changed_since_fork())?;
        let mergeable = self.started.then(|| self.progress.latest.clone());
        let finished = AttemptFinished {
            outcome: stop.outcome,
            reason: stop.reason,
            end: stop.end.or(self.last_end),
            limit: stop.limit,
            leftover_processes: self.leftovers,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            snapshot: mergeable.as_ref().map(|snapshot| snapshot.commit.clone()),
            tree: mergeable.map(|snapshot| snapshot.tree),
            changed_since_fork: changed,
            outside_since_fork: record.map(|record| record.outside_since_fork.clone()).unwrap_or_default(),
            hints: std::mem::take(&mut self.hints),
        };
        self.scribe.record(self.subject(), EventKind::AttemptFinished(finished))?;
        Ok(AttemptEnd { outcome: stop.outcome, latest: self.progress.latest, branch_at: self.progress.branch_at })
    }

    fn changed_since_fork(&self) -> Result<u64, Error> {
        let repository = &self.of.capturer.repository;
        let changes = tokio::task::block_in_place(|| {
            repository.load_changes(&self.of.fork.tree, &self.progress.latest.tree, crate::git::Renames::Ignore)
        })?;
        Ok(changes.len() as u64)
    }

    /// The outcome: why it stopped, unless the worktree turns out not to be what it was.
    fn judge(&self, stop: Option<Stop>) -> Stop {
        if let Err(error) = tokio::task::block_in_place(|| self.of.workspace.check()) {
            return Stop::new(AttemptOutcome::Tampered, error.to_string());
        }
        match stop {
            Some(stop) => stop,
            None if self.progress.latest.tree == self.of.fork.tree => {
                Stop::new(AttemptOutcome::NoChanges, "every turn ended well, and nothing changed")
            }
            None => Stop::new(AttemptOutcome::Completed, "every turn ended well"),
        }
    }
}

/// What an agent printed goes to who follows it, and is read for what it was kept from.
fn take_in(journal: &dyn Record, agent: &AgentName, denials: Option<&mut Denials>, chunk: &[u8]) {
    journal.output(agent, chunk);
    if let Some(denials) = denials {
        denials.take_in(chunk);
    }
}

/// What the end of a command says of its attempt; `None` where the attempt goes on.
fn stop_of_command(ended: &Ended) -> Option<AttemptOutcome> {
    match (ended.cut, ended.end.is_success()) {
        (Some(Cut::TimedOut), _) => Some(AttemptOutcome::TimedOut),
        (Some(Cut::Idle), _) => Some(AttemptOutcome::Idle),
        (Some(Cut::OutputLimit), _) => Some(AttemptOutcome::OutputLimit),
        (Some(Cut::Limit(_)), _) => Some(AttemptOutcome::Limit),
        (Some(Cut::Stopped), _) => Some(AttemptOutcome::Interrupted),
        (None, false) => Some(AttemptOutcome::Failed),
        (None, true) => None,
    }
}

fn lost(error: &BoxError) -> String {
    format!("its box was lost, killed from outside or for lack of memory: {}", with_causes(error))
}

/// What a failed capture says of its attempt, where it is the agent's or the worktree's doing.
fn stop_of_capture<T>(error: change::Error) -> Going<T> {
    let is_of_the_machine = match &error {
        change::Error::Capture { worktree, .. } if space::is_full(worktree) => true,
        _ => OsRefusal::behind(&error).is_some_and(OsRefusal::is_lack),
    };
    // No fault of the agent's: its work stays in its worktree, and is captured when the run goes on.
    if is_of_the_machine {
        return Err(error.into());
    }
    let outcome = match &error {
        change::Error::Capture { .. }
        | change::Error::Start(_)
        | change::Error::Sandbox(_)
        | change::Error::Git(crate::git::Error::RefMoved { .. })
        | change::Error::Workspace(crate::workspace::Error::Program { .. }) => AttemptOutcome::CaptureFailed,
        change::Error::Refused { .. } => AttemptOutcome::HarvestRefused,
        change::Error::Workspace(crate::workspace::Error::Tampered { .. }) => AttemptOutcome::Tampered,
        change::Error::Workspace(_) | change::Error::Git(_) | change::Error::Store(_) => return Err(error.into()),
    };
    Ok(Err(Stop::new(outcome, with_causes(&error))))
}

/// Why a command was not started. That its folder cannot be entered is said in words: the kernel's are about devices.
pub(crate) fn not_started(error: &SpawnError, folder: Option<&str>) -> String {
    let (SpawnError::Directory { source, .. }, Some(folder)) = (error, folder) else { return with_causes(error) };
    let why = match source.kind() {
        ErrorKind::NotFound => "the worktree has no such folder".to_owned(),
        ErrorKind::NotADirectory => "it is no folder".to_owned(),
        ErrorKind::CrossesDevices => "a link leads out of the worktree".to_owned(),
        _ => source.to_string(),
    };
    format!("cannot start in its `workdir` `{folder}`: {why}")
}

/// An error and what is behind it, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let told = next.to_string();
        if !text.ends_with(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        cause = next.source();
    }
    text
}

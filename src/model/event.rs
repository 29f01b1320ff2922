//! The events of a run. A line of the journal *is* the public event, and is what `run --json` prints.
//!
//! `{"v":1,"seq":7,"timestamp":"…","runId":"login-3","type":"turn.finished","agent":"parser","attempt":1,"turn":"1.1","data":{…}}`
//!
//! `seq` counts from 1 without a gap. A reader skips types it does not know ([`EventKind::Unknown`]).

use std::collections::BTreeSet;

use jiff::Timestamp;
use sandbox::Layer;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::card::{Answer, CompleteCard, Proposal};
use super::change::{GitChangeSet, GitCheckpoint, GitProgressState};
use super::currency::{Asker, Release};
use super::gate::GateBlock;
use super::ids::{AgentName, CardId, CommitId, RefName, RunId, TreeId, TurnId};
use super::outcome::{AttemptOutcome, LimitMet, ProcessEnd, Verdict, VerifyStatus};
use super::path::RepoPath;
use super::plan::{Argv, History, HookPoint};

/// The version of the event format.
pub const VERSION: u32 = 1;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The version of the format it was written in.
    pub v: u32,
    /// Its place in the journal, from 1.
    pub seq: u64,
    /// When it was written.
    pub timestamp: Timestamp,
    /// The run.
    pub run_id: RunId,
    /// Whom it concerns.
    pub subject: Subject,
    /// What happened.
    pub kind: EventKind,
}

/// Whom an event concerns: nobody in particular, an agent, an attempt, or a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The agent.
    pub agent: Option<AgentName>,
    /// The attempt.
    pub attempt: Option<u32>,
    /// The turn.
    pub turn: Option<TurnId>,
}

impl Subject {
    /// The run as a whole.
    pub fn run() -> Self {
        Self::default()
    }

    /// One agent.
    pub fn agent(agent: &AgentName) -> Self {
        Self { agent: Some(agent.clone()), ..Self::default() }
    }

    /// One attempt of an agent.
    pub fn attempt(agent: &AgentName, attempt: u32) -> Self {
        Self { agent: Some(agent.clone()), attempt: Some(attempt), turn: None }
    }

    /// One turn of an agent.
    pub fn turn(agent: &AgentName, turn: TurnId) -> Self {
        Self { agent: Some(agent.clone()), attempt: Some(turn.attempt), turn: Some(turn) }
    }
}

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $name:ident($payload:ty) = $wire:literal),+ $(,)?) => {
        /// What happened.
        #[derive(Debug, Clone, PartialEq)]
        pub enum EventKind {
            $($(#[$doc])* $name($payload),)+
            /// A type this version does not know. Kept as it came.
            Unknown {
                /// Its type.
                name: String,
                /// Its data.
                data: Value,
            },
        }

        impl EventKind {
            /// The types this version writes, for documentation and tests.
            pub const NAMES: &[&str] = &[$($wire),+];

            /// The `type` on the wire.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$name(_) => $wire,)+
                    Self::Unknown { name, .. } => name,
                }
            }

            fn data(&self) -> Result<Value, serde_json::Error> {
                match self {
                    $(Self::$name(payload) => serde_json::to_value(payload),)+
                    Self::Unknown { data, .. } => Ok(data.clone()),
                }
            }

            fn from_wire(name: String, data: Value) -> Result<Self, serde_json::Error> {
                match name.as_str() {
                    $($wire => serde_json::from_value(data).map(Self::$name),)+
                    _ => Ok(Self::Unknown { name, data }),
                }
            }
        }
    };
}

event_kinds! {
    /// The run began: nothing has been created in the repository yet but the pinned base.
    RunStarted(Box<RunStarted>) = "run.started",
    /// The run ended, or a verb that went on with it did.
    RunFinished(RunFinished) = "run.finished",
    /// Nothing new begins until the run is continued.
    RunPaused(Asked) = "run.paused",
    /// A paused run goes on.
    RunContinued(Asked) = "run.continued",
    /// An agent that has ended is to be tried again in this very run.
    RetryRequested(RetryRequested) = "retry.requested",
    /// Work of one kind began.
    StageEnter(StageEnter) = "stage.enter",
    /// Work of one kind ended, however.
    StageExit(StageExit) = "stage.exit",
    /// An attempt is about to be spawned.
    AttemptStarted(AttemptStarted) = "attempt.started",
    /// An attempt ended, or was never begun.
    AttemptFinished(AttemptFinished) = "attempt.finished",
    /// A turn's command is about to be spawned.
    TurnStarted(TurnStarted) = "turn.started",
    /// A turn was captured, pinned and written as a bundle.
    TurnFinished(TurnFinished) = "turn.finished",
    /// An effect outside the journal is about to be made.
    EffectClaimed(Effect) = "effect.claimed",
    /// The effect was seen to have happened.
    EffectConfirmed(Effect) = "effect.confirmed",
    /// The effect was seen not to have happened.
    EffectReleased(Effect) = "effect.released",
    /// The target was seen elsewhere than before.
    TargetMoved(TargetMoved) = "target.moved",
    /// A decision waits for a person.
    CardOpened(CompleteCard) = "card.opened",
    /// A command proposed a resolution of a conflict. Nothing is decided by it.
    CardProposed(Box<CardProposed>) = "card.proposed",
    /// A proposal was turned down; the card waits as before.
    ProposalDiscarded(ProposalDiscarded) = "card.proposal_discarded",
    /// A decision waits no longer.
    CardClosed(CardClosed) = "card.closed",
    /// An agent's contribution was merged in the object database only, to see what comes of it.
    MergePreviewed(MergePreviewed) = "merge.previewed",
    /// An agent's contribution became part of the candidate.
    CandidateAdvanced(CandidateAdvanced) = "candidate.advanced",
    /// The parent verifier judged a candidate, or an earlier receipt did.
    VerifyFinished(VerifyFinished) = "verify.finished",
    /// The gate was asked whether the run is complete.
    GateDecided(GateDecided) = "gate.decided",
    /// A command of the user's own, outside every box, ended.
    HookFinished(HookFinished) = "hook.finished",
    /// A turn changed something.
    ChangeDetected(Box<GitChangeSet>) = "git_progress_change_detected",
    /// A turn left changes its agent's contract does not cover.
    ScopeWarning(ScopeWarning) = "git_progress_scope_warning",
    /// The present work of two agents would conflict, or would not any more.
    OverlapPredicted(OverlapPredicted) = "overlap.predicted",
    /// A state that can be returned to was recorded.
    CheckpointCreated(Box<GitCheckpoint>) = "git_progress_checkpoint_created",
    /// A verifier judged exactly the present candidate.
    VerifierFresh(VerifierFresh) = "git_progress_verifier_fresh",
    /// The run is not complete.
    CompletionBlocked(CompletionBlocked) = "git_progress_completion_blocked",
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    v: u32,
    seq: u64,
    timestamp: Timestamp,
    run_id: RunId,
    #[serde(rename = "type")]
    name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    agent: Option<AgentName>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    turn: Option<TurnId>,
    #[serde(default)]
    data: Value,
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Line {
            v: self.v,
            seq: self.seq,
            timestamp: self.timestamp,
            run_id: self.run_id.clone(),
            name: self.kind.name().to_owned(),
            agent: self.subject.agent.clone(),
            attempt: self.subject.attempt,
            turn: self.subject.turn,
            data: self.kind.data().map_err(serde::ser::Error::custom)?,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let line = Line::deserialize(deserializer)?;
        let kind = EventKind::from_wire(line.name, line.data).map_err(de::Error::custom)?;
        let subject = Subject { agent: line.agent, attempt: line.attempt, turn: line.turn };
        Ok(Self { v: line.v, seq: line.seq, timestamp: line.timestamp, run_id: line.run_id, subject, kind })
    }
}

/// Which process speaks: enough to tell it from another that got the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Invocation {
    /// The process id.
    pub pid: u32,
    /// When the process started, in clock ticks since boot (`/proc/<pid>/stat`, field 22).
    pub start_ticks: u64,
    /// The boot it belongs to (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
}

/// Who is named as author and committer of the program's own commits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
}

impl Default for Identity {
    fn default() -> Self {
        Self { name: "sandbox".to_owned(), email: "sandbox@localhost".to_owned() }
    }
}

/// An agent as the run knows it from its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentBrief {
    /// Its name.
    pub name: AgentName,
    /// What it is for.
    pub title: Option<String>,
    /// Whose work it builds on.
    pub after: Vec<AgentName>,
    /// How often it may be tried.
    pub attempts: u32,
}

/// Data of `run.started`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted {
    /// The program's version.
    pub version: String,
    /// The coordinator.
    pub invocation: Invocation,
    /// The branch the result is meant for; `None` when the checkout is detached and the plan names none.
    pub target: Option<RefName>,
    /// The commit the run starts from.
    pub base: CommitId,
    /// Its tree.
    pub base_tree: TreeId,
    /// How many agents run at once.
    pub jobs: usize,
    /// Whether landing was asked for.
    pub land: bool,
    /// The agents, in plan order.
    pub agents: Vec<AgentBrief>,
    /// The parent verifier's command.
    pub verify_command: Option<Argv>,
    /// Author and committer of the program's commits in this run.
    pub identity: Identity,
    /// The version of git.
    pub git_version: String,
    /// What keeps agents apart from the rest, layer by layer.
    pub isolation: Vec<String>,
    /// Layers that this machine did not give and that the plan or a flag let the run do without.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub degraded: BTreeSet<Layer>,
    /// The user's repository as it was.
    pub baseline: GitProgressState,
}

/// Data of `run.finished`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFinished {
    /// The exit code.
    pub exit_code: u8,
    /// Whether the gate was open.
    pub complete: bool,
    /// What the target was set to, where it was.
    pub landed: Option<CommitId>,
}

/// Who asked for something while a run was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The process that asked; `null` where it lives in another namespace of processes.
    pub pid: Option<u32>,
    /// Its user.
    pub uid: u32,
}

impl Requester {
    /// For a reason in a line: ` by process 7`, or nothing.
    pub fn words(&self) -> String {
        self.pid.map(|pid| format!(" by process {pid}")).unwrap_or_default()
    }
}

/// Data of `run.paused` and `run.continued`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Who asked for it.
    pub by: Requester,
}

/// Data of `retry.requested`. Written before the attempt is promised to whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryRequested {
    /// Whether it begins in a new worktree, made from the agent's own fork point.
    pub from_fork: bool,
    /// Who asked for it.
    pub by: Requester,
}

/// The kinds of work a run consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Worktree, private git directory, seed and setup of one agent.
    Prepare,
    /// An attempt of one agent.
    Execute,
    /// An agent's own verifier.
    Verify,
    /// Previews, cards and the candidate.
    Integrate,
    /// The parent verifier.
    ParentVerify,
    /// Moving the target.
    Land,
    /// The gate.
    Complete,
}

/// Data of `stage.enter`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageEnter {
    /// The agent's name, or the run's id for what concerns the whole.
    pub story_id: String,
    /// The stage.
    pub stage: Stage,
    /// Who works on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub invocation: Option<Invocation>,
}

/// Data of `stage.exit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageExit {
    /// The agent's name, or the run's id for what concerns the whole.
    pub story_id: String,
    /// The stage.
    pub stage: Stage,
    /// How it went, in a word.
    pub result: String,
    /// How long it took.
    pub duration_ms: u64,
}

/// Data of `attempt.started`. Written, and safe on disk, before anything of the agent runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptStarted {
    /// The commit the worktree was made from.
    pub fork_point: CommitId,
    /// The snapshot the attempt begins with: decides what this attempt changed.
    pub base_ref: CommitId,
    /// Its tree.
    pub base_tree: TreeId,
    /// The agent's branch.
    pub branch: RefName,
    /// The worktree.
    pub worktree: std::path::PathBuf,
    /// What drives the agent.
    pub adapter: String,
    /// Globs that it owns beyond the plan's contract: it asked for them, and they were granted before this attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<String>,
    /// Layers its box did without, as was allowed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub degraded: BTreeSet<Layer>,
}

/// Data of `attempt.finished`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptFinished {
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// Why, in a line for people.
    pub reason: String,
    /// How the last command ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end: Option<ProcessEnd>,
    /// The limit of its box that it was ended for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<LimitMet>,
    /// How many processes were still there at the end of its turns, and were killed.
    pub leftover_processes: u32,
    /// How long it took.
    pub duration_ms: u64,
    /// The newest snapshot that may be merged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub snapshot: Option<CommitId>,
    /// Its tree.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tree: Option<TreeId>,
    /// How many paths differ from the fork point.
    pub changed_since_fork: u64,
    /// Paths that differ from the fork point and that the contract does not cover.
    pub outside_since_fork: Vec<RepoPath>,
    /// What is worth knowing beside that.
    #[serde(default)]
    pub hints: Vec<Hint>,
}

impl AttemptFinished {
    /// The end of an attempt of which nothing else is known than how it ended and why.
    pub fn without_work(outcome: AttemptOutcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            reason: reason.into(),
            end: None,
            limit: None,
            leftover_processes: 0,
            duration_ms: 0,
            snapshot: None,
            tree: None,
            changed_since_fork: 0,
            outside_since_fork: Vec::new(),
            hints: Vec::new(),
        }
    }
}

/// Something worth knowing of an attempt, in a line for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hint {
    /// What.
    pub text: String,
    /// Whether it is only what the agent's own output makes likely.
    pub inferred: bool,
}

impl From<String> for Hint {
    /// What we know ourselves.
    fn from(text: String) -> Self {
        Self { text, inferred: false }
    }
}

/// Data of `turn.started`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStarted {
    /// The turn's name.
    pub label: String,
    /// The command.
    pub argv: Argv,
}

/// Data of `turn.finished`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnFinished {
    /// The turn's name.
    pub label: String,
    /// The snapshot.
    pub snapshot: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// The patch, relative to the run's folder; absent where nothing changed.
    pub patch: Option<String>,
    /// How many paths it changed.
    pub changed: u64,
    /// How the command ended.
    pub end: Option<ProcessEnd>,
    /// How many processes it left, which were killed.
    pub leftover_processes: u32,
    /// Whether it was cut short.
    pub interrupted: bool,
    /// Whether the agent ended it itself.
    pub live: bool,
    /// Whether nothing changed.
    pub empty: bool,
}

/// Data of `effect.claimed`, `effect.confirmed` and `effect.released`: what was, and what is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// The same in the claim and in its end.
    pub key: String,
    /// What kind of effect.
    pub effect: EffectKind,
    /// The ref that moves.
    pub reference: RefName,
    /// What it was.
    pub before: CommitId,
    /// What it is to be.
    pub after: CommitId,
    /// The user's checkout that is updated with it, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub checkout: Option<std::path::PathBuf>,
    /// What keeps the user's checkout as it was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rescue: Option<RefName>,
    /// More about it, in a line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// The process that writes this.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub invocation: Option<Invocation>,
    /// Whose work it puts on the candidate. Work that the candidate held before, made of the same, is not named.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub works: Vec<ClaimedWork>,
    /// What was observed right before: of the target, where it is the target that moves.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub observation_key: Option<String>,
    /// The how many-th attempt it is for exactly this observation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attempt: Option<u32>,
    /// Who asked for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked: Option<Asker>,
    /// How it came to nothing, where it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub release: Option<Release>,
}

/// An agent's work that is put on the candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimedWork {
    /// The agent.
    pub agent: AgentName,
    /// What was observed of it.
    pub observation_key: String,
    /// The how many-th attempt it is for exactly this observation.
    pub attempt: u32,
}

/// The kinds of effects that are claimed before they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectKind {
    /// Moving the candidate's branch to what the merges gave.
    Merge,
    /// Moving the target.
    Land,
}

/// Data of `target.moved`: something else than this run moved the target, and it was seen now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetMoved {
    /// The branch.
    pub target: RefName,
    /// Where it was when it was last looked at.
    pub from: Option<CommitId>,
    /// Where it is; none where it is gone.
    pub to: Option<CommitId>,
    /// How the two are to each other.
    pub how: Movement,
}

/// How a branch moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Movement {
    /// By commits on top of what it was.
    Advanced,
    /// Back to a commit of its own history.
    Rewound,
    /// To a commit that has not what it was in its history, and is not in it.
    Rewritten,
    /// It was deleted.
    Deleted,
    /// It is there again.
    Restored,
}

/// Data of `card.proposed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardProposed {
    /// The card.
    pub card: CardId,
    /// What was proposed.
    pub proposal: Proposal,
}

/// Data of `card.proposal_discarded`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalDiscarded {
    /// The card.
    pub card: CardId,
    /// Who turned it down, `Name <address>`.
    pub by: String,
    /// Why, in their words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

/// Data of `card.closed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardClosed {
    /// The card.
    pub card: CardId,
    /// How it was closed, in a line.
    pub resolution: String,
    /// What a person decided, where one did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<Answer>,
}

/// Data of `overlap.predicted`. A warning: previews when all agents have ended decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlapPredicted {
    /// The other agent.
    pub with: AgentName,
    /// Where they would conflict; none: they would not any more.
    pub paths: Vec<RepoPath>,
    /// The kinds of conflict.
    pub kinds: Vec<String>,
}

/// How an agent's head stands to the tip it is to be merged onto.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Currency {
    /// The tip is in its history.
    Current,
    /// The tip is not in its history, and merging is clean.
    Behind,
    /// Merging conflicts.
    Dirty,
    /// It could not be told.
    Unknown,
}

/// What came of previewing one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreviewResult {
    /// It merges cleanly.
    Clean,
    /// It conflicts: a card tells.
    Conflict,
    /// It is held for what it contains: a card tells.
    Held,
    /// It builds on an agent that is not merged.
    Blocked,
    /// The merge could not be computed: a card tells.
    Error,
    /// A person decided to leave it out.
    SetAside,
}

/// Data of `merge.previewed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MergePreviewed {
    /// The candidate it was merged onto.
    pub onto: CommitId,
    /// The contribution, where one was made.
    pub contribution: Option<CommitId>,
    /// The snapshot it was made of.
    pub snapshot: CommitId,
    /// How it stands to the candidate.
    pub currency: Currency,
    /// What came of it.
    pub result: PreviewResult,
    /// The cards, where any were opened or still stand.
    pub cards: Vec<CardId>,
    /// Whom it waits for, where it is blocked.
    pub blocked_by: Vec<AgentName>,
    /// Equal for two previews of the same thing (a hash over repository, target, tip, head, status and route).
    pub observation_key: String,
    /// Whose work it builds on: `independent`, or the names.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub route: String,
}

/// Data of `candidate.advanced`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateAdvanced {
    /// The ref that names the candidate.
    pub reference: RefName,
    /// The target's tip that this candidate is built on.
    pub onto: CommitId,
    /// What the candidate was.
    pub from: CommitId,
    /// What it is.
    pub to: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// What was merged; `None` where the candidate begins anew at the target's tip.
    pub contribution: Option<CommitId>,
    /// The merge that previews go on from, where [`Self::to`] is another commit with the same tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<CommitId>,
    /// What form the work has in the candidate's history, where the plan asks for another than a merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Shape>,
}

impl CandidateAdvanced {
    /// The commit that previews go on from.
    pub fn previewed(&self) -> &CommitId {
        self.merge.as_ref().unwrap_or(&self.to)
    }
}

/// What form an agent's work has in the candidate's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shape {
    /// The form.
    pub form: History,
    /// How many commits of the agent's own were made again there.
    #[serde(default)]
    pub commits: u64,
    /// Why it is not the form that the plan asks for, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Data of `verify.finished`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyFinished {
    /// The candidate judged.
    pub commit: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// The command.
    pub command: Argv,
    /// The hash the receipt is found by.
    pub receipt: String,
    /// What the command did.
    pub status: VerifyStatus,
    /// What it means.
    pub verdict: Verdict,
    /// Why there is no pass, where there is none.
    pub error: Option<String>,
    /// Whether an earlier receipt served.
    pub reused: bool,
    /// How long the command took.
    pub duration_ms: u64,
    /// The output, relative to the run's folder.
    pub log: Option<String>,
    /// Layers the verifier's box would do without where this was told, as was allowed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub degraded: BTreeSet<Layer>,
}

/// Data of `gate.decided`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateDecided {
    /// Whether the run is complete.
    pub open: bool,
    /// What is in the way, all of it.
    pub blocks: Vec<GateBlock>,
}

/// Data of `hook.finished`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookFinished {
    /// Its name: a point of a run, or that of a git hook.
    pub hook: String,
    /// Where it comes from.
    pub source: HookSource,
    /// The `seq` of the event it was run for; `None` for a git hook.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of: Option<u64>,
    /// The command.
    pub command: Argv,
    /// How it ended; `None` where it did not end by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end: Option<ProcessEnd>,
    /// Whether it was killed because its time was over.
    pub timed_out: bool,
    /// Why it has not done what it is for, in a line; `None` where it ended well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// What it printed, relative to the run's folder; `None` where it printed nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log: Option<String>,
}

/// Where a hook comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookSource {
    /// The plan.
    Plan,
    /// The user's own settings.
    Settings,
    /// The repository's git hooks.
    Git,
}

impl EventKind {
    /// The hook that is run for it.
    pub fn hook_point(&self) -> Option<HookPoint> {
        match self {
            Self::RunStarted(_) => Some(HookPoint::RunStarted),
            Self::AttemptFinished(_) => Some(HookPoint::AgentFinished),
            Self::CardOpened(_) => Some(HookPoint::CardOpened),
            Self::GateDecided(_) => Some(HookPoint::GateDecided),
            Self::EffectConfirmed(effect) => match effect.effect {
                EffectKind::Land => Some(HookPoint::Landed),
                EffectKind::Merge => None,
            },
            Self::RunFinished(_)
            | Self::RunPaused(_)
            | Self::RunContinued(_)
            | Self::RetryRequested(_)
            | Self::StageEnter(_)
            | Self::StageExit(_)
            | Self::AttemptStarted(_)
            | Self::TurnStarted(_)
            | Self::TurnFinished(_)
            | Self::EffectClaimed(_)
            | Self::EffectReleased(_)
            | Self::CardClosed(_)
            | Self::CardProposed(_)
            | Self::ProposalDiscarded(_)
            | Self::MergePreviewed(_)
            | Self::CandidateAdvanced(_)
            | Self::VerifyFinished(_)
            | Self::TargetMoved(_)
            | Self::HookFinished(_)
            | Self::ChangeDetected(_)
            | Self::ScopeWarning(_)
            | Self::OverlapPredicted(_)
            | Self::CheckpointCreated(_)
            | Self::VerifierFresh(_)
            | Self::CompletionBlocked(_)
            | Self::Unknown { .. } => None,
        }
    }
}

/// Data of `git_progress_scope_warning`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScopeWarning {
    /// Changed paths that the contract does not cover.
    pub outside_owned_scope: Vec<RepoPath>,
}

/// Data of `git_progress_verifier_fresh`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifierFresh {
    /// The tree judged.
    pub tree: TreeId,
    /// What was said of it.
    pub verdict: Verdict,
}

/// Data of `git_progress_completion_blocked`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletionBlocked {
    /// Paths that the run changed.
    pub changed_paths: Vec<RepoPath>,
    /// Those that no contract covers.
    pub outside_owned_scope: Vec<RepoPath>,
    /// The verifier last run.
    pub verifier_command: Option<Argv>,
    /// The `seq` of the event that told its end.
    pub verifier_seq: Option<u64>,
    /// What to do.
    pub next_action: String,
}

//! The events of a run. A line of the journal *is* the public event, and is what `run --json` prints.
//!
//! `{"v":1,"seq":7,"timestamp":"…","runId":"login-3","type":"turn.finished","agent":"parser","attempt":1,"turn":"1.1","data":{…}}`
//!
//! `seq` counts from 1 without a gap. A reader skips types it does not know ([`EventKind::Unknown`]).

mod agent;
mod effect;
mod judgement;
mod merge;
mod run;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::card::CompleteCard;
use super::change::{GitChangeSet, GitCheckpoint};
use super::ids::{AgentName, RunId, TurnId};
use super::plan::HookPoint;

pub use self::agent::{AttemptFinished, AttemptStarted, Hint, TurnFinished, TurnStarted};
pub use self::effect::{ClaimedWork, Effect, EffectKind, Movement, TargetMoved};
pub use self::judgement::{
    CompletionBlocked, GateDecided, HookFinished, HookSource, ScopeWarning, VerifierFresh, VerifyFinished,
};
pub use self::merge::{
    CandidateAdvanced, CardClosed, CardProposed, Currency, MergePreviewed, OverlapPredicted, PreviewResult,
    ProposalDiscarded, Shape,
};
pub use self::run::{
    AgentBrief, Asked, Identity, Invocation, Requester, RetryRequested, RunFinished, RunStarted, Stage, StageEnter,
    StageExit,
};

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

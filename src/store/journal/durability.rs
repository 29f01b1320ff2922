//! Which events must be on disk before the program goes on.

use crate::model::event::EventKind;

/// What appending an event waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// For the disk: something outside the journal is done because of it.
    Effect,
    /// For the kernel: it survives our death, and after a power cut it can be missing, which nobody misses.
    Chatter,
}

/// What appending this event waits for.
pub fn durability(kind: &EventKind) -> Durability {
    match kind {
        // The base is pinned, worktrees are made, commands are spawned, refs are moved, people are asked.
        EventKind::RunStarted(_)
        | EventKind::RunFinished(_)
        // Somebody was told that it is so.
        | EventKind::RunPaused(_)
        | EventKind::RunContinued(_)
        | EventKind::RetryRequested(_)
        | EventKind::AttemptStarted(_)
        | EventKind::AttemptFinished(_)
        | EventKind::TurnStarted(_)
        | EventKind::TurnFinished(_)
        | EventKind::EffectClaimed(_)
        | EventKind::EffectConfirmed(_)
        | EventKind::EffectReleased(_)
        | EventKind::CardOpened(_)
        | EventKind::CardProposed(_)
        | EventKind::ProposalDiscarded(_)
        | EventKind::CardClosed(_)
        | EventKind::CandidateAdvanced(_)
        | EventKind::VerifyFinished(_)
        | EventKind::GateDecided(_)
        // What the user's command did cannot be told otherwise, and it is not done twice.
        | EventKind::HookFinished(_)
        // What is not known is not taken lightly.
        | EventKind::Unknown { .. } => Durability::Effect,
        // Told again, or found again, by going on.
        EventKind::StageEnter(_)
        | EventKind::StageExit(_)
        | EventKind::MergePreviewed(_)
        | EventKind::ChangeDetected(_)
        | EventKind::ScopeWarning(_)
        | EventKind::OverlapPredicted(_)
        | EventKind::TargetMoved(_)
        | EventKind::CheckpointCreated(_)
        | EventKind::VerifierFresh(_)
        | EventKind::CompletionBlocked(_) => Durability::Chatter,
    }
}

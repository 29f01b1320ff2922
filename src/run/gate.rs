//! The gate: whether a run is complete, as a pure function of its state and of a few facts about the repository.
//!
//! Complete means: every agent completed and is part of the candidate, or was left out by somebody's word, and not all of
//! them were; no card waits; the verifier judged exactly this
//! candidate and passed it; and no file that the user had changed and that the run changes too was changed since by
//! something else. Whatever is missing is told, all of it, each with what to do. Nothing here is ever guessed: what is not
//! known to hold does not hold.

use crate::model::currency::Item;
use crate::model::event::{CompletionBlocked, GateDecided, PreviewResult};
use crate::model::gate::{BlockKind, GateBlock};
use crate::model::run::{AgentState, RunState};
use crate::model::{AttemptOutcome, RepoPath, Verdict};

/// What the gate is told beside the run's state.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Paths the run changes that the user had changed before it, and that were changed again since.
    pub user_files_changed: Vec<RepoPath>,
    /// Why the run ended before it was done, if it did.
    pub ended_early: Option<String>,
}

/// Decides.
pub fn decide(state: &RunState, facts: &Facts) -> GateDecided {
    let mut blocks = Vec::new();
    if let Some(why) = &facts.ended_early {
        blocks.push(block(
            BlockKind::Interrupted,
            why.clone(),
            format!("`sandbox status {}` shows what was kept", state.run_id),
        ));
    }
    for agent in &state.agents {
        blocks.extend(agent_block(state, agent));
    }
    for card in state.open_cards() {
        blocks.push(GateBlock {
            kind: BlockKind::OpenCard,
            agent: card.agents.first().cloned(),
            card: Some(card.id.clone()),
            paths: card.paths.clone(),
            message: card.summary.clone(),
            next: format!("`sandbox board show {} --run {}`", card.id, state.run_id),
        });
    }
    blocks.extend(verifier_block(state));
    if !facts.user_files_changed.is_empty() {
        let mut changed = block(
            BlockKind::UserFileChanged,
            "files you had changed before the run, and that the run changes too, were changed again since".to_owned(),
            "look at them, then run again".to_owned(),
        );
        changed.paths.clone_from(&facts.user_files_changed);
        blocks.push(changed);
    }
    GateDecided { open: blocks.is_empty(), blocks }
}

fn block(kind: BlockKind, message: String, next: String) -> GateBlock {
    GateBlock { kind, agent: None, card: None, paths: Vec::new(), message, next }
}

fn agent_block(state: &RunState, agent: &AgentState) -> Option<GateBlock> {
    let name = &agent.name;
    let told = |kind, message: String, next: String| {
        Some(GateBlock { agent: Some(name.clone()), ..block(kind, message, next) })
    };
    // Without its run an agent is that of the newest one.
    let run = &state.run_id;
    let again = format!("`sandbox retry {name} --run {run}`");
    let retry = format!("`sandbox inspect {name} --run {run}`, then {again}");
    match agent.outcome() {
        None => {
            told(BlockKind::AgentIncomplete, format!("agent `{name}` has not ended"), format!("`sandbox resume {run}`"))
        }
        Some(AttemptOutcome::Completed) => match state.settled(agent).map(|merge| merge.result) {
            // A card tells of what is held, and is a block of its own.
            Some(PreviewResult::Clean | PreviewResult::Conflict | PreviewResult::Held | PreviewResult::Error) => None,
            // That it is left out was decided. Where nothing else is left either, there is nothing to be complete.
            Some(PreviewResult::SetAside) if is_any_left(state) => None,
            Some(PreviewResult::SetAside) => told(
                BlockKind::NotMerged,
                format!("the work of agent `{name}` is left out, as was decided, and no other work is left"),
                again,
            ),
            Some(PreviewResult::Blocked) => {
                let by = agent.merge.iter().flat_map(|merge| &merge.blocked_by).map(|name| format!("`{name}`"));
                let message =
                    format!("agent `{name}` builds on {}, which is not merged", by.collect::<Vec<_>>().join(", "));
                told(BlockKind::NotMerged, message, format!("settle what holds that one, then `sandbox merge {run}`"))
            }
            None => {
                let why = agent.merging.as_ref().and_then(Item::refusal);
                let why = why.map_or_else(String::new, |refusal| format!(": {refusal}"));
                let message = format!("what agent `{name}` made is not merged yet{why}");
                told(BlockKind::NotMerged, message, format!("`sandbox merge {run}`"))
            }
        },
        Some(AttemptOutcome::Skipped) if state.holds_skipped(agent) => told(
            BlockKind::NotMerged,
            format!("agent `{name}` was skipped, and the candidate has work of it still"),
            format!("`sandbox merge {run}`"),
        ),
        Some(AttemptOutcome::Skipped) if is_any_left(state) => None,
        Some(
            outcome @ (AttemptOutcome::Skipped
            | AttemptOutcome::NoChanges
            | AttemptOutcome::Failed
            | AttemptOutcome::CouldNotStart
            | AttemptOutcome::TimedOut
            | AttemptOutcome::Idle
            | AttemptOutcome::OutputLimit
            | AttemptOutcome::Limit
            | AttemptOutcome::SetupFailed
            | AttemptOutcome::CaptureFailed
            | AttemptOutcome::HarvestRefused
            | AttemptOutcome::Tampered
            | AttemptOutcome::SandboxRefused
            | AttemptOutcome::Interrupted
            | AttemptOutcome::Stale
            | AttemptOutcome::Blocked),
        ) => {
            let finished = agent.last_attempt().and_then(|attempt| attempt.finished.as_ref());
            let reason = finished.map(|finished| finished.reason.as_str()).unwrap_or_default();
            let next = if outcome == AttemptOutcome::Interrupted { format!("`sandbox resume {run}`") } else { retry };
            told(BlockKind::AgentIncomplete, format!("agent `{name}` {outcome}: {reason}"), next)
        }
    }
}

/// Whether work of any agent is left that nobody decided to do without.
fn is_any_left(state: &RunState) -> bool {
    state.agents.iter().any(|agent| {
        let set_aside = state.settled(agent).is_some_and(|merge| merge.result == PreviewResult::SetAside);
        agent.outcome() == Some(AttemptOutcome::Completed) && !set_aside
    })
}

fn verifier_block(state: &RunState) -> Option<GateBlock> {
    let candidate = state.candidate.as_ref()?;
    if candidate.merged.is_empty() {
        return None;
    }
    let run = &state.run_id;
    let has_verifier = state.started.as_ref().is_some_and(|started| started.verify_command.is_some());
    if !has_verifier {
        let message = "the plan has no verifier: the result is unverified".to_owned();
        return Some(block(BlockKind::NoVerifier, message, "add `[verify] command = [...]` to the plan".to_owned()));
    }
    let again = format!("`sandbox verify {run}`");
    let Some(verification) = &state.verification else {
        return Some(block(BlockKind::NoVerdict, "the verifier has not judged the result yet".to_owned(), again));
    };
    if !state.verifier_is_fresh() {
        let message = "the verifier judged something else than the present candidate".to_owned();
        return Some(block(BlockKind::VerifierStale, message, again));
    }
    let finished = &verification.finished;
    let why = finished.error.as_deref().unwrap_or("see its output");
    let look = format!("`sandbox logs verify --run {run}`, then `sandbox retry <agent> --run {run}`");
    match finished.verdict {
        Verdict::Pass | Verdict::PassWithInherited => None,
        Verdict::Fail => Some(block(BlockKind::VerifierFailed, format!("the verifier failed: {why}"), look)),
        Verdict::Blocked => {
            Some(block(BlockKind::VerifierFailed, format!("the verifier's pass does not count: {why}"), look))
        }
        Verdict::None => {
            let next = format!("`sandbox logs verify --run {run}`, then {again}");
            Some(block(BlockKind::NoVerdict, format!("the verifier gave no verdict: {why}"), next))
        }
    }
}

/// The exit code that a decision asks for: the first of verifier (6), cards (5), anything else (1), complete (0).
pub fn exit_code(decision: &GateDecided) -> u8 {
    let code = |block: &GateBlock| match block.kind {
        BlockKind::VerifierFailed | BlockKind::NoVerdict | BlockKind::VerifierStale => 6,
        BlockKind::OpenCard => 5,
        BlockKind::AgentIncomplete
        | BlockKind::NotMerged
        | BlockKind::NoVerifier
        | BlockKind::UserFileChanged
        | BlockKind::Interrupted
        | BlockKind::CheckoutBusy
        | BlockKind::TargetMoved
        | BlockKind::HookRefused
        | BlockKind::CannotLand => 1,
    };
    decision.blocks.iter().map(code).max().unwrap_or(0)
}

/// What is told when the run is not complete: what changed, what lies outside, the verifier, and what to do next.
pub fn completion_blocked(state: &RunState, decision: &GateDecided) -> CompletionBlocked {
    let mut changed: Vec<RepoPath> =
        state.checkpoints.iter().flat_map(|checkpoint| checkpoint.changed_paths.iter().cloned()).collect();
    changed.sort();
    changed.dedup();
    let mut outside: Vec<RepoPath> = state
        .agents
        .iter()
        .filter_map(|agent| agent.last_attempt()?.finished.as_ref())
        .flat_map(|finished| finished.outside_since_fork.iter().cloned())
        .collect();
    outside.sort();
    outside.dedup();
    CompletionBlocked {
        changed_paths: changed,
        outside_owned_scope: outside,
        verifier_command: state.verification.as_ref().map(|verification| verification.finished.command.clone()),
        verifier_seq: state.verification.as_ref().map(|verification| verification.seq),
        next_action: decision.blocks.first().map(|block| block.next.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;

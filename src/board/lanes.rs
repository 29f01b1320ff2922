//! Lanes: where every agent stands, as a fold of a run's state.

use serde::Serialize;

use crate::model::card::Card;
use crate::model::event::{PreviewResult, Stage};
use crate::model::run::tries::Next;
use crate::model::run::{AgentState, RunState};
use crate::model::{AgentName, AttemptOutcome, CardId};

/// The lanes of the board, in the order of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// Nothing is being done for it yet, or again.
    Waiting,
    /// It is being prepared, or works.
    Running,
    /// It is done, and being looked at: its verifier, the preview, the merge.
    Checking,
    /// A card of its own waits for a decision.
    NeedsHuman,
    /// Its work is part of the candidate, or it had none.
    Merged,
    /// It ended otherwise than well, or waits for one that did.
    Blocked,
}

impl Lane {
    /// Every lane.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Running, Self::Checking, Self::NeedsHuman, Self::Merged, Self::Blocked];

    /// Its name in JSON and in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Checking => "checking",
            Self::NeedsHuman => "needs-human",
            Self::Merged => "merged",
            Self::Blocked => "blocked",
        }
    }
}

/// Where one agent stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// The agent.
    pub agent: AgentName,
    /// Its lane.
    pub lane: Lane,
    /// Why there, in a few words.
    pub reason: String,
    /// Its open cards, in any lane.
    pub cards: Vec<CardId>,
}

/// The board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lanes {
    /// Every agent once, in plan order.
    pub agents: Vec<Standing>,
    /// All open cards, in the order they were opened. They stand under [`Lane::NeedsHuman`].
    pub cards: Vec<Card>,
}

impl Lanes {
    /// The agents in one lane.
    pub fn in_lane(&self, lane: Lane) -> impl Iterator<Item = &Standing> {
        self.agents.iter().filter(move |standing| standing.lane == lane)
    }
}

/// The board of a run.
pub fn lanes(state: &RunState) -> Lanes {
    Lanes {
        agents: state.agents.iter().map(|agent| standing(state, agent)).collect(),
        cards: state.open_cards().cloned().collect(),
    }
}

fn standing(state: &RunState, agent: &AgentState) -> Standing {
    // A card is its first agent's: the others are merged and wait for nothing.
    let own = state.open_cards().filter(|card| card.agents.first() == Some(&agent.name));
    let cards: Vec<CardId> = own.map(|card| card.id.clone()).collect();
    let (lane, reason) = lane(state, agent, &cards);
    Standing { agent: agent.name.clone(), lane, reason, cards }
}

fn lane(state: &RunState, agent: &AgentState, cards: &[CardId]) -> (Lane, String) {
    let attempt = agent.last_attempt();
    match agent.stage {
        Some((Stage::Prepare, _)) => return (Lane::Running, "being prepared".to_owned()),
        Some((Stage::Execute, _)) => return (Lane::Running, "running".to_owned()),
        Some((Stage::Verify | Stage::Integrate | Stage::ParentVerify | Stage::Land | Stage::Complete, _)) => {
            return (Lane::Checking, "being verified".to_owned());
        }
        None => {}
    }
    let finished = attempt.and_then(|attempt| attempt.finished.as_ref());
    match (attempt, finished) {
        (Some(attempt), None) => (Lane::Running, format!("attempt {} is running", attempt.number)),
        _ if !cards.is_empty() => (Lane::NeedsHuman, "waits for a decision".to_owned()),
        (None, _) => (Lane::Waiting, waits_for(state, agent)),
        (Some(attempt), Some(finished)) => ended(state, agent, attempt.number, finished.outcome, &finished.reason),
    }
}

/// The lane of an agent whose attempt has ended, and that no card holds.
fn ended(state: &RunState, agent: &AgentState, attempt: u32, outcome: AttemptOutcome, reason: &str) -> (Lane, String) {
    match outcome {
        AttemptOutcome::Completed => previewed(agent),
        AttemptOutcome::NoChanges => (Lane::Merged, "nothing to merge".to_owned()),
        AttemptOutcome::Failed
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
        | AttemptOutcome::Blocked
        | AttemptOutcome::Skipped
        | AttemptOutcome::Stale => {
            match state.follows(agent) {
                Next::Try => {
                    return (
                        Lane::Waiting,
                        format!("attempt {attempt} of {} ended: {outcome}", state.tries(&agent.name)),
                    );
                }
                Next::WithMore => return (Lane::Waiting, format!("attempt {attempt} ended, to have what was granted")),
                Next::Nothing => {}
            }
            if outcome == AttemptOutcome::Blocked && state.lacking(agent).is_empty() {
                return (Lane::Blocked, "what it waited for is there now: it can be tried".to_owned());
            }
            (Lane::Blocked, if reason.is_empty() { outcome.to_string() } else { format!("{outcome}: {reason}") })
        }
    }
}

/// The lane of an agent that completed.
fn previewed(agent: &AgentState) -> (Lane, String) {
    let Some(merge) = &agent.merge else { return (Lane::Checking, "completed, not yet merged".to_owned()) };
    if merge.merged_as.is_some() {
        return (Lane::Merged, "part of the candidate".to_owned());
    }
    match merge.result {
        PreviewResult::Clean => (Lane::Checking, "merges cleanly".to_owned()),
        PreviewResult::Blocked => {
            let names: Vec<&str> = merge.blocked_by.iter().map(AgentName::as_str).collect();
            (Lane::Blocked, format!("waits for {}", names.join(", ")))
        }
        PreviewResult::SetAside => (Lane::Blocked, "left out, as was decided".to_owned()),
        // The card that said so has been closed, and nothing has been merged since.
        PreviewResult::Conflict | PreviewResult::Held | PreviewResult::Error => {
            (Lane::Checking, "its card is closed, to be merged again".to_owned())
        }
    }
}

fn waits_for(state: &RunState, agent: &AgentState) -> String {
    let open = state.lacking(agent);
    let open: Vec<&str> = open.iter().map(AgentName::as_str).collect();
    if open.is_empty() { "waits for its turn".to_owned() } else { format!("waits for {}", open.join(", ")) }
}

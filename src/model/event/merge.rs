//! Data of events of cards, previews and the candidate.

use serde::{Deserialize, Serialize};

use crate::model::card::{Answer, Proposal};
use crate::model::ids::{AgentName, CardId, CommitId, RefName, TreeId};
use crate::model::path::RepoPath;
use crate::model::plan::History;

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

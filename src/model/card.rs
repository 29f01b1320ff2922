//! Cards: what waits on the board for a person's decision.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ids::{AgentName, CardId, CommitId, ObjectId, RefName, TurnId};
use super::path::RepoPath;

mod complete;
mod life;

pub use complete::{CompleteCard, Incomplete};
pub use life::{CardStep, CardStepKind, Proposal};

/// What a card is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CardKind {
    /// Two sides changed the same thing in ways git does not combine.
    Conflict,
    /// An agent changed paths its contract does not cover.
    Scope,
    /// An agent changed paths that are protected from everybody whose contract does not name them.
    Protected,
    /// A repository inside a worktree, whose files no commit holds.
    NestedRepository,
    /// A submodule came, went, or is at another commit.
    Submodule,
    /// The tree holds something that must not be merged unseen.
    UnsafeTree,
    /// The merge could not be computed at all.
    MergeError,
    /// An agent asks for more paths than its contract has.
    ScopeRequest,
    /// A landing was cut short, and what became of it cannot be told.
    Landing,
}

impl CardKind {
    /// Every kind, for tables and tests.
    pub const ALL: [Self; 9] = [
        Self::Conflict,
        Self::Scope,
        Self::Protected,
        Self::NestedRepository,
        Self::Submodule,
        Self::UnsafeTree,
        Self::MergeError,
        Self::ScopeRequest,
        Self::Landing,
    ];
}

impl fmt::Display for CardKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Conflict => "conflict",
            Self::Scope => "scope",
            Self::Protected => "protected",
            Self::NestedRepository => "nested_repository",
            Self::Submodule => "submodule",
            Self::UnsafeTree => "unsafe_tree",
            Self::MergeError => "merge_error",
            Self::ScopeRequest => "scope_request",
            Self::Landing => "landing",
        })
    }
}

/// Where a card stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CardState {
    /// Waits for a person.
    NeedsHuman,
    /// Nothing waits any more.
    Closed,
}

/// One file of one side of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stage {
    /// The path.
    pub path: RepoPath,
    /// 1 is the base, 2 is ours (the candidate), 3 is theirs (the agent).
    pub stage: u8,
    /// Its mode, `100644`.
    pub mode: String,
    /// Its object id.
    pub oid: ObjectId,
}

/// What git said of one conflict or of paths near it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConflictMessage {
    /// The kind, in git's own stable words, `CONFLICT (contents)`.
    pub kind: String,
    /// The paths it speaks of.
    pub paths: Vec<RepoPath>,
    /// A sentence for people.
    pub text: String,
}

/// Both sides of a merge and what they come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sides {
    /// The candidate the agent's work was to be merged onto.
    pub ours: CommitId,
    /// The agent's contribution.
    pub theirs: CommitId,
    /// What git merges from, where there is one.
    pub base: Option<CommitId>,
}

/// Something a person may do about a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardOption {
    /// What it does, in a line.
    pub title: String,
    /// The command that does it.
    pub command: String,
}

/// What a person decided about a card. It holds for exactly the matter of the card, and whenever that comes up again; that
/// work is left out, only for the very work that the card was about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// What was decided.
    pub kind: AnswerKind,
    /// Who decided, `Name <address>`; `the plan`, where a rule of it did.
    pub by: String,
    /// Why, in their words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// For a conflict that was resolved: what stands at each of its paths.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub resolved: Vec<ResolvedPath>,
    /// A commit that keeps what was chosen; a ref names it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kept_in: Option<CommitId>,
}

/// A kind of decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// What was held may be merged.
    Approved,
    /// The conflict is resolved.
    Resolved,
    /// The agent's work is left out.
    Dismissed,
}

impl fmt::Display for AnswerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Approved => "approved",
            Self::Resolved => "resolved",
            Self::Dismissed => "dismissed",
        })
    }
}

/// What stands at a path that conflicted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedPath {
    /// The path.
    pub path: RepoPath,
    /// Its mode, `100644`; none where nothing stands there.
    pub mode: Option<String>,
    /// Its object; none where nothing stands there.
    pub oid: Option<ObjectId>,
}

/// What an agent asks for, where a card is about that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScopeRequest {
    /// Globs of the paths that are to be its own.
    pub owns: Vec<String>,
    /// Why, in its words.
    pub why: String,
    /// The turn in which it asked.
    pub turn: TurnId,
}

/// A landing that was begun and not ended, where a card is about that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CutLanding {
    /// The branch that was to move.
    pub target: RefName,
    /// Where it was, and is.
    pub before: CommitId,
    /// Where it was to go.
    pub after: CommitId,
    /// The checkout that was to go with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub checkout: Option<PathBuf>,
    /// The ref that keeps that checkout as it was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rescue: Option<RefName>,
}

/// A card on the board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Card {
    /// Its id.
    pub id: CardId,
    /// What it is about.
    pub kind: CardKind,
    /// Where it stands.
    pub state: CardState,
    /// The agents concerned: first the one whose work waits, then those it conflicts with. None where it is the run's.
    pub agents: Vec<AgentName>,
    /// The paths concerned.
    pub paths: Vec<RepoPath>,
    /// One line: what happened.
    pub summary: String,
    /// The sides of the merge, where there is one.
    pub sides: Option<Sides>,
    /// The snapshot of the agent's work that it is about, where it is about any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub snapshot: Option<CommitId>,
    /// The files of each side, where git names any.
    pub stages: Vec<Stage>,
    /// What git said.
    pub messages: Vec<ConflictMessage>,
    /// What is asked for, where the card is about a request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<ScopeRequest>,
    /// What was cut short, where the card is about a landing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub landing: Option<CutLanding>,
    /// What the card is about, as a hash that does not change when the target moves elsewhere.
    pub fingerprint: String,
    /// What can be done.
    pub options: Vec<CardOption>,
    /// How it was closed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resolution: Option<String>,
    /// What a person decided, where one did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<Answer>,
    /// What a command proposed for it, where one did and nobody has decided about that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub proposal: Option<Proposal>,
    /// What happened to it so far, oldest first. Read off the journal; no event carries it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub history: Vec<CardStep>,
}

//! The one commit that is made of an agent's work.
//!
//! Its tree is that of the agent's last snapshot and its sole parent the fork point. So what is merged is exactly what
//! the agent changed: ancestry that it forged, such as a `merge -s ours` of everybody else's work, is not in it.

use crate::board::MergeFault;
use crate::change::bundle;
use crate::git::{self, NewCommit, Renames, TreeChange};
use crate::model::run::{AgentState, AttemptState};
use crate::model::{AgentName, AttemptOutcome, CommitId, TreeId, TurnId};

use super::error::Error;
use super::facts::Facts;
use super::message;

/// An agent's work as a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contribution {
    /// The agent.
    pub agent: AgentName,
    /// The turn that the snapshot is of.
    pub turn: TurnId,
    /// The snapshot.
    pub snapshot: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// The commit the agent's worktree was made from.
    pub fork: CommitId,
    /// Its tree.
    pub fork_tree: TreeId,
    /// The commit made of it. Reachable from nothing until it is merged.
    pub commit: CommitId,
    /// What it changes since the fork point, renames not looked for.
    pub changes: Vec<TreeChange>,
    /// Where the agent's own HEAD stood, where that is known.
    pub head: Option<CommitId>,
}

/// What an agent offers for merging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// It has not completed; how it ended, if it did.
    Absent(Option<AttemptOutcome>),
    /// It completed and changed nothing.
    Nothing,
    /// It completed, and its records do not say reliably what it changed.
    Unusable {
        /// The snapshot, where there is one.
        snapshot: Option<CommitId>,
        /// What kind of thing is wrong.
        fault: MergeFault,
        /// What is wrong.
        cause: String,
    },
    /// Its work.
    Made(Box<Contribution>),
}

/// What `agent` offers. The same facts give the same commit.
pub fn contribution(facts: &Facts<'_>, agent: &AgentName) -> Result<Work, Error> {
    let (Some(task), Some(known)) = (facts.plan.agent(agent), facts.state.agent(agent)) else {
        return Ok(Work::Absent(None));
    };
    match known.outcome() {
        Some(AttemptOutcome::Completed) => {}
        Some(AttemptOutcome::NoChanges) => return Ok(Work::Nothing),
        other => return Ok(Work::Absent(other)),
    }
    let ends = match Ends::find(facts, known) {
        Ok(ends) => ends,
        Err(Doubt::Cause { snapshot, fault, cause }) => return Ok(Work::Unusable { snapshot, fault, cause }),
        Err(Doubt::Error(error)) => return Err(error),
    };
    if ends.tree == ends.fork_tree {
        return Ok(Work::Nothing);
    }
    let signature = facts.signature();
    let commit = facts.repository.write_commit(&NewCommit {
        tree: &ends.tree,
        parents: std::slice::from_ref(&ends.fork),
        author: &signature,
        committer: &signature,
        message: &message::contribution(facts.run.id(), task, &ends.snapshot),
    })?;
    let changes = facts.repository.load_changes(&ends.fork_tree, &ends.tree, Renames::Ignore)?;
    Ok(Work::Made(Box::new(Contribution {
        agent: agent.clone(),
        turn: ends.turn,
        snapshot: ends.snapshot,
        tree: ends.tree,
        fork: ends.fork,
        fork_tree: ends.fork_tree,
        commit,
        changes,
        head: ends.head,
    })))
}

/// Both ends of an agent's work, as journal, record and repository agree on them.
struct Ends {
    turn: TurnId,
    snapshot: CommitId,
    tree: TreeId,
    fork: CommitId,
    fork_tree: TreeId,
    head: Option<CommitId>,
}

/// Why the ends are not known.
enum Doubt {
    Cause { snapshot: Option<CommitId>, fault: MergeFault, cause: String },
    Error(Error),
}

impl From<Error> for Doubt {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Ends {
    fn find(facts: &Facts<'_>, agent: &AgentState) -> Result<Self, Doubt> {
        let none = |cause: &str| {
            let (snapshot, fault) = (None, MergeFault::Journal);
            Doubt::Cause { snapshot, fault, cause: cause.to_owned() }
        };
        let attempt = agent.last_attempt().ok_or_else(|| none("the journal has no attempt of it"))?;
        let finished = attempt.finished.as_ref().ok_or_else(|| none("the journal has no end of its last attempt"))?;
        let snapshot = finished.snapshot.clone().ok_or_else(|| none("the journal names no snapshot of it"))?;
        let doubt = |fault: MergeFault, cause: String| {
            let snapshot = Some(snapshot.clone());
            Doubt::Cause { snapshot, fault, cause }
        };
        let journal = |cause: &str| doubt(MergeFault::Journal, cause.to_owned());
        let fork = fork_of(attempt).ok_or_else(|| journal("its fork point is not in the journal"))?;
        let turn = turn_of(agent, &snapshot)
            .ok_or_else(|| journal(&format!("the journal has no turn with snapshot {}", snapshot.short())))?;
        let record = match bundle::load(facts.run, &agent.name, turn) {
            Ok(Some(record)) => record,
            Ok(None) => return Err(doubt(MergeFault::NoRecord, format!("the record of turn {turn} is missing"))),
            Err(error @ crate::store::Error::Damaged { .. }) => {
                return Err(doubt(MergeFault::BadRecord, error.to_string()));
            }
            Err(error) => return Err(Error::from(error).into()),
        };
        let commit = |cause: String| doubt(MergeFault::Commit, cause);
        let tree = tree_of(facts, &snapshot)?.map_err(commit)?;
        let fork_tree = tree_of(facts, fork)?.map_err(commit)?;
        if record.fork_point != *fork {
            let (recorded, journalled) = (record.fork_point.short(), fork.short());
            let cause = format!("turn {turn} says its fork point is {recorded}, the journal says {journalled}");
            return Err(doubt(MergeFault::OtherFork, cause));
        }
        let told = [Some(&record.tree), finished.tree.as_ref()];
        if let Some(other) = told.into_iter().flatten().find(|told| **told != tree) {
            let cause = format!("its snapshot was recorded with tree {}, and has {}", other.short(), tree.short());
            return Err(doubt(MergeFault::OtherTree, cause));
        }
        Ok(Self { turn, snapshot, tree, fork: fork.clone(), fork_tree, head: record.agent_head })
    }
}

fn fork_of(attempt: &AttemptState) -> Option<&CommitId> {
    attempt.started.as_ref().map(|started| &started.fork_point)
}

/// The newest turn that ended with this snapshot. One that an agent ended itself does not count: it may go on afterwards.
fn turn_of(agent: &AgentState, snapshot: &CommitId) -> Option<TurnId> {
    let turns = agent.attempts.iter().rev().flat_map(|attempt| attempt.turns.iter().rev());
    turns.into_iter().find(|(_, turn)| turn.snapshot == *snapshot && !turn.live).map(|(id, _)| *id)
}

/// The tree of a commit, or why it cannot be had from this repository.
fn tree_of(facts: &Facts<'_>, commit: &CommitId) -> Result<Result<TreeId, String>, Error> {
    match facts.repository.load_commit(commit) {
        Ok(found) => Ok(Ok(found.tree)),
        Err(error @ (git::Error::MissingObject { .. } | git::Error::Unparsable { .. })) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

//! What of old runs may go, and why: a pure function of what is known of them.
//!
//! Two things can go. The **worktrees** of a run that is complete, whose work is kept elsewhere. And, only where that was asked
//! for, its **record**: journal, patches, logs, refs and branches. Whatever is pinned stays, however old it is, and whatever
//! room it takes: a run at work, one that cannot be read, one that is not complete, a merge by hand under way; and of
//! records, all of [`Pin`].
//!
//! Of what is left, three limits decide. The newest `keep` runs stay. Of the others those go that are idle for `older_than`;
//! and, the longest idle first, as many as it takes until all together is no more than `max_bytes`. Where neither an age nor a
//! size is given, all of the others go.

use std::fmt;
use std::path::PathBuf;

use jiff::SignedDuration;
use serde::Serialize;

use crate::model::{AgentName, CardId, CommitId, RefName, RunId};

/// How much of old runs is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Runs in which nothing has happened for that long go.
    pub older_than: Option<SignedDuration>,
    /// So many of the newest runs stay whatever else is said.
    pub keep: Option<u64>,
    /// So many bytes may be taken.
    pub max_bytes: Option<u64>,
}

impl Limits {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whom a worktree belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// An agent of the run.
    Agent(AgentName),
    /// The parent verifier.
    Verify,
    /// The user's own git hook.
    Hook,
    /// A command that was to resolve a conflict.
    Resolver,
    /// The person who merges a conflict by hand.
    Card {
        /// The card.
        id: CardId,
        /// Whether it waits for its decision.
        open: bool,
    },
    /// Nobody whom the run's record knows.
    Unknown(String),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(name) => f.pad(name.as_str()),
            Self::Verify => f.pad("verify"),
            Self::Hook => f.pad("hook"),
            Self::Resolver => f.pad("resolver"),
            Self::Card { id, .. } => write!(f, "card {id}"),
            Self::Unknown(name) => f.pad(name),
        }
    }
}

/// A worktree that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeFacts {
    /// Whose it is.
    pub owner: Owner,
    /// Where it lies.
    pub path: PathBuf,
    /// How much it and its private folder take.
    pub bytes: u64,
}

/// What is kept of a run beside worktrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordFacts {
    /// How much the run's folder takes.
    pub bytes: u64,
    /// Why it must not go.
    pub pin: Option<Pin>,
}

/// How a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// A coordinator works on it.
    AtWork,
    /// Its record cannot be read.
    Unreadable(String),
    /// It ended, or was cut short, and the gate is not open.
    Incomplete,
    /// The gate is open.
    Complete,
}

/// What is known of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    /// The run.
    pub run: RunId,
    /// How it stands.
    pub standing: Standing,
    /// For how long nothing has happened in it.
    pub idle: SignedDuration,
    /// Its worktrees.
    pub worktrees: Vec<WorktreeFacts>,
    /// Its record, where records may go.
    pub record: Option<RecordFacts>,
}

/// What keeps a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pin {
    /// The run was cut short.
    CutShort,
    /// It is not known what became of a landing.
    Landing,
    /// Cards wait for a decision.
    Cards(u64),
    /// Work of agents is not part of the result, and nobody decided to leave it out.
    Unmerged(Vec<AgentName>),
    /// The result was not landed.
    NotLanded,
    /// What landed is in no branch, tag or remote branch of the user's any more.
    NotReachable(CommitId),
    /// A ref of the run holds what the record does not know.
    Unknown(RefName),
    /// A branch of the run is checked out in a worktree that is not the run's.
    CheckedOut(RefName),
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutShort => f.write_str("it was cut short: `sandbox resume` goes on with it"),
            Self::Landing => f.write_str("it is not known whether it landed: `sandbox resume` finds out"),
            Self::Cards(1) => f.write_str("a card waits for a decision"),
            Self::Cards(number) => write!(f, "{number} cards wait for a decision"),
            Self::Unmerged(agents) => {
                let names: Vec<String> = agents.iter().map(|agent| format!("`{agent}`")).collect();
                write!(f, "work of {} is not part of the result: merge it, or dismiss its card", names.join(", "))
            }
            Self::NotLanded => f.write_str("its result was not landed"),
            Self::NotReachable(commit) => {
                write!(f, "what landed, {}, is in none of your branches any more", commit.short())
            }
            Self::Unknown(name) => write!(f, "`{}` holds what its record does not know", name.short()),
            Self::CheckedOut(name) => write!(f, "`{}` is checked out", name.short()),
        }
    }
}

/// What is done with something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It goes.
    Remove,
    /// It stays.
    Keep,
}

/// Why something goes or stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The run is complete, and nothing limits what goes.
    Complete,
    /// The user named the run.
    Named,
    /// Nothing has happened in it for that long.
    Idle(SignedDuration),
    /// With it, more would be kept than may be.
    OverBudget(u64),
    /// The card of a merge by hand is closed.
    CardClosed,
    /// A coordinator works on the run.
    AtWork,
    /// The run's record cannot be read.
    Unreadable(String),
    /// The run is not complete.
    Incomplete(RunId),
    /// It is one of the newest.
    Newest(u64),
    /// It is within the limits.
    Within,
    /// A merge by hand is under way.
    CardOpen(CardId),
    /// The run's record knows nothing of it.
    NotKnown,
    /// The record is pinned.
    Pinned(Pin),
    /// The run still has worktrees.
    HasWorktrees,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("the run is complete"),
            Self::Named => f.write_str("you named the run"),
            Self::Idle(idle) => match idle.as_hours() {
                hours @ ..48 => write!(f, "nothing has happened in the run for {hours} h"),
                hours => write!(f, "nothing has happened in the run for {} days", hours / 24),
            },
            Self::OverBudget(most) => write!(f, "more than {most} bytes would be kept"),
            Self::CardClosed => f.write_str("its card is closed"),
            Self::AtWork => f.write_str("the run is at work"),
            Self::Unreadable(why) => write!(f, "it cannot be told how the run stands: {why}"),
            Self::Incomplete(run) => {
                write!(f, "the run is not complete: name it, `sandbox clean {run}`, to remove it all the same")
            }
            Self::Newest(1) => f.write_str("it is the newest run"),
            Self::Newest(number) => write!(f, "it is one of the newest {number} runs"),
            Self::Within => f.write_str("it is neither as old nor as large as to go"),
            Self::CardOpen(card) => {
                write!(f, "a merge by hand, which you end by `sandbox board resolve {card} --done` or `--discard`")
            }
            Self::NotKnown => f.write_str("the run's record knows nothing of it: look at it, and remove it by hand"),
            Self::Pinned(pin) => pin.fmt(f),
            Self::HasWorktrees => f.write_str("a worktree of the run stays"),
        }
    }
}

/// What becomes of one thing, and why.
pub type Verdict = (Action, Reason);

/// What becomes of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPlan {
    /// Of each of its worktrees, in the order of the facts.
    pub worktrees: Vec<Verdict>,
    /// Of its record, where records may go.
    pub record: Option<Verdict>,
}

/// Says what becomes of each run. `named`: the user named them, so that limits do not count, and worktrees of runs that are
/// not complete may go too. The facts are in the order of the runs, the newest first.
pub fn plan(facts: &[RunFacts], limits: &Limits, named: bool) -> Vec<RunPlan> {
    let mut fates: Vec<Option<Verdict>> = (0..).zip(facts).map(|(at, run)| fate(at, run, limits, named)).collect();
    settle_by_size(facts, &mut fates, limits);
    let within = (Action::Keep, Reason::Within);
    facts.iter().zip(fates).map(|(run, fate)| spread(run, fate.unwrap_or_else(|| within.clone()))).collect()
}

/// What becomes of a run for itself; `None` where the room that all take decides.
fn fate(at: u64, run: &RunFacts, limits: &Limits, named: bool) -> Option<Verdict> {
    match (&run.standing, named) {
        (Standing::AtWork, _) => return Some((Action::Keep, Reason::AtWork)),
        (Standing::Unreadable(why), _) => return Some((Action::Keep, Reason::Unreadable(why.clone()))),
        (Standing::Incomplete | Standing::Complete, true) => return Some((Action::Remove, Reason::Named)),
        (Standing::Incomplete, false) => return Some((Action::Keep, Reason::Incomplete(run.run.clone()))),
        (Standing::Complete, false) => {}
    }
    if let Some(keep) = limits.keep.filter(|keep| at < *keep) {
        return Some((Action::Keep, Reason::Newest(keep)));
    }
    match (limits.older_than, limits.max_bytes) {
        (None, None) => Some((Action::Remove, Reason::Complete)),
        (Some(age), _) if run.idle >= age => Some((Action::Remove, Reason::Idle(run.idle))),
        (Some(_), None) => Some((Action::Keep, Reason::Within)),
        (_, Some(_)) => None,
    }
}

/// Lets as many of the undecided go, the longest idle first, as it takes.
fn settle_by_size(facts: &[RunFacts], fates: &mut [Option<Verdict>], limits: &Limits) {
    let Some(most) = limits.max_bytes else { return };
    let freed_by = |run: &RunFacts| {
        let plan = spread(run, (Action::Remove, Reason::OverBudget(most)));
        let worktrees = run.worktrees.iter().zip(&plan.worktrees);
        let worktrees = worktrees.filter(|(_, (action, _))| *action == Action::Remove).map(|(tree, _)| tree.bytes);
        let record =
            run.record.iter().filter(|_| plan.record.as_ref().is_some_and(|(action, _)| *action == Action::Remove));
        worktrees.chain(record.map(|record| record.bytes)).fold(0, u64::saturating_add)
    };
    let goes = |fate: &Option<Verdict>| fate.as_ref().is_some_and(|(action, _)| *action == Action::Remove);
    let mut taken = facts.iter().zip(fates.iter()).fold(0_u64, |sum, (run, fate)| {
        let freed = if goes(fate) { freed_by(run) } else { 0 };
        sum.saturating_add(run.bytes().saturating_sub(freed))
    });
    let mut undecided: Vec<usize> = (0..facts.len()).filter(|at| fates[*at].is_none()).collect();
    // Of two that are equally idle, the older run.
    undecided.sort_by(|one, other| facts[*other].idle.cmp(&facts[*one].idle).then(other.cmp(one)));
    for at in undecided {
        let freed = freed_by(&facts[at]);
        if taken > most && freed > 0 {
            fates[at] = Some((Action::Remove, Reason::OverBudget(most)));
            taken -= freed;
        }
    }
}

impl RunFacts {
    /// What all of it takes that may go at all.
    fn bytes(&self) -> u64 {
        let worktrees = self.worktrees.iter().map(|tree| tree.bytes);
        worktrees.chain(self.record.iter().map(|record| record.bytes)).fold(0, u64::saturating_add)
    }
}

/// What a run's fate is for each of its parts.
fn spread(run: &RunFacts, (action, reason): Verdict) -> RunPlan {
    let can_be_read = match run.standing {
        Standing::AtWork | Standing::Unreadable(_) => false,
        Standing::Incomplete | Standing::Complete => true,
    };
    let of_worktree = |tree: &WorktreeFacts| match &tree.owner {
        Owner::Card { id, open: true } => (Action::Keep, Reason::CardOpen(id.clone())),
        Owner::Card { open: false, .. } if can_be_read => (Action::Remove, Reason::CardClosed),
        Owner::Unknown(_) if can_be_read => (Action::Keep, Reason::NotKnown),
        Owner::Agent(_)
        | Owner::Verify
        | Owner::Resolver
        | Owner::Hook
        | Owner::Card { open: false, .. }
        | Owner::Unknown(_) => (action, reason.clone()),
    };
    let worktrees: Vec<Verdict> = run.worktrees.iter().map(of_worktree).collect();
    let stays = worktrees.iter().any(|(action, _)| *action == Action::Keep);
    let record = run.record.as_ref().map(|record| match (action, &record.pin) {
        (Action::Keep, _) => (Action::Keep, reason.clone()),
        (Action::Remove, Some(pin)) => (Action::Keep, Reason::Pinned(pin.clone())),
        (Action::Remove, None) if stays => (Action::Keep, Reason::HasWorktrees),
        (Action::Remove, None) => (Action::Remove, reason.clone()),
    });
    RunPlan { worktrees, record }
}

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;

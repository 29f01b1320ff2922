//! What can go wrong with a run as a whole.

use std::path::PathBuf;

use super::control::protocol::{Kind, Refusal};
use crate::model::card::AnswerKind;
use crate::model::{AgentName, CardId, Fault, RunId};

/// Why a run, or a verb that goes on with one, could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The home directory is not known.
    #[error("HOME does not name a folder: set it to your home directory")]
    NoHome,
    /// Namespaces, or another layer that agents are kept in by, cannot be had.
    #[error("{cause}")]
    Unfit {
        /// What is missing.
        cause: String,
        /// What to do about it.
        fix: String,
        /// The flag to go on without it, where there is one.
        flag: Option<String>,
    },
    /// The plan's target is not a branch here.
    #[error("the target branch `{branch}` does not exist: create it, or name another in the plan")]
    NoTarget {
        /// The branch.
        branch: String,
    },
    /// A verb needs an agent that the run does not have.
    #[error("run `{run}` has no agent `{agent}`: it has {known}")]
    NoAgent {
        /// The run.
        run: RunId,
        /// The name given.
        agent: String,
        /// Those there are.
        known: String,
    },
    /// The journal does not begin with the start of the run.
    #[error("the journal of run `{run}` does not tell how it began: it cannot be gone on with")]
    NoStart {
        /// The run.
        run: RunId,
    },
    /// There is no run.
    #[error("there is no run here yet: begin one with `sandbox run <plan>`")]
    NoRun,
    /// An agent has no worktree to go on in.
    #[error("agent `{agent}` has no worktree any more: use `sandbox retry {agent} --fresh`")]
    NoWorktree {
        /// The agent.
        agent: AgentName,
    },
    /// An agent's worktree lies elsewhere than worktrees of this repository do.
    #[error(
        "the worktree of agent `{agent}` lies at `{}`, and not in `{}` where those of this run lie, as after a copy of the \
         repository: go on where it was made, move it back, or use `sandbox retry {agent} --fresh`",
        found.display(), expected.display()
    )]
    WorktreeElsewhere {
        /// The agent.
        agent: AgentName,
        /// Where it is.
        found: PathBuf,
        /// Where it would be looked for.
        expected: PathBuf,
    },
    /// The state of the agent does not allow another attempt.
    #[error("agent `{agent}` cannot be tried again: {why}")]
    NoRetry {
        /// The agent.
        agent: AgentName,
        /// Why not.
        why: String,
    },
    /// A decision about a card cannot stand.
    #[error("card {card} was not {what}: {why}")]
    NotDecided {
        /// The card.
        card: CardId,
        /// What it was to be: `resolved`.
        what: AnswerKind,
        /// Why not, and what to do.
        why: String,
    },
    /// The coordinator could not be told to stop.
    #[error("the coordinator of run `{run}` (process {pid}) could not be told to stop")]
    NotStopped {
        /// The run.
        run: RunId,
        /// Its process.
        pid: u32,
        /// Why not.
        source: std::io::Error,
    },
    /// The coordinator could not be asked.
    #[error("the coordinator of run `{run}` could not be asked")]
    Control {
        /// The run.
        run: RunId,
        /// Why not.
        source: std::io::Error,
    },
    /// The coordinator would not do what it was asked for.
    #[error("run `{run}` is at work{}, and did not do it: {}", process(*.pid), refusal.message)]
    Refused {
        /// The run.
        run: RunId,
        /// The coordinator's process, where it can be told.
        pid: Option<u32>,
        /// Why not.
        refusal: Refusal,
    },
    /// The coordinator did not answer.
    #[error("run `{run}` is at work{}, and does not answer: its program may be stopped, or very busy", process(*.pid))]
    NoAnswer {
        /// The run.
        run: RunId,
        /// The coordinator's process, where it can be told.
        pid: Option<u32>,
    },
    /// Nobody coordinates the run.
    #[error("run `{run}` is not at work: {what}")]
    NotAtWork {
        /// The run.
        run: RunId,
        /// What that means for what was asked.
        what: &'static str,
    },
    /// The state of the agent does not allow to leave it out.
    #[error("agent `{agent}` cannot be left out: {why}")]
    NotSkipped {
        /// The agent.
        agent: AgentName,
        /// Why not.
        why: String,
    },
    /// The plan's globs could not be read again. A fault of ours: they were accepted before.
    #[error(transparent)]
    Contract(#[from] crate::plan::ContractError),
    /// Starting the tasks failed.
    #[error("a task of the run ended unexpectedly: {0}")]
    Task(String),
    /// Signals could not be listened for.
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
    /// The user's own commands cannot be run.
    #[error("cannot run hooks")]
    Hooks(#[source] std::io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    /// Git failed.
    #[error(transparent)]
    Git(#[from] crate::git::Error),
    /// A worktree could not be made or removed.
    #[error(transparent)]
    Workspace(#[from] crate::workspace::Error),
    /// A turn could not be recorded.
    #[error(transparent)]
    Change(#[from] crate::change::Error),
    /// An attempt could not be carried through.
    #[error(transparent)]
    Agent(#[from] crate::agent::Error),
    /// The work could not be integrated or landed.
    #[error(transparent)]
    Integrate(#[from] crate::integrate::Error),
    /// The candidate could not be judged.
    #[error(transparent)]
    Verify(#[from] crate::verify::Error),
}

/// A process in brackets, where it is known.
fn process(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Store(error) => error.fault(),
            Self::Git(error) => error.fault(),
            Self::Workspace(error) => error.fault(),
            Self::Change(error) => error.fault(),
            Self::Agent(error) => error.fault(),
            Self::Integrate(error) => error.fault(),
            Self::Verify(error) => error.fault(),
            Self::Contract(_) => Fault::Plan,
            Self::NoHome
            | Self::Unfit { .. }
            | Self::Signals(_)
            | Self::Hooks(_)
            | Self::NotStopped { .. }
            | Self::Control { .. } => Fault::Environment,
            Self::NoTarget { .. } => Fault::Repository,
            Self::NoAgent { .. }
            | Self::NoRun
            | Self::NoWorktree { .. }
            | Self::WorktreeElsewhere { .. }
            | Self::NoRetry { .. }
            | Self::NotAtWork { .. }
            | Self::NotSkipped { .. }
            | Self::NotDecided { .. } => Fault::Usage,
            Self::Refused { refusal, .. } => match refusal.kind {
                Kind::UnknownAgent => Fault::Usage,
                Kind::Denied | Kind::BadRequest | Kind::UnknownRequest | Kind::UnsupportedVersion => Fault::Environment,
                Kind::TooLate | Kind::NotPossible | Kind::Busy => Fault::Locked,
                Kind::Failed => Fault::Internal,
            },
            Self::NoAnswer { .. } => Fault::Locked,
            Self::NoStart { .. } => Fault::Corrupt,
            Self::Task(_) => Fault::Internal,
        }
    }
}

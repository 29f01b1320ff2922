//! What can go wrong with a run as a whole.

use crate::model::{AgentName, RunId};

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
    /// The state of the agent does not allow another attempt.
    #[error("agent `{agent}` cannot be tried again: {why}")]
    NoRetry {
        /// The agent.
        agent: AgentName,
        /// Why not.
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
    /// The plan's globs could not be read again. A fault of ours: they were accepted before.
    #[error(transparent)]
    Contract(#[from] crate::plan::ContractError),
    /// Starting the tasks failed.
    #[error("a task of the run ended unexpectedly: {0}")]
    Task(String),
    /// Signals could not be listened for.
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
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

impl Error {
    /// The code of the program's end that it leads to, for the record: the one that the program then really has.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unfit { .. } | Self::NoHome | Self::NotStopped { .. } | Self::Signals(_) | Self::NoTarget { .. } => UNFIT,
            Self::NoAgent { .. } | Self::NoRun | Self::NoWorktree { .. } | Self::NoRetry { .. } => USAGE,
            Self::NoStart { .. } => DAMAGED,
            Self::Contract(_) => PLAN,
            Self::Task(_) => INTERNAL,
            Self::Store(error) => of_store(error),
            Self::Git(error) => of_git(error),
            Self::Workspace(error) => of_workspace(error),
            Self::Change(error) => of_change(error),
            Self::Agent(error) => of_agent(error),
            Self::Integrate(error) => of_integrate(error),
            Self::Verify(error) => of_verify(error),
        }
    }
}

const USAGE: u8 = 2;
const PLAN: u8 = 3;
const UNFIT: u8 = 4;
const LOCKED: u8 = 7;
const DAMAGED: u8 = 8;
const INTERNAL: u8 = 70;

fn of_store(error: &crate::store::Error) -> u8 {
    use crate::store::Error as Store;
    match error {
        Store::Io { .. } | Store::Exists { .. } | Store::NotOurs { .. } | Store::JournalStopped { .. } => UNFIT,
        Store::Encode { .. } => INTERNAL,
        Store::Locked { .. } | Store::Held { .. } => LOCKED,
        Store::Damaged { .. } | Store::Newer { .. } => DAMAGED,
        Store::NotFound { .. } | Store::Ambiguous { .. } | Store::Setting { .. } => USAGE,
    }
}

fn of_git(error: &crate::git::Error) -> u8 {
    use crate::git::Error as Git;
    match error {
        Git::NoSuchCommit { .. } => USAGE,
        Git::Unparsable { .. } => INTERNAL,
        Git::GitMissing { .. }
        | Git::GitTooOld { .. }
        | Git::Spawn { .. }
        | Git::TimedOut { .. }
        | Git::TooMuchOutput { .. }
        | Git::Pipe { .. }
        | Git::File { .. }
        | Git::Failed { .. }
        | Git::NotARepository { .. }
        | Git::DubiousOwnership { .. }
        | Git::NoCommit { .. }
        | Git::MissingObject { .. }
        | Git::Bare { .. }
        | Git::BranchExists { .. }
        | Git::BranchInTheWay { .. }
        | Git::WorktreeOdd { .. }
        | Git::WorktreeInPlace { .. } => UNFIT,
    }
}

fn of_workspace(error: &crate::workspace::Error) -> u8 {
    use crate::workspace::Error as Workspace;
    match error {
        Workspace::Git(error) => of_git(error),
        Workspace::Store(error) => of_store(error),
        Workspace::Expose { .. } | Workspace::Seed { .. } => PLAN,
        Workspace::Io { .. } | Workspace::Place { .. } => UNFIT,
        Workspace::Tampered { .. } => DAMAGED,
    }
}

fn of_change(error: &crate::change::Error) -> u8 {
    use crate::change::Error as Change;
    match error {
        Change::Git(error) => of_git(error),
        Change::Store(error) => of_store(error),
        Change::Workspace(error) => of_workspace(error),
        Change::Start(_) | Change::Sandbox(_) | Change::Capture { .. } | Change::Refused { .. } => UNFIT,
        Change::RefMoved { .. } => DAMAGED,
    }
}

fn of_agent(error: &crate::agent::Error) -> u8 {
    use crate::agent::Error as Agent;
    match error {
        Agent::Store(error) => of_store(error),
        Agent::Git(error) => of_git(error),
        Agent::Workspace(error) => of_workspace(error),
        Agent::Change(error) => of_change(error),
        Agent::Output { .. } | Agent::Box(_) | Agent::Pipe(_) => UNFIT,
    }
}

fn of_integrate(error: &crate::integrate::Error) -> u8 {
    use crate::integrate::Error as Integrate;
    match error {
        Integrate::Git(error) => of_git(error),
        Integrate::Store(error) => of_store(error),
        Integrate::Change(error) => of_change(error),
        Integrate::Contract { .. } => DAMAGED,
        Integrate::CandidateMoved { .. }
        | Integrate::RescueMoved { .. }
        | Integrate::CandidateCheckedOut { .. }
        | Integrate::NotBuiltOn { .. }
        | Integrate::Unclear { .. } => UNFIT,
    }
}

fn of_verify(error: &crate::verify::Error) -> u8 {
    use crate::verify::Error as Verify;
    match error {
        Verify::Store(error) => of_store(error),
        Verify::Workspace(error) => of_workspace(error),
        Verify::Watch(error) => of_agent(error),
        Verify::Place { .. } => INTERNAL,
        Verify::Io { .. } | Verify::Box(_) => UNFIT,
    }
}

//! What can go wrong while talking to git.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::Fault;
use crate::model::RefName;

/// Why a piece of work with git could not be done. What a *user's or agent's content* causes (a conflict, a lost race, a
/// refused pack, something in the way of landing) is not here: those are outcomes of the calls themselves.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no git to run.
    #[error("git was not found ({looked}): install git 2.38 or newer, or name the program in `SANDBOX_GIT`")]
    GitMissing {
        /// Where it was looked for.
        looked: String,
    },
    /// The git that was found lacks `merge-tree --write-tree`.
    #[error("`{}` is git {found}, but {needed} or newer is needed: update git, or name another in `SANDBOX_GIT`", program.display())]
    GitTooOld {
        /// The program.
        program: PathBuf,
        /// Its version.
        found: String,
        /// The oldest version that will do.
        needed: String,
    },
    /// The program that was found is no git.
    #[error("`{}` is not git: it did not tell a version; install git, or name it in `SANDBOX_GIT`", program.display())]
    NotGit {
        /// The program.
        program: PathBuf,
    },
    /// The program could not be started.
    #[error("`{what}` could not be started")]
    Spawn {
        /// The command.
        what: String,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The program did not end in time and was killed. Its result is unknown: never read it as "nothing there".
    #[error("`{what}` did not end within {} s and was killed", after.as_secs())]
    TimedOut {
        /// The command.
        what: String,
        /// The time it had.
        after: Duration,
    },
    /// The program said no.
    #[error("`{what}` failed ({status}){}", said(stderr))]
    Failed {
        /// The command.
        what: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it wrote to standard error, cut to a bounded length.
        stderr: String,
    },
    /// The program's answer is not in the documented format.
    #[error("`{what}` answered in an unexpected form: {detail}")]
    Unparsable {
        /// The command.
        what: String,
        /// What was wrong with the answer.
        detail: String,
    },
    /// The program wrote more than we are ready to hold.
    #[error("`{what}` wrote more than {limit} bytes")]
    TooMuchOutput {
        /// The command.
        what: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A pipe to or from the program failed, or the place its output goes to.
    #[error("the output or input of `{what}` could not be passed on")]
    Pipe {
        /// The command.
        what: String,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A file operation of ours failed.
    #[error("could not {doing} `{}`", path.display())]
    File {
        /// What was tried: `read`, `create`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The folder belongs to no repository.
    #[error("`{}` is not in a git repository: run this inside one, or make one with `git init` and a first commit", path.display())]
    NotARepository {
        /// The folder that was asked about.
        path: PathBuf,
    },
    /// Git refuses the repository because somebody else owns it.
    #[error("git does not trust the repository at `{}`, which another user owns: if you do, run `{fix}`", path.display())]
    DubiousOwnership {
        /// The folder that was asked about.
        path: PathBuf,
        /// The command that git recommends.
        fix: String,
    },
    /// The repository has no commit to start from.
    #[error("branch `{}` has no commit yet: make a first commit", branch.short())]
    NoCommit {
        /// The unborn branch.
        branch: RefName,
    },
    /// A revision that a person or a plan gave names no commit.
    #[error("`{revision}` does not name a commit in this repository{}", said(stderr))]
    NoSuchCommit {
        /// What was given.
        revision: String,
        /// What git said.
        stderr: String,
    },
    /// An object is not in the repository.
    #[error(
        "object {object} is not in the repository: it may be damaged, or a partial clone that needs `git fetch` (nothing is fetched for you)"
    )]
    MissingObject {
        /// The object, or object and path.
        object: String,
    },
    /// The repository has no work tree where one is needed.
    #[error("`{}` is bare and has no work tree", path.display())]
    Bare {
        /// The repository.
        path: PathBuf,
    },
    /// The folder is in a repository, but not in its work tree.
    #[error("`{}` is not in the work tree of its repository", path.display())]
    OutsideWorkTree {
        /// Where we are.
        path: PathBuf,
    },
    /// A branch that a worktree was to be made on is there already.
    #[error("branch `{}` exists already: delete or rename it", branch.short())]
    BranchExists {
        /// The branch.
        branch: RefName,
    },
    /// A branch cannot be made since another one has the name of its folder.
    #[error("branch `{}` cannot be made because a branch `{}` exists: rename that one", branch.short(), by.short())]
    BranchInTheWay {
        /// The branch that was to be made.
        branch: RefName,
        /// The one that takes its folder's name.
        by: RefName,
    },
    /// Git registered a worktree, but not as asked.
    #[error("the worktree at `{}` was not registered as expected: {detail}", path.display())]
    WorktreeOdd {
        /// Its folder.
        path: PathBuf,
        /// What is different.
        detail: String,
    },
    /// A folder of the program's own could not be made.
    #[error(transparent)]
    Store(Box<crate::store::Error>),
    /// A ref of ours was moved by someone else.
    #[error(
        "`{reference}` was moved by something else: it is {found}, and not {expected}: see what moved it, then try again"
    )]
    RefMoved {
        /// The ref.
        reference: RefName,
        /// What it should have been.
        expected: String,
        /// What it was.
        found: String,
    },
    /// A worktree's entry was to be dropped while its folder is still there.
    #[error("the folder of worktree `{}` is still there: it must be moved away first", path.display())]
    WorktreeInPlace {
        /// Its folder.
        path: PathBuf,
    },
}

impl From<crate::store::Error> for Error {
    fn from(error: crate::store::Error) -> Self {
        Self::Store(Box::new(error))
    }
}

/// What git said, as the tail of a message.
fn said(stderr: &str) -> String {
    let text = stderr.trim();
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl Error {
    pub(super) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }

    /// What a git process wrote makes no sense.
    pub fn unparsable(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Unparsable { what: what.into(), detail: detail.into() }
    }
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::GitMissing { .. }
            | Self::GitTooOld { .. }
            | Self::NotGit { .. }
            | Self::Spawn { .. }
            | Self::TimedOut { .. }
            | Self::TooMuchOutput { .. }
            | Self::Pipe { .. }
            | Self::File { .. } => Fault::Environment,
            Self::Failed { .. }
            | Self::NotARepository { .. }
            | Self::DubiousOwnership { .. }
            | Self::NoCommit { .. }
            | Self::MissingObject { .. }
            | Self::Bare { .. }
            | Self::OutsideWorkTree { .. }
            | Self::BranchExists { .. }
            | Self::BranchInTheWay { .. }
            | Self::WorktreeOdd { .. }
            | Self::WorktreeInPlace { .. } => Fault::Repository,
            Self::NoSuchCommit { .. } => Fault::Usage,
            Self::Store(error) => error.fault(),
            Self::RefMoved { .. } => Fault::Corrupt,
            Self::Unparsable { .. } => Fault::Internal,
        }
    }
}

//! From the error of each room to what a command ends with: whose fault it is, and what to do about it where the room's own
//! message does not say.

use super::error::{Details, Error, ErrorKind};
use crate::{agent, change, git, integrate, plan, run, store, verify, workspace};

impl From<git::Error> for Error {
    fn from(error: git::Error) -> Self {
        use git::Error as Git;
        let hint = match &error {
            Git::NoCommit { .. } => Some("git commit --allow-empty -m 'first commit'"),
            Git::GitMissing { .. } | Git::GitTooOld { .. } | Git::NotGit { .. } => {
                Some("`sandbox doctor` shows what is found")
            }
            Git::TimedOut { .. } => {
                Some("the result is not known; look whether the file system answers, and try again")
            }
            Git::Bare { .. } => Some("work in a checkout of it"),
            Git::OutsideWorkTree { .. } => Some(
                "go into the work tree; one that only `core.worktree` or `GIT_WORK_TREE` names does not do, `git worktree add` makes another",
            ),
            Git::Spawn { .. }
            | Git::TooMuchOutput { .. }
            | Git::Pipe { .. }
            | Git::File { .. }
            | Git::Failed { .. }
            | Git::NotARepository { .. }
            | Git::DubiousOwnership { .. }
            | Git::MissingObject { .. }
            | Git::BranchExists { .. }
            | Git::BranchInTheWay { .. }
            | Git::WorktreeOdd { .. }
            | Git::WorktreeInPlace { .. }
            | Git::RefMoved { .. }
            | Git::NoSuchCommit { .. }
            | Git::Store(_)
            | Git::Unparsable { .. } => None,
        };
        hinted(Self::of(error.fault(), error), hint)
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        use store::Error as Store;
        let (run, hint) = match &error {
            Store::Held { run, .. } => (Some(run.clone()), Some(format!("`sandbox stop {run}` ends it"))),
            Store::NotFound { what: "run", .. } => (None, Some("`sandbox runs` lists them".to_owned())),
            Store::Io { .. }
            | Store::Exists { .. }
            | Store::NotOurs { .. }
            | Store::JournalStopped { .. }
            | Store::Encode { .. }
            | Store::Locked { .. }
            | Store::BoxLives { .. }
            | Store::TakenOver { .. }
            | Store::RunMoved { .. }
            | Store::NotAdmitted { .. }
            | Store::Damaged { .. }
            | Store::Newer { .. }
            | Store::NotFound { .. }
            | Store::Setting { .. } => (None, None),
        };
        let made = hinted(Self::of(error.fault(), error), hint);
        match run {
            Some(run) => made.in_run(&run),
            None => made,
        }
    }
}

impl From<plan::Findings> for Error {
    fn from(findings: plan::Findings) -> Self {
        let text = findings.render(false);
        refused(&findings, text)
    }
}

/// A plan that is refused, its findings rendered for where they go.
pub(super) fn refused(findings: &plan::Findings, text: String) -> Error {
    let json = serde_json::to_value(findings).unwrap_or_default();
    Error::new(ErrorKind::Plan, findings.to_string()).details(Details { text, json })
}

impl From<plan::ContractError> for Error {
    fn from(error: plan::ContractError) -> Self {
        Self::of(ErrorKind::Plan, error)
    }
}

impl From<workspace::Error> for Error {
    fn from(error: workspace::Error) -> Self {
        use workspace::Error as Workspace;
        match error {
            Workspace::Git(error) => error.into(),
            Workspace::Store(error) => error.into(),
            Workspace::Expose { .. } | Workspace::Hide { .. } | Workspace::Movable { .. } | Workspace::Seed { .. } => {
                Self::of(error.fault(), error)
            }
            Workspace::NestedAsRoot
            | Workspace::Io { .. }
            | Workspace::Place { .. }
            | Workspace::Program { .. }
            | Workspace::Exposed { .. } => Self::of(error.fault(), error),
            Workspace::Tampered { .. } => Self::of(error.fault(), error)
                .hint("its turns are kept: `sandbox inspect <agent>`; `sandbox retry <agent> --fresh` makes another"),
        }
    }
}

impl From<change::Error> for Error {
    fn from(error: change::Error) -> Self {
        use change::Error as Change;
        match error {
            Change::Git(error) => error.into(),
            Change::Store(error) => error.into(),
            Change::Workspace(error) => error.into(),
            Change::Start(_) | Change::Sandbox(_) => {
                Self::of(error.fault(), error).hint("`sandbox doctor` tells what this machine lacks")
            }
            Change::Capture { .. } | Change::Refused { .. } => Self::of(error.fault(), error),
        }
    }
}

impl From<agent::Error> for Error {
    fn from(error: agent::Error) -> Self {
        use agent::Error as Agent;
        match error {
            Agent::Store(error) => error.into(),
            Agent::Git(error) => error.into(),
            Agent::Workspace(error) => error.into(),
            Agent::Change(error) => error.into(),
            Agent::Output { .. } | Agent::Box(_) | Agent::Pipe(_) => Self::of(error.fault(), error),
        }
    }
}

impl From<verify::Error> for Error {
    fn from(error: verify::Error) -> Self {
        use verify::Error as Verify;
        match error {
            Verify::Store(error) => error.into(),
            Verify::Workspace(error) => error.into(),
            Verify::Watch(error) => error.into(),
            Verify::Place { .. } | Verify::Io { .. } | Verify::Box(_) => Self::of(error.fault(), error),
        }
    }
}

impl From<run::Error> for Error {
    fn from(error: run::Error) -> Self {
        use run::Error as Run;
        match error {
            Run::Store(error) => error.into(),
            Run::Git(error) => error.into(),
            Run::Workspace(error) => error.into(),
            Run::Change(error) => error.into(),
            Run::Agent(error) => error.into(),
            Run::Integrate(error) => error.into(),
            Run::Verify(error) => error.into(),
            Run::Contract(error) => error.into(),
            Run::Unfit { cause, fix, flag } => {
                let error = Self::new(ErrorKind::Environment, cause).hint(fix);
                hinted(error, flag.map(|flag| format!("to go on without it, and have that recorded: {flag}")))
            }
            Run::Refused { ref run, .. } | Run::NoAnswer { ref run, .. } => {
                let (run, made) = (run.clone(), Self::of(error.fault(), error));
                made.hint(format!("`sandbox status {run}` shows what it does; `sandbox stop {run}` ends it"))
                    .in_run(&run)
            }
            Run::NotAtWork { ref run, .. } => {
                let (run, made) = (run.clone(), Self::of(error.fault(), error));
                made.hint(format!("`sandbox resume {run}` goes on with it")).in_run(&run)
            }
            Run::NoHome
            | Run::Signals(_)
            | Run::Hooks(_)
            | Run::Control { .. }
            | Run::NotSkipped { .. }
            | Run::NotStopped { .. }
            | Run::NoTarget { .. }
            | Run::NoAgent { .. }
            | Run::NoRun
            | Run::NoWorktree { .. }
            | Run::WorktreeElsewhere { .. }
            | Run::NoRetry { .. }
            | Run::NotDecided { .. }
            | Run::NoStart { .. }
            | Run::Task(_) => Self::of(error.fault(), error),
        }
    }
}

impl From<integrate::Error> for Error {
    fn from(error: integrate::Error) -> Self {
        use integrate::Error as Integrate;
        match error {
            Integrate::Git(error) => error.into(),
            Integrate::Store(error) => error.into(),
            Integrate::Change(error) => error.into(),
            Integrate::Contract { .. }
            | Integrate::Protect(_)
            | Integrate::CandidateMoved { .. }
            | Integrate::CandidateCheckedOut { .. }
            | Integrate::RescueMoved { .. }
            | Integrate::Unclear { .. }
            | Integrate::Card(_)
            | Integrate::NotBuiltOn { .. } => Self::of(error.fault(), error),
        }
    }
}

fn hinted(error: Error, hint: Option<impl Into<String>>) -> Error {
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::cli::Exit;
    use crate::model::RefName;

    #[test]
    fn each_error_leads_to_its_exit() {
        let path = || PathBuf::from("/x");
        let not_found = || store::Error::NotFound { what: "run", name: "x".to_owned(), known: Vec::new() };
        let damaged = || store::Error::Damaged { path: path(), place: None, reason: "odd".to_owned(), hint: "look" };
        let locked =
            || store::Error::Locked { path: path(), holder: None, age: None, waited: std::time::Duration::ZERO };
        let branch = RefName::branch("main").unwrap();
        let cases: Vec<(Error, Exit)> = vec![
            (git::Error::GitMissing { looked: "git".to_owned() }.into(), Exit::Unfit),
            (git::Error::NotARepository { path: path() }.into(), Exit::Unfit),
            (git::Error::DubiousOwnership { path: path(), fix: "git config".to_owned() }.into(), Exit::Unfit),
            (git::Error::NoCommit { branch: branch.clone() }.into(), Exit::Unfit),
            (git::Error::NoSuchCommit { revision: "x".to_owned(), stderr: String::new() }.into(), Exit::Usage),
            (git::Error::unparsable("git x", "y").into(), Exit::Internal),
            (store::Error::Held { run: "a-1".parse().unwrap(), holder: None, age: None }.into(), Exit::Locked),
            (locked().into(), Exit::Locked),
            (damaged().into(), Exit::Damaged),
            (store::Error::Newer { path: path(), found: 2, known: 1 }.into(), Exit::Damaged),
            (not_found().into(), Exit::Usage),
            (workspace::Error::Store(damaged()).into(), Exit::Damaged),
            (workspace::Error::Expose { path: "~/x".to_owned(), why: "gone".to_owned() }.into(), Exit::Plan),
            (workspace::Error::Hide { path: "~/x".to_owned(), why: "gone".to_owned() }.into(), Exit::Plan),
            (workspace::Error::NestedAsRoot.into(), Exit::Unfit),
            (change::Error::Git(git::Error::NoCommit { branch }).into(), Exit::Unfit),
            (agent::Error::Change(change::Error::Store(not_found())).into(), Exit::Usage),
            (verify::Error::Store(damaged()).into(), Exit::Damaged),
            (integrate::Error::Store(damaged()).into(), Exit::Damaged),
            (run::Error::Store(damaged()).into(), Exit::Damaged),
            (run::Error::Unfit { cause: "no".to_owned(), fix: "do".to_owned(), flag: None }.into(), Exit::Unfit),
            (run::Error::Task("x".to_owned()).into(), Exit::Internal),
        ];
        for (error, exit) in cases {
            assert_eq!(error.exit(), exit, "{}", error.render());
        }
    }

    #[test]
    fn a_held_run_names_itself_and_the_way_out() {
        let held = Error::from(store::Error::Held { run: "login-3".parse().unwrap(), holder: None, age: None });
        assert_eq!(held.run().map(ToString::to_string).as_deref(), Some("login-3"));
        insta::assert_snapshot!(held.render(), @r"
        error: run `login-3` is held by another process: wait until it is done, or stop it
        hint: `sandbox stop login-3` ends it
        ");
    }
}

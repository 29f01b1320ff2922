//! From the errors of a run as a whole to what a command ends with.

use super::error::{Error, ErrorKind};
use crate::{integrate, run};

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
            Run::Unfit { cause, fix } => Self::new(ErrorKind::Environment, cause).hint(fix),
            Run::NoHome | Run::Signals(_) | Run::NotStopped { .. } => Self::of(ErrorKind::Environment, error),
            Run::NoTarget { .. } => Self::of(ErrorKind::Repository, error),
            Run::NoAgent { .. } | Run::NoRun | Run::NoWorktree { .. } | Run::NoRetry { .. } => {
                Self::of(ErrorKind::Usage, error)
            }
            Run::NoStart { .. } => Self::of(ErrorKind::Corrupt, error),
            Run::Task(_) => Self::of(ErrorKind::Internal, error),
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
            Integrate::Contract { .. } => Self::of(ErrorKind::Corrupt, error),
            Integrate::CandidateMoved { .. }
            | Integrate::CandidateCheckedOut { .. }
            | Integrate::RescueMoved { .. }
            | Integrate::Unclear { .. } => Self::of(ErrorKind::Repository, error),
            Integrate::NotBuiltOn { .. } => Self::of(ErrorKind::Internal, error),
        }
    }
}

//! What can go wrong on disk.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::lock::Holder;
use crate::model::Fault;
use crate::model::RunId;
use crate::model::currency::Refusal;

/// Why the store could not do its work. Every variant names the path or the name concerned.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {op} `{}`", .path.display())]
    Io {
        /// What was tried, as a verb.
        op: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A value could not be written as JSON. A fault of ours.
    #[error("cannot write `{}` as JSON", .path.display())]
    Encode {
        /// For which file.
        path: PathBuf,
        /// Why not.
        source: serde_json::Error,
    },
    /// The repository lock did not become free in time.
    #[error("`{}` is held by {}; waited {} s: wait until it is done, or stop it", .path.display(), holder_text(.holder.as_ref(), *.age), .waited.as_secs())]
    Locked {
        /// The lock.
        path: PathBuf,
        /// Who holds it, where that can be told.
        holder: Option<Holder>,
        /// For how long.
        age: Option<Duration>,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The run belongs to a coordinator that lives.
    #[error("run `{run}` is held by {}: wait until it is done, or stop it", holder_text(.holder.as_ref(), *.age))]
    Held {
        /// The run.
        run: RunId,
        /// Its coordinator, where that can be told.
        holder: Option<Holder>,
        /// For how long.
        age: Option<Duration>,
    },
    /// Another process has taken the run over from this one.
    #[error(
        "run `{run}` was taken over by another `sandbox`, so this one writes nothing more into it: `sandbox status {run}` shows how it goes on"
    )]
    TakenOver {
        /// The run.
        run: RunId,
    },
    /// The run's folder is not where it was.
    #[error(
        "the folder of run `{run}` is not at `{}` any more: it, or its repository, was moved or removed while the run was at \
         work, and nothing more is written; `sandbox resume {run}`, where it is now, goes on", folder.display()
    )]
    RunMoved {
        /// The run.
        run: RunId,
        /// Where its folder was.
        folder: PathBuf,
    },
    /// What was to be written must not follow on what is there.
    #[error("`{event}` is not written: {refusal}")]
    NotAdmitted {
        /// The type of the event.
        event: String,
        /// Why not.
        refusal: Refusal,
    },
    /// Something is left of the last box in a worktree, whose coordinator is gone.
    #[error("something is left of the last box in `{}`, after {} s of waiting: wait until it is gone, or end the processes that `fuser {}` names", .worktree.display(), .waited.as_secs(), .lock.display())]
    BoxLives {
        /// The worktree.
        worktree: PathBuf,
        /// What the box holds.
        lock: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A file is not what was written.
    #[error("`{}` is damaged{}: {reason}; {hint}", .path.display(), place_text(*.place))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: Option<Place>,
        /// What is wrong.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
    /// A newer version of the program wrote this.
    #[error("`{}` has format {found}, and this version knows formats up to {known}: use the newer version", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format known here.
        known: u64,
    },
    /// There is nothing of that name.
    #[error("there is no {what} `{name}`{}", known_text(.known))]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// The name given.
        name: String,
        /// Names there are, the likeliest first.
        known: Vec<String>,
    },
    /// A file that must not be replaced is there.
    #[error("`{}` exists already, and is not replaced", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A path that the program does not own, or that leaves what it owns.
    #[error("`{}` is not removed: {reason}", .path.display())]
    NotOurs {
        /// The path.
        path: PathBuf,
        /// Why it is not touched.
        reason: &'static str,
    },
    /// A setting that names a folder is of no use.
    #[error("{name} {reason}")]
    Setting {
        /// The setting or variable.
        name: &'static str,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The journal took an error before, and takes nothing more from this process.
    #[error("`{}` could not be written before, so nothing more is appended: take the cause away, then go on with `sandbox resume`", .path.display())]
    JournalStopped {
        /// The journal.
        path: PathBuf,
    },
}

impl Error {
    /// Wraps an error of the operating system: `.map_err(Error::io("open", path))`.
    pub(crate) fn io<E: Into<std::io::Error>>(op: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { op, path: path.to_owned(), source: source.into() }
    }

    /// A damaged file, without a place.
    pub(crate) fn damaged(path: &Path, reason: impl Into<String>, hint: &'static str) -> Self {
        Self::Damaged { path: path.to_owned(), place: None, reason: reason.into(), hint }
    }
}

/// A place in a file of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1.
    pub line: u64,
    /// Where the line begins, in bytes from 0.
    pub offset: u64,
}

/// Something a person should know though the work went on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The file concerned.
    pub path: PathBuf,
    /// What it is.
    pub text: String,
}

impl Warning {
    pub(crate) fn new(path: &Path, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), text: text.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.path.display(), self.text)
    }
}

fn holder_text(holder: Option<&Holder>, age: Option<Duration>) -> String {
    let who = holder.map_or_else(|| "another process".to_owned(), |it| format!("process {}", it.invocation.pid));
    match age {
        Some(age) => format!("{who} for {} s", age.as_secs()),
        None => who,
    }
}

fn place_text(place: Option<Place>) -> String {
    place.map_or_else(String::new, |at| format!(" at line {} (byte {})", at.line, at.offset))
}

fn known_text(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(" (there is {})", known.join(", ")) }
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Io { .. }
            | Self::Exists { .. }
            | Self::NotOurs { .. }
            | Self::RunMoved { .. }
            | Self::JournalStopped { .. } => Fault::Environment,
            Self::Encode { .. } | Self::NotAdmitted { .. } => Fault::Internal,
            Self::Locked { .. } | Self::Held { .. } | Self::TakenOver { .. } | Self::BoxLives { .. } => Fault::Locked,
            Self::Damaged { .. } | Self::Newer { .. } => Fault::Corrupt,
            Self::NotFound { .. } => Fault::Usage,
            Self::Setting { .. } => Fault::Settings,
        }
    }
}

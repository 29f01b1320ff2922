//! The one error a command ends with: what kind it is (which decides the exit code), what it came from, and what to do.
//!
//! Each room has its own error enum; a `From` for each, here, decides whose fault it is and what to hint at. An agent that
//! fails, a conflict, a red verifier are outcomes and never come through here.

use std::error::Error as StdError;
use std::fmt;

use serde_json::Value;

use super::exit::Exit;
use crate::model::os_refusal::OsRefusal;
use crate::model::{IdError, RunId};
use crate::report::{Failure, text};

pub use crate::model::Fault as ErrorKind;

/// More about an error than a line can say: for a plan, its findings with the lines shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Details {
    /// For people, printed as it is, several lines.
    pub text: String,
    /// For programs.
    pub json: Value,
}

/// Why a command could not do its work.
#[derive(Debug)]
pub struct Error(Box<Inner>);

/// Boxed, so that a `Result` stays small.
#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    hints: Vec<String>,
    details: Option<Details>,
    run: Option<RunId>,
    /// How the command ends, where the kind does not say it.
    exit: Option<Exit>,
}

impl Error {
    /// An error of a kind. The message is a fragment in lower case that names the thing.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            source: None,
            hints: Vec::new(),
            details: None,
            run: None,
            exit: None,
        }))
    }

    /// The error of a room, its message and its causes kept.
    pub fn of(kind: ErrorKind, error: impl StdError + Send + Sync + 'static) -> Self {
        let mut made = Self::new(kind, error.to_string());
        made.0.hints.extend(OsRefusal::told_by(&error).map(|refusal| refusal.hint().to_owned()));
        made.0.source = Some(Box::new(Wrapped(Box::new(error))));
        made
    }

    /// The same error, caused by `source`.
    #[must_use]
    pub fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
        self
    }

    /// The same error with something to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    /// The same error with more about it.
    #[must_use]
    pub fn details(mut self, details: Details) -> Self {
        self.0.details = Some(details);
        self
    }

    /// The same error, of a command that was about this run.
    #[must_use]
    pub fn in_run(mut self, run: &RunId) -> Self {
        self.0.run = Some(run.clone());
        self
    }

    /// The same error, of a command that was asked to end: what could not be done for that was no wrong usage.
    #[must_use]
    pub fn ending_as(mut self, exit: Exit) -> Self {
        if self.0.kind == ErrorKind::Usage {
            self.0.exit = Some(exit);
        }
        self
    }

    /// The run it is about.
    pub fn run(&self) -> Option<&RunId> {
        self.0.run.as_ref()
    }

    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The exit it leads to.
    pub fn exit(&self) -> Exit {
        self.0.exit.unwrap_or_else(|| Exit::from(self.0.kind))
    }

    /// What it came from, the nearest first.
    pub fn causes(&self) -> Vec<String> {
        let mut causes: Vec<String> = Vec::new();
        let mut next = self.source();
        while let Some(cause) = next {
            let words = cause.to_string();
            // A room that repeats its cause in its message must not be read twice.
            if causes.last() != Some(&words) && words != self.0.message {
                causes.push(words);
            }
            next = cause.source();
        }
        causes
    }

    /// The error for people: `error:`, then each `cause:`, then each `hint:`.
    pub fn render(&self) -> String {
        let mut out = match &self.0.details {
            Some(details) => format!("{}\n", details.text.trim_end()),
            None => String::new(),
        };
        out.extend(["error: ", &lines(&self.0.message), "\n"]);
        for cause in self.causes() {
            out.extend(["cause: ", &lines(&cause), "\n"]);
        }
        for hint in &self.0.hints {
            out.extend(["hint: ", &lines(hint), "\n"]);
        }
        out
    }

    /// The error for programs.
    pub fn failure(&self) -> Failure {
        Failure {
            kind: self.0.kind.name().to_owned(),
            exit_code: self.exit().code(),
            message: self.0.message.clone(),
            causes: self.causes(),
            hints: self.0.hints.clone(),
            details: self.0.details.as_ref().map(|details| details.json.clone()),
        }
    }
}

/// Several lines stay several lines, indented; all else that could steer a terminal is escaped.
fn lines(message: &str) -> String {
    let lines: Vec<String> = message.trim_end().lines().map(text::clean).collect();
    lines.join("\n  ")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().and_then(|source| match source.downcast_ref::<Wrapped>() {
            Some(wrapped) => wrapped.0.source(),
            None => Some(&**source as &(dyn StdError + 'static)),
        })
    }
}

/// A room's error whose message is ours already, so that only its causes are told.
#[derive(Debug)]
struct Wrapped(Box<dyn StdError + Send + Sync>);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Wrapped {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

impl From<IdError> for Error {
    fn from(error: IdError) -> Self {
        Self::of(ErrorKind::Usage, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read `journal.jsonl`")]
    struct Room(#[source] std::io::Error);

    #[test]
    fn text_and_json_tell_the_same() {
        let room = Room(std::io::Error::other("the disk is on fire"));
        let error = Error::of(ErrorKind::Corrupt, room).hint("look at the disk");
        insta::assert_snapshot!(error.render(), @r"
        error: cannot read `journal.jsonl`
        cause: the disk is on fire
        hint: look at the disk
        ");
        insta::assert_snapshot!(serde_json::to_string(&error.failure()).unwrap(), @r#"{"kind":"corrupt","exitCode":8,"message":"cannot read `journal.jsonl`","causes":["the disk is on fire"],"hints":["look at the disk"]}"#);
        assert_eq!(error.exit().code(), 8);
    }

    #[test]
    fn a_cause_that_is_said_twice_is_told_once() {
        let inner = std::io::Error::other("no space");
        let error = Error::new(ErrorKind::Environment, "no space").because(inner);
        assert_eq!(error.causes(), [""; 0]);
        let error = Error::new(ErrorKind::Environment, "cannot write `x`").because(std::io::Error::other("no space"));
        assert_eq!(error.causes(), ["no space"]);
    }

    #[test]
    fn messages_cannot_steer_the_terminal() {
        let error = Error::new(ErrorKind::Repository, "bad ref `x\x1b[2J`\nsecond line");
        assert_eq!(error.render(), "error: bad ref `x\\u{1b}[2J`\n  second line\n");
    }

    #[test]
    fn details_come_first_and_go_into_the_json() {
        let details = Details { text: "plan.toml:3: what\n".to_owned(), json: serde_json::json!([1]) };
        let error = Error::new(ErrorKind::Plan, "the plan has 1 finding").details(details);
        assert_eq!(error.render(), "plan.toml:3: what\nerror: the plan has 1 finding\n");
        assert_eq!(error.failure().details, Some(serde_json::json!([1])));
    }
}

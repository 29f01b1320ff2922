//! The envelope of every answer to a query, and where each command's shape is documented.
//!
//! `{"v":1,"command":"status","run":"login-3","data":{…},"warnings":[]}`, in one line.
//!
//! `run` and `exec` print the events of the run as they happen instead, and `logs` without an agent those there are, one a
//! line ([`crate::model::event`]), and no envelope unless they fail before there is a run. When a command fails, `data` is `null` and there is one more key,
//! `error` ([`Failure`]). A reader tells an event from an envelope by its `type`.
//!
//! | command | `data` |
//! |---|---|
//! | `status` | [`StatusData`](super::status::StatusData) |
//! | `merge`, `verify`, `land`, `retry` | [`SummaryData`](super::summary::SummaryData) |
//! | `inspect` | [`InspectData`](super::inspect::InspectData), with `--turn` the [`TurnRecord`](crate::model::change::TurnRecord) |
//! | `inspect --patch`, `--stat`, `--files` | [`PatchData`](super::changes::PatchData), [`StatData`](super::changes::StatData), [`FilesData`](super::changes::FilesData) |
//! | `inspect --output`, `logs <agent>`, `logs verify` | [`LogsData`](super::logs::LogsData); with `--follow` one for each piece |
//! | `run --dry-run` | the [`Preview`](crate::plan::Preview) |
//! | `doctor` | [`DoctorData`](super::doctor::DoctorData) |
//! | `board list` | [`BoardData`](super::board::BoardData) |
//! | `board show` | the [`Card`](crate::model::card::Card) |
//! | `runs` | [`RunsData`](super::runs::RunsData) |
//!
//! Keys are camelCase. A key is never taken away or given another meaning within one `v`; new ones may appear, and readers
//! skip what they do not know. What was not measured is `null`.

use serde::Serialize;

use crate::model::RunId;

/// The version of the envelope and of every shape in it.
pub const VERSION: u32 = 1;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Envelope<T> {
    /// [`VERSION`].
    pub v: u32,
    /// The command that was asked, `board show`; empty where none could be told.
    pub command: String,
    /// The run it is about, where it is about one.
    pub run: Option<RunId>,
    /// The answer; `null` where there is an error.
    pub data: Option<T>,
    /// What went otherwise than wished, without changing the answer.
    pub warnings: Vec<String>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

impl<T> Envelope<T> {
    /// An answer.
    pub fn answer(command: &str, run: Option<RunId>, data: T, warnings: Vec<String>) -> Self {
        Self { v: VERSION, command: command.to_owned(), run, data: Some(data), warnings, error: None }
    }

    /// A failure.
    pub fn failure(command: &str, run: Option<RunId>, error: Failure, warnings: Vec<String>) -> Self {
        Self { v: VERSION, command: command.to_owned(), run, data: None, warnings, error: Some(error) }
    }
}

/// Why a command could not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// `usage`, `plan`, `settings`, `environment`, `repository`, `conflict`, `verification`, `locked`, `corrupt`,
    /// `interrupted` or `internal`.
    pub kind: String,
    /// The exit code.
    pub exit_code: u8,
    /// What went wrong.
    pub message: String,
    /// What that came from, the nearest first.
    pub causes: Vec<String>,
    /// What to do about it.
    pub hints: Vec<String>,
    /// More about it, in a shape that depends on the kind: for `plan` the findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let answer = Envelope::answer("runs", Some("login-3".parse().unwrap()), [1], vec!["slow disk".to_owned()]);
        insta::assert_snapshot!(serde_json::to_string(&answer).unwrap(), @r#"{"v":1,"command":"runs","run":"login-3","data":[1],"warnings":["slow disk"]}"#);
        let error = Failure {
            kind: "usage".to_owned(),
            exit_code: 2,
            message: "no run `x`".to_owned(),
            causes: Vec::new(),
            hints: vec!["`sandbox runs` lists them".to_owned()],
            details: None,
        };
        let failure = Envelope::<()>::failure("status", None, error, Vec::new());
        insta::assert_snapshot!(serde_json::to_string(&failure).unwrap(), @r#"{"v":1,"command":"status","run":null,"data":null,"warnings":[],"error":{"kind":"usage","exitCode":2,"message":"no run `x`","causes":[],"hints":["`sandbox runs` lists them"]}}"#);
    }
}

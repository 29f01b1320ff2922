//! What is asked and what is answered. A pure reading of lines.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{AgentName, AttemptOutcome, RunId};

/// The version of requests and answers.
pub const VERSION: u64 = 1;

/// The most bytes of a request, and of an answer.
pub const LINE_MAX: usize = 4096;

/// What can be asked of a coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Command {
    /// Whether it is there, and of which run.
    Ping,
    /// Begin nothing new.
    Pause,
    /// Go on beginning what is new.
    Continue,
    /// End the whole run in order; or, asked again, at once.
    Stop,
    /// End the attempt of one agent, and make no further one in this run.
    StopAgent {
        /// Which.
        agent: AgentName,
    },
    /// Leave one agent out.
    Skip {
        /// Which.
        agent: AgentName,
    },
    /// Try an agent that has ended again.
    Retry {
        /// Which.
        agent: AgentName,
        /// Whether in a new worktree, made from its own fork point.
        from_fork: bool,
    },
}

/// The names of the commands, as they are asked for.
const COMMANDS: [&str; 7] = ["ping", "pause", "continue", "stop", "stop_agent", "skip", "retry"];

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "done", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Done {
    /// It is there.
    Pong {
        /// The run it coordinates.
        run: RunId,
        /// Its process.
        pid: u32,
    },
    /// The run is paused, or goes on.
    Set {
        /// Whether it was not so before.
        changed: bool,
    },
    /// The run ends.
    Ending,
    /// The agent has ended, as it was to.
    AgentEnded {
        /// How.
        outcome: AttemptOutcome,
    },
    /// The agent is to be tried again.
    Queued,
}

/// Why something was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Whoever asks may not.
    Denied,
    /// It is no request.
    BadRequest,
    /// There is no such command.
    UnknownRequest,
    /// It is asked in a version that is not spoken here.
    UnsupportedVersion,
    /// The run has no such agent.
    UnknownAgent,
    /// The run, or the agent, is past it.
    TooLate,
    /// It cannot be done as things stand.
    NotPossible,
    /// Too many ask at once.
    Busy,
    /// It was tried, and failed.
    Failed,
}

/// Why something was not done, in words too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The kind.
    pub kind: Kind,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// A refusal of a kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// What comes of a request.
pub type Answer = Result<Done, Refusal>;

#[derive(Serialize, Deserialize)]
struct Request {
    v: u64,
    key: String,
    #[serde(flatten)]
    command: Command,
}

#[derive(Serialize, Deserialize)]
struct Reply {
    v: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    ok: Option<Done>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    error: Option<Refusal>,
}

/// A request as a line. `key`: what shows that the run's folder can be read.
pub fn request_line(key: &str, command: &Command) -> Result<String, serde_json::Error> {
    let request = Request { v: VERSION, key: key.to_owned(), command: command.clone() };
    Ok(serde_json::to_string(&request)? + "\n")
}

/// The command of a line, where it may be asked for. What is wrong with it is named as closely as it can be.
pub fn read_request(line: &[u8], key: &str) -> Result<Command, Refusal> {
    let bad = |message: String| Refusal::new(Kind::BadRequest, message);
    let mut value: Value =
        serde_json::from_slice(line).map_err(|error| bad(format!("the request is no JSON: {error}")))?;
    let Some(fields) = value.as_object_mut() else {
        return Err(bad("the request is no JSON object".to_owned()));
    };
    match fields.remove("v").as_ref().and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(other) => {
            let message = format!("version {other} of requests is not known here: this is version {VERSION}");
            return Err(Refusal::new(Kind::UnsupportedVersion, message));
        }
        None => return Err(bad("the request does not say its version, `v`".to_owned())),
    }
    if fields.remove("key").as_ref().and_then(Value::as_str) != Some(key) {
        let message = "the request does not have the key that lies in the run's folder";
        return Err(Refusal::new(Kind::Denied, message));
    }
    let Some(command) = fields.get("command").and_then(Value::as_str) else {
        return Err(bad("the request names no `command`".to_owned()));
    };
    if !COMMANDS.contains(&command) {
        let message = format!("there is no command `{command}`: there is {}", COMMANDS.join(", "));
        return Err(Refusal::new(Kind::UnknownRequest, message));
    }
    serde_json::from_value(value).map_err(|error| bad(format!("the request cannot be read: {error}")))
}

/// An answer as a line.
pub fn answer_line(answer: &Answer) -> Result<String, serde_json::Error> {
    let reply = match answer.clone() {
        Ok(done) => Reply { v: VERSION, ok: Some(done), error: None },
        Err(refusal) => Reply { v: VERSION, ok: None, error: Some(refusal) },
    };
    Ok(serde_json::to_string(&reply)? + "\n")
}

/// The answer of a line. `None`: it is none.
pub fn read_answer(line: &[u8]) -> Option<Answer> {
    let Reply { ok, error, .. } = serde_json::from_slice(line).ok()?;
    match (ok, error) {
        (Some(done), None) => Some(Ok(done)),
        (None, Some(refusal)) => Some(Err(refusal)),
        (Some(_), Some(_)) | (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> AgentName {
        "a".parse().unwrap()
    }

    fn every_command() -> Vec<Command> {
        vec![
            Command::Ping,
            Command::Pause,
            Command::Continue,
            Command::Stop,
            Command::StopAgent { agent: agent() },
            Command::Skip { agent: agent() },
            Command::Retry { agent: agent(), from_fork: true },
        ]
    }

    #[test]
    fn what_is_asked_is_read() {
        let all = every_command();
        assert_eq!(all.len(), COMMANDS.len());
        for (command, name) in all.into_iter().zip(COMMANDS) {
            let line = request_line("k", &command).unwrap();
            assert!(line.contains(&format!("\"command\":\"{name}\"")) && line.len() < LINE_MAX, "{line}");
            assert_eq!(read_request(line.as_bytes(), "k"), Ok(command.clone()), "{line}");
            assert_eq!(read_request(line.as_bytes(), "other").unwrap_err().kind, Kind::Denied, "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, kind, words) in [
            ("", Kind::BadRequest, "no JSON"),
            ("pause", Kind::BadRequest, "no JSON"),
            ("[]", Kind::BadRequest, "no JSON object"),
            (r#"{"command":"pause","key":"k"}"#, Kind::BadRequest, "`v`"),
            (r#"{"v":2,"command":"pause","key":"k"}"#, Kind::UnsupportedVersion, "version 2"),
            (r#"{"v":1,"command":"pause"}"#, Kind::Denied, "key"),
            (r#"{"v":1,"command":"pause","key":"K"}"#, Kind::Denied, "key"),
            // Who may not ask learns nothing of what can be asked.
            (r#"{"v":1,"command":"land","key":"K"}"#, Kind::Denied, "key"),
            (r#"{"v":1,"key":"k"}"#, Kind::BadRequest, "`command`"),
            (r#"{"v":1,"key":"k","command":7}"#, Kind::BadRequest, "`command`"),
            (r#"{"v":1,"key":"k","command":"land"}"#, Kind::UnknownRequest, "`land`"),
            (r#"{"v":1,"key":"k","command":"skip"}"#, Kind::BadRequest, "agent"),
            (r#"{"v":1,"key":"k","command":"skip","agent":"A b"}"#, Kind::BadRequest, "cannot be read"),
            (r#"{"v":1,"key":"k","command":"retry","agent":"a"}"#, Kind::BadRequest, "fromFork"),
            (r#"{"v":1,"key":"k","command":"skip","agent":"a","force":true}"#, Kind::BadRequest, "force"),
        ] {
            let refusal = read_request(line.as_bytes(), "k").unwrap_err();
            assert!(refusal.kind == kind && refusal.message.contains(words), "{line}: {refusal:?}");
        }
    }

    #[test]
    fn what_is_answered_is_read() {
        let run: RunId = "login-1".parse().unwrap();
        for answer in [
            Ok(Done::Pong { run, pid: 7 }),
            Ok(Done::Set { changed: true }),
            Ok(Done::Ending),
            Ok(Done::AgentEnded { outcome: AttemptOutcome::Interrupted }),
            Ok(Done::Queued),
            Err(Refusal::new(Kind::TooLate, "x\ny")),
        ] {
            let line = answer_line(&answer).unwrap();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert_eq!(read_answer(line.as_bytes()), Some(answer), "{line}");
        }
        for line in ["", "{}", r#"{"v":1}"#, "x"] {
            assert_eq!(read_answer(line.as_bytes()), None, "{line}");
        }
    }
}

//! What an agent asks for from inside its box: more paths than its contract has.
//!
//! Only the words are looked at here. What becomes of a request is decided by whoever knows the run ([`Clerk`]); the contract of
//! the attempt that asks stays as it is in any case.

use serde::{Deserialize, Serialize};

use crate::model::{AgentName, CardId, TurnId};
use crate::plan::GlobSet;
use crate::store;

/// How many requests an agent may make in one attempt.
pub const ASKS_MAX: u32 = 20;

/// How many globs a request may have.
pub const GLOBS_MAX: usize = 16;

/// The longest glob of a request, in bytes.
pub const GLOB_MAX: usize = 256;

/// How many commas a glob of a request may have. Each glob that braces stand for is compared by itself, and an agent is not to
/// have us busy for long.
pub const COMMAS_MAX: usize = 4;

/// The longest reason, in characters.
pub const WHY_MAX: usize = 300;

/// A request for more paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// Globs of the paths that are to be the agent's own.
    pub owns: Vec<String>,
    /// Why.
    pub why: String,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// All of it is the agent's already.
    Owned,
    /// It is granted, from the next attempt on.
    Granted,
    /// It is on the board, for a person to decide.
    Recorded,
    /// It was on the board before.
    Waiting,
    /// A person refused it.
    Refused,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// What became of it.
    pub answer: Answer,
    /// The card that tells, where there is one.
    pub card: Option<CardId>,
    /// The same in a line.
    pub text: String,
}

/// Where requests are decided.
pub trait Clerk: std::fmt::Debug + Send + Sync {
    /// Decides a request that an agent made in this turn, and writes down what must be.
    fn decide(&self, agent: &AgentName, turn: TurnId, ask: Ask) -> Result<Result<Reply, String>, store::Error>;
}

impl Ask {
    /// Reads a request. This much is cheap, whatever was sent.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let ask: Self = serde_json::from_slice(text).map_err(|error| format!("the request cannot be read: {error}"))?;
        ask.bounded()
    }

    /// The request, if it keeps to its bounds: in order, nothing twice, its reason one line of printable text.
    pub fn bounded(mut self) -> Result<Self, String> {
        self.owns.sort();
        self.owns.dedup();
        if self.owns.is_empty() {
            return Err("it asks for nothing: name at least one glob".to_owned());
        }
        if self.owns.len() > GLOBS_MAX {
            return Err(format!("it has {} globs; a request has at most {GLOBS_MAX}", self.owns.len()));
        }
        for glob in &self.owns {
            if glob.len() > GLOB_MAX {
                return Err(format!("a glob of it is longer than {GLOB_MAX} bytes"));
            }
            if glob.matches(',').count() > COMMAS_MAX {
                return Err(format!(
                    "`{glob}` has more than {COMMAS_MAX} commas: write several globs instead of braces"
                ));
            }
            if glob.chars().any(char::is_control) {
                return Err(format!("`{}` has a control character", glob.escape_default()));
            }
        }
        let words: Vec<&str> = self.why.split_whitespace().collect();
        let why: String = words.join(" ").chars().filter(|character| !character.is_control()).take(WHY_MAX).collect();
        if why.is_empty() {
            return Err("it does not say why".to_owned());
        }
        Ok(Self { why, ..self })
    }

    /// Its globs, read by the rules of a plan.
    pub fn globs(&self) -> Result<GlobSet, String> {
        GlobSet::compile(&self.owns).map_err(|(at, cause)| format!("`{}` is not a glob: {cause}", self.owns[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_and_bounded() {
        let long = format!(r#"{{"owns":["{}"],"why":"x"}}"#, "a".repeat(GLOB_MAX + 1));
        let many =
            format!(r#"{{"owns":[{}],"why":"x"}}"#, (0..17).map(|n| format!("\"g{n}\"")).collect::<Vec<_>>().join(","));
        let refused: [(&[u8], &str); 13] = [
            (b"", "cannot be read"),
            (b"{}", "cannot be read"),
            (b"[\"docs/**\"]", "cannot be read"),
            (br#"{"owns":["a"],"why":"x"} {"owns":["b"],"why":"y"}"#, "cannot be read"),
            (br#"{"owns":["a"],"why":"x","answer":"granted"}"#, "unknown field"),
            (br#"{"owns":"a","why":"x"}"#, "cannot be read"),
            (b"{\"owns\":[\"\xff\"],\"why\":\"x\"}", "cannot be read"),
            (br#"{"owns":[],"why":"x"}"#, "asks for nothing"),
            (br#"{"owns":["a"],"why":" \n\u0007 "}"#, "does not say why"),
            (br#"{"owns":["a\u001b[31m"],"why":"x"}"#, "control character"),
            (br#"{"owns":["{a,b}{a,b}{a,b}{a,b}{a,b}"],"why":"x"}"#, "commas"),
            (long.as_bytes(), "longer than"),
            (many.as_bytes(), "at most 16"),
        ];
        for (text, reason) in refused {
            let told = Ask::parse(text).unwrap_err();
            assert!(told.contains(reason), "{told}");
        }
        let ask = Ask::parse(br#"{"owns":["b","a","b"],"why":" because\n \u001b[31mred\tof it "}"#).unwrap();
        assert_eq!(ask, Ask { owns: vec!["a".to_owned(), "b".to_owned()], why: "because [31mred of it".to_owned() });
        let why = "y".repeat(WHY_MAX + 9);
        assert_eq!(Ask { owns: vec!["a".to_owned()], why }.bounded().unwrap().why.len(), WHY_MAX);
    }

    #[test]
    fn globs_are_those_of_a_plan() {
        for glob in ["../x", "/etc/passwd", "a/../b", "!a", "a//b", ".git/**", "**/.GIT/hooks/x", "{a", "a**", "."] {
            let told = Ask { owns: vec![glob.to_owned()], why: "x".to_owned() }.globs().unwrap_err();
            assert!(told.contains(&format!("`{glob}` is not a glob")), "{told}");
        }
        assert!(Ask { owns: vec!["**".to_owned(), "docs/{a,b}/*.md".to_owned()], why: "x".to_owned() }.globs().is_ok());
    }
}

//! The names and numbers that identify things, each a type of its own.
//!
//! A value of these types has been checked: an [`ObjectId`] is 40 or 64 hexadecimal digits, an [`AgentName`] is safe as a
//! folder, a branch component and a table cell. So a wrong one is refused where it enters, never where it is used.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a text is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not a plan or agent name.
    #[error(
        "`{text}` is not a valid name: use lower-case letters, digits and single dashes between them, at most 32 characters"
    )]
    Name {
        /// What was given, cut to a readable length.
        text: String,
    },
    /// One of the names the program uses itself.
    #[error("`{text}` is a reserved name: choose another (reserved are {})", RESERVED.join(", "))]
    Reserved {
        /// What was given.
        text: String,
    },
    /// Not a run id.
    #[error("`{text}` is not a run id: a run id is a plan's name and a number, such as `login-3`")]
    Run {
        /// What was given.
        text: String,
    },
    /// Not a git object id.
    #[error("`{text}` is not a git object id: 40 or 64 lower-case hexadecimal digits are wanted")]
    Object {
        /// What was given.
        text: String,
    },
    /// Not a turn.
    #[error("`{text}` is not a turn: write attempt and turn as `2.1`")]
    Turn {
        /// What was given.
        text: String,
    },
    /// Not a full ref name.
    #[error("`{text}` is not a full ref name: it must begin with `refs/`")]
    Ref {
        /// What was given.
        text: String,
    },
    /// Not a card id.
    #[error("`{text}` is not a card id: a card id is `c` and hexadecimal digits")]
    Card {
        /// What was given.
        text: String,
    },
}

/// Names that no plan and no agent may have, because branches, folders or refs of the program's own carry them.
pub const RESERVED: [&str; 4] = ["integration", "verify", "base", "rescue"];

/// The longest plan or agent name, in characters.
pub const NAME_MAX: usize = 32;

fn shortened(text: &str) -> String {
    let mut cut: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().count() > 40 {
        cut.push('…');
    }
    cut
}

/// Whether `text` has the form `[a-z0-9]+(-[a-z0-9]+)*` and is at most [`NAME_MAX`] long.
fn is_name(text: &str) -> bool {
    text.len() <= NAME_MAX
        && text
            .split('-')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()))
}

macro_rules! text_id {
    ($name:ident) => {
        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
        impl TryFrom<&str> for $name {
            type Error = IdError;
            fn try_from(text: &str) -> Result<Self, IdError> {
                text.parse()
            }
        }
    };
}

/// The name of an agent of a plan, or of the plan itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentName(String);
text_id!(AgentName);

impl FromStr for AgentName {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        if !is_name(text) {
            return Err(IdError::Name { text: shortened(text) });
        }
        if RESERVED.contains(&text) {
            return Err(IdError::Reserved { text: text.to_owned() });
        }
        Ok(Self(text.to_owned()))
    }
}

/// One execution of a plan: the plan's name and a number counted per repository, `login-3`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);
text_id!(RunId);

impl RunId {
    /// The `number`th run in a repository, of the plan called `plan`.
    pub fn new(plan: &AgentName, number: u64) -> Self {
        Self(format!("{plan}-{number}"))
    }

    /// The name of the plan it is a run of.
    pub fn plan(&self) -> &str {
        self.0.rsplit_once('-').map_or(&self.0, |(plan, _)| plan)
    }

    /// Its number within the repository.
    pub fn number(&self) -> u64 {
        self.0.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
    }
}

impl FromStr for RunId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::Run { text: shortened(text) };
        let (plan, number) = text.rsplit_once('-').ok_or_else(wrong)?;
        let canonical = number.parse::<u64>().is_ok_and(|n| n > 0 && n.to_string() == number);
        if is_name(plan) && canonical { Ok(Self(text.to_owned())) } else { Err(wrong()) }
    }
}

/// Which hash a repository names its objects with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectFormat {
    /// 40 hexadecimal digits.
    Sha1,
    /// 64 hexadecimal digits.
    Sha256,
}

impl ObjectFormat {
    /// How many hexadecimal digits an id has.
    pub fn hex_len(self) -> usize {
        match self {
            Self::Sha1 => 40,
            Self::Sha256 => 64,
        }
    }

    /// The id of no object: what a ref that does not exist is compared with.
    pub fn zero(self) -> ObjectId {
        ObjectId("0".repeat(self.hex_len()))
    }
}

/// The id of any git object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(String);
text_id!(ObjectId);

impl FromStr for ObjectId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if hex && (text.len() == 40 || text.len() == 64) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::Object { text: shortened(text) })
        }
    }
}

impl ObjectId {
    /// Whether this is the id of no object.
    pub fn is_zero(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'0')
    }

    /// The first digits, for people. Never parsed.
    pub fn short(&self) -> &str {
        self.0.get(..10).unwrap_or(&self.0)
    }
}

macro_rules! object_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(ObjectId);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }
            /// The first digits, for people. Never parsed.
            pub fn short(&self) -> &str {
                self.0.short()
            }
            /// The same id, with the kind of object forgotten.
            pub fn object(&self) -> &ObjectId {
                &self.0
            }
        }
        impl From<ObjectId> for $name {
            fn from(id: ObjectId) -> Self {
                Self(id)
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                text.parse().map(Self)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
    };
}

object_id!(
    /// The id of a commit.
    CommitId
);
object_id!(
    /// The id of a tree.
    TreeId
);

/// A full ref name, `refs/heads/main`. Only its beginning is checked here: git has the last word on the rest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefName(String);
text_id!(RefName);

impl FromStr for RefName {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let plain =
            text.starts_with("refs/") && text.len() > 5 && !text.bytes().any(|b| b.is_ascii_control() || b == b' ');
        if plain { Ok(Self(text.to_owned())) } else { Err(IdError::Ref { text: shortened(text) }) }
    }
}

impl RefName {
    /// The ref of the branch called `branch`.
    pub fn branch(branch: &str) -> Result<Self, IdError> {
        format!("refs/heads/{branch}").parse()
    }

    /// The branch's name, if this is a branch.
    pub fn branch_name(&self) -> Option<&str> {
        self.0.strip_prefix("refs/heads/")
    }

    /// What people call it: the branch's name, else the whole ref.
    pub fn short(&self) -> &str {
        self.branch_name().unwrap_or(&self.0)
    }

    /// The branch an agent of a run works on.
    pub fn agent_branch(run: &RunId, agent: &AgentName) -> Self {
        Self(format!("refs/heads/sandbox/{run}/{agent}"))
    }

    /// What the names of all branches of a run begin with, as git is asked for them.
    pub fn agent_branches(run: &RunId) -> String {
        format!("refs/heads/sandbox/{run}/")
    }

    /// The candidate of a run: what merging the accepted contributions gave so far.
    pub fn integration(run: &RunId) -> Self {
        Self(format!("refs/heads/sandbox/{run}/integration"))
    }

    /// Keeps the merges that previews go on from, where the candidate is made of other commits.
    pub fn merges(run: &RunId) -> Self {
        Self(format!("refs/sandbox/{run}/integration"))
    }

    /// Keeps the commit a run was started on.
    pub fn base(run: &RunId) -> Self {
        Self(format!("refs/sandbox/{run}/base"))
    }

    /// Keeps the commit an agent's worktree was made from.
    pub fn fork(run: &RunId, agent: &AgentName) -> Self {
        Self(format!("refs/sandbox/{run}/{agent}/fork"))
    }

    /// Keeps the snapshot of one turn.
    pub fn snapshot(run: &RunId, agent: &AgentName, turn: TurnId) -> Self {
        Self(format!("refs/sandbox/{run}/{agent}/{turn}"))
    }

    /// Keeps what an agent's branch held when it was taken over by a new worktree.
    pub fn left(run: &RunId, agent: &AgentName, held: &CommitId) -> Self {
        Self(format!("refs/sandbox/{run}/{agent}/left-{}", held.short()))
    }

    /// Keeps both sides of a conflict of an agent, and what was decided about it.
    pub fn card(run: &RunId, agent: &AgentName, card: &CardId) -> Self {
        Self(format!("refs/sandbox/{run}/{agent}/card-{card}"))
    }

    /// Keeps what a command proposed for a conflict of an agent.
    pub fn proposal(run: &RunId, agent: &AgentName, card: &CardId) -> Self {
        Self(format!("refs/sandbox/{run}/{agent}/proposal-{card}"))
    }

    /// Keeps the state of the user's checkout from before a landing.
    pub fn rescue(run: &RunId) -> Self {
        Self(format!("refs/sandbox/{run}/rescue"))
    }
}

/// One turn of one attempt: `2.1` is the first turn of the second attempt. Turn 0 is the snapshot before the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId {
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// The turn within it, counted from 1; 0 is the state the attempt began with.
    pub turn: u32,
}

impl TurnId {
    /// Turn `turn` of attempt `attempt`.
    pub fn new(attempt: u32, turn: u32) -> Self {
        Self { attempt, turn }
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.attempt, self.turn))
    }
}

impl FromStr for TurnId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::Turn { text: shortened(text) };
        let (attempt, turn) = text.split_once('.').ok_or_else(wrong)?;
        let attempt = attempt.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
        Ok(Self { attempt, turn: turn.parse().map_err(|_| wrong())? })
    }
}

impl Serialize for TurnId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TurnId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A card on the board: `c` and the first hexadecimal digits of a hash of what it is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardId(String);
text_id!(CardId);

impl FromStr for CardId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let digits = text.strip_prefix('c').unwrap_or("");
        if !digits.is_empty() && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::Card { text: shortened(text) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "a-b", "parser2", "0", &"x".repeat(32)] {
            assert_eq!(good.parse::<AgentName>().unwrap().as_str(), good);
        }
        let long = "x".repeat(33);
        for bad in ["", "-", "-a", "a-", "a--b", "A", "ä", "a b", "../x", "a/b", "a.b", "a_b", "a\n", long.as_str()] {
            assert!(bad.parse::<AgentName>().is_err(), "{bad:?} should be refused");
        }
        for reserved in RESERVED {
            assert!(matches!(reserved.parse::<AgentName>(), Err(IdError::Reserved { .. })));
        }
    }

    #[test]
    fn runs() {
        let run: RunId = "log-in-3".parse().unwrap();
        assert_eq!((run.plan(), run.number()), ("log-in", 3));
        for bad in ["", "login", "login-", "login-0", "login-03", "-3", "Login-3", "login-x"] {
            assert!(bad.parse::<RunId>().is_err(), "{bad:?} should be refused");
        }
    }

    #[test]
    fn objects() {
        assert!("0123456789012345678901234567890123456789".parse::<CommitId>().is_ok());
        assert!("a".repeat(64).parse::<TreeId>().is_ok());
        for bad in ["", "HEAD", "abc", &"g".repeat(40), &"A".repeat(40), &"a".repeat(41)] {
            assert!(bad.parse::<ObjectId>().is_err(), "{bad:?} should be refused");
        }
        assert!(ObjectFormat::Sha256.zero().is_zero());
    }

    #[test]
    fn turns() {
        assert_eq!("2.1".parse::<TurnId>().unwrap(), TurnId::new(2, 1));
        assert!(TurnId::new(1, 10) > TurnId::new(1, 9));
        for bad in ["", "1", "0.1", "a.b", "1.", "1.2.3"] {
            assert!(bad.parse::<TurnId>().is_err(), "{bad:?} should be refused");
        }
    }
}

//! What the sides of a conflict have, made small enough to read. Looked up whenever a card is shown; no event carries it.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::ids::ObjectId;
use super::path::{self, RepoPath};

/// The conflicting paths of a card.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Excerpts {
    /// The first of them.
    pub paths: Vec<PathExcerpt>,
    /// How many more there are.
    pub more_paths: usize,
}

/// One conflicting path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathExcerpt {
    /// The path.
    pub path: RepoPath,
    /// What both sides come from; none where nothing stood there.
    pub base: Option<Content>,
    /// What the candidate has; none where nothing stands there.
    pub ours: Option<Content>,
    /// What the agent has; none where nothing stands there.
    pub theirs: Option<Content>,
    /// Where the texts conflict.
    pub regions: Vec<RegionExcerpt>,
    /// How many more such places there are.
    pub more_regions: usize,
    /// Why no lines are shown, where none are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What stands at a path on one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// What it is.
    pub kind: ContentKind,
    /// Its mode, `100644`.
    pub mode: String,
    /// Its object.
    pub oid: ObjectId,
    /// Its size in bytes, where it has one and is there.
    pub size: Option<u64>,
    /// Where a link leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Line>,
}

/// What can stand at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentKind {
    /// A file of text.
    Text,
    /// A file that is no text.
    Binary,
    /// A file that was not looked into: it is too large, or not there.
    File,
    /// A symbolic link.
    Symlink,
    /// A commit of another repository.
    Submodule,
    /// A folder.
    Folder,
}

impl ContentKind {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Binary => "binary file",
            Self::File => "file",
            Self::Symlink => "symbolic link",
            Self::Submodule => "submodule",
            Self::Folder => "folder",
        }
    }
}

/// A place where the texts conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegionExcerpt {
    /// The lines before it, as the candidate has them.
    pub before: Lines,
    /// What both sides come from; none where there is no base.
    pub base: Option<Lines>,
    /// What the candidate has.
    pub ours: Lines,
    /// What the agent has.
    pub theirs: Lines,
    /// The lines behind it, as the candidate has them.
    pub after: Lines,
}

/// Some lines of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lines {
    /// The number of the first, counted from 1. Where there are none: the number of the line they would stand before.
    pub from: usize,
    /// The first of them, without their ends.
    pub lines: Vec<Line>,
    /// How many more there are.
    pub more: usize,
    /// The last one is the text's last, and has no line end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_newline: bool,
}

/// Bytes that somebody else wrote, as far as they are shown.
///
/// In JSON a string where they are valid UTF-8, else `{"bytes": "<hexadecimal>"}`; what was cut off is counted in `{"cut": n}`
/// beside `text` or `bytes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    bytes: Vec<u8>,
    cut: usize,
}

impl Line {
    /// At most `most` of these bytes. Where they are text, whole characters.
    pub fn new(bytes: &[u8], most: usize) -> Self {
        let mut kept = most.min(bytes.len());
        if kept < bytes.len() && std::str::from_utf8(bytes).is_ok() {
            while kept > 0 && bytes[kept] & 0b1100_0000 == 0b1000_0000 {
                kept -= 1;
            }
        }
        Self { bytes: bytes[..kept].to_vec(), cut: bytes.len() - kept }
    }

    /// The bytes that are shown.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bytes were cut off.
    pub fn cut(&self) -> usize {
        self.cut
    }
}

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.cut == 0 {
            return path::serialize_bytes(&self.bytes, serializer);
        }
        let mut map = serializer.serialize_map(Some(2))?;
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => map.serialize_entry("text", text)?,
            Err(_) => map.serialize_entry("bytes", &hex::encode(&self.bytes))?,
        }
        map.serialize_entry("cut", &self.cut)?;
        map.end()
    }
}

/// What the facts of a card speak for. It is advice, and never acted on by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lean {
    /// The command of one of the card's options.
    pub option: String,
    /// Why, in a line.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_lossless_or_marked() {
        for (bytes, most, json) in [
            (&b"plain\t\x1b[2J"[..], 99, r#""plain\t\u001b[2J""#),
            (b"bad\xff", 99, r#"{"bytes":"626164ff"}"#),
            (b"abcdef", 4, r#"{"text":"abcd","cut":2}"#),
            ("aü".as_bytes(), 2, r#"{"text":"a","cut":2}"#),
            (b"\xff\xfe\xfd", 1, r#"{"bytes":"ff","cut":2}"#),
            (b"", 0, r#""""#),
        ] {
            assert_eq!(serde_json::to_string(&Line::new(bytes, most)).unwrap(), json);
        }
    }
}

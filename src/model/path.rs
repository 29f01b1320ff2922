//! Paths inside a repository, as git has them: bytes, relative, `/` between the parts.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path relative to a repository's root. Git allows any byte but NUL, so this is bytes and not text.
///
/// In JSON it is a string where it is valid UTF-8, and otherwise `{"bytes": "<hexadecimal>"}`, so that nothing is lost.
/// [`fmt::Display`] is for people: control characters and invalid bytes are escaped.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(Vec<u8>);

impl RepoPath {
    /// A path from the bytes that git printed.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path as the operating system takes it, still relative.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The path as the operating system takes it, below `root`.
    pub fn under(&self, root: &Path) -> PathBuf {
        root.join(self.as_path())
    }

    /// Its parts from the root down.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/')
    }

    /// The last part.
    pub fn file_name(&self) -> &[u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// Each folder above it, the nearest first, the root itself left out.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> + '_ {
        (0..self.0.len()).rev().filter(|at| self.0[*at] == b'/').map(|at| Self(self.0[..at].to_vec()))
    }

    /// Whether it lies below the folder `folder` (and is not that folder).
    pub fn is_below(&self, folder: &Self) -> bool {
        self.0.len() > folder.0.len() && self.0.starts_with(&folder.0) && self.0[folder.0.len()] == b'/'
    }

    /// The text, where it is valid UTF-8, else with the invalid bytes replaced.
    pub fn to_string_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl From<&str> for RepoPath {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<PathBuf> for RepoPath {
    fn from(path: PathBuf) -> Self {
        Self(path.into_os_string().into_vec())
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shown_bytes(&self.0))
    }
}

/// Bytes that somebody else wrote, for people: control characters and invalid bytes are escaped.
pub fn shown_bytes(bytes: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                shown.extend(character.escape_default());
            } else {
                shown.push(character);
            }
        }
        for byte in chunk.invalid() {
            shown.extend(std::ascii::escape_default(*byte).map(char::from));
        }
    }
    shown
}

impl fmt::Debug for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RepoPath({self})")
    }
}

impl Serialize for RepoPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_bytes(&self.0, serializer)
    }
}

/// Bytes that somebody else wrote: a string where they are valid UTF-8, else `{"bytes": "<hexadecimal>"}`.
pub(super) fn serialize_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return serializer.serialize_str(text);
    }
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry("bytes", &hex::encode(bytes))?;
    map.end()
}

impl<'de> Deserialize<'de> for RepoPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PathVisitor;
        impl<'de> Visitor<'de> for PathVisitor {
            type Value = RepoPath;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path, or {\"bytes\": \"<hexadecimal>\"}")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<RepoPath, E> {
                Ok(RepoPath::from(text))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RepoPath, A::Error> {
                let Some((key, hex)) = map.next_entry::<String, String>()? else {
                    return Err(de::Error::custom("an empty object is not a path"));
                };
                if key != "bytes" {
                    return Err(de::Error::unknown_field(&key, &["bytes"]));
                }
                hex::decode(&hex).map(RepoPath).map_err(|_| de::Error::custom("`bytes` is not hexadecimal"))
            }
        }
        deserializer.deserialize_any(PathVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_loses_nothing() {
        for bytes in [&b"a/b"[..], b"\xc3\xbcn\xc3\xaf \"q\"\n.txt", b"-x", b"bad\xff\xfe"] {
            let path = RepoPath::new(bytes);
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<RepoPath>(&json).unwrap(), path, "{json}");
        }
        assert_eq!(serde_json::to_string(&RepoPath::new(&b"\xff"[..])).unwrap(), r#"{"bytes":"ff"}"#);
        assert!(serde_json::from_str::<RepoPath>(r#"{"bytes":"f"}"#).is_err());
    }

    #[test]
    fn people_see_no_control_characters() {
        assert_eq!(RepoPath::new(&b"a\nb\x1b[31m\xff"[..]).to_string(), "a\\nb\\u{1b}[31m\\xff");
    }

    #[test]
    fn relations() {
        let path = RepoPath::from("a/b/c");
        let above: Vec<_> = path.ancestors().collect();
        assert_eq!(above, [RepoPath::from("a/b"), RepoPath::from("a")]);
        assert!(path.is_below(&RepoPath::from("a/b")));
        assert!(!RepoPath::from("a/bc").is_below(&RepoPath::from("a/b")));
        assert_eq!(path.file_name(), b"c");
    }
}

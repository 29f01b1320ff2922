//! The capture's own index, as far as it must be read without git: which paths it has, and which entries git would believe
//! unchanged although they may not be.
//!
//! Git takes a file for unchanged if size, owner, inode and times are those of its entry, the times in whole seconds. It
//! compares contents all the same if the file's modification time is not older than the index. But whoever sets that time
//! back can change a file twice within the second in which the index is written, and the second change goes unseen. Those
//! entries show: changed in that second, and said to have been modified before it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::git::{CachedEntry, parse_index};

/// An index that was read.
#[derive(Debug)]
pub(super) struct Index {
    written: u32,
    pub(super) entries: Vec<CachedEntry>,
}

/// The mode of a repository inside the tree.
pub(super) const GITLINK: u32 = 0o160_000;

impl Index {
    /// The index at `path`, whose ids have `id_length` bytes. `None` if it is not there, or is none that we understand.
    pub(super) fn load(path: &Path, id_length: usize) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let written = seconds(path.metadata().ok()?.mtime());
        Some(Self { written, entries: parse_index(&bytes, id_length)? })
    }

    /// Entries whose files may have changed without git's noticing.
    pub(super) fn doubtful(&self) -> impl Iterator<Item = &CachedEntry> {
        self.entries.iter().filter(|entry| entry.changed >= self.written && entry.modified < self.written)
    }
}

/// A line for `--index-info`. Mode 0 takes an entry away.
pub(super) fn index_line(mode: &str, id: &str, path: &[u8]) -> Vec<u8> {
    [mode.as_bytes(), b" ", id.as_bytes(), b" 0\t", path, b"\0"].concat()
}

/// The part of a time that an index keeps.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "git keeps the low 32 bits, and so do we")]
fn seconds(time: i64) -> u32 {
    time as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(changed: u32, modified: u32, path: &str, extended: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [changed, 0, modified, 0, 0, 0, 0o100_644, 0, 0, 3] {
            bytes.extend(u32::to_be_bytes(number));
        }
        bytes.extend([7; 20]);
        bytes.extend(if extended { &[0x40, 0, 0x20, 0][..] } else { &[0, 0][..] });
        bytes.extend(path.as_bytes());
        bytes.push(0);
        while bytes.len() % 8 != 0 {
            bytes.push(0);
        }
        bytes
    }

    #[test]
    fn what_was_changed_while_the_index_was_written_is_doubtful() {
        let mut bytes = b"DIRC\0\0\0\x03\0\0\0\x05".to_vec();
        let rows = [
            ("changed later, set back", 100, 50, true),
            ("changed at once, set back", 99, 50, false),
            ("not set back", 100, 100, false),
            ("1234567", 101, 0, true),
            ("old", 7, 7, false),
        ];
        for (path, changed, modified, doubtful) in rows {
            bytes.extend(entry(changed, modified, path, doubtful));
        }
        bytes.extend([0; 20]);
        let index = Index { written: 100, entries: parse_index(&bytes, 20).unwrap() };
        let paths: Vec<_> = index.entries.iter().map(|entry| String::from_utf8_lossy(&entry.path)).collect();
        assert_eq!(paths, rows.map(|(path, ..)| path));
        let doubtful: Vec<_> = index.doubtful().map(|entry| String::from_utf8_lossy(&entry.path)).collect();
        let expected: Vec<_> = rows.iter().filter(|row| row.3).map(|row| row.0).collect();
        assert_eq!(doubtful, expected);
    }
}

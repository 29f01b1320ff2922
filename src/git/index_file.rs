//! A git index, as far as it must be read, or changed, without git.
//!
//! Format: `gitformat-index(5)`. Versions 2 and 3 are understood, the ones that our own checkouts have; what is not
//! understood is left to git.

use std::fs::File;
use std::io;
use std::path::Path;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedEntry {
    /// When the file was last changed, in whole seconds.
    pub changed: u32,
    /// When the file says that it was modified, in whole seconds.
    pub modified: u32,
    /// Its kind and permissions.
    pub mode: u32,
    /// Its object, in hexadecimal.
    pub id: String,
    /// Its path.
    pub path: Vec<u8>,
    at: usize,
}

/// Copies an index, its time included. False: there is none.
///
/// Git takes a file for changed if it is as young as the index, for its entry may be of the moment before (`racy-git` in
/// git's technical documentation). A copy with a time of its own would hide such a change for good.
pub fn copy_index(from: &Path, to: &Path) -> io::Result<bool> {
    // Before the copy: if the index is replaced meanwhile, the time is too old, and git just looks at more files.
    let modified = match std::fs::metadata(from) {
        Ok(index) => index.modified()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    std::fs::copy(from, to)?;
    File::options().write(true).open(to)?.set_modified(modified)?;
    Ok(true)
}

/// Where an entry has its owner, and its owner's group.
const USER_AT: usize = 28;
const GROUP_AT: usize = 32;

/// The entries of an index whose ids have `id_length` bytes. `None`: it is none that we understand.
pub fn parse_index(bytes: &[u8], id_length: usize) -> Option<Vec<CachedEntry>> {
    if bytes.get(..4)? != b"DIRC" || !matches!(number(bytes, 4)?, 2 | 3) {
        return None;
    }
    let count = number(bytes, 8)?;
    let mut entries = Vec::new();
    let mut at = 12;
    for _ in 0..count {
        let flags_at = at + 40 + id_length;
        let is_extended = bytes.get(flags_at)? & 0x40 != 0;
        let path_at = flags_at + if is_extended { 4 } else { 2 };
        let length = bytes.get(path_at..)?.iter().position(|byte| *byte == 0)?;
        entries.push(CachedEntry {
            changed: number(bytes, at)?,
            modified: number(bytes, at + 8)?,
            mode: number(bytes, at + 24)?,
            id: hex::encode(bytes.get(at + 40..flags_at)?),
            path: bytes.get(path_at..path_at + length)?.to_vec(),
            at,
        });
        // One to eight NULs close an entry, so that its length is a multiple of eight.
        at += (path_at - at + length + 8) / 8 * 8;
    }
    Some(entries)
}

/// The same index with another owner in every entry, for where the same files show another owner: git takes a file whose
/// owner is not that of its entry for changed, and reads it.
///
/// The hash at the end is cleared, which git takes for not set. `None`: it is no index that we understand.
pub fn with_owner(mut bytes: Vec<u8>, id_length: usize, user: u32, group: u32) -> Option<Vec<u8>> {
    let entries = parse_index(&bytes, id_length)?;
    for entry in entries {
        bytes.get_mut(entry.at + USER_AT..entry.at + USER_AT + 4)?.copy_from_slice(&user.to_be_bytes());
        bytes.get_mut(entry.at + GROUP_AT..entry.at + GROUP_AT + 4)?.copy_from_slice(&group.to_be_bytes());
    }
    let end = bytes.len().checked_sub(id_length)?;
    bytes[end..].fill(0);
    Some(bytes)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, extended: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [1, 0, 2, 0, 0, 0, 0o100_644, 5, 6, 3] {
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

    fn index() -> Vec<u8> {
        let head = b"DIRC\0\0\0\x03\0\0\0\x03".to_vec();
        // Lengths around a multiple of eight, and both kinds of flags. Each entry begins at a multiple of eight of its own.
        [head, entry("a", false), entry("1234567", true), entry("12345678", false), vec![9; 20]].concat()
    }

    #[test]
    fn every_entry_is_found() {
        let paths: Vec<_> = parse_index(&index(), 20).unwrap().into_iter().map(|entry| entry.path).collect();
        assert_eq!(paths, [&b"a"[..], b"1234567", b"12345678"]);
    }

    #[test]
    fn only_owners_and_the_hash_are_changed() {
        let before = index();
        let after = with_owner(before.clone(), 20, 1000, 1001).unwrap();
        assert_eq!(after.len(), before.len());
        let changed = before.iter().zip(&after).filter(|(one, other)| one != other).count();
        // Of each owner the two low bytes differ, of the hash all twenty.
        assert_eq!(changed, 3 * 4 + 20);
        assert_eq!(parse_index(&after, 20), parse_index(&before, 20));
    }

    #[test]
    fn damage_is_not_an_index() {
        let whole = [b"DIRC\0\0\0\x02\0\0\0\x01".to_vec(), entry("a", false)].concat();
        assert!(parse_index(&whole, 20).is_some());
        for bad in [&b""[..], b"DIRC", b"XIRC\0\0\0\x02\0\0\0\0", b"DIRC\0\0\0\x04\0\0\0\0", &whole[..whole.len() - 8]]
        {
            assert!(parse_index(bad, 20).is_none(), "{}", bad.escape_ascii());
        }
    }
}

//! The version of what is on disk.
//!
//! `FORMAT` is the first file written. State with a newer number may be read, as far as its files allow, and is never
//! written. State that has runs but no number is refused: writing into it would be a guess.

use super::layout::StateDir;
use super::{Error, atomic, json};

/// The version this program writes.
pub const VERSION: u32 = 1;

/// How the state of a repository stands to this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// There is none yet.
    Absent,
    /// It is ours.
    Current,
    /// A newer program wrote it: read-only.
    Newer(u32),
}

/// Reads the version. Writes nothing.
pub fn load(state: &StateDir) -> Result<Format, Error> {
    let path = state.format();
    let Some(bytes) = json::load_bytes(&path)? else {
        return if state.runs().exists() {
            Err(Error::damaged(
                &path,
                "it is missing though there are runs",
                "put the file back; it holds the number of the format, such as `1`",
            ))
        } else {
            Ok(Format::Absent)
        };
    };
    let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim_end().parse::<u32>().ok());
    match number {
        Some(VERSION) => Ok(Format::Current),
        Some(newer) if newer > VERSION => Ok(Format::Newer(newer)),
        Some(_) | None => Err(Error::damaged(
            &path,
            "it does not hold the number of a format",
            "put the file back; it holds the number of the format, such as `1`",
        )),
    }
}

/// Makes the state ready to be written: creates it where there is none, refuses it where it is newer.
pub fn require_writable(state: &StateDir) -> Result<(), Error> {
    match load(state)? {
        Format::Current => Ok(()),
        Format::Newer(found) => Err(Error::Newer { path: state.format(), found: found.into(), known: VERSION.into() }),
        Format::Absent => match atomic::write_new(&state.format(), format!("{VERSION}\n").as_bytes()) {
            // Another process was faster: then its number counts.
            Err(Error::Exists { .. }) => require_writable(state),
            other => other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_format_is_read_and_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::in_common_dir(folder.path());
        assert_eq!(load(&state).unwrap(), Format::Absent);
        assert!(!state.root().exists(), "looking creates nothing");
        require_writable(&state).unwrap();
        require_writable(&state).unwrap();
        assert_eq!(load(&state).unwrap(), Format::Current);

        atomic::write(&state.format(), b"2\n").unwrap();
        assert_eq!(load(&state).unwrap(), Format::Newer(2));
        assert!(matches!(require_writable(&state), Err(Error::Newer { found: 2, known: 1, .. })));

        for wrong in [&b""[..], b"0", b"x", b"1 2", b"\xff"] {
            atomic::write(&state.format(), wrong).unwrap();
            assert!(matches!(require_writable(&state), Err(Error::Damaged { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn runs_without_a_format_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::in_common_dir(folder.path());
        atomic::create_dir(&state.runs()).unwrap();
        assert!(matches!(require_writable(&state), Err(Error::Damaged { .. })));
        assert!(!state.format().exists());
    }
}

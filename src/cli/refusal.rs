//! What to do when the operating system refuses: a disk that is full, a limit that is met, a place that may not be written.
//!
//! Looked for in the causes of whatever went wrong, so that it is said wherever it happens.

use std::error::Error as StdError;
use std::io;

use rustix::io::Errno;

/// A refusal whose cause a person can take away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    NoSpace,
    Quota,
    OpenFiles,
    NotAllowed,
    ReadOnly,
    FileTooLarge,
    BadDisk,
    Processes,
    Memory,
}

impl Refusal {
    fn hint(self) -> &'static str {
        match self {
            Self::NoSpace => {
                "the disk is full: make room (`df` tells where; `sandbox clean` removes worktrees that are done with), then \
                 `sandbox resume`"
            }
            Self::Quota => {
                "your quota there is used up: make room (`sandbox clean` removes worktrees that are done with), then \
                 `sandbox resume`"
            }
            Self::OpenFiles => {
                "too many files are open: raise the limit (`ulimit -n`), or run fewer agents at once (`--jobs`)"
            }
            Self::NotAllowed => {
                "it must be yours to write: look at its owner and mode (`ls -ld`), then `sandbox resume`"
            }
            Self::ReadOnly => {
                "the file system is read-only: mount it writable, or use another place, then `sandbox resume`"
            }
            Self::FileTooLarge => "a limit on the size of files was met: raise it (`ulimit -f`), then `sandbox resume`",
            Self::BadDisk => "the disk did not answer as it should: look at the kernel's messages before you go on",
            Self::Processes => {
                "no process could be started: raise the limit (`ulimit -u`), or run fewer agents at once (`--jobs`)"
            }
            Self::Memory => "there is too little memory: end something, or run fewer agents at once (`--jobs`)",
        }
    }
}

fn of_errno(errno: Errno) -> Option<Refusal> {
    Some(match errno {
        Errno::NOSPC => Refusal::NoSpace,
        Errno::DQUOT => Refusal::Quota,
        Errno::MFILE | Errno::NFILE => Refusal::OpenFiles,
        Errno::ACCESS | Errno::PERM => Refusal::NotAllowed,
        Errno::ROFS => Refusal::ReadOnly,
        Errno::FBIG => Refusal::FileTooLarge,
        Errno::IO => Refusal::BadDisk,
        Errno::AGAIN => Refusal::Processes,
        Errno::NOMEM => Refusal::Memory,
        _ => return None,
    })
}

/// What another program says of it, in the words of the C library.
fn of_words(words: &str) -> Option<Refusal> {
    let table = [
        ("No space left on device", Refusal::NoSpace),
        ("Disk quota exceeded", Refusal::Quota),
        ("Too many open files", Refusal::OpenFiles),
        ("Read-only file system", Refusal::ReadOnly),
        ("File too large", Refusal::FileTooLarge),
        ("Input/output error", Refusal::BadDisk),
        ("Cannot allocate memory", Refusal::Memory),
    ];
    table.into_iter().find(|(said, _)| words.contains(said)).map(|(_, refusal)| refusal)
}

/// What to do about it, where something in the causes of this error is a refusal of the operating system.
pub(super) fn hint_of(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(cause) = next {
        let found = match cause.downcast_ref::<io::Error>() {
            Some(io) => Errno::from_io_error(io).and_then(of_errno),
            None => of_words(&cause.to_string()),
        };
        if let Some(refusal) = found {
            return Some(refusal.hint());
        }
        next = cause.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store;

    #[test]
    fn each_refusal_is_known_by_its_number_and_by_its_words() {
        let table = [
            (Errno::NOSPC, Refusal::NoSpace),
            (Errno::DQUOT, Refusal::Quota),
            (Errno::MFILE, Refusal::OpenFiles),
            (Errno::NFILE, Refusal::OpenFiles),
            (Errno::ACCESS, Refusal::NotAllowed),
            (Errno::PERM, Refusal::NotAllowed),
            (Errno::ROFS, Refusal::ReadOnly),
            (Errno::FBIG, Refusal::FileTooLarge),
            (Errno::IO, Refusal::BadDisk),
            (Errno::AGAIN, Refusal::Processes),
            (Errno::NOMEM, Refusal::Memory),
        ];
        for (errno, refusal) in table {
            assert_eq!(of_errno(errno), Some(refusal));
            let error = store::Error::Io { op: "write", path: "/x".into(), source: errno.into() };
            assert_eq!(hint_of(&error), Some(refusal.hint()));
            let words = io::Error::from(errno).to_string();
            assert!(of_words(&words).is_none_or(|found| found == refusal), "{words}");
        }
        assert_eq!(of_errno(Errno::NOENT), None);
        let told = store::Error::damaged("/x".as_ref(), "fatal: write error: No space left on device", "");
        assert_eq!(hint_of(&told), Some(Refusal::NoSpace.hint()));
        assert_eq!(hint_of(&io::Error::other("odd")), None);
    }
}

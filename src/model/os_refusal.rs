//! What to do when the operating system refuses: a disk that is full, a limit that is met, a place that may not be written.
//!
//! Looked for in the causes of whatever went wrong, so that it is said wherever it happens.

use std::error::Error as StdError;

use rustix::io::Errno;

/// A refusal whose cause a person can take away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OsRefusal {
    /// The disk is full.
    NoSpace,
    /// The user's quota is used up.
    Quota,
    /// Too many files are open.
    OpenFiles,
    /// It is not the user's to write.
    NotAllowed,
    /// The file system is read-only.
    ReadOnly,
    /// A file would be larger than is allowed.
    FileTooLarge,
    /// The disk does not work.
    BadDisk,
    /// Too many processes, or something is busy: the number that says so (EAGAIN) tells no more.
    Processes,
    /// Too little memory.
    Memory,
}

impl OsRefusal {
    /// What the operating system refused, somewhere in the causes of an error.
    pub fn behind(error: &(dyn StdError + 'static)) -> Option<Self> {
        causes(error).find_map(|cause| Errno::from_io_error(cause.downcast_ref()?).and_then(of_errno))
    }

    /// The same, also where another program has said so. Its words may hold names that an agent chose: for hints alone.
    pub fn told_by(error: &(dyn StdError + 'static)) -> Option<Self> {
        Self::behind(error).or_else(|| causes(error).find_map(|cause| of_words(&cause.to_string())))
    }

    /// Whether the machine has run out of something, so that whatever was tried may go well another time.
    pub fn is_lack(self) -> bool {
        match self {
            Self::NoSpace | Self::Quota | Self::OpenFiles | Self::Processes | Self::Memory => true,
            Self::NotAllowed | Self::ReadOnly | Self::FileTooLarge | Self::BadDisk => false,
        }
    }

    /// What to do about it.
    pub fn hint(self) -> &'static str {
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
                "there was no room for another process, or the machine was busy: try again; where it stays so, raise the limit \
                 (`ulimit -u`), or run fewer agents at once (`--jobs`)"
            }
            Self::Memory => "there is too little memory: end something, or run fewer agents at once (`--jobs`)",
        }
    }
}

fn of_errno(errno: Errno) -> Option<OsRefusal> {
    Some(match errno {
        Errno::NOSPC => OsRefusal::NoSpace,
        Errno::DQUOT => OsRefusal::Quota,
        Errno::MFILE | Errno::NFILE => OsRefusal::OpenFiles,
        Errno::ACCESS | Errno::PERM => OsRefusal::NotAllowed,
        Errno::ROFS => OsRefusal::ReadOnly,
        Errno::FBIG => OsRefusal::FileTooLarge,
        Errno::IO => OsRefusal::BadDisk,
        Errno::AGAIN => OsRefusal::Processes,
        Errno::NOMEM => OsRefusal::Memory,
        _ => return None,
    })
}

/// What another program says of it, in the words of the C library.
fn of_words(words: &str) -> Option<OsRefusal> {
    let table = [
        ("No space left on device", OsRefusal::NoSpace),
        ("Disk quota exceeded", OsRefusal::Quota),
        ("Too many open files", OsRefusal::OpenFiles),
        ("Read-only file system", OsRefusal::ReadOnly),
        ("File too large", OsRefusal::FileTooLarge),
        ("Input/output error", OsRefusal::BadDisk),
        ("Cannot allocate memory", OsRefusal::Memory),
    ];
    table.into_iter().find(|(said, _)| words.contains(said)).map(|(_, refusal)| refusal)
}

fn causes<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |cause: &&'e (dyn StdError + 'static)| (*cause).source())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write `/x`")]
    struct Room(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("git failed: fatal: write error: No space left on device")]
    struct Words;

    #[test]
    fn each_refusal_is_known_by_its_number_and_by_its_words() {
        let table = [
            (Errno::NOSPC, OsRefusal::NoSpace),
            (Errno::DQUOT, OsRefusal::Quota),
            (Errno::MFILE, OsRefusal::OpenFiles),
            (Errno::NFILE, OsRefusal::OpenFiles),
            (Errno::ACCESS, OsRefusal::NotAllowed),
            (Errno::PERM, OsRefusal::NotAllowed),
            (Errno::ROFS, OsRefusal::ReadOnly),
            (Errno::FBIG, OsRefusal::FileTooLarge),
            (Errno::IO, OsRefusal::BadDisk),
            (Errno::AGAIN, OsRefusal::Processes),
            (Errno::NOMEM, OsRefusal::Memory),
        ];
        for (errno, refusal) in table {
            assert_eq!(of_errno(errno), Some(refusal));
            let error = Room(errno.into());
            assert_eq!((OsRefusal::behind(&error), OsRefusal::told_by(&error)), (Some(refusal), Some(refusal)));
            let words = io::Error::from(errno).to_string();
            assert!(of_words(&words).is_none_or(|found| found == refusal), "{words}");
        }
        assert_eq!(of_errno(Errno::NOENT), None);
        assert_eq!((OsRefusal::behind(&Words), OsRefusal::told_by(&Words)), (None, Some(OsRefusal::NoSpace)));
        assert_eq!(OsRefusal::told_by(&io::Error::other("odd")), None);
    }
}

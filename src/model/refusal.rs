//! What to do when the operating system refuses: a disk that is full, a limit that is met, a place that may not be written.
//!
//! Looked for in the causes of whatever went wrong, so that it is said wherever it happens.

use std::error::Error as StdError;

use rustix::io::Errno;

/// A refusal whose cause a person can take away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
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
    /// Too many processes.
    Processes,
    /// Too little memory.
    Memory,
}

impl Refusal {
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
            let error = Room(errno.into());
            assert_eq!((Refusal::behind(&error), Refusal::told_by(&error)), (Some(refusal), Some(refusal)));
            let words = io::Error::from(errno).to_string();
            assert!(of_words(&words).is_none_or(|found| found == refusal), "{words}");
        }
        assert_eq!(of_errno(Errno::NOENT), None);
        assert_eq!((Refusal::behind(&Words), Refusal::told_by(&Words)), (None, Some(Refusal::NoSpace)));
        assert_eq!(Refusal::told_by(&io::Error::other("odd")), None);
    }
}

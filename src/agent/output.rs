//! What an agent prints: kept in a file as it comes, up to a bound, and never interpreted.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::error::Error;
use crate::store::failpoint;

/// The output of one turn, being written. Readers may follow the file meanwhile.
#[derive(Debug)]
pub struct OutputLog {
    file: File,
    path: PathBuf,
}

impl OutputLog {
    /// Begins the file at `path`, with the folders above it. One that is there is continued.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if let Some(folder) = path.parent() {
            crate::store::atomic::create_dir(folder)?;
        }
        let open = || OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let opened = failpoint::before("output", "open").and_then(|()| open());
        let file = opened.map_err(|source| Error::Output { path: path.to_owned(), source })?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Appends what came.
    pub fn append(&mut self, chunk: &[u8]) -> Result<(), Error> {
        let written = failpoint::before("output", "append").and_then(|()| self.file.write_all(chunk));
        written.map_err(|source| Error::Output { path: self.path.clone(), source })
    }
}

/// How much of an attempt's output has been kept, and how much still may be.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    left: u64,
}

impl Allowance {
    /// Up to `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { left: limit }
    }

    /// The part of `chunk` that may be kept, and whether there is more of it than that.
    pub fn take<'c>(&mut self, chunk: &'c [u8]) -> (&'c [u8], bool) {
        let fits = usize::try_from(self.left).unwrap_or(usize::MAX).min(chunk.len());
        self.left -= fits as u64;
        (&chunk[..fits], fits < chunk.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_ends_exactly_at_the_limit() {
        let mut allowance = Allowance::new(5);
        assert_eq!(allowance.take(b"abc"), (&b"abc"[..], false));
        assert_eq!(allowance.take(b"de"), (&b"de"[..], false));
        assert_eq!(allowance.take(b"f"), (&b""[..], true));
    }
}

//! Writing whole files: the only place that does.
//!
//! A file is written beside its place, synced, renamed over it, and its folder synced. Whoever looks, whenever the
//! machine dies, sees the old file or the new one. Files are for the user only (0600), and so are folders (0700).
//!
//! What can be made again from the journal is written by [`write_derived`]: renamed the same way, but without waiting
//! for the disk, because it is written often. After a power cut it can be damaged, which its readers take as absent.
#![expect(clippy::disallowed_methods, reason = "the one file that writes and renames")]

use std::fs::{DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::{Error, failpoint, listing};

/// How names of files begin that are not finished. Listings skip them.
pub const TEMPORARY_PREFIX: &str = ".tmp-";

/// What to do if the file is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Replace it.
    Replace,
    /// Leave it, and fail with [`Error::Exists`].
    Keep,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// How many bytes.
    pub size: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
}

/// Writes a file, replacing what is there.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    put(path, Existing::Replace, true, |file| file.write_all(bytes))
}

/// Writes a file that must not be there yet.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    put(path, Existing::Keep, true, |file| file.write_all(bytes))
}

/// Writes a file as JSON for people and programs, replacing what is there.
pub fn write_json<T: Serialize + ?Sized>(path: &Path, value: &T) -> Result<(), Error> {
    write(path, &json_bytes(path, value)?)
}

/// Writes something derived as JSON, atomically but without waiting for the disk.
pub fn write_derived<T: Serialize + ?Sized>(path: &Path, value: &T) -> Result<(), Error> {
    let bytes = json_bytes(path, value)?;
    put(path, Existing::Replace, false, |file| file.write_all(&bytes))
}

/// Writes a file of any size from what `fill` writes. If `fill` fails, nothing has changed.
pub fn stream(
    path: &Path,
    existing: Existing,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Written, Error> {
    let mut written = Written { size: 0, sha256: String::new() };
    put(path, existing, true, |file| {
        let mut counted = Counted { file: BufWriter::with_capacity(1 << 16, file), size: 0, hash: Sha256::new() };
        fill(&mut counted)?;
        counted.file.flush()?;
        written = Written { size: counted.size, sha256: hex::encode(counted.hash.finalize()) };
        Ok(())
    })?;
    Ok(written)
}

/// Makes a folder and those above it, for the user only. One that is there stays as it is.
pub fn create_dir(path: &Path) -> Result<(), Error> {
    // Only a folder that is made is an effect.
    let make = || DirBuilder::new().recursive(true).mode(0o700).create(path);
    if path.is_dir() {
        return Ok(());
    }
    failpoint::before("folder", "").and_then(|()| make()).map_err(Error::io("make the folder", path))?;
    failpoint::after("folder", "");
    Ok(())
}

/// Writes a file that is the user's and not the program's own: with the mode that the user's umask gives any file, into a
/// folder that must be there. With [`Existing::Keep`], even a dangling link is never touched.
pub fn write_for_user(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    if existing == Existing::Keep && path.symlink_metadata().is_ok() {
        return Err(Error::Exists { path: path.to_owned() });
    }
    let folder = parent(path);
    let mut file = tempfile::Builder::new()
        .prefix(TEMPORARY_PREFIX)
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(Error::io("make a file in", folder))?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    file.as_file().sync_all().map_err(Error::io("sync", path))?;
    persist(file, path, existing)?;
    sync_dir(folder)
}

/// Renames a file or folder for good; what is at `to` must be absent or replaceable.
pub fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    failpoint::before("rename", "").and_then(|()| std::fs::rename(from, to)).map_err(Error::io("rename", from))?;
    failpoint::after("rename", "");
    sync_dir(parent(from))?;
    sync_dir(parent(to))
}

/// Removes a file for good. Not being there is fine.
pub fn remove_file(path: &Path) -> Result<(), Error> {
    match failpoint::before("remove", failpoint::kind(path).as_ref()).and_then(|()| std::fs::remove_file(path)) {
        Ok(()) => {
            failpoint::after("remove", failpoint::kind(path).as_ref());
            sync_dir(parent(path))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("remove", path)(error)),
    }
}

/// Waits until the folder's entries are on disk.
pub fn sync_dir(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(Error::io("sync the folder", path))
}

/// Whether this is the name of a file that was never finished.
pub fn is_temporary(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(TEMPORARY_PREFIX.as_bytes())
}

/// Removes what writers that were killed left unfinished in a folder and below it. Only for who knows that nobody writes
/// there now. Links are not followed.
pub fn remove_unfinished(folder: &Path) -> Result<(), Error> {
    for entry in listing::entries(folder)?.unwrap_or_default() {
        let path = entry.path();
        if entry.file_type().map_err(Error::io("look at", &path))?.is_dir() {
            remove_unfinished(&path)?;
        } else if is_temporary(&entry.file_name()) {
            remove_file(&path)?;
        }
    }
    Ok(())
}

fn put(
    path: &Path,
    existing: Existing,
    durable: bool,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), Error> {
    let folder = parent(path);
    create_dir(folder)?;
    let mut file = tempfile::Builder::new()
        .prefix(TEMPORARY_PREFIX)
        .tempfile_in(folder)
        .map_err(Error::io("make a file in", folder))?;
    failpoint::before("file", failpoint::kind(path).as_ref()).map_err(Error::io("write", path))?;
    write(file.as_file_mut()).map_err(Error::io("write", path))?;
    if durable {
        file.as_file().sync_all().map_err(Error::io("sync", path))?;
    }
    failpoint::after("file unnamed", failpoint::kind(path).as_ref());
    persist(file, path, existing)?;
    failpoint::after("file", failpoint::kind(path).as_ref());
    if durable { sync_dir(folder) } else { Ok(()) }
}

fn persist(file: NamedTempFile, path: &Path, existing: Existing) -> Result<(), Error> {
    let result = match existing {
        Existing::Replace => file.persist(path),
        Existing::Keep => file.persist_noclobber(path),
    };
    match result {
        Ok(_) => Ok(()),
        Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::Exists { path: path.to_owned() })
        }
        Err(failed) => Err(Error::io("write", path)(failed.error)),
    }
}

fn json_bytes<T: Serialize + ?Sized>(path: &Path, value: &T) -> Result<Vec<u8>, Error> {
    let mut bytes =
        serde_json::to_vec_pretty(value).map_err(|source| Error::Encode { path: PathBuf::from(path), source })?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

struct Counted<'a> {
    file: BufWriter<&'a mut File>,
    size: u64,
    hash: Sha256,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_writer_that_fails_half_way_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        write(&path, b"old").unwrap();
        // Without the detour the old content is gone the moment the writing begins.
        let naive = folder.path().join("naive");
        std::fs::write(&naive, b"old").unwrap();
        File::create(&naive).unwrap().write_all(b"ha").unwrap();
        assert_eq!(std::fs::read(&naive).unwrap(), b"ha");
        std::fs::remove_file(&naive).unwrap();

        for existing in [Existing::Replace, Existing::Keep] {
            let error = stream(&path, existing, |out| {
                out.write_all(&vec![b'x'; 200_000])?;
                Err(io::Error::other("disk full"))
            });
            assert!(matches!(error, Err(Error::Io { op: "write", .. })), "{error:?}");
            assert_eq!(std::fs::read(&path).unwrap(), b"old");
            assert_eq!(names(folder.path()), ["f"]);
        }
    }

    #[test]
    fn a_stream_tells_size_and_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/f");
        let written = stream(&path, Existing::Keep, |out| {
            out.write_all(b"hello ")?;
            out.write_all(b"world")
        })
        .unwrap();
        assert_eq!(written.size, 11);
        assert_eq!(written.sha256, "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9");
        assert_eq!(std::fs::read(&path).unwrap(), b"hello world");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn no_clobber_means_the_first_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        write_new(&path, b"first").unwrap();
        assert!(matches!(write_new(&path, b"second"), Err(Error::Exists { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(names(folder.path()), ["f"]);
    }

    #[test]
    fn readers_see_whole_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let sizes = [10_usize, 300_000];
        write(&path, &vec![0; sizes[0]]).unwrap();
        let reader = {
            let path = path.clone();
            let done = folder.path().join("done");
            std::thread::spawn(move || {
                let mut seen = 0_u32;
                while !done.exists() {
                    let bytes = std::fs::read(&path).unwrap();
                    assert!(sizes.contains(&bytes.len()), "half a file: {} bytes", bytes.len());
                    seen += 1;
                }
                seen
            })
        };
        for round in 0..40 {
            write(&path, &vec![0; sizes[round % 2]]).unwrap();
        }
        write(&folder.path().join("done"), b"").unwrap();
        assert!(reader.join().unwrap() > 0);
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode()
    }

    #[test]
    fn what_is_the_users_is_never_touched_and_gets_the_users_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.toml");
        write_for_user(&path, b"first", Existing::Keep).unwrap();
        assert!(matches!(write_for_user(&path, b"second", Existing::Keep), Err(Error::Exists { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        let plain = dir.path().join("plain");
        drop(std::fs::OpenOptions::new().write(true).create_new(true).open(&plain).unwrap());
        assert_eq!(mode(&path), mode(&plain));
        write_for_user(&path, b"third", Existing::Replace).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"third");

        let link = dir.path().join("link.toml");
        std::os::unix::fs::symlink(dir.path().join("nowhere"), &link).unwrap();
        assert!(matches!(write_for_user(&link, b"x", Existing::Keep), Err(Error::Exists { .. })));
        assert!(!dir.path().join("nowhere").exists());
        assert!(write_for_user(&dir.path().join("no/such"), b"", Existing::Replace).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3, "nothing is left behind");
    }
}

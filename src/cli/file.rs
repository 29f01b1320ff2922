//! Files written at the user's request, beside the program's own state: whole or not at all.

use std::io::{self, Write};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// Writes a new file. One that exists, even as a dangling link, is never touched: [`io::ErrorKind::AlreadyExists`].
pub(super) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    written_beside(path, bytes)?.persist_noclobber(path).map(drop).map_err(|failed| failed.error)
}

/// Writes a file, in place of one of that name.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    written_beside(path, bytes)?.persist(path).map(drop).map_err(|failed| failed.error)
}

fn written_beside(path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The user's umask takes from these what it takes from any file.
    let mode = std::fs::Permissions::from_mode(0o666);
    let mut file = Builder::new().prefix(".sandbox-").permissions(mode).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exists_is_never_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.toml");
        create(&path, b"first").unwrap();
        assert_eq!(create(&path, b"second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"first");

        let link = dir.path().join("link.toml");
        std::os::unix::fs::symlink(dir.path().join("nowhere"), &link).unwrap();
        assert_eq!(create(&link, b"x").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(!dir.path().join("nowhere").exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn others_may_read_what_the_umask_lets_them() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.toml");
        create(&path, b"x").unwrap();
        let plain = dir.path().join("plain");
        drop(std::fs::OpenOptions::new().write(true).create_new(true).open(&plain).unwrap());
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
    }

    #[test]
    fn replacing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sandbox.1");
        replace(&path, b"a").unwrap();
        replace(&path, b"b").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"b");
        assert!(replace(&dir.path().join("no/such"), b"").is_err());
    }
}

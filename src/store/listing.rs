//! What lies in a folder, with nothing passed over in silence: who cannot see a file must not act as if it were not there.

use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::Path;

use super::Error;

/// All in a folder, in no order; `None` where there is no folder.
pub fn entries(folder: &Path) -> Result<Option<Vec<DirEntry>>, Error> {
    let found = match std::fs::read_dir(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("list", folder)(error)),
    };
    found.collect::<Result<_, _>>().map(Some).map_err(Error::io("list", folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_told_from_an_empty_one_and_from_one_that_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        assert!(entries(&folder.path().join("none")).unwrap().is_none());
        assert!(entries(folder.path()).unwrap().unwrap().is_empty());
        let file = folder.path().join("file");
        crate::store::atomic::write(&file, b"").unwrap();
        assert_eq!(entries(folder.path()).unwrap().unwrap()[0].path(), file);
        assert!(entries(&file).unwrap_err().to_string().contains("file"));
    }
}

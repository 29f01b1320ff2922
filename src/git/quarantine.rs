//! A place for new objects that are not part of the repository yet.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::command::Command;
use super::error::Error;
use super::repository::Repository;
use crate::store::{Scratch, StateDir};

/// A folder that git writes new objects into while it reads all others from the repository. Gone, with everything in
/// it, when dropped.
#[derive(Debug)]
pub(super) struct Quarantine {
    folder: Scratch,
    objects: PathBuf,
    alternates: OsString,
}

impl Quarantine {
    /// One among the program's scratch folders in the repository.
    pub(super) fn in_scratch(repository: &Repository) -> Result<Self, Error> {
        Self::below(repository, &StateDir::in_common_dir(repository.common_dir()).scratch(), "git")
    }

    /// One below `parent`, which is made if it is not there.
    pub(super) fn below(repository: &Repository, parent: &Path, label: &str) -> Result<Self, Error> {
        let folder = Scratch::below(parent, label)?;
        let objects = folder.path().join("objects");
        std::fs::create_dir_all(objects.join("pack")).map_err(Error::file("create", &objects))?;
        let alternates = quoted(&repository.common_dir().join("objects"));
        Ok(Self { folder, objects, alternates })
    }

    /// The folder, for other scratch files.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where the new objects are.
    pub(super) fn objects(&self) -> &Path {
        &self.objects
    }

    /// The command, with its new objects going here.
    pub(super) fn apply(&self, command: Command) -> Command {
        command.env("GIT_OBJECT_DIRECTORY", &self.objects).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &self.alternates)
    }
}

/// A path as an element of git's list of object folders: quoted, so that a colon in it separates nothing.
fn quoted(path: &Path) -> OsString {
    let mut text = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            0..0x20 | 0x7f.. => text.extend(format!("\\{byte:03o}").bytes()),
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_stay_one_element() {
        assert_eq!(quoted(Path::new("/a:b\"\\\n\u{fc}")), r#""/a:b\"\\\012\303\274""#);
    }
}

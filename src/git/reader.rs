//! Which engine reads objects: git2 where it can open the repository, else the git program.
//!
//! git2 saves the few milliseconds that a process costs. It cannot open every repository (sha256, reftable, partial
//! clones, unknown extensions), so the program's path is complete on its own, and tests compare the two. git2 only reads
//! objects here: it never looks at refs, an index, a work tree or attributes.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::command::{Access, Command};
use super::error::Error;
use super::program::Git;
use super::repository::Config;
use crate::model::ObjectId;

/// What reads objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// libgit2, in this process.
    Library,
    /// The git program.
    Program,
}

/// The chosen engine.
pub(super) struct Reader {
    library: Option<Mutex<git2::Repository>>,
    reason: Option<String>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("engine", &self.engine()).finish_non_exhaustive()
    }
}

impl Reader {
    /// Probes git2 once. It must know every extension that the repository uses, open it, and read one of its commits; and
    /// no object may be replaced by another, which only git knows how to obey.
    pub(super) fn open(git: &Git, common_dir: &Path, config: &Config, wanted: Option<Engine>) -> Self {
        let probe = || -> Result<git2::Repository, String> {
            if wanted == Some(Engine::Program) {
                return Err("the git program was asked for".to_owned());
            }
            if let Some(extension) = config.entries().find_map(|(key, value)| unknown_extension(key, value)) {
                return Err(format!("it has the extension `{extension}`"));
            }
            if config.is_partial_clone() {
                return Err("it is a partial clone".to_owned());
            }
            let repository = git2::Repository::open_bare(common_dir).map_err(|error| error.message().to_owned())?;
            let last = Command::new(git, Access::Read, "for-each-ref")
                .args(["--sort=-refname", "--count=1", "--format=%(objectname) %(refname)"])
                .args(["refs/heads/", "refs/replace/"])
                .folder(common_dir)
                .git_dir(common_dir)
                .success()
                .map_err(|error| error.to_string())?;
            let Some((id, name)) = last.line().map_err(|error| error.to_string())?.split_once(' ') else {
                return Ok(repository);
            };
            if name.starts_with("refs/replace/") {
                return Err("it has replaced objects".to_owned());
            }
            let read = git2::Oid::from_str(id).and_then(|id| repository.find_commit(id).map(drop));
            read.map_err(|error| error.message().to_owned())?;
            Ok(repository)
        };
        match probe() {
            Ok(repository) => Self { library: Some(Mutex::new(repository)), reason: None },
            Err(reason) => Self { library: None, reason: Some(reason) },
        }
    }

    pub(super) fn engine(&self) -> Engine {
        if self.library.is_some() { Engine::Library } else { Engine::Program }
    }

    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The library, for one piece of work. A panic of another thread in a read leaves nothing half done.
    pub(super) fn library(&self) -> Option<MutexGuard<'_, git2::Repository>> {
        self.library.as_ref().map(|library| library.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An extension with which git2, reading objects only, might go wrong. Opened by its own path it checks none itself.
fn unknown_extension(key: &[u8], value: Option<&[u8]>) -> Option<String> {
    let name = key.strip_prefix(b"extensions.")?;
    let known = match name {
        b"noop" | b"preciousobjects" | b"worktreeconfig" | b"relativeworktrees" | b"refstorage" => true,
        b"objectformat" => value == Some(b"sha1"),
        _ => false,
    };
    (!known).then(|| String::from_utf8_lossy(name).into_owned())
}

/// The library's form of an id. None for a format that it cannot read.
pub(super) fn oid(id: &ObjectId) -> Option<git2::Oid> {
    (id.as_str().len() == 40).then(|| git2::Oid::from_str(id.as_str()).ok()).flatten()
}

/// Our error for one of the library's, where the question was about `object`.
pub(super) fn error(object: &ObjectId, error: &git2::Error) -> Error {
    match error.code() {
        git2::ErrorCode::NotFound => Error::MissingObject { object: object.to_string() },
        _ => Error::unparsable(format!("libgit2 reading {object}"), error.message()),
    }
}

//! What of the host the boxes of a run must hide.

use std::fs;
use std::path::{Path, PathBuf};

use super::environment::HostEnvironment;
use super::error::Error;
use crate::git::Repository;
use crate::store::Workplaces;

/// What of the host a box must not show, and what stands in for it.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The repository's common git directory.
    pub common: PathBuf,
    /// Object folders that the repository borrows from, all the way.
    pub alternates: Vec<PathBuf>,
    /// The top of every checkout of the repository that is not one of ours, and folders with worktrees of ours elsewhere.
    pub checkouts: Vec<PathBuf>,
    /// Where all worktrees of ours lie.
    pub worktrees_root: PathBuf,
    /// The git program that is used, wherever it lies.
    pub git: PathBuf,
}

impl Surroundings {
    /// Those of a repository now. A checkout that the user makes later, while agents run, is not among them.
    pub fn load(repository: &Repository, worktrees_root: &Path) -> Result<Self, Error> {
        let mut checkouts = Vec::new();
        for worktree in repository.load_worktrees()? {
            if worktree.bare || worktree.path.starts_with(worktrees_root) {
                continue;
            }
            // Of a run that was begun when worktrees were made elsewhere: beside it lie private folders.
            let is_ours = worktree.path.file_name().is_some_and(|name| Workplaces::occupant_of(name).is_some());
            let around = worktree.path.parent().filter(|around| is_ours && around.join(".private").is_dir());
            // One that is gone hides nothing, and cannot be covered.
            if let Ok(path) = around.unwrap_or(&worktree.path).canonicalize() {
                checkouts.push(path);
            }
        }
        if let Some(top) = repository.top_level()
            && !checkouts.iter().any(|checkout| checkout == top)
        {
            checkouts.push(top.to_owned());
        }
        checkouts.sort();
        checkouts.dedup();
        let common = repository.common_dir().to_owned();
        let alternates = alternates_of(&common.join("objects"))?;
        let git = repository.git().program();
        let git = git.canonicalize().map_err(|error| Error::io("resolve", git, error))?;
        Ok(Self { common, alternates, checkouts, worktrees_root: worktrees_root.to_owned(), git })
    }

    /// Whether `path` lies in, or holds, something that must stay hidden.
    pub(super) fn touches(&self, path: &Path) -> bool {
        let kept = self.checkouts.iter().chain([&self.common, &self.worktrees_root]);
        kept.into_iter().any(|kept| kept.starts_with(path) || path.starts_with(kept))
    }
}

/// Refuses places that make it impossible to hide one thing and show another.
pub fn require_fit(around: &Surroundings, environment: &HostEnvironment) -> Result<(), Error> {
    if environment.home.parent().is_none() {
        let fix = "set HOME to a folder of the user's: a box has one of its own in its place";
        return Err(Error::Place {
            what: "your home directory",
            path: environment.home.clone(),
            holds: "the whole system",
            fix,
        });
    }
    for checkout in around.checkouts.iter().chain([&around.common]) {
        if environment.home.starts_with(checkout) {
            let fix = "run agents on a repository that lies below the home directory, not around it";
            return Err(Error::Place {
                what: "the repository",
                path: checkout.clone(),
                holds: "your home directory",
                fix,
            });
        }
        if around.worktrees_root.starts_with(checkout) {
            let fix = "set SANDBOX_WORKTREES to a folder outside the repository";
            return Err(Error::Place {
                what: "the repository",
                path: checkout.clone(),
                holds: "the folder for worktrees",
                fix,
            });
        }
        if checkout.starts_with(&around.worktrees_root) {
            let fix = "set SANDBOX_WORKTREES to a folder of its own";
            let path = around.worktrees_root.clone();
            return Err(Error::Place { what: "the folder for worktrees", path, holds: "the repository", fix });
        }
    }
    if environment.home.starts_with(&around.worktrees_root) {
        let fix = "set SANDBOX_WORKTREES to a folder of its own";
        let path = around.worktrees_root.clone();
        return Err(Error::Place { what: "the folder for worktrees", path, holds: "your home directory", fix });
    }
    Ok(())
}

/// The object folders named in `info/alternates`, and those that these name, each once.
fn alternates_of(objects: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut open = vec![objects.to_owned()];
    while let Some(folder) = open.pop() {
        let list = folder.join("info/alternates");
        let text = match fs::read_to_string(&list) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("read", &list, error)),
        };
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Ok(path) = folder.join(line).canonicalize()
                && !found.contains(&path)
            {
                found.push(path.clone());
                open.push(path);
            }
        }
    }
    Ok(found)
}

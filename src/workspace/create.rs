//! Making a worktree ready: the entry in the repository, the files, the private folders.

use std::path::{Path, PathBuf};

use super::check::Workspace;
use super::environment::{HostEnvironment, expand_home};
use super::error::Error;
use super::private::{self, Ingredients};
use crate::git::{Addition, Fill, Head, Place, Repository};
use crate::model::{CommitId, RefName};
use crate::store::lock::{Patience, RepositoryLock};
use crate::store::{StateDir, Workplace};

/// A worktree to be made.
#[derive(Debug)]
pub struct Commission<'a> {
    /// The user's repository.
    pub repository: &'a Repository,
    /// What its HEAD is.
    pub head: &'a Head,
    /// The program's folder in it.
    pub state: &'a StateDir,
    /// The user's environment.
    pub environment: &'a HostEnvironment,
    /// Where the worktree is to lie.
    pub place: Workplace,
    /// The commit it begins with.
    pub fork: CommitId,
    /// What it stands on: a branch made for it, one that is there and stands at the commit, or none.
    pub stand: Place,
    /// Why it is locked, for whoever reads `git worktree list`.
    pub reason: String,
}

impl Commission<'_> {
    fn branch(&self) -> Option<&RefName> {
        match &self.stand {
            Place::NewBranch(branch) | Place::Branch(branch) => Some(branch),
            Place::Detached => None,
        }
    }
}

/// Makes it. The repository's lock is held only while the entry is made, not while files are written.
pub fn create(commission: &Commission<'_>) -> Result<Workspace, Error> {
    let Commission { repository, state, place, .. } = commission;
    for folder in [place.worktree().parent(), place.private().parent()].into_iter().flatten() {
        private::folder_at(folder)?;
        private::require_own(folder)?;
    }
    let addition = Addition {
        path: place.worktree(),
        commit: &commission.fork,
        place: commission.stand.clone(),
        reason: &commission.reason,
    };
    let added = {
        let _lock = lock(state)?;
        repository.add_worktree(&addition)?
    };
    let made = repository
        .fill_worktree(&added, Fill::Checkout { workers: 1 })
        .map_err(Error::from)
        .and_then(|()| fill_private(commission, &added.admin_dir))
        .and_then(|()| {
            let (fork, branch) = (commission.fork.clone(), commission.branch().cloned());
            Workspace::just_made(place.clone(), added.admin_dir.clone(), &added.dot_git, fork, branch)
        });
    if made.is_err() {
        let new_branch = match &commission.stand {
            Place::NewBranch(branch) => Some((branch, &commission.fork)),
            Place::Branch(_) | Place::Detached => None,
        };
        super::remove::undo(repository, state, place, new_branch);
    }
    made
}

/// Takes the repository's lock, for as short a time as can be.
pub(super) fn lock(state: &StateDir) -> Result<RepositoryLock, Error> {
    let told = |_: Option<&crate::store::Holder>| tracing::warn!("waiting for another `sandbox` on this repository");
    Ok(RepositoryLock::acquire(state, Patience::default(), told)?)
}

fn fill_private(commission: &Commission<'_>, admin_dir: &Path) -> Result<(), Error> {
    let place = &commission.place;
    let made_of = Ingredients {
        repository: commission.repository,
        head: commission.head,
        id: place.name(),
        worktree: place.worktree(),
        fork: &commission.fork,
        branch: commission.branch(),
        index: &admin_dir.join("index"),
        user_attributes: users_file(commission, "core.attributesfile", "git/attributes"),
        user_excludes: users_file(commission, "core.excludesfile", "git/ignore"),
    };
    private::write_agent_directory(&place.git(), &made_of)?;
    private::write_capture_directory(&place.capture(), &made_of)?;
    private::write_home(&place.home(), commission.repository)?;
    for folder in [place.tmp(), place.capture_home(), place.capture_tmp()] {
        private::folder_at(&folder)?;
    }
    Ok(())
}

/// A file of the user's own that holds for all repositories: where the configuration says, else its place by default.
fn users_file(commission: &Commission<'_>, key: &str, default: &str) -> Option<PathBuf> {
    let environment = commission.environment;
    let path = if let Some(path) = commission.repository.config().text(key) {
        expand_home(path, &environment.home)
    } else {
        let base = environment.variable("XDG_CONFIG_HOME").map_or_else(|| environment.home.join(".config"), Into::into);
        base.join(default)
    };
    path.is_file().then_some(path)
}

//! Where runs happen: one repository, the program's folder in it, and the place for worktrees.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use sandbox::{Host, Launcher};

use super::error::Error;
use super::isolation;
use crate::agent::attempt::with_causes;
use crate::change::Capturer;
use crate::git::{Git, Head, Repository};
use crate::model::event::Identity;
use crate::model::plan::{PinnedPaths, Plan};
use crate::store::journal::{Clock, system_clock};
use crate::store::layout::{RootSources, worktrees_root};
use crate::store::{RepoKey, StateDir, Workplaces, atomic, env, format, scratch};
use crate::workspace::{HostEnvironment, Surroundings, require_fit};

/// The most bytes one capture may bring into the repository.
const PACK_MAX: u64 = 4 << 30;

/// The most memory of one capture. Git holds a large file whole, and packs several at once; a tree that needs more than this
/// is made to hurt.
const MEMORY_MAX: u64 = 8 << 30;

/// How long one capture may take.
const CAPTURE_TIMEOUT: Duration = Duration::from_mins(10);

/// A repository, found and looked at.
#[derive(Clone)]
pub struct Site {
    /// The repository.
    pub repository: Repository,
    /// The program's folder in it.
    pub state: StateDir,
    /// Where its worktrees lie.
    pub workplaces: Workplaces,
    /// Where all worktrees lie.
    pub worktrees_root: PathBuf,
    /// Where all worktrees would be made now, in the site of a run whose own lie elsewhere.
    pub present_root: Option<PathBuf>,
    /// The user's environment.
    pub environment: HostEnvironment,
    /// The clock.
    pub clock: Clock,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Site {
    /// The site that the folder `from` belongs to. Writes nothing.
    pub fn open(from: &Path) -> Result<Self, Error> {
        let environment = HostEnvironment::of_this_process().ok_or(Error::NoHome)?;
        let git = Git::find(None)?;
        let repository = Repository::discover(&git, from)?;
        let root = root_for(&environment)?;
        let root = canonical_so_far(&root);
        let key = RepoKey::of_common_dir(repository.common_dir());
        Ok(Self {
            state: StateDir::in_common_dir(repository.common_dir()),
            workplaces: Workplaces::new(&root, &key),
            worktrees_root: root,
            present_root: None,
            repository,
            environment,
            clock: system_clock(),
        })
    }

    /// Refuses to write where a newer version of the program has written.
    pub fn require_writable(&self) -> Result<(), Error> {
        Ok(format::require_writable(&self.state)?)
    }

    /// Removes what processes that were killed left in folders that are needed for a moment. Never a reason to stop.
    pub fn sweep_scratch(&self) {
        for folder in [self.state.scratch(), self.state.incoming()] {
            match scratch::sweep(&folder) {
                Ok(0) => {}
                Ok(swept) => {
                    tracing::debug!(swept, folder = %folder.display(), "scratch folders of dead processes removed")
                }
                Err(error) => tracing::warn!(folder = %folder.display(), %error, "scratch folders stay for now"),
            }
        }
    }

    /// Refuses where no worktree could be made: there is no other place where an agent may run.
    pub fn require_room(&self) -> Result<(), Error> {
        let root = self.workplaces.root();
        let refused = |why: String| Error::Unfit {
            cause: format!("no worktree can be made in `{}`: {why}", root.display()),
            fix: format!("make it writable, or name another folder in {}", env::SANDBOX_WORKTREES),
            flag: None,
        };
        atomic::create_dir(root).map_err(|error| refused(with_causes(&error)))?;
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::access(root, access).map_err(|error| refused(error.to_string()))
    }

    /// What HEAD is; an error where there is no commit yet.
    pub fn load_head(&self) -> Result<Head, Error> {
        let head = self.repository.load_head()?;
        head.require_commit()?;
        Ok(head)
    }

    /// Who the program's commits are by: the user as configured, else the program.
    pub fn identity(&self) -> Identity {
        self.repository
            .identity()
            .map_or_else(Identity::default, |identity| Identity { name: identity.name, email: identity.email })
    }

    /// What captures are made with in a run that began at `started`, when host paths led where `pinned` says.
    pub async fn capturer(&self, started: Timestamp, plan: &Plan, pinned: PinnedPaths) -> Result<Capturer, Error> {
        let mut surroundings =
            tokio::task::block_in_place(|| Surroundings::load(&self.repository, &self.worktrees_root))?;
        // Those of other repositories lie there.
        surroundings.checkouts.extend(self.present_root.clone().filter(|root| {
            root.is_dir() && !root.starts_with(&self.worktrees_root) && !self.worktrees_root.starts_with(root)
        }));
        require_fit(&surroundings, &self.environment)?;
        let host = self.require_host(plan).await?;
        Ok(Capturer {
            repository: self.repository.clone(),
            environment: self.environment.clone(),
            surroundings,
            pinned,
            host,
            may_lack: isolation::may_lack(plan),
            incoming: self.state.incoming(),
            date: started.as_second(),
            pack_size: PACK_MAX,
            memory: MEMORY_MAX,
            timeout: CAPTURE_TIMEOUT,
        })
    }

    /// What this machine can do. An error where it cannot keep agents apart from the rest as the plan wants it.
    async fn require_host(&self, plan: &Plan) -> Result<Host, Error> {
        let host = Host::probe(&Launcher::new(&self.environment.program)).await;
        isolation::require(&host, plan)?;
        Ok(host)
    }
}

/// Where all worktrees of a user with this environment lie.
pub fn root_for(environment: &HostEnvironment) -> Result<PathBuf, crate::store::Error> {
    let own = |name: &str| environment.variable(name).map(std::ffi::OsStr::to_owned);
    worktrees_root(&RootSources {
        sandbox_worktrees: own(env::SANDBOX_WORKTREES),
        xdg_state_home: own(env::XDG_STATE_HOME),
        home: own(env::HOME),
    })
}

/// The path with links resolved as far as it exists: what is to be made below has none.
fn canonical_so_far(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
        if let Ok(found) = at.canonicalize() {
            return missing.iter().rev().fold(found, |path, part| path.join(part));
        }
        match (at.file_name(), at.parent()) {
            (Some(name), Some(parent)) => {
                missing.push(name.to_owned());
                at = parent;
            }
            (None, _) | (_, None) => return path.to_owned(),
        }
    }
}

//! Where the worktrees of a run lie.
//!
//! Not where they would be made now: the user can have set another folder for them since, or moved the repository, by whose
//! path theirs is chosen. The run's own record says where they were made. Three things can have happened since:
//! - Nothing, or the repository was moved. They are where they were.
//! - The folder of all worktrees was moved or is not mounted. They are perhaps where they would be made now.
//! - The repository was copied, and this is the copy. Then those that the record names are the original's, and none is ours.

use std::path::{Path, PathBuf};

use super::agents::{load_workspaces, save_workspace};
use super::error::Error;
use super::site::Site;
use crate::model::plan::RunSettings;
use crate::model::run::RunState;
use crate::store::{RepoKey, RunDir, StateDir, Workplaces, json};
use crate::workspace::WorkspaceRecord;

impl Site {
    /// This site with the worktrees of `run` where they are. Writes nothing.
    pub fn of_run(&self, run: &RunDir, settings: &RunSettings) -> Result<Self, Error> {
        let common = self.repository.common_dir();
        let made_in = match &settings.common_dir {
            Some(made_in) => Some(made_in.clone()),
            None => first_common_dir(run, settings)?,
        };
        let made_in = made_in.unwrap_or_else(|| common.to_owned());
        let recorded = Workplaces::new(&settings.worktrees_root, &RepoKey::of_common_dir(&made_in));
        let is_copy = made_in != common && StateDir::in_common_dir(&made_in).run(run.id()).settings().is_file();
        if is_copy || !recorded.root().is_dir() {
            return Ok(self.clone());
        }
        let present_root = (self.worktrees_root != settings.worktrees_root).then(|| self.worktrees_root.clone());
        let worktrees_root = settings.worktrees_root.clone();
        Ok(Self { workplaces: recorded, worktrees_root, present_root, ..self.clone() })
    }
}

/// The repository that the first worktree of a run was made in, of a run that did not keep that itself.
fn first_common_dir(run: &RunDir, settings: &RunSettings) -> Result<Option<PathBuf>, Error> {
    for agent in &settings.plan.agents {
        if let Some(record) = json::load::<WorkspaceRecord>(&run.workspace(&agent.name, 1))? {
            return Ok(record.common_dir().map(Path::to_owned));
        }
    }
    Ok(None)
}

/// Mends what leads a worktree of a run and the repository to each other: after a coordinator that died and left it leading
/// elsewhere, and after the user has moved either. Nothing of the run may be at work.
pub(super) fn mend_links(site: &Site, state: &RunState, run: &RunDir, tell: impl Fn(&str)) -> Result<(), Error> {
    for agent in &state.agents {
        for (number, mut workspace) in (1..).zip(load_workspaces(site, run, &agent.name)?) {
            let mended = workspace.leave().and_then(|()| workspace.follow(site.repository.common_dir()));
            match mended {
                Ok(false) => {}
                Ok(true) => {
                    save_workspace(run, &agent.name, number, &workspace)?;
                    let worktree = workspace.place.worktree().display();
                    tell(&format!(
                        "the worktree `{worktree}` and the repository, one of which was moved, are linked again"
                    ));
                }
                // Said again, and acted on, wherever the worktree is used.
                Err(error @ crate::workspace::Error::Tampered { .. }) => tell(&error.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

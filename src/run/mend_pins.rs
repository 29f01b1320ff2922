//! The refs that keep a run's commits, made again where somebody deleted them and the commits are there still.

use std::collections::BTreeSet;

use super::error::Error;
use super::site::Site;
use crate::git::{RefEdit, Swap};
use crate::model::run::RunState;
use crate::model::{CommitId, RefName};
use crate::store::RunDir;

/// Makes the missing refs of a run again, and tells of it, as of snapshots that are gone for good. The branches of agents are
/// the user's to delete.
pub(super) fn mend_pins(site: &Site, state: &RunState, run: &RunDir, tell: impl Fn(&str)) -> Result<(), Error> {
    let found = site.repository.load_refs(&format!("refs/sandbox/{}/", run.id()))?;
    let found: BTreeSet<RefName> = found.into_iter().map(|reference| reference.name).collect();
    let (mut edits, mut gone) = (Vec::new(), Vec::new());
    for (name, commit, patch) in wanted(state, run).into_iter().filter(|(name, ..)| !found.contains(name)) {
        match site.repository.load_commit(&commit) {
            Ok(_) => edits.push(RefEdit::Create { name, new: commit.object().clone() }),
            Err(crate::git::Error::MissingObject { .. } | crate::git::Error::Failed { .. }) => gone.extend(patch),
            Err(error) => return Err(error.into()),
        }
    }
    if !edits.is_empty()
        && let Swap::Done = site.repository.swap_refs(&edits, "sandbox: keep again")?
    {
        let refs = if edits.len() == 1 { "ref was" } else { "refs were" };
        tell(&format!("{} {refs} deleted that keep what agents did: they are there again", edits.len()));
    }
    if let Some(first) = gone.first() {
        let snapshots = if gone.len() == 1 { "snapshot is" } else { "snapshots are" };
        tell(&format!(
            "{} {snapshots} gone from the repository: refs were deleted, and git collected them; patches are kept, the first \
             is `{first}`, which `git apply` takes",
            gone.len()
        ));
    }
    Ok(())
}

/// The refs that there should be, what each should hold, and where the patch of a snapshot is.
fn wanted(state: &RunState, run: &RunDir) -> Vec<(RefName, CommitId, Option<String>)> {
    let mut wanted = Vec::new();
    if let Some(started) = &state.started {
        wanted.push((RefName::base(run.id()), started.base.clone(), None));
    }
    for agent in &state.agents {
        for (turn, finished) in agent.attempts.iter().flat_map(|attempt| &attempt.turns) {
            let patch = finished.patch.as_ref().map(|_| run.patch(&agent.name, *turn).display().to_string());
            // A turn that changed nothing has the snapshot of the one before, and a ref of its own all the same.
            wanted.push((RefName::snapshot(run.id(), &agent.name, *turn), finished.snapshot.clone(), patch));
        }
    }
    wanted
}

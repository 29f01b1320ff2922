//! The refs that keep a run's commits, made again where somebody deleted them and the commits are there still.

use std::collections::BTreeSet;

use super::error::Error;
use super::site::Site;
use crate::agent::attempt::with_causes;
use crate::git::{self, RefEdit, Repository};
use crate::model::run::RunState;
use crate::model::{CommitId, RefName};
use crate::store::RunDir;

/// Makes the missing refs of a run again, and tells of it, as of snapshots that are gone for good or cannot be read. The
/// branches of agents are the user's to delete.
///
/// An error where something else is at work on the same refs: whoever goes on as if all were pinned could take away the only
/// copy of an agent's work.
pub(super) fn mend_pins(site: &Site, state: &RunState, run: &RunDir, tell: impl Fn(&str)) -> Result<(), Error> {
    let (mut edits, mut gone) = (Vec::new(), Vec::new());
    for (name, commit, patch) in missing(&site.repository, state, run)? {
        match site.repository.load_commit(&commit) {
            Ok(_) => edits.push(RefEdit::Create { name, new: commit.object().clone() }),
            Err(git::Error::MissingObject { .. }) => gone.extend(patch),
            // Damage in the repository: git's to say what, and no reason not to go on with what is whole.
            Err(error @ (git::Error::Failed { .. } | git::Error::Unparsable { .. })) => {
                tell(&format!("`{name}` was deleted and cannot be made again: {}", with_causes(&error)));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if !edits.is_empty() {
        site.repository.swap_refs(&edits, "sandbox: keep again")?.require()?;
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

/// How many of the refs are missing.
pub(super) fn count_missing(repository: &Repository, state: &RunState, run: &RunDir) -> Result<usize, Error> {
    Ok(missing(repository, state, run)?.count())
}

/// The refs that there should be and are not.
fn missing(repository: &Repository, state: &RunState, run: &RunDir) -> Result<impl Iterator<Item = Wanted>, Error> {
    let found = repository.load_refs(&format!("refs/sandbox/{}/", run.id()))?;
    let found: BTreeSet<RefName> = found.into_iter().map(|reference| reference.name).collect();
    Ok(wanted(state, run).into_iter().filter(move |(name, ..)| !found.contains(name)))
}

/// A ref, what it should hold, and where the patch of a snapshot is.
type Wanted = (RefName, CommitId, Option<String>);

/// The refs that there should be.
fn wanted(state: &RunState, run: &RunDir) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    if let Some(started) = &state.started {
        wanted.push((RefName::base(run.id()), started.base.clone(), None));
    }
    if let Some(merge) = state.candidate.as_ref().and_then(|candidate| candidate.head.merge.as_ref()) {
        wanted.push((RefName::merges(run.id()), merge.clone(), None));
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

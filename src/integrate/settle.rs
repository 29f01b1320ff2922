//! What became of a landing that was claimed: told from the repository, never from what a process said of itself.
//!
//! Git writes files, then the index, then the ref. So a ref at its goal says that all is done, and a ref where it was
//! says that files may be half done: then they are put back, path by path, and only where what stands there is exactly
//! the new content. Anything else is the user's, and is named.

use crate::git::{Before, Checkout, OperationKind, Repository, Standing, load_operations};
use crate::model::CommitId;
use crate::model::event::{Effect, EventKind, Subject};
use crate::model::gate::GateBlock;
use crate::store::lock::{Holder, Patience};
use crate::store::{Record, RepositoryLock, StateDir};

use super::error::Error;
use super::gates;
use super::land::load_incoming;

/// What became of a claim. In the journal already, but for [`Settled::Stuck`], which leaves the claim open.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Settled {
    /// It happened.
    Confirmed,
    /// It did not, and nothing is left of it.
    Released,
    /// It cannot be told from the user's own work. Nothing was changed.
    Stuck(Vec<GateBlock>),
}

/// Settles a claim of a coordinator that died, under the repository's lock.
pub fn settle(
    repository: &Repository,
    state_dir: &StateDir,
    journal: &dyn Record,
    claim: &Effect,
    patience: Patience,
    notice: &dyn Fn(Option<&Holder>),
) -> Result<Settled, Error> {
    let _lock = RepositoryLock::acquire(state_dir, patience, notice)?;
    settle_locked(repository, journal, claim)
}

pub(super) fn settle_locked(repository: &Repository, journal: &dyn Record, claim: &Effect) -> Result<Settled, Error> {
    let tip = repository.load_ref(&claim.reference)?.map(CommitId::from);
    let confirm = |note: Option<String>| {
        let effect = Effect { note: note.or_else(|| claim.note.clone()), ..claim.clone() };
        journal.record(Subject::run(), EventKind::EffectConfirmed(effect)).map(|_| Settled::Confirmed)
    };
    let release = |note: String| {
        let effect = Effect { note: Some(note), ..claim.clone() };
        journal.record(Subject::run(), EventKind::EffectReleased(effect)).map(|_| Settled::Released)
    };
    match tip {
        Some(tip) if tip == claim.after => Ok(confirm(odd_origin(repository, claim)?)?),
        Some(tip) if tip == claim.before => match put_back(repository, claim)? {
            Some(blocks) => Ok(Settled::Stuck(blocks)),
            None => Ok(release("nothing was changed".to_owned())?),
        },
        Some(tip) if repository.is_ancestor(&claim.after, &tip)? => {
            Ok(confirm(Some(format!("the target has moved on to {tip}")))?)
        }
        tip => Ok(release(format!("the target was moved: {}", gates::moved_text(tip.as_ref())))?),
    }
}

/// A remark where the branch did not come from where it should have: told, never undone.
fn odd_origin(repository: &Repository, claim: &Effect) -> Result<Option<String>, Error> {
    let Some(path) = claim.checkout.as_ref().filter(|path| path.is_dir()) else { return Ok(None) };
    let read = Checkout::open(repository.git(), path)?.load_read_back(&claim.reference)?;
    if read.confirms(&claim.before, &claim.after) {
        return Ok(None);
    }
    let from = read.orig_head.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
    Ok(Some(format!("ORIG_HEAD is {from}: something else moved the branch at the same time, or since")))
}

/// Takes back half a landing. Gives what is in the way of that.
fn put_back(repository: &Repository, claim: &Effect) -> Result<Option<Vec<GateBlock>>, Error> {
    let Some(path) = &claim.checkout else { return Ok(None) };
    if !path.is_dir() {
        return Ok(Some(vec![gates::missing_worktree(&claim.reference, path)]));
    }
    let checkout = Checkout::open(repository.git(), path)?;
    let incoming = load_incoming(repository, &claim.before, &claim.after)?;
    let standing = checkout.load_standing(&incoming)?;
    // Our git is dead: it held the repository's lock, which is ours now. Its own lock goes, but nobody else's.
    let is_free = checkout.clear_left_lock(&standing)?;
    if !is_free {
        if standing.iter().all(|(_, at)| *at == Standing::AtOld) {
            return Ok(None);
        }
        let operations = load_operations(checkout.repository().git_dir())?;
        let locks = operations.iter().filter(|operation| operation.kind == OperationKind::IndexLocked);
        return Ok(Some(locks.map(|operation| gates::operation(path, operation)).collect()));
    }
    let before = match kept(repository, claim)? {
        Some(kept) => checkout.load_before(&claim.before, &incoming, &kept)?,
        None => Before::default(),
    };
    let foreign = checkout.put_back(&claim.before, &incoming, &before)?;
    Ok((!foreign.is_empty()).then(|| vec![gates::half_landed(path, foreign, claim.rescue.as_ref())]))
}

/// The checkout as it was before the landing, where that was kept.
fn kept(repository: &Repository, claim: &Effect) -> Result<Option<CommitId>, Error> {
    let Some(rescue) = &claim.rescue else { return Ok(None) };
    Ok(repository.load_ref(rescue)?.map(CommitId::from))
}

//! What became of an effect that was claimed: told from the repository, never from what a process said of itself.
//!
//! Git writes files, then the index, then the ref. So a ref at its goal says that all is done, and a ref where it was
//! says that files may be half done: then they are put back, path by path, and only where what stands there is exactly
//! the new content. Anything else is the user's, and is named.

use std::time::Duration;

use crate::git::{Checkout, OperationKind, Repository, Standing, load_operations};
use crate::model::CommitId;
use crate::model::currency::Release;
use crate::model::event::{Effect, EventKind, Subject};
use crate::model::gate::GateBlock;
use crate::store::lock::{Holder, Patience};
use crate::store::{Record, RepositoryLock, StateDir, process};

use super::error::Error;
use super::gates;
use super::land::load_incoming;

/// How long to wait before what had no effect is tried once more: long enough for another git to end that held a lock.
pub(super) const BACKOFF: Duration = Duration::from_millis(300);

/// What became of a claim. In the journal already, but for [`Settled::Stuck`], which leaves the claim open.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Settled {
    /// It happened.
    Confirmed,
    /// It did not, and nothing is left of it.
    Released(Release),
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
    // Who settles it is not always who claimed it.
    let claim = &Effect { invocation: Some(process::current()?), ..claim.clone() };
    let confirm = |note: Option<String>| {
        let effect = Effect { note: note.or_else(|| claim.note.clone()), ..claim.clone() };
        journal.record(Subject::run(), EventKind::EffectConfirmed(effect)).map(|_| Settled::Confirmed)
    };
    let release = |how: Release, note: &str| {
        let effect = Effect { note: Some(note.to_owned()), release: Some(how), ..claim.clone() };
        journal.record(Subject::run(), EventKind::EffectReleased(effect)).map(|_| Settled::Released(how))
    };
    match tip {
        Some(tip) if tip == claim.after => Ok(confirm(odd_origin(repository, claim)?)?),
        Some(tip) if tip == claim.before => match put_back(repository, claim)? {
            Half::Stuck(blocks) => Ok(Settled::Stuck(blocks)),
            Half::Nothing => Ok(release(Release::Untouched, "nothing was changed")?),
            Half::TakenBack => Ok(release(Release::Undone, "half of it was done, and was taken back")?),
        },
        Some(tip) if repository.is_ancestor(&claim.after, &tip)? => {
            Ok(confirm(Some(format!("the branch has moved on to {tip}")))?)
        }
        tip => {
            let note = format!("the branch was moved: {}", gates::moved_text(tip.as_ref()));
            Ok(release(Release::Moved, &note)?)
        }
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

/// What there was of half a landing.
enum Half {
    /// Nothing.
    Nothing,
    /// Something, and it is as it was before.
    TakenBack,
    /// Something that these keep from being taken back.
    Stuck(Vec<GateBlock>),
}

/// Takes back half a landing.
fn put_back(repository: &Repository, claim: &Effect) -> Result<Half, Error> {
    let Some(path) = &claim.checkout else { return Ok(Half::Nothing) };
    if !path.is_dir() {
        return Ok(Half::Stuck(vec![gates::missing_worktree(&claim.reference, path)]));
    }
    let checkout = Checkout::open(repository.git(), path)?;
    let incoming = load_incoming(repository, &claim.before, &claim.after)?;
    let standing = checkout.load_standing(&incoming)?;
    if standing.iter().all(|(_, at)| *at == Standing::AtOld) {
        return Ok(Half::Nothing);
    }
    // A git that is still at work, or died at it: nothing is done behind its back.
    let operations = load_operations(checkout.repository().git_dir())?;
    let locks: Vec<GateBlock> = operations
        .iter()
        .filter(|operation| operation.kind == OperationKind::IndexLocked)
        .map(|operation| gates::operation(path, operation))
        .collect();
    if !locks.is_empty() {
        return Ok(Half::Stuck(locks));
    }
    let foreign = checkout.put_back(&claim.before, &incoming)?;
    if foreign.is_empty() {
        return Ok(Half::TakenBack);
    }
    Ok(Half::Stuck(vec![gates::half_landed(path, foreign, claim.rescue.as_ref())]))
}

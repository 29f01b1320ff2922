//! What became of an effect that was claimed: told from the repository, never from what a process said of itself.
//!
//! Git writes files, then the index, then the ref. So a ref at its goal says that all is done, and a ref where it was
//! says that files may be half done: then they are put back, path by path, and only where what stands there is exactly
//! the new content. Anything else is the user's, and is named.

use std::path::Path;
use std::time::Duration;

use crate::git::{self, Before, Checkout, Operation, OperationKind, Repository, Standing, load_operations};
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
    settle_held(repository, journal, claim)
}

/// Where the target stands, beside what was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// Where it was to go.
    AtGoal,
    /// Further on: it holds what it was to hold.
    Beyond,
    /// Where it was before.
    AtStart(Files),
    /// Neither, or it is gone.
    Elsewhere,
}

/// How the user's checkout stands while the target is where it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    /// None goes with the target.
    None,
    /// It is not there.
    Gone,
    /// Every file is as before. Folders that git made for new ones may be left, and lines of the index.
    Untouched,
    /// The same, and somebody else's git may be at work there.
    Busy,
    /// Something of it is new, and git may be at work there.
    Locked,
    /// Something of it is new.
    Half,
}

/// What is done about a claim that nobody has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Amends {
    /// It happened: told.
    Confirm,
    /// It did not happen, and nothing is left of it: told, and it may be done anew.
    Release,
    /// It may have happened by half: that half is taken back where that can be told from the user's own work, then as before.
    PutBack,
    /// A person must look first.
    Stuck,
}

/// The table: what is done about a claim, from how the world stands.
///
/// A target that somebody else has moved to where nothing of the claim is holds no claim of ours: what lands next is made
/// anew on it, and refuses a checkout that is not clean where it would write.
fn amends(stand: Stand) -> Amends {
    match stand {
        Stand::AtGoal | Stand::Beyond => Amends::Confirm,
        Stand::AtStart(Files::None | Files::Busy) | Stand::Elsewhere => Amends::Release,
        Stand::AtStart(Files::Untouched | Files::Half) => Amends::PutBack,
        Stand::AtStart(Files::Gone | Files::Locked) => Amends::Stuck,
    }
}

/// The same, for whom nobody else can be at work on the reference: it holds the repository's lock where the claim is about the
/// target, and the run's where it is about a ref of the run.
pub(super) fn settle_held(repository: &Repository, journal: &dyn Record, claim: &Effect) -> Result<Settled, Error> {
    let tip = repository.load_ref(&claim.reference)?.map(CommitId::from);
    // Who settles it is not always who claimed it.
    let claim = &Effect { invocation: Some(process::current()?), ..claim.clone() };
    let site = match &claim.checkout {
        Some(path) if path.is_dir() => open_claimed(repository, path)?,
        Some(_) | None => None,
    };
    let stand = match &tip {
        Some(tip) if *tip == claim.after => Stand::AtGoal,
        Some(tip) if *tip == claim.before => Stand::AtStart(load_files(repository, claim, site.as_ref())?),
        Some(tip) if repository.is_ancestor(&claim.after, tip)? => Stand::Beyond,
        None if claim.created => Stand::AtStart(Files::None),
        Some(_) | None => Stand::Elsewhere,
    };
    let release = |how: Release, note: String| {
        let effect = Effect { note: Some(note), release: Some(how), ..claim.clone() };
        journal.record(Subject::run(), EventKind::EffectReleased(effect)).map(|_| Settled::Released(how))
    };
    let nothing = || "nothing was changed".to_owned();
    match amends(stand) {
        Amends::Confirm => {
            let note = match (&tip, stand) {
                (Some(tip), Stand::Beyond) => Some(format!("the branch has moved on to {tip}")),
                _ => odd_origin(claim, site.as_ref())?,
            };
            let effect = Effect { note: note.or_else(|| claim.note.clone()), ..claim.clone() };
            journal.record(Subject::run(), EventKind::EffectConfirmed(effect))?;
            Ok(Settled::Confirmed)
        }
        Amends::Release => Ok(match stand {
            Stand::Elsewhere => {
                release(Release::Moved, format!("the branch was moved: {}", gates::moved_text(tip.as_ref())))?
            }
            Stand::AtGoal | Stand::Beyond | Stand::AtStart(_) => release(Release::Untouched, nothing())?,
        }),
        Amends::PutBack => match (put_back(repository, claim, site.as_ref())?, stand) {
            (Some(blocks), _) => Ok(Settled::Stuck(blocks)),
            (None, Stand::AtStart(Files::Half)) => {
                Ok(release(Release::Undone, "half of it was done, and was taken back".to_owned())?)
            }
            (None, _) => Ok(release(Release::Untouched, nothing())?),
        },
        Amends::Stuck => Ok(Settled::Stuck(in_the_way(claim, site.as_ref())?)),
    }
}

/// Releases a claim of this process before it did anything, for what it was made for has moved since.
pub(super) fn release_moved(journal: &dyn Record, claim: &Effect, what: &str) -> Result<(), Error> {
    let effect = Effect { note: Some(what.to_owned()), release: Some(Release::Moved), ..claim.clone() };
    journal.record(Subject::run(), EventKind::EffectReleased(effect))?;
    Ok(())
}

/// A remark where the branch did not come from where it should have: told, never undone.
fn odd_origin(claim: &Effect, checkout: Option<&Checkout>) -> Result<Option<String>, Error> {
    let Some(checkout) = checkout else { return Ok(None) };
    let read = checkout.load_read_back(&claim.reference)?;
    if read.confirms(&claim.before, &claim.after) {
        return Ok(None);
    }
    let from = read.orig_head.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
    Ok(Some(format!("ORIG_HEAD is {from}: something else moved the branch at the same time, or since")))
}

/// The checkout that was claimed, if it is still what lies there: neither a folder of somebody's own, nor one that only lies in
/// another checkout, whose files are none of this claim's.
fn open_claimed(repository: &Repository, path: &Path) -> Result<Option<Checkout>, Error> {
    let found = match Checkout::open(repository.git(), path) {
        Ok(found) => found,
        Err(git::Error::NotARepository { .. } | git::Error::Bare { .. } | git::Error::OutsideWorkTree { .. }) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let is_same = found.top() == path && found.repository().common_dir() == repository.common_dir();
    Ok(is_same.then_some(found))
}

fn load_files(repository: &Repository, claim: &Effect, checkout: Option<&Checkout>) -> Result<Files, Error> {
    let checkout = match (&claim.checkout, checkout) {
        (None, _) => return Ok(Files::None),
        (Some(_), None) => return Ok(Files::Gone),
        (Some(_), Some(checkout)) => checkout,
    };
    let incoming = load_incoming(repository, &claim.before, &claim.after)?;
    let standing = checkout.load_standing(&incoming)?;
    let is_old = standing.iter().all(|(_, at)| *at == Standing::AtOld);
    // Our git is dead: it held the repository's lock, which is ours now. Its own lock goes, but nobody else's.
    Ok(match (is_old, checkout.clear_left_lock(&standing)?) {
        (true, true) => Files::Untouched,
        (true, false) => Files::Busy,
        (false, true) => Files::Half,
        (false, false) => Files::Locked,
    })
}

/// A git that is still at work, or died at it: nothing is done behind its back.
fn load_locks(checkout: &Checkout) -> Result<Vec<Operation>, Error> {
    let mut operations = load_operations(checkout.repository().git_dir())?;
    operations.retain(|operation| operation.kind == OperationKind::IndexLocked);
    Ok(operations)
}

/// Why a claim cannot be settled.
fn in_the_way(claim: &Effect, checkout: Option<&Checkout>) -> Result<Vec<GateBlock>, Error> {
    let (Some(path), Some(checkout)) = (&claim.checkout, checkout) else {
        let missing = claim.checkout.as_ref().map(|path| gates::missing_worktree(&claim.reference, path));
        return Ok(missing.into_iter().collect());
    };
    Ok(load_locks(checkout)?.iter().map(|operation| gates::operation(path, operation)).collect())
}

/// Takes back half a landing. Gives what is in the way of that.
fn put_back(
    repository: &Repository,
    claim: &Effect,
    checkout: Option<&Checkout>,
) -> Result<Option<Vec<GateBlock>>, Error> {
    let (Some(path), Some(checkout)) = (&claim.checkout, checkout) else { return Ok(None) };
    let incoming = load_incoming(repository, &claim.before, &claim.after)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_the_world_can_stand_has_its_amends() {
        let table = [
            (Stand::AtGoal, Amends::Confirm),
            (Stand::Beyond, Amends::Confirm),
            (Stand::Elsewhere, Amends::Release),
            (Stand::AtStart(Files::None), Amends::Release),
            (Stand::AtStart(Files::Untouched), Amends::PutBack),
            (Stand::AtStart(Files::Busy), Amends::Release),
            (Stand::AtStart(Files::Half), Amends::PutBack),
            (Stand::AtStart(Files::Locked), Amends::Stuck),
            (Stand::AtStart(Files::Gone), Amends::Stuck),
        ];
        for (stand, expected) in table {
            assert_eq!(amends(stand), expected, "{stand:?}");
        }
    }
}

//! Forgetting a run: its refs, its branches, then its folder.
//!
//! In this order a death in between leaves a record without refs, which the next `clean --records` takes; the other way
//! round refs would stay that nobody knows of.

use std::collections::BTreeSet;

use super::error::Error;
use super::pins;
use super::retention::Pin;
use super::site::Site;
use crate::git::{RefEdit, Swap};
use crate::model::event::EventKind;
use crate::model::run::RunState;
use crate::store::{RunDir, Trash, journal, receipts, runs};

/// Removes the record of a run, whose lock is held, unless something pins it.
pub(super) fn forget(site: &Site, run: &RunDir, state: &RunState) -> Result<Result<(), Pin>, Error> {
    if let Some(pin) = pins::load(site, state)? {
        return Ok(Err(pin));
    }
    let refs = pins::load_refs(&site.repository, run.id())?;
    let edits: Vec<RefEdit> =
        refs.into_iter().map(|found| RefEdit::Delete { name: found.name, old: found.id }).collect();
    if !edits.is_empty() {
        match site.repository.swap_refs(&edits, "sandbox: forget the run")? {
            Swap::Done => {}
            // Somebody put something there this very moment.
            Swap::Lost { name, .. } => return Ok(Err(Pin::Unknown(name))),
        }
    }
    Trash::of_state(&site.state).set_aside(run.root())?;
    Ok(Ok(()))
}

/// Removes receipts that no run tells of any more. Where a journal cannot be read, all stay: it may tell of them.
pub(super) fn prune_receipts(site: &Site) -> Result<u64, Error> {
    let mut told = BTreeSet::new();
    for run in runs::list(&site.state)?.runs {
        let Ok(read) = journal::read(&run) else { return Ok(0) };
        for event in read.into_events() {
            if let EventKind::VerifyFinished(finished) = event.kind {
                told.insert(finished.receipt);
            }
        }
    }
    Ok(receipts::prune(&site.state, |key| told.contains(key))?)
}

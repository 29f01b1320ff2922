//! Looking whether a verifier left alone what it judged.
//!
//! The worktree is captured, as an agent's is, and its tree compared with the candidate's. Two things are set up before the
//! verifier runs, both in the capture's git directory, which it never sees:
//! - **No file is believed by its times.** Git takes a file for unchanged whose size and times are those in its index, and
//!   a program can set times. An index that is older than all its entries is not believed, so every file is read.
//! - **Untracked files are left out.** Verifiers build: what they add is neither of interest nor to be copied into the
//!   repository.

use std::fs::{FileTimes, OpenOptions};
use std::io::Write;
use std::time::{Duration, SystemTime};

use super::decision::Scan;
use super::error::Error;
use crate::agent::attempt::with_causes;
use crate::change::{Capturer, Snapshot};
use crate::git::{ChangeKind, Renames};
use crate::store::Workplace;
use crate::workspace::Workspace;

/// Sets up the look, in a worktree that is just made.
pub(super) fn prepare(place: &Workplace) -> Result<(), Error> {
    let index = place.capture().join("index");
    // Not 0: git takes that for an index that was never written.
    let old = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
    let opened = OpenOptions::new().write(true).open(&index);
    opened.and_then(|file| file.set_times(old)).map_err(|error| Error::io("set the time of", &index, error))?;
    let exclude = place.capture().join("info/exclude");
    let opened = OpenOptions::new().create(true).append(true).open(&exclude);
    opened.and_then(|mut file| file.write_all(b"\n*\n")).map_err(|error| Error::io("write", &exclude, error))
}

/// Looks. Nothing of the verifier may run any more.
pub(super) async fn look(capturer: &Capturer, workspace: &Workspace, candidate: &Snapshot) -> Scan {
    let taken = match capturer.capture(workspace, candidate, "verify", None).await {
        Ok(taken) => taken,
        Err(error) => return Scan::Failed(with_causes(&error)),
    };
    // What could not be looked at may be anything.
    if let Some(first) = taken.lost.first().or_else(|| taken.refused.first()) {
        return Scan::Failed(first.clone());
    }
    if taken.snapshot.tree == candidate.tree {
        return Scan::Done(Vec::new());
    }
    let loaded = tokio::task::block_in_place(|| {
        capturer.repository.load_changes(&candidate.tree, &taken.snapshot.tree, Renames::Ignore)
    });
    let changes = match loaded {
        Ok(changes) => changes,
        Err(error) => return Scan::Failed(with_causes(&error)),
    };
    let tracked = changes.into_iter().filter(|change| match change.kind {
        ChangeKind::Added => false,
        ChangeKind::Deleted | ChangeKind::Modified | ChangeKind::TypeChanged | ChangeKind::Renamed { .. } => true,
    });
    Scan::Done(tracked.map(|change| change.path).collect())
}

//! Where the target is now, and how it came there: told once, and whenever it moved since it was last looked at.

use crate::git::Repository;
use crate::model::event::{EventKind, Movement, Subject, TargetMoved};
use crate::model::run::RunState;
use crate::model::{CommitId, RefName};
use crate::store::Record;

use super::error::Error;

/// The target's tip, read just now; none if it is gone. Where it is not where the journal last saw it, that is told.
pub fn see_target(
    repository: &Repository,
    journal: &dyn Record,
    state: &RunState,
    target: &RefName,
) -> Result<Option<CommitId>, Error> {
    let tip = repository.load_ref(target)?.map(CommitId::from);
    let from = state.target_tip.clone();
    if tip == from {
        return Ok(tip);
    }
    let how = match (&from, &tip) {
        (_, None) => Movement::Deleted,
        (None, Some(_)) => Movement::Restored,
        (Some(from), Some(tip)) if repository.is_ancestor(from, tip)? => Movement::Advanced,
        (Some(from), Some(tip)) if repository.is_ancestor(tip, from)? => Movement::Rewound,
        (Some(_), Some(_)) => Movement::Rewritten,
    };
    let moved = TargetMoved { target: target.clone(), from, to: tip.clone(), how };
    journal.record(Subject::run(), EventKind::TargetMoved(moved))?;
    Ok(tip)
}

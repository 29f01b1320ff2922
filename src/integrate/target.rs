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
    let ends = from.as_ref().zip(tip.as_ref());
    let is_below = |(old, new): (&CommitId, &CommitId)| repository.is_ancestor(old, new);
    let onward = ends.map(is_below).transpose()?.unwrap_or(false);
    let back = ends.map(|(old, new)| is_below((new, old))).transpose()?.unwrap_or(false);
    let how = movement(from.is_some(), tip.is_some(), onward, back);
    let moved = TargetMoved { target: target.clone(), from, to: tip.clone(), how };
    journal.record(Subject::run(), EventKind::TargetMoved(moved))?;
    Ok(tip)
}

/// How a branch moved that was there, or is: `onward`, `back`: which end has the other in its history.
fn movement(was: bool, is: bool, onward: bool, back: bool) -> Movement {
    match (was, is) {
        (_, false) => Movement::Deleted,
        (false, true) => Movement::Restored,
        (true, true) if onward => Movement::Advanced,
        (true, true) if back => Movement::Rewound,
        (true, true) => Movement::Rewritten,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_a_branch_can_move() {
        let table = [
            ((true, true, true, false), Movement::Advanced),
            ((true, true, false, true), Movement::Rewound),
            ((true, true, false, false), Movement::Rewritten),
            ((true, false, false, false), Movement::Deleted),
            ((false, false, false, false), Movement::Deleted),
            ((false, true, false, false), Movement::Restored),
        ];
        for ((was, is, onward, back), wanted) in table {
            assert_eq!(movement(was, is, onward, back), wanted, "{was} {is} {onward} {back}");
        }
    }
}

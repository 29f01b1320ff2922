//! How something else moved the target while a run was about, in words.

use super::look::{Look, Tone};
use super::text;
use crate::model::event::{Movement, TargetMoved};
use crate::model::{CommitId, RefName};

/// One move, in a line.
pub(super) fn words(moved: &TargetMoved) -> String {
    let name = text::clean(RefName::short(&moved.target));
    let short =
        |commit: Option<&CommitId>| commit.map_or_else(|| "nothing".to_owned(), |commit| commit.short().to_owned());
    let (from, to) = (short(moved.from.as_ref()), short(moved.to.as_ref()));
    match moved.how {
        Movement::Advanced => format!("{name} moved on from {from} to {to}"),
        Movement::Rewound => format!("{name} was set back from {from} to {to}"),
        Movement::Rewritten => format!("{name} was rewritten: {from} is not in the history of {to}"),
        Movement::Deleted => format!("{name} was deleted; it was at {from}"),
        Movement::Restored => format!("{name} is there again, at {to}"),
    }
}

/// A line for each move.
pub(super) fn lines(moves: &[TargetMoved], look: Look) -> String {
    moves.iter().map(|moved| Tone::Warn.paint(&format!("! {}", words(moved)), look) + "\n").collect()
}

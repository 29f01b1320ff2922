//! The card of a merge that could not be computed.

use super::identity::{card_id, fingerprint_of_texts};
use super::wording::{begin_anew, leave_out, look_at, option};
use crate::model::card::{Card, CardKind, CardState, Sides};
use crate::model::{AgentName, CardId, CommitId, ObjectId};

/// Why a merge could not be computed. Each is a matter of its own: what a person said to one says nothing of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeFault {
    /// The journal does not tell all that must be known of the work.
    Journal,
    /// The record of its turn is missing.
    NoRecord,
    /// The record of its turn cannot be read.
    BadRecord,
    /// A commit of it is missing, or cannot be read.
    Commit,
    /// Record and journal name different fork points.
    OtherFork,
    /// What was recorded is another tree than the snapshot has.
    OtherTree,
    /// Something else moved its branch to this. Who adds to that later adds what was not decided about.
    BranchTaken(ObjectId),
    /// Its fork point is made of something that is not in the target's history.
    ForeignFork,
    /// Git reports a conflict, and not what a person would need to decide about it.
    BareConflict,
    /// What was decided on this card cannot be applied.
    Resolution(CardId),
    /// Git failed.
    Git,
}

impl MergeFault {
    /// What a card's fingerprint has of it: names that never change.
    fn facts(&self) -> [&str; 2] {
        match self {
            Self::Journal => ["journal", ""],
            Self::NoRecord => ["no_record", ""],
            Self::BadRecord => ["bad_record", ""],
            Self::Commit => ["commit", ""],
            Self::OtherFork => ["other_fork", ""],
            Self::OtherTree => ["other_tree", ""],
            Self::BranchTaken(at) => ["branch_taken", at.as_str()],
            Self::ForeignFork => ["foreign_fork", ""],
            Self::BareConflict => ["bare_conflict", ""],
            Self::Resolution(card) => ["resolution", card.as_str()],
            Self::Git => ["git", ""],
        }
    }
}

/// The card of `agent`, whose snapshot could not be merged for `fault`. It is about these two: how the cause is worded may
/// change without being another matter.
pub fn merge_error(
    agent: &AgentName,
    snapshot: Option<&CommitId>,
    sides: Option<Sides>,
    fault: &MergeFault,
    cause: &str,
) -> Card {
    let agents = vec![agent.clone()];
    let of_work = snapshot.map_or("none", CommitId::as_str);
    let fingerprint = fingerprint_of_texts([of_work].into_iter().chain(fault.facts()));
    let id = card_id(CardKind::MergeError, &agents, &fingerprint);
    Card {
        kind: CardKind::MergeError,
        state: CardState::NeedsHuman,
        agents,
        paths: Vec::new(),
        summary: format!("`{agent}` could not be merged: {cause}"),
        sides,
        snapshot: snapshot.cloned(),
        stages: Vec::new(),
        messages: Vec::new(),
        fingerprint,
        options: vec![
            option("once the cause is gone: merge again", "sandbox merge"),
            look_at(agent),
            begin_anew(agent),
            leave_out(&id, agent),
        ],
        id,
        request: None,
        resolution: None,
        answer: None,
        landing: None,
        proposal: None,
        history: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_about_the_snapshot_and_the_cause_and_not_about_its_wording() {
        let parser = "parser".parse().unwrap();
        let commit = |digit: &str| digit.repeat(40).parse::<CommitId>().unwrap();
        let (snapshot, other) = (commit("1"), commit("2"));
        let at = |digit: &str| commit(digit).object().clone();
        let faults = [
            MergeFault::Journal,
            MergeFault::NoRecord,
            MergeFault::BadRecord,
            MergeFault::Commit,
            MergeFault::OtherFork,
            MergeFault::OtherTree,
            MergeFault::BranchTaken(at("3")),
            MergeFault::BranchTaken(at("4")),
            MergeFault::ForeignFork,
            MergeFault::BareConflict,
            MergeFault::Resolution("c1".parse().unwrap()),
            MergeFault::Resolution("c2".parse().unwrap()),
            MergeFault::Git,
        ];
        let mut known: Vec<(CardId, String)> = Vec::new();
        for fault in &faults {
            for snapshot in [Some(&snapshot), Some(&other), None] {
                let card = merge_error(&parser, snapshot, None, fault, "git did not end in time");
                assert_eq!(card.summary, "`parser` could not be merged: git did not end in time");
                assert_eq!(card.snapshot.as_ref(), snapshot);
                let again = merge_error(&parser, snapshot, None, fault, "otherwise");
                assert_eq!((&card.id, &card.fingerprint), (&again.id, &again.fingerprint), "{fault:?}");
                // No pair of causes, and of snapshots, is one matter.
                assert!(known.iter().all(|(id, print)| *id != card.id && *print != card.fingerprint), "{fault:?}");
                known.push((card.id, card.fingerprint));
            }
        }
        assert_eq!(known.len(), 3 * faults.len());
    }
}

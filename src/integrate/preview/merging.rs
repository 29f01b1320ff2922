//! Making a merge of what git gives: a commit, or the card that says why there is none.

use super::Placed;
use super::held::Undecided;
use super::walk::Walk;
use crate::board::{self, MergeFault};
use crate::git::{self, Chosen, Conflict, Entry, Mode, NewCommit, TreeChange};
use crate::integrate::contribution::Contribution;
use crate::integrate::error::Error;
use crate::integrate::history::Own;
use crate::integrate::message::{self, Terms, Told};
use crate::model::card::{AnswerKind, Card, ResolvedPath, Sides};
use crate::model::event::Shape;
use crate::model::plan::History;
use crate::model::{CommitId, TreeId};

impl Walk<'_, '_> {
    /// What becomes of a conflict: a card, unless it was decided about.
    pub(super) fn settle(
        &mut self,
        at: usize,
        made: &Contribution,
        conflict: &Conflict,
        mut terms: Terms,
    ) -> Result<Placed, Error> {
        let card = self.conflict(made, conflict)?;
        let missing = card.missing();
        if !missing.is_empty() {
            // Nobody could decide about it: as little is known of such a conflict as of a merge that failed.
            let cause = format!("git reports a conflict and tells no {}", missing.join(", no "));
            return Ok(self.error(made, &MergeFault::BareConflict, &cause));
        }
        let facts = self.question.facts;
        let Some(answer) = facts.state.answer(&card) else { return Ok(Placed::Conflict(Box::new(card))) };
        match answer.kind {
            AnswerKind::Dismissed => Ok(Placed::SetAside(card.id)),
            AnswerKind::Approved => Ok(Placed::Conflict(Box::new(card))),
            AnswerKind::Resolved => {
                let chosen = answer.resolved.iter().map(as_chosen).collect::<Option<Vec<Chosen>>>();
                let Some(chosen) = chosen else { return Ok(Placed::Conflict(Box::new(card))) };
                let sides = [&self.candidate, &made.commit];
                let tree = match facts.repository.write_resolved(conflict, sides, &chosen) {
                    Ok(tree) => tree,
                    Err(error) => {
                        let cause = format!("its resolution cannot be applied: {error}");
                        return Ok(self.error(made, &MergeFault::Resolution(card.id), &cause));
                    }
                };
                terms.resolved = Some((card.id, answer.by.clone()));
                self.take_in(at, made, tree, &terms)
            }
        }
    }

    /// Merges, if nothing of it must be decided about first. What is harmless in each of two contributions may not be so in
    /// both together.
    pub(super) fn take_in(
        &mut self,
        at: usize,
        made: &Contribution,
        tree: TreeId,
        terms: &Terms,
    ) -> Result<Placed, Error> {
        let together = self.unseen(made, &self.tree, &tree)?;
        match self.undecided(together, &mut Terms::default()) {
            Undecided::SetAside(card) => Ok(Placed::SetAside(card)),
            Undecided::Cards(cards) if cards.is_empty() => self.merge(at, made, tree, terms),
            Undecided::Cards(cards) => Ok(Placed::Held(cards)),
        }
    }

    /// Makes the merge commit, unless it would change nothing.
    fn merge(&mut self, at: usize, made: &Contribution, tree: TreeId, terms: &Terms) -> Result<Placed, Error> {
        if tree == self.tree {
            return Ok(Placed::Contained);
        }
        let facts = self.question.facts;
        let signature = facts.signature();
        let (second, history) = self.brought_in(at, made);
        let commit = facts.repository.write_commit(&NewCommit {
            tree: &tree,
            parents: &[self.candidate.clone(), second.clone()],
            author: &signature,
            committer: &signature,
            message: &message::merge(&Told {
                run: facts.run.id(),
                task: &facts.plan.agents[at],
                template: facts.plan.message.as_deref(),
                snapshot: &made.snapshot,
                contribution: (second != made.commit).then_some(&made.commit),
                terms,
            }),
        })?;
        let changes = facts.repository.load_changes(&self.tree, &tree, git::Renames::Ignore)?;
        self.candidate = commit.clone();
        self.tree = tree.clone();
        Ok(Placed::Merged { commit, tree, history, changed: changes.into_iter().map(|change| change.path).collect() })
    }

    /// What a merge of an agent brings in beside the tree, and how that is told where the plan asks for the agents' own
    /// commits.
    fn brought_in(&self, at: usize, made: &Contribution) -> (CommitId, Option<Shape>) {
        let shape = |form, commits, reason| Some(Shape { form, commits, reason });
        match &self.origins[at].own {
            None => (made.commit.clone(), None),
            Some(Own::None) => (made.commit.clone(), shape(History::Commits, 0, None)),
            Some(Own::Made(again)) => (again.tip.clone(), shape(History::Commits, again.count, None)),
            Some(Own::Unfit(unfit)) => (made.commit.clone(), shape(History::Merge, 0, Some(unfit.to_string()))),
        }
    }

    fn conflict(&self, made: &Contribution, conflict: &Conflict) -> Result<Card, Error> {
        let paths = conflict.paths();
        let touches = |change: &TreeChange| {
            paths.iter().any(|path| change.path == *path || change.path.is_below(path) || path.is_below(&change.path))
        };
        let mut others = Vec::new();
        for (agent, placed) in &self.done {
            let merged = matches!(placed, Placed::Merged { .. });
            if merged && self.current(*agent).is_some_and(|made| made.changes.iter().any(touches)) {
                others.push(self.name(*agent));
            }
        }
        Ok(self.about(made, board::conflict(conflict, self.sides(made)?, &made.agent, &others)))
    }

    pub(super) fn error(&self, made: &Contribution, fault: &MergeFault, cause: &str) -> Placed {
        // What cannot be merged may well have no base to be told either.
        let sides = self.sides(made).ok();
        self.failed(board::merge_error(&made.agent, Some(&made.snapshot), sides, fault, cause))
    }

    /// A merge that failed waits on its card, unless it was decided to do without.
    pub(super) fn failed(&self, card: Card) -> Placed {
        match self.question.facts.state.answer(&card).map(|answer| answer.kind) {
            Some(AnswerKind::Dismissed) => Placed::SetAside(card.id),
            Some(AnswerKind::Approved | AnswerKind::Resolved) | None => Placed::Error(Box::new(self.in_run(card))),
        }
    }

    /// A card of an agent's work as it is now.
    pub(super) fn about(&self, made: &Contribution, card: Card) -> Card {
        self.in_run(Card { snapshot: Some(made.snapshot.clone()), ..card })
    }

    fn in_run(&self, card: Card) -> Card {
        board::in_run(card, self.question.facts.run.id())
    }

    fn sides(&self, made: &Contribution) -> Result<Sides, Error> {
        let bases = self.question.facts.repository.merge_bases(&self.candidate, &made.commit)?;
        Ok(Sides { ours: self.candidate.clone(), theirs: made.commit.clone(), base: bases.into_iter().next() })
    }
}

/// A path as it was resolved; `None` where the record is odd.
pub fn as_chosen(resolved: &ResolvedPath) -> Option<Chosen> {
    let entry = match (&resolved.mode, &resolved.oid) {
        (Some(mode), Some(id)) => Some(Entry { mode: Mode::parse(mode)?, id: id.clone() }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return None,
    };
    Some((resolved.path.clone(), entry))
}

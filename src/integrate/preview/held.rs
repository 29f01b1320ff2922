//! What must not be merged without a decision of a person's, and what persons decided about it.

use super::walk::Walk;
use crate::board::{self, HeldPath};
use crate::change::tree_check::{Finding, FindingKind};
use crate::change::{bundle, contract};
use crate::git::TreeChange;
use crate::integrate::contribution::Contribution;
use crate::integrate::error::Error;
use crate::integrate::history::Own;
use crate::integrate::message::Terms;
use crate::model::card::{Answer, AnswerKind, Card, CardKind};
use crate::model::plan::AgentTask;
use crate::model::run::AgentState;
use crate::model::{CardId, RepoPath, TreeId};
use crate::plan::Scope;

/// Cards, as far as they wait for a decision.
pub(super) enum Undecided {
    /// These do.
    Cards(Vec<Card>),
    /// By this one the work is left out.
    SetAside(CardId),
}

impl Walk<'_, '_> {
    /// The cards of what must not be merged without a decision.
    pub(super) fn held(&self, at: usize, task: &AgentTask, made: &Contribution) -> Result<Vec<Card>, Error> {
        let granted = self.question.facts.state.agent(&task.name).map_or(&[][..], AgentState::granted);
        let scope = Scope::new(task, granted).map_err(|source| Error::Contract { agent: task.name.clone(), source })?;
        let mut cards = Vec::new();
        // What is to come in commit by commit is held against the contract commit by commit.
        let changes: Vec<TreeChange> = match &self.origins[at].own {
            Some(Own::Made(again)) => {
                let more = again.changes.iter().filter(|change| !made.changes.contains(change));
                made.changes.iter().chain(more).cloned().collect()
            }
            Some(Own::None | Own::Unfit(_)) | None => made.changes.clone(),
        };
        let outside = contract::outside(&changes, &scope.compiled);
        if !outside.is_empty() {
            let of_outside = |change: &&TreeChange| outside.binary_search(&change.path).is_ok();
            let changes: Vec<TreeChange> = changes.iter().filter(of_outside).cloned().collect();
            cards.push(self.about(made, board::scope(&task.name, &scope.contract, &changes)));
        }
        let protected = self.protected(&scope, &changes, &outside);
        if !protected.is_empty() {
            cards.push(self.about(made, board::held(CardKind::Protected, &task.name, &protected)));
        }
        cards.extend(self.unseen(made, &made.fork_tree, &made.tree)?);
        Ok(cards)
    }

    /// Protected paths that it changed, apart from those that a card of its contract is about already.
    fn protected(&self, scope: &Scope, changes: &[TreeChange], outside: &[RepoPath]) -> Vec<HeldPath> {
        let inside = changes.iter().filter(|change| outside.binary_search(&change.path).is_err());
        let held = inside.filter_map(|change| {
            let glob = self.protected.holds(&change.path, &scope.contract)?;
            let text = format!("`{}` is protected by `{glob}`, and no glob of the contract names it", change.path);
            Some(HeldPath { path: change.path.clone(), before: None, entry: change.new.clone(), text })
        });
        held.collect()
    }

    /// The cards of what the way from one tree to another brings that must not be merged unseen.
    pub(super) fn unseen(&self, made: &Contribution, from: &TreeId, to: &TreeId) -> Result<Vec<Card>, Error> {
        let mut cards = Vec::new();
        let findings = bundle::findings(self.question.facts.repository, from, to)?;
        for kind in [CardKind::NestedRepository, CardKind::Submodule, CardKind::UnsafeTree] {
            let of_kind = findings.iter().filter(|finding| finding.kind.holds() && card_kind(finding) == kind);
            let paths: Vec<HeldPath> = of_kind.map(|finding| held_path(finding, made)).collect();
            if !paths.is_empty() {
                cards.push(self.about(made, board::held(kind, &made.agent, &paths)));
            }
        }
        Ok(cards)
    }

    /// The cards that nobody has decided about, or the one by which all of it is left out. What was approved is written
    /// down with the merge.
    pub(super) fn undecided(&self, cards: Vec<Card>, terms: &mut Terms) -> Undecided {
        let mut open = Vec::new();
        for card in cards {
            match self.question.facts.state.answer(&card) {
                Some(Answer { kind: AnswerKind::Dismissed, .. }) => return Undecided::SetAside(card.id),
                Some(Answer { kind: AnswerKind::Approved, by, .. }) => {
                    // Of a protected path or a submodule that the contract covers, it was kept all the same.
                    if card.kind == CardKind::Scope {
                        terms.approved_by.insert(by.clone());
                    }
                }
                Some(Answer { kind: AnswerKind::Resolved, .. }) | None => open.push(card),
            }
        }
        Undecided::Cards(open)
    }
}

fn card_kind(finding: &Finding) -> CardKind {
    match finding.kind {
        FindingKind::Gitlink => CardKind::NestedRepository,
        FindingKind::Submodule => CardKind::Submodule,
        FindingKind::EmbeddedRepository | FindingKind::Collision | FindingKind::OutwardLink => CardKind::UnsafeTree,
    }
}

fn held_path(finding: &Finding, made: &Contribution) -> HeldPath {
    let (path, text) = (finding.path.clone(), finding.text.clone());
    if let Some(own) = &finding.change {
        return HeldPath { path, before: own.old.clone(), entry: own.new.clone(), text };
    }
    let change = made.changes.iter().find(|change| change.path == finding.path);
    HeldPath { path, before: None, entry: change.and_then(|change| change.new.clone()), text }
}

//! What a verb of the board that died left beside its decision: taken away before the next one decides anything.
//!
//! A folder in which a person merges by hand is theirs, and stays.

use std::collections::BTreeSet;
use std::time::Duration;

use super::decide::Desk;
use super::error::Error;
use crate::agent::attempt::with_causes;
use crate::git::RefEdit;
use crate::model::RefName;
use crate::model::card::Card;
use crate::store::Trash;
use crate::store::lock::{self, Patience};
use crate::workspace::remove;

impl Desk {
    /// Takes it away. Never a reason to stop: what stays is in nobody's way, and the next one tries again.
    pub(super) fn clear_away(&self) {
        self.site.sweep_scratch();
        let trash = || Ok(Trash::of_workplaces(self.site.workplaces.root()).sweep().map(drop)?);
        let done = trash().and_then(|()| self.forget_proposals()).and_then(|()| self.remove_resolvers());
        if let Err(error) = done {
            tracing::warn!("what a command that was killed left stays for now: {}", with_causes(&error));
        }
    }

    /// Lets go of the refs of proposals that wait for nobody: taken, turned down, or never told of.
    fn forget_proposals(&self) -> Result<(), Error> {
        let run = self.recorder.run().id();
        let state = self.recorder.state();
        let name = |card: &Card| card.agents.first().map(|agent| RefName::proposal(run, agent, &card.id));
        let waiting: BTreeSet<RefName> =
            state.open_cards().filter(|card| card.proposal.is_some()).filter_map(name).collect();
        let known: BTreeSet<RefName> = state.cards.iter().filter_map(name).collect();
        let found = self.site.repository.load_refs(&format!("refs/sandbox/{run}/"))?;
        let left = found.into_iter().filter(|it| known.contains(&it.name) && !waiting.contains(&it.name));
        let edits: Vec<RefEdit> = left.map(|it| RefEdit::Delete { name: it.name, old: it.id }).collect();
        if edits.is_empty() {
            return Ok(());
        }
        Ok(self.site.repository.swap_refs(&edits, "sandbox: proposal")?.require()?)
    }

    /// Removes the worktrees of commands that were to resolve a conflict: nothing in one is anybody's work.
    fn remove_resolvers(&self) -> Result<(), Error> {
        for card in self.recorder.state().cards {
            let place = self.resolver_place(&card.id);
            if [place.worktree(), place.private()].iter().all(|path| path.symlink_metadata().is_err()) {
                continue;
            }
            // Who still ends there is not waited for: the next one finds it.
            let at_once = Patience { limit: Duration::ZERO, ..Patience::default() };
            if lock::await_boxes(&place, at_once, || {}).is_err() {
                continue;
            }
            remove(&self.site.repository, &self.site.state, &place)?;
        }
        Ok(())
    }
}

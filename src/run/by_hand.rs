//! What a folder in which a person merges a conflict holds that is nowhere else: such a folder is never removed by the way.

use std::path::Path;

use super::decide::{Desk, resolved_paths};
use super::error::Error;
use crate::model::{CardId, TreeId};
use crate::store::{Workplace, listing};
use crate::workspace::{is_as_begun, is_being_made};

impl Desk {
    /// What of the folder of a card that is closed would be lost with it, in a line: all but what git left there, and what the
    /// card was closed with.
    pub(super) fn unfinished_edit(&self, card: &CardId) -> Result<Option<String>, Error> {
        let card = self.known_card(card)?;
        let place = self.place(&card.id);
        if place.worktree().symlink_metadata().is_err() || is_being_made(&place) {
            return Ok(None);
        }
        let advice = format!(
            "; `sandbox board resolve CARD --from {}` takes it for another card, `sandbox board resolve {} --discard --run {}` \
             removes it",
            place.worktree().display(),
            card.id,
            self.recorder.run().id()
        );
        let Ok((_, admin_dir)) = self.folder_of(&card) else {
            return Ok(Some(format!("it is no worktree of the repository any more{advice}")));
        };
        if let Some(why) = self.only_there(&place)? {
            return Ok(Some(why + &advice));
        }
        let now = self.site.repository.load_merged_by_hand(place.worktree(), &admin_dir)?;
        if is_as_begun(&admin_dir, &now) {
            return Ok(None);
        }
        // Where the conflict cannot be told any more, nor can what was done about it.
        if let Ok(matter) = self.matter(&card) {
            let chosen = self.site.repository.load_chosen(&matter.conflict, &now)?;
            let is_answer = card.answer.as_ref().is_some_and(|answer| resolved_paths(chosen) == answer.resolved);
            if is_answer && self.require_only_conflicting(&matter, &now).is_ok() {
                return Ok(None);
            }
        }
        Ok(Some(format!("what was merged by hand in it is nowhere else{advice}")))
    }

    /// What of a folder would be lost with it though all its files are `kept`.
    pub(super) fn lost_with(
        &self,
        place: &Workplace,
        admin_dir: &Path,
        kept: &TreeId,
    ) -> Result<Option<String>, Error> {
        if let Some(why) = self.only_there(place)? {
            return Ok(Some(why));
        }
        let repository = &self.site.repository;
        let is_kept = repository.has_no_changes(place.worktree())?
            || repository.load_merged_by_hand(place.worktree(), admin_dir)? == *kept;
        Ok((!is_kept).then(|| "it has changes that were not taken".to_owned()))
    }

    /// What is in no tree of the folder's files.
    fn only_there(&self, place: &Workplace) -> Result<Option<String>, Error> {
        if let Some(inner) = repository_below(place.worktree())? {
            return Ok(Some(format!("`{inner}` in it is a repository of its own")));
        }
        let ignored = self.site.repository.load_ignored_in(place.worktree())?;
        Ok(ignored.first().map(|first| format!("git ignores `{first}` in it, so that it is nowhere else")))
    }
}

/// The first repository that lies in a folder, by its path there. Links are not followed.
fn repository_below(root: &Path) -> Result<Option<String>, Error> {
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in listing::entries(&folder)?.unwrap_or_default() {
            let path = entry.path();
            if entry.file_name() == ".git" {
                if folder != root {
                    return Ok(Some(folder.strip_prefix(root).unwrap_or(&folder).display().to_string()));
                }
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            }
        }
    }
    Ok(None)
}

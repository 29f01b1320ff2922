//! What people decide about cards: approved, dismissed, resolved.
//!
//! A decision closes the card and is written into the journal with who made it, and why. It holds for exactly the matter
//! of the card, whose id is a hash of that: the next merge finds the same matter again and does what was decided. That an
//! agent's work is left out holds for the very work the card was about, and for none that it does later. Nothing is merged
//! here.
//!
//! A resolution says what stands at each conflicting path and at no other. It is taken only if it can be applied to the
//! merge as git computes it, and if no conflict marker is left in it.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::recorder::{Quiet, Recorder};
use super::site::Site;
use super::start::load_settings;
use crate::agent::attempt::with_causes;
use crate::git::{
    Chosen, Conflict, Entry, InFolder, Merger, Mode, ModeKind, NewCommit, Preview, Renames, Repository, Signature,
    find_in_folder,
};
use crate::model::card::{Answer, AnswerKind, Card, CardKind, CardState, ResolvedPath, Sides};
use crate::model::event::{CardClosed, EventKind, Subject};
use crate::model::{AgentName, CardId, CommitId, RefName, RepoPath, RunId, TreeId};
use crate::store::lock::RunLock;
use crate::store::{JournalWriter, Occupant, Record, RunDir, Workplace, atomic};
use crate::workspace::{is_being_made, merge_by_hand, remove};

/// How many paths an answer names.
const NAMED: usize = 5;

/// Which side of a conflict is taken as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// The candidate's.
    Ours,
    /// The agent's.
    Theirs,
}

/// The cards of a run, with the right to decide about them.
#[derive(Debug)]
pub struct Desk {
    pub(super) site: Site,
    pub(super) recorder: Recorder,
}

/// A conflict, computed again for its card.
pub(super) struct Matter<'a> {
    pub(super) card: &'a Card,
    pub(super) sides: &'a Sides,
    pub(super) conflict: Conflict,
    /// The commit that merge attributes are taken from.
    target: CommitId,
}

impl Desk {
    /// Sits down to the cards of a run. An error if its coordinator lives.
    pub fn open(site: &Site, run: &RunDir) -> Result<Self, Error> {
        site.require_writable()?;
        let lock = RunLock::try_acquire(run)?;
        let (writer, opened) = JournalWriter::open(run, lock, site.clock.clone())?;
        // Before there is a recorder, which writes when it likes.
        if let Err(error) = atomic::remove_unfinished(run.root()) {
            tracing::warn!("what a command that was killed left stays for now: {}", with_causes(&error));
        }
        let recorder = Recorder::new(writer, &opened.events, Box::new(Quiet));
        let site = site.of_run(run, &load_settings(run)?)?;
        let desk = Self { site, recorder };
        desk.clear_away();
        Ok(desk)
    }

    /// The same, for who holds the run already.
    pub(super) fn of(site: Site, recorder: Recorder) -> Self {
        Self { site, recorder }
    }

    /// The repository that the cards are about.
    pub fn repository(&self) -> &Repository {
        &self.site.repository
    }

    /// How many cards wait.
    pub fn open_cards(&self) -> usize {
        self.recorder.state().open_cards().count()
    }

    /// Lets what a card holds be merged; or grants what it asks for, from the agent's next attempt on.
    pub fn approve(&self, card: &CardId, why: Option<String>) -> Result<Card, Error> {
        let card = self.open_card(card, AnswerKind::Approved)?;
        match card.kind {
            CardKind::Scope | CardKind::Protected | CardKind::Submodule | CardKind::ScopeRequest => {
                self.close(&card, Answer { why, ..self.answer(AnswerKind::Approved) }, None)
            }
            CardKind::Conflict => Err(refused(
                &card.id,
                AnswerKind::Approved,
                format!("it is a conflict, which is resolved: `sandbox board resolve {}`", card.id),
            )),
            CardKind::NestedRepository | CardKind::UnsafeTree | CardKind::MergeError => Err(refused(
                &card.id,
                AnswerKind::Approved,
                "what it is about can be merged by nobody's word: have the agent try again, or dismiss it".to_owned(),
            )),
            CardKind::Landing => Err(self.not_told(&card.id, AnswerKind::Approved)),
        }
    }

    /// Leaves the work out that a card holds; or refuses what it asks for, and the agent's work stays as it is.
    pub fn dismiss(&self, card: &CardId, why: Option<String>) -> Result<Card, Error> {
        let card = self.open_card(card, AnswerKind::Dismissed)?;
        if card.kind == CardKind::Landing {
            return Err(self.not_told(&card.id, AnswerKind::Dismissed));
        }
        self.close(&card, Answer { why, ..self.answer(AnswerKind::Dismissed) }, None)
    }

    /// Resolves a conflict with what one side has at each conflicting path.
    pub fn take(&self, card: &CardId, side: Take, why: Option<String>) -> Result<Card, Error> {
        let card = self.open_card(card, AnswerKind::Resolved)?;
        let matter = self.matter(&card)?;
        let (commit, told) = match side {
            Take::Ours => (&matter.sides.ours, "with the candidate's side"),
            Take::Theirs => (&matter.sides.theirs, "with the agent's side"),
        };
        let tree = self.site.repository.load_commit(commit)?.tree;
        let chosen = self.site.repository.load_chosen(&matter.conflict, &tree)?;
        self.resolve(&matter, chosen, why, told)
    }

    /// Resolves a conflict with what a commit has: someone's merge of both sides. It may differ from the merge as git
    /// computes it at the conflicting paths only.
    pub fn take_from_commit(&self, card: &CardId, revision: &str, why: Option<String>) -> Result<Card, Error> {
        let card = self.open_card(card, AnswerKind::Resolved)?;
        let matter = self.matter(&card)?;
        let commit = self.site.repository.resolve(revision)?;
        let tree = self.site.repository.load_commit(&commit)?.tree;
        self.require_only_conflicting(&matter, &tree)?;
        let chosen = self.site.repository.load_chosen(&matter.conflict, &tree)?;
        self.resolve(&matter, chosen, why, &format!("as in {}", commit.short()))
    }

    /// Resolves a conflict with the files that a folder has at the conflicting paths. One that is not there is deleted.
    pub fn take_from_folder(&self, card: &CardId, folder: &Path, why: Option<String>) -> Result<Card, Error> {
        let card = self.open_card(card, AnswerKind::Resolved)?;
        let matter = self.matter(&card)?;
        let paths = matter.conflict.paths();
        if let Some(top) = self.site.repository.top_level() {
            self.require_unfiltered(&matter, top, "merge by hand with --edit, and commit")?;
        }
        let mut chosen = Vec::new();
        for path in &paths {
            chosen.push((path.clone(), self.entry_in(&card, folder, path)?));
        }
        if chosen.iter().all(|(_, entry)| entry.is_none()) {
            let why = format!("`{}` has none of its paths: {}", folder.display(), listed(&paths));
            return Err(refused(&card.id, AnswerKind::Resolved, why));
        }
        self.resolve(&matter, chosen, why, &format!("as in `{}`", folder.display()))
    }

    fn entry_in(&self, card: &Card, folder: &Path, path: &RepoPath) -> Result<Option<Entry>, Error> {
        let repository = &self.site.repository;
        Ok(match find_in_folder(folder, path)? {
            InFolder::Nothing => None,
            InFolder::File { path: file, executable } => {
                let mode = if executable { Mode::EXECUTABLE } else { Mode::FILE };
                let file = std::path::absolute(&file).unwrap_or(file);
                Some(Entry { mode, id: repository.write_blob(path, &file)? })
            }
            InFolder::Link(target) => Some(Entry { mode: Mode::SYMLINK, id: repository.write_bytes(target)? }),
            InFolder::Other => {
                let why = format!("`{path}` in `{}` is neither a file nor a link", folder.display());
                return Err(refused(&card.id, AnswerKind::Resolved, why));
            }
        })
    }

    /// Makes the folder in which the conflict can be merged by hand, or finds the one that is there. True: it is new.
    pub fn edit(&self, card: &CardId) -> Result<(PathBuf, bool), Error> {
        let card = self.open_card(card, AnswerKind::Resolved)?;
        let place = self.place(&card.id);
        let matter = self.matter(&card)?;
        if place.worktree().symlink_metadata().is_ok() {
            // A program that died while it made it told nobody of it, so nobody has worked in it.
            if !is_being_made(&place) {
                drop(self.require_merging(&matter)?);
                return Ok((place.worktree().to_owned(), false));
            }
        }
        let sides = [&matter.sides.ours, &matter.sides.theirs];
        let reason = format!("sandbox {} card {}", self.recorder.run().id(), card.id);
        // What a program that died left of one.
        remove(&self.site.repository, &self.site.state, &place)?;
        merge_by_hand(&self.site.repository, &self.site.state, &place, sides, &matter.target, &reason)?;
        Ok((place.worktree().to_owned(), true))
    }

    /// Resolves a conflict with what was merged by hand in the folder of [`Self::edit`], and removes the folder. Where more lies
    /// in it than is kept by that, it stays, and this is why.
    pub fn done(&self, card: &CardId, why: Option<String>) -> Result<(Card, Option<String>), Error> {
        if let Some(done) = self.done_before(card)? {
            return Ok((done, None));
        }
        let card = self.open_card(card, AnswerKind::Resolved)?;
        let matter = self.matter(&card)?;
        let (place, admin_dir) = self.require_merging(&matter)?;
        let repository = &self.site.repository;
        let unmerged = repository.load_unmerged(place.worktree())?;
        let tree = self.merged_in(&matter, &place, &admin_dir)?;
        self.require_only_conflicting(&matter, &tree)?;
        let left = repository.load_chosen(&matter.conflict, &matter.conflict.tree)?;
        let chosen = self.site.repository.load_chosen(&matter.conflict, &tree)?;
        let untouched = |path: &&Chosen| unmerged.contains(&path.0) && left.contains(path);
        let still: Vec<RepoPath> = chosen.iter().filter(untouched).map(|(path, _)| path.clone()).collect();
        if !still.is_empty() {
            let why = format!(
                "{} still conflicts: edit it in `{}`, or `git add` it there if it is right as it is",
                listed(&still),
                place.worktree().display()
            );
            return Err(refused(&card.id, AnswerKind::Resolved, why));
        }
        let lost = self.lost_with(&place, &admin_dir, &tree)?;
        let closed = self.resolve(&matter, chosen, why, "merged by hand")?;
        let Some(lost) = lost else {
            remove(repository, &self.site.state, &place)?;
            return Ok((closed, None));
        };
        let stays = format!(
            "`{}` stays: {lost}; `sandbox board resolve {} --discard --run {}` removes it",
            place.worktree().display(),
            closed.id,
            self.recorder.run().id()
        );
        Ok((closed, Some(stays)))
    }

    /// The card, where [`Self::done`] had closed it and died before its folder was gone: what lies there is what was chosen, so
    /// that nothing goes with it.
    fn done_before(&self, card: &CardId) -> Result<Option<Card>, Error> {
        let card = self.known_card(card)?;
        let place = self.place(&card.id);
        let (CardState::Closed, Some(answer)) = (card.state, &card.answer) else { return Ok(None) };
        let (repository, is_there) = (&self.site.repository, place.worktree().symlink_metadata().is_ok());
        if answer.resolved.is_empty() || !is_there && !self.is_listed(&place)? {
            return Ok(None);
        }
        if is_there {
            // Where that cannot be told any more, the folder stays, and the card is closed as before.
            let Ok(matter) = self.matter(&card) else { return Ok(None) };
            let Ok((_, admin_dir)) = self.require_merging(&matter) else { return Ok(None) };
            let Ok(tree) = self.merged_in(&matter, &place, &admin_dir) else { return Ok(None) };
            let is_only_that = self.require_only_conflicting(&matter, &tree).is_ok();
            let chosen = repository.load_chosen(&matter.conflict, &tree)?;
            let is_whole = is_only_that && resolved_paths(chosen) == answer.resolved;
            if !is_whole || self.lost_with(&place, &admin_dir, &tree)?.is_some() {
                return Ok(None);
            }
        }
        remove(repository, &self.site.state, &place)?;
        Ok(Some(card))
    }

    /// What was merged by hand, as a tree.
    fn merged_in(&self, matter: &Matter<'_>, place: &Workplace, admin_dir: &Path) -> Result<TreeId, Error> {
        let repository = &self.site.repository;
        // What was committed has gone through the user's own git, filters and all.
        if let Some(tree) = repository.load_committed_merge(place.worktree(), &matter.sides.theirs)? {
            return Ok(tree);
        }
        self.require_unfiltered(matter, place.worktree(), "commit the merge there first")?;
        Ok(repository.load_merged_by_hand(place.worktree(), admin_dir)?)
    }

    fn is_listed(&self, place: &Workplace) -> Result<bool, Error> {
        Ok(self.site.repository.load_worktrees()?.iter().any(|worktree| worktree.path == place.worktree()))
    }

    /// Removes the folder of [`Self::edit`] with what was done in it.
    pub fn discard_edit(&self, card: &CardId) -> Result<PathBuf, Error> {
        let card = self.known_card(card)?;
        let place = self.place(&card.id);
        // Also what a program that died left of one: a folder without an entry, or an entry without its folder.
        if !self.is_listed(&place)? && place.worktree().symlink_metadata().is_err() {
            let why = "it is not being merged by hand".to_owned();
            return Err(refused(&card.id, AnswerKind::Resolved, why));
        }
        remove(&self.site.repository, &self.site.state, &place)?;
        Ok(place.worktree().to_owned())
    }

    pub(super) fn place(&self, card: &CardId) -> Workplace {
        self.site.workplaces.place(self.recorder.run().id(), &Occupant::Card(card.clone()))
    }

    pub(super) fn folder_of(&self, card: &Card) -> Result<(Workplace, PathBuf), Error> {
        let place = self.place(&card.id);
        let listed = self.site.repository.load_worktrees()?;
        let found = listed.into_iter().find(|worktree| worktree.path == place.worktree());
        match found.and_then(|worktree| worktree.git_dir) {
            Some(admin_dir) if place.worktree().is_dir() => Ok((place, admin_dir)),
            Some(_) | None => {
                let why =
                    format!("it is not being merged by hand: begin with `sandbox board resolve {} --edit`", card.id);
                Err(refused(&card.id, AnswerKind::Resolved, why))
            }
        }
    }

    /// Refuses files as they lie in a folder where the user's settings have them go through a filter on their way into the
    /// repository: no filter is run here, and what lies there may be what must not be committed.
    fn require_unfiltered(&self, matter: &Matter<'_>, folder: &Path, instead: &str) -> Result<(), Error> {
        let filtered = self.site.repository.load_filtered(folder, &matter.conflict.paths())?;
        let Some((path, filter)) = filtered.first() else { return Ok(()) };
        let why = format!("`{path}` goes through the filter `{filter}`, which is not run here: {instead}");
        Err(refused(&matter.card.id, AnswerKind::Resolved, why))
    }

    /// The folder in which a conflict is merged by hand, if it still is: a folder that was left half made, or in which the
    /// merge was given up, would pass for one side's content.
    fn require_merging(&self, matter: &Matter<'_>) -> Result<(Workplace, PathBuf), Error> {
        let (place, admin_dir) = self.folder_of(matter.card)?;
        if self.site.repository.is_merging(place.worktree(), &admin_dir, &matter.sides.theirs)? {
            return Ok((place, admin_dir));
        }
        let why = format!(
            "the merge is not under way in `{folder}` any more, or is of earlier work: `sandbox board resolve {card} --from \
             {folder}` takes what stands there; or remove it, `sandbox board resolve {card} --discard`, and begin anew with --edit",
            folder = place.worktree().display(),
            card = matter.card.id
        );
        Err(refused(&matter.card.id, AnswerKind::Resolved, why))
    }

    pub(super) fn known_card(&self, card: &CardId) -> Result<Card, Error> {
        let state = self.recorder.state();
        let known = state.cards.into_iter().find(|known| known.id == *card);
        known.ok_or_else(|| {
            let known = Vec::new();
            crate::store::Error::NotFound { what: "card", name: card.to_string(), known }.into()
        })
    }

    /// The card, if it waits for a decision.
    pub(super) fn open_card(&self, card: &CardId, what: AnswerKind) -> Result<Card, Error> {
        let card = self.known_card(card)?;
        match card.state {
            CardState::NeedsHuman => Ok(card),
            CardState::Closed => {
                let how = card.resolution.as_deref().unwrap_or("closed");
                Err(refused(&card.id, what, format!("it is closed already: {how}")))
            }
        }
    }

    /// That nobody's word says what became of a landing: the files do.
    fn not_told(&self, card: &CardId, what: AnswerKind) -> Error {
        let run = self.recorder.run().id();
        let why = format!(
            "no decision says what became of a landing: put the files as they should be, as `sandbox board show {card} --run {run}` \
             tells, then `sandbox land {run}` finds it out and closes the card"
        );
        refused(card, what, why)
    }

    /// The conflict of a card as git computes it now from the commits that the card names.
    pub(super) fn matter<'c>(&self, card: &'c Card) -> Result<Matter<'c>, Error> {
        if card.kind == CardKind::Landing {
            return Err(self.not_told(&card.id, AnswerKind::Resolved));
        }
        let refused = |why: &str| refused(&card.id, AnswerKind::Resolved, why.to_owned());
        let (CardKind::Conflict, Some(sides)) = (card.kind, &card.sides) else {
            return Err(refused("it is no conflict"));
        };
        let state = self.recorder.state();
        let onto = state.candidate.map(|it| it.head.onto).or_else(|| Some(state.started?.base));
        let target = onto.unwrap_or_else(|| sides.ours.clone());
        let merger = Merger::new(&self.site.repository, &target)?;
        match merger.preview(&sides.ours, &sides.theirs)? {
            Preview::Conflict(conflict) if conflict.fingerprint == card.fingerprint => {
                Ok(Matter { card, sides, conflict, target })
            }
            Preview::Conflict(_) | Preview::Clean { .. } => {
                Err(refused("git sees it otherwise now: `sandbox merge` makes the cards anew"))
            }
        }
    }

    /// Refuses a tree that differs from the merge elsewhere than where that conflicts.
    pub(super) fn require_only_conflicting(&self, matter: &Matter<'_>, tree: &TreeId) -> Result<(), Error> {
        let sides = [&matter.sides.ours, &matter.sides.theirs];
        let paths = matter.conflict.paths();
        let changes = self.site.repository.load_changes(&matter.conflict.tree, tree, Renames::Ignore)?;
        let others = changes.into_iter().map(|change| change.path);
        let others: Vec<RepoPath> =
            others.filter(|path| !paths.contains(path) && !Conflict::is_made_up(path, sides)).collect();
        if others.is_empty() {
            return Ok(());
        }
        let why = format!(
            "it changes {}, which do not conflict; a resolution is about {} only",
            listed(&others),
            listed(&paths)
        );
        Err(refused(&matter.card.id, AnswerKind::Resolved, why))
    }

    pub(super) fn resolve(
        &self,
        matter: &Matter<'_>,
        chosen: Vec<Chosen>,
        why: Option<String>,
        how: &str,
    ) -> Result<Card, Error> {
        let card = matter.card;
        let tree = self.settled(matter, &chosen)?;
        let kept_in = self.keep(&RefName::card, card, matter.sides, &tree, "Resolution")?;
        let (resolved, kept_in) = (resolved_paths(chosen), Some(kept_in));
        self.close(card, Answer { why, resolved, kept_in, ..self.answer(AnswerKind::Resolved) }, Some(how))
    }

    /// The merged tree with what was chosen in it, if that is a resolution: nothing is left of the conflict, and it can
    /// stand beside the rest.
    pub(super) fn settled(&self, matter: &Matter<'_>, chosen: &[Chosen]) -> Result<TreeId, Error> {
        let (card, repository) = (matter.card, &self.site.repository);
        let mut marked = Vec::new();
        for (path, entry) in chosen {
            let Some(entry) = entry.as_ref().filter(|entry| entry.mode.kind() == ModeKind::File) else { continue };
            let known: Vec<_> = card.stages.iter().filter(|it| it.path == *path).map(|it| &it.oid).collect();
            if repository.has_new_markers(&entry.id, &known)? {
                marked.push(path.clone());
            }
        }
        if !marked.is_empty() {
            let why = format!("conflict markers are left in {}", listed(&marked));
            return Err(refused(&card.id, AnswerKind::Resolved, why));
        }
        let sides = [&matter.sides.ours, &matter.sides.theirs];
        repository.write_resolved(&matter.conflict, sides, chosen).map_err(|error| {
            let why = format!(
                "what was chosen cannot stand beside the rest ({error}): merge by hand, `sandbox board resolve {} --edit`",
                card.id
            );
            refused(&card.id, AnswerKind::Resolved, why)
        })
    }

    /// Keeps what was chosen from git's collection by a ref, beside both sides and whatever the card's own ref keeps.
    pub(super) fn keep(
        &self,
        name: &dyn Fn(&RunId, &AgentName, &CardId) -> RefName,
        card: &Card,
        sides: &Sides,
        tree: &TreeId,
        what: &str,
    ) -> Result<CommitId, Error> {
        let (repository, run) = (&self.site.repository, self.recorder.run().id());
        let author = self.signature();
        let Some(agent) = card.agents.first() else {
            return Err(refused(&card.id, AnswerKind::Resolved, "it is about no agent".to_owned()));
        };
        let before = repository.load_ref(&RefName::card(run, agent, &card.id))?.map(CommitId::from);
        let parents: Vec<CommitId> = [sides.ours.clone(), sides.theirs.clone()].into_iter().chain(before).collect();
        let commit = repository.write_commit(&NewCommit {
            tree,
            parents: &parents,
            author: &author,
            committer: &author,
            message: &format!("{what} of card {}\n", card.id),
        })?;
        let name = name(run, agent, &card.id);
        repository.move_ref(&name, &commit, "sandbox: resolution")?.require()?;
        Ok(commit)
    }

    /// Who makes commits here, now.
    pub(super) fn signature(&self) -> Signature {
        let identity = self.site.identity();
        Signature {
            identity: crate::git::Identity { name: identity.name, email: identity.email },
            seconds: (self.site.clock)().as_second(),
            offset_minutes: 0,
        }
    }

    pub(super) fn answer(&self, kind: AnswerKind) -> Answer {
        let identity = self.site.identity();
        let by = format!("{} <{}>", identity.name, identity.email);
        Answer { kind, by, why: None, resolved: Vec::new(), kept_in: None }
    }

    fn close(&self, card: &Card, answer: Answer, how: Option<&str>) -> Result<Card, Error> {
        let how = how.map(|how| format!(" {how},")).unwrap_or_default();
        let why = answer.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let resolution = format!("{}{how} by {}{why}", answer.kind, answer.by);
        let subject = card.agents.first().map_or_else(Subject::run, |agent: &AgentName| Subject::agent(agent));
        let closed = CardClosed { card: card.id.clone(), resolution, answer: Some(answer) };
        self.recorder.record(subject, EventKind::CardClosed(closed))?;
        self.forget_proposal(card)?;
        self.known_card(&card.id)
    }
}

/// What was chosen, as the journal has it.
pub(super) fn resolved_paths(chosen: Vec<Chosen>) -> Vec<ResolvedPath> {
    let resolved = chosen.into_iter().map(|(path, entry)| ResolvedPath {
        path,
        mode: entry.as_ref().map(|entry| entry.mode.to_string()),
        oid: entry.map(|entry| entry.id),
    });
    resolved.collect()
}

pub(super) fn refused(card: &CardId, what: AnswerKind, why: String) -> Error {
    Error::NotDecided { card: card.clone(), what, why }
}

pub(super) fn listed(paths: &[RepoPath]) -> String {
    let mut text = paths.iter().take(NAMED).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    if paths.len() > NAMED {
        text = format!("{text} and {} more", paths.len() - NAMED);
    }
    text
}

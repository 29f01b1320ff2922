//! The candidate: begun anew at the target's tip, then advanced by each merge.
//!
//! In this order: the journal says that the candidate begins anew; everything is previewed; the journal gets all previews,
//! then all new cards, then the closing of cards that no longer apply; then the claim of whose work comes in; what was looked
//! at is read once more; the journal gets one step for each merge; the branch is set to the last, read back, and confirmed.
//! A crash in between leaves the branch at a commit that the journal knows, and integrating again begins anew.
//!
//! The branch moves once, from where it was to what it is to be: so what is refused leaves it as it was, with all that it
//! held. Work that may not be tried again by itself is left out, and keeps nothing else from being merged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::git::{NewCommit, RefEdit, Swap};
use crate::model::card::{Card, CardKind};
use crate::model::change::{CheckpointKind, GitCheckpoint};
use crate::model::currency::{
    Asker, Authority, Begin, Claim, Input, Refusal, Release, Sight, State, may_begin, permit, step,
};
use crate::model::event::{
    CandidateAdvanced, CardClosed, ClaimedWork, Effect, EffectKind, EventKind, MergePreviewed, PreviewResult, Shape,
    Subject,
};
use crate::model::plan::History;
use crate::model::{AgentName, CardId, CommitId, ObjectId, RefName, TreeId};
use crate::store::{Record, process};

use super::error::Error;
use super::facts::Facts;
use super::following::Following;
use super::gates;
use super::keep::set_ref;
use super::open::open_or_update;
use super::preview::{Placed, Previewed, Previews, Question, preview};
use super::settle::{BACKOFF, Settled, release_moved, settle_held};

/// A request to make the candidate.
#[derive(Clone)]
pub struct Integration<'a> {
    /// The run.
    pub facts: Facts<'a>,
    /// The branch the result is meant for, if any.
    pub target: Option<RefName>,
    /// The target's tip, read just now.
    pub onto: CommitId,
    /// Who asks for it.
    pub asked: Asker,
    /// Whether updating the candidate is allowed. Looking is always.
    pub authority: Authority,
    /// Whether the run ends, so that nothing new begins. Asked right before.
    pub ending: &'a dyn Fn() -> bool,
    /// Waits for so long.
    pub pause: &'a dyn Fn(Duration),
    /// Where it is told.
    pub journal: &'a dyn Record,
}

impl std::fmt::Debug for Integration<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Integration").field("target", &self.target).field("onto", &self.onto).finish_non_exhaustive()
    }
}

/// A candidate that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Integrated {
    /// The candidate: [`Self::onto`] where nothing was merged.
    pub candidate: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// What it is built on.
    pub onto: CommitId,
    /// Every agent, in the order of merging.
    pub agents: Vec<Previewed>,
    /// Cards that are new.
    pub opened: Vec<CardId>,
    /// Cards that no longer apply.
    pub closed: Vec<CardId>,
    /// Why nothing was merged, where something could have been.
    pub held_back: Option<Refusal>,
    /// What moved after it was looked at, so that nothing was merged: it is to be looked at anew.
    pub moved: Option<String>,
}

impl Integrated {
    /// What became of an agent.
    pub fn agent(&self, name: &AgentName) -> Option<&Placed> {
        self.agents.iter().find(|previewed| previewed.agent == *name).map(|previewed| &previewed.placed)
    }

    /// Work that merges and was left out, with why.
    pub fn left_out(&self) -> impl Iterator<Item = (&AgentName, Refusal)> {
        self.agents.iter().filter_map(|previewed| match previewed.placed {
            Placed::Refused(refusal) => Some((&previewed.agent, refusal)),
            Placed::Absent(_)
            | Placed::Nothing
            | Placed::Contained
            | Placed::Merged { .. }
            | Placed::Conflict(_)
            | Placed::Held(_)
            | Placed::SetAside(_)
            | Placed::Blocked(_)
            | Placed::Stale(_)
            | Placed::Error(_) => None,
        })
    }
}

/// Makes the candidate from the agents' present snapshots.
pub fn integrate(integration: &Integration<'_>) -> Result<Integrated, Error> {
    let told = Following::new(integration.journal, integration.facts.state);
    let integration = &Integration { journal: &told, ..integration.clone() };
    let facts = &integration.facts;
    let reference = RefName::integration(facts.run.id());
    let at = begin(integration, &reference)?;
    let previews = look(integration, &told)?;
    for previewed in &previews.agents {
        tell_preview(integration, previewed)?;
    }
    let opened = open_cards(integration, &previews)?;
    let closed = close_cards(integration, &previews)?;
    let published = publish(integration, &previews)?;
    let moving = Moving { integration, told: &told, reference: &reference, at: at.as_ref(), previews: &previews };
    let (held_back, moved) = match moving.go(&published)? {
        Moved::There => (None, None),
        Moved::Refused(refusal) => (Some(refusal), None),
        Moved::Overtaken(what) => (None, Some(what)),
    };
    let onto = integration.onto.clone();
    let (candidate, tree) = if held_back.is_none() && moved.is_none() {
        (published.candidate, previews.tree)
    } else {
        (onto.clone(), facts.repository.load_commit(&onto)?.tree)
    };
    Ok(Integrated { candidate, tree, onto, agents: previews.agents, opened, closed, held_back, moved })
}

/// Everything, previewed. What the run may not try again by itself is left out, and the rest is previewed without it: what
/// was tried is told as it was seen then, so that it stays known for that.
fn look(integration: &Integration<'_>, told: &Following<'_>) -> Result<Previews, Error> {
    let mut left_out: Vec<Previewed> = Vec::new();
    loop {
        let previews = preview(&Question {
            facts: integration.facts,
            target: integration.target.as_ref(),
            onto: &integration.onto,
            trusted: std::slice::from_ref(&integration.onto),
            for_agent: None,
            left_out: &left_out,
        })?;
        let mut refused = Vec::new();
        for previewed in &previews.agents {
            if let Some(refusal) = refusal(integration, told, previewed)? {
                refused.push(Previewed { placed: Placed::Refused(refusal), ..previewed.clone() });
            }
        }
        if refused.is_empty() {
            return Ok(previews);
        }
        left_out.extend(refused);
    }
}

/// Why work that merges may not be tried, where it may not for what was done about it before.
fn refusal(
    integration: &Integration<'_>,
    told: &Following<'_>,
    previewed: &Previewed,
) -> Result<Option<Refusal>, Error> {
    let Placed::Merged { .. } = &previewed.placed else { return Ok(None) };
    let Some(item) = told.read(|state| state.agent(&previewed.agent)?.merging.clone()) else { return Ok(None) };
    let sight = Sight {
        key: previewed.observation_key.clone(),
        head: previewed.contribution.as_ref().map(|made| made.commit.clone()),
        status: previewed.currency,
        route: previewed.route.clone(),
    };
    // What must not be looked at is refused where that is told.
    let Ok(seen) = step(&item, &Input::Mergeable(&sight)) else { return Ok(None) };
    if seen.state == State::Confirmed {
        return Ok(None);
    }
    let invocation = process::current()?;
    let claim = Claim { key: &sight.key, invocation: &invocation, asked: integration.asked };
    Ok(step(&seen, &Input::Claim(claim)).err())
}

/// What became of the candidate's branch.
enum Moved {
    /// It is at the candidate, or there is none to be at.
    There,
    /// It may not be moved. It is where it was.
    Refused(Refusal),
    /// This moved since it was looked at. The branch is where it was.
    Overtaken(String),
}

/// The move of the candidate's branch.
struct Moving<'m> {
    integration: &'m Integration<'m>,
    told: &'m Following<'m>,
    reference: &'m RefName,
    /// Where the branch is.
    at: Option<&'m ObjectId>,
    previews: &'m Previews,
}

impl Moving<'_> {
    /// Moves the candidate's branch to what the merges gave: claims, looks once more, acts, reads back. Where that proves
    /// that nothing has happened, once more after a moment.
    fn go(&self, published: &Published) -> Result<Moved, Error> {
        let Self { integration, reference, previews, .. } = self;
        let mut asked = integration.asked;
        for first in [true, false] {
            let works = match claimable(integration, self.told, previews, asked)? {
                Ok(works) => works,
                Err(refusal) => return Ok(Moved::Refused(refusal)),
            };
            if works.is_empty() && self.is_there(&published.candidate) {
                tell_merges(integration, reference, previews, published)?;
                return Ok(Moved::There);
            }
            if let Err(refusal) = may_begin(integration.authority, (integration.ending)()) {
                return Ok(Moved::Refused(refusal));
            }
            let claim = self.claim(&published.candidate, works, asked)?;
            let heads = match self.look_again()? {
                Ok(heads) => heads,
                Err(what) => {
                    release_moved(integration.journal, &claim, &what)?;
                    return Ok(Moved::Overtaken(what));
                }
            };
            if first {
                keep_merges(integration, previews)?;
                tell_merges(integration, reference, previews, published)?;
            }
            let swapped = self.swap(&published.candidate, heads);
            if let Ok(Some(what)) = &swapped {
                release_moved(integration.journal, &claim, what)?;
                return Ok(Moved::Overtaken(what.clone()));
            }
            match (settle_held(integration.facts.repository, integration.journal, &claim)?, swapped) {
                (Settled::Confirmed, _) => break,
                (Settled::Released(Release::Untouched), Err(_)) if first => {
                    // Once more is the program's own doing, whoever asked for the first.
                    asked = Asker::Run;
                    (integration.pause)(BACKOFF);
                }
                (Settled::Released(_) | Settled::Stuck(_), Err(error)) => return Err(error),
                (Settled::Released(_) | Settled::Stuck(_), Ok(_)) => {
                    let found = integration.facts.repository.load_ref(reference)?;
                    let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
                    return Err(Error::CandidateMoved { reference: (*reference).clone(), found });
                }
            }
        }
        Ok(Moved::There)
    }

    /// Whether the branch need not move: it is at the candidate, or there is neither.
    fn is_there(&self, candidate: &CommitId) -> bool {
        match self.at {
            Some(at) => at == candidate.object(),
            None => *candidate == self.integration.onto,
        }
    }

    /// Claims, on disk, that the branch moves.
    fn claim(&self, candidate: &CommitId, works: Vec<ClaimedWork>, asked: Asker) -> Result<Effect, Error> {
        let before = self.at.map_or_else(|| self.integration.onto.clone(), |at| CommitId::from(at.clone()));
        let effect = Effect {
            key: format!("merge {} {before} {candidate}", self.reference),
            effect: EffectKind::Merge,
            reference: self.reference.clone(),
            before,
            created: self.at.is_none(),
            after: candidate.clone(),
            checkout: None,
            rescue: None,
            note: None,
            invocation: Some(process::current()?),
            works,
            observation_key: None,
            attempt: None,
            asked: Some(asked),
            release: None,
        };
        self.integration.journal.record(Subject::run(), EventKind::EffectClaimed(effect.clone()))?;
        Ok(effect)
    }

    /// Looks once more, right before the branch moves, at all that was looked at: the target's tip, and the branch of every
    /// agent that is merged. Gives these branches as they must still be in the moment of the move; or what has moved.
    fn look_again(&self) -> Result<Result<Vec<RefEdit>, String>, Error> {
        let facts = &self.integration.facts;
        let branches = RefName::agent_branches(facts.run.id());
        let names: Vec<&str> =
            std::iter::once(branches.as_str()).chain(self.integration.target.as_ref().map(RefName::as_str)).collect();
        let refs: BTreeMap<RefName, ObjectId> =
            facts.repository.load_refs_of(&names)?.into_iter().map(|found| (found.name, found.id)).collect();
        if let Some(target) = &self.integration.target {
            let found = refs.get(target);
            if found != Some(self.integration.onto.object()) {
                return Ok(Err(moved(target, found)));
            }
        }
        let mut heads = Vec::new();
        for previewed in self.previews.agents.iter().filter(|it| matches!(it.placed, Placed::Merged { .. })) {
            let name = RefName::agent_branch(facts.run.id(), &previewed.agent);
            // One that is gone can hold nothing that is not in the snapshot.
            let (Some(found), Some(snapshot)) = (refs.get(&name), &previewed.snapshot) else { continue };
            if found != snapshot.object() {
                return Ok(Err(moved(&name, Some(found))));
            }
            heads.push(RefEdit::Verify { name, old: Some(found.clone()) });
        }
        Ok(Ok(heads))
    }

    /// Moves the branch, if these others stand still. Gives which of them does not; then nothing was done.
    fn swap(&self, candidate: &CommitId, heads: Vec<RefEdit>) -> Result<Option<String>, Error> {
        let (name, new) = (self.reference.clone(), candidate.object().clone());
        let mut edits = heads;
        match self.at {
            Some(at) if *at == new => return Ok(None),
            Some(at) => edits.push(RefEdit::Update { name, new, old: at.clone() }),
            None => edits.push(RefEdit::Create { name, new }),
        }
        match self.integration.facts.repository.swap_refs(&edits, "sandbox: candidate")? {
            Swap::Done => Ok(None),
            Swap::Lost { name, found, .. } if name == *self.reference => {
                let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
                Err(Error::CandidateMoved { reference: name, found })
            }
            Swap::Lost { name, found, .. } => Ok(Some(moved(&name, found.as_ref()))),
        }
    }
}

fn moved(name: &RefName, found: Option<&ObjectId>) -> String {
    let found = gates::moved_text(found.map(|found| CommitId::from(found.clone())).as_ref());
    format!("`{}` was moved after it was looked at: {found}", name.short())
}

/// Whose work comes in now that was not there before; or why none may. What was confirmed for exactly this is laid out again
/// and is no new attempt.
fn claimable(
    integration: &Integration<'_>,
    told: &Following<'_>,
    previews: &Previews,
    asked: Asker,
) -> Result<Result<Vec<ClaimedWork>, Refusal>, Error> {
    let invocation = process::current()?;
    let mut works = Vec::new();
    for previewed in &previews.agents {
        let Placed::Merged { .. } = &previewed.placed else { continue };
        let item = told.read(|state| state.agent(&previewed.agent)?.merging.clone());
        // An agent that was previewed has one.
        let Some(item) = item.filter(|item| item.state != State::Confirmed) else { continue };
        let key = &previewed.observation_key;
        let claim = Claim { key, invocation: &invocation, asked };
        let begin = Begin { authority: integration.authority, ending: (integration.ending)(), claim };
        match permit(&item, &begin) {
            Ok(claimed) => works.push(ClaimedWork {
                agent: previewed.agent.clone(),
                observation_key: key.clone(),
                attempt: claimed.next_attempt(),
            }),
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
    Ok(Ok(works))
}

/// Begins the candidate anew at the target's tip: in the journal, for its branch does not move yet. Gives where that is.
fn begin(integration: &Integration<'_>, reference: &RefName) -> Result<Option<ObjectId>, Error> {
    let facts = &integration.facts;
    let found = facts.repository.load_ref(reference)?;
    if let Some(found) = &found {
        if !is_known(facts, found) && found != integration.onto.object() {
            return Err(Error::CandidateMoved { reference: reference.clone(), found: found.to_string() });
        }
        let holder = facts.repository.load_worktrees()?.into_iter().find(|it| it.branch.as_ref() == Some(reference));
        if let Some(holder) = holder {
            return Err(Error::CandidateCheckedOut { reference: reference.clone(), path: holder.path });
        }
    }
    let begun = CandidateAdvanced {
        reference: reference.clone(),
        onto: integration.onto.clone(),
        from: found.clone().map_or_else(|| integration.onto.clone(), CommitId::from),
        to: integration.onto.clone(),
        tree: facts.repository.load_commit(&integration.onto)?.tree,
        contribution: None,
        merge: None,
        history: None,
    };
    integration.journal.record(Subject::run(), EventKind::CandidateAdvanced(begun))?;
    Ok(found)
}

/// Whether the journal knows that the candidate was, or was to be, this commit.
fn is_known(facts: &Facts<'_>, found: &ObjectId) -> bool {
    let head = facts.state.candidate.iter().flat_map(|it| [&it.head.onto, &it.head.from, &it.head.to]);
    let steps = facts.state.agents.iter().filter_map(|agent| agent.merge.as_ref()?.merged_as.as_ref());
    head.chain(steps).chain(&facts.state.candidate_branch).any(|commit| commit.object() == found)
}

/// Tells of one preview; what offered nothing was not previewed.
fn tell_preview(integration: &Integration<'_>, previewed: &Previewed) -> Result<(), Error> {
    let (result, blocked_by) = match &previewed.placed {
        Placed::Absent(_) | Placed::Nothing => return Ok(()),
        Placed::Contained | Placed::Merged { .. } | Placed::Refused(_) => (PreviewResult::Clean, Vec::new()),
        Placed::Conflict(_) => (PreviewResult::Conflict, Vec::new()),
        Placed::Held(_) => (PreviewResult::Held, Vec::new()),
        Placed::SetAside(_) => (PreviewResult::SetAside, Vec::new()),
        Placed::Blocked(by) | Placed::Stale(by) => (PreviewResult::Blocked, by.clone()),
        Placed::Error(_) => (PreviewResult::Error, Vec::new()),
    };
    // Without a snapshot there is no preview to tell of; the card tells.
    let Some(snapshot) = previewed.snapshot.clone() else { return Ok(()) };
    let told = MergePreviewed {
        onto: previewed.onto.clone(),
        contribution: previewed.contribution.as_ref().map(|made| made.commit.clone()),
        snapshot,
        currency: previewed.currency,
        result,
        cards: previewed.placed.cards().iter().map(|card| card.id.clone()).collect(),
        blocked_by,
        observation_key: previewed.observation_key.clone(),
        route: previewed.route.clone(),
    };
    integration.journal.record(Subject::agent(&previewed.agent), EventKind::MergePreviewed(told))?;
    Ok(())
}

/// Opens the cards that are not open yet, and tells those anew that say something else now. Gives those that are new.
fn open_cards(integration: &Integration<'_>, previews: &Previews) -> Result<Vec<CardId>, Error> {
    let mut opened: Vec<CardId> = Vec::new();
    for previewed in &previews.agents {
        for card in previewed.placed.cards() {
            let is_new = !opened.contains(&card.id);
            if is_new && open_or_update(&integration.facts, integration.journal, &previewed.agent, card)? {
                opened.push(card.id.clone());
            }
        }
    }
    Ok(opened)
}

/// Closes cards of earlier that these previews have an answer to.
fn close_cards(integration: &Integration<'_>, previews: &Previews) -> Result<Vec<CardId>, Error> {
    let standing: BTreeSet<&CardId> =
        previews.agents.iter().flat_map(|it| it.placed.cards()).map(|card| &card.id).collect();
    let mut closed = Vec::new();
    for card in integration.facts.state.open_cards().filter(|card| !standing.contains(&card.id)) {
        let waiting = card.agents.first();
        let previewed = previews.agents.iter().find(|it| Some(&it.agent) == waiting);
        let Some(resolution) = previewed.and_then(|it| resolution(card, it)) else { continue };
        let kind = EventKind::CardClosed(CardClosed { card: card.id.clone(), resolution, answer: None });
        integration.journal.record(waiting.map_or_else(Subject::run, Subject::agent), kind)?;
        closed.push(card.id.clone());
    }
    Ok(closed)
}

/// How a card came to be closed; none if it is not known whether it still applies.
fn resolution(card: &Card, previewed: &Previewed) -> Option<String> {
    // What an agent asks for waits for a person, whatever becomes of the work it has.
    if card.kind == CardKind::ScopeRequest {
        return None;
    }
    let agent = &previewed.agent;
    match &previewed.placed {
        Placed::Merged { .. } | Placed::Refused(_) => Some(format!("`{agent}` merges cleanly now")),
        Placed::Contained => Some(format!("the work of `{agent}` is there already")),
        Placed::Nothing => Some(format!("`{agent}` has nothing to merge any more")),
        Placed::Absent(outcome) => {
            let outcome = outcome.map_or("not finished", |outcome| outcome.name());
            Some(format!("`{agent}` does not offer the work that this was about any more: {outcome}"))
        }
        Placed::Conflict(_) | Placed::Held(_) | Placed::Error(_) => {
            let now = previewed.placed.cards().first()?;
            Some(format!("it is no longer this {} but another matter: card {}", card.kind, now.id))
        }
        // It was not held against anything this time.
        Placed::Blocked(_) | Placed::Stale(_) => None,
        Placed::SetAside(by) => Some(format!("the work of `{agent}` is left out, as was decided on card {by}")),
    }
}

/// Keeps the merges behind squashed commits from git's collection: whatever builds on them is held against them.
fn keep_merges(integration: &Integration<'_>, previews: &Previews) -> Result<(), Error> {
    let facts = &integration.facts;
    if facts.plan.history != History::Squash || previews.candidate == integration.onto {
        return Ok(());
    }
    set_ref(facts, &RefName::merges(facts.run.id()), &previews.candidate, "sandbox: merges")
}

/// The commit that a merge is squashed to: its tree and its words, on the candidate as it is.
fn squashed(facts: &Facts<'_>, merge: &CommitId, onto: &CommitId) -> Result<CommitId, Error> {
    let merge = facts.repository.load_commit(merge)?;
    Ok(facts.repository.write_commit(&NewCommit {
        tree: &merge.tree,
        parents: std::slice::from_ref(onto),
        author: &merge.author,
        committer: &merge.committer,
        message: &merge.message_text(),
    })?)
}

/// What the candidate is made of.
struct Published {
    /// For each agent that is merged, the commit by which it is.
    steps: BTreeMap<AgentName, CommitId>,
    /// The last of them.
    candidate: CommitId,
}

fn publish(integration: &Integration<'_>, previews: &Previews) -> Result<Published, Error> {
    let facts = &integration.facts;
    let mut published = Published { steps: BTreeMap::new(), candidate: integration.onto.clone() };
    for previewed in &previews.agents {
        let Placed::Merged { commit, .. } = &previewed.placed else { continue };
        published.candidate = match facts.plan.history {
            History::Merge | History::Commits => commit.clone(),
            History::Squash => squashed(facts, commit, &published.candidate)?,
        };
        published.steps.insert(previewed.agent.clone(), published.candidate.clone());
    }
    Ok(published)
}

/// Tells of every merge, in order.
fn tell_merges(
    integration: &Integration<'_>,
    reference: &RefName,
    previews: &Previews,
    published: &Published,
) -> Result<(), Error> {
    let facts = &integration.facts;
    let mut at = integration.onto.clone();
    let mut behind = at.clone();
    let mut at_tree = facts.repository.load_commit(&at)?.tree;
    for previewed in &previews.agents {
        let Some(made) = &previewed.contribution else { continue };
        let (merged, changed) = match &previewed.placed {
            Placed::Merged { commit, tree, history, changed } => (Some((commit, tree, history)), Some(changed)),
            Placed::Contained => (None, None),
            Placed::Absent(_)
            | Placed::Nothing
            | Placed::Refused(_)
            | Placed::Conflict(_)
            | Placed::Held(_)
            | Placed::SetAside(_)
            | Placed::Blocked(_)
            | Placed::Stale(_)
            | Placed::Error(_) => continue,
        };
        let from = at.clone();
        let mut history = None;
        if let Some((commit, tree, shape)) = merged {
            behind = commit.clone();
            history = match facts.plan.history {
                History::Merge | History::Commits => shape.clone(),
                History::Squash => Some(Shape { form: History::Squash, commits: 0, reason: None }),
            };
            at = published.steps.get(&previewed.agent).unwrap_or(commit).clone();
            at_tree = tree.clone();
        }
        // What is contained is part of the candidate as it is: a step that leads nowhere.
        let advanced = CandidateAdvanced {
            reference: reference.clone(),
            onto: integration.onto.clone(),
            from: from.clone(),
            to: at.clone(),
            tree: at_tree.clone(),
            contribution: Some(made.commit.clone()),
            merge: (behind != at).then(|| behind.clone()),
            history,
        };
        let subject = Subject::agent(&previewed.agent);
        integration.journal.record(subject.clone(), EventKind::CandidateAdvanced(advanced))?;
        let id = format!("{}/merge-{}", previewed.agent, at.short());
        let is_new = !facts.state.checkpoints.iter().any(|known| known.id == id);
        if let Some(changed) = changed.filter(|_| is_new) {
            let checkpoint = GitCheckpoint {
                id,
                turn: Some(made.turn),
                kind: CheckpointKind::WorktreeMerge,
                head: Some(from),
                patch_path: None,
                commit_sha: Some(at.clone()),
                changed_paths: changed.clone(),
                verifier_command: None,
                verifier_passed: None,
            };
            integration.journal.record(subject, EventKind::CheckpointCreated(Box::new(checkpoint)))?;
        }
    }
    Ok(())
}

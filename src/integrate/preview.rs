//! Previews: every agent's work held against the tip and merged in the object database, in order, each onto what the ones
//! before it gave.
//!
//! For each agent, the first of these that applies decides:
//! 1. It offers nothing, or its records are in doubt.
//! 2. Its work is in the target already.
//! 3. Its branch was moved by something else; or its fork point is made of something that is neither in the target nor a
//!    merge of this run: the target was rewritten.
//! 4. Something it builds on, by the plan or by its fork point, is not merged: it is blocked.
//! 5. What it builds on has changed since its worktree was made: it is stale.
//! 6. It changed paths outside its contract, or made something that must not be merged unseen: it is held, unless a person
//!    approved of exactly that.
//! 7. Git merges it, or says why not; then what a person decided about exactly this conflict holds.

use std::collections::BTreeMap;

use crate::board::{self, HeldPath};
use crate::change::tree_check::{Finding, FindingKind};
use crate::change::{bundle, contract};
use crate::git::{self, Chosen, Conflict, Entry, Merger, Mode, NewCommit, TreeChange};
use crate::model::card::{Answer, AnswerKind, Card, CardKind, ResolvedPath, Sides};
use crate::model::event::{Currency, Shape};
use crate::model::plan::{AgentTask, History};
use crate::model::refusal::Refusal;
use crate::model::run::AgentState;
use crate::model::{AgentName, AttemptOutcome, CardId, CommitId, RefName, RepoPath, TreeId};
use crate::plan::{Graph, Protected, Scope};
use crate::store::space;

use super::contribution::{Contribution, Work, contribution};
use super::currency::{Observation, currency, observation_key};
use super::error::Error;
use super::facts::Facts;
use super::fork::{Fork, fork_point};
use super::history::{Own, own};
use super::message::{self, Terms, Told};
use super::order::merge_order;

/// What becomes of an agent's work.
#[derive(Debug, Clone, PartialEq)]
pub enum Placed {
    /// It did not complete; how it ended, if it did.
    Absent(Option<AttemptOutcome>),
    /// It completed and has nothing to merge.
    Nothing,
    /// All of it is there already, so no merge is made.
    Contained,
    /// It merges.
    Merged {
        /// The merge commit.
        commit: CommitId,
        /// Its tree.
        tree: TreeId,
        /// What form the work has, where the plan asks for the agents' own commits.
        history: Option<Shape>,
        /// The paths that the merge changes in the candidate.
        changed: Vec<RepoPath>,
    },
    /// It conflicts.
    Conflict(Box<Card>),
    /// It is held for what it contains.
    Held(Vec<Card>),
    /// A person decided, on this card, to leave it out.
    SetAside(CardId),
    /// It builds on these agents, which are not merged.
    Blocked(Vec<AgentName>),
    /// These agents' work has changed since its worktree was made from it.
    Stale(Vec<AgentName>),
    /// The merge could not be computed.
    Error(Box<Card>),
}

impl Placed {
    /// The cards it gives.
    pub fn cards(&self) -> &[Card] {
        match self {
            Self::Conflict(card) | Self::Error(card) => std::slice::from_ref(card),
            Self::Held(cards) => cards,
            Self::Absent(_)
            | Self::Nothing
            | Self::Contained
            | Self::Merged { .. }
            | Self::SetAside(_)
            | Self::Blocked(_)
            | Self::Stale(_) => &[],
        }
    }

    /// Whether what builds on it may be merged.
    pub fn is_in(&self) -> bool {
        match self {
            Self::Nothing | Self::Contained | Self::Merged { .. } => true,
            Self::Absent(_)
            | Self::Conflict(_)
            | Self::Held(_)
            | Self::SetAside(_)
            | Self::Blocked(_)
            | Self::Stale(_)
            | Self::Error(_) => false,
        }
    }
}

/// One agent, previewed.
#[derive(Debug, Clone, PartialEq)]
pub struct Previewed {
    /// The agent.
    pub agent: AgentName,
    /// Its work, where it offers any that is sound.
    pub contribution: Option<Contribution>,
    /// The snapshot it is about.
    pub snapshot: Option<CommitId>,
    /// The exact commit it was held against.
    pub onto: CommitId,
    /// How it stands to that.
    pub currency: Currency,
    /// Whose work it builds on: `independent`, or the names.
    pub route: String,
    /// Equal for two previews of the same thing.
    pub observation_key: String,
    /// What becomes of it.
    pub placed: Placed,
}

/// All agents of a plan, previewed onto one tip.
#[derive(Debug)]
pub(super) struct Previews {
    /// In the order of merging.
    pub(super) agents: Vec<Previewed>,
    /// What the merges give.
    pub(super) candidate: CommitId,
    /// Its tree.
    pub(super) tree: TreeId,
}

/// What to preview, and onto what.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) facts: Facts<'a>,
    /// For the observation key only.
    pub(super) target: Option<&'a RefName>,
    /// What the first one is merged onto, and where merge attributes come from.
    pub(super) onto: &'a CommitId,
    /// Commits whose whole history may come along: what is in the target anyway.
    pub(super) trusted: &'a [CommitId],
    /// Only what this agent builds on, itself left out; all agents if none.
    pub(super) for_agent: Option<&'a AgentName>,
}

pub(super) fn preview(question: &Question<'_>) -> Result<Previews, Error> {
    let facts = &question.facts;
    let origins = load_origins(question)?;
    let contained: Vec<Vec<usize>> = origins.iter().map(Origin::contained).collect();
    let chosen = chosen(question, &contained);
    let tree = facts.repository.load_commit(question.onto)?.tree;
    let start = start(question, &tree)?;
    let mut walk = Walk {
        question,
        graph: Graph::of(facts.plan),
        merger: Merger::new(facts.repository, question.onto)?,
        protected: Protected::new(&facts.plan.protect).map_err(Error::Protect)?,
        candidate: start.clone(),
        start,
        tree,
        done: BTreeMap::new(),
        origins,
    };
    let mut agents = Vec::new();
    for at in merge_order(facts.plan, &contained) {
        if chosen[at] {
            let previewed = walk.step(at)?;
            walk.done.insert(at, previewed.placed.clone());
            agents.push(previewed);
        }
    }
    Ok(Previews { agents, candidate: walk.candidate, tree: walk.tree })
}

/// What the first agent is merged onto: the target's tip. Where squashed commits have landed on it, it has none of the
/// merges behind them in its history, and what builds on those would be held against the wrong base. So one commit of the
/// same tree joins the two.
fn start(question: &Question<'_>, tree: &TreeId) -> Result<CommitId, Error> {
    let facts = &question.facts;
    for step in facts.state.steps.iter().rev() {
        let Some(merge) = &step.merge else { continue };
        if facts.repository.is_ancestor(&step.to, question.onto)? {
            // Where somebody deleted the ref that keeps it, what builds on it is held against what is left.
            match facts.repository.load_commit(merge) {
                Ok(_) => {}
                Err(git::Error::MissingObject { .. }) => return Ok(question.onto.clone()),
                Err(error) => return Err(error.into()),
            }
            let signature = facts.signature();
            return Ok(facts.repository.write_commit(&NewCommit {
                tree,
                parents: &[question.onto.clone(), merge.clone()],
                author: &signature,
                committer: &signature,
                message: &message::join(facts.run.id(), merge),
            })?);
        }
    }
    Ok(question.onto.clone())
}

/// What an agent offers, and what its fork point is made of.
struct Origin {
    work: Work,
    /// Its own commits, where the plan asks for them.
    own: Option<Own>,
    makings: Makings,
    /// Whether the work is in the target already.
    landed: bool,
}

/// What a fork point is made of.
#[derive(Default)]
struct Makings {
    /// Agents and contributions that it holds and the target does not.
    holds: Vec<(usize, CommitId)>,
    /// The merges that brought them in.
    merges: Vec<CommitId>,
    /// A commit below them that is not in the target either.
    foreign: Option<CommitId>,
}

impl Origin {
    fn contained(&self) -> Vec<usize> {
        self.makings.holds.iter().map(|(agent, _)| *agent).collect()
    }
}

fn load_origins(question: &Question<'_>) -> Result<Vec<Origin>, Error> {
    let facts = &question.facts;
    let mut trust = Trust { question, known: BTreeMap::new() };
    let mut origins = Vec::new();
    for task in &facts.plan.agents {
        let work = contribution(facts, &task.name)?;
        let mut origin = Origin { work, own: None, makings: Makings::default(), landed: false };
        if let Work::Made(made) = &origin.work {
            let (fork, commit) = (made.fork.clone(), made.commit.clone());
            origin.landed = *question.onto != *facts.base && trust.has_landed(&commit)?;
            if !origin.landed {
                origin.makings = trust.unfold(&fork)?;
                origin.own = match facts.plan.history {
                    History::Commits => Some(own(facts, made)?),
                    History::Merge | History::Squash => None,
                };
            }
        }
        origins.push(origin);
    }
    Ok(origins)
}

/// Tells what is in the target from what is not.
struct Trust<'q, 'a> {
    question: &'q Question<'a>,
    known: BTreeMap<CommitId, bool>,
}

impl Trust<'_, '_> {
    fn is_in_target(&mut self, commit: &CommitId) -> Result<bool, Error> {
        if self.question.trusted.contains(commit) {
            return Ok(true);
        }
        if let Some(known) = self.known.get(commit) {
            return Ok(*known);
        }
        let mut found = false;
        for tip in self.question.trusted {
            found = found || self.question.facts.repository.is_ancestor(commit, tip)?;
        }
        self.known.insert(commit.clone(), found);
        Ok(found)
    }

    /// Whether a contribution is in the target: itself, or what it became part of a candidate by. Nothing is believed that
    /// stands in a message there: agents may have written it.
    fn has_landed(&mut self, contribution: &CommitId) -> Result<bool, Error> {
        if self.is_in_target(contribution)? {
            return Ok(true);
        }
        let steps = &self.question.facts.state.steps;
        for step in steps.iter().filter(|step| step.contribution == *contribution) {
            if self.is_in_target(&step.to)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a fork point apart into the merges of this run that it is made of, down to what is in the target. Fork points
    /// are ours, from the journal: their messages can be believed.
    fn unfold(&mut self, fork: &CommitId) -> Result<Makings, Error> {
        let facts = self.question.facts;
        let mut makings = Makings::default();
        let mut at = fork.clone();
        loop {
            if self.is_in_target(&at)? {
                return Ok(makings);
            }
            let commit = facts.repository.load_commit(&at)?;
            let text = commit.message_text();
            let [first, second] = commit.parents.as_slice() else {
                return Ok(Makings { foreign: Some(at), ..makings });
            };
            // Of what it joins, the target holds everything already.
            if message::is_join(facts.run.id(), &text) {
                at = first.clone();
                continue;
            }
            let merged = message::merged(facts.run.id(), &text);
            let place = |name: &AgentName| facts.plan.agents.iter().position(|task| task.name == *name);
            let Some((agent, merged)) = merged.and_then(|merged| Some((place(&merged.agent)?, merged))) else {
                return Ok(Makings { foreign: Some(at), ..makings });
            };
            makings.holds.push((agent, merged.contribution.unwrap_or_else(|| second.clone())));
            makings.merges.push(at);
            at = first.clone();
        }
    }
}

/// The agents that are asked about.
fn chosen(question: &Question<'_>, contained: &[Vec<usize>]) -> Vec<bool> {
    let plan = question.facts.plan;
    let place = question.for_agent.and_then(|name| plan.agents.iter().position(|task| task.name == *name));
    let Some(agent) = place else { return vec![question.for_agent.is_none(); plan.agents.len()] };
    let graph = Graph::of(plan);
    let mut chosen = vec![false; plan.agents.len()];
    let mut open = graph.prerequisites(agent);
    while let Some(next) = open.pop() {
        if next != agent && !std::mem::replace(&mut chosen[next], true) {
            open.extend(contained.get(next).into_iter().flatten());
        }
    }
    chosen
}

/// Going through the agents, one after the other.
struct Walk<'q, 'a> {
    question: &'q Question<'a>,
    graph: Graph,
    merger: Merger,
    protected: Protected,
    start: CommitId,
    candidate: CommitId,
    tree: TreeId,
    done: BTreeMap<usize, Placed>,
    origins: Vec<Origin>,
}

impl Walk<'_, '_> {
    fn step(&mut self, at: usize) -> Result<Previewed, Error> {
        let facts = self.question.facts;
        let task = &facts.plan.agents[at];
        let onto = self.candidate.clone();
        let (placed, merges) = self.place(at, task)?;
        let work = &self.origins[at].work;
        let made = match work {
            Work::Made(made) => Some(made.as_ref()),
            Work::Absent(_) | Work::Nothing | Work::Unusable { .. } => None,
        };
        let contains_tip = match made {
            Some(made) if merges.is_some() => Some(self.contains(at, made, &onto)?),
            Some(_) | None => None,
        };
        let currency = currency(contains_tip, merges);
        let route = self.route(at);
        let observation_key = observation_key(&Observation {
            common_dir: facts.repository.common_dir(),
            target: self.question.target,
            tip: &onto,
            head: made.map(|made| &made.commit),
            status: currency,
            route: &route,
        });
        let snapshot = match work {
            Work::Made(made) => Some(made.snapshot.clone()),
            Work::Unusable { snapshot, .. } => snapshot.clone(),
            Work::Absent(_) | Work::Nothing => None,
        };
        let contribution = made.cloned();
        let agent = task.name.clone();
        Ok(Previewed { agent, contribution, snapshot, onto, currency, route, observation_key, placed })
    }

    /// Whether the tip is in the history of an agent's work. A tip that was made here can only be there as one of the merges
    /// that its fork point is made of, and then git need not be asked.
    fn contains(&self, at: usize, made: &Contribution, tip: &CommitId) -> Result<bool, Error> {
        if made.fork == *tip || self.origins[at].makings.merges.contains(tip) {
            return Ok(true);
        }
        if *tip != self.start {
            return Ok(false);
        }
        Ok(self.question.facts.repository.is_ancestor(tip, &made.commit)?)
    }

    /// What becomes of one agent, and whether git merges it, where git was asked.
    fn place(&mut self, at: usize, task: &AgentTask) -> Result<(Placed, Option<bool>), Error> {
        let origin = &self.origins[at];
        let made = match &origin.work {
            Work::Absent(outcome) => return Ok((Placed::Absent(*outcome), None)),
            Work::Nothing => return Ok((Placed::Nothing, None)),
            Work::Unusable { snapshot, cause } => {
                return Ok((self.failed(board::merge_error(&task.name, snapshot.as_ref(), None, cause)), None));
            }
            Work::Made(made) => made.as_ref().clone(),
        };
        if origin.landed {
            return Ok((Placed::Contained, Some(true)));
        }
        if let Some(cause) = self.taken(&made)? {
            return Ok((self.error(&made, &cause), None));
        }
        if let Some(foreign) = &origin.makings.foreign {
            let cause = format!(
                "its fork point is made of {}, which is not in the target's history: what was taken out of it would come back",
                foreign.short()
            );
            return Ok((self.error(&made, &cause), None));
        }
        let blocked = self.blocked(at);
        if !blocked.is_empty() {
            return Ok((Placed::Blocked(blocked), None));
        }
        let stale = self.stale(at)?;
        if !stale.is_empty() {
            return Ok((Placed::Stale(stale), None));
        }
        let mut terms = Terms::default();
        let held = match self.undecided(self.held(at, task, &made)?, &mut terms) {
            Undecided::SetAside(card) => return Ok((Placed::SetAside(card), None)),
            Undecided::Cards(cards) => cards,
        };
        // What could not be told is asked once more, before it is told to a person.
        let ask = || self.merger.preview(&self.candidate, &made.commit);
        let preview = ask().or_else(|_| ask());
        let merges = match &preview {
            Ok(git::Preview::Clean { .. }) => Some(true),
            Ok(git::Preview::Conflict(_)) => Some(false),
            Err(_) => None,
        };
        if !held.is_empty() {
            return Ok((Placed::Held(held), merges));
        }
        let placed = match preview {
            Ok(git::Preview::Clean { tree }) => self.take_in(at, &made, tree, &terms)?,
            Ok(git::Preview::Conflict(conflict)) => self.settle(at, &made, &conflict, terms)?,
            // That git could not be run, or had no room, says nothing about the work.
            Err(error)
                if Refusal::behind(&error).is_some() || space::is_full(self.question.facts.repository.common_dir()) =>
            {
                return Err(error.into());
            }
            Err(error) => self.error(&made, &error.to_string()),
        };
        Ok((placed, merges))
    }

    /// Why an agent's work is somebody else's now, where it is: a person who put something on its branch may well expect that
    /// to be merged, and what is merged is the agent's last snapshot.
    fn taken(&self, made: &Contribution) -> Result<Option<String>, Error> {
        let facts = &self.question.facts;
        let branch = RefName::agent_branch(facts.run.id(), &made.agent);
        let found = facts.repository.load_ref(&branch)?.filter(|at| at != made.snapshot.object());
        Ok(found.map(|at| {
            let (name, snapshot) = (branch.short(), made.snapshot.short());
            format!(
                "something else moved its branch `{name}` from {snapshot} to {at}: if that is not to be lost keep it by another \
                 name, then `git branch -f {name} {snapshot}`, or `sandbox retry {}`",
                made.agent
            )
        }))
    }

    /// Agents that keep this one from being merged: of all it builds on, those that are not merged for a reason of their
    /// own.
    fn blocked(&self, at: usize) -> Vec<AgentName> {
        let mut causes = Vec::new();
        for needed in self.needed(at) {
            match self.done.get(&needed) {
                Some(placed) if placed.is_in() => {}
                Some(Placed::Blocked(others)) => causes.extend(others.iter().filter_map(|name| self.place_of(name))),
                Some(_) | None => causes.push(needed),
            }
        }
        causes.sort_unstable();
        causes.dedup();
        causes.into_iter().map(|agent| self.name(agent)).collect()
    }

    /// Agents whose work its fork point should hold and does not, or holds as it was before.
    fn stale(&self, at: usize) -> Result<Vec<AgentName>, Error> {
        let origin = &self.origins[at];
        let mut changed = Vec::new();
        for (agent, held) in &origin.makings.holds {
            // Its own earlier work, from which it was begun anew, is not what it builds on.
            if *agent != at && self.current(*agent).is_none_or(|made| made.commit != *held) {
                changed.push(*agent);
            }
        }
        let mut missing = Vec::new();
        for needed in self.graph.prerequisites(at) {
            let Some(made) = self.current(needed) else { continue };
            let is_held = origin.makings.holds.iter().any(|(_, held)| *held == made.commit);
            if !is_held && !self.origins[needed].landed {
                missing.push(needed);
            }
        }
        // Two prerequisites that made the same change: the fork point holds it, but not both contributions.
        if !missing.is_empty() && !self.is_fork_of_now(at)? {
            changed.extend(missing);
        }
        changed.sort_unstable();
        changed.dedup();
        Ok(changed.into_iter().map(|agent| self.name(agent)).collect())
    }

    /// Whether an agent's fork point is what making it anew would give.
    fn is_fork_of_now(&self, at: usize) -> Result<bool, Error> {
        let Some(made) = self.current(at) else { return Ok(false) };
        Ok(fork_point(&self.question.facts, &made.agent)? == Fork::Commit(made.fork.clone()))
    }

    /// The cards of what must not be merged without a decision.
    fn held(&self, at: usize, task: &AgentTask, made: &Contribution) -> Result<Vec<Card>, Error> {
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
            cards.push(self.in_run(board::scope(&task.name, &scope.contract, &changes)));
        }
        let protected = self.protected(&scope, &changes, &outside);
        if !protected.is_empty() {
            cards.push(self.in_run(board::held(CardKind::Protected, &task.name, &protected)));
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
            Some(HeldPath { path: change.path.clone(), entry: change.new.clone(), text })
        });
        held.collect()
    }

    /// The cards of what the way from one tree to another brings that must not be merged unseen.
    fn unseen(&self, made: &Contribution, from: &TreeId, to: &TreeId) -> Result<Vec<Card>, Error> {
        let mut cards = Vec::new();
        let findings = bundle::findings(self.question.facts.repository, from, to)?;
        for kind in [CardKind::NestedRepository, CardKind::UnsafeTree] {
            let of_kind = findings.iter().filter(|finding| finding.kind.holds() && card_kind(finding) == kind);
            let paths: Vec<HeldPath> = of_kind.map(|finding| held_path(finding, made)).collect();
            if !paths.is_empty() {
                cards.push(self.in_run(board::held(kind, &made.agent, &paths)));
            }
        }
        Ok(cards)
    }

    /// The cards that nobody has decided about, or the one by which all of it is left out. What was approved is written
    /// down with the merge.
    fn undecided(&self, cards: Vec<Card>, terms: &mut Terms) -> Undecided {
        let mut open = Vec::new();
        for card in cards {
            match self.question.facts.state.answer(&card) {
                Some(Answer { kind: AnswerKind::Dismissed, .. }) => return Undecided::SetAside(card.id),
                Some(Answer { kind: AnswerKind::Approved, by, .. }) => {
                    // Of a protected path that the contract covers, it was kept all the same.
                    if card.kind == CardKind::Scope {
                        terms.approved_by.insert(by.clone());
                    }
                }
                Some(Answer { kind: AnswerKind::Resolved, .. }) | None => open.push(card),
            }
        }
        Undecided::Cards(open)
    }

    /// What becomes of a conflict: a card, unless it was decided about.
    fn settle(
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
            return Ok(self.error(made, &format!("git reports a conflict and tells no {}", missing.join(", no "))));
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
                    Err(error) => return Ok(self.error(made, &format!("its resolution cannot be applied: {error}"))),
                };
                terms.resolved = Some((card.id, answer.by.clone()));
                self.take_in(at, made, tree, &terms)
            }
        }
    }

    /// Merges, if nothing of it must be decided about first. What is harmless in each of two contributions may not be so in
    /// both together.
    fn take_in(&mut self, at: usize, made: &Contribution, tree: TreeId, terms: &Terms) -> Result<Placed, Error> {
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
        Ok(self.in_run(board::conflict(conflict, self.sides(made)?, &made.agent, &others)))
    }

    fn error(&self, made: &Contribution, cause: &str) -> Placed {
        // What cannot be merged may well have no base to be told either.
        let sides = self.sides(made).ok();
        self.failed(board::merge_error(&made.agent, Some(&made.snapshot), sides, cause))
    }

    /// A merge that failed waits on its card, unless it was decided to do without.
    fn failed(&self, card: Card) -> Placed {
        match self.question.facts.state.answer(&card).map(|answer| answer.kind) {
            Some(AnswerKind::Dismissed) => Placed::SetAside(card.id),
            Some(AnswerKind::Approved | AnswerKind::Resolved) | None => Placed::Error(Box::new(self.in_run(card))),
        }
    }

    fn in_run(&self, card: Card) -> Card {
        board::in_run(card, self.question.facts.run.id())
    }

    fn sides(&self, made: &Contribution) -> Result<Sides, Error> {
        let bases = self.question.facts.repository.merge_bases(&self.candidate, &made.commit)?;
        Ok(Sides { ours: self.candidate.clone(), theirs: made.commit.clone(), base: bases.into_iter().next() })
    }

    /// Everything an agent builds on: its prerequisites, and what its fork point is made of.
    fn needed(&self, at: usize) -> Vec<usize> {
        let mut needed = self.graph.prerequisites(at);
        needed.extend(self.origins[at].contained().into_iter().filter(|other| *other != at));
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    fn route(&self, at: usize) -> String {
        let names: Vec<String> = self.needed(at).into_iter().map(|agent| self.name(agent).to_string()).collect();
        if names.is_empty() { "independent".to_owned() } else { names.join(" ") }
    }

    fn current(&self, at: usize) -> Option<&Contribution> {
        match &self.origins[at].work {
            Work::Made(made) => Some(made),
            Work::Absent(_) | Work::Nothing | Work::Unusable { .. } => None,
        }
    }

    fn name(&self, at: usize) -> AgentName {
        self.question.facts.plan.agents[at].name.clone()
    }

    fn place_of(&self, name: &AgentName) -> Option<usize> {
        self.question.facts.plan.agents.iter().position(|task| task.name == *name)
    }
}

/// Cards, as far as they wait for a decision.
enum Undecided {
    /// These do.
    Cards(Vec<Card>),
    /// By this one the work is left out.
    SetAside(CardId),
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

fn card_kind(finding: &Finding) -> CardKind {
    match finding.kind {
        FindingKind::Gitlink => CardKind::NestedRepository,
        FindingKind::EmbeddedRepository | FindingKind::Collision | FindingKind::OutwardLink => CardKind::UnsafeTree,
    }
}

fn held_path(finding: &Finding, made: &Contribution) -> HeldPath {
    let change = made.changes.iter().find(|change| change.path == finding.path);
    HeldPath {
        path: finding.path.clone(),
        entry: change.and_then(|change| change.new.clone()),
        text: finding.text.clone(),
    }
}

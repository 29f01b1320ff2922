//! The state of a run: a fold of its events, and of nothing else. Status, board, gate and reports are read off it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sandbox::{Layer, Protection};
use serde::Serialize;

use super::card::{Answer, AnswerKind, Card, CardState};
use super::change::GitCheckpoint;
use super::currency::{Item, State};
use super::event::{
    AttemptFinished, AttemptStarted, CandidateAdvanced, Currency, Effect, EffectKind, Event, EventKind, GateDecided,
    Invocation, MergePreviewed, OverlapPredicted, PreviewResult, RetryRequested, RunFinished, RunStarted, Shape, Stage,
    TargetMoved, TurnFinished, VerifyFinished,
};
use super::ids::{AgentName, CardId, CommitId, RunId, TurnId};
use super::outcome::AttemptOutcome;
use super::path::RepoPath;

mod mutations;
pub mod tries;

/// Everything the journal tells of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    /// The run.
    pub run_id: RunId,
    /// How it began; `None` where the journal's first line is missing.
    pub started: Option<RunStarted>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// How it ended; `None` while a coordinator works on it, or where one died.
    pub finished: Option<RunFinished>,
    /// Whether nothing new is to begin until it is continued.
    pub paused: bool,
    /// The coordinator that wrote last.
    pub invocation: Option<Invocation>,
    /// The stage of the whole run.
    pub stage: Option<Stage>,
    /// The agents, in plan order.
    pub agents: Vec<AgentState>,
    /// Agents whose present work would conflict, while they are at work.
    pub overlaps: Vec<Overlap>,
    /// Every card there was, in the order they were opened.
    pub cards: Vec<Card>,
    /// The candidate, since the first merge.
    pub candidate: Option<CandidateState>,
    /// Where the candidate's branch was when it was last looked at, or moved to.
    #[serde(skip)]
    pub candidate_branch: Option<CommitId>,
    /// Every step of every candidate there was, oldest first.
    #[serde(skip)]
    pub steps: Vec<Step>,
    /// The newest verification.
    pub verification: Option<Verification>,
    /// The newest decision of the gate.
    pub gate: Option<GateDecided>,
    /// Effects claimed and neither confirmed nor released.
    pub open_claims: Vec<Effect>,
    /// The commit the target was set to.
    pub landed: Option<CommitId>,
    /// The candidate that it holds since then; it may have moved on.
    pub landed_candidate: Option<CommitId>,
    /// How putting the candidate on the target stands, once that was begun.
    pub landing: Option<Item>,
    /// Where the target was when it was last looked at.
    pub target_tip: Option<CommitId>,
    /// How something else moved the target, as far as it was seen; oldest first.
    pub target_moves: Vec<TargetMoved>,
    /// What can be returned to.
    pub checkpoints: Vec<GitCheckpoint>,
    /// The newest event.
    pub last_seq: u64,
    /// When it was written.
    pub last_activity_at: Option<Timestamp>,
}

/// What the journal tells of an agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentState {
    /// Its name.
    pub name: AgentName,
    /// What it is for.
    pub title: Option<String>,
    /// Whose work it builds on.
    pub after: Vec<AgentName>,
    /// What is being done for it now, and since when.
    pub stage: Option<(Stage, Timestamp)>,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptState>,
    /// What came of merging it.
    pub merge: Option<MergeState>,
    /// That it is to be tried again, and how, until that attempt is told of.
    pub retry: Option<RetryRequested>,
    /// How putting it on the candidate stands, once it was previewed.
    pub merging: Option<Item>,
}

/// What the journal tells of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptState {
    /// Its number, from 1.
    pub number: u32,
    /// How it began; `None` where it never did.
    pub started: Option<AttemptStarted>,
    /// When.
    pub started_at: Timestamp,
    /// How it ended.
    pub finished: Option<AttemptFinished>,
    /// The turn whose command runs now.
    pub running_turn: Option<TurnId>,
    /// Its turns, oldest first. Turn 0 only where it changed something.
    pub turns: Vec<(TurnId, TurnFinished)>,
    /// Paths its turns left outside the contract.
    pub outside: Vec<RepoPath>,
}

/// What came of merging an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MergeState {
    /// The snapshot that was previewed.
    pub snapshot: CommitId,
    /// What came of it.
    pub result: PreviewResult,
    /// How it stood to the candidate.
    pub currency: Currency,
    /// The cards that hold it.
    pub cards: Vec<CardId>,
    /// Whom it waits for.
    pub blocked_by: Vec<AgentName>,
    /// The commit it became part of the candidate by, once it is.
    pub merged_as: Option<CommitId>,
    /// The contribution.
    pub contribution: Option<CommitId>,
    /// What form it has in the candidate's history, where the plan asks for another than a merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Shape>,
}

/// A step by which a contribution became part of a candidate, the present one or one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What was merged.
    pub contribution: CommitId,
    /// What the candidate was then.
    pub to: CommitId,
    /// The merge that previews went on from, where that is another commit.
    pub merge: Option<CommitId>,
}

/// Two agents whose present work would conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// The two.
    pub agents: [AgentName; 2],
    /// Where.
    pub paths: Vec<RepoPath>,
    /// The kinds of conflict.
    pub kinds: Vec<String>,
}

impl Overlap {
    /// Whether it is about these two.
    pub fn is_of(&self, one: &AgentName, other: &AgentName) -> bool {
        self.agents.contains(one) && self.agents.contains(other)
    }
}

/// The candidate as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateState {
    /// The newest step.
    pub head: CandidateAdvanced,
    /// Agents that are part of it, in merge order.
    pub merged: Vec<AgentName>,
}

/// A verification and its place in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The event's `seq`.
    pub seq: u64,
    /// What it said.
    pub finished: VerifyFinished,
}

impl RunState {
    /// A run of which nothing is known yet.
    pub fn new(run_id: RunId) -> Self {
        Self {
            run_id,
            started: None,
            started_at: None,
            finished: None,
            paused: false,
            invocation: None,
            stage: None,
            agents: Vec::new(),
            overlaps: Vec::new(),
            cards: Vec::new(),
            candidate: None,
            candidate_branch: None,
            steps: Vec::new(),
            verification: None,
            gate: None,
            open_claims: Vec::new(),
            landed: None,
            landed_candidate: None,
            landing: None,
            target_tip: None,
            target_moves: Vec::new(),
            checkpoints: Vec::new(),
            last_seq: 0,
            last_activity_at: None,
        }
    }

    /// Layers that some box of the run did without, as was allowed.
    pub fn degraded(&self) -> BTreeSet<Layer> {
        let begun = self.started.iter().flat_map(|started| &started.degraded);
        let attempts =
            self.agents.iter().flat_map(|agent| &agent.attempts).filter_map(|attempt| attempt.started.as_ref());
        let judged = self.verification.iter().flat_map(|judged| &judged.finished.degraded);
        begun.chain(attempts.flat_map(|started| &started.degraded)).chain(judged).copied().collect()
    }

    /// Whether processes that a command left may have got away: nothing that ends all of them at once was there.
    pub fn is_leaky_possible(&self) -> bool {
        let sure = |layers: &[String]| layers.iter().any(|layer| layer == Protection::KillGroup.name());
        let kills_by_group = self.started.as_ref().is_some_and(|started| sure(&started.isolation));
        self.degraded().contains(&Layer::Namespaces) && !kills_by_group
    }

    /// The state after all of `events`.
    pub fn fold<'e>(run_id: RunId, events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut state = Self::new(run_id);
        for event in events {
            state.apply(event);
        }
        state
    }

    /// Takes in one more event.
    pub fn apply(&mut self, event: &Event) {
        self.last_seq = event.seq;
        self.last_activity_at = Some(event.timestamp);
        self.follow_mutations(&event.subject, &event.kind);
        match &event.kind {
            EventKind::RunStarted(started) => self.start(started, event.timestamp),
            EventKind::RunFinished(finished) => {
                self.landed = finished.landed.clone().or_else(|| self.landed.clone());
                self.finished = Some(finished.clone());
                self.stage = None;
                // Whoever goes on with it means it to go on.
                self.paused = false;
            }
            EventKind::RunPaused(_) => self.paused = true,
            EventKind::RunContinued(_) => self.paused = false,
            EventKind::RetryRequested(requested) => {
                if let Some(agent) = self.subject_agent(event) {
                    agent.retry = Some(*requested);
                }
            }
            EventKind::StageEnter(enter) => {
                // Who goes on with a run that came to an end decides anew.
                if self.finished.take().is_some() {
                    self.gate = None;
                }
                if let Some(invocation) = &enter.invocation {
                    self.invocation = Some(invocation.clone());
                }
                match self.subject_agent(event) {
                    Some(agent) => agent.stage = Some((enter.stage, event.timestamp)),
                    None => self.stage = Some(enter.stage),
                }
            }
            EventKind::StageExit(_) => match self.subject_agent(event) {
                Some(agent) => agent.stage = None,
                None => self.stage = None,
            },
            EventKind::AttemptStarted(started) => {
                if let Some(attempt) = self.subject_attempt(event) {
                    attempt.started = Some(started.clone());
                }
            }
            EventKind::AttemptFinished(finished) => {
                if let Some(attempt) = self.subject_attempt(event) {
                    attempt.finished = Some(finished.clone());
                    attempt.running_turn = None;
                }
            }
            EventKind::TurnStarted(_) => {
                if let Some(attempt) = self.subject_attempt(event) {
                    attempt.running_turn = event.subject.turn;
                }
            }
            EventKind::TurnFinished(finished) => {
                if let (Some(turn), Some(attempt)) = (event.subject.turn, self.subject_attempt(event)) {
                    if !finished.live {
                        attempt.running_turn = None;
                    }
                    attempt.turns.push((turn, finished.clone()));
                }
            }
            EventKind::ScopeWarning(warning) => {
                if let Some(attempt) = self.subject_attempt(event) {
                    attempt.outside.clone_from(&warning.outside_owned_scope);
                }
            }
            EventKind::EffectClaimed(effect) => self.open_claims.push(effect.clone()),
            EventKind::EffectConfirmed(effect) => {
                self.open_claims.retain(|open| open.key != effect.key);
                match effect.effect {
                    EffectKind::Land => {
                        self.landed = Some(effect.after.clone());
                        self.landed_candidate = Some(effect.after.clone());
                        self.target_tip = Some(effect.after.clone());
                    }
                    EffectKind::Merge => self.candidate_branch = Some(effect.after.clone()),
                }
            }
            EventKind::EffectReleased(effect) => self.open_claims.retain(|open| open.key != effect.key),
            EventKind::TargetMoved(moved) => {
                self.target_tip.clone_from(&moved.to);
                self.target_moves.push(moved.clone());
            }
            EventKind::CardOpened(card) => {
                let at = self.cards.iter().position(|known| known.id == card.id);
                let before = at.map(|at| self.cards.remove(at));
                // One that waits keeps its place.
                let waits = before.as_ref().is_some_and(|known| known.state == CardState::NeedsHuman);
                let place = at.filter(|_| waits).unwrap_or(self.cards.len());
                self.cards.insert(place, card.opened_by(event, before));
            }
            EventKind::CardClosed(closed) => {
                if let Some(card) = self.known_card(&closed.card) {
                    card.close_by(event, &closed.resolution, closed.answer.as_ref());
                }
            }
            EventKind::CardProposed(proposed) => {
                if let Some(card) = self.known_card(&proposed.card) {
                    card.propose_by(event, &proposed.proposal);
                }
            }
            EventKind::ProposalDiscarded(discarded) => {
                if let Some(card) = self.known_card(&discarded.card) {
                    card.discard_by(event, &discarded.by, discarded.why.as_deref());
                }
            }
            EventKind::OverlapPredicted(predicted) => self.foretell(event, predicted),
            EventKind::MergePreviewed(previewed) => self.preview(event, previewed),
            EventKind::CandidateAdvanced(advanced) => self.advance(event, advanced),
            EventKind::VerifyFinished(finished) => {
                self.verification = Some(Verification { seq: event.seq, finished: finished.clone() });
            }
            EventKind::GateDecided(decided) => self.gate = Some(decided.clone()),
            EventKind::CheckpointCreated(checkpoint) => self.checkpoints.push((**checkpoint).clone()),
            EventKind::HookFinished(_)
            | EventKind::ChangeDetected(_)
            | EventKind::VerifierFresh(_)
            | EventKind::CompletionBlocked(_)
            | EventKind::Unknown { .. } => {}
        }
    }

    fn start(&mut self, started: &RunStarted, at: Timestamp) {
        self.started = Some(started.clone());
        self.started_at = Some(at);
        self.target_tip = started.target.is_some().then(|| started.base.clone());
        self.invocation = Some(started.invocation.clone());
        self.agents = started
            .agents
            .iter()
            .map(|brief| AgentState {
                name: brief.name.clone(),
                title: brief.title.clone(),
                after: brief.after.clone(),
                stage: None,
                attempts: Vec::new(),
                merge: None,
                retry: None,
                merging: None,
            })
            .collect();
    }

    fn subject_agent(&mut self, event: &Event) -> Option<&mut AgentState> {
        let name = event.subject.agent.as_ref()?;
        self.agents.iter_mut().find(|agent| agent.name == *name)
    }

    /// The attempt an event is about, made known if this is the first event of it.
    fn subject_attempt(&mut self, event: &Event) -> Option<&mut AttemptState> {
        let number = event.subject.attempt?;
        let at = event.timestamp;
        let agent = self.subject_agent(event)?;
        let index = agent.attempts.iter().position(|attempt| attempt.number == number);
        let index = index.unwrap_or_else(|| {
            agent.retry = None;
            agent.attempts.push(AttemptState {
                number,
                started: None,
                started_at: at,
                finished: None,
                running_turn: None,
                turns: Vec::new(),
                outside: Vec::new(),
            });
            agent.attempts.len() - 1
        });
        agent.attempts.get_mut(index)
    }

    fn known_card(&mut self, id: &CardId) -> Option<&mut Card> {
        self.cards.iter_mut().find(|card| card.id == *id)
    }

    fn foretell(&mut self, event: &Event, predicted: &OverlapPredicted) {
        let Some(agent) = &event.subject.agent else { return };
        self.overlaps.retain(|known| !known.is_of(agent, &predicted.with));
        if !predicted.paths.is_empty() {
            let agents = [agent.clone(), predicted.with.clone()];
            self.overlaps.push(Overlap { agents, paths: predicted.paths.clone(), kinds: predicted.kinds.clone() });
        }
    }

    fn preview(&mut self, event: &Event, previewed: &MergePreviewed) {
        if let Some(agent) = self.subject_agent(event) {
            agent.merge = Some(MergeState {
                snapshot: previewed.snapshot.clone(),
                result: previewed.result,
                currency: previewed.currency,
                cards: previewed.cards.clone(),
                blocked_by: previewed.blocked_by.clone(),
                merged_as: None,
                contribution: previewed.contribution.clone(),
                history: None,
            });
        }
    }

    fn advance(&mut self, event: &Event, advanced: &CandidateAdvanced) {
        // From here on previews say what conflicts.
        self.overlaps.clear();
        let mut merged = match (&self.candidate, &advanced.contribution) {
            (Some(candidate), Some(_)) => candidate.merged.clone(),
            (None, _) | (Some(_), None) => Vec::new(),
        };
        if advanced.contribution.is_none() {
            self.candidate_branch = Some(advanced.from.clone());
            for agent in &mut self.agents {
                agent.merge = None;
            }
        }
        if let Some(agent) = self.subject_agent(event) {
            if let Some(merge) = &mut agent.merge {
                merge.merged_as = Some(advanced.to.clone());
                merge.history.clone_from(&advanced.history);
            }
            merged.push(agent.name.clone());
        }
        if let Some(contribution) = &advanced.contribution
            && advanced.from != advanced.to
        {
            let (to, merge) = (advanced.to.clone(), advanced.merge.clone());
            let step = Step { contribution: contribution.clone(), to, merge };
            if !self.steps.contains(&step) {
                self.steps.push(step);
            }
        }
        self.candidate = Some(CandidateState { head: advanced.clone(), merged });
    }

    /// The agent of that name.
    pub fn agent(&self, name: &AgentName) -> Option<&AgentState> {
        self.agents.iter().find(|agent| agent.name == *name)
    }

    /// Whether it came to an end, and the gate was open.
    pub fn is_complete(&self) -> bool {
        self.finished.as_ref().is_some_and(|finished| finished.complete)
    }

    /// Whether all that is part of the candidate is on the target: it was landed since it was made, or there is nothing in
    /// it that the target does not have.
    pub fn is_landed(&self) -> bool {
        let all_of = |made: &CandidateState| {
            made.head.to == made.head.onto || self.landed_candidate.as_ref() == Some(&made.head.to)
        };
        self.landed.is_some() && self.candidate.as_ref().is_none_or(all_of)
    }

    /// The target's tip, where that has all that is part of the candidate: there is nothing to land.
    pub fn contained_in(&self) -> Option<&CommitId> {
        let made = self.candidate.as_ref()?;
        (!made.merged.is_empty() && made.head.to == made.head.onto).then_some(&made.head.onto)
    }

    /// Cards that wait for a decision.
    pub fn open_cards(&self) -> impl Iterator<Item = &Card> {
        self.cards.iter().filter(|card| card.state == CardState::NeedsHuman)
    }

    /// Globs that an agent asked for and that were granted, sooner or later. They hold from the attempt on that began next.
    pub fn granted(&self, agent: &AgentName) -> Vec<String> {
        let of_agent = self.cards.iter().filter(|card| card.agents.first() == Some(agent));
        let granted = of_agent.filter(|card| card.answer.as_ref().is_some_and(|it| it.kind == AnswerKind::Approved));
        let mut globs: Vec<String> = Vec::new();
        for glob in granted.filter_map(|card| card.request.as_ref()).flat_map(|request| &request.owns) {
            if !globs.contains(glob) {
                globs.push(glob.clone());
            }
        }
        globs
    }

    /// What a person decided about exactly the matter of `card`, where one did. An id is a part of a hash and could be met
    /// by another matter; the fingerprint cannot.
    ///
    /// What was approved or resolved is what stands at the card's paths, whatever else the agent does. That its work is left
    /// out is said of all of that work, so of none that it does later.
    pub fn answer(&self, card: &Card) -> Option<&Answer> {
        let same = |known: &&Card| known.id == card.id && known.fingerprint == card.fingerprint;
        let known = self.cards.iter().find(same)?;
        known.answer.as_ref().filter(|answer| match answer.kind {
            AnswerKind::Approved | AnswerKind::Resolved => true,
            AnswerKind::Dismissed => known.is_about(card.snapshot.as_ref()),
        })
    }

    /// How many agents stand where.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::from([("total", self.agents.len())]);
        for agent in &self.agents {
            let name = match agent.outcome() {
                Some(outcome) if outcome.lets_dependents_start() => "passed",
                Some(_) => "failed",
                None if agent.attempts.is_empty() && agent.stage.is_none() => "pending",
                None => "running",
            };
            *counts.entry(name).or_default() += 1;
        }
        for name in ["passed", "failed", "pending", "running"] {
            counts.entry(name).or_default();
        }
        counts
    }

    /// Whether previews and candidate are of what the agents have now. An attempt since, or an integration that was cut
    /// short, leaves them otherwise.
    pub fn is_integrated(&self) -> bool {
        let is_completed = |agent: &&AgentState| agent.outcome() == Some(AttemptOutcome::Completed);
        let mut completed = self.agents.iter().filter(is_completed);
        // What an agent made is taken out again when it is skipped.
        let holds_a_skipped_one = self.agents.iter().any(|agent| self.holds_skipped(agent));
        self.candidate.is_some() && !holds_a_skipped_one && completed.all(|agent| self.settled(agent).is_some())
    }

    /// Whether it could not be told of some agent's work what merging it would give.
    pub fn has_unknown(&self) -> bool {
        self.agents.iter().any(|agent| agent.merge.as_ref().is_some_and(|it| it.result == PreviewResult::Error))
    }

    /// Whether the candidate has work of an agent that was skipped since.
    pub fn holds_skipped(&self, agent: &AgentState) -> bool {
        let is_merged = self.candidate.as_ref().is_some_and(|candidate| candidate.merged.contains(&agent.name));
        is_merged && agent.outcome() == Some(AttemptOutcome::Skipped)
    }

    /// What came of merging the present work of an agent, if that is told in full: it is part of the candidate, or the card
    /// that holds it is open.
    pub fn settled<'a>(&self, agent: &'a AgentState) -> Option<&'a MergeState> {
        let merge = agent.merge.as_ref()?;
        let is_of_now = agent.last_attempt()?.finished.as_ref()?.snapshot.as_ref() == Some(&merge.snapshot);
        let is_told = match merge.result {
            // What was merged once need not be part of the candidate that is made now.
            PreviewResult::Clean => {
                merge.merged_as.is_some() && agent.merging.as_ref().is_some_and(|item| item.state == State::Confirmed)
            }
            PreviewResult::Conflict | PreviewResult::Held | PreviewResult::Error => {
                self.open_cards().any(|card| merge.cards.contains(&card.id))
            }
            PreviewResult::Blocked | PreviewResult::SetAside => true,
        };
        (is_of_now && is_told).then_some(merge)
    }

    /// Whether the newest verification judged exactly the present candidate.
    pub fn verifier_is_fresh(&self) -> bool {
        match (&self.verification, &self.candidate) {
            (Some(verification), Some(candidate)) => verification.finished.tree == candidate.head.tree,
            (Some(_) | None, None) | (None, Some(_)) => false,
        }
    }
}

impl AttemptState {
    /// Whether it has begun in this worktree, which goes by its name: the folder of all worktrees may have been moved since.
    pub fn has_begun_in(&self, worktree: &std::path::Path) -> bool {
        self.started.as_ref().is_some_and(|started| started.worktree.file_name() == worktree.file_name())
    }
}

impl AgentState {
    /// Its newest attempt.
    pub fn last_attempt(&self) -> Option<&AttemptState> {
        self.attempts.last()
    }

    /// How its newest attempt ended, if it did.
    pub fn outcome(&self) -> Option<AttemptOutcome> {
        self.last_attempt()?.finished.as_ref().map(|finished| finished.outcome)
    }

    /// The commit its worktree was made from, once there is one.
    pub fn fork_point(&self) -> Option<&CommitId> {
        self.attempts.iter().rev().find_map(|attempt| attempt.started.as_ref()).map(|started| &started.fork_point)
    }

    /// What its newest attempt was granted beyond the plan's contract: its work is held against that.
    pub fn granted(&self) -> &[String] {
        self.attempts.iter().rev().find_map(|attempt| attempt.started.as_ref()).map_or(&[], |started| &started.granted)
    }

    /// How many attempts began because something was granted: each had more than the one before it.
    pub fn follow_ups(&self) -> usize {
        let begun = self.attempts.iter().filter_map(|attempt| attempt.started.as_ref());
        let granted: Vec<usize> = begun.map(|started| started.granted.len()).collect();
        granted.windows(2).filter(|pair| pair[0] < pair[1]).count()
    }

    /// Whether an attempt has begun in this worktree, and so its setup has ended well.
    pub fn has_begun_in(&self, worktree: &std::path::Path) -> bool {
        self.attempts.iter().any(|attempt| attempt.has_begun_in(worktree))
    }

    /// The newest bundle of what was done in this very worktree: a retry that begins afresh has one of its own.
    pub fn last_turn_in(&self, worktree: &std::path::Path) -> Option<&(TurnId, TurnFinished)> {
        let mut here = self.attempts.iter().rev().filter(|attempt| attempt.has_begun_in(worktree));
        here.find_map(|attempt| attempt.turns.last())
    }

    /// Its newest bundle, whatever became of the attempt.
    pub fn last_turn(&self) -> Option<&(TurnId, TurnFinished)> {
        self.attempts.iter().rev().find_map(|attempt| attempt.turns.last())
    }
}

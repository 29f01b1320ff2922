//! `status`: one row for each agent, and what stands of the run as a whole. Never the contents of a file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::Timestamp;
use sandbox::Layer;
use serde::{Serialize, Serializer};

use super::board::CardRow;
use super::facts::{CheckoutFacts, Facts};
use super::look::{Look, Tone};
use super::moves;
use super::table::{Cell, Table};
use super::text;
use crate::model::change::DiffStat;
use crate::model::currency::State as Standing;
use crate::model::event::{Currency, PreviewResult, Shape, Stage, TargetMoved};
use crate::model::gate::GateBlock;
use crate::model::run::{AgentState, AttemptState, Overlap, RunState};
use crate::model::{
    AgentName, AttemptOutcome, CardId, CommitId, LimitMet, RefName, RepoPath, RunId, TreeId, TurnId, Verdict,
    VerifyStatus,
};

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunCondition {
    /// A coordinator works on it.
    Running,
    /// It did not end, and nobody works on it: its coordinator died.
    Interrupted,
    /// It ended, and the gate was open.
    Complete,
    /// It ended, and something is in the way.
    Incomplete,
    /// Its result is on the target.
    Landed,
}

impl RunCondition {
    /// How the run stands, given whether its coordinator lives.
    pub fn of(state: &RunState, coordinator_alive: bool) -> Self {
        match &state.finished {
            None if coordinator_alive => Self::Running,
            None => Self::Interrupted,
            Some(_) if state.is_landed() => Self::Landed,
            Some(finished) if finished.complete => Self::Complete,
            Some(_) => Self::Incomplete,
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::Landed => "landed",
        }
    }

    /// What it means.
    pub fn tone(self) -> Tone {
        match self {
            Self::Running => Tone::Plain,
            Self::Interrupted => Tone::Bad,
            Self::Complete | Self::Landed => Tone::Good,
            Self::Incomplete => Tone::Warn,
        }
    }
}

/// How an agent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentCondition {
    /// Nothing has been done for it yet.
    Pending,
    /// Its worktree is being made.
    Preparing,
    /// An attempt is under way.
    Running,
    /// An attempt was under way when the coordinator died.
    Interrupted,
    /// Its newest attempt ended so.
    Ended(AttemptOutcome),
}

impl AgentCondition {
    /// How the agent stands, given whether the coordinator lives.
    pub fn of(agent: &AgentState, coordinator_alive: bool) -> Self {
        let begun = agent.last_attempt().is_some_and(|attempt| attempt.finished.is_none());
        match agent.outcome() {
            Some(outcome) if agent.stage.is_none() => Self::Ended(outcome),
            Some(outcome) if !coordinator_alive => Self::Ended(outcome),
            None if agent.stage.is_none() && !begun => Self::Pending,
            Some(_) | None if !coordinator_alive => Self::Interrupted,
            Some(_) | None if matches!(agent.stage, Some((Stage::Prepare, _))) => Self::Preparing,
            Some(_) | None => Self::Running,
        }
    }

    /// The word for it, in text and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Preparing => "preparing",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Ended(outcome) => outcome.name(),
        }
    }

    /// What it means.
    pub fn tone(self) -> Tone {
        match self {
            Self::Pending => Tone::Dim,
            Self::Preparing | Self::Running => Tone::Plain,
            Self::Interrupted => Tone::Bad,
            Self::Ended(outcome) => outcome_tone(outcome),
        }
    }
}

/// What an outcome means.
pub fn outcome_tone(outcome: AttemptOutcome) -> Tone {
    match outcome {
        AttemptOutcome::Completed => Tone::Good,
        AttemptOutcome::NoChanges | AttemptOutcome::Skipped => Tone::Dim,
        AttemptOutcome::Blocked | AttemptOutcome::Stale => Tone::Warn,
        AttemptOutcome::Failed
        | AttemptOutcome::CouldNotStart
        | AttemptOutcome::TimedOut
        | AttemptOutcome::Idle
        | AttemptOutcome::OutputLimit
        | AttemptOutcome::Limit
        | AttemptOutcome::SetupFailed
        | AttemptOutcome::CaptureFailed
        | AttemptOutcome::HarvestRefused
        | AttemptOutcome::Tampered
        | AttemptOutcome::SandboxRefused
        | AttemptOutcome::Interrupted => Tone::Bad,
    }
}

impl Serialize for AgentCondition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Whether a verifier judged exactly what there is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Freshness {
    /// No verifier has judged it.
    Never,
    /// The newest verification judged exactly this.
    Fresh,
    /// Something changed since the newest verification.
    Stale,
}

/// A verification as reports tell of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifierView {
    /// Whether it judged exactly the present candidate.
    pub freshness: Freshness,
    /// The command.
    pub command: Vec<String>,
    /// What the command did.
    pub status: VerifyStatus,
    /// What it means.
    pub verdict: Verdict,
    /// The tree it judged.
    pub tree: TreeId,
    /// Why there is no pass, where there is none.
    pub error: Option<String>,
    /// Whether an earlier receipt served.
    pub reused: bool,
    /// How long the command took.
    pub duration_ms: u64,
    /// The `seq` of the event that told its end.
    pub seq: u64,
}

impl VerifierView {
    /// The newest verification of a run, if there was one.
    pub fn of(state: &RunState) -> Option<Self> {
        let verification = state.verification.as_ref()?;
        let finished = &verification.finished;
        Some(Self {
            freshness: if state.verifier_is_fresh() { Freshness::Fresh } else { Freshness::Stale },
            command: finished.command.clone(),
            status: finished.status,
            verdict: finished.verdict,
            tree: finished.tree.clone(),
            error: finished.error.clone(),
            reused: finished.reused,
            duration_ms: finished.duration_ms,
            seq: verification.seq,
        })
    }

    /// It in a line.
    pub fn line(&self) -> String {
        let freshness = match self.freshness {
            Freshness::Never | Freshness::Fresh => "",
            Freshness::Stale => ", but of another tree than the present candidate",
        };
        let reused = if self.reused { ", from an earlier receipt" } else { "" };
        let error = self.error.as_ref().map(|error| format!(": {}", text::clean(error))).unwrap_or_default();
        format!("{} by `{}`{reused}{freshness}{error}", verdict_words(self.verdict), text::command(&self.command, 60))
    }
}

/// A verdict as a verb.
pub fn verdict_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "passed",
        Verdict::PassWithInherited => "passed, with failures the base has too,",
        Verdict::Fail => "failed",
        Verdict::Blocked => "not believed, it changed what it judged,",
        Verdict::None => "no verdict",
    }
}

/// A state of an agent that can be returned to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckpointView {
    /// Its id, where the journal names one.
    pub id: Option<String>,
    /// The turn it was made at.
    pub turn: TurnId,
}

/// What came of merging an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MergeView {
    /// What its preview gave.
    pub result: PreviewResult,
    /// How it stood to the candidate.
    pub currency: Currency,
    /// The cards that hold it.
    pub cards: Vec<CardId>,
    /// Whom it waits for.
    pub blocked_by: Vec<AgentName>,
    /// The commit it became part of the candidate by, once it is.
    pub merged_as: Option<CommitId>,
    /// What form it has in the candidate's history, where the plan asks for another than a merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Shape>,
    /// How putting it on the candidate stands: `observed`, `claimed`, `reconciling`, `confirmed`, `parked`, `inspecting`.
    pub standing: Option<Standing>,
}

impl MergeView {
    /// It in a few words.
    pub fn words(&self) -> String {
        let cards = || text::list(&self.cards, 2);
        match self.result {
            PreviewResult::Clean if self.merged_as.is_some() => "merged".to_owned(),
            PreviewResult::Clean => "clean".to_owned(),
            PreviewResult::Conflict => format!("conflict {}", cards()),
            PreviewResult::Held => format!("held {}", cards()),
            PreviewResult::Error => format!("error {}", cards()),
            PreviewResult::SetAside => "set aside".to_owned(),
            PreviewResult::Blocked => format!("waits for {}", text::list(&self.blocked_by, 2)),
        }
    }

    fn tone(&self) -> Tone {
        match self.result {
            PreviewResult::Clean => Tone::Good,
            PreviewResult::Blocked | PreviewResult::SetAside => Tone::Warn,
            PreviewResult::Conflict | PreviewResult::Held | PreviewResult::Error => Tone::Bad,
        }
    }
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentRow {
    /// Its name.
    pub agent: AgentName,
    /// What it is for.
    pub title: Option<String>,
    /// How it stands: `pending`, `preparing`, `running`, `interrupted`, or the outcome of its newest attempt.
    pub state: AgentCondition,
    /// Why, in a line, where its newest attempt ended.
    pub reason: Option<String>,
    /// The limit of its box that its newest attempt was ended for.
    pub limit: Option<LimitMet>,
    /// What is being done for it now.
    pub stage: Option<Stage>,
    /// Since when, in seconds.
    pub stage_seconds: Option<i64>,
    /// Its newest attempt.
    pub attempt: Option<u32>,
    /// The turn under way.
    pub running_turn: Option<TurnId>,
    /// How many turns its newest attempt has saved.
    pub turns: u64,
    /// Agents that it still waits for before it can start.
    pub waiting_for: Vec<AgentName>,
    /// Its branch, once there is one.
    pub branch: Option<RefName>,
    /// Its worktree, once there is one.
    pub worktree: Option<PathBuf>,
    /// Files in its worktree that differ from its last snapshot; `null` where not measured.
    pub dirty: Option<u64>,
    /// Paths it changed since its fork point; `null` where not measured.
    pub files_changed: Option<u64>,
    /// The same as files, insertions and deletions; `null` where not measured.
    pub diff_stat: Option<DiffStat>,
    /// The newest state of it that can be returned to.
    pub last_checkpoint: Option<CheckpointView>,
    /// Whether a verifier judged exactly its newest work, as part of the candidate.
    pub verifier: Freshness,
    /// Whether everything it changed is covered by its contract; `null` before anything was captured.
    pub contract_kept: Option<bool>,
    /// Paths it changed that its contract does not cover.
    pub outside_owned_scope: Vec<RepoPath>,
    /// What came of merging it.
    pub merge: Option<MergeView>,
}

impl AgentRow {
    /// One agent of a run.
    pub fn of(state: &RunState, agent: &AgentState, facts: &Facts) -> Self {
        let last = agent.last_attempt();
        let finished = last.and_then(|attempt| attempt.finished.as_ref());
        let started = agent.attempts.iter().rev().find_map(|attempt| attempt.started.as_ref());
        let measured = facts.agents.get(&agent.name);
        let stat = measured.and_then(|measured| measured.stat);
        let condition = AgentCondition::of(agent, facts.coordinator_alive);
        let outside = last.map(outside).unwrap_or_default();
        let captured = agent.last_turn().is_some() || finished.is_some_and(|finished| finished.snapshot.is_some());
        Self {
            agent: agent.name.clone(),
            title: agent.title.clone(),
            state: condition,
            reason: finished.map(|finished| finished.reason.clone()).filter(|reason| !reason.is_empty()),
            limit: finished.and_then(|finished| finished.limit),
            stage: agent.stage.map(|(stage, _)| stage),
            stage_seconds: agent.stage.map(|(_, since)| text::since(since, facts.now).as_secs()),
            attempt: last.map(|attempt| attempt.number),
            running_turn: last.and_then(|attempt| attempt.running_turn),
            turns: last.map_or(0, |attempt| text::len(&attempt.turns)),
            waiting_for: match condition {
                AgentCondition::Pending | AgentCondition::Ended(AttemptOutcome::Blocked) => state.lacking(agent),
                AgentCondition::Preparing
                | AgentCondition::Running
                | AgentCondition::Interrupted
                | AgentCondition::Ended(_) => Vec::new(),
            },
            branch: started.map(|started| started.branch.clone()),
            worktree: started.map(|started| started.worktree.clone()),
            dirty: measured.and_then(|measured| measured.dirty),
            files_changed: files_changed(agent, stat),
            diff_stat: stat,
            last_checkpoint: last_checkpoint(state, agent),
            verifier: freshness(state, agent),
            contract_kept: (captured || !outside.is_empty()).then_some(outside.is_empty()),
            outside_owned_scope: outside,
            merge: agent.merge.as_ref().map(|merge| MergeView {
                result: merge.result,
                currency: merge.currency,
                cards: merge.cards.clone(),
                blocked_by: merge.blocked_by.clone(),
                merged_as: merge.merged_as.clone(),
                history: merge.history.clone(),
                standing: agent.merging.as_ref().map(|item| item.state),
            }),
        }
    }

    /// Its state as a cell.
    pub fn state_cell(&self) -> Cell {
        Cell::new(self.state.name(), self.state.tone())
    }

    /// What it changed, as a cell: files, and lines where they are known.
    pub fn files_cell(&self) -> Cell {
        match (self.diff_stat, self.files_changed) {
            (Some(stat), _) => format!("{} +{} -{}", stat.files, stat.insertions, stat.deletions).into(),
            (None, changed) => Cell::maybe(changed),
        }
    }

    /// How it stands to its contract, as a cell.
    pub fn contract_cell(&self) -> Cell {
        match self.contract_kept {
            None => Cell::absent(),
            Some(true) => Cell::new("kept", Tone::Good),
            Some(false) => Cell::new(format!("{} outside", self.outside_owned_scope.len()), Tone::Bad),
        }
    }

    /// What came of merging it, as a cell.
    pub fn merge_cell(&self) -> Cell {
        self.merge.as_ref().map_or_else(Cell::absent, |merge| Cell::new(merge.words(), merge.tone()))
    }
}

fn outside(attempt: &AttemptState) -> Vec<RepoPath> {
    match &attempt.finished {
        Some(finished) if finished.snapshot.is_some() => finished.outside_since_fork.clone(),
        Some(_) | None => attempt.outside.clone(),
    }
}

/// Paths changed since the fork point: measured just now, or as its newest attempt told when it ended.
fn files_changed(agent: &AgentState, stat: Option<DiffStat>) -> Option<u64> {
    let told = || {
        let finished = agent.last_attempt()?.finished.as_ref()?;
        finished.snapshot.as_ref().map(|_| finished.changed_since_fork)
    };
    stat.map(|stat| stat.files).or_else(told)
}

/// The newest turn that left a patch: a turn that changed nothing makes no checkpoint.
fn last_checkpoint(state: &RunState, agent: &AgentState) -> Option<CheckpointView> {
    let mut turns = agent.attempts.iter().rev().flat_map(|attempt| attempt.turns.iter().rev());
    let (turn, patch) = turns.find_map(|(turn, finished)| finished.patch.as_ref().map(|patch| (*turn, patch)))?;
    let named = state.checkpoints.iter().rev().find(|checkpoint| checkpoint.patch_path.as_ref() == Some(patch));
    Some(CheckpointView { id: named.map(|checkpoint| checkpoint.id.clone()), turn })
}

fn freshness(state: &RunState, agent: &AgentState) -> Freshness {
    let newest = agent.last_turn().map(|(_, turn)| &turn.snapshot);
    let judged = agent.merge.as_ref().filter(|merge| merge.merged_as.is_some()).map(|merge| &merge.snapshot);
    let under_way = agent.last_attempt().is_some_and(|attempt| attempt.finished.is_none());
    match (&state.verification, judged) {
        (None, _) | (Some(_), None) => Freshness::Never,
        (Some(_), Some(judged)) => {
            let current = newest.is_none_or(|newest| newest == judged) && !under_way;
            if current && state.verifier_is_fresh() { Freshness::Fresh } else { Freshness::Stale }
        }
    }
}

/// The candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CandidateView {
    /// The ref that names it.
    pub reference: RefName,
    /// Its commit.
    pub commit: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// The target's tip it is built on.
    pub onto: CommitId,
    /// Agents that are part of it, in merge order.
    pub merged: Vec<AgentName>,
}

impl CandidateView {
    /// The candidate of a run, if there is one.
    pub fn of(state: &RunState) -> Option<Self> {
        state.candidate.as_ref().map(|candidate| Self {
            reference: candidate.head.reference.clone(),
            commit: candidate.head.to.clone(),
            tree: candidate.head.tree.clone(),
            onto: candidate.head.onto.clone(),
            merged: candidate.merged.clone(),
        })
    }

    /// Whether the target has all of it already.
    pub fn is_contained(&self) -> bool {
        !self.merged.is_empty() && self.commit == self.onto
    }
}

/// Data of `status`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusData {
    /// The run.
    pub run: RunId,
    /// How it stands: `running`, `interrupted`, `complete`, `incomplete`, `landed`.
    pub state: RunCondition,
    /// Whether nothing new is to begin until it is continued.
    pub paused: bool,
    /// The process that coordinates it, or did.
    pub coordinator_pid: Option<u32>,
    /// What is being done for the run as a whole.
    pub stage: Option<Stage>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// How long it has been going, or went.
    pub elapsed_seconds: Option<i64>,
    /// When anything last happened.
    pub last_activity_at: Option<Timestamp>,
    /// The branch the result is meant for.
    pub target: Option<RefName>,
    /// The commit it started from.
    pub base: Option<CommitId>,
    /// The user's checkout now; `null` where not measured.
    pub checkout: Option<CheckoutFacts>,
    /// How many agents stand where: `total`, `passed`, `failed`, `pending`, `running`.
    pub counts: BTreeMap<&'static str, usize>,
    /// The agents, in plan order.
    pub agents: Vec<AgentRow>,
    /// Agents whose present work would conflict, while they are at work.
    pub overlaps: Vec<Overlap>,
    /// Cards that wait for a decision.
    pub cards: Vec<CardRow>,
    /// The candidate.
    pub candidate: Option<CandidateView>,
    /// The verifier's command, whether it ran or not.
    pub verify_command: Option<Vec<String>>,
    /// The newest verification; `null` where none has run.
    pub verifier: Option<VerifierView>,
    /// What the gate last found in the way; `null` where it has not been asked.
    pub blocks: Option<Vec<GateBlock>>,
    /// The commit the target was set to.
    pub landed: Option<CommitId>,
    /// How something else moved the target, as far as the run saw it; oldest first.
    pub target_moves: Vec<TargetMoved>,
    /// Layers of isolation that some box of it did without, as was allowed.
    pub degraded: BTreeSet<Layer>,
    /// Whether a process that a command left may have got away, for nothing ended all of them at once.
    pub leaky_possible: bool,
}

/// Whose own commits are not in the candidate's history though the plan asks for them, and why: a line each.
pub(super) fn history_lines(agents: &[AgentRow], look: Look) -> Vec<String> {
    let why = |row: &AgentRow| {
        let reason = row.merge.as_ref()?.history.as_ref()?.reason.as_ref()?;
        let words = format!("history   {} came in as one commit: {}", row.agent, text::clean(reason));
        Some(Tone::Warn.paint(&words, look))
    };
    agents.iter().filter_map(why).collect()
}

/// What boxes did without, where they did.
pub(super) fn degraded_line(degraded: &BTreeSet<Layer>, leaky_possible: bool, look: Look) -> Option<String> {
    let name = |layer: &Layer| match layer {
        Layer::Policy | Layer::Namespaces | Layer::Seccomp => layer.name(),
        Layer::Limits => "some limits",
    };
    let names: Vec<&str> = degraded.iter().map(name).collect();
    let leaky = if leaky_possible { "; leaky-possible: a process that an agent left may have got away" } else { "" };
    let words = || format!("degraded  without {}, as was allowed{leaky}", names.join(" and "));
    (!names.is_empty()).then(|| Tone::Warn.paint(&words(), look))
}

impl StatusData {
    /// The status of a run.
    pub fn of(state: &RunState, facts: &Facts) -> Self {
        let condition = RunCondition::of(state, facts.coordinator_alive);
        let until = match condition {
            RunCondition::Running => Some(facts.now),
            RunCondition::Interrupted | RunCondition::Complete | RunCondition::Incomplete | RunCondition::Landed => {
                state.last_activity_at
            }
        };
        let started = state.started.as_ref();
        Self {
            run: state.run_id.clone(),
            state: condition,
            paused: state.paused,
            coordinator_pid: state.invocation.as_ref().map(|invocation| invocation.pid),
            stage: state.stage,
            started_at: state.started_at,
            elapsed_seconds: state.started_at.zip(until).map(|(from, to)| text::since(from, to).as_secs()),
            last_activity_at: state.last_activity_at,
            target: started.and_then(|started| started.target.clone()),
            base: started.map(|started| started.base.clone()),
            checkout: facts.checkout.clone(),
            counts: state.counts(),
            agents: state.agents.iter().map(|agent| AgentRow::of(state, agent, facts)).collect(),
            overlaps: state.overlaps.clone(),
            cards: state.open_cards().map(CardRow::of).collect(),
            candidate: CandidateView::of(state),
            verify_command: started.and_then(|started| started.verify_command.clone()),
            verifier: VerifierView::of(state),
            blocks: state.gate.as_ref().map(|gate| gate.blocks.clone()),
            landed: state.landed.clone(),
            target_moves: state.target_moves.clone(),
            degraded: state.degraded(),
            leaky_possible: state.is_leaky_possible(),
        }
    }

    /// The status as text.
    pub fn render(&self, look: Look) -> String {
        let mut out = self.head(look);
        if !self.agents.is_empty() {
            out.push('\n');
            out.push_str(&self.table().render(look));
        }
        for row in self.agents.iter().filter(|row| row.limit.is_some()) {
            let reason = text::clean(row.reason.as_deref().unwrap_or_default());
            out.push_str(&Tone::Bad.paint(&format!("! {}: {reason}", row.agent), look));
            out.push('\n');
        }
        for row in self.agents.iter().filter(|row| !row.outside_owned_scope.is_empty()) {
            let paths = text::list(&row.outside_owned_scope, 3);
            out.push_str(&Tone::Warn.paint(&format!("! {}: outside its contract: {paths}", row.agent), look));
            out.push('\n');
        }
        out.push_str(&moves::lines(&self.target_moves, look));
        for overlap in &self.overlaps {
            let [one, other] = &overlap.agents;
            let paths = text::list(&overlap.paths, 3);
            out.push_str(&Tone::Warn.paint(&format!("! {one} and {other} would conflict in {paths}"), look));
            out.push('\n');
        }
        for card in &self.cards {
            out.push_str(&Tone::Warn.paint(&format!("! card {}", card.line()), look));
            out.push('\n');
        }
        out
    }

    fn head(&self, look: Look) -> String {
        let mut lines = vec![self.title(look)];
        if self.base.is_none() {
            lines.push("its journal does not tell how it began\n".to_owned());
            return lines.join("\n");
        }
        let target = self.target.as_ref().map_or("(no branch)", RefName::short);
        let base = self.base.as_ref().map_or_else(String::new, |base| format!(" from {}", base.short()));
        let checkout = self.checkout.as_ref().map_or_else(String::new, |checkout| {
            let branch = checkout.branch.as_deref().map_or("a detached commit".to_owned(), text::clean);
            format!("; checkout on {branch}, {}", text::count(checkout.dirty, "file changed", "files changed"))
        });
        lines.push(format!("target    {}{base}{checkout}", text::clean(target)));
        if let Some(candidate) = &self.candidate {
            let merged = if candidate.merged.is_empty() {
                "nothing merged yet".into()
            } else {
                text::list(&candidate.merged, 8)
            };
            lines.push(format!("candidate {} ({merged})", candidate.commit.short()));
        }
        lines.extend(history_lines(&self.agents, look));
        if self.paused {
            let line = format!("paused    nothing new begins until `sandbox resume {}`", self.run);
            lines.push(Tone::Warn.paint(&line, look));
        }
        if let Some(line) = degraded_line(&self.degraded, self.leaky_possible, look) {
            lines.push(line);
        }
        if self.degraded.contains(&Layer::Namespaces) {
            let until = match self.state {
                RunCondition::Running => Some("while it runs"),
                RunCondition::Interrupted => Some("before `sandbox resume`"),
                RunCondition::Complete | RunCondition::Incomplete | RunCondition::Landed => None,
            };
            lines.extend(until.map(|until| {
                format!("          run no git in its worktrees {until}: an agent could make it run programs")
            }));
        }
        lines.push(match (&self.verifier, &self.verify_command) {
            (Some(verifier), _) => format!("verifier  {}", verifier.line()),
            (None, Some(command)) => format!("verifier  not run yet: `{}`", text::command(command, 60)),
            (None, None) => "verifier  none in the plan".to_owned(),
        });
        lines.push(String::new());
        lines.join("\n")
    }

    fn title(&self, look: Look) -> String {
        let elapsed = self.elapsed_seconds.map_or_else(String::new, |seconds| {
            format!(" {}", text::duration(jiff::SignedDuration::from_secs(seconds)))
        });
        let count = |name: &str| self.counts.get(name).copied().unwrap_or(0);
        let counts: Vec<String> = ["passed", "failed", "running", "pending"]
            .into_iter()
            .filter(|name| count(name) > 0)
            .map(|name| format!("{} {}", count(name), self.count_word(name)))
            .collect();
        let counts = if counts.is_empty() { "no agents".to_owned() } else { counts.join(", ") };
        format!(
            "{}  {}{elapsed}  ({counts})",
            Tone::Strong.paint(self.run.as_str(), look),
            self.state.tone().paint(self.state_words(), look)
        )
    }

    /// How the run stands, in a few words.
    pub(super) fn state_words(&self) -> &'static str {
        match (self.state, self.paused) {
            (RunCondition::Running, true) => "running, paused",
            (RunCondition::Interrupted, true) => "interrupted while paused",
            (state, _) => state.name(),
        }
    }

    /// Nobody runs any more where the coordinator is gone.
    fn count_word(&self, name: &'static str) -> &'static str {
        if name == "running" && self.state != RunCondition::Running { "interrupted" } else { name }
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            "AGENT", "STATE", "STAGE", "TRY", "TURN", "FILES", "DIRTY", "SCOPE", "VERIFIED", "MERGE", "BRANCH",
        ]);
        table = table.expendable(&["BRANCH", "TRY", "STAGE", "TURN", "DIRTY"]);
        for row in &self.agents {
            table.row([
                row.agent.as_str().into(),
                row.state_cell(),
                self.stage_cell(row),
                Cell::maybe(row.attempt),
                Cell::maybe(row.last_checkpoint.as_ref().map(|checkpoint| checkpoint.turn)),
                row.files_cell(),
                Cell::maybe(row.dirty),
                row.contract_cell(),
                self.verified_cell(row),
                row.merge_cell(),
                Cell::maybe(row.branch.as_ref().map(RefName::short)),
            ]);
        }
        table
    }

    fn stage_cell(&self, row: &AgentRow) -> Cell {
        match (row.stage, row.stage_seconds) {
            (Some(stage), Some(seconds)) if self.state == RunCondition::Running => {
                format!("{} {}", stage_name(stage), text::duration(jiff::SignedDuration::from_secs(seconds))).into()
            }
            (Some(stage), _) => stage_name(stage).into(),
            (None, _) if !row.waiting_for.is_empty() => format!("after {}", text::list(&row.waiting_for, 2)).into(),
            (None, _) => Cell::absent(),
        }
    }

    fn verified_cell(&self, row: &AgentRow) -> Cell {
        match (row.verifier, self.verifier.as_ref().map(|verifier| verifier.verdict)) {
            (Freshness::Stale, _) => Cell::new("stale", Tone::Warn),
            (Freshness::Fresh, Some(verdict)) if verdict.is_pass() => Cell::new("pass", Tone::Good),
            (Freshness::Fresh, Some(verdict)) => Cell::new(verdict.to_string(), Tone::Bad),
            (Freshness::Fresh, None) | (Freshness::Never, _) => Cell::absent(),
        }
    }
}

/// The name of a stage.
pub fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Prepare => "prepare",
        Stage::Execute => "execute",
        Stage::Verify => "verify",
        Stage::Integrate => "integrate",
        Stage::ParentVerify => "parent-verify",
        Stage::Land => "land",
        Stage::Complete => "complete",
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;

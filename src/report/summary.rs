//! What is shown at the end of a run, and of every verb that goes on with one: a row for each agent, what is in the way, and
//! what to type next.

use std::collections::BTreeSet;

use sandbox::Layer;
use serde::Serialize;

use super::board::CardRow;
use super::facts::Facts;
use super::gate;
use super::look::{Look, Tone};
use super::moves;
use super::status::{
    AgentCondition, AgentRow, CandidateView, RunCondition, VerifierView, degraded_line, history_lines,
};
use super::table::{Cell, Table};
use super::text;
use crate::model::event::TargetMoved;
use crate::model::gate::GateBlock;
use crate::model::run::RunState;
use crate::model::{AttemptOutcome, CommitId, RefName, RunId};

/// How many agents the next steps name before they leave the rest to `status`.
const STEPS: usize = 5;

/// Data of `merge`, `verify`, `land` and `retry`: the run as it stands after them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SummaryData {
    /// The run.
    pub run: RunId,
    /// How it stands.
    pub state: RunCondition,
    /// Whether the gate was open.
    pub complete: bool,
    /// The exit code.
    pub exit_code: Option<u8>,
    /// The branch the result is meant for.
    pub target: Option<RefName>,
    /// The commit the target was set to.
    pub landed: Option<CommitId>,
    /// How something else moved the target, as far as the run saw it; oldest first.
    pub target_moves: Vec<TargetMoved>,
    /// The candidate.
    pub candidate: Option<CandidateView>,
    /// The newest verification; `null` where none has run.
    pub verifier: Option<VerifierView>,
    /// The agents, in plan order.
    pub agents: Vec<AgentRow>,
    /// Cards that wait for a decision.
    pub cards: Vec<CardRow>,
    /// What is in the way.
    pub blocks: Vec<GateBlock>,
    /// What to do next.
    pub next_steps: Vec<NextStep>,
    /// Layers of isolation that some box of it did without, as was allowed.
    pub degraded: BTreeSet<Layer>,
    /// Whether a process that a command left may have got away, for nothing ended all of them at once.
    pub leaky_possible: bool,
}

/// Something to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NextStep {
    /// What it does.
    pub title: String,
    /// The command that does it.
    pub command: String,
}

impl SummaryData {
    /// The summary of a run.
    pub fn of(state: &RunState, facts: &Facts) -> Self {
        let agents: Vec<AgentRow> = state.agents.iter().map(|agent| AgentRow::of(state, agent, facts)).collect();
        Self {
            run: state.run_id.clone(),
            state: RunCondition::of(state, facts.coordinator_alive),
            complete: state.is_complete(),
            exit_code: state.finished.as_ref().map(|finished| finished.exit_code),
            target: state.started.as_ref().and_then(|started| started.target.clone()),
            landed: state.landed.clone(),
            target_moves: state.target_moves.clone(),
            candidate: CandidateView::of(state),
            verifier: VerifierView::of(state),
            cards: state.open_cards().map(CardRow::of).collect(),
            blocks: state.gate.as_ref().map(|gate| gate.blocks.clone()).unwrap_or_default(),
            next_steps: next_steps(state, &agents, facts),
            degraded: state.degraded(),
            leaky_possible: state.is_leaky_possible(),
            agents,
        }
    }

    /// The summary as text.
    pub fn render(&self, look: Look) -> String {
        let mut out = String::new();
        if !self.agents.is_empty() {
            out.push_str(&self.table().render(look));
            out.push('\n');
        }
        if let Some(verifier) = &self.verifier {
            out.extend(["verifier: ", &verifier.line(), "\n"]);
        }
        for line in history_lines(&self.agents, look) {
            out.extend([&line, "\n"]);
        }
        if let Some(line) = degraded_line(&self.degraded, self.leaky_possible, look) {
            out.extend([&line, "\n"]);
        }
        out.push_str(&moves::lines(&self.target_moves, look));
        out.push_str(&self.verdict(look));
        out.push('\n');
        out.push_str(&gate::render_blocks(&self.blocks, look));
        if !self.next_steps.is_empty() {
            out.extend(["\n", &Tone::Strong.paint("next", look), "\n"]);
            let width = self.next_steps.iter().map(|step| text::width(&step.command)).max().unwrap_or(0);
            for step in &self.next_steps {
                out.extend(["  ", &text::padded(&step.command, width), "  # ", &step.title, "\n"]);
            }
        }
        out
    }

    fn verdict(&self, look: Look) -> String {
        let run = &self.run;
        let target = self.target.as_ref().map_or_else(|| "the target".to_owned(), |target| text::clean(target.short()));
        let said = match (&self.state, &self.landed) {
            (RunCondition::Running, _) => format!("{run} is still running"),
            (RunCondition::Interrupted, _) => format!("{run} was interrupted"),
            (RunCondition::Landed, Some(commit)) => format!("{run} landed: {target} is now {}", commit.short()),
            (RunCondition::Complete | RunCondition::Landed, _)
                if self.candidate.as_ref().is_some_and(CandidateView::is_contained) =>
            {
                format!("{run} is complete, and there is nothing to land: {target} has all of it")
            }
            (RunCondition::Complete | RunCondition::Landed, _) => {
                format!("{run} is complete; {target} was not touched")
            }
            (RunCondition::Incomplete, _) => format!("{run} is not complete; {target} was not touched"),
        };
        self.state.tone().paint(&said, look)
    }

    fn table(&self) -> Table {
        let mut table = Table::new(["AGENT", "OUTCOME", "TURNS", "FILES", "CONTRACT", "MERGE", "NEXT"]);
        table = table.expendable(&["NEXT", "TURNS"]);
        for row in &self.agents {
            table.row([
                row.agent.as_str().into(),
                row.state_cell(),
                if row.turns == 0 { Cell::absent() } else { row.turns.to_string().into() },
                row.files_cell(),
                row.contract_cell(),
                row.merge_cell(),
                next_words(row).map_or_else(Cell::absent, Cell::from),
            ]);
        }
        table
    }
}

/// What there is to do about one agent, in a word or two; the commands stand below the table.
fn next_words(row: &AgentRow) -> Option<&'static str> {
    match row.state {
        AgentCondition::Pending | AgentCondition::Preparing | AgentCondition::Running => None,
        AgentCondition::Interrupted => Some("resume"),
        // What it waited for in vain is there now.
        AgentCondition::Ended(AttemptOutcome::Blocked) if row.waiting_for.is_empty() => Some("retry"),
        AgentCondition::Ended(outcome) => match remedy(outcome) {
            Remedy::Nothing if row.merge.as_ref().is_some_and(|merge| !merge.cards.is_empty()) => Some("decide"),
            Remedy::Nothing => None,
            Remedy::Resume => Some("resume"),
            Remedy::Retry => Some("retry"),
            Remedy::Look => Some("inspect"),
        },
    }
}

enum Remedy {
    Nothing,
    Resume,
    Retry,
    Look,
}

fn remedy(outcome: AttemptOutcome) -> Remedy {
    match outcome {
        AttemptOutcome::Completed | AttemptOutcome::NoChanges | AttemptOutcome::Blocked | AttemptOutcome::Skipped => {
            Remedy::Nothing
        }
        AttemptOutcome::Failed
        | AttemptOutcome::CouldNotStart
        | AttemptOutcome::TimedOut
        | AttemptOutcome::Idle
        | AttemptOutcome::OutputLimit
        | AttemptOutcome::Limit
        | AttemptOutcome::SetupFailed
        | AttemptOutcome::Stale => Remedy::Retry,
        AttemptOutcome::Interrupted => Remedy::Resume,
        AttemptOutcome::CaptureFailed
        | AttemptOutcome::HarvestRefused
        | AttemptOutcome::Tampered
        | AttemptOutcome::SandboxRefused => Remedy::Look,
    }
}

/// What to type next, the most urgent first.
fn next_steps(state: &RunState, agents: &[AgentRow], facts: &Facts) -> Vec<NextStep> {
    let run = &state.run_id;
    let mut steps = Vec::new();
    let mut step = |title: &str, command: String| steps.push(NextStep { title: title.to_owned(), command });
    if RunCondition::of(state, facts.coordinator_alive) == RunCondition::Running {
        step("watch it", format!("sandbox status {run} --watch"));
        return steps;
    }
    let cut_short: Vec<&AgentRow> = agents.iter().filter(|row| next_words(row) == Some("resume")).collect();
    if !cut_short.is_empty() || RunCondition::of(state, facts.coordinator_alive) == RunCondition::Interrupted {
        step("go on with it", format!("sandbox resume {run}"));
    }
    for card in state.open_cards().take(STEPS) {
        step("see what waits for a decision", format!("sandbox board show {} --run {run}", card.id));
    }
    let troubled: Vec<&AgentRow> =
        agents.iter().filter(|row| matches!(next_words(row), Some("retry" | "inspect"))).collect();
    for row in troubled.iter().take(STEPS) {
        // One that waited in vain did and said nothing.
        if row.state != AgentCondition::Ended(AttemptOutcome::Blocked) {
            step("see what it did and said", format!("sandbox inspect {} --run {run} --output", row.agent));
        }
        if next_words(row) == Some("retry") {
            let fresh = if facts.has_no_worktree(&row.agent) { " --fresh" } else { "" };
            step("try it again", format!("sandbox retry {}{fresh} --run {run}", row.agent));
        }
    }
    let passed = state.verifier_is_fresh()
        && state.verification.as_ref().is_some_and(|verification| verification.finished.verdict.is_pass());
    let merged = state.candidate.as_ref().is_some_and(|candidate| !candidate.merged.is_empty());
    if state.verification.is_some() && !passed {
        step("see what the verifier said", format!("sandbox logs verify --run {run}"));
    }
    if state.landed.is_some() || (state.is_complete() && state.contained_in().is_some()) {
        step("remove its worktrees; snapshots and patches stay", format!("sandbox clean {run}"));
    } else if state.is_complete() && merged {
        if let (Some(candidate), Some(target)) =
            (&state.candidate, state.started.as_ref().and_then(|started| started.target.as_ref()))
        {
            let range = format!("{}...{}", target.short(), candidate.head.reference.short());
            step("read the result", text::command(&["git".into(), "diff".into(), range], usize::MAX));
        }
        step("put it on the target", format!("sandbox land {run}"));
    } else if troubled.is_empty() && cut_short.is_empty() && state.open_cards().next().is_none() && !passed {
        step("merge and verify anew", format!("sandbox merge {run}"));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    fn text(state: &RunState) -> String {
        SummaryData::of(state, &samples::facts(200, false)).render(Look::PLAIN)
    }

    #[test]
    fn blocked() {
        insta::assert_snapshot!(text(&samples::blocked()), @r"
        AGENT   OUTCOME    TURNS  FILES      CONTRACT   MERGE              NEXT
        parser  completed  1      3 +120 -7  kept       merged             -
        ui      completed  1      3          kept       conflict c1a2b3c4  decide
        api     completed  1      3          kept       waits for ui       -
        docs    failed     2      3          1 outside  -                  retry

        verifier: failed by `cargo test --workspace`: 2 tests failed
        login-3 is not complete; main was not touched
          - docs: failed: turn 1.2 ended with exit status 1
            -> retry it
          - card c1a2b3c4: conflict of ui with parser
            src/parser/mod.rs
            -> decide, then merge again
          - the verifier failed: 2 tests failed
            -> mend what it names

        next
          sandbox board show c1a2b3c4 --run login-3    # see what waits for a decision
          sandbox inspect docs --run login-3 --output  # see what it did and said
          sandbox retry docs --run login-3             # try it again
          sandbox logs verify --run login-3            # see what the verifier said
        ");
    }

    #[test]
    fn complete() {
        insta::assert_snapshot!(text(&samples::complete()), @r"
        AGENT   OUTCOME     TURNS  FILES      CONTRACT  MERGE   NEXT
        parser  completed   1      3 +120 -7  kept      merged  -
        notes   no_changes  1      0          kept      -       -

        verifier: passed by `cargo test --workspace`
        login-3 is complete; main was not touched

        next
          git diff main...sandbox/login-3/integration  # read the result
          sandbox land login-3                         # put it on the target
        ");
    }

    #[test]
    fn landed() {
        insta::assert_snapshot!(text(&samples::landed()), @r"
        AGENT   OUTCOME     TURNS  FILES      CONTRACT  MERGE   NEXT
        parser  completed   1      3 +120 -7  kept      merged  -
        notes   no_changes  1      0          kept      -       -

        verifier: passed by `cargo test --workspace`
        login-3 landed: main is now aaaaaaaaaa

        next
          sandbox clean login-3  # remove its worktrees; snapshots and patches stay
        ");
    }

    #[test]
    fn interrupted() {
        insta::assert_snapshot!(text(&samples::running()), @r"
        AGENT   OUTCOME      TURNS  FILES      CONTRACT   MERGE  NEXT
        parser  interrupted  1      3 +120 -7  kept       -      resume
        docs    interrupted  -      -          2 outside  -      resume
        ui      pending      -      -          -          -      -

        login-3 was interrupted

        next
          sandbox resume login-3  # go on with it
        ");
    }

    #[test]
    fn json() {
        let data = SummaryData::of(&samples::complete(), &samples::facts(200, false));
        let value = serde_json::to_value(&data).unwrap();
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        insta::assert_snapshot!(format!("{keys:?}"), @r#"["agents", "blocks", "candidate", "cards", "complete", "degraded", "exitCode", "landed", "leakyPossible", "nextSteps", "run", "state", "target", "targetMoves", "verifier"]"#);
        insta::assert_snapshot!(value["nextSteps"], @r#"[{"command":"git diff main...sandbox/login-3/integration","title":"read the result"},{"command":"sandbox land login-3","title":"put it on the target"}]"#);
    }
}

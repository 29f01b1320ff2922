//! `inspect`: an agent's attempts and turns, and one turn in full. Patches and output are printed as they are kept, by the
//! verb; nothing here shows the contents of a file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;
use sandbox::Layer;
use serde::Serialize;

use super::facts::Facts;
use super::look::{Look, Tone};
use super::status::{AgentCondition, AgentRow, degraded_line, outcome_tone};
use super::table::{Cell, Table};
use super::text;
use crate::model::change::{DiffStat, NotCaptured, TurnRecord};
use crate::model::event::Hint;
use crate::model::run::{AgentState, AttemptState, RunState};
use crate::model::{AgentName, AttemptOutcome, CommitId, LimitMet, ProcessEnd, RefName, RepoPath, TreeId, TurnId};

/// Data of `inspect <agent>`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InspectData {
    /// The agent as `status` shows it.
    #[serde(flatten)]
    pub row: AgentRow,
    /// Whose work it builds on.
    pub after: Vec<AgentName>,
    /// The commit its worktree was made from.
    pub fork_point: Option<CommitId>,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptView>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptView {
    /// Its number, from 1.
    pub number: u32,
    /// How it ended; `null` while it runs, and where the coordinator died.
    pub outcome: Option<AttemptOutcome>,
    /// Whether nobody will end it any more.
    pub interrupted: bool,
    /// Why it ended so, in a line.
    pub reason: Option<String>,
    /// How its last command ended.
    pub end: Option<ProcessEnd>,
    /// The limit of its box that it was ended for.
    pub limit: Option<LimitMet>,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took, or has been going.
    pub duration_ms: u64,
    /// What drove it.
    pub adapter: Option<String>,
    /// Where it worked.
    pub worktree: Option<PathBuf>,
    /// Its branch.
    pub branch: Option<RefName>,
    /// The snapshot it began with.
    pub base_ref: Option<CommitId>,
    /// The snapshot that may be merged.
    pub snapshot: Option<CommitId>,
    /// How many of its processes were still there at the end of its turns, and were killed.
    pub leftover_processes: Option<u32>,
    /// Its turns, oldest first.
    pub turns: Vec<TurnView>,
    /// What is worth knowing beside that, such as what it was kept from.
    pub hints: Vec<Hint>,
    /// Globs that it owned beyond the plan's contract: they were asked for and granted before.
    pub granted: Vec<String>,
    /// Layers of isolation that its box did without, as was allowed.
    pub degraded: BTreeSet<Layer>,
}

/// One turn in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnView {
    /// The turn, `2.1`.
    pub turn: TurnId,
    /// What it was.
    pub label: String,
    /// How many paths it changed.
    pub changed: u64,
    /// The snapshot.
    pub snapshot: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// The patch, relative to the run's folder.
    pub patch: Option<String>,
    /// How its command ended.
    pub end: Option<ProcessEnd>,
    /// Whether it was cut short.
    pub interrupted: bool,
    /// Whether the agent ended it itself, while running.
    pub live: bool,
    /// Whether nothing changed.
    pub empty: bool,
}

impl InspectData {
    /// An agent of a run.
    pub fn of(state: &RunState, agent: &AgentState, facts: &Facts) -> Self {
        Self {
            row: AgentRow::of(state, agent, facts),
            after: agent.after.clone(),
            fork_point: agent.fork_point().cloned(),
            attempts: agent.attempts.iter().map(|attempt| AttemptView::of(attempt, facts)).collect(),
        }
    }

    /// The agent as text.
    pub fn render(&self, look: Look) -> String {
        let row = &self.row;
        let mut out = format!(
            "{}  {}\n",
            Tone::Strong.paint(row.agent.as_str(), look),
            row.state.tone().paint(row.state.name(), look)
        );
        let mut fact = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                out.extend([&text::padded(name, 10), &text::clean(&value), "\n"]);
            }
        };
        fact("title", row.title.clone());
        fact("after", (!self.after.is_empty()).then(|| text::list(&self.after, usize::MAX)));
        fact("branch", row.branch.as_ref().map(|branch| branch.short().to_owned()));
        fact("worktree", row.worktree.as_ref().map(|path| path.display().to_string()));
        fact("fork", self.fork_point.as_ref().map(ToString::to_string));
        fact("changed", changed_words(row.diff_stat, row.files_changed));
        fact("merge", row.merge.as_ref().map(super::status::MergeView::words));
        let degraded = self.attempts.iter().flat_map(|attempt| &attempt.degraded).copied().collect();
        if let Some(line) = degraded_line(&degraded, false, look) {
            out.extend([&line, "\n"]);
        }
        if !row.outside_owned_scope.is_empty() {
            out.push_str(&Tone::Bad.paint("outside its contract", look));
            out.push('\n');
            out.push_str(&text::lines(&row.outside_owned_scope, "  "));
        }
        for attempt in &self.attempts {
            out.push('\n');
            out.push_str(&attempt.render(look));
        }
        if self.attempts.is_empty() {
            out.push_str("\nno attempt yet\n");
        }
        out
    }
}

fn changed_words(stat: Option<DiffStat>, files: Option<u64>) -> Option<String> {
    match (stat, files) {
        (Some(stat), _) => Some(stat_words(stat)),
        (None, Some(files)) => Some(text::count(files, "file since the fork point", "files since the fork point")),
        (None, None) => None,
    }
}

/// Files, insertions and deletions in words.
pub fn stat_words(stat: DiffStat) -> String {
    format!("{}, +{} -{}", text::count(stat.files, "file", "files"), stat.insertions, stat.deletions)
}

impl AttemptView {
    fn of(attempt: &AttemptState, facts: &Facts) -> Self {
        let (started, finished) = (attempt.started.as_ref(), attempt.finished.as_ref());
        let going = text::since(attempt.started_at, facts.now).as_millis();
        Self {
            number: attempt.number,
            outcome: finished.map(|finished| finished.outcome),
            interrupted: finished.is_none() && !facts.coordinator_alive,
            reason: finished.map(|finished| finished.reason.clone()).filter(|reason| !reason.is_empty()),
            end: finished.and_then(|finished| finished.end),
            limit: finished.and_then(|finished| finished.limit),
            started_at: attempt.started_at,
            duration_ms: finished.map_or_else(|| u64::try_from(going).unwrap_or(0), |finished| finished.duration_ms),
            adapter: started.map(|started| started.adapter.clone()),
            worktree: started.map(|started| started.worktree.clone()),
            branch: started.map(|started| started.branch.clone()),
            base_ref: started.map(|started| started.base_ref.clone()),
            snapshot: finished.and_then(|finished| finished.snapshot.clone()),
            leftover_processes: finished.map(|finished| finished.leftover_processes),
            turns: attempt.turns.iter().map(TurnView::of).collect(),
            hints: finished.map(|finished| finished.hints.clone()).unwrap_or_default(),
            granted: started.map(|started| started.granted.clone()).unwrap_or_default(),
            degraded: started.map(|started| started.degraded.clone()).unwrap_or_default(),
        }
    }

    fn render(&self, look: Look) -> String {
        let (state, tone) = match self.outcome {
            Some(outcome) => (outcome.name(), outcome_tone(outcome)),
            None if self.interrupted => (AgentCondition::Interrupted.name(), Tone::Bad),
            None => (AgentCondition::Running.name(), Tone::Plain),
        };
        // How long an attempt went that nobody saw the end of is not known.
        let time = if self.interrupted { String::new() } else { format!(" {}", text::millis(self.duration_ms)) };
        let reason = self.reason.as_ref().map(|reason| format!(": {}", text::clean(reason))).unwrap_or_default();
        let mut out = format!("attempt {}  {}{time}{reason}\n", self.number, tone.paint(state, look));
        if !self.granted.is_empty() {
            out.extend(["  owned besides, as granted: ", &text::list(&self.granted, text::LISTED), "\n"]);
        }
        if let Some(leftover) = self.leftover_processes.filter(|count| *count > 0) {
            out.extend(["  left ", &text::count(leftover.into(), "process", "processes"), ", killed\n"]);
        }
        if !self.turns.is_empty() {
            out.push_str(&self.turns_table().render(look));
        }
        for hint in &self.hints {
            out.extend(["  hint: ", &text::clean(&hint.text), "\n"]);
        }
        out
    }

    fn turns_table(&self) -> Table {
        let mut table = Table::new(["TURN", "CHANGED", "SNAPSHOT", "ENDED", "MARKS", "LABEL"]).indented(2);
        for turn in &self.turns {
            let marks: Vec<&str> = [("interrupted", turn.interrupted), ("live", turn.live), ("empty", turn.empty)]
                .into_iter()
                .filter_map(|(mark, set)| set.then_some(mark))
                .collect();
            table.row([
                turn.turn.to_string().into(),
                turn.changed.to_string().into(),
                turn.snapshot.short().into(),
                Cell::maybe(turn.end),
                Cell::maybe((!marks.is_empty()).then(|| marks.join(" "))),
                turn.label.as_str().into(),
            ]);
        }
        table
    }
}

impl TurnView {
    fn of((turn, finished): &(TurnId, crate::model::event::TurnFinished)) -> Self {
        Self {
            turn: *turn,
            label: finished.label.clone(),
            changed: finished.changed,
            snapshot: finished.snapshot.clone(),
            tree: finished.tree.clone(),
            patch: finished.patch.clone(),
            end: finished.end,
            interrupted: finished.interrupted,
            live: finished.live,
            empty: finished.empty,
        }
    }
}

/// One turn in full. Its JSON is the record itself.
pub fn render_turn(record: &TurnRecord, look: Look) -> String {
    let marks: Vec<&str> = [
        ("interrupted", record.interrupted),
        ("live", record.live),
        ("empty", record.empty),
        ("history rewritten", record.history_rewritten),
    ]
    .into_iter()
    .filter_map(|(mark, set)| set.then_some(mark))
    .collect();
    let title = format!("{} turn {}", record.agent, record.turn);
    let mut out = format!("{}  {}\n", Tone::Strong.paint(&title, look), text::clean(&record.label));
    let mut fact = |name: &str, value: &str| out.extend([&text::padded(name, 11), &text::clean(value), "\n"]);
    fact("changed", &stat_words(record.change_set.diff_stat));
    fact("ended", &record.end.map_or_else(|| "-".to_owned(), |end| end.to_string()));
    if !marks.is_empty() {
        fact("marks", &marks.join(", "));
    }
    fact("snapshot", record.snapshot.as_str());
    fact("tree", &format!("{} (before: {})", record.tree, record.previous_tree));
    fact("fork", record.fork_point.as_str());
    fact("agent head", record.agent_head.as_ref().map_or("-", CommitId::as_str));
    fact("patch", record.patch.as_deref().unwrap_or("none, nothing changed"));
    if let Some(sha256) = &record.patch_sha256 {
        fact("sha256", sha256);
    }
    fact("owns", &text::list(&record.owned_scope.owns, text::LISTED));
    if !record.owned_scope.shares.is_empty() {
        fact("shares", &text::list(&record.owned_scope.shares, text::LISTED));
    }
    section(&mut out, "files", &text::lines(&name_status(record), "  "), look);
    section(&mut out, "outside its contract", &text::lines(&record.change_set.outside_owned_scope, "  "), look);
    let before: Vec<RepoPath> = record
        .outside_since_fork
        .iter()
        .filter(|path| !record.change_set.outside_owned_scope.contains(path))
        .cloned()
        .collect();
    section(&mut out, "outside its contract since earlier turns", &text::lines(&before, "  "), look);
    section(&mut out, "not captured", &not_captured(&record.not_captured), look);
    section(&mut out, "other commits kept", &text::lines(&record.kept_tips, "  "), look);
    out
}

/// The recorded lines with their tabs made spaces, so that escaping leaves them readable.
fn name_status(record: &TurnRecord) -> Vec<String> {
    record.change_set.name_status.iter().map(|line| line.replace('\t', "  ")).collect()
}

fn not_captured(missing: &NotCaptured) -> String {
    let mut out = String::new();
    if missing.ignored_total > 0 {
        let count = text::count(missing.ignored_total, "ignored path", "ignored paths");
        out.extend(["  ", &count, ": ", &text::list(&missing.ignored, 5), "\n"]);
    }
    if !missing.nested_repositories.is_empty() {
        out.extend(["  repositories inside: ", &text::list(&missing.nested_repositories, 5), "\n"]);
    }
    out.push_str(&text::lines(&missing.refused, "  refused: "));
    out
}

fn section(out: &mut String, name: &str, body: &str, look: Look) {
    if !body.is_empty() {
        out.extend(["\n", &Tone::Strong.paint(name, look), "\n", body]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    fn inspect(state: &RunState, agent: &str, alive: bool) -> InspectData {
        let agent = state.agents.iter().find(|known| known.name.as_str() == agent).unwrap();
        InspectData::of(state, agent, &samples::facts(200, alive))
    }

    #[test]
    fn agent() {
        let data = inspect(&samples::blocked(), "docs", false);
        insta::assert_snapshot!(data.render(Look::PLAIN), @r"
        docs  failed
        title     The docs
        branch    sandbox/login-3/docs
        worktree  /var/worktrees/app/login-3--docs
        fork      bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
        changed   3 files since the fork point
        outside its contract
          src/main.rs

        attempt 1  failed 1m 02s: turn 1.2 ended with exit status 1
          left 1 process, killed
          TURN  CHANGED  SNAPSHOT    ENDED          MARKS  LABEL
          1.1   2        dddddddddd  exit status 0  -      step 1
          1.2   0        dddddddddd  exit status 1  empty  step 2
          hint: `example.com` seems not to be reached: the agent has no network; see `sandbox.network`
        ");
        insta::assert_snapshot!(serde_json::to_string_pretty(&data).unwrap(), @r#"
        {
          "agent": "docs",
          "title": "The docs",
          "state": "failed",
          "reason": "turn 1.2 ended with exit status 1",
          "limit": null,
          "stage": null,
          "stageSeconds": null,
          "attempt": 1,
          "runningTurn": null,
          "turns": 2,
          "waitingFor": [],
          "branch": "refs/heads/sandbox/login-3/docs",
          "worktree": "/var/worktrees/app/login-3--docs",
          "dirty": null,
          "filesChanged": 3,
          "diffStat": null,
          "lastCheckpoint": {
            "id": "docs@1.1",
            "turn": "1.1"
          },
          "verifier": "never",
          "contractKept": false,
          "outsideOwnedScope": [
            "src/main.rs"
          ],
          "merge": null,
          "after": [],
          "forkPoint": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
          "attempts": [
            {
              "number": 1,
              "outcome": "failed",
              "interrupted": false,
              "reason": "turn 1.2 ended with exit status 1",
              "end": {
                "how": "exited",
                "value": 1
              },
              "limit": null,
              "startedAt": "2025-06-15T15:06:42Z",
              "durationMs": 62500,
              "adapter": "command",
              "worktree": "/var/worktrees/app/login-3--docs",
              "branch": "refs/heads/sandbox/login-3/docs",
              "baseRef": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
              "snapshot": "dddddddddddddddddddddddddddddddddddddddd",
              "leftoverProcesses": 1,
              "turns": [
                {
                  "turn": "1.1",
                  "label": "step 1",
                  "changed": 2,
                  "snapshot": "dddddddddddddddddddddddddddddddddddddddd",
                  "tree": "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
                  "patch": "agents/docs/turns/1.1.patch",
                  "end": {
                    "how": "exited",
                    "value": 0
                  },
                  "interrupted": false,
                  "live": false,
                  "empty": false
                },
                {
                  "turn": "1.2",
                  "label": "step 2",
                  "changed": 0,
                  "snapshot": "dddddddddddddddddddddddddddddddddddddddd",
                  "tree": "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
                  "patch": null,
                  "end": {
                    "how": "exited",
                    "value": 1
                  },
                  "interrupted": false,
                  "live": false,
                  "empty": true
                }
              ],
              "hints": [
                {
                  "text": "`example.com` seems not to be reached: the agent has no network; see `sandbox.network`",
                  "inferred": true
                }
              ],
              "granted": [],
              "degraded": []
            }
          ]
        }
        "#);
    }

    #[test]
    fn an_attempt_without_an_end() {
        insta::assert_snapshot!(inspect(&samples::running(), "parser", true).render(Look::PLAIN), @r"
        parser  running
        title     The parser
        branch    sandbox/login-3/parser
        worktree  /var/worktrees/app/login-3--parser
        fork      bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
        changed   3 files, +120 -7

        attempt 1  running 3m 18s
          TURN  CHANGED  SNAPSHOT    ENDED          MARKS  LABEL
          1.1   2        dddddddddd  exit status 0  -      step 1
        ");
        let dead = inspect(&samples::running(), "parser", false).render(Look::PLAIN);
        assert!(dead.contains("attempt 1  interrupted\n"), "{dead}");
        assert!(inspect(&samples::running(), "ui", true).render(Look::PLAIN).contains("no attempt yet"));
    }

    #[test]
    fn turn() {
        insta::assert_snapshot!(render_turn(&samples::turn_record(), Look::PLAIN), @r"
        docs turn 1.2  write the guide
        changed    2 files, +40 -1
        ended      signal 15
        marks      interrupted, history rewritten
        snapshot   dddddddddddddddddddddddddddddddddddddddd
        tree       eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee (before: cccccccccccccccccccccccccccccccccccccccc)
        fork       bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
        agent head 6666666666666666666666666666666666666666
        patch      1.2.patch
        sha256     8888888888888888888888888888888888888888888888888888888888888888
        owns       docs/**
        shares     README.md

        files
          A  docs/guide.md
          M  src/main.rs

        outside its contract
          src/main.rs

        outside its contract since earlier turns
          Cargo.toml

        not captured
          3 ignored paths: target/
          refused: run.sock: a socket
        ");
    }
}

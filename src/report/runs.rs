//! `runs`: every run of a repository, the newest first.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::look::{Look, Tone};
use super::status::RunCondition;
use super::table::{Cell, Table};
use super::text;
use crate::model::run::RunState;
use crate::model::{CommitId, RefName, RunId};

/// One run in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    /// The run.
    pub run: RunId,
    /// How it stands: `running`, `interrupted`, `complete`, `incomplete`, `landed`.
    pub state: RunCondition,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// The branch the result is meant for.
    pub target: Option<RefName>,
    /// How many agents stand where: `total`, `passed`, `failed`, `pending`, `running`.
    pub counts: BTreeMap<&'static str, usize>,
    /// How many cards wait for a decision.
    pub open_cards: u64,
    /// The exit code it ended with.
    pub exit_code: Option<u8>,
    /// The commit the target was set to.
    pub landed: Option<CommitId>,
}

impl RunRow {
    /// The row of a run.
    pub fn of(state: &RunState, coordinator_alive: bool) -> Self {
        Self {
            run: state.run_id.clone(),
            state: RunCondition::of(state, coordinator_alive),
            started_at: state.started_at,
            target: state.started.as_ref().and_then(|started| started.target.clone()),
            counts: state.counts(),
            open_cards: u64::try_from(state.open_cards().count()).unwrap_or(u64::MAX),
            exit_code: state.finished.as_ref().map(|finished| finished.exit_code),
            landed: state.landed.clone(),
        }
    }
}

/// Data of `runs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RunsData {
    /// The runs, the newest first.
    pub runs: Vec<RunRow>,
}

impl RunsData {
    /// The list of these runs.
    pub fn of(mut rows: Vec<RunRow>) -> Self {
        rows.sort_by(|a, b| b.run.number().cmp(&a.run.number()).then_with(|| b.run.cmp(&a.run)));
        Self { runs: rows }
    }

    /// The list as text.
    pub fn render(&self, now: Timestamp, look: Look) -> String {
        if self.runs.is_empty() {
            return "no runs in this repository yet\n".to_owned();
        }
        let mut table = Table::new(["RUN", "STATE", "STARTED", "AGENTS", "CARDS", "TARGET", "LANDED"]);
        table = table.expendable(&["LANDED", "STARTED"]);
        for row in &self.runs {
            let count = |name: &str| row.counts.get(name).copied().unwrap_or(0);
            table.row([
                row.run.as_str().into(),
                Cell::new(row.state.name(), row.state.tone()),
                Cell::maybe(row.started_at.map(|at| format!("{} ago", text::duration(text::since(at, now))))),
                format!("{}/{}", count("passed"), count("total")).into(),
                if row.open_cards == 0 { Cell::absent() } else { Cell::new(row.open_cards.to_string(), Tone::Warn) },
                Cell::maybe(row.target.as_ref().map(RefName::short)),
                Cell::maybe(row.landed.as_ref().map(CommitId::short)),
            ]);
        }
        table.render(look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn list() {
        let mut old = RunRow::of(&samples::running(), false);
        old.run = "docs-2".parse().unwrap();
        let data = RunsData::of(vec![
            old,
            RunRow::of(&samples::landed(), false),
            RunRow { run: "login-12".parse().unwrap(), ..RunRow::of(&samples::blocked(), false) },
        ]);
        insta::assert_snapshot!(data.render(samples::at(7200), Look::PLAIN), @r"
        RUN       STATE        STARTED     AGENTS  CARDS  TARGET  LANDED
        login-12  incomplete   2h 00m ago  3/4     1      main    -
        login-3   landed       2h 00m ago  2/2     -      main    aaaaaaaaaa
        docs-2    interrupted  2h 00m ago  0/3     -      main    -
        ");
        insta::assert_snapshot!(serde_json::to_string(&data.runs[0]).unwrap(), @r#"{"run":"login-12","state":"incomplete","startedAt":"2025-06-15T15:06:40Z","target":"refs/heads/main","counts":{"failed":1,"passed":3,"pending":0,"running":0,"total":4},"openCards":1,"exitCode":6,"landed":null}"#);
        assert_eq!(RunsData::default().render(samples::at(0), Look::PLAIN), "no runs in this repository yet\n");
    }
}

//! The block at the foot of a terminal that shows a run while it goes: a line for the run and one for each agent, redrawn in
//! place. Lines that stay are printed above it.
//!
//! [`block`] says what the block shows; [`Area`] says what to send to the terminal so that it stands there. Neither prints.
//! The block is never wider or higher than the terminal: a line that wraps, or a block that scrolls, could not be taken back.
//! After a resize, lines of the old block may have been wrapped: [`Area`] counts the rows they take now.

use super::facts::Facts;
use super::look::Look;
use super::status::{AgentCondition, AgentRow, RunCondition, StatusData, stage_name};
use super::text;
use crate::model::run::RunState;

/// The fewest rows a block is worth showing on.
const LOWEST: usize = 3;

/// What the block shows: at most `rows` lines, each at most as wide as the look says.
pub fn block(state: &RunState, facts: &Facts, rows: usize, look: Look) -> Vec<String> {
    let status = StatusData::of(state, facts);
    let room = rows.max(LOWEST) - 1;
    let mut lines = vec![head(&status)];
    let mut order: Vec<&AgentRow> = status.agents.iter().collect();
    let hidden = if order.len() > room {
        order.sort_by_key(|row| urgency(row.state));
        let kept = room - 1;
        order.split_off(kept)
    } else {
        Vec::new()
    };
    let widest = status.agents.iter().map(|row| row.agent.as_str().len()).max().unwrap_or(0);
    lines.extend(order.iter().map(|row| agent_line(row, widest)));
    if !hidden.is_empty() {
        lines.push(format!("  and {} more", hidden.len()));
    }
    let columns = look.width.unwrap_or(80);
    lines.iter().map(|line| text::cut(line, columns)).collect()
}

/// Those under way first, then those that wait, then those that are done. Plan order within.
fn urgency(state: AgentCondition) -> u8 {
    match state {
        AgentCondition::Running | AgentCondition::Preparing | AgentCondition::Interrupted => 0,
        AgentCondition::Pending => 1,
        AgentCondition::Ended(outcome) if !outcome.lets_dependents_start() => 2,
        AgentCondition::Ended(_) => 3,
    }
}

fn head(status: &StatusData) -> String {
    let elapsed = status
        .elapsed_seconds
        .map_or_else(String::new, |seconds| format!(" {}", text::duration(jiff::SignedDuration::from_secs(seconds))));
    let count = |name: &str| status.counts.get(name).copied().unwrap_or(0);
    let done = count("passed") + count("failed");
    let mut line = format!("{}  {}{elapsed}  {done}/{} done", status.run, status.state_words(), count("total"));
    if count("failed") > 0 {
        line.extend([", ", &count("failed").to_string(), " failed"]);
    }
    if !status.cards.is_empty() {
        line.push_str(", ");
        line.push_str(&text::count(text::len(&status.cards), "card waits", "cards wait"));
    }
    if let Some(stage) = status.stage.filter(|_| status.state == RunCondition::Running) {
        line.push_str("  ");
        line.push_str(stage_name(stage));
    }
    line
}

fn agent_line(row: &AgentRow, widest: usize) -> String {
    let mut words = Vec::new();
    if let (Some(seconds), Some(_)) = (row.stage_seconds, row.stage) {
        words.push(text::duration(jiff::SignedDuration::from_secs(seconds)));
    }
    if let Some(attempt) = row.attempt.filter(|attempt| *attempt > 1) {
        words.push(format!("attempt {attempt}"));
    }
    match (row.running_turn, row.turns) {
        (Some(turn), _) => words.push(format!("turn {turn}")),
        (None, 0) => {}
        (None, turns) => words.push(text::count(turns, "turn", "turns")),
    }
    if let Some(files) = row.files_changed {
        words.push(text::count(files, "file", "files"));
    }
    if !row.waiting_for.is_empty() {
        words.push(format!("after {}", text::list(&row.waiting_for, 3)));
    }
    if !row.outside_owned_scope.is_empty() {
        words.push(format!("! {} outside its contract", row.outside_owned_scope.len()));
    }
    if let Some(merge) = &row.merge {
        words.push(merge.words());
    }
    let line = format!(
        "  {}  {}  {}",
        text::padded(row.agent.as_str(), widest),
        text::padded(row.state.name(), 11),
        words.join(", ")
    );
    text::clean(line.trim_end())
}

/// The block as it stands on a terminal.
#[derive(Debug, Clone, Default)]
pub struct Area {
    standing: Vec<String>,
}

impl Area {
    /// What to send so that the old block goes, `permanent` is printed, and `block` stands below it.
    pub fn frame(&mut self, permanent: &[String], block: Vec<String>, columns: usize) -> String {
        let mut out = self.erase(columns);
        for line in permanent.iter().chain(&block) {
            out.push_str(line);
            out.push_str("\r\n");
        }
        self.standing = block;
        out
    }

    /// What to send so that the block goes and the cursor stands where it began.
    pub fn erase(&mut self, columns: usize) -> String {
        let columns = columns.max(1);
        let rows: usize = self.standing.iter().map(|line| text::width(line).div_ceil(columns).max(1)).sum();
        self.standing.clear();
        if rows == 0 { String::new() } else { format!("\x1b[{rows}A\r\x1b[0J") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn a_line_for_each_agent() {
        let lines = block(&samples::running(), &samples::facts(75, true), 24, Look::columns(80));
        insta::assert_snapshot!(lines.join("\n"), @r"
        login-3  running 1m 15s  0/3 done
          parser  running      1m 14s, turn 1.2, 3 files
          docs    running      1m 13s, turn 1.1, ! 2 outside its contract
          ui      pending      after parser
        ");
    }

    #[test]
    fn never_wider_or_higher_than_the_terminal() {
        for rows in 1..8 {
            for columns in [1, 10, 30, 200] {
                let lines = block(&samples::blocked(), &samples::facts(75, true), rows, Look::columns(columns));
                assert!(lines.len() <= rows.max(LOWEST), "{rows} rows: {lines:?}");
                assert!(lines.iter().all(|line| text::width(line) <= columns), "{columns} columns: {lines:?}");
            }
        }
    }

    #[test]
    fn those_under_way_are_shown_first() {
        let lines = block(&samples::many(40), &samples::facts(75, true), 5, Look::columns(80));
        insta::assert_snapshot!(lines.join("\n"), @r"
        login-3  running 1m 15s  20/40 done
          a3   running      1m 13s
          a1   pending
          a5   pending
          and 37 more
        ");
    }

    /// As much of a terminal as the frames need.
    struct Screen {
        rows: Vec<String>,
    }

    impl Screen {
        fn send(&mut self, mut text: &str, columns: usize) {
            while !text.is_empty() {
                if let Some(rest) = text.strip_prefix("\x1b[") {
                    let (number, rest) = rest.split_once(['A', 'J']).expect("a sequence this terminal knows");
                    let number: usize = number.parse().expect("a number");
                    if number > 0 {
                        let kept = self.rows.len() - number;
                        self.rows.truncate(kept);
                    }
                    text = rest;
                } else if let Some(rest) = text.strip_prefix('\r').filter(|rest| !rest.starts_with('\n')) {
                    text = rest;
                } else {
                    let (line, rest) = text.split_once("\r\n").expect("whole lines");
                    let line: Vec<char> = line.chars().collect();
                    self.rows.extend(line.chunks(columns).map(|chunk| chunk.iter().collect()));
                    text = rest;
                }
            }
        }
    }

    #[test]
    fn redrawing_leaves_nothing_behind() {
        let mut screen = Screen { rows: vec!["$ sandbox run plan.toml".to_owned()] };
        let mut area = Area::default();
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        screen.send(&area.frame(&[], lines("head a b c"), 40), 40);
        screen.send(&area.frame(&lines("one two"), lines("head a"), 40), 40);
        assert_eq!(screen.rows, ["$ sandbox run plan.toml", "one", "two", "head", "a"]);
        screen.send(&area.frame(&lines("three"), lines("head a b"), 40), 40);
        screen.send(&area.erase(40), 40);
        screen.send(&area.erase(40), 40);
        assert_eq!(screen.rows, ["$ sandbox run plan.toml", "one", "two", "three"]);
    }

    #[test]
    fn after_a_resize_wrapped_lines_are_taken_back_too() {
        let mut area = Area::default();
        let frame = area.frame(&[], vec!["x".repeat(30), "y".to_owned()], 40);
        assert_eq!(frame.matches("\r\n").count(), 2);
        assert_eq!(area.erase(10), "\x1b[4A\r\x1b[0J");
    }
}

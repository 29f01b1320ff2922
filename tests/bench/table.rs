//! The table of figures, and how a figure is taken.

use std::fmt::Write as _;
use std::time::Duration;

/// One figure beside what it is compared with.
#[derive(Debug)]
struct Row {
    what: String,
    files: Option<usize>,
    ours: String,
    beside: String,
    ratio: Option<f64>,
    bound: String,
}

/// Every figure, in the order of measuring.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    /// Times of ours and of something else.
    pub(crate) fn times(
        &mut self,
        what: &str,
        files: Option<usize>,
        ours: Duration,
        beside: Option<(&str, Duration)>,
        bound: &str,
    ) {
        self.0.push(Row {
            what: what.to_owned(),
            files,
            ours: shown(ours),
            beside: beside.map_or_else(String::new, |(name, time)| format!("{name}: {}", shown(time))),
            ratio: beside.map(|(_, time)| ours.as_secs_f64() / time.as_secs_f64()),
            bound: bound.to_owned(),
        });
    }

    /// Any other figure.
    pub(crate) fn figure(&mut self, what: &str, ours: String, bound: &str) {
        let (what, bound) = (what.to_owned(), bound.to_owned());
        self.0.push(Row { what, files: None, ours, beside: String::new(), ratio: None, bound });
    }

    /// As Markdown.
    pub(crate) fn render(&self) -> String {
        let mut out = String::from("| what | files | measured | beside | ratio | bound |\n|---|---|---|---|---|---|\n");
        for row in &self.0 {
            let files = row.files.map(|files| files.to_string()).unwrap_or_default();
            let ratio = row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
            writeln!(out, "| {} | {files} | {} | {} | {ratio} | {} |", row.what, row.ours, row.beside, row.bound)
                .unwrap();
        }
        out
    }
}

fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// The middle one.
pub(crate) fn median(times: impl IntoIterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.into_iter().collect();
    times.sort();
    times[times.len() / 2]
}

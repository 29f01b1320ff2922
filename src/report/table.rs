//! Columns of text, as wide as they need to be and no wider than the terminal.

use super::look::{Look, Tone};
use super::text;

/// The narrowest a column is cut to.
const NARROWEST: usize = 8;
/// What stands between two columns.
const GAP: usize = 2;

/// One cell.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell in a tone.
    pub fn new(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { text: text::clean(text.as_ref()), tone }
    }

    /// What is not known, or does not apply.
    pub fn absent() -> Self {
        Self::new("-", Tone::Dim)
    }

    /// A cell of something that may be absent.
    pub fn maybe(value: Option<impl ToString>) -> Self {
        value.map_or_else(Self::absent, |value| Self::new(value.to_string(), Tone::Plain))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text, Tone::Plain)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// A table with a heading over each column.
#[derive(Debug, Clone)]
pub struct Table {
    headings: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
    indent: usize,
    expendable: Vec<&'static str>,
}

impl Table {
    /// A table without rows.
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        let headings = headings.into_iter().map(|heading| Cell::new(heading, Tone::Strong)).collect();
        Self { headings, rows: Vec::new(), indent: 0, expendable: Vec::new() }
    }

    /// The same table, so many columns to the right.
    #[must_use]
    pub fn indented(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    /// The same table, whose columns of these headings are left out, in this order, where the terminal is too narrow for all.
    #[must_use]
    pub fn expendable(mut self, headings: &[&'static str]) -> Self {
        self.expendable = headings.to_vec();
        self
    }

    /// One more row. What is missing at its end stays empty.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// The table as text, a line for the headings and one for each row.
    pub fn render(&self, look: Look) -> String {
        let natural = self.natural_widths();
        let columns = self.columns(&natural, look.width);
        let widths = self.fitted(columns.iter().map(|column| natural[*column]).collect(), look.width);
        let mut out = String::new();
        for row in std::iter::once(&self.headings).chain(&self.rows) {
            let cells: Vec<&Cell> = columns.iter().filter_map(|column| row.get(*column)).collect();
            out.push_str(&self.line(&cells, &widths, look));
            out.push('\n');
        }
        out
    }

    fn line(&self, row: &[&Cell], widths: &[usize], look: Look) -> String {
        let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
        let mut line = " ".repeat(self.indent);
        for (index, (cell, width)) in row.iter().zip(widths).enumerate().take(last + 1) {
            let cut = text::cut(&cell.text, *width);
            line.push_str(&cell.tone.paint(&cut, look));
            if index < last {
                line.push_str(&" ".repeat(width.saturating_sub(text::width(&cut)) + GAP));
            }
        }
        line
    }

    /// What the widest cell of each column takes.
    fn natural_widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = vec![0; self.headings.len()];
        for row in std::iter::once(&self.headings).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(text::width(&cell.text));
            }
        }
        widths
    }

    /// The columns there is room for.
    fn columns(&self, natural: &[usize], limit: Option<usize>) -> Vec<usize> {
        let mut columns: Vec<usize> = (0..natural.len()).collect();
        for heading in &self.expendable {
            let widths: Vec<usize> = columns.iter().map(|column| natural[*column]).collect();
            if limit.is_none_or(|limit| self.taken(&widths) <= limit) {
                break;
            }
            columns.retain(|column| self.headings[*column].text != *heading);
        }
        columns
    }

    /// These widths, the widest made narrower until they fit or can give no more.
    fn fitted(&self, mut widths: Vec<usize>, limit: Option<usize>) -> Vec<usize> {
        while limit.is_some_and(|limit| self.taken(&widths) > limit) {
            let Some(widest) = widths.iter_mut().filter(|width| **width > NARROWEST).max() else { break };
            *widest -= 1;
        }
        widths
    }

    fn taken(&self, widths: &[usize]) -> usize {
        self.indent + widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(["AGENT", "STATE", "WHY"]);
        table.row(["parser".into(), Cell::new("failed", Tone::Bad), "a very long reason that says a lot".into()]);
        table.row(["語".into(), Cell::absent(), "".into()]);
        table
    }

    #[test]
    fn columns_line_up() {
        insta::assert_snapshot!(sample().render(Look::PLAIN), @r"
        AGENT   STATE   WHY
        parser  failed  a very long reason that says a lot
        語      -
        ");
    }

    #[test]
    fn the_widest_column_gives_way() {
        let text = sample().render(Look::columns(30));
        assert!(text.lines().all(|line| text::width(line) <= 30), "{text}");
        assert!(text.contains("parser  failed  a very long r…"), "{text}");
    }

    #[test]
    fn what_is_expendable_goes_first() {
        let table = sample().expendable(&["STATE", "AGENT"]);
        assert!(table.render(Look::columns(50)).starts_with("AGENT   STATE   WHY\n"));
        assert!(table.render(Look::columns(44)).starts_with("AGENT   WHY\n"));
        assert!(table.render(Look::columns(34)).starts_with("WHY\n"));
        assert!(table.render(Look::columns(20)).contains("\na very long reason …\n"));
    }

    #[test]
    fn colour_does_not_move_columns() {
        let painted = sample().render(Look { width: None, color: true });
        let stripped =
            painted.replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[31m", "").replace("\x1b[2m", "");
        assert_eq!(stripped, sample().render(Look::PLAIN));
        assert_ne!(painted, stripped);
    }

    #[test]
    fn cells_are_one_line() {
        let mut table = Table::new(["A"]);
        table.row(["x\ny\x1b[H".into()]);
        assert_eq!(table.render(Look::PLAIN), "A\nx\\ny\\u{1b}[H\n");
    }
}

//! What agents and the verifier printed, made fit for where it goes.

use serde::Serialize;

use super::text;
use crate::model::TurnId;

/// The longest line that is held back until it ends.
const LINE_MAX: usize = 64 << 10;

/// Data of `logs <agent>`, `logs verify` and `inspect --output`. With `--follow`, one for each piece as it comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogsData {
    /// The agent's name, or `verify`.
    pub of: String,
    /// What was printed, in order.
    pub outputs: Vec<OutputPiece>,
}

/// Something printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputPiece {
    /// The agent's turn in which.
    pub turn: Option<TurnId>,
    /// The verification in which, counted from 1 in the run.
    pub verification: Option<u64>,
    /// What; bytes that are no UTF-8 are replaced.
    pub text: String,
}

/// Takes bytes as they come, and gives them fit for a terminal: whole lines, in which nothing can move the cursor, change
/// colours or reorder text. Plain colours, which programs print, are taken out; all else is shown as what it is.
#[derive(Debug, Default)]
pub struct Lines {
    held: Vec<u8>,
    /// Whether colours are shown as what they are, too.
    exact: bool,
}

impl Lines {
    /// The same with nothing taken out: for what stands in files, where a colour is content like any other.
    pub fn exact() -> Self {
        Self { exact: true, ..Self::default() }
    }

    fn shown(&self, bytes: &[u8]) -> String {
        if self.exact { escaped(bytes, str::to_owned) } else { for_terminal(bytes) }
    }

    /// The lines that are whole now.
    pub fn take_in(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let whole = match self.held.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if self.held.len() > LINE_MAX => self.held.len(),
            None => return String::new(),
        };
        let lines: Vec<u8> = self.held.drain(..whole).collect();
        self.shown(&lines)
    }

    /// What is left of a line that has no end.
    pub fn end(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        if rest.is_empty() { String::new() } else { self.shown(&rest) + "\n" }
    }
}

/// Text that somebody else wrote, in lines, safe for a terminal.
pub fn for_terminal(bytes: &[u8]) -> String {
    escaped(bytes, without_colours)
}

fn escaped(bytes: &[u8], prepare: impl Fn(&str) -> String) -> String {
    let decoded = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(decoded.len());
    for line in decoded.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line.strip_suffix('\r').unwrap_or(line), "\n"),
            None => (line, ""),
        };
        for (at, part) in prepare(line).split('\t').enumerate() {
            if at > 0 {
                out.push('\t');
            }
            out.push_str(&text::clean(part));
        }
        out.push_str(end);
    }
    out
}

/// Without the sequences that only set colours: `ESC [ digits ; … m`.
fn without_colours(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("\x1b[") {
        let (before, sequence) = rest.split_at(at);
        out.push_str(before);
        let body = &sequence[2..];
        let end = body.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'));
        match end {
            Some(end) if body[end..].starts_with('m') => rest = &body[end + 1..],
            Some(_) | None => {
                out.push_str("\x1b[");
                rest = body;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_printed_steers_the_terminal() {
        for (printed, shown) in [
            (&b"plain\n"[..], "plain\n"),
            (b"\x1b[1;31mred\x1b[0m text\r\n", "red text\n"),
            (b"a\tb\n", "a\tb\n"),
            (b"\x1b[2J\x1b[H", "\\u{1b}[2J\\u{1b}[H"),
            (b"\x1b]0;title\x07\n", "\\u{1b}]0;title\\u{7}\n"),
            (b"50%\r100%\n", "50%\\r100%\n"),
            (b"\xff\xfe\n", "\u{fffd}\u{fffd}\n"),
            (b"\x1b[", "\\u{1b}["),
            (b"\x1b[31", "\\u{1b}[31"),
            (b"", ""),
        ] {
            assert_eq!(for_terminal(printed), shown);
        }
    }

    #[test]
    fn lines_are_held_back_until_they_end() {
        let mut lines = Lines::default();
        assert_eq!(lines.take_in(b"one\ntw"), "one\n");
        assert_eq!(lines.take_in("o gr\u{fc}".as_bytes().split_at(5).0), "");
        assert_eq!(lines.take_in(b"\xbcn\nrest"), "two gr\u{fc}n\n");
        assert_eq!(lines.end(), "rest\n");
        assert_eq!(lines.end(), "");
        assert_eq!(lines.take_in(&vec![b'x'; LINE_MAX + 1]).len(), LINE_MAX + 1);
    }
}

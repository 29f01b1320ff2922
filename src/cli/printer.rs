//! The only file that writes to stdout and stderr.
//!
//! - stdout is for what a pipe wants: the answer. With `--json` nothing but JSON ever reaches it, one value a line.
//! - stderr is for the rest: progress, notices, warnings, errors.
//! - A reader that went away (`sandbox status | head -1`) is no failure: what remains is dropped in silence. Any other
//!   failure to write the answer is remembered and told by [`Printer::finish`], so that a full disk never looks like success.
//! - A live block ([`Area`]) stands at the foot of stderr; every other line to stderr goes above it.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::report::live::Area;
use crate::report::{Look, Tone, text};

/// How much is said on stderr.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Warnings and errors.
    Quiet,
    /// Progress too.
    #[default]
    Normal,
    /// Everything.
    Verbose,
}

/// What goes where.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// Whether stdout is for JSON only.
    pub json: bool,
    /// How much is said on stderr.
    pub level: Level,
    /// How stderr looks.
    pub look: Look,
}

/// Writes to the two streams.
pub struct Printer {
    out: Stream,
    err: Stream,
    rules: Rules,
    area: Area,
    warnings: Vec<String>,
}

struct Stream {
    to: Box<dyn Write + Send>,
    gone: bool,
    failure: Option<io::Error>,
}

impl Stream {
    fn write(&mut self, bytes: &[u8]) {
        if self.gone {
            return;
        }
        if let Err(error) = self.to.write_all(bytes).and_then(|()| self.to.flush()) {
            self.gone = true;
            if error.kind() != ErrorKind::BrokenPipe {
                self.failure = Some(error);
            }
        }
    }
}

impl Printer {
    /// A printer to this process's own streams.
    pub fn of_this_process(rules: Rules) -> Self {
        Self::new(rules, Box::new(io::stdout()), Box::new(io::stderr()))
    }

    /// A printer to these streams.
    pub fn new(rules: Rules, out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        let stream = |to| Stream { to, gone: false, failure: None };
        Self { out: stream(out), err: stream(err), rules, area: Area::default(), warnings: Vec::new() }
    }

    /// The answer for people, as it is. Nothing with `--json`.
    pub fn answer(&mut self, text: &str) {
        self.answer_bytes(text.as_bytes());
    }

    /// The answer for people where it need not be text: a patch, an agent's output. Nothing with `--json`.
    pub fn answer_bytes(&mut self, bytes: &[u8]) {
        if !self.rules.json {
            self.out.write(bytes);
        }
    }

    /// The answer for programs, in a line. Nothing without `--json`.
    pub fn json(&mut self, value: &impl Serialize) {
        if !self.rules.json {
            return;
        }
        match serde_json::to_vec(value) {
            Ok(mut line) => {
                line.push(b'\n');
                self.out.write(&line);
            }
            Err(error) => {
                self.out.gone = true;
                self.out.failure = Some(error.into());
            }
        }
    }

    /// What a person follows. One line.
    pub fn progress(&mut self, line: &str) {
        if self.rules.level >= Level::Normal {
            self.line(line);
        }
    }

    /// What only some want to know. One line.
    pub fn detail(&mut self, line: &str) {
        if self.rules.level >= Level::Verbose {
            self.line(line);
        }
    }

    /// What must not be missed but changes nothing. Also kept for the envelope.
    pub fn warn(&mut self, message: &str) {
        self.warnings.push(message.to_owned());
        let line = format!("{} {}", Tone::Warn.paint("warning:", self.rules.look), text::clean(message));
        self.line(&line);
    }

    /// A block of text that must be seen, as it is: an error.
    pub fn error(&mut self, text: &str) {
        let columns = self.columns();
        let erased = self.area.erase(columns);
        self.err.write(format!("{erased}{text}").as_bytes());
    }

    /// Shows `block` at the foot of stderr, in place of the one that stands there, and `lines` above it.
    pub fn live(&mut self, lines: &[String], block: Vec<String>) {
        let columns = self.columns();
        let frame = self.area.frame(lines, block, columns);
        self.err.write(frame.as_bytes());
    }

    /// Takes the live block away.
    pub fn end_live(&mut self) {
        let columns = self.columns();
        let erased = self.area.erase(columns);
        self.err.write(erased.as_bytes());
    }

    /// How wide stderr is now.
    pub fn set_columns(&mut self, columns: Option<usize>) {
        self.rules.look.width = columns;
    }

    /// The warnings so far.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// Whether nobody reads the answer any more, so that a follower may stop.
    pub fn reader_is_gone(&self) -> bool {
        self.out.gone
    }

    /// What kept the answer from being written, other than a reader that went away.
    pub fn finish(&mut self) -> Result<(), io::Error> {
        self.end_live();
        self.out.failure.take().map_or(Ok(()), Err)
    }

    fn line(&mut self, line: &str) {
        let columns = self.columns();
        let erased = self.area.erase(columns);
        self.err.write(format!("{erased}{line}\n").as_bytes());
    }

    fn columns(&self) -> usize {
        self.rules.look.width.unwrap_or(80)
    }
}

/// Where answers go: only to be asked whether somebody still reads them, never to be written to.
pub fn reader() -> impl std::os::fd::AsFd {
    io::stdout()
}

/// Where diagnostics for developers go (`SANDBOX_LOG`).
pub fn diagnostics() -> io::Stderr {
    io::stderr()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink {
        bytes: Arc<Mutex<Vec<u8>>>,
        fails: Option<ErrorKind>,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(kind) = self.fails {
                return Err(kind.into());
            }
            self.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink {
        fn text(&self) -> String {
            String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
        }
    }

    fn printer(rules: Rules, out: &Sink, err: &Sink) -> Printer {
        Printer::new(rules, Box::new(out.clone()), Box::new(err.clone()))
    }

    fn say_everything(printer: &mut Printer) {
        printer.answer("answer\n");
        printer.answer_bytes(b"\xff\n");
        printer.json(&[1]);
        printer.progress("progress");
        printer.detail("detail");
        printer.warn("careful\n");
        printer.error("error: x\n");
    }

    #[test]
    fn with_json_stdout_is_only_json() {
        let (out, err) = (Sink::default(), Sink::default());
        let mut printer = printer(Rules { json: true, ..Rules::default() }, &out, &err);
        say_everything(&mut printer);
        assert_eq!(out.text(), "[1]\n");
        assert_eq!(err.text(), "progress\nwarning: careful\\n\nerror: x\n");
        assert_eq!(printer.warnings(), ["careful\n"]);
        printer.finish().unwrap();
    }

    #[test]
    fn without_json_stdout_is_only_the_answer() {
        for (level, said) in [
            (Level::Quiet, "warning: careful\\n\nerror: x\n"),
            (Level::Normal, "progress\nwarning: careful\\n\nerror: x\n"),
            (Level::Verbose, "progress\ndetail\nwarning: careful\\n\nerror: x\n"),
        ] {
            let (out, err) = (Sink::default(), Sink::default());
            let mut printer = printer(Rules { level, ..Rules::default() }, &out, &err);
            say_everything(&mut printer);
            assert_eq!(*out.bytes.lock().unwrap(), b"answer\n\xff\n");
            assert_eq!(err.text(), said);
        }
    }

    #[test]
    fn a_reader_that_goes_away_is_no_failure_and_a_full_disk_is_one() {
        for (kind, ok) in [(ErrorKind::BrokenPipe, true), (ErrorKind::StorageFull, false)] {
            let out = Sink { fails: Some(kind), ..Sink::default() };
            let mut printer = printer(Rules::default(), &out, &Sink::default());
            assert!(!printer.reader_is_gone());
            printer.answer("x\n");
            assert!(printer.reader_is_gone());
            printer.answer("y\n");
            assert_eq!(printer.finish().is_ok(), ok, "{kind:?}");
        }
    }

    #[test]
    fn a_broken_stderr_does_not_harm_the_answer() {
        let (out, err) = (Sink::default(), Sink { fails: Some(ErrorKind::StorageFull), ..Sink::default() });
        let mut printer = printer(Rules::default(), &out, &err);
        printer.progress("x");
        printer.answer("answer\n");
        assert_eq!(out.text(), "answer\n");
        printer.finish().unwrap();
    }

    #[test]
    fn lines_go_above_the_live_block() {
        let (out, err) = (Sink::default(), Sink::default());
        let mut printer = printer(Rules::default(), &out, &err);
        printer.live(&[], vec!["block".to_owned()]);
        printer.warn("w");
        printer.live(&["line".to_owned()], vec!["block".to_owned()]);
        printer.finish().unwrap();
        assert_eq!(err.text(), "block\r\n\x1b[1A\r\x1b[0Jwarning: w\nline\r\nblock\r\n\x1b[1A\r\x1b[0J");
    }
}

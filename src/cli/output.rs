//! The files that keep what agents and the verifier print, read as they grow.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::error::{self, Error};
use super::printer::Printer;
use super::settings::Settings;
use crate::model::{AgentName, RunId, TurnId};
use crate::report::Envelope;
use crate::report::logs::{Lines, LogsData, OutputPiece};
use crate::store::RunDir;

/// How much is read at a time.
const PIECE: usize = 64 << 10;

/// What printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Printed {
    /// A turn of an agent.
    Turn(TurnId),
    /// A verification of the run, by its number.
    Verification(u64),
}

/// The files of one agent, or of the verifier, each with how far it has been read.
pub(super) struct Outputs {
    of: String,
    folder: PathBuf,
    parse: fn(&str) -> Option<Printed>,
    only: Option<Printed>,
    read: BTreeMap<Printed, u64>,
}

impl Outputs {
    /// Those of an agent: all turns, or only one.
    pub(super) fn of_agent(run: &RunDir, agent: &AgentName, only: Option<TurnId>) -> Self {
        let any = run.output(agent, TurnId::new(1, 0));
        let parse = |stem: &str| stem.parse().ok().map(Printed::Turn);
        Self { parse, only: only.map(Printed::Turn), ..Self::new(agent.to_string(), &any) }
    }

    /// Those of the verifier.
    pub(super) fn of_verifier(run: &RunDir) -> Self {
        Self::new("verify".to_owned(), &run.verify_output(1))
    }

    fn new(of: String, any: &Path) -> Self {
        let folder = any.parent().unwrap_or(any).to_owned();
        let parse = |stem: &str| stem.parse().ok().map(Printed::Verification);
        Self { of, folder, parse, only: None, read: BTreeMap::new() }
    }

    /// Where they lie, or will.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Leaves out all but the newest of those there are.
    pub(super) fn skip_to_newest(&mut self) -> Result<(), Error> {
        let files = self.files()?;
        for (printed, path) in files.iter().rev().skip(1) {
            let size = path.metadata().map_or(0, |metadata| metadata.len());
            self.read.insert(*printed, size);
        }
        Ok(())
    }

    /// Gives what has been printed since the last call, in order.
    pub(super) fn poll(&mut self, mut give: impl FnMut(Printed, &[u8])) -> Result<(), Error> {
        for (printed, path) in self.files()? {
            let at = self.read.entry(printed).or_default();
            let cannot = |source| cannot_read(&path, source);
            let mut file = File::open(&path).map_err(cannot)?;
            file.seek(SeekFrom::Start(*at)).map_err(cannot)?;
            // As far as it was when it was opened: an agent that never stops printing must not hold us here.
            let size = file.metadata().map_err(cannot)?.len();
            let mut rest = BufReader::with_capacity(PIECE, file.take(size.saturating_sub(*at)));
            loop {
                let piece = rest.fill_buf().map_err(cannot)?;
                if piece.is_empty() {
                    break;
                }
                give(printed, piece);
                let length = piece.len();
                rest.consume(length);
                *at += length as u64;
            }
        }
        Ok(())
    }

    fn files(&self) -> Result<BTreeMap<Printed, PathBuf>, Error> {
        let cannot = |source| cannot_read(&self.folder, source);
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(cannot(error)),
        };
        let mut files = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(cannot)?.path();
            let printed = path.file_stem().and_then(|stem| (self.parse)(stem.to_str()?));
            let is_log = path.extension().is_some_and(|extension| extension == "log");
            if let Some(printed) = printed.filter(|it| is_log && self.only.is_none_or(|only| only == *it)) {
                files.insert(printed, path);
            }
        }
        Ok(files)
    }
}

fn cannot_read(path: &Path, source: std::io::Error) -> Error {
    Error::new(error::ErrorKind::Environment, format!("cannot read `{}`", path.display())).because(source)
}

/// Shows outputs: as they are to a pipe, in harmless lines to a terminal, as envelopes for programs.
pub(super) struct Teller<'a> {
    command: &'static str,
    run: &'a RunId,
    of: String,
    form: Form,
    last: Option<Printed>,
}

enum Form {
    Raw,
    Terminal(Lines),
    /// All in one answer at the end.
    Gathered(BTreeMap<Printed, Vec<u8>>),
    /// An answer for each piece; what has no line end yet is held back.
    Pieces(BTreeMap<Printed, Vec<u8>>),
}

impl<'a> Teller<'a> {
    /// Tells of `outputs`; piece by piece where they are followed.
    pub(super) fn new(
        command: &'static str,
        run: &'a RunId,
        outputs: &Outputs,
        follow: bool,
        settings: &Settings,
    ) -> Self {
        let form = match (settings.json, follow, settings.look.width) {
            (true, false, _) => Form::Gathered(BTreeMap::new()),
            (true, true, _) => Form::Pieces(BTreeMap::new()),
            (false, _, Some(_)) => Form::Terminal(Lines::default()),
            (false, _, None) => Form::Raw,
        };
        Self { command, run, of: outputs.of.clone(), form, last: None }
    }

    /// Shows what came.
    pub(super) fn take_in(&mut self, from: Printed, bytes: &[u8], printer: &mut Printer) {
        match &mut self.form {
            Form::Raw => printer.answer_bytes(bytes),
            Form::Terminal(lines) => {
                if self.last.replace(from).is_some_and(|last| last != from) {
                    printer.answer(&lines.end());
                }
                printer.answer(&lines.take_in(bytes));
            }
            Form::Gathered(all) => all.entry(from).or_default().extend_from_slice(bytes),
            Form::Pieces(held) => {
                let held = held.entry(from).or_default();
                held.extend_from_slice(bytes);
                let whole = held.iter().rposition(|byte| *byte == b'\n').map(|end| end + 1);
                let whole = whole.or((held.len() >= PIECE).then_some(held.len()));
                if let Some(whole) = whole {
                    let lines: Vec<u8> = held.drain(..whole).collect();
                    let data = LogsData { of: self.of.clone(), outputs: vec![piece(from, &lines)] };
                    printer.json(&Envelope::answer(self.command, Some(self.run.clone()), data, Vec::new()));
                }
            }
        }
    }

    /// Shows what was held back.
    pub(super) fn end(self, printer: &mut Printer) {
        let (all, each) = match self.form {
            Form::Raw => return,
            Form::Terminal(mut lines) => return printer.answer(&lines.end()),
            Form::Gathered(all) => (all, false),
            Form::Pieces(held) => (held, true),
        };
        let outputs: Vec<OutputPiece> = all
            .iter()
            .filter(|(_, bytes)| !each || !bytes.is_empty())
            .map(|(printed, bytes)| piece(*printed, bytes))
            .collect();
        if !each || !outputs.is_empty() {
            let data = LogsData { of: self.of, outputs };
            printer.json(&Envelope::answer(self.command, Some(self.run.clone()), data, printer.warnings()));
        }
    }
}

fn piece(printed: Printed, bytes: &[u8]) -> OutputPiece {
    let (turn, verification) = match printed {
        Printed::Turn(turn) => (Some(turn), None),
        Printed::Verification(number) => (None, Some(number)),
    };
    OutputPiece { turn, verification, text: String::from_utf8_lossy(bytes).into_owned() }
}

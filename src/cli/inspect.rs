//! `inspect`: what an agent did, from what was written down of it. The worktree is never looked at: it may be gone, and an
//! agent may be writing it. Nothing is written.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::args::InspectArgs;
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::output::{Outputs, Teller};
use super::printer::Printer;
use super::select;
use super::settings::Settings;
use super::view::{RunView, View};
use crate::agent::network;
use crate::change::bundle;
use crate::git::{self, Renames};
use crate::model::change::TurnRecord;
use crate::model::run::AgentState;
use crate::model::{CommitId, TreeId, TurnId};
use crate::report::changes::{ChangeOf, FilesData, PatchData, StatData, diff_stat};
use crate::report::inspect::{InspectData, render_turn};
use crate::report::logs::Lines;
use crate::report::network::NetworkData;
use crate::report::{AgentFacts, Envelope, text};

/// What is looked at: an agent, or one of its turns.
struct Subject<'a> {
    view: &'a View,
    seen: &'a RunView,
    agent: &'a AgentState,
    record: Option<TurnRecord>,
}

/// Two trees: before and after.
struct Span {
    old: TreeId,
    new: TreeId,
}

pub(super) fn inspect(args: &InspectArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let view = View::open(settings, printer)?;
    let seen = view.run(args.run.as_deref())?;
    let agent = select::agent(&args.agent, &seen.state)?;
    let record = args.turn.map(|turn| load_turn(&seen, agent, turn)).transpose()?;
    let subject = Subject { view: &view, seen: &seen, agent, record };
    let done = if args.patch {
        subject.patch(args.reverse, settings, printer)
    } else if args.stat {
        subject.stat(settings, printer)
    } else if args.files {
        subject.files(printer)
    } else if args.output {
        subject.output(settings, printer)
    } else if args.network {
        subject.network(settings, printer)
    } else {
        subject.overview(settings, printer)
    };
    done.map(|()| Exit::Complete).map_err(|error| error.in_run(seen.run.id()))
}

fn load_turn(seen: &RunView, agent: &AgentState, turn: TurnId) -> Result<TurnRecord, Error> {
    if let Some(record) = bundle::load(&seen.run, &agent.name, turn)? {
        return Ok(record);
    }
    let known: Vec<TurnId> =
        agent.attempts.iter().flat_map(|attempt| attempt.turns.iter().map(|(turn, _)| *turn)).collect();
    let error = Error::new(ErrorKind::Usage, format!("agent `{}` has no turn {turn}", agent.name));
    let hint =
        if known.is_empty() { "it has none yet".to_owned() } else { format!("it has {}", text::list(&known, 8)) };
    Err(error.hint(hint).in_run(seen.run.id()))
}

impl Subject<'_> {
    fn of(&self) -> ChangeOf {
        ChangeOf { agent: self.agent.name.clone(), turn: self.record.as_ref().map(|record| record.turn) }
    }

    fn answer(&self, data: impl serde::Serialize, printer: &mut Printer) {
        printer.json(&Envelope::answer("inspect", Some(self.seen.run.id().clone()), data, printer.warnings()));
    }

    fn overview(&self, settings: &Settings, printer: &mut Printer) -> Result<(), Error> {
        if let Some(record) = &self.record {
            printer.answer(&render_turn(record, settings.look));
            self.answer(record, printer);
            return Ok(());
        }
        let mut facts = self.seen.facts();
        self.view.warn_of(self.seen, printer);
        let span = self.span().unwrap_or_else(|error| {
            printer.warn(&error.to_string());
            None
        });
        if let Some(span) = span {
            let counts = self.view.repository.load_line_counts(&span.old, &span.new)?;
            let measured = AgentFacts { stat: Some(diff_stat(&counts)), ..AgentFacts::default() };
            facts.agents.insert(self.agent.name.clone(), measured);
        }
        let data = InspectData::of(&self.seen.state, self.agent, &facts);
        printer.answer(&data.render(settings.look));
        self.answer(data, printer);
        Ok(())
    }

    /// What the turn changed; of an agent, all from its fork point to its newest snapshot. `None` where nothing has been
    /// saved of it yet.
    fn span(&self) -> Result<Option<Span>, Error> {
        if let Some(record) = &self.record {
            self.require_snapshot(&record.snapshot, record.turn)?;
            return Ok(Some(Span { old: record.previous_tree.clone(), new: record.tree.clone() }));
        }
        let newest = self.agent.attempts.iter().rev().find_map(|attempt| Some((attempt, attempt.turns.last()?)));
        let Some((attempt, (turn, finished))) = newest else { return Ok(None) };
        self.require_snapshot(&finished.snapshot, *turn)?;
        let record = bundle::load(&self.seen.run, &self.agent.name, *turn)?;
        let fork = match (record, &attempt.started) {
            (Some(record), _) => record.fork_point,
            (None, Some(started)) => started.fork_point.clone(),
            (None, None) => return Ok(None),
        };
        let old = self.view.repository.load_commit(&fork)?.tree;
        Ok(Some(Span { old, new: finished.tree.clone() }))
    }

    /// An error that says what is left, where refs were deleted and git has collected what they kept.
    fn require_snapshot(&self, snapshot: &CommitId, turn: TurnId) -> Result<(), Error> {
        match self.view.repository.load_commit(snapshot) {
            Ok(_) => Ok(()),
            Err(git::Error::MissingObject { .. }) => {
                let (agent, run) = (&self.agent.name, self.seen.run.id());
                let message = format!(
                    "the snapshot of turn {turn} of agent `{agent}` is gone from the repository: its ref was deleted, and git has \
                     collected it"
                );
                let hint = format!(
                    "the patch of each turn is kept: `sandbox inspect {agent} --run {run} --turn {turn} --patch`"
                );
                Err(Error::new(ErrorKind::Corrupt, message).hint(hint))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn stat(&self, settings: &Settings, printer: &mut Printer) -> Result<(), Error> {
        let counts = match self.span()? {
            Some(span) => self.view.repository.load_line_counts(&span.old, &span.new)?,
            None => Vec::new(),
        };
        let data = StatData::of(self.of(), &counts);
        printer.answer(&data.render(settings.look));
        self.answer(data, printer);
        Ok(())
    }

    fn files(&self, printer: &mut Printer) -> Result<(), Error> {
        let changes = match self.span()? {
            Some(span) => self.view.repository.load_changes(&span.old, &span.new, Renames::Find)?,
            None => Vec::new(),
        };
        let data = FilesData::of(self.of(), &changes);
        printer.answer(&data.render());
        self.answer(data, printer);
        Ok(())
    }

    fn output(&self, settings: &Settings, printer: &mut Printer) -> Result<(), Error> {
        let turn = self.record.as_ref().map(|record| record.turn);
        let mut outputs = Outputs::of_agent(&self.seen.run, &self.agent.name, turn);
        let mut teller = Teller::new("inspect", self.seen.run.id(), &outputs, false, settings);
        outputs.poll(|printed, bytes| teller.take_in(printed, bytes, printer))?;
        teller.end(printer);
        Ok(())
    }

    fn network(&self, settings: &Settings, printer: &mut Printer) -> Result<(), Error> {
        let path = self.seen.run.network(&self.agent.name);
        let (visits, left_out) = network::load(&path).map_err(|source| {
            Error::new(ErrorKind::Corrupt, format!("cannot read `{}`", path.display())).because(source)
        })?;
        let data = NetworkData { agent: self.agent.name.clone(), visits, left_out };
        printer.answer(&data.render(settings.look));
        self.answer(data, printer);
        Ok(())
    }

    /// Exactly what `git apply` takes: of a turn the stored patch, byte for byte; else made from the trees.
    fn patch(&self, reverse: bool, settings: &Settings, printer: &mut Printer) -> Result<(), Error> {
        let mut sink = Sink::new(settings, printer);
        match &self.record {
            Some(record) if !reverse => self.stored_patch(record, &mut sink)?,
            Some(_) | None => {
                if let Some(span) = self.span()? {
                    let (from, to) = if reverse { (&span.new, &span.old) } else { (&span.old, &span.new) };
                    self.view.repository.write_patch_to(from, to, &mut sink)?;
                }
            }
        }
        let (size, text) = sink.end();
        if size == 0 {
            printer.progress("nothing changed");
        }
        if settings.json && text.is_none() {
            printer.warn("the patch is not text in UTF-8: without --json it is printed as it is");
        }
        self.answer(PatchData { of: self.of(), reverse, patch: text, size }, printer);
        Ok(())
    }

    fn stored_patch(&self, record: &TurnRecord, sink: &mut Sink<'_>) -> Result<(), Error> {
        if record.patch.is_none() {
            return Ok(());
        }
        let path = self.seen.run.patch(&self.agent.name, record.turn);
        let cannot = |source| {
            Error::new(ErrorKind::Corrupt, format!("cannot read the patch `{}`", path.display()))
                .because(source)
                .hint("the snapshot is kept: without --turn the patch is made from it")
        };
        let hash = file_hash(&path).map_err(cannot)?;
        if record.patch_sha256.as_ref().is_some_and(|recorded| *recorded != hash) {
            let message = format!("`{}` is not the patch that was written: its SHA-256 is {hash}", path.display());
            return Err(Error::new(ErrorKind::Corrupt, message)
                .hint("the snapshot is kept: without --turn the patch is made from it"));
        }
        let mut file = File::open(&path).map_err(cannot)?;
        std::io::copy(&mut file, sink).map(drop).map_err(cannot)
    }
}

fn file_hash(path: &Path) -> std::io::Result<String> {
    let mut file = BufReader::new(File::open(path)?);
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex::encode(hash.finalize())),
            length => hash.update(&piece[..length]),
        }
    }
}

/// Where a patch goes: as it is to a pipe, in harmless lines to a terminal, into the answer for programs.
struct Sink<'p> {
    printer: &'p mut Printer,
    terminal: Option<Lines>,
    gathered: Option<Vec<u8>>,
    size: u64,
}

impl<'p> Sink<'p> {
    fn new(settings: &Settings, printer: &'p mut Printer) -> Self {
        let terminal = settings.look.width.map(|_| Lines::exact());
        Self { printer, terminal, gathered: settings.json.then(Vec::new), size: 0 }
    }

    /// How much there was, and for programs all of it, where it is text.
    fn end(self) -> (u64, Option<String>) {
        if let Some(mut lines) = self.terminal {
            self.printer.answer(&lines.end());
        }
        (self.size, self.gathered.and_then(|bytes| String::from_utf8(bytes).ok()))
    }
}

impl std::io::Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.size += bytes.len() as u64;
        match (&mut self.gathered, &mut self.terminal) {
            (Some(gathered), _) => gathered.extend_from_slice(bytes),
            (None, Some(lines)) => {
                let shown = lines.take_in(bytes);
                self.printer.answer(&shown);
            }
            (None, None) => self.printer.answer_bytes(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

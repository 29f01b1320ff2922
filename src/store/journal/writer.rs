//! The one who writes a journal.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use nix::libc;

use super::durability::{Durability, durability};
use super::scan::{Position, Torn, scan};
use crate::model::event::{Event, EventKind, Subject, VERSION};
use crate::store::layout::RunDir;
use crate::store::lock::RunLock;
use crate::store::{Error, atomic, failpoint, json};

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock of the machine.
pub fn system_clock() -> Clock {
    Arc::new(Timestamp::now)
}

/// Writes a run's journal. Owns the run's lock, so there is no second one.
pub struct JournalWriter {
    run: RunDir,
    file: File,
    end: Position,
    clock: Clock,
    failed: bool,
    lock: RunLock,
}

/// What was found on opening.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The events there are, the repaired one included.
    pub events: Vec<Event>,
    /// What had to be repaired.
    pub repair: Option<Repair>,
}

/// What a crash had left, and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// The last event was whole but for the end of its line, which was added.
    Ended {
        /// The event.
        seq: u64,
    },
    /// The last line was not whole, and was moved aside.
    MovedAside {
        /// To where.
        path: PathBuf,
        /// How many bytes.
        bytes: u64,
    },
}

impl JournalWriter {
    /// Opens the journal of `run`, or begins one, repairing what a crash left at its end.
    pub fn open(run: &RunDir, lock: RunLock, clock: Clock) -> Result<(Self, Opened), Error> {
        let path = run.journal();
        if !lock.is_of(run)? {
            return Err(Error::NotFound { what: "lock of run", name: run.id().to_string(), known: Vec::new() });
        }
        let bytes = json::load_bytes(&path)?;
        let is_new = bytes.is_none();
        // Before the file is opened for writing: what is refused stays as it is.
        let found = scan(&path, run.id(), Position::default(), &bytes.unwrap_or_default())?;
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(Error::io("open", &path))?;
        if is_new {
            atomic::sync_dir(run.root())?;
        }
        let mut writer = Self { run: run.clone(), file, end: found.end, clock, failed: false, lock };
        let mut opened = Opened { events: found.events, repair: None };
        if let Some(torn) = found.torn {
            opened.repair = Some(writer.repair(torn, &mut opened.events)?);
        }
        // What an earlier process wrote without waiting is waited for now: from here on it is acted on.
        writer.file.sync_all().map_err(Error::io("sync", &path))?;
        Ok((writer, opened))
    }

    /// The run.
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// Behind the last event.
    pub fn position(&self) -> Position {
        self.end
    }

    /// Appends what happened, and returns when it is as safe as [`durability`] demands.
    pub fn append(&mut self, subject: Subject, kind: EventKind) -> Result<Event, Error> {
        let path = self.run.journal();
        if self.failed {
            return Err(Error::JournalStopped { path });
        }
        self.require_ours(&path).inspect_err(|_| self.failed = true)?;
        let event = Event {
            v: VERSION,
            seq: self.end.events + 1,
            timestamp: (self.clock)(),
            run_id: self.run.id().clone(),
            subject,
            kind,
        };
        let mut line = serde_json::to_vec(&event).map_err(|source| Error::Encode { path: path.clone(), source })?;
        line.push(b'\n');
        self.write(&line, event.kind.name()).inspect_err(|_| self.failed = true)?;
        failpoint::after("journal", event.kind.name());
        if durability(&event.kind) == Durability::Effect {
            let synced = failpoint::before("sync of journal", event.kind.name()).and_then(|()| self.file.sync_data());
            let synced = synced.map_err(Error::io("sync", &path));
            // After a failed sync nobody knows what is on disk.
            synced.inspect_err(|_| self.failed = true)?;
        }
        self.end = Position { offset: self.end.offset + line.len() as u64, events: event.seq };
        Ok(event)
    }

    /// Refuses to write once another process can have taken the run over, or its folder is elsewhere: the lock's file is not
    /// the one we hold any more, or somebody else has written.
    fn require_ours(&self, path: &Path) -> Result<(), Error> {
        let length = self.file.metadata().map_err(Error::io("look at", path))?.len();
        if self.lock.is_of(&self.run)? && length == self.end.offset {
            return Ok(());
        }
        let run = self.run.id().clone();
        match self.run.root().try_exists() {
            Ok(false) => Err(Error::RunMoved { run, folder: self.run.root().to_owned() }),
            Ok(true) | Err(_) => Err(Error::TakenOver { run }),
        }
    }

    /// Whether the run is still this writer's, and where it was: else nothing of it is to be written, and least of all made
    /// anew.
    pub fn is_in_place(&self) -> bool {
        self.lock.is_of(&self.run).unwrap_or(false)
    }

    /// Waits until everything appended is on disk.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.file.sync_data().map_err(Error::io("sync", &self.run.journal())).inspect_err(|_| self.failed = true)
    }

    #[cfg(test)]
    pub(super) fn replace_file(&mut self, file: File) {
        self.file = file;
    }

    fn write(&mut self, line: &[u8], which: &str) -> Result<(), Error> {
        let path = self.run.journal();
        failpoint::before("journal", which).and_then(|()| self.file.write_all(line)).map_err(|error| {
            // Half a line is what the next opening would move aside; if it can be taken back at once, the better.
            drop(self.file.set_len(self.end.offset));
            Error::io("append to", &path)(error)
        })
    }

    fn repair(&mut self, torn: Torn, events: &mut Vec<Event>) -> Result<Repair, Error> {
        let path = self.run.journal();
        if let Some(event) = torn.event {
            // First, so that a failure to add the end does not take the event back.
            self.end = Position { offset: torn.offset + torn.bytes.len() as u64, events: event.seq };
            self.write(b"\n", "end of line")?;
            self.end.offset += 1;
            let seq = event.seq;
            events.push(*event);
            return Ok(Repair::Ended { seq });
        }
        let aside = self.set_aside(&torn.bytes)?;
        self.file.set_len(torn.offset).map_err(Error::io("shorten", &path))?;
        Ok(Repair::MovedAside { path: aside, bytes: torn.bytes.len() as u64 })
    }

    fn set_aside(&self, bytes: &[u8]) -> Result<PathBuf, Error> {
        let mut number = 1;
        loop {
            let aside = self.run.torn(number);
            match atomic::write_new(&aside, bytes) {
                Ok(()) => return Ok(aside),
                Err(Error::Exists { .. }) => number += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl std::fmt::Debug for JournalWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalWriter").field("run", &self.run).field("end", &self.end).finish_non_exhaustive()
    }
}

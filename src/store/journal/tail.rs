//! Those who read a journal, whole or as it grows.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

use super::scan::{Position, Torn, scan};
use crate::model::event::Event;
use crate::store::layout::RunDir;
use crate::store::{Error, json};

/// A journal as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The events of all whole lines.
    pub events: Vec<Event>,
    /// Behind the last of them: where to go on reading.
    pub end: Position,
    /// A last line without its end: being written just now, or left by a crash.
    pub torn: Option<Torn>,
}

impl Reading {
    /// All events, also a last one that lacks nothing but the end of its line, as a writer would take it up.
    pub fn into_events(self) -> Vec<Event> {
        let last = self.torn.and_then(|torn| torn.event).map(|event| *event);
        self.events.into_iter().chain(last).collect()
    }
}

/// Reads the journal of a run. Takes no lock and writes nothing. A journal that is not there yet has no events.
pub fn read(run: &RunDir) -> Result<Reading, Error> {
    let path = run.journal();
    let bytes = match json::load_bytes(&path)? {
        Some(bytes) => bytes,
        None if run.root().is_dir() => Vec::new(),
        None => return Err(Error::NotFound { what: "run", name: run.id().to_string(), known: Vec::new() }),
    };
    let found = scan(&path, run.id(), Position::default(), &bytes)?;
    Ok(Reading { events: found.events, end: found.end, torn: found.torn })
}

/// Reads a journal as it grows.
#[derive(Debug, Clone)]
pub struct JournalTail {
    run: RunDir,
    at: Position,
}

impl JournalTail {
    /// Begins at `at`: the default position gives everything.
    pub fn new(run: &RunDir, at: Position) -> Self {
        Self { run: run.clone(), at }
    }

    /// Behind the last event given.
    pub fn position(&self) -> Position {
        self.at
    }

    /// The events since the last call, all of them. A line without its end waits for the next call.
    pub fn poll(&mut self) -> Result<Vec<Event>, Error> {
        let path = self.run.journal();
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound && self.at.offset == 0 => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("open", &path)(error)),
        };
        let size = file.metadata().map_err(Error::io("look at", &path))?.len();
        if size < self.at.offset {
            let reason = format!("it has {size} bytes, and had {} before", self.at.offset);
            return Err(Error::damaged(&path, reason, "read it again from its beginning"));
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.at.offset))
            .and_then(|_| file.read_to_end(&mut bytes))
            .map_err(Error::io("read", &path))?;
        let found = scan(&path, self.run.id(), self.at, &bytes)?;
        self.at = found.end;
        Ok(found.events)
    }
}

/// Wakes who waits for a run's journal to grow. Made *before* the first [`JournalTail::poll`], it misses nothing.
#[derive(Debug)]
pub struct JournalWatch {
    inotify: OwnedFd,
    path: PathBuf,
}

impl JournalWatch {
    /// Watches the folder of `run`.
    pub fn new(run: &RunDir) -> Result<Self, Error> {
        let path = run.root().to_owned();
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(Error::io("watch", &path))?;
        let changes = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::ONLYDIR;
        inotify::add_watch(&inotify, &path, changes).map_err(Error::io("watch", &path))?;
        Ok(Self { inotify, path })
    }

    /// Waits until something in the folder changed, at most `limit`. Gives whether it did.
    pub fn wait(&self, limit: Duration) -> Result<bool, Error> {
        let limit = Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let mut fds = [PollFd::new(&self.inotify, PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => Ok(false),
            Ok(_) => self.drain(),
            Err(error) => Err(Error::io("watch", &self.path)(error)),
        }
    }

    /// Takes what the kernel has told so far. Gives whether there was anything. For those who wait on the handle
    /// themselves.
    pub fn drain(&self) -> Result<bool, Error> {
        let mut room = [MaybeUninit::<u8>::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut room);
        let mut any = false;
        loop {
            match reader.next() {
                Ok(_) => any = true,
                Err(Errno::AGAIN) => return Ok(any),
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::io("watch", &self.path)(error)),
            }
        }
    }
}

impl AsFd for JournalWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

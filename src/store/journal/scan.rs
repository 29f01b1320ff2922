//! From bytes to events: pure.

use std::path::Path;

use serde::Deserialize;

use crate::model::RunId;
use crate::model::event::{Event, VERSION};
use crate::store::{Error, Place};

const HINT: &str = "nothing was changed; put back the file from a copy, or keep the run only for looking at";

/// A place between two lines of a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// In bytes from the beginning.
    pub offset: u64,
    /// How many events lie before it.
    pub events: u64,
}

/// A last line that was not finished.
#[derive(Debug, Clone, PartialEq)]
pub struct Torn {
    /// Where it begins.
    pub offset: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The event, where the line is whole but for its end.
    pub event: Option<Box<Event>>,
}

/// What a piece of a journal holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scan {
    pub(super) events: Vec<Event>,
    /// Behind the last whole line.
    pub(super) end: Position,
    pub(super) torn: Option<Torn>,
}

#[derive(Deserialize)]
struct Version {
    v: u64,
}

/// Reads the piece of the journal at `path` that begins at `from`.
pub(super) fn scan(path: &Path, run: &RunId, from: Position, bytes: &[u8]) -> Result<Scan, Error> {
    let (found, damage) = scan_to_damage(path, run, from, bytes);
    damage.map_or(Ok(found), Err)
}

/// The same as far as it can be read, and what keeps the rest from it.
pub(super) fn scan_to_damage(path: &Path, run: &RunId, from: Position, bytes: &[u8]) -> (Scan, Option<Error>) {
    let mut found = Scan { events: Vec::new(), end: from, torn: None };
    let damage = scan_into(&mut found, path, run, bytes).err();
    (found, damage)
}

fn scan_into(found: &mut Scan, path: &Path, run: &RunId, bytes: &[u8]) -> Result<(), Error> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = found.end;
        let line_end = rest.iter().position(|byte| *byte == b'\n');
        let line = &rest[..line_end.unwrap_or(rest.len())];
        let after = line_end.map_or(&rest[rest.len()..], |at| &rest[at + 1..]);
        if line_end.is_some() && !(after.is_empty() && line.contains(&0)) {
            found.events.push(parse(path, run, end, line)?);
            found.end = Position { offset: end.offset + line.len() as u64 + 1, events: end.events + 1 };
        } else {
            let event = match parse(path, run, end, line) {
                Ok(event) => Some(Box::new(event)),
                // It is whole, and yet not what belongs here: no crash of ours leaves that.
                Err(error) if line_end.is_none() && serde_json::from_slice::<Event>(line).is_ok() => return Err(error),
                Err(error @ Error::Newer { .. }) => return Err(error),
                Err(_) => None,
            };
            found.torn = Some(Torn { offset: end.offset, bytes: rest.to_vec(), event });
        }
        rest = after;
    }
    Ok(())
}

fn parse(path: &Path, run: &RunId, at: Position, line: &[u8]) -> Result<Event, Error> {
    let damaged = |reason: String| Error::Damaged {
        path: path.to_owned(),
        place: Some(Place { line: at.events + 1, offset: at.offset }),
        reason,
        hint: HINT,
    };
    let parsed = serde_json::from_slice::<Event>(line);
    // A newer line need not have our fields, so its version is looked for on its own.
    if let Ok(Version { v }) = serde_json::from_slice(line)
        && v > u64::from(VERSION)
    {
        return Err(Error::Newer { path: path.to_owned(), found: v, known: VERSION.into() });
    }
    let event = parsed.map_err(|error| damaged(format!("the line is not an event ({error})")))?;
    if event.seq != at.events + 1 {
        return Err(damaged(format!("event {} stands where event {} belongs", event.seq, at.events + 1)));
    }
    if event.run_id != *run {
        return Err(damaged(format!("an event of run `{}` stands in the journal of run `{run}`", event.run_id)));
    }
    Ok(event)
}

//! What an agent was kept from, as far as what it printed tells.
//!
//! A sandbox answers as a machine without rights would, and an agent that gets "Read-only file system" or "Could not
//! resolve host" does not know that somebody decided so. The output is read as it comes: [`message`] knows what programs
//! say of an error, [`reach`] knows what this box lets, and where both agree there is a hint. It is never more than that:
//! an agent can print what it likes, and a program can fail for another reason. Nothing is decided by a hint.

mod message;
mod reach;

use aho_corasick::AhoCorasick;

use self::message::Complaint;
pub use self::reach::Reach;
use crate::model::event::Hint;

/// The longest line that is looked at, in bytes; the rest of a longer one is passed over.
const LINE: usize = 4 << 10;

/// How many different denials are counted.
const COUNTED: usize = 64;

/// How many of them are told.
const TOLD: usize = 5;

/// How many lines a path may stand before the error it belongs to.
const NEAR: u32 = 4;

/// Reads what one attempt prints.
#[derive(Debug)]
pub struct Denials {
    reach: Reach,
    /// One of these is in every line that could be a complaint.
    words: Option<AhoCorasick>,
    line: Vec<u8>,
    /// The last path of a line that tells of a failure, and how many lines ago.
    before: Option<(String, u32)>,
    found: Vec<Found>,
    more: u64,
}

#[derive(Debug)]
struct Found {
    about: String,
    text: String,
    times: u64,
}

impl Denials {
    /// Reads what is printed in a box of this reach.
    pub fn new(reach: Reach) -> Self {
        let words = AhoCorasick::builder().ascii_case_insensitive(true).build(message::WORDS).ok();
        Self { reach, words, line: Vec::new(), before: None, found: Vec::new(), more: 0 }
    }

    /// Takes the next piece of output in.
    pub fn take_in(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n' || *byte == b'\r') {
            let room = LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") || piece.ends_with(b"\r") {
                self.end_line();
            }
        }
    }

    /// What was found, in the order it came in.
    pub fn end(mut self) -> Vec<Hint> {
        self.end_line();
        // Some programs say twice that a host was not reached, once without its name.
        if self
            .found
            .iter()
            .any(|found| found.about.len() > reach::A_HOST.len() && found.about.starts_with(reach::A_HOST))
        {
            self.found.retain(|found| found.about != reach::A_HOST);
        }
        let untold = self.found.len().saturating_sub(TOLD) as u64 + self.more;
        let mut hints: Vec<Hint> = self.found.iter().take(TOLD).map(Found::hint).collect();
        if untold > 0 {
            let text = "its output seems to tell of more that was denied".to_owned();
            hints.push(Hint { text, inferred: true });
        }
        hints
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() || self.words.as_ref().is_some_and(|words| !words.is_match(&line)) {
            self.age();
            return;
        }
        let line = message::without_colours(&String::from_utf8_lossy(&line));
        let near = self.before.as_ref().map(|(path, _)| path.as_str());
        match message::complaint(&line, near) {
            Some(complaint) => self.note(&complaint),
            None => match message::failed_on(&line) {
                Some(path) => self.before = Some((path, 0)),
                None => self.age(),
            },
        }
    }

    fn age(&mut self) {
        self.before = self.before.take().map(|(path, age)| (path, age + 1)).filter(|(_, age)| *age < NEAR);
    }

    fn note(&mut self, complaint: &Complaint) {
        let Some((about, text)) = self.reach.explain(complaint) else {
            return;
        };
        if let Some(found) = self.found.iter_mut().find(|found| found.about == about) {
            found.times += 1;
        } else if self.found.len() < COUNTED {
            self.found.push(Found { about, text, times: 1 });
        } else {
            self.more += 1;
        }
    }
}

impl Found {
    fn hint(&self) -> Hint {
        let text = match self.times {
            1 => self.text.clone(),
            times => format!("{} ({times} times)", self.text),
        };
        Hint { text, inferred: true }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

//! Where two versions of a text and what they come from conflict, as ranges of lines.
//!
//! Git says what each side changed; here its changes are put together as its merge does it (`xdl_do_merge`), since no
//! command of git's tells the line numbers. Nothing is decided by it: whether a path conflicts, a merge has said.

use std::ops::Range;

use super::command::Access;
use super::error::Error;
use super::merge::DIFF_ALGORITHM;
use super::repository::Repository;
use crate::model::ObjectId;

/// A stretch of lines that conflicts. Lines are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The lines both sides come from; none where there is no base at all.
    pub base: Option<Range<usize>>,
    /// The lines of the one side.
    pub ours: Range<usize>,
    /// The lines of the other.
    pub theirs: Range<usize>,
}

/// One change between two texts: these lines became those. Lines are counted from 0; either range may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The lines before.
    pub old: Range<usize>,
    /// The lines after.
    pub new: Range<usize>,
}

/// The lines of a text, each with its end. The last one may have none.
pub fn split_lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Whether git takes the content for text.
pub fn is_text(content: &[u8]) -> bool {
    /// As much of a file as git looks at.
    const LOOKED_AT: usize = 8000;
    !content.iter().take(LOOKED_AT).any(|byte| *byte == 0)
}

impl Repository {
    /// What changed from one blob to another, as the merge sees it.
    pub fn load_hunks(&self, old: &ObjectId, new: &ObjectId) -> Result<Vec<Hunk>, Error> {
        self.load_hunks_by(DIFF_ALGORITHM, old, new)
    }

    pub(super) fn load_hunks_by(&self, algorithm: &str, old: &ObjectId, new: &ObjectId) -> Result<Vec<Hunk>, Error> {
        // There is no plumbing for two blobs; so everything that a user's settings could change is said.
        let output = self
            .common(Access::Read, "diff")
            .args(["--unified=0", "--inter-hunk-context=0", "--text", "--no-color", "--no-ext-diff", "--no-textconv"])
            .args(["--no-indent-heuristic", "--ignore-submodules=none", "--no-relative", "--no-renames"])
            .arg(format!("--diff-algorithm={algorithm}"))
            .args([old.as_str(), new.as_str()])
            .success()?;
        let headers = output.stdout.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"@@ "));
        headers.map(|line| parse_header(line).ok_or_else(|| Error::unparsable(output.what(), "an odd hunk"))).collect()
    }
}

/// Reads `@@ -1,2 +3,4 @@`. An empty range names the line before it.
fn parse_header(line: &[u8]) -> Option<Hunk> {
    let text = String::from_utf8_lossy(line);
    let mut fields = text.strip_prefix("@@ ")?.split(' ');
    let mut range = |sign: char| {
        let (from, count) = {
            let field = fields.next()?.strip_prefix(sign)?;
            let (from, count) = field.split_once(',').unwrap_or((field, "1"));
            (from.parse::<usize>().ok()?, count.parse::<usize>().ok()?)
        };
        let from = if count == 0 { from } else { from.checked_sub(1)? };
        Some(from..from + count)
    };
    Some(Hunk { old: range('-')?, new: range('+')? })
}

/// The regions in which changes of both sides since `base` meet, in order. Two changes that touch each other meet; the same
/// change on both sides conflicts with nothing.
pub fn regions(base: &[&[u8]], ours: &[&[u8]], theirs: &[&[u8]], changes: [&[Hunk]; 2]) -> Vec<Region> {
    let same =
        |one: &Hunk, other: &Hunk| one.old == other.old && ours.get(one.new.clone()) == theirs.get(other.new.clone());
    let mut joined: Vec<Joined> = Vec::new();
    let (mut ones, mut others) = (changes[0].iter().peekable(), changes[1].iter().peekable());
    // How far a side's lines are from the base's, behind its changes so far.
    let mut shifts = [Shift::default(); 2];
    loop {
        match (ones.peek().copied(), others.peek().copied()) {
            (Some(one), Some(other)) if one.old.end < other.old.start => {
                join(&mut joined, Joined::one_sided(one, shifts[1], 0));
                shifts[0].pass(one);
                ones.next();
            }
            (Some(one), Some(other)) if other.old.end < one.old.start => {
                join(&mut joined, Joined::one_sided(other, shifts[0], 1));
                shifts[1].pass(other);
                others.next();
            }
            (Some(one), Some(other)) => {
                if !same(one, other) {
                    join(&mut joined, Joined::both(one, other));
                }
                let (end, other_end) = (one.old.end, other.old.end);
                if end >= other_end {
                    shifts[1].pass(other);
                    others.next();
                }
                if other_end >= end {
                    shifts[0].pass(one);
                    ones.next();
                }
            }
            (Some(one), None) => {
                join(&mut joined, Joined::one_sided(one, shifts[1], 0));
                shifts[0].pass(one);
                ones.next();
            }
            (None, Some(other)) => {
                join(&mut joined, Joined::one_sided(other, shifts[0], 1));
                shifts[1].pass(other);
                others.next();
            }
            (None, None) => break,
        }
    }
    let within = |range: Range<usize>, lines: &[&[u8]]| range.start.min(lines.len())..range.end.min(lines.len());
    let conflicting = joined.into_iter().filter(|it| it.conflicts);
    conflicting
        .map(|it| {
            let [base_range, our_range, their_range] = it.ranges;
            Region {
                base: Some(within(base_range, base)),
                ours: within(our_range, ours),
                theirs: within(their_range, theirs),
            }
        })
        .collect()
}

/// How far the lines of a side are from those of the base.
#[derive(Clone, Copy, Default)]
struct Shift {
    old: usize,
    new: usize,
}

impl Shift {
    fn pass(&mut self, hunk: &Hunk) {
        *self = Self { old: hunk.old.end, new: hunk.new.end };
    }

    /// The side's line for a line of the base that stands behind all its changes so far and before the next.
    fn of(self, line: usize) -> usize {
        self.new + line.saturating_sub(self.old)
    }
}

/// Changes that meet: ranges of the base, of ours and of theirs.
struct Joined {
    conflicts: bool,
    side: usize,
    ranges: [Range<usize>; 3],
}

impl Joined {
    fn one_sided(hunk: &Hunk, other: Shift, side: usize) -> Self {
        let unchanged = other.of(hunk.old.start)..other.of(hunk.old.end);
        let (ours, theirs) = if side == 0 { (hunk.new.clone(), unchanged) } else { (unchanged, hunk.new.clone()) };
        Self { conflicts: false, side, ranges: [hunk.old.clone(), ours, theirs] }
    }

    /// Both are widened to the base's lines of either.
    fn both(one: &Hunk, other: &Hunk) -> Self {
        let base = one.old.start.min(other.old.start)..one.old.end.max(other.old.end);
        let widened = |hunk: &Hunk| {
            let from = hunk.new.start.saturating_sub(hunk.old.start - base.start);
            from..hunk.new.end + (base.end - hunk.old.end)
        };
        Self { conflicts: true, side: 0, ranges: [base.clone(), widened(one), widened(other)] }
    }
}

/// Adds changes, to the last ones if they touch these.
fn join(joined: &mut Vec<Joined>, next: Joined) {
    match joined.last_mut() {
        Some(last) if (1..3).any(|side| next.ranges[side].start <= last.ranges[side].end) => {
            last.conflicts |= next.conflicts || last.side != next.side;
            // The later end counts also where it is the smaller: it knows of one more change.
            for (range, more) in last.ranges.iter_mut().zip(next.ranges) {
                range.end = more.end;
            }
        }
        Some(_) | None => joined.push(next),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::git::command::{Command, Input};
    use crate::git::testing::{Fixture, each_git};

    #[test]
    fn headers() {
        let hunk = |old, new| Some(Hunk { old, new });
        for (line, expected) in [
            ("@@ -1,2 +3,4 @@ fn x()", hunk(0..2, 2..6)),
            ("@@ -5 +5 @@", hunk(4..5, 4..5)),
            ("@@ -0,0 +1,3 @@", hunk(0..0, 0..3)),
            ("@@ -7,2 +6,0 @@", hunk(6..8, 6..6)),
            ("@@ -0 +1 @@", None),
            ("@@ x", None),
        ] {
            assert_eq!(parse_header(line.as_bytes()), expected, "{line}");
        }
    }

    /// The parts of a file that `git merge-file --diff3` marked: what ours, base and theirs have there.
    fn marked(text: &str, size: usize) -> Vec<[String; 3]> {
        let marker = |letter: char| letter.to_string().repeat(size);
        let (open, base, split, close) = (marker('<'), marker('|'), marker('='), marker('>'));
        let mut found: Vec<[String; 3]> = Vec::new();
        let mut at = None;
        for line in text.split_inclusive('\n') {
            if line.starts_with(&open) {
                found.push(Default::default());
                at = Some(0);
            } else if line.starts_with(&base) {
                at = Some(1);
            } else if line.starts_with(&split) {
                at = Some(2);
            } else if line.starts_with(&close) {
                at = None;
            } else if let (Some(at), Some(last)) = (at, found.last_mut()) {
                last[at].push_str(line);
            }
        }
        found
    }

    /// Git's own merge of the same three texts marks the same regions.
    #[test]
    fn regions_are_those_that_git_marks() {
        each_git(|git| {
            let fixture = Fixture::new(git);
            let repository = &fixture.repository;
            let scratch = tempfile::tempdir().unwrap();
            let text = proptest::collection::vec(0_u8..6, 0..14);
            let config = ProptestConfig { cases: 24, ..ProptestConfig::default() };
            proptest!(config, |(base in text.clone(), ours in text.clone(), theirs in text)| {
                let of = |lines: &[u8]| lines.iter().map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat();
                let texts = [of(&base), of(&ours), of(&theirs)];
                let ids = texts.each_ref().map(|text| repository.write_bytes(text.clone().into_bytes()).unwrap());
                let [base, ours, theirs] = texts.each_ref().map(|text| split_lines(text.as_bytes()));
                let changes = [1, 2].map(|side| repository.load_hunks_by("myers", &ids[0], &ids[side]).unwrap());
                let found = regions(&base, &ours, &theirs, [&changes[0], &changes[1]]);
                let shown = |lines: &[&[u8]], range: &Range<usize>| {
                    String::from_utf8(lines[range.clone()].concat()).unwrap()
                };
                let found: Vec<[String; 3]> = found.iter().map(|it| [
                    shown(&ours, &it.ours), shown(&base, it.base.as_ref().unwrap()), shown(&theirs, &it.theirs),
                ]).collect();
                let files = ["ours", "base", "theirs"].map(|name| scratch.path().join(name));
                for (file, text) in files.iter().zip([&texts[1], &texts[0], &texts[2]]) {
                    crate::store::atomic::write(file, text.as_bytes()).unwrap();
                }
                let output = Command::new(git, Access::Read, "merge-file")
                    .without_literal_paths()
                    .folder(scratch.path())
                    .config("diff.algorithm", "myers")
                    .args(["-p", "--diff3", "--marker-size=20"])
                    .args(&files)
                    .input(Input::Null)
                    .run()
                    .unwrap();
                let wanted = marked(std::str::from_utf8(&output.stdout).unwrap(), 20);
                prop_assert_eq!(found, wanted, "{:?}", texts);
            });
        });
    }
}

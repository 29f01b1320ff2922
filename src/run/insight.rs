//! What a card's conflict looks like: the lines in which its sides differ, and what that speaks for.
//!
//! All of it comes from the repository's objects, by the ids that the card names; no work tree is looked at, and nothing is
//! written. What is not there any more is said so: a card can be shown whatever has become of its run.

use std::ops::Range;

use crate::board::{PathFacts, Place, Text, lean};
use crate::git::{Blob, Entry, Error, Mode, ModeKind, Region, Repository, is_text, regions, split_lines};
use crate::model::card::{Card, CardKind, Proposal, Sides};
use crate::model::excerpt::{Content, ContentKind, Excerpts, Lean, Line, Lines, PathExcerpt, RegionExcerpt};
use crate::model::{CommitId, RepoPath};

/// How many paths are shown.
const PATHS: usize = 10;

/// How many places of one path are shown.
const REGIONS: usize = 6;

/// How many lines of one side of one place are shown.
const LINES: usize = 24;

/// How many lines around a place are shown.
const CONTEXT: usize = 3;

/// The longest part of a line that is shown, in bytes.
const LINE_MAX: usize = 400;

/// The most that one card shows of lines, in bytes.
const TOTAL_MAX: usize = 64 << 10;

/// The largest text that is looked into, in bytes.
const TEXT_MAX: u64 = 4 << 20;

/// The most that is shown of what a proposal changes, in bytes.
const PATCH_MAX: usize = 64 << 10;

/// What can be told of a card beside the card.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Insight {
    /// The conflicting paths; none where it is about no conflict.
    pub excerpts: Option<Excerpts>,
    /// What they speak for.
    pub lean: Option<Lean>,
    /// What the proposal changes in the candidate at these paths, as a patch; none where there is no proposal.
    pub proposed: Option<Line>,
}

/// Looks at a card's conflict.
pub fn insight(repository: &Repository, card: &Card) -> Insight {
    let (CardKind::Conflict, Some(sides)) = (card.kind, &card.sides) else { return Insight::default() };
    let mut view = View { repository, card, sides, left: TOTAL_MAX };
    let (mut paths, mut facts) = (Vec::new(), Vec::new());
    for path in card.paths.iter().take(PATHS) {
        let (excerpt, fact) = view.path(path);
        paths.push(excerpt);
        facts.push(fact);
    }
    let more_paths = card.paths.len() - paths.len();
    // What was not looked at may speak for something else.
    let lean = if more_paths == 0 { lean(card, &facts) } else { None };
    let proposed = card.proposal.as_ref().map(|proposal| view.patch(proposal));
    Insight { excerpts: Some(Excerpts { paths, more_paths }), lean, proposed }
}

struct View<'a> {
    repository: &'a Repository,
    card: &'a Card,
    sides: &'a Sides,
    /// How many bytes of lines may still be shown.
    left: usize,
}

/// What one side has at a path, looked at.
struct Seen {
    entry: Entry,
    content: Content,
    text: Option<Vec<u8>>,
    missing: bool,
}

impl View<'_> {
    fn path(&mut self, path: &RepoPath) -> (PathExcerpt, PathFacts) {
        let [base, ours, theirs] = [1, 2, 3].map(|stage| self.seen(path, stage));
        let (regions, note) = self.compare(base.as_ref(), ours.as_ref(), theirs.as_ref());
        let texts = [&base, &ours, &theirs].map(|seen| lines_of(seen.as_ref()));
        let entry = |seen: &Option<Seen>| seen.as_ref().map(|seen| seen.entry.clone());
        let renamed = self.card.messages.iter().any(|said| said.kind.contains("rename") && said.paths.contains(path));
        let facts = PathFacts {
            path: path.clone(),
            base: entry(&base),
            ours: entry(&ours),
            theirs: entry(&theirs),
            renamed,
            places: note.is_none().then(|| regions.iter().map(|region| place(region, &texts)).collect()),
        };
        let shown: Vec<RegionExcerpt> =
            regions.iter().take(REGIONS).map(|region| self.excerpt(region, &texts)).collect();
        let content = |seen: Option<Seen>| seen.map(|seen| seen.content);
        let excerpt = PathExcerpt {
            path: path.clone(),
            more_regions: regions.len() - shown.len(),
            regions: shown,
            note,
            base: content(base),
            ours: content(ours),
            theirs: content(theirs),
        };
        (excerpt, facts)
    }

    /// What a side has at a path: what git found in conflict there, else what simply stands there.
    fn seen(&self, path: &RepoPath, number: u8) -> Option<Seen> {
        let staged = self.card.stages.iter().find(|stage| stage.path == *path && stage.stage == number);
        let entry = match staged {
            Some(stage) => Entry { mode: Mode::parse(&stage.mode)?, id: stage.oid.clone() },
            None => self.standing(path, number)?,
        };
        let mut content = Content {
            kind: match entry.mode.kind() {
                ModeKind::File => ContentKind::File,
                ModeKind::Symlink => ContentKind::Symlink,
                ModeKind::Gitlink => ContentKind::Submodule,
                ModeKind::Tree => ContentKind::Folder,
            },
            mode: entry.mode.to_string(),
            oid: entry.id.clone(),
            size: None,
            target: None,
        };
        let (mut text, mut missing) = (None, false);
        if matches!(content.kind, ContentKind::File | ContentKind::Symlink) {
            match self.repository.load_blob(&entry.id, TEXT_MAX) {
                Ok(Blob::TooLarge { size }) => content.size = Some(size),
                Ok(Blob::Whole(bytes)) => {
                    content.size = Some(bytes.len() as u64);
                    if content.kind == ContentKind::Symlink {
                        content.target = Some(Line::new(&bytes, LINE_MAX));
                    } else if is_text(&bytes) {
                        content.kind = ContentKind::Text;
                        text = Some(bytes);
                    } else {
                        content.kind = ContentKind::Binary;
                    }
                }
                Err(error) => {
                    tracing::debug!(%path, %error, "the content of a card cannot be read");
                    missing = true;
                }
            }
        }
        Some(Seen { entry, content, text, missing })
    }

    fn standing(&self, path: &RepoPath, number: u8) -> Option<Entry> {
        let commit = match number {
            1 => self.sides.base.as_ref()?,
            2 => &self.sides.ours,
            _ => &self.sides.theirs,
        };
        let found = |commit: &CommitId| {
            let tree = self.repository.load_commit(commit)?.tree;
            self.repository.load_entry(&tree, path)
        };
        found(commit).unwrap_or_else(|error: Error| {
            tracing::debug!(%path, %error, "a side of a card cannot be read");
            None
        })
    }

    /// Where the texts conflict, or why that cannot be told.
    fn compare(
        &self,
        base: Option<&Seen>,
        ours: Option<&Seen>,
        theirs: Option<&Seen>,
    ) -> (Vec<Region>, Option<String>) {
        let without = |why: &str| (Vec::new(), Some(why.to_owned()));
        if [base, ours, theirs].into_iter().flatten().any(|seen| seen.missing) {
            return without("its content is not in the repository any more");
        }
        let (Some(ours), Some(theirs)) = (ours, theirs) else {
            return without("only one side has something there");
        };
        let is_file = |seen: &Seen| seen.entry.mode.kind() == ModeKind::File;
        if !is_file(ours) || !is_file(theirs) || base.is_some_and(|base| !is_file(base)) {
            return without("it is not a file on every side");
        }
        if ours.entry.id == theirs.entry.id {
            return without("both sides have the same content");
        }
        let kinds = [Some(ours), Some(theirs), base].into_iter().flatten().map(|seen| seen.content.kind);
        if kinds.clone().any(|kind| kind == ContentKind::Binary) {
            return without("it is no text");
        }
        if kinds.clone().any(|kind| kind != ContentKind::Text) {
            return without("it is too large to be shown");
        }
        match self.regions(base, ours, theirs) {
            // Settings or attributes make git conflict where the texts do not.
            Ok(regions) if regions.is_empty() => without("the texts themselves do not conflict"),
            Ok(regions) => (regions, None),
            Err(error) => without(&error.to_string()),
        }
    }

    fn regions(&self, base: Option<&Seen>, ours: &Seen, theirs: &Seen) -> Result<Vec<Region>, Error> {
        let Some(base) = base else {
            let hunks = self.repository.load_hunks(&ours.entry.id, &theirs.entry.id)?;
            return Ok(hunks.into_iter().map(|it| Region { base: None, ours: it.old, theirs: it.new }).collect());
        };
        let one = self.repository.load_hunks(&base.entry.id, &ours.entry.id)?;
        let other = self.repository.load_hunks(&base.entry.id, &theirs.entry.id)?;
        let [base_lines, our_lines, their_lines] = [base, ours, theirs].map(|seen| lines_of(Some(seen)));
        let mut found = regions(&base_lines, &our_lines, &their_lines, [&one, &other]);
        // Changes that meet and come to the same: git merges these.
        found.retain(|it| our_lines.get(it.ours.clone()) != their_lines.get(it.theirs.clone()));
        Ok(found)
    }

    fn excerpt(&mut self, region: &Region, texts: &[Vec<&[u8]>; 3]) -> RegionExcerpt {
        let [base, ours, theirs] = texts;
        let before = region.ours.start.saturating_sub(CONTEXT)..region.ours.start;
        let after = region.ours.end..(region.ours.end + CONTEXT).min(ours.len());
        RegionExcerpt {
            before: self.lines(ours, before),
            base: region.base.clone().map(|range| self.lines(base, range)),
            ours: self.lines(ours, region.ours.clone()),
            theirs: self.lines(theirs, region.theirs.clone()),
            after: self.lines(ours, after),
        }
    }

    /// These lines, as far as there is room for them.
    fn lines(&mut self, text: &[&[u8]], range: Range<usize>) -> Lines {
        let all = text.get(range.clone()).unwrap_or_default();
        let mut lines = Vec::new();
        for line in all.iter().take(LINES) {
            let line = Line::new(line.strip_suffix(b"\n").unwrap_or(line), LINE_MAX);
            let Some(left) = self.left.checked_sub(line.bytes().len() + 1) else { break };
            self.left = left;
            lines.push(line);
        }
        let is_end = range.end == text.len() && lines.len() == all.len();
        Lines {
            from: range.start + 1,
            more: all.len() - lines.len(),
            no_newline: is_end && all.last().is_some_and(|line| !line.ends_with(b"\n")),
            lines,
        }
    }

    /// What a proposal changes in the candidate.
    fn patch(&self, proposal: &Proposal) -> Line {
        let mut patch = Vec::new();
        let written = self.repository.load_commit(&self.sides.ours).and_then(|ours| {
            let tree = self.repository.load_commit(&proposal.kept_in)?.tree;
            self.repository.write_patch_of_paths(&ours.tree, &tree, &self.card.paths, &mut patch)
        });
        match written {
            Ok(()) => Line::new(&patch, PATCH_MAX),
            Err(error) => Line::new(format!("it cannot be shown: {error}\n").as_bytes(), PATCH_MAX),
        }
    }
}

fn lines_of(seen: Option<&Seen>) -> Vec<&[u8]> {
    seen.and_then(|seen| seen.text.as_deref()).map(split_lines).unwrap_or_default()
}

fn place(region: &Region, [base, ours, theirs]: &[Vec<&[u8]>; 3]) -> Place {
    let text = |lines: &[&[u8]], range: &Range<usize>| -> Text {
        lines.get(range.clone()).unwrap_or_default().iter().map(|line| line.to_vec()).collect()
    };
    Place {
        base: region.base.as_ref().map(|range| text(base, range)),
        ours: text(ours, &region.ours),
        theirs: text(theirs, &region.theirs),
    }
}

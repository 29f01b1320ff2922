//! A conflict as data: kinds, paths, stages, messages, and a fingerprint of them.
//!
//! The fingerprint says whether two conflicts are the same one, so that a card that was decided stays decided when the
//! target moves elsewhere. It is made of conflict types with their paths and of the stages, never of texts, trees or
//! commits. Stages alone would not do: one kind of conflict has none.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::objects::{Entry, Mode};
use crate::model::{CommitId, ObjectId, RepoPath, TreeId};

/// The shortest marker of a conflict that git writes.
const MARKER: usize = 7;

/// Why two commits do not merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The tree that git wrote, with conflict markers in it. For looking at, never for committing.
    pub tree: TreeId,
    /// The kinds of conflict, sorted, without `CONFLICT` and its parentheses: `contents`, `modify/delete`.
    pub kinds: Vec<String>,
    /// What stands on either side and in the base, for each conflicting path. May be empty.
    pub stages: Vec<Stage>,
    /// Everything git said, in its order.
    pub messages: Vec<Message>,
    /// Equal for equal conflicts, whatever commits they came from: a SHA-256 in hexadecimal.
    pub fingerprint: String,
}

/// One side's content of a conflicting path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stage {
    /// The path, without the suffix that git adds where two things want one name.
    pub path: RepoPath,
    /// Whose it is.
    pub side: Side,
    /// What stands there.
    pub entry: Entry,
}

/// Whose content a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The common ancestor's.
    Base,
    /// That of the commit merged into: the candidate.
    Ours,
    /// That of the commit merged: the agent's.
    Theirs,
}

impl Side {
    fn from_stage(digit: &str) -> Option<Self> {
        match digit {
            "1" => Some(Self::Base),
            "2" => Some(Self::Ours),
            "3" => Some(Self::Theirs),
            _ => None,
        }
    }

    /// Git's number for it.
    pub fn stage(self) -> u8 {
        match self {
            Self::Base => 1,
            Self::Ours => 2,
            Self::Theirs => 3,
        }
    }
}

/// One thing that git said about a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Git's stable name for what it is about: `Auto-merging`, `CONFLICT (contents)`.
    pub kind: String,
    /// The paths it is about, as git gave them.
    pub paths: Vec<RepoPath>,
    /// What it says, for people.
    pub text: String,
}

impl Message {
    /// Whether it reports a conflict.
    pub fn is_conflict(&self) -> bool {
        self.kind.starts_with("CONFLICT")
    }

    /// The kind of conflict: `contents` of `CONFLICT (contents)`.
    fn conflict_kind(&self) -> &str {
        let kind = self.kind.strip_prefix("CONFLICT").unwrap_or(&self.kind).trim_start();
        kind.strip_prefix('(').and_then(|kind| kind.strip_suffix(')')).unwrap_or(kind)
    }
}

impl Conflict {
    /// All paths it is about, sorted, without git's suffixes.
    pub fn paths(&self) -> Vec<RepoPath> {
        let staged = self.stages.iter().map(|stage| stage.path.clone());
        let said =
            self.messages.iter().filter(|message| message.is_conflict()).flat_map(|message| message.paths.clone());
        staged.chain(said).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether git made up this path to make room for something, in a merge of these two commits.
    pub fn is_made_up(path: &RepoPath, labels: [&CommitId; 2]) -> bool {
        stripped(path.as_bytes(), labels) != *path
    }

    /// Takes the fingerprint anew with these texts in the place of the objects that git made up, which have the names of
    /// commits in them.
    pub(super) fn disregard_names(&mut self, unnamed: &BTreeMap<ObjectId, Vec<u8>>) {
        self.fingerprint = fingerprint(&self.stages, &self.messages, unnamed);
    }

    /// The content of one path on one side; none if that side has nothing there.
    pub fn side(&self, path: &RepoPath, side: Side) -> Option<&Entry> {
        self.stages.iter().find(|stage| stage.path == *path && stage.side == side).map(|stage| &stage.entry)
    }
}

/// Reads what `merge-tree -z --messages` writes when it exits with 1. `labels` are the two arguments it was given.
pub(super) fn parse(stdout: &[u8], labels: [&CommitId; 2]) -> Result<Conflict, String> {
    // Every field is closed by a NUL. What stands behind the last one is advice on submodules, which old versions print
    // there.
    let end = stdout.iter().rposition(|byte| *byte == 0).ok_or("it has no field")?;
    let mut fields = stdout[..end].split(|byte| *byte == 0);
    let mut next = |what: &str| fields.next().ok_or_else(|| format!("it ends before {what}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let tree = text(next("the tree")?).parse().map_err(|_| "it does not begin with a tree id".to_owned())?;
    let mut stages = Vec::new();
    loop {
        let record = next("the stages' end")?;
        if record.is_empty() {
            break;
        }
        stages.push(stage(record, labels).ok_or_else(|| format!("odd stage `{}`", record.escape_ascii()))?);
    }
    let mut messages = Vec::new();
    while let Some(count) = fields.next() {
        let mut next = || fields.next().ok_or_else(|| "it ends in a message".to_owned());
        let count: usize = text(count).parse().map_err(|_| "a message's number of paths is not a number".to_owned())?;
        let paths = (0..count).map(|_| next().map(|path| stripped(path, labels))).collect::<Result<_, _>>()?;
        let (kind, words) = (text(next()?), text(next()?));
        messages.push(Message { kind, paths, text: words.trim_end().to_owned() });
    }
    if !messages.iter().any(Message::is_conflict) {
        return Err("it reports a conflict, but no message says which".to_owned());
    }
    stages.sort();
    let kinds: BTreeSet<&str> =
        messages.iter().filter(|message| message.is_conflict()).map(Message::conflict_kind).collect();
    let kinds = kinds.into_iter().map(str::to_owned).collect();
    let fingerprint = fingerprint(&stages, &messages, &BTreeMap::new());
    Ok(Conflict { tree, kinds, stages, messages, fingerprint })
}

/// Reads `mode id stage<tab>path`.
fn stage(record: &[u8], labels: [&CommitId; 2]) -> Option<Stage> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let mut fields = std::str::from_utf8(&record[..tab]).ok()?.split(' ');
    let (mode, id, digit) = (fields.next()?, fields.next()?, fields.next()?);
    let entry = Entry { mode: Mode::parse(mode)?, id: id.parse().ok()? };
    Some(Stage { path: stripped(&record[tab + 1..], labels), side: Side::from_stage(digit)?, entry })
}

/// A path without the `~<label>` or `~<label>_<n>` that git adds to make room: the labels are commit ids, so with them
/// the path would be another one whenever a commit is.
fn stripped(path: &[u8], labels: [&CommitId; 2]) -> RepoPath {
    let Some(tilde) = path.iter().rposition(|byte| *byte == b'~') else { return RepoPath::new(path) };
    let suffix = &path[tilde + 1..];
    let is_label = labels.iter().any(|label| {
        suffix.strip_prefix(label.as_str().as_bytes()).is_some_and(|rest| match rest {
            [] => true,
            [b'_', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
            _ => false,
        })
    });
    RepoPath::new(if is_label { &path[..tilde] } else { path })
}

/// A text with markers without the labels in them; none if it has none.
pub(super) fn without_labels(text: Vec<u8>, labels: [&CommitId; 2]) -> Option<Vec<u8>> {
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let mut found = false;
    for line in &mut lines {
        for (mark, label) in [(b'<', labels[0]), (b'>', labels[1])] {
            let length = line.iter().take_while(|byte| **byte == mark).count();
            let rest = line[length..].strip_prefix(b" ").filter(|_| length >= MARKER);
            if rest.is_some_and(|rest| rest.starts_with(label.as_str().as_bytes())) {
                (*line, found) = (&line[..length], true);
            }
        }
    }
    found.then(|| lines.concat())
}

/// A hash of the sorted set of typed facts. Every field is closed by a NUL, which no path and no type contains, and each
/// fact says what it is and how many fields it has, so that no two different sets give the same bytes.
fn fingerprint(stages: &[Stage], messages: &[Message], unnamed: &BTreeMap<ObjectId, Vec<u8>>) -> String {
    let mut facts: BTreeSet<Vec<u8>> = BTreeSet::new();
    for message in messages.iter().filter(|message| message.is_conflict()) {
        let mut fact = format!("conflict\0{}\0{}\0", message.kind, message.paths.len()).into_bytes();
        for path in &message.paths {
            fact.extend(path.as_bytes());
            fact.push(0);
        }
        facts.insert(fact);
    }
    for stage in stages {
        let id = match unnamed.get(&stage.entry.id) {
            Some(text) => format!("marked {}", hex::encode(Sha256::digest(text))),
            None => stage.entry.id.to_string(),
        };
        let mut fact = format!("stage\0{}\0{id}\0{}\0", stage.entry.mode, stage.side.stage()).into_bytes();
        fact.extend(stage.path.as_bytes());
        fact.push(0);
        facts.insert(fact);
    }
    // Said aloud: there is a conflict without stages, which is not the same as stages not looked at.
    facts.insert(format!("stages\0{}\0", stages.len()).into_bytes());
    let mut hash = Sha256::new();
    for fact in facts {
        hash.update(fact);
    }
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "1111111111111111111111111111111111111111";
    const THEIRS: &str = "2222222222222222222222222222222222222222";

    fn labels() -> [CommitId; 2] {
        [OURS.parse().unwrap(), THEIRS.parse().unwrap()]
    }

    #[test]
    fn only_our_own_labels_are_stripped() {
        let [ours, theirs] = labels();
        let strip = |path: String| stripped(path.as_bytes(), [&ours, &theirs]).to_string();
        assert_eq!(strip(format!("d/n~{OURS}")), "d/n");
        assert_eq!(strip(format!("n~{THEIRS}_12")), "n");
        for kept in
            [format!("n~{OURS}_"), format!("n~{OURS}x"), "n~main".to_owned(), format!("n{OURS}"), format!("~{OURS}/x")]
        {
            assert_eq!(strip(kept.clone()), kept);
        }
    }

    #[test]
    fn torn_and_odd_answers_are_refused() {
        let [ours, theirs] = labels();
        let whole = format!("{OURS}\x00100644 {THEIRS} 1\tf\0\x001\0f\0CONFLICT (contents)\0text\n\0");
        let read = |bytes: &[u8]| parse(bytes, [&ours, &theirs]);
        assert_eq!(read(whole.as_bytes()).unwrap().kinds, ["contents"]);
        for length in 0..whole.len() {
            assert!(read(&whole.as_bytes()[..length]).is_err(), "cut at {length}");
        }
        let advised = format!("{whole}Please do\nthings");
        assert_eq!(read(advised.as_bytes()), read(whole.as_bytes()));
        let no_conflict = format!("{OURS}\0\x001\0f\0Auto-merging\0Auto-merging f\n\0");
        assert!(read(no_conflict.as_bytes()).is_err());
    }

    #[test]
    fn a_type_without_a_space_is_a_conflict() {
        let [ours, theirs] = labels();
        let text = format!("{OURS}\0\x001\0d\0CONFLICT(directory rename unclear split)\0text\n\0");
        let conflict = parse(text.as_bytes(), [&ours, &theirs]).unwrap();
        assert_eq!(conflict.kinds, ["directory rename unclear split"]);
        assert_eq!(conflict.paths(), [RepoPath::from("d")]);
    }
}

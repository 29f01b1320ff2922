//! An agent's own commits, for a target whose history is to have them.
//!
//! No commit object of an agent's gets there. Each commit is made again, as a rebase would: the same tree, the same author
//! and words, and the run's own identity as who committed it. What was signed is not signed any more, and ids are new.
//!
//! It is done only for commits that are the agent's alone, from its fork point to its head: an agent can forge ancestry,
//! and a merge brings in all of it. And only for commits that could each be merged by themselves: what was put in and taken
//! out again is in a history for good. Where that does not hold, the agent's work comes in as one commit, and why is told.
//! What a person may decide about, paths outside the contract and protected ones, is left to the cards.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::change::bundle;
use crate::git::{self, Commit, NewCommit, Renames, Signature, TreeChange};
use crate::model::CommitId;
use crate::plan::is_harmful;

use super::contribution::Contribution;
use super::error::Error;
use super::facts::Facts;
use super::message;

/// How many commits of an agent's are made again.
const MOST: usize = 500;

/// The longest message, in bytes.
const MESSAGE_MAX: usize = 64 * 1024;

/// The longest name or address, in bytes.
const NAME_MAX: usize = 256;

/// The last second of the year 2099: later dates hide a commit from whoever asks for a time.
const LAST_DATE: i64 = 4_102_444_799;

/// How far clocks are from UTC at most, in minutes.
const OFFSET_MAX: i32 = 14 * 60;

/// What there is of an agent's own commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Own {
    /// It made none.
    None,
    /// They cannot be had.
    Unfit(Unfit),
    /// They were made again.
    Made(Box<Again>),
}

/// An agent's commits, made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Again {
    /// The last one. Its tree is that of the contribution.
    pub(super) tip: CommitId,
    /// How many of them are the agent's own: one more may hold what it left uncommitted.
    pub(super) count: u64,
    /// Every change of each of them, renames not looked for.
    pub(super) changes: Vec<TreeChange>,
}

/// Why an agent's commits cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("where its head stood is not known, or its commits were not fit to be kept")]
    NoHead,
    #[error("a part of its commits, up to {}, is missing", .0.short())]
    Missing(CommitId),
    #[error("its head was moved back behind its fork point, to {}", .0.short())]
    MovedBack(CommitId),
    #[error("commit {} has no parent: its history does not begin at the fork point", .0.short())]
    Orphan(CommitId),
    #[error("commit {} builds on {}, which is neither its fork point nor a commit since", .0.short(), .1.short())]
    Foreign(CommitId, CommitId),
    #[error("there are more than {MOST} of them")]
    TooMany,
    #[error("in commit {} {text}", commit.short())]
    Held { commit: CommitId, text: String },
    #[error("commit {} {odd}", commit.short())]
    Odd { commit: CommitId, odd: Odd },
    #[error("git would not make commit {} again: {text}", commit.short())]
    Refused { commit: CommitId, text: String },
}

/// What is wrong with the words of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Odd {
    #[error("has a message that is not UTF-8")]
    NotUtf8,
    #[error("has a message of more than {MESSAGE_MAX} bytes")]
    LongMessage,
    #[error("has control characters, or ones that turn text around, in its message")]
    HarmfulMessage,
    #[error("has a line in its message that only this program writes")]
    Forged,
    #[error("has an author that no commit should have")]
    Author,
    #[error("has a date that no clock shows")]
    Date,
}

/// An agent's own commits, made again where that can be. The same facts give the same commits.
pub(super) fn own(facts: &Facts<'_>, made: &Contribution) -> Result<Own, Error> {
    let Some(head) = &made.head else { return Ok(Own::Unfit(Unfit::NoHead)) };
    let repository = facts.repository;
    match repository.load_commit(head) {
        Ok(_) => {}
        Err(git::Error::MissingObject { .. } | git::Error::Unparsable { .. }) => {
            return Ok(Own::Unfit(Unfit::Missing(head.clone())));
        }
        Err(error) => return Err(error.into()),
    }
    if *head == made.fork {
        return Ok(Own::None);
    }
    let Some(range) = repository.load_range(&made.fork, head, MOST + 1)? else {
        return Ok(Own::Unfit(Unfit::Missing(head.clone())));
    };
    if let Err(unfit) = lineage(&made.fork, head, &range) {
        return Ok(Own::Unfit(unfit));
    }
    Ok(match make_again(facts, made, &range)? {
        Ok(again) => Own::Made(Box::new(again)),
        Err(unfit) => Own::Unfit(unfit),
    })
}

/// Whether commits are one agent's alone: each has parents, and all of them are the fork point or among the commits.
fn lineage(fork: &CommitId, head: &CommitId, range: &[git::Kin]) -> Result<(), Unfit> {
    if range.is_empty() {
        return Err(Unfit::MovedBack(head.clone()));
    }
    if range.len() > MOST {
        return Err(Unfit::TooMany);
    }
    let among: HashSet<&CommitId> = range.iter().map(|(commit, _)| commit).chain([fork]).collect();
    for (commit, parents) in range {
        if parents.is_empty() {
            return Err(Unfit::Orphan(commit.clone()));
        }
        if let Some(foreign) = parents.iter().find(|parent| !among.contains(parent)) {
            return Err(Unfit::Foreign(commit.clone(), foreign.clone()));
        }
    }
    Ok(())
}

/// Whether the words of a commit may be in the target's history.
fn wording(commit: &Commit) -> Result<&str, Odd> {
    let Ok(text) = std::str::from_utf8(&commit.message) else { return Err(Odd::NotUtf8) };
    if text.len() > MESSAGE_MAX {
        return Err(Odd::LongMessage);
    }
    // A line end as Windows has it harms nobody.
    let is_plain = |c: char| matches!(c, '\n' | '\t');
    if text.replace("\r\n", "\n").chars().any(|c| is_harmful(c) && !is_plain(c)) {
        return Err(Odd::HarmfulMessage);
    }
    if message::forged_trailer(text).is_some() {
        return Err(Odd::Forged);
    }
    let Signature { identity, seconds, offset_minutes } = &commit.author;
    let is_odd = |text: &str| {
        text.len() > NAME_MAX || text.chars().any(|c| is_harmful(c) || matches!(c, '<' | '>' | '\u{fffd}'))
    };
    // Git takes away what is not a letter or a digit at both ends, and refuses what is empty then.
    if !identity.name.chars().any(char::is_alphanumeric) || is_odd(&identity.name) || is_odd(&identity.email) {
        return Err(Odd::Author);
    }
    if !(1..=LAST_DATE).contains(seconds) || offset_minutes.abs() > OFFSET_MAX {
        return Err(Odd::Date);
    }
    Ok(text)
}

fn make_again(facts: &Facts<'_>, made: &Contribution, range: &[git::Kin]) -> Result<Result<Again, Unfit>, Error> {
    let repository = facts.repository;
    let committer = facts.signature();
    // What each commit is now, and its tree.
    let mut done = HashMap::from([(&made.fork, (made.fork.clone(), made.fork_tree.clone()))]);
    let (mut tip, mut tree) = (made.fork.clone(), made.fork_tree.clone());
    let mut changes = BTreeMap::new();
    for (id, parents) in range {
        let commit = match repository.load_commit(id) {
            Ok(commit) => commit,
            Err(error @ git::Error::Unparsable { .. }) => {
                return Ok(Err(Unfit::Refused { commit: id.clone(), text: error.to_string() }));
            }
            Err(error) => return Err(error.into()),
        };
        let text = match wording(&commit) {
            Ok(text) => text,
            Err(odd) => return Ok(Err(Unfit::Odd { commit: id.clone(), odd })),
        };
        let before: Vec<&(CommitId, _)> = parents.iter().filter_map(|parent| done.get(parent)).collect();
        for (_, from) in &before {
            let found = bundle::findings(repository, from, &commit.tree)?;
            if let Some(held) = found.into_iter().find(|finding| finding.kind.holds()) {
                return Ok(Err(Unfit::Held { commit: id.clone(), text: held.text }));
            }
            for change in repository.load_changes(from, &commit.tree, Renames::Ignore)? {
                changes.insert((change.path.clone(), change.old.clone(), change.new.clone()), change);
            }
        }
        let parents: Vec<CommitId> = before.iter().map(|(parent, _)| parent.clone()).collect();
        let written = repository.write_commit(&NewCommit {
            tree: &commit.tree,
            parents: &parents,
            author: &commit.author,
            committer: &committer,
            message: &message::made_again(text, facts.run.id(), &made.agent, id),
        });
        tip = match written {
            Ok(again) => again,
            // Of an author whom git will not have: anything else, such as a full disk, is no fault of the agent's.
            Err(git::Error::Failed { stderr, .. }) if stderr.contains("ident") => {
                return Ok(Err(Unfit::Refused { commit: id.clone(), text: stderr }));
            }
            Err(error) => return Err(error.into()),
        };
        tree = commit.tree;
        done.insert(id, (tip.clone(), tree.clone()));
    }
    if tree != made.tree {
        tip = on_top(facts, made, tip)?;
    }
    Ok(Ok(Again { tip, count: range.len() as u64, changes: changes.into_values().collect() }))
}

/// One more commit, with what the agent left uncommitted.
fn on_top(facts: &Facts<'_>, made: &Contribution, tip: CommitId) -> Result<CommitId, Error> {
    let contribution = facts.repository.load_commit(&made.commit)?;
    Ok(facts.repository.write_commit(&NewCommit {
        tree: &made.tree,
        parents: &[tip],
        author: &contribution.author,
        committer: &contribution.committer,
        message: &contribution.message_text(),
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Identity;
    use crate::model::{ObjectFormat, TreeId};

    fn id(letter: char) -> CommitId {
        letter.to_string().repeat(40).parse().unwrap()
    }

    #[test]
    fn only_a_closed_range_is_the_agents_own() {
        let kin = |commit: char, parents: &str| (id(commit), parents.chars().map(id).collect::<Vec<_>>());
        // The fork point is `f`; the head is the last.
        let table: [(&str, Vec<git::Kin>, Result<(), Unfit>); 9] = [
            ("one", vec![kin('a', "f")], Ok(())),
            ("a line", vec![kin('a', "f"), kin('b', "a")], Ok(())),
            ("branches", vec![kin('a', "f"), kin('b', "f"), kin('c', "ab")], Ok(())),
            ("merges the fork point", vec![kin('a', "f"), kin('b', "af")], Ok(())),
            ("an older parent", vec![kin('a', "e")], Err(Unfit::Foreign(id('a'), id('e')))),
            (
                "a second parent from elsewhere",
                vec![kin('a', "f"), kin('b', "ae")],
                Err(Unfit::Foreign(id('b'), id('e'))),
            ),
            ("no parent", vec![kin('a', "")], Err(Unfit::Orphan(id('a')))),
            ("a root merged in", vec![kin('a', "f"), kin('b', ""), kin('c', "ab")], Err(Unfit::Orphan(id('b')))),
            ("behind", vec![], Err(Unfit::MovedBack(id('9')))),
        ];
        for (name, range, expected) in table {
            let head = range.last().map_or_else(|| id('9'), |(commit, _)| commit.clone());
            assert_eq!(lineage(&id('f'), &head, &range), expected, "{name}");
        }
        let many = vec![kin('a', "f"); MOST + 1];
        assert_eq!(lineage(&id('f'), &id('a'), &many), Err(Unfit::TooMany));
    }

    #[test]
    fn words_that_may_be_in_a_history() {
        let author = |name: &str, email: &str, seconds, offset_minutes| Signature {
            identity: Identity { name: name.to_owned(), email: email.to_owned() },
            seconds,
            offset_minutes,
        };
        let good = || author("Ann Ö", "ann@example.org", 1_700_000_000, 60);
        let long = "x".repeat(MESSAGE_MAX + 1);
        let table: [(&[u8], Signature, Result<(), Odd>); 20] = [
            (b"fix\n\nbody\twith a tab\r\n", good(), Ok(())),
            ("grün 👩\u{200d}🔧\n".as_bytes(), good(), Ok(())),
            (b"", good(), Ok(())),
            (b"x", author("0", "", 1, -720), Ok(())),
            (b"caf\xe9", good(), Err(Odd::NotUtf8)),
            (long.as_bytes(), good(), Err(Odd::LongMessage)),
            (b"a\x1b[2J", good(), Err(Odd::HarmfulMessage)),
            (b"a\0b", good(), Err(Odd::HarmfulMessage)),
            (b"a\rb", good(), Err(Odd::HarmfulMessage)),
            ("a\u{202e}b".as_bytes(), good(), Err(Odd::HarmfulMessage)),
            ("a\u{e0062}".as_bytes(), good(), Err(Odd::HarmfulMessage)),
            (b"x\n\nsandbox-run: y", good(), Err(Odd::Forged)),
            (b"x", author("...", "a@b", 1, 0), Err(Odd::Author)),
            (b"x", author("A\u{1b}", "a@b", 1, 0), Err(Odd::Author)),
            (b"x", author("A", "a> <b", 1, 0), Err(Odd::Author)),
            (b"x", author("A\u{fffd}", "a@b", 1, 0), Err(Odd::Author)),
            (b"x", author(&"A".repeat(NAME_MAX + 1), "a@b", 1, 0), Err(Odd::Author)),
            (b"x", author("A", "a@b", 0, 0), Err(Odd::Date)),
            (b"x", author("A", "a@b", LAST_DATE + 1, 0), Err(Odd::Date)),
            (b"x", author("A", "a@b", 1, 6039), Err(Odd::Date)),
        ];
        for (message, author, expected) in table {
            let commit = Commit {
                tree: TreeId::from(ObjectFormat::Sha1.zero()),
                parents: Vec::new(),
                committer: author.clone(),
                author,
                message: message.to_vec(),
            };
            let shown = String::from_utf8_lossy(&commit.message);
            assert_eq!(wording(&commit).map(drop), expected, "{shown:.60} {:?}", commit.author);
        }
    }
}

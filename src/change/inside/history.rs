//! The second half of a capture: commits of the agent's own that a snapshot keeps, so that nothing it committed or stashed
//! is lost.
//!
//! They are found by reading the agent's git directory as data, a file at a time: git itself, run there, would obey the
//! agent's settings, and would give up at the first thing that is broken. Only ids are taken from it. Git then looks at the
//! commits they name, from the capture's own directory, with the agent's objects in reach.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::{Capture, Result};
use crate::git::{Access, Command, Input};
use crate::model::{CommitId, ObjectId};

/// How many tips a snapshot keeps beside the snapshot before it.
const TIPS_MAX: usize = 1000;

/// How many ids of the agent's are looked at.
const IDS_MAX: usize = 100_000;

/// The longest file of refs that is read, in bytes.
const LIST_MAX: u64 = 64 << 20;

/// The longest ref, in bytes.
const REF_MAX: u64 = 4096;

/// Folders of refs that are looked into.
const FOLDERS_MAX: usize = 100_000;

/// What the agent did with git.
#[derive(Default)]
pub(super) struct History {
    /// The agent's HEAD, where it can be told.
    pub(super) head: Option<CommitId>,
    /// Tips that the snapshot must keep.
    pub(super) tips: Vec<CommitId>,
    /// Whether HEAD does not descend from the fork point.
    pub(super) rewritten: bool,
    /// What is to be said of it.
    pub(super) remarks: Vec<String>,
}

impl Capture<'_> {
    /// What is new of the agent's own commits.
    pub(super) fn history(&self) -> Result<History> {
        let known = self.known();
        let (head, ids) = self.ids_of_the_agent(&known);
        let disowned: HashSet<&str> = self.request.disowned.iter().map(CommitId::as_str).collect();
        let candidates: Vec<&String> = ids.iter().filter(|id| !disowned.contains(id.as_str())).take(IDS_MAX).collect();
        let mut history = History::default();
        if ids.len() > IDS_MAX {
            history.remarks.push(format!("of the ids in the agent's refs only {IDS_MAX} were looked at"));
        }
        let (commits, head) = self.commits_among(&candidates, head.as_deref())?;
        history.head = head;
        let mut tips = self.not_yet_held(commits, true)?;
        if tips.len() > TIPS_MAX {
            history
                .remarks
                .push(format!("{} commits of the agent's own are not kept: too many", tips.len() - TIPS_MAX));
            tips.truncate(TIPS_MAX);
        }
        history.tips = tips;
        if let (Some(head), Some(fork)) = (&history.head, self.request.known.first())
            && head != fork
        {
            history.rewritten = !self.descends(head, fork)?;
        }
        Ok(history)
    }

    /// The ids that the agent's refs have and the repository does not, for a capture that leaves all of them out.
    pub(super) fn strange_ids(&self) -> Vec<CommitId> {
        let known = self.known();
        let (_, ids) = self.ids_of_the_agent(&known);
        ids.into_iter().filter_map(|id| id.parse().ok()).collect()
    }

    /// A command that has the agent's objects in reach.
    pub(super) fn with_their_objects(&self, access: Access, subcommand: &'static str) -> Command {
        let objects = self.request.agent_common.join("objects");
        self.command(access, subcommand).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects)
    }

    /// Ids that refs of the repository had when the worktree was made.
    pub(super) fn known(&self) -> HashSet<String> {
        let list = fs::read_to_string(self.request.capture.join("known-tips")).unwrap_or_default();
        list.lines().map(str::to_owned).collect()
    }

    /// The agent's HEAD, and every id that one of its refs, its stashes or its worktrees names and that is not `known`: at
    /// most one more than are looked at.
    fn ids_of_the_agent(&self, known: &HashSet<String>) -> (Option<String>, BTreeSet<String>) {
        let common = &self.request.agent_common;
        let length = self.request.previous.as_str().len();
        let packed = read_plain(&common.join("packed-refs"), LIST_MAX).unwrap_or_default();
        let head = read_plain(&self.request.agent_admin.join("HEAD"), REF_MAX);
        let head = head.and_then(|head| resolve(common, &head, &packed, length));
        let mut ids = BTreeSet::new();
        ids.extend(head.clone());
        ids.extend(lines(&packed).filter_map(|line| id_at(line, length)));
        for folder in fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten().take(TIPS_MAX) {
            let head = read_plain(&folder.path().join("HEAD"), REF_MAX).unwrap_or_default();
            ids.extend(id_at(&head, length));
        }
        // An older stash is named nowhere but in the log of the newest.
        let stashes = read_plain(&common.join("logs/refs/stash"), LIST_MAX).unwrap_or_default();
        ids.extend(lines(&stashes).filter_map(|line| id_at(line.get(length + 1..)?, length)));
        // First, so that a repository of many refs leaves room for the agent's own.
        let is_strange = |id: &String| !known.contains(id) && id.bytes().any(|byte| byte != b'0');
        ids.retain(is_strange);
        collect_loose(&common.join("refs"), length, &mut ids);
        ids.retain(is_strange);
        (head, ids.into_iter().take(IDS_MAX + 1).collect())
    }

    /// The commits that `candidates` and `head` lead to. What leads to none is passed over.
    fn commits_among(&self, candidates: &[&String], head: Option<&str>) -> Result<(Vec<CommitId>, Option<CommitId>)> {
        let asked: Vec<&str> = head.into_iter().chain(candidates.iter().map(|id| id.as_str())).collect();
        if asked.is_empty() {
            return Ok((Vec::new(), None));
        }
        // As after most turns: nothing is new, and HEAD is where we left it.
        let left_at = self.request.known.iter().chain([&self.request.previous]);
        if let (Some(head), true) = (head, candidates.is_empty())
            && let Some(head) = left_at.into_iter().find(|known| known.as_str() == head)
        {
            return Ok((Vec::new(), Some(head.clone())));
        }
        let list: String = asked.iter().flat_map(|id| [id, "^{commit}\n"]).collect();
        let output = self
            .with_their_objects(Access::Read, "cat-file")
            .args(["--batch-check=%(objecttype) %(objectname)"])
            .input(Input::Bytes(list.into_bytes()))
            .run()?;
        let answers: Vec<Option<CommitId>> = lines(&output.stdout)
            .map(|line| std::str::from_utf8(line).ok()?.strip_prefix("commit ")?.parse().ok())
            .collect();
        let head = head.and_then(|_| answers.first().cloned().flatten());
        let skipped = usize::from(asked.len() > candidates.len());
        Ok((answers.into_iter().skip(skipped).flatten().collect(), head))
    }

    /// Those of `commits` that neither the snapshot before nor another of them reaches. `theirs`: whether they are the
    /// agent's.
    pub(super) fn not_yet_held(&self, commits: Vec<CommitId>, theirs: bool) -> Result<Vec<CommitId>> {
        if commits.is_empty() {
            return Ok(commits);
        }
        let mut list: String = commits.iter().flat_map(|id| [id.as_str(), "\n"]).collect();
        list.push('^');
        list.push_str(self.request.previous.as_str());
        list.push('\n');
        let walk = if theirs {
            self.with_their_objects(Access::Read, "rev-list")
        } else {
            self.command(Access::Read, "rev-list")
        };
        let walked = walk.args(["--parents", "--stdin"]).input(Input::Bytes(list.into_bytes())).run()?;
        let mut commits: BTreeMap<String, CommitId> =
            commits.into_iter().map(|commit| (commit.to_string(), commit)).collect();
        // A history with a hole in it is kept as it is, and refused by name when it is brought in.
        if walked.code() == Some(0) {
            let text = walked.text().unwrap_or_default();
            let new: HashSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
            let parents: HashSet<&str> = text.lines().flat_map(|line| line.split(' ').skip(1)).collect();
            commits.retain(|id, _| new.contains(id.as_str()) && !parents.contains(id.as_str()));
        }
        Ok(commits.into_values().collect())
    }

    fn descends(&self, head: &CommitId, fork: &CommitId) -> Result<bool> {
        let asked = self
            .with_their_objects(Access::Read, "merge-base")
            .args(["--is-ancestor", fork.as_str(), head.as_str()])
            .run()?;
        Ok(asked.code() != Some(1))
    }
}

/// A file's bytes, if it is a file, no link, and no longer than `max`.
pub(super) fn read_plain(path: &Path, max: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > max {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// The id that `bytes` begin with.
fn id_at(bytes: &[u8], length: usize) -> Option<String> {
    let bytes = bytes.strip_prefix(b"^").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes.get(..length)?).ok()?;
    let ends = bytes.get(length).is_none_or(u8::is_ascii_whitespace);
    (ends && text.parse::<ObjectId>().is_ok()).then(|| text.to_owned())
}

/// What a HEAD names: an id, or a branch that has one.
fn resolve(common: &Path, head: &[u8], packed: &[u8], length: usize) -> Option<String> {
    let Some(name) = head.strip_prefix(b"ref:") else { return id_at(head, length) };
    let name = std::str::from_utf8(name).ok()?.trim();
    if !name.starts_with("refs/") || name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return None;
    }
    if let Some(loose) = read_plain(&common.join(name), REF_MAX) {
        return id_at(&loose, length);
    }
    let is_it = |line: &&[u8]| line.get(length + 1..) == Some(name.as_bytes());
    lines(packed).find(is_it).and_then(|line| id_at(line, length))
}

/// The ids in the files below a folder of refs.
fn collect_loose(refs: &Path, length: usize, ids: &mut BTreeSet<String>) {
    let mut open = vec![refs.to_owned()];
    let mut seen = 0;
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && seen < FOLDERS_MAX {
                seen += 1;
                open.push(entry.path());
            } else if kind.is_file() && ids.len() <= IDS_MAX {
                ids.extend(read_plain(&entry.path(), REF_MAX).and_then(|bytes| id_at(&bytes, length)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn ids() {
        let line = |text: &str| id_at(text.as_bytes(), 40);
        for good in [ID.to_owned(), format!("{ID}\n"), format!("^{ID}\n"), format!("{ID} refs/heads/x")] {
            assert_eq!(line(&good), Some(ID.to_owned()), "{good}");
        }
        for bad in ["", "ref: refs/heads/x", "0123", &format!("{ID}0"), &ID.to_uppercase(), &format!("x{ID}")] {
            assert_eq!(line(bad), None, "{bad}");
        }
    }

    #[test]
    fn heads() {
        let common = tempfile::tempdir().unwrap();
        let other = ID.replace('0', "f");
        let packed = format!("# pack-refs with: peeled\n{ID} refs/heads/packed\n{ID} refs/heads/both\n");
        fs::create_dir_all(common.path().join("refs/heads")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", common.path().join("refs/heads/link")).unwrap();
        crate::store::atomic::write(&common.path().join("refs/heads/both"), other.as_bytes()).unwrap();
        let head = |text: &str| resolve(common.path(), text.as_bytes(), packed.as_bytes(), 40);
        assert_eq!(head("ref: refs/heads/packed\n").as_deref(), Some(ID));
        assert_eq!(head("ref: refs/heads/both\n"), Some(other));
        assert_eq!(head(&format!("{ID}\n")).as_deref(), Some(ID));
        for none in ["ref: refs/heads/unborn", "ref: refs/heads/link", "ref: refs/../HEAD", "ref: HEAD", "garbage", ""]
        {
            assert_eq!(head(none), None, "{none}");
        }
    }
}

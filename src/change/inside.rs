//! The half of a capture that runs inside the capture box.
//!
//! It turns what lies in a worktree into one commit, using a git directory that the agent never had, and writes the
//! objects that the repository lacks as a pack. The agent is not running: it has been killed, or stopped, before the box
//! was started, and the worktree is read-only here.
//!
//! From the agent's own git directory two things are read, as data: the list of paths in its index, so that files it
//! added against an ignore rule stay, and the tips of its branches and stashes, so that nothing it committed is lost.
//! Neither decides what the files contain. *Why not use the agent's index and settings?* Both lie: `*` in its
//! `info/exclude`, `core.worktree`, a filter or a forged index each give a tree that differs from the disk.
//!
//! Output: one line of JSON, the [`Report`]; then, if it names a commit, the pack until the end.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::git::{Access, Command, Git, Input, Output};
use crate::model::{CommitId, ObjectId, RepoPath, TreeId};

/// The argument that makes the program a capture.
pub const ARGUMENT: &str = "__capture";

/// What is to be captured.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The git program.
    pub git: PathBuf,
    /// The worktree.
    pub worktree: PathBuf,
    /// The capture's own git directory.
    pub capture: PathBuf,
    /// The agent's git directory of this worktree, where its index and HEAD lie.
    pub agent_admin: PathBuf,
    /// The agent's common git directory, where its refs lie.
    pub agent_common: PathBuf,
    /// The snapshot before.
    pub previous: CommitId,
    /// Its tree.
    pub previous_tree: TreeId,
    /// Commits the repository surely has.
    pub known: Vec<CommitId>,
    /// The message of the snapshot.
    pub message: String,
    /// Author and committer date, as seconds since 1970.
    pub date: i64,
    /// How long each git process may take, in seconds.
    pub timeout: u64,
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The new snapshot; `None` where neither the tree nor the agent's own commits differ from the snapshot before.
    pub commit: Option<CommitId>,
    /// The tree.
    pub tree: TreeId,
    /// Tips of the agent's own that the snapshot keeps.
    pub tips: Vec<CommitId>,
    /// The agent's HEAD, where it can be told.
    pub agent_head: Option<CommitId>,
    /// Whether HEAD does not descend from the snapshot's fork point (the first of `known`).
    pub history_rewritten: bool,
    /// Ignored paths, folders once and ending in `/`.
    pub ignored: Vec<RepoPath>,
    /// What git could not add, in its words.
    pub refused: Vec<String>,
    /// Why there is no report, where there is none.
    pub error: Option<String>,
}

/// The longest report, in bytes.
pub const REPORT_MAX: u64 = 64 << 20;

/// How many tips a snapshot keeps beside the snapshot before it.
const TIPS_MAX: usize = 64;

/// How many ignored paths are reported.
const IGNORED_MAX: usize = 100_000;

/// Reads a request from standard input and answers on standard output. The process ends with the code returned.
pub fn main() -> u8 {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    let request: Result<Request, String> = read
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_str(&text).map_err(|error| error.to_string()));
    let answered = request.and_then(|request| {
        let capture = Capture { git: Git::at(&request.git), request: &request };
        let report = capture.report().map_err(|error| error.to_string())?;
        answer(&report)?;
        match &report.commit {
            Some(commit) => capture.pack(commit).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    });
    match answered {
        Ok(()) => 0,
        Err(error) => {
            // The parent reads the reason from standard error.
            drop(writeln!(std::io::stderr(), "{error}"));
            1
        }
    }
}

fn answer(report: &Report) -> Result<(), String> {
    let mut line = serde_json::to_vec(report).map_err(|error| error.to_string())?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line).and_then(|()| stdout.flush()).map_err(|error| error.to_string())
}

struct Capture<'r> {
    git: Git,
    request: &'r Request,
}

type Result2<T> = Result<T, crate::git::Error>;

impl Capture<'_> {
    fn command(&self, access: Access, subcommand: &'static str) -> Command {
        Command::new(&self.git, access, subcommand)
            .git_dir(&self.request.capture)
            .work_tree(&self.request.worktree)
            .folder(&self.request.worktree)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_INDEX_FILE", self.request.capture.join("index"))
            .timeout(Duration::from_secs(self.request.timeout))
    }

    fn report(&self) -> Result2<Report> {
        let refused = self.add_everything()?;
        self.add_what_the_agent_forced()?;
        let tree = TreeId::from(one_id(&self.command(Access::Write, "write-tree").success()?)?);
        let (agent_head, tips) = self.tips()?;
        let history_rewritten = match (&agent_head, self.request.known.first()) {
            (Some(head), Some(fork)) => !self.descends(head, fork)?,
            (None, _) | (_, None) => false,
        };
        let commit =
            if tree == self.request.previous_tree && tips.is_empty() { None } else { Some(self.commit(&tree, &tips)?) };
        let ignored = self.ignored()?;
        Ok(Report { commit, tree, tips, agent_head, history_rewritten, ignored, refused, error: None })
    }

    /// Stages the whole worktree. What cannot be read is left out and named; the rest is staged all the same.
    fn add_everything(&self) -> Result2<Vec<String>> {
        let output = self.command(Access::Write, "add").args(["--all", "--ignore-errors", "--", "."]).run()?;
        match output.code() {
            Some(0) => Ok(Vec::new()),
            Some(1) => Ok(complaints(&output)),
            Some(_) | None => Err(output.failure()),
        }
    }

    /// Stages the paths of the agent's index that an ignore rule kept out. An index that cannot be read says nothing.
    fn add_what_the_agent_forced(&self) -> Result2<()> {
        let index = self.request.agent_admin.join("index");
        if !index.is_file() {
            return Ok(());
        }
        let listed =
            self.command(Access::Read, "ls-files").args(["-z", "--cached"]).env("GIT_INDEX_FILE", &index).run()?;
        if listed.code() != Some(0) {
            return Ok(());
        }
        let ours = self.command(Access::Read, "ls-files").args(["-z", "--cached"]).success()?;
        let ours: HashSet<&[u8]> = records(&ours.stdout).collect();
        let mut forced: Vec<&[u8]> = records(&listed.stdout)
            .filter(|path| !ours.contains(path) && is_plain(path) && lies_in(&self.request.worktree, path))
            .collect();
        forced.dedup();
        if forced.is_empty() {
            return Ok(());
        }
        let mut list = forced.join(&0);
        list.push(0);
        let output = self
            .command(Access::Write, "add")
            .args(["--force", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"])
            .input(Input::Bytes(list))
            .run()?;
        match output.code() {
            Some(0 | 1) => Ok(()),
            Some(_) | None => Err(output.failure()),
        }
    }

    /// The agent's HEAD, and those of its branches, tags and stashes that the snapshot before does not hold yet.
    fn tips(&self) -> Result2<(Option<CommitId>, Vec<CommitId>)> {
        let theirs = |subcommand| {
            Command::new(&self.git, Access::Read, subcommand)
                .git_dir(&self.request.agent_admin)
                .folder("/")
                .env("GIT_COMMON_DIR", &self.request.agent_common)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .timeout(Duration::from_secs(self.request.timeout))
        };
        let head = theirs("rev-parse").args(["--verify", "--quiet", "HEAD^{commit}"]).run()?;
        let head: Option<CommitId> = head.line().ok().and_then(|line| line.parse().ok());
        let refs = theirs("for-each-ref").arg("--format=%(objecttype) %(objectname) %(*objectname)").run()?;
        let stashes = theirs("rev-parse").args(["--verify", "--quiet", "refs/stash"]).run()?;
        let mut found: Vec<CommitId> = head.iter().cloned().collect();
        for line in refs.text().unwrap_or_default().lines().chain(stashes.text().unwrap_or_default().lines()) {
            found.extend(line.split(' ').filter_map(|word| word.parse::<CommitId>().ok()));
        }
        found.sort();
        found.dedup();
        Ok((head, self.not_yet_held(found)?))
    }

    fn not_yet_held(&self, candidates: Vec<CommitId>) -> Result2<Vec<CommitId>> {
        let known = std::fs::read_to_string(self.request.capture.join("known-tips")).unwrap_or_default();
        let known: HashSet<&str> = known.lines().collect();
        let mut kept = Vec::new();
        for tip in candidates.into_iter().filter(|tip| !known.contains(tip.as_str())) {
            if kept.len() < TIPS_MAX && self.is_commit(&tip)? && !self.is_held(&tip, &kept)? {
                kept.push(tip);
            }
        }
        Ok(kept)
    }

    fn is_commit(&self, id: &CommitId) -> Result2<bool> {
        let output = self.command(Access::Read, "cat-file").args(["-t", id.as_str()]).run()?;
        Ok(output.code() == Some(0) && output.stdout == b"commit\n")
    }

    /// Whether the snapshot before, or a tip already taken, reaches `tip`.
    fn is_held(&self, tip: &CommitId, taken: &[CommitId]) -> Result2<bool> {
        let output = self
            .command(Access::Read, "rev-list")
            .args(["--max-count=1", tip.as_str(), "--not", self.request.previous.as_str()])
            .args(taken.iter().map(CommitId::as_str))
            .run()?;
        // A history with a hole in it is kept as a tip, and refused by name when it is brought in.
        Ok(output.code() == Some(0) && output.stdout.is_empty())
    }

    fn descends(&self, head: &CommitId, fork: &CommitId) -> Result2<bool> {
        let output =
            self.command(Access::Read, "merge-base").args(["--is-ancestor", fork.as_str(), head.as_str()]).run()?;
        Ok(output.code() != Some(1))
    }

    fn commit(&self, tree: &TreeId, tips: &[CommitId]) -> Result2<CommitId> {
        let date = format!("@{} +0000", self.request.date);
        let mut command =
            self.command(Access::Write, "commit-tree").args([tree.as_str(), "-p", self.request.previous.as_str()]);
        for tip in tips {
            command = command.args(["-p", tip.as_str()]);
        }
        for who in ["AUTHOR", "COMMITTER"] {
            command = command
                .env(format!("GIT_{who}_NAME"), "sandbox")
                .env(format!("GIT_{who}_EMAIL"), "sandbox@localhost")
                .env(format!("GIT_{who}_DATE"), &date);
        }
        let output = command.input(Input::Bytes(self.request.message.clone().into_bytes())).success()?;
        Ok(CommitId::from(one_id(&output)?))
    }

    fn ignored(&self) -> Result2<Vec<RepoPath>> {
        let output = self
            .command(Access::Read, "ls-files")
            .args(["-z", "--others", "--ignored", "--exclude-standard", "--directory"])
            .success()?;
        Ok(records(&output.stdout).take(IGNORED_MAX).map(RepoPath::new).collect())
    }

    /// Writes what the repository lacks of `commit` to standard output.
    fn pack(&self, commit: &CommitId) -> Result2<()> {
        let mut revisions = format!("{commit}\n");
        for known in self.request.known.iter().chain([&self.request.previous]) {
            revisions.push('^');
            revisions.push_str(known.as_str());
            revisions.push('\n');
        }
        let mut stdout = std::io::stdout().lock();
        self.command(Access::Read, "pack-objects")
            .args(["--revs", "--thin", "--delta-base-offset", "--stdout", "-q"])
            .input(Input::Bytes(revisions.into_bytes()))
            .success_to(&mut stdout)
            .map(drop)
    }
}

fn one_id(output: &Output) -> Result2<ObjectId> {
    let line = output.line()?;
    line.parse().map_err(|_| crate::git::Error::unparsable(output.what(), "no object id"))
}

/// The parts of a NUL-terminated list.
fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

/// Whether a path from a forged index may be handed to git at all.
fn is_plain(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/')
        .all(|part| !part.is_empty() && part != b"." && part != b".." && !part.eq_ignore_ascii_case(b".git"))
}

/// Whether there is a file at `path` below `root` that no link on the way leads to.
fn lies_in(root: &Path, path: &[u8]) -> bool {
    let mut at = root.to_owned();
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        at.push(OsStr::from_bytes(part));
        let Ok(found) = at.symlink_metadata() else { return false };
        if parts.peek().is_some() && !found.is_dir() {
            return false;
        }
    }
    true
}

fn complaints(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = output.complaint().lines().map(str::to_owned).collect();
    lines.truncate(100);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_forged_index() {
        for bad in ["../x", "a/../b", "/x", "a//b", ".git/config", "sub/.GIT/config", "./x", ""] {
            assert!(!is_plain(bad.as_bytes()), "{bad:?} should be refused");
        }
        for good in ["a", "a/b", ".gitignore", "..x", "a/.github/w"] {
            assert!(is_plain(good.as_bytes()), "{good:?} should be taken");
        }
    }

    #[test]
    fn files_behind_links_are_not_in_the_worktree() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("real")).unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("link")).unwrap();
        assert!(lies_in(folder.path(), b"link"));
        assert!(!lies_in(folder.path(), b"link/passwd"));
        assert!(!lies_in(folder.path(), b"real/none"));
    }
}

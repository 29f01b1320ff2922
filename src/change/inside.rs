//! The half of a capture that runs inside the capture box.
//!
//! It turns what lies in a worktree into one commit, using a git directory that the agent never had, and writes the
//! objects that the repository lacks as a pack. The agent is not running: it has been killed, or stopped, before the box
//! was started, and the worktree is read-only here.
//!
//! From the agent's own git directory two things are read, as data: the list of paths in its index, so that files it
//! added against an ignore rule stay ([`files`]), with the commits it names for submodules, of which the disk cannot tell
//! ([`submodules`]); and the tips of its branches and stashes, so that nothing it committed is lost ([`history`]). Neither decides what the files contain. *Why not use the agent's index and settings?* Both lie: `*`
//! in its `info/exclude`, `core.worktree`, a filter or a forged index each give a tree that differs from the disk.
//!
//! The agent's objects are in reach only where its history is looked at. If its history is unfit for the repository, a
//! capture that leaves it out takes nothing at all from the agent's git directory, so the files are still captured.
//!
//! Output: one line of JSON, the [`Report`]; then, if it names a commit, the pack until the end.

mod files;
mod history;
mod index;
mod large;
mod listed;
mod submodules;

pub use files::IGNORED_MAX;

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::git::{Access, Command, Git, Input, Output};
use crate::model::{CommitId, ObjectId, RepoPath, TreeId};
use crate::workspace::seen;

/// The argument that makes the program a capture.
pub const ARGUMENT: &str = "__capture";

/// The process's end when no pack could be made because objects are missing or damaged.
pub const NO_PACK: u8 = 3;

/// The process's end when nobody wanted the rest of the pack.
pub const NOT_READ: u8 = 4;

/// What is to be captured.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The version of the program that asks; another one does not answer.
    pub version: String,
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
    /// Whether commits of the agent's own are kept.
    pub keep_history: bool,
    /// Ids in the agent's refs that are not kept all the same.
    pub disowned: Vec<CommitId>,
    /// The message of the snapshot.
    pub message: String,
    /// Author and committer date, as seconds since 1970.
    pub date: i64,
    /// How long each git process may take, in seconds.
    pub timeout: u64,
    /// The most bytes that a pack may have. A larger file is in none, and not worth a try.
    pub largest: u64,
    /// Whether a pack was larger before: then the largest of what is new is left out.
    pub spare: bool,
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
    /// Ids in the agent's refs that the snapshot does not keep, because it keeps no history.
    pub left_out: Vec<CommitId>,
    /// The agent's HEAD, where it can be told.
    pub agent_head: Option<CommitId>,
    /// Whether HEAD does not descend from the snapshot's fork point (the first of `known`).
    pub history_rewritten: bool,
    /// Ignored paths, folders once and ending in `/`.
    pub ignored: Vec<RepoPath>,
    /// What could not be captured though nothing on the disk is lost by it, a line each.
    pub refused: Vec<String>,
    /// What lies on the disk and is kept nowhere, a line each.
    pub lost: Vec<String>,
}

/// The longest report, in bytes.
pub const REPORT_MAX: u64 = 64 << 20;

/// The longest complaint, in bytes: less than a pipe holds, so that writing it never waits for a reader.
const COMPLAINT_MAX: usize = 16 * 1024;

type Result<T> = std::result::Result<T, crate::git::Error>;

/// Why there is no capture: the process's end, and the reason.
struct Failure(u8, String);

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self(1, reason)
    }
}

impl From<crate::git::Error> for Failure {
    fn from(error: crate::git::Error) -> Self {
        Self(1, error.to_string())
    }
}

/// Reads a request from standard input and answers on standard output. The process ends with the code returned.
pub fn main() -> u8 {
    match serve() {
        Ok(()) => 0,
        Err(Failure(code, mut reason)) => {
            let end = (0..=COMPLAINT_MAX).rev().find(|at| reason.is_char_boundary(*at)).unwrap_or(0);
            reason.truncate(end);
            // The parent reads the reason from standard error.
            drop(writeln!(std::io::stderr(), "{reason}"));
            code
        }
    }
}

fn serve() -> std::result::Result<(), Failure> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| error.to_string())?;
    let request: Request = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    if request.version != env!("CARGO_PKG_VERSION") {
        let (asks, answers) = (&request.version, env!("CARGO_PKG_VERSION"));
        return Err(format!("version {asks} was replaced by {answers} while it ran: start it again").into());
    }
    let capture = Capture { git: Git::at(&request.git), request: &request };
    let report = capture.report()?;
    answer(&report)?;
    report.commit.as_ref().map_or(Ok(()), |commit| capture.pack(commit, !report.tips.is_empty()))
}

fn answer(report: &Report) -> std::result::Result<(), String> {
    let mut line = serde_json::to_vec(report).map_err(|error| error.to_string())?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line).and_then(|()| stdout.flush()).map_err(|error| error.to_string())
}

struct Capture<'r> {
    git: Git,
    request: &'r Request,
}

impl Capture<'_> {
    /// A command in the capture's own git directory, out of reach of the agent's objects.
    fn command(&self, access: Access, subcommand: &'static str) -> Command {
        let command = Command::new(&self.git, access, subcommand);
        let attributes = self.request.capture.join("info/user-attributes");
        // The settings name the place that this folder has where it can be mounted.
        let elsewhere = self.request.capture != Path::new(seen::CAPTURE) && attributes.is_file();
        let command = match attributes.to_str().filter(|_| elsewhere) {
            Some(attributes) => command.config("core.attributesFile", attributes),
            None => command,
        };
        command
            .git_dir(&self.request.capture)
            .work_tree(&self.request.worktree)
            .folder(&self.request.worktree)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_INDEX_FILE", self.request.capture.join("index"))
            .timeout(Duration::from_secs(self.request.timeout))
    }

    fn report(&self) -> Result<Report> {
        let files = self.files()?;
        let (history, left_out) = if self.request.keep_history {
            (self.history()?, Vec::new())
        } else {
            (history::History::default(), self.strange_ids())
        };
        let mut tips = self.not_yet_held(files.apart, false)?;
        tips.extend(history.tips);
        let is_new = files.tree != self.request.previous_tree || !tips.is_empty();
        let commit = if is_new { Some(self.snapshot(&files.tree, &tips)?) } else { None };
        let mut refused = files.refused;
        refused.extend(history.remarks);
        Ok(Report {
            commit,
            tree: files.tree,
            tips,
            left_out,
            agent_head: history.head,
            history_rewritten: history.rewritten,
            ignored: files.ignored,
            refused,
            lost: files.lost,
        })
    }

    fn snapshot(&self, tree: &TreeId, tips: &[CommitId]) -> Result<CommitId> {
        let parents: Vec<&CommitId> = std::iter::once(&self.request.previous).chain(tips).collect();
        self.commit(tree, &parents, &self.request.message)
    }

    /// A commit by the program, dated as the run.
    fn commit(&self, tree: &TreeId, parents: &[&CommitId], message: &str) -> Result<CommitId> {
        let date = format!("@{} +0000", self.request.date);
        let command = if self.request.keep_history && parents.len() > 1 {
            self.with_their_objects(Access::Write, "commit-tree")
        } else {
            self.command(Access::Write, "commit-tree")
        };
        let mut command = command.arg(tree.as_str());
        for parent in parents {
            command = command.args(["-p", parent.as_str()]);
        }
        for who in ["AUTHOR", "COMMITTER"] {
            command = command
                .env(format!("GIT_{who}_NAME"), "sandbox")
                .env(format!("GIT_{who}_EMAIL"), "sandbox@localhost")
                .env(format!("GIT_{who}_DATE"), &date);
        }
        let output = command.input(Input::Bytes(message.as_bytes().to_vec())).success()?;
        Ok(CommitId::from(one_id(&output)?))
    }

    /// Writes what the repository lacks of `commit` to standard output.
    fn pack(&self, commit: &CommitId, with_history: bool) -> std::result::Result<(), Failure> {
        let mut excluded: Vec<String> =
            self.request.known.iter().chain([&self.request.previous]).map(ToString::to_string).collect();
        let command = if with_history && self.request.keep_history {
            // What the agent merged may be the repository's own.
            excluded.extend(self.still_there(self.known())?);
            self.with_their_objects(Access::Read, "pack-objects")
        } else {
            self.command(Access::Read, "pack-objects")
        };
        let mut revisions = format!("{commit}\n");
        for id in excluded {
            revisions.push('^');
            revisions.push_str(&id);
            revisions.push('\n');
        }
        let mut stdout = std::io::stdout().lock();
        let packed = command
            .args(["--revs", "--thin", "--delta-base-offset", "--stdout", "-q"])
            .input(Input::Bytes(revisions.into_bytes()))
            .success_to(&mut stdout);
        match packed {
            Ok(_) => Ok(()),
            Err(crate::git::Error::Pipe { source, .. }) if source.kind() == ErrorKind::BrokenPipe => {
                Err(Failure(NOT_READ, "the pack was not read to its end".to_owned()))
            }
            Err(error @ crate::git::Error::Failed { .. }) => Err(Failure(NO_PACK, error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// Those of `ids` that the repository still has.
    fn still_there(&self, ids: impl IntoIterator<Item = String>) -> Result<Vec<String>> {
        let list: String = ids.into_iter().flat_map(|id| [id, "\n".to_owned()]).collect();
        let asked = self.command(Access::Read, "cat-file").arg("--batch-check=%(objectname) %(objecttype)");
        let output = asked.input(Input::Bytes(list.into_bytes())).success()?;
        let answers = output.text()?.lines().filter_map(|line| line.split_once(' '));
        Ok(answers.filter(|(_, kind)| matches!(*kind, "commit" | "tag")).map(|(id, _)| id.to_owned()).collect())
    }
}

fn one_id(output: &Output) -> Result<ObjectId> {
    let line = output.line()?;
    line.parse().map_err(|_| crate::git::Error::unparsable(output.what(), "no object id"))
}

/// The parts of a NUL-terminated list.
fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

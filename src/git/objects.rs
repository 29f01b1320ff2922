//! Commits, trees and blobs: reading them, and writing commits.

use std::fmt;

use super::command::{Access, Input, Output};
use super::error::Error;
use super::reader;
use super::repository::{Identity, Repository, parsed};
use crate::model::{CommitId, ObjectId, RepoPath, TreeId};

/// The mode of a tree entry, as git stores it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode(u32);

impl Mode {
    /// A regular file.
    pub const FILE: Self = Self(0o100_644);
    /// A regular file that can be executed.
    pub const EXECUTABLE: Self = Self(0o100_755);
    /// A symbolic link.
    pub const SYMLINK: Self = Self(0o120_000);
    /// A commit of another repository.
    pub const GITLINK: Self = Self(0o160_000);
    /// A folder.
    pub const TREE: Self = Self(0o040_000);

    /// The mode with these bits.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Reads octal digits.
    pub fn parse(octal: &str) -> Option<Self> {
        u32::from_str_radix(octal, 8).ok().map(Self)
    }

    /// The kind of thing it is, without permissions.
    pub fn kind(self) -> ModeKind {
        match self.0 & 0o170_000 {
            0o040_000 => ModeKind::Tree,
            0o120_000 => ModeKind::Symlink,
            0o160_000 => ModeKind::Gitlink,
            _ => ModeKind::File,
        }
    }

    /// Whether it is a file that can be executed.
    pub fn is_executable(self) -> bool {
        self.kind() == ModeKind::File && self.0 & 0o100 != 0
    }
}

/// What a tree entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModeKind {
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A commit of another repository.
    Gitlink,
    /// A folder.
    Tree,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06o}", self.0)
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mode({self})")
    }
}

/// What stands at a path: a mode and an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its mode.
    pub mode: Mode,
    /// Its object.
    pub id: ObjectId,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its tree.
    pub tree: TreeId,
    /// Its parents, in order.
    pub parents: Vec<CommitId>,
    /// Who wrote it.
    pub author: Signature,
    /// Who made the commit.
    pub committer: Signature,
    /// The message's bytes.
    pub message: Vec<u8>,
}

impl Commit {
    /// The message for people.
    pub fn message_text(&self) -> String {
        String::from_utf8_lossy(&self.message).into_owned()
    }
}

/// A name, an address and a time. Name and address are bytes in git; what is not UTF-8 is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Name and address.
    pub identity: Identity,
    /// Seconds since 1970.
    pub seconds: i64,
    /// Minutes east of UTC.
    pub offset_minutes: i32,
}

/// A commit to be written.
#[derive(Debug, Clone)]
pub struct NewCommit<'a> {
    /// Its tree.
    pub tree: &'a TreeId,
    /// Its parents, in order.
    pub parents: &'a [CommitId],
    /// Who wrote it, and when.
    pub author: &'a Signature,
    /// Who makes the commit, and when.
    pub committer: &'a Signature,
    /// The message. A missing last line end is added.
    pub message: &'a str,
}

/// A blob, or why it was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blob {
    /// All of it.
    Whole(Vec<u8>),
    /// It is over the limit that was given.
    TooLarge {
        /// Its size in bytes.
        size: u64,
    },
}

impl Repository {
    /// Reads a commit.
    pub fn load_commit(&self, id: &CommitId) -> Result<Commit, Error> {
        if let (Some(library), Some(oid)) = (self.reader().library(), reader::oid(id.object())) {
            let object =
                library.odb().and_then(|odb| odb.read(oid).map(|object| (object.kind(), object.data().to_vec())));
            let (kind, data) = object.map_err(|error| reader::error(id.object(), &error))?;
            if kind != git2::ObjectType::Commit {
                return Err(Error::unparsable(format!("libgit2 reading {id}"), "it is not a commit"));
            }
            return parse_commit(&data).ok_or_else(|| Error::unparsable(format!("commit {id}"), "odd header"));
        }
        let output = self.common(Access::Read, "cat-file").args(["commit", id.as_str()]).run()?;
        let output = present(output, id.object())?;
        parse_commit(&output.stdout).ok_or_else(|| Error::unparsable(output.what(), "odd header"))
    }

    /// Sees that every file of a commit is in the repository. In a partial clone they may still be at the remote, and nothing
    /// is fetched.
    pub fn require_files(&self, commit: &CommitId) -> Result<(), Error> {
        let output = self
            .common(Access::Read, "rev-list")
            .args(["--objects", "--no-object-names", "--no-walk", "--missing=print", commit.as_str()])
            .success()?;
        match output.text()?.lines().find_map(|line| line.strip_prefix('?')) {
            Some(object) => Err(Error::MissingObject { object: object.to_owned() }),
            None => Ok(()),
        }
    }

    /// Reads a blob of at most `limit` bytes.
    pub fn load_blob(&self, id: &ObjectId, limit: u64) -> Result<Blob, Error> {
        if let (Some(library), Some(oid)) = (self.reader().library(), reader::oid(id)) {
            let wrong = |error: git2::Error| reader::error(id, &error);
            let odb = library.odb().map_err(wrong)?;
            let (size, kind) = odb.read_header(oid).map_err(wrong)?;
            if kind != git2::ObjectType::Blob {
                return Err(Error::unparsable(format!("libgit2 reading {id}"), "it is not a blob"));
            }
            if size as u64 > limit {
                return Ok(Blob::TooLarge { size: size as u64 });
            }
            return odb.read(oid).map(|object| Blob::Whole(object.data().to_vec())).map_err(wrong);
        }
        let output = self.common(Access::Read, "cat-file").args(["-s", id.as_str()]).run()?;
        let output = present(output, id)?;
        let size: u64 =
            output.line()?.parse().map_err(|_| Error::unparsable(output.what(), "the size is not a number"))?;
        if size > limit {
            return Ok(Blob::TooLarge { size });
        }
        let output = self.common(Access::Read, "cat-file").args(["blob", id.as_str()]).run()?;
        Ok(Blob::Whole(present(output, id)?.stdout))
    }

    /// What stands at `path` in a tree; none if nothing does.
    pub fn load_entry(&self, tree: &TreeId, path: &RepoPath) -> Result<Option<Entry>, Error> {
        if let (Some(library), Some(oid)) = (self.reader().library(), reader::oid(tree.object())) {
            let wrong = |error: git2::Error| reader::error(tree.object(), &error);
            let mut at = library.find_tree(oid).map_err(wrong)?;
            let mut parts = path.components().peekable();
            while let Some(part) = parts.next() {
                let Some((mode, id)) =
                    at.iter().find(|entry| entry.name_bytes() == part).map(|entry| (entry.filemode_raw(), entry.id()))
                else {
                    return Ok(None);
                };
                if parts.peek().is_none() {
                    let mode = Mode(u32::try_from(mode).unwrap_or_default());
                    return Ok(Some(Entry { mode, id: parsed("libgit2", &id.to_string())? }));
                }
                if mode != 0o040_000 {
                    return Ok(None);
                }
                at = library.find_tree(id).map_err(wrong)?;
            }
            return Ok(None);
        }
        let output = self
            .common(Access::Read, "ls-tree")
            .args(["-z", "--full-tree", tree.as_str(), "--"])
            .arg(path.as_path())
            .run()?;
        let output = present(output, tree.object())?;
        let found = parse_tree(&output)?;
        Ok(found.into_iter().find(|(name, _)| name == path).map(|(_, entry)| entry))
    }

    /// Every file, link and gitlink of a tree, by path, in git's order.
    pub fn load_tree(&self, tree: &TreeId) -> Result<Vec<(RepoPath, Entry)>, Error> {
        let output = self.common(Access::Read, "ls-tree").args(["-r", "-z", "--full-tree", tree.as_str()]).run()?;
        parse_tree(&present(output, tree.object())?)
    }

    /// Writes a commit. It is reachable from nothing yet: pin it with a ref before anything relies on it.
    pub fn write_commit(&self, commit: &NewCommit<'_>) -> Result<CommitId, Error> {
        let end = if commit.message.ends_with('\n') { "" } else { "\n" };
        let message = format!("{}{end}", commit.message);
        let mut command =
            self.common(Access::Write, "commit-tree").config("i18n.commitEncoding", "UTF-8").arg(commit.tree.as_str());
        for parent in commit.parents {
            command = command.args(["-p", parent.as_str()]);
        }
        let output = command
            .args(["-F", "-"])
            .env("GIT_AUTHOR_NAME", &commit.author.identity.name)
            .env("GIT_AUTHOR_EMAIL", &commit.author.identity.email)
            .env("GIT_AUTHOR_DATE", commit.author.date())
            .env("GIT_COMMITTER_NAME", &commit.committer.identity.name)
            .env("GIT_COMMITTER_EMAIL", &commit.committer.identity.email)
            .env("GIT_COMMITTER_DATE", commit.committer.date())
            .input(Input::Bytes(message.into_bytes()))
            .success()?;
        parsed(output.what(), output.line()?)
    }

    /// Whether `ancestor` is `descendant` or an ancestor of it.
    pub fn is_ancestor(&self, ancestor: &CommitId, descendant: &CommitId) -> Result<bool, Error> {
        let output = self
            .common(Access::Read, "merge-base")
            .args(["--is-ancestor", ancestor.as_str(), descendant.as_str()])
            .run()?;
        match output.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            Some(_) | None => Err(output.failure()),
        }
    }

    /// All best common ancestors of two commits; none if their histories are unrelated.
    pub fn merge_bases(&self, one: &CommitId, other: &CommitId) -> Result<Vec<CommitId>, Error> {
        let output = self.common(Access::Read, "merge-base").args(["--all", one.as_str(), other.as_str()]).run()?;
        match output.code() {
            Some(0) => output.text()?.lines().map(|line| parsed(output.what(), line)).collect(),
            Some(1) if output.stdout.is_empty() && output.stderr.is_empty() => Ok(Vec::new()),
            Some(_) | None => Err(output.failure()),
        }
    }
}

impl Signature {
    /// The date in the one form that git cannot misread.
    fn date(&self) -> String {
        let (sign, minutes) = (if self.offset_minutes < 0 { '-' } else { '+' }, self.offset_minutes.unsigned_abs());
        format!("@{} {sign}{:02}{:02}", self.seconds, minutes / 60, minutes % 60)
    }
}

/// The output, if the object was there.
fn present(output: Output, object: &ObjectId) -> Result<Output, Error> {
    if output.status.success() {
        return Ok(output);
    }
    let complaint = output.complaint();
    let absent = ["could not get object info", "bad file", "Not a valid object name", "not a tree object"];
    if absent.iter().any(|text| complaint.contains(text)) {
        return Err(Error::MissingObject { object: object.to_string() });
    }
    Err(output.failure())
}

/// Reads `ls-tree -z`.
fn parse_tree(output: &Output) -> Result<Vec<(RepoPath, Entry)>, Error> {
    let odd = || Error::unparsable(output.what(), "a record is not `mode type id<tab>path`");
    let record = |record: &[u8]| -> Option<(RepoPath, Entry)> {
        let tab = record.iter().position(|byte| *byte == b'\t')?;
        let mut fields = std::str::from_utf8(&record[..tab]).ok()?.split(' ');
        let mode = Mode::parse(fields.next()?)?;
        let id = fields.nth(1)?.parse().ok()?;
        Some((RepoPath::new(&record[tab + 1..]), Entry { mode, id }))
    };
    let records = output.records();
    records.map(|bytes| record(bytes).ok_or_else(odd)).collect()
}

/// Reads a commit object.
fn parse_commit(data: &[u8]) -> Option<Commit> {
    let (mut tree, mut parents, mut author, mut committer) = (None, Vec::new(), None, None);
    let mut rest = data;
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        if line.is_empty() {
            break;
        }
        let text = |at: usize| std::str::from_utf8(&line[at..]).ok();
        if line.starts_with(b"tree ") {
            tree = text(5)?.parse().ok();
        } else if line.starts_with(b"parent ") {
            parents.push(text(7)?.parse().ok()?);
        } else if line.starts_with(b"author ") {
            author = parse_signature(&line[7..]);
        } else if line.starts_with(b"committer ") {
            committer = parse_signature(&line[10..]);
        }
        // A commit without a message may end right after its header.
        if rest.is_empty() {
            break;
        }
    }
    Some(Commit { tree: tree?, parents, author: author?, committer: committer?, message: rest.to_vec() })
}

/// Reads `name <mail> seconds offset`, forgiving an odd time as git does.
fn parse_signature(line: &[u8]) -> Option<Signature> {
    let close = line.iter().rposition(|byte| *byte == b'>')?;
    let open = line[..close].iter().position(|byte| *byte == b'<')?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let time = text(&line[close + 1..]);
    let mut fields = time.split(' ');
    let seconds = fields.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let zone: i32 = fields.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    Some(Signature {
        identity: Identity { name: text(&line[..open]), email: text(&line[open + 1..close]) },
        seconds,
        offset_minutes: zone / 100 * 60 + zone % 100,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_and_odd_commits() {
        let tree = "a".repeat(40);
        let text = format!(
            "tree {tree}\nparent {tree}\nauthor A <b> C <d@e> 12 -0130\ncommitter <> 0 +0000\ngpgsig -----BEGIN\n tree \n \n -----END\nencoding x\n\nsubject\n\nbody\n"
        );
        let commit = parse_commit(text.as_bytes()).unwrap();
        assert_eq!(commit.tree.as_str(), tree);
        assert_eq!(commit.parents.len(), 1);
        assert_eq!((commit.author.seconds, commit.author.offset_minutes), (12, -90));
        assert_eq!(commit.author.date(), "@12 -0130");
        assert_eq!(commit.message, b"subject\n\nbody\n");
        assert!(parse_commit(b"tree x\n\n").is_none());
        assert!(parse_commit(b"").is_none());
    }

    #[test]
    fn modes() {
        assert_eq!(Mode::parse("100644"), Some(Mode::FILE));
        assert_eq!(Mode::TREE.to_string(), "040000");
        assert!(Mode::EXECUTABLE.is_executable() && !Mode::SYMLINK.is_executable());
        assert_eq!(Mode::GITLINK.kind(), ModeKind::Gitlink);
    }
}

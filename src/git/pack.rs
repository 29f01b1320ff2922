#![expect(clippy::disallowed_methods, reason = "a pack that git has checked and synced is moved into place, once")]
//! Taking one pack from an untrusted source into the repository: the outer half of a harvest.
//!
//! 1. The stream goes into a quarantine folder through `index-pack --strict`, with limits on size, time and memory. Every
//!    object is checked as a receiving server would check it.
//! 2. The promised commit must be in it or known, be a commit, and have everything it needs.
//! 3. Pack, reverse index and index move into the repository, the index last: a pack is seen only once it is whole.
//!
//! Whatever happens, the quarantine is gone afterwards, and before step 3 the repository has not changed. No ref moves
//! here; the caller pins the commit at once, since git may prune what nothing names.
//!
//! A pack that is bad is a [`PackRefusal`], the sender's doing. `Err` is ours: a full disk, a missing program.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::{Access, Input, Output};
use super::error::Error;
use super::quarantine::Quarantine;
use super::reader;
use super::repository::Repository;
use crate::model::CommitId;

/// What a pack may cost.
#[derive(Debug, Clone, Copy)]
pub struct PackLimits {
    /// Bytes of the stream.
    pub size: u64,
    /// Time to receive and check it.
    pub time: Duration,
    /// Address space of the checking process, in bytes; none for no limit.
    pub memory: Option<u64>,
}

/// What became of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Received {
    /// Everything the commit needs is in the repository.
    Stored {
        /// The commit.
        commit: CommitId,
        /// The pack that was added; none if the stream held nothing new.
        pack: Option<PathBuf>,
        /// Its size in bytes.
        size: u64,
    },
    /// The pack is bad, and nothing of it was kept.
    Refused(PackRefusal),
}

/// Why a pack was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackRefusal {
    /// An object would be unsafe to have.
    #[error("an object in the pack is not acceptable: {message}")]
    Unsound {
        /// What git found.
        message: String,
    },
    /// It is over the size limit.
    #[error("the pack is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// It took too long.
    #[error("the pack was not received and checked within {} s", limit.as_secs())]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// Checking it needed more memory than allowed.
    #[error("checking the pack took more memory than allowed")]
    Memory,
    /// Objects that it needs are missing.
    #[error("the pack is incomplete: {message}")]
    Incomplete {
        /// What git found.
        message: String,
    },
    /// It is not a sound pack, or was cut off.
    #[error("the pack cannot be read: {message}")]
    Malformed {
        /// What git found.
        message: String,
    },
    /// What was promised is no commit.
    #[error("{object} is a {kind}, not a commit")]
    NotACommit {
        /// The object.
        object: CommitId,
        /// What it is.
        kind: String,
    },
}

impl Repository {
    /// Receives a pack from `stream` that must hold `commit` and whatever of it the repository lacks. `incoming` is a
    /// folder of ours, on the file system of the repository; `label` names this harvest in it.
    pub fn receive_pack(
        &self,
        stream: Input,
        commit: &CommitId,
        incoming: &Path,
        label: &str,
        limits: &PackLimits,
    ) -> Result<Received, Error> {
        let quarantine = Quarantine::below(self, incoming, label)?;
        if let Some(refusal) = self.index_pack(&quarantine, stream, limits)? {
            return Ok(Received::Refused(refusal));
        }
        if let Some(refusal) = self.check_connected(&quarantine, commit, limits)? {
            return Ok(Received::Refused(refusal));
        }
        let (pack, size) = self.adopt(&quarantine)?.map_or((None, 0), |(path, size)| (Some(path), size));
        Ok(Received::Stored { commit: commit.clone(), pack, size })
    }

    fn index_pack(
        &self,
        quarantine: &Quarantine,
        stream: Input,
        limits: &PackLimits,
    ) -> Result<Option<PackRefusal>, Error> {
        let mut command = quarantine
            .apply(self.common(Access::Write, "index-pack"))
            .args(["--stdin", "--strict", "--fix-thin"])
            .arg(format!("--max-input-size={}", limits.size))
            .input(stream)
            .timeout(limits.time);
        if let Some(memory) = limits.memory {
            // Several threads would share the limit, and map the pack in pieces as large as they like.
            command =
                command.memory_limit(memory).config("pack.threads", "1").config("core.packedGitWindowSize", "32m");
        }
        match command.run() {
            Ok(output) if output.status.success() => Ok(None),
            Ok(output) => judge(output, limits).map(Some),
            Err(Error::TimedOut { .. }) => Ok(Some(PackRefusal::TimedOut { limit: limits.time })),
            Err(error) => Err(error),
        }
    }

    /// Whether the commit is one, and everything it needs is there.
    fn check_connected(
        &self,
        quarantine: &Quarantine,
        commit: &CommitId,
        limits: &PackLimits,
    ) -> Result<Option<PackRefusal>, Error> {
        if !self.is_commit_by_library(quarantine, commit) {
            let kind = quarantine.apply(self.common(Access::Read, "cat-file")).args(["-t", commit.as_str()]).run()?;
            if !kind.status.success() {
                return Ok(Some(PackRefusal::Incomplete { message: format!("commit {commit} is not in it") }));
            }
            if kind.line()? != "commit" {
                let kind = kind.line()?.to_owned();
                return Ok(Some(PackRefusal::NotACommit { object: commit.clone(), kind }));
            }
        }
        let walk = quarantine
            .apply(self.common(Access::Read, "rev-list"))
            // Not the HEADs of other worktrees: one that is being made has none yet, which would be fatal.
            .args(["--objects", "--quiet", "--single-worktree", commit.as_str(), "--not", "--all"])
            .timeout(limits.time)
            .run();
        match walk {
            Ok(output) if output.status.success() => Ok(None),
            Ok(output) if output.code().is_some() => Ok(Some(PackRefusal::Incomplete { message: first_line(&output) })),
            Ok(output) => Err(output.failure()),
            Err(Error::TimedOut { .. }) => Ok(Some(PackRefusal::TimedOut { limit: limits.time })),
            Err(error) => Err(error),
        }
    }

    /// Whether git2, where that is the engine, finds the commit to be one. False says nothing.
    fn is_commit_by_library(&self, quarantine: &Quarantine, commit: &CommitId) -> bool {
        let look = || {
            let _in_use = self.reader().library()?;
            let objects = git2::Odb::new().ok()?;
            for place in [quarantine.objects(), &self.common_dir().join("objects")] {
                objects.add_disk_alternate(place.to_str()?).ok()?;
            }
            let (_, kind) = objects.read_header(reader::oid(commit.object())?).ok()?;
            Some(kind == git2::ObjectType::Commit)
        };
        look().unwrap_or(false)
    }

    /// Moves what was received into the repository. An empty pack is not kept.
    fn adopt(&self, quarantine: &Quarantine) -> Result<Option<(PathBuf, u64)>, Error> {
        let from = quarantine.objects().join("pack");
        let to = self.common_dir().join("objects/pack");
        fs::create_dir_all(&to).map_err(Error::file("create", &to))?;
        let mut files = Vec::new();
        for entry in fs::read_dir(&from).map_err(Error::file("read", &from))? {
            let path = entry.map_err(Error::file("read", &from))?.path();
            let rank = match path.extension().and_then(|ending| ending.to_str()) {
                Some("pack") => 0,
                Some("rev") => 1,
                Some("idx") => 2,
                Some(_) | None => continue,
            };
            files.push((rank, path));
        }
        files.sort();
        let Some((0, pack)) = files.first() else {
            return Ok(None);
        };
        let size = pack.metadata().map_err(Error::file("look at", pack))?.len();
        let kept = to.join(pack.file_name().unwrap_or_default());
        if is_empty(pack).map_err(Error::file("read", pack))? {
            return Ok(None);
        }
        for (_, file) in &files {
            let target = to.join(file.file_name().unwrap_or_default());
            move_into(file, &target).map_err(Error::file("move into place", &target))?;
        }
        File::open(&to).and_then(|folder| folder.sync_all()).map_err(Error::file("sync", &to))?;
        Ok(Some((kept, size)))
    }
}

/// Whether a pack holds no object: their number stands behind signature and version.
fn is_empty(pack: &Path) -> io::Result<bool> {
    let mut header = [0; 12];
    io::Read::read_exact(&mut File::open(pack)?, &mut header)?;
    Ok(header[8..] == [0; 4])
}

/// Moves a file, whose name is a hash of its content, to where a file of that name is the same file.
fn move_into(from: &Path, to: &Path) -> io::Result<()> {
    if to.symlink_metadata().is_ok() {
        return Ok(());
    }
    match fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            let folder = to.parent().unwrap_or(to);
            let mut copy = tempfile::Builder::new().prefix("tmp_pack_").tempfile_in(folder)?;
            io::copy(&mut File::open(from)?, &mut copy)?;
            copy.as_file().set_permissions(from.metadata()?.permissions())?;
            copy.as_file().sync_all()?;
            copy.persist(to).map(drop).map_err(|error| error.error)
        }
        result => result,
    }
}

/// Whose fault a failed `index-pack` is. Its exit code is the same for all of them, so its words must do; what is not
/// known to be ours is the sender's.
fn judge(output: Output, limits: &PackLimits) -> Result<PackRefusal, Error> {
    let complaint = output.complaint();
    let says = |texts: &[&str]| texts.iter().any(|text| complaint.contains(text));
    let ours = [
        "No space left",
        "Permission denied",
        "Read-only file system",
        "Disk quota",
        "unable to create",
        "Too many open files",
        "not a git repository",
    ];
    if says(&["pack exceeds maximum allowed size"]) {
        return Ok(PackRefusal::TooLarge { limit: limits.size });
    }
    if limits.memory.is_some() && (says(&["ut of memory", "annot allocate memory"]) || output.code().is_none()) {
        return Ok(PackRefusal::Memory);
    }
    if output.code().is_none() || says(&ours) {
        return Err(output.failure());
    }
    let message = first_line(&output);
    if says(&["did not receive expected object", "unresolved delta"]) {
        return Ok(PackRefusal::Incomplete { message });
    }
    if says(&["fsck error", "error in object", "invalid object", "Not all child objects"])
        || message.starts_with("error: object ")
    {
        return Ok(PackRefusal::Unsound { message });
    }
    Ok(PackRefusal::Malformed { message })
}

fn first_line(output: &Output) -> String {
    output.complaint().lines().next().unwrap_or("git gave no reason").to_owned()
}

//! The state of the user's checkout, as it is before anything of ours begins.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::checkout::SCAN_TIMEOUT;
use super::command::{Access, Input, Output};
use super::error::Error;
use super::repository::{Head, Repository};
use crate::model::{RefName, RepoPath};

/// The largest untracked file whose content is hashed. Tracked files are hashed whatever their size.
const UNTRACKED_HASH_LIMIT: u64 = 64 << 20;

/// What differs in a checkout.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Tracked paths that differ, staged or not.
    pub changed: Vec<StatusEntry>,
    /// Files that git does not know, each by itself.
    pub untracked: Vec<RepoPath>,
    /// How many files and folders the ignore rules name. A folder counts as one, whatever is in it.
    pub ignored: usize,
    /// The SHA-256 of what stands at each changed or untracked path: of a file's bytes, of a link's target. A path that is
    /// gone, is no file, or is untracked and huge has none.
    pub hashes: BTreeMap<RepoPath, String>,
}

impl Status {
    /// Whether no tracked path differs.
    pub fn is_clean(&self) -> bool {
        self.changed.is_empty()
    }
}

/// One tracked path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusEntry {
    /// Git's letter for how the index differs from `HEAD`; a space if it does not.
    pub index: char,
    /// Git's letter for how the file differs from the index; a space if it does not.
    pub worktree: char,
    /// The path; for a rename, where it went.
    pub path: RepoPath,
    /// Where a renamed or copied path came from.
    pub from: Option<RepoPath>,
}

/// The branch that a branch follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Its ref.
    pub name: RefName,
    /// Commits that only the branch has, and that only the upstream has; none if the upstream is gone.
    pub distance: Option<(u64, u64)>,
}

impl Repository {
    /// Looks over the checkout this was found from. Takes no lock and writes nothing, the index's times included.
    pub fn load_status(&self) -> Result<Status, Error> {
        let top = self.require_top_level()?;
        let output = self
            .here(Access::Read, "status")
            .timeout(SCAN_TIMEOUT)
            .args(["--porcelain=v1", "-z", "--untracked-files=all", "--ignored=matching", "--find-renames"])
            .arg("--ignore-submodules=untracked")
            .success()?;
        let mut status = parse(&output)?;
        for (path, limit) in status
            .changed
            .iter()
            .map(|entry| (&entry.path, u64::MAX))
            .chain(status.untracked.iter().map(|path| (path, UNTRACKED_HASH_LIMIT)))
        {
            let place = path.under(top);
            // Between the scan and now a file may have gone, or become something else.
            match content_hash(&place, limit) {
                Ok(Some(hash)) => drop(status.hashes.insert(path.clone(), hash)),
                Ok(None) => {}
                Err(error) => tracing::debug!(%path, %error, "a changed file could not be hashed"),
            }
        }
        Ok(status)
    }

    /// How many paths of the checkout differ from `HEAD`, untracked files included. Reads no content that git need not
    /// read, takes no lock and writes nothing.
    pub fn count_changes(&self) -> Result<u64, Error> {
        self.require_top_level()?;
        let output = self
            .here(Access::Read, "status")
            .args(["--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=untracked"])
            .success()?;
        let status = parse(&output)?;
        Ok((status.changed.len() + status.untracked.len()) as u64)
    }

    /// The files of the checkout that its ignore rules name and that the patterns in `patterns`, of the same syntax, name
    /// too. Repositories within are left out.
    pub fn load_ignored_by(&self, patterns: &Path) -> Result<Vec<RepoPath>, Error> {
        self.require_top_level()?;
        let mut from = std::ffi::OsString::from("--exclude-from=");
        from.push(patterns);
        let named = self
            .here(Access::Read, "ls-files")
            .timeout(SCAN_TIMEOUT)
            .args(["-z", "--others", "--ignored"])
            .arg(from)
            .success()?;
        if named.stdout.is_empty() {
            return Ok(Vec::new());
        }
        let asked = self
            .here(Access::Read, "check-ignore")
            .timeout(SCAN_TIMEOUT)
            .without_literal_paths()
            .args(["-z", "--stdin"])
            .input(Input::Bytes(named.stdout))
            .run()?;
        match asked.code() {
            Some(0) => {}
            // None of them is ignored.
            Some(1) => return Ok(Vec::new()),
            Some(_) | None => return Err(asked.failure()),
        }
        let paths = asked.records().filter(|path| !path.ends_with(b"/"));
        Ok(paths.map(RepoPath::new).collect())
    }

    /// The branch that the checked-out branch follows.
    pub fn load_upstream(&self) -> Result<Option<Upstream>, Error> {
        let Head::Branch { name: branch, commit: Some(_) } = self.load_head()? else { return Ok(None) };
        let output = self
            .common(Access::Read, "for-each-ref")
            .args(["--format=%(refname) %(upstream)", branch.as_str()])
            .success()?;
        let name = output.text()?.lines().find_map(|line| {
            let (name, upstream) = line.split_once(' ')?;
            (name == branch.as_str() && !upstream.is_empty()).then(|| upstream.to_owned())
        });
        let Some(name) = name else { return Ok(None) };
        let name: RefName = name.parse().map_err(|_| Error::unparsable(output.what(), format!("{name:?}")))?;
        if self.load_ref(&name)?.is_none() {
            return Ok(Some(Upstream { name, distance: None }));
        }
        let counted = self
            .common(Access::Read, "rev-list")
            .args(["--left-right", "--count"])
            .arg(format!("{branch}...{name}"))
            .success()?;
        let numbers: Vec<u64> = counted.line()?.split('\t').filter_map(|number| number.parse().ok()).collect();
        let &[ahead, behind] = numbers.as_slice() else {
            return Err(Error::unparsable(counted.what(), "not two numbers"));
        };
        Ok(Some(Upstream { name, distance: Some((ahead, behind)) }))
    }
}

/// Reads `status --porcelain=v1 -z`. A rename's paths come new one first, other than in a diff.
fn parse(output: &Output) -> Result<Status, Error> {
    let odd = |detail: &str| Error::unparsable(output.what(), detail);
    let mut status = Status::default();
    let mut records = output.stdout.split(|byte| *byte == 0);
    while let Some(record) = records.next().filter(|record| !record.is_empty()) {
        let (&[index, worktree, b' '], path) = record.split_first_chunk::<3>().ok_or_else(|| odd("a short record"))?
        else {
            return Err(odd("a record has not two letters and a space"));
        };
        let path = RepoPath::new(path);
        match (index, worktree) {
            (b'?', b'?') => status.untracked.push(path),
            (b'!', b'!') => status.ignored += 1,
            (index, worktree) => {
                let renamed = [index, worktree].iter().any(|letter| matches!(letter, b'R' | b'C'));
                let from = if renamed {
                    Some(RepoPath::new(records.next().ok_or_else(|| odd("a rename without its origin"))?))
                } else {
                    None
                };
                status.changed.push(StatusEntry { index: index.into(), worktree: worktree.into(), path, from });
            }
        }
    }
    Ok(status)
}

/// The SHA-256 of a file's bytes or a link's target. None for anything else, and for a file over `limit`.
fn content_hash(path: &Path, limit: u64) -> io::Result<Option<String>> {
    let metadata = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata?,
    };
    if metadata.is_symlink() {
        let target = std::fs::read_link(path)?;
        return Ok(Some(hex::encode(Sha256::digest(target.as_os_str().as_bytes()))));
    }
    if !metadata.is_file() || metadata.len() > limit {
        return Ok(None);
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash)?;
    Ok(Some(hex::encode(hash.finalize())))
}

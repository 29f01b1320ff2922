//! The commits between two others.

use super::command::Access;
use super::error::Error;
use super::repository::{Repository, parsed};
use crate::model::CommitId;

/// A commit and its parents, as they are named.
pub type Kin = (CommitId, Vec<CommitId>);

impl Repository {
    /// The commits that `head` reaches and `base` does not, each after its parents; none if a part of them is missing.
    /// Of more than `most` the rest is left out.
    ///
    /// What the user's `refs/replace` puts in the place of commits does not count: who reads the commits sees them as they
    /// are.
    pub fn load_range(&self, base: &CommitId, head: &CommitId, most: usize) -> Result<Option<Vec<Kin>>, Error> {
        let output = self
            .common(Access::Read, "rev-list")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .args(["--topo-order", "--reverse", "--parents"])
            .arg(format!("--max-count={most}"))
            .arg(head.as_str())
            .arg(format!("^{base}"))
            .run()?;
        match output.code() {
            Some(0) => {}
            Some(_) => return Ok(None),
            None => return Err(output.failure()),
        }
        let kin = |line: &str| {
            let mut ids = line.split(' ').map(|id| parsed(output.what(), id));
            let commit = ids.next().unwrap_or_else(|| parsed(output.what(), line))?;
            Ok((commit, ids.collect::<Result<_, _>>()?))
        };
        output.text()?.lines().map(kin).collect::<Result<_, _>>().map(Some)
    }
}

//! Which paths are submodules, by what `.gitmodules` says.

use std::collections::BTreeSet;

use super::command::{Access, Command};
use super::error::Error;
use super::repository::Repository;
use crate::model::{RepoPath, TreeId};

/// The file that names them.
const FILE: &str = ".gitmodules";

impl Repository {
    /// The paths that the `.gitmodules` of a tree names. None where it has none, or one that git cannot read: what nothing
    /// names is no submodule.
    pub fn load_submodules(&self, tree: &TreeId) -> Result<BTreeSet<RepoPath>, Error> {
        if self.load_entry(tree, &RepoPath::from(FILE))?.is_none() {
            return Ok(BTreeSet::new());
        }
        named_submodules(self.common(Access::Read, "config"), tree.as_str())
    }
}

/// The same by a `config` command that knows what `tree` is; an empty one is the index.
pub fn named_submodules(config: Command, tree: &str) -> Result<BTreeSet<RepoPath>, Error> {
    let query = ["--get-regexp", r"^submodule\..*\.path$"];
    let output = config.arg(format!("--blob={tree}:{FILE}")).arg("-z").args(query).run()?;
    match output.code() {
        Some(0) => Ok(output.records().filter_map(path).collect()),
        Some(_) => Ok(BTreeSet::new()),
        None => Err(output.failure()),
    }
}

/// The path in a key and its value, with a line end between them.
fn path(record: &[u8]) -> Option<RepoPath> {
    let end = record.iter().position(|byte| *byte == b'\n')?;
    let path = &record[end + 1..];
    Some(RepoPath::new(path.strip_suffix(b"/").unwrap_or(path)))
}

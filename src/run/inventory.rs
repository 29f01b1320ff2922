//! Ignored files of a worktree: no snapshot has them, so they are listed before they go with it.
//!
//! What is in a folder that is ignored as a whole (`target/`, `node_modules/`) can be made again, and what was copied from the
//! user's checkout is there still. A single ignored file among the others (`.env`, `results.db`) may be all there is of
//! somebody's work: a worktree that has one stays, unless the user said that it may go.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::site::Site;
use crate::change::IGNORED_MAX;
use crate::model::plan::Plan;
use crate::model::{AgentName, RepoPath};
use crate::store::{RunDir, atomic, trash};

/// How many single files are named.
const NAMED: usize = 3;

/// What was ignored in a worktree when it was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Inventory {
    /// The version of this format.
    v: u32,
    /// The worktree.
    worktree: std::path::PathBuf,
    /// Whether every ignored path is listed.
    complete: bool,
    /// The paths.
    paths: Vec<Listed>,
}

/// One ignored path, a folder with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    path: RepoPath,
    bytes: u64,
    files: u64,
}

/// Files that came from the user's checkout, so that they are there still.
#[derive(Debug, Default)]
pub(super) struct Seeded {
    paths: BTreeSet<RepoPath>,
}

impl Seeded {
    /// Those of a run.
    pub(super) fn load(site: &Site, plan: &Plan) -> Result<Self, Error> {
        let named = plan.workspace.seed.iter().map(|path| path.trim_start_matches("./").trim_end_matches('/').into());
        let mut paths: BTreeSet<RepoPath> = named.collect();
        paths.extend(crate::workspace::load_included(&site.repository)?);
        Ok(Self { paths })
    }

    /// Whether it, or a folder it lies in, was copied.
    fn has(&self, path: &RepoPath) -> bool {
        let bytes = path.as_bytes();
        let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'/').chain([bytes.len()]);
        ends.into_iter().any(|end| self.paths.contains(&RepoPath::new(&bytes[..end])))
    }
}

/// Why a worktree with these ignored paths must not go; `None` where it may.
pub(super) fn obstacle(ignored: &[RepoPath], seeded: &Seeded, allowed: bool) -> Option<String> {
    if allowed {
        return None;
    }
    let next = "`sandbox clean --ignored` removes it all the same";
    if ignored.len() >= IGNORED_MAX {
        return Some(format!("it has more ignored files than can be listed: {next}"));
    }
    let single: Vec<&RepoPath> =
        ignored.iter().filter(|path| !path.as_bytes().ends_with(b"/") && !seeded.has(path)).collect();
    let named: Vec<String> = single.iter().take(NAMED).map(|path| format!("`{path}`")).collect();
    let more = single.len().checked_sub(NAMED + 1).map_or_else(String::new, |more| format!(" and {} more", more + 1));
    let lie = if single.len() == 1 { "lies" } else { "lie" };
    (!single.is_empty()).then(|| format!("{}{more}, which git ignores, {lie} only there: {next}", named.join(", ")))
}

/// Writes down what is ignored in a worktree that is about to go. Gives where; `None` where nothing is.
pub(super) fn keep(
    run: &RunDir,
    (agent, generation): (&AgentName, u32),
    worktree: &Path,
    ignored: &[RepoPath],
) -> Result<Option<std::path::PathBuf>, Error> {
    if ignored.is_empty() {
        return Ok(None);
    }
    let mut paths = Vec::new();
    for path in ignored {
        let size = trash::size(&path.under(worktree))?;
        paths.push(Listed { path: path.clone(), bytes: size.bytes, files: size.files });
    }
    let inventory = Inventory { v: 1, worktree: worktree.to_owned(), complete: ignored.len() < IGNORED_MAX, paths };
    let file = run.ignored(agent, generation);
    atomic::write_json(&file, &inventory)?;
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_worktree() {
        let seeded = Seeded { paths: [".env", "conf/local"].map(RepoPath::from).into() };
        for (ignored, named) in [
            (&[][..], None),
            (&["target/", "deep/node_modules/"], None),
            (&[".env", "conf/local", "conf/local/x"], None),
            (&["conf/locals"], Some("`conf/locals`, which git ignores, lies only there")),
            (&["target/", "a.db", ".env"], Some("`a.db`, which git ignores, lies only there")),
            (&["a", "b"], Some("`a`, `b`, which git ignores, lie only there")),
            (&["a", "b", "c", "d", "e"], Some("`a`, `b`, `c` and 2 more, which git ignores, lie only there")),
        ] {
            let ignored: Vec<RepoPath> = ignored.iter().map(|path| RepoPath::from(*path)).collect();
            let told = obstacle(&ignored, &seeded, false);
            let next = "`sandbox clean --ignored` removes it all the same";
            assert_eq!(told, named.map(|named| format!("{named}: {next}")), "{ignored:?}");
            assert_eq!(obstacle(&ignored, &seeded, true), None);
        }
        let many = vec![RepoPath::from("x/"); IGNORED_MAX];
        assert!(obstacle(&many, &seeded, false).is_some());
    }
}

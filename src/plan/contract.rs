//! A contract, ready to judge paths and to be compared with another.

use crate::model::RepoPath;
use crate::model::plan::{AgentTask, Contract};

use super::glob::{Glob, GlobError, GlobSet};
use super::overlap::{Budget, TooComplex, common_path};

/// Whether a contract lets its agent change a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// It is the agent's alone.
    Owned,
    /// It is one that several agents may change; a path listed under both keys counts as this.
    Shared,
    /// It is not the agent's to change.
    Outside,
}

/// A glob of a contract that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{glob}` is not a glob: {cause}")]
pub struct ContractError {
    /// The glob as it was written.
    pub glob: String,
    /// What is wrong with it.
    #[source]
    pub cause: GlobError,
}

/// A contract whose globs have been read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompiledContract {
    owns: GlobSet,
    shares: GlobSet,
}

/// What an attempt of an agent may change: the plan's contract, and what was granted besides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Globs that were granted.
    pub granted: Vec<String>,
    /// Both together, as globs.
    pub contract: Contract,
    /// The same, ready to judge.
    pub compiled: CompiledContract,
}

impl Scope {
    /// The scope of an agent that was granted these globs.
    pub fn new(task: &AgentTask, granted: &[String]) -> Result<Self, ContractError> {
        let mut contract = task.contract.clone();
        contract.owns.extend(granted.iter().cloned());
        Ok(Self { granted: granted.to_vec(), compiled: CompiledContract::new(&contract)?, contract })
    }
}

/// A pair of globs that some path matches both of, although not both contracts list that path under `shares`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// The place of the first contract's glob, `owns` counted before `shares`.
    pub first: usize,
    /// The place of the second contract's glob, likewise.
    pub second: usize,
    /// The shortest such path.
    pub path: RepoPath,
}

impl CompiledContract {
    /// Reads the globs of a contract.
    pub fn new(contract: &Contract) -> Result<Self, ContractError> {
        let read = |texts: &[String]| {
            GlobSet::compile(texts).map_err(|(at, cause)| ContractError { glob: texts[at].clone(), cause })
        };
        Ok(Self { owns: read(&contract.owns)?, shares: read(&contract.shares)? })
    }

    /// A contract of which these paths are all.
    pub(super) fn owning(owns: GlobSet) -> Self {
        Self { owns, shares: GlobSet::default() }
    }

    /// All its globs.
    pub(super) fn globs(&self) -> impl Iterator<Item = &Glob> {
        self.owns.globs().iter().chain(self.shares.globs())
    }

    /// Whether the agent may change `path`.
    pub fn allows(&self, path: &RepoPath) -> Allowed {
        if self.shares.matches(path) {
            Allowed::Shared
        } else if self.owns.matches(path) {
            Allowed::Owned
        } else {
            Allowed::Outside
        }
    }

    /// Where two contracts overlap: for each glob of `other`, the first glob of this one that it overlaps with.
    pub fn overlaps(&self, other: &Self, budget: &mut Budget) -> Result<Vec<Overlap>, TooComplex> {
        let mut found = Vec::new();
        for (second, theirs) in other.globs().enumerate() {
            for (first, ours) in self.globs().enumerate() {
                let both_shared = first >= self.owns.globs().len() && second >= other.owns.globs().len();
                if both_shared {
                    continue;
                }
                // The plain question is cheap and mostly answered no; the shared lists are asked only after a yes.
                let mut path = common_path(ours, theirs, None, budget)?;
                if path.is_some() && !self.shares.globs().is_empty() && !other.shares.globs().is_empty() {
                    path = common_path(ours, theirs, Some((self.shares.globs(), other.shares.globs())), budget)?;
                }
                if let Some(path) = path {
                    found.push(Overlap { first, second, path });
                    break;
                }
            }
        }
        Ok(found)
    }
}

//! Paths that an agent asks for beyond its contract, held against what a plan says of them. Decided on the patterns, like
//! everything about contracts, and not on the files there happen to be.

use crate::model::AgentName;

use super::contract::CompiledContract;
use super::glob::{Glob, GlobSet};
use super::overlap::{Budget, TooComplex, uncovered_path};
use super::protect::Protected;
use super::value::shown;

/// What there is to be known of a request.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The paths that are asked for.
    pub globs: &'a GlobSet,
    /// What the plan says that this agent is given when it asks.
    pub may_ask: &'a GlobSet,
    /// What is protected in this plan.
    pub protected: &'a Protected,
    /// The contracts of all other agents.
    pub others: &'a [(AgentName, CompiledContract)],
}

impl Wanted<'_> {
    /// What keeps the plan from granting it, each in a line; nothing at all where the plan grants it.
    pub fn objections(&self, budget: &mut Budget) -> Result<Vec<String>, TooComplex> {
        let mut objections = Vec::new();
        for glob in self.globs.globs() {
            let name = shown(glob.text());
            if let Some(path) = uncovered_path(glob, self.may_ask.globs(), budget)? {
                let path = shown(&path.to_string());
                objections.push(format!("{name}: the plan's `may_ask` does not cover it, {path} for one"));
                continue;
            }
            for protecting in self.protected.named_by(glob.text()) {
                let naming: Vec<Glob> =
                    self.may_ask.globs().iter().filter(|rule| protecting.is_named_by(rule)).cloned().collect();
                if uncovered_path(glob, &naming, budget)?.is_some() {
                    let protecting = shown(protecting.text());
                    objections.push(format!("{name}: it is protected by {protecting}, which `may_ask` does not name"));
                }
            }
        }
        objections.extend(self.overlaps(budget)?);
        Ok(objections)
    }

    /// Contracts that it would overlap with.
    fn overlaps(&self, budget: &mut Budget) -> Result<Vec<String>, TooComplex> {
        let mine = CompiledContract::owning(self.globs.clone());
        let mut found = Vec::new();
        for (agent, theirs) in self.others {
            if let Some(overlap) = mine.overlaps(theirs, budget)?.first() {
                let (glob, path) = (&self.globs.globs()[overlap.first], shown(&overlap.path.to_string()));
                found.push(format!("{}: {path} is in the contract of `{agent}`", shown(glob.text())));
            }
        }
        Ok(found)
    }
}

/// Whether every path that one of `globs` matches is one that `contract` lets its agent change.
pub fn is_covered(globs: &GlobSet, contract: &CompiledContract, budget: &mut Budget) -> Result<bool, TooComplex> {
    let cover: Vec<Glob> = contract.globs().cloned().collect();
    for glob in globs.globs() {
        if uncovered_path(glob, &cover, budget)?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

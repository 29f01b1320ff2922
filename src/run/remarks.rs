//! What the user's other tools did to a run: worktrees that are gone or were moved, refs that were deleted. Told by whoever
//! only looks, with what to do next.

use std::collections::BTreeSet;

use super::error::Error;
use super::mend_pins::count_missing;
use super::places::{Recorded, recorded};
use super::start::load_settings;
use crate::git::Repository;
use crate::model::run::RunState;
use crate::model::{AgentName, RefName};
use crate::store::{Occupant, RunDir, Workplaces, json};
use crate::workspace::{Standing, Workspace, WorkspaceRecord};

/// What is to be said of a run that nobody works on, a line each. Writes nothing.
pub fn remarks(repository: &Repository, run: &RunDir, state: &RunState) -> Result<Vec<String>, Error> {
    let settings = load_settings(run)?;
    let mut told = match recorded(repository.common_dir(), run, &settings)? {
        Recorded::Here(places) => of_worktrees(repository, run, state, &places)?,
        Recorded::Away(places) => {
            let found = of_worktrees(repository, run, state, &places)?;
            let away = format!(
                "the folder of the run's worktrees, `{}`, is not there: mount it, or move it back; where it was moved for good, \
                 set SANDBOX_WORKTREES to where it is",
                places.root().display()
            );
            if found.is_empty() { found } else { vec![away] }
        }
        Recorded::Original(original) => vec![format!(
            "this repository is a copy of the one at `{}`, to which the worktrees of the run belong: go on there, or here \
             with `sandbox retry <agent> --fresh`",
            original.display()
        )],
    };
    let missing = count_missing(repository, state, run)?;
    if missing > 0 {
        let refs = if missing == 1 { "ref was" } else { "refs were" };
        told.push(format!(
            "{missing} {refs} deleted that keep what agents did: `sandbox merge {}` makes them again, as long as git has not \
             collected the commits",
            run.id()
        ));
    }
    Ok(told)
}

fn of_worktrees(
    repository: &Repository,
    run: &RunDir,
    state: &RunState,
    places: &Workplaces,
) -> Result<Vec<String>, Error> {
    let mut told = Vec::new();
    let branches = repository.load_refs(&RefName::agent_branches(run.id()))?;
    let branches: BTreeSet<RefName> = branches.into_iter().map(|found| found.name).collect();
    let is_over = state.is_complete();
    for agent in &state.agents {
        let mut newest = None;
        for generation in 1.. {
            let Some(record) = json::load::<WorkspaceRecord>(&run.workspace(&agent.name, generation))? else { break };
            newest = Some((generation, record));
        }
        let Some((generation, record)) = newest else { continue };
        let place = places.place(run.id(), &Occupant::Agent { name: agent.name.clone(), generation });
        let path = place.worktree().display().to_string();
        let standing = Workspace::from_record(record, place).standing(repository.common_dir());
        let branch = RefName::agent_branch(run.id(), &agent.name);
        // Of a run that is complete nobody needs it any more, and where there is no worktree, the advice is the same.
        let needs_branch = !is_over && matches!(standing, Standing::Sound | Standing::Unlisted | Standing::Moved);
        if needs_branch && agent.fork_point().is_some() && !branches.contains(&branch) {
            told.push(format!(
                "the branch of agent `{name}`, `{branch}`, was deleted: its turns are kept; `sandbox retry {name} --fresh --run \
                 {run}` makes it again",
                name = agent.name,
                branch = branch.short(),
                run = run.id()
            ));
        }
        told.extend(remark(standing, &agent.name, &path, run, is_over));
    }
    Ok(told)
}

fn remark(standing: Standing, agent: &AgentName, path: &str, run: &RunDir, is_over: bool) -> Option<String> {
    let run = run.id();
    match standing {
        Standing::Gone if is_over => Some(format!(
            "the worktree of agent `{agent}`, `{path}`, is gone, and not by `sandbox clean`, which removes the rest of it: its \
             turns are kept"
        )),
        Standing::Sound | Standing::Removed => None,
        Standing::Gone => Some(format!(
            "the worktree of agent `{agent}`, `{path}`, is gone, and not by `sandbox clean`: its turns are kept; \
             `sandbox retry {agent} --fresh --run {run}` makes a new one"
        )),
        Standing::Replaced => Some(format!(
            "another folder lies at `{path}`, where the worktree of agent `{agent}` was: it is left alone; \
             `sandbox retry {agent} --fresh --run {run}` makes a new one"
        )),
        Standing::Unlisted => Some(format!(
            "the repository has no entry of the worktree of agent `{agent}` any more, as after `git worktree prune`: \
             the next `retry`, `resume`, `merge` or `clean` of the run makes it again"
        )),
        Standing::Moved => Some(format!(
            "the repository, or the worktree of agent `{agent}`, was moved: the next `retry`, `resume`, `merge` or `clean` of \
             the run links them again"
        )),
    }
}

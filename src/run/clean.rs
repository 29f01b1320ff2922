//! Removing worktrees that are not needed any more. Records, snapshots and branches stay.
//!
//! A worktree goes only when its files have just been captured and found to be what is pinned. What differs, because a
//! coordinator died in the middle of a turn or because the user worked there, is pinned and bundled first. What cannot be
//! captured stays, and is named: a whole worktree, and one of which a single file could not be read. Ignored files are
//! nobody's work.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use sandbox::Layer;
use serde::Serialize;

use super::agents::{load_pinned_turns, load_workspaces};
use super::error::Error;
use super::isolation;
use super::recorder::{Observer, Recorder};
use super::reopen::mend_links;
use super::site::Site;
use super::start::load_settings;
use crate::change::bundle::{self, Ledger};
use crate::change::{Capturer, Pins, Snapshot};
use crate::model::change::Actor;
use crate::model::event::{Event, EventKind, Subject, TurnFinished};
use crate::model::run::{AgentState, RunState};
use crate::model::{AgentName, CommitId, RefName, RunId, TurnId};
use crate::plan::CompiledContract;
use crate::store::lock::{RunLock, run_lock_state};
use crate::store::{JournalWriter, Occupant, Record, RunDir, Workplaces, journal, trash};
use crate::workspace::{Workspace, remove};

/// What is done, or would be done, with one worktree.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The run.
    pub run: RunId,
    /// The agent, or `verify`.
    pub owner: String,
    /// The worktree.
    pub worktree: PathBuf,
    /// How many bytes it and its private folder take.
    pub bytes: u64,
    /// What is done with it.
    pub action: Action,
    /// Why, in a line.
    pub reason: String,
}

/// What is done with a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It goes.
    Remove,
    /// It stays.
    Keep,
}

struct Quiet;

impl Observer for Quiet {
    fn event(&mut self, _event: &Event, _state: &RunState) {}
}

/// Says of each worktree of `runs` what is to become of it. `named`: the user named the runs, so that ones that are not
/// complete may go too.
pub fn plan(site: &Site, runs: &[RunDir], named: bool) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    for (place, run, owner) in places(site)? {
        let Some(folder) = runs.iter().find(|folder| *folder.id() == run) else { continue };
        let (action, reason) = judge(folder, named)?;
        let bytes = trash::size(place.worktree())?.bytes + trash::size(place.private())?.bytes;
        let owner = owner.map_or_else(|| "verify".to_owned(), |agent| agent.to_string());
        items.push(Item { run, owner, worktree: place.worktree().to_owned(), bytes, action, reason });
    }
    Ok(items)
}

fn judge(run: &RunDir, named: bool) -> Result<(Action, String), Error> {
    if run_lock_state(run)?.is_held() {
        return Ok((Action::Keep, "the run is at work".to_owned()));
    }
    let state = RunState::fold(run.id().clone(), &journal::read(run)?.into_events());
    let complete = state.gate.as_ref().is_some_and(|gate| gate.open);
    Ok(match (complete, named) {
        (true, _) => (Action::Remove, "the run is complete".to_owned()),
        (false, true) => (Action::Remove, "you named the run".to_owned()),
        (false, false) => (
            Action::Keep,
            format!("the run is not complete: name it, `sandbox clean {}`, to remove it all the same", run.id()),
        ),
    })
}

/// The worktrees of ours that are there, with their runs and agents.
fn places(site: &Site) -> Result<Vec<(crate::store::Workplace, RunId, Option<AgentName>)>, Error> {
    let root = site.workplaces.root();
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(crate::store::Error::Io { op: "read", path: root.to_owned(), source }.into()),
    };
    // Also those whose folder somebody took away and whose entry is there still. Not where the folder of all of them is
    // away: then it is perhaps only not mounted.
    let mut names: BTreeSet<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
    let listed = site.repository.load_worktrees()?;
    let ours = listed.iter().skip(1).filter(|worktree| worktree.path.parent() == Some(root));
    names.extend(ours.filter_map(|worktree| worktree.path.file_name()).map(OsStr::to_owned));
    let mut found = Vec::new();
    for name in names {
        if let Some((run, occupant)) = Workplaces::occupant_of(&name) {
            let place = site.workplaces.place(&run, &occupant);
            let agent = match occupant {
                Occupant::Agent { name, .. } => Some(name),
                Occupant::Verify => None,
            };
            found.push((place, run, agent));
        }
    }
    found.sort_by(|one, other| one.0.name().cmp(other.0.name()));
    Ok(found)
}

/// Carries out what [`plan`] says for one run, and gives back what really became of each worktree.
pub async fn apply(site: &Site, run: &RunDir, items: Vec<Item>, allowed: &BTreeSet<Layer>) -> Result<Vec<Item>, Error> {
    let (recorder, mut settings) = tokio::task::block_in_place(|| {
        site.require_writable()?;
        let lock = RunLock::try_acquire(run)?;
        let settings = load_settings(run)?;
        let (writer, opened) = JournalWriter::open(run, lock, site.clock.clone())?;
        Ok::<_, Error>((Recorder::new(writer, &opened.events, Box::new(Quiet)), settings))
    })?;
    let state = recorder.state();
    tokio::task::block_in_place(|| mend_links(site, &state, recorder.run()))?;
    isolation::allow(&mut settings.plan, allowed);
    let capturer = site.capturer(state.started_at.unwrap_or_else(|| (site.clock)()), &settings.plan).await?;
    for text in isolation::warnings(&capturer.host) {
        tracing::warn!("{text}");
    }
    let mut workspaces = Vec::new();
    for agent in &state.agents {
        workspaces.extend(tokio::task::block_in_place(|| load_workspaces(site, run, &agent.name))?);
    }
    let mut done = Vec::new();
    for mut item in items {
        if item.action == Action::Remove {
            let agent = item.owner.parse::<AgentName>().ok();
            let workspace = workspaces.iter().find(|workspace| workspace.place.worktree() == item.worktree);
            let task = agent.as_ref().and_then(|name| settings.plan.agent(name));
            let known = agent.as_ref().and_then(|name| state.agent(name));
            let kept = match (workspace, task, known) {
                _ if item.worktree.symlink_metadata().is_err() => {
                    Ok("its folder is gone; its turns are kept".to_owned())
                }
                (Some(workspace), Some(task), Some(known)) => {
                    Keeper { site, capturer: &capturer, recorder: &recorder, workspace, task, known }.keep().await
                }
                // The verifier's: nothing in it is anybody's work.
                _ if item.owner == "verify" => Ok("nothing of it is anybody's work".to_owned()),
                // That a worktree is there is written down before an agent is let in.
                (None, Some(_), Some(known)) if known.last_turn_in(&item.worktree).is_none() => {
                    Ok("no agent was ever in it".to_owned())
                }
                _ => Err("nothing is known of it: look at it, and remove it by hand".to_owned()),
            };
            match kept {
                Ok(reason) => {
                    let place = place_of(site, &item.worktree)?;
                    tokio::task::block_in_place(|| remove(&site.repository, &site.state, &place))?;
                    item.reason = reason;
                }
                Err(reason) => {
                    item.action = Action::Keep;
                    item.reason = reason;
                }
            }
        }
        done.push(item);
    }
    Ok(done)
}

fn place_of(site: &Site, worktree: &std::path::Path) -> Result<crate::store::Workplace, Error> {
    let found = places(site)?.into_iter().find(|(place, ..)| place.worktree() == worktree);
    let gone =
        || crate::store::Error::NotFound { what: "worktree", name: worktree.display().to_string(), known: Vec::new() };
    Ok(found.ok_or_else(gone)?.0)
}

/// Sees to it that the files of a worktree are pinned and bundled.
struct Keeper<'a> {
    site: &'a Site,
    capturer: &'a Capturer,
    recorder: &'a Recorder,
    workspace: &'a Workspace,
    task: &'a crate::model::plan::AgentTask,
    known: &'a AgentState,
}

impl Keeper<'_> {
    /// Why the worktree may go, or why it may not.
    async fn keep(&self) -> Result<String, String> {
        let told = |error: &dyn std::error::Error| format!("it could not be captured: {error}");
        let repository = &self.capturer.repository;
        let snapshot = |commit: &CommitId| {
            let tree = repository.load_commit(commit).map_err(|error| told(&error))?.tree;
            Ok::<_, String>(Snapshot { commit: commit.clone(), tree })
        };
        let fork = snapshot(&self.workspace.fork)?;
        let (last, latest) = match self.known.last_turn_in(self.workspace.place.worktree()) {
            Some((turn, finished)) => {
                (*turn, Snapshot { commit: finished.snapshot.clone(), tree: finished.tree.clone() })
            }
            None => (TurnId::new(1, 0), fork.clone()),
        };
        let run = self.recorder.run().id();
        let branch = RefName::agent_branch(run, &self.task.name);
        let at = repository.load_ref(&branch).map_err(|error| told(&error))?.map(CommitId::from);
        let turn = self.next_turn(last).map_err(|error| told(&error))?;
        // The branch goes along only if this is the worktree that has it.
        let pins = match &at {
            Some(at) if *at == latest.commit => Pins::of_turn(run, &self.task.name, turn, at),
            Some(_) | None => Pins { keep: RefName::snapshot(run, &self.task.name, turn), branch: None },
        };
        let found = self.capturer.capture(self.workspace, &latest, "kept before removal\n", None).await;
        let found = found.map_err(|error| told(&error))?;
        let is_new = found.snapshot != latest;
        if is_new {
            self.capturer.pin(&pins, &found.snapshot.commit).map_err(|error| told(&error))?;
            self.bundle(turn, &fork, &latest, &found).map_err(|error| told(&error))?;
        }
        match (found.kept_nowhere(), is_new) {
            (Some(what), _) => {
                Err(format!("not all of it could be captured ({what}): mend or delete that, then clean again"))
            }
            (None, true) => Ok(format!("what had changed since was kept as turn {turn}")),
            (None, false) => Ok("its files are what is pinned".to_owned()),
        }
    }

    /// The turn after `last` that no snapshot is pinned as yet, be it by a coordinator that died before it told of it.
    fn next_turn(&self, last: TurnId) -> Result<TurnId, Error> {
        let pinned = load_pinned_turns(self.site, self.recorder.run(), &self.task.name)?;
        let newest = pinned.iter().filter(|turn| turn.attempt == last.attempt).map(|turn| turn.turn).max();
        Ok(TurnId::new(last.attempt, newest.unwrap_or(0).max(last.turn).saturating_add(1)))
    }

    fn bundle(
        &self,
        turn: TurnId,
        fork: &Snapshot,
        latest: &Snapshot,
        found: &crate::change::Captured,
    ) -> Result<(), Error> {
        let compiled = CompiledContract::new(&self.task.contract)?;
        let ledger = Ledger {
            repository: &self.capturer.repository,
            run: self.recorder.run(),
            agent: &self.task.name,
            adapter: crate::agent::attempt::ADAPTER,
            fork,
            contract: &self.task.contract,
            compiled: &compiled,
        };
        let label = "kept before removal";
        let record = bundle::write(
            &ledger,
            &bundle::Turn {
                id: turn,
                label,
                actor: Actor::Runtime,
                tool: None,
                base: &latest.commit,
                previous: &latest.tree,
                captured: found,
                ignored_before: &HashSet::new(),
                end: None,
                interrupted: true,
                live: false,
            },
        )?;
        let finished = TurnFinished {
            label: label.to_owned(),
            snapshot: record.snapshot.clone(),
            tree: record.tree.clone(),
            patch: record.checkpoint.patch_path.clone(),
            changed: record.change_set.changed_paths.len() as u64,
            end: None,
            leftover_processes: 0,
            interrupted: true,
            live: false,
            empty: record.empty,
        };
        let subject = || Subject::turn(&self.task.name, turn);
        self.recorder.record(subject(), EventKind::CheckpointCreated(Box::new(record.checkpoint)))?;
        self.recorder.record(subject(), EventKind::TurnFinished(finished))?;
        Ok(())
    }
}

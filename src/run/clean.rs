//! Removing worktrees that are not needed any more. Records, snapshots and branches stay.
//!
//! A worktree goes only when its files have just been captured and found to be what is pinned. What differs, because a
//! coordinator died in the middle of a turn or because the user worked there, is pinned and bundled first. What cannot be
//! captured stays, and is named: a whole worktree, and one of which a single file could not be read. Ignored files are
//! nobody's work.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use sandbox::Layer;
use serde::Serialize;

use super::agents::load_workspaces;
use super::error::Error;
use super::isolation;
use super::keep::{Keeper, Kept};
use super::recorder::{Quiet, Recorder};
use super::reopen::{await_boxes, mend_links};
use super::site::Site;
use super::start::load_settings;
use crate::agent::attempt::with_causes;
use crate::model::card::CardState;
use crate::model::run::RunState;
use crate::model::{AgentName, CardId, RunId};
use crate::store::lock::{RunLock, run_lock_state};
use crate::store::{JournalWriter, Occupant, RunDir, Workplaces, journal, trash};
use crate::workspace::remove;

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

/// Says of each worktree of `runs` what is to become of it. `named`: the user named the runs, so that ones that are not
/// complete may go too.
pub fn plan(site: &Site, runs: &[RunDir], named: bool) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    for (place, run, occupant) in places(site)? {
        let Some(folder) = runs.iter().find(|folder| *folder.id() == run) else { continue };
        let bytes = trash::size(place.worktree())?.bytes + trash::size(place.private())?.bytes;
        let (owner, (action, reason)) = match occupant {
            Occupant::Agent { name, .. } => (name.to_string(), judge(folder, named)),
            Occupant::Verify => ("verify".to_owned(), judge(folder, named)),
            // What a person does by hand is in no snapshot, while it waits to be taken in.
            Occupant::Resolver(_) => ("resolver".to_owned(), judge(folder, named)),
            Occupant::Card(card) if is_closed(folder, &card) => {
                (format!("card {card}"), (Action::Remove, "its card is closed".to_owned()))
            }
            Occupant::Card(card) => {
                let next = format!("`sandbox board resolve {card} --done` or `--discard`");
                (format!("card {card}"), (Action::Keep, format!("a merge by hand, which you end by {next}")))
            }
        };
        items.push(Item { run, owner, worktree: place.worktree().to_owned(), bytes, action, reason });
    }
    Ok(items)
}

fn is_closed(run: &RunDir, card: &CardId) -> bool {
    let state = journal::read(run).map(|read| RunState::fold(run.id().clone(), &read.into_events()));
    state.is_ok_and(|state| state.cards.iter().any(|known| known.id == *card && known.state == CardState::Closed))
}

/// A run whose record cannot be read keeps its own worktrees, and nobody else's.
fn judge(run: &RunDir, named: bool) -> (Action, String) {
    judge_by_record(run, named).unwrap_or_else(|error| {
        (Action::Keep, format!("it cannot be told how the run stands: {}", with_causes(&error)))
    })
}

fn judge_by_record(run: &RunDir, named: bool) -> Result<(Action, String), Error> {
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
fn places(site: &Site) -> Result<Vec<(crate::store::Workplace, RunId, Occupant)>, Error> {
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
            found.push((place, run, occupant));
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
    tokio::task::block_in_place(|| {
        let tell = |text: &str| tracing::warn!("{text}");
        await_boxes(site, run.id(), &settings.worktrees_root, tell)?;
        mend_links(site, &state, recorder.run(), tell)
    })?;
    isolation::allow(&mut settings.plan, allowed);
    let capturer = site
        .capturer(state.started_at.unwrap_or_else(|| (site.clock)()), &settings.plan, settings.pinned_paths)
        .await?;
    for text in isolation::warnings(&capturer.host, &isolation::LeftOut::new()) {
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
                    let keeper = Keeper { site, capturer: &capturer, recorder: &recorder, workspace, task, known };
                    may_go(&keeper.keep("kept before removal").await)
                }
                // The verifier's, or a resolver's: nothing in it is anybody's work.
                _ if item.owner == "verify" || item.owner == "resolver" => {
                    Ok("nothing of it is anybody's work".to_owned())
                }
                _ if item.owner.starts_with("card ") => Ok("its card is closed".to_owned()),
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

/// Why a worktree may go, or why it may not.
fn may_go(kept: &Result<Kept, Error>) -> Result<String, String> {
    match kept {
        Err(error) => Err(format!("it could not be captured: {}", with_causes(error))),
        Ok(Kept { lost: Some(what), .. }) => {
            Err(format!("not all of it could be captured ({what}): mend or delete that, then clean again"))
        }
        Ok(Kept { new: Some(turn), .. }) => Ok(format!("what had changed since was kept as turn {turn}")),
        Ok(Kept { new: None, lost: None }) => Ok("its files are what is pinned".to_owned()),
    }
}

fn place_of(site: &Site, worktree: &std::path::Path) -> Result<crate::store::Workplace, Error> {
    let found = places(site)?.into_iter().find(|(place, ..)| place.worktree() == worktree);
    let gone =
        || crate::store::Error::NotFound { what: "worktree", name: worktree.display().to_string(), known: Vec::new() };
    Ok(found.ok_or_else(gone)?.0)
}

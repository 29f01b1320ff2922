//! What there is that `clean` could take away: runs, their worktrees wherever they lie, and what no record tells of.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::error::Error;
use super::pins;
use super::retention::{Owner, RecordFacts, RunFacts, Standing, WorktreeFacts};
use super::site::Site;
use super::start::load_settings;
use crate::agent::attempt::with_causes;
use crate::git::Worktree;
use crate::model::card::CardState;
use crate::model::plan::RunSettings;
use crate::model::run::RunState;
use crate::model::{CardId, RunId};
use crate::store::lock::run_lock_state;
use crate::store::{Occupant, RunDir, Workplace, Workplaces, journal, listing, runs, trash};

/// A run, looked at.
#[derive(Debug)]
pub(super) struct Seen {
    /// Its folder.
    pub(super) folder: RunDir,
    /// Where it happened.
    pub(super) site: Site,
    /// What is known of it.
    pub(super) facts: RunFacts,
}

/// A worktree of which there is no record.
#[derive(Debug)]
pub(super) struct Stray {
    /// The run by its name.
    pub(super) run: RunId,
    /// Whose, by its name.
    pub(super) owner: String,
    /// Where.
    pub(super) path: PathBuf,
    /// How much it takes.
    pub(super) bytes: u64,
}

/// Looks at `runs`. `records`: also at what would go with their records. Writes nothing.
pub(super) fn survey(site: &Site, runs: &[RunDir], records: bool) -> Result<Vec<Seen>, Error> {
    let listed = site.repository.load_worktrees()?;
    let mut found = BTreeMap::new();
    runs.iter()
        .map(|run| {
            let read = read(run);
            let site = match &read {
                Ok((settings, _)) => site.of_run(run, settings)?,
                Err(_) => site.clone(),
            };
            let root = site.workplaces.root().to_owned();
            if !found.contains_key(&root) {
                found.insert(root.clone(), places(&site.workplaces, &listed)?);
            }
            let own = found[&root].iter().filter(|(_, of, _)| of == run.id());
            let facts = facts(&site, run, own, &read, records)?;
            Ok(Seen { folder: run.clone(), site, facts })
        })
        .collect()
}

/// Worktrees by whose names they are of runs of this repository that it has no record of.
pub(super) fn strays(site: &Site, seen: &[Seen]) -> Result<Vec<Stray>, Error> {
    let known: BTreeSet<RunId> = runs::list(&site.state)?.runs.iter().map(|run| run.id().clone()).collect();
    let listed = site.repository.load_worktrees()?;
    let roots = seen.iter().map(|seen| &seen.site.workplaces).chain([&site.workplaces]);
    let roots: BTreeMap<&Path, &Workplaces> = roots.map(|places| (places.root(), places)).collect();
    let mut strays = Vec::new();
    for places_there in roots.values() {
        for (place, run, occupant) in places(places_there, &listed)? {
            if !known.contains(&run) {
                let owner = match occupant {
                    Occupant::Agent { name, .. } => name.to_string(),
                    Occupant::Verify => "verify".to_owned(),
                    Occupant::Hook => "hook".to_owned(),
                    Occupant::Resolver(_) => "resolver".to_owned(),
                    Occupant::Card(card) => format!("card {card}"),
                };
                strays.push(Stray { run, owner, path: place.worktree().to_owned(), bytes: size_of(&place)? });
            }
        }
    }
    Ok(strays)
}

/// Runs of which there are refs and no record.
pub(super) fn forgotten(site: &Site) -> Result<Vec<RunId>, Error> {
    let known: BTreeSet<RunId> = runs::list(&site.state)?.runs.iter().map(|run| run.id().clone()).collect();
    let mut found = BTreeSet::new();
    for prefix in pins::PREFIXES {
        for reference in site.repository.load_refs(prefix)? {
            let run = reference.name.as_str().strip_prefix(prefix).and_then(|rest| rest.split('/').next());
            found.extend(run.and_then(|run| run.parse::<RunId>().ok()).filter(|run| !known.contains(run)));
        }
    }
    Ok(found.into_iter().collect())
}

type Read = Result<(RunSettings, RunState), Error>;

fn read(run: &RunDir) -> Read {
    let settings = load_settings(run)?;
    Ok((settings, RunState::fold(run.id().clone(), &journal::read(run)?.into_events())))
}

fn facts<'p>(
    site: &Site,
    run: &RunDir,
    places: impl Iterator<Item = &'p (Workplace, RunId, Occupant)>,
    read: &Read,
    records: bool,
) -> Result<RunFacts, Error> {
    let standing = match read {
        _ if run_lock_state(run)?.is_held() => Standing::AtWork,
        Err(error) => Standing::Unreadable(with_causes(error)),
        // One that was gone on with since, and cut short, is not.
        Ok((_, state)) if state.is_complete() => Standing::Complete,
        Ok(_) => Standing::Incomplete,
    };
    let state = read.as_ref().ok().map(|(_, state)| state);
    let mut worktrees = Vec::new();
    for (place, _, occupant) in places {
        let owner = match occupant {
            Occupant::Verify => Owner::Verify,
            Occupant::Hook => Owner::Hook,
            Occupant::Resolver(_) => Owner::Resolver,
            Occupant::Card(id) => {
                Owner::Card { id: id.clone(), open: !state.is_some_and(|state| is_closed(state, id)) }
            }
            Occupant::Agent { name, .. } => match state {
                Some(state) if state.agent(name).is_none() => Owner::Unknown(name.to_string()),
                Some(_) | None => Owner::Agent(name.clone()),
            },
        };
        worktrees.push(WorktreeFacts { owner, path: place.worktree().to_owned(), bytes: size_of(place)? });
    }
    let last = state.and_then(|state| state.last_activity_at);
    let idle = last.map_or(SignedDuration::ZERO, |last| Timestamp::now().duration_since(last));
    let record = match (records, state) {
        (false, _) => None,
        (true, None) => Some(RecordFacts { bytes: trash::size(run.root())?.bytes, pin: None }),
        (true, Some(state)) => {
            let pin = pins::load(site, state)?;
            Some(RecordFacts { bytes: trash::size(run.root())?.bytes, pin })
        }
    };
    Ok(RunFacts { run: run.id().clone(), standing, idle, worktrees, record })
}

fn is_closed(state: &RunState, card: &CardId) -> bool {
    state.cards.iter().any(|known| known.id == *card && known.state == CardState::Closed)
}

fn size_of(place: &Workplace) -> Result<u64, Error> {
    Ok(trash::size(place.worktree())?.bytes.saturating_add(trash::size(place.private())?.bytes))
}

/// The worktrees that are there in one folder, with their runs and occupants.
fn places(places: &Workplaces, listed: &[Worktree]) -> Result<Vec<(Workplace, RunId, Occupant)>, Error> {
    let root = places.root();
    // Not where the folder of all of them is away: then it is perhaps only not mounted.
    let Some(mut names) = names_in(root)? else { return Ok(Vec::new()) };
    // Also those whose folder somebody took away, and whose entry or private folder is there still.
    names.extend(names_in(&places.private_root())?.unwrap_or_default());
    let ours = listed.iter().skip(1).filter(|worktree| worktree.path.parent() == Some(root));
    names.extend(ours.filter_map(|worktree| worktree.path.file_name()).map(OsStr::to_owned));
    let occupied = names.iter().filter_map(|name| Workplaces::occupant_of(name));
    let mut found: Vec<_> = occupied.map(|(run, occupant)| (places.place(&run, &occupant), run, occupant)).collect();
    found.sort_by(|one, other| one.0.name().cmp(other.0.name()));
    Ok(found)
}

fn names_in(folder: &Path) -> Result<Option<BTreeSet<OsString>>, Error> {
    let names = |entries: Vec<std::fs::DirEntry>| entries.iter().map(std::fs::DirEntry::file_name).collect();
    Ok(listing::entries(folder)?.map(names))
}

//! Removing what is not needed any more of old runs. [`super::retention`] decides, this carries out.
//!
//! A worktree goes only when its files have just been captured and found to be what is pinned. What differs, because a
//! coordinator died in the middle of a turn or because the user worked there, is pinned and bundled first. What cannot be
//! captured stays, and is named: a whole worktree, and one of which a single file could not be read. Ignored files are
//! listed before they go ([`super::inventory`]). Records, snapshots and branches stay, unless records were asked for; then
//! [`super::pins`] says which are needed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use sandbox::Layer;
use serde::Serialize;

use super::agents::load_workspaces;
use super::decide::Desk;
use super::error::Error;
use super::forget::{forget, prune_receipts};
use super::inventory::{self, Seeded};
use super::isolation;
use super::keep::{Keeper, Kept};
use super::mend_pins::mend_pins;
use super::places::mend_links;
use super::recorder::{Quiet, Recorder};
use super::reopen::await_boxes;
pub use super::retention::{Action, Limits};
use super::retention::{Owner, Reason, Verdict, plan as decide};
use super::site::Site;
use super::start::load_settings;
use super::survey::{self, Seen};
use crate::agent::attempt::with_causes;
use crate::change::Capturer;
use crate::model::RunId;
use crate::model::plan::RunSettings;
use crate::store::lock::RunLock;
use crate::store::{JournalWriter, RunDir, Trash, Workplace, Workplaces, atomic};
use crate::workspace::{Workspace, remove};

/// What may go.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether the user named the runs, so that ones that are not complete may go too.
    pub named: bool,
    /// How much is kept of those that may go.
    pub limits: Limits,
    /// Whether records may go.
    pub records: bool,
    /// Whether worktrees may go that have single ignored files.
    pub ignored: bool,
    /// Layers that boxes may do without, beside those that the run was begun with.
    pub allowed: BTreeSet<Layer>,
}

/// What is done, or would be done, with one worktree.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The run.
    pub run: RunId,
    /// The agent, `verify`, `hook`, `resolver`, or `card` with its id.
    pub owner: String,
    /// The worktree.
    pub worktree: PathBuf,
    /// How many bytes it and its private folder take.
    pub bytes: u64,
    /// What is done with it.
    pub action: Action,
    /// Why, in a line.
    pub reason: String,
    /// Where the ignored files are listed that went with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored_list: Option<PathBuf>,
}

/// What is done, or would be done, with the record of a run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordItem {
    /// The run.
    pub run: RunId,
    /// How many bytes its folder takes.
    pub bytes: u64,
    /// What is done with it.
    pub action: Action,
    /// Why, in a line.
    pub reason: String,
}

/// What is done with a run.
#[derive(Debug)]
pub struct Cleaning {
    seen: Seen,
    owners: Vec<Owner>,
    /// Its worktrees.
    pub worktrees: Vec<Item>,
    /// Its record, where records may go.
    pub record: Option<RecordItem>,
}

/// What is to become of runs, and what there is beside them.
#[derive(Debug)]
pub struct Plan {
    /// The runs.
    pub runs: Vec<Cleaning>,
    /// Worktrees of which there is no record.
    pub strays: Vec<Item>,
    /// Runs of which there are refs, and no record.
    pub forgotten: Vec<RunId>,
}

/// Says what is to become of `runs`, the newest first. Writes nothing.
pub fn plan(site: &Site, runs: &[RunDir], options: &Options) -> Result<Plan, Error> {
    let seen = survey::survey(site, runs, options.records)?;
    let facts: Vec<_> = seen.iter().map(|seen| seen.facts.clone()).collect();
    let verdicts = decide(&facts, &options.limits, options.named);
    let (strays, forgotten) =
        if options.named { (Vec::new(), Vec::new()) } else { (strays(site, &seen)?, survey::forgotten(site)?) };
    let runs = seen.into_iter().zip(verdicts).map(|(seen, of_run)| {
        let run = &seen.facts.run;
        let trees = seen.facts.worktrees.iter().zip(of_run.worktrees);
        let worktrees = trees.map(|(tree, (action, reason))| Item {
            run: run.clone(),
            owner: tree.owner.to_string(),
            worktree: tree.path.clone(),
            bytes: tree.bytes,
            action,
            reason: reason.to_string(),
            ignored_list: None,
        });
        let worktrees = worktrees.collect();
        let record = seen.facts.record.as_ref().zip(of_run.record).map(|(record, (action, reason))| RecordItem {
            run: run.clone(),
            bytes: record.bytes,
            action,
            reason: reason.to_string(),
        });
        let owners = seen.facts.worktrees.iter().map(|tree| tree.owner.clone()).collect();
        Cleaning { seen, owners, worktrees, record }
    });
    Ok(Plan { runs: runs.collect(), strays, forgotten })
}

fn strays(site: &Site, seen: &[Seen]) -> Result<Vec<Item>, Error> {
    let found = survey::strays(site, seen)?.into_iter();
    let item = |stray: survey::Stray| Item {
        reason: format!(
            "there is no record of its run: look at it, then `git worktree remove --force --force {}`",
            stray.path.display()
        ),
        run: stray.run,
        owner: stray.owner,
        worktree: stray.path,
        bytes: stray.bytes,
        action: Action::Keep,
        ignored_list: None,
    };
    Ok(found.map(item).collect())
}

/// Takes away what removals that were cut short left, and scratch folders of the dead.
pub fn sweep(site: &Site, plan: &Plan) {
    site.sweep_scratch();
    let roots: BTreeSet<PathBuf> = plan.runs.iter().map(|run| run.seen.site.workplaces.root().to_owned()).collect();
    let trashes = roots.iter().map(|root| Trash::of_workplaces(root)).chain([Trash::of_state(&site.state)]);
    for trash in trashes {
        if let Err(error) = trash.sweep() {
            tracing::warn!(%error, "what was to be removed stays for now");
        }
    }
}

/// Removes receipts that no run tells of any more, after records have gone.
pub fn sweep_receipts(site: &Site) -> Result<u64, Error> {
    prune_receipts(site)
}

impl Cleaning {
    /// The run.
    pub fn run(&self) -> &RunId {
        &self.seen.facts.run
    }

    /// Whether anything of it is to go.
    pub fn has_work(&self) -> bool {
        let record = self.record.iter().map(|record| record.action);
        self.worktrees.iter().map(|item| item.action).chain(record).any(|action| action == Action::Remove)
    }

    /// Has everything stay, and says why.
    pub fn keep(&mut self, why: &str) {
        let worktrees = self.worktrees.iter_mut().map(|item| (&mut item.action, &mut item.reason));
        let record = self.record.iter_mut().map(|record| (&mut record.action, &mut record.reason));
        for (action, reason) in worktrees.chain(record).filter(|(action, _)| **action == Action::Remove) {
            *action = Action::Keep;
            why.clone_into(reason);
        }
    }

    /// Carries out what was planned, and takes down what really became of each part.
    pub async fn apply(&mut self, options: &Options) -> Result<(), Error> {
        let (site, folder) = (self.seen.site.clone(), self.seen.folder.clone());
        let (recorder, settings) = tokio::task::block_in_place(|| {
            site.require_writable()?;
            let lock = RunLock::try_acquire(&folder)?;
            // The lock is ours: nobody else writes here.
            atomic::remove_unfinished(folder.root())?;
            let settings = load_settings(&folder)?;
            let (writer, opened) = JournalWriter::open(&folder, lock, site.clock.clone())?;
            let recorder = Recorder::new(writer, &opened.events, Box::new(Quiet));
            let tell = |text: &str| tracing::warn!("{text}");
            await_boxes(&site, folder.id(), tell)?;
            mend_links(&site, &recorder.state(), &folder, tell)?;
            mend_pins(&site, &recorder.state(), &folder, tell)?;
            Ok::<_, Error>((recorder, settings))
        })?;
        if self.worktrees.iter().any(|item| item.action == Action::Remove) {
            let hand = Hand::new(&site, &folder, &recorder, settings, options).await?;
            for (item, owner) in self.worktrees.iter_mut().zip(&self.owners) {
                if item.action == Action::Remove {
                    hand.remove(item, owner).await;
                }
            }
        }
        let stays = self.worktrees.iter().any(|item| item.action == Action::Keep);
        if let Some(record) = self.record.as_mut().filter(|record| record.action == Action::Remove) {
            let verdict = tokio::task::block_in_place(|| forget_run(&site, &folder, &recorder, stays))?;
            if let Some((action, reason)) = verdict {
                (record.action, record.reason) = (action, reason.to_string());
            }
        }
        Ok(())
    }
}

/// Forgets a run; or gives why not.
fn forget_run(site: &Site, folder: &RunDir, recorder: &Recorder, stays: bool) -> Result<Option<Verdict>, Error> {
    if stays {
        return Ok(Some((Action::Keep, Reason::HasWorktrees)));
    }
    Ok(match recorder.forget(|state| forget(site, folder, state))? {
        Ok(()) => None,
        Err(pin) => Some((Action::Keep, Reason::Pinned(pin))),
    })
}

/// What removing the worktrees of one run needs.
struct Hand<'a> {
    site: &'a Site,
    folder: &'a RunDir,
    recorder: &'a Recorder,
    settings: RunSettings,
    capturer: Capturer,
    seeded: Seeded,
    workspaces: Vec<(u32, Workspace)>,
    ignored: bool,
}

impl<'a> Hand<'a> {
    async fn new(
        site: &'a Site,
        folder: &'a RunDir,
        recorder: &'a Recorder,
        mut settings: RunSettings,
        options: &Options,
    ) -> Result<Self, Error> {
        let state = recorder.state();
        isolation::allow(&mut settings.plan, &options.allowed);
        let begun = state.started_at.unwrap_or_else(|| (site.clock)());
        let capturer = site.capturer(begun, &settings.plan, settings.pinned_paths.clone()).await?;
        for text in isolation::warnings(&capturer.host, &isolation::LeftOut::new()) {
            tracing::warn!("{text}");
        }
        let (workspaces, seeded) = tokio::task::block_in_place(|| {
            let mut workspaces = Vec::new();
            for agent in &state.agents {
                workspaces.extend((1..).zip(load_workspaces(site, folder, &agent.name)?));
            }
            Ok::<_, Error>((workspaces, Seeded::load(site, &settings.plan)?))
        })?;
        Ok(Self { site, folder, recorder, settings, capturer, seeded, workspaces, ignored: options.ignored })
    }

    /// Removes one worktree if all in it is kept; takes down what became of it.
    async fn remove(&self, item: &mut Item, owner: &Owner) {
        let done = match self.may_go(item, owner).await {
            Ok(Ok(reason)) => self.take_away(item).map(|()| Ok(reason)),
            other => other,
        };
        (item.action, item.reason) = match done {
            Ok(Ok(reason)) => (Action::Remove, reason),
            Ok(Err(reason)) => (Action::Keep, reason),
            // The others are not to suffer for this one.
            Err(error) => (Action::Keep, format!("it could not be removed: {}", with_causes(&error))),
        };
    }

    fn take_away(&self, item: &Item) -> Result<(), Error> {
        let place = self.place(item)?;
        tokio::task::block_in_place(|| remove(&self.site.repository, &self.site.state, &place))?;
        Ok(())
    }

    /// Why a worktree may go, or why it may not.
    async fn may_go(&self, item: &mut Item, owner: &Owner) -> Result<Result<String, String>, Error> {
        let name = match owner {
            // Nothing in it is anybody's work.
            Owner::Verify | Owner::Resolver | Owner::Hook => {
                return Ok(Ok("nothing of it is anybody's work".to_owned()));
            }
            Owner::Card { id, .. } => {
                let desk = Desk::of(self.site.clone(), self.recorder.clone());
                let lost = tokio::task::block_in_place(|| desk.unfinished_edit(id))?;
                return Ok(lost.map_or_else(|| Ok("its card is closed".to_owned()), Err));
            }
            Owner::Unknown(_) => return Ok(Err(Reason::NotKnown.to_string())),
            Owner::Agent(name) => name,
        };
        if item.worktree.symlink_metadata().is_err() {
            return Ok(Ok("its folder is gone; its turns are kept".to_owned()));
        }
        let state = self.recorder.state();
        let workspace = self.workspaces.iter().find(|(_, workspace)| workspace.place.worktree() == item.worktree);
        let (Some(task), Some(known)) = (self.settings.plan.agent(name), state.agent(name)) else {
            return Ok(Err(Reason::NotKnown.to_string()));
        };
        let Some((generation, workspace)) = workspace else {
            // That a worktree is there is written down before an agent is let in.
            let never = known.last_turn_in(&item.worktree).is_none();
            let known =
                if never { Ok("no agent was ever in it".to_owned()) } else { Err(Reason::NotKnown.to_string()) };
            return Ok(known);
        };
        let (site, capturer, recorder) = (self.site, &self.capturer, self.recorder);
        let keeper = Keeper { site, capturer, recorder, workspace, task, known };
        let kept = match keeper.keep("kept before removal").await {
            Err(error) => return Ok(Err(format!("it could not be captured: {}", with_causes(&error)))),
            Ok(kept) => kept,
        };
        if let Some(why) = stays_for(&kept) {
            return Ok(Err(why));
        }
        if let Some(why) = inventory::obstacle(&kept.ignored, &self.seeded, self.ignored) {
            return Ok(Err(why));
        }
        item.ignored_list = tokio::task::block_in_place(|| {
            inventory::keep(self.folder, (name, *generation), workspace.place.worktree(), &kept.ignored)
        })?;
        Ok(Ok(match kept.new {
            Some(turn) => format!("what had changed since was kept as turn {turn}"),
            None => "its files are what is pinned".to_owned(),
        }))
    }

    fn place(&self, item: &Item) -> Result<Workplace, Error> {
        let occupant = item.worktree.file_name().and_then(Workplaces::occupant_of);
        let (run, occupant) = occupant.ok_or_else(|| crate::store::Error::NotFound {
            what: "worktree",
            name: item.worktree.display().to_string(),
            known: Vec::new(),
        })?;
        Ok(self.site.workplaces.place(&run, &occupant))
    }
}

/// What of a worktree is kept nowhere, as the reason for it to stay.
fn stays_for(kept: &Kept) -> Option<String> {
    let what = kept.lost.as_ref()?;
    Some(format!("not all of it could be captured ({what}): mend or delete that, then clean again"))
}

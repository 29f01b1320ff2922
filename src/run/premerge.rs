//! The user's own `pre-merge-commit` hook, before a landing: only when asked for.
//!
//! The hook finds what it would find in `git merge`: a work tree and an index that hold the result, `HEAD` at the target,
//! `MERGE_HEAD` at what comes in, `GIT_DIR` and `GIT_INDEX_FILE`. But it is a worktree of ours, which is thrown away: the
//! user's checkout is not looked at, and nothing has moved when the hook says no. The repository's lock is not held
//! meanwhile, for a hook may take its time; landing looks anew whether the target is where it was.
//!
//! It runs outside every box, with all of the user's authority, on files that agents wrote: that is what was asked for. Which
//! program it is comes from the user's settings and the user's own checkout, never from what is to land.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::Error;
use super::hooks::{HookName, told};
use super::recorder::Recorder;
use super::signals::Signals;
use super::site::Site;
use crate::git::{Addition, Fill, Hook, Place};
use crate::model::event::{EventKind, HookSource, Subject};
use crate::model::gate::{BlockKind, GateBlock};
use crate::model::{CommitId, RefName, RepoPath};
use crate::store::lock::{Patience, RepositoryLock};
use crate::store::outside::{Done, End, Outside};
use crate::store::{Occupant, Record, Workplace, atomic};
use crate::workspace::remove;

/// The hook.
const NAME: &str = "pre-merge-commit";

/// How long it may take.
const TIMEOUT: Duration = Duration::from_mins(10);

/// How much of what it printed is shown with its refusal.
const SHOWN: usize = 600;

/// A landing that the hook is asked about.
pub(super) struct PreMerge<'a> {
    pub(super) site: &'a Site,
    pub(super) recorder: &'a Recorder,
    pub(super) signals: &'a Signals,
    pub(super) target: &'a RefName,
    /// Where the target stands.
    pub(super) onto: &'a CommitId,
    /// What it is to be set to.
    pub(super) candidate: &'a CommitId,
}

impl PreMerge<'_> {
    /// Runs the hook. What is in the way of landing for it; none if nothing is.
    pub(super) async fn ask(&self) -> Result<Option<GateBlock>, Error> {
        let repository = &self.site.repository;
        let hook = match tokio::task::block_in_place(|| repository.load_hook(NAME))? {
            Hook::At(path) => path,
            Hook::NotExecutable(path) => {
                self.recorder.warn(&format!("the hook `{}` cannot be executed, and was not run", path.display()));
                return Ok(None);
            }
            Hook::Absent(path) => {
                self.recorder.warn(&format!("there is no hook `{}`: none was run", path.display()));
                return Ok(None);
            }
        };
        let place = self.site.workplaces.place(self.recorder.run().id(), &Occupant::Hook);
        let result = self.ask_in(&place, &hook).await;
        let removed = tokio::task::block_in_place(|| remove(repository, &self.site.state, &place));
        if let Err(error) = removed {
            let path = place.worktree().display();
            self.recorder.warn(&format!("the worktree `{path}` of the hook was not removed: {error}"));
        }
        result
    }

    async fn ask_in(&self, place: &Workplace, hook: &Path) -> Result<Option<GateBlock>, Error> {
        let admin_dir = tokio::task::block_in_place(|| self.make(place))?;
        let begun = Instant::now();
        let command = Outside {
            argv: vec![hook.into()],
            folder: place.worktree().to_owned(),
            environment: self.site.environment.variables.clone().into_iter().collect(),
            more: self.variables(&admin_dir),
            input: Vec::new(),
            timeout: TIMEOUT,
        };
        let (reader, writer) = std::io::pipe().map_err(Error::Hooks)?;
        let mut running = tokio::task::spawn_blocking(move || command.run(Some(&reader.into())));
        let done = tokio::select! {
            done = &mut running => done,
            () = self.signals.stop.cancelled() => {
                drop(writer);
                running.await
            }
        };
        let done = done.map_err(|error| Error::Hooks(std::io::Error::other(error)))?;
        let argv = vec![hook.display().to_string()];
        let name = HookName { hook: NAME, source: HookSource::Git, of: None };
        tokio::task::block_in_place(|| {
            let log = format!("{}-{NAME}", self.recorder.state().last_seq + 1);
            let finished = told(self.recorder, name, &argv, &log, &done, begun.elapsed());
            self.recorder.record(Subject::run(), EventKind::HookFinished(finished))?;
            if done.end != End::Exited(0) {
                return Ok(Some(refused(hook, &done)));
            }
            let touched = self.site.repository.load_touched(place.worktree(), self.candidate)?;
            Ok((!touched.is_empty()).then(|| changed(hook, touched)))
        })
    }

    /// Makes the worktree as `git merge` leaves one right before it commits.
    fn make(&self, place: &Workplace) -> Result<std::path::PathBuf, Error> {
        let Self { site, .. } = self;
        let repository = &site.repository;
        site.require_room()?;
        // One that a program which died left.
        remove(repository, &site.state, place)?;
        let reason = format!("sandbox {} hook", self.recorder.run().id());
        let added = {
            let waiting =
                |_: Option<&crate::store::Holder>| tracing::warn!("waiting for another `sandbox` on this repository");
            let _lock = RepositoryLock::acquire(&site.state, Patience::default(), waiting)?;
            repository.add_worktree(&Addition {
                path: place.worktree(),
                commit: self.candidate,
                place: Place::Detached,
                reason: &reason,
            })?
        };
        repository.fill_worktree(&added, Fill::Checkout { workers: 0 })?;
        repository.detach_worktree(&added.admin_dir, self.onto)?;
        let message = format!("Land {} on {}\n", self.recorder.run().id(), self.target.short());
        for (name, text) in
            [("MERGE_HEAD", format!("{}\n", self.candidate)), ("MERGE_MSG", message), ("MERGE_MODE", String::new())]
        {
            atomic::write(&added.admin_dir.join(name), text.as_bytes())?;
        }
        Ok(added.admin_dir)
    }

    fn variables(&self, admin_dir: &Path) -> Vec<(OsString, OsString)> {
        vec![
            ("GIT_DIR".into(), admin_dir.into()),
            ("GIT_INDEX_FILE".into(), admin_dir.join("index").into()),
            // As git says where nobody is to be asked for a message.
            ("GIT_EDITOR".into(), ":".into()),
            ("SANDBOX_RUN".into(), self.recorder.run().id().as_str().into()),
        ]
    }
}

fn block(paths: Vec<RepoPath>, message: String, next: &str) -> GateBlock {
    let kind = BlockKind::HookRefused;
    GateBlock { kind, agent: None, card: None, paths, message, next: next.to_owned() }
}

fn refused(hook: &Path, done: &Done) -> GateBlock {
    let said = String::from_utf8_lossy(&done.output);
    let said = said.trim();
    let start = (said.len().saturating_sub(SHOWN)..=said.len()).find(|at| said.is_char_boundary(*at)).unwrap_or(0);
    let said = if said.is_empty() { String::new() } else { format!(": {}", &said[start..]) };
    let message = format!("the hook `{}` {}{said}", hook.display(), done.end);
    block(Vec::new(), message, "mend what it names, or land without `--hooks`")
}

fn changed(hook: &Path, touched: Vec<RepoPath>) -> GateBlock {
    let named: Vec<String> = touched.iter().take(5).map(|path| format!("`{path}`")).collect();
    let more = if touched.len() > named.len() { " and more" } else { "" };
    let message = format!(
        "the hook `{}` changed {}{more}: what lands is what was verified, and nothing else",
        hook.display(),
        named.join(", ")
    );
    block(touched, message, "make that change in a run of its own, or land without `--hooks`")
}

//! From agents that have ended to a decision, and to the target where that was asked for.

use std::time::Duration;

use super::coordinator::{Report, close};
use super::error::Error;
use super::gate;
use super::premerge::PreMerge;
use super::recorder::Recorder;
use super::signals::{Ending, Signals};
use super::site::Site;
use crate::change::{Capturer, Snapshot};
use crate::git::{Head, Renames};
use crate::integrate::{Facts, Integration, Landed, Landing, Settled, integrate, land, see_target, settle};
use crate::model::currency::{Asker, Authority, Refusal};
use crate::model::event::{EffectKind, EventKind, GateDecided, RunStarted, Stage, StageEnter, Subject};
use crate::model::gate::{BlockKind, GateBlock};
use crate::model::plan::{LandMode, Plan};
use crate::model::run::RunState;
use crate::model::{CommitId, RefName, RepoPath};
use crate::store::lock::{Patience, waiting_words};
use crate::store::{Occupant, Record};
use crate::verify::{Verification, judge, no_parser};

/// How long updating the user's checkout may take.
const LANDING_TIMEOUT: Duration = Duration::from_mins(30);

/// What is needed to bring a run to its decision.
#[derive(Debug)]
pub(super) struct Finish<'a> {
    pub(super) site: &'a Site,
    pub(super) plan: &'a Plan,
    pub(super) recorder: &'a Recorder,
    pub(super) capturer: &'a Capturer,
    pub(super) head: &'a Head,
    pub(super) signals: &'a Signals,
    /// Whether the user's own `pre-merge-commit` hook is asked before the target moves.
    pub(super) asks_hook: bool,
    /// Who asks: a verb by which a person wants exactly this, or the run as it goes on.
    pub(super) asked: Asker,
}

impl Finish<'_> {
    /// Integrates, verifies, decides, and lands if `landing`. `fresh`: no earlier receipt serves.
    pub(super) async fn complete(&self, landing: bool, fresh: bool) -> Result<Report, Error> {
        if self.signals.ending().is_none() {
            self.integrate().await?;
            self.verify(fresh).await?;
        }
        self.conclude(landing).await
    }

    /// Decides, and lands if `landing` and the gate is open.
    pub(super) async fn conclude(&self, landing: bool) -> Result<Report, Error> {
        let decision = self.decide().await?;
        if self.signals.ending().is_some() || !decision.open || !landing {
            return self.close(&decision);
        }
        self.land().await
    }

    /// Ends the run without landing.
    fn close(&self, decision: &GateDecided) -> Result<Report, Error> {
        let (code, complete) = match self.signals.ending() {
            Some(ending) => (ending.exit_code(), false),
            None => (gate::exit_code(decision), decision.open),
        };
        tokio::task::block_in_place(|| close(self.recorder, code, complete, None))
    }

    /// A stage of the whole run.
    async fn stage<T>(&self, stage: Stage, work: impl Future<Output = Result<(T, String), Error>>) -> Result<T, Error> {
        let story_id = self.recorder.run().id().to_string();
        let enter = StageEnter { story_id, stage, invocation: Some(crate::store::process::current()?) };
        super::stage::stage(self.recorder, Subject::run(), enter, Box::pin(work)).await
    }

    /// The commit the candidate is built on: the target's tip as it is now, else the run's base.
    fn onto(&self, state: &RunState) -> Result<CommitId, Error> {
        let started = started_of(state)?;
        match started.target.clone() {
            Some(target) => {
                let tip = see_target(&self.site.repository, self.recorder, state, &target)?;
                tip.ok_or_else(|| Error::NoTarget { branch: target.short().to_owned() })
            }
            None => Ok(started.base.clone()),
        }
    }

    /// Previews, cards and the candidate, anew.
    pub(super) async fn integrate(&self) -> Result<(), Error> {
        self.stage(Stage::Integrate, async {
            tokio::task::block_in_place(|| {
                let state = self.recorder.state();
                let onto = self.onto(&state)?;
                let started = started_of(&state)?;
                let made = integrate(&Integration {
                    facts: Facts {
                        repository: &self.site.repository,
                        run: self.recorder.run(),
                        plan: self.plan,
                        state: &state,
                        base: &started.base,
                        identity: &started.identity,
                        started_at: state.started_at.unwrap_or_default(),
                    },
                    target: started.target.clone(),
                    onto,
                    asked: self.asked,
                    // A run is for merging what its agents did, and so is every verb that goes on with one.
                    authority: Authority::Granted,
                    ending: &|| self.signals.ending().is_some(),
                    pause: &|time| self.pause(time),
                    journal: self.recorder,
                })?;
                let after = self.recorder.state();
                let merged = after.candidate.as_ref().map_or(0, |candidate| candidate.merged.len());
                let why = made.held_back.map_or_else(String::new, |refusal| format!(": {refusal}"));
                Ok(((), format!("{merged} merged, {} cards{why}", after.open_cards().count())))
            })
        })
        .await
    }

    /// Has the candidate judged, where there is one and a verifier.
    pub(super) async fn verify(&self, fresh: bool) -> Result<(), Error> {
        let state = self.recorder.state();
        let (Some(candidate), Some(settings)) = (&state.candidate, &self.plan.verify) else { return Ok(()) };
        if candidate.merged.is_empty() || self.signals.stop.is_cancelled() {
            return Ok(());
        }
        let run = self.recorder.run();
        let verification = Verification {
            run,
            state: &self.site.state,
            settings,
            capturer: self.capturer,
            head: self.head,
            place: self.site.workplaces.place(run.id(), &Occupant::Verify),
            candidate: Snapshot { commit: candidate.head.to.clone(), tree: candidate.head.tree.clone() },
            fresh,
            number: state.last_seq + 1,
            parser: no_parser,
            journal: self.recorder,
            stop: self.signals.stop.clone(),
            kill: self.signals.kill.clone(),
            clock: self.signals.clock.clone(),
        };
        self.stage(Stage::ParentVerify, async {
            let judged = judge(verification).await?;
            Ok(((), judged.receipt.verdict.to_string()))
        })
        .await
    }

    async fn decide(&self) -> Result<GateDecided, Error> {
        self.stage(Stage::Complete, async {
            tokio::task::block_in_place(|| {
                let state = self.recorder.state();
                let facts = self.gate_facts(&state)?;
                let decision = gate::decide(&state, &facts);
                tell_decision(self.recorder, &decision)?;
                let told = if decision.open { "open" } else { "blocked" };
                Ok((decision, told.to_owned()))
            })
        })
        .await
    }

    /// What the gate must be told of the repository.
    fn gate_facts(&self, state: &RunState) -> Result<gate::Facts, Error> {
        let ended_early = self.signals.ending().map(|ending| words_of(ending).to_owned());
        let (Some(started), Some(candidate)) = (&state.started, &state.candidate) else {
            return Ok(gate::Facts { ended_early, ..gate::Facts::default() });
        };
        let before = &started.baseline;
        if before.baseline_hashes.is_empty() || self.site.repository.top_level().is_none() {
            return Ok(gate::Facts { ended_early, ..gate::Facts::default() });
        }
        let now = self.site.repository.load_status()?.hashes;
        let changes = self.site.repository.load_changes(&started.base_tree, &candidate.head.tree, Renames::Ignore)?;
        let user_files_changed = changes
            .iter()
            .map(|change| &change.path)
            .filter(|path| {
                before.baseline_hash(path).is_some_and(|hash| now.get(path).map(String::as_str) != Some(hash))
            })
            .cloned()
            .collect::<Vec<RepoPath>>();
        Ok(gate::Facts { user_files_changed, ended_early })
    }

    /// Lands the candidate. The target having moved meanwhile, everything is done once more, and only once.
    async fn land(&self) -> Result<Report, Error> {
        for again in [true, false] {
            let state = self.recorder.state();
            if let Some(block) = self.forbidden(&state) {
                return self.refuse(vec![block]);
            }
            let (Some(candidate), Some(target)) = (&state.candidate, target_of(&state)) else {
                return self.refuse(vec![no_branch()]);
            };
            let landed = self.land_once(&target, &candidate.head.onto, &candidate.head.to).await?;
            match landed {
                Landed::Done { commit, .. } => {
                    return tokio::task::block_in_place(|| close(self.recorder, 0, true, Some(commit)));
                }
                // The gate is open, so every agent's work is part of the candidate; and the target is the candidate.
                Landed::Nothing => {
                    let landed = candidate.head.to.clone();
                    return tokio::task::block_in_place(|| close(self.recorder, 0, true, Some(landed)));
                }
                Landed::Refused(blocks) => return self.refuse(blocks),
                Landed::NotBegun(Refusal::Ending) => {
                    let decision = self.decide().await?;
                    return self.close(&decision);
                }
                Landed::NotBegun(refusal) => return self.refuse(vec![self.not_begun(&target, refusal)]),
                Landed::Moved { .. } if again => {
                    self.integrate().await?;
                    self.verify(false).await?;
                    let decision = self.decide().await?;
                    if self.signals.ending().is_some() || !decision.open {
                        return self.close(&decision);
                    }
                }
                Landed::Moved { .. } => {
                    let state = self.recorder.state();
                    tokio::task::block_in_place(|| see_target(&self.site.repository, self.recorder, &state, &target))?;
                }
            }
        }
        let told = block(
            BlockKind::TargetMoved,
            "the target moved again while the result was made for it",
            &format!("`sandbox land {}` tries anew", self.recorder.run().id()),
        );
        self.refuse(vec![told])
    }

    /// Why landing is not allowed here, or cannot be told to be, where it was asked for.
    fn forbidden(&self, state: &RunState) -> Option<GateBlock> {
        match landing_authority(self.plan.land, target_of(state).is_some()) {
            Authority::Granted => None,
            Authority::Denied => Some(block(
                BlockKind::CannotLand,
                "the plan says `land = \"never\"`",
                "change the plan, or merge the candidate by hand",
            )),
            Authority::Unknown => Some(no_branch()),
        }
    }

    fn not_begun(&self, target: &RefName, refusal: Refusal) -> GateBlock {
        let message = format!("`{}` was not moved: {refusal}", target.short());
        let next = format!("`sandbox land {0}` tries it anew", self.recorder.run().id());
        block(BlockKind::CannotLand, &message, &next)
    }

    /// Finds out what became of what was claimed by a coordinator that died. Gives what keeps it from being settled.
    pub(super) async fn settle_claims(&self) -> Result<Vec<GateBlock>, Error> {
        let mut stuck = Vec::new();
        for claim in self.recorder.state().open_claims {
            let stage = match claim.effect {
                EffectKind::Merge => Stage::Integrate,
                EffectKind::Land => Stage::Land,
            };
            let (repository, state_dir) = (&self.site.repository, &self.site.state);
            let settled = self.stage(stage, async {
                let settled = tokio::task::block_in_place(|| {
                    settle(repository, state_dir, self.recorder, &claim, Patience::default(), &|holder| {
                        self.recorder.warn(&waiting_words(holder));
                    })
                })?;
                let told = match &settled {
                    Settled::Confirmed => "it was done",
                    Settled::Released(_) => "it was not done",
                    Settled::Stuck(_) => "it cannot be told",
                };
                Ok((settled, told.to_owned()))
            });
            match settled.await? {
                Settled::Confirmed | Settled::Released(_) => {}
                Settled::Stuck(blocks) => stuck.extend(blocks),
            }
        }
        Ok(stuck)
    }

    async fn land_once(&self, target: &RefName, onto: &CommitId, candidate: &CommitId) -> Result<Landed, Error> {
        self.stage(Stage::Land, async {
            if self.asks_hook && onto != candidate {
                let (site, recorder, signals) = (self.site, self.recorder, self.signals);
                let premerge = PreMerge { site, recorder, signals, target, onto, candidate };
                if let Some(block) = premerge.ask().await? {
                    return Ok((Landed::Refused(vec![block]), "refused by the hook".to_owned()));
                }
            }
            let state = self.recorder.state();
            let landed = tokio::task::block_in_place(|| {
                land(&Landing {
                    repository: &self.site.repository,
                    state_dir: &self.site.state,
                    run: self.recorder.run(),
                    state: &state,
                    target,
                    expected_tip: onto,
                    candidate,
                    identity: &started_of(&state)?.identity,
                    started_at: state.started_at.unwrap_or_default(),
                    timeout: LANDING_TIMEOUT,
                    patience: Patience::default(),
                    notice: &|holder| self.recorder.warn(&waiting_words(holder)),
                    asked: self.asked,
                    authority: landing_authority(self.plan.land, true),
                    ending: &|| self.signals.ending().is_some(),
                    pause: &|time| self.pause(time),
                    journal: self.recorder,
                })
                .map_err(Error::from)
            })?;
            let told = match &landed {
                Landed::Done { commit, .. } => format!("landed {}", commit.short()),
                Landed::Nothing => "nothing to land".to_owned(),
                Landed::Moved { .. } => "the target has moved".to_owned(),
                Landed::Refused(_) => "refused".to_owned(),
                Landed::NotBegun(refusal) => refusal.to_string(),
            };
            Ok((landed, told))
        })
        .await
    }

    /// Waits, but no longer than until the run is to end.
    fn pause(&self, time: Duration) {
        let waiting = tokio::time::timeout(time, self.signals.stop.cancelled());
        drop(tokio::runtime::Handle::current().block_on(waiting));
    }

    pub(super) fn refuse(&self, blocks: Vec<GateBlock>) -> Result<Report, Error> {
        tokio::task::block_in_place(|| {
            let decision = GateDecided { open: false, blocks };
            tell_decision(self.recorder, &decision)?;
            let code = self.signals.ending().map_or_else(|| gate::exit_code(&decision), Ending::exit_code);
            close(self.recorder, code, false, None)
        })
    }
}

/// Whether the target may be moved, where that was asked for. Without a branch that is named nobody can tell.
fn landing_authority(mode: LandMode, has_target: bool) -> Authority {
    let wanted = match mode {
        LandMode::Never => false,
        LandMode::Manual | LandMode::Auto => true,
    };
    Authority::of(&[Some(wanted), has_target.then_some(true)])
}

fn no_branch() -> GateBlock {
    block(BlockKind::CannotLand, "there is no branch to land on", "name one with `target` in the plan")
}

fn words_of(ending: Ending) -> &'static str {
    match ending {
        Ending::Interrupted => "the run was interrupted",
        Ending::Terminated => "the run was stopped",
        Ending::OutOfTime => "the run's time is over",
    }
}

fn block(kind: BlockKind, message: &str, next: &str) -> GateBlock {
    GateBlock { kind, agent: None, card: None, paths: Vec::new(), message: message.to_owned(), next: next.to_owned() }
}

/// How the run began. A journal without it is damaged.
pub(super) fn started_of(state: &RunState) -> Result<&RunStarted, Error> {
    state.started.as_ref().ok_or_else(|| Error::NoStart { run: state.run_id.clone() })
}

fn target_of(state: &RunState) -> Option<RefName> {
    state.started.as_ref().and_then(|started| started.target.clone())
}

/// Records a decision, and what it means for the run where the gate stays shut.
pub(super) fn tell_decision(recorder: &Recorder, decision: &GateDecided) -> Result<(), Error> {
    recorder.record(Subject::run(), EventKind::GateDecided(decision.clone()))?;
    if !decision.open {
        let blocked = gate::completion_blocked(&recorder.state(), decision);
        recorder.record(Subject::run(), EventKind::CompletionBlocked(blocked))?;
    }
    Ok(())
}

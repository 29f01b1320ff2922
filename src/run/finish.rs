//! From agents that have ended to a decision, and to the target where that was asked for.

use std::time::Duration;

use super::coordinator::{Report, close};
use super::error::Error;
use super::gate;
use super::premerge::PreMerge;
use super::recorder::Recorder;
use super::signals::{Ending, Signals};
use super::site::Site;
use crate::board;
use crate::change::{Capturer, Snapshot};
use crate::git::{Head, Renames};
use crate::integrate::{Facts, Integrated, Integration, Landed, Landing, Settled, integrate, land, see_target, settle};
use crate::model::card::{Card, CardKind, CompleteCard};
use crate::model::currency::{Asker, Authority, Refusal, State};
use crate::model::event::{CardClosed, EffectKind, EventKind, GateDecided, RunStarted, Stage, StageEnter, Subject};
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

    /// Previews, cards and the candidate, anew. Where something moves after it was looked at, once more; and only once.
    pub(super) async fn integrate(&self) -> Result<(), Error> {
        self.stage(Stage::Integrate, async {
            tokio::task::block_in_place(|| {
                let mut made = self.integrate_once()?;
                if made.moved.is_some() {
                    made = self.integrate_once()?;
                }
                let after = self.recorder.state();
                let merged = after.candidate.as_ref().map_or(0, |candidate| candidate.merged.len());
                let left_out = made.left_out().map(|(agent, refusal)| format!("`{agent}` is left out: {refusal}"));
                let why = made.held_back.iter().map(ToString::to_string).chain(made.moved.clone()).chain(left_out);
                let told = format!("{merged} merged, {} cards", after.open_cards().count());
                Ok(((), std::iter::once(told).chain(why).collect::<Vec<_>>().join("; ")))
            })
        })
        .await
    }

    fn integrate_once(&self) -> Result<Integrated, Error> {
        let state = self.recorder.state();
        let onto = self.onto(&state)?;
        let started = started_of(&state)?;
        Ok(integrate(&Integration {
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
        })?)
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
                // The target is the candidate: it has everything. Where this run put it there, it stands where that is; else
                // somebody else did, and nothing has landed.
                Landed::Nothing => {
                    let landed = state.landed.as_ref().map(|_| candidate.head.to.clone());
                    return tokio::task::block_in_place(|| close(self.recorder, 0, true, landed));
                }
                Landed::Refused(blocks) => return self.refuse(blocks),
                Landed::Stuck(blocks) => {
                    tokio::task::block_in_place(|| self.park_landing(&blocks))?;
                    let decision = self.decide().await?;
                    return self.close(&decision);
                }
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

    /// Finds out what became of what was claimed by a coordinator that died. What cannot be told waits on a card, which keeps
    /// only landing from going on; and once it can be told, that card goes.
    pub(super) async fn settle_claims(&self) -> Result<(), Error> {
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
                Settled::Stuck(blocks) => tokio::task::block_in_place(|| self.park_landing(&blocks))?,
            }
        }
        tokio::task::block_in_place(|| self.close_landing_cards())
    }

    /// Opens the card of a landing that cannot be told of, for what is in the way of that now.
    fn park_landing(&self, blocks: &[GateBlock]) -> Result<(), Error> {
        let state = self.recorder.state();
        // There is one at a time: while it is open no other is begun.
        let Some(claim) = state.open_claims.iter().find(|claim| claim.effect == EffectKind::Land) else {
            return Ok(());
        };
        let card = board::in_run(board::landing(claim, blocks), self.recorder.run().id());
        for known in landing_cards(&state).filter(|known| known.id != card.id) {
            self.close_card(known, format!("something else is in the way of telling: card {}", card.id))?;
        }
        if landing_cards(&state).any(|known| known.id == card.id) {
            return Ok(());
        }
        let card = CompleteCard::new(card).map_err(crate::integrate::Error::from)?;
        self.recorder.record(Subject::run(), EventKind::CardOpened(card))?;
        Ok(())
    }

    /// Closes the card of a landing of which it is known now what became of it.
    fn close_landing_cards(&self) -> Result<(), Error> {
        let state = self.recorder.state();
        if state.open_claims.iter().any(|claim| claim.effect == EffectKind::Land) {
            return Ok(());
        }
        let has_happened = state.landing.as_ref().is_some_and(|item| item.state == State::Confirmed);
        let told = if has_happened { "it is seen to have happened" } else { "it is seen not to have happened" };
        for card in landing_cards(&state) {
            self.close_card(card, told.to_owned())?;
        }
        Ok(())
    }

    fn close_card(&self, card: &Card, resolution: String) -> Result<(), Error> {
        let closed = CardClosed { card: card.id.clone(), resolution, answer: None };
        self.recorder.record(Subject::run(), EventKind::CardClosed(closed))?;
        Ok(())
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
                Landed::Stuck(_) => "it cannot be told".to_owned(),
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

fn landing_cards(state: &RunState) -> impl Iterator<Item = &Card> {
    state.open_cards().filter(|card| card.kind == CardKind::Landing)
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

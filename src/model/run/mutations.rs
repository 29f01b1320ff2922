//! How what waits to be put on a branch stands: read off the journal, and asked before anything is written into it.

use crate::model::AgentName;
use crate::model::currency::{Claim, Input, Item, Refusal, Release, Sight, State, step};
use crate::model::event::{
    CandidateAdvanced, CardClosed, Currency, Effect, EffectKind, EventKind, Invocation, MergePreviewed, PreviewResult,
    Subject,
};

use super::RunState;

/// What an item is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// An agent's work, and the candidate.
    Merging(AgentName),
    /// The candidate, and the target.
    Landing,
}

/// Whether an event is asked about, or is in the journal already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// It is to be written: what is refused is an error.
    Before,
    /// It was written by whoever held the run then. What an older version wrote without a claim counts as found, and who
    /// settles another's claim had taken the run over.
    After,
}

/// Items as events change them, one after the other.
struct Course<'s> {
    state: &'s RunState,
    reading: Reading,
    changed: Vec<(Place, Item)>,
}

impl Course<'_> {
    fn item(&self, place: &Place) -> Option<Item> {
        let changed = self.changed.iter().rev().find(|(at, _)| at == place).map(|(_, item)| item.clone());
        changed.or_else(|| match place {
            Place::Merging(agent) => self.state.agent(agent)?.merging.clone(),
            Place::Landing => self.state.landing.clone(),
        })
    }

    fn take(&mut self, place: &Place, item: &Item, input: &Input<'_>) -> Result<(), Refusal> {
        match step(item, input) {
            Ok(item) => self.changed.push((place.clone(), item)),
            Err(refusal) if self.reading == Reading::Before => return Err(refusal),
            // What is in the journal cannot be refused any more: the item stays as it was.
            Err(_) => {}
        }
        Ok(())
    }

    /// Takes in what happens to an item that is there.
    fn known(&mut self, place: &Place, input: &Input<'_>) -> Result<(), Refusal> {
        match self.item(place) {
            Some(item) => self.take(place, &item, input),
            None => Ok(()),
        }
    }

    /// Takes in a look at what may be there for the first time.
    fn look(&mut self, place: &Place, sight: &Sight, input: &Input<'_>) -> Result<(), Refusal> {
        let item = self.item(place).unwrap_or_else(|| Item::new(sight.clone()));
        self.take(place, &item, input)
    }

    /// Takes in how a claim ended.
    fn settle(&mut self, place: &Place, by: &Invocation, input: &Input<'_>) -> Result<(), Refusal> {
        let Some(item) = self.item(place) else { return Ok(()) };
        let foreign = item.state == State::Claimed && item.claimed_by.as_ref() != Some(by);
        if foreign && self.reading == Reading::After {
            self.take(place, &item, &Input::Abandon)?;
        }
        self.known(place, input)
    }
}

impl RunState {
    /// Whether an event may be written now: its first reason against it, if there is any.
    pub fn admit(&self, subject: &Subject, kind: &EventKind) -> Result<(), Refusal> {
        self.course(subject, kind, Reading::Before).map(drop)
    }

    /// Takes in what an event says of things that wait to be put on a branch.
    pub(super) fn follow_mutations(&mut self, subject: &Subject, kind: &EventKind) {
        let changed = self.course(subject, kind, Reading::After).unwrap_or_default();
        self.put(changed);
    }

    /// Takes the run over from whoever held it: what they had claimed is theirs no longer.
    pub fn take_over(&mut self) {
        let agents = self.agents.iter().map(|agent| Place::Merging(agent.name.clone()));
        let course = Course { state: self, reading: Reading::After, changed: Vec::new() };
        let abandoned = |place: Place| {
            let item = step(&course.item(&place)?, &Input::Abandon).ok()?;
            Some((place, item))
        };
        let changed = agents.chain([Place::Landing]).filter_map(abandoned).collect();
        self.put(changed);
    }

    fn put(&mut self, changed: Vec<(Place, Item)>) {
        for (place, item) in changed {
            match place {
                Place::Landing => self.landing = Some(item),
                Place::Merging(name) => {
                    if let Some(agent) = self.agents.iter_mut().find(|agent| agent.name == name) {
                        agent.merging = Some(item);
                    }
                }
            }
        }
    }

    fn course(&self, subject: &Subject, kind: &EventKind, reading: Reading) -> Result<Vec<(Place, Item)>, Refusal> {
        let mut course = Course { state: self, reading, changed: Vec::new() };
        match kind {
            EventKind::MergePreviewed(previewed) => previewed_item(&mut course, subject, previewed)?,
            EventKind::CandidateAdvanced(advanced) => self.advanced_items(&mut course, subject, advanced)?,
            EventKind::EffectClaimed(effect) => self.claimed_items(&mut course, effect)?,
            EventKind::EffectConfirmed(effect) => self.confirmed_items(&mut course, effect)?,
            EventKind::EffectReleased(effect) => {
                let by = self.writer_of(effect);
                // A version that did not tell: it counts as a try.
                let how = effect.release.unwrap_or(Release::Undone);
                for place in places_of(effect) {
                    course.settle(&place, &by, &Input::Release(&by, how))?;
                }
            }
            EventKind::CardOpened(card) => {
                if reading == Reading::Before && !card.missing().is_empty() {
                    return Err(Refusal::IncompleteCard);
                }
            }
            EventKind::CardClosed(CardClosed { card, answer: Some(_), .. }) => {
                let card = self.cards.iter().find(|known| known.id == *card);
                if let Some(agent) = card.and_then(|card| card.agents.first()) {
                    course.known(&Place::Merging(agent.clone()), &Input::Decided)?;
                }
            }
            EventKind::TargetMoved(_) => {
                // A claim that is open is settled by what is read back.
                if course.item(&Place::Landing).is_some_and(|item| !item.state.is_open()) {
                    course.known(&Place::Landing, &Input::Inspect)?;
                }
            }
            EventKind::CardClosed(_)
            | EventKind::CardProposed(_)
            | EventKind::ProposalDiscarded(_)
            | EventKind::RunStarted(_)
            | EventKind::RunFinished(_)
            | EventKind::RunPaused(_)
            | EventKind::RunContinued(_)
            | EventKind::RetryRequested(_)
            | EventKind::StageEnter(_)
            | EventKind::StageExit(_)
            | EventKind::AttemptStarted(_)
            | EventKind::AttemptFinished(_)
            | EventKind::TurnStarted(_)
            | EventKind::TurnFinished(_)
            | EventKind::OverlapPredicted(_)
            | EventKind::VerifyFinished(_)
            | EventKind::GateDecided(_)
            | EventKind::HookFinished(_)
            | EventKind::ChangeDetected(_)
            | EventKind::ScopeWarning(_)
            | EventKind::CheckpointCreated(_)
            | EventKind::VerifierFresh(_)
            | EventKind::CompletionBlocked(_)
            | EventKind::Unknown { .. } => {}
        }
        Ok(course.changed)
    }

    fn advanced_items(
        &self,
        course: &mut Course<'_>,
        subject: &Subject,
        advanced: &CandidateAdvanced,
    ) -> Result<(), Refusal> {
        if advanced.contribution.is_none() {
            for agent in &self.agents {
                course.known(&Place::Merging(agent.name.clone()), &Input::Inspect)?;
            }
            return Ok(());
        }
        let Some(agent) = &subject.agent else { return Ok(()) };
        let place = Place::Merging(agent.clone());
        match course.item(&place).map(|item| item.state) {
            // Claimed before; or laid out again as it was.
            Some(State::Claimed | State::Confirmed) | None => Ok(()),
            Some(_) if course.reading == Reading::Before && advanced.from != advanced.to => {
                Err(Refusal::NothingClaimed)
            }
            Some(_) => course.known(&place, &Input::Found),
        }
    }

    fn claimed_items(&self, course: &mut Course<'_>, effect: &Effect) -> Result<(), Refusal> {
        let by = self.writer_of(effect);
        let asked = effect.asked.unwrap_or_default();
        match effect.effect {
            EffectKind::Merge => {
                for work in &effect.works {
                    let claim = Claim { key: &work.observation_key, invocation: &by, asked };
                    course.known(&Place::Merging(work.agent.clone()), &Input::Claim(claim))?;
                }
            }
            EffectKind::Land => {
                let sight = sight_of_landing(effect);
                course.look(&Place::Landing, &sight, &Input::Mergeable(&sight))?;
                let claim = Claim { key: &sight.key, invocation: &by, asked };
                course.known(&Place::Landing, &Input::Claim(claim))?;
            }
        }
        Ok(())
    }

    fn confirmed_items(&self, course: &mut Course<'_>, effect: &Effect) -> Result<(), Refusal> {
        let by = self.writer_of(effect);
        let was_claimed = self.open_claims.iter().any(|claim| claim.key == effect.key);
        if effect.effect == EffectKind::Land && !was_claimed {
            let sight = sight_of_landing(effect);
            course.look(&Place::Landing, &sight, &Input::Mergeable(&sight))?;
            return course.known(&Place::Landing, &Input::Found);
        }
        for place in places_of(effect) {
            course.settle(&place, &by, &Input::Confirm(&by))?;
        }
        Ok(())
    }

    /// The process that wrote an effect: an older version did not tell, but it was the run's.
    fn writer_of(&self, effect: &Effect) -> Invocation {
        let nobody = || Invocation { pid: 0, start_ticks: 0, boot_id: String::new() };
        effect.invocation.clone().or_else(|| self.invocation.clone()).unwrap_or_else(nobody)
    }
}

fn places_of(effect: &Effect) -> Vec<Place> {
    match effect.effect {
        EffectKind::Merge => effect.works.iter().map(|work| Place::Merging(work.agent.clone())).collect(),
        EffectKind::Land => vec![Place::Landing],
    }
}

/// What a landing is about: the tip it was looked at under the repository's lock is part of its key.
fn sight_of_landing(effect: &Effect) -> Sight {
    Sight {
        key: effect.observation_key.clone().unwrap_or_else(|| effect.key.clone()),
        head: Some(effect.after.clone()),
        status: Currency::Current,
        route: "land".to_owned(),
    }
}

fn previewed_item(course: &mut Course<'_>, subject: &Subject, previewed: &MergePreviewed) -> Result<(), Refusal> {
    let Some(agent) = &subject.agent else { return Ok(()) };
    let sight = Sight {
        key: previewed.observation_key.clone(),
        head: previewed.contribution.clone(),
        status: previewed.currency,
        route: previewed.route.clone(),
    };
    let input = match previewed.result {
        PreviewResult::Clean => Input::Mergeable(&sight),
        PreviewResult::Conflict | PreviewResult::Held => Input::Held(&sight, &previewed.cards),
        PreviewResult::Blocked | PreviewResult::Error | PreviewResult::SetAside => Input::Unclear(&sight),
    };
    course.look(&Place::Merging(agent.clone()), &sight, &input)
}

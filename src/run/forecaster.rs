//! Warnings of conflicts to come, made beside the agents' work and never in its way.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::agents::Crew;
use super::error::Error;
use super::finish::started_of;
use super::recorder::Recorder;
use crate::integrate::{Facts, forecast};
use crate::model::AgentName;
use crate::model::event::{Event, EventKind, Subject};
use crate::store::{self, Record};

/// A journal that has the forecast made anew when a turn has ended.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    recorder: Recorder,
    ended: UnboundedSender<AgentName>,
}

impl Record for Watched {
    fn record(&self, subject: Subject, kind: EventKind) -> Result<Event, store::Error> {
        let changed = matches!(&kind, EventKind::TurnFinished(turn) if !turn.empty);
        let event = self.recorder.record(subject, kind)?;
        if let Some(agent) = event.subject.agent.clone().filter(|_| changed) {
            // Nobody listens any more when the agents are done: then there is nothing to warn of.
            drop(self.ended.send(agent));
        }
        Ok(event)
    }

    fn output(&self, agent: &AgentName, chunk: &[u8]) {
        self.recorder.output(agent, chunk);
    }
}

/// What makes forecasts, for as long as agents are at work.
#[derive(Debug)]
pub(super) struct Forecaster {
    task: JoinHandle<()>,
}

impl Forecaster {
    /// Begins. What is recorded by way of the journal it gives is followed.
    pub(super) fn begin(crew: &Arc<Crew>) -> (Self, Watched) {
        let (ended, turns) = unbounded_channel();
        let watched = Watched { recorder: crew.recorder.clone(), ended };
        (Self { task: tokio::spawn(follow(Arc::clone(crew), turns)) }, watched)
    }

    /// Ends. A forecast that is being made is told still; those that wait are not made any more.
    pub(super) async fn end(self, watched: Watched) {
        drop(watched);
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "warnings of conflicts to come ended early");
        }
    }
}

async fn follow(crew: Arc<Crew>, mut turns: UnboundedReceiver<AgentName>) {
    while let Some(first) = turns.recv().await {
        let mut agents = vec![first];
        while let Ok(next) = turns.try_recv() {
            if !agents.contains(&next) {
                agents.push(next);
            }
        }
        if turns.is_closed() {
            return;
        }
        for agent in agents {
            let crew = Arc::clone(&crew);
            let made = tokio::task::spawn_blocking(move || foretell(&crew, &agent)).await;
            match made {
                Ok(Ok(())) => {}
                // A warning that could not be made stops nothing.
                Ok(Err(error)) => tracing::debug!(%error, "no forecast"),
                Err(error) => tracing::debug!(%error, "no forecast"),
            }
        }
    }
}

fn foretell(crew: &Crew, agent: &AgentName) -> Result<(), Error> {
    let state = crew.recorder.state();
    let started = started_of(&state)?;
    let facts = Facts {
        repository: &crew.site.repository,
        run: crew.recorder.run(),
        plan: &crew.plan,
        state: &state,
        base: &crew.base,
        identity: &started.identity,
        started_at: state.started_at.unwrap_or_default(),
    };
    for told in forecast(&facts, agent)? {
        crew.recorder.record(Subject::agent(agent), EventKind::OverlapPredicted(told))?;
    }
    Ok(())
}

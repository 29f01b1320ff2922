//! Takes what is asked to whoever can carry it out.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::protocol::{Answer, Command, Done, Kind, Refusal};
use crate::model::event::Requester;
use crate::model::{AgentName, RunId};
use crate::run::signals::{Ending, Signals};

/// What is asked of whoever carries the agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Begin nothing new.
    Pause,
    /// Go on.
    Continue,
    /// End an agent's attempt, and make no further one.
    Stop(AgentName),
    /// Leave an agent out.
    Skip(AgentName),
    /// Try an agent again; `from_fork`: in a new worktree.
    Retry { agent: AgentName, from_fork: bool },
}

/// An order, with where its answer goes.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) order: Order,
    pub(crate) by: Requester,
    pub(crate) reply: oneshot::Sender<Answer>,
}

/// Whether agents are being carried.
#[derive(Debug)]
enum Carrying {
    NotYet,
    Now(mpsc::Sender<Ask>),
    NoMore,
}

/// Where requests come in. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Dispatcher {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    run: RunId,
    signals: Signals,
    carrying: Mutex<Carrying>,
}

impl Dispatcher {
    /// That of the coordinator of `run`, which listens to these signals.
    pub(crate) fn new(run: &RunId, signals: &Signals) -> Self {
        let carrying = Mutex::new(Carrying::NotYet);
        Self { inner: Arc::new(Inner { run: run.clone(), signals: signals.clone(), carrying }) }
    }

    /// From now on orders are carried out by whoever holds what this gives; until it is dropped.
    pub(crate) fn open(&self) -> Orders {
        let (sender, asks) = mpsc::channel(8);
        self.set(Carrying::Now(sender));
        Orders { asks, dispatcher: self.clone() }
    }

    fn set(&self, carrying: Carrying) {
        *self.inner.carrying.lock().unwrap_or_else(PoisonError::into_inner) = carrying;
    }

    /// Has a command carried out, and gives what came of it.
    pub(super) async fn take(&self, command: Command, by: Requester) -> Answer {
        let order = match command {
            Command::Ping => return Ok(Done::Pong { run: self.inner.run.clone(), pid: std::process::id() }),
            Command::Stop => {
                self.inner.signals.end(Ending::Terminated);
                return Ok(Done::Ending);
            }
            Command::Pause => Order::Pause,
            Command::Continue => Order::Continue,
            Command::StopAgent { agent } => Order::Stop(agent),
            Command::Skip { agent } => Order::Skip(agent),
            Command::Retry { agent, from_fork } => Order::Retry { agent, from_fork },
        };
        let sender = match &*self.inner.carrying.lock().unwrap_or_else(PoisonError::into_inner) {
            Carrying::Now(sender) => Ok(sender.clone()),
            Carrying::NotYet => {
                let message = "its agents are not at work: it is just being taken up, or merged, verified or landed";
                Err(Refusal::new(Kind::NotPossible, message))
            }
            Carrying::NoMore => Err(ended()),
        }?;
        let (reply, answer) = oneshot::channel();
        // Either of the two fails where the last agent has ended meanwhile.
        sender.send(Ask { order, by, reply }).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

fn ended() -> Refusal {
    Refusal::new(Kind::TooLate, "its agents have all ended: it is being merged, verified or ended")
}

/// The orders that come in, for whoever carries the agents.
#[derive(Debug)]
pub(crate) struct Orders {
    asks: mpsc::Receiver<Ask>,
    dispatcher: Dispatcher,
}

impl Orders {
    /// The next order. Waits for ever where none comes.
    pub(crate) async fn next(&mut self) -> Ask {
        match self.asks.recv().await {
            Some(ask) => ask,
            None => std::future::pending().await,
        }
    }

    /// An order that has come in already.
    pub(crate) fn waiting(&mut self) -> Option<Ask> {
        self.asks.try_recv().ok()
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        // What still waits is answered by being dropped.
        self.dispatcher.set(Carrying::NoMore);
    }
}

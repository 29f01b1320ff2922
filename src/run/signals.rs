//! Signals that ask the program to stop: once, and everything ends in order; twice, at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::error::Error;

/// Why a run ends before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM or SIGHUP, or `sandbox stop`.
    Terminated,
    /// The run's own time is over.
    OutOfTime,
}

/// What everything that can take long listens to.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    /// Stop in order.
    pub stop: CancellationToken,
    /// Stop at once.
    pub kill: CancellationToken,
    cause: Arc<AtomicU8>,
}

impl Signals {
    /// Listens from now on, until the program ends.
    pub fn listen() -> Result<Self, Error> {
        let signals = Self::default();
        for (kind, ending) in [
            (SignalKind::interrupt(), Ending::Interrupted),
            (SignalKind::terminate(), Ending::Terminated),
            (SignalKind::hangup(), Ending::Terminated),
        ] {
            let mut stream = signal(kind).map_err(Error::Signals)?;
            let listening = signals.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() {
                    listening.end(ending);
                }
            });
        }
        // Where a limit on the size of files is met, writing fails, which is told; without a handler it would kill us. What
        // we start has its default again.
        drop(signal(SignalKind::from_raw(nix::libc::SIGXFSZ)).map_err(Error::Signals)?);
        Ok(signals)
    }

    /// Asks for the end: the first call in order, each later one at once. The first cause is the one that counts.
    pub fn end(&self, ending: Ending) {
        if self.stop.is_cancelled() {
            self.kill.cancel();
            return;
        }
        let code = match ending {
            Ending::Interrupted => 1,
            Ending::Terminated => 2,
            Ending::OutOfTime => 3,
        };
        self.cause.store(code, Ordering::Relaxed);
        self.stop.cancel();
    }

    /// Why everything ends, if it does.
    pub fn ending(&self) -> Option<Ending> {
        match self.cause.load(Ordering::Relaxed) {
            1 => Some(Ending::Interrupted),
            2 => Some(Ending::Terminated),
            3 => Some(Ending::OutOfTime),
            _ => None,
        }
    }
}

//! Signals that ask the program to stop: once, and everything ends in order; twice, at once; three times, and the program
//! goes where it stands, which like any death loses nothing that `sandbox resume` would not find.
//!
//! Whoever terminates the program (SIGTERM, SIGHUP, `sandbox stop`) cannot be relied on to ask again: then the second and
//! the third time come by themselves, [`Bounds`] after the first.
//!
//! A signal that is ignored when the program starts stays ignored, so that `nohup` and a shell's `&` mean what they mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::error::Error;
use crate::agent::clock::WorkClock;

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

impl Ending {
    /// The exit code of a run that ended so: for a signal, as a shell would give it.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::OutOfTime => 1,
        }
    }
}

/// How long a run that is terminated may take to end.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Until what is at work is killed. Its own grace is shorter.
    kill: Duration,
    /// From then on, until the program goes where it stands: what is captured may take that long.
    go: Duration,
}

/// For a run that is terminated: a minute in all.
const BOUNDS: Bounds = Bounds { kill: Duration::from_secs(15), go: Duration::from_secs(45) };

/// What everything that can take long listens to.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    /// Stop in order.
    pub stop: CancellationToken,
    /// Stop at once.
    pub kill: CancellationToken,
    /// Go where you stand.
    go: CancellationToken,
    /// By what limits on time are measured.
    pub clock: WorkClock,
    cause: Arc<AtomicU8>,
}

impl Signals {
    /// Listens from now on, until the program ends. `go`: ends the program, be the work done or not.
    pub fn listen(go: impl FnOnce(Ending) + Send + 'static) -> Result<Self, Error> {
        let signals = Self { clock: WorkClock::start(), ..Self::default() };
        let ignored = ignored();
        for (kind, ending) in [
            (SignalKind::interrupt(), Ending::Interrupted),
            (SignalKind::terminate(), Ending::Terminated),
            (SignalKind::hangup(), Ending::Terminated),
        ] {
            if is_in(ignored, kind) {
                continue;
            }
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
        tokio::spawn(signals.clone().bounded(BOUNDS));
        let listening = signals.clone();
        tokio::spawn(async move {
            listening.go.cancelled().await;
            go(listening.ending().unwrap_or(Ending::Terminated));
        });
        Ok(signals)
    }

    /// Asks again, and once more, for who terminates the program.
    async fn bounded(self, bounds: Bounds) {
        self.stop.cancelled().await;
        match self.ending() {
            Some(Ending::Terminated) => {}
            // Whoever interrupts is there to do it again; a run that is out of time has it; a fault of ours ends in order.
            Some(Ending::Interrupted | Ending::OutOfTime) | None => return,
        }
        tokio::select! {
            () = self.kill.cancelled() => {}
            () = self.clock.sleep_until(self.clock.now() + bounds.kill) => self.kill.cancel(),
        }
        self.clock.sleep_until(self.clock.now() + bounds.go).await;
        self.go.cancel();
    }

    /// Asks for the end: the first call in order, the second at once, the third whatever is lost by it. The first cause is the
    /// one that counts.
    pub fn end(&self, ending: Ending) {
        if self.kill.is_cancelled() {
            self.go.cancel();
            return;
        }
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

    /// Asks for the end in order because time is over, unless something has asked for it already: that has its own course.
    pub(super) fn end_in_time(&self) {
        if !self.stop.is_cancelled() {
            self.end(Ending::OutOfTime);
        }
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

/// The signals that were ignored when this process started, a bit each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(mask: u64, kind: SignalKind) -> bool {
    let bit = u32::try_from(kind.as_raw_value() - 1).unwrap_or(u32::MAX);
    mask.checked_shr(bit).is_some_and(|rest| rest & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_it_is_asked_less_is_waited_for() {
        let signals = Signals::default();
        let state = || (signals.stop.is_cancelled(), signals.kill.is_cancelled(), signals.go.is_cancelled());
        assert_eq!((state(), signals.ending()), ((false, false, false), None));
        for expected in [(true, false, false), (true, true, false), (true, true, true), (true, true, true)] {
            signals.end(if expected.1 { Ending::Terminated } else { Ending::Interrupted });
            assert_eq!((state(), signals.ending()), (expected, Some(Ending::Interrupted)));
        }
    }

    #[tokio::test]
    async fn who_terminates_need_not_ask_again() {
        let short = Bounds { kill: Duration::from_millis(20), go: Duration::from_millis(20) };
        let signals = Signals::default();
        let bound = tokio::spawn(signals.clone().bounded(short));
        signals.end(Ending::Terminated);
        bound.await.unwrap();
        assert!(signals.kill.is_cancelled() && signals.go.is_cancelled());
        // Who interrupts is there, and decides alone how long to wait.
        for ending in [Ending::Interrupted, Ending::OutOfTime] {
            let signals = Signals::default();
            let bound = tokio::spawn(signals.clone().bounded(short));
            signals.end(ending);
            bound.await.unwrap();
            assert!(!signals.kill.is_cancelled() && !signals.go.is_cancelled(), "{ending:?}");
        }
    }

    #[test]
    fn the_mask_of_what_is_ignored() {
        for (mask, kind, expected) in [
            (0, SignalKind::hangup(), false),
            (0x1, SignalKind::hangup(), true),
            (0x1, SignalKind::interrupt(), false),
            (0x0000_0000_0000_4003, SignalKind::terminate(), true),
        ] {
            assert_eq!(is_in(mask, kind), expected, "{mask:x} {kind:?}");
        }
        // The standard library has it ignored in every program of its own.
        assert!(is_in(ignored(), SignalKind::pipe()));
    }
}

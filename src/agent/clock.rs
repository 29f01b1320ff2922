//! The clock that limits on time are measured by: it stands still while this process does.
//!
//! Whoever presses Ctrl-Z, or sends SIGSTOP, stops the program that watches the agents, and nothing tells it of that but
//! that time has passed. So it looks at the clock every [`TICK`], and what passed between two looks beyond what is to be
//! expected did not count. An agent so gets at most a tick too much, and never too little.
//!
//! While the machine sleeps the clock stands still by itself: on Linux [`Instant`] is `CLOCK_MONOTONIC`, which does not count
//! that. Were it to count, it would be seen as any other gap.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

/// How often the clock is looked at.
const TICK: Duration = Duration::from_secs(1);

/// What may pass between two looks of a machine that is merely busy.
const BUSY: Duration = Duration::from_secs(2);

/// The clock. Clones are the same one. The default one counts everything: it is for what nobody stops and continues.
#[derive(Debug, Clone, Default)]
pub struct WorkClock {
    reading: Option<Arc<Mutex<Reading>>>,
}

/// What is known of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    /// When it was last looked at.
    seen: Instant,
    /// What has not counted so far.
    stood_still: Duration,
}

impl Reading {
    /// Looks at the clock. Gives the time that counts.
    fn look(&mut self, now: Instant) -> Instant {
        let passed = now.saturating_duration_since(self.seen);
        if passed >= BUSY {
            // What may pass anyhow counts: else no limit would hold on a machine that is always late.
            self.stood_still += passed.saturating_sub(TICK);
        }
        self.seen = self.seen.max(now);
        now.checked_sub(self.stood_still).unwrap_or(now)
    }
}

impl WorkClock {
    /// A clock that is looked at for as long as a copy of it is left.
    pub fn start() -> Self {
        let reading = Reading { seen: Instant::now(), stood_still: Duration::ZERO };
        let reading = Arc::new(Mutex::new(reading));
        tokio::spawn(keep_looking(Arc::downgrade(&reading)));
        Self { reading: Some(reading) }
    }

    /// The time that counts.
    pub fn now(&self) -> Instant {
        self.reading.as_ref().map_or_else(Instant::now, |reading| look(reading))
    }

    /// Waits until so much time has counted.
    pub async fn sleep_until(&self, moment: Instant) {
        loop {
            let left = moment.saturating_duration_since(self.now());
            if left.is_zero() {
                return;
            }
            // What wakes late is looked at again above, before it means anything.
            tokio::time::sleep(left).await;
        }
    }
}

fn look(reading: &Mutex<Reading>) -> Instant {
    reading.lock().unwrap_or_else(PoisonError::into_inner).look(Instant::now())
}

async fn keep_looking(reading: Weak<Mutex<Reading>>) {
    loop {
        tokio::time::sleep(TICK).await;
        let Some(reading) = reading.upgrade() else { return };
        look(&reading);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By a clock of the test's own: real time against the time that counts, in milliseconds.
    #[test]
    fn what_passes_while_the_process_stands_still_does_not_count() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        for (what, looks, counted) in [
            ("every second", vec![1000, 2000, 3000], 3000),
            ("a busy machine", vec![1000, 2900, 4800], 4800),
            ("stopped for an hour", vec![1000, 3_601_000, 3_602_000], 3000),
            ("stopped twice", vec![1000, 11_000, 12_000, 22_000, 23_000], 5000),
            ("stopped right after a look, and a little before one", vec![1000, 3100, 4000], 2900),
            ("a machine that is always late", vec![2100, 4200, 6300], 3000),
            ("a look that comes late to the lock", vec![1000, 1900, 1800, 2700], 2700),
        ] {
            let mut reading = Reading { seen: begun, stood_still: Duration::ZERO };
            let last = looks.into_iter().map(|ms| reading.look(at(ms))).last().unwrap();
            assert_eq!(last, at(counted), "{what}");
        }
    }

    #[tokio::test]
    async fn a_sleep_ends_when_enough_has_counted() {
        let clock = WorkClock::start();
        let moment = clock.now() + Duration::from_millis(10);
        // As after a stop that was noticed while it slept.
        let taken_back = Duration::from_millis(100);
        if let Some(reading) = &clock.reading {
            reading.lock().unwrap().stood_still += taken_back;
        }
        let real = Instant::now();
        clock.sleep_until(moment).await;
        assert!(clock.now() >= moment && real.elapsed() >= taken_back, "{:?}", real.elapsed());
    }
}

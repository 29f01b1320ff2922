//! The one writer of a run's journal, and what is derived from it as it grows.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use super::derived::Derived;
use super::hooks::Runner;
use crate::model::AgentName;
use crate::model::event::{Event, EventKind, Subject};
use crate::model::run::RunState;
use crate::store::{Error, JournalWriter, Record, RunDir};

/// How far derived files may lag behind the journal while a coordinator lives.
const BEHIND_MAX: Duration = Duration::from_millis(200);

/// Watches a run as it goes. Called in the order of the journal, after the event is in it.
pub trait Observer: Send {
    /// Something happened. `state` is the run's state after it.
    fn event(&mut self, event: &Event, state: &RunState);

    /// Something must not be missed that is no event.
    fn warning(&mut self, _text: &str) {}

    /// An agent printed something.
    fn output(&mut self, _agent: &AgentName, _chunk: &[u8]) {}
}

/// Watches nothing.
pub(super) struct Quiet;

impl Observer for Quiet {
    fn event(&mut self, _event: &Event, _state: &RunState) {}
}

/// An observer that watches nothing.
pub fn unwatched() -> Box<dyn Observer> {
    Box::new(Quiet)
}

/// Writes the journal, and keeps the run's state, `status.json`, `git-progress/latest.json` and the card files in step.
#[derive(Clone)]
pub struct Recorder {
    run: RunDir,
    inner: Arc<Mutex<Inner>>,
    // Below what it writes of: that goes first, and then its end is waited for.
    keeping_up: Arc<KeepingUp>,
}

/// What writes derived files a moment later. Its end is waited for, so that a program which ends with the recorder leaves
/// nothing half written.
struct KeepingUp(Option<JoinHandle<()>>);

impl Drop for KeepingUp {
    fn drop(&mut self) {
        if self.0.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("what writes derived files met a fault of ours");
        }
    }
}

struct Inner {
    writer: JournalWriter,
    state: RunState,
    derived: Derived,
    observer: Box<dyn Observer>,
    /// Wakes what writes derived files a moment later; none where no thread could be had, and all is written at once.
    wake: Option<Sender<()>>,
    /// How often derived files were written.
    writes: u32,
    hooks: Option<Runner>,
}

/// A recorder that does not keep the journal open.
pub(super) struct WeakRecorder {
    run: RunDir,
    inner: Weak<Mutex<Inner>>,
    keeping_up: Weak<KeepingUp>,
}

impl WeakRecorder {
    /// The recorder, while somebody has it.
    pub(super) fn upgrade(&self) -> Option<Recorder> {
        let (inner, keeping_up) = (self.inner.upgrade()?, self.keeping_up.upgrade()?);
        Some(Recorder { run: self.run.clone(), inner, keeping_up })
    }
}

impl Inner {
    fn write_owed(&mut self) {
        if self.derived.is_owed() && self.writer.is_in_place() {
            self.derived.write_owed(&self.state);
            self.writes += 1;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.write_owed();
    }
}

/// Whoever listens lives as long as the recorder does; at the very end, what is owed is written without it.
fn wake_up(wake: &Sender<()>) {
    if wake.send(()).is_err() {
        tracing::debug!("nobody writes derived files any more");
    }
}

/// Writes derived files a moment after there is something to write, until there is no recorder any more.
fn keep_up(inner: &Weak<Mutex<Inner>>, wakes: &Receiver<()>) {
    while wakes.recv().is_ok() {
        // What comes meanwhile is written with it.
        if wakes.recv_timeout(BEHIND_MAX) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        let Some(inner) = inner.upgrade() else { return };
        inner.lock().unwrap_or_else(PoisonError::into_inner).write_owed();
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Goes on with a journal in which `events` are already.
    pub fn new(writer: JournalWriter, events: &[Event], observer: Box<dyn Observer>) -> Self {
        let run = writer.run().clone();
        let mut state = RunState::fold(run.id().clone(), events);
        // Whoever holds the writer has the run; what another claimed is not theirs any more.
        state.take_over();
        let derived = Derived::new(&run, &state, events);
        let inner = Inner { writer, state, derived, observer, wake: None, writes: 0, hooks: None };
        let inner = Arc::new(Mutex::new(inner));
        let (wake, wakes) = channel();
        let kept = Arc::downgrade(&inner);
        let thread = std::thread::Builder::new().name("derived".to_owned()).spawn(move || keep_up(&kept, &wakes));
        let keeps_up = thread.is_ok();
        let recorder = Self { run, inner, keeping_up: Arc::new(KeepingUp(thread.ok())) };
        if keeps_up {
            let mut inner = recorder.lock();
            if inner.derived.is_owed() {
                wake_up(&wake);
            }
            inner.wake = Some(wake);
        }
        recorder
    }

    /// The run's folder.
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// Has something said that is no event.
    pub fn warn(&self, text: &str) {
        self.lock().observer.warning(text);
    }

    /// The same, for whom it must not wait.
    pub(super) fn downgrade(&self) -> WeakRecorder {
        let (inner, keeping_up) = (Arc::downgrade(&self.inner), Arc::downgrade(&self.keeping_up));
        WeakRecorder { run: self.run.clone(), inner, keeping_up }
    }

    /// Has the user's commands run for what is told from now on.
    pub(super) fn run_hooks(&self, runner: Option<Runner>) {
        self.lock().hooks = runner;
    }

    /// Waits for the user's commands, within bounds, and runs no more.
    pub(super) fn end_hooks(&self) {
        // They record their ends, so the lock must not be held meanwhile.
        let runner = self.lock().hooks.take();
        let left_out = runner.map_or(0, Runner::finish);
        if left_out > 0 {
            self.warn(&format!("{left_out} hooks were not run: those before them took too long"));
        }
    }

    /// Has the run's folder removed by `remove`, which says whether it did. Nothing is written into it meanwhile; after it,
    /// the journal is not in its place any more.
    pub(super) fn forget<E>(
        &self,
        remove: impl FnOnce(&RunState) -> Result<Result<(), E>, super::error::Error>,
    ) -> Result<Result<(), E>, super::error::Error> {
        let inner = self.lock();
        remove(&inner.state)
    }

    /// The run's state as it is now.
    pub fn state(&self) -> RunState {
        self.lock().state.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // An observer that panicked has broken nothing of ours: the journal is written before it is called.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record for Recorder {
    fn record(&self, subject: Subject, kind: EventKind) -> Result<Event, Error> {
        let mut inner = self.lock();
        if let Err(refusal) = inner.state.admit(&subject, &kind) {
            return Err(Error::NotAdmitted { event: kind.name().to_owned(), refusal });
        }
        let event = inner.writer.append(subject, kind)?;
        inner.state.apply(&event);
        let Inner { derived, state, .. } = &mut *inner;
        let was_owed = derived.is_owed();
        derived.take_in(&event, state);
        // Whoever looks finds something from the first event on, and after the last one nothing that is out of date.
        let at_once = event.seq == 1 || matches!(event.kind, EventKind::RunFinished(_));
        match &inner.wake {
            Some(wake) if !at_once => {
                if !was_owed {
                    wake_up(wake);
                }
            }
            Some(_) | None => inner.write_owed(),
        }
        let Inner { observer, state, hooks, .. } = &mut *inner;
        observer.event(&event, state);
        if let Some(hooks) = hooks {
            hooks.tell(&event);
        }
        Ok(event)
    }

    fn output(&self, agent: &AgentName, chunk: &[u8]) {
        self.lock().observer.output(agent, chunk);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::Value;

    use super::*;
    use crate::model::event::{RunFinished, Stage, StageEnter};
    use crate::store::journal::system_clock;
    use crate::store::{RunLock, StateDir, atomic, status};

    fn recorder(folder: &std::path::Path) -> Recorder {
        let run = StateDir::in_common_dir(folder).run(&"long-1".parse().unwrap());
        atomic::create_dir(run.root()).unwrap();
        let lock = RunLock::try_acquire(&run).unwrap();
        let (writer, opened) = JournalWriter::open(&run, lock, system_clock()).unwrap();
        Recorder::new(writer, &opened.events, Box::new(Quiet))
    }

    fn told(run: &RunDir) -> u64 {
        let (found, _) = status::load::<Value>(run).unwrap();
        found.map_or(0, |status| status["state"]["lastSeq"].as_u64().unwrap())
    }

    fn enter() -> EventKind {
        EventKind::StageEnter(StageEnter { story_id: "x".to_owned(), stage: Stage::Execute, invocation: None })
    }

    fn event(run: &RunDir) -> Event {
        let run_id = run.id().clone();
        Event { v: 1, seq: 1, timestamp: jiff::Timestamp::UNIX_EPOCH, run_id, subject: Subject::run(), kind: enter() }
    }

    const EVENTS: u64 = 2000;

    /// With a status for each event, their bytes grow with the square of the events.
    #[test]
    fn the_status_is_written_by_the_clock_and_not_by_the_event() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = recorder(folder.path());
        let begun = Instant::now();
        for _ in 0..EVENTS {
            recorder.record(Subject::run(), enter()).unwrap();
        }
        // The end is told at once, and the beginning was.
        recorder
            .record(Subject::run(), EventKind::RunFinished(RunFinished { exit_code: 0, complete: true, landed: None }))
            .unwrap();
        assert_eq!(told(recorder.run()), EVENTS + 1);
        let most = 3 + begun.elapsed().as_millis() / BEHIND_MAX.as_millis();
        let writes = recorder.lock().writes;
        assert!(u128::from(writes) <= most, "{writes} writes, and at most {most} were to be");
    }

    #[test]
    fn the_status_is_never_far_behind_and_exact_when_the_recorder_goes() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = recorder(folder.path());
        for seq in 1..=3 {
            recorder.record(Subject::run(), enter()).unwrap();
            assert!(seq > 1 || told(recorder.run()) == 1, "the first is told at once");
        }
        let end = Instant::now() + Duration::from_secs(30);
        while told(recorder.run()) < 3 {
            assert!(Instant::now() < end, "nobody writes what is owed");
            std::thread::yield_now();
        }
        recorder.record(Subject::run(), enter()).unwrap();
        let run = recorder.run().clone();
        drop(recorder);
        let end = Instant::now() + Duration::from_secs(30);
        while told(&run) < 4 {
            assert!(Instant::now() < end, "what was owed at the end was not written");
            std::thread::yield_now();
        }
    }

    /// The journal refuses whoever lost the run; what is derived from it must not be written past that.
    #[test]
    fn who_lost_the_run_writes_nothing_derived_either() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (folder.path().join("here"), folder.path().join("there"));
        let stale = recorder(&here);
        let run = stale.run().clone();
        stale.record(Subject::run(), enter()).unwrap();
        // Owed, and not written before the recorder goes.
        let owe = |recorder: &Recorder| {
            let mut inner = recorder.lock();
            inner.wake = None;
            let Inner { derived, state, .. } = &mut *inner;
            derived.take_in(&event(&run), state);
            assert!(derived.is_owed());
        };
        owe(&stale);
        std::fs::remove_file(run.lock()).unwrap();
        let next = recorder(&here);
        for _ in 0..3 {
            next.record(Subject::run(), enter()).unwrap();
        }
        drop(next);
        assert_eq!(told(&run), 4);
        drop(stale);
        assert_eq!(told(&run), 4, "the newer status stands");

        let moved = recorder(&here);
        owe(&moved);
        atomic::rename(&here, &there).unwrap();
        drop(moved);
        assert!(!here.exists(), "nothing is made anew where the run was");
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod admission;

//! The user's own commands for what happens in a run: run outside every box, one after the other, beside the run.
//!
//! Which commands they are was fixed when the run began, from its plan and from the user's own settings; nothing that an
//! agent writes is asked. Each gets the event on its standard input, as the journal has it. What becomes of it is told, and
//! changes nothing: no agent waits for a hook, and none makes a run fail.
//!
//! A hook whose end is in the journal is not run again for its event. One that the program died over is.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use rustix::fd::OwnedFd;
use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::recorder::{Recorder, WeakRecorder};
use super::site::Site;
use crate::git::Config;
use crate::model::ProcessEnd;
use crate::model::event::{Event, EventKind, HookFinished, HookSource, Subject};
use crate::model::plan::{Argv, HookPoint, Hooks, Plan};
use crate::store::outside::{Done, End, Outside};
use crate::store::{Record, RunDir, atomic};

/// The section of the user's settings that hooks stand in, as git writes it.
const SECTION: &str = "sandbox.hook.";

/// The longest that one may take.
const LONGEST: SignedDuration = SignedDuration::from_hours(365 * 24);

/// How often it is looked whether the program is to end at once, while hooks are waited for.
const TICK: Duration = Duration::from_millis(50);

/// The hooks of the user's own settings: `sandbox.hook.landed` and the like, each a command as a shell would split it.
pub(super) fn of_settings(config: &Config) -> Result<Hooks, Error> {
    let refused = |key: &str, cause: &str| Error::Unfit {
        cause: format!("your git setting `{key}` {cause}"),
        fix: format!("correct it, or take it out: `git config --unset {key}`"),
        flag: None,
    };
    let mut hooks = Hooks::default();
    for (key, value) in config.entries() {
        let key = String::from_utf8_lossy(key);
        let Some(name) = key.strip_prefix(SECTION) else { continue };
        let value = value.map(String::from_utf8_lossy).unwrap_or_default();
        if name == "timeout" {
            let timeout =
                value.parse::<SignedDuration>().ok().filter(|timeout| timeout.is_positive() && *timeout <= LONGEST);
            hooks.timeout = timeout.ok_or_else(|| refused(&key, "is no duration such as `30s`"))?;
            continue;
        }
        // Git gives the last part of a key in lower case: `runStarted` is `runstarted` here.
        let point = HookPoint::ALL.into_iter().find(|point| point.name().replace('_', "") == name);
        let point = point.ok_or_else(|| refused(&key, "names nothing that happens in a run"))?;
        let command =
            shell_words::split(&value).ok().filter(|words| words.first().is_some_and(|word| !word.is_empty()));
        hooks.commands.insert(point, command.ok_or_else(|| refused(&key, "is no command"))?);
    }
    Ok(hooks)
}

/// What is to be known of a plan that has commands run outside every box.
pub fn commands_outside(plan: &Plan) -> Option<String> {
    let commands = plan.hooks.commands.iter();
    let named: Vec<String> =
        commands.map(|(point, argv)| format!("{} runs `{}`", point.name(), shell_words::join(argv))).collect();
    let warn =
        || format!("the plan has commands run outside every box, with all of your authority: {}", named.join("; "));
    (!named.is_empty()).then(warn)
}

/// The hooks of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct HookSet {
    /// Those of its plan.
    pub(super) plan: Hooks,
    /// Those of the user's settings.
    pub(super) user: Hooks,
}

impl HookSet {
    fn is_empty(&self) -> bool {
        self.plan.commands.is_empty() && self.user.commands.is_empty()
    }

    /// What is to be run for an event.
    fn of(&self, event: &Event) -> Vec<Job> {
        let Some(point) = event.kind.hook_point() else { return Vec::new() };
        let sources = [(HookSource::Plan, &self.plan), (HookSource::Settings, &self.user)];
        let job = |(source, hooks): (HookSource, &Hooks)| {
            let argv = hooks.commands.get(&point)?.clone();
            Some(Job { event: event.clone(), point, source, argv, timeout: hooks.timeout.unsigned_abs() })
        };
        sources.into_iter().filter_map(job).collect()
    }

    /// How long what is still to be run is waited for at the end.
    fn patience(&self) -> Duration {
        self.plan.timeout.max(self.user.timeout).unsigned_abs()
    }
}

/// What was to be run for events and has no end in the journal.
fn owed(set: &HookSet, events: &[Event]) -> Vec<Job> {
    let ended: HashSet<(u64, &'static str)> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::HookFinished(hook) => Some((hook.of?, word(hook.source))),
            _ => None,
        })
        .collect();
    let jobs = events.iter().flat_map(|event| set.of(event));
    jobs.filter(|job| !ended.contains(&(job.event.seq, word(job.source)))).collect()
}

fn word(source: HookSource) -> &'static str {
    match source {
        HookSource::Plan => "plan",
        HookSource::Settings => "settings",
        HookSource::Git => "git",
    }
}

/// One command to be run.
#[derive(Debug, PartialEq)]
struct Job {
    event: Event,
    point: HookPoint,
    source: HookSource,
    argv: Argv,
    timeout: Duration,
}

impl Job {
    /// What names its output.
    fn log_name(&self) -> String {
        let name = format!("{}-{}", self.event.seq, self.point.name());
        match self.source {
            HookSource::Plan | HookSource::Git => name,
            HookSource::Settings => format!("{name}.settings"),
        }
    }

    fn variables(&self, run: &RunDir) -> Vec<(OsString, OsString)> {
        let mut variables: BTreeMap<&str, OsString> = BTreeMap::from([
            ("SANDBOX_RUN", self.event.run_id.as_str().into()),
            ("SANDBOX_RUN_DIR", run.root().into()),
            ("SANDBOX_HOOK", self.point.name().into()),
            ("SANDBOX_EVENT", self.event.kind.name().into()),
        ]);
        if let Some(agent) = &self.event.subject.agent {
            variables.insert("SANDBOX_AGENT", agent.as_str().into());
        }
        variables.into_iter().map(|(name, value)| (name.into(), value)).collect()
    }
}

/// Runs hooks, on a thread of its own.
#[derive(Debug)]
pub(super) struct Runner {
    set: HookSet,
    jobs: Option<Sender<Job>>,
    /// Told how many were left out when the thread ends.
    ended: Receiver<usize>,
    /// Closing it ends the command that runs.
    stop: Option<OwnedFd>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    kill: CancellationToken,
}

/// What every hook of a run has in common.
struct Ground {
    run: RunDir,
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
    recorder: WeakRecorder,
    stop: OwnedFd,
    stopped: Arc<AtomicBool>,
}

impl Runner {
    /// Begins to run the hooks of `set` for what `recorder` will be told of; first what `before` still owes. `None`: there
    /// are no hooks.
    pub(super) fn start(
        set: HookSet,
        site: &Site,
        recorder: &Recorder,
        before: &[Event],
        kill: CancellationToken,
    ) -> Result<Option<Self>, Error> {
        if set.is_empty() {
            return Ok(None);
        }
        let repository = &site.repository;
        let (reader, writer) = io::pipe().map_err(Error::Hooks)?;
        let stopped = Arc::new(AtomicBool::new(false));
        let ground = Ground {
            run: recorder.run().clone(),
            folder: repository.top_level().unwrap_or(repository.common_dir()).to_owned(),
            environment: site.environment.variables.clone().into_iter().collect(),
            recorder: recorder.downgrade(),
            stop: reader.into(),
            stopped: Arc::clone(&stopped),
        };
        let (jobs, queue) = mpsc::channel();
        let (tell, ended) = mpsc::channel();
        let work = move || {
            // Nobody listens where the program ends without waiting.
            let _unheard = tell.send(ground.work(&queue));
        };
        let thread = std::thread::Builder::new().name("hooks".to_owned()).spawn(work).map_err(Error::Hooks)?;
        for job in owed(&set, before) {
            drop(jobs.send(job));
        }
        let (stop, thread) = (Some(writer.into()), Some(thread));
        Ok(Some(Self { set, jobs: Some(jobs), ended, stop, stopped, thread, kill }))
    }

    /// Has the hooks of an event run. Waits for nothing.
    pub(super) fn tell(&self, event: &Event) {
        for job in self.set.of(event) {
            if let Some(jobs) = &self.jobs {
                drop(jobs.send(job));
            }
        }
    }

    /// Waits until all is done, but no longer than a hook may take, and gives how many were not run.
    pub(super) fn finish(mut self) -> usize {
        self.jobs = None;
        let deadline = Instant::now() + self.set.patience();
        loop {
            match self.ended.recv_timeout(TICK) {
                Ok(left_out) => return left_out,
                Err(RecvTimeoutError::Disconnected) => return 0,
                Err(RecvTimeoutError::Timeout) if self.kill.is_cancelled() || Instant::now() >= deadline => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.end();
        self.ended.recv().unwrap_or(0)
    }

    /// Ends the command that runs, and has no more run.
    fn end(&mut self) {
        self.jobs = None;
        self.stopped.store(true, Ordering::Relaxed);
        self.stop = None;
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.end();
        // The thread itself may be the last that held this.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            drop(thread.join());
        }
    }
}

impl Ground {
    fn work(&self, queue: &Receiver<Job>) -> usize {
        let mut left_out = 0;
        for job in queue {
            if self.stopped.load(Ordering::Relaxed) {
                left_out += 1;
                continue;
            }
            self.run(&job);
        }
        left_out
    }

    fn run(&self, job: &Job) {
        let begun = Instant::now();
        let mut input = serde_json::to_vec(&job.event).unwrap_or_default();
        input.push(b'\n');
        let command = Outside {
            argv: job.argv.iter().map(OsString::from).collect(),
            folder: self.folder.clone(),
            environment: self.environment.clone(),
            more: job.variables(&self.run),
            input,
            timeout: job.timeout,
        };
        let done = command.run(Some(&self.stop));
        let Some(recorder) = self.recorder.upgrade() else { return };
        let named = HookName { hook: job.point.name(), source: job.source, of: Some(job.event.seq) };
        let finished = told(&recorder, named, &job.argv, &job.log_name(), &done, begun.elapsed());
        if let Some(error) = &finished.error {
            let log = finished.log.as_ref().map(|log| format!(" (see `{}`)", self.run.root().join(log).display()));
            recorder.warn(&format!("hook `{}` {error}{}", finished.hook, log.unwrap_or_default()));
        }
        let subject = Subject { turn: None, ..job.event.subject.clone() };
        if let Err(error) = recorder.record(subject, EventKind::HookFinished(finished)) {
            tracing::warn!(%error, "the end of a hook was not written down");
        }
    }
}

/// Which hook it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct HookName<'a> {
    pub(super) hook: &'a str,
    pub(super) source: HookSource,
    pub(super) of: Option<u64>,
}

/// What is told of a command that has ended. What it printed is kept first.
pub(super) fn told(
    recorder: &Recorder,
    name: HookName<'_>,
    argv: &Argv,
    log: &str,
    done: &Done,
    took: Duration,
) -> HookFinished {
    let (end, error) = match &done.end {
        End::Exited(0) => (Some(ProcessEnd::Exited(0)), None),
        End::Exited(code) => (Some(ProcessEnd::Exited(*code)), Some(done.end.to_string())),
        End::Signaled(signal) => (Some(ProcessEnd::Signaled(*signal)), Some(done.end.to_string())),
        End::TimedOut | End::Stopped | End::Failed(_) => (None, Some(done.end.to_string())),
    };
    HookFinished {
        hook: name.hook.to_owned(),
        source: name.source,
        of: name.of,
        command: argv.clone(),
        end,
        timed_out: done.end == End::TimedOut,
        error,
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        log: keep_output(recorder.run(), log, done),
    }
}

/// Keeps what a hook printed. That it cannot be kept is no reason to stop.
fn keep_output(run: &RunDir, name: &str, done: &Done) -> Option<String> {
    if done.output.is_empty() {
        return None;
    }
    let path = run.hook_output(name);
    let mut output = done.output.clone();
    if done.cut {
        output.extend_from_slice(b"\n(more was printed, and not kept)\n");
    }
    let kept = path.parent().map_or(Ok(()), atomic::create_dir).and_then(|()| atomic::write(&path, &output));
    match kept {
        Ok(()) => run.relative(&path),
        Err(error) => {
            tracing::warn!(%error, "the output of a hook was not kept");
            None
        }
    }
}

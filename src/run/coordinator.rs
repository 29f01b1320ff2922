//! The whole of a run, in order.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandbox::{Host, Layer};

use super::agents::{Crew, Opening};
use super::control::{self, dispatcher::Dispatcher};
use super::error::Error;
use super::finish::Finish;
use super::hooks::{HookSet, of_settings};
use super::isolation::{self, LeftOut};
use super::recorder::{Observer, Recorder};
use super::scheduler::run_all;
use super::signals::Signals;
use super::site::Site;
use super::start;
use crate::agent::network::check_secrets;
use crate::model::currency::Asker;
use crate::model::event::{EventKind, RunFinished, Subject};
use crate::model::plan::{Network, Plan, SandboxSettings};
use crate::model::run::RunState;
use crate::model::{CommitId, RunId};
use crate::plan::boxes;
use crate::store::Record;
use crate::workspace::pin;

/// How a run is to be made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The plan's text, as it is kept in the run's folder.
    pub plan_text: String,
    /// How many agents at once.
    pub jobs: usize,
    /// Whether the result is to be landed when the gate is open.
    pub land: bool,
    /// What the machine can do, as it is kept in the run's folder. Filled in by [`execute`].
    pub host: serde_json::Value,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Report {
    /// The run.
    pub run: RunId,
    /// Its state at the end.
    pub state: RunState,
    /// The exit code.
    pub exit_code: u8,
    /// What the target was set to, where it was.
    pub landed: Option<CommitId>,
}

/// Lets every box of a plan do without layers that a flag names, where the machine cannot give them.
pub fn allow_degraded(plan: &mut Plan, layers: &BTreeSet<Layer>) {
    isolation::allow(plan, layers);
}

/// Carries out a plan, from the first event to the last.
pub async fn execute(
    site: Site,
    plan: Plan,
    mut options: Options,
    mut observer: Box<dyn Observer>,
    signals: Signals,
) -> Result<Report, Error> {
    let begun = (site.clock)();
    require_secrets(&site, boxes(&plan).map(|(_, settings)| settings))?;
    let pinned = tokio::task::block_in_place(|| pin(&site.environment, &plan))?;
    let capturer = site.capturer(begun, &plan, pinned).await?;
    let layers = isolation::layers(&capturer.host)?;
    let left_out = isolation::left_out(&capturer.host, &plan)?;
    let degraded = isolation::lacks(&capturer.host, &left_out);
    options.host = host_record(&capturer.host, &layers, &left_out, &open_networks(&plan));
    for text in isolation::warnings(&capturer.host, &left_out) {
        observer.warning(&text);
    }
    let pinned = capturer.pinned.clone();
    let isolation = start::Isolation { layers, degraded, pinned };
    let origin = tokio::task::block_in_place(|| start::origin(&site, &plan))?;
    let user_hooks = of_settings(site.repository.config())?;
    let hooks = (HookSet { plan: plan.hooks.clone(), user: user_hooks }, signals.kill.clone());
    let recorder =
        tokio::task::block_in_place(|| start::start(&site, &plan, &options, &origin, isolation, hooks, observer))?;
    let clock = plan.timeout.map(|limit| end_in_time(&signals, limit.unsigned_abs()));
    let crew = Arc::new(Crew {
        site,
        plan,
        recorder: recorder.clone(),
        capturer,
        head: origin.head,
        base: origin.base,
        signals: signals.clone(),
        asking: Mutex::default(),
    });
    let dispatcher = Dispatcher::new(recorder.run().id(), &signals);
    let orders = dispatcher.open();
    // Dropped before what holds the run's lock.
    let _server = control::listen(&recorder, &dispatcher);
    let finish = Finish {
        site: &crew.site,
        plan: &crew.plan,
        recorder: &recorder,
        capturer: &crew.capturer,
        head: &crew.head,
        signals: &signals,
        asks_hook: false,
        asked: Asker::Run,
    };
    let report = match run_all(&crew, orders, options.jobs, |_| Opening::New).await {
        Ok(()) => finish.complete(options.land, false).await,
        Err(error) => Err(error),
    };
    if let Some(clock) = clock {
        clock.abort();
    }
    close_on_fault(&recorder, report)
}

/// Ends a run in order that a fault kept from its end: nobody is to wait for it.
pub(super) fn close_on_fault(recorder: &Recorder, result: Result<Report, Error>) -> Result<Report, Error> {
    result.inspect_err(|error| {
        let closed = tokio::task::block_in_place(|| close(recorder, error.fault().exit_code(), false, None));
        if let Err(failed) = closed {
            tracing::warn!(error = %failed, "the end of the run was not written down");
        }
    })
}

/// Ends the run in order when its time is over.
pub(super) fn end_in_time(signals: &Signals, limit: Duration) -> tokio::task::JoinHandle<()> {
    let signals = signals.clone();
    tokio::spawn(async move {
        signals.clock.sleep_until(signals.clock.now() + limit).await;
        signals.end_in_time();
    })
}

/// The last event of a run, or of a verb that went on with it.
pub(super) fn close(
    recorder: &Recorder,
    exit_code: u8,
    complete: bool,
    landed: Option<CommitId>,
) -> Result<Report, Error> {
    // What the user has run for what happened is part of it.
    recorder.end_hooks();
    let finished = RunFinished { exit_code, complete, landed: landed.clone() };
    recorder.record(Subject::run(), EventKind::RunFinished(finished))?;
    Ok(Report { run: recorder.run().id().clone(), state: recorder.state(), exit_code, landed })
}

/// By what each limit is enforced, as it is kept with the run; `null` where it cannot be.
fn limit_means(host: &Host) -> serde_json::Map<String, serde_json::Value> {
    host.means().into_iter().map(|means| (means.limit.to_owned(), means.by.ok().into())).collect()
}

/// Refuses a plan whose secrets are not there: its agents would ask in vain.
pub(super) fn require_secrets<'p>(site: &Site, boxes: impl Iterator<Item = &'p SandboxSettings>) -> Result<(), Error> {
    for settings in boxes {
        check_secrets(&settings.network, &site.environment).map_err(|cause| {
            let fix = "set the variable for this command, or take the host out of `inject`".to_owned();
            Error::Unfit { cause, fix, flag: None }
        })?;
    }
    Ok(())
}

/// What is to be known of the boxes of a plan that have the host's network.
pub fn open_networks(plan: &Plan) -> Vec<String> {
    let open = boxes(plan).filter(|(_, settings)| settings.network == Network::Host);
    let warning = |(who, _)| {
        format!(
            "{who} has the host's whole network: this machine's own services, the local network, and everything else"
        )
    };
    open.map(warning).collect()
}

/// What the machine can do, as it is kept with the run.
fn host_record(host: &Host, layers: &[String], left_out: &LeftOut, warnings: &[String]) -> serde_json::Value {
    serde_json::json!({
        "v": 1,
        "uid": host.uid,
        "gid": host.gid,
        "kernel": format!("{}.{}", host.kernel.major, host.kernel.minor),
        "landlock": host.landlock,
        "layers": layers,
        "shortcomings": host.shortcomings().into_iter().map(|lack| lack.cause).collect::<Vec<_>>(),
        "limits": limit_means(host),
        "degraded": isolation::lacks(host, left_out),
        "leftOut": left_out,
        "warnings": warnings,
    })
}

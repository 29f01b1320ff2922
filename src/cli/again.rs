//! `sandbox resume`, `merge`, `verify`, `land` and `retry`: going on with a run whose coordinator is gone.

use super::args::{GoOnArgs, LandArgs, RetryArgs, VerifyArgs};
use super::error::Error;
use super::exit::Exit;
use super::going::{Telling, drive};
use super::printer::Printer;
use super::settings::Settings;
use crate::run::Site;
use crate::run::reopen::{From, Reopened};
use crate::store::RunDir;

/// Previews and candidate anew, then the verifier.
pub(super) fn merge(args: &GoOnArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let (site, run) = find(args.run.as_deref(), settings)?;
    let allowed = args.degraded.layers();
    drive(settings, printer, Telling::Answer("merge"), move |observer, signals| async move {
        Reopened::open(site, run, &allowed, observer, signals).await?.merge().await
    })
}

/// Judges the present candidate.
pub(super) fn verify(args: &VerifyArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let (site, run) = find(args.run.as_deref(), settings)?;
    let fresh = args.fresh;
    let allowed = args.degraded.layers();
    drive(settings, printer, Telling::Answer("verify"), move |observer, signals| async move {
        Reopened::open(site, run, &allowed, observer, signals).await?.verify(fresh).await
    })
}

/// Lands the candidate, where the gate is open.
pub(super) fn land(args: &LandArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let (site, run) = find(args.run.as_deref(), settings)?;
    let allowed = args.degraded.layers();
    let hooks = args.hooks;
    drive(settings, printer, Telling::Answer("land"), move |observer, signals| async move {
        Reopened::open(site, run, &allowed, observer, signals).await?.land(hooks).await
    })
}

/// Makes the next attempt of an agent, and all that follows from it.
pub(super) fn retry(args: &RetryArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let (site, run) = find(args.run.as_deref(), settings)?;
    let state = super::select::load(&run)?;
    let agent = super::select::agent(&args.agent, &state)?.name.clone();
    let from = match (args.fresh, args.from_fork) {
        (true, _) => From::Candidate,
        (false, true) => From::Fork,
        (false, false) => From::Worktree,
    };
    // There is no candidate before all agents have ended: what lives is asked for what it can do.
    if from != From::Candidate
        && let Some(queued) = super::steer::retry(&run, &agent, from == From::Fork, printer)?
    {
        return Ok(queued);
    }
    let allowed = args.degraded.layers();
    drive(settings, printer, Telling::Answer("retry"), move |observer, signals| async move {
        Reopened::open(site, run, &allowed, observer, signals).await?.retry(&agent, from).await
    })
}

/// Goes on with a run that was cut short, to its end; or with one that is at work and paused.
pub(super) fn resume(args: &GoOnArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let (site, run) = find(args.run.as_deref(), settings)?;
    if let Some(continued) = super::steer::resume(&run, printer)? {
        return Ok(continued);
    }
    let allowed = args.degraded.layers();
    drive(settings, printer, Telling::Events, move |observer, signals| async move {
        Reopened::open(site, run, &allowed, observer, signals).await?.resume().await
    })
}

fn find(asked: Option<&str>, settings: &Settings) -> Result<(Site, RunDir), Error> {
    let site = Site::open(&settings.dir)?;
    let run = super::select::find(&site.state, asked)?;
    Ok((site, run))
}

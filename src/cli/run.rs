//! `sandbox run`

use std::num::NonZero;

use super::args::RunArgs;
use super::error::Error;
use super::exit::Exit;
use super::going::{Telling, drive};
use super::printer::Printer;
use super::settings::Settings;
use crate::model::plan::{LandMode, Plan};
use crate::plan;
use crate::run::{Options, Site, allow_degraded, commands_outside, execute, open_networks};

/// Runs a plan, or shows what would be done.
pub(super) fn run(args: &RunArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let path = settings.resolve(&args.plan);
    let label = args.plan.display().to_string();
    let text = super::plan::read(&path, &label)?;
    let (mut plan, warnings) = super::plan::load(&label, &text, settings)?;
    allow_degraded(&mut plan, &args.degraded.layers());
    for warning in &warnings {
        printer.warn(&warning.message);
    }
    if args.dry_run {
        return super::plan::preview(&plan, settings, printer);
    }
    let site = Site::open(&settings.dir)?;
    warn_of_empty_contracts(&site, &plan, printer)?;
    let land = wants_landing(args.land, &plan, printer);
    go(site, plan, text, args.jobs, land, settings, printer)
}

/// Runs an accepted plan.
pub(super) fn go(
    site: Site,
    plan: Plan,
    plan_text: String,
    jobs: Option<usize>,
    land: bool,
    settings: &Settings,
    printer: &mut Printer,
) -> Result<Exit, Error> {
    let jobs = match jobs.unwrap_or(plan.jobs) {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        jobs => jobs,
    };
    for warning in open_networks(&plan).into_iter().chain(commands_outside(&plan)) {
        printer.warn(&warning);
    }
    let options = Options { plan_text, jobs, land, host: serde_json::Value::Null };
    drive(settings, printer, Telling::Events, move |observer, signals| execute(site, plan, options, observer, signals))
}

/// Whether landing follows: asked for here, or by the plan.
fn wants_landing(asked: bool, plan: &Plan, printer: &mut Printer) -> bool {
    match plan.land {
        LandMode::Auto => true,
        LandMode::Manual => asked,
        LandMode::Never => {
            if asked {
                printer.warn("the plan says `land = \"never\"`: --land is refused");
            }
            asked
        }
    }
}

fn warn_of_empty_contracts(site: &Site, plan: &Plan, printer: &mut Printer) -> Result<(), Error> {
    let head = site.load_head()?;
    let base = head.require_commit().map_err(crate::run::Error::from)?;
    let paths = super::plan::paths_of(&site.repository, base).map_err(crate::run::Error::from)?;
    for warning in plan::check_against_tree(plan, paths)? {
        printer.warn(&warning.message);
    }
    Ok(())
}

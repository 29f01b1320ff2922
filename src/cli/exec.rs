//! `sandbox exec`

use super::args::ExecArgs;
use super::error::Error;
use super::exit::Exit;
use super::printer::Printer;
use super::settings::Settings;
use crate::model::plan::Network;
use crate::plan::{Single, verifier_for_exec};
use crate::run::Site;

/// Runs one agent without a plan file: the same path as a plan with that one agent.
pub(super) fn exec(args: &ExecArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let mut single = Single::new(args.name.as_str(), args.command.clone());
    single.title.clone_from(&args.title);
    single.owns.clone_from(&args.owns);
    single.workdir.clone_from(&args.workdir);
    single.sandbox.network = Network::listed(&args.allow_host).unwrap_or_else(|| args.network.clone());
    single.sandbox.env.clone_from(&args.env);
    single.sandbox.expose.clone_from(&args.expose);
    single.sandbox.allow_degraded = args.degraded.layers();
    single.sandbox.expose_rw.clone_from(&args.expose_rw);
    single.sandbox.hide.clone_from(&args.hide);
    single.sandbox.nested = args.nested;
    if let Some(time) = args.time {
        single.sandbox.limits.time = time;
        single.sandbox.limits.idle = single.sandbox.limits.idle.min(time);
    }
    let limits = &mut single.sandbox.limits;
    (limits.memory, limits.processes, limits.disk) = (args.memory, args.processes, args.disk);
    if let Some(command) = &args.verify {
        single.verify = Some(verifier_for_exec(command.clone(), &single.sandbox));
    }
    let plan = single.into_plan()?;
    let text = format!("# `sandbox exec --name {}`\n", args.name);
    let site = Site::open(&settings.dir)?;
    super::run::go(site, plan, text, Some(1), args.land, settings, printer)
}

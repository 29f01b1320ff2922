//! `sandbox clean`

use serde::Serialize;

use super::args::{self, CleanArgs};
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::going;
use super::printer::Printer;
use super::settings::Settings;
use crate::git::Config;
use crate::model::RunId;
use crate::report::table::{Cell, Table};
use crate::report::{Envelope, Tone};
use crate::run::Site;
use crate::run::clean::{Action, Cleaning, Item, Limits, Options, Plan, RecordItem, plan, sweep, sweep_receipts};
use crate::store::{RunDir, runs};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CleanData {
    dry_run: bool,
    worktrees: Vec<Item>,
    records: Vec<RecordItem>,
    removed_bytes: u64,
    forgotten_runs: Vec<RunId>,
}

/// Removes worktrees whose work is kept elsewhere, or says which would be.
pub(super) fn clean(args: &CleanArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let site = Site::open(&settings.dir)?;
    let options = options(args, site.repository.config())?;
    let runs: Vec<RunDir> = if options.named {
        args.runs.iter().map(|run| super::select::find(&site.state, Some(run))).collect::<Result<_, _>>()?
    } else {
        runs::list(&site.state)?.runs
    };
    let mut plan = plan(&site, &runs, &options)?;
    for run in &plan.forgotten {
        printer.warn(&format!(
            "there are refs of run `{run}`, and no record of it: they keep what its agents did; `git for-each-ref \
             refs/sandbox/{run} refs/heads/sandbox/{run}` lists them"
        ));
    }
    if !args.dry_run {
        carry_out(&mut plan, &options)?;
        sweep(&site, &plan);
        let forgot = |run: &Cleaning| run.record.as_ref().is_some_and(|record| record.action == Action::Remove);
        if plan.runs.iter().any(forgot) {
            let pruned = sweep_receipts(&site)?;
            tracing::debug!(pruned, "receipts that no run tells of any more were removed");
        }
    }
    let data = data(args.dry_run, plan);
    printer.answer(&render(&data, settings));
    printer.json(&Envelope::answer("clean", None, data, printer.warnings()));
    Ok(Exit::Complete)
}

/// What may go: as the arguments say, else as the user's settings do.
fn options(args: &CleanArgs, config: &Config) -> Result<Options, Error> {
    let named = !args.runs.is_empty();
    let limits = Limits {
        older_than: args.older_than.map_or_else(|| setting(config, "olderThan", args::age), |age| Ok(Some(age)))?,
        keep: args.keep.map_or_else(|| setting(config, "keep", count), |keep| Ok(Some(keep)))?,
        max_bytes: args.max_bytes.map_or_else(|| setting(config, "maxBytes", args::size), |size| Ok(Some(size)))?,
    };
    if args.records && !named && limits.is_empty() {
        let refused = Error::new(ErrorKind::Usage, "`--records` forgets runs for good, and nothing says which");
        return Err(refused.hint("name runs, or say which by --older-than, --keep or --max-bytes"));
    }
    Ok(Options {
        named,
        limits,
        records: args.records,
        ignored: args.ignored || config.is_true("sandbox.clean.ignored"),
        allowed: args.degraded.layers(),
    })
}

/// A setting of the user's, from git's configuration.
fn setting<T>(config: &Config, name: &str, parse: fn(&str) -> Result<T, String>) -> Result<Option<T>, Error> {
    let Some(value) = config.text(&format!("sandbox.clean.{}", name.to_ascii_lowercase())) else { return Ok(None) };
    parse(value).map(Some).map_err(|why| {
        let told = format!("the setting `sandbox.clean.{name}` of git's configuration is `{value}`");
        Error::new(ErrorKind::Usage, told).hint(why)
    })
}

fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "write a whole number".to_owned())
}

fn carry_out(plan: &mut Plan, options: &Options) -> Result<(), Error> {
    let runtime = going::threads()?;
    for run in plan.runs.iter_mut().filter(|run| run.has_work()) {
        match runtime.block_on(run.apply(options)) {
            Ok(()) => {}
            // What was asked for by name and cannot be is an error, and so is a machine that is unfit for any of them; else
            // the other runs are not to suffer for this one.
            Err(error @ crate::run::Error::Unfit { .. }) => return Err(error.into()),
            Err(error) if options.named => return Err(error.into()),
            Err(error) => run.keep(&format!("its run could not be gone through: {error}")),
        }
    }
    Ok(())
}

fn data(dry_run: bool, plan: Plan) -> CleanData {
    let (mut worktrees, mut records) = (Vec::new(), Vec::new());
    for run in plan.runs {
        worktrees.extend(run.worktrees);
        records.extend(run.record);
    }
    worktrees.extend(plan.strays);
    let trees = worktrees.iter().map(|item| (item.action, item.bytes));
    let freed = trees.chain(records.iter().map(|record| (record.action, record.bytes)));
    let removed_bytes = freed.filter(|(action, _)| *action == Action::Remove).map(|(_, bytes)| bytes).sum();
    CleanData { dry_run, worktrees, records, removed_bytes, forgotten_runs: plan.forgotten }
}

fn render(data: &CleanData, settings: &Settings) -> String {
    if data.worktrees.is_empty() && data.records.is_empty() {
        return "there are no worktrees to remove\n".to_owned();
    }
    let mut table = Table::new(["what", "size", "", "why"]);
    let mut row = |what: String, bytes: u64, action: Action, why: &str| {
        let word = match (action, data.dry_run) {
            (Action::Remove, true) => Cell::new("would go", Tone::Plain),
            (Action::Remove, false) => Cell::new("removed", Tone::Good),
            (Action::Keep, _) => Cell::new("kept", Tone::Plain),
        };
        table.row([
            Cell::new(what, Tone::Plain),
            Cell::new(size(bytes), Tone::Plain),
            word,
            Cell::new(why, Tone::Plain),
        ]);
    };
    for item in &data.worktrees {
        row(format!("{} {}", item.run, item.owner), item.bytes, item.action, &item.reason);
    }
    for item in &data.records {
        row(format!("{} record", item.run), item.bytes, item.action, &item.reason);
    }
    let mut text = table.render(settings.look) + "\n";
    for (item, list) in data.worktrees.iter().filter_map(|item| Some((item, item.ignored_list.as_ref()?))) {
        let list = list.display().to_string();
        text.extend(["ignored files of ", item.run.as_str(), " ", &item.owner, " are listed in ", &list, "\n"]);
    }
    let word = if data.dry_run { "would be freed" } else { "freed" };
    let stays = if data.records.iter().any(|record| record.action == Action::Remove) {
        "of the other runs, snapshots, patches and records stay"
    } else {
        "snapshots, patches and records stay"
    };
    text + &format!("{} {word}; {stays}\n", size(data.removed_bytes))
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut whole = bytes / 1024;
    let mut unit = 0;
    while whole >= 1024 && unit + 1 < UNITS.len() {
        whole /= 1024;
        unit += 1;
    }
    format!("{whole} {}", UNITS[unit])
}

//! `sandbox clean`

use serde::Serialize;

use super::args::CleanArgs;
use super::error::Error;
use super::exit::Exit;
use super::going;
use super::printer::Printer;
use super::settings::Settings;
use crate::report::table::{Cell, Table};
use crate::report::{Envelope, Tone};
use crate::run::Site;
use crate::run::clean::{Action, Item, apply, plan};
use crate::store::{RunDir, runs};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CleanData {
    dry_run: bool,
    worktrees: Vec<Item>,
    removed_bytes: u64,
}

/// Removes worktrees whose work is kept elsewhere, or says which would be.
pub(super) fn clean(args: &CleanArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let site = Site::open(&settings.dir)?;
    let named = !args.runs.is_empty();
    let runs: Vec<RunDir> = if named {
        args.runs.iter().map(|run| super::select::find(&site.state, Some(run))).collect::<Result<_, _>>()?
    } else {
        runs::list(&site.state)?.runs
    };
    let planned = plan(&site, &runs, named)?;
    let items = if args.dry_run { planned } else { carry_out(&site, &runs, &planned, args)? };
    let removed_bytes = items.iter().filter(|item| item.action == Action::Remove).map(|item| item.bytes).sum();
    let data = CleanData { dry_run: args.dry_run, worktrees: items, removed_bytes };
    printer.answer(&render(&data, settings));
    printer.json(&Envelope::answer("clean", None, data, printer.warnings()));
    Ok(Exit::Complete)
}

fn carry_out(site: &Site, runs: &[RunDir], planned: &[Item], args: &CleanArgs) -> Result<Vec<Item>, Error> {
    let runtime = going::threads()?;
    let mut done = Vec::new();
    for run in runs {
        let mine: Vec<Item> = planned.iter().filter(|item| item.run == *run.id()).cloned().collect();
        if mine.iter().any(|item| item.action == Action::Remove) {
            done.extend(match runtime.block_on(apply(site, run, mine.clone(), &args.degraded.layers())) {
                Ok(items) => items,
                // What was asked for by name and cannot be is an error, and so is a machine that is unfit for any of them; else
                // the other runs are not to suffer for this one.
                Err(error @ crate::run::Error::Unfit { .. }) => return Err(error.into()),
                Err(error) if !args.runs.is_empty() => return Err(error.into()),
                Err(error) => {
                    let reason = format!("its run could not be gone through: {error}");
                    let kept = |item| Item { action: Action::Keep, reason: reason.clone(), ..item };
                    mine.into_iter().map(kept).collect()
                }
            });
        } else {
            done.extend(mine);
        }
    }
    Ok(done)
}

fn render(data: &CleanData, settings: &Settings) -> String {
    if data.worktrees.is_empty() {
        return "there are no worktrees to remove\n".to_owned();
    }
    let mut table = Table::new(["worktree of", "size", "", "why"]);
    for item in &data.worktrees {
        let word = match (item.action, data.dry_run) {
            (Action::Remove, true) => Cell::new("would go", Tone::Plain),
            (Action::Remove, false) => Cell::new("removed", Tone::Good),
            (Action::Keep, _) => Cell::new("kept", Tone::Plain),
        };
        let owner = format!("{} {}", item.run, item.owner);
        table.row([
            Cell::new(owner, Tone::Plain),
            Cell::new(size(item.bytes), Tone::Plain),
            word,
            Cell::new(&item.reason, Tone::Plain),
        ]);
    }
    let word = if data.dry_run { "would be freed" } else { "freed" };
    format!(
        "{}\n{} {word}; snapshots, patches and records stay\n",
        table.render(settings.look),
        size(data.removed_bytes)
    )
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

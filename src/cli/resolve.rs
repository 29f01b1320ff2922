//! `board resolve`: saying what stands where two sides conflict.

use std::path::PathBuf;

use serde::Serialize;

use super::args::{ResolveArgs, SideArg};
use super::board::{checked, sit_down, tell};
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::going::{self, leave};
use super::printer::Printer;
use super::select;
use super::settings::Settings;
use crate::git::Repository;
use crate::model::plan::Network;
use crate::model::{CardId, RunId};
use crate::report::Envelope;
use crate::report::card::ShownCard;
use crate::run::Signals;
use crate::run::decide::{Desk, Take};
use crate::run::insight::insight;
use crate::run::propose::Resolver;
use crate::store::StateDir;

/// Data of `board resolve --edit` and `--discard`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FolderData {
    card: CardId,
    /// None where a proposal was turned down.
    folder: Option<PathBuf>,
    /// Whether it is there now.
    exists: bool,
}

pub(super) fn resolve(
    args: &ResolveArgs,
    asked: Option<&str>,
    settings: &Settings,
    printer: &mut Printer,
) -> Result<(), Error> {
    let why = checked(args.why.as_ref())?;
    if args.from.as_deref() == Some("") {
        return Err(Error::new(ErrorKind::Usage, "`--from` names neither a folder nor a commit"));
    }
    let (desk, run, card) = sit_down(asked, &args.card, settings)?;
    let in_run = |error: crate::run::Error| Error::from(error).in_run(&run);
    if args.with {
        return propose(args, &desk, run, &card, settings, printer);
    }
    if args.edit {
        let (folder, is_new) = desk.edit(&card).map_err(in_run)?;
        let begun = if is_new { "the merge is under way in" } else { "it is being merged already in" };
        printer.answer(&format!(
            "{begun} {}\nwhen it is done: sandbox board resolve {card} --done --run {run}\n",
            folder.display()
        ));
        let data = FolderData { card, folder: Some(folder), exists: true };
        printer.json(&Envelope::answer("board resolve", Some(run), data, printer.warnings()));
        return Ok(());
    }
    if args.discard {
        let folder = if desk.discard_proposal(&card, why).map_err(in_run)? {
            printer.answer(&format!("turned down what was proposed; card {card} waits as before\n"));
            None
        } else {
            let folder = desk.discard_edit(&card).map_err(in_run)?;
            printer.answer(&format!("removed {}; card {card} waits as before\n", folder.display()));
            Some(folder)
        };
        let data = FolderData { card, folder, exists: false };
        printer.json(&Envelope::answer("board resolve", Some(run), data, printer.warnings()));
        return Ok(());
    }
    let decided = match (args.take, &args.from) {
        (Some(SideArg::Ours), _) => desk.take(&card, Take::Ours, why),
        (Some(SideArg::Theirs), _) => desk.take(&card, Take::Theirs, why),
        (None, Some(from)) if settings.dir.join(from).is_dir() => {
            desk.take_from_folder(&card, &settings.dir.join(from), why)
        }
        (None, Some(from)) => desk.take_from_commit(&card, from, why),
        (None, None) if args.accept => desk.accept(&card, why),
        (None, None) => desk.done(&card, why).map(|(card, stays)| {
            if let Some(text) = stays {
                printer.warn(&text);
            }
            card
        }),
    };
    tell("board resolve", run.clone(), decided.map_err(in_run)?, &desk, printer);
    Ok(())
}

/// Has a command propose a resolution, and shows what it proposes.
fn propose(
    args: &ResolveArgs,
    desk: &Desk,
    run: RunId,
    card: &CardId,
    settings: &Settings,
    printer: &mut Printer,
) -> Result<(), Error> {
    let repository = desk.repository();
    let shown = shown(repository, &run, card)?;
    let told = serde_json::to_vec(&shown)
        .map_err(|error| Error::new(ErrorKind::Internal, "the card cannot be written").because(error))?;
    let resolver = Resolver {
        command: args.command.clone(),
        network: Network::listed(&args.allow_host).unwrap_or_else(|| args.network.clone()),
        env: args.env.clone(),
        time: args.time,
        allowed: args.degraded.layers(),
        card: told,
    };
    let proposed = going::threads()?.block_on(async {
        let signals = Signals::listen(leave)?;
        desk.propose(card, &resolver, &signals).await.map_err(|error| {
            let error = Error::from(error).in_run(&run);
            match signals.ending().and_then(|ending| Exit::from_code(ending.exit_code())) {
                Some(exit) => error.ending_as(exit),
                None => error,
            }
        })
    });
    let proposed = proposed?;
    let shown = ShownCard::new(proposed.clone(), insight(repository, &proposed));
    printer.answer(&shown.render(settings.look));
    printer.answer(&format!(
        "\nif it is right: sandbox board resolve {card} --accept --run {run}\n\
         if it is not:   sandbox board resolve {card} --discard --run {run}\n"
    ));
    printer.json(&Envelope::answer("board resolve", Some(run), shown, printer.warnings()));
    Ok(())
}

/// The card as `board show` has it.
fn shown(repository: &Repository, run: &RunId, card: &CardId) -> Result<ShownCard, Error> {
    let state = select::load(&StateDir::in_common_dir(repository.common_dir()).run(run))?;
    let card = select::card(card.as_str(), &state)?;
    Ok(ShownCard::new(card.clone(), insight(repository, card)))
}

//! `board`: what waits for a decision.

use super::args::{BoardArgs, BoardVerb};
use super::error::Error;
use super::exit::Exit;
use super::printer::Printer;
use super::select;
use super::settings::Settings;
use super::view::View;
use crate::report::Envelope;
use crate::report::board::{BoardData, render_card};

pub(super) fn board(args: &BoardArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let seen = View::open(settings, printer)?.run(args.run.as_deref())?;
    let run = Some(seen.run.id().clone());
    match &args.verb {
        None | Some(BoardVerb::List) => {
            let data = BoardData::of(&seen.state);
            printer.answer(&data.render(settings.look));
            printer.json(&Envelope::answer("board list", run, data, printer.warnings()));
        }
        Some(BoardVerb::Show(args)) => {
            let card = select::card(&args.card, &seen.state)?;
            printer.answer(&render_card(card, settings.look));
            printer.json(&Envelope::answer("board show", run, card, printer.warnings()));
        }
    }
    Ok(Exit::Complete)
}

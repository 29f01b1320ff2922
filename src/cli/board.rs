//! `board`: what waits for a decision, and deciding it.

use super::args::{BoardArgs, BoardVerb, DecideArgs};
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::printer::Printer;
use super::resolve;
use super::select;
use super::settings::Settings;
use super::view::View;
use crate::model::card::Card;
use crate::model::{CardId, RunId};
use crate::report::Envelope;
use crate::report::board::{BoardData, DecidedData};
use crate::report::card::ShownCard;
use crate::run::Site;
use crate::run::decide::Desk;
use crate::run::insight::insight;

/// The longest reason, in bytes.
const WHY_MAX: usize = 1000;

pub(super) fn board(args: &BoardArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let asked = args.run.as_deref();
    match &args.verb {
        None | Some(BoardVerb::List) => {
            let seen = View::open(settings, printer)?.run(asked)?;
            let data = BoardData::of(&seen.state);
            printer.answer(&data.render(settings.look));
            printer.json(&Envelope::answer("board list", Some(seen.run.id().clone()), data, printer.warnings()));
        }
        Some(BoardVerb::Show(args)) => {
            let view = View::open(settings, printer)?;
            let seen = view.run(asked)?;
            let card = select::card(&args.card, &seen.state)?;
            let shown = ShownCard::new(card.clone(), insight(&view.repository, card));
            printer.answer(&shown.render(settings.look));
            printer.json(&Envelope::answer("board show", Some(seen.run.id().clone()), shown, printer.warnings()));
        }
        Some(BoardVerb::Approve(args)) => {
            let (desk, run, card) = sit_down(asked, &args.card, settings)?;
            let decided = desk.approve(&card, why(args)?).map_err(|error| Error::from(error).in_run(&run))?;
            tell("board approve", run, decided, &desk, printer);
        }
        Some(BoardVerb::Dismiss(args)) => {
            let (desk, run, card) = sit_down(asked, &args.card, settings)?;
            let decided = desk.dismiss(&card, why(args)?).map_err(|error| Error::from(error).in_run(&run))?;
            tell("board dismiss", run, decided, &desk, printer);
        }
        Some(BoardVerb::Resolve(args)) => resolve::resolve(args, asked, settings, printer)?,
    }
    Ok(Exit::Complete)
}

pub(super) fn sit_down(asked: Option<&str>, card: &str, settings: &Settings) -> Result<(Desk, RunId, CardId), Error> {
    let site = Site::open(&settings.dir)?;
    let run = select::find(&site.state, asked)?;
    let card = select::card(card, &select::load(&run)?)?.id.clone();
    let id = run.id().clone();
    let desk = Desk::open(&site, &run).map_err(|error| Error::from(error).in_run(&id))?;
    Ok((desk, id, card))
}

fn why(args: &DecideArgs) -> Result<Option<String>, Error> {
    checked(args.why.as_ref())
}

/// A reason stands in one line of the journal, the board and the merge.
pub(super) fn checked(why: Option<&String>) -> Result<Option<String>, Error> {
    match why {
        Some(why) if why.len() > WHY_MAX || why.chars().any(char::is_control) => {
            Err(Error::new(ErrorKind::Usage, format!("`--why` is one line of at most {WHY_MAX} bytes")))
        }
        why => Ok(why.cloned()),
    }
}

pub(super) fn tell(command: &'static str, run: RunId, card: Card, desk: &Desk, printer: &mut Printer) {
    let data = DecidedData { card, open_cards: desk.open_cards() };
    printer.answer(&data.render(&run));
    printer.json(&Envelope::answer(command, Some(run), data, printer.warnings()));
}

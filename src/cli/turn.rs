//! `turn`: what an agent says in its box when a piece of its work is done.

use serde::Serialize;

use super::args::TurnArgs;
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::inside;
use super::printer::Printer;
use super::settings::Settings;
use crate::agent::socket;
use crate::report::Envelope;

/// Data of `turn`.
#[derive(Debug, Serialize)]
struct TurnData {
    /// The turn, `1.2`.
    turn: String,
}

pub(super) fn turn(args: &TurnArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let instead = [
        "each command of the agent is a turn all the same",
        "agents call it while they work; for what they did see `sandbox inspect <agent>`",
    ];
    let socket = inside::socket(settings, "turns cannot be ended", instead)?;
    let label = args.label.as_deref().unwrap_or_default();
    let told = socket::end_turn(socket, label)
        .map_err(|reason| Error::new(ErrorKind::Environment, format!("the turn goes on: {reason}")))?;
    printer.answer(&format!("turn {told}\n"));
    let turn = told.split(' ').next().unwrap_or_default().to_owned();
    printer.json(&Envelope::answer("turn", None, TurnData { turn }, printer.warnings()));
    Ok(Exit::Complete)
}

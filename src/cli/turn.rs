//! `turn`: what an agent says in its box when a piece of its work is done. Of all verbs the only one for agents.

use std::path::Path;

use serde::Serialize;

use super::args::TurnArgs;
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::printer::Printer;
use super::settings::Settings;
use crate::agent::turn_socket;
use crate::report::Envelope;
use crate::workspace::seen;

/// Data of `turn`.
#[derive(Debug, Serialize)]
struct TurnData {
    /// The turn, `1.2`.
    turn: String,
}

pub(super) fn turn(args: &TurnArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let socket = Path::new(seen::TURN_SOCKET);
    if let Some(missing) = settings.degraded.as_deref() {
        let text = format!("turns cannot be ended from inside: this box is without {missing}");
        return Err(Error::new(ErrorKind::Environment, text).hint("each command of the agent is a turn all the same"));
    }
    if !socket.exists() {
        return Err(Error::new(ErrorKind::Usage, "there is no turn to end here: this is no agent's box")
            .hint("agents call it while they work; for what they did see `sandbox inspect <agent>`"));
    }
    let label = args.label.as_deref().unwrap_or_default();
    let told = turn_socket::ask(socket, label)
        .map_err(|reason| Error::new(ErrorKind::Environment, format!("the turn goes on: {reason}")))?;
    printer.answer(&format!("turn {told}\n"));
    let turn = told.split(' ').next().unwrap_or_default().to_owned();
    printer.json(&Envelope::answer("turn", None, TurnData { turn }, printer.warnings()));
    Ok(Exit::Complete)
}

//! `ask`: what an agent says in its box when it needs more paths than its contract has.

use super::args::AskArgs;
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::inside;
use super::printer::Printer;
use super::settings::Settings;
use crate::agent::ask::{Answer, Ask};
use crate::agent::socket;
use crate::report::{Envelope, text};

pub(super) fn ask(args: &AskArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let instead = [
        "list the paths in the plan, under `owns` of the agent",
        "agents call it while they work; what they asked for is on `sandbox board`",
    ];
    let socket = inside::socket(settings, "nothing can be asked for", instead)?;
    let usage = |reason: String| Error::new(ErrorKind::Usage, format!("the request is wrong: {reason}"));
    let ask = Ask { owns: args.owns.clone(), why: args.why.clone() }.bounded().map_err(usage)?;
    ask.globs().map_err(usage)?;
    let reply = socket::ask(socket, &ask)
        .map_err(|reason| Error::new(ErrorKind::Environment, format!("the request was not taken: {reason}")))?;
    printer.answer(&format!("{}\n", text::clean(&reply.text)));
    let exit = match reply.answer {
        Answer::Owned | Answer::Granted | Answer::Recorded | Answer::Waiting => Exit::Complete,
        Answer::Refused => Exit::Incomplete,
    };
    printer.json(&Envelope::answer("ask", None, reply, printer.warnings()));
    Ok(exit)
}

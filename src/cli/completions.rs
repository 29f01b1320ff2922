//! `completions`: a script for a shell.

use clap::CommandFactory;
use serde::Serialize;

use super::args::{Cli, CompletionsArgs};
use super::error::Error;
use super::exit::Exit;
use super::printer::Printer;
use super::settings::Settings;
use crate::report::Envelope;

/// Data of `completions`.
#[derive(Debug, Serialize)]
struct CompletionsData {
    /// The shell.
    shell: String,
    /// The script.
    script: String,
}

#[expect(clippy::unnecessary_wraps, reason = "every verb has this form")]
pub(super) fn completions(args: &CompletionsArgs, _: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sandbox", &mut script);
    printer.answer_bytes(&script);
    let data = CompletionsData { shell: args.shell.to_string(), script: String::from_utf8_lossy(&script).into_owned() };
    printer.json(&Envelope::answer("completions", None, data, printer.warnings()));
    Ok(Exit::Complete)
}

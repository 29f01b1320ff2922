//! What is told where the arguments make no sense, and where only help or the version was asked for.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::ErrorKind as Clap;
use serde::Serialize;

use super::args::{Cli, Globals};
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::printer::Printer;
use super::settings::{Settings, Surroundings};
use crate::report::Envelope;

/// Data of `--help` and `--version` with `--json`.
#[derive(Debug, Serialize)]
struct Text {
    text: String,
}

/// What can be told of arguments that could not be understood as a whole.
#[derive(Debug, PartialEq, Eq)]
struct Glimpse {
    json: bool,
    command: &'static str,
}

/// Only what stands before `--` is ours.
fn glimpse(args: &[OsString]) -> Glimpse {
    let command = Cli::command();
    let known: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let ours = || args.iter().skip(1).take_while(|arg| *arg != "--");
    let typed = ours().find(|arg| known.iter().any(|name| **arg == **name));
    let command = typed.and_then(|typed| VERBS.iter().find(|name| *typed == ***name)).copied().unwrap_or_default();
    Glimpse { json: ours().any(|arg| arg == "--json"), command }
}

/// The words one can begin with. A test compares them with what clap knows.
const VERBS: [&str; 23] = [
    "run",
    "exec",
    "status",
    "inspect",
    "logs",
    "board",
    "merge",
    "verify",
    "land",
    "resume",
    "retry",
    "skip",
    "pause",
    "stop",
    "runs",
    "clean",
    "doctor",
    "init",
    "plan",
    "turn",
    "ask",
    "completions",
    "man",
];

/// Tells what clap has to say.
pub(super) fn tell(said: &clap::Error, args: &[OsString], around: &Surroundings) -> Exit {
    let glimpse = glimpse(args);
    let globals = Globals { json: glimpse.json, ..Globals::default() };
    let settings = Settings::new(&globals, around);
    tell_on(said, &glimpse, &mut Printer::of_this_process(settings.rules()))
}

fn tell_on(said: &clap::Error, glimpse: &Glimpse, printer: &mut Printer) -> Exit {
    let text = format!("{}\n", said.render().to_string().trim_end());
    if matches!(said.kind(), Clap::DisplayHelp | Clap::DisplayVersion) {
        printer.answer(&text);
        printer.json(&Envelope::answer(glimpse.command, None, Text { text }, Vec::new()));
        return Exit::Complete;
    }
    printer.error(&text);
    let failure = error(&text).failure();
    printer.json(&Envelope::<()>::failure(glimpse.command, None, failure, Vec::new()));
    Exit::Usage
}

/// Clap's text taken apart: the first paragraph is the message, tips and usage are hints.
fn error(text: &str) -> Error {
    let mut paragraphs = text.split("\n\n").map(str::trim);
    let first = paragraphs.next().unwrap_or_default();
    let Some(message) = first.strip_prefix("error: ") else {
        return Error::new(ErrorKind::Usage, "a command is missing").hint("`sandbox --help` lists them");
    };
    let message: Vec<&str> = message.lines().map(str::trim).collect();
    let mut error = Error::new(ErrorKind::Usage, message.join(" "));
    for paragraph in paragraphs {
        for line in paragraph.lines().map(str::trim) {
            if let Some(tip) = line.strip_prefix("tip: ") {
                error = error.hint(tip);
            } else if line.starts_with("Usage: ") {
                error = error.hint(line);
            }
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use clap::Parser;

    use super::*;
    use crate::cli::printer::Rules;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn said(line: &str) -> String {
        Cli::try_parse_from(words(line)).unwrap_err().render().to_string()
    }

    #[test]
    fn the_words_one_can_begin_with() {
        let command = Cli::command();
        let known: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(known, VERBS);
    }

    #[test]
    fn glimpses() {
        for (line, json, command) in [
            ("sandbox fly --json", true, ""),
            ("sandbox --json run", true, "run"),
            ("sandbox -C x status --fast", false, "status"),
            ("sandbox exec --name a -- status --json", false, "exec"),
            ("sandbox", false, ""),
        ] {
            assert_eq!(glimpse(&words(line)), Glimpse { json, command }, "{line}");
        }
    }

    #[test]
    fn with_json_wrong_usage_is_json_and_exits_with_2() {
        let buffer = Buffer::default();
        let rules = Rules { json: true, ..Rules::default() };
        for (line, exit, key) in [
            ("sandbox fly --json", Exit::Usage, "error"),
            ("sandbox run --json", Exit::Usage, "error"),
            ("sandbox --json", Exit::Usage, "error"),
            ("sandbox --json --version", Exit::Complete, "data"),
            ("sandbox run --help --json", Exit::Complete, "data"),
        ] {
            let mut printer = Printer::new(rules, Box::new(buffer.clone()), Box::new(std::io::sink()));
            let said = Cli::try_parse_from(words(line)).unwrap_err();
            assert_eq!(tell_on(&said, &glimpse(&words(line)), &mut printer), exit, "{line}");
            let bytes = std::mem::take(&mut *buffer.0.lock().unwrap());
            let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            assert!(value[key].is_object(), "{line}: {value}");
            assert_eq!(value["v"], 1, "{line}: {value}");
        }
    }

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().map_err(|_| std::io::Error::other("poisoned"))?.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn claps_text_becomes_message_and_hints() {
        insta::assert_snapshot!(error(&said("sandbox statsu")).render(), @r"
        error: unrecognized subcommand 'statsu'
        hint: a similar subcommand exists: 'status'
        hint: Usage: sandbox [OPTIONS] <COMMAND>
        ");
        insta::assert_snapshot!(error(&said("sandbox run")).render(), @r"
        error: the following required arguments were not provided: <PLAN>
        hint: Usage: sandbox run <PLAN>
        ");
        insta::assert_snapshot!(error(&said("sandbox exec --name Bad -- x")).render(), @"error: invalid value 'Bad' for '--name <NAME>': `Bad` is not a valid name: use lower-case letters, digits and single dashes between them, at most 32 characters");
        insta::assert_snapshot!(error(&said("sandbox")).render(), @r"
        error: a command is missing
        hint: `sandbox --help` lists them
        ");
    }
}

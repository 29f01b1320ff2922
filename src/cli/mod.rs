//! The command line: arguments become [`args::Cli`], then once [`settings::Settings`], then one call of a verb; what comes
//! back becomes text or JSON and an exit code.
//!
//! Promises:
//! - One file for each verb, named as it, with `fn verb(args, &Settings, &mut Printer) -> Result<Exit, Error>`.
//! - Only [`printer`] writes to the streams; with `--json` only JSON reaches stdout, also when a command fails and when the
//!   arguments make no sense.
//! - Nothing is ever asked. Stdin is never read.
//! - The exit codes are those of [`exit::Exit`], and no others: even a panic, which is a fault of ours, ends with 70.
//! - No thread is made and no async runtime is built here; a verb that needs one builds it.
//!
//! Why not let clap print and exit by itself: its messages would bypass `--json`, and its exits would bypass the one place
//! that knows whether the answer could be written.

mod again;
pub mod args;
mod ask;
mod board;
mod canary;
mod clean;
mod completions;
mod damage;
mod doctor;
pub mod error;
mod exec;
pub mod exit;
mod follow;
mod going;
mod init;
mod inside;
mod inspect;
mod log;
mod logs;
mod man;
mod output;
mod plan;
pub mod printer;
mod rehearsal;
mod resolve;
mod rooms;
mod run;
mod runs;
pub mod select;
pub mod settings;
mod sockets;
mod status;
mod steer;
mod stop;
mod turn;
mod usage;
mod view;

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;

use clap::Parser;

use args::DoctorArgs;
pub use args::{Cli, Verb};
pub use error::{Details, Error, ErrorKind};
pub use exit::Exit;
pub use printer::Printer;
pub use settings::{Settings, Surroundings};

use crate::model::os_refusal::OsRefusal;
use crate::report::Envelope;
use crate::store::space;
use crate::workspace::raise_open_files;

/// Does what the arguments say, the program's name being the first of them.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    if args.get(1).is_some_and(|first| first == canary::ARGUMENT) {
        return canary::inside(args.get(2..).unwrap_or_default());
    }
    raise_open_files();
    let around = Surroundings::of_this_process();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(said) => return usage::tell(&said, &args, &around),
    };
    let settings = Settings::new(&cli.globals, &around);
    let mut printer = Printer::of_this_process(settings.rules());
    log::start(&settings, &mut printer);
    let command = cli.verb.name();
    let done = std::panic::catch_unwind(AssertUnwindSafe(|| dispatch(cli.verb, &settings, &mut printer)));
    let done =
        done.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, format!("`{command}` met a fault of ours"))));
    conclude(command, done.map_err(|error| about_room(error, &settings)), &mut printer)
}

/// What other programs say of a disk that is full is often not that it is.
fn about_room(error: Error, settings: &Settings) -> Error {
    let hint = OsRefusal::NoSpace.hint();
    let is_told = error.failure().hints.iter().any(|told| told == hint);
    if error.exit() == Exit::Unfit && !is_told && space::is_full(&settings.dir) { error.hint(hint) } else { error }
}

/// Tells how a verb ended.
fn conclude(command: &str, done: Result<Exit, Error>, printer: &mut Printer) -> Exit {
    let exit = match done {
        Ok(exit) => exit,
        Err(error) => {
            printer.error(&error.render());
            let (run, warnings) = (error.run().cloned(), printer.warnings());
            printer.json(&Envelope::<()>::failure(command, run, error.failure(), warnings));
            error.exit()
        }
    };
    match printer.finish() {
        Ok(()) => exit,
        Err(cause) => {
            let error = Error::new(ErrorKind::Environment, "cannot write the answer to stdout").because(cause);
            printer.error(&error.render());
            if exit == Exit::Complete { error.exit() } else { exit }
        }
    }
}

fn dispatch(verb: Verb, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    match verb {
        Verb::Run(args) => run::run(&args, settings, printer),
        Verb::Exec(args) => exec::exec(&args, settings, printer),
        Verb::Status(args) => status::status(&args, settings, printer),
        Verb::Inspect(args) => inspect::inspect(&args, settings, printer),
        Verb::Logs(args) => logs::logs(&args, settings, printer),
        Verb::Board(args) => board::board(&args, settings, printer),
        Verb::Resume(args) => again::resume(&args, settings, printer),
        Verb::Merge(args) => again::merge(&args, settings, printer),
        Verb::Verify(args) => again::verify(&args, settings, printer),
        Verb::Land(args) => again::land(&args, settings, printer),
        Verb::Retry(args) => again::retry(&args, settings, printer),
        Verb::Stop(args) => stop::stop(&args, settings, printer),
        Verb::Pause(args) => steer::pause(&args, settings, printer),
        Verb::Skip(args) => steer::skip(&args, settings, printer),
        Verb::Runs => runs::runs(settings, printer),
        Verb::Clean(args) => clean::clean(&args, settings, printer),
        Verb::Plan(args::PlanArgs { verb: args::PlanVerb::Check(args) }) => plan::check(&args, settings, printer),
        Verb::Doctor(DoctorArgs { run: Some(run), repair }) => damage::damage(&run, repair, settings, printer),
        Verb::Doctor(DoctorArgs { run: None, .. }) => doctor::doctor(settings, printer),
        Verb::Init(args) => init::init(&args, settings, printer),
        Verb::Turn(args) => turn::turn(&args, settings, printer),
        Verb::Ask(args) => ask::ask(&args, settings, printer),
        Verb::Completions(args) => completions::completions(&args, settings, printer),
        Verb::Man(args) => man::man(&args, settings, printer),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;
    use printer::Rules;

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_that_could_not_be_written_is_never_a_success() {
        let mut printer = Printer::new(Rules::default(), Box::new(Full), Box::new(io::sink()));
        printer.answer("x");
        assert_eq!(conclude("runs", Ok(Exit::Complete), &mut printer), Exit::Unfit);
    }
}

//! `man`: the manual, made of the same definitions as the help.

use clap::{Command, CommandFactory};
use serde::Serialize;

use super::args::{Cli, ManArgs};
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::printer::Printer;
use super::settings::Settings;
use crate::report::Envelope;
use crate::store::atomic::{self, Existing};

/// Data of `man`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ManData {
    /// Without a folder: the first page.
    Page {
        /// In roff.
        page: String,
    },
    /// With a folder: the files written into it.
    Files {
        /// Their paths.
        files: Vec<String>,
    },
}

pub(super) fn man(args: &ManArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let mut root = Cli::command();
    root.build();
    let Some(dir) = &args.into else {
        let page = page(&root)?;
        printer.answer_bytes(&page);
        let page = String::from_utf8_lossy(&page).into_owned();
        printer.json(&Envelope::answer("man", None, ManData::Page { page }, printer.warnings()));
        return Ok(Exit::Complete);
    };
    let dir = settings.resolve(dir);
    std::fs::create_dir_all(&dir).map_err(|error| {
        Error::new(ErrorKind::Environment, format!("cannot make the folder `{}`", dir.display())).because(error)
    })?;
    let mut files = Vec::new();
    for command in commands(&root) {
        let path = dir.join(format!("{}.1", title(command)));
        atomic::write_for_user(&path, &page(command)?, Existing::Replace)?;
        files.push(path.to_string_lossy().into_owned());
    }
    printer.answer(&format!("wrote {} pages to {}\n", files.len(), crate::report::text::shown(dir.display())));
    printer.json(&Envelope::answer("man", None, ManData::Files { files }, printer.warnings()));
    Ok(Exit::Complete)
}

/// The command and all below it, without the generated `help`.
fn commands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|sub| sub.get_name() != "help").flat_map(commands);
    std::iter::once(command).chain(below).collect()
}

fn title(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> Result<Vec<u8>, Error> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(title(command))
        .render(&mut page)
        .map_err(|error| Error::of(ErrorKind::Internal, error))?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_for_every_command() {
        let mut root = Cli::command();
        root.build();
        let titles: Vec<&str> = commands(&root).into_iter().map(title).collect();
        assert!(titles.contains(&"sandbox") && titles.contains(&"sandbox-board-show"), "{titles:?}");
        let first = String::from_utf8(page(&root).unwrap()).unwrap();
        assert!(first.contains(".TH sandbox 1") && first.contains("Exit codes"), "{first}");
    }
}

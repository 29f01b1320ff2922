//! Words that several kinds of cards use.

use crate::git::Entry;
use crate::model::card::{Card, CardOption, Stage};
use crate::model::{AgentName, CardId, RepoPath, RunId};

/// How many paths a summary names.
const NAMED: usize = 3;

/// Paths in a line: the first few by name, the rest as a number.
pub(super) fn listed(paths: &[RepoPath]) -> String {
    let mut text = paths.iter().take(NAMED).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    if paths.len() > NAMED {
        text = format!("{text} and {} more", paths.len() - NAMED);
    }
    text
}

/// Names in a line.
pub(super) fn named(agents: &[AgentName]) -> String {
    agents.iter().map(|agent| format!("`{agent}`")).collect::<Vec<_>>().join(", ")
}

/// The card with its commands naming the run: without it, that of the newest is meant.
pub fn in_run(mut card: Card, run: &RunId) -> Card {
    for option in &mut card.options {
        if option.command == "sandbox merge" || option.command == "sandbox land" {
            option.command = format!("{} {run}", option.command);
        } else if option.command.starts_with("sandbox ") {
            // What stands behind `--` is another program's.
            let (own, given) = option.command.split_once(" -- ").unwrap_or((&option.command, ""));
            let given = if given.is_empty() { String::new() } else { format!(" -- {given}") };
            option.command = format!("{own} --run {run}{given}");
        }
    }
    card
}

pub(super) fn option(title: impl Into<String>, command: impl Into<String>) -> CardOption {
    CardOption { title: title.into(), command: command.into() }
}

/// To read what an agent did.
pub(super) fn look_at(agent: &AgentName) -> CardOption {
    option(format!("read what `{agent}` changed"), format!("sandbox inspect {agent} --patch"))
}

/// To go on in the agent's own worktree.
pub(super) fn try_again(agent: &AgentName) -> CardOption {
    option(
        format!("have `{agent}` try again in the same worktree, with everything it has done so far"),
        format!("sandbox retry {agent}"),
    )
}

/// To begin anew on top of what is merged.
pub(super) fn begin_anew(agent: &AgentName) -> CardOption {
    option(
        format!("have `{agent}` do its task anew on top of the present candidate; what it has done so far is kept"),
        format!("sandbox retry {agent} --fresh"),
    )
}

/// To let be merged what is held.
pub(super) fn let_in(card: &CardId) -> CardOption {
    option("if the change is wanted: let it be merged", format!("sandbox board approve {card} --why 'the reason'"))
}

/// To do without an agent's work.
pub(super) fn leave_out(card: &CardId, agent: &AgentName) -> CardOption {
    option(format!("leave the work of `{agent}` out"), format!("sandbox board dismiss {card}"))
}

pub(super) fn stage(path: &RepoPath, stage: u8, entry: &Entry) -> Stage {
    Stage { path: path.clone(), stage, mode: entry.mode.to_string(), oid: entry.id.clone() }
}

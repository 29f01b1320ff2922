//! Which run, agent or card is meant: the newest, an exact name, or a prefix that fits only one.

use std::fmt::Display;

use super::error::{Error, ErrorKind};
use crate::model::RunId;
use crate::model::card::Card;
use crate::model::run::{AgentState, RunState};
use crate::report::text;
use crate::store::{RunDir, StateDir, journal, runs};

/// How many names an error lists.
const NAMED: usize = 8;

/// The run that is meant, of those there are.
pub fn run(asked: Option<&str>, known: &[RunId]) -> Result<RunId, Error> {
    let Some(asked) = asked else {
        let newest = known.iter().max_by_key(|run| run.number()).cloned();
        return newest.ok_or_else(|| {
            Error::new(ErrorKind::Usage, "there is no run in this repository yet")
                .hint("`sandbox run <plan>` starts one")
        });
    };
    one("run", asked, known.iter().map(|run| (run.as_str(), run)))
        .cloned()
        .map_err(|error| error.hint("`sandbox runs` lists them"))
}

/// The run that is meant, of those of a repository. Writes nothing.
pub fn find(state: &StateDir, asked: Option<&str>) -> Result<RunDir, Error> {
    let known: Vec<RunId> = runs::list(state)?.runs.iter().map(|run| run.id().clone()).collect();
    Ok(state.run(&run(asked, &known)?))
}

/// How a run stands, from its journal. Writes nothing and waits for nobody.
pub fn load(run: &RunDir) -> Result<RunState, Error> {
    let events = journal::read(run).map_err(|error| Error::from(error).in_run(run.id()))?.into_events();
    Ok(RunState::fold(run.id().clone(), &events))
}

/// The agent that is meant, of those of a run.
pub fn agent<'s>(asked: &str, state: &'s RunState) -> Result<&'s AgentState, Error> {
    one("agent", asked, state.agents.iter().map(|agent| (agent.name.as_str(), agent)))
        .map_err(|error| error.hint(format!("`sandbox status {}` lists them", state.run_id)).in_run(&state.run_id))
}

/// The card that is meant, of those of a run, closed ones too.
pub fn card<'s>(asked: &str, state: &'s RunState) -> Result<&'s Card, Error> {
    one("card", asked, state.cards.iter().map(|card| (card.id.as_str(), card)))
        .map_err(|error| error.hint(format!("`sandbox board --run {}` lists them", state.run_id)).in_run(&state.run_id))
}

/// The one thing of that name; an exact name wins over being a prefix of others.
fn one<'a, T>(what: &str, asked: &str, known: impl Iterator<Item = (&'a str, T)>) -> Result<T, Error> {
    let mut known: Vec<(&str, T)> = known.collect();
    if let Some(exact) = known.iter().position(|(name, _)| *name == asked) {
        return Ok(known.swap_remove(exact).1);
    }
    let all: Vec<String> = known.iter().map(|(name, _)| (*name).to_owned()).collect();
    known.retain(|(name, _)| !asked.is_empty() && name.starts_with(asked));
    let fitting: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    match fitting.len() {
        0 if all.is_empty() => Err(unknown(what, asked)),
        0 => Err(unknown(what, asked).hint(format!("there is {}", names(&all)))),
        1 => Ok(known.swap_remove(0).1),
        several => Err(Error::new(ErrorKind::Usage, format!("`{asked}` fits {several} {what}s: {}", names(&fitting)))
            .hint("write more of the name")),
    }
}

fn unknown(what: &str, asked: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("there is no {what} `{asked}`"))
}

fn names<T: Display>(names: &[T]) -> String {
    text::list(names, NAMED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    fn runs(names: &[&str]) -> Vec<RunId> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn of_runs() {
        let known = runs(&["login-1", "login-12", "docs-3"]);
        for (asked, found) in [
            (None, Ok("login-12")),
            (Some("docs"), Ok("docs-3")),
            (Some("login-1"), Ok("login-1")),
            (Some("login-12"), Ok("login-12")),
            (Some("login"), Err("`login` fits 2 runs: login-1, login-12")),
            (Some(""), Err("there is no run ``")),
            (Some("x"), Err("there is no run `x`")),
            (Some("ocs"), Err("there is no run `ocs`")),
        ] {
            let got = run(asked, &known);
            let got = got.as_ref().map(RunId::as_str).map_err(ToString::to_string);
            assert_eq!(got, found.map_err(str::to_owned), "{asked:?}");
        }
        assert_eq!(run(None, &[]).unwrap_err().exit().code(), 2);
        assert_eq!(run(Some("x"), &[]).unwrap_err().exit().code(), 2);
    }

    #[test]
    fn of_agents_and_cards() {
        let state = samples::blocked();
        assert_eq!(agent("p", &state).unwrap().name.as_str(), "parser");
        let error = agent("x", &state).unwrap_err();
        insta::assert_snapshot!(error.render(), @r"
        error: there is no agent `x`
        hint: there is parser, ui, api, docs
        hint: `sandbox status login-3` lists them
        ");
        assert_eq!(card("c1a", &state).unwrap().id.as_str(), "c1a2b3c4");
        assert_eq!(card("c9", &state).unwrap_err().exit().code(), 2);
    }
}

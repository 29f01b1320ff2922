//! What is damaged of what is kept of a run, what depends on it, and what can be made anew.
//!
//! Looking writes nothing. Repairing writes only what follows from the journal: the derived files, and the journal's last
//! line where a crash cut it short. A journal that is damaged elsewhere leaves nothing to derive from, and nothing is
//! written then.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::derived::Derived;
use super::error::Error;
use crate::change::bundle;
use crate::git::Repository;
use crate::model::event::{Event, TurnFinished};
use crate::model::plan::RunSettings;
use crate::model::run::{AgentState, RunState};
use crate::model::{AgentName, ObjectId, RefName, RunId, TurnId};
use crate::store::journal::{Clock, Salvage, salvage};
use crate::store::{Format, JournalWriter, RunDir, RunLock, StateDir, format, json, lock};
use crate::workspace::WorkspaceRecord;

/// How a file, or a ref, is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// It is not there.
    Missing,
    /// It is not what was written.
    Damaged,
    /// A newer version of the program wrote it.
    Newer,
    /// A crash cut its last line short.
    Torn,
    /// It lags behind the journal, or differs from it.
    Stale,
}

/// What can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// It follows from the journal: `--repair` writes it anew.
    Derivable,
    /// It does not follow from anything that is kept.
    None,
    /// It was written anew.
    Repaired,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The file, relative to the run's folder; or the ref.
    pub file: String,
    /// How.
    pub fault: Fault,
    /// What was found, in a line.
    pub found: String,
    /// What depends on it, in a line.
    pub depends: String,
    /// What can be done.
    pub remedy: Remedy,
}

/// How far a journal can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Readable {
    /// The number of the last event that can be read; 0 for none.
    pub last_seq: u64,
    /// Its type.
    pub last_type: Option<String>,
    /// Numbers of events that stand whole behind the damage, and are not used.
    pub beyond: Vec<u64>,
    /// Each agent that the readable part knows, with the turns it tells of.
    pub agents: Vec<ReadableAgent>,
}

/// What can be read of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReadableAgent {
    /// Which.
    pub agent: AgentName,
    /// Its turns.
    pub turns: Vec<TurnId>,
}

/// A run's record, looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examination {
    /// The run.
    pub run: RunId,
    /// Whether its coordinator lives.
    pub alive: bool,
    /// The journal.
    pub readable: Readable,
    /// All that is not as it should be.
    pub findings: Vec<Finding>,
}

/// Looks at everything that is kept of a run. Writes nothing and waits for nobody.
pub fn examine(repository: &Repository, state_dir: &StateDir, run: &RunDir) -> Result<Examination, Error> {
    let alive = lock::run_lock_state(run)?.is_held();
    let journal = salvage(run)?;
    let state = RunState::fold(run.id().clone(), &journal.events);
    let mut looking = Looking { run, findings: Vec::new() };
    looking.format(state_dir);
    looking.journal(&journal);
    looking.settings();
    if journal.damage.is_none() && !alive {
        looking.derived(&state, &journal.events)?;
    }
    let refs = load_refs(repository, run.id())?;
    looking.expect_ref(&refs, &RefName::base(run.id()), state.started.as_ref().map(|started| started.base.object()));
    for agent in &state.agents {
        looking.worktrees(agent);
        for (turn, told) in turns_of(agent) {
            looking.turn(agent, turn, told);
            let name = RefName::snapshot(run.id(), &agent.name, turn);
            looking.expect_ref(&refs, &name, Some(told.snapshot.object()));
        }
    }
    let readable = readable(&journal, &state);
    Ok(Examination { run: run.id().clone(), alive, readable, findings: looking.findings })
}

/// Writes anew what follows from the journal, and takes a last line aside that was cut short. Gives the files written.
pub fn repair(state_dir: &StateDir, run: &RunDir, clock: Clock) -> Result<Vec<String>, Error> {
    format::require_writable(state_dir)?;
    let held = RunLock::try_acquire(run)?;
    let before = salvage(run)?;
    if let Some(damage) = before.damage {
        return Err(damage.into());
    }
    if before.events.is_empty() {
        return Err(Error::NoStart { run: run.id().clone() });
    }
    let mut written = Vec::new();
    let (writer, opened) = JournalWriter::open(run, held, clock)?;
    if opened.repair.is_some() {
        written.push(name_of(run, &run.journal()));
    }
    let state = RunState::fold(run.id().clone(), &opened.events);
    let derived = Derived::new(run, &state, &opened.events);
    for file in derived.files(&state) {
        let (path, expected) = derived.expected(file, &state)?;
        if json::load_derived::<Value>(&path)?.0.as_ref() != Some(&expected) {
            derived.write(file, &state)?;
            written.push(name_of(run, &path));
        }
    }
    drop(writer);
    Ok(written)
}

fn turns_of(agent: &AgentState) -> impl Iterator<Item = (TurnId, &TurnFinished)> {
    agent.attempts.iter().flat_map(|attempt| attempt.turns.iter().map(|(turn, told)| (*turn, told)))
}

fn readable(journal: &Salvage, state: &RunState) -> Readable {
    let last = journal.events.last();
    let agents = state.agents.iter().map(|agent| ReadableAgent {
        agent: agent.name.clone(),
        turns: turns_of(agent).map(|(turn, _)| turn).collect(),
    });
    Readable {
        last_seq: last.map_or(0, |event| event.seq),
        last_type: last.map(|event| event.kind.name().to_owned()),
        beyond: journal.beyond.clone(),
        agents: agents.collect(),
    }
}

fn load_refs(repository: &Repository, run: &RunId) -> Result<BTreeMap<String, ObjectId>, Error> {
    let found = repository.load_refs(&format!("refs/sandbox/{run}/"))?;
    Ok(found.into_iter().map(|found| (found.name.as_str().to_owned(), found.id)).collect())
}

fn name_of(run: &RunDir, path: &Path) -> String {
    run.relative(path).unwrap_or_else(|| path.display().to_string())
}

struct Looking<'a> {
    run: &'a RunDir,
    findings: Vec<Finding>,
}

impl Looking<'_> {
    fn tell(&mut self, file: String, fault: Fault, found: impl Into<String>, depends: &str, remedy: Remedy) {
        self.findings.push(Finding { file, fault, found: found.into(), depends: depends.to_owned(), remedy });
    }

    fn format(&mut self, state_dir: &StateDir) {
        let (fault, found) = match format::load(state_dir) {
            Ok(Format::Absent | Format::Current) => return,
            Ok(Format::Newer(found)) => {
                (Fault::Newer, format!("{found}, and this version knows up to {}", format::VERSION))
            }
            Err(error) => (Fault::Damaged, error.to_string()),
        };
        self.tell("FORMAT".to_owned(), fault, found, "every verb that writes", Remedy::None);
    }

    fn journal(&mut self, journal: &Salvage) {
        const DEPENDS: &str = "everything: status, resume, merge, land; snapshots and patches can be read without it";
        let name = name_of(self.run, &self.run.journal());
        let (fault, found) = match &journal.damage {
            Some(error @ crate::store::Error::Newer { .. }) => (Fault::Newer, error.to_string()),
            Some(error) => (Fault::Damaged, format!("{error}{}", beyond_text(&journal.beyond))),
            None if !journal.is_there => (Fault::Missing, "there is no journal".to_owned()),
            None if journal.events.is_empty() => (Fault::Missing, "there is no event in it".to_owned()),
            None => {
                if let Some(torn) = &journal.torn {
                    let found =
                        format!("its last {} bytes, from byte {}, are no whole line", torn.bytes.len(), torn.offset);
                    let depends = "nothing: what is not whole was not acted on";
                    self.tell(name, Fault::Torn, found, depends, Remedy::Derivable);
                }
                return;
            }
        };
        self.tell(name, fault, found, DEPENDS, Remedy::None);
    }

    fn settings(&mut self) {
        let path = self.run.settings();
        let depends = "resume, merge, verify, land, retry: without it the run can only be looked at";
        let loaded = json::load::<RunSettings>(&path);
        self.note(&path, loaded.map(|found| found.is_some()), depends);
        let path = self.run.plan();
        let there = json::load_bytes(&path).map(|bytes| bytes.is_some());
        self.note(&path, there, "nothing but looking at the plan as it was written");
    }

    /// Tells of a file that is missing (`false`) or cannot be read.
    fn note(&mut self, path: &Path, found: Result<bool, crate::store::Error>, depends: &str) {
        let name = name_of(self.run, path);
        match found {
            Ok(true) => {}
            Ok(false) => self.tell(name, Fault::Missing, "it is not there", depends, Remedy::None),
            Err(error) => self.tell(name, Fault::Damaged, error.to_string(), depends, Remedy::None),
        }
    }

    fn derived(&mut self, state: &RunState, events: &[Event]) -> Result<(), Error> {
        if events.is_empty() {
            return Ok(());
        }
        let derived = Derived::new(self.run, state, events);
        for file in derived.files(state) {
            let (path, expected) = derived.expected(file, state)?;
            let (fault, found) = match json::load_derived::<Value>(&path)? {
                (Some(found), _) if found == expected => continue,
                (Some(_), _) => (Fault::Stale, "it differs from what the journal says".to_owned()),
                (None, Some(warning)) => (Fault::Damaged, warning.text),
                (None, None) => (Fault::Missing, "it is not there".to_owned()),
            };
            let name = name_of(self.run, &path);
            self.tell(name, fault, found, "who looks at the file: nothing is decided by it", Remedy::Derivable);
        }
        Ok(())
    }

    fn worktrees(&mut self, agent: &AgentState) {
        // One that was blocked, or left out before it began, never had any.
        if agent.attempts.iter().all(|attempt| attempt.started.is_none()) {
            return;
        }
        for generation in 1.. {
            let path = self.run.workspace(&agent.name, generation);
            let loaded = json::load::<WorkspaceRecord>(&path).map(|found| found.is_some());
            // There is one at least, and after it as many as there are.
            if generation > 1 && matches!(loaded, Ok(false)) {
                break;
            }
            let goes_on = matches!(loaded, Ok(true));
            self.note(&path, loaded, "going on in its worktree: `sandbox retry --fresh` makes another");
            if !goes_on {
                break;
            }
        }
    }

    fn turn(&mut self, agent: &AgentState, turn: TurnId, told: &TurnFinished) {
        let path = self.run.turn(&agent.name, turn);
        let depends = "`sandbox inspect --turn`; the snapshot itself is kept by its ref";
        let record = match bundle::load(self.run, &agent.name, turn) {
            Ok(Some(record)) => record,
            Ok(None) => return self.note(&path, Ok(false), depends),
            Err(error) => return self.note(&path, Err(error), depends),
        };
        if record.snapshot != told.snapshot || record.tree != told.tree {
            let found = format!("it is of {}, and the journal tells of {}", record.snapshot, told.snapshot);
            self.tell(name_of(self.run, &path), Fault::Damaged, found, depends, Remedy::None);
        }
        if let Some(sha256) = &record.patch_sha256 {
            self.patch(agent, turn, sha256, &format!("git diff --binary {} {}", record.previous_tree, record.tree));
        }
    }

    fn patch(&mut self, agent: &AgentState, turn: TurnId, sha256: &str, again: &str) {
        let path = self.run.patch(&agent.name, turn);
        let depends = format!("carrying the turn elsewhere; `{again}` gives the same change");
        match json::load_bytes(&path) {
            Ok(Some(bytes)) if hex::encode(Sha256::digest(&bytes)) == sha256 => {}
            Ok(Some(_)) => {
                let found = "it is not the patch that its record names";
                self.tell(name_of(self.run, &path), Fault::Damaged, found, &depends, Remedy::None);
            }
            Ok(None) => self.note(&path, Ok(false), &depends),
            Err(error) => self.note(&path, Err(error), &depends),
        }
    }

    fn expect_ref(&mut self, refs: &BTreeMap<String, ObjectId>, name: &RefName, expected: Option<&ObjectId>) {
        let Some(expected) = expected else { return };
        let again = format!(
            "keeping commit {expected} from git's cleaning up: `git update-ref {name} {expected}` pins it while it is there"
        );
        match refs.get(name.as_str()) {
            Some(found) if found == expected => {}
            Some(found) => {
                self.tell(name.to_string(), Fault::Damaged, format!("it names {found}"), &again, Remedy::None);
            }
            None => self.tell(name.to_string(), Fault::Missing, "there is no such ref", &again, Remedy::None),
        }
    }
}

fn beyond_text(beyond: &[u64]) -> String {
    match (beyond.first(), beyond.last()) {
        (Some(first), Some(last)) => {
            format!("; behind it {} events stand whole, from {first} to {last}, and are not used", beyond.len())
        }
        _ => "; behind it nothing can be read".to_owned(),
    }
}

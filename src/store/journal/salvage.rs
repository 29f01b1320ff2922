//! What can still be read of a journal that is damaged.

use super::scan::{Position, Torn, scan_to_damage};
use crate::model::event::Event;
use crate::store::layout::RunDir;
use crate::store::{Error, json};

/// A journal, as far as it can be read.
#[derive(Debug)]
pub struct Salvage {
    /// Whether there is one.
    pub is_there: bool,
    /// The events before the damage; all of them where there is none.
    pub events: Vec<Event>,
    /// A last line that a crash cut short.
    pub torn: Option<Torn>,
    /// What is wrong, and where.
    pub damage: Option<Error>,
    /// The numbers of events that stand whole behind the damage. They are told and not used: what lies between is not known.
    pub beyond: Vec<u64>,
}

/// Reads what can be read. Takes no lock and writes nothing.
pub fn salvage(run: &RunDir) -> Result<Salvage, Error> {
    let path = run.journal();
    let bytes = json::load_bytes(&path)?;
    let is_there = bytes.is_some();
    let bytes = bytes.unwrap_or_default();
    let (found, damage) = scan_to_damage(&path, run.id(), Position::default(), &bytes);
    let mut beyond = Vec::new();
    if damage.is_some() {
        let rest = usize::try_from(found.end.offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let events = rest.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Event>(line).ok());
        beyond.extend(events.filter(|event| event.run_id == *run.id()).map(|event| event.seq));
    }
    Ok(Salvage { is_there, events: found.events, torn: found.torn, damage, beyond })
}

//! The card of work outside a contract.

use super::identity::{card_id, fingerprint};
use super::wording::{leave_out, let_in, listed, look_at, stage, try_again};
use crate::git::TreeChange;
use crate::model::card::{Card, CardKind, CardState};
use crate::model::plan::Contract;
use crate::model::{AgentName, RepoPath};

/// The card of an agent that changed paths its contract does not cover. `outside` are the changes at these paths since the
/// fork point, renames not looked for.
pub fn scope(agent: &AgentName, contract: &Contract, outside: &[TreeChange]) -> Card {
    let mut paths: Vec<RepoPath> = outside.iter().map(|change| change.path.clone()).collect();
    paths.sort();
    // One path may have been changed more than once, where each commit of an agent's counts.
    paths.dedup();
    let agents = vec![agent.clone()];
    let fingerprint = fingerprint(outside.iter().map(|change| (&change.path, change.new.as_ref())));
    let owned = contract.owns.iter().chain(&contract.shares).map(|glob| format!("`{glob}`")).collect::<Vec<_>>();
    let mut stages = Vec::new();
    for change in outside {
        stages.extend(change.old.as_ref().map(|entry| stage(&change.path, 1, entry)));
        stages.extend(change.new.as_ref().map(|entry| stage(&change.path, 3, entry)));
    }
    stages.sort();
    let id = card_id(CardKind::Scope, &agents, &fingerprint);
    Card {
        kind: CardKind::Scope,
        state: CardState::NeedsHuman,
        agents,
        summary: format!("`{agent}` changed {}, and owns only {}", listed(&paths), owned.join(", ")),
        paths,
        sides: None,
        stages,
        messages: Vec::new(),
        fingerprint,
        options: vec![look_at(agent), let_in(&id), try_again(agent), leave_out(&id, agent)],
        id,
        request: None,
        snapshot: None,
        resolution: None,
        answer: None,
        landing: None,
        proposal: None,
        history: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::{ChangeKind, Entry, Mode};
    use crate::model::ObjectFormat;

    fn changed(path: &str, mode: Mode) -> TreeChange {
        let entry = Entry { mode, id: ObjectFormat::Sha1.zero() };
        TreeChange { kind: ChangeKind::Added, path: path.into(), old: None, new: Some(entry) }
    }

    #[test]
    fn a_card_is_about_paths_and_what_stands_there() {
        let contract = Contract { owns: vec!["src/**".to_owned()], shares: vec!["Cargo.lock".to_owned()] };
        let parser = "parser".parse().unwrap();
        let paths = ["d", "a", "b", "c"].map(|path| changed(path, Mode::FILE));
        let card = scope(&parser, &contract, &paths);
        assert_eq!(card.summary, "`parser` changed `a`, `b`, `c` and 1 more, and owns only `src/**`, `Cargo.lock`");
        assert_eq!(card.stages.len(), 4);
        let mut other = paths.clone();
        other.reverse();
        assert_eq!(scope(&parser, &contract, &other).id, card.id);
        other[0] = changed("c", Mode::EXECUTABLE);
        assert_ne!(scope(&parser, &contract, &other).id, card.id);
    }
}

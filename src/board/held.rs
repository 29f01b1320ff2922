//! The cards of trees that must not be merged unseen.

use super::identity::{card_id, fingerprint, fingerprint_of_changes};
use super::wording::{leave_out, let_in, listed, look_at, stage, try_again};
use crate::git::Entry;
use crate::model::card::{Card, CardKind, CardState, ConflictMessage};
use crate::model::{AgentName, RepoPath};

/// A path that holds a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPath {
    /// The path.
    pub path: RepoPath,
    /// What stood there, where the matter is what became of it.
    pub before: Option<Entry>,
    /// What stands there, where it is one thing.
    pub entry: Option<Entry>,
    /// What is wrong with it, in a line.
    pub text: String,
}

/// The card of paths that hold the merge of `agent`: `kind` is a nested repository, a submodule, an unsafe tree, or
/// protected paths.
pub fn held(kind: CardKind, agent: &AgentName, paths: &[HeldPath]) -> Card {
    let mut sorted = paths.to_vec();
    sorted.sort_by(|one, other| (&one.path, &one.text).cmp(&(&other.path, &other.text)));
    let mut names: Vec<RepoPath> = sorted.iter().map(|held| held.path.clone()).collect();
    names.dedup();
    // Whoever lets a submodule go from one commit to another says nothing of the way from a third.
    let (fingerprint, can_be_approved) = match kind {
        CardKind::Submodule => {
            let changes = sorted.iter().map(|held| (&held.path, [held.before.as_ref(), held.entry.as_ref()]));
            (fingerprint_of_changes(changes), true)
        }
        CardKind::Protected
        | CardKind::NestedRepository
        | CardKind::UnsafeTree
        | CardKind::Conflict
        | CardKind::Scope
        | CardKind::MergeError
        | CardKind::ScopeRequest
        | CardKind::Landing => {
            let paths = sorted.iter().map(|held| (&held.path, held.entry.as_ref()));
            (fingerprint(paths), kind == CardKind::Protected)
        }
    };
    let what = match kind {
        CardKind::NestedRepository => "left a repository inside its worktree, whose files no commit holds",
        CardKind::Submodule => "changed submodules",
        CardKind::UnsafeTree => "made paths that must not be merged unseen",
        CardKind::Protected => "changed protected paths",
        CardKind::Conflict | CardKind::Scope | CardKind::MergeError | CardKind::ScopeRequest | CardKind::Landing => {
            "holds something back"
        }
    };
    let agents = vec![agent.clone()];
    let id = card_id(kind, &agents, &fingerprint);
    Card {
        kind,
        state: CardState::NeedsHuman,
        agents,
        summary: format!("`{agent}` {what}: {}", listed(&names)),
        paths: names,
        sides: None,
        stages: sorted
            .iter()
            .flat_map(|held| {
                let sides = [(1, held.before.as_ref()), (3, held.entry.as_ref())];
                sides.into_iter().filter_map(|(number, entry)| Some(stage(&held.path, number, entry?)))
            })
            .collect(),
        messages: sorted
            .iter()
            .map(|held| ConflictMessage {
                kind: kind.to_string(),
                paths: vec![held.path.clone()],
                text: held.text.clone(),
            })
            .collect(),
        fingerprint,
        options: if can_be_approved {
            vec![look_at(agent), let_in(&id), try_again(agent), leave_out(&id, agent)]
        } else {
            vec![look_at(agent), try_again(agent), leave_out(&id, agent)]
        },
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
    use crate::git::Mode;
    use crate::model::ObjectFormat;

    #[test]
    fn what_is_approved_of_a_submodule_is_one_step_of_it() {
        let entry = |digit: &str| Some(Entry { mode: Mode::GITLINK, id: digit.repeat(40).parse().unwrap() });
        let card = |before, entry| {
            let path = HeldPath { path: "sub".into(), before, entry, text: "t".to_owned() };
            held(CardKind::Submodule, &"parser".parse().unwrap(), &[path])
        };
        let step = card(entry("1"), entry("2"));
        assert_eq!(step.summary, "`parser` changed submodules: `sub`");
        assert_eq!(step.stages.iter().map(|it| it.stage).collect::<Vec<_>>(), [1, 3]);
        assert!(step.options.iter().any(|it| it.command.starts_with("sandbox board approve")));
        assert_eq!(step.id, card(entry("1"), entry("2")).id);
        for (before, after) in [("3", entry("2")), ("1", entry("3")), ("2", entry("1")), ("1", None)] {
            assert_ne!(step.id, card(entry(before), after).id);
        }
        assert_ne!(card(None, entry("1")).id, card(entry("1"), None).id);
    }

    #[test]
    fn a_card_names_each_path_and_what_is_wrong() {
        let path = |path: &str| HeldPath {
            path: path.into(),
            before: None,
            entry: Some(Entry { mode: Mode::GITLINK, id: ObjectFormat::Sha1.zero() }),
            text: format!("`{path}` is a repository of its own"),
        };
        let card = held(CardKind::NestedRepository, &"parser".parse().unwrap(), &[path("z"), path("a")]);
        assert_eq!(
            card.summary,
            "`parser` left a repository inside its worktree, whose files no commit holds: `a`, `z`"
        );
        assert_eq!(card.messages.len(), 2);
        assert_eq!(card.stages[0].mode, "160000");
    }
}

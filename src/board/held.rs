//! The cards of trees that must not be merged unseen.

use super::identity::{card_id, fingerprint};
use super::wording::{leave_out, let_in, listed, look_at, stage, try_again};
use crate::git::Entry;
use crate::model::card::{Card, CardKind, CardState, ConflictMessage};
use crate::model::{AgentName, RepoPath};

/// A path that holds a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPath {
    /// The path.
    pub path: RepoPath,
    /// What stands there, where it is one thing.
    pub entry: Option<Entry>,
    /// What is wrong with it, in a line.
    pub text: String,
}

/// The card of paths that hold the merge of `agent`: `kind` is a nested repository,
/// an unsafe tree, or protected paths.
pub fn held(kind: CardKind, agent: &AgentName, paths: &[HeldPath]) -> Card {
    let mut sorted = paths.to_vec();
    sorted.sort_by(|one, other| (&one.path, &one.text).cmp(&(&other.path, &other.text)));
    let mut names: Vec<RepoPath> = sorted.iter().map(|held| held.path.clone()).collect();
    names.dedup();
    let fingerprint = fingerprint(sorted.iter().map(|held| (&held.path, held.entry.as_ref())));
    let what = match kind {
        CardKind::NestedRepository => "left a repository inside its worktree, whose files no commit holds",
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
        stages: sorted.iter().filter_map(|held| Some(stage(&held.path, 3, held.entry.as_ref()?))).collect(),
        messages: sorted
            .iter()
            .map(|held| ConflictMessage {
                kind: kind.to_string(),
                paths: vec![held.path.clone()],
                text: held.text.clone(),
            })
            .collect(),
        fingerprint,
        options: if kind == CardKind::Protected {
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
    fn a_card_names_each_path_and_what_is_wrong() {
        let path = |path: &str| HeldPath {
            path: path.into(),
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

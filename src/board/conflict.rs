//! The card of a conflict.

use super::identity::card_id;
use super::wording::{begin_anew, leave_out, listed, look_at, named, option, stage};
use crate::git;
use crate::model::card::{Card, CardKind, CardOption, CardState, ConflictMessage, Sides};
use crate::model::{AgentName, CardId};

/// The card of a conflict of `waiting`, whose work is not merged. `others` are agents already merged that changed the same
/// paths; none where it is the target's own history that it conflicts with.
///
/// Some conflicts have no stages, a folder renamed to two places for one: then the messages say what it is.
pub fn conflict(conflict: &git::Conflict, sides: Sides, waiting: &AgentName, others: &[AgentName]) -> Card {
    let agents: Vec<AgentName> = std::iter::once(waiting).chain(others).cloned().collect();
    let paths = conflict.paths();
    let with = if others.is_empty() { "the target".to_owned() } else { named(others) };
    let summary = format!("`{waiting}` conflicts with {with} in {} ({})", listed(&paths), conflict.kinds.join(", "));
    let id = card_id(CardKind::Conflict, &agents, &conflict.fingerprint);
    Card {
        kind: CardKind::Conflict,
        state: CardState::NeedsHuman,
        paths,
        summary,
        options: options(&id, waiting, others, &sides),
        id,
        stages: conflict.stages.iter().map(|it| stage(&it.path, it.side.stage(), &it.entry)).collect(),
        messages: conflict.messages.iter().map(message).collect(),
        fingerprint: conflict.fingerprint.clone(),
        agents,
        sides: Some(sides),
        request: None,
        snapshot: None,
        resolution: None,
        answer: None,
        landing: None,
        proposal: None,
        history: Vec::new(),
    }
}

fn message(said: &git::Message) -> ConflictMessage {
    ConflictMessage { kind: said.kind.clone(), paths: said.paths.clone(), text: said.text.clone() }
}

/// The advised one first; then what helps to decide.
fn options(card: &CardId, waiting: &AgentName, others: &[AgentName], sides: &Sides) -> Vec<CardOption> {
    let mut options = vec![
        option("merge it by hand, in a folder of its own", format!("sandbox board resolve {card} --edit")),
        option(format!("take what `{waiting}` has there"), format!("sandbox board resolve {card} --take theirs")),
        option("take what is there already", format!("sandbox board resolve {card} --take ours")),
        option(
            "have a command of yours propose a merge, in a box; nothing counts before you took it",
            format!("sandbox board resolve {card} --with -- your-command"),
        ),
        begin_anew(waiting),
        leave_out(card, waiting),
        look_at(waiting),
    ];
    options.extend(others.iter().map(look_at));
    options.push(option("read this side as a commit", format!("git show {}", sides.theirs)));
    options.push(option(
        "see the merge with its conflicts, without touching any file",
        format!("git merge-tree --write-tree --messages {} {}", sides.ours, sides.theirs),
    ));
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::{Entry, Message, Mode, Side};
    use crate::model::{CommitId, ObjectId, RepoPath};

    fn id(digit: char) -> ObjectId {
        digit.to_string().repeat(40).parse().unwrap()
    }

    fn sides(ours: char) -> Sides {
        let commit = |digit| CommitId::from(id(digit));
        Sides { ours: commit(ours), theirs: commit('2'), base: Some(commit('3')) }
    }

    fn found(stages: Vec<git::Stage>) -> git::Conflict {
        git::Conflict {
            tree: id('f').into(),
            kinds: vec!["contents".to_owned()],
            stages,
            messages: vec![Message {
                kind: "CONFLICT (contents)".to_owned(),
                paths: vec!["a".into()],
                text: "Merge conflict in a".to_owned(),
            }],
            fingerprint: "f00".to_owned(),
        }
    }

    #[test]
    fn a_card_says_all_that_is_known_and_is_the_same_for_another_tip() {
        let entry = Entry { mode: Mode::FILE, id: id('9') };
        let stage = git::Stage { path: "a".into(), side: Side::Theirs, entry };
        let (parser, lexer) = ("parser".parse().unwrap(), "lexer".parse().unwrap());
        let card = conflict(&found(vec![stage.clone()]), sides('1'), &parser, std::slice::from_ref(&lexer));
        assert_eq!(card.summary, "`parser` conflicts with `lexer` in `a` (contents)");
        assert_eq!(card.agents, [parser.clone(), lexer.clone()]);
        assert_eq!((card.stages[0].stage, card.stages[0].mode.as_str()), (3, "100644"));
        assert_eq!(card.messages[0].text, "Merge conflict in a");
        let commands: Vec<&str> = card.options.iter().map(|option| option.command.as_str()).collect();
        assert_eq!(
            commands[4..8],
            [
                "sandbox retry parser --fresh",
                &format!("sandbox board dismiss {}", card.id),
                "sandbox inspect parser --patch",
                "sandbox inspect lexer --patch"
            ]
        );
        let moved = conflict(&found(vec![stage]), sides('4'), &parser, &[lexer]);
        assert_eq!(card.id, moved.id);
    }

    #[test]
    fn a_conflict_without_stages_and_without_another_agent() {
        let card = conflict(&found(Vec::new()), sides('1'), &"parser".parse().unwrap(), &[]);
        assert!(card.stages.is_empty());
        assert_eq!(card.paths, [RepoPath::from("a")]);
        assert_eq!(card.summary, "`parser` conflicts with the target in `a` (contents)");
    }
}

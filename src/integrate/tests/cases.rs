//! Every kind of conflict becomes the card that it should, in both directions.

use std::collections::BTreeSet;

use super::world::{BASE, Edit, World, name, task};
use crate::git::testing::File;
use crate::git::tests::cases::cases;
use crate::git::{Merger, Preview};
use crate::integrate::Placed;
use crate::model::card::{CardKind, CardState};

/// The way from some files to others.
fn edits(from: &[File], to: &[File]) -> Vec<Edit> {
    let gone = from.iter().filter(|file| !to.iter().any(|other| other.0 == file.0)).map(|file| Edit::Remove(file.0));
    let put =
        to.iter().map(|File(path, mode, content)| Edit::Put(path, mode, String::from_utf8(content.clone()).unwrap()));
    gone.chain(put).collect()
}

#[test]
fn every_kind_of_conflict_becomes_its_card() {
    let mut world = World::new(vec![task("one", &["**"], &[]), task("two", &["**"], &[])]);
    let root = world.base.clone();
    let empty: Vec<Edit> = BASE.iter().map(|(path, _)| Edit::Remove(path)).collect();
    let root = world.commit(&root, std::slice::from_ref(&root), &empty);
    let mut seen = BTreeSet::new();
    for case in cases() {
        let base = world.commit(&root, std::slice::from_ref(&root), &edits(&[], &case.base));
        world.run("reset", &["-q", "--hard", base.as_str()]);
        world.base = base.clone();
        for sides in [[&case.ours, &case.theirs], [&case.theirs, &case.ours]] {
            world.begin();
            for (agent, side) in ["one", "two"].into_iter().zip(sides) {
                world.works(agent, &base, &edits(&case.base, side));
            }
            let made = world.integrate();
            let state = world.state();
            let cards: Vec<_> = state.open_cards().collect();
            let context = format!("{}: {made:?} {cards:?}", case.name);
            // A submodule that was moved is held before it is merged, for either agent.
            if case.name.starts_with("20 ") {
                assert!(cards.len() == 2 && cards.iter().all(|card| card.kind == CardKind::Submodule), "{context}");
                assert_eq!(made.candidate, base, "{context}");
                continue;
            }
            if case.kinds.is_empty() {
                assert!(cards.is_empty(), "{context}");
                assert!(made.agents.iter().all(|agent| agent.placed.is_in()), "{context}");
                continue;
            }
            let [card] = cards.as_slice() else { panic!("{context}") };
            assert_eq!((card.kind, card.state), (CardKind::Conflict, CardState::NeedsHuman), "{context}");
            assert_eq!(card.agents[0], name("two"), "{context}");
            assert!(matches!(made.agent(&name("one")), Some(Placed::Merged { .. })), "{context}");
            assert!(matches!(made.agent(&name("two")), Some(Placed::Conflict(_))), "{context}");
            let sides = card.sides.as_ref().unwrap();
            assert_eq!((&sides.ours, sides.base.as_ref()), (&made.candidate, Some(&base)), "{context}");
            // All that git says of it is on the card.
            let preview = Merger::new(&world.repository, &base).unwrap().preview(&sides.ours, &sides.theirs).unwrap();
            let Preview::Conflict(conflict) = preview else { panic!("{context}") };
            assert_eq!(conflict.kinds, case.kinds, "{context}");
            assert_eq!(card.paths, conflict.paths(), "{context}");
            assert!(!card.paths.is_empty(), "{context}");
            assert_eq!(card.fingerprint, conflict.fingerprint, "{context}");
            let kinds: BTreeSet<&str> = card.messages.iter().map(|message| message.kind.as_str()).collect();
            for kind in case.kinds {
                assert!(kinds.iter().any(|said| said.starts_with("CONFLICT") && said.contains(kind)), "{context}");
                assert!(card.summary.contains(kind), "{context}");
            }
            let stages = conflict.stages.iter();
            let stages: Vec<_> = stages
                .map(|it| (it.path.clone(), it.side.stage(), it.entry.mode.to_string(), it.entry.id.clone()))
                .collect();
            let shown: Vec<_> =
                card.stages.iter().map(|it| (it.path.clone(), it.stage, it.mode.clone(), it.oid.clone())).collect();
            assert_eq!(shown, stages, "{context}");
            assert_eq!(shown.is_empty(), case.name.starts_with("16 "), "{context}");
            // Either side is in a commit that stays, and the candidate is the work of the first.
            assert_eq!(world.tree(&made.candidate), made.tree, "{context}");
            assert!(
                card.options
                    .iter()
                    .all(|option| option.command.starts_with("sandbox ") || option.command.starts_with("git "))
            );
            seen.insert(card.id.clone());
        }
    }
    assert!(seen.len() > 40, "{}", seen.len());
}

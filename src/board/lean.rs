//! What the facts of a conflict speak for.

use std::collections::BTreeSet;

use crate::git::Entry;
use crate::model::card::{Card, CardKind, CardState};
use crate::model::excerpt::Lean;
use crate::model::{AgentName, RepoPath};

/// The lines that one side has in a place.
pub type Text = Vec<Vec<u8>>;

/// What the sides have in one place where they conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What both come from; none where there is no base.
    pub base: Option<Text>,
    /// What the candidate has.
    pub ours: Text,
    /// What the agent has.
    pub theirs: Text,
}

/// What the sides have at one conflicting path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathFacts {
    /// The path.
    pub path: RepoPath,
    /// What both come from.
    pub base: Option<Entry>,
    /// What the candidate has.
    pub ours: Option<Entry>,
    /// What the agent has.
    pub theirs: Option<Entry>,
    /// Whether the path is where it is because of a rename.
    pub renamed: bool,
    /// Where the texts conflict; none where they were not compared.
    pub places: Option<Vec<Place>>,
}

/// What one place, or path, speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pull {
    /// What is there already.
    Ours,
    /// What the agent has.
    Theirs,
    /// Either: nothing of substance differs.
    Either,
    /// Both together, which takes a hand.
    Both,
}

/// What the facts of all conflicting paths together speak for. `None` where one of them speaks for nothing, or for something
/// else than the others: half a reason is none.
pub fn lean(card: &Card, facts: &[PathFacts]) -> Option<Lean> {
    let waiting = card.agents.first()?;
    if card.kind != CardKind::Conflict || card.state != CardState::NeedsHuman || facts.is_empty() {
        return None;
    }
    let mut pulls = BTreeSet::new();
    let mut reasons: Vec<String> = Vec::new();
    for fact in facts {
        for (pull, reason) in pulls_of(fact, waiting)? {
            pulls.insert(pull);
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    let wanted = match pulls.into_iter().filter(|pull| *pull != Pull::Either).collect::<Vec<_>>().as_slice() {
        // Nothing of substance differs, so what is there already loses nothing.
        [] | [Pull::Ours] => "--take ours",
        [Pull::Theirs] => "--take theirs",
        [Pull::Both] => "--edit",
        [_, ..] => return None,
    };
    let option = card.options.iter().find(|option| option.command.contains(wanted))?;
    Some(Lean { option: option.command.clone(), reason: reasons.join("; ") })
}

fn pulls_of(fact: &PathFacts, waiting: &AgentName) -> Option<Vec<(Pull, String)>> {
    let path = &fact.path;
    if !fact.renamed && fact.base.is_some() {
        if fact.theirs == fact.base {
            return Some(vec![(Pull::Ours, format!("`{waiting}` left `{path}` as it was"))]);
        }
        if fact.ours == fact.base {
            return Some(vec![(Pull::Theirs, format!("only `{waiting}` changed `{path}`"))]);
        }
    }
    let places = fact.places.as_ref().filter(|places| !places.is_empty())?;
    // A text may agree where a mode does not.
    if fact.ours.as_ref()?.mode != fact.theirs.as_ref()?.mode {
        return None;
    }
    let pull = |place| {
        let (pull, words) = pull_of(place)?;
        let words = words.replace("{agent}", &format!("`{waiting}`"));
        Some((pull, format!("in `{path}` {words}")))
    };
    places.iter().map(pull).collect()
}

/// What one place speaks for, and why.
fn pull_of(place: &Place) -> Option<(Pull, &'static str)> {
    let Place { base, ours, theirs } = place;
    let (bare_ours, bare_theirs) = (bare(ours), bare(theirs));
    if bare_ours == bare_theirs {
        return Some((Pull::Either, "both sides differ in white space only"));
    }
    if let Some(base) = base.as_ref().map(bare) {
        if bare_ours == base {
            return Some((Pull::Theirs, "the candidate's side changed white space only"));
        }
        if bare_theirs == base {
            return Some((Pull::Ours, "{agent} changed white space only"));
        }
    }
    if sorted(ours) == sorted(theirs) {
        return Some((Pull::Either, "both sides have the same lines, in another order"));
    }
    let base = base.as_deref().unwrap_or_default();
    if contains(ours, theirs, base) {
        return Some((Pull::Ours, "what {agent} did is part of what is there already"));
    }
    if contains(theirs, ours, base) {
        return Some((Pull::Theirs, "what is there already is part of what {agent} did"));
    }
    let only_adds = |side: &Text| side.len() > base.len() && is_within(base, side);
    (only_adds(ours) && only_adds(theirs)).then_some((Pull::Both, "both sides only add lines: both may be wanted"))
}

/// The text without its white space, and without lines that have nothing else.
fn bare(text: &Text) -> Text {
    let line = |line: &Vec<u8>| line.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<u8>>();
    text.iter().map(line).filter(|line| !line.is_empty()).collect()
}

fn sorted(text: &Text) -> Vec<&Vec<u8>> {
    let mut lines: Vec<&Vec<u8>> = text.iter().collect();
    lines.sort();
    lines
}

/// Whether the change from `base` to `part` is all in the one to `whole`: it adds no line that `whole` does not have, in the
/// same order, and takes away no line that `whole` keeps.
fn contains(whole: &Text, part: &Text, base: &[Vec<u8>]) -> bool {
    let keeps_what_went = base.iter().any(|line| !part.contains(line) && whole.contains(line));
    !part.is_empty() && is_within(part, whole) && !keeps_what_went
}

/// Whether all of `lines` stand in `text` in this order.
fn is_within(lines: &[Vec<u8>], text: &[Vec<u8>]) -> bool {
    let mut rest = text.iter();
    lines.iter().all(|line| rest.any(|other| other == line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Mode;
    use crate::model::ObjectId;
    use crate::model::card::{CardOption, Sides};

    fn text(words: &str) -> Text {
        words.split(' ').filter(|word| !word.is_empty()).map(|word| word.replace('_', " ").into_bytes()).collect()
    }

    fn entry(digit: char) -> Entry {
        let id: ObjectId = digit.to_string().repeat(40).parse().unwrap();
        Entry { mode: Mode::FILE, id }
    }

    fn fact(places: Vec<Place>) -> PathFacts {
        let (base, ours, theirs) = (Some(entry('1')), Some(entry('2')), Some(entry('3')));
        PathFacts { path: "a".into(), base, ours, theirs, renamed: false, places: Some(places) }
    }

    fn place(base: Option<&str>, ours: &str, theirs: &str) -> Place {
        Place { base: base.map(text), ours: text(ours), theirs: text(theirs) }
    }

    fn card() -> Card {
        let commit: crate::model::CommitId = "1".repeat(40).parse().unwrap();
        let option = |command: &str| CardOption { title: "t".to_owned(), command: command.to_owned() };
        Card {
            id: "c1".parse().unwrap(),
            kind: CardKind::Conflict,
            state: CardState::NeedsHuman,
            agents: vec!["b".parse().unwrap()],
            paths: vec!["a".into()],
            summary: "s".to_owned(),
            sides: Some(Sides { ours: commit.clone(), theirs: commit, base: None }),
            stages: Vec::new(),
            messages: Vec::new(),
            fingerprint: "f".to_owned(),
            options: vec![
                option("sandbox board resolve c1 --edit"),
                option("sandbox board resolve c1 --take theirs"),
                option("sandbox board resolve c1 --take ours"),
            ],
            request: None,
            snapshot: None,
            resolution: None,
            answer: None,
            landing: None,
            proposal: None,
            history: Vec::new(),
        }
    }

    fn side(facts: &[PathFacts]) -> Option<String> {
        let lean = lean(&card(), facts)?;
        assert!(!lean.reason.contains('{') && !lean.reason.is_empty(), "{lean:?}");
        lean.option.rsplit_once("--").map(|(_, side)| side.to_owned())
    }

    #[test]
    fn one_place() {
        let table = [
            // Both sides, with nothing of substance between them.
            (Some("x"), "a_b", "a__b", Some("take ours")),
            (Some("x"), "a b", "b a", Some("take ours")),
            (None, "a b", "b a", Some("take ours")),
            // One side changed white space only.
            (Some("a_b"), "a__b", "c", Some("take theirs")),
            (Some("a_b"), "c", "a__b", Some("take ours")),
            (Some("a_b"), "ab", "a__b", Some("take ours")),
            // One change is part of the other.
            (Some("x"), "a b", "a", Some("take ours")),
            (Some("x"), "a", "a b", Some("take theirs")),
            (None, "a", "a b", Some("take theirs")),
            (Some("x"), "x a b", "x a", Some("take ours")),
            // It is not, if the one took away what the other keeps.
            (Some("x y"), "x a b", "a b c", None),
            (Some("x"), "x a b", "a b", None),
            // To take all away is part of nothing.
            (Some("x"), "a", "", None),
            // Both only add.
            (Some(""), "a", "b", Some("edit")),
            (None, "a", "b", Some("edit")),
            (Some("x"), "x a", "b x", Some("edit")),
            (Some("x"), "x a", "b", None),
            (Some("x"), "a", "b", None),
        ];
        for (base, ours, theirs, expected) in table {
            let found = side(&[fact(vec![place(base, ours, theirs)])]);
            assert_eq!(found.as_deref(), expected, "{base:?} {ours:?} {theirs:?}");
        }
    }

    #[test]
    fn all_places_and_paths_must_agree() {
        let (ours, theirs) = (place(Some("x"), "a b", "a"), place(Some("x"), "a", "a b"));
        let (either, both, nothing) =
            (place(Some("x"), "a b", "b a"), place(Some(""), "a", "b"), place(Some("x"), "a", "b"));
        let table: [(&[&Place], Option<&str>); 8] = [
            (&[&ours, &either], Some("take ours")),
            (&[&either, &theirs], Some("take theirs")),
            (&[&both, &either], Some("edit")),
            (&[&ours, &theirs], None),
            (&[&ours, &both], None),
            (&[&ours, &nothing], None),
            (&[&either, &either], Some("take ours")),
            (&[], None),
        ];
        for (places, expected) in table {
            let one = fact(places.iter().copied().cloned().collect());
            assert_eq!(side(std::slice::from_ref(&one)).as_deref(), expected, "{places:?}");
            let each: Vec<PathFacts> = places.iter().map(|place| fact(vec![(*place).clone()])).collect();
            assert_eq!(side(&each).as_deref(), expected, "{places:?}");
        }
    }

    #[test]
    fn whole_files() {
        let with = |change: fn(&mut PathFacts)| {
            let mut fact = fact(vec![place(Some("x"), "a b", "a")]);
            change(&mut fact);
            side(&[fact])
        };
        let mode = |it: &mut PathFacts| it.theirs = it.theirs.clone().map(|it| Entry { mode: Mode::EXECUTABLE, ..it });
        assert_eq!(with(|it| it.theirs = it.base.clone()).as_deref(), Some("take ours"));
        assert_eq!(with(|it| it.ours = it.base.clone()).as_deref(), Some("take theirs"));
        // It was moved, which is a change.
        assert_eq!(
            with(|it| {
                it.renamed = true;
                it.theirs = it.base.clone();
                it.places = None;
            }),
            None
        );
        assert_eq!(with(mode), None);
        assert_eq!(with(|it| it.ours = None), None);
        assert_eq!(with(|it| it.places = None), None);
    }

    #[test]
    fn only_an_open_conflict_has_one() {
        let facts = [fact(vec![place(Some("x"), "a b", "a")])];
        let reason = lean(&card(), &facts).unwrap().reason;
        assert_eq!(reason, "in `a` what `b` did is part of what is there already");
        for change in [
            |card: &mut Card| card.state = CardState::Closed,
            |card: &mut Card| card.kind = CardKind::Scope,
            |card: &mut Card| card.options.clear(),
            |card: &mut Card| card.agents.clear(),
        ] {
            let mut card = card();
            change(&mut card);
            assert_eq!(lean(&card, &facts), None);
        }
        assert_eq!(lean(&card(), &[]), None);
    }
}

//! What makes a card that card.

use sha2::{Digest, Sha256};

use crate::git::Entry;
use crate::model::card::CardKind;
use crate::model::{AgentName, CardId, RepoPath};

/// How many hexadecimal digits of the hash an id has.
const DIGITS: usize = 12;

/// The id of the card of this kind, about these agents and this matter.
pub fn card_id(kind: CardKind, agents: &[AgentName], fingerprint: &str) -> CardId {
    let mut hash = Facts::new();
    hash.add(kind.to_string().as_bytes());
    hash.add(agents.len().to_string().as_bytes());
    for agent in agents {
        hash.add(agent.as_str().as_bytes());
    }
    hash.add(fingerprint.as_bytes());
    let mut digits = hash.finish();
    digits.truncate(DIGITS);
    #[expect(clippy::expect_used, reason = "`c` and hexadecimal digits is the form of a card id")]
    format!("c{digits}").parse().expect("`c` and hexadecimal digits is a card id")
}

/// A fingerprint of paths and what stands at each of them; the order they come in does not count.
pub(super) fn fingerprint<'a>(paths: impl IntoIterator<Item = (&'a RepoPath, Option<&'a Entry>)>) -> String {
    let mut sorted: Vec<_> = paths.into_iter().collect();
    sorted.sort();
    sorted.dedup();
    let mut hash = Facts::new();
    for (path, entry) in sorted {
        hash.add(path.as_bytes());
        hash.add_entry(entry);
    }
    hash.finish()
}

/// A fingerprint of paths and what stood and stands at each of them; the order they come in does not count.
pub(super) fn fingerprint_of_changes<'a>(
    changes: impl IntoIterator<Item = (&'a RepoPath, [Option<&'a Entry>; 2])>,
) -> String {
    let mut sorted: Vec<_> = changes.into_iter().collect();
    sorted.sort();
    sorted.dedup();
    let mut hash = Facts::new();
    for (path, sides) in sorted {
        hash.add(path.as_bytes());
        for entry in sides {
            hash.add_entry(entry);
        }
    }
    hash.finish()
}

/// A fingerprint of texts, in this order.
pub(super) fn fingerprint_of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Facts::new();
    for text in texts {
        hash.add(text.as_bytes());
    }
    hash.finish()
}

/// A hash of byte strings, each with its length before it, so that no two different lists give the same bytes.
struct Facts(Sha256);

impl Facts {
    fn new() -> Self {
        Self(Sha256::new())
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn add_entry(&mut self, entry: Option<&Entry>) {
        match entry {
            Some(entry) => self.add(format!("{} {}", entry.mode, entry.id).as_bytes()),
            None => self.add(b"nothing"),
        }
    }

    fn finish(self) -> String {
        hex::encode(self.0.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Mode;
    use crate::model::ObjectFormat;

    fn names(names: &[&str]) -> Vec<AgentName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn every_part_makes_another_card() {
        let id = card_id(CardKind::Conflict, &names(&["a", "b"]), "f");
        assert_eq!(id, card_id(CardKind::Conflict, &names(&["a", "b"]), "f"));
        assert_eq!(id.as_str().len(), 1 + DIGITS);
        let others = [
            card_id(CardKind::Scope, &names(&["a", "b"]), "f"),
            card_id(CardKind::Conflict, &names(&["b", "a"]), "f"),
            card_id(CardKind::Conflict, &names(&["a"]), "f"),
            card_id(CardKind::Conflict, &names(&["ab"]), "f"),
            card_id(CardKind::Conflict, &names(&["a", "b"]), "g"),
        ];
        assert!(others.iter().all(|other| *other != id), "{others:?}");
    }

    #[test]
    fn a_fingerprint_is_of_paths_and_contents_and_not_of_their_order() {
        let (a, b) = (RepoPath::from("a"), RepoPath::from("b"));
        let file = Entry { mode: Mode::FILE, id: ObjectFormat::Sha1.zero() };
        let run = Entry { mode: Mode::EXECUTABLE, ..file.clone() };
        let known = fingerprint([(&a, Some(&file)), (&b, None)]);
        assert_eq!(known, fingerprint([(&b, None), (&a, Some(&file)), (&b, None)]));
        for other in
            [fingerprint([(&a, Some(&run)), (&b, None)]), fingerprint([(&a, Some(&file))]), fingerprint([(&a, None)])]
        {
            assert_ne!(known, other);
        }
    }
}

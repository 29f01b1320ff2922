//! The card of a landing that was cut short, and of which nothing tells what became of it.

use super::identity::{card_id, fingerprint_of_texts};
use super::wording::option;
use crate::model::RepoPath;
use crate::model::card::{Card, CardKind, CardOption, CardState, ConflictMessage, CutLanding};
use crate::model::event::Effect;
use crate::model::gate::GateBlock;

/// The card of the landing that `claim` began, with what keeps it from being told. It is no agent's: all of them are merged.
pub fn landing(claim: &Effect, blocks: &[GateBlock]) -> Card {
    let mut paths: Vec<RepoPath> = blocks.iter().flat_map(|block| block.paths.iter().cloned()).collect();
    paths.sort();
    paths.dedup();
    let said: Vec<&str> = blocks.iter().map(|block| block.message.as_str()).collect();
    let said = if said.is_empty() { "nothing says it".to_owned() } else { said.join("; ") };
    let matter = [claim.key.as_str(), said.as_str()];
    let fingerprint = fingerprint_of_texts(matter);
    let message = |block: &GateBlock| ConflictMessage {
        kind: CardKind::Landing.to_string(),
        paths: block.paths.clone(),
        text: format!("{}: {}", block.message, block.next),
    };
    Card {
        id: card_id(CardKind::Landing, &[], &fingerprint),
        kind: CardKind::Landing,
        state: CardState::NeedsHuman,
        agents: Vec::new(),
        summary: format!("what became of landing on `{}` cannot be told: {said}", claim.reference.short()),
        sides: None,
        snapshot: None,
        stages: Vec::new(),
        messages: blocks.iter().map(message).collect(),
        request: None,
        landing: Some(CutLanding {
            target: claim.reference.clone(),
            before: claim.before.clone(),
            after: claim.after.clone(),
            checkout: claim.checkout.clone(),
            rescue: claim.rescue.clone(),
        }),
        fingerprint,
        options: options(claim, &paths),
        paths,
        resolution: None,
        answer: None,
        proposal: None,
        history: Vec::new(),
    }
}

/// What can be done: to look, to put right, and to have it found out anew. Nothing decides what the files should be.
fn options(claim: &Effect, paths: &[RepoPath]) -> Vec<CardOption> {
    let mut options = Vec::new();
    if let Some(checkout) = &claim.checkout {
        let git = format!("git -C {}", shell_words::quote(&checkout.display().to_string()));
        let named: Vec<String> = paths.iter().map(|path| shell_words::quote(&path.to_string()).into_owned()).collect();
        let named = named.join(" ");
        if named.is_empty() {
            options.push(option("see what is under way there", format!("{git} status")));
        } else {
            options.push(option("see how they differ from before", format!("{git} diff {} -- {named}", claim.before)));
            if let Some(rescue) = &claim.rescue {
                let title = "put them back as they were right before it; what they are now is gone then";
                options.push(option(title, format!("{git} restore --source={rescue} -- {named}")));
            }
        }
    }
    options.push(option("once they are as they should be: find out anew, and land", "sandbox land"));
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::in_run;
    use crate::model::card::CompleteCard;
    use crate::model::event::EffectKind;
    use crate::model::gate::BlockKind;

    fn claim(checkout: Option<&str>) -> Effect {
        Effect {
            key: "land".to_owned(),
            effect: EffectKind::Land,
            reference: "refs/heads/main".parse().unwrap(),
            before: "a".repeat(40).parse().unwrap(),
            created: false,
            after: "b".repeat(40).parse().unwrap(),
            checkout: checkout.map(Into::into),
            rescue: Some("refs/sandbox/login-3/rescue".parse().unwrap()),
            note: None,
            invocation: None,
            works: Vec::new(),
            observation_key: None,
            attempt: None,
            asked: None,
            release: None,
        }
    }

    fn block(message: &str, paths: &[&str]) -> GateBlock {
        GateBlock {
            kind: BlockKind::CheckoutBusy,
            agent: None,
            card: None,
            paths: paths.iter().map(|path| RepoPath::from(*path)).collect(),
            message: message.to_owned(),
            next: "put it right".to_owned(),
        }
    }

    #[test]
    fn it_is_about_this_landing_and_what_is_in_its_way() {
        let (here, blocks) = (claim(Some("/r")), [block("odd", &["b", "a"])]);
        let card = landing(&here, &blocks);
        assert_eq!(card.summary, "what became of landing on `main` cannot be told: odd");
        assert_eq!(card.paths, [RepoPath::from("a"), "b".into()]);
        assert_eq!(card.id, landing(&here, &blocks).id);
        assert_ne!(card.id, landing(&here, &[block("otherwise", &["a"])]).id);
        assert_ne!(card.id, landing(&Effect { key: "again".to_owned(), ..here.clone() }, &blocks).id);
        for (claim, blocks) in [(&here, &blocks[..]), (&here, &[block("locked", &[])]), (&claim(None), &[])] {
            assert!(CompleteCard::new(landing(claim, blocks)).is_ok());
        }
    }

    #[test]
    fn its_commands_are_for_the_shell_and_name_the_run() {
        let card = in_run(landing(&claim(Some("/my r")), &[block("odd", &["a b"])]), &"login-3".parse().unwrap());
        let commands: Vec<&str> = card.options.iter().map(|option| option.command.as_str()).collect();
        assert_eq!(
            commands,
            [
                "git -C '/my r' diff aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa -- 'a b'",
                "git -C '/my r' restore --source=refs/sandbox/login-3/rescue -- 'a b'",
                "sandbox land login-3",
            ]
        );
    }
}

//! The card of a request for more paths.

use super::identity::{card_id, fingerprint_of_texts};
use super::wording::{look_at, option};
use crate::model::card::{Card, CardKind, CardState, ConflictMessage, ScopeRequest};
use crate::model::{AgentName, CardId};

/// How many globs a summary names.
const NAMED: usize = 3;

/// The id of the card of `agent` asking for these globs, in whatever order: to ask again is the same matter.
pub fn request_id(agent: &AgentName, owns: &[String]) -> CardId {
    card_id(CardKind::ScopeRequest, std::slice::from_ref(agent), &fingerprint(agent, owns))
}

fn fingerprint(agent: &AgentName, owns: &[String]) -> String {
    let mut sorted: Vec<&str> = owns.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    fingerprint_of_texts(std::iter::once(agent.as_str()).chain(sorted))
}

/// The card of `agent` asking for more paths. `objections` is why the plan does not grant it.
pub fn scope_request(agent: &AgentName, request: ScopeRequest, objections: &[String]) -> Card {
    let id = request_id(agent, &request.owns);
    let mut globs: Vec<String> = request.owns.iter().take(NAMED).map(|glob| format!("`{glob}`")).collect();
    if request.owns.len() > NAMED {
        globs.push(format!("{} more", request.owns.len() - NAMED));
    }
    let message = |text: &String| ConflictMessage {
        kind: CardKind::ScopeRequest.to_string(),
        paths: Vec::new(),
        text: text.clone(),
    };
    Card {
        kind: CardKind::ScopeRequest,
        state: CardState::NeedsHuman,
        agents: vec![agent.clone()],
        paths: Vec::new(),
        summary: format!("`{agent}` asks for {}: {}", globs.join(", "), request.why),
        sides: None,
        stages: Vec::new(),
        messages: objections.iter().map(message).collect(),
        fingerprint: fingerprint(agent, &request.owns),
        options: vec![
            option("grant it, from the next attempt on", format!("sandbox board approve {id} --why 'the reason'")),
            option(
                format!("then have `{agent}` go on in the same worktree, with it"),
                format!("sandbox retry {agent}"),
            ),
            option(
                format!("refuse it; what `{agent}` made stays as it is"),
                format!("sandbox board dismiss {id} --why 'the reason'"),
            ),
            look_at(agent),
        ],
        id,
        request: Some(request),
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

    #[test]
    fn the_same_request_is_the_same_card() {
        let (parser, lexer): (AgentName, AgentName) = ("parser".parse().unwrap(), "lexer".parse().unwrap());
        let texts = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>();
        let request = |globs: &[&str], why: &str, turn| ScopeRequest {
            owns: texts(globs),
            why: why.to_owned(),
            turn: crate::model::TurnId::new(turn, 1),
        };
        let card = scope_request(&parser, request(&["a", "b", "c", "d"], "the table moved", 1), &["no".to_owned()]);
        assert_eq!(card.summary, "`parser` asks for `a`, `b`, `c`, 1 more: the table moved");
        assert_eq!(card.messages[0].text, "no");
        let again = scope_request(&parser, request(&["d", "c", "b", "a", "a"], "please", 2), &[]);
        assert_eq!((&card.id, &card.fingerprint), (&again.id, &again.fingerprint));
        assert_eq!(card.id, request_id(&parser, &texts(&["b", "a", "c", "d"])));
        for (agent, globs) in
            [(&lexer, &["a", "b", "c", "d"][..]), (&parser, &["a", "b", "c"]), (&parser, &["a", "b", "cd"])]
        {
            assert_ne!(request_id(agent, &texts(globs)), card.id);
        }
    }
}

//! What agents ask for: decided at once by what the plan says, else put on the board.
//!
//! [`rule`] decides, a pure function of what the run and the plan say; [`Crew`] writes down what came of it. A request changes
//! nothing of the attempt that makes it: what is granted is part of the contract from the agent's next attempt on.

use super::agents::Crew;
use crate::agent::ask::{Answer as Became, Ask, Clerk, Reply};
use crate::board;
use crate::model::card::{Answer, AnswerKind, Card, CardState, CompleteCard, ScopeRequest};
use crate::model::currency::Refusal;
use crate::model::event::{CardClosed, EventKind, Subject};
use crate::model::run::{AgentState, RunState};
use crate::model::{AgentName, TurnId};
use crate::plan::{Budget, CompiledContract, GlobSet, Protected, Scope, TooComplex, Wanted, is_covered};
use crate::store::{Error, Record};

/// How many globs an agent may ask for in a run.
pub(super) const ASKED_MAX: usize = 64;

/// How much comparing one request is worth: a second at the most.
const BUDGET: u64 = 2_000_000;

/// Who decided, where a rule of the plan did.
const THE_PLAN: &str = "the plan";

/// What there is to be known of a request.
#[derive(Debug)]
struct Case<'a> {
    wanted: Wanted<'a>,
    /// What the attempt that asks may change.
    scope: &'a Scope,
    /// What it may change with everything that was granted since.
    to_come: &'a Scope,
    /// The card of the same request, if it was made before.
    card: Option<&'a Card>,
    /// How many globs the agent has asked for before.
    asked: usize,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
enum Ruling {
    /// All of it is in the agent's contract.
    Owned,
    /// It was granted before, and is in the contract of the next attempt.
    GrantedBefore,
    /// The plan grants it.
    Grant,
    /// It waits on the board already.
    Waits,
    /// A person refused it, in these words.
    Refused(String),
    /// The agent has asked for too much.
    TooMuch,
    /// A person is to decide; why the plan does not.
    Open(Vec<String>),
}

/// Decides.
fn rule(case: &Case<'_>) -> Ruling {
    let mut budget = Budget::new(BUDGET);
    let globs = case.wanted.globs;
    // What cannot be compared is not covered, and not granted: a person decides.
    if is_covered(globs, &case.scope.compiled, &mut budget).unwrap_or(false) {
        return Ruling::Owned;
    }
    if is_covered(globs, &case.to_come.compiled, &mut budget).unwrap_or(false) {
        return Ruling::GrantedBefore;
    }
    if let Some(answer) = case.card.and_then(|card| card.answer.as_ref()) {
        return match answer.kind {
            AnswerKind::Approved => Ruling::GrantedBefore,
            AnswerKind::Dismissed | AnswerKind::Resolved => {
                let why = answer.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                Ruling::Refused(format!("{} by {}{why}", answer.kind, answer.by))
            }
        };
    }
    if case.card.is_none() && case.asked + globs.globs().len() > ASKED_MAX {
        return Ruling::TooMuch;
    }
    let objections = match case.wanted.objections(&mut budget) {
        Ok(objections) => objections,
        Err(error @ TooComplex) => vec![error.to_string()],
    };
    match (objections.is_empty(), case.card) {
        // Also where a coordinator died between asking and granting.
        (true, _) => Ruling::Grant,
        (false, Some(card)) if card.state == CardState::NeedsHuman => Ruling::Waits,
        (false, Some(_) | None) => Ruling::Open(objections),
    }
}

impl Clerk for Crew {
    fn decide(&self, agent: &AgentName, turn: TurnId, ask: Ask) -> Result<Result<Reply, String>, Error> {
        let globs = match ask.globs() {
            Ok(globs) => globs,
            Err(reason) => return Ok(Err(reason)),
        };
        // One at a time: what one agent is granted counts when the next one asks.
        let _turn = self.asking.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let state = self.recorder.state();
        let ruling = match self.look_up(&state, agent, &ask, &globs) {
            Ok(ruling) => ruling,
            Err(reason) => return Ok(Err(reason)),
        };
        self.carry_out(agent, turn, ask, ruling)
    }
}

impl Crew {
    /// Gathers what is known of a request, and decides it.
    fn look_up(&self, state: &RunState, agent: &AgentName, ask: &Ask, globs: &GlobSet) -> Result<Ruling, String> {
        let told = |error: crate::plan::ContractError| error.to_string();
        let task = self.plan.agent(agent).ok_or_else(|| format!("the plan has no agent `{agent}`"))?;
        let scope = Scope::new(task, state.agent(agent).map_or(&[][..], AgentState::granted)).map_err(told)?;
        let to_come = Scope::new(task, &state.granted(agent)).map_err(told)?;
        let may_ask =
            GlobSet::compile(&task.may_ask).map_err(|(at, cause)| format!("`{}`: {cause}", task.may_ask[at]))?;
        let others = self.plan.agents.iter().filter(|other| other.name != *agent);
        let others: Vec<(AgentName, CompiledContract)> = others
            .map(|other| {
                Ok((other.name.clone(), Scope::new(other, &state.granted(&other.name)).map_err(told)?.compiled))
            })
            .collect::<Result<_, String>>()?;
        let id = board::request_id(agent, &ask.owns);
        let of_agent = state.cards.iter().filter(|card| card.agents.first() == Some(agent));
        let case = Case {
            wanted: Wanted {
                globs,
                may_ask: &may_ask,
                protected: &Protected::new(&self.plan.protect).map_err(told)?,
                others: &others,
            },
            scope: &scope,
            to_come: &to_come,
            card: state.cards.iter().find(|card| card.id == id),
            asked: of_agent.filter_map(|card| card.request.as_ref()).map(|request| request.owns.len()).sum(),
        };
        Ok(rule(&case))
    }

    /// Writes down what was decided, and says it.
    fn carry_out(
        &self,
        agent: &AgentName,
        turn: TurnId,
        ask: Ask,
        ruling: Ruling,
    ) -> Result<Result<Reply, String>, Error> {
        let id = board::request_id(agent, &ask.owns);
        let reply = |answer, card, text: String| Ok(Ok(Reply { answer, card, text }));
        match ruling {
            Ruling::Owned => reply(Became::Owned, None, "all of it is in your contract already".to_owned()),
            Ruling::GrantedBefore => {
                reply(Became::Granted, None, "granted before: it holds from your next attempt on".to_owned())
            }
            Ruling::Waits => reply(Became::Waiting, Some(id.clone()), format!("card {id} waits for a person already")),
            Ruling::Refused(how) => reply(Became::Refused, Some(id.clone()), format!("card {id} was {how}")),
            Ruling::TooMuch => Ok(Err(format!("an agent may ask for at most {ASKED_MAX} globs in a run"))),
            Ruling::Open(objections) => {
                self.open_request(agent, turn, ask, &objections)?;
                reply(
                    Became::Recorded,
                    Some(id.clone()),
                    format!("card {id} waits for a person; go on within your contract"),
                )
            }
            Ruling::Grant => {
                if !self.recorder.state().open_cards().any(|card| card.id == id) {
                    self.open_request(agent, turn, ask, &[])?;
                }
                let why = format!("`agents.{agent}.may_ask` covers it");
                let resolution = format!("{} by {THE_PLAN}: {why}", AnswerKind::Approved);
                let answer = Answer {
                    kind: AnswerKind::Approved,
                    by: THE_PLAN.to_owned(),
                    why: Some(why),
                    resolved: Vec::new(),
                    kept_in: None,
                };
                let closed = CardClosed { card: id.clone(), resolution, answer: Some(answer) };
                self.recorder.record(Subject::turn(agent, turn), EventKind::CardClosed(closed))?;
                reply(
                    Became::Granted,
                    Some(id),
                    "granted by the plan: it holds from your next attempt on, and not in this one".to_owned(),
                )
            }
        }
    }

    fn open_request(&self, agent: &AgentName, turn: TurnId, ask: Ask, objections: &[String]) -> Result<(), Error> {
        let request = ScopeRequest { owns: ask.owns, why: ask.why, turn };
        let card = board::in_run(board::scope_request(agent, request, objections), self.recorder.run().id());
        let card = CompleteCard::new(card)
            .map_err(|_| Error::NotAdmitted { event: "card.opened".to_owned(), refusal: Refusal::IncompleteCard })?;
        self.recorder.record(Subject::turn(agent, turn), EventKind::CardOpened(card))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::{AgentTask, Contract, SandboxSettings};

    fn texts(globs: &[&str]) -> Vec<String> {
        globs.iter().map(|glob| (*glob).to_owned()).collect()
    }

    fn task(owns: &[&str]) -> AgentTask {
        AgentTask {
            name: "api".parse().unwrap(),
            title: None,
            contract: Contract { owns: texts(owns), shares: texts(&["shared"]) },
            after: Vec::new(),
            attempts: 1,
            turns: Vec::new(),
            workdir: None,
            may_ask: Vec::new(),
            sandbox: SandboxSettings::default(),
        }
    }

    fn card(state: CardState, answer: Option<AnswerKind>) -> Card {
        let request = ScopeRequest { owns: texts(&["docs/**"]), why: "x".to_owned(), turn: TurnId::new(1, 1) };
        let answer = answer.map(|kind| Answer {
            kind,
            by: "Ada".to_owned(),
            why: Some("no".to_owned()),
            resolved: Vec::new(),
            kept_in: None,
        });
        Card { state, answer, ..board::scope_request(&"api".parse().unwrap(), request, &[]) }
    }

    #[test]
    fn every_ruling() {
        type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], Option<&'a Card>, usize, Option<Ruling>);
        let open = card(CardState::NeedsHuman, None);
        let dismissed = card(CardState::Closed, Some(AnswerKind::Dismissed));
        let approved = card(CardState::Closed, Some(AnswerKind::Approved));
        let refused = || Ruling::Refused("dismissed by Ada: no".to_owned());
        // Which of its states are alive takes one of very many sets.
        let hard = format!("*a{}", "[ab]".repeat(24));
        let table: [Row<'_>; 14] = [
            // asked for, granted since, the plan's rule, the card of before, globs asked for before
            (&["src/a"], &[], &[], None, 0, Some(Ruling::Owned)),
            (&["shared"], &[], &[], None, 0, Some(Ruling::Owned)),
            (&["src/a"], &[], &["**"], Some(&dismissed), 64, Some(Ruling::Owned)),
            (&["docs/a"], &["docs/**"], &[], None, 64, Some(Ruling::GrantedBefore)),
            (&["docs/**"], &[], &[], Some(&approved), 0, Some(Ruling::GrantedBefore)),
            (&["docs/**"], &[], &["docs/**"], None, 0, Some(Ruling::Grant)),
            // A coordinator died between the two events.
            (&["docs/**"], &[], &["docs/**"], Some(&open), 0, Some(Ruling::Grant)),
            (&["docs/**"], &[], &["docs/**"], Some(&dismissed), 0, Some(refused())),
            (&["docs/**"], &[], &[], Some(&open), 0, Some(Ruling::Waits)),
            (&["docs/**"], &[], &[], Some(&dismissed), 0, Some(refused())),
            (&["docs/**"], &[], &["docs/**"], None, 64, Some(Ruling::TooMuch)),
            (&["docs/**"], &[], &["docs/**"], Some(&open), 64, Some(Ruling::Grant)),
            (&["docs/**"], &[], &[], None, 0, None),
            (&[&hard], &[], &[&hard], None, 0, None),
        ];
        for (globs, granted, may_ask, card, asked, expected) in table {
            let (globs, may_ask) =
                (GlobSet::compile(&texts(globs)).unwrap(), GlobSet::compile(&texts(may_ask)).unwrap());
            let theirs = Contract { owns: texts(&["theirs/**"]), shares: Vec::new() };
            let others = [("other".parse().unwrap(), CompiledContract::new(&theirs).unwrap())];
            let protected = Protected::new(&[]).unwrap();
            let (scope, to_come) = (
                Scope::new(&task(&["src/**"]), &[]).unwrap(),
                Scope::new(&task(&["src/**"]), &texts(granted)).unwrap(),
            );
            let wanted = Wanted { globs: &globs, may_ask: &may_ask, protected: &protected, others: &others };
            let ruling = rule(&Case { wanted, scope: &scope, to_come: &to_come, card, asked });
            match expected {
                Some(expected) => assert_eq!(ruling, expected, "{globs:?}"),
                None => assert!(matches!(&ruling, Ruling::Open(why) if why.len() == 1), "{globs:?}: {ruling:?}"),
            }
        }
    }
}

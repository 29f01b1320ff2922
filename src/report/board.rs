//! `board`: what waits for a person's decision, and one card in full.

use serde::Serialize;

use super::look::{Look, Tone};
use super::table::{Cell, Table};
use super::text;
use crate::board::{self, Standing};
use crate::model::card::{AnswerKind, Card, CardKind, CardState};
use crate::model::run::RunState;
use crate::model::{AgentName, CardId, RepoPath, RunId};

/// A card in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CardRow {
    /// Its id.
    pub id: CardId,
    /// What it is about.
    pub kind: CardKind,
    /// Where it stands.
    pub state: CardState,
    /// The agents concerned, first the one whose work waits.
    pub agents: Vec<AgentName>,
    /// The paths concerned.
    pub paths: Vec<RepoPath>,
    /// What happened, in a line.
    pub summary: String,
    /// How it was closed.
    pub resolution: Option<String>,
}

impl CardRow {
    /// The row of a card.
    pub fn of(card: &Card) -> Self {
        Self {
            id: card.id.clone(),
            kind: card.kind,
            state: card.state,
            agents: card.agents.clone(),
            paths: card.paths.clone(),
            summary: card.summary.clone(),
            resolution: card.resolution.clone(),
        }
    }

    /// It in a line.
    pub fn line(&self) -> String {
        format!("{} ({}): {}", self.id, self.kind, text::clean(&self.summary))
    }
}

/// The cards of one state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// The state: `needs-human`, `closed`.
    pub name: CardState,
    /// Its cards, in the order they were opened.
    pub cards: Vec<CardRow>,
}

/// Data of `board list`: every lane of cards, empty ones too, and where every agent stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BoardData {
    /// The lanes of cards.
    pub lanes: Vec<Lane>,
    /// Every agent once, in plan order.
    pub agents: Vec<Standing>,
}

impl BoardData {
    /// The board of a run.
    pub fn of(state: &RunState) -> Self {
        let lane = |name| Lane {
            name,
            cards: state.cards.iter().filter(|card| card.state == name).map(CardRow::of).collect(),
        };
        let lanes = vec![lane(CardState::NeedsHuman), lane(CardState::Closed)];
        Self { lanes, agents: board::lanes(state).agents }
    }

    /// The board as text; lanes without cards are left out.
    pub fn render(&self, look: Look) -> String {
        let mut out = String::new();
        for lane in self.lanes.iter().filter(|lane| !lane.cards.is_empty()) {
            if !out.is_empty() {
                out.push('\n');
            }
            let (name, tone) = lane_name(lane.name);
            out.push_str(&tone.paint(name, look));
            out.push('\n');
            let mut table = Table::new(["CARD", "KIND", "AGENTS", "PATHS", "WHAT"]).indented(2);
            for card in &lane.cards {
                table.row([
                    card.id.as_str().into(),
                    card.kind.to_string().into(),
                    text::list(&card.agents, 4).into(),
                    Cell::maybe((!card.paths.is_empty()).then(|| text::list(&card.paths, 1))),
                    card.resolution.as_ref().unwrap_or(&card.summary).as_str().into(),
                ]);
            }
            out.push_str(&table.render(look));
        }
        if out.is_empty() {
            out.push_str("no cards\n");
        }
        if !self.agents.is_empty() {
            out.extend(["\n", &Tone::Strong.paint("agents", look), "\n", &self.standings(look)]);
        }
        out
    }

    /// Where the agents stand, lane by lane in the order of the work.
    fn standings(&self, look: Look) -> String {
        let mut table = Table::new(["LANE", "AGENT", "CARDS", "WHY"]).indented(2);
        for lane in board::Lane::ALL {
            for standing in self.agents.iter().filter(|standing| standing.lane == lane) {
                table.row([
                    lane.name().into(),
                    standing.agent.as_str().into(),
                    Cell::maybe((!standing.cards.is_empty()).then(|| text::list(&standing.cards, 3))),
                    standing.reason.as_str().into(),
                ]);
            }
        }
        table.render(look)
    }
}

/// Data of `board approve`, `dismiss` and `resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecidedData {
    /// The card as it stands now.
    pub card: Card,
    /// How many cards of the run wait still.
    pub open_cards: usize,
}

impl DecidedData {
    /// It as text, with what to do next.
    pub fn render(&self, run: &RunId) -> String {
        let how = self.card.resolution.as_deref().unwrap_or("closed");
        let next = match self.open_cards {
            0 => format!("no card waits any more: sandbox merge {run}"),
            1 => format!("1 card waits still: sandbox board --run {run}"),
            several => format!("{several} cards wait still: sandbox board --run {run}"),
        };
        let granted = self.card.request.is_some()
            && self.card.answer.as_ref().is_some_and(|answer| answer.kind == AnswerKind::Approved);
        let taken_up = match self.card.agents.first().filter(|_| granted) {
            Some(agent) => format!("`{agent}` has it from its next attempt on: sandbox retry {agent} --run {run}\n"),
            None => String::new(),
        };
        format!("card {} {}\n{taken_up}{next}\n", self.card.id, text::clean(how))
    }
}

pub(super) fn lane_name(state: CardState) -> (&'static str, Tone) {
    match state {
        CardState::NeedsHuman => ("needs a decision", Tone::Warn),
        CardState::Closed => ("closed", Tone::Dim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn list() {
        let data = BoardData::of(&samples::blocked());
        insta::assert_snapshot!(data.render(Look::PLAIN), @r"
        needs a decision
          CARD      KIND      AGENTS      PATHS              WHAT
          c1a2b3c4  conflict  ui, parser  src/parser/mod.rs  ui and parser changed the same lines of src/parser/mod.rs

        agents
          LANE         AGENT   CARDS     WHY
          needs-human  ui      c1a2b3c4  waits for a decision
          merged       parser  -         part of the candidate
          blocked      api     -         waits for ui
          blocked      docs    -         failed: turn 1.2 ended with exit status 1
        ");
        insta::assert_snapshot!(serde_json::to_string_pretty(&data.lanes).unwrap(), @r#"
        [
          {
            "name": "needs-human",
            "cards": [
              {
                "id": "c1a2b3c4",
                "kind": "conflict",
                "state": "needs-human",
                "agents": [
                  "ui",
                  "parser"
                ],
                "paths": [
                  "src/parser/mod.rs"
                ],
                "summary": "ui and parser changed the same lines of src/parser/mod.rs",
                "resolution": null
              }
            ]
          },
          {
            "name": "closed",
            "cards": []
          }
        ]
        "#);
        assert_eq!(serde_json::to_value(&data.agents[0]).unwrap()["lane"], "merged");
        insta::assert_snapshot!(BoardData::of(&samples::running()).render(Look::PLAIN), @r"
        no cards

        agents
          LANE     AGENT   CARDS  WHY
          waiting  ui      -      waits for parser
          running  parser  -      running
          running  docs    -      running
        ");
    }
}

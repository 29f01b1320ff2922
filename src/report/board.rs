//! `board`: what waits for a person's decision, and one card in full.

use serde::Serialize;

use super::look::{Look, Tone};
use super::table::{Cell, Table};
use super::text;
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

/// Data of `board list`: every lane, empty ones too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BoardData {
    /// The lanes.
    pub lanes: Vec<Lane>,
}

impl BoardData {
    /// The board of a run.
    pub fn of(state: &RunState) -> Self {
        let lane = |name| Lane {
            name,
            cards: state.cards.iter().filter(|card| card.state == name).map(CardRow::of).collect(),
        };
        Self { lanes: vec![lane(CardState::NeedsHuman), lane(CardState::Closed)] }
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
        if out.is_empty() { "no cards\n".to_owned() } else { out }
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

fn lane_name(state: CardState) -> (&'static str, Tone) {
    match state {
        CardState::NeedsHuman => ("needs a decision", Tone::Warn),
        CardState::Closed => ("closed", Tone::Dim),
    }
}

/// One card as text. Its JSON is the card itself.
pub fn render_card(card: &Card, look: Look) -> String {
    let (state, tone) = lane_name(card.state);
    let mut out = format!(
        "{}  {}  {}\n{}\n",
        Tone::Strong.paint(&format!("card {}", card.id), look),
        card.kind,
        tone.paint(state, look),
        text::clean(&card.summary)
    );
    if let Some(resolution) = &card.resolution {
        out.extend(["closed: ", &text::clean(resolution), "\n"]);
    }
    out.push('\n');
    let mut fact = |name: &str, value: &str| out.extend([&text::padded(name, 12), value, "\n"]);
    fact("agents", &text::list(&card.agents, usize::MAX));
    if let Some(sides) = &card.sides {
        fact("ours", &format!("{}  the candidate", sides.ours));
        fact("theirs", &format!("{}  the agent's contribution", sides.theirs));
        fact("base", &sides.base.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string));
    }
    fact("fingerprint", &text::clean(&card.fingerprint));
    if let Some(request) = &card.request {
        fact("asked in", &format!("turn {}", request.turn));
        section(&mut out, "asks for", &text::lines(&request.owns, "  "), look);
    }
    section(&mut out, "paths", &text::lines(&card.paths, "  "), look);
    section(&mut out, "stages", &stages(card, look), look);
    let said = if card.request.is_some() { "not granted by the plan" } else { "git said" };
    section(&mut out, said, &messages(card), look);
    section(&mut out, "you can", &options(card), look);
    out
}

fn section(out: &mut String, name: &str, body: &str, look: Look) {
    if !body.is_empty() {
        out.extend(["\n", &Tone::Strong.paint(name, look), "\n", body]);
    }
}

fn stages(card: &Card, look: Look) -> String {
    if card.stages.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["SIDE", "MODE", "OBJECT", "PATH"]).indented(2);
    for stage in card.stages.iter().take(3 * text::LISTED) {
        let side = match stage.stage {
            1 => "base".to_owned(),
            2 => "ours".to_owned(),
            3 => "theirs".to_owned(),
            other => other.to_string(),
        };
        table.row([side.into(), stage.mode.as_str().into(), stage.oid.short().into(), stage.path.to_string().into()]);
    }
    let mut out = table.render(look);
    let more = card.stages.len().saturating_sub(3 * text::LISTED);
    if more > 0 {
        out.extend(["  and ", &more.to_string(), " more\n"]);
    }
    out
}

fn messages(card: &Card) -> String {
    let said: Vec<String> = card.messages.iter().map(|message| message.text.trim_end().to_owned()).collect();
    text::lines(&said, "  ")
}

fn options(card: &Card) -> String {
    let mut out = String::new();
    for option in &card.options {
        out.extend(["  ", &text::clean(&option.title), ":\n      ", &text::clean(&option.command), "\n"]);
    }
    out
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
        ");
        insta::assert_snapshot!(serde_json::to_string_pretty(&data).unwrap(), @r#"
        {
          "lanes": [
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
        }
        "#);
        assert_eq!(BoardData::of(&samples::running()).render(Look::PLAIN), "no cards\n");
    }

    #[test]
    fn card() {
        insta::assert_snapshot!(render_card(&samples::conflict_card(), Look::PLAIN), @r"
        card c1a2b3c4  conflict  needs a decision
        ui and parser changed the same lines of src/parser/mod.rs

        agents      ui, parser
        ours        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa  the candidate
        theirs      7777777777777777777777777777777777777777  the agent's contribution
        base        bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
        fingerprint 1a2b3c4d5e

        paths
          src/parser/mod.rs

        stages
          SIDE    MODE    OBJECT      PATH
          base    100644  1111111111  src/parser/mod.rs
          ours    100644  2222222222  src/parser/mod.rs
          theirs  100644  3333333333  src/parser/mod.rs

        git said
          CONFLICT (content): Merge conflict in src/parser/mod.rs

        you can
          let ui try again on top of the candidate:
              sandbox retry ui --fresh --run login-3
        ");
    }
}

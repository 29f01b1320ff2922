//! One card in full.

use serde::Serialize;

use super::board::lane_name;
use super::excerpt;
use super::look::{Look, Tone};
use super::table::Table;
use super::text;
use crate::model::card::{Card, Proposal};
use crate::model::excerpt::{Excerpts, Lean, Line};
use crate::run::insight::Insight;

/// How much of a command is shown.
const COMMAND_COLUMNS: usize = 160;

/// Data of `board show`: the card, and what can be told of it beside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownCard {
    /// The card.
    #[serde(flatten)]
    pub card: Card,
    /// What the sides have; none where it is about no conflict.
    pub excerpts: Option<Excerpts>,
    /// What the facts speak for, where they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lean: Option<Lean>,
    /// What the proposal changes in the candidate, as a patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed_patch: Option<Line>,
}

impl ShownCard {
    /// The card with what was found out about it.
    pub fn new(card: Card, insight: Insight) -> Self {
        let Insight { excerpts, lean, proposed } = insight;
        Self { card, excerpts, lean, proposed_patch: proposed }
    }

    /// It as text.
    pub fn render(&self, look: Look) -> String {
        render_card(self, look)
    }
}

fn render_card(shown: &ShownCard, look: Look) -> String {
    let card = &shown.card;
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
    if !card.agents.is_empty() {
        fact("agents", &text::list(&card.agents, usize::MAX));
    }
    if let Some(landing) = &card.landing {
        fact("target", &text::clean(landing.target.short()));
        fact("before", &format!("{}  where it was", landing.before));
        fact("after", &format!("{}  where it was to go", landing.after));
        if let Some(checkout) = &landing.checkout {
            fact("checkout", &text::clean(&checkout.display().to_string()));
        }
        if let Some(rescue) = &landing.rescue {
            fact("kept in", &format!("{}  the checkout as it was", text::clean(rescue.as_str())));
        }
    }
    if let Some(sides) = &card.sides {
        fact("ours", &format!("{}  the candidate", sides.ours));
        fact("theirs", &format!("{}  the agent's contribution", sides.theirs));
        fact("base", &sides.base.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string));
    }
    if let Some(snapshot) = &card.snapshot {
        fact("snapshot", &format!("{snapshot}  the agent's work that it is about"));
    }
    fact("fingerprint", &text::clean(&card.fingerprint));
    if let Some(request) = &card.request {
        fact("asked in", &format!("turn {}", request.turn));
        section(&mut out, "asks for", &text::lines(&request.owns, "  "), look);
    }
    section(&mut out, "paths", &text::lines(&card.paths, "  "), look);
    section(&mut out, "stages", &stages(card, look), look);
    let said = match (&card.request, &card.landing) {
        (Some(_), _) => "not granted by the plan",
        (None, Some(_)) => "in the way",
        (None, None) => "git said",
    };
    section(&mut out, said, &messages(card), look);
    for path in shown.excerpts.iter().flat_map(|excerpts| &excerpts.paths) {
        section(&mut out, &text::shown(&path.path), &excerpt::render(path, look), look);
    }
    if let Some(more) = shown.excerpts.as_ref().map(|excerpts| excerpts.more_paths).filter(|more| *more > 0) {
        out.extend(["\n", &text::count(more as u64, "more path is", "more paths are"), " not shown\n"]);
    }
    if let Some(proposal) = &card.proposal {
        let patch = shown.proposed_patch.as_ref().map(excerpt::patch).unwrap_or_default();
        section(&mut out, "proposed", &(proposed(proposal) + &patch), look);
    }
    section(&mut out, "you can", &options(card, shown.lean.as_ref()), look);
    section(&mut out, "so far", &history(card), look);
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

fn options(card: &Card, lean: Option<&Lean>) -> String {
    let mut out = String::new();
    for option in &card.options {
        out.extend(["  ", &text::clean(&option.title), ":\n      ", &text::clean(&option.command), "\n"]);
        if let Some(lean) = lean.filter(|lean| lean.option == option.command) {
            out.extend(["      this is what the facts speak for: ", &text::clean(&lean.reason), "\n"]);
        }
    }
    out
}

fn proposed(proposal: &Proposal) -> String {
    format!(
        "  by `{}`, which {} had run; kept in {}\n",
        text::command(&proposal.command, COMMAND_COLUMNS),
        text::clean(&proposal.by),
        proposal.kept_in
    )
}

fn history(card: &Card) -> String {
    let mut out = String::new();
    for step in &card.history {
        let by = step.by.as_ref().map(|by| format!(" by {}", text::clean(by))).unwrap_or_default();
        let why = step.why.as_ref().map(|why| format!(": {}", text::clean(why))).unwrap_or_default();
        let what = format!("  {}  event {}  {}", step.at, step.seq, step.step);
        out.extend([what.as_str(), &by, &why, "\n"]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn card() {
        insta::assert_snapshot!(ShownCard::new(samples::conflict_card(), Insight::default()).render(Look::PLAIN), @r"
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

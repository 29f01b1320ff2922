//! `inspect --network`: what an agent asked of the network.

use serde::Serialize;

use super::look::{Look, Tone};
use super::table::{Cell, Table};
use super::text;
use crate::model::AgentName;
use crate::model::network::NetworkVisit;

/// Data of `inspect --network`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkData {
    /// The agent.
    pub agent: AgentName,
    /// Its requests, in the order in which they ended.
    pub visits: Vec<NetworkVisit>,
    /// How many more there were, which are not written down.
    pub left_out: u64,
}

impl NetworkData {
    /// As text: a line for each request.
    pub fn render(&self, look: Look) -> String {
        if self.visits.is_empty() && self.left_out == 0 {
            return "it asked nothing of the network\n".to_owned();
        }
        let mut table = Table::new(["WHEN", "ATTEMPT", "BY", "HOST", "DECISION", "UP", "DOWN", "TOOK", "REASON"])
            .expendable(&["WHEN", "TOOK", "BY"]);
        for visit in &self.visits {
            let host = match (&visit.host, visit.port) {
                (Some(host), Some(port)) => Some(format!("{host}:{port}")),
                (Some(host), None) => Some(host.clone()),
                (None, _) => None,
            };
            let tone = match visit.decision.as_str() {
                "allowed" | "injected" => Tone::Plain,
                _ => Tone::Bad,
            };
            table.row([
                visit.timestamp.strftime("%FT%TZ").to_string().into(),
                visit.attempt.to_string().into(),
                visit.protocol.as_str().into(),
                Cell::maybe(host),
                Cell::new(&visit.decision, tone),
                visit.bytes_up.to_string().into(),
                visit.bytes_down.to_string().into(),
                text::millis(visit.duration_ms).into(),
                Cell::maybe(visit.reason.clone()),
            ]);
        }
        let mut out = table.render(look);
        if self.left_out > 0 {
            out.push_str(&text::count(self.left_out, "more is not written down", "more are not written down"));
            out.push('\n');
        }
        out
    }
}

//! `doctor --run`: what is damaged of a run's record.

use serde::Serialize;

use super::look::{Look, Tone};
use super::text;
use crate::run::examine::{Examination, Fault, Finding, Readable, Remedy};

/// Data of `doctor --run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DamageData {
    /// Whether everything is as it should be, or was made so.
    pub sound: bool,
    /// Whether the run's coordinator lives: then what it writes now is not looked at.
    pub alive: bool,
    /// How far the journal can be read.
    pub journal: Readable,
    /// All that is not as it should be.
    pub findings: Vec<Finding>,
}

impl DamageData {
    /// What was found. `repaired`: the files that were written anew after it.
    pub fn of(examination: Examination, repaired: &[String]) -> Self {
        let Examination { run: _, alive, readable, mut findings } = examination;
        for finding in &mut findings {
            if repaired.contains(&finding.file) {
                finding.remedy = Remedy::Repaired;
            }
        }
        let sound = findings.iter().all(|finding| finding.remedy == Remedy::Repaired);
        Self { sound, alive, journal: readable, findings }
    }

    /// Whether there is something that `--repair` would write.
    pub fn can_be_repaired(&self) -> bool {
        self.findings.iter().any(|finding| finding.remedy == Remedy::Derivable)
    }

    /// As text.
    pub fn render(&self, look: Look) -> String {
        let last =
            self.journal.last_type.as_ref().map_or_else(String::new, |kind| format!(", the last of them {kind}"));
        let mut out = format!("journal: {} events can be read{last}\n", self.journal.last_seq);
        for agent in &self.journal.agents {
            let turns = if agent.turns.is_empty() { "no turn".to_owned() } else { text::list(&agent.turns, 8) };
            out.extend([&format!("  {}: ", agent.agent), turns.as_str(), "\n"]);
        }
        if self.alive {
            out.push_str("its coordinator lives: what it writes now was not looked at\n");
        }
        out.push('\n');
        for finding in &self.findings {
            let tone = if finding.remedy == Remedy::Repaired { Tone::Good } else { Tone::Bad };
            let word = text::padded(word_of(finding), 8);
            out.extend([&tone.paint(&word, look), " ", &text::clean(&finding.file), "\n"]);
            out.extend(["         found: ", &text::clean(&finding.found), "\n"]);
            out.extend(["         needed for: ", &text::clean(&finding.depends), "\n"]);
        }
        let end = match (self.findings.is_empty(), self.sound, self.can_be_repaired()) {
            (true, _, _) => Tone::Good.paint("nothing is damaged", look),
            (false, true, _) => Tone::Good.paint("all of it was repaired", look),
            (false, false, true) => Tone::Bad
                .paint("some of it follows from the journal: `sandbox doctor --run --repair` writes it anew", look),
            (false, false, false) => {
                Tone::Bad.paint("none of what is left follows from the journal: it was left as it is", look)
            }
        };
        let gap = if self.findings.is_empty() { "" } else { "\n" };
        out + gap + &end + "\n"
    }
}

fn word_of(finding: &Finding) -> &'static str {
    if finding.remedy == Remedy::Repaired {
        return "repaired";
    }
    match finding.fault {
        Fault::Missing => "missing",
        Fault::Damaged => "DAMAGED",
        Fault::Newer => "newer",
        Fault::Torn => "torn",
        Fault::Stale => "stale",
    }
}

//! `doctor`: what this machine and this repository are fit for, and how each answer was come by.

use serde::Serialize;

use super::look::{Look, Tone};
use super::text;

/// Data of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorData {
    /// Whether a run with nothing but defaults would start: no check failed, and every layer is there.
    pub fit: bool,
    /// The program's version.
    pub version: String,
    /// The user, by number.
    pub uid: u32,
    /// The kernel's version.
    pub kernel: Option<String>,
    /// What was looked at.
    pub checks: Vec<Check>,
    /// What keeps agents apart from the rest, layer by layer; empty where no box could be started at all.
    pub layers: Vec<LayerCheck>,
}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// As it should be.
    Ok,
    /// It works, and somebody should know of it.
    Warning,
    /// A run would not start.
    Failed,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What: `git`, `sandbox`, `degraded`, `landlock`, `seccomp`, `limits`, `worktrees`, `repository`, `commit`, `place`,
    /// `state`, `attributes`, `sockets`, `home`.
    pub name: &'static str,
    /// How it went.
    pub state: CheckState,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub fix: Option<String>,
}

impl Check {
    /// It is as it should be.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: CheckState::Ok, found: found.into(), fix: None }
    }

    /// It works, with something to know.
    pub fn warning(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, state: CheckState::Warning, found: found.into(), fix: Some(fix.into()) }
    }

    /// It keeps a run from starting.
    pub fn failed(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, state: CheckState::Failed, found: found.into(), fix: Some(fix.into()) }
    }
}

/// One layer of isolation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayerCheck {
    /// Which.
    pub name: &'static str,
    /// Whether it held when it was tried.
    pub present: bool,
    /// What was tried.
    pub probed: &'static str,
    /// What happened.
    pub found: String,
    /// What to do, where it is missing.
    pub fix: Option<String>,
}

impl DoctorData {
    /// What was found, and what it comes to.
    pub fn of(uid: u32, kernel: Option<String>, checks: Vec<Check>, layers: Vec<LayerCheck>) -> Self {
        let fit = checks.iter().all(|check| check.state != CheckState::Failed)
            && !layers.is_empty()
            && layers.iter().all(|layer| layer.present);
        Self { fit, version: env!("CARGO_PKG_VERSION").to_owned(), uid, kernel, checks, layers }
    }

    /// As text.
    pub fn render(&self, look: Look) -> String {
        let kernel = self.kernel.as_ref().map_or_else(String::new, |kernel| format!(", Linux {kernel}"));
        let mut out = format!("sandbox {}, uid {}{kernel}\n\n", self.version, self.uid);
        for check in &self.checks {
            let (word, tone) = match check.state {
                CheckState::Ok => ("ok", Tone::Good),
                CheckState::Warning => ("note", Tone::Warn),
                CheckState::Failed => ("FAILED", Tone::Bad),
            };
            line(&mut out, &tone.paint(&text::padded(word, 7), look), check.name, &check.found, check.fix.as_deref());
        }
        if !self.layers.is_empty() {
            out.push_str("\nlayers, each tried in a box\n");
        }
        for layer in &self.layers {
            let (word, tone) = if layer.present { ("yes", Tone::Good) } else { ("NO", Tone::Bad) };
            let found = format!("{}: {}", layer.probed, layer.found);
            line(&mut out, &tone.paint(&text::padded(word, 7), look), layer.name, &found, layer.fix.as_deref());
        }
        let end = if self.fit {
            Tone::Good.paint("a run would start", look)
        } else {
            Tone::Bad.paint("a run would not start", look)
        };
        out + "\n" + &end + "\n"
    }
}

fn line(out: &mut String, word: &str, name: &str, found: &str, fix: Option<&str>) {
    out.extend([word, " ", &text::padded(name, 13), " ", &text::clean(found), "\n"]);
    if let Some(fix) = fix {
        out.extend([&" ".repeat(22), "fix: ", &text::clean(fix), "\n"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fit_only_if_nothing_failed_and_every_layer_holds() {
        let layer = |present| LayerCheck {
            name: "files",
            present,
            probed: "wrote outside",
            found: "refused".to_owned(),
            fix: None,
        };
        let note = Check::warning("git", "git 2.39.5", "use 2.43");
        let fit = |checks: Vec<Check>, layers| DoctorData::of(0, None, checks, layers).fit;
        assert!(fit(vec![note.clone()], vec![layer(true)]));
        assert!(!fit(vec![note.clone()], vec![layer(true), layer(false)]));
        assert!(!fit(vec![note.clone()], vec![]), "nothing tried is nothing proven");
        assert!(!fit(vec![note.clone(), Check::failed("git", "x", "y")], vec![layer(true)]));

        let checks = vec![note, Check::failed("commit", "none", "make one\x1b[2J"), Check::ok("home", "/home/me")];
        let data = DoctorData::of(7, Some("6.1".to_owned()), checks, vec![layer(true), layer(false)]);
        insta::assert_snapshot!(data.render(Look::PLAIN), @r"
        sandbox 0.1.0, uid 7, Linux 6.1

        note    git           git 2.39.5
                              fix: use 2.43
        FAILED  commit        none
                              fix: make one\u{1b}[2J
        ok      home          /home/me

        layers, each tried in a box
        yes     files         wrote outside: refused
        NO      files         wrote outside: refused

        a run would not start
        ");
    }
}

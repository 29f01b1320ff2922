//! What is wrong, or doubtful, in a plan: data with a place, all of it at once.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The plan is refused.
    Error,
    /// The plan is accepted, but this is probably not what was meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $text:literal,)*) => {
        /// What kind of finding it is. The texts are stable: scripts may rely on them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$doc])* $code,)*
        }

        impl Code {
            /// Every code, for tables and tests.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            /// The code as it is printed.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)*
                }
            }
        }
    };
}

codes! {
    /// The file is not TOML.
    Syntax = "syntax",
    /// The same key, or agent, twice.
    DuplicateKey = "duplicate-key",
    /// A key that means nothing.
    UnknownKey = "unknown-key",
    /// A key, or value, whose effect this version does not have.
    NotSupported = "not-supported",
    /// A value of another type than the key wants.
    WrongType = "wrong-type",
    /// A number or text that the key does not take.
    BadValue = "bad-value",
    /// Not a name for a plan or an agent.
    BadName = "bad-name",
    /// A name that the program uses itself.
    ReservedName = "reserved-name",
    /// The plan has no agents.
    NoAgents = "no-agents",
    /// An agent without `owns`, or with nothing it may change.
    MissingOwns = "missing-owns",
    /// An agent without `run` and `turns`.
    MissingCommand = "missing-command",
    /// An agent with both `run` and `turns`.
    RunAndTurns = "run-and-turns",
    /// A command without a program.
    EmptyCommand = "empty-command",
    /// Not a glob.
    BadGlob = "bad-glob",
    /// Not a duration, or not a sensible one.
    BadDuration = "bad-duration",
    /// Not a size, or not a sensible one.
    BadSize = "bad-size",
    /// Not the name of a branch that a result could land on.
    BadBranch = "bad-branch",
    /// Not the name of an environment variable that may be passed in.
    BadVariable = "bad-variable",
    /// Not a path that may be seeded or exposed.
    BadPath = "bad-path",
    /// Not a host and port that a proxy could let through.
    BadEndpoint = "bad-endpoint",
    /// A secret that could not be put into requests as it is written.
    BadInjection = "bad-injection",
    /// `after` names no agent of the plan.
    UnknownAgent = "unknown-agent",
    /// `after` names the agent itself.
    AfterItself = "after-itself",
    /// `after` names an agent twice.
    DuplicateAfter = "duplicate-after",
    /// Agents that wait for each other.
    Cycle = "cycle",
    /// A path that two agents may change, although not both share it.
    Overlap = "overlap",
    /// Contracts that cannot be compared within bounds.
    TooComplex = "too-complex",
    /// A limit that the machine at hand cannot enforce.
    NotHere = "not-on-this-machine",
    /// A plan of a size no person writes.
    TooLarge = "too-large",
    /// Nothing judges the result.
    NoVerifier = "no-verifier",
    /// A contract that no file of the repository falls under.
    ContractMatchesNothing = "contract-matches-nothing",
    /// A folder to start in that the repository does not have.
    NoWorkdir = "no-workdir",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One thing that is wrong or doubtful.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What kind it is.
    pub code: Code,
    /// What it is, in one line.
    pub message: String,
    /// Where it is, in bytes of the text; nowhere, if it is about the plan as a whole.
    pub span: Option<Range<usize>>,
    /// The line it begins on, counted from 1.
    pub line: Option<usize>,
    /// The character of that line it begins at, counted from 1.
    pub column: Option<usize>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Finding {
    /// A finding without a place.
    pub fn new(severity: Severity, code: Code, message: impl Into<String>) -> Self {
        Self { severity, code, message: clean(&message.into()), span: None, line: None, column: None, help: None }
    }

    /// The same, with something to do about it.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(clean(&help.into()));
        self
    }

    /// The same, at a place of `text`.
    #[must_use]
    pub(super) fn at(mut self, text: &str, span: Range<usize>) -> Self {
        let start = boundary(text, span.start);
        let span = start..boundary(text, span.end).max(start);
        let (line, column) = place(text, span.start);
        self.span = Some(span);
        self.line = Some(line);
        self.column = Some(column);
        self
    }
}

/// Text for a terminal: nothing in it moves the cursor or turns the direction of writing.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect()
}

/// Whether a character moves a terminal's cursor, turns the direction of writing, or is a letter that nobody sees.
pub fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

/// The nearest place at or before `offset` where a character begins.
fn boundary(text: &str, offset: usize) -> usize {
    (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The line that holds a byte of `text`, without its end.
pub(super) fn line_of(text: &str, offset: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let offset = offset.min(bytes.len());
    let newline = |byte: &u8| *byte == b'\n';
    let start = bytes[..offset].iter().rposition(newline).map_or(0, |at| at + 1);
    let end = bytes[offset..].iter().position(newline).map_or(bytes.len(), |length| offset + length);
    start..end
}

/// Line and column, counted from 1, of a byte of `text`. The column counts characters.
pub(super) fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// A plan that is refused, and everything that was found, warnings included, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{label} has {}", counted(findings))]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// What the plan is called in messages: its path, as it was given.
    #[serde(rename = "file")]
    pub label: String,
    /// The text the findings point into.
    #[serde(skip)]
    pub text: String,
    /// What was found.
    pub findings: Vec<Finding>,
}

fn counted(findings: &[Finding]) -> String {
    match findings.iter().filter(|finding| finding.severity == Severity::Error).count() {
        1 => "1 error".to_owned(),
        count => format!("{count} errors"),
    }
}

impl Findings {
    /// Findings about `text`, put into the order of the text; what has no place comes last.
    pub fn new(label: &str, text: &str, mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| {
            let (start, end) = finding.span.as_ref().map_or((usize::MAX, 0), |span| (span.start, span.end));
            (start, end, finding.severity)
        });
        Self { label: label.to_owned(), text: text.to_owned(), findings }
    }

    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

//! What one value of a plan file may be: from TOML to a checked value, or to what is wrong with it.

use std::path::Path;
use std::str::FromStr;

use jiff::SignedDuration;
use sandbox::Layer;
use toml::Spanned;
use toml::de::DeValue;

use crate::model::plan::{Argv, History, LandMode, Network, PLACEHOLDERS};
use crate::model::{AgentName, IdError};

use super::finding::Code;
use super::glob::Glob;
use super::keys;

/// A value and where it stands.
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// What is wrong with a value. The message goes on after the key's name: "must be a string, not a number".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl Wrong {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None }
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    fn kind(wanted: &str, value: &DeValue<'_>) -> Self {
        Self::new(Code::WrongType, format!("must be {wanted}, not {}", kind(value)))
    }
}

/// Text of the user's in a message: in backticks and cut.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut cut: String = text.chars().take(MOST).collect();
    if text.chars().nth(MOST).is_some() {
        cut.push('…');
    }
    format!("`{cut}`")
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "`true` or `false`",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

pub(super) fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, Wrong> {
    value.get_ref().as_str().ok_or_else(|| Wrong::kind("a string", value.get_ref()))
}

pub(super) fn list<'v, 't>(value: &'v Value<'t>, of: &str) -> Result<&'v [Value<'t>], Wrong> {
    let wrong = || Wrong::kind(&format!("a list of {of}"), value.get_ref());
    value.get_ref().as_array().map(std::ops::Deref::deref).ok_or_else(wrong)
}

/// A whole number between two bounds.
pub(super) fn number(value: &Value<'_>, least: u32, most: u32) -> Result<u32, Wrong> {
    let DeValue::Integer(digits) = value.get_ref() else {
        return Err(Wrong::kind("a whole number", value.get_ref()));
    };
    let number = i64::from_str_radix(digits.as_str(), digits.radix()).ok();
    number
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| Wrong::new(Code::BadValue, format!("must be a whole number from {least} to {most}")))
}

pub(super) fn yes_or_no(value: &Value<'_>) -> Result<bool, Wrong> {
    value.get_ref().as_bool().ok_or_else(|| Wrong::kind("`true` or `false`", value.get_ref()))
}

/// One of a few words.
fn word<'k>(value: &Value<'_>, known: &[&'k str]) -> Result<&'k str, Wrong> {
    let text = text(value)?;
    known.iter().find(|word| **word == text).copied().ok_or_else(|| {
        let all = known.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ");
        let wrong = Wrong::new(Code::BadValue, format!("cannot be {}", shown(text)));
        match keys::nearest(text, known.iter().copied()) {
            Some(near) => wrong.help(format!("did you mean `\"{near}\"`? It may be {all}")),
            None => wrong.help(format!("it may be {all}")),
        }
    })
}

pub(super) fn land(value: &Value<'_>) -> Result<LandMode, Wrong> {
    Ok(match word(value, &["never", "manual", "auto"])? {
        "never" => LandMode::Never,
        "auto" => LandMode::Auto,
        _ => LandMode::Manual,
    })
}

/// The form of the agents' work in the target's history.
pub(super) fn history(value: &Value<'_>) -> Result<History, Wrong> {
    let name = word(value, &History::ALL.map(History::name))?;
    // The word is one of the names.
    History::ALL
        .into_iter()
        .find(|history| history.name() == name)
        .ok_or_else(|| Wrong::kind("a form of history", value.get_ref()))
}

/// The subject of a merge, with places to be filled in.
pub(super) fn subject(text: &str) -> Result<(), Wrong> {
    line(text)?;
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let end = rest[open..].find('}').map_or(rest.len(), |close| open + close + 1);
        let place = &rest[open..end];
        if !PLACEHOLDERS.contains(&place) {
            let known = PLACEHOLDERS.map(|place| format!("`{place}`")).join(", ");
            return Err(Wrong::new(Code::BadValue, format!("has {}, which is filled in by nothing", shown(place)))
                .help(format!("it may hold {known}")));
        }
        rest = &rest[end..];
    }
    Ok(())
}

/// A layer that a box may do without.
pub(super) fn layer(value: &Value<'_>) -> Result<Layer, Wrong> {
    let names = Layer::OPTIONAL.map(Layer::name);
    let name = word(value, &names)?;
    // The word is one of the names.
    Layer::OPTIONAL
        .into_iter()
        .find(|layer| layer.name() == name)
        .ok_or_else(|| Wrong::kind("a layer", value.get_ref()))
}

/// A network that is a word. One with a list is read in `network.rs`.
pub(super) fn network(value: &Value<'_>) -> Result<Network, Wrong> {
    let listed = || "to let through some hosts alone, write `{ allow = [\"HOST:PORT\"] }`";
    if !value.get_ref().is_str() {
        return Err(Wrong::kind("`\"none\"`, `\"host\"` or a table", value.get_ref()).help(listed()));
    }
    Ok(match word(value, &["none", "host"])? {
        "host" => Network::Host,
        _ => Network::None,
    })
}

/// An entry of a list of what may be reached.
pub(super) fn endpoint(text: &str) -> Result<(), Wrong> {
    let wrong = |error| Wrong::new(Code::BadEndpoint, format!("has {}, which {error}", shown(text)));
    text.parse::<sandbox::proxy::Endpoint>().map(|_| ()).map_err(wrong)
}

/// The header a secret goes into.
pub(super) fn header(text: &str) -> Result<(), Wrong> {
    sandbox::proxy::check_header(text)
        .map_err(|error| Wrong::new(Code::BadInjection, format!("cannot be used: {error}")))
}

/// What stands before a secret in its header.
pub(super) fn header_prefix(text: &str) -> Result<(), Wrong> {
    if text.len() <= 64 && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(Wrong::new(Code::BadInjection, "must be at most 64 visible ASCII characters and spaces"))
}

/// What runs an agent. Only commands do so far; the other words are known, so that the refusal can say so.
pub(super) fn adapter(value: &Value<'_>) -> Result<(), Wrong> {
    const LATER: [&str; 8] = ["claude", "codex", "gemini", "qwen", "opencode", "aider", "mini", "acp"];
    let text = text(value)?;
    if LATER.contains(&text) {
        return Err(Wrong::new(Code::NotSupported, format!("= {} is not supported by this version", shown(text)))
            .help("write the command line that runs it under `run`"));
    }
    word(value, &["command"]).map(|_| ())
}

pub(super) fn name(text: &str) -> Result<AgentName, Wrong> {
    AgentName::from_str(text).map_err(|error| {
        let code = if matches!(error, IdError::Reserved { .. }) { Code::ReservedName } else { Code::BadName };
        Wrong::new(code, error.to_string())
    })
}

pub(super) fn duration(value: &Value<'_>) -> Result<SignedDuration, Wrong> {
    const HELP: &str = "write a duration such as `\"90s\"`, `\"30m\"` or `\"1h 30m\"`";
    let DeValue::String(text) = value.get_ref() else {
        return Err(Wrong::kind("a duration", value.get_ref()).help(HELP));
    };
    let duration = SignedDuration::from_str(text)
        .map_err(|_| Wrong::new(Code::BadDuration, format!("is not a duration: {}", shown(text))).help(HELP))?;
    let wrong = |message: &str| Err(Wrong::new(Code::BadDuration, message).help(HELP));
    if !duration.is_positive() {
        return wrong("must be longer than nothing");
    }
    // Far beyond any run, and near enough that adding it to a clock's time cannot overflow.
    if duration > SignedDuration::from_hours(24 * 365) {
        return wrong("must be at most a year");
    }
    Ok(duration)
}

pub(super) fn size(value: &Value<'_>) -> Result<u64, Wrong> {
    const HELP: &str = "write a size such as `\"64MiB\"`, `\"5GB\"` or a number of bytes";
    let bytes = match value.get_ref() {
        DeValue::Integer(digits) => u64::from_str_radix(digits.as_str(), digits.radix()).ok(),
        DeValue::String(text) => bytes(text),
        other => return Err(Wrong::kind("a size", other).help(HELP)),
    };
    match bytes {
        None => Err(Wrong::new(Code::BadSize, "is not a size").help(HELP)),
        Some(0) => Err(Wrong::new(Code::BadSize, "must be more than nothing").help(HELP)),
        Some(bytes) if bytes > 1 << 50 => Err(Wrong::new(Code::BadSize, "must be at most `1024TiB`").help(HELP)),
        Some(bytes) => Ok(bytes),
    }
}

/// A size that a box can live with.
pub(super) fn size_of_box(value: &Value<'_>) -> Result<u64, Wrong> {
    size(value).and_then(|bytes| box_size(bytes).map(|()| bytes))
}

/// What must hold of a limit of a box, wherever it comes from: with less, no program starts.
pub(super) fn box_size(bytes: u64) -> Result<(), Wrong> {
    if bytes < 1 << 20 { Err(Wrong::new(Code::BadSize, "must be at least `1MiB`")) } else { Ok(()) }
}

/// How many processes, wherever the number comes from.
pub(super) const PROCESSES: std::ops::RangeInclusive<u32> = 1..=1_000_000;

/// A size as it stands in a plan, such as `64MiB`; the command line takes the same.
pub fn parse_size(text: &str) -> Option<u64> {
    bytes(text).filter(|bytes| (1..=1 << 50).contains(bytes))
}

fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let factor: u64 = match text.get(digits..)?.trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    };
    text.get(..digits)?.parse::<u64>().ok()?.checked_mul(factor)
}

/// A command: a program and its arguments.
pub(super) fn command(value: &Value<'_>) -> Result<Argv, Wrong> {
    const WANTED: &str = "a list: the program and its arguments";
    let items = match value.get_ref() {
        DeValue::Array(items) => items,
        DeValue::String(line) => {
            let wrong = Wrong::kind(WANTED, value.get_ref());
            return Err(match shell_words::split(line) {
                Ok(words) if !words.is_empty() && line.len() < 200 => wrong.help(format!("write `{words:?}`")),
                _ => wrong.help("for a shell line write `[\"sh\", \"-c\", \"…\"]`"),
            });
        }
        other => return Err(Wrong::kind(WANTED, other)),
    };
    let argv: Argv = items
        .iter()
        .map(|item| text(item).map(str::to_owned))
        .collect::<Result<_, _>>()
        .map_err(|_| Wrong::new(Code::WrongType, "must be a list of strings only"))?;
    command_words(&argv)?;
    Ok(argv)
}

/// What must hold of a command wherever it comes from.
pub(super) fn command_words(argv: &[String]) -> Result<(), Wrong> {
    match argv.first().map(|program| program.trim()) {
        None => Err(Wrong::new(Code::EmptyCommand, "is an empty list: name at least the program")),
        Some("") => Err(Wrong::new(Code::EmptyCommand, "begins with an empty text: name the program first")),
        Some(_) if argv.iter().any(|word| word.contains('\0')) => {
            Err(Wrong::new(Code::BadValue, "has a NUL character, which no command can have"))
        }
        Some(_) => Ok(()),
    }
}

pub(super) fn glob(text: &str) -> Result<(), Wrong> {
    let wrong = |error| Wrong::new(Code::BadGlob, format!("has {}, which is not a glob: {error}", shown(text)));
    Glob::new(text).map(|_| ()).map_err(wrong)
}

pub(super) fn line(text: &str) -> Result<(), Wrong> {
    if text.trim().is_empty() || text.chars().any(char::is_control) || text.chars().count() > 200 {
        return Err(Wrong::new(Code::BadValue, "must be one line of at most 200 characters"));
    }
    Ok(())
}

/// Variables that the sandbox itself sets, or that would lead git out of it.
const OWN_VARIABLES: [&str; 10] = [
    "HOME",
    "TMPDIR",
    "PWD",
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
];

pub(super) fn variable(text: &str) -> Result<(), Wrong> {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if !first || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        let wrong = Wrong::new(Code::BadVariable, format!("has {}, which is not the name of a variable", shown(text)));
        return Err(if text.contains('=') { wrong.help("write the name only; its value is passed in") } else { wrong });
    }
    if OWN_VARIABLES.contains(&text) || text.starts_with("SANDBOX_") {
        return Err(Wrong::new(Code::BadVariable, format!("has {}, which the sandbox sets itself", shown(text))));
    }
    Ok(())
}

/// A variable that inside holds something else than outside: none that programs are found by.
pub(super) fn secret_variable(text: &str) -> Result<(), Wrong> {
    if text == "PATH" {
        let message = format!("has {}, which programs are found by inside", shown(text));
        return Err(Wrong::new(Code::BadVariable, message));
    }
    variable(text)
}

/// A path of the checkout to copy; a slash at the end says nothing and is dropped.
pub(super) fn seed(text: &str) -> Result<String, Wrong> {
    let wrong = |why: &str| Err(Wrong::new(Code::BadPath, format!("has {}, {why}", shown(text))));
    let path = text.strip_suffix('/').unwrap_or(text);
    if path.starts_with('/') || path.starts_with('~') {
        return wrong("which is not a path from the checkout's root");
    }
    for part in path.split('/') {
        match part {
            "" | "." => return wrong("which has an empty part"),
            ".." => return wrong("which leads out of the checkout"),
            part if part.eq_ignore_ascii_case(".git") => return wrong("which lies in git's own folder"),
            part if part.contains('\0') => return wrong("which has a NUL character"),
            _ => {}
        }
    }
    Ok(path.to_owned())
}

/// A path from outside to show.
pub(super) fn expose(text: &str) -> Result<(), Wrong> {
    outside(text, "which would show everything: name a folder in it")
}

/// A folder of the host to hide.
pub(super) fn hide(text: &str) -> Result<(), Wrong> {
    outside(text, "which would hide everything: name a folder in it")
}

fn outside(text: &str, everything: &str) -> Result<(), Wrong> {
    let wrong = |why: &str| Err(Wrong::new(Code::BadPath, format!("has {}, {why}", shown(text))));
    let Some(path) = text.strip_prefix('/').or_else(|| text.strip_prefix("~/")) else {
        return wrong("which begins neither with `/` nor with `~/`");
    };
    if path.trim_matches('/').is_empty() {
        return wrong(everything);
    }
    if path.split('/').any(|part| part == "..") {
        return wrong("which has a part `..`");
    }
    if path.contains('\0') { wrong("which has a NUL character") } else { Ok(()) }
}

/// A branch that a result can land on, by git's rules for ref names.
pub(super) fn branch(text: &str) -> Result<(), Wrong> {
    let wrong = |why: &str| Err(Wrong::new(Code::BadBranch, format!("cannot be {}: {why}", shown(text))));
    if text.is_empty() || text == "@" || text == "HEAD" || text.starts_with('-') {
        return wrong("that is not the name of a branch");
    }
    if text.starts_with("refs/") {
        return wrong("write the branch's short name, such as `main`");
    }
    if text == "sandbox" || text.starts_with("sandbox/") {
        return wrong("the branches of runs live there");
    }
    let odd = |c: char| c.is_control() || " ~^:?*[\\\u{7f}".contains(c);
    let odd_part = |part: &str| {
        part.is_empty() || part.starts_with('.') || Path::new(part).extension().is_some_and(|end| end == "lock")
    };
    if text.chars().any(odd) || text.contains("..") || text.contains("@{") || text.ends_with('.') {
        return wrong("git does not allow such a name");
    }
    if text.len() > 200 || text.split('/').any(odd_part) { wrong("git does not allow such a name") } else { Ok(()) }
}

/// How often an agent may be tried, wherever the number comes from.
pub(super) fn attempts(attempts: u32) -> Result<(), Wrong> {
    if (1..=100).contains(&attempts) {
        return Ok(());
    }
    Err(Wrong::new(Code::BadValue, "must be a whole number from 1 to 100"))
}

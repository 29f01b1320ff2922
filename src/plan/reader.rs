//! Takes typed values out of a TOML document and collects what is wrong with them, so that one look tells everything.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::finding::{Code, Finding, Severity, place};
use super::keys::{self, Entry};
use super::value::{self, Value, Wrong, shown};

/// A table of the document and where it stands, for messages. It may be absent, and then has no keys.
pub(super) struct Section<'d, 't> {
    path: String,
    table: Option<&'d DeTable<'t>>,
}

impl<'d, 't> Section<'d, 't> {
    /// Its path, as it would be written.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn root(table: &'d DeTable<'t>) -> Self {
        Self { path: String::new(), table: Some(table) }
    }

    /// The section `name` in this one. One that is no table was told of by [`Reader::check_keys`].
    pub(super) fn section(&self, name: &str) -> Self {
        Section { path: joined(&self.path, name), table: self.value(name).and_then(|value| value.get_ref().as_table()) }
    }

    pub(super) fn value(&self, name: &str) -> Option<&'d Value<'t>> {
        self.table?.get(name)
    }

    /// Where the key itself stands.
    pub(super) fn key_span(&self, name: &str) -> Option<Range<usize>> {
        self.table?.get_key_value(name).map(|(key, _)| key.span())
    }

    pub(super) fn is_table(&self) -> bool {
        self.table.is_some()
    }

    /// Keys and values in the order of the file.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'d str, Range<usize>, Self)> + use<'_, 'd, 't> {
        self.table.into_iter().flatten().map(|(key, value)| {
            let name = key.get_ref().as_ref();
            (name, key.span(), Section { path: joined(&self.path, name), table: value.get_ref().as_table() })
        })
    }
}

/// A key's name as it would be written.
fn joined(path: &str, name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_*".contains(&byte));
    let name = if bare { name.to_owned() } else { format!("{name:?}") };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

pub(super) struct Reader<'t> {
    text: &'t str,
    findings: Vec<Finding>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, findings: Vec::new() }
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    pub(super) fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// The line a place is on, for messages that name a second place.
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        place(self.text, span.start).0
    }

    pub(super) fn error(&mut self, code: Code, span: Range<usize>, message: String, help: Option<String>) {
        let finding = Finding::new(Severity::Error, code, message).at(self.text, span);
        self.findings.push(match help {
            Some(help) => finding.with_help(help),
            None => finding,
        });
    }

    fn wrong(&mut self, path: &str, span: Range<usize>, wrong: Wrong) {
        self.error(wrong.code, span, format!("{} {}", shown(path), wrong.message), wrong.help);
    }

    /// The value of a key, if it is there and right.
    pub(super) fn take<T>(
        &mut self,
        section: &Section<'_, 't>,
        name: &str,
        read: impl FnOnce(&Value<'t>) -> Result<T, Wrong>,
    ) -> Option<T> {
        let value = section.value(name)?;
        read(value).map_err(|wrong| self.wrong(&joined(&section.path, name), value.span(), wrong)).ok()
    }

    /// A text that must pass `check`.
    pub(super) fn take_text(
        &mut self,
        section: &Section<'_, 't>,
        name: &str,
        check: impl FnOnce(&str) -> Result<(), Wrong>,
    ) -> Option<String> {
        self.take(section, name, |value| {
            let text = value::text(value)?;
            check(text)?;
            Ok(text.to_owned())
        })
    }

    /// The items of a list that are right; every wrong one is told of. `None` where the key is absent or is no list.
    pub(super) fn take_list<T>(
        &mut self,
        section: &Section<'_, 't>,
        name: &str,
        of: &str,
        mut read: impl FnMut(&Value<'t>) -> Result<T, Wrong>,
    ) -> Option<Vec<Spanned<T>>> {
        let items = self.take(section, name, |value| value::list(value, of).map(<[_]>::to_vec))?;
        let path = joined(&section.path, name);
        let mut right = Vec::new();
        for item in &items {
            match read(item) {
                Ok(value) => right.push(Spanned::new(item.span(), value)),
                Err(wrong) => self.wrong(&path, item.span(), wrong),
            }
        }
        Some(right)
    }

    /// A list of texts that must each pass `check`.
    pub(super) fn take_texts(
        &mut self,
        section: &Section<'_, 't>,
        name: &str,
        check: impl Fn(&str) -> Result<(), Wrong>,
    ) -> Option<Vec<Spanned<String>>> {
        self.take_list(section, name, "strings", |value| {
            let text = value::text(value)?;
            check(text)?;
            Ok(text.to_owned())
        })
    }

    /// Tells of every key that means nothing or is not supported, and of every section that is no table.
    pub(super) fn check_keys(&mut self, root: &DeTable<'t>) {
        self.check_table(root, "", "");
    }

    /// Tells of every key of `section` that is none of those that stand below `pattern` in the reference.
    pub(super) fn check_known(&mut self, section: &Section<'_, 't>, pattern: &str) {
        let known = keys::children(pattern);
        for (name, span, _) in section.entries() {
            if !known.contains(&name) {
                self.unknown(&joined(&section.path, name), name, pattern, span);
            }
        }
    }

    fn check_table(&mut self, table: &DeTable<'t>, path: &str, pattern: &str) {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let here = joined(path, name);
            let rule = joined(pattern, if pattern == "agents" { "*" } else { name });
            match (keys::entry(&rule), value.get_ref()) {
                (Entry::Key(known), _) if known.supported => {}
                (Entry::Key(_), _) => {
                    let message = format!("{} is not supported by this version", shown(&here));
                    self.error(Code::NotSupported, key.span(), message, None);
                }
                (Entry::Section, DeValue::Table(inner)) => self.check_table(inner, &here, &rule),
                (Entry::Section, _) => {
                    let help = match rule.as_str() {
                        "agents" => "write one table for each agent: `[agents.NAME]`".to_owned(),
                        _ => format!("write `[{here}]` and its keys below"),
                    };
                    self.error(Code::WrongType, key.span(), format!("{} must be a table", shown(&here)), Some(help));
                }
                (Entry::Unknown, _) => self.unknown(&here, name, pattern, key.span()),
            }
        }
    }

    fn unknown(&mut self, path: &str, name: &str, pattern: &str, span: Range<usize>) {
        let known = keys::children(pattern);
        let help = keys::nearest(name, known.iter().copied()).map_or_else(
            || format!("known here are {}", known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        self.error(Code::UnknownKey, span, format!("unknown key {}", shown(path)), Some(help));
    }
}

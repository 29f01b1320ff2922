//! The network of a box, as a plan writes it: a word, or a table of what a proxy lets through.
//!
//! What a host and port look like is the `sandbox` crate's to say; here the places are found that are wrong.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;

use crate::model::plan::{AllowList, Injection, Network, SandboxSettings};

use super::finding::Code;
use super::reader::{Reader, Section};
use super::value::{self, shown};

/// Where the reference has the keys of every network.
const PATTERN: &str = "sandbox.network";

/// The network written under `network` in `section`, if one is there and right.
pub(super) fn read<'t>(reader: &mut Reader<'t>, section: &Section<'_, 't>) -> Option<Network> {
    let table = section.section("network");
    if !table.is_table() {
        return reader.take(section, "network", value::network);
    }
    reader.check_known(&table, PATTERN);
    let plain =
        |list: Option<Vec<Spanned<String>>>| list.unwrap_or_default().into_iter().map(Spanned::into_inner).collect();
    let allow = plain(reader.take_texts(&table, "allow", value::endpoint));
    let deny = plain(reader.take_texts(&table, "deny", value::endpoint));
    let inject = injections(reader, &table);
    Some(Network::Allow(AllowList { allow, deny, inject }))
}

fn injections<'t>(reader: &mut Reader<'t>, table: &Section<'_, 't>) -> BTreeMap<String, Injection> {
    let all = table.section("inject");
    if let Some(value) = table.value("inject").filter(|_| !all.is_table()) {
        let message = format!("`{}` must be a table", all.path());
        let help = "write `inject = { \"HOST\" = { header = \"…\", env = \"…\" } }`".to_owned();
        reader.error(Code::WrongType, value.span(), message, Some(help));
    }
    let mut found = BTreeMap::new();
    for (host, span, section) in all.entries() {
        if let Some(injection) = injection(reader, host, span, &section) {
            found.insert(host.to_owned(), injection);
        }
    }
    found
}

fn injection<'t>(
    reader: &mut Reader<'t>,
    host: &str,
    span: Range<usize>,
    section: &Section<'_, 't>,
) -> Option<Injection> {
    if let Err(error) = host.parse::<sandbox::proxy::Upstream>() {
        let help = "write `HOST`, or `HOST:PORT` where the port is not 443".to_owned();
        let message = format!("a secret cannot be for {}, which {error}", shown(host));
        reader.error(Code::BadEndpoint, span.clone(), message, Some(help));
    }
    reader.check_known(section, "sandbox.network.inject.*");
    let header = reader.take_text(section, "header", value::header);
    let env = reader.take_text(section, "env", value::secret_variable);
    let prefix = reader.take_text(section, "prefix", value::header_prefix);
    let base_url = reader.take_text(section, "base_url", value::secret_variable);
    for (name, what) in [("header", "the header it goes into"), ("env", "your variable that holds it")] {
        if section.value(name).is_none() {
            let message = format!("the secret for {} has no `{name}`", shown(host));
            reader.error(Code::BadInjection, span.clone(), message, Some(format!("name {what}")));
        }
    }
    Some(Injection { header: header?, env: env?, prefix: prefix.unwrap_or_default(), base_url })
}

/// What is wrong with the variables of a box, all of it together: one that an injection stands in for cannot be passed in
/// as well, and no two injections can have one variable for two addresses.
pub(super) fn check_variables(settings: &SandboxSettings) -> Vec<(String, String)> {
    let Network::Allow(list) = &settings.network else { return Vec::new() };
    let mut wrong = Vec::new();
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    for (host, injection) in &list.inject {
        for variable in [Some(&injection.env), injection.base_url.as_ref()].into_iter().flatten() {
            if settings.env.contains(variable) {
                let message =
                    format!("{} is passed in and stands in for the secret of {}", shown(variable), shown(host));
                wrong.push((message, "take it out of `env`: the agent is not to hold it".to_owned()));
            }
        }
        if let Some(variable) = &injection.base_url {
            if list.inject.values().any(|other| other.env == *variable) {
                let message = format!("{} is both a `base_url` and an `env`", shown(variable));
                wrong.push((message, "name another variable for one of them".to_owned()));
            }
            if let Some(other) = taken.insert(variable, host) {
                let message =
                    format!("{} is the `base_url` of both {} and {}", shown(variable), shown(other), shown(host));
                wrong.push((message, "name another variable for one of them".to_owned()));
            }
        }
    }
    wrong
}

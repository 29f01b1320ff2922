//! What beside tree and command can change a verdict: the program found, the variables, the box.
//!
//! Each part is hashed by itself, so that a later verification can say which parts differ and never what they were. What
//! is new in every run and says nothing of the candidate has no part here: run ids, the worktree's path, temporary
//! folders, and what describes the user's terminal, which a verifier therefore does not get either.
//!
//! Not covered: what a program reads from the system or from exposed folders while it runs. `verify --fresh` is for that.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox::{Enforcement, SHARED_FOLDERS, Step};
use sha2::{Digest, Sha256};

use crate::model::plan::{Injection, Network, VerifySettings};
use crate::workspace::{HostEnvironment, seen};

/// Variables that describe a terminal or a person at it. A verifier gets them only where the plan names them.
const OF_A_SESSION: [&str; 4] = ["TERM", "COLORTERM", "NO_COLOR", "EDITOR"];

/// The user's variables that a verifier gets, and those the plan names that are not set.
pub(super) fn passed(host: &HostEnvironment, settings: &VerifySettings) -> (BTreeMap<OsString, OsString>, Vec<String>) {
    let named = &settings.sandbox.env;
    let (mut passed, missing) = host.passed(named);
    passed.retain(|name, _| !OF_A_SESSION.iter().any(|of| name == of) || named.iter().any(|named| name == &**named));
    (passed, missing)
}

/// The parts, by name, each hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Environment {
    parts: BTreeMap<String, String>,
}

impl Environment {
    /// Takes the environment in. `enforcement` is the box, or why there is none.
    pub(super) fn load(
        host: &HostEnvironment,
        settings: &VerifySettings,
        enforcement: Result<&Enforcement, &str>,
    ) -> Self {
        let mut parts = BTreeMap::new();
        let mut part = |name: &str, value: &[&[u8]]| {
            parts.insert(name.to_owned(), hash(name, value));
        };
        let text = |value: &'static str| value.as_bytes();
        part("program version", &[text(env!("CARGO_PKG_VERSION"))]);
        part("architecture", &[text(std::env::consts::ARCH)]);
        part("tool", &[&tool(host, settings.command.first().map_or("", String::as_str))]);
        let (search, tools) = (lasting(host.search_path()), lasting(host.tool_folders()));
        part("search path", &path_bytes(&search));
        part("network", &bytes_of(&network_words(&settings.sandbox.network)));
        for (variable, value) in secrets(host, &settings.sandbox.network) {
            match value {
                Some(value) => part(&format!("secret {variable}"), &[text("set"), value.as_bytes()]),
                None => part(&format!("secret {variable}"), &[text("not set")]),
            }
        }
        if let Some(workdir) = &settings.workdir {
            part("working directory", &[workdir.as_bytes()]);
        }
        part("exposed paths", &bytes_of(&settings.sandbox.expose));
        part("hidden folders", &bytes_of(&settings.sandbox.hide));
        part("nested namespaces", &[text(if settings.sandbox.nested { "allowed" } else { "denied" })]);
        part("exposed tools", &path_bytes(&tools));
        let limits = &settings.sandbox.limits;
        let limits = [settings.timeout.to_string(), limits.output.to_string(), format!("{:?}", limits.of_box())];
        part("limits", &bytes_of(&limits));
        match enforcement {
            Ok(enforcement) => part("isolation", &bytes_of(&layers(enforcement))),
            Err(why) => part("isolation", &[text("none"), why.as_bytes()]),
        }
        let (passed, missing) = passed(host, settings);
        for (name, value) in &passed {
            part(&variable(&name.to_string_lossy()), &[text("set"), value.as_bytes()]);
        }
        for name in missing {
            part(&variable(&name), &[text("not set")]);
        }
        Self { parts }
    }

    /// One hash over all parts.
    pub(super) fn hash(&self) -> String {
        let all: Vec<&[u8]> = self.parts.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]).collect();
        hash("environment", &all)
    }

    /// The parts.
    pub(super) fn into_parts(self) -> BTreeMap<String, String> {
        self.parts
    }

    /// The names of the parts that are not the same in `other`, or only in one of the two.
    pub(super) fn differences(&self, other: &BTreeMap<String, String>) -> Vec<String> {
        let names = self.parts.keys().chain(other.keys().filter(|name| !self.parts.contains_key(*name)));
        let mut differing: Vec<String> =
            names.filter(|name| self.parts.get(*name) != other.get(*name)).cloned().collect();
        differing.sort();
        differing
    }
}

fn variable(name: &str) -> String {
    format!("variable {name}")
}

/// A hash over the name and the values. Each is preceded by its length, so that no two lists read the same.
fn hash(name: &str, values: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for value in [name.as_bytes()].iter().chain(values) {
        hash.update((value.len() as u64).to_le_bytes());
        hash.update(value);
    }
    hex::encode(hash.finalize())
}

fn bytes_of(texts: &[String]) -> Vec<&[u8]> {
    texts.iter().map(String::as_bytes).collect()
}

fn path_bytes(paths: &[PathBuf]) -> Vec<&[u8]> {
    paths.iter().map(|path| path.as_os_str().as_bytes()).collect()
}

/// What the network lets through, each word saying what it is.
fn network_words(network: &Network) -> Vec<String> {
    let list = match network {
        Network::None => return vec!["none".to_owned()],
        Network::Host => return vec!["host".to_owned()],
        Network::Allow(list) => list,
    };
    let mut words = vec!["allow".to_owned()];
    words.extend(list.allow.iter().map(|entry| format!("allow {entry}")));
    words.extend(list.deny.iter().map(|entry| format!("deny {entry}")));
    for (host, injection) in &list.inject {
        let Injection { header, env, prefix, base_url } = injection;
        words.push(format!("inject {host:?} {header:?} {env:?} {prefix:?} {base_url:?}"));
    }
    words
}

/// The variables whose values are put into requests, and these.
fn secrets<'a>(host: &'a HostEnvironment, network: &'a Network) -> BTreeMap<&'a str, Option<&'a OsStr>> {
    let list = match network {
        Network::None | Network::Host => return BTreeMap::new(),
        Network::Allow(list) => list,
    };
    list.inject.values().map(|injection| (injection.env.as_str(), host.variable(&injection.env))).collect()
}

/// The paths that are the same the next time.
fn lasting(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().filter(|path| !SHARED_FOLDERS.iter().any(|folder| path.starts_with(folder))).collect()
}

/// Which program a box takes `name` for, so that an update or another version earlier on the search path is noticed.
///
/// Size and times stand for the content: a program that cannot set a file's change time cannot replace it unnoticed, and
/// reading a runtime of 100 MB for each verification would be felt. A program of the tree itself is part of the tree.
fn tool(host: &HostEnvironment, name: &str) -> Vec<u8> {
    if name.contains('/') && !name.starts_with('/') {
        return b"in the tree".to_vec();
    }
    let found = if name.starts_with('/') { Some(PathBuf::from(name)) } else { find(host, OsStr::new(name)) };
    let found = found.and_then(|path| path.canonicalize().ok());
    let Some((path, facts)) = found.and_then(|path| path.metadata().ok().map(|facts| (path, facts))) else {
        return b"not found".to_vec();
    };
    let numbers = [
        facts.size().to_string(),
        format!("{}.{}", facts.mtime(), facts.mtime_nsec()),
        format!("{}.{}", facts.ctime(), facts.ctime_nsec()),
    ];
    let mut identity = path.into_os_string().into_encoded_bytes();
    for number in numbers {
        identity.push(0);
        identity.extend_from_slice(number.as_bytes());
    }
    identity
}

fn find(host: &HostEnvironment, name: &OsStr) -> Option<PathBuf> {
    // The box's own programs stand before the user's.
    if Path::new(seen::PROGRAM).file_name() == Some(name) {
        return Some(host.program.clone());
    }
    let is_program = |path: &PathBuf| path.metadata().is_ok_and(|facts| facts.is_file() && facts.mode() & 0o111 != 0);
    host.search_path().into_iter().map(|folder| folder.join(name)).find(is_program)
}

/// What the box does, without the places it does it to: these hold the run's name.
fn layers(enforcement: &Enforcement) -> Vec<String> {
    let without_places = |step: &Step| match step {
        Step::Clone { .. }
        | Step::ControlGroup { .. }
        | Step::Hide { .. }
        | Step::Bind { .. }
        | Step::Mask { .. }
        | Step::Seal { .. }
        | Step::KillGroup { .. }
        | Step::Link { .. } => None,
        Step::KillFirst { .. }
        | Step::Unshare { .. }
        | Step::Map { .. }
        | Step::Private
        | Step::Root
        | Step::Devices { .. }
        | Step::Processes
        | Step::ProcessNumbers { .. }
        | Step::ForbidNesting
        | Step::ProtectProcesses
        | Step::Scratch { .. }
        | Step::Pivot
        | Step::Hostname { .. }
        | Step::Loopback
        | Step::Listen { .. }
        | Step::Relay { .. }
        | Step::DropCapabilities
        | Step::NoNewPrivileges
        | Step::Undumpable
        | Step::LeaveSession
        | Step::Adopt
        | Step::Limit { .. } => Some(step.to_string()),
    };
    let steps = enforcement.steps().iter().filter_map(without_places);
    // The steps themselves say nothing of it where a control group has the limits.
    let steps = steps.chain(enforcement.left_out().iter().map(|limit| format!("without the limit {limit}")));
    steps.chain(enforcement.layers().iter().map(ToString::to_string)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use jiff::SignedDuration;

    use super::*;
    use crate::model::plan::{AllowList, SandboxSettings};

    fn program(folder: &Path, name: &str, text: &str) {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o755).open(folder.join(name)).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }

    fn host(folder: &Path, variables: &[(&str, &str)]) -> HostEnvironment {
        let path = [("PATH", folder.to_str().unwrap_or_default())];
        HostEnvironment {
            home: folder.to_owned(),
            variables: path.iter().chain(variables).map(|(key, value)| (key.into(), value.into())).collect(),
            program: folder.join("own"),
        }
    }

    fn settings(env: &[&str]) -> VerifySettings {
        VerifySettings {
            command: vec!["judge".to_owned()],
            timeout: SignedDuration::from_mins(1),
            workdir: None,
            sandbox: SandboxSettings {
                expose: vec!["/opt/a".to_owned()],
                env: env.iter().map(|name| (*name).to_owned()).collect(),
                ..SandboxSettings::default()
            },
        }
    }

    fn of(host: &HostEnvironment, settings: &VerifySettings) -> Environment {
        Environment::load(host, settings, Err("not here"))
    }

    #[test]
    fn each_difference_is_named_and_no_value_is_told() {
        let folder = tempfile::tempdir().unwrap();
        program(folder.path(), "judge", "#!/bin/sh\n");
        let (host, settings) = (host(folder.path(), &[("LANG", "C"), ("KEY", "secret-1")]), settings(&["KEY", "GONE"]));
        let base = of(&host, &settings);
        let told = format!("{base:?}");
        assert!(!told.contains("secret-1") && !told.contains("/opt/a"), "{told}");
        let differs = |name: &str, host: &HostEnvironment, settings: &VerifySettings| {
            let other = of(host, settings);
            assert_eq!(base.differences(&other.parts), [name]);
            assert_eq!(other.differences(&base.parts), [name]);
            assert_ne!(base.hash(), other.hash(), "{name}");
        };
        assert_eq!(base.hash(), of(&host, &settings).hash());
        let with = |name: &str, value: &str| {
            let mut changed = host.clone();
            changed.variables.insert(name.into(), value.into());
            changed
        };
        differs("variable KEY", &with("KEY", "secret-2"), &settings);
        differs("variable GONE", &with("GONE", ""), &settings);
        differs("variable TZ", &with("TZ", "UTC"), &settings);
        let changed = |change: fn(&mut VerifySettings)| {
            let mut changed = settings.clone();
            change(&mut changed);
            changed
        };
        differs("network", &host, &changed(|it| it.sandbox.network = Network::Host));
        let listed = |change: fn(&mut AllowList)| {
            let injection = Injection {
                header: "x-key".to_owned(),
                env: "SECRET".to_owned(),
                prefix: String::new(),
                base_url: None,
            };
            let mut list = AllowList { inject: [("a.example".to_owned(), injection)].into(), ..AllowList::default() };
            change(&mut list);
            let mut changed = settings.clone();
            changed.sandbox.network = Network::Allow(list);
            changed
        };
        let (with_list, host_with_secret) = (listed(|_| {}), with("SECRET", "secret-3"));
        let base_with_list = of(&host_with_secret, &with_list);
        assert!(!format!("{base_with_list:?}").contains("secret-3"));
        for (name, host, settings) in [
            ("network", &host_with_secret, listed(|list| list.allow.push("a.example:443".to_owned()))),
            ("network", &host_with_secret, listed(|list| list.deny.push("a.example:443".to_owned()))),
            ("network", &host_with_secret, listed(|list| list.inject.values_mut().for_each(|it| it.prefix.push('x')))),
            ("secret SECRET", &with("SECRET", "secret-4"), with_list.clone()),
            ("secret SECRET", &host, with_list.clone()),
        ] {
            assert_eq!(base_with_list.differences(&of(host, &settings).parts), [name]);
        }
        differs("exposed paths", &host, &changed(|it| it.sandbox.expose.push("/opt/b".to_owned())));
        differs("exposed paths", &host, &changed(|it| it.sandbox.expose[0] = "/opt/b".to_owned()));
        differs("hidden folders", &host, &changed(|it| it.sandbox.hide.push("/opt/h".to_owned())));
        differs("nested namespaces", &host, &changed(|it| it.sandbox.nested = true));
        differs("limits", &host, &changed(|it| it.timeout = SignedDuration::from_mins(2)));
        differs("limits", &host, &changed(|it| it.sandbox.limits.output = 1));
        differs("limits", &host, &changed(|it| it.sandbox.limits.memory = Some(1)));
        differs("tool", &host, &changed(|it| it.command[0] = "nobody".to_owned()));
        let other_box = Environment::load(&host, &settings, Err("another reason"));
        assert_eq!(base.differences(&other_box.parts), ["isolation"]);
        program(folder.path(), "judge", "#!/bin/sh\nexit 0\n");
        differs("tool", &host, &settings);
    }

    #[test]
    fn a_limit_that_was_left_out_is_another_environment() {
        use sandbox::{ControlGroups, Host, Kernel, Layer, Limits, Policy, PrivateDir};
        let groups = ControlGroups { parent: "/g".into(), memory: true, processes: true, cpu: true };
        let with = Host {
            uid: 1000,
            gid: 1000,
            kernel: Kernel { major: 6, minor: 12 },
            landlock: Some(6),
            seccomp: true,
            obstacle: None,
            control_groups: Some(groups.clone()),
            process_numbers: true,
            kill_group: None,
            metadata: true,
        };
        let without = Host { control_groups: Some(ControlGroups { cpu: false, ..groups }), ..with.clone() };
        let home = PrivateDir { source: "/p/home".into(), target: "/home/u".into() };
        let limits = Limits { cpu_weight: Some(50), ..Limits::default() };
        let policy = Policy::new("/w", home, "/p/tmp").limits(limits).may_lack(Layer::Limits);
        let folder = tempfile::tempdir().unwrap();
        let on = |machine: &Host| {
            let enforcement = Enforcement::plan(&policy, machine).unwrap();
            Environment::load(&host(folder.path(), &[]), &settings(&[]), Ok(&enforcement))
        };
        assert_eq!(on(&with).differences(&on(&without).parts), ["isolation"]);
        assert_eq!(on(&with).differences(&on(&with).parts), Vec::<String>::new());
    }

    #[test]
    fn what_is_new_in_every_session_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |more: &Path, term: &str| {
            let mut host = host(folder.path(), &[("TERM", term), ("SESSION_ID", term), ("SANDBOX_RUN", term)]);
            let path = std::env::join_paths([folder.path(), more]).unwrap();
            host.variables.insert("PATH".into(), path);
            host
        };
        let settings = settings(&[]);
        let base = of(&at(one.path(), "xterm"), &settings);
        assert_eq!(base, of(&at(other.path(), "dumb"), &settings));
        // A folder that lasts counts.
        assert_eq!(base.differences(&of(&at(Path::new("/usr/bin"), "dumb"), &settings).parts), ["search path"]);
        // And what the plan names is passed and counts.
        let named = self::settings(&["TERM"]);
        assert!(passed(&at(one.path(), "xterm"), &settings).0.is_empty());
        assert_eq!(passed(&at(one.path(), "xterm"), &named).0.len(), 1);
        assert_ne!(of(&at(one.path(), "xterm"), &named), of(&at(one.path(), "dumb"), &named));
    }

    #[test]
    fn hashes_tell_lists_apart() {
        assert_ne!(hash("n", &[b"ab", b""]), hash("n", &[b"a", b"b"]));
        assert_ne!(hash("n", &[b"a"]), hash("n", &[b"a", b""]));
        assert_ne!(hash("n", &[b"a"]), hash("m", &[b"a"]));
    }
}

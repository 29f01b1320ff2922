//! What programs say of an error: from a line to what was denied.
//!
//! The wordings are those of the C library (`strerror`), of Node (`EROFS: read-only file system`), Python (`[Errno 30]
//! Read-only file system`), Go (`open /x: read-only file system`) and Rust (`Read-only file system (os error 30)`), and of
//! the tools themselves where they have their own. English only: other languages give no hint.

use std::net::IpAddr;

/// One of these is in every line that is looked at more closely.
pub(super) const WORDS: [&str; 27] = [
    "read-only file system",
    "erofs",
    "denied",
    "eacces",
    "not permitted",
    "eperm",
    "no permissions",
    "unreachable",
    "enetunreach",
    "ehostunreach",
    "resolv",
    "name resolution",
    "name or service not known",
    "eai_again",
    "enotfound",
    "no such host",
    "bad address",
    "refused",
    "blocked-by-sandbox",
    "under ptrace",
    "is limited",
    "usable sandbox",
    "no new privileges",
    "effective uid",
    "superuser",
    "failed to ",
    "could not ",
];

/// What a line says was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Complaint {
    /// Something could not be written there.
    Write { path: String },
    /// A host could not be found, or not be reached. Not every program says which.
    Host { name: Option<String> },
    /// What is not for a sandbox, wherever it is.
    Call(Call),
}

/// What the filter of system calls, or the lack of rights, denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Trace,
    Perf,
    IoUring,
    Namespaces,
    Mount,
    Rights,
    RawSocket,
    Docker,
    KeyAgent,
}

/// The words of each, all of which a line must have; lower case.
const CALLS: [(Call, &[&str]); 24] = [
    (Call::Trace, &["ptrace", "not permitted"]),
    (Call::Trace, &["ptrace", "eperm"]),
    (Call::Trace, &["does not work under ptrace"]),
    (Call::Trace, &["strace:", "not permitted"]),
    (Call::Trace, &["could not attach to", "not permitted"]),
    (Call::Trace, &["could not launch process", "not permitted"]),
    (Call::Perf, &["perf_event", "not permitted"]),
    (Call::Perf, &["perf_event", "denied"]),
    (Call::Perf, &["access to performance monitoring and observability operations is limited"]),
    (Call::IoUring, &["io_uring", "not permitted"]),
    (Call::IoUring, &["io_uring", "eperm"]),
    (Call::Namespaces, &["unshare", "not permitted"]),
    (Call::Namespaces, &["bwrap:", "no permissions to create"]),
    (Call::Namespaces, &["bwrap:", "not permitted"]),
    (Call::Namespaces, &["clone_new", "not permitted"]),
    (Call::Namespaces, &["no usable sandbox"]),
    (Call::Mount, &["mount:", "permission denied"]),
    (Call::Mount, &["mount", "must be superuser"]),
    (Call::Rights, &["no new privileges", "sudo"]),
    (Call::Rights, &["effective uid is not 0"]),
    (Call::RawSocket, &["ping:", "not permitted"]),
    (Call::RawSocket, &["raw socket", "not permitted"]),
    (Call::Docker, &["docker daemon"]),
    (Call::KeyAgent, &["could not open a connection to your authentication agent"]),
];

/// What stands before the name of a host that was not found.
const BEFORE_A_NAME: [&str; 13] = [
    "could not resolve host: ",
    "couldn't resolve host '",
    "could not resolve proxy: ",
    "could not resolve hostname ",
    "unable to resolve host address '",
    "unable to resolve host address ‘",
    "bad address '",
    "getaddrinfo eai_again ",
    "getaddrinfo enotfound ",
    "failed to resolve '",
    "failure resolving '",
    "lookup ",
    "host='",
];

/// What says that one was not found.
const NOT_FOUND: [&str; 12] = [
    "could not resolve host",
    "couldn't resolve host",
    "could not resolve proxy",
    "unable to resolve host address",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "name or service not known",
    "getaddrinfo eai_again",
    "getaddrinfo enotfound",
    "no such host",
    "wget: bad address",
    "ping: bad address",
];

/// What stands before an address that was not reached.
const BEFORE_AN_ADDRESS: [&str; 12] = [
    "enetunreach ",
    "ehostunreach ",
    "econnrefused ",
    "dial tcp ",
    "dial udp ",
    "/dev/tcp/",
    "/dev/udp/",
    "connect fail for ",
    "failed to connect to ",
    "connect to host ",
    "connect to ",
    "ping: ",
];

/// What says that one was not reached.
const NOT_REACHED: [&str; 6] = [
    "network is unreachable",
    "network unreachable",
    "enetunreach",
    "blocked-by-sandbox",
    "connection refused",
    "econnrefused",
];

/// What a write is called in front of "permission denied", which reading can get as well.
const WRITES: [&str; 20] = [
    "cannot create",
    "cannot touch",
    "cannot remove",
    "cannot move",
    "cannot open for writing",
    "for writing",
    "unable to create",
    "unable to write",
    "could not create",
    "could not write",
    "failed to create",
    "failed to write",
    "failed to open for writing",
    "mkdir",
    "unlink",
    "rename",
    "rmdir",
    "symlink",
    "changing permissions",
    "setting times",
];

/// What a line says was denied, if it says so of something that can be told. `near` is a path from just before it.
pub(super) fn complaint(line: &str, near: Option<&str>) -> Option<Complaint> {
    // Of one length with the line, so that places in one are places in the other.
    let low = line.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().all(|word| low.contains(word));
    if let Some((call, _)) = CALLS.iter().find(|(_, words)| has(words)) {
        return Some(Complaint::Call(*call));
    }
    if NOT_FOUND.iter().any(|words| low.contains(words)) {
        let named = after_any(line, &low, &BEFORE_A_NAME).or_else(|| after_any(line, &low, &["ssh: ", "ping: "]));
        return Some(Complaint::Host { name: named.map(without_port) });
    }
    if NOT_REACHED.iter().any(|words| low.contains(words)) {
        // A refusal is worth telling only of a host that was named.
        let refused = low.contains("refused") || low.contains("econnrefused");
        let name = after_any(line, &low, &BEFORE_AN_ADDRESS).map(without_port).filter(|name| looks_like_host(name));
        return (name.is_some() || !refused).then_some(Complaint::Host { name });
    }
    let read_only = ["read-only file system", "erofs"].into_iter().find(|words| low.contains(words));
    let denied = ["permission denied", "eacces", "operation not permitted", "eperm"].into_iter();
    let written = || WRITES.iter().any(|verb| low.contains(verb));
    let words = read_only.or_else(|| denied.filter(|words| low.contains(words)).find(|_| written()))?;
    // An error that stands alone, indented, belongs to what was said above it.
    let above = || near.filter(|_| line.starts_with(char::is_whitespace)).map(str::to_owned);
    path_in(line, low.find(words)?).or_else(above).map(|path| Complaint::Write { path })
}

/// The path of a line that tells of a failure without its reason, which may follow.
pub(super) fn failed_on(line: &str) -> Option<String> {
    let low = line.to_ascii_lowercase();
    ["failed to ", "could not ", "unable to "]
        .iter()
        .any(|words| low.contains(words))
        .then(|| path_in(line, line.len()))?
}

/// Without the sequences that set colours.
pub(super) fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == ';')).filter(|end| part[*end..].starts_with('m'));
        out.push_str(end.map_or(part, |end| &part[end + 1..]));
    }
    out.truncate(out.trim_end().len());
    out
}

/// What stands behind the first of some words that is there.
fn after_any<'l>(line: &'l str, low: &str, words: &[&str]) -> Option<&'l str> {
    words.iter().find_map(|word| {
        let rest = line.get(low.find(word)? + word.len()..)?;
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || ".-_:[]/".contains(c))).unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches(['.', ':', '/']);
        (!name.is_empty()).then_some(name)
    })
}

/// `host:port` and `host/port` without the port. Node writes a v6 address and its port as `::1:80`.
fn without_port(name: &str) -> String {
    if let Some((address, _)) = name.rsplit_once(':').filter(|(address, _)| address.parse::<IpAddr>().is_ok()) {
        return address.to_owned();
    }
    if name.parse::<IpAddr>().is_ok() {
        return name.to_owned();
    }
    if let Some((address, _)) = name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address.to_owned();
    }
    name.split([':', '/']).next().unwrap_or(name).to_owned()
}

fn looks_like_host(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok() || (name.contains('.') && !name.starts_with('.')) || name == "localhost"
}

/// The path a line is about: a quoted one, or else the last one before `at`, where the error begins.
fn path_in(line: &str, at: usize) -> Option<String> {
    let plain = |path: &str| {
        let path = path.trim_end_matches([':', ',', '.', ')']);
        (path.len() > 1 && is_outside(path)).then(|| path.to_owned())
    };
    for (open, close) in [('\'', '\''), ('"', '"'), ('‘', '’'), ('`', '`'), ('`', '\'')] {
        let mut rest = line;
        while let Some((_, inside)) = rest.split_once(open) {
            let Some((quoted, after)) = inside.split_once(close) else { break };
            if let Some(path) = plain(quoted) {
                return Some(path);
            }
            rest = after;
        }
    }
    let before = line.get(..at).unwrap_or(line);
    // Between colons a path may have spaces in it; else it ends at one.
    let segments = before.rsplit(": ").map(str::trim);
    let whole = segments.filter_map(|segment| match segment.rsplit_once(' ') {
        Some((_, last)) if is_outside(last) => plain(last),
        Some(_) | None => plain(segment),
    });
    whole.into_iter().next()
}

/// Whether a path says where it lies: from the root, or out of where the program stood.
fn is_outside(path: &str) -> bool {
    path.starts_with('/') || path.starts_with("../")
}

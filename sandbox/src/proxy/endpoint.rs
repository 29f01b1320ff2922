//! What may be named in a list, and what is asked for: one grammar for both.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The longest name, and the longest part of one between dots (RFC 1035).
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// A host: a name in lower case without a dot at the end, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// What is asked for: a host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// The port; never 0.
    pub port: u16,
}

/// An entry of a list: `HOST:PORT`, where the host is a name, an IPv4 address, an IPv6 address in brackets, or `*.SUFFIX` for
/// every name that ends so (not the suffix itself), and the port a number or `*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    host: Pattern,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Pattern {
    Exact(Host),
    Below(String),
}

/// What is wrong with an entry, or with what is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// There is a scheme.
    #[error("has a scheme: write `HOST:PORT` only")]
    Scheme,
    /// There is a path, a query or a fragment.
    #[error("has a path: write `HOST:PORT` only")]
    Path,
    /// There is a user's name.
    #[error("has a user name: write `HOST:PORT` only")]
    UserInfo,
    /// There is no port.
    #[error("has no port: write `HOST:PORT`, such as `{host}:443`")]
    NoPort {
        /// The host.
        host: String,
    },
    /// The port is none.
    #[error("has the port `{port}`, which is not a number from 1 to 65535")]
    Port {
        /// What stands there.
        port: String,
    },
    /// The host is empty.
    #[error("has no host")]
    NoHost,
    /// The host is a number, or ends in one, that is no address as it is written.
    #[error(
        "has the host `{host}`, a number that some programs take for an address: write it as four numbers with dots"
    )]
    Number {
        /// The host.
        host: String,
    },
    /// The host is no name.
    #[error("has the host `{host}`, which is neither a name in ASCII letters (`xn--…` for others) nor an address")]
    Host {
        /// The host.
        host: String,
    },
    /// The address is the unspecified one.
    #[error(
        "has the unspecified address `{host}`, which leads to this machine: write its loopback address, such as 127.0.0.1"
    )]
    Unspecified {
        /// The address.
        host: Host,
    },
    /// A star stands where it cannot.
    #[error("has `*` where it cannot be: `*.example.com` is every name below a name of at least two parts")]
    Star,
}

impl Host {
    /// Reads a host as it stands alone; an IPv6 address with or without brackets. An IPv4 address written as an IPv6 one is
    /// the IPv4 address, since that is where it leads.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(address) = bare.or(Some(text)).and_then(|text| text.parse::<Ipv6Addr>().ok()) {
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() {
            return Err(EndpointError::NoHost);
        }
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        if !is_name(name) {
            return Err(EndpointError::Host { host: shown(text) });
        }
        // What resolvers read as a number they take for an address; so does whoever follows the URL standard.
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(EndpointError::Number { host: shown(text) });
        }
        Ok(Self::Name(name.to_ascii_lowercase()))
    }

    /// Refuses the unspecified address in what a user lists: a loopback address that is denied would be reached by it.
    pub(super) fn require_specified(&self) -> Result<(), EndpointError> {
        match self {
            Self::Address(address) if address.is_unspecified() => {
                Err(EndpointError::Unspecified { host: self.clone() })
            }
            Self::Address(_) | Self::Name(_) => Ok(()),
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LONGEST_LABEL).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= LONGEST_NAME && name.split('.').all(is_label)
}

fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// Cut, and harmless on a terminal.
fn shown(text: &str) -> String {
    text.chars().take(80).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn port(text: &str) -> Result<u16, EndpointError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse::<u16>().ok().filter(|port| digits && *port > 0);
    port.ok_or_else(|| EndpointError::Port { port: shown(text) })
}

/// Host and port as they are written, the port if there is one.
fn split(text: &str) -> Result<(&str, Option<&str>), EndpointError> {
    if text.contains("://") {
        return Err(EndpointError::Scheme);
    }
    if text.contains('@') {
        return Err(EndpointError::UserInfo);
    }
    if text.contains(['/', '?', '#', '\\']) {
        return Err(EndpointError::Path);
    }
    let host_end = if text.starts_with('[') { text.find(']').map_or(0, |end| end + 1) } else { 0 };
    match text.get(host_end..).and_then(|rest| rest.find(':')) {
        None => Ok((text, None)),
        Some(0) if host_end == 0 => Err(EndpointError::NoHost),
        Some(at) => {
            let (host, port) = text.split_at(host_end + at);
            // Without brackets a second colon would make it unclear where the port begins.
            if host_end > 0 && at > 0 {
                return Err(EndpointError::Host { host: shown(host) });
            }
            Ok((host, port.get(1..)))
        }
    }
}

impl Target {
    /// A host and a port that come apart.
    pub fn new(host: &str, port: u16) -> Result<Self, EndpointError> {
        if port == 0 {
            return Err(EndpointError::Port { port: "0".to_owned() });
        }
        Ok(Self { host: Host::parse(host)?, port })
    }

    /// Reads `HOST:PORT`, where the port may be left out if there is a `default`.
    pub fn parse(text: &str, default: Option<u16>) -> Result<Self, EndpointError> {
        let (host, written) = split(text)?;
        let port = match (written, default) {
            (Some(written), _) => port(written)?,
            (None, Some(default)) => default,
            (None, None) => return Err(EndpointError::NoPort { host: shown(host) }),
        };
        Self::new(host, port)
    }
}

impl Endpoint {
    /// Whether `target`, as it was asked for, is meant.
    pub fn matches(&self, target: &Target) -> bool {
        let host = match (&self.host, &target.host) {
            (Pattern::Exact(own), other) => own == other,
            (Pattern::Below(suffix), Host::Name(name)) => {
                name.strip_suffix(suffix.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (Pattern::Below(_), Host::Address(_)) => false,
        };
        host && self.port.is_none_or(|port| port == target.port)
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (host, written) = split(text)?;
        let port = match written {
            None => return Err(EndpointError::NoPort { host: shown(host) }),
            Some("*") => None,
            Some(written) => Some(port(written)?),
        };
        let host = match host.strip_prefix("*.") {
            Some(suffix) => match Host::parse(suffix) {
                Ok(Host::Name(suffix)) if suffix.contains('.') => Pattern::Below(suffix),
                Ok(_) => return Err(EndpointError::Star),
                Err(_) if suffix.contains('*') => return Err(EndpointError::Star),
                Err(error) => return Err(error),
            },
            None if host.contains('*') => return Err(EndpointError::Star),
            None => {
                let host = Host::parse(host)?;
                host.require_specified()?;
                Pattern::Exact(host)
            }
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Pattern::Exact(host) => write!(f, "{host}:")?,
            Pattern::Below(suffix) => write!(f, "*.{suffix}:")?,
        }
        match self.port {
            Some(port) => write!(f, "{port}"),
            None => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_in_one_way() {
        for (text, read) in [
            ("API.Example.com:443", "api.example.com:443"),
            ("api.example.com.:443", "api.example.com:443"),
            ("*.example.com:443", "*.example.com:443"),
            ("*.Example.COM.:*", "*.example.com:*"),
            ("xn--bcher-kva.example:80", "xn--bcher-kva.example:80"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:8080", "[::1]:8080"),
            ("[0:0::1]:*", "[::1]:*"),
            ("localhost:1", "localhost:1"),
            ("_srv.example.com:65535", "_srv.example.com:65535"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), read, "{text}");
        }
    }

    #[test]
    fn what_is_no_entry_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "no port"),
            (":443", "no host"),
            ("a.example", "no port"),
            ("a.example:", "port"),
            ("a.example:0", "port"),
            ("a.example:65536", "port"),
            ("a.example:+80", "port"),
            ("a.example:80:80", "port"),
            ("a.example:443/", "a path"),
            ("https://a.example:443", "a scheme"),
            ("me@a.example:443", "user name"),
            ("me:pw@a.example:443", "user name"),
            ("bücher.example:443", "ASCII"),
            ("a b:443", "neither a name"),
            ("a..b:443", "neither a name"),
            ("-a.example:443", "neither a name"),
            ("a\u{0}:443", "neither a name"),
            ("*:443", "`*`"),
            ("*.com:443", "`*`"),
            ("*.10.0.0.1:443", "`*`"),
            ("a.*.example:443", "`*`"),
            ("*a.example:443", "`*`"),
            ("*.*.example.com:443", "`*`"),
            ("::1:443", "no host"),
            ("1::1:443", "port"),
            ("[::1]x:443", "neither a name"),
            ("[::1%lo]:443", "neither a name"),
            ("[127.0.0.1]:443", "neither a name"),
            ("2130706433:80", "a number"),
            ("0x7f000001:80", "a number"),
            ("0x7f.1:80", "a number"),
            ("127.1:80", "a number"),
            ("0177.0.0.1:80", "a number"),
            ("127.0.0.0x1:80", "a number"),
            ("1.2.3.4.5:80", "a number"),
            ("256.0.0.1:80", "a number"),
            ("a.0x:80", "a number"),
            ("0.0.0.0:80", "unspecified"),
            ("[::]:80", "unspecified"),
            ("[::ffff:0.0.0.0]:*", "unspecified"),
        ] {
            let error = text.parse::<Endpoint>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let long = format!("{}.example:443", "a".repeat(64));
        assert!(long.parse::<Endpoint>().is_err());
    }

    #[test]
    fn only_what_is_named_matches() {
        for (entry, target, expected) in [
            ("a.example:443", "A.example.:443", true),
            ("a.example:443", "a.example:80", false),
            ("a.example:443", "b.a.example:443", false),
            ("a.example:*", "a.example:80", true),
            ("*.a.example:443", "b.a.example:443", true),
            ("*.a.example:443", "c.b.a.example:443", true),
            ("*.a.example:443", "a.example:443", false),
            ("*.a.example:443", "xa.example:443", false),
            ("*.a.example:443", "b.a.example.evil:443", false),
            ("127.0.0.1:1", "127.0.0.1:1", true),
            ("127.0.0.1:1", "[::ffff:127.0.0.1]:1", true),
            ("[::ffff:7f00:1]:1", "127.0.0.1:1", true),
            ("127.0.0.1:1", "[64:ff9b::127.0.0.1]:1", false),
            ("[::1]:1", "[0:0:0:0:0:0:0:1]:1", true),
        ] {
            let entry: Endpoint = entry.parse().unwrap();
            assert_eq!(entry.matches(&Target::parse(target, None).unwrap()), expected, "{entry} {target}");
        }
    }

    #[test]
    fn targets_may_leave_out_a_port_that_is_known() {
        assert_eq!(Target::parse("a.example", Some(80)).unwrap().to_string(), "a.example:80");
        assert_eq!(Target::parse("[::1]", Some(80)).unwrap().to_string(), "[::1]:80");
        assert_eq!(Target::parse("a.example:81", Some(80)).unwrap().to_string(), "a.example:81");
        assert!(Target::parse("a.example", None).is_err());
        assert!(Target::parse("*.a.example:80", None).is_err());
    }
}

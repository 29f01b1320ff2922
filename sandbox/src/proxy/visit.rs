//! What is told of each request.

use super::rules::Refusal;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

/// One request, told when it is over. Never a path, a query, a field or anything of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// When it came.
    pub at: SystemTime,
    /// How it was asked.
    pub protocol: Protocol,
    /// What was asked for; `None` where that could not be read.
    pub target: Option<super::Target>,
    /// What was decided.
    pub decision: Decision,
    /// The address that was connected to.
    pub address: Option<SocketAddr>,
    /// Bytes sent there, as they went over the line.
    pub up: u64,
    /// Bytes that came back.
    pub down: u64,
    /// How long it took.
    pub took: Duration,
}

/// How a request was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `CONNECT`.
    Connect,
    /// Plain HTTP.
    Http,
    /// SOCKS5.
    Socks,
}

impl Protocol {
    /// Its name, which stays the same from version to version.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Http => "http",
            Self::Socks => "socks5",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It went through.
    Allowed,
    /// It went through, with a secret put in.
    Injected,
    /// It may not be reached.
    Refused(Refusal),
    /// It could not be reached, or not well, for this reason.
    Failed(String),
    /// It is no request that a proxy can carry out, for this reason.
    Invalid(&'static str),
}

impl Decision {
    /// Its name, which stays the same from version to version.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Injected => "injected",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
            Self::Invalid(_) => "invalid",
        }
    }

    /// Why, where it did not go through.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Allowed | Self::Injected => None,
            Self::Refused(refusal) => Some(refusal.reason()),
            Self::Failed(reason) => Some(reason.clone()),
            Self::Invalid(reason) => Some((*reason).to_owned()),
        }
    }
}

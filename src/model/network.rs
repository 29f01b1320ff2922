//! What a box asked of the network, as it is kept: a line for each request, never what was said in it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One request that came to the proxy of a box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkVisit {
    /// When it came.
    pub timestamp: Timestamp,
    /// The attempt; of a verifier, which verification of the run.
    pub attempt: u64,
    /// How it was asked: `connect`, `http` or `socks5`.
    pub protocol: String,
    /// The host; `null` where none could be read.
    pub host: Option<String>,
    /// The port.
    pub port: Option<u16>,
    /// What became of it: `allowed`, `injected`, `refused`, `failed` or `invalid`.
    pub decision: String,
    /// Why, where it did not go through.
    pub reason: Option<String>,
    /// The address that was connected to.
    pub address: Option<String>,
    /// Bytes sent there.
    pub bytes_up: u64,
    /// Bytes that came back.
    pub bytes_down: u64,
    /// How long it took.
    pub duration_ms: u64,
}

/// The last line of an attempt that had more requests than are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkLeftOut {
    /// The attempt, or verification.
    pub attempt: u64,
    /// How many of its requests are not in the file.
    pub left_out: u64,
}

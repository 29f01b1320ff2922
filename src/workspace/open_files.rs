//! How many files may be open at once: this process as many as it can be allowed, those of a box half of that.
//!
//! The kernel counts the files that all processes of one user have on their way through sockets, and refuses to send one more
//! to whoever may not hold as many open. So a box whose processes may hold as many as this one could keep every other box,
//! whose parts hand each other files, from being set up. Source: `unix(7)`, `ETOOMANYREFS`.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sandbox::OpenFiles;
use std::sync::OnceLock;

/// What this process began with: what its user finds right for ordinary programs.
static BEGAN_WITH: OnceLock<u64> = OnceLock::new();

/// Allows this process as many as it can be allowed. Where the system does not tell or let, everything stays as it is.
pub fn raise() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        BEGAN_WITH.get_or_init(|| soft);
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// What the processes of a box are allowed.
pub(super) fn of_boxes() -> Option<OpenFiles> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let most = hard / 2;
    Some(OpenFiles { soft: BEGAN_WITH.get().copied().unwrap_or(soft).min(most), hard: most })
}

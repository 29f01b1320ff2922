//! Whether a mutation may be begun at all, whatever became of earlier ones.

use super::item::Item;
use super::refusal::Refusal;
use super::step::{Claim, Input, step};

/// Whether an operation is allowed. Each operation has its own: that the candidate may be updated says nothing about the
/// target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// It is.
    Granted,
    /// It is not.
    Denied,
    /// It cannot be told, which is no permission.
    Unknown,
}

impl Authority {
    /// What several conditions come to, each true, false, or not known: one that is false denies, all must be true.
    pub fn of(conditions: &[Option<bool>]) -> Self {
        if conditions.contains(&Some(false)) {
            Self::Denied
        } else if conditions.contains(&None) {
            Self::Unknown
        } else {
            Self::Granted
        }
    }
}

/// A mutation that is about to be begun.
#[derive(Debug, Clone, Copy)]
pub struct Begin<'a> {
    /// Whether this operation is allowed.
    pub authority: Authority,
    /// Whether the run ends, so that nothing new begins.
    pub ending: bool,
    /// What is claimed.
    pub claim: Claim<'a>,
}

/// Whether a mutation of any kind may be begun now, whatever it is about.
pub fn may_begin(authority: Authority, ending: bool) -> Result<(), Refusal> {
    match authority {
        Authority::Granted => {}
        Authority::Denied => return Err(Refusal::Denied),
        Authority::Unknown => return Err(Refusal::AuthorityUnknown),
    }
    if ending { Err(Refusal::Ending) } else { Ok(()) }
}

/// The item after the claim, or why it may not be made. What is missing for any mutation comes first.
pub fn permit(item: &Item, begin: &Begin<'_>) -> Result<Item, Refusal> {
    may_begin(begin.authority, begin.ending)?;
    step(item, &Input::Claim(begin.claim))
}

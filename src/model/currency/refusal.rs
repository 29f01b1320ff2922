//! Why something may not follow on what was before.

/// Why a step is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A mutation is under way, or may be: what became of it is found out first.
    #[error("a mutation was begun, and what became of it is not known yet")]
    ClaimOpen,
    /// There is no claim that could be confirmed or released.
    #[error("nothing was claimed")]
    NothingClaimed,
    /// Another process claimed it.
    #[error("another process claimed it")]
    Foreign,
    /// The one mutation that an observation allows was begun.
    #[error("it was tried for exactly this state already")]
    Spent,
    /// It must be looked at anew first.
    #[error("it has not been looked at since something moved")]
    InspectionPending,
    /// It waits for a person.
    #[error("it waits for a decision")]
    Parked,
    /// What was observed is not what is claimed.
    #[error("what was looked at is not what is to be done")]
    OtherKey,
    /// It cannot be parked without a card that says for what.
    #[error("a card that is not complete cannot hold it")]
    IncompleteCard,
    /// The operation is not allowed.
    #[error("it is not allowed")]
    Denied,
    /// It cannot be told whether the operation is allowed.
    #[error("it cannot be told whether it is allowed")]
    AuthorityUnknown,
    /// The run ends: nothing new begins.
    #[error("the run ends, and nothing new is begun")]
    Ending,
}

impl Refusal {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaimOpen => "ClaimOpen",
            Self::NothingClaimed => "NothingClaimed",
            Self::Foreign => "Foreign",
            Self::Spent => "Spent",
            Self::InspectionPending => "InspectionPending",
            Self::Parked => "Parked",
            Self::OtherKey => "OtherKey",
            Self::IncompleteCard => "IncompleteCard",
            Self::Denied => "Denied",
            Self::AuthorityUnknown => "AuthorityUnknown",
            Self::Ending => "Ending",
        }
    }
}

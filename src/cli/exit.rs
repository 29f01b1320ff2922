//! The exit codes. They are part of the program's contract: shown in `--help`, in the manual and in `run.finished`.
//!
//! What a run ends with is decided by the gate; this says what each number means, for every command.

use crate::model::Fault;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Complete; landed, if landing was asked for.
    Complete,
    /// Finished, but not complete, for a reason without a code of its own.
    Incomplete,
    /// Wrong usage.
    Usage,
    /// The plan is invalid.
    Plan,
    /// The machine or the repository is unfit.
    Unfit,
    /// Cards wait for a decision.
    Cards,
    /// The verifier failed, or gave no verdict.
    Verifier,
    /// A lock is held by another.
    Locked,
    /// The state is damaged, or newer than this program.
    Damaged,
    /// A fault of the program's own.
    Internal,
    /// Interrupted (SIGINT).
    Interrupted,
    /// Terminated (SIGTERM).
    Terminated,
}

impl Exit {
    /// Every exit, by code.
    pub const ALL: [Self; 12] = [
        Self::Complete,
        Self::Incomplete,
        Self::Usage,
        Self::Plan,
        Self::Unfit,
        Self::Cards,
        Self::Verifier,
        Self::Locked,
        Self::Damaged,
        Self::Internal,
        Self::Interrupted,
        Self::Terminated,
    ];

    /// Which of several that apply is told: the first of these. What kept a command from doing anything stands between the
    /// state that cannot be trusted and what came of a run.
    const PRECEDENCE: [Self; 11] = [
        Self::Internal,
        Self::Damaged,
        Self::Locked,
        Self::Unfit,
        Self::Plan,
        Self::Usage,
        Self::Interrupted,
        Self::Terminated,
        Self::Verifier,
        Self::Cards,
        Self::Incomplete,
    ];

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Incomplete => 1,
            Self::Usage => 2,
            Self::Plan => 3,
            Self::Unfit => 4,
            Self::Cards => 5,
            Self::Verifier => 6,
            Self::Locked => 7,
            Self::Damaged => 8,
            Self::Internal => 70,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// The exit with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| exit.code() == code)
    }

    /// What it means, in a line.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Complete => "complete; landed, if landing was asked for",
            Self::Incomplete => {
                "not complete: an agent failed or changed nothing, no verifier, your changes in the way"
            }
            Self::Usage => "wrong usage; unknown agent, run or card",
            Self::Plan => "the plan is invalid",
            Self::Unfit => "this machine or repository is unfit (no git, no commit yet, a sandbox layer missing)",
            Self::Cards => "cards wait for a decision",
            Self::Verifier => "the verifier failed, or gave no verdict",
            Self::Locked => "another process holds the lock",
            Self::Damaged => "the state is damaged, or newer than this program",
            Self::Internal => "a fault of the program's own",
            Self::Interrupted => "interrupted (SIGINT)",
            Self::Terminated => "terminated (SIGTERM)",
        }
    }

    /// The one to tell where several apply; [`Complete`](Self::Complete) where none does.
    pub fn of_several(exits: impl IntoIterator<Item = Self>) -> Self {
        let exits: Vec<Self> = exits.into_iter().collect();
        Self::PRECEDENCE.into_iter().find(|exit| exits.contains(exit)).unwrap_or(Self::Complete)
    }

    /// All of them as a table for help and manual.
    pub fn table() -> String {
        let rows: Vec<String> =
            Self::ALL.iter().map(|exit| format!("  {:>3}  {}", exit.code(), exit.meaning())).collect();
        format!("Exit codes:\n{}", rows.join("\n"))
    }
}

impl From<Fault> for Exit {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Usage | Fault::Settings => Self::Usage,
            Fault::Plan => Self::Plan,
            Fault::Environment | Fault::Repository => Self::Unfit,
            Fault::Locked => Self::Locked,
            Fault::Corrupt => Self::Damaged,
            Fault::Internal => Self::Internal,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_documented() {
        let codes: Vec<u8> = Exit::ALL.into_iter().map(Exit::code).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 70, 130, 143]);
        for exit in Exit::ALL {
            assert_eq!(Exit::from_code(exit.code()), Some(exit));
            assert!(Exit::table().contains(exit.meaning()));
        }
        assert_eq!(Exit::from_code(9), None);
    }

    #[test]
    fn what_the_journal_tells_of_a_fault_is_what_the_program_ends_with() {
        for fault in Fault::ALL {
            assert_eq!(Exit::from(fault).code(), fault.exit_code(), "{fault:?}");
        }
    }

    #[test]
    fn of_several_the_documented_order_holds() {
        use Exit::{Cards, Complete, Damaged, Incomplete, Internal, Interrupted, Locked, Terminated, Verifier};
        for (several, told) in [
            (vec![], Complete),
            (vec![Complete, Complete], Complete),
            (vec![Incomplete, Cards], Cards),
            (vec![Cards, Verifier, Incomplete], Verifier),
            (vec![Verifier, Interrupted], Interrupted),
            (vec![Terminated, Verifier], Terminated),
            (vec![Interrupted, Damaged], Damaged),
            (vec![Damaged, Internal, Incomplete], Internal),
            (vec![Complete, Incomplete], Incomplete),
            (vec![Locked], Locked),
            (vec![Locked, Internal], Internal),
        ] {
            assert_eq!(Exit::of_several(several.iter().copied()), told, "{several:?}");
            assert_eq!(Exit::of_several(several.iter().rev().copied()), told, "{several:?} reversed");
        }
    }
}

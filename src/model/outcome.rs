//! How things end. An agent that fails is data of these types, never an error of ours.

use std::fmt;

use sandbox::{LimitHit, Limited};
use serde::{Deserialize, Serialize};

/// How one attempt of an agent ended. Only [`Completed`](Self::Completed) is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// Every turn ended well, and something changed since the fork point.
    Completed,
    /// Every turn ended well, and nothing changed.
    NoChanges,
    /// A turn's command ended with another status than 0.
    Failed,
    /// A turn's command could not be started at all.
    CouldNotStart,
    /// The attempt took longer than its limit.
    TimedOut,
    /// Nothing was heard of it for longer than its limit.
    Idle,
    /// It wrote more output than its limit.
    OutputLimit,
    /// It met another limit of its box.
    Limit,
    /// The setup command failed, before the agent began.
    SetupFailed,
    /// Its worktree could not be captured; the files are still there.
    CaptureFailed,
    /// Its objects were refused on their way into the repository; the files are still there.
    HarvestRefused,
    /// The worktree's link to the repository, or its private folders, were not as they were left.
    Tampered,
    /// The sandbox could not be set up as the plan asks.
    SandboxRefused,
    /// The run was stopped, or the program died, while it ran.
    Interrupted,
    /// Something it depends on did not complete, or cannot be merged.
    Blocked,
    /// It was left out on request.
    Skipped,
    /// Something it builds on has changed since.
    Stale,
}

impl AttemptOutcome {
    /// Every outcome, for tables and tests.
    pub const ALL: [Self; 17] = [
        Self::Completed,
        Self::NoChanges,
        Self::Failed,
        Self::CouldNotStart,
        Self::TimedOut,
        Self::Idle,
        Self::OutputLimit,
        Self::Limit,
        Self::SetupFailed,
        Self::CaptureFailed,
        Self::HarvestRefused,
        Self::Tampered,
        Self::SandboxRefused,
        Self::Interrupted,
        Self::Blocked,
        Self::Skipped,
        Self::Stale,
    ];

    /// The name in JSON and in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::NoChanges => "no_changes",
            Self::Failed => "failed",
            Self::CouldNotStart => "could_not_start",
            Self::TimedOut => "timed_out",
            Self::Idle => "idle",
            Self::OutputLimit => "output_limit",
            Self::Limit => "limit",
            Self::SetupFailed => "setup_failed",
            Self::CaptureFailed => "capture_failed",
            Self::HarvestRefused => "harvest_refused",
            Self::Tampered => "tampered",
            Self::SandboxRefused => "sandbox_refused",
            Self::Interrupted => "interrupted",
            Self::Blocked => "blocked",
            Self::Skipped => "skipped",
            Self::Stale => "stale",
        }
    }

    /// Whether another attempt could end otherwise, so that `attempts` applies.
    pub fn is_worth_another_attempt(self) -> bool {
        match self {
            Self::Failed | Self::TimedOut | Self::Idle | Self::OutputLimit | Self::Limit => true,
            Self::Completed
            | Self::NoChanges
            | Self::CouldNotStart
            | Self::SetupFailed
            | Self::CaptureFailed
            | Self::HarvestRefused
            | Self::Tampered
            | Self::SandboxRefused
            | Self::Interrupted
            | Self::Blocked
            | Self::Skipped
            | Self::Stale => false,
        }
    }

    /// Whether an agent that builds on this one may start.
    pub fn lets_dependents_start(self) -> bool {
        matches!(self, Self::Completed | Self::NoChanges)
    }
}

impl fmt::Display for AttemptOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A limit of its box that a command was ended for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitMet {
    /// Of what; the name of the plan's key.
    pub what: Limited,
    /// The limit, in bytes or processes; where it was the machine's, what was left there.
    pub limit: u64,
    /// What the box used when it was last looked at.
    pub used: u64,
    /// Whether the machine itself was running out.
    pub of_machine: bool,
}

impl From<LimitHit> for LimitMet {
    fn from(LimitHit { what, limit, used, of_machine }: LimitHit) -> Self {
        Self { what, limit, used, of_machine }
    }
}

impl fmt::Display for LimitMet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, used) = (Bytes(self.limit), Bytes(self.used));
        match (self.what, self.of_machine) {
            (Limited::Memory, false) => write!(f, "memory limit {limit} reached"),
            // Killed by the kernel before it was looked at.
            (Limited::Memory, true) if self.used == 0 => f.write_str("the machine ran out of memory"),
            (Limited::Memory, true) => {
                write!(f, "the machine has only {limit} of memory left, and this agent uses {used}")
            }
            (Limited::Processes, _) => write!(f, "process limit {} reached", self.limit),
            (Limited::Disk, false) => write!(f, "disk limit {limit} reached"),
            (Limited::Disk, true) => {
                write!(f, "the disk has only {limit} of space left, and this agent has added {used}")
            }
            (Limited::FileSize, _) => write!(f, "file size limit {limit} reached"),
        }
    }
}

/// A number of bytes for people: in the largest unit of 1024 that it has at least one of.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let Some((unit, bits)) = units.into_iter().find(|(_, bits)| self.0 >> bits > 0) else {
            return write!(f, "{} B", self.0);
        };
        // A tenth, where it is not a whole number and the whole part is small.
        let (whole, tenth) = (self.0 >> bits, ((self.0 & ((1 << bits) - 1)) * 10) >> bits);
        if tenth == 0 || whole >= 10 { write!(f, "{whole} {unit}") } else { write!(f, "{whole}.{tenth} {unit}") }
    }
}

/// What a verifier's command did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VerifyStatus {
    /// It exited with 0.
    Success,
    /// It ran and exited with another status.
    TestFailure,
    /// It did not end in time.
    Timeout,
    /// It could not be started, or died of a signal.
    Error,
}

/// What a verification means. The gate reads only this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The tree is good.
    Pass,
    /// The tree is as good as the base: only failures that the base has too.
    PassWithInherited,
    /// The tree is bad.
    Fail,
    /// The verifier ended well but cannot be believed: it changed what it judged.
    Blocked,
    /// No verdict was given. Never a pass.
    None,
}

impl Verdict {
    /// Whether the gate may open on it.
    pub fn is_pass(self) -> bool {
        match self {
            Self::Pass | Self::PassWithInherited => true,
            Self::Fail | Self::Blocked | Self::None => false,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "pass",
            Self::PassWithInherited => "pass_with_inherited",
            Self::Fail => "fail",
            Self::Blocked => "blocked",
            Self::None => "none",
        })
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "how", content = "value")]
pub enum ProcessEnd {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

impl ProcessEnd {
    /// Whether it exited with 0.
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit status {code}"),
            Self::Signaled(signal) => write!(f, "signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json() {
        for outcome in AttemptOutcome::ALL {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.name());
        }
    }

    #[test]
    fn limits_in_words() {
        let met = |what, limit, used, of_machine| LimitMet { what, limit, used, of_machine }.to_string();
        assert_eq!(met(Limited::Memory, 512 << 20, 600 << 20, false), "memory limit 512 MiB reached");
        assert_eq!(
            met(Limited::Memory, 300 << 20, 9 << 30, true),
            "the machine has only 300 MiB of memory left, and this agent uses 9 GiB"
        );
        assert_eq!(met(Limited::Memory, 300 << 20, 0, true), "the machine ran out of memory");
        assert_eq!(met(Limited::Processes, 512, 700, false), "process limit 512 reached");
        assert_eq!(met(Limited::Disk, 5 << 30, 6 << 30, false), "disk limit 5 GiB reached");
        assert_eq!(
            met(Limited::Disk, 900 << 20, 3 << 29, true),
            "the disk has only 900 MiB of space left, and this agent has added 1.5 GiB"
        );
        assert_eq!(met(Limited::FileSize, 1000, 1000, false), "file size limit 1000 B reached");
        assert_eq!(serde_json::to_value(Limited::FileSize).unwrap(), Limited::FileSize.name());
    }

    #[test]
    fn none_is_never_a_pass() {
        assert!(!Verdict::None.is_pass() && !Verdict::Blocked.is_pass() && !Verdict::Fail.is_pass());
        assert!(Verdict::Pass.is_pass() && Verdict::PassWithInherited.is_pass());
    }
}

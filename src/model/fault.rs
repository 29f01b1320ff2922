//! Whose fault an error is. Each room says it of its own errors; what the program ends with follows from it alone.

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// What was typed.
    Usage,
    /// The plan.
    Plan,
    /// A setting or a variable.
    Settings,
    /// The machine.
    Environment,
    /// The repository.
    Repository,
    /// Somebody else holds a lock.
    Locked,
    /// The program's state on disk.
    Corrupt,
    /// Ours.
    Internal,
}

impl Fault {
    /// Every fault, for tables and tests.
    pub const ALL: [Self; 8] = [
        Self::Usage,
        Self::Plan,
        Self::Settings,
        Self::Environment,
        Self::Repository,
        Self::Locked,
        Self::Corrupt,
        Self::Internal,
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Plan => "plan",
            Self::Settings => "settings",
            Self::Environment => "environment",
            Self::Repository => "repository",
            Self::Locked => "locked",
            Self::Corrupt => "corrupt",
            Self::Internal => "internal",
        }
    }

    /// The exit code it leads to.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Usage | Self::Settings => 2,
            Self::Plan => 3,
            Self::Environment | Self::Repository => 4,
            Self::Locked => 7,
            Self::Corrupt => 8,
            Self::Internal => 70,
        }
    }
}

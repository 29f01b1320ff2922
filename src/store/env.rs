//! Every environment variable that the program reads, and what for. The only file with their names.
//!
//! Nothing is read here: the command line reads them once, and hands settings down. What is for tests alone, and not in a
//! released program, is read where it has its effect.

/// A variable and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub doc: &'static str,
}

macro_rules! variables {
    ($($(#[doc = $doc:literal])+ $constant:ident = $name:literal;)+) => {
        $($(#[doc = $doc])+ pub const $constant: &str = $name;)+

        /// All of them, for documentation.
        pub const ALL: &[Variable] = &[$(Variable { name: $name, doc: concat!($($doc),+) }),+];
    };
}

variables! {
    /// The folder that agents' worktrees are made in.
    SANDBOX_WORKTREES = "SANDBOX_WORKTREES";
    /// The git program to use, instead of the first `git` on `PATH`.
    SANDBOX_GIT = "SANDBOX_GIT";
    /// Which diagnostics go to stderr, as a filter such as `worktree_sandbox::git=debug`.
    SANDBOX_LOG = "SANDBOX_LOG";
    /// Set inside of boxes that do without a layer, to its name, so that `sandbox turn` can say why there is none.
    SANDBOX_DEGRADED = "SANDBOX_DEGRADED";
    /// Colours are off when it is set to anything.
    NO_COLOR = "NO_COLOR";
    /// The kind of terminal; `dumb` means neither colours nor a status line.
    TERM = "TERM";
    /// Where `sandbox/worktrees` lies when `SANDBOX_WORKTREES` is not set.
    XDG_STATE_HOME = "XDG_STATE_HOME";
    /// The folder of the user's sockets, which agents never see.
    XDG_RUNTIME_DIR = "XDG_RUNTIME_DIR";
    /// The user's home: the base of `.local/state`, and what agents never see.
    HOME = "HOME";
    /// Where programs are looked for; its folders below `HOME` are visible to agents, read-only.
    PATH = "PATH";
    /// The Rust toolchains, visible to agents, read-only.
    RUSTUP_HOME = "RUSTUP_HOME";
    /// Cargo's home; its registry and git folders are visible to agents, read-only.
    CARGO_HOME = "CARGO_HOME";
}

/// What only builds with debug assertions read, for tests ([`super::failpoint`]); so users are not told of it.
#[cfg(debug_assertions)]
pub(super) mod of_tests {
    /// Where to die: `name:n`.
    pub(in crate::store) const SANDBOX_DIE_AT: &str = "SANDBOX_DIE_AT";
    /// What to refuse, and with which error: `place:n:ENOSPC`.
    pub(in crate::store) const SANDBOX_FAIL_AT: &str = "SANDBOX_FAIL_AT";
    /// A file that gets a line for each place where the program could be made to die.
    pub(in crate::store) const SANDBOX_DIE_LOG: &str = "SANDBOX_DIE_LOG";
}

/// The variables as a Markdown table.
pub fn table() -> String {
    let mut text = String::from("| variable | what it does |\n|---|---|\n");
    for variable in ALL {
        text.push_str(&["| `", variable.name, "` | ", variable.doc.trim(), " |\n"].concat());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_named_once_and_documented() {
        let mut names: Vec<_> = ALL.iter().map(|variable| variable.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|variable| variable.doc.trim().ends_with('.')));
        assert!(table().contains("| `SANDBOX_WORKTREES` | The folder that agents'"));
    }
}

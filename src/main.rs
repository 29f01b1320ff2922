//! The `sandbox` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all, before any thread: where this process is to be the init of a box, this never returns.
    sandbox::init_main_if_asked();
    if std::env::args_os().nth(1).is_some_and(|argument| argument == worktree_sandbox::change::inside::ARGUMENT) {
        return ExitCode::from(worktree_sandbox::change::inside::main());
    }
    worktree_sandbox::cli::main(std::env::args_os()).into()
}

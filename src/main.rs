//! The `sandbox` program.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    // >>> here, before anything else and before any thread: `sandbox::init_main_if_asked();` <<<
    worktree_sandbox::cli::main(std::env::args_os()).into()
}

//! What can go wrong on the parent's side. A command that fails is not among it: that is a [`crate::Status`].

use crate::guard::Guard;
use crate::step::Step;
use std::io;
use std::path::PathBuf;

/// A box that did not start; nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program that becomes the box's init could not be started.
    #[error("cannot start `{}` as the init of a sandbox", exe.display())]
    Launch {
        /// The program.
        exe: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel refused a step.
    #[error("cannot set up the sandbox: {step}{}", about(.path.as_ref()))]
    Step {
        /// The step.
        step: Step,
        /// The path it was about, where there is one.
        path: Option<PathBuf>,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused what is to confine commands.
    #[error("cannot set up the sandbox: {guard}{}", about(.path.as_ref()))]
    Guard {
        /// The confinement.
        guard: Guard,
        /// The path it was about, where there is one.
        path: Option<PathBuf>,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Something was to be mounted where a symlink lies, which an agent may have put there.
    #[error("cannot set up the sandbox: `{}` is a symlink; remove it and try again ({step})", path.display())]
    Symlink {
        /// The step.
        step: Step,
        /// The symlink.
        path: PathBuf,
    },
    /// Init ended without a word.
    #[error("the init of the sandbox ended early: {detail}")]
    Died {
        /// Its last words, or that there were none.
        detail: String,
    },
    /// Init did not get ready in time.
    #[error("the sandbox was not ready after {seconds} s")]
    TimedOut {
        /// How long it had.
        seconds: u64,
    },
    /// The sockets between the processes failed.
    #[error("cannot talk to the init of the sandbox")]
    Control(#[from] io::Error),
}

fn about(path: Option<&PathBuf>) -> String {
    path.map(|path| format!(" (at `{}`)", path.display())).unwrap_or_default()
}

/// A command that did not start; the box is as it was.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program could not be run.
    #[error("cannot run `{program}`")]
    Program {
        /// Its name as given.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The working directory could not be entered.
    #[error("cannot run `{program}` in `{}`", cwd.display())]
    Directory {
        /// The program.
        program: String,
        /// The directory.
        cwd: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel refused something before the program was reached.
    #[error("cannot prepare a process for `{program}`")]
    Setup {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel refused what is to confine the command. The program was not reached.
    #[error("cannot confine `{program}`")]
    Confine {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A command runs already; wait for its end, or spawn the other one aside.
    #[error("cannot run `{program}`: another command runs in this sandbox")]
    Busy {
        /// The program.
        program: String,
    },
    /// The box is gone.
    #[error(transparent)]
    Box(#[from] BoxError),
}

/// An order that a box did not carry out.
#[derive(Debug, thiserror::Error)]
pub enum BoxError {
    /// The box has ended, with all its processes.
    #[error("the sandbox has ended")]
    Gone,
    /// Processes could not be stopped in time. Those that were are still stopped.
    #[error("{running} processes of the sandbox could not be stopped in time")]
    Restless {
        /// How many.
        running: u32,
    },
    /// The box has ended, but processes of it could not be ended in time, and may be there still. Never in a pid namespace.
    #[error("processes of the sandbox could not be ended in time, and may run on")]
    Escaped,
    /// The kernel refused.
    #[error("the sandbox could not do it")]
    Refused(#[source] io::Error),
    /// The order did not fit into a message, or the answer made no sense.
    #[error("cannot talk to the init of the sandbox")]
    Control(#[from] io::Error),
}

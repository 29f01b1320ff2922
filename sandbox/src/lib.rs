//! Isolation of one command at a time on Linux: namespaces, mounts and a supervising init, without privileges and without
//! another program's help.
//!
//! # How it works
//!
//! A [`Policy`] says what a box may see and do. [`Enforcement::plan`] turns it, and the facts about the machine that
//! [`Host::probe`] found, into an ordered list of [`Step`]s or into a [`Refusal`], without a system call.
//! [`Sandbox::start`] has the list carried out:
//!
//! ```text
//! parent ──control socket──┐
//!   │ starts               │
//!   ▼                      │
//! outer process            │   new user, mount, pid, ipc, uts, cgroup and network namespaces; one user mapped
//!   │ forks                │
//!   ▼                      ▼
//! init, process 1 of the box   mounts, host name, sockets; drops every right; serves orders
//!   │ forks, execs
//!   ▼
//! command, and whatever it starts
//! ```
//!
//! The parent never forks by itself: it starts its own program again, whose `main` calls [`init_main_if_asked`] before any
//! thread exists. A fork of a threaded process could do next to nothing safely, and a user namespace needs one thread.
//!
//! # What holds
//!
//! - **Nothing outlives its command.** When a command ends, init kills everything else in the box and collects it before it
//!   reports the end. No process can leave a pid namespace, whatever it forks and whatever session it joins.
//! - **Nothing outlives the parent.** Only the parent has the other end of the control socket. When that closes, by drop,
//!   crash or SIGKILL, init exits and the kernel kills the namespace. If the outer process is killed, init dies by its
//!   parent-death signal.
//! - **No signal goes astray.** Init is signalled by pidfd; processes of the box are signalled by init, in its namespace.
//! - **The end is certain.** The outer process ends only after the kernel has emptied the namespace, so [`Sandbox::kill`]
//!   returns when nothing is left.
//! - **Nothing of the host can be written** but the working directory, the private directories and what the policy exposes
//!   writable; neither contents nor metadata. That is so when root runs the box too: the user inside is never 0, has no
//!   capability, and the parts of `/proc` where file modes alone would protect the host are read-only.
//! - **What is hidden is gone**, with the sockets in it. The policy's check refuses one path that would show what another
//!   hides.
//! - **No half box.** Every step must succeed before a command can start; one that fails comes back as a [`StartError`] that
//!   names it.
//!
//! # What does not
//!
//! Reading what is not hidden, with the supplementary groups too, which an ordinary user cannot drop; kernel bugs; sockets
//! in places that are not hidden; use of memory and processor; keys in the kernel's session keyring. Landlock rules,
//! system-call filters and control groups are layers to come and belong to the command's stage of the plan.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the `sandbox` crate isolates commands with Linux namespaces and cannot be built for another system; \
     run it in a Linux virtual machine there"
);

mod check;
mod command;
mod error;
mod host;
mod init;
mod launch;
mod mounts;
mod place;
mod plan;
mod policy;
mod probe;
mod program;
mod refusal;
mod sandbox;
mod serve;
mod step;
mod sys;
mod wire;

pub use command::{Child, Command, Exit, Stdio};
pub use error::{BoxError, SpawnError, StartError};
pub use host::{Host, Kernel, Obstacle};
pub use init::init_main_if_asked;
pub use launch::Launcher;
pub use nix::sys::signal::Signal;
pub use plan::{Enforcement, id_inside};
pub use policy::{Access, Expose, Limits, Nesting, Network, Policy, PrivateDir};
pub use refusal::{Layer, Refusal};
pub use sandbox::Sandbox;
pub use step::{Identity, Resource, Stage, Step};
pub use wire::Status;

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
//! command, and whatever it starts       Landlock rules, then the filter of system calls, then the program
//! ```
//!
//! A plan has two parts. [`Step`]s make the box and are carried out once. [`Guard`]s confine each command, are made ready once
//! and applied to every command of the box between fork and exec, the filter last, for it forbids what comes before it.
//! The text form of an [`Enforcement`] is both, a line each; [`Enforcement::layers`] names what is in force, for records.
//!
//! # Layers, and why each is there
//!
//! No layer is trusted alone: each closes something that the others leave open, and much is closed twice.
//!
//! | layer | stops | leaves open |
//! |---|---|---|
//! | mounts, [`Step::Root`] to [`Step::Pivot`] | writing and seeing what was not given, contents and metadata | a mount that is wrong or got round |
//! | pid namespace | signals and tracing from inside to outside; anything left behind | processes of the box among themselves |
//! | network, ipc, uts namespaces | sockets of the host's network, abstract ones too; shared memory | pathname sockets in places that are not hidden |
//! | relay, with a [`proxy`] behind it | reaching what is not listed, where a box is to reach something | what is said to hosts that are |
//! | no capability, no new privilege | what root, or a program that becomes root, may do | what any user may do |
//! | [`Guard::Landlock`] | writing elsewhere even so; with the host's network, its abstract sockets; signals and tracing between a box's commands and its init | changes of modes and times, reading, what lies read-only in something writable |
//! | [`Guard::Seccomp`] | parts of the kernel that attacks begin with; typing into a terminal; keys; namespaces once more | the calls that programs need |
//!
//! Landlock may be missing: without it all the rest holds, and [`Host::shortcomings`] has the warning. Without any other there
//! is a [`Refusal`], unless [`Policy::may_lack`] names it. It says nothing of TCP, for it knows ports and not addresses, and a box without
//! a network has a loopback that test servers must be able to use.
//!
//! A box with [`Network::Relay`] has one way out of its network: a port on its loopback, whose listening socket the parent holds.
//! What comes out there is the parent's to decide on, for which [`proxy`] is ready to use; it can be used without the rest, too.
//!
//! [`Nesting::Allowed`] is for programs that bring a sandbox of their own. The kernel forbids every mount to a process that
//! Landlock's rules about files hold for, so these are left out then, and the filter lets namespaces and mounts be made.
//! What the box has mounted stays locked in them.
//!
//! # Without namespaces
//!
//! Where the machine gives no namespaces and the policy may lack them, a box has another [`Form`]. Nothing is put in place of
//! anything, so [`Enforcement::seen`] tells where a path of the policy's is found inside. [`Guard::Cage`] names what may be
//! read and written, by Landlock; [`Guard::Sockets`] takes away what Landlock knows nothing of: sockets, shared memory, limits
//! of others. With [`Guard::Metadata`], calls that change modes, times and owners wait until init has carried them out, where the
//! box may write, and else refused them. All must be had, Landlock from version 4 on.
//!
//! The processes are the same three, without a namespace to end with. Init, and behind it the outer process, adopt orphans,
//! so that descent from them is what a box is ([`Reach::Descendants`]); `kill(-1)`, which in a pid namespace reaches the box
//! alone, would reach all of the user's processes here, and cannot be called. Where a control group can be made, its members
//! are killed as one; else one by one, for ten seconds, and [`Exit::escaped`] and [`BoxError::Escaped`] tell of what was left.
//! Landlock's scope (version 6) keeps commands from signalling init; one that could is met by the outer process.
//!
//! What is lost: names, sizes, times and processes can be seen; pinned paths are not held; what may be read may also be
//! locked. A list of allowed addresses, nested namespaces, and something read-only in something writable are
//! refused; sockets of [`Policy::listen`] are not made.
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
//!   parent-death signal. That takes a moment; a file given to [`Sandbox::start_holding`] is open until it is over.
//! - **No signal goes astray.** Init is signalled by pidfd; processes of the box are signalled by init, in its namespace.
//! - **The end is certain.** The outer process ends only after the kernel has emptied the namespace, so [`Sandbox::kill`]
//!   returns when nothing is left.
//! - **Nothing of the host can be written** but the working directory, the private directories and what the policy exposes
//!   writable; neither contents nor metadata. That is so when root runs the box too: the user inside is never 0, has no
//!   capability, and the parts of `/proc` where file modes alone would protect the host are read-only (but not in a box for
//!   nesting that an ordinary user starts, where file modes do).
//! - **What is hidden is gone**, with the sockets in it. The policy's check refuses one path that would show what another
//!   hides.
//! - **What a command gets is counted:** its three streams, the environment given, a session and a session keyring of its own,
//!   default signals. No other open file, no controlling terminal, no way to type into one, no key of the user's session.
//! - **No half box.** Every step must succeed before a command can start; one that fails comes back as a [`StartError`] that
//!   names it.
//!
//! # What does not
//!
//! Reading what is not hidden, with the supplementary groups too, which an ordinary user cannot drop; kernel bugs in calls that
//! programs need; sockets in places that are not hidden; use of the processor, beyond a share of it.
//!
//! # Limits
//!
//! [`Limits`] are enforced by a control group where one can be made, else by what the kernel has for each box, else by init,
//! which watches what the box uses while a command runs; [`Host::means`] tells which. One that was asked for and cannot be had
//! is a [`Refusal`], unless [`Policy::may_lack`] names [`Layer::Limits`]. A box that meets one is emptied at once, and
//! [`Exit::limit`] says what there was too much of.
//!
//! Without being asked: at most 4096 processes, where they can be bounded; the kernel takes commands before other programs
//! when memory runs out; and a box that has more than a quarter of the machine's memory, or has filled more than 1 GiB of the
//! disk, is ended when the machine has next to nothing left.
//!
//! A watch sees what has happened, a tenth of a second later: memory and disk space go over by what can be taken in that time.
//! It does not see memory that the kernel holds for a process (page tables, pipes, sockets), a memory file on its way through
//! a socket, nor, where namespaces may be nested, what is mounted in one. A control group sees all of these. Neither sees disk
//! space of a removed file that is only mapped. One that is over for less than a tenth of a second may not be seen.
//!
//! Programs that need a denied call do not work: debuggers and `strace` (and the leak check of sanitizers, which traces),
//! `perf`, `io_uring` without a fallback, and 32-bit programs, which die by SIGSYS. A file that a command is given as a stream
//! can be written, but not opened anew by way of `/dev/stdout`, for no rule names it; a pipe can.
//!
//! # Example
//!
//! `examples/confine.rs` runs a command in a directory; `examples/start_cost.rs` measures what each guard adds to a start.
//!
//! ```no_run
//! use sandbox::{Command, Enforcement, Host, Launcher, Policy, PrivateDir, Sandbox};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     sandbox::init_main_if_asked();
//!     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//!     runtime.block_on(async {
//!         let home = PrivateDir { source: "/srv/job/home".into(), target: "/home/me".into() };
//!         let policy = Policy::new("/srv/job/work", home, "/srv/job/tmp");
//!         let launcher = Launcher::default();
//!         let plan = Enforcement::plan(&policy, &Host::probe(&launcher).await)?;
//!         let sandbox = Sandbox::start(&plan, &launcher).await?;
//!         let exit = sandbox.spawn(Command::new(["/usr/bin/make"])).await?.wait().await?;
//!         println!("{:?}, {} processes left behind", exit.status, exit.leftovers);
//!         sandbox.shutdown().await?;
//!         Ok(())
//!     })
//! }
//! ```

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the `sandbox` crate isolates commands with Linux namespaces and cannot be built for another system; \
     run it in a Linux virtual machine there"
);

mod bounds;
mod canary;
mod cgroup;
mod check;
mod command;
mod deputy;
mod error;
mod fence;
mod filter;
mod form;
mod guard;
mod host;
mod init;
mod landlock_only;
mod launch;
mod limit;
mod mounts;
mod place;
mod plan;
mod policy;
mod probe;
mod program;
mod protection;
pub mod proxy;
mod reach;
mod refusal;
mod sandbox;
mod seen;
mod serve;
mod stat;
mod step;
mod sys;
mod usage;
mod walk;
mod watchdog;
mod wire;

pub use bounds::{Means, Watch};
pub use canary::seldom_calls;
pub use cgroup::ControlGroups;
pub use command::{Child, Command, Exit, Stdio};
pub use error::{BoxError, SpawnError, StartError};
pub use form::Form;
pub use guard::Guard;
pub use host::{Host, Kernel, Obstacle, Shortcoming};
pub use init::init_main_if_asked;
pub use launch::Launcher;
pub use limit::{LimitHit, Limited};
pub use nix::sys::signal::Signal;
pub use plan::{Enforcement, id_inside};
pub use policy::{Access, Expose, Limits, Nesting, Network, OpenFiles, Policy, PrivateDir};
pub use protection::Protection;
pub use reach::Reach;
pub use refusal::{Layer, Refusal};
pub use sandbox::Sandbox;
pub use seen::SHARED_FOLDERS;
pub use step::{Identity, Resource, Stage, Step};
pub use wire::Status;

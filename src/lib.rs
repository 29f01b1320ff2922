//! Runs many coding agents side by side on one repository: each in its own git worktree, process group and OS sandbox,
//! under a contract of owned files, with a patch bundle per turn; merged with git's own conflict detection, judged by a
//! parent verifier, and landed only when asked.
//!
//! The rooms, from the bottom up: [`model`], [`store`], [`git`], [`plan`], [`board`], [`workspace`], [`change`], [`agent`],
//! [`verify`], [`integrate`], [`run`], [`report`], [`cli`]. Imports go down only; a test checks. `docs/architecture.md`
//! says what each is for.
#![forbid(unsafe_code)]

pub mod agent;
pub mod board;
pub mod change;
pub mod cli;
pub mod git;
pub mod integrate;
pub mod model;
pub mod plan;
pub mod report;
pub mod run;
pub mod store;
pub mod verify;
pub mod workspace;

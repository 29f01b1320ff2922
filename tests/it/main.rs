//! The integration tests, in one binary.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "these are tests")]

mod agent;
mod bad_input;
mod bench;
mod capture;
mod crash;
mod decide;
mod degraded;
mod docs;
mod flow;
mod forecast;
mod going;
mod invariants;
mod isolation;
mod landing;
mod limits;
mod network;
mod private_git;
mod resume;
mod retry;
mod source_rules;
mod stop;
mod users;
mod verbs;
mod verify;
mod world;

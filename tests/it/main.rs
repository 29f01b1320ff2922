//! The integration tests, in one binary.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "these are tests")]

mod bench;
mod capture;
mod private_git;
mod source_rules;
mod users;
mod verify;
mod world;

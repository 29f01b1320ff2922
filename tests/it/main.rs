//! The integration tests, in one binary.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "these are tests")]

mod capture;
mod verify;
mod users;
mod world;

//! Boxes on the real kernel. Each attack is first shown to work without what stops it.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "tests set up files and start this binary again")]

mod bench;
mod commands;
mod ends;
mod files;
mod guards;
mod keys;
mod kills;
mod landlock_only;
mod limits;
mod network;
mod programs;
mod proxy;
mod relay;
mod rights;
mod starts;
mod terminal;
mod users;

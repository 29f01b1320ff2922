//! The integration tests, in one binary.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "these are tests")]

mod agent;
mod attacks;
mod bad_input;
mod bench;
mod capture;
mod cards;
mod crash;
mod decide;
mod degraded;
mod denials;
mod docs;
mod doctor;
mod flow;
mod forecast;
mod going;
mod hostile;
mod invariants;
mod isolation;
mod landing;
mod limits;
mod nested;
mod network;
mod outside;
mod private_git;
mod resolver;
mod resume;
mod retry;
mod shapes;
mod source_rules;
mod stop;
mod terminal;
mod users;
mod verbs;
mod verify;
mod world;

//! Tests of the plan, through its public surface.

mod contracts;
mod files;
mod globs;
mod keys;
mod messages;
mod networks;
mod orders;
mod requests;

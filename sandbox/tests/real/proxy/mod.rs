//! The proxy by itself, on the host's loopback: what it lets through, and what it does with what is no request.

mod bounds;
mod injection;
mod matrix;
mod messages;
pub(crate) mod scene;

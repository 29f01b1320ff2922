//! The `sandbox` program.
#![forbid(unsafe_code)]

fn main() {}

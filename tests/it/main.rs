//! The integration tests, in one binary.

fn main() {}

//! What a verifier's output says about single tests.
//!
//! It never decides a verdict: that is the exit status alone. It explains one.

use crate::model::receipt::TestFailure;

/// Reads the whole output of a command that ended by itself.
pub type Parser = fn(&[u8]) -> Parsed;

/// What was found in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parsed {
    /// How many tests passed, where it says so.
    pub pass_count: Option<u64>,
    /// How many tests failed, where it says so.
    pub fail_count: Option<u64>,
    /// The failing tests.
    pub failures: Vec<TestFailure>,
}

/// For a command whose output is in no known form: nothing is known of its tests.
pub fn no_parser(_output: &[u8]) -> Parsed {
    Parsed::default()
}

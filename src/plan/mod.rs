//! The plan: from a file, or a command line, to a [`Plan`](crate::model::plan::Plan) that can be run.
//!
//! What it promises:
//! - **Everything at once.** All findings of a plan are told together, each with line and column, in the order of the file.
//! - **Nothing is ignored.** A key either has its effect or is refused. One table ([`reference()`]) says which keys there
//!   are; hints, refusals and the documentation come from it.
//! - **Overlap is exact.** Two contracts overlap if some possible path matches both, whatever files there are; the answer
//!   names such a path. Where an answer would take too long, the plan is refused, never waved through.
//! - **The order is fixed.** Whatever `after` leaves open, the order of the file decides.
//! - It reads no disk, no clock and no environment: text goes in, data comes out.
//!
//! Why not `serde` derives: they stop at the first error, and know no place for errors that need two values at once.

mod automaton;
mod check;
mod contract;
mod file;
mod finding;
mod glob;
mod graph;
mod keys;
mod machine;
mod network;
mod overlap;
mod preview;
mod protect;
mod reader;
mod render;
mod single;
mod value;

#[cfg(test)]
mod tests;

pub use check::check_against_tree;
pub use contract::{Allowed, CompiledContract, ContractError, Overlap};
pub use file::{MAX_FILE, load, verifier_for_exec, verifier_sandbox};
pub use finding::{Code, Finding, Findings, Severity, is_harmful};
pub use glob::{Glob, GlobError, GlobSet, MAX_ALTERNATIVES, MAX_LENGTH};
pub use graph::Graph;
pub use keys::{Key, reference, reference_table};
pub use machine::{boxes, check_against_machine, depends_on_machine, unenforceable};
pub use overlap::{Budget, OverlapError, TooComplex, overlap};
pub use preview::{AgentPreview, BoxPreview, CommandPreview, Preview, VerifyPreview};
pub use protect::{PROTECTED, Protected};
pub use render::render;
pub use single::Single;
pub use value::parse_size;

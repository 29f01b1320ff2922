//! Plain data that every room speaks: ids, paths, the plan, events, outcomes, cards, receipts, and the state of a run as
//! a fold of its events.
//!
//! Nothing here reads a disk, a clock or the environment, and nothing decides. JSON names are part of the program's
//! contract: fields are only ever added, readers skip what they do not know, and a re-meant field raises
//! [`event::VERSION`].

pub mod card;
pub mod change;
pub mod currency;
pub mod event;
pub mod excerpt;
pub mod fault;
pub mod gate;
pub mod ids;
pub mod network;
pub mod os_refusal;
pub mod outcome;
pub mod path;
pub mod plan;
pub mod receipt;
pub mod run;

pub use fault::Fault;
pub use ids::{AgentName, CardId, CommitId, IdError, ObjectFormat, ObjectId, RefName, RunId, TreeId, TurnId};
pub use outcome::{AttemptOutcome, Bytes, LimitMet, ProcessEnd, Verdict, VerifyStatus};
pub use path::RepoPath;

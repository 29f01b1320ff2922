//! From the agents' snapshots to a candidate, and from the candidate to the target.
//!
//! [`integrate`] begins the candidate anew at the target's tip and adds what may be merged, in plan order. [`land()`] moves
//! the target to a candidate. [`fork_point`] makes the commit that an agent with prerequisites begins with.
//!
//! Promises:
//! - **What is merged is a tree on a fork point**: one commit of ours, whose sole parent is the fork point. An agent's own
//!   history, which it can forge, has no part in it.
//! - **The contract is judged afresh**, on the trees of fork point and snapshot. What was recorded or claimed before counts
//!   for nothing; where a record is missing or says otherwise, the agent is refused.
//! - **Nothing comes along unseen.** A merge brings in all of a commit's ancestry. So an agent is merged only if
//!   everything its fork point is made of is in the target or was itself accepted.
//! - **Same plan, same base, same snapshots: same candidate commit and same cards**, whatever order agents ended in.
//! - **Previews and cards come first**: all of them are in the journal before the first merge is.
//! - **What cannot be told is never clean.**
//! - **A branch is moved once for each observation**, claimed before and read back after, by leave of
//!   [`crate::model::currency`]; once more only where it is proven that nothing has happened.
//! - No file, index or setting of the user's is touched but by [`land()`], and there only after looking, claiming, and with
//!   a compare-and-swap.
//!
//! Everything here is synchronous.
//!
//! Why not `git merge` in a worktree for integration: it costs many times as much, and leaves states to clean up.

mod candidate;
mod contribution;
mod currency;
mod error;
mod facts;
mod following;
mod forecast;
mod fork;
mod gates;
mod history;
mod keep;
mod land;
mod message;
mod open;
mod order;
mod preview;
mod settle;
mod target;

#[cfg(test)]
mod tests;

pub use candidate::{Integrated, Integration, integrate};
pub use contribution::{Contribution, Work, contribution};
pub use currency::{Observation, currency, observation_key};
pub use error::Error;
pub use facts::Facts;
pub use forecast::forecast;
pub use fork::{Fork, fork_point};
pub use land::{Landed, Landing, land};
pub use open::open_card;
pub use order::merge_order;
pub use preview::{Placed, Previewed, as_chosen};
pub use settle::{Settled, settle};
pub use target::see_target;

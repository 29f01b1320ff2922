//! Worktrees: made, filled, hidden from each other, checked and removed.
//!
//! A [`Workspace`] is a true linked worktree of the user's repository, locked, outside of it; beside it lies a private
//! folder with a git directory for the agent, one for captures, a home and a `/tmp`. [`working_box`] and [`capture_box`]
//! say what each kind of box sees of that.
//!
//! Promises: a worktree that could not be made leaves nothing behind, no entry, no branch, no folder. After an agent could
//! write into one, no git runs in it outside a box, and nothing in it is opened but `.git`, without following a link, by
//! [`Workspace::check`].

mod boxes;
mod by_hand;
mod check;
mod create;
mod environment;
mod error;
mod follow;
mod open_files;
mod outside;
mod pinned;
mod private;
mod remove;
mod repoint;
mod resolver;
mod seed;
mod standing;
mod surroundings;

pub use boxes::{capture_box, network_of, refuse_nested_root, without_mounts, working_box};
pub use by_hand::{is_as_begun, is_being_made, merge_by_hand};
pub use check::{Workspace, WorkspaceRecord};
pub use create::{Commission, create};
pub use environment::{HostEnvironment, box_variables, network_variables};
pub use error::Error;
pub use open_files::raise as raise_open_files;
pub use pinned::pin;
pub use private::seen;
pub use remove::remove;
pub use resolver::put_merge_under_way;
pub use seed::{Seeded, load_included, seed, seed_included};
pub use standing::Standing;
pub use surroundings::{Surroundings, require_fit};

//! Tests on real repositories, with every git that is installed.

pub(crate) mod cases;
mod commands;
mod hostile;
mod landing;
mod merging;
mod packs;
mod patches;
mod reading;
pub(crate) mod reference;
mod refs;
mod replay;
mod repositories;
mod worktrees;

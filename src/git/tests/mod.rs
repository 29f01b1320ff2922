//! Tests on real repositories, with every git that is installed.

mod commands;
mod hostile;
mod landing;
mod merging;
mod packs;
mod patches;
mod reading;
mod refs;
mod repositories;
mod worktrees;

//! Tests of merging and landing, on real repositories.

mod forks;
mod killed;
mod landing;
mod merging;
mod states;
mod world;

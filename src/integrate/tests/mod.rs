//! Tests of merging and landing, on real repositories.

mod cases;
mod forks;
mod killed;
mod landing;
mod merging;
mod random;
mod states;
mod world;

//! Tests of merging and landing, on real repositories.

mod currency;
mod forks;
mod landing;
mod merging;
mod world;

//! Redrive on the memory adapters in virtual time, with the shipped dispatch and deliver around it: what a plan says, what a
//! start moves, how fast, what stops a run by itself, what a crash at any point costs, and what stays in the dead letters.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

#[path = "redrive/crash.rs"]
mod crash;
#[path = "redrive/fresh.rs"]
mod fresh;
#[path = "redrive/fuse.rs"]
mod fuse;
#[path = "redrive/input.rs"]
mod input;
#[path = "redrive/inspect.rs"]
mod inspect;
#[path = "redrive/letters.rs"]
mod letters;
#[path = "redrive/overlap.rs"]
mod overlap;
#[path = "redrive/scenario.rs"]
mod scenario;
#[path = "redrive/steer.rs"]
mod steer;
#[path = "redrive/world.rs"]
mod world;

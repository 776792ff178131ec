//! End-to-end tests: the real functions from the real template on the emulator, a receiver that misbehaves, and the
//! ledger as the witness. Each test has a stack of its own; nothing is shared but the machine. Tests begin in the order
//! of their names: `ahead` asserts times and comes first, `races` to `waiting` keep the machine busy and come last.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

#[path = "flows/ahead.rs"]
mod ahead;
#[path = "flows/answers.rs"]
mod answers;
#[path = "flows/blackhole.rs"]
mod blackhole;
#[path = "flows/canary.rs"]
mod canary;
#[path = "flows/capacity.rs"]
mod capacity;
#[path = "flows/crash.rs"]
mod crash;
#[path = "flows/ends.rs"]
mod ends;
#[path = "flows/explain.rs"]
mod explain;
#[path = "flows/explained.rs"]
mod explained;
#[path = "flows/freeze.rs"]
mod freeze;
#[path = "flows/input.rs"]
mod input;
#[path = "flows/logs.rs"]
mod logs;
#[path = "flows/messages.rs"]
mod messages;
#[path = "flows/monitor.rs"]
mod monitor;
#[path = "flows/permissions.rs"]
mod permissions;
#[path = "flows/producer.rs"]
mod producer;
#[path = "flows/races.rs"]
mod races;
#[path = "flows/redrive.rs"]
mod redrive;
#[path = "flows/rejections.rs"]
mod rejections;
#[path = "explain/rows.rs"]
mod rows;
#[path = "flows/shadow.rs"]
mod shadow;
#[path = "flows/waiting.rs"]
mod waiting;
#[path = "flows/world.rs"]
mod world;

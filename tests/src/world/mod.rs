//! I am a deterministic world for the shipped handlers: their ports, virtual time, and a scheduler of operations.
//!
//! Every call of an actor stops at its edge and waits for an operation to decide its fate, so actors interleave call by
//! call. Nothing here reads a clock or draws from anything but the seed: a seed and a list of operations give the same
//! run for ever. After every operation the rules of [`checks`] must hold, and those of [`settle`] once the world is quiet.
//!
//! What I leave out: the adapters (the contract suite and the drills have them), the queue's 1,000 receives and 120,000
//! hidden messages, and a network that changes bytes.

mod actor;
mod checks;
mod effect;
mod generate;
mod happen;
mod inner;
mod kill;
pub mod op;
mod ports;
mod queue;
pub mod race;
mod receiver;
mod redrive;
mod rng;
mod runs;
pub mod script;
mod settle;
mod setup;
pub mod shrink;
mod step;
mod wish;

use std::collections::BTreeMap;

pub use checks::Violation;
pub use generate::generate;
pub use kill::{Killed, Kills, Outcome, killed};
pub use op::{Behaviour, Fate, Op};
pub use step::World;
pub use wish::Wish;

/// What one run showed.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The operations.
    pub ops: Vec<Op>,
    /// What happened how often.
    pub coverage: BTreeMap<String, u64>,
    /// The rule that was broken, if any.
    pub violation: Option<Violation>,
    /// What happened, line by line, if it was asked for.
    pub trace: Vec<String>,
}

/// Runs a list of operations, and then lets the world come to rest.
#[must_use]
pub fn replay(seed: u64, ops: &[Op], traced: bool) -> Report {
    let mut world = World::new(seed, traced);
    for op in ops {
        if world.violation().is_some() {
            break;
        }
        world.apply(op);
    }
    world.settle();
    world.report(ops.to_vec())
}

/// Runs a seed: its own operations, and then rest.
#[must_use]
pub fn run(seed: u64) -> Report {
    let mut world = World::new(seed, false);
    let ops = generate(&mut world, seed);
    world.settle();
    world.report(ops)
}

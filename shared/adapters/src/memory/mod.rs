//! I am the ports in memory: what every adapter has to mean, in as few lines as possible.
//!
//! Deterministic, without a clock: equal calls give equal answers. The guards are the core's own functions.

mod control;
mod ledger;
mod letters;
mod queue;
mod slices;
mod ticks;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use control::MemoryControl;
pub use ledger::MemoryLedger;
pub use letters::MemoryDeadLetters;
pub use queue::{MemoryQueue, Received};
pub use slices::MemorySlices;
pub use ticks::MemoryTicks;

/// The state behind a lock, even if a test failed while it held it.
fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

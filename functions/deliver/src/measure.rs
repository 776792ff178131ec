//! I keep what was measured for as long as this execution environment lives: across invocations, for all records of a
//! batch. I decide nothing, and nobody waits for anything under my lock.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::id::DestinationId;
use punctual_core::measured::Measured;
use punctual_core::time::Timestamp;

/// The shared memory; empty in a fresh environment.
#[derive(Debug, Default)]
pub struct Measure(Mutex<Measured>);

impl Measure {
    /// A message of this destination was taken so long after it was to be seen.
    pub fn queue_delay(&self, destination: &DestinationId, delay: Duration, now: Timestamp) {
        self.locked().queue_delay(destination, delay, now);
    }

    /// A call to this destination took so long, however it ended.
    pub fn call_latency(&self, destination: &DestinationId, took: Duration, now: Timestamp) {
        self.locked().call_latency(destination, took, now);
    }

    /// Queue delay plus call latency, as remembered at `now`.
    #[must_use]
    pub fn expected(&self, destination: &DestinationId, now: Timestamp) -> Duration {
        self.locked().expected(destination, now)
    }

    /// What is remembered is whole after each of the calls above, whatever became of their caller.
    fn locked(&self) -> MutexGuard<'_, Measured> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

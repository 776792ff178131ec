//! I keep what was measured for as long as this execution environment lives: across invocations, for all records of a
//! batch. I decide nothing, and nobody waits for anything under my lock.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::figures::Calls;
use punctual_core::id::DestinationId;
use punctual_core::limiter::{Key, Micros};
use punctual_core::measured::Measured;
use punctual_core::time::Timestamp;

/// The shared memory; empty in a fresh environment.
#[derive(Debug, Default)]
pub struct Measure {
    measured: Mutex<Measured>,
    booked: Mutex<BTreeMap<Key, Micros>>,
    calls: Mutex<BTreeMap<DestinationId, Calls>>,
}

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

    /// How long a message waits for a consumer, as remembered at `now`.
    #[must_use]
    pub fn waited(&self, destination: &DestinationId, now: Timestamp) -> Duration {
        self.locked().waited(destination, now)
    }

    /// The number that slots are booked on, as it was told last: others may have moved it on since.
    #[must_use]
    pub fn booked(&self, key: &Key) -> Option<Micros> {
        self.booked.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    /// The number as it is told now; none if there is none.
    pub fn told(&self, key: &Key, number: Option<Micros>) {
        let mut booked = self.booked.lock().unwrap_or_else(PoisonError::into_inner);
        match number {
            Some(number) => booked.insert(key.clone(), number),
            None => booked.remove(key),
        };
    }

    /// A call to this destination came to its end, and whether the same delivery is called once more.
    pub fn ended(&self, destination: &DestinationId, repeated: bool) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.entry(destination.clone()).or_default().add(Calls { made: 1, repeated: u64::from(repeated) });
    }

    /// What calls have come to that nobody has counted yet.
    #[must_use]
    pub fn uncounted(&self, destination: &DestinationId) -> Calls {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(destination).copied().unwrap_or_default()
    }

    /// These are counted now.
    pub fn counted(&self, destination: &DestinationId, counted: Calls) {
        if let Some(calls) = self.calls.lock().unwrap_or_else(PoisonError::into_inner).get_mut(destination) {
            calls.made = calls.made.saturating_sub(counted.made);
            calls.repeated = calls.repeated.saturating_sub(counted.repeated);
        }
    }

    /// What is remembered is whole after each of the calls above, whatever became of their caller.
    fn locked(&self) -> MutexGuard<'_, Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

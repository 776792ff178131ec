//! I say what the rows are that are late for their call: the index tells that they are out, only the row tells where.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Now;
use crate::delivery::Delivery;
use crate::id::DestinationId;
use crate::state::State;
use crate::time::Timestamp;

/// How many rows, and how old the oldest of them is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Level {
    /// How many.
    pub count: u64,
    /// The age of the oldest, in whole seconds.
    pub oldest_seconds: u64,
}

impl Level {
    fn note(&mut self, age: Duration) {
        self.count += 1;
        self.oldest_seconds = self.oldest_seconds.max(age.as_secs());
    }
}

/// The rows that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LookedAt {
    /// By state, with the age since they should have been called.
    pub states: BTreeMap<State, Level>,
    /// Held by a lease that has surely ended, with the age since its end.
    pub ended_leases: Level,
    /// Published and not taken: since they should have been seen.
    pub queued: Level,
    /// Dead and expired: the index keeps them for as long as they owe the dead letters their message; by destination.
    pub letters_owed: BTreeMap<DestinationId, u64>,
}

impl LookedAt {
    /// Notes a row that should have been called at `since`, as far as the index tells.
    pub fn note(&mut self, row: &Delivery, since: Timestamp, now: Now) {
        // The row is newer than the index: it may be due later by now.
        let since = since.max(row.next_attempt_at);
        self.states.entry(row.state).or_default().note(now.lo.since(since));
        if let Some(end) = row.lease_end().filter(|end| now.reached(*end)) {
            self.ended_leases.note(now.lo.since(end));
        }
        if row.state.needs_operator() {
            *self.letters_owed.entry(row.destination.clone()).or_default() += 1;
        }
        if row.state == State::Queued {
            // By its slot, where it has one; the rescue of a lost message starts no new wait.
            self.queued.note(now.lo.since(since));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acquire::{Claim, Claimer};
    use crate::delivery::NewDelivery;
    use crate::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, Owner, Reference};

    /// 09:00 and so many seconds.
    fn at(s: i64) -> Timestamp {
        Timestamp::from_millis(1_796_115_600_000 + s * 1_000)
    }

    fn row(state: State, until: i64) -> Delivery {
        let id = DeliveryId::new("dlv_1").expect("an id");
        let by = Correlation::new("c1").expect("a token");
        let new = NewDelivery {
            idempotency_key: IdempotencyKey::from(&id),
            reference: Reference::new("r").expect("a reference"),
            destination: DestinationId::new("acme").expect("an id"),
            shard: 0,
            content: Content::new("abc").expect("a hash"),
            deliver_after: at(-100),
            deliver_by: at(3_600),
            id,
        };
        let row = Delivery::new(new, at(-500), by.clone());
        let owner = Owner::new("o1").expect("an owner");
        let claim = Claim::new(state, Claimer { owner, by, until: at(until) }, None, Now::exactly(at(-90)));
        claim.apply(&row)
    }

    #[test]
    fn leases_that_have_ended_and_messages_that_nobody_took() {
        let mut looked = LookedAt::default();
        let now = Now { lo: at(0), hi: at(1) };
        looked.note(&row(State::Dispatching, -60), at(-100), now);
        looked.note(&row(State::Delivering, -20), at(-80), now);
        looked.note(&row(State::Delivering, 1), at(-70), now);
        let queued = Delivery { state: State::Queued, ..row(State::Dispatching, -60) };
        looked.note(&queued, at(-60), now);
        looked.note(&Delivery { next_attempt_at: at(-5), ..queued }, at(-60), now);
        let level = |count, oldest_seconds| Level { count, oldest_seconds };
        assert_eq!(looked.ended_leases, level(2, 60));
        assert_eq!(looked.queued, level(2, 60));
        assert_eq!(
            looked.states,
            [(State::Dispatching, level(1, 100)), (State::Queued, level(2, 60)), (State::Delivering, level(2, 80))].into()
        );
    }
}

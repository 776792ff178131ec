//! I count what happened in a batch; the counts become metrics.

use std::collections::BTreeSet;

use punctual_adapters::telemetry::metric;
use punctual_core::breaker::Heard;
use punctual_core::delivery::Delivery;
use punctual_core::id::DestinationId;
use punctual_core::outcome::{Called, Class};
use serde::Serialize;

use crate::pause::Outcome;

/// Counts of one record or of a whole batch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Records received.
    pub received: usize,
    /// Calls made.
    pub called: usize,
    /// Of these, calls that got no answer.
    pub unanswered: usize,
    /// Of these, calls that the receiver refused for good.
    pub refused: usize,
    /// 2xx recorded.
    pub delivered: usize,
    /// 2xx of calls that ended after the deadline.
    pub delivered_late: usize,
    /// Requests posted to the shadow sink.
    pub shadowed: usize,
    /// Failed attempts that will be repeated.
    pub deferred: usize,
    /// Rows that became dead.
    pub dead: usize,
    /// Rows that became expired.
    pub expired: usize,
    /// Messages sent to the dead letters.
    pub buried: usize,
    /// Messages of rows that need no call.
    pub suppressed: usize,
    /// Messages whose row is in the ledger.
    pub stale: usize,
    /// Rows that went back to the ledger.
    pub returned: usize,
    /// Messages that wait: not due, or an attempt is in flight.
    pub waiting: usize,
    /// Attempts whose lease had ended without an outcome.
    pub closed_unknown: usize,
    /// Outcomes that came after their lease had ended.
    pub late: usize,
    /// Messages that could not be read.
    pub malformed: usize,
    /// Attempts not made for want of a signing secret.
    pub secret_unavailable: usize,
    /// Records that failed for a passing reason.
    pub failed: usize,
    /// Slots of a destination's rate that were booked.
    pub slots_booked: usize,
    /// Slots that no call was made in.
    pub slots_wasted: usize,
    /// Records that a destination's rate left no room for.
    pub slots_denied: usize,
    /// Writes to the number that slots are booked on, refused ones included.
    pub limiter_writes: usize,
    /// Destinations that were paused here.
    pub paused: BTreeSet<DestinationId>,
    /// Destinations whose breaker was opened here.
    pub opened: BTreeSet<DestinationId>,
    /// How long after their `deliver_after` the first calls of deliveries began, in seconds.
    #[serde(skip)]
    pub first_calls: Vec<u32>,
    /// What the calls came to, until it is noted.
    #[serde(skip)]
    pub outcomes: Vec<Outcome>,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: Self) {
        self.received += other.received;
        self.called += other.called;
        self.unanswered += other.unanswered;
        self.refused += other.refused;
        self.delivered += other.delivered;
        self.delivered_late += other.delivered_late;
        self.shadowed += other.shadowed;
        self.deferred += other.deferred;
        self.dead += other.dead;
        self.expired += other.expired;
        self.buried += other.buried;
        self.suppressed += other.suppressed;
        self.stale += other.stale;
        self.returned += other.returned;
        self.waiting += other.waiting;
        self.closed_unknown += other.closed_unknown;
        self.late += other.late;
        self.malformed += other.malformed;
        self.secret_unavailable += other.secret_unavailable;
        self.failed += other.failed;
        self.slots_booked += other.slots_booked;
        self.slots_wasted += other.slots_wasted;
        self.slots_denied += other.slots_denied;
        self.limiter_writes += other.limiter_writes;
        self.paused.extend(other.paused);
        self.opened.extend(other.opened);
        self.first_calls.extend(other.first_calls);
        self.outcomes.extend(other.outcomes);
    }

    /// Notes what a call to a row's receiver came to.
    pub fn note_call(&mut self, row: &Delivery, called: &Called, class: Class) {
        self.unanswered += usize::from(Heard::of(&called.result) == Heard::Silence);
        self.refused += usize::from(matches!(class, Class::Dead { .. }));
        self.delivered_late += usize::from(class == Class::Delivered && called.started_at.plus(called.took) > row.deliver_by);
        if row.next_attempt() == 1 {
            let after = called.started_at.since(row.deliver_after).as_secs();
            self.first_calls.push(u32::try_from(after).unwrap_or(u32::MAX));
        }
    }

    /// The metrics of a batch: every name in [`metric::OF_DELIVER`].
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            (metric::DELIVER_HEARTBEAT, 1.0),
            (metric::CALLED, self.called as f64),
            (metric::UNANSWERED, self.unanswered as f64),
            (metric::REFUSED, self.refused as f64),
            (metric::DELIVERED, self.delivered as f64),
            (metric::DELIVERED_LATE, self.delivered_late as f64),
            (metric::DEFERRED, self.deferred as f64),
            (metric::DEAD, self.dead as f64),
            (metric::EXPIRED, self.expired as f64),
            (metric::DEAD_LETTERS_SENT, self.buried as f64),
            (metric::LEASES_ENDED, self.closed_unknown as f64),
            (metric::SUPPRESSED, self.suppressed as f64),
            (metric::SHADOWED, self.shadowed as f64),
            (metric::SECRET_UNAVAILABLE, self.secret_unavailable as f64),
            (metric::DESTINATION_PAUSED, self.paused.len() as f64),
            (metric::RATE_LIMIT_DEFERRED, self.slots_denied as f64),
            (metric::BREAKER_OPENED, self.opened.len() as f64),
        ]
    }

    /// The values of a batch of which a share is asked for: every name in [`metric::SAMPLES_OF_DELIVER`].
    #[must_use]
    pub fn samples(&self) -> Vec<(&'static str, Vec<f64>)> {
        vec![(metric::FIRST_CALL_SECONDS, self.first_calls.iter().map(|seconds| f64::from(*seconds)).collect())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emits_every_metric_of_deliver() {
        let names: Vec<&str> = Tally::default().metrics().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, metric::OF_DELIVER);
        let names: Vec<&str> = Tally::default().samples().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, metric::SAMPLES_OF_DELIVER);
    }
}

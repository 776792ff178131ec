//! I am the one line that a run leaves behind.

use punctual_adapters::telemetry::metric;
use punctual_core::admission::{Admission, Budget};
use punctual_flows::release::Tally;
use serde::Serialize;

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Entries of the wake index that were read.
    pub seen: usize,
    /// Claims, publications, lost races.
    #[serde(flatten)]
    pub released: Tally,
    /// Taken back from a lost lease or message.
    pub rescued: usize,
    /// Of these, from a message that was overdue; the others from a lease that had ended.
    pub overdue: usize,
    /// Attempts closed without an outcome.
    pub closed_unknown: usize,
    /// Rows that became expired.
    pub expired: usize,
    /// Rows that became dead.
    pub dead: usize,
    /// Dead letters that were owed and sent.
    pub buried: usize,
    /// Held rows that were put to sleep.
    pub slept: usize,
    /// In flight and in order.
    pub outstanding: usize,
    /// What could be released, of all active destinations.
    pub budget: usize,
    /// Released on a place that is kept for near deadlines.
    pub reserve_used: usize,
    /// The longest that a released row waits for its slot beyond its due time, in whole seconds.
    pub spread_seconds: u64,
    /// Due, but left for a later run: no budget or no time.
    pub left: usize,
    /// Steps that failed and that a later run repeats.
    pub failed: usize,
    /// Seconds that the oldest due row had been waiting when it was seen.
    pub oldest_overdue_seconds: u64,
    /// Dead rows whose deadline is still reachable.
    pub dead_reachable: u64,
    /// Pages of the wake index that were read.
    pub pages: usize,
    /// Read units that those pages cost.
    pub read_units: f64,
    /// Whether it stopped before everything was looked at.
    pub stopped_early: bool,
}

impl Summary {
    /// Adds another part of the same run.
    pub fn add(&mut self, other: &Self) {
        self.seen += other.seen;
        self.released.add(other.released);
        self.rescued += other.rescued;
        self.overdue += other.overdue;
        self.closed_unknown += other.closed_unknown;
        self.expired += other.expired;
        self.dead += other.dead;
        self.buried += other.buried;
        self.slept += other.slept;
        self.outstanding += other.outstanding;
        self.budget += other.budget;
        self.reserve_used += other.reserve_used;
        self.spread_seconds = self.spread_seconds.max(other.spread_seconds);
        self.left += other.left;
        self.failed += other.failed;
        self.oldest_overdue_seconds = self.oldest_overdue_seconds.max(other.oldest_overdue_seconds);
        self.dead_reachable = self.dead_reachable.max(other.dead_reachable);
        self.pages += other.pages;
        self.read_units += other.read_units;
        self.stopped_early |= other.stopped_early;
    }

    /// Notes what a destination was given, and what of it was used.
    pub fn note(&mut self, budget: Budget, admission: &Admission) {
        self.budget += budget.all;
        self.reserve_used += admission.reserve_used;
        self.spread_seconds = self.spread_seconds.max(admission.spread.as_secs());
    }

    /// The metrics of this run: every name in [`metric::OF_DISPATCH`].
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            (metric::DISPATCH_HEARTBEAT, 1.0),
            (metric::OLDEST_OVERDUE_SECONDS, self.oldest_overdue_seconds as f64),
            (metric::EXPIRED, self.expired as f64),
            (metric::DEAD, self.dead as f64),
            (metric::DEAD_REACHABLE, self.dead_reachable as f64),
            (metric::CLAIMED, self.released.claimed as f64),
            (metric::PUBLISHED, self.released.published as f64),
            (metric::RESCUED, self.rescued as f64),
            (metric::MESSAGES_OVERDUE, self.overdue as f64),
            (metric::LEASES_ENDED, (self.rescued.saturating_sub(self.overdue) + self.closed_unknown) as f64),
            (metric::DEAD_LETTERS_SENT, self.buried as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emits_every_metric_of_dispatch() {
        let names: Vec<&str> = Summary::default().metrics().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, metric::OF_DISPATCH);
    }
}

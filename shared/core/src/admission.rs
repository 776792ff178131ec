//! I say how much of a destination's backlog one dispatch run may release: pacing, so that the queue stays short and
//! the backlog stays in the ledger, where it can be seen, cancelled and ordered by deadline.

use std::time::Duration;

use crate::id::DeliveryId;
use crate::time::Timestamp;

/// What a destination can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Calls per second.
    pub rate_per_second: u32,
    /// The most that may be in flight.
    pub max_in_flight: u32,
}

/// How many rows may be released: what the rate takes within the horizon, at most the cap, minus what is outstanding.
/// A scan that did not see everything outstanding admits one tick's worth only.
#[must_use]
pub fn budget(capacity: Capacity, horizon: Duration, tick: Duration, outstanding: usize, complete: bool) -> usize {
    let window = if complete { horizon } else { tick };
    let by_rate = u64::from(capacity.rate_per_second).saturating_mul(window.as_secs().max(1));
    let most = usize::try_from(by_rate.min(u64::from(capacity.max_in_flight))).unwrap_or(usize::MAX);
    most.saturating_sub(outstanding)
}

/// A row that the wake index says may be due. A hint: the claim re-checks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Which row.
    pub id: DeliveryId,
    /// When dispatch was to look.
    pub wake_at: Timestamp,
    /// Until when it was held when it was last written.
    pub held_until: Option<Timestamp>,
    /// Its deadline.
    pub deliver_by: Timestamp,
}

/// The candidates to release first: nearest deadline first, then the longest due, `most` of them.
#[must_use]
pub fn nearest_deadline_first(mut candidates: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    candidates.sort_by(|a, b| (a.deliver_by, a.wake_at, &a.id).cmp(&(b.deliver_by, b.wake_at, &b.id)));
    candidates.truncate(most);
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_what_the_rate_takes_less_what_is_out() {
        let capacity = Capacity { rate_per_second: 10, max_in_flight: 1_000 };
        let (horizon, tick) = (Duration::from_secs(150), Duration::from_secs(60));
        assert_eq!(budget(capacity, horizon, tick, 0, true), 1_000);
        assert_eq!(budget(capacity, horizon, tick, 400, true), 600);
        assert_eq!(budget(capacity, horizon, tick, 2_000, true), 0);
        assert_eq!(budget(capacity, horizon, tick, 0, false), 600);
        assert_eq!(budget(Capacity { rate_per_second: 2, max_in_flight: 1_000 }, horizon, tick, 0, true), 300);
    }

    #[test]
    fn the_nearest_deadline_goes_first() {
        let candidate = |id: &str, wake: i64, by: i64| Candidate {
            id: DeliveryId::new(id).expect("an id"),
            wake_at: Timestamp::from_millis(1_796_115_600_000 + wake),
            held_until: None,
            deliver_by: Timestamp::from_millis(1_796_115_600_000 + by),
        };
        let order: Vec<String> =
            nearest_deadline_first(vec![candidate("late", 0, 900), candidate("soon", 9, 100), candidate("mid", 5, 500)], 2)
                .into_iter()
                .map(|c| c.id.to_string())
                .collect();
        assert_eq!(order, ["soon", "mid"]);
    }
}

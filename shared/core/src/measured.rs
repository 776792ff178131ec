//! I remember how late messages were taken and how long calls took of late, for each destination: what the next try must
//! expect on top of its own time.
//!
//! Each figure is a decayed maximum: one slow call is remembered at once, and half of it is forgotten every
//! [`HALF_LIFE`]. I am an estimate of one execution environment, not the ledger's: I decide whether a retry is planned,
//! never whether a call may start. A fresh memory knows nothing, and the stage's floor holds.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::DestinationId;
use crate::time::Timestamp;

/// After so long without a worse one, half of a figure is left.
pub const HALF_LIFE: Duration = Duration::from_secs(600);
/// So many destinations are remembered; then the one that has least to say is forgotten.
pub const MOST_DESTINATIONS: usize = 256;
/// No figure counts for more than this: after a longer standstill the queue moves again, and what waited may be tried. It
/// must stay short beside a window, or one standstill would end the retries of everything that is due within minutes.
pub const MOST: Duration = Duration::from_secs(120);

/// The largest duration seen, fading with time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Worst {
    was: Duration,
    at: Timestamp,
}

impl Worst {
    /// What is left of it at `now`; all of it before it was seen.
    fn left(self, now: Timestamp) -> Duration {
        let passed = now.since(self.at).as_millis();
        let half = HALF_LIFE.as_millis();
        // Linear between two halvings, so that it never jumps.
        let halvings = u32::try_from(passed / half).unwrap_or(u32::MAX);
        let whole = self.was.as_millis().checked_shr(halvings).unwrap_or(0);
        let faded = whole * (passed % half) / (2 * half);
        Duration::from_millis(u64::try_from(whole - faded).unwrap_or(u64::MAX))
    }

    /// What is remembered after something new was seen: the worse of both.
    fn after(worst: Option<Self>, seen: Duration, now: Timestamp) -> Self {
        let seen = Self { was: seen.min(MOST), at: now };
        match worst {
            Some(worst) if worst.left(now) > seen.was => worst,
            Some(worst) => Self { at: worst.at.max(now), ..seen },
            None => seen,
        }
    }
}

/// What was measured of one destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Pace {
    queue: Option<Worst>,
    call: Option<Worst>,
}

impl Pace {
    fn sum(&self, now: Timestamp) -> Duration {
        [self.queue, self.call].into_iter().flatten().map(|worst| worst.left(now)).sum()
    }
}

/// The memory of one execution environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    paces: BTreeMap<DestinationId, Pace>,
}

impl Measured {
    /// A message of this destination was taken so long after it was to be seen.
    pub fn queue_delay(&mut self, destination: &DestinationId, delay: Duration, now: Timestamp) {
        let pace = self.pace(destination, now);
        pace.queue = Some(Worst::after(pace.queue, delay, now));
    }

    /// A call to this destination took so long, however it ended.
    pub fn call_latency(&mut self, destination: &DestinationId, took: Duration, now: Timestamp) {
        let pace = self.pace(destination, now);
        pace.call = Some(Worst::after(pace.call, took, now));
    }

    /// Queue delay plus call latency, as remembered at `now`; zero for a destination that is not known.
    #[must_use]
    pub fn expected(&self, destination: &DestinationId, now: Timestamp) -> Duration {
        self.paces.get(destination).map_or(Duration::ZERO, |pace| pace.sum(now))
    }

    /// The queue delay alone.
    #[must_use]
    pub fn waited(&self, destination: &DestinationId, now: Timestamp) -> Duration {
        self.paces.get(destination).and_then(|pace| pace.queue).map_or(Duration::ZERO, |worst| worst.left(now))
    }

    /// How many destinations are remembered; at most [`MOST_DESTINATIONS`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.paces.len()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paces.is_empty()
    }

    fn pace(&mut self, destination: &DestinationId, now: Timestamp) -> &mut Pace {
        if self.paces.len() >= MOST_DESTINATIONS && !self.paces.contains_key(destination) {
            let least = self.paces.iter().min_by_key(|(_, pace)| pace.sum(now)).map(|(id, _)| id.clone());
            if let Some(least) = least {
                self.paces.remove(&least);
            }
        }
        self.paces.entry(destination.clone()).or_default()
    }
}

/// How long a message waited beyond the instant at which it was to be seen: `sent` to the queue, `not_before` as it says,
/// taken at `now`. Zero if it came early.
#[must_use]
pub fn queue_delay(sent: Timestamp, not_before: Timestamp, now: Timestamp) -> Duration {
    now.since(sent.max(not_before))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_796_115_600_000 + ms)
    }

    fn id(n: usize) -> DestinationId {
        DestinationId::new(format!("d{n}")).expect("an id")
    }

    fn seen(times: &[(bool, u64, i64)]) -> Measured {
        let mut measured = Measured::default();
        for (queue, ms, when) in times {
            let took = Duration::from_millis(*ms);
            if *queue {
                measured.queue_delay(&id(0), took, at(*when));
            } else {
                measured.call_latency(&id(0), took, at(*when));
            }
        }
        measured
    }

    #[test]
    fn remembers_the_worst_and_forgets_half_of_it_each_half_life() {
        let measured = seen(&[(true, 8_000, 0), (false, 4_000, 0), (true, 1_000, 10), (false, 100, 10)]);
        let half = i64::try_from(HALF_LIFE.as_millis()).expect("in range");
        for (when, expected) in
            [(0, 12_000), (half / 2, 9_000), (half, 6_000), (2 * half, 3_000), (3 * half, 1_500), (90 * half, 0)]
        {
            assert_eq!(measured.expected(&id(0), at(when)), Duration::from_millis(expected), "{when}");
        }
        assert_eq!(measured.expected(&id(1), at(0)), Duration::ZERO, "another destination");
        assert_eq!(measured.expected(&id(0), at(-5_000)), Duration::from_secs(12), "a clock that went back forgets nothing");
    }

    #[test]
    fn a_worse_one_counts_at_once_and_a_single_wait_only_so_far() {
        let mut measured = seen(&[(false, 2_000, 0)]);
        measured.call_latency(&id(0), Duration::from_secs(9), at(1_000));
        assert_eq!(measured.expected(&id(0), at(1_000)), Duration::from_secs(9));
        measured.queue_delay(&id(0), Duration::MAX, at(1_000));
        assert_eq!(measured.expected(&id(0), at(1_000)), MOST + Duration::from_secs(9));
    }

    #[test]
    fn the_one_with_least_to_say_is_forgotten_for_a_new_one() {
        let mut measured = Measured::default();
        for n in 0..MOST_DESTINATIONS {
            let took = Duration::from_millis(if n == 7 { 1 } else { 1_000 });
            measured.call_latency(&id(n), took, at(0));
        }
        assert_eq!(measured.len(), MOST_DESTINATIONS);
        measured.call_latency(&id(9_999), Duration::from_secs(5), at(1));
        assert_eq!(measured.len(), MOST_DESTINATIONS);
        assert_eq!(measured.expected(&id(7), at(1)), Duration::ZERO);
        assert_eq!(measured.expected(&id(9_999), at(1)), Duration::from_secs(5));
        assert!(measured.expected(&id(8), at(1)) > Duration::ZERO);
    }

    #[test]
    fn a_wait_counts_from_the_later_of_what_a_message_says_and_when_it_was_sent() {
        for (sent, not_before, now, expected) in
            [(0, 60_000, 60_000, 0), (0, 60_000, 59_000, 0), (0, 60_000, 64_000, 4_000), (50_000, 1_000, 50_250, 250)]
        {
            assert_eq!(queue_delay(at(sent), at(not_before), at(now)), Duration::from_millis(expected));
        }
    }

    proptest! {
        #[test]
        fn it_only_fades_until_something_worse_is_seen(
            mut times in prop::collection::vec((any::<bool>(), 0_u64..900_000, 0_i64..10_000_000), 1..12),
            waits in prop::collection::vec(0_i64..3_000_000, 1..8),
        ) {
            times.sort_by_key(|(_, _, when)| *when);
            let measured = seen(&times);
            let last = times.last().map_or(0, |(_, _, when)| *when);
            let mut before = measured.expected(&id(0), at(last));
            // Never below what was seen last, never above the worst of both kinds.
            for queue in [true, false] {
                let newest = times.iter().rev().find(|(kind, _, when)| *kind == queue && *when == last);
                prop_assert!(newest.is_none_or(|(_, ms, _)| before >= Duration::from_millis(*ms).min(MOST)));
            }
            let worst = |queue: bool| times.iter().filter(|(kind, ..)| *kind == queue).map(|(_, ms, _)| *ms).max().unwrap_or(0);
            prop_assert!(before <= Duration::from_millis(worst(true) + worst(false)));
            let mut when = last;
            for wait in waits {
                when += wait;
                let now = measured.expected(&id(0), at(when));
                prop_assert!(now <= before, "{now:?} after {before:?}");
                before = now;
            }
        }

        #[test]
        fn seeing_more_never_says_less(
            times in prop::collection::vec((any::<bool>(), 0_u64..100_000, 0_i64..1_000), 1..8),
            more in 0_u64..100_000,
        ) {
            let mut measured = seen(&times);
            let before = measured.expected(&id(0), at(1_000));
            measured.call_latency(&id(0), Duration::from_millis(more), at(1_000));
            prop_assert!(measured.expected(&id(0), at(1_000)) >= before);
            prop_assert!(measured.expected(&id(0), at(1_000)) >= Duration::from_millis(more));
        }
    }
}

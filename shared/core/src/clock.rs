//! I narrow down the database's time from the `Date` headers of its responses.
//!
//! I know no clock: whoever asks me hands over readings of a monotonic one, as milliseconds from any fixed origin.
//! A response that carries second `D`, sent for at reading `s` and received at reading `r`, was made between `s`
//! and `r`, when the database's time was in `[D, D + 1 s)`. So the database's time minus the monotonic reading
//! lies in `[D - r, D + 1 s - s]`. Intersecting those of several responses narrows it far below a second.

use std::time::Duration;

use crate::time::Timestamp;

/// The widest interval with which anything is claimed.
pub const MAX_WIDTH: Duration = Duration::from_secs(2);
/// How far two clocks may drift apart, in milliseconds per 1,000 seconds, while a reading is kept.
const DRIFT_MS_PER_1000_S: i64 = 500;

/// The database's time as an interval: it is at least `lo` and at most `hi`.
///
/// `lo` must have reached an instant for "due" and "lease ended"; `hi` must not have passed it for "before the deadline".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The database's time is this instant or later.
    pub lo: Timestamp,
    /// The database's time is this instant or earlier.
    pub hi: Timestamp,
}

impl Now {
    /// An interval of no width, for a world whose time is known.
    #[must_use]
    pub fn exactly(at: Timestamp) -> Self {
        Self { lo: at, hi: at }
    }

    /// Whether the instant has surely come.
    #[must_use]
    pub fn reached(self, at: Timestamp) -> bool {
        self.lo >= at
    }

    /// What another clock says, as far as it lies within.
    #[must_use]
    pub fn closest_to(self, clock: Timestamp) -> Timestamp {
        clock.max(self.lo).min(self.hi)
    }

    /// Whether the instant may have come.
    #[must_use]
    pub fn may_have_reached(self, at: Timestamp) -> bool {
        self.hi >= at
    }
}

/// Why the database's time is not known well enough to claim anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    /// No response has been seen in this invocation.
    #[error("the database's time is unknown: no response has been seen yet")]
    Unknown,
    /// The interval is too wide.
    #[error("the database's time is known only within {0} ms; at most 2000 ms is safe")]
    TooWide(i64),
    /// Responses contradict each other.
    #[error("responses contradict each other about the database's time by {0} ms")]
    Contradiction(i64),
    /// This machine's clock is off by more than the bound.
    #[error("this machine's clock is off the database's by at least {0} ms; at most 2000 ms is safe")]
    MachineOff(i64),
}

/// What is known of "database time minus monotonic reading", in milliseconds, as of a monotonic reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offset {
    lo: i64,
    hi: i64,
    as_of: i64,
}

/// An estimate of the database's time, made of the responses of one invocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Estimate {
    offset: Option<Offset>,
}

impl Estimate {
    /// Takes one response into account. `second` is its `Date` header in seconds since the epoch, `sent_ms` and
    /// `received_ms` are monotonic readings from before the request and after the response.
    ///
    /// A response that contradicts the earlier ones replaces them: a database endpoint with another clock, or a
    /// machine that slept, makes the older knowledge worthless.
    pub fn observe(&mut self, second: i64, sent_ms: i64, received_ms: i64) {
        let db = second.saturating_mul(1000);
        let fresh = Offset { lo: db - received_ms, hi: db + 1000 - sent_ms, as_of: received_ms };
        let merged = self.offset.map(|old| old.aged(received_ms)).map_or(fresh, |old| Offset {
            lo: old.lo.max(fresh.lo),
            hi: old.hi.min(fresh.hi),
            as_of: received_ms,
        });
        self.offset = Some(if merged.lo > merged.hi { fresh } else { merged });
    }

    /// The database's time at the monotonic reading `at_ms`.
    ///
    /// # Errors
    /// [`ClockError::Unknown`] before the first response, [`ClockError::TooWide`] past [`MAX_WIDTH`].
    pub fn now(&self, at_ms: i64) -> Result<Now, ClockError> {
        let offset = self.offset.ok_or(ClockError::Unknown)?.aged(at_ms);
        let width = offset.hi - offset.lo;
        if width > i64::try_from(MAX_WIDTH.as_millis()).unwrap_or(i64::MAX) {
            return Err(ClockError::TooWide(width));
        }
        Ok(Now { lo: Timestamp::from_millis(offset.lo + at_ms), hi: Timestamp::from_millis(offset.hi + at_ms) })
    }

    /// The next monotonic reading at or after `at_ms` at which one more response would halve the interval: the
    /// reading at which the middle of the estimate crosses a whole second.
    #[must_use]
    pub fn next_useful_reading(&self, at_ms: i64) -> Option<i64> {
        let offset = self.offset?.aged(at_ms);
        let middle = i64::midpoint(offset.lo, offset.hi) + at_ms;
        Some(at_ms + (1000 - middle.rem_euclid(1000)) % 1000)
    }
}

impl Offset {
    /// The same knowledge at a later reading: wider by the drift that two clocks may have had since.
    fn aged(self, at_ms: i64) -> Self {
        let age = at_ms.saturating_sub(self.as_of).max(0);
        let drift = age.saturating_mul(DRIFT_MS_PER_1000_S) / 1_000_000;
        Self { lo: self.lo - drift, hi: self.hi + drift, as_of: self.as_of.saturating_add(age) }
    }
}

/// Compares this machine's clock with the interval.
///
/// # Errors
/// [`ClockError::MachineOff`] when the machine's reading lies outside the interval by more than [`MAX_WIDTH`].
pub fn check_machine(now: Now, machine: Timestamp) -> Result<(), ClockError> {
    let off = if machine < now.lo { now.lo.since(machine) } else { machine.since(now.hi) };
    if off > MAX_WIDTH { Err(ClockError::MachineOff(i64::try_from(off.as_millis()).unwrap_or(i64::MAX))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the responses, the true time lies in the interval.
        #[test]
        fn the_true_time_is_inside(
            base in 1_700_000_000_000_i64..1_900_000_000_000,
            calls in prop::collection::vec((0_i64..3000, 0_i64..400, 0.0_f64..1.0), 1..20),
        ) {
            let mut estimate = Estimate::default();
            let mut at = 0_i64;
            for (gap, trip, share) in calls {
                let sent = at + gap;
                let received = sent + trip;
                #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a share of at most 400")]
                let made = sent + (trip as f64 * share) as i64;
                estimate.observe((base + made).div_euclid(1000), sent, received);
                at = received;
                let now = estimate.now(at).map_err(|e| TestCaseError::fail(e.to_string()))?;
                prop_assert!(now.lo.as_millis() <= base + at && base + at <= now.hi.as_millis(), "{now:?} vs {}", base + at);
            }
        }
    }

    #[test]
    fn responses_at_useful_readings_narrow_it_below_a_tenth_of_a_second() {
        let base = 1_796_115_600_377;
        let mut estimate = Estimate::default();
        let mut at = 0;
        for _ in 0..5 {
            estimate.observe((base + at) / 1000, at, at + 2);
            at = estimate.next_useful_reading(at + 2).unwrap_or(at);
        }
        let now = estimate.now(at).expect("known");
        assert!(now.hi.since(now.lo) < Duration::from_millis(100), "{now:?}");
    }

    #[test]
    fn another_clock_is_believed_within_the_interval() {
        let at = Timestamp::from_millis;
        let now = Now { lo: at(1_000), hi: at(1_300) };
        assert_eq!([900, 1_000, 1_200, 1_400].map(|ms| now.closest_to(at(ms))), [1_000, 1_000, 1_200, 1_300].map(at));
    }

    #[test]
    fn refuses_without_knowledge_and_when_off() {
        assert_eq!(Estimate::default().now(0), Err(ClockError::Unknown));
        let mut slow = Estimate::default();
        slow.observe(1_796_115_600, 0, 1500);
        assert_eq!(slow.now(1500), Err(ClockError::TooWide(2500)));
        let now = Now::exactly(Timestamp::from_millis(1_796_115_600_000));
        assert_eq!(check_machine(now, now.hi.plus(Duration::from_millis(2000))), Ok(()));
        assert_eq!(check_machine(now, now.hi.plus(Duration::from_millis(2001))), Err(ClockError::MachineOff(2001)));
        assert_eq!(check_machine(now, now.lo.minus(Duration::from_millis(9000))), Err(ClockError::MachineOff(9000)));
    }
}

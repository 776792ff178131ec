//! I am a destination's rate limit, shared by all invocations: the generic cell rate algorithm (GCRA) on one number.
//!
//! The number is the *theoretical arrival time*: when the next call would start if all calls were exactly one interval
//! apart. Whoever books moves it on by one interval for each call, so two bookings never share a slot. What is kept is the
//! number alone; what is booked is told by the one conditional write that moved it.
//!
//! Whoever books says what time it is, as well as he knows it: the database's time, and within what is known of it the
//! machine's. Clocks that disagree by some milliseconds shift calls by as much, and [`GRACE`] has room for that.
//!
//! In any second at most `per_second + burst` calls start: see [`Limit::tolerance`].

use std::time::Duration;

use crate::id::DestinationId;
use crate::time::Timestamp;

/// A call that would start later than this after its slot gives the slot up: late calls would crowd into the next ones.
pub const GRACE: Duration = Duration::from_millis(100);
/// A booking reaches so far ahead: a call waits for its slot in its invocation, and no longer than this.
pub const AHEAD: Duration = Duration::from_millis(2_000);
/// The share of [`AHEAD`] that only calls with a near deadline may book, in percent. What they leave is nobody's loss: the
/// slots come within reach of everybody a moment later.
pub const RESERVE_PERCENT: u32 = 10;
/// What redriven calls may take of a destination's rate, in percent.
pub const REDRIVE_PERCENT: u32 = 20;

/// How long a redriven call may wait for its slot of the whole rate once its share is booked.
pub const BESIDE: Duration = Duration::from_millis(250);

/// An instant in microseconds since the Unix epoch: intervals of 300 calls a second are no whole milliseconds.
pub type Micros = i64;

/// Which number: a destination has one for all its calls, one that redriven calls take besides, and one on which redrive runs lay
/// out theirs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// All calls of a destination.
    #[must_use]
    pub fn of(destination: &DestinationId) -> Self {
        Self(destination.to_string())
    }

    /// The calls of redriven rows, as they are made.
    #[must_use]
    pub fn of_redriven_calls(destination: &DestinationId) -> Self {
        Self(format!("{destination}#redriven"))
    }

    /// The slots that redrive runs lay out for them.
    #[must_use]
    pub fn of_redrive(destination: &DestinationId) -> Self {
        // A destination's own name has no such character.
        Self(format!("{destination}#redrive"))
    }
}

impl Key {
    /// Whose calls these are; none for the part of them that is redriven.
    #[must_use]
    pub fn destination(&self) -> Option<DestinationId> {
        DestinationId::new(&*self.0).ok()
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A rate with its burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit {
    /// Calls per second; 1 to 1,000.
    pub per_second: u32,
    /// Calls beyond them that a second may have; at least a tenth of `per_second`.
    pub burst: u32,
}

/// What the stored number must be for a booking to apply, and what it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// It is between `from` and `to` (inclusive), and grows by `by`.
    Add {
        /// By so much.
        by: Micros,
        /// At least this.
        from: Micros,
        /// At most this.
        to: Micros,
    },
    /// It is at most `at_most` and at least `at_least` (or absent, where that is none), and becomes `to`.
    Set {
        /// From now on.
        to: Micros,
        /// At least this; none: it may be absent too.
        at_least: Option<Micros>,
        /// At most this.
        at_most: Micros,
    },
}

/// What became of a booking's write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It is written.
    Done {
        /// As it is now.
        now: Micros,
    },
    /// It was another; as it is, if there is one.
    Refused {
        /// As it is.
        is: Option<Micros>,
    },
}

/// What to ask of the stored number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How many of the calls, in order, get a slot if the write applies.
    pub calls: usize,
    /// The write; none if no call can have a slot now.
    pub write: Option<Move>,
}

fn micros(at: Timestamp) -> Micros {
    at.as_millis().saturating_mul(1_000)
}

fn span(how_long: Duration) -> Micros {
    Micros::try_from(how_long.as_micros()).unwrap_or(Micros::MAX)
}

/// A slot as an instant: rounded up, so that no call starts before it.
fn instant(at: Micros) -> Timestamp {
    Timestamp::from_millis(at.div_euclid(1_000) + i64::from(at.rem_euclid(1_000) > 0))
}

impl Limit {
    /// From one call to the next, in microseconds, rounded up.
    #[must_use]
    pub fn interval(self) -> Micros {
        let per_second = Micros::from(self.per_second.max(1));
        (1_000_000 + per_second - 1) / per_second
    }

    /// How much before its theoretical arrival time a call may start. A call starts between `tat − tolerance` and
    /// `tat + GRACE`, and one second holds at most `(1 s + GRACE + tolerance) / interval + 1` of those: a tolerance of
    /// `burst` intervals less `GRACE` (and less one microsecond) keeps that at `per_second + burst`.
    #[must_use]
    pub fn tolerance(self) -> Micros {
        (self.interval().saturating_mul(Micros::from(self.burst)) - span(GRACE) - 1).max(0)
    }

    /// The limit of redriven calls: a share of the rate, without a burst of its own.
    #[must_use]
    pub fn of_redrive(self) -> Self {
        let per_second = (self.per_second.saturating_mul(REDRIVE_PERCENT) / 100).max(1);
        Self { per_second, burst: per_second.div_ceil(10) }
    }

    /// The limit of redriven calls as they are made, however their slots were laid out: no second holds more than twice the share,
    /// and one where the burst is rounded up.
    /// A queue's delays are whole seconds, so that what was laid out over two neighbouring seconds may come in one. The burst is
    /// a quarter less than a second's share: a call may follow its booking by [`BESIDE`].
    #[must_use]
    pub fn of_redriven_calls(self) -> Self {
        let per_second = self.of_redrive().per_second;
        Self { per_second, burst: per_second.saturating_mul(3).div_ceil(4) }
    }

    /// Plans a booking for calls that may start at these instants, in order; `stored` is the number as far as it is known.
    #[must_use]
    pub fn plan(self, stored: Option<Micros>, calls: &[Timestamp], now: Timestamp, ahead: Duration) -> Plan {
        let (start, last) = (micros(now), micros(now).saturating_add(span(ahead)));
        let before = stored.unwrap_or(start.min(0));
        let mut tat = before;
        let mut booked = 0;
        let mut adds = true;
        for call in calls {
            let from = micros(*call).max(start);
            let base = tat.max(from);
            if (base - self.tolerance()).max(from) > last {
                break;
            }
            adds &= tat >= from;
            tat = base.saturating_add(self.interval());
            booked += 1;
        }
        if booked == 0 {
            return Plan { calls: 0, write: None };
        }
        let write = if adds {
            // All of them queue behind others: wherever the number is by now, as long as the last one stays within reach.
            let by = self.interval().saturating_mul(Micros::try_from(booked).unwrap_or(Micros::MAX));
            let newest = calls.iter().take(booked).map(|call| micros(*call)).max().unwrap_or(start).max(start);
            let reach = last.saturating_add(self.tolerance()).saturating_sub(by - self.interval());
            Move::Add { by, from: newest, to: reach }
        } else if stored.is_none_or(|stored| stored <= calls.first().map_or(start, |call| micros(*call).max(start))) {
            // Nobody is ahead of the first one.
            let first = calls.first().map_or(start, |call| micros(*call).max(start));
            Move::Set { to: tat, at_least: None, at_most: first }
        } else {
            Move::Set { to: tat, at_least: Some(before), at_most: before }
        };
        Plan { calls: booked, write: Some(write) }
    }

    /// The slots that an applied write gave: `before` is the number that it was applied to.
    #[must_use]
    pub fn slots(self, before: Option<Micros>, calls: &[Timestamp], now: Timestamp) -> Vec<Timestamp> {
        let start = micros(now);
        let mut tat = before.unwrap_or(start.min(0));
        calls
            .iter()
            .map(|call| {
                let from = micros(*call).max(start);
                let base = tat.max(from);
                tat = base.saturating_add(self.interval());
                instant((base - self.tolerance()).max(from))
            })
            .collect()
    }

    /// How long until a call that is booked last would come within reach; zero if it is already.
    #[must_use]
    pub fn wait(self, stored: Option<Micros>, now: Timestamp, ahead: Duration) -> Duration {
        let first = stored.unwrap_or(0).saturating_sub(self.tolerance());
        let wait = first.saturating_sub(micros(now).saturating_add(span(ahead)));
        Duration::from_micros(u64::try_from(wait).unwrap_or(0))
    }
}

impl Move {
    /// The number after this write; none if it does not apply. This is the meaning: an adapter translates it into its store's condition and
    /// update.
    #[must_use]
    pub fn apply(self, stored: Option<Micros>) -> Option<Micros> {
        match self {
            Move::Add { by, from, to } => {
                stored.filter(|stored| (from..=to).contains(stored)).map(|stored| stored.saturating_add(by))
            }
            Move::Set { to, at_least: None, at_most } => stored.is_none_or(|stored| stored <= at_most).then_some(to),
            Move::Set { to, at_least: Some(least), at_most } => {
                stored.is_some_and(|stored| (least..=at_most).contains(&stored)).then_some(to)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: i64 = 1_796_115_600_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(START + ms)
    }

    /// Books as deliver does: by what is believed, then by what a refusal tells.
    fn book(limit: Limit, stored: &mut Option<Micros>, believed: Option<Micros>, calls: &[Timestamp], ms: i64) -> Vec<Timestamp> {
        let mut known = believed;
        for _ in 0..3 {
            let plan = limit.plan(known, calls, at(ms), AHEAD);
            let Some(write) = plan.write else {
                // What is believed may be too much; a denial by it is on the safe side.
                return Vec::new();
            };
            match write.apply(*stored) {
                Some(after) => {
                    let before = if let Move::Add { by, .. } = write { Some(after - by) } else { known };
                    *stored = Some(after);
                    return limit.slots(before, calls.get(..plan.calls).unwrap_or_default(), at(ms));
                }
                None => known = *stored,
            }
        }
        Vec::new()
    }

    /// The most calls that any span of one second holds.
    fn fullest(calls: &mut [i64]) -> usize {
        calls.sort_unstable();
        let in_second = |(i, start): (usize, &i64)| calls.iter().skip(i).take_while(|call| **call < start + 1_000).count();
        calls.iter().enumerate().map(in_second).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_second_holds_more_than_rate_and_burst(
            per_second in 1_u32..400, extra in 0_u32..50, seed in any::<u64>(),
            steps in prop::collection::vec((0_i64..700, 1_usize..11, 0_i64..3_000, any::<bool>(), 0_i64..=100), 5..80),
        ) {
            let limit = Limit { per_second, burst: per_second.div_ceil(10).max(1) + extra };
            let (mut stored, mut believed, mut ms, mut started) = (None, None, 0, Vec::new());
            for (i, (passes, count, spread, fresh, late)) in steps.into_iter().enumerate() {
                ms += passes;
                let shift = i64::try_from(seed >> (i % 60) & 1).expect("a bit");
                let mut calls: Vec<Timestamp> =
                    (0..count).map(|n| at(ms - 500 + spread * i64::try_from(n).expect("few") / 10 * shift)).collect();
                calls.sort_unstable();
                if fresh {
                    believed = stored;
                }
                for slot in book(limit, &mut stored, believed, &calls, ms) {
                    prop_assert!(slot.as_millis() >= START + ms && slot <= at(ms).plus(AHEAD + Duration::from_millis(1)));
                    started.push(slot.as_millis() + late);
                }
            }
            let most = usize::try_from(limit.per_second + limit.burst).expect("a count");
            prop_assert!(fullest(&mut started) <= most, "{} calls in one second of {limit:?}", fullest(&mut started));
        }
    }

    #[test]
    fn a_backlog_is_taken_at_the_full_rate() {
        let limit = Limit { per_second: 50, burst: 10 };
        let (mut stored, mut started) = (None, Vec::new());
        for round in 0..400 {
            let ms = round * 50;
            let calls = vec![at(0); 10];
            let believed = stored;
            started.extend(book(limit, &mut stored, believed, &calls, ms).into_iter().map(|slot| slot.as_millis() - START));
        }
        let in_time = started.iter().filter(|ms| **ms < 20_000).count();
        assert!((1_000..=1_010).contains(&in_time), "{in_time} slots in 20 s at 50 a second");
        assert!(fullest(&mut started) <= 60);
    }

    #[test]
    fn slots_follow_each_other_and_a_late_number_is_told() {
        let limit = Limit { per_second: 10, burst: 1 };
        let mut stored = None;
        let calls = vec![at(0); 3];
        let slots = book(limit, &mut stored, None, &calls, 0);
        assert_eq!(slots, [at(0), at(100), at(200)]);
        // Who believes that nobody has booked is refused, and told.
        let slots = book(limit, &mut stored, None, &calls[..1], 0);
        assert_eq!(slots, [at(300)]);
        // Nothing beyond what is in reach.
        let many = vec![at(0); 40];
        assert_eq!(limit.plan(stored, &many, at(0), AHEAD).calls, 17);
        assert_eq!(limit.wait(Some(micros(at(5_000))), at(0), AHEAD), Duration::from_millis(3_000));
        // A call that is not due yet takes a later slot, and leaves the time before it to others only as it is: unused.
        let mut fresh = None;
        assert_eq!(book(limit, &mut fresh, None, &[at(700), at(700)], 0), [at(700), at(800)]);
    }

    #[test]
    fn redriven_calls_have_a_fifth() {
        let limit = Limit { per_second: 50, burst: 10 }.of_redrive();
        assert_eq!((limit.per_second, limit.burst), (10, 1));
        assert_eq!(Limit { per_second: 2, burst: 1 }.of_redrive().per_second, 1);
        let calls = Limit { per_second: 100, burst: 10 }.of_redriven_calls();
        assert_eq!((calls.per_second, calls.burst), (20, 15));
        assert_eq!(Limit { per_second: 1, burst: 1 }.of_redriven_calls(), Limit { per_second: 1, burst: 1 });
    }
}

//! I am the retry policy: how long to wait before the next attempt, and whether there is one.
//!
//! `min(base * 2^(n-1), cap, remaining / 4)` before attempt n+1; jitter only upward; a floor that the receiver asked
//! for is never undercut; nothing starts after the last safe start, and nothing is planned later than the measured delays
//! allow.

use std::time::Duration;

use crate::clock::Now;
use crate::time::Timestamp;

/// The largest share that jitter adds to the policy's delay.
pub const MAX_JITTER: f64 = 0.2;

/// A destination's retry policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// The delay before attempt 2, in milliseconds; 100 to 3,600,000. Default 30 s.
    #[serde(default = "default_base_ms")]
    pub base_ms: u64,
    /// The longest delay before jitter, in milliseconds; `base_ms` to 86,400,000. Default 3,600 s.
    #[serde(default = "default_cap_ms")]
    pub cap_ms: u64,
    /// How many attempts are made without a redrive's grant; 1 to 20. Default 10.
    #[serde(default = "default_attempts")]
    pub attempts: u32,
}

fn default_base_ms() -> u64 {
    30_000
}

fn default_cap_ms() -> u64 {
    3_600_000
}

fn default_attempts() -> u32 {
    10
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { base_ms: default_base_ms(), cap_ms: default_cap_ms(), attempts: default_attempts() }
    }
}

/// What comes after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The next attempt starts no earlier than this.
    At(Timestamp),
    /// The budget is spent.
    Exhausted,
    /// The next attempt would start too late, or would be planned later than what was measured allows; but an operator
    /// can still act before the deadline.
    NoSafeWindow,
    /// Less than the safety margin is left.
    Expired,
}

/// The last instant at which a call may start: the deadline less the safety margin.
#[must_use]
pub fn last_safe_start(deliver_by: Timestamp, margin: Duration) -> Timestamp {
    deliver_by.minus(margin)
}

/// The policy's delay after attempt `n` (from 1) with `remaining` left until the deadline, before jitter.
#[must_use]
pub fn policy_delay(policy: &RetryPolicy, n: u32, remaining: Duration) -> Duration {
    let doublings = n.saturating_sub(1).min(40);
    let grown = policy.base_ms.saturating_mul(1_u64 << doublings);
    Duration::from_millis(grown.min(policy.cap_ms)).min(remaining / 4)
}

/// The delay with jitter: `random` in `[0, 1)` adds up to [`MAX_JITTER`] of it, never takes away.
#[must_use]
pub fn with_jitter(delay: Duration, random: f64) -> Duration {
    delay.mul_f64(1.0 + MAX_JITTER * random.clamp(0.0, 1.0))
}

/// What a failed attempt leaves room for.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// How many attempts are closed, the failed one included.
    pub made: u32,
    /// How many attempts redrives granted.
    pub granted: u32,
    /// The business deadline.
    pub deliver_by: Timestamp,
    /// Deadline less this is the last safe start.
    pub margin: Duration,
    /// Queue delay plus call latency as measured: where it is more than the margin, no retry is planned later than the
    /// deadline less this. Zero: nothing was measured.
    pub measured: Duration,
}

/// Decides on the next attempt. `floor` is the receiver's own wish.
#[must_use]
pub fn next(policy: &RetryPolicy, room: Room, now: Now, floor: Option<Duration>, random: f64) -> Next {
    let last = last_safe_start(room.deliver_by, room.margin);
    if now.hi > last {
        return Next::Expired;
    }
    if room.made >= policy.attempts.saturating_add(room.granted) {
        return Next::Exhausted;
    }
    let delay = with_jitter(policy_delay(policy, room.made, room.deliver_by.since(now.hi)), random);
    let start = now.hi.plus(delay.max(floor.unwrap_or_default()));
    let last_planned = last_safe_start(room.deliver_by, room.margin.max(room.measured));
    if start > last_planned { Next::NoSafeWindow } else { Next::At(start) }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_796_115_600_000 + ms)
    }

    /// A policy within its bounds, what is left to it, and what the receiver wishes.
    #[derive(Debug, Clone)]
    struct Case {
        policy: RetryPolicy,
        room: Room,
        now: Now,
        floor: Option<Duration>,
        random: f64,
    }

    fn case() -> impl Strategy<Value = Case> {
        let policy = (100_u64..3_600_000, 1_u64..400, 1_u32..=20).prop_map(|(base_ms, factor, attempts)| RetryPolicy {
            base_ms,
            cap_ms: base_ms.saturating_mul(factor).min(86_400_000),
            attempts,
        });
        let left_ms = prop_oneof![-60_000_i64..120_000, 0_i64..100_000_000, 0_i64..100_000_000_000];
        let made = prop_oneof![4 => 1_u32..25, 1 => any::<u32>()];
        let granted = prop_oneof![4 => 0_u32..5, 1 => any::<u32>()];
        let floor = prop_oneof![
            2 => Just(None),
            2 => (0_u64..7_200).prop_map(Some),
            1 => (0..=u64::from(u32::MAX)).prop_map(Some),
        ];
        let measured_ms = prop_oneof![Just(0), 0_u64..1_800_000];
        let room =
            (made, granted, left_ms, 0_u64..60_000, measured_ms).prop_map(|(made, granted, left_ms, margin_ms, measured_ms)| {
                Room {
                    made,
                    granted,
                    deliver_by: at(left_ms),
                    margin: Duration::from_millis(margin_ms),
                    measured: Duration::from_millis(measured_ms),
                }
            });
        (policy, room, 0_i64..2_000, floor, 0.0_f64..1.0).prop_map(|(policy, room, width, floor, random)| Case {
            policy,
            room,
            now: Now { lo: at(0), hi: at(width) },
            floor: floor.map(Duration::from_secs),
            random,
        })
    }

    /// `min(base * 2^(n-1), cap, remaining / 4)`, in numbers that cannot overflow.
    fn delay_by_the_book(case: &Case) -> Duration {
        let Case { policy, room, now, .. } = case;
        let grown = (1..room.made.min(100)).fold(u128::from(policy.base_ms), |grown, _| (grown * 2).min(1 << 64));
        let capped = Duration::from_millis(u64::try_from(grown.min(u128::from(policy.cap_ms))).expect("a cap of 64 bits"));
        capped.min(room.deliver_by.since(now.hi) / 4)
    }

    /// The end is what is stated, and for the stated cause only.
    #[test]
    fn the_next_start_is_the_later_of_policy_and_floor_or_there_is_none_for_a_cause() {
        let config = Config { cases: 2_000, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new(config);
        let seen: RefCell<BTreeMap<&str, u32>> = RefCell::default();
        let outcome = runner.run(&case(), |case| {
            let Case { policy, room, now, floor, random } = case.clone();
            let delay = policy_delay(&policy, room.made, room.deliver_by.since(now.hi));
            prop_assert_eq!(delay, delay_by_the_book(&case));
            prop_assert!(delay <= Duration::from_millis(policy.cap_ms));
            let jittered = with_jitter(delay, random);
            prop_assert!(jittered >= delay && jittered <= delay.mul_f64(1.2));

            let budget = u64::from(policy.attempts) + u64::from(room.granted);
            let last = last_safe_start(room.deliver_by, room.margin);
            let start = now.hi.plus(floor.map_or(jittered, |floor| floor.max(jittered)));
            let (what, expected) = if now.hi > last {
                ("expired", Next::Expired)
            } else if u64::from(room.made) >= budget {
                ("exhausted", Next::Exhausted)
            } else if start > last.min(last_safe_start(room.deliver_by, room.measured)) {
                ("no safe window", Next::NoSafeWindow)
            } else if floor.is_some_and(|floor| floor > jittered) {
                ("by the floor", Next::At(start))
            } else {
                ("by the policy", Next::At(start))
            };
            prop_assert_eq!(next(&policy, room, now, floor, random), expected);
            *seen.borrow_mut().entry(what).or_default() += 1;
            Ok(())
        });
        assert!(outcome.is_ok(), "{}", outcome.expect_err("failed"));
        let seen = seen.into_inner();
        for what in ["expired", "exhausted", "no safe window", "by the floor", "by the policy"] {
            assert!(seen.contains_key(what), "never {what}: {seen:?}");
        }
    }

    #[test]
    fn what_was_measured_ends_planning_before_the_margin_ends_everything() {
        let policy = RetryPolicy { base_ms: 1_000, ..RetryPolicy::default() };
        let now = Now::exactly(at(0));
        let seconds = Duration::from_secs;
        let plan = |left: i64, measured| {
            let room =
                Room { made: 1, granted: 0, deliver_by: at(left * 1_000), margin: seconds(20), measured: seconds(measured) };
            next(&policy, room, now, None, 0.0)
        };
        for (left, measured, expected) in [
            (100, 0, Next::At(at(1_000))),
            (100, 20, Next::At(at(1_000))),
            (21, 0, Next::At(at(1_000))),
            (20, 0, Next::NoSafeWindow),
            (100, 99, Next::At(at(1_000))),
            (99, 99, Next::NoSafeWindow),
            (30, 900, Next::NoSafeWindow),
            (20, 900, Next::NoSafeWindow),
            (19, 900, Next::Expired),
            (19, 0, Next::Expired),
        ] {
            assert_eq!(plan(left, measured), expected, "{left} s left, {measured} s measured");
        }
    }

    proptest! {
        /// Whatever was measured, a retry is only ever taken away, never moved, and nothing expires for it.
        #[test]
        fn what_was_measured_only_takes_retries_away(
            made in 1_u32..12, left_ms in -60_000_i64..4_000_000, margin_ms in 0_u64..60_000, measured_ms in 0_u64..2_000_000,
            random in 0.0_f64..1.0,
        ) {
            let (policy, now) = (RetryPolicy::default(), Now::exactly(at(0)));
            let room = Room {
                made, granted: 0, deliver_by: at(left_ms), margin: Duration::from_millis(margin_ms), measured: Duration::ZERO,
            };
            let measured = Duration::from_millis(measured_ms);
            let (floor, with) = (next(&policy, room, now, None, random), next(&policy, Room { measured, ..room }, now, None, random));
            if measured <= room.margin {
                prop_assert_eq!(with, floor);
            } else {
                let taken = matches!((floor, with), (Next::At(_), Next::NoSafeWindow));
                prop_assert!(with == floor || taken, "{:?} became {:?}", floor, with);
            }
        }
    }

    #[test]
    fn doubles_up_to_the_cap_and_a_quarter_of_what_is_left() {
        let policy = RetryPolicy::default();
        let day = Duration::from_secs(86_400);
        let seconds: Vec<u64> = (1..=9).map(|n| policy_delay(&policy, n, day).as_secs()).collect();
        assert_eq!(seconds, [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(policy_delay(&policy, 9, Duration::from_secs(100)).as_secs(), 25);
    }
}

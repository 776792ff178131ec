//! 12,000 deliveries that are due at once, in virtual time: the shipped handlers, a receiver that takes 100 calls a second.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test reports by panicking")]

use std::time::Duration;

use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_tests::load::receiver::Behaviour;
use punctual_tests::load::{Scenario, play};
use serde_json::json;

const DELIVERIES: u32 = 12_000;
const RATE: u32 = 100;
/// Every twentieth has a near deadline.
const EVERY: u32 = 20;
const HOUR: Duration = Duration::from_secs(3_600);

fn due() -> Timestamp {
    "2027-01-04T08:00:00Z".parse().unwrap()
}

/// A tick 140 s before the due time: what is released early must not stand in anybody's way.
fn scenario(windows: Vec<Duration>, first_tick: u64) -> Scenario {
    Scenario {
        due: due(),
        windows,
        destination: json!({"rate_per_second": RATE, "max_in_flight": 10_000}),
        consumers: 8,
        receiver: Behaviour { latency: Duration::from_millis(80), failing_percent: 0, down: None },
        warm_up: 100,
        first_tick: Duration::from_secs(first_tick),
        give_up: Duration::from_secs(900),
    }
}

/// 600 with a deadline 30 to 60 s after the due time, spread through the order of creation; the others have an hour.
fn some_near() -> Vec<Duration> {
    let window = |n: u32| if n % EVERY == 7 { Duration::from_millis(u64::from(30_000 + n * 30_000 / DELIVERIES)) } else { HOUR };
    (0..DELIVERIES).map(window).collect()
}

#[test]
fn twelve_thousand_at_once_drain_at_the_rate_and_near_deadlines_are_kept() {
    // However the ticks lie to the due time.
    for first_tick in [140, 95] {
        let report = play(&scenario(some_near(), first_tick)).unwrap();
        println!("first tick {first_tick} s before: {}", report.line());
        assert_eq!(report.count(State::Delivered), report.rows.len(), "{:?}", report.runs);
        let missed: Vec<_> = report.missed().into_iter().map(|row| (row.deliver_by, row.history.clone())).take(3).collect();
        assert!(missed.is_empty(), "{missed:?}");
        let ideal = Duration::from_secs(u64::from(DELIVERIES / RATE));
        assert!(report.drained_after() <= ideal.mul_f64(1.05), "{:?}", report.drained_after());
        assert_eq!(report.most_attempts(), 1);
    }
}

/// 300 at 2 calls a second, the last 50 with a deadline so near that they go in front, and room for 100.
#[test]
fn a_run_says_what_it_could_release_what_was_out_and_how_far_it_spread() {
    let windows = (0..300).map(|n| Duration::from_secs(if n < 250 { 3_600 } else { 100 })).collect();
    let capacity = json!({"rate_per_second": 2, "max_in_flight": 100});
    let report = play(&Scenario { destination: capacity, warm_up: 0, ..scenario(windows, 0) }).unwrap();
    let [early, late, at_due, next] = [0, 1, 2, 3].map(|n| report.runs[n].summary);
    // Two minutes before: the last 30 s of the horizon have 61 slots, and none of them is a kept one.
    assert_eq!((early.budget, early.outstanding, early.released.published, early.left), (100, 0, 61, 239));
    assert_eq!((early.reserve_used, early.spread_seconds), (0, 30));
    // The last ten places are kept.
    assert_eq!((late.budget, late.outstanding, late.released.published), (39, 61, 29));
    assert_eq!((at_due.budget, at_due.outstanding, at_due.released.published), (10, 90, 0));
    assert!(next.outstanding < 90 && next.released.published > 0, "{next:?}");
    assert!(report.missed().is_empty(), "{:?}", report.runs);
}

//! What the limiter and the breaker add to the load scenarios of `load.rs`: no second above rate and burst, and a receiver
//! that is down for ten minutes.
#![allow(clippy::unwrap_used, reason = "a test reports by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::delivery::Delivery;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_tests::load::receiver::Behaviour;
use punctual_tests::load::report::Report;
use punctual_tests::load::{Scenario, play};
use serde_json::json;

const DELIVERIES: u32 = 12_000;
const RATE: usize = 100;
/// A destination's default: a fifth of the rate.
const BURST: usize = 20;
const DOWN: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3_600);

fn scenario(windows: Vec<Duration>) -> Scenario {
    let due: Timestamp = "2027-01-04T08:00:00Z".parse().unwrap();
    Scenario {
        due,
        windows,
        destination: json!({"rate_per_second": RATE, "max_in_flight": 10_000}),
        consumers: 8,
        receiver: Behaviour { latency: Duration::from_millis(80), failing_percent: 0, down: None },
        warm_up: 100,
        first_tick: Duration::from_secs(140),
        give_up: Duration::from_secs(4_000),
    }
}

#[test]
fn no_second_of_a_backlog_is_fuller_than_rate_and_burst() {
    let windows = (0..DELIVERIES).map(|n| if n % 20 == 7 { Duration::from_secs(60) } else { HOUR }).collect();
    let report = play(&scenario(windows)).unwrap();
    println!("{}", report.line());
    assert_eq!(report.count(State::Delivered), report.rows.len());
    assert!(report.fullest_second() <= RATE + BURST, "{}", report.fullest_second());
}

/// 600 cannot be kept: their deadlines are over before the receiver is back. The others have 30 to 60 minutes.
#[test]
fn a_receiver_that_is_down_for_ten_minutes_costs_no_more_than_it_must() {
    let window = |n: u32| match n % 20 {
        7 => Duration::from_secs(u64::from(180 + n % 360)),
        _ => Duration::from_secs(1_800 + u64::from(n * 7_919 % 1_800)),
    };
    let mut scenario = scenario((0..DELIVERIES).map(window).collect());
    scenario.receiver.down = Some((scenario.due.minus(Duration::from_secs(1)), scenario.due.plus(DOWN)));
    let back = scenario.due.plus(DOWN);
    let report = play(&scenario).unwrap();
    println!("{}", report.line());
    let (lost, kept): (Vec<&Delivery>, Vec<&Delivery>) = report.rows.iter().partition(|row| row.deliver_by < back);
    assert_eq!(lost.len(), 600);
    assert!(lost.iter().all(|row| row.state == State::Expired || row.state == State::Dead));
    assert!(kept.iter().all(|row| row.state == State::Delivered), "{} are not delivered", report.missed().len() - lost.len());
    assert_eq!(report.missed().len(), lost.len(), "some were accepted after their deadline");
    assert!(report.most_attempts() <= 3, "{} attempts", report.most_attempts());
    assert!(report.fullest_second() <= RATE + BURST, "{}", report.fullest_second());
    assert_eq!(overtaken(&report, back), Vec::<String>::new(), "released after rows with a later deadline");
}

/// Rows that lay in the ledger when a run after `back` released one with a later deadline, and had to wait for a later run.
fn overtaken(report: &Report, back: Timestamp) -> Vec<String> {
    let released = |row: &&Delivery| {
        let at = row.history.iter().rposition(|entry| entry.state == State::Dispatching)?;
        let since = row.history.get(at.checked_sub(1)?)?.at;
        Some((row.history.get(at)?.at, since))
    };
    let after: Vec<(Timestamp, Timestamp, &Delivery)> = report
        .rows
        .iter()
        .filter_map(|row| released(&row).map(|(at, since)| (at, since, row)))
        .filter(|(at, ..)| *at >= back)
        .collect();
    assert!(after.len() > 10_000, "{} were released after the receiver was back", after.len());
    let tick = Duration::from_secs(30);
    let mut runs: BTreeMap<Timestamp, Timestamp> = BTreeMap::new();
    for (at, _, row) in &after {
        let latest = runs.entry(*at).or_insert(row.deliver_by);
        *latest = row.deliver_by.max(*latest);
    }
    let is_overtaken = |at: Timestamp, since: Timestamp, row: &Delivery| {
        runs.range(since..).take_while(|(run, _)| run.plus(tick) < at).any(|(_, latest)| *latest > row.deliver_by)
    };
    after
        .iter()
        .filter(|(at, since, row)| is_overtaken(*at, *since, row))
        .map(|(at, since, row)| format!("{} {since} {at} {}", row.id, row.deliver_by))
        .collect()
}

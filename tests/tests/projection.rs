//! The projection in virtual time: a backlog that is in time until its rate is halved. Monitor must say so before the first
//! deadline is missed, and how many will be.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test reports by panicking")]

use std::time::Duration;

use punctual_core::delivery::{Delivery, NewDelivery};
use punctual_core::figures::Figures;
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, Reference};
use punctual_core::retry::last_safe_start;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_monitor::Memory;
use punctual_monitor::metrics::metrics;
use punctual_tests::alarms::{self, Stream};
use punctual_tests::environment::{Environment, MARGIN};
use punctual_tests::load::receiver::Behaviour;
use punctual_tests::load::report::Report;
use punctual_tests::load::{Besides, Scenario, play_with};
use serde_json::json;

const DELIVERIES: u32 = 12_000;
const MINUTE: Duration = Duration::from_secs(60);
/// The first quarter of them must be called within so long, the others within so long.
const WINDOWS: [Duration; 2] = [Duration::from_secs(110), Duration::from_secs(230)];
/// When the rate is halved: about two fifths have been delivered.
const HALVED: Duration = Duration::from_secs(60);

fn due() -> Timestamp {
    "2027-01-04T08:00:00Z".parse().unwrap()
}

/// 12,000 due at once, 100 calls a second, every fifth of which fails.
fn played(halved: bool) -> Report {
    let scenario = Scenario {
        due: due(),
        windows: (0..DELIVERIES).map(|n| WINDOWS[usize::from(n % 4 > 0)]).collect(),
        destination: json!({
            "rate_per_second": 100, "max_in_flight": 10_000, "retry": {"base_ms": 2_000, "cap_ms": 30_000, "attempts": 10},
        }),
        consumers: 8,
        receiver: Behaviour { latency: Duration::from_millis(80), failing_percent: 20, down: None },
        warm_up: 100,
        first_tick: Duration::from_secs(140),
        give_up: Duration::from_secs(900),
    };
    let changes = if halved { vec![(HALVED, json!({"rate_per_second": 50}))] } else { Vec::new() };
    let report = play_with(&scenario, &Besides { changes, monitored: true }).unwrap();
    println!("{}", report.line());
    for look in &report.looks {
        println!("    {} late {} in {} s, drained in {} s", look.at, look.late, look.breach_in_seconds, look.drain_seconds);
    }
    report
}

/// The first minute at whose end this alarm is in alarm, given what monitor said.
fn paged(name: &str, looks: &[Figures]) -> Option<Timestamp> {
    let mut stream = Stream::default();
    looks.iter().for_each(|look| stream.note_all("dev", "monitor", look.at, &metrics(look)));
    let alarm = alarms::alarms("dev").unwrap().remove(name).unwrap();
    let mut state = alarms::State::Ok;
    // Whole minutes, from the one in which the first look was.
    let first = looks.first()?.at.as_seconds().div_euclid(60) * 60_000;
    let minutes = (1..)
        .map(|n| Timestamp::from_millis(first).plus(MINUTE * n))
        .take_while(|at| *at <= looks.last().unwrap().at.plus(MINUTE));
    for at in minutes {
        state = alarm.state(&stream, at, state);
        if state == alarms::State::Alarm {
            return Some(at);
        }
    }
    None
}

#[test]
fn a_rate_that_suffices_pages_nobody() {
    let report = played(false);
    // A handful fails again and again until the end: nobody foresees that.
    assert!(report.missed().len() < 20, "{} missed", report.missed().len());
    assert!(report.looks.iter().all(|look| look.late == 0 && look.breach_in_seconds == 86_400));
    assert_eq!(paged("ProjectedLateAlarm", &report.looks), None);
}

#[test]
fn a_halved_rate_pages_before_the_first_breach_and_tells_how_many() {
    let report = played(true);
    let missed = report.missed();
    let first_breach = missed.iter().map(|row| last_safe_start(row.deliver_by, MARGIN)).min().unwrap();
    let changed = due().plus(HALVED);
    let (before, after): (Vec<&Figures>, Vec<&Figures>) = report.looks.iter().partition(|look| look.at < changed);
    assert!(before.iter().all(|look| look.late == 0));

    // The very next look knows it, to the tenth.
    let told = after[0].late;
    let actual = u64::try_from(missed.len()).unwrap();
    println!("told {told} late after the change, {actual} were missed");
    assert!(actual > 500, "{actual}: the scenario has something to tell");
    assert!(told.abs_diff(actual) * 10 <= actual, "{told} of {actual}");
    assert_eq!(due().plus(WINDOWS[1]).minus(MARGIN), first_breach);
    let foreseen = after[0].at.plus(Duration::from_secs(after[0].breach_in_seconds));
    assert!(first_breach.since(foreseen) <= Duration::from_secs(1), "{foreseen} {first_breach}");

    let page = paged("ProjectedLateAlarm", &report.looks).unwrap();
    println!("paged at {page}, {:?} after the change; the first breach is at {first_breach}", page.since(changed));
    assert!(changed < page && page < first_breach);
    assert!(
        missed.iter().all(|row| row.state == State::Expired || row.state == State::Dead),
        "they are missed promises, told as such"
    );
}

#[tokio::test]
async fn an_overbooked_window_pages_most_of_a_day_before() {
    let now = due();
    let environment = Environment::new(now);
    environment
        .register("acme", "https://receiver.invalid/", json!({"rate_per_second": 10, "max_in_flight": 10_000}))
        .await
        .unwrap();
    let later = now.plus(Duration::from_secs(20 * 3_600));
    for n in 0..DELIVERIES {
        let id = DeliveryId::new(format!("dlv_{n}")).unwrap();
        let new = NewDelivery {
            idempotency_key: IdempotencyKey::from(&id),
            reference: Reference::new("c-1").unwrap(),
            destination: DestinationId::new("acme").unwrap(),
            shard: u16::try_from(n % 2).unwrap(),
            content: Content::new("abc").unwrap(),
            deliver_after: later,
            // 10 calls a second until the last safe start: 9,000.
            deliver_by: later.plus(Duration::from_secs(920)),
            id,
        };
        environment.ledger.put_row(Delivery::new(new, now, Correlation::new("test").unwrap()));
    }
    let memory = Memory::default();
    let mut looks = Vec::new();
    for _ in 0..3 {
        environment.time.advance(MINUTE);
        looks.push(environment.monitor(&memory).await.unwrap());
    }
    assert_eq!((looks[0].overbooked, looks[0].late_later, looks[0].late), (1, 3_000, 0));
    assert_eq!(looks[0].offenders[0].overbooked_from, Some(later));
    let page = paged("OverbookedAlarm", &looks).unwrap();
    assert!(later.since(page) > Duration::from_secs(19 * 3_600), "{page}");
    assert_eq!(paged("ProjectedLateAlarm", &looks), None, "nothing is late yet");
}

//! I ask what falls due against what can be called: inspect over the in-memory ports, at an instant of my choice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_adapters::memory::{MemoryControl, MemoryDeadLetters, MemoryLedger};
use punctual_core::clock::{ClockError, Now};
use punctual_core::delivery::{Delivery, NewDelivery};
use punctual_core::destination::{Change, Destination, Pause};
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, Reference};
use punctual_core::ports::{Control as _, Time};
use punctual_core::time::Timestamp;
use punctual_inspect::{Inspect, Response};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// 09:00 and so many seconds.
fn at(s: i64) -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000 + s * 1_000)
}

/// A clock that stands, and an invocation that is shorter by a second each time somebody asks.
struct Standing(AtomicU64);

impl Time for Standing {
    fn now(&self) -> Result<Now, ClockError> {
        Ok(Now::exactly(at(0)))
    }

    fn time_left(&self) -> Duration {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        Duration::from_secs(left)
    }

    async fn wait_until(&self, at: Timestamp) -> Result<Now, ClockError> {
        Ok(Now::exactly(at))
    }

    async fn pause(&self, _how_long: Duration) {}

    fn random(&self) -> f64 {
        0.5
    }

    fn unique(&self) -> String {
        "owner".to_owned()
    }
}

#[derive(Default)]
struct World {
    ledger: MemoryLedger,
    control: MemoryControl,
}

impl World {
    async fn destination(&self, id: &str, change: Value) -> Destination {
        let mut spec = json!({"id": id, "url": "https://hooks.example.com/", "secrets": ["punctual/prod/acme"]});
        spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let changed = Change { at: at(0), by: "ops".into(), why: "test".into() };
        let destination = Destination { spec: serde_json::from_value(spec).unwrap(), version: 1, paused: None, changed };
        self.control.put_destination(&destination, 0).await.unwrap();
        destination
    }

    /// Scheduled rows, in turn over the two lanes.
    fn rows(&self, destination: &str, count: usize, after: i64, by: i64) {
        for n in 0..count {
            let id = DeliveryId::new(format!("dlv_{destination}-{after}-{n}")).unwrap();
            let new = NewDelivery {
                idempotency_key: IdempotencyKey::from(&id),
                reference: Reference::new("c-1").unwrap(),
                destination: DestinationId::new(destination).unwrap(),
                shard: u16::from(n % 2 == 1),
                content: Content::new("abc").unwrap(),
                deliver_after: at(after),
                deliver_by: at(by),
                id,
            };
            self.ledger.put_row(Delivery::new(new, at(0), Correlation::new("test").unwrap()));
        }
    }

    async fn ask_within(&self, seconds: u64, question: Value) -> Response {
        let mut event = json!({"action": "capacity"});
        event.as_object_mut().unwrap().extend(question.as_object().unwrap().clone());
        let time = Standing(AtomicU64::new(seconds));
        let (ledger, control, letters) = (&self.ledger, &self.control, &MemoryDeadLetters::default());
        let inspect =
            Inspect { ledger, control, letters, time: &time, margin: Duration::from_secs(10), tick: Duration::from_secs(60) };
        inspect.handle(&RawValue::from_string(event.to_string()).unwrap()).await.unwrap()
    }

    async fn ask(&self, question: Value) -> Response {
        self.ask_within(10_000, question).await
    }
}

#[tokio::test]
async fn the_arithmetic_is_shown() {
    let world = World::default();
    world.destination("crm", json!({"rate_per_second": 10, "max_in_flight": 10_000, "total_timeout_ms": 5_000})).await;
    world.rows("crm", 9_000, 900, 4_500);
    world.rows("crm", 1_000, 3_600, 3_660);
    let answer = world.ask(json!({"destination_id": "crm"})).await;
    let expected = [
        "What falls due from 2026-12-01T09:00:00Z to 2026-12-02T09:00:00Z, from 10,000 entries of the wake index.",
        "crm: 10 calls/s less 20 % for redrives = 8/s; 100 calls for 100 deliveries (no retries, assumed); 10,000 deliveries.",
        "  consumers: 10/s × 5,000 ms (its total timeout) = 50 calls at once: 50 consumers at batch size 1, 5 at 10.",
        "  2026-12-01 09:15-09:30: 9,000 due + 0 carried, 8/s → 1,125 s; nearest deadline 2026-12-01T10:15:00Z: fine; 1,800 carried on",
        "  2026-12-01 09:30-09:45: 0 due + 1,800 carried, 8/s → 225 s; nearest deadline 2026-12-01T10:15:00Z: fine",
        "  2026-12-01 10:00-10:15: 1,000 due + 0 carried, 8/s → 125 s; nearest deadline 2026-12-01T10:01:00Z: 600 TOO LATE",
    ];
    assert_eq!(answer.text[..6], expected);
    assert!(answer.text[6].starts_with("  FIRST BREACH 2026-12-01 10:00-10:15: "), "{}", answer.text[6]);
    assert!(answer.text[6].contains(" must start by 2026-12-01T10:00:50Z, and 8/s takes 400; 600 are too late in all"));
    let report = answer.capacity.unwrap();
    assert!(answer.ok && report.complete && answer.text.len() == 7, "{:?}", answer.text);
    assert_eq!(report.destinations[0].forecast.breach.as_ref().unwrap().since, at(3_600));

    // What is stated is used, and said.
    let question =
        json!({"destination_id": "crm", "latency_ms": 250, "amplification_percent": 120, "hours": 1, "window_minutes": 60});
    let answer = world.ask(question).await;
    let text = answer.text.join("\n");
    assert!(text.contains("120 calls for 100 deliveries (as stated); 9,000 deliveries."), "{text}");
    assert!(text.contains("10/s × 250 ms (as stated) = 3 calls at once: 3 consumers at batch size 1, 1 at 10."), "{text}");
    assert!(text.contains("09:00-10:00: 9,000 due + 0 carried, × 120 % = 10,800 calls, 8/s → 1,350 s"), "{text}");
    assert!(text.contains("no breach") && text.contains("2026-12-01T09:37:30Z"), "900 s and 1,350 s: {text}");
}

#[tokio::test]
async fn all_destinations_are_answered_up_to_twenty_and_the_rest_is_named() {
    let world = World::default();
    for n in 0..22 {
        world.destination(&format!("d{n:02}"), json!({})).await;
    }
    let mut paused = world.control.destinations().await.unwrap().remove(1);
    paused.paused = Some(Pause { since: at(0), by: "ops".into(), why: "test".into() });
    paused.version = 2;
    world.control.put_destination(&paused, 1).await.unwrap();
    let answer = world.ask(json!({})).await;
    let report = answer.capacity.unwrap();
    assert_eq!((report.destinations.len(), report.complete), (20, false));
    assert_eq!(report.left_out.iter().map(ToString::to_string).collect::<Vec<_>>(), ["d20", "d21"]);
    assert!(
        answer.text[0].ends_with("2 more destinations are left out, ask for them by name. INCOMPLETE."),
        "{}",
        answer.text[0]
    );
    assert_eq!(answer.text.iter().filter(|line| line.starts_with("  paused: ")).count(), 1);
    assert!(answer.text.iter().any(|line| line.contains("max_in_flight 1,000 is less than the 2,400 calls of a minute")));
}

#[tokio::test]
async fn a_reading_that_ends_early_says_how_far_it_got() {
    let world = World::default();
    world.destination("crm", json!({"max_in_flight": 10_000})).await;
    for hour in 0..6 {
        world.rows("crm", 1_000, hour * 3_600, 80_000);
    }
    // Pages of 1,000, two lanes of 3,000: each needs three, and there is time for four.
    let answer = world.ask_within(8, json!({})).await;
    let report = answer.capacity.unwrap();
    let told = &report.destinations[0];
    assert_eq!((report.entries_read, report.complete, told.complete), (4_000, false, false));
    assert_eq!(told.read_until, at(3 * 3_600), "two pages of each lane are the first four hours");
    assert_eq!(told.forecast.deliveries, 3_000, "of the fourth hour there may be more");
    assert!(told.forecast.windows.iter().all(|window| window.until <= told.read_until));
    assert!(
        answer.text.iter().any(|line| line.contains("INCOMPLETE: read up to 2026-12-01T12:00:00Z only")),
        "{:?}",
        answer.text
    );
    // No time at all: nothing is said.
    let answer = world.ask_within(0, json!({})).await.capacity.unwrap();
    assert_eq!((answer.entries_read, answer.destinations[0].read_until), (0, at(0)));
    assert!(answer.destinations[0].forecast.windows.is_empty());
}

#[tokio::test]
async fn bad_questions_name_their_fields() {
    let world = World::default();
    world.destination("crm", json!({})).await;
    for (question, code, field) in [
        (json!({"destination_id": "nowhere"}), "unknown_destination", "destination_id"),
        (json!({"destination_id": 7}), "invalid_field", "destination_id"),
        (json!({"destination": "crm"}), "unknown_field", "destination"),
        (json!({"hours": 0}), "out_of_bounds", "hours"),
        (json!({"hours": 25}), "out_of_bounds", "hours"),
        (json!({"hours": -1}), "invalid_field", "hours"),
        (json!({"window_minutes": 4}), "out_of_bounds", "window_minutes"),
        (json!({"window_minutes": 241}), "out_of_bounds", "window_minutes"),
        (json!({"latency_ms": 0}), "out_of_bounds", "latency_ms"),
        (json!({"latency_ms": 20_001}), "out_of_bounds", "latency_ms"),
        (json!({"amplification_percent": 99}), "out_of_bounds", "amplification_percent"),
        (json!({"amplification_percent": 2_001}), "out_of_bounds", "amplification_percent"),
    ] {
        let answer = world.ask(question.clone()).await;
        let told: Vec<(&str, &str)> = answer.errors.iter().map(|error| (error.code, error.field.as_str())).collect();
        assert_eq!((answer.ok, told), (false, vec![(code, field)]), "{question}");
        assert!(answer.capacity.is_none() && answer.text.is_empty());
    }
    let all = world.ask(json!({"hours": 0, "latency_ms": 0})).await;
    assert_eq!(all.errors.len(), 2, "all at once");
}

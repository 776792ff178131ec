//! I send the same reminders again and again: schedule over the in-memory ports, at instants of my choice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

#[path = "schedule/moves.rs"]
mod moves;
#[path = "schedule/producer.rs"]
mod producer;
#[path = "schedule/rules.rs"]
mod rules;

use std::sync::Mutex;
use std::time::Duration;

use punctual_adapters::memory::{MemoryControl, MemoryLedger, MemoryQueue};
use punctual_core::clock::{ClockError, Now};
use punctual_core::destination::{Change, Destination};
use punctual_core::id::Correlation;
use punctual_core::ports::{Control as _, Time};
use punctual_core::time::Timestamp;
use punctual_flows::release::Rules;
use punctual_schedule::Schedule;
use punctual_schedule::result::{Answer, Response};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A clock that stands where it is put.
struct Standing(Mutex<Timestamp>);

impl Time for Standing {
    fn now(&self) -> Result<Now, ClockError> {
        Ok(Now::exactly(*self.0.lock().unwrap()))
    }

    fn time_left(&self) -> Duration {
        Duration::from_secs(60)
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

struct World {
    ledger: MemoryLedger,
    control: MemoryControl,
    queue: MemoryQueue,
    time: Standing,
}

impl World {
    async fn new() -> Self {
        let now: Timestamp = "2026-12-01T09:00:00Z".parse().unwrap();
        let spec = json!({"id": "acme", "url": "https://hooks.example.com/", "secrets": ["punctual/prod/acme"]});
        let changed = Change { at: now, by: "ops".into(), why: "test".into() };
        let destination = Destination { spec: serde_json::from_value(spec).unwrap(), version: 1, paused: None, changed };
        let world = Self {
            ledger: MemoryLedger::default(),
            control: MemoryControl::default(),
            queue: MemoryQueue::new(now),
            time: Standing(Mutex::new(now)),
        };
        world.control.put_destination(&destination, 0).await.unwrap();
        world
    }

    async fn at(&self, now: &str, reminders: &[Value]) -> Response {
        self.send(now, &json!({"action": "schedule", "reminders": reminders})).await
    }

    async fn send(&self, now: &str, event: &Value) -> Response {
        *self.time.0.lock().unwrap() = now.parse().unwrap();
        let event = event.to_string();
        let schedule = Schedule {
            ledger: &self.ledger,
            control: &self.control,
            queue: &self.queue,
            time: &self.time,
            rules: Rules { horizon: Duration::from_secs(150), lease: Duration::from_secs(30) },
            tick: Duration::from_secs(60),
            margin: Duration::from_secs(10),
            by: Correlation::of_request("test"),
        };
        schedule.handle(&RawValue::from_string(event).unwrap()).await.unwrap()
    }
}

fn reminder(subscriber: &str, more: &Value) -> Value {
    let mut reminder = json!({
        "tenant": "acme", "subscriber": subscriber, "renewal_period": "2027", "reminder_kind": "first",
        "destination_id": "acme", "reference": "C-1", "payload": {"n": 1},
        "deliver_after": "2026-12-01T12:00:00Z", "deliver_by": "2026-12-01T13:00:00Z",
    });
    reminder.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    reminder
}

fn answers(response: &Response) -> Vec<Answer> {
    response.results.iter().map(|result| result.answer).collect()
}

#[tokio::test]
async fn the_same_file_again_is_unchanged_even_after_its_deadlines() {
    let world = World::new().await;
    let file = [reminder("a", &json!({})), reminder("b", &json!({}))];
    assert_eq!(answers(&world.at("2026-12-01T09:00:00Z", &file).await), [Answer::Created, Answer::Created]);
    assert_eq!(answers(&world.at("2026-12-01T09:01:00Z", &file).await), [Answer::Unchanged, Answer::Unchanged]);
    let late = [file[0].clone(), reminder("new", &json!({})), reminder("b", &json!({"reference": "C-2"}))];
    let response = world.at("2026-12-02T09:00:00Z", &late).await;
    assert_eq!(answers(&response), [Answer::Unchanged, Answer::Invalid, Answer::Conflict]);
    assert_eq!(
        (response.results[1].errors[0].code, response.results[1].errors[0].field.as_str()),
        ("in_the_past", "reminders[1].deliver_by")
    );
    assert_eq!(response.results[2].conflicts, ["reference"]);
    assert_eq!(world.ledger.rows().len(), 2, "nothing was stored too late");
}

#[tokio::test]
async fn no_two_deliveries_have_one_key() {
    let world = World::new().await;
    let derived = world.at("2026-12-01T09:00:00Z", &[reminder("a", &json!({}))]).await.results[0].delivery_id.clone().unwrap();
    let stolen = reminder("b", &json!({"migrated": {"delivery_id": "old-1", "idempotency_key": derived}}));
    let response = world.at("2026-12-01T09:00:00Z", &[stolen]).await;
    assert_eq!(response.results[0].errors[0].field, "reminders[0].migrated.idempotency_key");

    let first = reminder("c", &json!({"migrated": {"delivery_id": "old-2", "idempotency_key": "key-2"}}));
    let other_key = reminder("c", &json!({"migrated": {"delivery_id": "old-2", "idempotency_key": "key-3"}}));
    let same_key = reminder("d", &json!({"migrated": {"delivery_id": "old-3", "idempotency_key": "key-2"}}));
    let underived = reminder("c", &json!({}));
    let response = world.at("2026-12-01T09:00:00Z", &[first]).await;
    assert_eq!(answers(&response), [Answer::Created]);
    let response = world.at("2026-12-01T09:00:00Z", &[other_key, same_key]).await;
    assert_eq!(answers(&response), [Answer::Conflict, Answer::Conflict]);
    assert_eq!(response.results[0].conflicts, ["idempotency_key"]);
    assert_eq!(answers(&world.at("2026-12-01T09:00:00Z", &[underived]).await), [Answer::Conflict]);
}

#[tokio::test]
async fn a_call_takes_each_reminder_once_whatever_the_second_one_says() {
    let migrated = |subscriber: &str, id: &str, key: &str| {
        reminder(subscriber, &json!({"migrated": {"delivery_id": id, "idempotency_key": key}}))
    };
    let file = [
        reminder("a", &json!({"destination_id": "nowhere"})),
        reminder("a", &json!({})),
        reminder("a", &json!({})),
        reminder("a", &json!({"payload": {"n": 2}})),
        migrated("b", "old-1", "key-1"),
        reminder("b", &json!({})),
        migrated("c", "old-1", "key-2"),
        migrated("d", "old-2", "key-1"),
        reminder("e", &json!({})),
    ];
    let duplicate = |i: usize, first: usize| {
        (i, "duplicate", format!("reminders[{i}]"), format!("each delivery once; reminders[{first}] is it already"))
    };
    let key = "reminders[7].migrated.idempotency_key";
    let expected = [
        (0, "unknown_destination", "reminders[0].destination_id".into(), "a destination that operate has registered".into()),
        duplicate(2, 1),
        duplicate(3, 1),
        duplicate(5, 4),
        duplicate(6, 4),
        (7, "duplicate", key.into(), "each key once; reminders[4] has it already".into()),
    ];
    // What may not be stored now takes no name away: the corrected one after it counts.
    let past = json!({"deliver_after": "2026-11-01T09:00:00Z", "deliver_by": "2026-11-01T10:00:00Z"});
    let world = World::new().await;
    let corrected = world.at("2026-12-01T09:00:00Z", &[reminder("a", &past), reminder("a", &json!({}))]).await;
    assert_eq!(corrected.results[1].answer, Answer::Created, "{corrected:?}");
    assert_eq!(world.ledger.rows().len(), 1);
    for action in ["preview", "schedule"] {
        let world = World::new().await;
        let response = world.send("2026-12-01T09:00:00Z", &json!({"action": action, "reminders": file})).await;
        let errors =
            response.results.iter().enumerate().flat_map(|(i, one)| {
                one.errors.iter().map(move |error| (i, error.code, error.field.clone(), error.message.clone()))
            });
        assert_eq!(errors.collect::<Vec<_>>(), expected, "{action}");
        assert_eq!(response.summary.created + response.summary.would_create, 3, "{action}");
    }
}

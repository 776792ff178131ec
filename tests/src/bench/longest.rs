//! I am reminders and a destination with every field as long as it may be, and a body of 512 bytes.

use std::time::Duration;

use anyhow::{Context as _, Result};
use punctual_adapters::clock::machine_time;
use punctual_core::destination::{Change, Destination, Pause};
use punctual_core::id::{DeliveryId, DestinationId, IdempotencyKey, Reference};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// The request body's length, in bytes.
pub(super) const BODY_BYTES: usize = 512;
/// The longest id of a signing secret, in characters.
const SECRET_ID: usize = 24;
/// A destination may have so many active secrets.
const SECRETS: usize = 3;

/// A text that begins with `start` and is `length` bytes long.
pub(super) fn text(start: &str, length: usize) -> String {
    format!("{start:x<length$}")
}

/// The ids of the destination's signing secrets.
pub(super) fn secret_ids() -> Vec<String> {
    (0..SECRETS).map(|n| text(&format!("key-{n}-"), SECRET_ID)).collect()
}

/// The destination, paused or not. It can take more than any measurement sends.
pub(super) fn destination(version: u64, paused: bool) -> Result<Destination> {
    let spec = json!({
        "id": text("destination", DestinationId::MAX),
        "url": "https://receiver.invalid/hooks",
        "secrets": secret_ids().iter().map(|id| format!("punctual/bench/{id}")).collect::<Vec<_>>(),
        "rate_per_second": 1_000,
        "max_in_flight": 10_000,
    });
    let at = machine_time();
    let (by, why) = ("bench".to_owned(), "a measurement".to_owned());
    Ok(Destination {
        spec: serde_json::from_value(spec).context("a destination")?,
        version,
        paused: paused.then(|| Pause { since: at, by: by.clone(), why: why.clone() }),
        changed: Change { at, by, why },
    })
}

/// A reminder that is due as `when` says.
pub(super) fn reminder(n: usize, when: Value) -> Value {
    let mut reminder = json!({
        "tenant": text("tenant", 32),
        "subscriber": text(&format!("subscriber-{n}-"), 64),
        "renewal_period": text("2027", 32),
        "reminder_kind": text("kind", 32),
        "destination_id": text("destination", DestinationId::MAX),
        "reference": text(&format!("reference-{n}-"), Reference::MAX),
        "payload": { "text": text("", BODY_BYTES - r#"{"text":""}"#.len()) },
    });
    if let (Some(fields), Value::Object(when)) = (reminder.as_object_mut(), when) {
        fields.extend(when);
    }
    reminder
}

/// An event for schedule with these reminders, due since a few seconds and for another hour.
pub(super) fn event(numbers: std::ops::Range<usize>, migrated: bool) -> Result<Box<RawValue>> {
    let now = machine_time();
    let due = now.minus(Duration::from_secs(5));
    let reminders: Vec<Value> = numbers
        .map(|n| {
            let mut reminder = reminder(n, json!({"deliver_after": due, "deliver_by": now.plus(Duration::from_secs(3_600))}));
            if let (true, Some(fields)) = (migrated, reminder.as_object_mut()) {
                let id = text(&format!("old-{n}-"), DeliveryId::MAX);
                let key = text(&format!("key-{n}-"), IdempotencyKey::MAX);
                fields.insert("migrated".to_owned(), json!({"delivery_id": id, "idempotency_key": key}));
            }
            reminder
        })
        .collect();
    to_raw_value(&json!({"action": "schedule", "reminders": reminders})).context("an event")
}

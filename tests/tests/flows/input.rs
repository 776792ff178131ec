//! Bad input to schedule, operate and inspect: a code and a path for each thing that is wrong, no word of what was sent,
//! and the good neighbours stored and delivered.

use std::time::Duration;

use punctual_adapters::clock::machine_time;
use punctual_core::state::State;
use serde_json::{Value, json};

use crate::world::{SECRET_NAME, World, id, list, reminder};

/// A word that is in every payload and subscriber here, and must be in no answer.
const PRIVATE: &str = "private-marker";

/// (code, path) of every error.
fn errors(answer: &Value) -> Vec<(String, String)> {
    let text = |error: &Value, name: &str| error[name].as_str().unwrap().to_owned();
    for error in list(&answer["errors"]) {
        assert!(!text(error, "message").is_empty(), "{error}");
    }
    list(&answer["errors"]).iter().map(|error| (text(error, "code"), text(error, "field"))).collect()
}

fn one(code: &str, field: impl Into<String>) -> Vec<(String, String)> {
    vec![(code.to_owned(), field.into())]
}

#[tokio::test(flavor = "multi_thread")]
async fn schedule_names_what_is_wrong_and_takes_the_good_neighbours() {
    let world = World::start().await;
    world.destination("good", "healthy", json!({})).await;
    let now = machine_time();
    let (soon, hour) = (Duration::from_secs(60), Duration::from_secs(3_600));
    let good = |n: usize| {
        let mut one = reminder("good", n, now, now.plus(hour));
        one["subscriber"] = json!(format!("{PRIVATE}-{n}"));
        one["payload"]["text"] = json!(PRIVATE);
        one
    };
    // Each is another reminder: of two with one identity the second would be refused for that.
    let count = std::cell::Cell::new(900);
    let next = || count.replace(count.get() + 1);
    let but = |change: Value| {
        let mut one = good(next());
        one.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        one
    };
    let without = |field: &str| {
        let mut one = good(next());
        one.as_object_mut().unwrap().remove(field);
        one
    };
    let large = format!("{PRIVATE}{}", "x".repeat(256 * 1024));
    let bad: Vec<(Value, &str, &str)> = vec![
        (but(json!({"payload": {"text": large}})), "too_large", "payload"),
        (but(json!({"deliver_after": now.minus(hour), "deliver_by": now.minus(soon)})), "in_the_past", "deliver_by"),
        (but(json!({"deliver_by": now})), "not_after", "deliver_by"),
        (but(json!({"deliver_after": now.plus(hour), "deliver_by": now.plus(soon)})), "not_after", "deliver_by"),
        (
            but(json!({"deliver_after": now.plus(hour), "deliver_by": now.plus(hour).plus(Duration::from_millis(1))})),
            "too_narrow",
            "deliver_by",
        ),
        (but(json!({"destination_id": "nowhere"})), "unknown_destination", "destination_id"),
        (but(json!({"priority": PRIVATE})), "unknown_field", "priority"),
        (but(json!({"migrated": {"delivery_id": "old-1", "key": PRIVATE}})), "unknown_field", "migrated.key"),
        (but(json!({"migrated": {"delivery_id": "dlv_mine"}})), "reserved", "migrated.delivery_id"),
        (but(json!({"subscriber": {"name": PRIVATE}})), "invalid_field", "subscriber"),
        (but(json!({"deliver_by": format!("{PRIVATE} o'clock")})), "invalid_field", "deliver_by"),
        (but(json!({"deliver_by": "2027-01-01T09:00:00"})), "invalid_field", "deliver_by"),
        (without("payload"), "missing_field", "payload"),
        (without("tenant"), "missing_field", "tenant"),
        (but(json!({"destination_id": "d".repeat(33)})), "invalid_field", "destination_id"),
        (but(json!({"migrated": {"delivery_id": "m".repeat(65)}})), "invalid_field", "migrated.delivery_id"),
        (but(json!({"subscriber": format!("{PRIVATE}{}", "s".repeat(60))})), "out_of_bounds", "subscriber"),
        (json!(PRIVATE), "invalid_field", ""),
        (json!([PRIVATE]), "invalid_field", ""),
        (Value::Null, "invalid_field", ""),
    ];
    // Good, bad, good, bad, …: every bad one has good neighbours.
    let mut batch = Vec::new();
    for (n, (reminder, ..)) in bad.iter().enumerate() {
        batch.push(good(n));
        batch.push(reminder.clone());
    }
    let answer = world.console().schedule(&batch).await.unwrap();
    assert!(!answer.to_string().contains(PRIVATE), "the answer repeats what was sent");
    assert_eq!(
        (&answer["ok"], &answer["summary"]["created"], &answer["summary"]["invalid"]),
        (&json!(false), &json!(bad.len()), &json!(bad.len()))
    );
    let mut ids = Vec::new();
    for (n, (_, code, field)) in bad.iter().enumerate() {
        let (neighbour, result) = (&answer["results"][2 * n], &answer["results"][2 * n + 1]);
        assert_eq!(neighbour["answer"], "created", "{neighbour}");
        ids.push(id(neighbour["delivery_id"].as_str().unwrap()));
        assert_eq!(result["answer"], "invalid", "{field}: {result}");
        let dot = if field.is_empty() { "" } else { "." };
        assert_eq!(errors(result), one(code, format!("reminders[{}]{dot}{field}", 2 * n + 1)), "{result}");
    }
    for row in world.settled(&ids).await {
        assert_eq!((row.state, row.attempts.len()), (State::Delivered, 1), "{row:?}");
    }
    assert_eq!(world.receiver.call_count(), u64::try_from(ids.len()).unwrap());

    // Several things wrong with one reminder: all are named at once.
    let both = but(json!({"destination_id": "nowhere", "deliver_by": now}));
    let answer = world.console().schedule(&[both]).await.unwrap();
    let named: Vec<String> = errors(&answer["results"][0]).into_iter().map(|(_, field)| field).collect();
    assert_eq!(named, ["reminders[0].destination_id", "reminders[0].deliver_by"]);

    // The event as a whole.
    for (event, code, field) in [
        (json!({"action": "schedule"}), "missing_field", "reminders"),
        (json!({"action": "schedule", "reminders": []}), "out_of_bounds", "reminders"),
        (json!({"action": "schedule", "reminders": {}}), "invalid_field", "reminders"),
        (json!({"action": "schedule", "reminders": [], "dry_run": true}), "unknown_field", "dry_run"),
        (json!({"action": "plan", "reminders": []}), "unknown_action", "action"),
        (json!([PRIVATE]), "invalid_action", "action"),
    ] {
        let answer = world.console().send("schedule", &event).await.unwrap();
        assert_eq!((answer["ok"].as_bool(), errors(&answer)), (Some(false), one(code, field)), "{event}");
        assert!(!answer.to_string().contains(PRIVATE), "{answer}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_and_inspect_name_what_is_wrong() {
    let world = World::start().await;
    world.destination("known", "healthy", json!({})).await;
    let put = |change: Value| {
        let mut destination = json!({"id": "acme", "url": "https://hooks.example.com/r", "secrets": [SECRET_NAME]});
        destination.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!({"action": "put_destination", "by": "ops", "why": "a test", "evidence": "a test", "destination": destination})
    };
    let unsigned = |field: &str| {
        let mut event = put(json!({}));
        event.as_object_mut().unwrap().remove(field);
        event
    };
    let about = |action: &str, field: &str, value: &str| json!({"action": action, "by": "ops", "why": "a test", "evidence": "a test", field: value});
    for (event, code, field) in [
        (put(json!({"url": "ftp://hooks.example.com/r"})), "invalid_url", "destination.url"),
        (put(json!({"url": "https://user:word@hooks.example.com/r"})), "invalid_url", "destination.url"),
        (put(json!({"url": "hooks"})), "invalid_url", "destination.url"),
        (put(json!({"secrets": ["punctual/prod/acme"]})), "invalid_secret", "destination.secrets[0]"),
        (put(json!({"secrets": ["punctual/local/../prod/acme"]})), "invalid_secret", "destination.secrets[0]"),
        (put(json!({"secrets": []})), "out_of_bounds", "destination.secrets"),
        (put(json!({"colour": "red"})), "unknown_field", "destination.colour"),
        (put(json!({"retry": {"tries": 3}})), "unknown_field", "destination.retry.tries"),
        (put(json!({"rate_per_second": "fast"})), "invalid_field", "destination.rate_per_second"),
        (put(json!({"rate_per_second": 0})), "out_of_bounds", "destination.rate_per_second"),
        (unsigned("by"), "missing_field", "by"),
        (unsigned("why"), "missing_field", "why"),
        (unsigned("evidence"), "missing_field", "evidence"),
        (unsigned("destination"), "missing_field", "destination"),
        (
            json!({"action": "pause", "by": " ", "why": "a test", "evidence": "a test", "destination_id": "known"}),
            "out_of_bounds",
            "by",
        ),
        (about("pause", "destination_id", "nowhere"), "unknown_destination", "destination_id"),
        (about("hold", "delivery_id", "dlv_none"), "unknown_delivery", "delivery_id"),
        (about("hold", "destination_id", "known"), "unknown_field", "destination_id"),
        (about("cancel", "delivery_id", "dlv_none"), "unknown_delivery", "delivery_id"),
        (about("cancel", "destination_id", "known"), "unknown_field", "destination_id"),
        (about("cancel", "why", "again"), "missing_field", "delivery_id"),
        (
            json!({"action": "cancel", "by": " ", "why": "a test", "evidence": "a test", "delivery_id": "dlv_none"}),
            "out_of_bounds",
            "by",
        ),
        (
            json!({"action": "cancel", "by": "ops", "why": "w".repeat(257), "evidence": "a test", "delivery_id": "dlv_none"}),
            "out_of_bounds",
            "why",
        ),
        (json!({"action": "cancel", "why": "a test", "evidence": "a test", "delivery_id": "dlv_none"}), "missing_field", "by"),
        (about("purge", "delivery_id", "dlv_none"), "unknown_action", "action"),
    ] {
        let answer = world.console().send("operate", &event).await.unwrap();
        assert_eq!((answer["ok"].as_bool(), errors(&answer)), (Some(false), one(code, field)), "{event}: {answer}");
        assert_eq!(answer["did"], "nothing", "{answer}");
    }
    assert_eq!(world.stored_destination("known").await.version, 1, "nothing was written");

    let explain = |fields: Value| {
        let mut event = json!({"action": "explain"});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        event
    };
    let identity = json!({"tenant": PRIVATE, "subscriber": PRIVATE, "renewal_period": "2027", "reminder_kind": "none"});
    for (event, code, field) in [
        (explain(json!({"delivery_id": "dlv_none"})), "not_found", "delivery_id"),
        (explain(json!({"reference": "no-contract"})), "not_found", "reference"),
        (explain(json!({"identity": identity})), "not_found", "identity"),
        (explain(json!({"delivery_id": "dlv_none", "reference": "no-contract"})), "one_of", "delivery_id"),
        (explain(json!({})), "one_of", "delivery_id"),
        (explain(json!({"delivery": "dlv_none"})), "unknown_field", "delivery"),
        (explain(json!({"identity": {"tenant": PRIVATE}})), "missing_field", "identity.subscriber"),
        (explain(json!({"delivery_id": format!("not an id {PRIVATE}")})), "invalid_field", "delivery_id"),
        (json!({"action": "purge"}), "unknown_action", "action"),
    ] {
        let answer = world.console().send("inspect", &event).await.unwrap();
        assert_eq!((answer["ok"].as_bool(), errors(&answer)), (Some(false), one(code, field)), "{event}: {answer}");
        assert!(!answer.to_string().contains(PRIVATE), "{answer}");
    }
    world.stop().await;
}

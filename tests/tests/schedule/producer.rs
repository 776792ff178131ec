//! A producer's file through the code of `make schedule`, against the shipped handler over the in-memory ports.

use std::time::Duration;

use punctual_core::state::State;
use punctual_tests::producer::read::{Entry, Item, Wrong, file};
use punctual_tests::producer::report::Summary;
use punctual_tests::producer::{BATCH, send};
use punctual_tests::stack::root;
use serde_json::{Value, json};

use crate::{World, reminder};

const NOW: &str = "2026-12-01T09:00:00Z";

fn item(line: u64, reminder: &Value) -> Entry {
    Ok(Item { line, text: reminder.to_string() })
}

async fn sent(world: &World, entries: Vec<Entry>) -> (Summary, Vec<String>) {
    let mut progress = Vec::new();
    let post = async |event: String| {
        let event = serde_json::from_str(&event)?;
        Ok(serde_json::to_value(world.send(NOW, &event).await)?)
    };
    let summary = send(entries, post, |summary| progress.push(summary.progress())).await.unwrap();
    (summary, progress)
}

#[tokio::test]
async fn each_line_is_answered_and_what_is_wrong_is_named_by_line_and_field() {
    let world = World::new().await;
    let rule = json!({"calendar": "nowhere", "renewal_date": "2027-02-30", "notice": "P1M", "local_time": "09:00"});
    let by_rule = json!({"deliver_after": null, "deliver_by": null, "rule": rule});
    let entries = vec![
        item(1, &reminder("a", &json!({}))),
        Err(Wrong { line: 2, problem: "one reminder as a JSON object".into() }),
        item(4, &reminder("b", &by_rule)),
        item(5, &reminder("c", &json!({"reference": "C-2"}))),
        item(6, &reminder("d", &json!({}))),
        item(7, &reminder("d", &json!({}))),
    ];
    world.at(NOW, &[reminder("a", &json!({})), reminder("c", &json!({}))]).await;
    let (summary, progress) = sent(&world, entries).await;
    assert_eq!(progress, ["         6 of 6  1 created, 1 unchanged, 1 conflict, 3 refused, 0 failed"]);
    assert!(!summary.is_good());
    assert_eq!(
        summary.lines(Duration::from_secs(1)),
        [
            "  line 2: unreadable: one reminder as a JSON object",
            "  line 4: invalid: rule.renewal_date: a date of the years 2000 to 9999, like 2026-12-25 (invalid_date)",
            "  line 5: conflict: stored before with other content: reference",
            "  line 7: invalid: each delivery once; line 6 is it already (duplicate)",
            "6 reminders: 1 created, 1 unchanged, 1 conflict, 3 refused, 0 failed; 6 a second",
        ]
    );
    let lines = summary.json_lines().unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((first["line"].as_u64(), &first["answer"]), (Some(1), &json!("unchanged")));
    assert!(first["delivery_id"].as_str().unwrap().starts_with("dlv_"));
}

#[tokio::test]
async fn the_same_file_again_creates_nothing_and_says_so() {
    let world = World::new().await;
    let count = 2 * BATCH + 1;
    let entries = || (0..count).map(|n| item(n as u64 + 1, &reminder(&format!("s{n}"), &json!({})))).collect::<Vec<_>>();
    let (first, progress) = sent(&world, entries()).await;
    assert_eq!((first.answered("created"), progress.len(), first.is_good()), (count, 3, true));
    let rows = world.ledger.rows();
    assert_eq!(rows.len(), count);
    let moved = json!({"delivery_id": rows[0].id, "deliver_after": "2027-01-01T12:00:00Z", "deliver_by": "2027-01-01T13:00:00Z"});
    world.send(NOW, &json!({"action": "reschedule", "deliveries": [moved]})).await;
    let rows = world.ledger.rows();
    let (again, _) = sent(&world, entries()).await;
    assert_eq!((again.answered("unchanged"), again.is_good(), world.ledger.rows() == rows), (count, true, true));
    let lines = again.lines(Duration::from_secs(2));
    assert!(lines[0].starts_with("1,001 reminders: 0 created, 1,001 unchanged,"), "{lines:?}");
    assert!(lines[1].starts_with("1 of the unchanged are stored with other instants than they come to now"), "{lines:?}");
    assert_eq!(lines[2], "Nothing was created: every reminder of this file is stored already, and nothing changed.");
}

#[tokio::test]
async fn a_file_that_is_stored_already_tells_for_what_nothing_will_be_sent() {
    let world = World::new().await;
    let entries = || ["a", "b", "c", "d", "e"].iter().zip(1..).map(|(who, n)| item(n, &reminder(who, &json!({})))).collect();
    sent(&world, entries()).await;
    let states = [State::Cancelled, State::Delivered, State::Expired, State::Shadowed, State::Cancelled];
    let mut told = Vec::new();
    for (mut row, state) in world.ledger.rows().into_iter().zip(states) {
        row.state = state;
        world.ledger.put_row(row);
        let (again, _) = sent(&world, entries()).await;
        assert!(again.is_good());
        let lines = again.lines(Duration::from_secs(1));
        told.push(lines.into_iter().find(|line| line.contains("nothing will be sent")).unwrap_or_default());
    }
    let one = "Of the unchanged, 1 is cancelled: nothing will be sent for it.";
    let two = "Of the unchanged, 1 is cancelled and 1 is expired: nothing will be sent for them.";
    let three = "Of the unchanged, 2 are cancelled and 1 is expired: nothing will be sent for them.";
    assert_eq!(told, [one, one, two, two, three]);
    let mut dead = world.ledger.rows().remove(1);
    dead.state = State::Dead;
    world.ledger.put_row(dead);
    let (again, _) = sent(&world, entries()).await;
    let lines = again.lines(Duration::from_secs(1));
    let four = "Of the unchanged, 2 are cancelled, 1 is dead and 1 is expired: nothing will be sent for them.";
    assert!(lines.iter().any(|line| line == four), "{lines:?}");
    let last: Value = serde_json::from_str(again.json_lines().unwrap().lines().last().unwrap()).unwrap();
    assert!(last["state"].is_string(), "{last}");
}

#[tokio::test]
async fn what_could_not_be_stored_is_sent_again_and_a_call_that_is_refused_ends_it() {
    let world = World::new().await;
    let calls = std::cell::Cell::new(0);
    // The first call's second item could not be stored, nor in the second call; the third one is the handler's own.
    let post = async |event: String| {
        calls.set(calls.get() + 1);
        let event: Value = serde_json::from_str(&event)?;
        let answer = serde_json::to_value(world.send(NOW, &event).await)?;
        let failed = json!({"answer": "failed", "errors": [{"code": "unavailable", "field": "", "message": "send it again"}]});
        let mut results = answer["results"].as_array().unwrap().clone();
        if calls.get() < 3 {
            *results.last_mut().unwrap() = failed;
        }
        Ok(json!({"results": results}))
    };
    let entries = vec![item(1, &reminder("a", &json!({}))), item(2, &reminder("b", &json!({})))];
    let summary = send(entries.clone(), post, |_| {}).await.unwrap();
    assert_eq!((calls.get(), summary.is_good(), summary.answered("unchanged")), (3, true, 1));
    let refused = send(entries, async |_| Ok(json!({"ok": false, "results": []})), |_| {}).await;
    assert!(refused.unwrap_err().to_string().starts_with("schedule refused the call"));
}

#[tokio::test]
async fn the_files_in_events_are_good_and_say_the_same_in_both_forms() {
    let read = |end: &str| -> Vec<Value> {
        let entries = file(&root().join(format!("events/producer.reminders.{end}"))).unwrap();
        entries.into_iter().map(|entry| serde_json::from_str(&entry.unwrap().text).unwrap()).collect()
    };
    let (json_lines, csv) = (read("jsonl"), read("csv"));
    assert_eq!(json_lines.len(), 3);
    for (one, other) in json_lines.iter().zip(&csv) {
        for field in ["tenant", "renewal_period", "destination_id", "rule", "deliver_after", "deliver_by"] {
            assert_eq!(one.get(field), other.get(field), "{field}");
        }
        let form = |value: &Value| -> Vec<String> { value["payload"].as_object().unwrap().keys().cloned().collect() };
        assert_eq!(form(one), form(other));
    }
    for item in json_lines.iter().chain(&csv) {
        let event = json!({"action": "schedule", "reminders": [item]});
        let raw = serde_json::value::RawValue::from_string(event.to_string()).unwrap();
        let Ok(punctual_schedule::input::Action::Schedule(items)) = punctual_schedule::input::read(&raw) else {
            panic!("{item}")
        };
        assert!(items[0].is_ok(), "{item}");
    }
}

//! Reminders that are due by a rule and a business calendar.

use punctual_core::calendar::StoredCalendar;
use punctual_core::destination::Change;
use punctual_core::id::CalendarId;
use punctual_core::ports::Control as _;
use punctual_schedule::result::{Answer, Response};
use serde_json::{Value, json};

use crate::{World, answers, reminder};

const NOW: &str = "2026-12-01T09:00:00Z";

async fn put(world: &World, version: u64, holidays: &Value) {
    let day = json!([["09:00", "17:00"]]);
    let hours = json!({"mon": day, "tue": day, "wed": day, "thu": day, "fri": day});
    let spec = json!({"time_zone": "Europe/London", "hours": hours, "holidays": holidays});
    let changed = Change { at: NOW.parse().unwrap(), by: "ann".into(), why: "test".into() };
    let id = CalendarId::new("uk").unwrap();
    let stored = StoredCalendar { id, spec: serde_json::from_value(spec).unwrap(), version, changed };
    world.control.put_calendar(&stored, version - 1).await.unwrap();
}

/// Due a month before 25 January 2027.
fn by_rule(subscriber: &str, more: &Value) -> Value {
    let rule = json!({
        "calendar": "uk", "renewal_date": "2027-01-25", "notice": "P1M", "local_time": "09:00",
        "deliver_by": {"notice": "1BD", "local_time": "17:00"},
    });
    let mut reminder = reminder(subscriber, &json!({"rule": rule}));
    let fields = reminder.as_object_mut().unwrap();
    fields.remove("deliver_after");
    fields.remove("deliver_by");
    fields.extend(more.as_object().unwrap().clone());
    reminder
}

fn error(response: &Response) -> (&'static str, &str) {
    let error = &response.results[0].errors[0];
    (error.code, error.field.as_str())
}

#[tokio::test]
async fn the_answer_shows_each_step_and_a_preview_changes_nothing() {
    let world = World::new().await;
    put(&world, 1, &json!([{"date": "2026-12-25", "name": "Christmas Day"}])).await;
    let file = [by_rule("a", &json!({}))];
    let preview = world.send(NOW, &json!({"action": "preview", "reminders": file})).await;
    assert!(preview.ok && preview.zone_data.is_some());
    assert_eq!((preview.summary.would_create, world.ledger.rows().len()), (1, 0));
    let stored = world.at(NOW, &file).await;
    assert_eq!(answers(&stored), [Answer::Created]);
    assert_eq!(stored.results[0].steps, preview.results[0].steps);
    let due = |response: &Response| response.results[0].deliver_after.unwrap().to_string();
    assert_eq!((due(&preview), due(&stored).as_str()), (due(&stored), "2026-12-28T09:00:00.000Z"));
    assert_eq!(stored.results[0].deliver_by.unwrap().to_string(), "2027-01-22T17:00:00.000Z");
    let steps = stored.results[0].steps.join("\n");
    assert!(steps.contains("passed over: Fri 2026-12-25 (holiday Christmas Day)"), "{steps}");
    assert!(steps.contains("UTC+00:00"), "{steps}");
    // The row itself says by what it was chosen, for whoever reads it in years.
    let rule = world.ledger.rows()[0].rule.clone().unwrap();
    let expected = "uk@1 2027-01-25 -P1M 09:00 by -1BD 17:00, zones 2";
    assert!(rule.starts_with(expected), "{rule}");
    assert_eq!(stored.results[0].rule, Some(rule));
    let again = world.send(NOW, &json!({"action": "preview", "reminders": file})).await;
    assert_eq!(answers(&again), [Answer::Unchanged]);
}

#[tokio::test]
async fn a_calendar_that_changes_makes_no_other_reminder_of_the_same_file() {
    let world = World::new().await;
    put(&world, 1, &json!([{"date": "2026-12-25", "name": "Christmas Day"}])).await;
    let file = [by_rule("a", &json!({}))];
    world.at(NOW, &file).await;
    let before = world.ledger.rows();
    put(&world, 2, &json!(["2026-12-25", {"date": "2026-12-28", "name": "Boxing Day"}])).await;
    let again = world.at(NOW, &file).await;
    assert_eq!(answers(&again), [Answer::Unchanged]);
    assert_eq!(world.ledger.rows(), before, "the stored row keeps its instants");
    let comes_to = again.results[0].comes_to.unwrap();
    assert_eq!(comes_to.deliver_after.to_string(), "2026-12-29T09:00:00.000Z");

    // Whoever wants the new instants says so; the file is the same one all the while.
    let rule = &file[0]["rule"];
    let event = json!({"action": "reschedule", "deliveries": [{"delivery_id": before[0].id, "rule": rule}]});
    let moved = world.send(NOW, &event).await;
    assert_eq!(answers(&moved), [Answer::Rescheduled], "{moved:?}");
    assert_eq!(world.ledger.rows()[0].deliver_after, comes_to.deliver_after);
    assert!(world.ledger.rows()[0].rule.as_ref().is_some_and(|rule| rule.starts_with("uk@2 ")));
    assert!(moved.results[0].steps.iter().any(|step| step.contains("Boxing Day")));
    assert_eq!(answers(&world.send(NOW, &event).await), [Answer::Unchanged]);
    let last = world.at(NOW, &file).await;
    assert_eq!((answers(&last), last.results[0].comes_to), (vec![Answer::Unchanged], None));

    // A calendar in which it comes to nothing is no error of what is stored, but of what is new.
    let closed: Vec<String> = (1..=31).map(|day| format!("2026-12-{day:02}")).collect();
    let closed: Vec<String> = closed.into_iter().chain((1..=31).map(|day| format!("2027-01-{day:02}"))).collect();
    put(&world, 3, &json!(closed)).await;
    let both = world.at(NOW, &[file[0].clone(), by_rule("new", &json!({}))]).await;
    assert_eq!(answers(&both), [Answer::Unchanged, Answer::Invalid]);
    assert_eq!(both.results[1].errors[0].field, "reminders[1].rule.deliver_by");
    assert!(!both.results[1].steps.is_empty(), "a refusal shows its steps too");
}

/// Lambda takes no answer of more than 6,291,556 bytes, and what is stored must be told.
#[tokio::test]
async fn a_thousand_long_answers_fit() {
    let world = World::new().await;
    let name = "𝄞".repeat(64);
    let holidays: Vec<Value> =
        (0..60).map(|n| json!({"date": format!("2026-{:02}-{:02}", 11 + n / 30, n % 30 + 1), "name": name})).collect();
    put(&world, 1, &json!(holidays)).await;
    let late = json!({"calendar": "uk", "renewal_date": "2027-01-02", "notice": "P1M", "local_time": "09:00"});
    let file: Vec<Value> =
        (0..1_000).map(|n| by_rule(&format!("s{n}"), &json!({"rule": late, "deliver_by": "2027-02-01T12:00:00Z"}))).collect();
    let response = world.at(NOW, &file).await;
    assert_eq!(response.summary.created, 1_000, "{:?}", response.results[0]);
    let (bytes, lines) = (serde_json::to_string(&response).unwrap().len(), response.results[0].steps.len());
    println!("{bytes} bytes, {lines} steps each, {} without", response.steps_left_out);
    assert!(bytes < 6_291_556, "{bytes}");
    assert!(response.steps_left_out > 0, "or it shows nothing: {bytes}");
    let (with, without): (Vec<_>, Vec<_>) = response.results.iter().partition(|one| !one.steps.is_empty());
    assert_eq!((with.len(), without.len()), (1_000 - response.steps_left_out, response.steps_left_out));
    assert!(without.iter().all(|one| one.delivery_id.is_some() && one.rule.is_some()), "all else is told");
}

#[tokio::test]
async fn another_rule_is_another_content_whatever_it_comes_to() {
    let world = World::new().await;
    put(&world, 1, &json!([])).await;
    let file = by_rule("a", &json!({}));
    world.at(NOW, std::slice::from_ref(&file)).await;
    let row = world.ledger.rows().remove(0);
    let mut other = file.clone();
    other["rule"]["notice"] = "P31D".into();
    let explicit = reminder("a", &json!({"deliver_after": row.deliver_after, "deliver_by": row.deliver_by}));
    let mut body = file.clone();
    body["payload"] = json!({"n": 2});
    for (other, fields) in [(other, ["rule"]), (explicit, ["rule"]), (body, ["payload"])] {
        let response = world.at(NOW, &[other]).await;
        assert_eq!((answers(&response), &response.results[0].conflicts[..]), (vec![Answer::Conflict], &fields[..]));
    }
    assert_eq!(world.ledger.rows(), [row]);
}

#[tokio::test]
async fn each_error_names_its_field() {
    let world = World::new().await;
    let unknown = world.at(NOW, &[by_rule("a", &json!({}))]).await;
    assert_eq!(error(&unknown), ("unknown_calendar", "reminders[0].rule.calendar"));
    put(&world, 1, &json!([])).await;
    let both = json!({"deliver_after": "2026-12-28T09:00:00Z"});
    let two_deadlines = json!({"deliver_by": "2027-01-22T17:00:00Z"});
    for (more, expected) in [
        (both, ("one_of", "reminders[0].deliver_after")),
        (two_deadlines, ("one_of", "reminders[0].deliver_by")),
        (json!({"rule": null}), ("missing_field", "reminders[0].deliver_after")),
    ] {
        assert_eq!(error(&world.at(NOW, &[by_rule("a", &more)]).await), expected);
    }
    for (field, value, code) in [
        ("notice", "1M", "invalid_notice"),
        ("renewal_date", "2027-02-30", "invalid_date"),
        ("local_time", "24:00", "invalid_time"),
        ("surplus", "", "unknown_field"),
    ] {
        let mut wrong = by_rule("a", &json!({}));
        wrong["rule"][field] = value.into();
        assert_eq!(error(&world.at(NOW, &[wrong]).await), (code, format!("reminders[0].rule.{field}").as_str()));
    }
    let mut late = by_rule("a", &json!({}));
    late["rule"]["deliver_by"] = Value::Null;
    late["deliver_by"] = "2026-12-28T08:00:00Z".into();
    late["rule"]["renewal_date"] = "2027-01-26".into();
    let late = world.at(NOW, &[late]).await;
    assert_eq!(error(&late), ("no_business_instant", "reminders[0].deliver_by"), "{late:?}");
    assert!(world.ledger.rows().is_empty());
}

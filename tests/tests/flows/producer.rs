//! A producer's file: ten thousand reminders by rule, in batches, and the same file again after a reschedule.

use std::time::Duration;

use punctual_core::id::DeliveryId;
use punctual_core::state::State;
use punctual_tests::producer::read::Item;
use punctual_tests::producer::{self, report::Summary};
use serde_json::{Value, json};

use crate::world::{World, id, list};

/// How many reminders the file has.
const REMINDERS: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_reminders_by_rule_are_stored_once_however_often_the_file_is_sent() {
    let world = World::start().await;
    world.destination("fine", "healthy", json!({})).await;
    put_calendar(&world).await;
    let file: Vec<Value> = (0..REMINDERS).map(by_rule).collect();
    let first = send(&world, &file).await;
    assert_eq!((first.answered("created"), first.is_good()), (REMINDERS, true), "{}", first.counts());
    let ids: Vec<DeliveryId> = first.outcomes.iter().map(|outcome| id(outcome.delivery_id.as_deref().unwrap())).collect();
    let event = json!({"action": "preview", "reminders": [by_rule(0)]});
    let shown = world.console().do_it("schedule", &event).await.unwrap();
    let steps: Vec<&str> = list(&shown["results"][0]["steps"]).iter().map(|step| step.as_str().unwrap()).collect();
    assert!(steps.iter().any(|step| step.contains("holiday New Year")), "{steps:#?}");

    // One moves, one is taken back: the file is the same one all the while.
    let (moved, gone) = (ids[0].clone(), ids[1].clone());
    let (after, by) = ("2032-03-01T09:00:00.000Z", "2032-03-02T09:00:00.000Z");
    let event = json!({"action": "reschedule", "deliveries": [{"delivery_id": moved, "deliver_after": after, "deliver_by": by}]});
    let answer = world.console().do_it("schedule", &event).await.unwrap();
    assert_eq!(answer["results"][0]["answer"], "rescheduled", "{answer}");
    let event = json!({"action": "cancel", "by": "crm", "why": "renewed", "deliveries": [{"delivery_id": gone}]});
    let answer = world.console().do_it("schedule", &event).await.unwrap();
    assert_eq!(answer["results"][0]["answer"], "cancelled", "{answer}");
    let rows = world.rows(&[moved, gone]).await;

    let again = send(&world, &file).await;
    assert_eq!((again.answered("unchanged"), again.answered("created")), (REMINDERS, 0), "{}", again.counts());
    assert_eq!(world.rows(&[rows[0].id.clone(), rows[1].id.clone()]).await, rows, "nothing changed");
    assert_eq!(again.outcomes[0].comes_to, first.outcomes[0].deliver_after);
    let lines = again.lines(Duration::from_secs(1));
    assert!(lines.iter().any(|line| line.starts_with("Nothing was created: every reminder")), "{lines:#?}");
    let cancelled = "Of the unchanged, 1 is cancelled: nothing will be sent for it.";
    assert!(lines.iter().any(|line| line == cancelled), "{lines:#?}");
    assert_eq!((rows[0].state, rows[0].deliver_after.to_string().as_str()), (State::Scheduled, after));
    assert_eq!(rows[1].state, State::Cancelled);
    assert_eq!(world.receiver.call_count(), 0);
    world.stop().await;
}

/// Sends a file as `make schedule` does, and shows how far it is.
async fn send(world: &World, file: &[Value]) -> Summary {
    let items = file.iter().zip(1..).map(|(reminder, line)| Ok(Item { line, text: reminder.to_string() }));
    let post = async |event: String| world.stack.invoke_text("schedule", event).await?.ok();
    producer::send(items.collect(), post, |summary| println!("{}", summary.progress())).await.unwrap()
}

async fn put_calendar(world: &World) {
    let day = json!([["09:00", "17:00"]]);
    let calendar = json!({
        "time_zone": "Europe/London",
        "hours": {"mon": day, "tue": day, "wed": day, "thu": day, "fri": day},
    });
    let event = json!({"action": "put_calendar", "by": "ann", "why": "test", "evidence": "OPS-1", "calendar_id": "uk", "calendar": calendar});
    world.console().do_it("operate", &event).await.unwrap();
    let ics = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20320101\nSUMMARY:New Year\nEND:VEVENT\nEND:VCALENDAR\n";
    let event =
        json!({"action": "import_holidays", "by": "ann", "why": "test", "evidence": "OPS-1", "calendar_id": "uk", "ics": ics});
    world.console().do_it("operate", &event).await.unwrap();
    let shown = world.console().do_it("inspect", &json!({"action": "calendar", "calendar_id": "uk"})).await.unwrap();
    assert_eq!(shown["calendars"]["found"][0]["version"], 2, "{shown}");
}

fn by_rule(n: usize) -> Value {
    json!({
        "tenant": "acme",
        "subscriber": format!("subscriber-{n}"),
        "renewal_period": "2032",
        "reminder_kind": "renewal",
        "destination_id": "fine",
        "reference": format!("contract-{n}"),
        "rule": {
            "calendar": "uk", "renewal_date": "2032-02-01", "notice": "P1M", "local_time": "09:00",
            "deliver_by": {"notice": "5BD", "local_time": "17:00"},
        },
        "payload": {"n": n},
    })
}

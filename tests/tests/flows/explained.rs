//! What the compiled function tells of every state and reason on the stack is what the reviewed snapshots say.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use punctual_adapters::clock::machine_time;
use punctual_core::delivery::Delivery;
use punctual_core::figures::Heartbeat;
use punctual_core::id::{DeliveryId, IdempotencyKey};
use punctual_core::ports::{Control, Created, Ledger, Stored};
use punctual_core::reason::Reason;
use punctual_core::time::Timestamp;
use punctual_tests::receiver::ReceiverOptions;
use punctual_tests::stack::StackOptions;
use serde_json::{Value, json};

use crate::rows::{MARGIN, NOW, comes_about, destination, pairs, payload, row, start};
use crate::world::World;

const SNAPSHOT: &str = include_str!("../snapshots/explain__every_state_and_reason.snap");

/// Every instant in a text as whole minutes after `start`.
fn relative(text: &str, start: Timestamp) -> String {
    let word = |word: &str| {
        let bare = word.trim_end_matches([',', ';', ':', '.']);
        bare.parse::<Timestamp>().map_or_else(
            |_| word.to_owned(),
            |at| format!("minute {}{}", (at.as_millis() - start.as_millis()).div_euclid(60_000), &word[bare.len()..]),
        )
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// The lines of each pair in the snapshot, by their first word. The seconds that are left go by on a stack, so they are left out.
fn reviewed() -> BTreeMap<String, BTreeMap<String, String>> {
    let body = SNAPSHOT.splitn(3, "---\n").nth(2).unwrap();
    let block = |block: &str| {
        let (title, lines) = block.trim().split_once('\n').unwrap();
        let line = |line: &str| {
            let (name, text) = line.trim().split_once(' ').unwrap();
            let text = if name == "late" { text.split(", ").next().unwrap() } else { text };
            (name.to_owned(), relative(text, start()))
        };
        (title.to_owned(), lines.lines().map(line).collect())
    };
    body.split("\n\n").filter(|text| !text.trim().is_empty()).map(block).collect()
}

/// The same lines of an answer.
fn answered(told: &Value, start: Timestamp) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let allowed: Vec<&str> = told["allowed"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    let lines = [
        ("why", text(&told["why"])),
        ("next", Some(text(&told["next"]).unwrap_or("nothing by itself".into()))),
        ("expected", text(&told["expected_start"]["told"])),
        ("redrive", text(&told["redrive"])),
        ("late", Some(text(&told["late_at"]).unwrap_or("no more".into()))),
        ("allowed", Some(if allowed.is_empty() { "nothing".into() } else { allowed.join(", ") })),
    ];
    lines.into_iter().filter_map(|(name, text)| Some((name.to_owned(), relative(&text?, start)))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_state_and_reason_is_told_as_it_was_reviewed() {
    let world = World::start_with_margin(StackOptions::default(), ReceiverOptions::default(), MARGIN).await;
    let reviewed = reviewed();
    let all: Vec<_> = pairs().filter(|(state, reason)| comes_about(*state, *reason)).collect();
    assert_eq!(all.len(), reviewed.len(), "each pair is in the snapshot");
    let client = world.stack.dynamodb().await;
    let key = |text: &str| AttributeValue::S(text.to_owned());
    for (n, (state, reason)) in all.into_iter().enumerate() {
        // As in the snapshot, it is minute 20 now, and the middle of it: what is told does not change while the stack answers.
        let begun = machine_time().minus(Duration::from_secs(60 * NOW.unsigned_abs() + 30));
        if n == 0 {
            assert_eq!(world.control.put_destination(&destination(begun), 0).await.unwrap(), Stored::Done);
        }
        // Dispatch is alive, as far as can be told.
        let beat = Heartbeat { at: machine_time(), line: "a run".into() };
        world.control.note_heartbeat("dispatch", &beat).await.unwrap();
        let id = DeliveryId::new(format!("dlv_{n}")).unwrap();
        let row = Delivery { idempotency_key: IdempotencyKey::from(&id), id: id.clone(), ..row(begun, state, reason) };
        assert_eq!(world.ledger.create(&row, &payload(begun)).await.unwrap(), Created::New);
        let answer = world.console().do_it("inspect", &json!({"action": "explain", "delivery_id": id})).await.unwrap();
        let title = format!("{state} {}", reason.map_or("-", Reason::code));
        let told = answered(&answer["deliveries"][0], begun);
        assert_eq!(Some(&told), reviewed.get(&title), "{title}");
        // It would wait before the next one.
        for item in ["delivery", "payload"] {
            let delete = client.delete_item().table_name(world.stack.ledger_table().unwrap());
            delete.key("delivery_id", key(id.as_str())).key("item", key(item)).send().await.unwrap();
        }
    }
    world.stop().await;
}

//! What falls due against what can be called, read from the real index by the real function.

use std::time::Duration;

use punctual_adapters::clock::machine_time;
use serde_json::json;

use crate::world::{World, list, number, reminder};

#[tokio::test(flavor = "multi_thread")]
async fn capacity_is_read_from_the_wake_index() {
    let world = World::start().await;
    world.destination("slow", "healthy", json!({"rate_per_second": 1, "total_timeout_ms": 2_000, "shards": 3})).await;
    world.destination("idle", "healthy", json!({})).await;
    let start = machine_time();
    let hours = |n: u64| start.plus(Duration::from_secs(n * 3_600));
    // 300 with all the time they need, and 40 with 40 s less a whole call for them.
    let mut reminders: Vec<_> = (0..300).map(|n| reminder("slow", n, hours(2), hours(20))).collect();
    let narrow = hours(5).plus(Duration::from_secs(40));
    reminders.extend((300..340).map(|n| reminder("slow", n, hours(5), narrow)));
    let ids = world.schedule(&reminders).await;
    // A frozen one sleeps, and is not counted.
    world.console().on_delivery("hold", ids[0].as_str()).await.unwrap();

    let answer = world.console().send("inspect", &json!({"action": "capacity"})).await.unwrap();
    let report = &answer["capacity"];
    assert_eq!((answer["ok"].as_bool(), report["complete"].as_bool()), (Some(true), Some(true)), "{answer}");
    assert_eq!(number(&report["entries_read"]), 340, "{answer}");
    let destinations = list(&report["destinations"]);
    assert_eq!((&destinations[0]["destination_id"], &destinations[0]["windows"]), (&json!("idle"), &json!([])));
    let slow = &destinations[1];
    assert_eq!((number(&slow["deliveries"]), number(&slow["asleep"]), number(&slow["calls_at_once"])), (339, 1, 2), "{answer}");
    let windows = list(&slow["windows"]);
    assert_eq!(windows.iter().map(|window| number(&window["due"])).sum::<usize>(), 339, "{answer}");
    // 38 s at 0.8 a second: 30 of the 40 can start in time.
    assert_eq!((number(&slow["late"]), number(&slow["breach"]["possible"])), (10, 30), "{answer}");
    let text: Vec<&str> = list(&answer["text"]).iter().map(|line| line.as_str().unwrap()).collect();
    assert!(text.iter().any(|line| line.contains("299 due + 0 carried, 0.8/s → 374 s")), "{text:#?}");
    assert!(text.iter().any(|line| line.starts_with("  FIRST BREACH")), "{text:#?}");
    println!("{}", text.join("\n"));

    let one =
        world.console().send("inspect", &json!({"action": "capacity", "destination_id": "slow", "hours": 3})).await.unwrap();
    assert_eq!(number(&one["capacity"]["destinations"][0]["deliveries"]), 299, "{one}");
    assert_eq!(one["capacity"]["destinations"][0]["breach"], json!(null), "{one}");
    assert_eq!(world.receiver.call_count(), 0);
    world.stop().await;
}

//! What waits for a far day, for an operator or for a paused destination costs next to nothing and delays nobody. On
//! dynoxide, whose consumed capacity is exact.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use futures::StreamExt as _;
use punctual_adapters::clock::machine_time;
use punctual_core::id::DeliveryId;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_tests::receiver::ReceiverOptions;
use punctual_tests::stack::{DynamoDb, StackOptions};
use serde_json::{Value, json};

use crate::world::{MACHINE, World, ended, number, reminder};

/// What a query of an index that finds nothing costs, in read units.
const EMPTY_QUERY: f64 = 0.5;
/// The lanes of every destination here.
const LANES: usize = 2;
const HOUR: Duration = Duration::from_secs(3_600);

async fn world() -> World {
    World::start_with(StackOptions::default().dynamodb(DynamoDb::Dynoxide), ReceiverOptions::default()).await
}

fn cost(summary: &Value) -> String {
    format!("{} entries seen, {} pages, {} read units", summary["seen"], summary["pages"], summary["read_units"])
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_in_40_days_costs_a_tick_nothing() {
    let world = world().await;
    world.destination("far", "healthy", json!({"shards": LANES})).await;
    let before = world.console().dispatch().await.unwrap();
    let due = machine_time().plus(Duration::from_secs(40 * 86_400));
    let reminders: Vec<Value> = (0..300).map(|n| reminder("far", n, due, due.plus(HOUR))).collect();
    let ids = world.schedule(&reminders).await;

    let after = world.console().dispatch().await.unwrap();
    println!("300 rows due in 40 days: {} (without them: {})", cost(&after), cost(&before));
    assert_eq!((number(&after["seen"]), number(&after["claimed"]), number(&after["left"])), (0, 0, 0), "{after}");
    assert_eq!(number(&after["pages"]), LANES);
    assert!(after["read_units"].as_f64().unwrap() <= EMPTY_QUERY * 2.0, "{after}");
    assert_eq!(after["read_units"], before["read_units"]);
    assert!(world.rows(&ids).await.iter().all(|row| row.state == State::Scheduled && row.version == 1));
    world.stop().await;
}

/// Rows of destination `paused`, as the ledger would hold them; only what dispatch reads is different in each.
struct Rows {
    model: HashMap<String, AttributeValue>,
}

impl Rows {
    async fn like(world: &World, id: &DeliveryId) -> Self {
        let key = |name: &str, value: &str| (name.to_owned(), AttributeValue::S(value.to_owned()));
        let request = world.stack.dynamodb().await.get_item().table_name(world.stack.ledger_table().unwrap());
        let key = HashMap::from([key("delivery_id", id.as_str()), key("item", "delivery")]);
        Self { model: request.set_key(Some(key)).send().await.unwrap().item.unwrap() }
    }

    fn row(&self, n: usize, due: Timestamp, by: Timestamp) -> (DeliveryId, WriteRequest) {
        let id = DeliveryId::new(format!("paused-{n:05}")).unwrap();
        let shard = n % LANES;
        let mut item = self.model.clone();
        let text = |value: String| AttributeValue::S(value);
        item.insert("delivery_id".to_owned(), text(id.to_string()));
        item.insert("shard".to_owned(), AttributeValue::N(shard.to_string()));
        item.insert("lane".to_owned(), text(format!("paused#{shard}")));
        for name in ["deliver_after", "next_attempt_at", "wake_at"] {
            assert!(item.insert(name.to_owned(), text(due.to_string())).is_some(), "the row has no {name}");
        }
        item.insert("deliver_by".to_owned(), text(by.to_string()));
        let put = PutRequest::builder().set_item(Some(item)).build().unwrap();
        (id, WriteRequest::builder().put_request(put).build())
    }
}

async fn write_all(world: &World, requests: Vec<WriteRequest>) {
    let (client, table) = (world.stack.dynamodb().await, world.stack.ledger_table().unwrap());
    let chunks: Vec<Vec<WriteRequest>> = requests.chunks(25).map(<[WriteRequest]>::to_vec).collect();
    let write = |chunk| {
        let request = client.batch_write_item().request_items(&table, chunk);
        async move { assert!(request.send().await.unwrap().unprocessed_items().is_none_or(HashMap::is_empty)) }
    };
    futures::stream::iter(chunks).map(write).buffer_unordered(4).collect::<Vec<()>>().await;
}

/// An operator's freeze as it is stored, without the sleep that operate's own write brings: the row stays at the head.
async fn freeze_in_place(world: &World, ids: &[DeliveryId]) {
    let (client, table) = (world.stack.dynamodb().await, world.stack.ledger_table().unwrap());
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let hold = AttributeValue::M(HashMap::from([
        ("since".to_owned(), text("2026-11-01T00:00:00.000Z")),
        ("by".to_owned(), text("ops")),
        ("why".to_owned(), text("a test")),
    ]));
    let freeze = |id: &DeliveryId| {
        let request = client
            .update_item()
            .table_name(&table)
            .key("delivery_id", text(id.as_str()))
            .key("item", text("delivery"))
            .update_expression("SET #hold = :hold")
            .expression_attribute_names("#hold", "hold")
            .expression_attribute_values(":hold", hold.clone());
        async move { request.send().await.map(drop).unwrap() }
    };
    futures::stream::iter(ids).map(freeze).buffer_unordered(8).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn held_rows_and_a_paused_backlog_delay_nobody_and_still_expire() {
    const HELD: usize = 500;
    const ASLEEP: usize = 20;
    const BEHIND: usize = 10;
    const PAUSED: usize = 20_000;
    const OTHER: usize = 100;
    let _busy = MACHINE.read().await;
    let world = world().await;
    let console = world.console();
    world.stack.set_delivering(false).await.unwrap();
    for destination in ["held", "other", "paused"] {
        world.destination(destination, "healthy", json!({"shards": LANES})).await;
        world.proven(destination).await;
        console.on_destination("pause", destination).await.unwrap();
    }
    let now = machine_time();
    let due = |destination: &str, count: usize| -> Vec<Value> {
        let after = |n: usize| now.minus(Duration::from_millis(u64::try_from(count - n).unwrap()));
        (0..count).map(|n| reminder(destination, n, after(n), now.plus(HOUR))).collect()
    };
    // In the order of their due times: the frozen ones stand at the head of their lanes.
    let held = world.schedule(&due("held", HELD + ASLEEP + BEHIND)).await;
    freeze_in_place(&world, &held[..HELD]).await;
    for id in &held[HELD..HELD + ASLEEP] {
        console.on_delivery("hold", id.as_str()).await.unwrap();
    }
    let other = world.schedule(&due("other", OTHER)).await;

    // 20,000 due rows of a paused destination; in each lane one that can no longer be met at the head and one at the end.
    let rows = Rows::like(&world, &world.schedule(&due("paused", 1)).await[0]).await;
    let past = now.minus(HOUR);
    let begin = past.minus(Duration::from_secs(60));
    let doomed = [0, 1, PAUSED - 2, PAUSED - 1];
    let (paused, requests): (Vec<DeliveryId>, Vec<WriteRequest>) = (0..PAUSED)
        .map(|n| {
            let by = if doomed.contains(&n) { now.minus(Duration::from_secs(5)) } else { now.plus(HOUR) };
            rows.row(n, begin.plus(Duration::from_millis(u64::try_from(n).unwrap())), by)
        })
        .unzip();
    write_all(&world, requests).await;
    for destination in ["held", "other"] {
        console.on_destination("resume", destination).await.unwrap();
    }

    let tick = console.dispatch().await.unwrap();
    println!("{HELD} held rows at the head, {PAUSED} rows of a paused destination, {OTHER} due rows of another: {}", cost(&tick));
    println!("    claimed {}, slept {}, expired {}", tick["claimed"], tick["slept"], tick["expired"]);
    assert_eq!(number(&tick["claimed"]), OTHER + BEHIND, "{tick}");
    assert_eq!((number(&tick["slept"]), number(&tick["left"]), number(&tick["failed"])), (HELD, 0, 0), "{tick}");
    assert_eq!(tick["stopped_early"], false);
    assert!(world.rows(&other).await.iter().all(|row| row.state == State::Queued));
    assert!(world.rows(&held[HELD + ASLEEP..]).await.iter().all(|row| row.state == State::Queued));
    assert!(world.rows(&held[..HELD + ASLEEP]).await.iter().all(|row| row.state == State::Scheduled && row.wake_at > Some(now)));
    // The held rows sleep now: the next tick does not read them.
    let next = console.dispatch().await.unwrap();
    println!("    the next tick: {}", cost(&next));
    assert_eq!((number(&next["claimed"]), number(&next["slept"])), (0, 0), "{next}");

    // A paused lane is looked through page by page: what can no longer be met is told of, at its head and at its end.
    let doomed: Vec<DeliveryId> = doomed.iter().map(|n| paused[*n].clone()).collect();
    let mut ticks = 2;
    while !world.rows(&doomed).await.iter().all(ended) {
        assert!(ticks <= PAUSED / LANES / 1_000 + 2, "{ticks} ticks did not look through the paused lanes");
        let summary = console.dispatch().await.unwrap();
        assert_eq!((number(&summary["claimed"]), number(&summary["failed"])), (0, 0), "{summary}");
        ticks += 1;
    }
    println!("    after {ticks} ticks all {} expired rows of the paused destination are told of", doomed.len());
    let letters = world.dead_letters().await;
    assert_eq!(letters.len(), doomed.len(), "{letters:?}");
    for row in world.rows(&doomed).await {
        assert_eq!((row.state, row.reason), (State::Expired, Some(Reason::DeadlinePassed)), "{row:?}");
        assert_eq!((row.death, row.dlq_sent, row.wake_at), (1, 1, None), "{row:?}");
        assert!(letters.iter().any(|letter| letter.get("delivery_id") == row.id.as_str()), "{letters:?}");
    }
    assert!(world.rows(&paused[10..110]).await.iter().all(|row| row.state == State::Scheduled && row.version == 1));
    world.stop().await;
}

//! A receiver that refuses everything costs a few deliveries, not the backlog: deliver pauses it, says why, and pages.

use std::fs;
use std::path::Path;
use std::time::Duration;

use punctual_adapters::clock::machine_time;
use punctual_adapters::telemetry::metric;
use punctual_core::delivery::Delivery;
use punctual_core::id::DeliveryId;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_tests::receiver::ReceiverOptions;
use punctual_tests::stack::StackOptions;
use serde_json::{Value, json};

use crate::world::{BOUND, Letter, MACHINE, World, due_now, ended, number, reminder, until};

/// So many batches are worked on at one time, of so many records each.
const CONSUMERS: usize = 4;
const BATCH: usize = 10;

async fn start() -> World {
    let options = StackOptions::default().parameter("DeliverMaximumConcurrency", CONSUMERS);
    World::start_with(options, ReceiverOptions::default()).await
}

/// Waits until nothing is left in the queue, and gives the rows that died and those that wait in the ledger.
async fn paused(world: &World, ids: &[DeliveryId]) -> (Vec<Delivery>, Vec<Delivery>) {
    let rest = |row: &Delivery| ended(row) || (row.state == State::Scheduled && row.reason == Some(Reason::DestinationPaused));
    let rows = world.until_rows("the pause", ids, rest).await;
    until("an empty queue", BOUND, async || match world.queued_messages().await {
        0 => Ok(()),
        left => Err(format!("{left} messages")),
    })
    .await;
    let (dead, waiting): (Vec<Delivery>, Vec<Delivery>) = rows.into_iter().partition(|row| row.state == State::Dead);
    for row in &waiting {
        assert_eq!((row.state, row.attempts.len(), row.death), (State::Scheduled, 0, 0), "{row:?}");
        assert!(row.wake_at.is_some(), "something looks at it again: {row:?}");
    }
    (dead, waiting)
}

/// Every dead row has its own dead letter, and there is no other.
fn letters_are_the_dead(letters: &[Letter], dead: &[Delivery], reason: Reason) {
    let mut told: Vec<&str> = letters.iter().map(|letter| letter.get("delivery_id")).collect();
    told.sort_unstable();
    told.dedup();
    let mut died: Vec<&str> = dead.iter().map(|row| row.id.as_str()).collect();
    died.sort_unstable();
    assert_eq!(told, died);
    assert!(dead.iter().all(|row| row.reason == Some(reason) && row.attempts.len() == 1), "{dead:?}");
}

/// What deliver's metric has counted so far.
fn pauses_counted(log: &Path) -> f64 {
    let log = fs::read_to_string(log).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["Function"] == "deliver").filter_map(|line| line[metric::DESTINATION_PAUSED].as_f64()).sum()
}

/// Resumes a destination and runs dispatch until all of these are delivered.
async fn delivered_after_a_resume(world: &World, destination: &str, waiting: &[Delivery]) {
    let ids: Vec<DeliveryId> = waiting.iter().map(|row| row.id.clone()).collect();
    world.console().on_destination("resume", destination).await.unwrap();
    // The wake index is eventually consistent: an entry may appear one read later.
    let rows = until("the rest", BOUND, async || {
        world.console().dispatch().await.unwrap();
        let rows = world.rows(&ids).await;
        let open = rows.iter().filter(|row| row.state != State::Delivered).count();
        if open == 0 { Ok(rows) } else { Err(format!("{open} open")) }
    })
    .await;
    let effects = world.receiver.effects();
    for (row, before) in rows.iter().zip(waiting) {
        assert_eq!((&row.id, &row.idempotency_key, row.attempts.len()), (&before.id, &before.idempotency_key, 1), "{row:?}");
        let mine = effects.iter().filter(|effect| effect.key == row.idempotency_key.as_str()).count();
        assert_eq!(mine, 1, "{row:?}");
    }
    assert_eq!(world.stored_destination(destination).await.paused, None, "old results pause nobody again");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_rejections_in_a_row_pause_the_destination_and_keep_the_backlog() {
    let _machine = MACHINE.read().await;
    let world = start().await;
    world.destination("broken", "rejecting", json!({"pause_after": {"rejected": 50, "of_last": 50}})).await;
    world.destination("sound", "healthy", json!({})).await;
    let sound = world.schedule(&due_now("sound", 40)).await;
    world.proven("broken").await;
    let ids = world.schedule(&due_now("broken", 200)).await;
    let (dead, waiting) = paused(&world, &ids).await;

    // A batch that begins after the fiftieth result was noted calls nobody: what dies beyond it was in flight then.
    assert!((50..50 + CONSUMERS * BATCH).contains(&dead.len()), "{} dead", dead.len());
    assert_eq!(dead.len() + waiting.len(), 200);
    let letters = world.dead_letters().await;
    letters_are_the_dead(&letters, &dead, Reason::Rejected);
    let stored = world.stored_destination("broken").await;
    let pause = stored.paused.expect("a pause");
    assert!(pause.by.starts_with("deliver "), "{pause:?}");
    assert_eq!((stored.version, pause.why.as_str()), (2, "50 of the last 50 calls were rejected, the last with status 400"));
    let explained = world.console().explain(waiting[0].id.as_str()).await.unwrap();
    let why = explained["deliveries"][0]["why"].as_str().unwrap();
    assert_eq!(why, format!("{} paused destination broken since {}: {}.", pause.by, pause.since, pause.why));
    assert_eq!(number(&world.console().dispatch().await.unwrap()["claimed"]), 0, "a paused destination waits");

    // Its neighbour has noticed nothing.
    for row in world.settled(&sound).await {
        assert_eq!((row.state, row.attempts.len()), (State::Delivered, 1), "{row:?}");
    }
    assert_eq!(world.stored_destination("sound").await.version, 1);
    until("the metric that pages", BOUND, async || match pauses_counted(world.stack.log()) {
        1.0 => Ok(()),
        other => Err(format!("{other} pauses counted")),
    })
    .await;

    world.receiver.heal(true);
    delivered_after_a_resume(&world, "broken", &waiting).await;
    assert_eq!(world.receiver.calls().iter().filter(|call| call.path.contains("rejecting")).count(), 200, "one call for each");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_pauses_after_ten_of_twenty_and_again_after_a_resume_that_came_too_early() {
    let _machine = MACHINE.read().await;
    let world = start().await;
    world.destination("broken", "rejecting", json!({})).await;
    world.proven("broken").await;
    let ids = world.schedule(&due_now("broken", 120)).await;
    let (dead, waiting) = paused(&world, &ids).await;
    assert!((10..10 + CONSUMERS * BATCH).contains(&dead.len()), "{} dead", dead.len());
    let pause = world.stored_destination("broken").await.paused.expect("a pause");
    assert!(pause.why.contains(" calls were rejected, the last with status 400"), "{pause:?}");

    // Nothing was mended: what is called under the new version says so again, and no sooner.
    world.console().on_destination("resume", "broken").await.unwrap();
    let again = until("the second pause", BOUND, async || {
        world.console().dispatch().await.unwrap();
        let stored = world.stored_destination("broken").await;
        if stored.paused.is_some() { Ok(stored.version) } else { Err("not paused".into()) }
    })
    .await;
    assert_eq!(again, 4, "registered, paused, resumed, paused");
    let (all_dead, rest) = paused(&world, &ids).await;
    let more = all_dead.len() - dead.len();
    assert!((10..10 + CONSUMERS * BATCH).contains(&more), "{more} more dead");
    assert_eq!(all_dead.len() + rest.len(), ids.len());
    assert!(waiting.len() > rest.len() && !rest.is_empty(), "{} of {} left", rest.len(), waiting.len());
    letters_are_the_dead(&world.dead_letters().await, &all_dead, Reason::Rejected);

    world.receiver.heal(true);
    delivered_after_a_resume(&world, "broken", &rest).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_410_pauses_at_once_and_a_deadline_still_passes_loudly() {
    let _machine = MACHINE.read().await;
    let world = start().await;
    world.destination("moved", "gone", json!({})).await;
    let first = world.schedule(&due_now("moved", 1)).await;
    let dead = world.settled(&first).await;
    assert_eq!((dead[0].state, dead[0].reason), (State::Dead, Some(Reason::Gone)), "{dead:?}");
    let pause =
        until("the pause", BOUND, async || world.stored_destination("moved").await.paused.ok_or("not paused".into())).await;
    assert_eq!(pause.why, Reason::Gone.meaning());

    let now = machine_time();
    let soon = now.plus(Duration::from_secs(5));
    let mut reminders: Vec<Value> = (1..20).map(|n| reminder("moved", n, now, now.plus(Duration::from_secs(3_600)))).collect();
    reminders.push(reminder("moved", 20, now, soon));
    let ids = world.schedule(&reminders).await;
    world.until_after(soon).await;
    let (expires, wait) = (&ids[19..], &ids[..19]);
    // A pause stops the calls and not the time.
    until("the end of the one that is late", BOUND, async || {
        let summary = world.console().dispatch().await.unwrap();
        assert_eq!(number(&summary["claimed"]), 0, "{summary}");
        let row = world.rows(expires).await.remove(0);
        if ended(&row) { Ok(row) } else { Err(format!("{:?}", row.history.last())) }
    })
    .await;
    let late = world.rows(expires).await.remove(0);
    assert_eq!((late.state, late.reason), (State::Expired, Some(Reason::DeadlinePassed)), "{late:?}");
    assert!(world.rows(wait).await.iter().all(|row| row.state == State::Scheduled && row.attempts.is_empty()));
    assert_eq!(world.receiver.call_count(), 1, "nobody was called after the 410");
    let explained = world.console().explain(wait[0].as_str()).await.unwrap();
    let why = explained["deliveries"][0]["why"].as_str().unwrap();
    assert!(why.ends_with(": The receiver answered 410: a destination that is gone is paused for review."), "{why}");
    until("the metric that pages", BOUND, async || match pauses_counted(world.stack.log()) {
        1.0 => Ok(()),
        other => Err(format!("{other} pauses counted")),
    })
    .await;
    world.stop().await;
}

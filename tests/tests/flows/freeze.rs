//! Pause and hold reach what is already on its way, and take nothing from it.

use punctual_core::delivery::Delivery;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use serde_json::json;

use crate::world::{BOUND, World, due_now, number, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_reaches_what_is_queued_and_a_resume_delivers_it_under_the_same_ids() {
    let world = World::start().await;
    let console = world.console();
    world.destination("frozen", "healthy", json!({})).await;
    world.stack.set_delivering(false).await.unwrap();
    let ids = world.schedule(&due_now("frozen", 10)).await;
    let before = world.rows(&ids).await;
    assert!(before.iter().all(|row| row.state == State::Queued), "{before:?}");

    console.on_destination("pause", "frozen").await.unwrap();
    world.stack.set_delivering(true).await.unwrap();
    let paused = |row: &Delivery| row.state == State::Scheduled;
    for row in world.until_rows("the return of every row", &ids, paused).await {
        assert_eq!(row.reason, Some(Reason::DestinationPaused), "{row:?}");
    }
    let summary = console.dispatch().await.unwrap();
    assert_eq!(number(&summary["claimed"]), 0, "{summary}");
    assert_eq!(world.receiver.call_count(), 0);

    console.on_destination("resume", "frozen").await.unwrap();
    let summary = console.dispatch().await.unwrap();
    assert_eq!((number(&summary["claimed"]), number(&summary["published"])), (10, 10), "{summary}");
    for (row, before) in world.settled(&ids).await.iter().zip(before) {
        assert_eq!((row.state, row.attempts.len()), (State::Delivered, 1), "{row:?}");
        assert_eq!((&row.id, &row.idempotency_key), (&before.id, &before.idempotency_key));
        assert_eq!(world.receiver.calls_for(before.idempotency_key.as_str()).len(), 1);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_reaches_a_queued_delivery_and_a_release_delivers_it() {
    let world = World::start().await;
    let console = world.console();
    world.destination("held", "healthy", json!({})).await;
    world.stack.set_delivering(false).await.unwrap();
    let ids = world.schedule(&due_now("held", 2)).await;
    let (held, other) = (&ids[0], &ids[1]);
    console.on_delivery("hold", held.as_str()).await.unwrap();
    world.stack.set_delivering(true).await.unwrap();

    world.settled(std::slice::from_ref(other)).await;
    let row =
        world.until_rows("the return of the held row", std::slice::from_ref(held), |row| row.state == State::Scheduled).await;
    assert_eq!(row[0].reason, Some(Reason::Held), "{row:?}");
    // A held row sleeps until its last safe start: no tick reads it.
    assert!(row[0].wake_at.is_some_and(|wake| wake > row[0].next_attempt_at), "{row:?}");
    let summary = console.dispatch().await.unwrap();
    assert_eq!((number(&summary["seen"]), number(&summary["claimed"])), (0, 0), "{summary}");
    assert_eq!(world.receiver.calls_for(held.as_str()), []);
    let explained = console.explain(held.as_str()).await.unwrap();
    let why = explained["deliveries"][0]["why"].as_str().unwrap();
    assert!(why.contains("ops holds it since"), "{why}");

    console.on_delivery("release", held.as_str()).await.unwrap();
    // The wake index is eventually consistent: the entry may appear one read later.
    until("the claim of the released row", BOUND, async || {
        let summary = console.dispatch().await.unwrap();
        if number(&summary["claimed"]) == 1 { Ok(()) } else { Err(summary.to_string()) }
    })
    .await;
    for row in world.settled(&ids).await {
        assert_eq!((row.state, row.attempts.len()), (State::Delivered, 1), "{row:?}");
    }
    assert_eq!(world.receiver.call_count(), 2);
    world.stop().await;
}

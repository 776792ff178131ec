//! How deliveries end that are not delivered: each with its reason, its dead letter, and nothing left to be woken for.

use std::time::Duration;

use punctual_adapters::clock::machine_time;
use punctual_core::delivery::Delivery;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_tests::receiver::ReceiverOptions;
use punctual_tests::stack::StackOptions;
use serde_json::json;

use crate::world::{Letter, SECRET, World, due_now, number, reminder};

/// Dead or expired once, told once, and asleep for good.
fn buried_once(row: &Delivery, letters: &[Letter], state: State, reason: Reason) {
    assert_eq!((row.state, row.reason), (state, Some(reason)), "{row:?}");
    assert_eq!((row.death, row.dlq_sent, row.wake_at), (1, 1, None), "{row:?}");
    let mine: Vec<&Letter> = letters.iter().filter(|letter| letter.get("delivery_id") == row.id.as_str()).collect();
    assert_eq!(mine.len(), 1, "{row:?}");
    let said = ["state", "death", "reason", "attempts"].map(|name| mine[0].get(name));
    assert_eq!(said, [state.as_str(), "1", reason.code(), &row.attempts.len().to_string()], "{mine:?}");
    assert!(!mine[0].body.contains("\"n\":"), "no payload in a dead letter");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_last_safe_start_passes_in_the_queue_expires_without_a_call() {
    let world = World::start().await;
    world.destination("late", "healthy", json!({})).await;
    world.stack.set_delivering(false).await.unwrap();
    let now = machine_time();
    let ids = world.schedule(&[reminder("late", 0, now, now.plus(Duration::from_secs(4)))]).await;
    assert_eq!(world.row(&ids[0]).await.state, State::Queued);
    world.until_after(now.plus(Duration::from_secs(4))).await;
    world.stack.set_delivering(true).await.unwrap();
    let row = world.settled(&ids).await.remove(0);
    buried_once(&row, &world.dead_letters().await, State::Expired, Reason::DeadlinePassed);
    assert_eq!((row.attempts.len(), world.receiver.call_count()), (0, 0));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_and_budgets_decide_how_a_delivery_dies() {
    let options = ReceiverOptions { answer_after: Duration::from_millis(1_500), ..ReceiverOptions::default() };
    let world = World::start_with(StackOptions::default(), options).await;
    let console = world.console();
    world.destination("gone", "gone", json!({})).await;
    world.destination("conflict", "conflict", json!({})).await;
    world.destination("down", "down", json!({"retry": {"base_ms": 100, "cap_ms": 200, "attempts": 3}})).await;
    world
        .destination("review", "late", json!({"connect_timeout_ms": 200, "total_timeout_ms": 500, "on_unknown": "review"}))
        .await;
    let mut ids = Vec::new();
    for destination in ["gone", "conflict", "down", "review"] {
        ids.extend(world.schedule(&due_now(destination, 1)).await);
    }
    let rows = world.settled(&ids).await;
    let letters = world.dead_letters().await;
    let wanted = [Reason::Gone, Reason::KeyConflict, Reason::AttemptsExhausted, Reason::OutcomeUnknown];
    for (row, reason) in rows.iter().zip(wanted) {
        buried_once(row, &letters, State::Dead, reason);
    }
    let attempts: Vec<Vec<Reason>> = rows.iter().map(|row| row.attempts.iter().map(|attempt| attempt.reason).collect()).collect();
    let down = vec![Reason::ServerError; 3];
    assert_eq!(attempts, [vec![Reason::Gone], vec![Reason::KeyConflict], down, vec![Reason::Timeout]]);
    for row in &rows {
        // One call for each attempt, all with the same key; above all, no second call after the lost answer.
        assert_eq!(world.receiver.calls_for(row.idempotency_key.as_str()).len(), row.attempts.len(), "{row:?}");
    }
    assert_eq!(letters.len(), 4);

    // A 410 pauses the destination for review: what comes later waits in the ledger.
    let gone = world.stored_destination("gone").await;
    let pause = gone.paused.expect("a 410 pauses its destination");
    assert!(pause.by.starts_with("deliver "), "{pause:?}");
    assert_eq!((gone.version, pause.why), (2, Reason::Gone.meaning().to_owned()));
    let now = machine_time();
    let later = world.schedule(&[reminder("gone", 1, now, now.plus(Duration::from_secs(600)))]).await;
    let summary = console.dispatch().await.unwrap();
    assert_eq!(number(&summary["claimed"]), 0, "{summary}");
    assert_eq!(number(&summary["dead_reachable"]), 4, "{summary}");
    assert_eq!(world.row(&later[0]).await.state, State::Scheduled);
    assert_eq!(world.stored_destination("conflict").await.paused, None);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_secret_nothing_is_sent_and_everything_once_it_is_there() {
    let world = World::start().await;
    let name = "punctual/local/later";
    let retry = json!({"base_ms": 1_000, "cap_ms": 1_000, "attempts": 20});
    world.destination("unsigned", "healthy", json!({"secrets": [name], "retry": retry})).await;
    let ids = world.schedule(&due_now("unsigned", 1)).await;
    let row = world.until_rows("the first attempt", &ids, |row| !row.attempts.is_empty()).await.remove(0);
    assert_eq!((row.attempts[0].reason, row.attempts[0].key_ids.as_str()), (Reason::SecretUnavailable, "-"), "{row:?}");
    let deferred =
        |row: &Delivery| row.history.iter().any(|e| e.state == State::Deferred && e.reason == Some(Reason::SecretUnavailable));
    assert!(deferred(&row), "{row:?}");
    assert_eq!(world.receiver.call_count(), 0, "never called unsigned");

    world.console().create_secret(name, SECRET).await.unwrap();
    let row = world.settled(&ids).await.remove(0);
    assert_eq!(row.state, State::Delivered, "{row:?}");
    assert_eq!(world.receiver.call_count(), 1);
    world.stop().await;
}

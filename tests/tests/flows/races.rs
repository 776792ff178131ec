//! Several dispatchers at once on the same due rows.

use std::collections::BTreeSet;

use punctual_core::state::State;
use serde_json::{Value, json};

use crate::world::{MACHINE, World, due_now, number, times};

const ROWS: usize = 500;

#[tokio::test(flavor = "multi_thread")]
async fn of_four_dispatchers_on_500_due_rows_one_claims_each() {
    let _busy = MACHINE.read().await;
    let world = World::start().await;
    let console = world.console();
    world.destination("shared", "healthy", json!({})).await;
    world.proven("shared").await;
    console.on_destination("pause", "shared").await.unwrap();
    let ids = world.schedule(&due_now("shared", ROWS)).await;
    // All four have a running environment before the rows can be seen: none of them comes too late for the race.
    let warm = async || console.dispatch().await.unwrap();
    tokio::join!(warm(), warm(), warm(), warm());
    world.stack.set_delivering(false).await.unwrap();
    console.on_destination("resume", "shared").await.unwrap();

    let run = async || console.dispatch().await.unwrap();
    let (a, b, c, d) = tokio::join!(run(), run(), run(), run());
    let sum = |field: &str| [&a, &b, &c, &d].iter().map(|summary| number(&summary[field])).sum::<usize>();
    let per_run = |field: &str| [&a, &b, &c, &d].map(|summary: &Value| number(&summary[field]));
    println!(
        "four dispatchers, {ROWS} rows: claimed {:?}, published {:?}, lost races {:?}, outstanding {:?}",
        per_run("claimed"),
        per_run("published"),
        per_run("lost_races"),
        per_run("outstanding"),
    );
    assert_eq!(sum("claimed"), ROWS);
    assert_eq!(sum("published"), ROWS);
    assert_eq!((sum("rescued"), sum("failed"), sum("publish_failed")), (0, 0, 0));
    assert!(sum("lost_races") > 0, "nobody lost a race: {a} {b} {c} {d}");
    let rows = world.rows(&ids).await;
    for row in &rows {
        assert_eq!((row.state, times(row, State::Dispatching)), (State::Queued, 1), "{row:?}");
    }
    // Each run marks its claims with its own correlation id: the claims are spread as the summaries say.
    let winners: BTreeSet<String> =
        rows.iter().flat_map(|row| &row.history).filter(|e| e.state == State::Dispatching).map(|e| e.by.to_string()).collect();
    assert_eq!(winners.len(), per_run("claimed").iter().filter(|claimed| **claimed > 0).count());
    assert_eq!(world.queued_messages().await, ROWS);

    world.stack.set_delivering(true).await.unwrap();
    for row in world.settled(&ids).await {
        assert_eq!((row.state, row.attempts.len()), (State::Delivered, 1), "{row:?}");
    }
    assert_eq!((world.receiver.effects().len(), world.receiver.duplicate_effects()), (ROWS, 0));
    assert_eq!(world.receiver.calls().len(), ROWS);
    world.stop().await;
}

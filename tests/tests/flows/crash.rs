//! The deliver function is killed in mid-call. Nothing in the template shortens its lease: it ends with the killed
//! invocation's deadline (30 s) plus the bound on the clocks (2 s), and that is how long this takes.

use std::time::Duration;

use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_tests::receiver::{ReceiverOptions, Step};
use punctual_tests::stack::StackOptions;
use serde_json::json;

use crate::world::{BOUND, World, due_now, number, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_worker_is_killed_is_closed_as_unknown_and_repeated_with_the_same_key() {
    // Dispatch looks at a row again when the lease of its own claim has ended.
    let options = StackOptions::default().parameter("DispatchLeaseSeconds", 10);
    let world = World::start_with(options, ReceiverOptions::default()).await;
    let console = world.console();
    world.destination("crash", "healthy", json!({"total_timeout_ms": 20_000})).await;
    let reminders = due_now("crash", 1);
    world.stack.set_delivering(false).await.unwrap();
    let ids = world.schedule(&reminders).await;
    let key = world.row(&ids[0]).await.idempotency_key;
    // The receiver does what it is asked for, and the answer never comes.
    world.receiver.program(key.as_str(), [Step::hang().effect(true)]).unwrap();
    world.stack.set_delivering(true).await.unwrap();
    assert!(world.receiver.wait_for_calls(1, BOUND).await, "the first call did not come");
    assert!(world.stack.kill_workers("deliver").unwrap() >= 1);

    let row = world.row(&ids[0]).await;
    let lease = row.lease_until.unwrap();
    assert_eq!((row.state, row.attempts.len()), (State::Delivering, 0), "{row:?}");
    // While the lease is live nobody may take the row, and nobody may make a second call.
    let summary = console.dispatch().await.unwrap();
    assert_eq!((number(&summary["closed_unknown"]), number(&summary["claimed"])), (0, 0), "{summary}");
    let held = console.on_delivery("hold", ids[0].as_str()).await.unwrap();
    assert!(held["did"].as_str().unwrap().contains("finishes first"), "{held}");
    console.on_delivery("release", ids[0].as_str()).await.unwrap();

    world.until_after(lease.plus(Duration::from_secs(1))).await;
    until("the rescue", BOUND, async || {
        let summary = console.dispatch().await.unwrap();
        if number(&summary["closed_unknown"]) == 1 { Ok(()) } else { Err(summary.to_string()) }
    })
    .await;
    let row = world.settled(&ids).await.remove(0);
    let evidence: Vec<(u32, Reason)> = row.attempts.iter().map(|attempt| (attempt.number, attempt.reason)).collect();
    assert_eq!(row.state, State::Delivered, "{row:?}");
    assert_eq!(evidence, [(1, Reason::OutcomeUnknown), (2, Reason::Accepted)]);
    let calls = world.receiver.calls_for(key.as_str());
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert_eq!(world.receiver.effects().len(), 1, "two calls, one effect");
    world.stop().await;
}

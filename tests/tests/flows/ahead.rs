//! A reminder inside the horizon waits for no tick: schedule itself releases it.

use std::time::Duration;

use punctual_adapters::clock::machine_time;
use punctual_core::state::State;
use serde_json::json;

use crate::world::{MACHINE, World, reminder};

const REMINDERS: usize = 20;
/// How far ahead.
const AHEAD: Duration = Duration::from_secs(20);
/// The promise: not later than this, by the receiver's clock.
const TOLERANCE_MS: i64 = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_reminder_20_seconds_ahead_is_called_within_a_second_of_its_instant_and_never_before() {
    let _alone = MACHINE.write().await;
    let world = World::start().await;
    world.destination("soon", "healthy", json!({})).await;
    let now = machine_time();
    // Different sub-second instants; what a queue rounds to whole seconds would show.
    let after = |n: usize| now.plus(AHEAD).plus(Duration::from_millis(137 * u64::try_from(n).unwrap()));
    let reminders: Vec<_> =
        (0..REMINDERS).map(|n| reminder("soon", n, after(n), after(n).plus(Duration::from_secs(60)))).collect();
    let ids = world.schedule(&reminders).await;

    let rows = world.settled(&ids).await;
    assert!(world.stack.worker_pids("dispatch").unwrap().is_empty(), "no tick had a part in it");
    let mut lateness: Vec<i64> = Vec::new();
    for row in &rows {
        assert_eq!((row.state, row.attempts.len()), (State::Delivered, 1), "{row:?}");
        let calls = world.receiver.calls_for(row.idempotency_key.as_str());
        lateness.extend(calls.iter().map(|call| call.received_at_ms - row.deliver_after.as_millis()));
    }
    lateness.sort_unstable();
    println!("{REMINDERS} reminders 20 s ahead: called {} to {} ms after their instant", lateness[0], lateness[REMINDERS - 1]);
    assert_eq!(lateness.len(), REMINDERS);
    assert!(lateness[0] >= 0, "a call came before its instant: {lateness:?}");
    assert!(lateness[REMINDERS - 1] <= TOLERANCE_MS, "a call came too late: {lateness:?}");
    world.stop().await;
}

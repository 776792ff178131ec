//! A destination is paused while deliveries are everywhere on their way, and resumed.

use std::time::Duration;

use anyhow::Result;
use punctual_adapters::clock::machine_time;
use punctual_core::delivery::Delivery;
use punctual_core::id::DeliveryId;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use serde_json::json;

use super::ground::{BOUND, Ground, id, until_after};
use super::report::{DELIVERED, Drill, Wanted};
use crate::receiver::Step;

const NAME: &str = "mid-flight";
/// So many are delivered before the pause, wait for a retry, wait in the queue, and come after it.
const ROWS: usize = 4;
/// Those in the queue are due, and those that failed are called again, so long after the beginning: after the pause.
const LATER: Duration = Duration::from_secs(10);
/// A pause acts within this.
const ACTS: Duration = Duration::from_secs(15);

/// Nothing is called after the pause, nothing is lost, and all is delivered after the resume.
pub(super) async fn in_mid_flight(ground: &Ground<'_>) -> Result<Drill> {
    let mut drill = Drill::new("destination paused in mid-flight, and resumed");
    ground.destination(NAME, "healthy/mid-flight", json!({})).await?;
    let begin = machine_time();
    let numbers = |part: usize| part * ROWS..(part + 1) * ROWS;
    let part = |of: usize| -> Vec<DeliveryId> { numbers(of).map(|n| id(NAME, n)).collect() };
    let [delivered, deferred, queued, fresh] = [0, 1, 2, 3].map(part);
    for one in &deferred {
        ground.receiver.program(one.as_str(), [Step::status(429).retry_after(LATER.as_secs().to_string())])?;
    }
    ground.schedule(NAME, numbers(0).chain(numbers(1)), begin).await?;
    ground.schedule(NAME, numbers(2), begin.plus(LATER)).await?;
    for (ids, state) in [(&delivered, State::Delivered), (&deferred, State::Deferred), (&queued, State::Queued)] {
        ground.until_rows(state.as_str(), BOUND, ids, |row| row.state == state).await?;
    }
    let before: usize = calls(ground, None);
    ground.console.on_destination("pause", NAME).await?;
    let paused = machine_time();
    let early = queued.iter().chain(&deferred).filter(|id| ground.calls(id).len() > 1 || paused >= begin.plus(LATER)).count();
    drill.expect(early == 0, || "the pause came too late for this drill to say anything".to_owned());
    ground.schedule(NAME, numbers(3), paused).await?;

    // Each comes back as its message comes up; none is called until well after the pause has taken effect.
    let stopped: Vec<DeliveryId> = [&deferred[..], &queued, &fresh].concat();
    let back = |row: &Delivery| row.state == State::Scheduled;
    ground.until_rows("the return of each", BOUND, &stopped, back).await?;
    until_after(paused.plus(ACTS), BOUND).await?;
    for row in ground.rows(&stopped).await? {
        drill.expect(row.state == State::Scheduled, || format!("{} is {} while paused", row.id, row.state));
        let new = fresh.contains(&row.id);
        let reason = if new { None } else { Some(Reason::DestinationPaused) };
        drill.expect(row.reason == reason, || format!("{}: reason {:?}", row.id, row.reason));
    }
    let after = calls(ground, Some(paused));
    drill.expect(after == 0, || format!("{after} calls after the pause"));
    let watched = machine_time().since(paused).as_secs();
    drill.note(format!("{before} calls before the pause, {after} in the {watched} s after it"));

    ground.console.on_destination("resume", NAME).await?;
    ground.ended(&stopped).await?;
    for (n, ids) in [&deferred, &queued, &fresh, &delivered].into_iter().enumerate() {
        let (attempts, history): (&[&str], &[&str]) = match n {
            0 => (&["rate_limited", "accepted"], &RETRIED),
            1 => (&["accepted"], &RETURNED),
            _ => (&["accepted"], &STRAIGHT),
        };
        for one in ids {
            drill.row(one, Wanted { attempts: Some(attempts), history: Some(history), calls: Some(attempts.len()), ..DELIVERED });
        }
    }
    for one in &deferred {
        let calls = ground.calls(one);
        let times: Vec<i64> = calls.iter().map(|call| call.received_at_ms).collect();
        let kept = matches!(times.as_slice(), [first, second] if second - first >= 10_000);
        drill.expect(kept, || format!("{one}: called at {times:?}, against Retry-After"));
    }
    Ok(drill)
}

const STRAIGHT: [&str; 4] = ["scheduled", "dispatching", "delivering#1", "delivered#1 accepted"];
const RETURNED: [&str; 6] =
    ["scheduled", "dispatching", "scheduled destination_paused", "dispatching", "delivering#1", "delivered#1 accepted"];
const RETRIED: [&str; 8] = [
    "scheduled",
    "dispatching",
    "delivering#1",
    "deferred#1 rate_limited",
    "scheduled destination_paused",
    "dispatching",
    "delivering#2",
    "delivered#2 accepted",
];

/// Calls of this drill, all or those after an instant.
fn calls(ground: &Ground<'_>, after: Option<Timestamp>) -> usize {
    let after = after.map_or(0, Timestamp::as_millis);
    let mine = |path: &str| path == "/healthy/mid-flight";
    ground.receiver.calls().iter().filter(|call| mine(&call.path) && call.received_at_ms > after).count()
}

//! `Retry-After` is a floor: neither the policy nor jitter undercuts it, and holds, releases and cancels work meanwhile.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use punctual_adapters::clock::machine_time;
use punctual_core::delivery::Delivery;
use punctual_core::id::DeliveryId;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use serde_json::json;

use super::ground::{BOUND, Ground, ended, field, id};
use super::report::{DELIVERED, Drill, Wanted};
use crate::receiver::Step;

/// The receiver takes so long to answer 429: a floor that counted from the call's start would show.
const THINKS: Duration = Duration::from_millis(400);
/// The floor that is waited out in every run.
const SHORT: Duration = Duration::from_secs(12);
/// The floor of the issue: beyond a queue's longest delay.
const LONG: Duration = Duration::from_secs(900);
/// What the second call may take beyond its floor: two ticks, the queue's whole seconds, the call.
const SLACK: Duration = Duration::from_secs(30);

const WAITED: &[&str] =
    &["scheduled", "dispatching", "delivering#1", "deferred#1 rate_limited", "delivering#2", "delivered#2 accepted"];
const HELD_IN_THE_QUEUE: &[&str] = &[
    "scheduled",
    "dispatching",
    "delivering#1",
    "deferred#1 rate_limited",
    "deferred held",
    "scheduled held",
    "scheduled unheld",
    "dispatching",
    "delivering#2",
    "delivered#2 accepted",
];

/// A short floor in both forms is waited out; a delivery that waits in the queue can be held, released and cancelled.
pub(super) async fn short(ground: &Ground<'_>) -> Result<Drill> {
    const NAME: &str = "limited";
    let mut drill = Drill::new("429 with Retry-After 12 s, as seconds and as a date");
    ground.destination(NAME, "healthy/limited", json!({})).await?;
    let seconds = SHORT.as_secs().to_string();
    // Whole seconds, rounded up; two more for the first call to come.
    let date = Timestamp::from_millis((machine_time().plus(SHORT).as_seconds() + 3) * 1_000);
    for (n, text) in [(0, &seconds), (1, &http_date(date)), (2, &seconds), (3, &seconds)] {
        ground.receiver.program(id(NAME, n).as_str(), [limited(text)])?;
    }
    let ids = ground.now(NAME, 4).await?;
    let (asked, held, cancelled) = (ids.iter().take(2), id(NAME, 2), id(NAME, 3));
    let waiting = ground.until_rows("429 for each", BOUND, &ids, waits).await?;
    for (row, floor) in waiting.iter().zip([None, Some(date), None, None]) {
        let floor = floor.map_or_else(|| answered(ground, &row.id, SHORT), Ok)?;
        drill.expect(row.state == State::Deferred, || format!("{} is {}", row.id, row.state));
        drill.expect(row.next_attempt_at >= floor, || format!("{}: next at {} before {floor}", row.id, row.next_attempt_at));
    }
    ground.console.on_delivery("hold", held.as_str()).await?;
    ground.console.on_delivery("cancel", cancelled.as_str()).await?;
    // Its message comes up and brings the held row back to the ledger; only then is it released.
    let back = |row: &Delivery| row.state == State::Scheduled;
    let rows = ground.until_rows("the return of the held row", BOUND, std::slice::from_ref(&held), back).await?;
    drill.expect(rows.iter().all(|row| row.reason == Some(Reason::Held)), || "the row came back for another reason".to_owned());
    ground.console.on_delivery("release", held.as_str()).await?;

    let rest: Vec<DeliveryId> = asked.chain([&held]).cloned().collect();
    ground.ended(&rest).await?;
    for (one, floor) in rest.iter().zip([None, Some(date), None]) {
        let floor = floor.map_or_else(|| answered(ground, one, SHORT), Ok)?;
        second_call(ground, &mut drill, one, floor)?;
        let history = if *one == held { HELD_IN_THE_QUEUE } else { WAITED };
        let attempts = Some(&["rate_limited", "accepted"][..]);
        drill.row(one, Wanted { attempts, history: Some(history), calls: Some(2), ..DELIVERED });
    }
    drill.row(&cancelled, taken_back("deferred#1 rate_limited"));
    Ok(drill)
}

/// A floor of 900 s. Without `to_the_end` the rows are left waiting, and watched while the other drills last.
pub(super) async fn far(ground: &Ground<'_>, to_the_end: bool) -> Result<Drill> {
    const NAME: &str = "far";
    let mut drill = Drill::new(match to_the_end {
        true => "429 with Retry-After: 900, waited out",
        false => "429 with Retry-After: 900; held, released, cancelled meanwhile",
    });
    ground.destination(NAME, "healthy/far", json!({})).await?;
    // Still too far for the queue if its call comes half a minute from now.
    let date = Timestamp::from_millis((machine_time().plus(LONG).as_seconds() + 30) * 1_000);
    let seconds = LONG.as_secs().to_string();
    for (n, text) in [(0, &seconds), (1, &http_date(date)), (2, &seconds), (3, &seconds), (4, &seconds)] {
        ground.receiver.program(id(NAME, n).as_str(), [limited(text)])?;
    }
    let ids = ground.now(NAME, 5).await?;
    let (kept, dated, held, released, cancelled) = (id(NAME, 0), id(NAME, 1), id(NAME, 2), id(NAME, 3), id(NAME, 4));
    let before = ground.until_rows("429 for each", BOUND, &ids, waits).await?;
    for row in &before {
        let floor = if row.id == dated { date } else { answered(ground, &row.id, LONG)? };
        drill.expect(row.next_attempt_at >= floor, || format!("{}: next at {} before {floor}", row.id, row.next_attempt_at));
    }
    ground.console.on_delivery("hold", held.as_str()).await?;
    ground.console.on_delivery("hold", released.as_str()).await?;
    ground.console.on_delivery("release", released.as_str()).await?;
    let answer = ground.console.on_delivery("cancel", cancelled.as_str()).await?;
    drill.expect(answer.get("may_have_been_delivered").is_none(), || format!("429 is no lost answer: {answer}"));
    let again = ground.console.on_delivery("cancel", cancelled.as_str()).await?;
    drill.expect(field(&again, "did") == "nothing: it was cancelled already", || format!("cancelled twice: {again}"));
    drill.expect(field(&again, "version") == field(&answer, "version"), || format!("the second cancel wrote: {again}"));
    let told = ground.explained(&cancelled).await?;
    drill.expect(told.contains("ops cancelled it at") && told.contains("local stack"), || format!("inspect says {told}"));

    // Neither a hold nor its release moves the instant that the receiver asked for.
    let after = ground.rows(&ids).await?;
    for (before, after) in before.iter().zip(&after) {
        let (was, is) = (before.next_attempt_at, after.next_attempt_at);
        drill.expect(was == is, || format!("{}: the next attempt moved from {was} to {is}", after.id));
        drill.expect(after.hold.is_some() == (after.id == held), || format!("{} hold {:?}", after.id, after.hold));
        let sleeps = after.wake_at.is_some_and(|wake| wake >= is) || after.id == cancelled;
        drill.expect(sleeps, || format!("{} wakes at {:?}, before {is}", after.id, after.wake_at));
    }
    let waiting = Wanted {
        ends: State::Scheduled,
        reason: Reason::RateLimited,
        attempts: Some(&["rate_limited"]),
        calls: Some(1),
        effects: 0,
        ..DELIVERED
    };
    if to_the_end {
        let called = [kept, dated, released];
        ground.until_rows("the end of the wait", LONG + SLACK, &called, ended).await?;
        // The held one is due as well, and still nobody calls.
        let calls = ground.calls(&held).len();
        drill.expect(calls == 1, || format!("{calls} calls for a held delivery"));
        ground.console.on_delivery("release", held.as_str()).await?;
        ground.ended(std::slice::from_ref(&held)).await?;
        for one in called.iter().chain([&held]) {
            let floor = if *one == id(NAME, 1) { date } else { answered(ground, one, LONG)? };
            second_call(ground, &mut drill, one, floor)?;
            drill.row(one, Wanted { attempts: Some(&["rate_limited", "accepted"]), calls: Some(2), ..DELIVERED });
        }
    } else {
        for one in [&kept, &dated, &held, &released] {
            drill.row(one, waiting.clone());
        }
    }
    drill.row(&cancelled, taken_back("scheduled#1 rate_limited"));
    Ok(drill)
}

fn limited(retry_after: &str) -> Step {
    Step::status(429).retry_after(retry_after).after(THINKS)
}

fn waits(row: &Delivery) -> bool {
    row.attempts.len() == 1 && row.reason == Some(Reason::RateLimited)
}

/// The instant before which a delivery must not be called again: its first answer and the floor.
fn answered(ground: &Ground<'_>, id: &DeliveryId, floor: Duration) -> Result<Timestamp> {
    let calls = ground.calls(id);
    let first = calls.first().context("a first call")?;
    Ok(Timestamp::from_millis(first.received_at_ms).plus(THINKS).plus(floor))
}

/// The second call by the receiver's own clock.
fn second_call(ground: &Ground<'_>, drill: &mut Drill, id: &DeliveryId, floor: Timestamp) -> Result<()> {
    let calls = ground.calls(id);
    let second = calls.get(1).context("a second call")?;
    let first = calls.first().map_or(0, |call| call.received_at_ms);
    let beyond = second.received_at_ms - floor.as_millis();
    drill.expect(beyond >= 0, || format!("{id}: the second call came {} ms before its floor", -beyond));
    drill.note(format!("second call {} ms after the first, {beyond} ms after its floor", second.received_at_ms - first));
    Ok(())
}

/// Taken back while it waited: who did it is on the row, and nobody calls.
fn taken_back(waited: &'static str) -> Wanted {
    let history: &'static [&'static str] = match waited {
        "deferred#1 rate_limited" => {
            &["scheduled", "dispatching", "delivering#1", "deferred#1 rate_limited", "cancelled cancelled"]
        }
        _ => &["scheduled", "dispatching", "delivering#1", "scheduled#1 rate_limited", "cancelled cancelled"],
    };
    Wanted {
        ends: State::Cancelled,
        reason: Reason::Cancelled,
        attempts: Some(&["rate_limited"]),
        history: Some(history),
        calls: Some(1),
        effects: 0,
        letters: 0,
    }
}

fn http_date(at: Timestamp) -> String {
    let at: SystemTime = UNIX_EPOCH + Duration::from_secs(u64::try_from(at.as_seconds()).unwrap_or_default());
    httpdate::fmt_http_date(at)
}

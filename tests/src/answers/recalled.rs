//! A cancel meets a call that is under way, and one that is done.

use std::time::Duration;

use anyhow::Result;
use punctual_core::delivery::Delivery;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use serde_json::{Value, json};

use super::ground::{BOUND, Ground, field, id, until};
use super::report::{DELIVERED, Drill, Wanted};
use crate::receiver::Step;

/// The receiver answers so late; the destination waits half of it.
const ANSWERS: Duration = Duration::from_secs(4);

/// Refused while the call is under way, done once it has ended, and told that it may have had its effect.
pub(super) async fn in_mid_call(ground: &Ground<'_>) -> Result<Drill> {
    const NAME: &str = "recalled";
    let mut drill = Drill::new("cancelled in mid-call: refused, then done once it has ended");
    // After the lost answer there is time until the next attempt.
    let change = json!({"total_timeout_ms": 2_000, "retry": {"base_ms": 8_000, "cap_ms": 8_000, "attempts": 3}});
    ground.destination(NAME, "healthy/recalled", change).await?;
    let (slow, done) = (id(NAME, 0), id(NAME, 1));
    ground.receiver.program(slow.as_str(), [Step::status(200).after(ANSWERS)])?;
    ground.now(NAME, 2).await?;
    until("the call", BOUND, async || Ok(ground.calls(&slow).first().map(|_| ()).ok_or_else(String::new))).await?;
    let refused = cancel(ground, slow.as_str()).await?;
    let row = ground.row(&slow).await?;
    drill.expect(code(&refused) == "in_flight", || format!("in mid-call: {refused}"));
    let lease = row.lease_until.map(|until| json!(until));
    drill.expect(row.state == State::Delivering && lease.is_some(), || format!("in mid-call it is {}", row.state));
    drill.expect(field(&refused, "in_flight") == &json!({"attempt": 1, "lease_until": lease}), || {
        format!("in mid-call: {refused}")
    });
    let told = ground.explained(&slow).await?;
    drill.expect(!told.contains("cancel"), || format!("inspect allows a cancel in mid-call: {told}"));

    let lost = |row: &Delivery| row.state == State::Deferred;
    ground.until_rows("the end of the call", BOUND, std::slice::from_ref(&slow), lost).await?;
    let told = ground.explained(&slow).await?;
    drill.expect(told.contains("hold, cancel"), || format!("inspect allows no cancel after the call: {told}"));
    for _ in 0..2 {
        let answer = cancel(ground, slow.as_str()).await?;
        let told = field(&answer, "ok") == true && field(&answer, "may_have_been_delivered") == true;
        drill.expect(told, || format!("after the call: {answer}"));
    }
    let told = ground.explained(&slow).await?;
    drill.expect(told.contains("may have had its effect"), || format!("inspect says {told}"));

    ground.ended(&[slow.clone(), done.clone()]).await?;
    let late = cancel(ground, done.as_str()).await?;
    drill.expect(code(&late) == "already_delivered", || format!("after the delivery: {late}"));
    let wanted = Wanted {
        ends: State::Cancelled,
        reason: Reason::Cancelled,
        attempts: Some(&["timeout"]),
        history: Some(&["scheduled", "dispatching", "delivering#1", "deferred#1 timeout", "cancelled cancelled"]),
        calls: Some(1),
        ..DELIVERED
    };
    drill.row(&slow, wanted);
    drill.row(&done, Wanted { attempts: Some(&["accepted"]), calls: Some(1), ..DELIVERED });
    Ok(drill)
}

/// The whole answer, refusals included.
async fn cancel(ground: &Ground<'_>, id: &str) -> Result<Value> {
    let event = json!({"action": "cancel", "by": "ops", "why": "local stack", "evidence": "a test", "delivery_id": id});
    ground.console.send("operate", &event).await
}

fn code(answer: &Value) -> &str {
    answer.pointer("/errors/0/code").and_then(Value::as_str).unwrap_or_default()
}

//! Answers that are repeated, and answers that never came: one key, one effect.

use anyhow::Result;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use serde_json::json;

use super::ground::{Ground, id};
use super::report::{DELIVERED, Drill, Wanted};
use crate::receiver::Step;

/// What a receiver is given before its answer counts as lost; `/late` takes longer.
const SHORT: u64 = 800;

/// 503 twice, then 200.
pub(super) async fn twice_down(ground: &Ground<'_>) -> Result<Drill> {
    let mut drill = Drill::new("503 twice, then 200");
    ground.destination("twice-down", "flaky/twice-down", json!({})).await?;
    let ids = ground.now("twice-down", 1).await?;
    let wanted = Wanted {
        attempts: Some(&["server_error", "server_error", "accepted"]),
        history: Some(&[
            "scheduled",
            "dispatching",
            "delivering#1",
            "deferred#1 server_error",
            "delivering#2",
            "deferred#2 server_error",
            "delivering#3",
            "delivered#3 accepted",
        ]),
        calls: Some(3),
        ..DELIVERED
    };
    for row in ground.ended(&ids).await? {
        drill.row(&row.id, wanted.clone());
    }
    Ok(drill)
}

/// 409: the first request is still in progress. Then 200.
pub(super) async fn in_progress(ground: &Ground<'_>) -> Result<Drill> {
    let mut drill = Drill::new("409 (in progress), then 200");
    ground.destination("in-progress", "busy/in-progress", json!({})).await?;
    let ids = ground.now("in-progress", 1).await?;
    let wanted = Wanted {
        attempts: Some(&["in_progress", "accepted"]),
        history: Some(&[
            "scheduled",
            "dispatching",
            "delivering#1",
            "deferred#1 in_progress",
            "delivering#2",
            "delivered#2 accepted",
        ]),
        calls: Some(2),
        ..DELIVERED
    };
    for row in ground.ended(&ids).await? {
        drill.row(&row.id, wanted.clone());
    }
    Ok(drill)
}

/// The receiver has processed the call, and its answer comes too late, or the connection is cut.
pub(super) async fn answer_lost(ground: &Ground<'_>) -> Result<Drill> {
    let mut drill = Drill::new("answer lost after processing (late, cut): called again");
    let [late, cut] = lost(ground, ["lost-late", "lost-cut"], json!({"total_timeout_ms": SHORT})).await?;
    for (id, attempts) in [(late, &["timeout", "accepted"]), (cut, &["connection_cut", "accepted"])] {
        drill.row(&id, Wanted { attempts: Some(attempts), calls: Some(2), ..DELIVERED });
    }
    Ok(drill)
}

/// The same at a destination that wants no automatic second call.
pub(super) async fn answer_lost_for_review(ground: &Ground<'_>) -> Result<Drill> {
    let mut drill = Drill::new("answer lost, on_unknown review: not called again");
    let change = json!({"total_timeout_ms": SHORT, "on_unknown": "review"});
    let [late, cut] = lost(ground, ["review-late", "review-cut"], change).await?;
    let dead = Wanted {
        ends: State::Dead,
        reason: Reason::OutcomeUnknown,
        history: Some(&["scheduled", "dispatching", "delivering#1", "dead#1 outcome_unknown", "dead dead_letter_sent"]),
        calls: Some(1),
        letters: 1,
        ..DELIVERED
    };
    drill.row(&late, Wanted { attempts: Some(&["timeout"]), ..dead.clone() });
    drill.row(&cut, Wanted { attempts: Some(&["connection_cut"]), ..dead });
    Ok(drill)
}

/// A delivery whose answer comes too late, and one whose connection is cut; both come to their end.
async fn lost(ground: &Ground<'_>, names: [&str; 2], change: serde_json::Value) -> Result<[punctual_core::id::DeliveryId; 2]> {
    let [late, cut] = names;
    ground.destination(late, &format!("late/{late}"), change.clone()).await?;
    ground.destination(cut, &format!("healthy/{cut}"), change).await?;
    let ids = [id(late, 0), id(cut, 0)];
    ground.receiver.program(id(cut, 0).as_str(), [Step::cut().effect(true)])?;
    ground.now(late, 1).await?;
    ground.now(cut, 1).await?;
    ground.ended(&ids).await?;
    Ok(ids)
}

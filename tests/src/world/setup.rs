//! I am what a seed decides before anything happens: the stage, the destinations, the reminders.

use std::time::Duration;

use punctual_core::delivery::Delivery;
use punctual_core::destination::{Change, Destination, OnUnknown, Spec};
use punctual_core::id::DestinationId;
use punctual_core::message::Message;
use punctual_core::time::Timestamp;
use punctual_flows::release::Rules;
use serde_json::{Value, json};

use super::actor::Stage;
use super::ports::url_of;
use super::rng::{Rng, mix};
use super::step::World;

/// When every world begins.
pub(super) const START: i64 = 1_796_115_600_000;
/// What the functions take for the time between two ticks.
const TICK: Duration = Duration::from_secs(60);
/// How many destinations there are.
pub(super) const DESTINATIONS: u8 = 2;
/// How many reminders there may be.
pub(super) const REMINDERS: u8 = 8;

pub(super) fn stage(seed: u64) -> Stage {
    let mut rng = Rng::new(mix(&[seed, 10]));
    let mut seconds = |from: &[u64]| Duration::from_secs(rng.pick(from).unwrap_or(60));
    Stage {
        rules: Rules { horizon: seconds(&[60, 90, 150, 300]), lease: seconds(&[10, 15, 30, 60]) },
        tick: TICK,
        margin: seconds(&[1, 3, 10]),
        handoff_threshold: seconds(&[10, 20, 60, 120]),
        interval: Duration::from_secs(Rng::new(mix(&[seed, 16])).pick(&[10, 60, 60, 120, 300]).unwrap_or(60)),
    }
}

/// A destination under one of its policies, as an operator would write it. Where rates do not bind, a burst has room for
/// everything.
pub(super) fn spec(seed: u64, destination: u8, variant: u8, binds: bool) -> Value {
    let mut fixed = Rng::new(mix(&[seed, 11, u64::from(destination)]));
    let mut rng = Rng::new(mix(&[seed, 12, u64::from(destination), u64::from(variant)]));
    let base = rng.pick(&[100_u64, 2_000, 10_000, 30_000]).unwrap_or(2_000);
    json!({
        "id": format!("r{destination}"),
        "url": url_of(usize::from(destination)),
        "secrets": [format!("punctual/sim/r{destination}")],
        "connect_timeout_ms": 1_000,
        "total_timeout_ms": rng.pick(&[2_000, 5_000, 10_000]),
        "rate_per_second": rng.pick(&[1, 5, 50]),
        "burst": if binds { None } else { Some(10_000) },
        "max_in_flight": rng.pick(&[1, 2, 100]),
        "shards": fixed.between(1, 2),
        "retry": { "base_ms": base, "cap_ms": rng.pick(&[base, 60_000, 3_600_000]), "attempts": rng.pick(&[1, 2, 3, 5, 10]) },
        // The world's receivers reject in bursts, if at all.
        "pause_after": { "rejected": 1 + mix(&[seed, 15, u64::from(destination)]) % 4, "of_last": 5 },
        "on_unknown": if fixed.chance(250) { "review" } else { "retry" },
    })
}

/// A destination as it is at the start; none if its own rules refuse it.
pub(super) fn destination(seed: u64, destination: u8, binds: bool) -> Option<Destination> {
    let spec: Spec = serde_json::from_value(spec(seed, destination, 0, binds)).ok()?;
    let changed = Change { at: Timestamp::from_millis(START), by: "sim".into(), why: "the start".into() };
    Some(Destination { spec, version: 1, paused: None, changed })
}

/// Whether a destination wants no second call after a lost answer.
pub(super) fn wants_review(destination: &Destination) -> bool {
    destination.spec.on_unknown == OnUnknown::Review
}

/// A reminder's instants, as they are first asked for at `now`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instants {
    pub(super) deliver_after: Timestamp,
    pub(super) deliver_by: Timestamp,
}

pub(super) fn instants(seed: u64, reminder: u8, now: i64) -> Instants {
    let mut rng = Rng::new(mix(&[seed, 13, u64::from(reminder)]));
    let due = match rng.below(10) {
        0 => -i64::from(rng.between(1, 60_000)),
        1..=3 => i64::from(rng.between(0, 5_000)),
        4..=7 => i64::from(rng.between(5_000, 200_000)),
        _ => i64::from(rng.between(200_000, 2_000_000)),
    };
    let window = match rng.below(10) {
        0 => i64::from(rng.between(10_000, 15_000)),
        1 => i64::from(rng.between(15_000, 90_000)),
        2..=5 => i64::from(rng.between(90_000, 900_000)),
        _ => i64::from(rng.between(900_000, 8_000_000)),
    };
    let deliver_after = Timestamp::from_millis(now + due);
    Instants { deliver_after, deliver_by: Timestamp::from_millis(deliver_after.as_millis() + window) }
}

/// Other instants for a reminder, as they are asked for at `now`.
pub(super) fn other_instants(seed: u64, reminder: u8, variant: u8, now: i64) -> Instants {
    // Whoever asks has checked that they are not past.
    let Instants { deliver_after, deliver_by } = instants(mix(&[seed, 14, u64::from(variant)]), reminder, now);
    Instants { deliver_after, deliver_by: deliver_by.max(Timestamp::from_millis(now + 12_000)) }
}

/// A message that is wrong in some way: unreadable, of another version, or with hints that lie about a row.
pub(super) fn garbled(row: Option<&Delivery>, variant: u8) -> String {
    let Some(row) = row else { return "{}".into() };
    let mut message = Message::of(row);
    match variant % 8 {
        0 => return "hello".into(),
        1 => return r#"{"version":2}"#.into(),
        2 => message.attempt = message.attempt.saturating_add(1),
        3 => message.attempt = message.attempt.saturating_sub(1),
        4 => message.not_before = Timestamp::from_millis(START),
        5 => message.deliver_by = Timestamp::from_millis(START + 100_000_000),
        6 => message.deliver_by = Timestamp::from_millis(START),
        _ => {
            let other = if row.destination.as_str() == "r0" { "r1" } else { "r0" };
            if let Ok(other) = DestinationId::new(if variant < 128 { other } else { "nowhere" }) {
                message.destination_id = other;
            }
        }
    }
    message.body()
}

/// A row's message.
pub(super) fn message_of(row: &Delivery) -> String {
    Message::of(row).body()
}

/// What an operator sends to start a redrive run.
pub(super) fn order(seed: u64, variant: u8, now: i64) -> Value {
    let mut rng = Rng::new(mix(&[seed, 17, u64::from(variant)]));
    let at = |ms: i64| Timestamp::from_millis(ms).to_string();
    let mut selection = serde_json::Map::new();
    let kind = rng.below(10);
    if kind < 5 || kind == 8 {
        let some = [json!(["r0"]), json!(["r1"]), json!(["r0", "r1"])];
        selection.insert("destination_ids".into(), rng.pick(&some).unwrap_or_default());
    }
    if (3..7).contains(&kind) {
        let some = [
            json!(["rejected", "gone", "attempts_exhausted"]),
            json!(["attempts_exhausted", "outcome_unknown", "crash_loop", "deadline_passed"]),
            json!(["deadline_passed", "no_safe_retry_window", "retry_disabled", "key_conflict"]),
        ];
        selection.insert("reasons".into(), rng.pick(&some).unwrap_or_default());
    }
    if kind == 7 {
        let some: Vec<String> = (0..REMINDERS).filter(|_| rng.chance(500)).map(|n| World::id_of(n).to_string()).collect();
        selection.insert("delivery_ids".into(), json!(if some.is_empty() { vec![World::id_of(0).to_string()] } else { some }));
    }
    if kind >= 8 {
        selection.insert("died_from".into(), json!(at(now - i64::from(rng.between(60_000, 4_000_000)))));
    }
    if rng.chance(150) {
        selection.insert("deadline_reachable".into(), json!(rng.chance(700)));
    }
    let canary_size = rng.between(1, 3);
    json!({
        "action": "start",
        "owner": "sim",
        "why": "drill",
        "evidence": "the world heals",
        "selection": selection,
        "max_count": rng.pick(&[canary_size, 3, 8, 1_000]).unwrap_or(8).max(canary_size),
        "rate_per_second": rng.pick(&[1, 1, 1, 2, 10]),
        "canary_size": canary_size,
        "abort_threshold_percent": rng.pick(&[1, 34, 50, 100]),
        "canary_seconds": rng.pick(&[60, 120, 900]),
        "attempts": rng.between(1, 3),
        "deliver_by": if rng.chance(500) { Some(at(now + rng.pick(&[60_000, 900_000, 7_200_000]).unwrap_or(60_000))) } else { None },
    })
}

/// What an application sends.
pub(super) fn schedule_event(reminder: u8, content: u8, instants: Instants) -> Value {
    json!({
        "action": "schedule",
        "reminders": [{
            "tenant": "acme",
            "subscriber": format!("s{reminder}"),
            "renewal_period": "2027",
            "reminder_kind": "first",
            "destination_id": format!("r{}", reminder % DESTINATIONS),
            "reference": format!("c-{reminder}"),
            "deliver_after": instants.deliver_after.to_string(),
            "deliver_by": instants.deliver_by.to_string(),
            "payload": { "reminder": reminder, "content": content },
        }],
    })
}

//! Rows, runs and destinations for tests.

use std::time::Duration;

use super::*;
use crate::clock::Now;
use crate::delivery::{Delivery, NewDelivery};
use crate::destination::{Change, Destination};
use crate::history::HistoryEntry;
use crate::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, Reference, RunId};
use crate::ports::RunRow;
use crate::reason::Reason;
use crate::state::State;
use crate::time::Timestamp;

mod decisions;
mod judgement;
mod selections;

const MARGIN: Duration = Duration::from_secs(60);

fn at(minute: i64) -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000 + minute * 60_000)
}

fn now(minute: i64) -> Now {
    Now::exactly(at(minute))
}

fn by() -> Correlation {
    Correlation::new("op").expect("a token")
}

fn line(minute: i64, state: State, reason: Reason) -> HistoryEntry {
    HistoryEntry { at: at(minute), state, attempt: None, reason: Some(reason), by: by() }
}

fn id(n: u32) -> DeliveryId {
    DeliveryId::new(format!("dlv_{n}")).expect("an id")
}

fn to(name: &str) -> DestinationId {
    DestinationId::new(name).expect("a destination")
}

/// A row that died in minute 20, of its second death, and whose letter was sent; its deadline is in minute 60.
fn dead(n: u32) -> Delivery {
    let new = NewDelivery {
        idempotency_key: IdempotencyKey::from(&id(n)),
        reference: Reference::new("c-1").expect("a reference"),
        destination: to("crm"),
        shard: 0,
        content: Content::new("abc").expect("a hash"),
        deliver_after: at(0),
        deliver_by: at(60),
        id: id(n),
    };
    let mut row = Delivery::new(new, at(-5), by());
    row.state = State::Dead;
    row.reason = Some(Reason::Rejected);
    row.wake_at = None;
    (row.death, row.dlq_sent) = (2, 2);
    row.history.extend([
        line(5, State::Dead, Reason::Gone),
        line(6, State::Dead, Reason::DeadLetterSent),
        line(10, State::Scheduled, Reason::Redriven),
        line(20, State::Dead, Reason::Rejected),
        line(21, State::Dead, Reason::DeadLetterSent),
        line(22, State::Dead, Reason::Held),
    ]);
    row
}

fn order() -> Order {
    Order {
        owner: "ann".into(),
        why: "the receiver was fixed".into(),
        evidence: "CHG-17".into(),
        selection: Selection { reasons: Some(vec![Reason::Rejected]), ..Selection::default() },
        max_count: 1_000,
        rate_per_second: 5,
        canary_size: 10,
        abort_threshold_percent: 20,
        canary_seconds: 900,
        attempts: 3,
        deliver_by: None,
    }
}

fn run() -> Run {
    Run::new(RunId::new("run_a").expect("a run id"), order(), at(30))
}

fn destination() -> Destination {
    let spec = r#"{"id":"crm","url":"https://hooks.example.com/r","secrets":["punctual/prod/crm"]}"#;
    let changed = Change { at: at(0), by: "op".into(), why: "new".into() };
    Destination { spec: serde_json::from_str(spec).expect("a spec"), version: 1, paused: None, changed }
}

fn totals(fates: &[(u32, State, Option<Reason>)]) -> Totals {
    let mut totals = Totals::default();
    for (count, state, reason) in fates {
        for n in 0..*count {
            totals.add(&RunRow { id: id(n), state: *state, reason: *reason, deliver_by: at(60) });
        }
    }
    totals
}

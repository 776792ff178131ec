//! I ask inspect for lists, for what operators did, and for the delivery of a message, over the in-memory ports.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail loudly")]

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_adapters::memory::{MemoryControl, MemoryDeadLetters, MemoryLedger};
use punctual_core::clock::{ClockError, Now};
use punctual_core::delivery::{Delivery, NewDelivery, Payload};
use punctual_core::destination::{Change, Destination};
use punctual_core::history::HistoryEntry;
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, MessageId, Reference};
use punctual_core::operation::{Operation, Outcome};
use punctual_core::ports::{Control as _, Ledger as _, Operations as _, Time};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_inspect::{Inspect, Response};
use serde_json::value::RawValue;
use serde_json::{Value, json};

const MARGIN: Duration = Duration::from_secs(10);
/// The present, in minutes.
const NOW: i64 = 100;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000 + minute * 60_000)
}

/// A clock that stands.
struct Standing;

impl Time for Standing {
    fn now(&self) -> Result<Now, ClockError> {
        Ok(Now::exactly(at(NOW)))
    }

    fn time_left(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn wait_until(&self, at: Timestamp) -> Result<Now, ClockError> {
        Ok(Now::exactly(at))
    }

    async fn pause(&self, _how_long: Duration) {}

    fn random(&self) -> f64 {
        0.5
    }

    fn unique(&self) -> String {
        "owner".to_owned()
    }
}

fn by() -> Correlation {
    Correlation::new("test").unwrap()
}

fn destination(id: &str) -> Destination {
    let spec = json!({"id": id, "url": "https://hooks.example.com/r", "secrets": ["punctual/test/key"]});
    let changed = Change { at: at(0), by: "ann".into(), why: "new".into() };
    Destination { spec: serde_json::from_value(spec).unwrap(), version: 1, paused: None, changed }
}

/// A row of a destination; `n` tells them apart, and moves their times.
fn row(destination: &str, n: i64, state: State, reason: Option<Reason>) -> Delivery {
    let id = DeliveryId::new(format!("dlv_{destination}{n}{state}")).unwrap();
    let new = NewDelivery {
        idempotency_key: IdempotencyKey::from(&id),
        reference: Reference::new("c-1").unwrap(),
        destination: DestinationId::new(destination).unwrap(),
        shard: u16::try_from(n % 2).unwrap(),
        content: Content::new("abc").unwrap(),
        deliver_after: at(n),
        deliver_by: at(300 + n),
        id,
    };
    let mut row = Delivery { state, reason, ..Delivery::new(new, at(0), by()) };
    row.history.push(HistoryEntry { at: at(n), state, attempt: None, reason, by: by() });
    match state {
        State::Queued => {
            row.held_until = Some(at(n));
            row.message = MessageId::new(format!("message-{destination}-{n}")).ok();
        }
        State::Dead | State::Expired => {
            (row.death, row.dlq_sent, row.wake_at) = (1, 1, None);
            row.message = MessageId::new(format!("ended-{destination}-{n}")).ok();
        }
        State::Delivered => row.wake_at = None,
        _ => {}
    }
    row
}

struct World {
    ledger: MemoryLedger,
    control: MemoryControl,
    letters: MemoryDeadLetters,
}

impl World {
    async fn with(rows: &[Delivery]) -> Self {
        let world =
            Self { ledger: MemoryLedger::default(), control: MemoryControl::default(), letters: MemoryDeadLetters::default() };
        for id in ["acme", "crm"] {
            world.control.put_destination(&destination(id), 0).await.unwrap();
        }
        for row in rows {
            let part = || "x".to_owned();
            let parts = IdentityParts { tenant: part(), subscriber: part(), renewal_period: part(), reminder_kind: part() };
            let (deliver_after, deliver_by) = (row.deliver_after, row.deliver_by);
            world.ledger.create(row, &Payload { body: b"{}".to_vec(), parts, deliver_after, deliver_by }).await.unwrap();
        }
        world
    }

    async fn ask(&self, event: Value) -> Response {
        let inspect = Inspect {
            ledger: &self.ledger,
            control: &self.control,
            letters: &self.letters,
            time: &Standing,
            margin: MARGIN,
            tick: std::time::Duration::from_secs(60),
        };
        inspect.handle(&RawValue::from_string(event.to_string()).unwrap()).await.unwrap()
    }

    /// All pages of a question: the ids in order, and how many pages it took.
    async fn all(&self, mut event: Value) -> (Vec<String>, usize) {
        let (mut ids, mut pages) = (Vec::new(), 0);
        loop {
            let answer = self.ask(event.clone()).await;
            let list = answer.list.as_ref().unwrap_or_else(|| panic!("no list: {answer:?}"));
            assert!(list.entries_read <= 2_000 && list.deliveries.len() <= 100, "{answer:?}");
            assert_eq!(list.complete, answer.cursor.is_none());
            ids.extend(list.deliveries.iter().map(|listed| listed.delivery_id.to_string()));
            pages += 1;
            match answer.cursor {
                Some(cursor) => event["cursor"] = cursor.into(),
                None => return (ids, pages),
            }
        }
    }
}

fn many() -> Vec<Delivery> {
    let mut rows = Vec::new();
    for destination in ["acme", "crm"] {
        for n in 0..30 {
            rows.push(row(destination, n, State::Scheduled, None));
            rows.push(row(destination, n, State::Queued, (n % 3 == 0).then_some(Reason::MessageOverdue)));
            let reason = if n % 2 == 0 { Reason::Rejected } else { Reason::AttemptsExhausted };
            rows.push(row(destination, n, State::Dead, Some(reason)));
        }
    }
    rows.push(row("acme", 1, State::Expired, Some(Reason::DeadlinePassed)));
    rows.push(row("acme", 1, State::Delivered, Some(Reason::Accepted)));
    rows
}

#[tokio::test]
async fn a_list_is_what_a_look_at_every_row_finds_whatever_the_page() {
    let rows = many();
    let world = World::with(&rows).await;
    let before = at(310);
    for (filter, wanted) in [
        (json!({"state": "scheduled"}), Box::new(|r: &Delivery| r.state == State::Scheduled) as Box<dyn Fn(&Delivery) -> bool>),
        (json!({"state": "queued", "reason": "message_overdue"}), {
            Box::new(|r| r.state == State::Queued && r.reason == Some(Reason::MessageOverdue))
        }),
        (json!({"state": "queued", "destination_id": "crm", "min_age_seconds": 4_800}), {
            Box::new(|r| r.state == State::Queued && r.destination.to_string() == "crm" && r.next_attempt_at <= at(NOW - 80))
        }),
        (json!({"state": "dead"}), Box::new(|r| r.state == State::Dead)),
        (json!({"state": "dead", "reason": "rejected", "destination_id": "acme", "deadline_before": before}), {
            Box::new(move |r| r.reason == Some(Reason::Rejected) && r.destination.to_string() == "acme" && r.deliver_by < before)
        }),
        (json!({"state": "dead", "min_age_seconds": 5_940}), {
            Box::new(|r| r.state == State::Dead && r.died_at().is_some_and(|died| died <= at(1)))
        }),
        (json!({"state": "expired"}), Box::new(|r| r.state == State::Expired)),
        (json!({"state": "deferred"}), Box::new(|r| r.state == State::Deferred)),
    ] {
        let expected: BTreeSet<String> = rows.iter().filter(|row| wanted(row)).map(|row| row.id.to_string()).collect();
        for limit in [1, 7, 100] {
            let mut event = filter.clone();
            event["action"] = "list".into();
            event["limit"] = limit.into();
            let (ids, _) = world.all(event).await;
            let distinct: BTreeSet<String> = ids.iter().cloned().collect();
            assert_eq!(distinct.len(), ids.len(), "{filter} {limit}: one twice");
            assert_eq!(distinct, expected, "{filter} {limit}");
        }
    }
    let dead = world.all(json!({"action": "list", "state": "dead", "destination_id": "acme"})).await.0;
    assert_eq!(dead[0], "dlv_acme0dead", "nearest deadline first");
}

#[tokio::test]
async fn what_no_index_holds_is_said_with_the_question_to_ask() {
    let world = World::with(&many()).await;
    for (state, question) in [("delivered", "explain"), ("cancelled", "operations"), ("shadowed", "shadow_report")] {
        let answer = world.ask(json!({"action": "list", "state": state})).await;
        assert_eq!((answer.ok, answer.errors[0].code, answer.errors[0].field.as_str()), (false, "not_listed", "state"));
        assert!(answer.errors[0].message.contains(question), "{answer:?}");
    }
    for (event, code, field) in [
        (json!({"action": "list"}), "missing_field", "state"),
        (json!({"action": "list", "state": "lost"}), "invalid_field", "state"),
        (json!({"action": "list", "state": "dead", "limit": 0}), "out_of_bounds", "limit"),
        (json!({"action": "list", "state": "dead", "limit": 101}), "out_of_bounds", "limit"),
        (json!({"action": "list", "state": "dead", "cursor": "x"}), "invalid_field", "cursor"),
        (json!({"action": "operations", "limit": 101}), "out_of_bounds", "limit"),
        (json!({"action": "operations", "cursor": "x"}), "invalid_field", "cursor"),
    ] {
        let answer = world.ask(event.clone()).await;
        assert_eq!((answer.ok, answer.errors[0].code, answer.errors[0].field.as_str()), (false, code, field), "{event}");
    }
    // A cursor is good for its own question.
    let cursor = world.ask(json!({"action": "list", "state": "dead", "limit": 1})).await.cursor.unwrap();
    let answer = world.ask(json!({"action": "list", "state": "expired", "limit": 1, "cursor": cursor})).await;
    assert_eq!((answer.errors[0].field.as_str(), answer.ok), ("cursor", false));
}

#[tokio::test]
async fn a_message_leads_to_its_delivery_where_an_index_holds_it() {
    let world = World::with(&many()).await;
    for (message, id) in
        [("message-crm-17", "dlv_crm17queued"), ("ended-acme-1", "dlv_acme1dead"), ("ended-crm-29", "dlv_crm29dead")]
    {
        let answer = world.ask(json!({"action": "explain", "message_id": message})).await;
        let found: Vec<&str> = answer.deliveries.iter().map(|d| d.delivery_id.as_str()).collect();
        if message == "ended-acme-1" {
            // Dead and expired rows of one number share a message here.
            assert!(found == [id] || found == ["dlv_acme1expired"], "{found:?}");
        } else {
            assert_eq!(found, [id]);
        }
    }
    let answer = world.ask(json!({"action": "explain", "message_id": "nowhere"})).await;
    assert_eq!((answer.ok, answer.errors[0].code), (false, "not_found"));
    // 120 in the lanes and 61 ended; the 60 that were never claimed have no message and are not read.
    let message = &answer.errors[0].message;
    assert!(message.contains("181 index entries") && message.contains("(all that is there)"), "{message}");
    assert!(message.contains("121 rows"), "{message}");
}

#[tokio::test]
async fn operations_are_shown_newest_first() {
    let world = World::with(&[]).await;
    for n in 0..5 {
        let operation = Operation {
            at: at(n),
            token: by(),
            action: "hold".into(),
            by: "ann".into(),
            why: "disputed".into(),
            evidence: "case 7".into(),
            target: format!("delivery dlv_{n}"),
            outcome: Outcome::Done,
            did: "held it".into(),
            did_not: "no lease was taken away".into(),
        };
        world.control.record(&operation).await.unwrap();
    }
    let (mut seen, mut event) = (Vec::new(), json!({"action": "operations", "limit": 2}));
    loop {
        let answer = world.ask(event.clone()).await;
        assert_eq!(answer.text.len(), answer.operations.len());
        assert!(answer.text.iter().all(|line| line.contains("done hold of delivery") && line.contains("case 7")), "{answer:?}");
        seen.extend(answer.operations.into_iter().map(|operation| operation.at));
        match answer.cursor {
            Some(cursor) => event["cursor"] = cursor.into(),
            None => break,
        }
    }
    assert_eq!(seen, [at(4), at(3), at(2), at(1), at(0)]);
}

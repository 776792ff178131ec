//! Rows, payloads and stamps for tests.

use std::time::Duration;

use punctual_core::acquire::Claimer;
use punctual_core::attempt::{Answer, Attempt};
use punctual_core::clock::Now;
use punctual_core::delivery::{Cancel, Delivery, Hold, NewDelivery, Payload};
use punctual_core::history::HistoryEntry;
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Owner, Reference};
use punctual_core::outcome::{CallResult, Called, Class};
use punctual_core::reason::Reason;
use punctual_core::retry::RetryPolicy;
use punctual_core::settings::RetryMode;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::{Stamp, Terms};

pub(crate) const MARGIN: Duration = Duration::from_secs(30);
pub(crate) const POLICY: RetryPolicy = RetryPolicy { base_ms: 30_000, cap_ms: 3_600_000, attempts: 10 };

/// So many seconds after an arbitrary noon.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_796_126_400_000 + seconds * 1_000)
}

pub(crate) fn by(text: &str) -> Correlation {
    Correlation::new(text).expect("a correlation id")
}

pub(crate) fn stamp(seconds: i64, who: &str) -> Stamp {
    Stamp { now: Now::exactly(at(seconds)), by: by(who) }
}

pub(crate) fn claimer(owner: &str, until: i64) -> Claimer {
    Claimer { owner: Owner::new(owner).expect("an owner"), by: by("claimer"), until: at(until) }
}

pub(crate) fn parts(n: u32) -> IdentityParts {
    IdentityParts {
        tenant: "acme".into(),
        subscriber: format!("sub-{n}"),
        renewal_period: "2027".into(),
        reminder_kind: "first".into(),
    }
}

pub(crate) fn payload(n: u32, body: &str) -> Payload {
    Payload { body: body.as_bytes().to_vec(), parts: parts(n), deliver_after: at(0), deliver_by: at(7_200) }
}

/// A scheduled row, due at noon, with two hours until its deadline.
pub(crate) fn row(n: u32) -> Delivery {
    let id = DeliveryId::derive(&parts(n));
    Delivery::new(
        NewDelivery {
            idempotency_key: IdempotencyKey::from(&id),
            reference: Reference::new(format!("contract-{n}")).expect("a reference"),
            destination: DestinationId::new("acme").expect("a destination"),
            shard: 0,
            content: content("{}"),
            deliver_after: at(0),
            deliver_by: at(7_200),
            id,
        },
        at(-60),
        by("created"),
    )
}

pub(crate) fn content(body: &str) -> Content {
    Content::of(&[body.as_bytes()])
}

pub(crate) fn line(seconds: i64, state: State, who: &str) -> HistoryEntry {
    HistoryEntry { at: at(seconds), state, attempt: None, reason: None, by: by(who) }
}

pub(crate) fn hold() -> Hold {
    Hold { since: at(-30), by: "operator".into(), why: "the receiver asked for it".into() }
}

pub(crate) fn cancel() -> Cancel {
    Cancel { since: at(-20), by: "operator".into(), why: "the contract was renewed".into() }
}

pub(crate) fn attempt(number: u32) -> Attempt {
    Attempt {
        number,
        started_at: at(i64::from(number)),
        took: Duration::from_millis(182),
        answer: Answer::Status(503),
        reason: Reason::ServerError,
        destination_version: 3,
        key_ids: "2026a,2026b".into(),
    }
}

pub(crate) fn called(seconds: i64, status: u16) -> Called {
    Called {
        result: CallResult::Answered { status, retry_after: None },
        started_at: at(seconds),
        took: Duration::from_millis(182),
        key_ids: "2026a,2026b".into(),
    }
}

pub(crate) fn retry() -> Class {
    Class::Retry { reason: Reason::ServerError, floor: None, unknown: false }
}

pub(crate) fn terms() -> Terms<'static> {
    Terms {
        policy: &POLICY,
        destination_version: 3,
        review_unknown: false,
        margin: MARGIN,
        measured: Duration::ZERO,
        retry_mode: RetryMode::Retry,
        queue_reach: Duration::from_secs(900),
    }
}

/// A row with every field set.
pub(crate) fn full(n: u32) -> Delivery {
    let mut line_with_all = line(5, State::Dead, "killer");
    line_with_all.attempt = Some(2);
    line_with_all.reason = Some(Reason::AttemptsExhausted);
    let mut unknown = attempt(2);
    unknown.answer = Answer::Unknown;
    unknown.key_ids = "-".into();
    Delivery {
        shard: 63,
        state: State::Dead,
        version: 7,
        next_attempt_at: at(60),
        wake_at: Some(at(61)),
        held_until: Some(at(62)),
        lease_owner: Some(Owner::new("owner").expect("an owner")),
        lease_until: Some(at(63)),
        message: Some(punctual_core::id::MessageId::new("message:1/x").expect("a message id")),
        reason: Some(Reason::AttemptsExhausted),
        attempts: vec![attempt(1), unknown],
        granted: 3,
        rescues: 4,
        late_success: Some(1),
        hold: Some(hold()),
        cancel: Some(cancel()),
        death: 2,
        dlq_sent: 1,
        redrives: [
            "run_20261201-090000-7f3a death#1 +3 deadline_was=2026-12-01T09:00:00.000Z by ann by herself",
            "- death#2 +1 by operator",
        ]
        .map(|text| text.parse().expect("a redrive"))
        .to_vec(),
        history: vec![line(-60, State::Scheduled, "created"), line_with_all],
        ..row(n)
    }
}

//! A row in each state with each last reason that it can have there, for the snapshots, which are reviewed, and for the local
//! stack, which must tell the same.

use std::time::Duration;

use punctual_core::attempt::{Answer, Attempt};
use punctual_core::delivery::{Cancel, Delivery, NewDelivery, Payload};
use punctual_core::destination::{Change, Destination};
use punctual_core::history::HistoryEntry;
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Reference};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;

/// The stage's safety margin.
pub(crate) const MARGIN: Duration = Duration::from_secs(60);
/// The present, in minutes.
pub(crate) const NOW: i64 = 20;

/// The instant of minute 0 in the snapshots.
pub(crate) fn start() -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000)
}

/// So many minutes after the start.
pub(crate) fn minutes(start: Timestamp, minute: i64) -> Timestamp {
    Timestamp::from_millis(start.as_millis() + minute * 60_000)
}

/// Who did it.
pub(crate) fn by() -> Correlation {
    Correlation::new("7f3a").expect("a token")
}

fn attempt(start: Timestamp, reason: Reason, answer: Answer) -> Attempt {
    let took = Duration::from_millis(5);
    Attempt { number: 1, started_at: minutes(start, 11), took, answer, reason, destination_version: 1, key_ids: "k".into() }
}

/// A row in this state with this last reason, as it comes about: due at minute 10, deadline at minute 60 from `start` on.
pub(crate) fn row(start: Timestamp, state: State, reason: Option<Reason>) -> Delivery {
    let at = |minute| minutes(start, minute);
    let id = DeliveryId::new("dlv_x").expect("an id");
    let new = NewDelivery {
        idempotency_key: IdempotencyKey::from(&id),
        reference: Reference::new("c-1").expect("a reference"),
        destination: DestinationId::new("crm").expect("a destination"),
        shard: 0,
        content: Content::new("abc").expect("a hash"),
        deliver_after: at(10),
        deliver_by: at(60),
        id,
    };
    let mut row = Delivery { state, reason, version: 7, ..Delivery::new(new, at(0), by()) };
    row.history.push(HistoryEntry { at: at(12), state, attempt: None, reason, by: by() });
    let failed = reason.filter(|reason| reason.is_retryable_failure());
    if let Some(reason) = failed {
        row.attempts =
            vec![attempt(start, reason, if reason == Reason::OutcomeUnknown { Answer::Unknown } else { Answer::Error })];
        row.next_attempt_at = at(25);
    }
    match state {
        State::Dispatching => row.held_until = Some(at(21)),
        State::Delivering => row.lease_until = Some(at(22)),
        State::Delivered => row.attempts = vec![attempt(start, Reason::Accepted, Answer::Status(200))],
        State::Dead | State::Expired => (row.death, row.dlq_sent, row.wake_at) = (1, 1, None),
        State::Cancelled => row.cancel = Some(Cancel { since: at(12), by: "ann".into(), why: "renewed".into() }),
        _ => {}
    }
    let rejected = matches!(reason, Some(Reason::Rejected | Reason::Gone | Reason::KeyConflict | Reason::RedirectRefused));
    if let (State::Dead, true, Some(reason)) = (state, rejected, reason) {
        row.attempts = vec![attempt(start, reason, Answer::Status(410))];
    }
    row
}

/// Its destination: one call a second.
pub(crate) fn destination(start: Timestamp) -> Destination {
    let spec = r#"{"id":"crm","url":"https://hooks.example.com/r","secrets":["punctual/prod/crm"],"rate_per_second":1}"#;
    let changed = Change { at: start, by: "op".into(), why: "new".into() };
    Destination { spec: serde_json::from_str(spec).expect("a spec"), version: 1, paused: None, changed }
}

/// Its payload.
pub(crate) fn payload(start: Timestamp) -> Payload {
    let part = || "x".to_owned();
    let parts = IdentityParts { tenant: part(), subscriber: part(), renewal_period: part(), reminder_kind: part() };
    Payload { body: b"{}".to_vec(), parts, deliver_after: minutes(start, 10), deliver_by: minutes(start, 60) }
}

/// Whether a row of this state can have this last reason.
pub(crate) fn comes_about(state: State, reason: Option<Reason>) -> bool {
    use Reason as R;
    let Some(reason) = reason else {
        return matches!(state, State::Scheduled | State::Dispatching | State::Queued | State::Delivering);
    };
    let back = reason.is_retryable_failure()
        || matches!(
            reason,
            R::PublishFailed
                | R::LeaseEnded
                | R::Held
                | R::DestinationPaused
                | R::BreakerOpen
                | R::TooFarForQueue
                | R::RateLimitedHere
                | R::MisdirectedMessage
                | R::Rescheduled
                | R::Redriven
        );
    match state {
        State::Scheduled => back,
        State::Dispatching | State::Queued | State::Delivering => back || reason == R::MessageOverdue,
        State::Deferred => reason.is_retryable_failure(),
        State::Delivered => matches!(reason, R::Accepted | R::LateEvidence),
        State::Dead => matches!(
            reason,
            R::Gone
                | R::KeyConflict
                | R::Rejected
                | R::RedirectRefused
                | R::AttemptsExhausted
                | R::NoSafeRetryWindow
                | R::OutcomeUnknown
                | R::CrashLoop
                | R::RetryDisabled
                | R::UnknownDestination
                | R::PayloadMissing
        ),
        State::Expired => reason == R::DeadlinePassed,
        State::Cancelled => matches!(reason, R::Cancelled | R::EffectAfterCancel),
        State::Shadowed => reason == R::Shadowed,
    }
}

/// All pairs of state and last reason.
pub(crate) fn pairs() -> impl Iterator<Item = (State, Option<Reason>)> {
    let reasons = || std::iter::once(None).chain(Reason::ALL.iter().copied().map(Some));
    State::ALL.into_iter().flat_map(move |state| reasons().map(move |reason| (state, reason)))
}

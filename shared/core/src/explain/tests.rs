//! What is told for every state and reason, as reviewed snapshots; and that what is allowed is what the rules take.

use std::fmt::Write as _;

use super::*;
use crate::admission::Candidate;
use crate::attempt::{Answer, Attempt};
use crate::breaker::Probe;
use crate::delivery::{Cancel, Hold, NewDelivery};
use crate::destination::Change;
use crate::history::HistoryEntry;
use crate::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Owner, Reference};
use crate::reason::Reason;
use crate::redrive::{ForRow, Offer, for_offer};
use crate::retry::RetryPolicy;
use crate::settings::{RetryMode, Switch};
use crate::transition::{self, Grant, Stamp, Terms};

const MARGIN: Duration = Duration::from_secs(60);
/// The present, in minutes.
const NOW: i64 = 20;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000 + minute * 60_000)
}

fn by() -> Correlation {
    Correlation::new("7f3a").expect("a token")
}

fn attempt(reason: Reason, answer: Answer) -> Attempt {
    let took = Duration::from_millis(5);
    Attempt { number: 1, started_at: at(11), took, answer, reason, destination_version: 1, key_ids: "k".into() }
}

/// A row in this state with this last reason, as it comes about: due at minute 10, deadline at minute 60.
fn row(state: State, reason: Option<Reason>) -> Delivery {
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
        row.attempts = vec![attempt(reason, if reason == Reason::OutcomeUnknown { Answer::Unknown } else { Answer::Error })];
        row.next_attempt_at = at(25);
    }
    match state {
        State::Dispatching => row.held_until = Some(at(21)),
        State::Delivering => row.lease_until = Some(at(22)),
        State::Delivered => row.attempts = vec![attempt(Reason::Accepted, Answer::Status(200))],
        State::Dead | State::Expired => (row.death, row.dlq_sent, row.wake_at) = (1, 1, None),
        State::Cancelled => row.cancel = Some(Cancel { since: at(12), by: "ann".into(), why: "renewed".into() }),
        _ => {}
    }
    let rejected = matches!(reason, Some(Reason::Rejected | Reason::Gone | Reason::KeyConflict | Reason::RedirectRefused));
    if let (State::Dead, true, Some(reason)) = (state, rejected, reason) {
        row.attempts = vec![attempt(reason, Answer::Status(410))];
    }
    row
}

fn destination() -> Destination {
    let spec = r#"{"id":"crm","url":"https://hooks.example.com/r","secrets":["punctual/prod/crm"],"rate_per_second":1}"#;
    let changed = Change { at: at(0), by: "op".into(), why: "new".into() };
    Destination { spec: serde_json::from_str(spec).expect("a spec"), version: 1, paused: None, changed }
}

fn payload() -> Payload {
    let part = || "x".to_owned();
    let parts = IdentityParts { tenant: part(), subscriber: part(), renewal_period: part(), reminder_kind: part() };
    Payload { body: b"{}".to_vec(), parts, deliver_after: at(10), deliver_by: at(60) }
}

/// Whether a row of this state can have this last reason.
fn comes_about(state: State, reason: Option<Reason>) -> bool {
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
fn pairs() -> impl Iterator<Item = (State, Option<Reason>)> {
    let reasons = || std::iter::once(None).chain(Reason::ALL.iter().copied().map(Some));
    State::ALL.into_iter().flat_map(move |state| reasons().map(move |reason| (state, reason)))
}

fn told(out: &mut String, title: &str, e: &Explanation) {
    let or = |at: Option<Timestamp>, none: &str| at.map_or_else(|| none.to_owned(), |at| at.to_string());
    let _ = writeln!(out, "{title}\n  why      {}", e.why);
    let _ = writeln!(out, "  next     {}", or(e.next, "nothing by itself"));
    if let Some(expected) = &e.expected_start {
        let _ = writeln!(out, "  expected {}", expected.told);
    }
    if let Some(redrive) = &e.redrive {
        let _ = writeln!(out, "  redrive  {redrive}");
    }
    let _ = writeln!(out, "  late     {}, {} s left until the last safe start", or(e.late_at, "no more"), e.seconds_left);
    let _ = writeln!(out, "  allowed  {}\n", if e.allowed.is_empty() { "nothing".to_owned() } else { e.allowed.join(", ") });
}

#[test]
fn every_state_and_reason() {
    let (d, p, nothing) = (destination(), payload(), Backlog { candidates: Vec::new(), complete: true });
    let mut out = String::new();
    for (state, reason) in pairs().filter(|(state, reason)| comes_about(*state, *reason)) {
        let whither = Whither { destination: Some(&d), backlog: Some(&nothing), ..Whither::default() };
        let e = explain(&row(state, reason), Some(&p), whither, MARGIN, Now::exactly(at(NOW)));
        told(&mut out, &format!("{state} {}", reason.map_or("-", Reason::code)), &e);
    }
    insta::assert_snapshot!("every_state_and_reason", out);
}

/// One row in one situation.
struct Case {
    title: &'static str,
    row: Delivery,
    destination: Option<Destination>,
    reach: Option<Reach>,
    settings: Settings,
    backlog: Backlog,
    minute: i64,
}

fn case(title: &'static str, row: Delivery) -> Case {
    Case {
        title,
        row,
        destination: Some(destination()),
        reach: None,
        settings: Settings::default(),
        backlog: Backlog { candidates: Vec::new(), complete: true },
        minute: NOW,
    }
}

/// So many that are due, with the nearer deadline.
fn ahead(count: i64, complete: bool) -> Backlog {
    let candidate = |n| Candidate {
        id: DeliveryId::new(format!("dlv_{n}")).expect("an id"),
        wake_at: at(5),
        held_until: (n % 2 == 0).then(|| at(21)),
        deliver_by: at(50),
    };
    Backlog { candidates: (0..count).map(candidate).collect(), complete }
}

fn situations() -> Vec<Case> {
    let fresh = |state| row(state, None);
    let hold = || Some(Hold { since: at(15), by: "ann".into(), why: "disputed".into() });
    let held = |state| Delivery { hold: hold(), ..fresh(state) };
    let late = |state, reason| Delivery { next_attempt_at: at(10), ..row(state, reason) };
    let paused = Pause { since: at(15), by: "bob".into(), why: "it deploys.".into() };
    let paused = || Some(Destination { paused: Some(paused.clone()), ..destination() });
    let open = |probes, probe| {
        let open = Open { since: at(18), probe_at: at(24), probes, probe };
        Some(Reach { version: 2, silent: 3, open: Some(open), ..Reach::unproven(by()) })
    };
    let probe = Probe { owner: Owner::new("o").expect("an owner"), until: at(21) };
    let mut shadow = destination();
    shadow.spec.mode = crate::destination::Mode::Shadow;
    let won = Delivery { late_success: Some(1), ..row(State::Delivering, Some(Reason::OutcomeUnknown)) };
    let owes = |reason| Delivery { death: 2, ..row(State::Dead, Some(reason)) };
    vec![
        Case { minute: 9, ..case("scheduled, not due", fresh(State::Scheduled)) },
        case("scheduled, held", held(State::Scheduled)),
        Case { minute: 60, ..case("scheduled, held, past its last safe start", held(State::Scheduled)) },
        case("queued, held", held(State::Queued)),
        case("dead, held", Delivery { hold: hold(), ..row(State::Dead, Some(Reason::Rejected)) }),
        Case { destination: paused(), ..case("scheduled, paused", fresh(State::Scheduled)) },
        Case { destination: paused(), ..case("deferred, paused", row(State::Deferred, Some(Reason::ServerError))) },
        Case { destination: paused(), ..case("dead, paused", row(State::Dead, Some(Reason::Gone))) },
        Case { destination: None, ..case("scheduled, unregistered", fresh(State::Scheduled)) },
        Case { destination: None, ..case("queued, unregistered", fresh(State::Queued)) },
        Case { destination: None, ..case("dead and owes its letter, unregistered", owes(Reason::UnknownDestination)) },
        case("dead, owes its letter", owes(Reason::Rejected)),
        Case { minute: 60, ..case("dead, past its last safe start", row(State::Dead, Some(Reason::Rejected))) },
        Case { reach: open(0, None), ..case("scheduled, breaker open", fresh(State::Scheduled)) },
        Case { reach: open(2, Some(probe)), ..case("queued, breaker open and probed", fresh(State::Queued)) },
        Case { minute: 60, ..case("queued, past its last safe start", fresh(State::Queued)) },
        Case { minute: 26, ..case("deferred, due", row(State::Deferred, Some(Reason::ServerError))) },
        Case { minute: 23, ..case("dispatching, lease ended", fresh(State::Dispatching)) },
        Case { minute: 23, ..case("delivering, lease ended", fresh(State::Delivering)) },
        Case { minute: 60, ..case("delivering, lease ended, past its last safe start", fresh(State::Delivering)) },
        case("delivering, an earlier attempt was delivered", won.clone()),
        Case { minute: 23, ..case("delivering, lease ended, an earlier attempt was delivered", won) },
        Case { destination: Some(shadow), ..case("scheduled, shadow", fresh(State::Scheduled)) },
        Case {
            settings: Settings::default().with(Switch::RetryMode(RetryMode::DeadLetter)),
            ..case("queued, kill switch", fresh(State::Queued))
        },
        Case {
            settings: Settings::default().with(Switch::DispatchPaused(Some(at(19)))),
            ..case("scheduled, dispatch paused", fresh(State::Scheduled))
        },
        Case { backlog: ahead(1, true), ..case("scheduled, one ahead", fresh(State::Scheduled)) },
        Case { backlog: ahead(100, true), ..case("scheduled, 100 ahead", fresh(State::Scheduled)) },
        Case { backlog: ahead(100, true), ..case("queued, 100 ahead, of which 50 are out", fresh(State::Queued)) },
        Case { backlog: ahead(100, false), ..case("scheduled, at least 100 ahead", fresh(State::Scheduled)) },
        Case { backlog: ahead(2_000, true), ..case("scheduled, 2,000 ahead", fresh(State::Scheduled)) },
        case("deferred, unknown", late(State::Deferred, Some(Reason::OutcomeUnknown))),
    ]
}

fn explained(case: &Case, payload: Option<&Payload>) -> Explanation {
    let whither = Whither {
        destination: case.destination.as_ref(),
        reach: case.reach.as_ref(),
        settings: case.settings,
        backlog: Some(&case.backlog),
    };
    explain(&case.row, payload, whither, MARGIN, Now::exactly(at(case.minute)))
}

#[test]
fn every_situation() {
    let mut out = String::new();
    for case in situations() {
        told(&mut out, case.title, &explained(&case, Some(&payload())));
    }
    insta::assert_snapshot!("every_situation", out);
}

#[test]
fn whatever_the_pair_the_sentences_are_whole_and_the_reason_is_told() {
    for (state, reason) in pairs() {
        let case = case("", row(state, reason));
        let e = explained(&case, Some(&payload()));
        assert!(e.why.ends_with('.') && !e.why.contains("..") && !e.why.contains("  "), "{state} {reason:?}: {}", e.why);
        assert!(e.next.is_none_or(|next| next >= at(NOW)), "{state} {reason:?}: the next instant has passed");
        assert_eq!(e.late_at.is_none(), state.is_terminal(), "{state}");
        if let Some(reason) = reason.filter(|_| !state.is_terminal() && state != State::Expired) {
            assert!(e.why.contains(reason.meaning()), "{state} {reason}: {}", e.why);
        }
        let text = text(&e);
        assert!(text.lines().all(|line| line.len() > 16), "{text}");
    }
}

/// What is allowed is what the rules of that action take, in every pair and situation.
#[test]
fn what_is_allowed_is_what_is_taken() {
    let pairs = pairs().map(|(state, reason)| case("a pair", row(state, reason)));
    for case in pairs.chain(situations()) {
        let (row, now) = (&case.row, Now::exactly(at(case.minute)));
        let allowed = explained(&case, Some(&payload())).allowed;
        let stamp = Stamp { now, by: by() };
        let hold = Hold { since: at(1), by: "ann".into(), why: "asked".into() };
        let cancel = Cancel { since: at(1), by: "ann".into(), why: "asked".into() };
        let policy = RetryPolicy::default();
        let terms = Terms {
            policy: &policy,
            destination_version: 1,
            review_unknown: false,
            margin: MARGIN,
            measured: Duration::ZERO,
            retry_mode: RetryMode::Retry,
            queue_reach: Duration::ZERO,
        };
        let offer = Offer { attempts: 3, deliver_by: None };
        let moves = matches!(for_offer(row, offer, case.destination.as_ref(), true, now, MARGIN), ForRow::Move(_));
        let grant = Grant { owner: "ann".into(), attempts: 3, slot: at(case.minute), deliver_by: None };
        for (action, taken) in [
            ("hold", row.hold.is_none() && transition::held(row, hold, MARGIN, &stamp).is_ok()),
            ("release", row.hold.is_some() && transition::unheld(row, MARGIN, &stamp).is_ok()),
            ("cancel", transition::cancelled(row, cancel, &stamp).is_ok()),
            ("release_lease", case.destination.is_some() && transition::lease_taken_back(row, &terms, &stamp).is_ok()),
            ("requeue", moves && transition::requeued(row, grant, MARGIN, &stamp).is_ok()),
            ("redrive", moves),
        ] {
            assert_eq!(allowed.contains(&action), taken, "{} {}: {action} in {allowed:?}", case.title, row.state);
        }
    }
}

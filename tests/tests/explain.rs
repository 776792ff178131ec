//! What is told for every state and reason, as reviewed snapshots; and that what is allowed is what the rules take.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test reports by panicking")]

#[path = "explain/rows.rs"]
mod rows;

use std::fmt::Write as _;
use std::time::Duration;

use punctual_core::admission::Candidate;
use punctual_core::breaker::{Open, Probe, Reach};
use punctual_core::clock::Now;
use punctual_core::delivery::{Cancel, Delivery, Hold, Payload};
use punctual_core::destination::{Destination, Mode, Pause};
use punctual_core::explain::{Backlog, Explanation, Runs, Whither, explain, text};
use punctual_core::id::{DeliveryId, Owner};
use punctual_core::reason::Reason;
use punctual_core::redrive::{ForRow, Offer, for_offer};
use punctual_core::retry::RetryPolicy;
use punctual_core::settings::{RetryMode, Settings, Switch};
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::{self, Grant, Stamp, Terms};

use rows::{MARGIN, NOW, by, comes_about, pairs, start};

fn at(minute: i64) -> Timestamp {
    rows::minutes(start(), minute)
}

fn row(state: State, reason: Option<Reason>) -> Delivery {
    rows::row(start(), state, reason)
}

fn destination() -> Destination {
    rows::destination(start())
}

fn payload() -> Payload {
    rows::payload(start())
}

/// What is told, as the snapshots have it.
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
    runs: Option<Runs>,
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
        runs: None,
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
    let ended = |last: Option<i64>| Some(Runs { tick: Duration::from_secs(60), last: last.map(at) });
    let mut shadow = destination();
    shadow.spec.mode = Mode::Shadow;
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
        Case { runs: ended(Some(18)), ..case("scheduled, a run a moment ago", fresh(State::Scheduled)) },
        Case { runs: ended(Some(16)), ..case("scheduled, no run for four minutes", fresh(State::Scheduled)) },
        Case { runs: ended(Some(16)), ..case("queued, no run for four minutes", fresh(State::Queued)) },
        Case { runs: ended(Some(16)), ..case("dead, owes its letter, no run for four minutes", owes(Reason::Rejected)) },
        Case { runs: ended(None), ..case("scheduled, due, no run ever", fresh(State::Scheduled)) },
        Case { runs: ended(None), minute: 9, ..case("scheduled, not due, no run ever", fresh(State::Scheduled)) },
        Case {
            settings: Settings::default().with(Switch::DispatchPaused(Some(at(15)))),
            runs: ended(Some(19)),
            ..case("scheduled, dispatch paused, and yet runs come", fresh(State::Scheduled))
        },
        Case {
            settings: Settings::default().with(Switch::DispatchPaused(Some(at(18)))),
            runs: ended(Some(19)),
            ..case("scheduled, dispatch paused while a run was under way", fresh(State::Scheduled))
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
        runs: case.runs,
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

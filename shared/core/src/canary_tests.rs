#![allow(clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::time::Duration;

use super::*;
use crate::acquire::Claimer;
use crate::breaker::{Open, Reach};
use crate::delivery::{Cancel, Hold, NewDelivery};
use crate::destination::{Change, Destination, Mode, Pause};
use crate::id::{Content, Correlation, DeliveryId, IdempotencyKey, MessageId, Owner, Reference};
use crate::outcome::{CallResult, Called, Class, Failure, classify};
use crate::reason::Reason;
use crate::retry::RetryPolicy;
use crate::settings::RetryMode;
use crate::transition::{self, QUEUE_REACH, Stamp, Terms};

const MARGIN: Duration = Duration::from_secs(10);
const PATIENCE: Patience = Patience { tick: Duration::from_secs(60), each: None };

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000 + ms)
}

fn by() -> Correlation {
    Correlation::new("c").expect("a token")
}

fn stamp(ms: i64) -> Stamp {
    Stamp { now: Now::exactly(at(ms)), by: by() }
}

fn name() -> DestinationId {
    DestinationId::new("canary").expect("an id")
}

fn run() -> CanaryRun {
    CanaryRun::new("r1").expect("a run")
}

fn destination() -> Destination {
    let spec = r#"{"id":"canary","url":"https://canary.example.com/","secrets":["punctual/prod/canary"],"rate_per_second":10}"#;
    let changed = Change { at: at(-1_000), by: "ops".into(), why: "a canary".into() };
    Destination { spec: serde_json::from_str(spec).expect("a specification"), version: 1, paused: None, changed }
}

/// Stored at zero, due at once, with ten minutes.
fn stored() -> Delivery {
    let id = DeliveryId::derive(&parts(&name(), &run()));
    let new = NewDelivery {
        idempotency_key: IdempotencyKey::from(&id),
        reference: Reference::new("canary/r1").expect("a reference"),
        destination: name(),
        shard: 0,
        content: Content::new("abc").expect("a hash"),
        deliver_after: at(0),
        deliver_by: at(600_000),
        id,
    };
    Delivery::new(new, at(0), by())
}

fn claimer(until: i64) -> Claimer {
    Claimer { owner: Owner::new("o").expect("an owner"), by: by(), until: at(until) }
}

fn dispatched() -> Delivery {
    transition::dispatch_claimed(&stored(), claimer(50_000), Mode::Live, &stamp(20_000)).expect("claimed").after
}

fn queued() -> Delivery {
    transition::queued(&dispatched(), MessageId::new("m").expect("a message"), &stamp(20_050)).expect("queued").after
}

fn claimed() -> Delivery {
    transition::deliver_claimed(&queued(), claimer(60_000), &stamp(20_400)).expect("claimed").after
}

fn finished(result: CallResult) -> Delivery {
    let terms = Terms {
        policy: &RetryPolicy::default(),
        destination_version: 1,
        review_unknown: false,
        margin: MARGIN,
        measured: Duration::ZERO,
        retry_mode: RetryMode::Retry,
        queue_reach: QUEUE_REACH,
    };
    let class: Class = classify(&result, &destination().spec.classes, stamp(20_900).now);
    let called = Called { result, started_at: at(20_450), took: Duration::from_millis(150), key_ids: "k".into() };
    transition::finished(&claimed(), &called, class, &terms, 0.0, &stamp(20_620)).expect("finished").after
}

fn answered(status: u16) -> CallResult {
    CallResult::Answered { status, retry_after: None }
}

fn told(row: &Delivery, destination: Option<&Destination>, reach: Option<&Reach>, booked: Option<Micros>, now: i64) -> Report {
    let sighting = Sighting { row, whither: Whither { destination, reach, ..Whither::default() }, booked };
    report(&sighting, &run(), PATIENCE, Now::exactly(at(now)))
}

fn of(row: &Delivery, now: i64) -> (Verdict, Option<Stage>, String) {
    let report = told(row, Some(&destination()), None, None, now);
    assert_eq!(report.first_action.is_some(), report.verdict == Verdict::Broken);
    (report.verdict, report.stage, report.why)
}

fn silent() -> Reach {
    let open = Open { since: at(30_000), probe_at: at(45_000), probes: 2, probe: None };
    Reach { version: 4, silent: 3, in_flight: 10, open: Some(open), by: by() }
}

#[test]
fn a_delivered_one_tells_when_it_passed_each_stage() {
    let row = finished(answered(200));
    let report = told(&row, Some(&destination()), None, None, 30_000);
    assert_eq!((report.verdict, report.stage, report.first_action), (Verdict::Passed, None, None));
    let steps: Vec<(Stage, Option<Timestamp>, Option<u64>)> =
        report.stages.iter().map(|step| (step.stage, step.at, step.took_ms)).collect();
    assert_eq!(
        steps,
        [
            (Stage::Schedule, Some(at(0)), None),
            (Stage::Dispatch, Some(at(20_000)), Some(20_000)),
            (Stage::Queue, Some(at(20_050)), Some(50)),
            (Stage::Limiter, Some(at(20_400)), Some(350)),
            (Stage::Deliver, Some(at(20_450)), Some(50)),
            (Stage::Acknowledgement, Some(at(20_620)), Some(170)),
        ]
    );
    assert_eq!(report.took_ms, 20_620);
    let text = text(&report);
    assert_eq!(text[0], "Canary r1 to canary: passed. It has passed every stage.");
    assert_eq!(text[2], "dispatch        2026-12-01T09:00:20.000Z  after 20000 ms");
    assert_eq!((text[7].as_str(), text.len()), ("in all          20620 ms", 8));
}

#[test]
fn instants_that_were_less_certain_do_not_go_back() {
    let mut row = finished(answered(200));
    let queued = row.history.iter_mut().find(|line| line.state == State::Queued).expect("a line");
    queued.at = at(20_480);
    let report = told(&row, Some(&destination()), None, None, 30_000);
    let times: Vec<(Option<Timestamp>, Option<u64>)> = report.stages.iter().map(|step| (step.at, step.took_ms)).collect();
    assert_eq!(
        times[2..],
        [(Some(at(20_480)), Some(480)), (Some(at(20_480)), Some(0)), (Some(at(20_480)), Some(0)), (Some(at(20_630)), Some(150))]
    );
}

#[test]
fn a_mark_that_lost_its_race_against_deliver_leaves_no_hole() {
    let row = transition::deliver_claimed(&dispatched(), claimer(60_000), &stamp(20_400)).expect("claimed").after;
    let report = told(&row, Some(&destination()), None, None, 20_500);
    let queue = report.stages[2];
    assert_eq!((queue.stage, queue.at, queue.took_ms), (Stage::Queue, None, None));
    assert_eq!((report.stages[3].took_ms, report.stages.len()), (None, 4));
    assert_eq!((report.verdict, report.stage), (Verdict::Waiting, Some(Stage::Acknowledgement)));
    assert!(text(&report)[3].ends_with("passed, but not recorded"), "{:?}", text(&report));
}

#[test]
fn each_stage_has_its_patience() {
    for (row, stage, since, patience) in [
        (stored(), Stage::Dispatch, 0, 135),
        (dispatched(), Stage::Queue, 20_000, 75),
        (queued(), Stage::Deliver, 20_050, 30),
        (claimed(), Stage::Acknowledgement, 20_400, 30),
    ] {
        let at_last = since + patience * 1_000;
        let (verdict, found, why) = of(&row, at_last);
        assert_eq!((verdict, found), (Verdict::Waiting, Some(stage)), "{why}");
        assert!(why.ends_with(&format!("for {patience} s.")), "{why}");
        let (verdict, found, why) = of(&row, at_last + 1);
        assert_eq!((verdict, found), (Verdict::Broken, Some(stage)), "{why}");
    }
    let impatient = Patience { each: Some(Duration::from_secs(1)), ..PATIENCE };
    assert!(Stage::ALL.iter().all(|stage| impatient.of(*stage) == Duration::from_secs(1)));
}

#[test]
fn the_rate_is_told_from_a_deliver_that_does_not_come() {
    let row = queued();
    // Ten calls a second: booked out until 100 s after the start, less the burst, and two seconds are reached ahead.
    let booked = Some(at(100_000).as_millis() * 1_000);
    let report = told(&row, Some(&destination()), None, booked, 30_000);
    assert_eq!((report.verdict, report.stage), (Verdict::Waiting, Some(Stage::Limiter)), "{}", report.why);
    assert!(
        report.why.starts_with("The destination's rate is booked out for 68 s more; its message waits for 9 s."),
        "{}",
        report.why
    );
    let report = told(&row, Some(&destination()), None, booked, 90_000);
    assert_eq!((report.verdict, report.stage), (Verdict::Broken, Some(Stage::Limiter)));
    let report = told(&row, Some(&destination()), None, Some(at(20_000).as_millis() * 1_000), 90_000);
    assert_eq!((report.verdict, report.stage), (Verdict::Broken, Some(Stage::Deliver)));
    let returned = transition::returned(&queued(), Reason::RateLimitedHere, MARGIN, &stamp(21_000)).expect("returned").after;
    assert_eq!(of(&returned, 22_000).1, Some(Stage::Limiter));
}

#[test]
fn what_failed_is_broken_at_once() {
    let returned = |reason| transition::returned(&dispatched(), reason, MARGIN, &stamp(21_000)).expect("returned").after;
    let cases: [(&str, Delivery, Stage, &str); 8] = [
        ("refused publish", returned(Reason::PublishFailed), Stage::Queue, "The queue did not accept the message."),
        (
            "secret missing",
            finished(CallResult::NotCalled(Reason::SecretUnavailable)),
            Stage::Deliver,
            "Attempt 1 at 2026-12-01T09:00:20.450Z failed: A signing secret is missing or malformed. Its next one starts at",
        ),
        (
            "no connection",
            finished(Failure::Connect.into()),
            Stage::Acknowledgement,
            "Attempt 1 at 2026-12-01T09:00:20.450Z failed: ",
        ),
        ("503", finished(answered(503)), Stage::Acknowledgement, "Attempt 1 at 2026-12-01T09:00:20.450Z was answered with 503: "),
        (
            "404",
            finished(answered(404)),
            Stage::Acknowledgement,
            "It is dead. Attempt 1 at 2026-12-01T09:00:20.450Z was answered with 404: ",
        ),
        (
            "expired before dispatch",
            transition::expired(&stored(), &stamp(21_000)).expect("expired").after,
            Stage::Dispatch,
            "It is expired: The deadline passed, or less than the safety margin is left.",
        ),
        (
            "expired in the queue",
            transition::expired(&queued(), &stamp(21_000)).expect("expired").after,
            Stage::Deliver,
            "It is expired",
        ),
        (
            "cancelled",
            Delivery {
                state: State::Cancelled,
                cancel: Some(Cancel { since: at(1), by: "ann".into(), why: "enough".into() }),
                ..stored()
            },
            Stage::Dispatch,
            "ann cancelled it.",
        ),
    ];
    for (what, row, stage, why) in cases {
        let (verdict, found, said) = of(&row, 22_000);
        assert_eq!((verdict, found), (Verdict::Broken, Some(stage)), "{what}: {said}");
        assert!(said.starts_with(why), "{what}: {said}");
    }
    let (verdict, stage, why) = of(&claimed(), 60_000);
    assert_eq!((verdict, stage), (Verdict::Broken, Some(Stage::Deliver)), "{why}");
    let shadowed = Delivery { state: State::Shadowed, ..claimed() };
    assert_eq!((of(&shadowed, 22_000).0, of(&shadowed, 22_000).1), (Verdict::Broken, Some(Stage::Deliver)));
    let (verdict, stage, why) = of(&stored(), 600_001);
    assert_eq!((verdict, stage), (Verdict::Broken, Some(Stage::Dispatch)), "{why}");
}

#[test]
fn who_keeps_it_from_going_on_is_named() {
    let pause = Pause { since: at(-5), by: "deliver".into(), why: "rejected too often.".into() };
    let paused = Destination { paused: Some(pause), ..destination() };
    let report = told(&stored(), Some(&paused), None, None, 1_000);
    assert_eq!((report.verdict, report.stage), (Verdict::Broken, Some(Stage::Dispatch)));
    assert_eq!(report.why, "deliver paused destination canary since 2026-12-01T08:59:59.995Z: rejected too often.");

    let held = Delivery { hold: Some(Hold { since: at(1), by: "ann".into(), why: "wait".into() }), ..queued() };
    let (verdict, stage, why) = of(&held, 22_000);
    assert_eq!((verdict, stage), (Verdict::Broken, Some(Stage::Deliver)));
    assert_eq!(why, "ann holds it since 2026-12-01T09:00:00.001Z: wait.");

    let report = told(&stored(), Some(&destination()), Some(&silent()), None, 40_000);
    assert_eq!((report.verdict, report.stage), (Verdict::Broken, Some(Stage::Acknowledgement)));
    assert_eq!(
        report.why,
        "Destination canary does not answer, its breaker is open since 2026-12-01T09:00:30.000Z, and 2 probes were not answered."
    );
    let report = told(&finished(Failure::Timeout.into()), Some(&destination()), Some(&silent()), None, 40_000);
    assert!(report.why.contains("failed: ") && report.why.contains("its breaker is open"), "{}", report.why);
    let expired = transition::expired(&stored(), &stamp(21_000)).expect("expired").after;
    let report = told(&expired, Some(&paused), None, None, 22_000);
    assert!(report.why.starts_with("It is expired: ") && report.why.contains("deliver paused destination"), "{}", report.why);
    assert_eq!(told(&stored(), None, None, None, 1_000).stage, Some(Stage::Dispatch));
}

#[test]
fn one_that_is_not_there_was_never_stored() {
    let report = absent(&name(), &run());
    assert_eq!((report.verdict, report.stage), (Verdict::Broken, Some(Stage::Schedule)));
    assert_eq!(report.delivery_id, stored().id.to_string());
    assert_eq!(text(&report).len(), 2);
}

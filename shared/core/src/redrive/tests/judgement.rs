//! When a run goes on, waits and stops, and what its phases allow.

use proptest::prelude::*;

use super::*;
use crate::id::Owner;

const SCHEDULED: (State, Option<Reason>) = (State::Scheduled, Some(Reason::Redriven));
const DELIVERED: (State, Option<Reason>) = (State::Delivered, Some(Reason::Accepted));
const FAILING: (State, Option<Reason>) = (State::Deferred, Some(Reason::ServerError));
const DEAD: (State, Option<Reason>) = (State::Dead, Some(Reason::Rejected));

/// So many rows of each fate.
fn fates(fates: &[(u32, (State, Option<Reason>))]) -> Totals {
    totals(&fates.iter().map(|(n, (state, reason))| (*n, *state, *reason)).collect::<Vec<_>>())
}

fn moved(phase: Phase, moved: u32) -> Run {
    Run { phase, counters: Counters { moved, ..Counters::default() }, ..run() }
}

/// The canary is moved, and may take until minute 45.
fn canary(n: u32) -> Run {
    Run { canary_until: Some(at(45)), ..moved(Phase::Canary, n) }
}

fn judged(run: &Run, totals: &Totals, minute: i64) -> Verdict {
    judge(run, totals, &Signs::default(), at(minute))
}

fn code(verdict: &Verdict) -> Option<StopCode> {
    match verdict {
        Verdict::Stop(stop) => Some(stop.code),
        _ => None,
    }
}

#[test]
fn totals_count_each_row_once() {
    let late = (State::Scheduled, Some(Reason::TooFarForQueue));
    let expired = (State::Expired, Some(Reason::DeadlinePassed));
    let totals = fates(&[
        (3, SCHEDULED),
        (2, late),
        (4, DELIVERED),
        (5, FAILING),
        (6, DEAD),
        (1, expired),
        (7, (State::Cancelled, Some(Reason::Cancelled))),
        (8, (State::Shadowed, Some(Reason::Shadowed))),
    ]);
    assert_eq!((totals.rows, totals.waiting, totals.delivered, totals.cancelled, totals.shadowed), (36, 5, 4, 7, 8));
    let classes: Vec<String> = totals.failures().iter().map(|(class, n)| format!("{class} {n}")).collect();
    assert_eq!(classes, ["server_error 5", "rejected 6", "deadline_passed 1"]);
}

#[test]
fn a_canary_stops_as_soon_as_it_can_no_longer_end_well() {
    // Ten rows, 20 %: two failures are within, three are not, whoever else still waits.
    assert_eq!(judged(&moved(Phase::Canary, 4), &fates(&[(2, FAILING), (2, SCHEDULED)]), 31), Verdict::Go);
    let verdict = judged(&moved(Phase::Canary, 4), &fates(&[(3, FAILING), (1, SCHEDULED)]), 31);
    let text = "3 of 10 rows of the canary failed with server_error: more than 20 %.".to_owned();
    assert_eq!(verdict, Verdict::Stop(Stop { code: StopCode::AbortThreshold, text }));
    // Two classes are judged apart, but the canary has not ended well.
    let apart = fates(&[(2, FAILING), (2, DEAD), (6, DELIVERED)]);
    assert_eq!(judged(&canary(10), &apart, 45), Verdict::Wait);
    assert_eq!(code(&judged(&canary(10), &apart, 46)), Some(StopCode::CanaryTimeout));
}

#[test]
fn a_canary_that_ended_well_lets_the_rest_go() {
    assert_eq!(judged(&canary(10), &fates(&[(9, DELIVERED), (1, SCHEDULED)]), 45), Verdict::Wait);
    assert_eq!(judged(&canary(10), &fates(&[(9, DELIVERED)]), 45), Verdict::Wait, "the index does not show it yet");
    assert_eq!(code(&judged(&canary(10), &fates(&[(9, DELIVERED), (1, SCHEDULED)]), 46)), Some(StopCode::CanaryTimeout));
    assert_eq!(judged(&canary(10), &fates(&[(10, DELIVERED)]), 90), Verdict::Go);
    assert_eq!(judged(&canary(10), &fates(&[(8, DELIVERED), (2, FAILING)]), 31), Verdict::Go, "within the threshold");
    // Fewer rows than the canary was to have: they are the whole.
    assert_eq!(code(&judged(&canary(2), &fates(&[(1, DELIVERED), (1, DEAD)]), 31)), Some(StopCode::AbortThreshold));
    assert_eq!(judged(&canary(0), &Totals::default(), 31), Verdict::Go);
}

#[test]
fn a_moving_run_is_judged_by_all_that_it_moved() {
    assert_eq!(judged(&moved(Phase::Moving, 100), &fates(&[(20, DEAD), (80, SCHEDULED)]), 31), Verdict::Go);
    let verdict = judged(&moved(Phase::Moving, 100), &fates(&[(21, DEAD), (79, SCHEDULED)]), 31);
    assert_eq!(code(&verdict), Some(StopCode::AbortThreshold));
    // Failures of one class, dead or alive, are one number.
    let both = fates(&[(11, FAILING), (10, (State::Dead, Some(Reason::ServerError))), (79, DELIVERED)]);
    assert_eq!(code(&judged(&moved(Phase::Moving, 100), &both, 31)), Some(StopCode::AbortThreshold));
    for phase in [Phase::Sweeping, Phase::Done, Phase::Stopped, Phase::Aborted] {
        assert_eq!(judged(&moved(phase, 100), &fates(&[(100, DEAD)]), 31), Verdict::Go, "{phase} moves nothing");
    }
}

#[test]
fn signs_stop_a_run_whatever_its_rows_say() {
    let fresh = FreshWait { destination: to("crm"), rows: 3, deliver_by: at(40) };
    for (signs, expected) in [
        (Signs { breaker_open: vec![to("crm")], ..Signs::default() }, StopCode::BreakerOpen),
        (Signs { paused: vec![to("crm")], ..Signs::default() }, StopCode::DestinationPaused),
        (Signs { fresh: vec![fresh], ..Signs::default() }, StopCode::FreshWorkWaits),
    ] {
        for run in [canary(10), moved(Phase::Moving, 100)] {
            let verdict = judge(&run, &fates(&[(10, DELIVERED)]), &signs, at(31));
            assert_eq!(code(&verdict), Some(expected));
            assert!(matches!(verdict, Verdict::Stop(stop) if stop.text.contains("crm") && stop.text.ends_with('.')));
        }
        assert_eq!(judge(&moved(Phase::Sweeping, 9), &Totals::default(), &signs, at(31)), Verdict::Go);
    }
}

#[test]
fn a_resumed_run_begins_with_a_canary_again_and_forgets_what_failed() {
    let totals = fates(&[(50, FAILING), (50, DELIVERED)]);
    let stop = Stop { code: StopCode::AbortThreshold, text: "Too many.".into() };
    let running = moved(Phase::Moving, 100);
    let stopped = running.stop(stop, at(32), "7f3a").expect("stopped");
    assert_eq!((stopped.phase, stopped.version, stopped.may_move(100)), (Phase::Stopped, 2, 0));
    assert!(stopped.needs_slice(), "what it moved is swept");
    assert!(!Run { swept: true, ..stopped.clone() }.needs_slice());
    let again = stopped.resume(&totals, "ann", "fixed", at(40)).expect("resumed");
    assert_eq!((again.phase, again.version, again.may_move(100), again.may_move(105)), (Phase::Canary, 3, 10, 5));
    assert_eq!(judged(&again, &totals, 41), Verdict::Go);
    // Failures that only change their class are no new ones.
    let exhausted = (State::Dead, Some(Reason::AttemptsExhausted));
    assert_eq!(judged(&again, &fates(&[(50, exhausted), (60, DELIVERED)]), 41), Verdict::Go);
    let worse = fates(&[(50, exhausted), (3, DEAD), (57, DELIVERED)]);
    assert_eq!(code(&judged(&again, &worse, 41)), Some(StopCode::AbortThreshold));
    assert_eq!(again.resume(&totals, "ann", "again", at(41)), Err(RunRefusal::Phase(Phase::Canary)));
}

#[test]
fn rows_that_a_later_run_took_are_not_waited_for_after_a_resume() {
    let stop = Stop { code: StopCode::CanaryTimeout, text: "Late.".into() };
    let stopped = canary(10).stop(stop, at(46), "7f3a").expect("stopped");
    let again = stopped.resume(&fates(&[(6, DELIVERED)]), "ann", "fixed", at(50)).expect("resumed");
    let done = Run { canary_until: Some(at(70)), counters: Counters { moved: 20, ..Counters::default() }, ..again };
    assert_eq!(judged(&done, &fates(&[(15, DELIVERED)]), 60), Verdict::Wait);
    assert_eq!(judged(&done, &fates(&[(16, DELIVERED)]), 60), Verdict::Go);
}

#[test]
fn phases_say_what_may_be_moved_and_who_may_end_a_run() {
    assert_eq!((run().may_move(0), run().may_move(7), run().may_move(10)), (10, 3, 0));
    assert_eq!(canary(10).may_move(10), 0, "it waits");
    assert_eq!((moved(Phase::Moving, 10).may_move(10), moved(Phase::Moving, 999).may_move(1_000)), (990, 0));
    for (phase, active, abortable) in [
        (Phase::Canary, true, true),
        (Phase::Moving, true, true),
        (Phase::Sweeping, true, true),
        (Phase::Stopped, false, true),
        (Phase::Done, false, false),
        (Phase::Aborted, false, false),
    ] {
        assert_eq!(phase.is_active(), active, "{phase}");
        let aborted = moved(phase, 5).abort("ann", "wrong receiver", at(31));
        assert_eq!(aborted.is_ok(), abortable, "{phase}");
        assert!(
            aborted.is_ok_and(|run| !run.phase.is_active()
                && run.version == 2
                && run.resume(&Totals::default(), "", "", at(32)).is_err())
                == abortable
        );
        let stop = Stop { code: StopCode::BreakerOpen, text: String::new() };
        assert_eq!(moved(phase, 5).stop(stop, at(31), "x").is_ok(), active, "{phase}");
    }
}

#[test]
fn one_slice_at_a_time() {
    let owner = |name: &str| Owner::new(name).expect("an owner");
    let mine = run().claimed(owner("a"), at(35), now(30)).expect("free");
    assert_eq!(mine.version, 2);
    assert_eq!(mine.claimed(owner("b"), at(36), now(34)), Err(RunRefusal::Leased(at(35))));
    assert!(mine.claimed(owner("a"), at(36), now(34)).is_ok(), "its own");
    let unsure = Now { lo: at(34), hi: at(36) };
    assert_eq!(mine.claimed(owner("b"), at(40), unsure), Err(RunRefusal::Leased(at(35))));
    assert!(mine.claimed(owner("b"), at(40), now(35)).is_ok(), "it has ended");
    let done = Run { phase: Phase::Done, ..run() };
    assert_eq!(done.claimed(owner("a"), at(35), now(30)), Err(RunRefusal::Phase(Phase::Done)));
}

#[test]
fn orders_out_of_bounds_are_named() {
    assert_eq!(order().problems(at(0)), []);
    let wrong = Order {
        owner: " ".into(),
        why: String::new(),
        evidence: "x".repeat(257),
        selection: Selection::default(),
        max_count: 0,
        rate_per_second: 0,
        canary_size: 2,
        canary_seconds: 59,
        abort_threshold_percent: 0,
        attempts: 21,
        deliver_by: Some(at(0)),
    };
    let fields: Vec<String> = wrong.problems(at(0)).into_iter().map(|problem| problem.field).collect();
    let all = ["owner", "why", "evidence", "selection", "max_count", "rate_per_second", "canary_size", "abort_threshold_percent"];
    assert_eq!(fields, [all.as_slice(), &["canary_seconds", "attempts", "deliver_by"]].concat());
    let small = Order { max_count: 5, canary_size: 6, ..order() };
    assert_eq!(small.problems(at(0)).len(), 1);
    let text = serde_json::to_string(&order()).expect("JSON");
    assert_eq!(serde_json::from_str::<Order>(&text).expect("an order"), order());
    for missing in ["owner", "why", "evidence", "selection", "max_count", "rate_per_second", "canary_size"] {
        let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        json.as_object_mut().expect("an object").remove(missing);
        let error = serde_json::from_value::<Order>(json).expect_err("missing").to_string();
        assert_eq!(error, format!("missing field `{missing}`"));
    }
}

fn fate() -> impl Strategy<Value = (State, Option<Reason>)> {
    let reasons = vec![Reason::Rejected, Reason::ServerError, Reason::Timeout, Reason::AttemptsExhausted, Reason::Redriven];
    (proptest::sample::select(State::ALL.to_vec()), proptest::option::of(proptest::sample::select(reasons)))
}

proptest! {
    /// No class of failures past the threshold goes on, and a canary that goes on has nobody who waits.
    #[test]
    fn no_run_goes_on_past_its_threshold(
        rows in proptest::collection::vec(fate(), 0..40), percent in 1_u32..=100, complete in any::<bool>(),
        phase in proptest::sample::select(vec![Phase::Canary, Phase::Moving]), minute in 30_i64..60,
    ) {
        let totals = fates(&rows.iter().map(|fate| (1, *fate)).collect::<Vec<_>>());
        let mut run = moved(phase, totals.rows);
        run.order.abort_threshold_percent = percent;
        run.canary_until = complete.then(|| at(45));
        let of = if phase == Phase::Canary && !complete { 10 } else { totals.rows };
        let worst = totals.failures().into_values().max().unwrap_or(0);
        let past = worst * 100 > percent * of;
        match judged(&run, &totals, minute) {
            Verdict::Stop(Stop { code: StopCode::AbortThreshold, .. }) => prop_assert!(past),
            verdict => {
                prop_assert!(!past, "{verdict:?}");
                let judged_canary = phase == Phase::Canary && complete;
                match verdict {
                    Verdict::Go => prop_assert!(!judged_canary || totals.waiting == 0),
                    Verdict::Wait => prop_assert!(judged_canary && minute <= 45),
                    Verdict::Stop(stop) => prop_assert!(stop.code == StopCode::CanaryTimeout && minute > 45),
                }
            }
        }
        let (dead, alive): (u32, u32) = (totals.failed_again.values().sum(), totals.failing.values().sum());
        prop_assert_eq!(totals.waiting + totals.delivered + totals.cancelled + totals.shadowed + dead + alive, totals.rows);
    }
}

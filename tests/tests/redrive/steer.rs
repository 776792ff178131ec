//! An operator steers: abort, freeze, unfreeze, and a run whose slices stopped coming; all of it is recorded.

use std::time::Duration;

use punctual_core::operation::{Operation, Outcome};
use punctual_core::ports::Operations as _;
use punctual_core::reason::Reason;
use punctual_core::redrive::{Phase, StopCode};
use punctual_core::state::State;
use serde_json::{Value, json};

use crate::world::{INTERVAL, Stage, World, dead, errors, order, run_id};

fn hundred() -> Stage {
    let mut stage = Stage::start();
    let world = stage.world.clone();
    stage.wait(async move {
        world.destination("crm", json!({})).await;
        for n in 0..100 {
            world.put(n, dead("crm", Reason::Rejected)).await;
        }
    });
    stage.answer("crm", 200);
    stage
}

fn slow(more: Value) -> Value {
    let mut order = order(json!({"destination_ids": ["crm"]}), json!({"canary_size": 5, "rate_per_second": 1}));
    order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    order
}

#[test]
fn an_abort_ends_a_run_and_sweeps_what_it_moved() {
    let mut stage = hundred();
    let id = run_id(&stage.ask(slow(json!({}))));
    stage.until("the canary", Duration::from_secs(300), |world| world.count(State::Delivered) == 5);
    let answer = stage.ask(json!({"action": "abort", "run_id": id, "by": "bob", "why": "wrong selection", "evidence": "INC-8"}));
    assert!(answer.ok && answer.text[0].starts_with("Aborted: nothing more is moved."), "{:?}", answer.text);
    let run = stage.until_over(&id);
    assert_eq!((run.phase, run.counters.moved, run.swept), (Phase::Aborted, 5, true));
    let stopped = run.stopped.unwrap();
    assert_eq!((stopped.code, stopped.by.as_str(), stopped.text.as_str()), (StopCode::Aborted, "bob", "wrong selection"));
    stage.pass(INTERVAL * 3);
    assert_eq!((stage.calls().len(), stage.there().len(), stage.letters.hidden()), (5, 95, 0));
    assert_eq!(stage.slices.planned(), [], "nobody plans slices of a run that has ended");

    let again = stage.ask(json!({"action": "abort", "run_id": id, "by": "bob", "why": "again", "evidence": "INC-8"}));
    assert!(again.ok && again.text[0] == "Nothing was done: it was aborted already.", "{:?}", again.text);
    let resume = stage.ask(json!({"action": "resume", "run_id": id, "by": "bob", "why": "again", "evidence": "INC-8"}));
    assert_eq!(errors(&resume), [("refused", "run_id")]);
}

#[test]
fn a_freeze_stops_all_and_leaves_everything_intact() {
    let mut stage = hundred();
    let id = run_id(&stage.ask(slow(json!({}))));
    stage.until("the canary", Duration::from_secs(300), |world| world.count(State::Delivered) == 5);
    let frozen = stage.ask(json!({"action": "freeze", "by": "bob", "why": "incident 8", "evidence": "INC-8"}));
    assert!(frozen.ok && frozen.frozen.is_some());
    let (rows, letters) = (stage.ledger.rows(), stage.there());
    stage.pass(INTERVAL * 10);
    assert_eq!((stage.ledger.rows(), stage.there(), stage.letters.receives()), (rows, letters, 0));
    let run = stage.stored(&id);
    assert_eq!((run.phase, run.counters.moved), (Phase::Canary, 5), "a freeze is no stop");
    let told = stage.ask(json!({"action": "status", "run_id": id})).text;
    assert!(told[0].starts_with("All redriving is frozen by bob since "), "{told:?}");
    let again = stage.ask(json!({"action": "freeze", "by": "eve", "why": "me too", "evidence": "INC-8"}));
    assert!(again.text[0].starts_with("Nothing was done: bob has frozen it already"), "{:?}", again.text);

    assert!(stage.ask(json!({"action": "unfreeze", "by": "bob", "why": "over", "evidence": "INC-8"})).ok);
    let run = stage.until_over(&id);
    stage.until("the last call", Duration::from_secs(600), |world| world.count(State::Delivered) == 100);
    assert_eq!((run.phase, run.counters.moved, stage.there().len()), (Phase::Done, 100, 0));
    assert!(stage.effects().values().all(|n| *n == 1));
    let nothing = stage.ask(json!({"action": "unfreeze", "by": "bob", "why": "over", "evidence": "INC-8"}));
    assert_eq!(nothing.text, ["Nothing was done: nothing was frozen."]);
}

/// The destination has so little room that a slice looks for more every second.
#[test]
fn a_freeze_stops_a_slice_that_is_under_way() {
    let mut stage = Stage::start();
    let world = stage.world.clone();
    stage.wait(async move {
        world.destination("crm", json!({"max_in_flight": 50})).await;
        for n in 0..600 {
            world.put(n, dead("crm", Reason::Rejected)).await;
        }
    });
    stage.answer("crm", 200);
    let id = run_id(&stage.ask(order(json!({"destination_ids": ["crm"]}), json!({"canary_size": 5}))));
    let moved = |world: &World| world.ledger.rows().iter().filter(|row| !row.redrives.is_empty()).count();
    stage.until("the middle of a slice", Duration::from_secs(600), |world| moved(world) >= 60);
    let before = moved(&stage);
    assert!(stage.ask(json!({"action": "freeze", "by": "bob", "why": "incident 9", "evidence": "INC-8"})).ok);
    stage.pass(INTERVAL);
    let after = moved(&stage);
    assert!(after <= before + 10, "{before}, and {after} after a minute: no more than one second's rows");
    stage.pass(INTERVAL * 5);
    assert_eq!(moved(&stage), after);

    assert!(stage.ask(json!({"action": "unfreeze", "by": "bob", "why": "over", "evidence": "INC-8"})).ok);
    let run = stage.until_over(&id);
    assert_eq!((run.phase, run.counters.moved), (Phase::Done, 600));
}

#[test]
fn a_run_whose_slices_stopped_coming_is_told_and_started_again() {
    let mut stage = hundred();
    let id = run_id(&stage.ask(slow(json!({}))));
    // Its one schedule is lost.
    stage.pass(Duration::from_secs(1));
    assert!(stage.slices.take_due(stage.clock.instant().plus(Duration::from_secs(60))).is_some());
    stage.pass(INTERVAL * 5);
    assert_eq!(stage.calls().len(), 0);
    let told = stage.ask(json!({"action": "status", "run_id": id})).text;
    assert!(told.iter().any(|line| line.contains("has not come: resume starts the run again")), "{told:?}");
    let resumed = stage.ask(json!({"action": "resume", "run_id": id, "by": "ann", "why": "no slice came", "evidence": "INC-8"}));
    assert!(resumed.ok && resumed.text[0].starts_with("Its slices had stopped coming"), "{:?}", resumed.text);
    assert_eq!(stage.until_over(&id).phase, Phase::Done);
    let active = stage.ask(slow(json!({"selection": {"reasons": ["rejected"]}})));
    assert_eq!(errors(&active), [("matches_nothing", "selection")], "all are moved");
}

#[test]
fn fresh_work_with_a_near_deadline_that_waits_stops_a_run() {
    let mut stage = hundred();
    let id = run_id(&stage.ask(slow(json!({}))));
    stage.until("the canary", Duration::from_secs(300), |world| world.count(State::Delivered) == 5);
    // Due for a while, a minute and a half to go, and nobody has claimed it: the ledger says so, the next tick is not here yet.
    let now = stage.clock.instant();
    let world = stage.world.clone();
    let run = stage.stored(&id);
    let next = run.next_slice_at.unwrap();
    stage.wait(async move {
        let late =
            crate::world::Dead { deliver_by: next.plus(Duration::from_secs(90)), died_at: now, ..dead("crm", Reason::Rejected) };
        let row = world.put_unsent(500, late).await;
        let (state, wake_at) = (State::Queued, Some(now.minus(Duration::from_secs(60))));
        let held_until = Some(next.plus(Duration::from_secs(30)));
        world.ledger.put_row(punctual_core::delivery::Delivery { state, wake_at, held_until, death: 0, dlq_sent: 0, ..row });
    });
    let run = stage.until_over(&id);
    assert_eq!(run.phase, Phase::Stopped);
    let stopped = run.stopped.unwrap();
    assert_eq!(stopped.code, StopCode::FreshWorkWaits, "{}", stopped.text);
}

/// What is in the record, the newest first.
fn operations(stage: &mut Stage) -> Vec<Operation> {
    let world = stage.world.clone();
    stage.wait(async move { world.control.operations(None, 100).await.unwrap().operations })
}

#[test]
fn every_write_of_an_operator_is_recorded_with_its_evidence_and_what_came_of_it() {
    let mut stage = hundred();
    let by = |action: &str, more: Value| {
        let mut event = json!({"action": action, "by": "bob", "why": "wrong selection", "evidence": "INC-9"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let mut ask = |event: Value| {
        let answer = stage.ask(event);
        stage.pass(Duration::from_secs(1));
        answer
    };
    // What cannot be read, and what only looks, is not in it.
    assert!(!ask(by("freeze", json!({"evidence": ""}))).ok);
    assert!(!ask(slow(json!({"max_count": 0}))).ok);
    assert!(ask(json!({"action": "status"})).ok);
    assert!(ask(json!({"action": "plan", "selection": {"destination_ids": ["crm"]}})).did_not.is_empty());

    let started = ask(slow(json!({})));
    let id = run_id(&started);
    assert!(started.did_not.starts_with("no row was moved"), "{started:?}");
    assert!(!ask(slow(json!({"selection": {"destination_ids": ["nowhere"]}}))).ok);
    assert!(!ask(slow(json!({}))).ok, "it overlaps");
    assert!(!ask(by("resume", json!({"run_id": "run_20270104-030000-none"}))).ok);
    assert!(ask(by("resume", json!({"run_id": id}))).did_not.is_empty(), "nothing was done: it is active");
    ask(by("freeze", json!({})));
    ask(by("freeze", json!({})));
    ask(by("unfreeze", json!({})));
    ask(by("abort", json!({"run_id": id})));

    let told = operations(&mut stage);
    let run = format!("run {id}");
    let short: Vec<_> = told.iter().map(|o| (o.action.as_str(), o.target.as_str(), o.outcome)).collect();
    let expected = [
        ("abort", run.as_str(), Outcome::Done),
        ("unfreeze", "redriving", Outcome::Done),
        ("freeze", "redriving", Outcome::Done),
        ("freeze", "redriving", Outcome::Done),
        ("resume", run.as_str(), Outcome::Done),
        ("resume", "run run_20270104-030000-none", Outcome::Refused),
        ("start", "redriving", Outcome::Refused),
        ("start", "redriving", Outcome::Refused),
        ("start", run.as_str(), Outcome::Done),
    ];
    assert_eq!(short, expected);
    let (starts, steers): (Vec<_>, Vec<_>) = told.iter().partition(|one| one.action == "start");
    let signed = |one: &&Operation| (one.by.clone(), one.why.clone(), one.evidence.clone());
    assert!(steers.iter().all(|one| signed(one) == ("bob".into(), "wrong selection".into(), "INC-9".into())), "{steers:?}");
    let of_order = ("ann".into(), "the receiver answered 400 to everything".into(), "INC-7, mended at 02:40".into());
    assert!(starts.iter().all(|one| signed(one) == of_order), "{starts:?}");
    assert!(told[0].did.starts_with("Aborted: ") && told[0].did_not.starts_with("nothing that was moved"), "{:?}", told[0]);
    assert!(told[2].did.starts_with("nothing: bob has frozen it") && told[2].did_not.is_empty(), "{:?}", told[2]);
    assert!(
        told[3].did.starts_with("All redriving is frozen") && told[3].did_not.starts_with("no run was ended"),
        "{:?}",
        told[3]
    );
    assert!(told[5].did.contains("unknown_run") && told[6].did.contains("overlapping_run"), "{:?}", &told[5..7]);
    assert!(told[7].did.contains("unknown_destination") && told[8].did.starts_with(&format!("Run {id} is started")), "{told:?}");
}

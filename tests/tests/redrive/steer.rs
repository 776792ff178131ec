//! An operator steers: abort, freeze, unfreeze, and a run whose slices stopped coming.

use std::time::Duration;

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
    let answer = stage.ask(json!({"action": "abort", "run_id": id, "by": "bob", "why": "wrong selection"}));
    assert!(answer.ok && answer.text[0].starts_with("Aborted: nothing more is moved."), "{:?}", answer.text);
    let run = stage.until_over(&id);
    assert_eq!((run.phase, run.counters.moved, run.swept), (Phase::Aborted, 5, true));
    let stopped = run.stopped.unwrap();
    assert_eq!((stopped.code, stopped.by.as_str(), stopped.text.as_str()), (StopCode::Aborted, "bob", "wrong selection"));
    stage.pass(INTERVAL * 3);
    assert_eq!((stage.calls().len(), stage.there().len(), stage.letters.hidden()), (5, 95, 0));
    assert_eq!(stage.slices.planned(), [], "nobody plans slices of a run that has ended");

    let again = stage.ask(json!({"action": "abort", "run_id": id, "by": "bob", "why": "again"}));
    assert!(again.ok && again.text[0] == "Nothing was done: it was aborted already.", "{:?}", again.text);
    let resume = stage.ask(json!({"action": "resume", "run_id": id, "by": "bob", "why": "again"}));
    assert_eq!(errors(&resume), [("refused", "run_id")]);
}

#[test]
fn a_freeze_stops_all_and_leaves_everything_intact() {
    let mut stage = hundred();
    let id = run_id(&stage.ask(slow(json!({}))));
    stage.until("the canary", Duration::from_secs(300), |world| world.count(State::Delivered) == 5);
    let frozen = stage.ask(json!({"action": "freeze", "by": "bob", "why": "incident 8"}));
    assert!(frozen.ok && frozen.frozen.is_some());
    let (rows, letters) = (stage.ledger.rows(), stage.there());
    stage.pass(INTERVAL * 10);
    assert_eq!((stage.ledger.rows(), stage.there(), stage.letters.receives()), (rows, letters, 0));
    let run = stage.stored(&id);
    assert_eq!((run.phase, run.counters.moved), (Phase::Canary, 5), "a freeze is no stop");
    let told = stage.ask(json!({"action": "status", "run_id": id})).text;
    assert!(told[0].starts_with("All redriving is frozen by bob since "), "{told:?}");
    let again = stage.ask(json!({"action": "freeze", "by": "eve", "why": "me too"}));
    assert!(again.text[0].starts_with("Nothing was done: bob has frozen it already"), "{:?}", again.text);

    assert!(stage.ask(json!({"action": "unfreeze", "by": "bob", "why": "over"})).ok);
    let run = stage.until_over(&id);
    stage.until("the last call", Duration::from_secs(600), |world| world.count(State::Delivered) == 100);
    assert_eq!((run.phase, run.counters.moved, stage.there().len()), (Phase::Done, 100, 0));
    assert!(stage.effects().values().all(|n| *n == 1));
    let nothing = stage.ask(json!({"action": "unfreeze", "by": "bob", "why": "over"}));
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
    assert!(stage.ask(json!({"action": "freeze", "by": "bob", "why": "incident 9"})).ok);
    stage.pass(INTERVAL);
    let after = moved(&stage);
    assert!(after <= before + 10, "{before}, and {after} after a minute: no more than one second's rows");
    stage.pass(INTERVAL * 5);
    assert_eq!(moved(&stage), after);

    assert!(stage.ask(json!({"action": "unfreeze", "by": "bob", "why": "over"})).ok);
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
    let resumed = stage.ask(json!({"action": "resume", "run_id": id, "by": "ann", "why": "no slice came"}));
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

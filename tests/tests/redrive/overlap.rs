//! Slices that come twice, late, or at the same time; two starts at once.

use std::time::Duration;

use futures::future::join;
use punctual_core::id::RunId;
use punctual_core::reason::Reason;
use punctual_core::redrive::Phase;
use punctual_core::state::State;
use serde_json::json;

use crate::world::{Stage, dead, order, run_id};

fn some(rows: usize) -> Stage {
    let mut stage = Stage::start();
    let world = stage.world.clone();
    stage.wait(async move {
        world.destination("crm", json!({})).await;
        for n in 0..rows {
            world.put(n, dead("crm", Reason::Rejected)).await;
        }
    });
    stage.answer("crm", 200);
    stage
}

#[test]
fn two_slices_at_once_move_one_canary_and_an_old_one_nothing() {
    let mut stage = some(60);
    let id = run_id(&stage.ask(order(json!({"destination_ids": ["crm"]}), json!({"canary_size": 7}))));
    let (world, name) = (stage.world.clone(), id.clone());
    let both = stage.wait(async move {
        let first = world.ask(json!({"action": "slice", "run_id": name, "slice": 1}));
        let doubled = world.ask(json!({"action": "slice", "run_id": name, "slice": 1}));
        join(first, doubled).await
    });
    let moved = [both.0.slice.unwrap().moved, both.1.slice.unwrap().moved];
    assert_eq!((moved.iter().sum::<u32>(), moved.contains(&0)), (7, true), "{moved:?}");
    let old = stage.ask(json!({"action": "slice", "run_id": id, "slice": 1})).slice.unwrap();
    assert_eq!(old.idle.as_deref(), Some("slice 2 comes next"));
    let run = stage.until_over(&id);
    assert_eq!((run.phase, run.counters.moved), (Phase::Done, 60));
    stage.until("the last call", Duration::from_secs(600), |world| world.count(State::Delivered) == 60);
    assert!(stage.effects().values().all(|n| *n == 1));
    assert_eq!((stage.calls().len(), stage.there().len()), (60, 0));
    let late = stage.ask(json!({"action": "slice", "run_id": id, "slice": 99})).slice.unwrap();
    assert_eq!(late.idle.as_deref(), Some("the run is done"));
}

#[test]
fn a_slice_of_another_lease_waits_and_plans_the_next_one_all_the_same() {
    let mut stage = some(10);
    let id = run_id(&stage.ask(order(json!({"destination_ids": ["crm"]}), json!({"canary_size": 3}))));
    let mut run = stage.stored(&id);
    let until = stage.clock.instant().plus(Duration::from_secs(45));
    let expected = run.version;
    run.version += 1;
    run.lease = Some(punctual_core::redrive::Lease { owner: punctual_core::id::Owner::new("dead-slice").unwrap(), until });
    let world = stage.world.clone();
    stage.wait(async move {
        use punctual_core::ports::Control as _;
        world.control.put_run(&run, expected).await.unwrap();
    });
    let waits = stage.ask(json!({"action": "slice", "run_id": id, "slice": 1})).slice.unwrap();
    assert_eq!(waits.idle, Some(format!("another slice works on the run until {until} at the latest")));
    assert!(stage.slices.planned().contains(&(RunId::new(id.as_str()).unwrap(), 2, until.plus(Duration::from_secs(15)))));
    assert_eq!(stage.until_over(&id).counters.moved, 10);
}

#[test]
fn of_two_starts_at_once_at_most_one_goes_on() {
    let mut stage = some(10);
    let world = stage.world.clone();
    let (one, other) = stage.wait(async move {
        let one = world.ask(order(json!({"destination_ids": ["crm"]}), json!({"canary_size": 3})));
        let other = world.ask(order(json!({"reasons": ["rejected"]}), json!({"canary_size": 3})));
        join(one, other).await
    });
    assert!(!(one.ok && other.ok), "{one:?} {other:?}");
    stage.pass(Duration::from_secs(900));
    let moved: usize = stage.ledger.rows().iter().map(|row| row.redrives.len()).sum();
    assert!(moved == 10 || moved == 0, "{moved}");
}

//! A slice that dies after each of its effects in turn: the totals are the same as if nothing had happened.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::reason::Reason;
use punctual_core::redrive::Phase;
use punctual_core::state::State;
use serde_json::json;

use crate::world::{Stage, dead, order, run_id};

const SELECTED: usize = 9;
const OTHERS: usize = 4;

/// Plays a run in which the `slice`-th invocation dies after its `effect`-th effect. Says whether it came to that.
fn dies(slice: u32, effect: u32) -> bool {
    let mut stage = Stage::start();
    let world = stage.world.clone();
    stage.wait(async move {
        world.destination("crm", json!({})).await;
        for n in 0..SELECTED {
            world.put(n, dead("crm", Reason::Rejected)).await;
        }
        for n in SELECTED..SELECTED + OTHERS {
            world.put(n, dead("crm", Reason::AttemptsExhausted)).await;
        }
    });
    stage.answer("crm", 200);
    stage.crash.set(Some((slice, effect)));
    let selection = json!({"destination_ids": ["crm"], "reasons": ["rejected"]});
    let id = run_id(&stage.ask(order(selection, json!({"canary_size": 3, "rate_per_second": 5}))));
    let run = stage.until_over(&id);
    let bound = Duration::from_secs(1_200);
    stage.until("the last call", bound, |world| world.count(State::Delivered) == SELECTED);
    let place = format!("slice {slice}, effect {effect}");
    assert_eq!((run.phase, run.counters.moved), (Phase::Done, 9), "{place}");
    assert!(stage.effects().len() == SELECTED && stage.effects().values().all(|n| *n == 1), "{place}: {:?}", stage.effects());
    assert_eq!(stage.calls().len(), SELECTED, "{place}");
    let first: BTreeMap<String, u32> = stage.calls().into_iter().map(|call| (call.key, call.attempt)).collect();
    assert!(first.values().all(|attempt| *attempt == 2), "{place}");
    for row in stage.ledger.rows() {
        assert_eq!(row.redrives.len(), usize::from(row.state == State::Delivered), "{place}: {row:?}");
    }
    assert_eq!((stage.there().len(), stage.letters.hidden()), (OTHERS, 0), "{place}: {:?}", stage.reports.borrow());
    stage.crashed.get()
}

#[test]
fn a_crash_after_any_effect_of_any_slice_changes_no_total() {
    let mut points = Vec::new();
    for slice in 1.. {
        let mut effect = 1;
        while dies(slice, effect) {
            effect += 1;
        }
        if effect == 1 {
            break;
        }
        points.push(effect - 1);
    }
    println!("crash points of each slice: {points:?}, the same totals at each");
    assert!(points.len() >= 2 && points.iter().sum::<u32>() > 60, "{points:?}");
}

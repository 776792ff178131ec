//! The dead-letter queue as evidence: a pass over it receives each letter once, deletes what is over, and leaves the rest.

use std::time::Duration;

use punctual_core::dead_letter::DeadLetter;
use punctual_core::id::DeliveryId;
use punctual_core::ports::DeadLetters as _;
use punctual_core::reason::Reason;
use punctual_core::redrive::{DeleteWhy, LeaveWhy, Phase};
use punctual_core::state::State;
use serde_json::json;

use crate::world::{Stage, dead, order, run_id};

/// A pass remembers so many letters that it leaves.
const REMEMBERED: usize = 20_000;
const BEYOND: usize = 90;

#[test]
fn ten_of_twenty_thousand_are_deleted_and_the_others_are_received_once() {
    let mut stage = Stage::start();
    let world = stage.world.clone();
    let ids: Vec<DeliveryId> = stage.wait(async move {
        world.destination("crm", json!({})).await;
        let mut ids = Vec::new();
        for n in 0..REMEMBERED + BEYOND + 10 {
            ids.push(world.put(n, dead("crm", Reason::Rejected)).await);
        }
        ids.into_iter().step_by(2_009).take(10).collect()
    });
    stage.answer("crm", 200);
    let before = stage.there();
    let id = run_id(&stage.ask(order(json!({"delivery_ids": ids}), json!({"canary_size": 2}))));
    let mut told = Vec::new();
    let run = stage.until_over(&id);
    told.extend(stage.ask(json!({"action": "status", "run_id": id})).text);
    assert_eq!((run.phase, run.counters.moved), (Phase::Done, 10));
    let counters = run.counters;
    println!("redrive_scan_receives {} for a queue of {} with 10 selected", counters.scan_receives, before.len());
    assert_eq!(counters.deleted.into_iter().collect::<Vec<_>>(), [(DeleteWhy::Moved, 10)]);
    assert_eq!(counters.left.into_iter().collect::<Vec<_>>(), [(LeaveWhy::Unselected, 20_090)]);
    assert_eq!(counters.scan_receives, 20_100);
    assert!(stage.letters.there().iter().all(|letter| letter.receives == 1));
    assert!(
        told.iter().any(|line| line == "Dead letters deleted: moved 10; left: unselected 20090; 20100 receives."),
        "{told:?}"
    );
    // What memory had no room for shows itself when its time is up; everything else is there already.
    assert_eq!(stage.letters.hidden(), BEYOND);
    stage.pass(Duration::from_secs(901));
    assert_eq!(stage.letters.hidden(), 0);
    let left: Vec<_> = before.into_iter().filter(|((id, _), _)| !ids.iter().any(|one| one.as_str() == id)).collect();
    assert_eq!(stage.there().into_iter().collect::<Vec<_>>(), left);
}

#[test]
fn only_letters_of_deaths_that_are_over_go() {
    let mut stage = Stage::start();
    let world = stage.world.clone();
    let ids: Vec<DeliveryId> = stage.wait(async move {
        world.destination("crm", json!({})).await;
        let mut ids = Vec::new();
        for n in 0..6 {
            ids.push(world.put(n, dead("crm", Reason::Rejected)).await);
        }
        // A second letter of the same death, one of a row that nobody has, one that is none, one that the queue moved here.
        let rows = world.ledger.rows();
        world.letters.send(&DeadLetter::of(rows.iter().find(|row| row.id == ids[0]).unwrap())).await.unwrap();
        let stranger = punctual_core::delivery::Delivery { id: DeliveryId::new("old-1").unwrap(), ..rows[0].clone() };
        world.letters.send(&DeadLetter::of(&stranger)).await.unwrap();
        world.letters.send(&DeadLetter::unreadable("?", Reason::MalformedMessage)).await.unwrap();
        let unselected = rows.iter().find(|row| row.id == ids[5]).unwrap();
        world.letters.put_bare(&punctual_core::message::Message::of(unselected).body()).unwrap();
        // Delivered since, by late evidence: nobody has deleted its letter.
        let late = rows.iter().find(|row| row.id == ids[4]).unwrap().clone();
        world.ledger.put_row(punctual_core::delivery::Delivery {
            state: State::Delivered,
            reason: Some(Reason::LateEvidence),
            ..late
        });
        ids
    });
    stage.answer("crm", 200);
    let id = run_id(&stage.ask(order(json!({"delivery_ids": ids[..4]}), json!({"canary_size": 2}))));
    let run = stage.until_over(&id);
    let deleted: Vec<_> = run.counters.deleted.iter().map(|(why, n)| (why.code(), *n)).collect();
    let left: Vec<_> = run.counters.left.iter().map(|(why, n)| (why.code(), *n)).collect();
    assert_eq!(deleted.iter().map(|(_, n)| n).sum::<u32>(), 6, "{deleted:?}");
    assert_eq!(left, [("unselected", 1), ("unknown", 1), ("malformed", 1), ("broker_moved", 1)]);
    assert_eq!(stage.letters.there().len(), 4);
    assert_eq!(stage.letters.hidden(), 0);
}

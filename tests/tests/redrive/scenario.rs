//! A thousand dead deliveries of three reasons on two destinations, and a receiver that is healed for one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_core::reason::Reason;
use punctual_core::redrive::{Phase, StopCode};
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_tests::load::report::fullest_second;
use serde_json::{Value, json};

use crate::world::{Dead, Stage, begin, dead, order, run_id};

/// (destination, reason, how many).
const GROUPS: [(&str, Reason, usize); 6] = [
    ("crm", Reason::Rejected, 300),
    ("crm", Reason::AttemptsExhausted, 200),
    ("crm", Reason::KeyConflict, 100),
    ("erp", Reason::Rejected, 250),
    ("erp", Reason::AttemptsExhausted, 100),
    ("erp", Reason::KeyConflict, 50),
];

fn thousand() -> Stage {
    let mut stage = Stage::start();
    let world = stage.world.clone();
    stage.wait(async move {
        for destination in ["crm", "erp"] {
            world.destination(destination, json!({})).await;
        }
        let mut number = 0;
        for (destination, reason, rows) in GROUPS {
            for _ in 0..rows {
                world.put(number, dead(destination, reason)).await;
                number += 1;
            }
        }
    });
    stage.answer("crm", 200);
    stage
}

fn rejected_of(destination: &str) -> Value {
    json!({"reasons": ["rejected"], "destination_ids": [destination]})
}

#[test]
fn a_plan_is_right_to_the_row_and_changes_nothing() {
    let mut stage = thousand();
    let (before, letters) = (stage.ledger.rows(), stage.there());
    let answer = stage.ask(json!({"action": "plan", "selection": {"reasons": ["rejected", "key_conflict"]}}));
    let plan = answer.plan.clone().expect("a plan");
    assert_eq!((plan.matched, plan.would_move, plan.would_skip.len(), plan.complete), (700, 700, 0, true));
    let groups: Vec<_> =
        plan.groups.iter().map(|g| (g.destination_id.as_str(), g.reason.unwrap(), g.matched, g.would_move)).collect();
    assert_eq!(
        groups,
        [
            ("crm", Reason::KeyConflict, 100, 100),
            ("crm", Reason::Rejected, 300, 300),
            ("erp", Reason::KeyConflict, 50, 50),
            ("erp", Reason::Rejected, 250, 250),
        ]
    );
    let loads: Vec<_> = plan.destinations.iter().map(|l| (l.destination_id.as_str(), l.would_move, l.cap_per_second)).collect();
    assert_eq!(loads, [("crm", 400, Some(10)), ("erp", 300, Some(10))]);
    assert_eq!((plan.seconds, plan.calls_at_most, plan.deadline_reachable, plan.without_letter), (45, 2_100, 700, 0));
    assert_eq!(plan.entries_read, 1_000);
    assert_eq!(answer.text[0], "700 dead or expired rows match; a run would move 700.");
    assert!(
        answer
            .text
            .contains(&"About 45 s, with no more than 10 a second for crm, 10 a second for erp; at most 2100 calls.".to_owned())
    );

    let slower = stage.ask(json!({"action": "plan", "selection": rejected_of("crm"), "rate_per_second": 2}));
    assert_eq!(slower.plan.map(|plan| (plan.would_move, plan.seconds)), Some((300, 150)));
    let nobody = stage.ask(json!({"action": "plan", "selection": {"reasons": ["gone"]}}));
    assert!(nobody.ok && nobody.plan.is_some_and(|plan| plan.matched == 0));
    assert_eq!((stage.ledger.rows(), stage.there(), stage.letters.receives()), (before, letters, 0));
    assert_eq!(stage.slices.planned(), []);
}

#[test]
fn a_start_moves_the_selection_alone_canary_first_at_the_rate() {
    let mut stage = thousand();
    let before = stage.there();
    let answer = stage.ask(order(rejected_of("crm"), json!({})));
    let id = run_id(&answer);
    assert_eq!(answer.plan.as_ref().map(|plan| plan.would_move), Some(300));
    let run = stage.until_over(&id);
    stage.until("the last call", Duration::from_secs(600), |world| world.count(State::Delivered) == 300);
    assert_eq!((run.phase, run.counters.moved), (Phase::Done, 300));

    // The selection and nothing else, each once, its attempts going on.
    let calls = stage.calls();
    assert_eq!(calls.len(), 300);
    assert!(calls.iter().all(|call| call.destination == "crm" && call.attempt == 2 && call.status == 200));
    assert!(stage.effects().values().all(|n| *n == 1));
    for row in stage.ledger.rows() {
        let selected = row.destination.as_str() == "crm" && row.attempts[0].reason == Reason::Rejected;
        assert_eq!(selected, row.state == State::Delivered, "{row:?}");
        if selected {
            let numbers: Vec<u32> = row.attempts.iter().map(|attempt| attempt.number).collect();
            assert_eq!((numbers, row.granted, row.death), (vec![1, 2], 3, 1));
            assert_eq!(row.redrives[0].to_string(), format!("{id} death#1 +3 by ann"));
        } else {
            assert_eq!((row.version, row.redrives.len(), row.attempts.len()), (7, 0, row.attempts.len()));
        }
    }

    // Twenty, then a wait until they had ended, then the others; never more than the rate in a second.
    let began: Vec<Timestamp> = calls.iter().map(|call| call.at).collect();
    let pause = began[20].since(began[19]);
    assert!(pause >= Duration::from_secs(30), "the canary was not waited for: {pause:?}");
    let fullest = fullest_second(began.iter().copied());
    let ratio = f64::from(u32::try_from(fullest).unwrap()) / 11.0;
    println!("redrive_peak_window_ratio {ratio:.2} of 1.00 (fullest second {fullest}, rate 10 and burst 1)");
    assert!(ratio <= 1.0, "{fullest}");
    // At nine tenths of the rate, all through.
    let took = began[299].since(began[20]);
    assert!((Duration::from_secs(30)..Duration::from_secs(36)).contains(&took), "{took:?}");

    // The dead letters of all others, and no other, with everything that they said.
    let gone: BTreeSet<String> = calls.iter().map(|call| call.key.clone()).collect();
    let expected: BTreeMap<_, _> = before.into_iter().filter(|((id, _), _)| !gone.contains(id)).collect();
    assert_eq!(expected.len(), 700);
    assert_eq!(stage.there(), expected);
    assert_eq!(stage.letters.hidden(), 0, "shown again at the end of the pass");
    let deleted: u32 = run.counters.deleted.values().sum();
    let left: u32 = run.counters.left.values().sum();
    assert_eq!((deleted, left, run.counters.scan_receives), (300, 700, 1_000));

    let told = stage.ask(json!({"action": "status", "run_id": id}));
    assert_eq!(told.text[1], "Of them 300 are delivered, 0 wait.", "{:?}", told.text);
    let totals = told.run.unwrap().totals;
    assert_eq!((totals.rows, totals.delivered), (300, 300));
}

#[test]
fn a_run_against_a_receiver_that_is_not_mended_stops_in_its_canary() {
    let mut stage = thousand();
    let id = run_id(&stage.ask(order(rejected_of("erp"), json!({}))));
    let run = stage.until_over(&id);
    assert_eq!((run.phase, run.counters.moved), (Phase::Stopped, 20));
    let stopped = run.stopped.expect("a reason");
    assert_eq!(stopped.code, StopCode::AbortThreshold);
    assert_eq!(stopped.text, "20 of 20 rows of the canary failed with rejected: more than 10 %.");
    assert_eq!(stage.calls().len(), 20);
    // All died again: the letter of the first death is gone, that of the second is there, and nothing else was touched.
    let again: Vec<_> = stage.ledger.rows().into_iter().filter(|row| row.death == 2).collect();
    assert!(again.len() == 20 && again.iter().all(|row| row.state == State::Dead && row.attempts.len() == 2));
    let there = stage.there();
    assert_eq!(there.len(), 1_000);
    assert!(again.iter().all(|row| there.contains_key(&(row.id.to_string(), "2".into()))));
    let told = stage.ask(json!({"action": "status", "run_id": id}));
    assert!(told.text.iter().any(|line| line.contains("20 failed again (rejected 20)")), "{:?}", told.text);

    // Mended and resumed: a canary of rows that it has not moved yet, then the others; those that died again stay.
    stage.answer("erp", 200);
    let resumed =
        stage.ask(json!({"action": "resume", "run_id": id, "by": "ann", "why": "mended at 04:00", "evidence": "INC-8"}));
    assert_eq!(run_id(&resumed), id);
    let run = stage.until_over(&id);
    assert_eq!((run.phase, run.counters.moved), (Phase::Done, 250));
    assert_eq!(run.counters.skipped.values().sum::<u32>(), 20);
    stage.until("the last call", Duration::from_secs(600), |world| world.count(State::Delivered) == 230);
    assert_eq!(stage.calls().len(), 250);
}

#[test]
fn rows_without_a_letter_and_expired_ones_come_along() {
    let mut stage = Stage::start();
    let world = stage.world.clone();
    let passed = begin().minus(Duration::from_secs(60));
    stage.wait(async move {
        world.destination("crm", json!({})).await;
        for n in 0..5 {
            world.put_unsent(n, dead("crm", Reason::Rejected)).await;
        }
        for n in 5..10 {
            let late = Dead { state: State::Expired, deliver_by: passed, ..dead("crm", Reason::DeadlinePassed) };
            world.put(n, late).await;
        }
    });
    stage.answer("crm", 200);
    let both = json!({"destination_ids": ["crm"]});
    let plan = stage.ask(json!({"action": "plan", "selection": both})).plan.unwrap();
    let skips: Vec<_> = plan.would_skip.iter().map(|(why, n)| (why.code(), *n)).collect();
    assert_eq!((plan.matched, plan.would_move, skips), (10, 5, vec![("deadline_unreachable", 5)]));
    let new = begin().plus(Duration::from_secs(3_600));
    let plan = stage.ask(json!({"action": "plan", "selection": both, "deliver_by": new})).plan.unwrap();
    assert_eq!((plan.would_move, plan.with_new_deadline, plan.deadline_unreachable), (10, 5, 5));

    let id = run_id(&stage.ask(order(both, json!({"deliver_by": new, "canary_size": 2}))));
    let run = stage.until_over(&id);
    stage.until("the last call", Duration::from_secs(600), |world| world.count(State::Delivered) == 10);
    assert_eq!((run.phase, run.counters.moved), (Phase::Done, 10));
    assert_eq!(stage.there().len(), 0);
    for row in stage.ledger.rows() {
        let was = row.redrives[0].deadline_was;
        let late = row.attempts[0].reason != Reason::Rejected;
        assert_eq!((was, row.deliver_by == new), (late.then_some(passed), late), "{row:?}");
    }
}

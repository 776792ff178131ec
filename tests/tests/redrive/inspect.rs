//! Inspect shows the dead letters, and changes nothing but their receive counts.

use std::time::Duration;

use punctual_core::dead_letter::DeadLetter;
use punctual_core::delivery::Delivery;
use punctual_core::message::Message;
use punctual_core::ports::DeadLetters as _;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_inspect::{Inspect, Response};
use punctual_tests::load::clock::Invocation;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::world::{Dead, Stage, begin, dead};

/// Six letters: two that wait, one past its deadline, one over, one that the queue moved here, one that is none.
fn six() -> Stage {
    let mut stage = Stage::quiet();
    let world = stage.world.clone();
    stage.wait(async move {
        world.destination("crm", json!({})).await;
        for n in 0..2 {
            world.put(n, dead("crm", Reason::Rejected)).await;
        }
        world.put(2, Dead { deliver_by: begin().plus(Duration::from_secs(5)), ..dead("crm", Reason::KeyConflict) }).await;
        world.put(3, dead("crm", Reason::AttemptsExhausted)).await;
        let over = world.ledger.rows().into_iter().find(|row| row.reason == Some(Reason::AttemptsExhausted)).unwrap();
        world.ledger.put_row(Delivery { state: State::Delivered, ..over });
        let moved = world.put_unsent(4, dead("crm", Reason::Rejected)).await;
        world.letters.put_bare(&Message::of(&moved).body()).unwrap();
        world.letters.send(&DeadLetter::unreadable("?", Reason::MalformedMessage)).await.unwrap();
    });
    stage.pass(Duration::from_secs(30));
    stage
}

fn ask(stage: &mut Stage, event: Value) -> Response {
    let world = stage.world.clone();
    stage.wait(async move {
        let inspect = Inspect {
            ledger: &world.ledger,
            control: &world.control,
            letters: &world.letters,
            time: &Invocation::begin(&world.clock, Duration::from_secs(60)),
            margin: Duration::from_secs(10),
            tick: Duration::from_secs(60),
        };
        inspect.handle(&RawValue::from_string(event.to_string()).unwrap()).await.unwrap()
    })
}

#[test]
fn each_letter_says_whose_it_is_and_whether_its_deadline_can_be_kept() {
    let mut stage = six();
    let view = ask(&mut stage, json!({"action": "dead_letters"})).dead_letters.unwrap();
    let told: Vec<_> = view.letters.iter().map(|one| (one.sweep.as_str(), one.deadline_reachable)).collect();
    let expected = [
        ("leave: unselected", Some(true)),
        ("leave: unselected", Some(true)),
        ("leave: unselected", Some(false)),
        ("delete: suppressed", None),
        ("leave: broker_moved", None),
        ("leave: malformed", None),
    ];
    assert_eq!(told, expected);
    assert_eq!((view.seen, view.complete, view.reachable, view.hidden), (6, true, 2, 0));
    assert!(view.letters.iter().all(|one| one.age_seconds == 30));
    assert_eq!((view.letters[0].death, view.letters[4].death, view.letters[5].delivery_id.as_ref()), (Some(1), None, None));
    let reasons: Vec<(&str, u32)> = view.reasons.iter().map(|(reason, n)| (reason.as_str(), *n)).collect();
    let expected = [("attempts_exhausted", 1), ("key_conflict", 1), ("rejected", 2), ("unknown", 2)];
    assert_eq!(reasons, expected);
}

#[test]
fn looking_twice_changes_nothing_but_receive_counts() {
    let mut stage = six();
    let (rows, before) = (stage.ledger.rows(), stage.letters.there());
    for looks in 1..=2 {
        assert!(ask(&mut stage, json!({"action": "dead_letters"})).ok);
        let there = stage.letters.there();
        assert_eq!((there.len(), stage.letters.hidden(), stage.ledger.rows() == rows), (6, 0, true));
        for (now, was) in there.iter().zip(&before) {
            assert_eq!((now.receives, &now.body, &now.attributes, &now.id), (looks, &was.body, &was.attributes, &was.id));
        }
    }
    let some = ask(&mut stage, json!({"action": "dead_letters", "limit": 4}));
    let view = some.dead_letters.unwrap();
    assert_eq!((view.seen, view.complete, stage.letters.hidden()), (4, false, 0));
    assert!(some.text[0].starts_with("4 dead letters looked at; there may be more."), "{:?}", some.text);
}

#[test]
fn a_bad_question_receives_nothing() {
    let mut stage = six();
    for (event, code, field) in [
        (json!({"action": "dead_letters", "limit": 0}), "out_of_bounds", "limit"),
        (json!({"action": "dead_letters", "limit": 1_001}), "out_of_bounds", "limit"),
        (json!({"action": "dead_letters", "reason": "rejected"}), "unknown_field", "reason"),
    ] {
        let answer = ask(&mut stage, event);
        assert_eq!((answer.ok, answer.errors[0].code, answer.errors[0].field.as_str()), (false, code, field));
    }
    assert_eq!(stage.letters.receives(), 0);
}

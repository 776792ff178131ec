//! What redrive refuses, and how it says so.

use std::time::Duration;

use punctual_core::delivery::{Delivery, Hold};
use punctual_core::reason::Reason;
use serde_json::{Value, json};

use crate::world::{Stage, begin, dead, errors, order, run_id};

fn some_dead(more: Value) -> Stage {
    let mut stage = Stage::quiet();
    let world = stage.world.clone();
    stage.wait(async move {
        world.destination("crm", more).await;
        for n in 0..10 {
            world.put(n, dead("crm", Reason::Rejected)).await;
        }
    });
    stage
}

fn crm() -> Value {
    json!({"destination_ids": ["crm"]})
}

/// An order with a field changed, or without it.
fn but(field: &str, value: Value) -> Value {
    let mut order = order(crm(), json!({"canary_size": 2}));
    let order_fields = order.as_object_mut().unwrap();
    if value.is_null() {
        order_fields.remove(field)
    } else {
        order_fields.insert(field.to_owned(), value)
    };
    order
}

#[test]
fn a_bad_start_is_refused_with_its_field_and_starts_nothing() {
    let mut stage = some_dead(json!({}));
    let cases: Vec<(Value, &str, &str)> = vec![
        (but("owner", Value::Null), "missing_field", "owner"),
        (but("why", Value::Null), "missing_field", "why"),
        (but("evidence", Value::Null), "missing_field", "evidence"),
        (but("selection", Value::Null), "missing_field", "selection"),
        (but("max_count", Value::Null), "missing_field", "max_count"),
        (but("rate_per_second", Value::Null), "missing_field", "rate_per_second"),
        (but("canary_size", Value::Null), "missing_field", "canary_size"),
        (but("abort_threshold_percent", Value::Null), "missing_field", "abort_threshold_percent"),
        (but("owner", json!("  ")), "out_of_bounds", "owner"),
        (but("evidence", json!("")), "out_of_bounds", "evidence"),
        (but("rate_per_second", json!(0)), "out_of_bounds", "rate_per_second"),
        (but("rate_per_second", json!(11)), "out_of_bounds", "rate_per_second"),
        (but("rate_per_second", json!(-1)), "invalid_field", "rate_per_second"),
        (but("canary_size", json!(10_001)), "out_of_bounds", "canary_size"),
        (but("abort_threshold_percent", json!(101)), "out_of_bounds", "abort_threshold_percent"),
        (but("attempts", json!(21)), "out_of_bounds", "attempts"),
        (but("deliver_by", json!(begin())), "past_deadline", "deliver_by"),
        (but("deliver_by", json!("tomorrow")), "invalid_field", "deliver_by"),
        (but("surplus", json!(1)), "unknown_field", "surplus"),
        (but("selection", json!({})), "empty_selection", "selection"),
        (but("selection", json!([])), "invalid_field", "selection"),
        (but("selection", json!({"reason": "rejected"})), "unknown_field", "selection.reason"),
        (but("selection", json!({"reasons": ["rejcted"]})), "invalid_field", "selection.reasons[0]"),
        (but("selection", json!({"reasons": []})), "out_of_bounds", "selection.reasons"),
        (but("selection", json!({"delivery_ids": ["a b"]})), "invalid_field", "selection.delivery_ids[0]"),
        (but("selection", json!({"destination_ids": ["crm", "crm"]})), "duplicate", "selection.destination_ids"),
        (but("selection", json!({"destination_ids": ["none"]})), "unknown_destination", "selection.destination_ids[0]"),
        (
            but("selection", json!({"died_from": "2027-01-04T05:00:00Z", "died_until": "2027-01-04T04:00:00Z"})),
            "out_of_bounds",
            "selection.died_until",
        ),
        (but("selection", json!({"reasons": ["gone"]})), "matches_nothing", "selection"),
        (but("selection", json!({"delivery_ids": ["dlv_none"]})), "matches_nothing", "selection"),
    ];
    for (event, code, field) in cases {
        let answer = stage.ask(event.clone());
        assert_eq!(errors(&answer), [(code, field)], "{event}");
        assert!(answer.text[0].starts_with(&format!("Nothing was done. {field}: ")), "{:?}", answer.text);
        assert!(answer.run.is_none());
    }
    let cap = stage.ask(but("rate_per_second", json!(11)));
    assert_eq!(cap.errors[0].message, "1 to 10, what a redrive may take of destination crm; got 11");
    assert_eq!(stage.slices.planned(), []);
    assert!(stage.ask(json!({"action": "status"})).runs.is_some_and(|runs| runs.is_empty()));
    assert!(stage.ledger.rows().iter().all(|row| row.version == 7));
}

#[test]
fn a_run_that_nobody_started_is_unknown_and_an_action_too() {
    let mut stage = some_dead(json!({}));
    let by = json!({"by": "ann", "why": "test", "evidence": "INC-8"});
    for (action, more) in [("status", json!({})), ("abort", by.clone()), ("resume", by), ("slice", json!({"slice": 1}))] {
        let mut event = json!({"action": action, "run_id": "run_20270104-030000-none"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(errors(&stage.ask(event)), [("unknown_run", "run_id")], "{action}");
    }
    for (event, code, field) in [
        (json!({"action": "purge"}), "unknown_action", "action"),
        (json!({"run_id": "run_a"}), "invalid_action", "action"),
        (json!({"action": "status", "run_id": "a b"}), "invalid_field", "run_id"),
        (json!({"action": "abort", "run_id": "run_a", "by": "", "why": "x"}), "out_of_bounds", "by"),
        (json!({"action": "freeze", "by": "ann"}), "missing_field", "why"),
        (json!({"action": "abort", "run_id": "run_a", "by": "ann", "why": "x", "evidence": " "}), "out_of_bounds", "evidence"),
        (json!({"action": "unfreeze", "by": "ann", "why": "x", "evidence": "e".repeat(257)}), "out_of_bounds", "evidence"),
        (json!({"action": "freeze", "by": "ann", "why": "x", "evidence": 7}), "invalid_field", "evidence"),
        (json!({"action": "slice", "run_id": "run_a"}), "missing_field", "slice"),
        (json!({"action": "plan"}), "missing_field", "selection"),
        (
            json!({"action": "plan", "selection": {"reasons": ["rejected"]}, "rate_per_second": 0}),
            "out_of_bounds",
            "rate_per_second",
        ),
        (
            json!({"action": "plan", "selection": {"reasons": ["rejected"]}, "rate_per_second": 11}),
            "out_of_bounds",
            "rate_per_second",
        ),
    ] {
        assert_eq!(errors(&stage.ask(event.clone())), [(code, field)], "{event}");
    }
}

#[test]
fn a_start_that_would_move_nothing_says_what_stands_in_the_way() {
    let mut stage = some_dead(json!({}));
    let held = |row: Delivery| Delivery { hold: Some(Hold { since: begin(), by: "bob".into(), why: "asked".into() }), ..row };
    stage.ledger.rows().into_iter().for_each(|row| stage.ledger.put_row(held(row)));
    let answer = stage.ask(order(crm(), json!({"canary_size": 2})));
    assert_eq!(errors(&answer), [("nothing_to_move", "selection")]);
    assert!(answer.errors[0].message.ends_with("10 match: held 10"), "{:?}", answer.errors);

    // Some can be moved: a row whose payload is erased cannot.
    let rows = stage.ledger.rows();
    stage.ledger.put_row(Delivery { hold: None, ..rows[0].clone() });
    stage.ledger.put_row(Delivery { hold: None, ..rows[1].clone() });
    stage.ledger.erase_payloads(&rows[1].id);
    let plan = stage.ask(json!({"action": "plan", "selection": crm()})).plan.unwrap();
    let skips: Vec<_> = plan.would_skip.iter().map(|(why, n)| (why.code(), *n)).collect();
    assert_eq!((plan.would_move, skips), (1, vec![("held", 8), ("no_payload", 1)]));
}

#[test]
fn two_active_runs_never_share_a_row() {
    let mut stage = some_dead(json!({}));
    let first = run_id(&stage.ask(order(crm(), json!({"canary_size": 2}))));
    let second = stage.ask(order(json!({"reasons": ["rejected"]}), json!({"canary_size": 2})));
    assert_eq!(errors(&second), [("overlapping_run", "selection")]);
    assert!(second.errors[0].message.contains(&first), "{:?}", second.errors);
    let plan = stage.ask(json!({"action": "plan", "selection": {"reasons": ["rejected"]}})).plan.unwrap();
    assert_eq!(plan.overlapping.iter().map(|id| id.to_string()).collect::<Vec<_>>(), std::slice::from_ref(&first));
    let end = json!({"action": "abort", "run_id": first, "by": "ann", "why": "the other one", "evidence": "INC-8"});
    assert!(stage.ask(end).ok);
    stage.pass(Duration::from_secs(2));
    assert!(stage.ask(order(json!({"reasons": ["rejected"]}), json!({"canary_size": 2}))).ok);
}

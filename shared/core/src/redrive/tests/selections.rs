//! Which rows a selection takes, and whether two selections can meet.

use proptest::option::of;
use proptest::prelude::*;

use super::*;
use crate::ports::EndedEntry;

fn selection(json: &str) -> Selection {
    serde_json::from_str(json).expect("a selection")
}

fn entry(row: &Delivery) -> EndedEntry {
    EndedEntry {
        id: row.id.clone(),
        state: row.state,
        deliver_by: row.deliver_by,
        reason: row.reason,
        death: row.death,
        dlq_sent: row.dlq_sent,
        destination: row.destination.clone(),
    }
}

#[test]
fn each_criterion_takes_what_it_says() {
    // The row died at 09:20 of `rejected`, goes to crm, and could start until 09:59.
    for (json, minute, taken) in [
        (r#"{"delivery_ids":["dlv_2","dlv_1"]}"#, 30, true),
        (r#"{"delivery_ids":["dlv_2"]}"#, 30, false),
        (r#"{"reasons":["gone","rejected"]}"#, 30, true),
        (r#"{"reasons":["gone"]}"#, 30, false),
        (r#"{"destination_ids":["crm"]}"#, 30, true),
        (r#"{"destination_ids":["erp"]}"#, 30, false),
        (r#"{"died_from":"2026-12-01T09:20:00.000Z"}"#, 30, true),
        (r#"{"died_from":"2026-12-01T09:20:00.001Z"}"#, 30, false),
        (r#"{"died_until":"2026-12-01T09:20:00.001Z"}"#, 30, true),
        (r#"{"died_until":"2026-12-01T09:20:00.000Z"}"#, 30, false),
        (r#"{"deadline_reachable":true}"#, 59, true),
        (r#"{"deadline_reachable":true}"#, 60, false),
        (r#"{"deadline_reachable":false}"#, 60, true),
        (r#"{"deadline_reachable":false}"#, 59, false),
        (r#"{"reasons":["rejected"],"destination_ids":["erp"]}"#, 30, false),
        (r#"{"reasons":["rejected"],"destination_ids":["crm"],"delivery_ids":["dlv_1"],"deadline_reachable":true}"#, 30, true),
    ] {
        let selection = selection(json);
        assert_eq!(selection.matches(&dead(1), now(minute), MARGIN), taken, "{json}");
        let timed = selection.died_from.is_some() || selection.died_until.is_some();
        assert_eq!(selection.may_match(&entry(&dead(1)), now(minute), MARGIN), taken || timed, "{json}");
        assert_eq!(selection.problems("selection"), [], "{json}");
    }
}

#[test]
fn only_dead_and_expired_rows_are_taken() {
    for state in State::ALL {
        let row = Delivery { state, ..dead(1) };
        assert_eq!(selection(r#"{"reasons":["rejected"]}"#).matches(&row, now(30), MARGIN), state.needs_operator(), "{state}");
    }
}

#[test]
fn malformed_selections_are_named() {
    let many: Vec<String> = (0..101).map(|n| format!("\"dlv_{n}\"")).collect();
    let many = format!(r#"{{"delivery_ids":[{}]}}"#, many.join(","));
    for (json, code, field) in [
        ("{}", "empty_selection", "selection"),
        (r#"{"reasons":[]}"#, "out_of_bounds", "selection.reasons"),
        (&many, "out_of_bounds", "selection.delivery_ids"),
        (r#"{"delivery_ids":["a","b","a"]}"#, "duplicate", "selection.delivery_ids"),
        (
            r#"{"died_from":"2026-12-01T09:20:00.000Z","died_until":"2026-12-01T09:20:00.000Z"}"#,
            "out_of_bounds",
            "selection.died_until",
        ),
    ] {
        let problems: Vec<(&str, String)> =
            selection(json).problems("selection").into_iter().map(|problem| (problem.code, problem.field)).collect();
        assert_eq!(problems, [(code, field.to_owned())], "{json}");
    }
    for json in
        [r#"{"reason":["gone"]}"#, r#"{"reasons":["broken"]}"#, r#"{"died_from":"yesterday"}"#, r#"{"delivery_ids":["a b"]}"#]
    {
        assert!(serde_json::from_str::<Selection>(json).is_err(), "{json}");
    }
}

fn selections() -> impl Strategy<Value = Selection> {
    let ids = proptest::sample::subsequence((1..4).map(id).collect::<Vec<_>>(), 1..4);
    let reasons = proptest::sample::subsequence(vec![Reason::Rejected, Reason::Gone, Reason::AttemptsExhausted], 1..3);
    let destinations = proptest::sample::subsequence(vec![to("crm"), to("erp"), to("pos")], 1..3);
    let window = (of(15_i64..25), of(15_i64..25));
    (of(ids), of(reasons), of(destinations), window, of(any::<bool>())).prop_map(
        |(delivery_ids, reasons, destination_ids, (from, until), deadline_reachable)| Selection {
            delivery_ids,
            reasons,
            destination_ids,
            died_from: from.map(at),
            died_until: until.map(at),
            deadline_reachable,
        },
    )
}

fn rows() -> impl Strategy<Value = Delivery> {
    let reasons = proptest::sample::select(vec![Reason::Rejected, Reason::Gone, Reason::AttemptsExhausted]);
    let destinations = proptest::sample::select(vec!["crm", "erp", "pos"]);
    (1_u32..4, reasons, destinations, 15_i64..25).prop_map(|(n, reason, destination, died)| {
        let mut row = Delivery { reason: Some(reason), destination: to(destination), ..dead(n) };
        row.history.iter_mut().filter(|line| line.at == at(20)).for_each(|line| line.at = at(died));
        row
    })
}

proptest! {
    #[test]
    fn two_that_take_one_row_overlap(a in selections(), b in selections(), row in rows(), first in 30_i64..90, second in 30_i64..90) {
        if a.matches(&row, now(first), MARGIN) && b.matches(&row, now(second), MARGIN) {
            prop_assert!(a.overlaps(&b) && b.overlaps(&a));
        }
        prop_assert!(a.overlaps(&a) || a.died_from.zip(a.died_until).is_some_and(|(from, until)| from >= until));
    }

    #[test]
    fn an_entry_never_hides_a_row_that_is_taken(selection in selections(), row in rows(), minute in 30_i64..90) {
        if selection.matches(&row, now(minute), MARGIN) {
            prop_assert!(selection.may_match(&entry(&row), now(minute), MARGIN));
        }
    }

    #[test]
    fn selections_round_trip(selection in selections()) {
        let text = serde_json::to_string(&selection).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<Selection>(&text).expect("a selection"), selection);
    }
}

#[test]
fn selections_that_cannot_meet_do_not_overlap() {
    for (a, b) in [
        (r#"{"reasons":["gone"]}"#, r#"{"reasons":["rejected"]}"#),
        (r#"{"destination_ids":["crm"],"reasons":["gone"]}"#, r#"{"destination_ids":["erp"],"reasons":["gone"]}"#),
        (r#"{"delivery_ids":["a"]}"#, r#"{"delivery_ids":["b"]}"#),
        (r#"{"died_until":"2026-12-01T09:20:00.000Z"}"#, r#"{"died_from":"2026-12-01T09:20:00.000Z"}"#),
    ] {
        assert!(!selection(a).overlaps(&selection(b)) && !selection(b).overlaps(&selection(a)), "{a} {b}");
    }
    let (yes, no) = (selection(r#"{"deadline_reachable":true}"#), selection(r#"{"deadline_reachable":false}"#));
    assert!(yes.overlaps(&no), "what is reachable now is not later");
}

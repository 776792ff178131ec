//! What `make bench` claims of cost is true of every build: the same code, for one delivery of each path.
#![allow(clippy::expect_used, reason = "a test reports by panicking")]

use punctual_tests::bench::bytes::delivered_at;
use punctual_tests::bench::cost::{Path, first_try};
use punctual_tests::bench::{LOOK_UNITS_GOAL, ROW_BYTES_GOAL, SCHEDULE_WRITE_UNITS_GOAL, WRITE_UNITS_GOAL, look, producer};

fn units_of(bill: &punctual_tests::bench::cost::Bill, step: &str) -> f64 {
    bill.lines.iter().filter(|line| line.table == "ledger" && line.step == step).map(|line| line.usage.write_units).sum()
}

#[tokio::test]
async fn a_first_try_delivery_stays_within_its_write_units_and_bytes_on_each_path() {
    let goal_bytes = |bytes: usize| f64::from(u32::try_from(bytes).expect("a small number")) <= ROW_BYTES_GOAL;
    for path in [Path::Schedule, Path::Dispatch] {
        let bill = first_try(path, 1).await.expect("a delivery");
        let units = bill.ledger_write_units();
        assert!(units <= WRITE_UNITS_GOAL, "{path}: {units} write units: {:#?}", bill.lines);
        // A receiver that rejects nothing is watched in the read that deliver makes anyway, and costs no write: the one is the
        // booking of its rate.
        let control = |write: bool| {
            let of_deliver = bill.lines.iter().filter(|line| line.table == "control" && line.function == "deliver");
            of_deliver.map(|line| if write { line.usage.write_units } else { line.usage.read_units }).sum::<f64>()
        };
        assert_eq!(control(true), 1.0, "{path}: {:#?}", bill.lines);
        // Destination, switches, how it is reached; a row that is not there costs half a unit as well.
        assert_eq!(control(false), 4.0, "{path}: {:#?}", bill.lines);
        assert!(goal_bytes(bill.row_bytes), "{path}: {} bytes", bill.row_bytes);
        // The design's own breakdown; a step that nobody bills is one that nobody measured.
        let steps = ["payload", "create", "claim", "queued", "delivering", "outcome"];
        assert_eq!(steps.map(|step| units_of(&bill, step)), [1.0, 3.0, 2.0, 1.0, 1.0, 2.0], "{path}");
        assert_eq!(steps.map(|step| units_of(&bill, step)).iter().sum::<f64>(), units, "{path}: a step is not named");
    }
    for migrated in [false, true] {
        let bytes = delivered_at(1, migrated).expect("a life");
        assert!(goal_bytes(bytes.at_its_end) && goal_bytes(bytes.at_most), "migrated: {migrated}, {bytes:?}");
    }
}

#[tokio::test]
async fn storing_a_reminder_by_rule_stays_within_its_write_units() {
    let units = producer::write_units(25).await.expect("a file");
    assert!(units > 0.0 && units <= SCHEDULE_WRITE_UNITS_GOAL, "{units}");
}

#[tokio::test]
async fn a_full_batch_shares_its_requests() {
    let single = first_try(Path::Dispatch, 1).await.expect("a delivery");
    let full = first_try(Path::Dispatch, 10).await.expect("ten deliveries");
    assert_eq!(full.ledger_write_units(), single.ledger_write_units(), "a batch changes no row's cost");
    // Dispatch keeps no place here: what is left is one booking for each batch.
    let control = [&single, &full].map(punctual_tests::bench::cost::Bill::control_write_units);
    assert_eq!(control, [1.0, 0.1], "one booking for a batch");
    assert_eq!([&single, &full].map(punctual_tests::bench::cost::Bill::heartbeat_write_units), [1.0; 2], "one for a run");
    assert_eq!((single.sqs_calls(), full.sqs_calls()), (3.0, 0.3), "send, receive, delete: each once per batch");
    assert!(full.dynamodb_calls() < single.dynamodb_calls(), "{:?} {:?}", full.dynamodb_calls, single.dynamodb_calls);
}

/// What a look at the stage costs goes by what falls due within a day, however many rows there are besides.
#[tokio::test]
async fn a_look_costs_what_falls_due_and_nothing_else() {
    let near = look::measure(2_000, 0).await.expect("a look");
    let both = look::measure(2_000, 2_000).await.expect("a look");
    assert_eq!([&near, &both].map(|look| (look.figures.entries_read, look.figures.truncated)), [(2_000, 0); 2]);
    assert_eq!(both.read_units, near.read_units);
    assert!(near.read_units * 1_000.0 / 2_000.0 <= LOOK_UNITS_GOAL, "{} read units", near.read_units);
    assert_eq!(near.figures.due, 1_000);
}

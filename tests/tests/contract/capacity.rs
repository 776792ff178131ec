//! What one delivery costs: consumed capacity as dynoxide counts it, and the bytes of the row at each step.

use std::sync::Arc;
use std::time::Duration;

use punctual_adapters::dynamodb::row::row_bytes;
use punctual_adapters::dynamodb::{DynamoLedger, Meter};
use punctual_core::delivery::{Delivery, Payload};
use punctual_core::destination::Mode;
use punctual_core::id::{Correlation, DeliveryId, DestinationId, IdempotencyKey, MessageId, Owner, Reference, RunId};
use punctual_core::outcome::{Called, Class};
use punctual_core::ports::{Acquired, Created, Ledger as _, Written};
use punctual_core::reason::Reason;
use punctual_core::transition::{self, Grant, Stamp};

use punctual_core::acquire::{Acquire, Claimer};
use punctual_core::admission::{Admitted, held_until};
use punctual_core::clock::Now;

use crate::rows::{MARGIN, at, called, claimer, content, parts, row, stamp, terms};
use crate::worlds;

/// The most write units of a first-try delivery at a 512-byte payload.
const BUDGET: f64 = 10.0;
/// A write of up to so many bytes is one unit.
const UNIT: usize = 1_024;

fn longest(length: usize, start: &str) -> String {
    format!("{start}{}", "x".repeat(length - start.len()))
}

fn longest_stamp(seconds: i64) -> Stamp {
    let by = Correlation::new(longest(Correlation::MAX, "c")).expect("a correlation id");
    Stamp { by, ..stamp(seconds, "c") }
}

fn longest_claimer(until: i64) -> Claimer {
    let owner = Owner::new(longest(Owner::MAX, "o")).expect("an owner");
    Claimer { owner, by: longest_stamp(0).by, ..claimer("o", until) }
}

/// As a rule with the longest name and notices is noted.
fn longest_rule() -> String {
    format!("{}@99999 2027-04-28 -P9Y12M500W160D 01:30 by -P9Y12M500W160D 17:00, zones 2026a", longest(32, "c"))
}

/// A row with every field at its longest. The key is another than the id for a migrated one only.
fn longest_row(migrated: bool) -> Delivery {
    let mut row = row(1);
    row.id = DeliveryId::new(longest(DeliveryId::MAX, if migrated { "old_" } else { "dlv_" })).expect("an id");
    row.idempotency_key = IdempotencyKey::from(&row.id);
    if migrated {
        row.idempotency_key = IdempotencyKey::new(longest(IdempotencyKey::MAX, "key_")).expect("a key");
    }
    row.reference = Reference::new(longest(Reference::MAX, "r")).expect("a reference");
    row.destination = DestinationId::new(longest(DestinationId::MAX, "d")).expect("a destination");
    row.content = content("x");
    row.shard = 63;
    row.history[0].by = longest_stamp(0).by;
    row.rule = Some(longest_rule());
    row
}

fn longest_payload() -> Payload {
    let mut parts = parts(1);
    for (part, length) in
        [(&mut parts.tenant, 32), (&mut parts.subscriber, 64), (&mut parts.renewal_period, 32), (&mut parts.reminder_kind, 32)]
    {
        *part = longest(length, "p");
    }
    Payload { body: vec![b'x'; 512], parts, deliver_after: at(0), deliver_by: at(7_200) }
}

fn longest_call() -> Called {
    Called { took: Duration::from_millis(19_999), key_ids: "2026-key-a,2026-key-b,2026-key-c".into(), ..called(3, 200) }
}

struct Bill {
    meter: Arc<Meter>,
    total: f64,
    lines: Vec<String>,
}

impl Bill {
    /// Notes what the step just made has cost.
    fn step(&mut self, name: &str, row: Option<&Delivery>) {
        for (call, usage) in self.meter.take() {
            let indexes: Vec<String> = usage.index_units.iter().map(|(index, units)| format!("{index} {units}")).collect();
            let bytes = row.map_or("-".to_owned(), |row| row_bytes(row).to_string());
            self.total += usage.write_units;
            self.lines.push(format!("{name:<12}{call:<16}{:>6}  {bytes:>6}  {}", usage.write_units, indexes.join(", ")));
        }
        if let Some(row) = row {
            assert!(row_bytes(row) <= UNIT, "{name}: {} bytes", row_bytes(row));
        }
    }
}

/// A delivery that succeeds at the first try, from creation to outcome; `slot` is its place in the line, in seconds.
async fn first_try(case: &str, migrated: bool, slot: i64) -> f64 {
    let world = worlds::dynoxide(case).await;
    let meter = Arc::new(Meter::default());
    let ledger = DynamoLedger::new(world.client.clone(), &world.ledger_table).with_meter(meter.clone());
    let mut bill = Bill { meter, total: 0.0, lines: Vec::new() };
    let mut row = longest_row(migrated);

    assert_eq!(ledger.create(&row, &longest_payload()).await.unwrap(), Created::New);
    bill.step("created", Some(&row));
    let claim = |seconds, until| (Now::exactly(at(seconds)), longest_claimer(until));
    let (now, claimer) = claim(1, 60);
    let line = Admitted { id: row.id.clone(), due: at(0), slot: at(slot), deliver_by: row.deliver_by };
    let lease = Duration::from_secs(59);
    let claimer = Claimer { until: held_until(&line, now, lease, Duration::from_secs(60), MARGIN), ..claimer };
    let acquire = Acquire::for_dispatch(row.id.clone(), claimer, Mode::Live, at(150), now, MARGIN);
    let Acquired::Won(claimed) = ledger.acquire(&acquire).await.unwrap() else { panic!("won") };
    row = *claimed;
    assert_eq!(row.held_until, Some(at(slot.max(60))));
    bill.step("claimed", Some(&row));
    let message = MessageId::new("m".repeat(36)).expect("a message id");
    let queued = transition::queued(&row, message, &longest_stamp(2)).expect("queued");
    assert_eq!(ledger.write(&queued).await.unwrap(), Written::Done);
    row = queued.after;
    bill.step("queued", Some(&row));
    let (now, claimer) = claim(3, 60);
    let acquire = Acquire::for_deliver(row.id.clone(), 1, claimer, now, MARGIN);
    let Acquired::Won(claimed) = ledger.acquire(&acquire).await.unwrap() else { panic!("won") };
    row = *claimed;
    bill.step("delivering", Some(&row));
    let outcome =
        transition::finished(&row, &longest_call(), Class::Delivered, &terms(), 0.5, &longest_stamp(4)).expect("finished");
    assert_eq!(ledger.write(&outcome).await.unwrap(), Written::Done);
    row = outcome.after;
    bill.step("delivered", Some(&row));

    println!("first-try delivery, migrated: {migrated}\n{:<12}{:<16}{:>6}  {:>6}  indexes", "step", "call", "units", "bytes");
    println!("{}\n{:<28}{:>6}", bill.lines.join("\n"), "total", bill.total);
    bill.total
}

#[tokio::test]
async fn a_first_try_delivery_stays_within_ten_write_units() {
    let total = first_try("capacity", false, 0).await;
    assert!(total <= BUDGET, "{total} write units");
}

/// A place in the line is written by the claim that is made anyway.
#[tokio::test]
async fn a_hold_until_a_slot_costs_nothing() {
    let (plain, spread) = (first_try("capacity_now", false, 0).await, first_try("capacity_spread", false, 140).await);
    assert!((spread - plain).abs() < f64::EPSILON, "{spread} instead of {plain} write units");
}

/// What a write costs in all, and in the index of what a run moved.
async fn cost(ledger: &DynamoLedger, meter: &Meter, write: &transition::Transition) -> (f64, f64) {
    assert_eq!(ledger.write(write).await.unwrap(), Written::Done);
    let usage = meter.take().into_values().fold((0.0, 0.0), |(all, run), usage| {
        (all + usage.write_units, run + usage.index_units.get("run").copied().unwrap_or_default())
    });
    println!("{:<12}{:>6}{:>6}  {} bytes", write.after.state.to_string(), usage.0, usage.1, row_bytes(&write.after));
    usage
}

/// A row that was redriven pays one unit in the index of its run whenever its state or its reason changes; any other row
/// pays nothing there.
#[tokio::test]
async fn only_redriven_rows_pay_for_the_index_of_runs() {
    let world = worlds::dynoxide("capacity_run").await;
    let meter = Arc::new(Meter::default());
    let ledger = DynamoLedger::new(world.client.clone(), &world.ledger_table).with_meter(meter.clone());
    ledger.create(&row(1), &longest_payload()).await.unwrap();
    let dead = transition::dead_without_attempt(&row(1), Reason::UnknownDestination, &stamp(1, "d")).expect("dead");
    let sent = transition::dead_letter_sent(&dead.after, &stamp(2, "d")).expect("sent");
    meter.take();
    for write in [&dead, &sent] {
        let (_, run) = cost(&ledger, &meter, write).await;
        assert!(run.abs() < f64::EPSILON, "{} pays {run}", write.after.state);
    }
    let grant = Grant { owner: "ann".into(), attempts: 3, slot: at(10), deliver_by: None };
    let run = RunId::new("run_20261201-090000-7f3a").expect("a run id");
    let redriven = transition::redriven(&sent.after, &run, grant, MARGIN, &stamp(3, "r")).expect("redriven");
    let claimed = transition::dispatch_claimed(&redriven.after, claimer("d", 60), Mode::Live, &stamp(4, "d")).expect("claimed");
    let message = MessageId::new("m".repeat(36)).expect("a message id");
    let queued = transition::queued(&claimed.after, message, &stamp(5, "d")).expect("queued");
    let delivering = transition::deliver_claimed(&queued.after, claimer("c", 60), &stamp(10, "c")).expect("claimed");
    let done = transition::finished(&delivering.after, &called(10, 200), Class::Delivered, &terms(), 0.5, &stamp(11, "c"));
    let done = done.expect("finished");
    let mut total = 0.0;
    for write in [&redriven, &claimed, &queued, &delivering, &done] {
        let (all, run) = cost(&ledger, &meter, write).await;
        assert!((run - 1.0).abs() < f64::EPSILON, "{} pays {run}", write.after.state);
        total += all;
    }
    // Without the index: the row five times, wake on and off and its lease once, attention off.
    println!("redriven and delivered: {total} write units");
    assert!(total <= 14.0, "{total} write units");
}

/// Not within the budget: its creation is a transaction of three items, which costs twice.
#[tokio::test]
async fn a_migrated_delivery_pays_for_its_transaction_once() {
    let (plain, migrated) = (first_try("capacity_plain", false, 0).await, first_try("capacity_migrated", true, 0).await);
    println!("a migrated delivery costs {} write units more", migrated - plain);
    assert!(migrated - plain <= 8.0, "{migrated} after {plain}");
}

#[test]
fn a_retried_delivery_of_usual_length_stays_within_one_unit_for_two_attempts() {
    let row = row(1);
    let dispatched =
        transition::dispatch_claimed(&row, longest_claimer(60), Mode::Live, &longest_stamp(1)).expect("claimed").after;
    let message = MessageId::new("m".repeat(36)).expect("a message id");
    let queued = transition::queued(&dispatched, message, &longest_stamp(2)).expect("queued").after;
    let attempt = |row: &Delivery, class, seconds| {
        let claimed = transition::deliver_claimed(row, longest_claimer(60), &longest_stamp(seconds)).expect("claimed").after;
        transition::finished(&claimed, &called(seconds, 503), class, &terms(), 0.5, &longest_stamp(seconds))
            .expect("finished")
            .after
    };
    let deferred = attempt(&queued, crate::rows::retry(), 3);
    let delivered = attempt(&deferred, Class::Delivered, 40);
    println!("after one failure {} bytes, delivered then {} bytes", row_bytes(&deferred), row_bytes(&delivered));
    assert!(row_bytes(&deferred) <= UNIT && row_bytes(&delivered) <= UNIT);
}

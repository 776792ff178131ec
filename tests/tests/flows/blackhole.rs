//! A destination that never answers, beside a healthy one: the healthy one hardly notices, the other's rows wait in the
//! ledger with their attempts unspent, and drain when it answers again.

use std::fs;
use std::path::Path;
use std::time::Duration;

use punctual_adapters::clock::machine_time;
use punctual_adapters::telemetry::metric;
use punctual_core::breaker::{Open, Reach};
use punctual_core::delivery::Delivery;
use punctual_core::id::DeliveryId;
use punctual_core::ports::Control as _;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_tests::receiver::{Call, ReceiverOptions};
use punctual_tests::stack::StackOptions;
use serde_json::{Value, json};

use crate::world::{BOUND, MACHINE, World, ended, number, reminder, until};

/// So many batches are worked on at one time, of so many records each.
const CONSUMERS: usize = 4;
const BATCH: usize = 10;
/// How long a call to the black hole takes.
const TIMEOUT: Duration = Duration::from_secs(2);
const PROBE_AFTER: Duration = Duration::from_secs(4);
/// One healthy reminder falls due so often, and one for the black hole at every fifth of them.
const EVERY: Duration = Duration::from_millis(100);
const HEALTHY: usize = 250;
/// The healthy p99 may rise by less than this once the breaker is open.
const RISE: Duration = Duration::from_secs(2);

/// Reminders that fall due one after the other.
fn stream(destination: &str, from: Timestamp, count: usize, every: Duration) -> Vec<Value> {
    let due = |n: usize| from.plus(every * u32::try_from(n).unwrap());
    (0..count).map(|n| reminder(destination, n, due(n), from.plus(Duration::from_secs(3_600)))).collect()
}

/// How long after its due time each call arrived, in milliseconds, smallest first; `due` chooses.
fn delays(calls: &[Call], path: &str, due: impl Fn(i64) -> bool) -> Vec<i64> {
    let first = calls.iter().filter(|call| call.path.ends_with(path) && call.attempt == Some(1));
    let mut delays: Vec<i64> =
        first.filter_map(|call| call.due_ms.filter(|ms| due(*ms)).map(|ms| call.received_at_ms - ms)).collect();
    delays.sort_unstable();
    delays
}

/// The value that 99 of 100 do not exceed.
fn p99(sorted: &[i64]) -> i64 {
    let rank = (sorted.len() * 99).div_ceil(100);
    sorted[rank.saturating_sub(1)]
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

async fn reach(world: &World, destination: &str) -> Option<Reach> {
    let all = world.control.reaches().await.unwrap();
    all.into_iter().find(|(id, _)| id.as_str() == destination).map(|(_, reach)| reach)
}

/// How many openings deliver's metric has counted so far.
fn openings_counted(log: &Path) -> f64 {
    let log = fs::read_to_string(log).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["Function"] == "deliver").filter_map(|line| line[metric::BREAKER_OPENED].as_f64()).sum()
}

async fn until_open(world: &World, what: &str, wanted: impl Fn(&Open) -> bool) -> Open {
    until(what, BOUND, async || match reach(world, "hole").await {
        Some(Reach { open: Some(open), .. }) if wanted(&open) => Ok(open),
        other => Err(format!("{other:?}")),
    })
    .await
}

fn calls_of(world: &World, path: &str) -> usize {
    world.receiver.calls().iter().filter(|call| call.path.ends_with(path)).count()
}

fn attempts(rows: &[Delivery]) -> usize {
    rows.iter().map(|row| row.attempts.len()).sum()
}

/// The black hole's rows, once all of them wait in the ledger.
async fn waiting(world: &World, ids: &[DeliveryId]) -> Vec<Delivery> {
    let waits = |row: &Delivery| row.state == State::Scheduled && row.reason == Some(Reason::BreakerOpen);
    let rows = world.until_rows("the black hole's rows in the ledger", ids, waits).await;
    assert!(rows.iter().all(|row| row.wake_at.is_some() && row.death == 0), "something looks at them again: {rows:?}");
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_black_hole_delays_its_healthy_neighbour_by_less_than_two_seconds_and_keeps_its_own_attempts() {
    let _machine = MACHINE.write().await;
    let options = StackOptions::default().parameter("DeliverMaximumConcurrency", CONSUMERS);
    let world = World::start_with(options, ReceiverOptions::default()).await;
    for (id, path) in [("alone", "healthy/alone"), ("beside", "healthy/beside")] {
        world.destination(id, path, json!({})).await;
    }
    let breaker = json!({"opens_after": 3, "probe_after_ms": ms(PROBE_AFTER)});
    let hole =
        json!({"total_timeout_ms": ms(TIMEOUT), "breaker": breaker, "retry": {"base_ms": 100, "cap_ms": 1_000, "attempts": 20}});
    world.destination("hole", "hang", hole).await;

    // Without the black hole.
    let from = machine_time().plus(Duration::from_secs(2));
    let mut alone = Vec::new();
    for part in stream("alone", from, HEALTHY, EVERY).chunks(50) {
        alone.extend(world.schedule(part).await);
    }
    assert!(world.settled(&alone).await.iter().all(|row| row.state == State::Delivered && row.attempts.len() == 1));

    // Beside it.
    let from = machine_time().plus(Duration::from_secs(2));
    let (mut beside, mut lost) = (Vec::new(), Vec::new());
    let holes = stream("hole", from, HEALTHY / 5, EVERY * 5);
    for (part, hole) in stream("beside", from, HEALTHY, EVERY).chunks(50).zip(holes.chunks(10)) {
        let mut ids = world.schedule(&[part, hole].concat()).await;
        lost.extend(ids.split_off(part.len()));
        beside.extend(ids);
    }
    let open = until_open(&world, "an open breaker", |_| true).await;
    assert!(world.settled(&beside).await.iter().all(|row| row.state == State::Delivered && row.attempts.len() == 1));
    // What was still to come has probed as soon as a probe was allowed; now nothing is left in the queue.
    until("an empty queue", BOUND, async || match world.queued_messages().await {
        0 => Ok(()),
        left => Err(format!("{left} messages")),
    })
    .await;
    let rows = waiting(&world, &lost).await;
    let now = until_open(&world, "no probe under way", |open| open.probe.is_none()).await;
    assert_eq!(now.since, open.since, "it has been open all the time");
    let (probes, calls) = (usize::try_from(now.probes).unwrap(), calls_of(&world, "hang"));
    assert_eq!(attempts(&rows), calls, "each call is an attempt, and no attempt is none");
    assert!((3..3 + CONSUMERS * BATCH).contains(&(calls - probes)), "{calls} calls, {probes} of them probes");
    let untouched = rows.iter().filter(|row| row.attempts.is_empty()).count();
    assert!(untouched >= lost.len() - calls, "{untouched} rows without an attempt");

    let all = world.receiver.calls();
    let base = delays(&all, "alone", |_| true);
    let before = delays(&all, "beside", |due| due < open.since.as_millis());
    let after = delays(&all, "beside", |due| due >= open.since.as_millis());
    let figures = [p99(&base), p99(&before), p99(&after)];
    println!(
        "healthy time to first attempt, p99: {} ms of {} alone; beside a black hole {} ms of {} before its breaker opened, {} ms of {} after",
        figures[0],
        base.len(),
        figures[1],
        before.len(),
        figures[2],
        after.len()
    );
    println!(
        "black hole: {} due, {} calls until its breaker was open, {probes} probes, {untouched} rows without an attempt",
        lost.len(),
        calls - probes
    );
    assert_eq!((base.len(), before.len() + after.len()), (HEALTHY, HEALTHY));
    assert!(after.len() >= HEALTHY / 2, "most of them fell due after the breaker had opened");
    assert!(figures[2] - figures[0] < ms(RISE), "after: {figures:?}");
    assert!(figures[1] - figures[0] <= ms(TIMEOUT) + ms(RISE), "before: {figures:?}");
    until("the metric that pages", BOUND, async || match openings_counted(world.stack.log()) {
        1.0 => Ok(()),
        other => Err(format!("{other} openings counted")),
    })
    .await;
    // Whoever waits says why.
    let explained = world.console().explain(rows[0].id.as_str()).await.unwrap();
    let why = explained["deliveries"][0]["why"].as_str().unwrap();
    assert!(why.contains("does not answer: its breaker is open since") && why.contains("the next probe starts at"), "{why}");

    // It answers again: one probe finds it out, and the rest follows.
    world.receiver.heal(true);
    let released = world.console().dispatch().await.unwrap();
    assert_eq!(number(&released["published"]), 1, "{released}");
    let closed = until("a closed breaker", BOUND, async || match reach(&world, "hole").await {
        Some(reach) if reach.open.is_none() => Ok(reach),
        other => {
            // As the next tick would: a probe that its invocation had no time left for went back to the ledger.
            world.console().dispatch().await.unwrap();
            Err(format!("{other:?}"))
        }
    })
    .await;
    assert_eq!(closed.silent, 0);
    let rows = until("the black hole's backlog", BOUND, async || {
        world.console().dispatch().await.unwrap();
        let rows = world.rows(&lost).await;
        let left = rows.iter().filter(|row| !ended(row)).count();
        if left == 0 { Ok(rows) } else { Err(format!("{left} left")) }
    })
    .await;
    assert!(rows.iter().all(|row| row.state == State::Delivered), "{rows:?}");
    // What was called before is called once more; nothing else is.
    assert_eq!(attempts(&rows), calls + lost.len());
    assert_eq!(calls_of(&world, "hang"), attempts(&rows));
    let most = rows.iter().map(|row| row.attempts.len()).max().unwrap();
    println!("drained: {} rows, {} calls in all, at most {most} attempts for one", rows.len(), attempts(&rows));
    world.stop().await;
}

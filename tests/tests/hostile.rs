//! Every hostile receiver of the list: a call to it ends within its timeout, has a result that can be read, and holds
//! less memory than the bound. In a binary of its own, and in one test, because the allocator counts all that is alive.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use peak_alloc::PeakAlloc;
use punctual_core::attempt::Answer;
use punctual_core::delivery::Delivery;
use punctual_core::outcome::{CallResult, Failure};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_tests::environment::Environment;
use punctual_tests::hostile::{Hostile, PEAK_GOAL, Stage, client, measured};
use serde_json::json;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// A call's own bound.
const TOTAL: Duration = Duration::from_millis(600);
/// How much later it may end on a busy machine.
const SLACK: Duration = Duration::from_secs(10);
/// The most records in a batch.
const BATCH: usize = 10;

#[tokio::test]
async fn whatever_a_receiver_does_a_call_costs_its_timeout_and_its_bound_and_its_row_can_be_read() {
    let webhook = client().expect("a client");
    // What a first call sets up for good is not the receiver's doing.
    measured(&webhook, &[Hostile::TwoLengths], TOTAL).await.expect("a call");
    let mut worst = 0;
    for part in Hostile::ALL {
        let one = tokio::time::timeout(TOTAL + SLACK, measured(&webhook, &[part], TOTAL)).await;
        let (results, peak) = one.unwrap_or_else(|_| panic!("{part:?} outlived the call's timeout")).expect("measured");
        println!("{:<24}{peak:>9} bytes at most, {:?}", format!("{part:?}"), results);
        assert_eq!(results, [part.result()], "{part:?}");
        assert!(peak <= PEAK_GOAL, "{part:?} cost {peak} bytes");
        worst = worst.max(peak);
    }
    assert!(worst > 1_000, "nothing was measured");
    for parts in Hostile::ALL.chunks(BATCH).chain([&[Hostile::DEAREST; BATCH][..]]) {
        let all = tokio::time::timeout(TOTAL + SLACK, measured(&webhook, parts, TOTAL)).await;
        let (results, peak) = all.expect("a call outlived its timeout").expect("measured");
        println!("{} at the same time: {peak} bytes at most", parts.len());
        assert_eq!(results, parts.iter().map(|part| part.result()).collect::<Vec<_>>());
        assert!(peak <= PEAK_GOAL * parts.len(), "{} calls cost {peak} bytes", parts.len());
    }
    rows_can_be_read().await;
}

/// Through deliver itself: each row says what happened, and has its next step.
async fn rows_can_be_read() {
    let webhook = client().expect("a client");
    let now = Timestamp::from_millis(1_796_126_400_000);
    let environment = Environment::new(now);
    let mut rows = Vec::new();
    for (n, part) in (0..).zip(Hostile::ALL) {
        let (name, stage) = (format!("d{n}"), Stage::start(part).await.expect("a receiver"));
        let timeouts = json!({"connect_timeout_ms": 500, "total_timeout_ms": TOTAL.as_millis()});
        environment.register(&name, &stage.url(), timeouts).await.expect("registered");
        let id = environment.queued(n, &name, now, now.plus(Duration::from_secs(3_600))).await.expect("a row");
        rows.push((part, id, stage));
    }
    for batch in rows.chunks(BATCH) {
        let ids: Vec<_> = batch.iter().map(|(_, id, _)| id.clone()).collect();
        let tally = environment.deliver(&webhook, &ids, now, 1).await.expect("an invocation");
        assert_eq!((tally.called, tally.failed), (ids.len(), 0), "{tally:?}");
    }
    for (part, id, _) in &rows {
        readable(*part, &environment.row(id).await.expect("a row"));
    }
}

fn readable(part: Hostile, row: &Delivery) {
    let (state, reason, answer) = match part.result() {
        CallResult::Answered { status: 200, .. } => (State::Delivered, Reason::Accepted, Answer::Status(200)),
        CallResult::Answered { status: 503, .. } => (State::Deferred, Reason::ServerError, Answer::Status(503)),
        CallResult::Answered { status, .. } => (State::Dead, Reason::Rejected, Answer::Status(status)),
        CallResult::Failed(Failure::Timeout) => (State::Deferred, Reason::Timeout, Answer::Error),
        CallResult::Failed(Failure::Cut) => (State::Deferred, Reason::ConnectionCut, Answer::Error),
        other => panic!("{part:?} ends in {other:?}"),
    };
    let attempt = row.attempts.last().expect("an attempt");
    assert_eq!(row.attempts.len(), 1, "{part:?}");
    assert_eq!((row.state, attempt.reason, attempt.answer), (state, reason, answer), "{part:?}");
    assert_eq!(row.lease_owner, None, "{part:?}");
    let last = row.history.last().expect("a line").to_string();
    // A dead row has one line more: its dead letter was sent.
    if state != State::Dead {
        assert!(last.contains(&format!(" {state}#1 {reason} ")), "{part:?}: {last}");
    }
}

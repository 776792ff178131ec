//! Deliver itself on the memory adapters: what it has measured decides whether a last retry is planned, and never
//! whether a delivery is late.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use punctual_core::delivery::Delivery;
use punctual_core::id::{DeliveryId, DestinationId};
use punctual_core::measured::HALF_LIFE;
use punctual_core::outcome::CallResult;
use punctual_core::ports::{Request, Webhook};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_deliver::measure::Measure;
use punctual_tests::environment::{Environment, HandTime, MARGIN};
use serde_json::json;

const BASE: Duration = Duration::from_secs(1);
/// Far away enough for everything.
const LONG: Duration = Duration::from_secs(3_600);

fn noon() -> Timestamp {
    Timestamp::from_millis(1_796_126_400_000)
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn id(name: &str) -> DestinationId {
    DestinationId::new(name).expect("an id")
}

/// A receiver that answers 503 after so long.
struct Busy<'a> {
    time: &'a HandTime,
    after: Duration,
}

impl Webhook for Busy<'_> {
    async fn call(&self, _: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        if !may_start() {
            return CallResult::not_called();
        }
        self.time.advance(self.after);
        CallResult::Answered { status: 503, retry_after: None }
    }
}

async fn environment() -> Environment {
    let environment = Environment::new(noon());
    for name in ["slow", "other"] {
        let more = json!({"total_timeout_ms": 15_000, "retry": {"base_ms": BASE.as_millis(), "cap_ms": 60_000}});
        environment.register(name, "https://receiver.example/hook", more).await.expect("registered");
    }
    environment
}

/// One call of a new delivery, due now: its message is taken `late` after it was to be seen, and its call takes `took`.
async fn one_call(environment: &Environment, n: u32, to: &str, late: Duration, took: Duration, left: Duration) -> Delivery {
    let sent = environment.time.instant();
    let id = environment.queued(n, to, sent, sent.plus(late + took).plus(left)).await.expect("a row");
    environment.time.advance(late);
    again(environment, &id, took, sent, 1).await
}

async fn again(environment: &Environment, id: &DeliveryId, took: Duration, sent: Timestamp, receives: u32) -> Delivery {
    let busy = Busy { time: &environment.time, after: took };
    let tally = environment.deliver(&busy, std::slice::from_ref(id), sent, receives).await.expect("an invocation");
    assert_eq!((tally.called, tally.failed), (1, 0), "{tally:?}");
    environment.row(id).await.expect("the row")
}

fn ends(row: &Delivery) -> (State, Option<Reason>) {
    (row.state, row.reason)
}

const DEFERRED: (State, Option<Reason>) = (State::Deferred, Some(Reason::ServerError));
const NO_WINDOW: (State, Option<Reason>) = (State::Dead, Some(Reason::NoSafeRetryWindow));

#[tokio::test]
async fn a_slow_queue_and_a_slow_receiver_end_planning_earlier_to_the_millisecond() {
    // What is measured, seen from the end of the first call: its own latency, and the queue's delay, faded a little.
    let measured = {
        let environment = environment().await;
        one_call(&environment, 0, "slow", seconds(40), seconds(9), LONG).await;
        environment.measure.expected(&id("slow"), environment.time.instant())
    };
    assert!(measured > seconds(48) && measured <= seconds(49), "{measured:?}");
    let millisecond = Duration::from_millis(1);
    for (left, expected) in [(BASE + measured, DEFERRED), (BASE + measured - millisecond, NO_WINDOW)] {
        let environment = environment().await;
        let row = one_call(&environment, 1, "slow", seconds(40), seconds(9), left).await;
        let (started, ended) = (noon().plus(seconds(40)), noon().plus(seconds(49)));
        assert_eq!(ends(&row), expected, "{left:?} left");
        assert_eq!(row.attempts.iter().map(|a| (a.started_at, a.took)).collect::<Vec<_>>(), [(started, seconds(9))]);
        assert_eq!(environment.time.instant(), ended);
        if expected == DEFERRED {
            assert_eq!(row.next_attempt_at, ended.plus(BASE));
            assert!(row.next_attempt_at.plus(measured) <= row.deliver_by);
        } else {
            // An operator can still act: the deadline is further away than the hard margin.
            assert!(row.deliver_by > ended.plus(MARGIN));
            assert_eq!(environment.letters.letters().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_fresh_environment_and_another_destination_keep_the_floor() {
    let mut environment = environment().await;
    one_call(&environment, 0, "slow", seconds(60), seconds(9), LONG).await;
    let left = BASE + MARGIN;
    assert_eq!(ends(&one_call(&environment, 1, "slow", seconds(0), seconds(1), left).await), NO_WINDOW);
    assert_eq!(ends(&one_call(&environment, 2, "other", seconds(0), seconds(1), left).await), DEFERRED);
    let less = left - Duration::from_millis(1);
    assert_eq!(ends(&one_call(&environment, 3, "other", seconds(0), seconds(1), less).await), NO_WINDOW, "the floor");
    environment.measure = Measure::default();
    assert_eq!(ends(&one_call(&environment, 4, "slow", seconds(0), seconds(1), left).await), DEFERRED);
}

#[tokio::test]
async fn a_slow_receiver_alone_counts_beside_a_quick_queue() {
    let environment = environment().await;
    let left = BASE + MARGIN;
    // 15 s of latency alone are within the margin; with 10 s in the queue they are not.
    assert_eq!(ends(&one_call(&environment, 0, "slow", seconds(0), seconds(15), left).await), DEFERRED);
    assert_eq!(ends(&one_call(&environment, 1, "slow", seconds(10), seconds(1), left).await), NO_WINDOW);
}

#[tokio::test]
async fn it_fades_and_only_a_first_receive_tells_of_the_queue() {
    let environment = environment().await;
    let first = one_call(&environment, 0, "slow", seconds(0), seconds(1), LONG).await;
    // Its retry is received much later: that may be the retry's own wait.
    environment.time.reach(first.next_attempt_at.plus(seconds(300)));
    again(&environment, &first.id, seconds(1), noon(), 2).await;
    assert!(environment.measure.expected(&id("slow"), environment.time.instant()) <= seconds(1));

    let left = BASE + MARGIN;
    assert_eq!(ends(&one_call(&environment, 1, "slow", seconds(80), seconds(1), left).await), NO_WINDOW);
    environment.time.advance(HALF_LIFE);
    assert_eq!(ends(&one_call(&environment, 2, "slow", seconds(0), seconds(1), left).await), NO_WINDOW, "half of it is left");
    environment.time.advance(HALF_LIFE * 2);
    assert_eq!(ends(&one_call(&environment, 3, "slow", seconds(0), seconds(1), left).await), DEFERRED);
}

/// A call that still fits is made, whatever was measured, and only the hard margin makes a delivery expire.
#[tokio::test]
async fn what_was_measured_neither_stops_a_call_nor_lets_a_delivery_expire() {
    let environment = environment().await;
    one_call(&environment, 0, "slow", seconds(100), seconds(9), LONG).await;
    let expected = environment.measure.expected(&id("slow"), environment.time.instant());
    assert!(expected > seconds(100));
    // Just the hard margin is left when it is taken: it is called, and after the call less than the margin is left.
    let took = seconds(2);
    let row = one_call(&environment, 1, "slow", seconds(0), took, MARGIN - took).await;
    assert_eq!(row.attempts.len(), 1);
    assert_eq!(ends(&row), (State::Expired, Some(Reason::DeadlinePassed)));
    let row = one_call(&environment, 2, "slow", seconds(0), took, MARGIN).await;
    assert_eq!(ends(&row), NO_WINDOW, "the margin is still left");
}

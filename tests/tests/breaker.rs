//! Deliver itself on the memory adapters, with a receiver that does not answer: the breaker opens, rows go back without an
//! attempt, one record at a time probes, and an answer lets everybody through again.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::poll;
use punctual_core::breaker::{Open, Reach};
use punctual_core::id::DeliveryId;
use punctual_core::outcome::{CallResult, Failure};
use punctual_core::ports::{Control as _, Request, Webhook};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_deliver::tally::Tally;
use punctual_tests::environment::Environment;
use serde_json::json;
use tokio::sync::Notify;

fn noon() -> Timestamp {
    Timestamp::from_millis(1_796_126_400_000)
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A receiver that answers, or does not.
#[derive(Default)]
struct Receiver {
    answers: AtomicBool,
    calls: AtomicUsize,
    /// A call ends when this says so, if it is to be held.
    held: AtomicBool,
    release: Notify,
}

impl Receiver {
    fn answering(answers: bool) -> Self {
        Self { answers: AtomicBool::new(answers), ..Self::default() }
    }

    fn holding(answers: bool) -> Self {
        Self { held: AtomicBool::new(true), ..Self::answering(answers) }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Webhook for Receiver {
    async fn call(&self, _: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        if !may_start() {
            return CallResult::not_called();
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.held.load(Ordering::Relaxed) {
            self.release.notified().await;
        }
        if self.answers.load(Ordering::Relaxed) {
            CallResult::Answered { status: 200, retry_after: None }
        } else {
            Failure::Timeout.into()
        }
    }
}

struct World {
    environment: Environment,
    next: AtomicUsize,
}

impl World {
    async fn new() -> Self {
        let environment = Environment::new(noon());
        environment.register("hole", "https://receiver.example/hook", json!({})).await.unwrap();
        Self { environment, next: AtomicUsize::new(0) }
    }

    /// So many new rows that are due, with their messages in the queue.
    async fn rows(&self, count: usize) -> Vec<DeliveryId> {
        let now = self.environment.time.instant();
        let mut ids = Vec::new();
        for _ in 0..count {
            let n = u32::try_from(self.next.fetch_add(1, Ordering::Relaxed)).unwrap();
            ids.push(self.environment.queued(n, "hole", now, now.plus(seconds(36_000))).await.unwrap());
        }
        ids
    }

    async fn batch(&self, receiver: &Receiver, ids: &[DeliveryId]) -> Tally {
        let tally = self.environment.deliver(receiver, ids, self.environment.time.instant(), 1).await.unwrap();
        assert_eq!(tally.failed, 0, "{tally:?}");
        tally
    }

    async fn reach(&self) -> Option<Reach> {
        self.environment.control.reaches().await.unwrap().pop().map(|(_, reach)| reach)
    }

    async fn open(&self) -> Open {
        self.reach().await.expect("a row").open.expect("an open breaker")
    }

    /// The breaker is open, and a probe may start.
    async fn may_probe() -> Self {
        let world = Self::new().await;
        let silent = Receiver::answering(false);
        let tally = world.batch(&silent, &world.rows(3).await).await;
        assert_eq!((tally.called, tally.opened.len()), (3, 1), "{tally:?}");
        world.environment.time.reach(world.open().await.probe_at);
        world
    }

    /// How many of these rows went back to the ledger without an attempt.
    async fn back(&self, ids: &[DeliveryId]) -> usize {
        let mut back = 0;
        for id in ids {
            let row = self.environment.row(id).await.unwrap();
            let returned = row.state == State::Scheduled && row.reason == Some(Reason::BreakerOpen);
            back += usize::from(returned && row.attempts.is_empty() && row.wake_at.is_some());
        }
        back
    }
}

#[tokio::test]
async fn three_silences_in_a_row_open_it_and_the_rest_goes_back_without_an_attempt() {
    let world = World::new().await;
    let (silent, answering) = (Receiver::answering(false), Receiver::answering(true));
    for receiver in [&silent, &silent, &answering, &silent, &silent] {
        let tally = world.batch(receiver, &world.rows(1).await).await;
        assert_eq!((tally.called, tally.opened.len()), (1, 0), "{tally:?}");
    }
    let tally = world.batch(&silent, &world.rows(1).await).await;
    assert_eq!((tally.called, tally.opened.len()), (1, 1), "{tally:?}");
    let open = world.open().await;
    assert!(open.since.since(noon()) < seconds(1), "{open:?}");
    assert_eq!((open.probe_at, open.probes), (open.since.plus(seconds(15)), 0));

    let ids = world.rows(6).await;
    let tally = world.batch(&silent, &ids).await;
    assert_eq!((tally.called, tally.returned, tally.opened.len()), (0, 6, 0), "{tally:?}");
    assert_eq!(world.back(&ids).await, 6);
    assert_eq!(silent.calls(), 5);
}

#[tokio::test]
async fn a_batch_that_hears_three_silences_calls_no_more() {
    let world = World::new().await;
    let silent = Receiver::answering(false);
    let ids = world.rows(10).await;
    let tally = world.batch(&silent, &ids).await;
    assert_eq!((tally.called, tally.returned, tally.deferred, tally.opened.len()), (3, 7, 3, 1), "{tally:?}");
    assert_eq!(world.back(&ids).await, 7);
    assert_eq!(world.reach().await.unwrap().version, 1, "one write for the batch");
}

#[tokio::test]
async fn one_probes_and_each_that_fails_doubles_the_wait() {
    let world = World::may_probe().await;
    let silent = Receiver::answering(false);
    for (probes, wait) in [(1, 30), (2, 60), (3, 120), (4, 240), (5, 240)] {
        let ids = world.rows(4).await;
        let tally = world.batch(&silent, &ids).await;
        assert_eq!((tally.called, tally.returned, tally.opened.len()), (1, 3, 0), "{tally:?}");
        assert_eq!(world.back(&ids).await, 3);
        let open = world.open().await;
        let at = world.environment.time.instant().plus(seconds(wait));
        assert_eq!((open.probes, open.probe_at, open.probe), (probes, at, None));
        world.environment.time.advance(seconds(wait) - Duration::from_millis(1));
        let early = world.rows(2).await;
        assert_eq!((world.batch(&silent, &early).await.called, world.back(&early).await), (0, 2));
        world.environment.time.reach(at);
    }
}

#[tokio::test]
async fn concurrent_batches_have_one_probe_between_them() {
    let world = World::may_probe().await;
    let receiver = Receiver::holding(true);
    let (first, second, third) = (world.rows(2).await, world.rows(5).await, world.rows(3).await);
    let mut probing = pin!(world.batch(&receiver, &first));
    assert!(poll!(probing.as_mut()).is_pending());
    assert_eq!(receiver.calls(), 1);
    let tally = world.batch(&receiver, &second).await;
    assert_eq!((tally.called, tally.returned, receiver.calls()), (0, 5, 1), "{tally:?}");
    assert_eq!(world.back(&second).await, 5);
    receiver.release.notify_one();
    receiver.held.store(false, Ordering::Relaxed);
    let tally = probing.await;
    assert_eq!((tally.called, tally.returned, tally.delivered), (1, 1, 1), "{tally:?}");
    let reach = world.reach().await.unwrap();
    assert_eq!((reach.open, reach.silent), (None, 0));
    assert_eq!(world.batch(&receiver, &third).await.delivered, 3);
}

#[tokio::test]
async fn the_lease_of_a_probe_that_crashed_ends_by_its_time() {
    let world = World::may_probe().await;
    let (receiver, silent) = (Receiver::holding(true), Receiver::answering(false));
    let lost = world.rows(1).await;
    {
        let mut probing = pin!(world.batch(&receiver, &lost));
        assert!(poll!(probing.as_mut()).is_pending());
    }
    let until = world.open().await.probe.expect("a lease").until;
    assert!(until >= world.environment.time.instant().plus(seconds(30)), "no earlier than its invocation ends");
    world.environment.time.reach(Timestamp::from_millis(until.as_millis() - 1));
    let ids = world.rows(2).await;
    assert_eq!((world.batch(&silent, &ids).await.called, world.back(&ids).await), (0, 2));
    world.environment.time.reach(until);
    let tally = world.batch(&silent, &world.rows(2).await).await;
    assert_eq!((tally.called, tally.returned), (1, 1), "{tally:?}");
    assert_eq!(world.open().await.probes, 1);
}

#[tokio::test]
async fn a_probe_that_makes_no_call_gives_its_lease_back() {
    let world = World::may_probe().await;
    let silent = Receiver::answering(false);
    let erased = world.rows(1).await;
    world.environment.ledger.erase_payloads(&erased[0]);
    let before = world.open().await;
    let tally = world.batch(&silent, &erased).await;
    assert_eq!((tally.called, tally.dead, silent.calls()), (0, 1, 0), "{tally:?}");
    assert_eq!(world.open().await, before, "as if nobody had probed");
    let tally = world.batch(&silent, &world.rows(3).await).await;
    assert_eq!((tally.called, tally.returned), (1, 2), "the next one probes at once: {tally:?}");
}

#[tokio::test]
async fn an_answer_closes_it_and_the_room_grows_again_until_there_is_nothing_to_write() {
    let world = World::may_probe().await;
    let halved = world.reach().await.unwrap();
    assert_eq!((halved.in_flight, halved.room(1_000)), (50, 1));
    let answering = Receiver::answering(true);
    let tally = world.batch(&answering, &world.rows(4).await).await;
    // Whoever came after the probe's answer goes through: the breaker is closed for the batch as well.
    assert_eq!((tally.called, tally.delivered, tally.returned), (4, 4, 0), "{tally:?}");
    for expected in [100, 200, 400, 800, 1_000, 1_000] {
        let reach = world.reach().await.unwrap();
        assert_eq!((reach.in_flight, reach.open, reach.silent), (expected, None, 0));
        world.batch(&answering, &world.rows(2).await).await;
    }
    let proven = world.reach().await.unwrap();
    world.batch(&answering, &world.rows(10).await).await;
    assert_eq!(world.reach().await.unwrap(), proven, "a proven destination costs no write");
}

#[tokio::test]
async fn two_batches_that_note_at_once_lose_nothing() {
    let world = World::new().await;
    let held = Receiver::holding(false);
    let (first, second, third) = (world.rows(1).await, world.rows(1).await, world.rows(1).await);
    let mut one = pin!(world.batch(&held, &first));
    let mut two = pin!(world.batch(&held, &second));
    // Both have read the destination, and nothing was noted yet.
    assert!(poll!(one.as_mut()).is_pending() && poll!(two.as_mut()).is_pending());
    let tally = world.batch(&Receiver::answering(false), &third).await;
    assert_eq!((tally.opened.len(), world.reach().await.unwrap().silent), (0, 1));
    held.held.store(false, Ordering::Relaxed);
    held.release.notify_waiters();
    let (one, two) = (one.await, two.await);
    assert_eq!((one.opened.len(), two.opened.len()), (0, 1), "the third silence opens it, once");
    let reach = world.reach().await.unwrap();
    assert_eq!((reach.version, reach.silent), (3, 3));
}

#[tokio::test]
async fn what_waits_in_the_queue_goes_back_with_its_attempts_once_it_is_due() {
    let world = World::new().await;
    let silent = Receiver::answering(false);
    let ids = world.rows(3).await;
    assert_eq!(world.batch(&silent, &ids).await.deferred, 3);
    let due = world.environment.row(&ids[0]).await.unwrap().next_attempt_at;
    // The breaker is probed meanwhile, in vain: it is open when the retry is due.
    world.environment.time.reach(world.open().await.probe_at);
    world.batch(&silent, &world.rows(1).await).await;
    world.environment.time.reach(due);
    let now = world.environment.time.instant();
    let tally = world.environment.deliver(&silent, &ids[..1], now, 2).await.unwrap();
    assert_eq!((tally.called, tally.returned), (0, 1), "{tally:?}");
    let row = world.environment.row(&ids[0]).await.unwrap();
    assert_eq!((row.state, row.reason, row.attempts.len()), (State::Scheduled, Some(Reason::BreakerOpen), 1));
}

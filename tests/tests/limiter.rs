//! Deliver itself on the memory adapters: who books a slot of a destination's rate, who waits, and who is denied one.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Mutex;
use std::time::Duration;

use punctual_core::delivery::Delivery;
use punctual_core::id::{DeliveryId, DestinationId};
use punctual_core::limiter::{AHEAD, Key, Limit, Micros, Move, Moved};
use punctual_core::message::Message;
use punctual_core::outcome::CallResult;
use punctual_core::ports::{Control as _, Request, Webhook};
use punctual_core::reason::Reason;
use punctual_core::redrive::Redrive;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_deliver::measure::Measure;
use punctual_deliver::tally::Tally;
use punctual_tests::environment::{Environment, HandTime, MARGIN};
use serde_json::json;

const LONG: Duration = Duration::from_secs(3_600);
const LIMIT: Limit = Limit { per_second: 10, burst: 2 };

fn noon() -> Timestamp {
    Timestamp::from_millis(1_796_126_400_000)
}

fn key() -> Key {
    Key::of(&DestinationId::new("paced").expect("an id"))
}

/// A receiver that accepts, and notes when it was called.
struct Accepts<'a>(&'a HandTime, Mutex<Vec<Duration>>);

impl Webhook for Accepts<'_> {
    async fn call(&self, _: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        if !may_start() {
            return CallResult::not_called();
        }
        self.1.lock().unwrap().push(self.0.instant().since(noon()));
        CallResult::Answered { status: 200, retry_after: None }
    }
}

async fn environment() -> Environment {
    let environment = Environment::new(noon());
    let more = json!({"rate_per_second": LIMIT.per_second, "burst": LIMIT.burst});
    environment.register("paced", "https://receiver.example/hook", more).await.expect("registered");
    environment
}

/// One batch of these rows, received so often; what was counted, and when the receiver was called.
async fn batch(environment: &Environment, ids: &[DeliveryId], receives: u32) -> (Tally, Vec<u128>) {
    let accepts = Accepts(&environment.time, Mutex::default());
    let sent = environment.time.instant();
    let tally = environment.deliver(&accepts, ids, sent, receives).await.expect("an invocation");
    let calls = accepts.1.into_inner().unwrap();
    (tally, calls.into_iter().map(|at| at.as_millis()).collect())
}

async fn rows(environment: &Environment, from: u32, count: u32, window: Duration) -> Vec<DeliveryId> {
    let mut ids = Vec::new();
    for n in from..from + count {
        ids.push(environment.queued(n, "paced", noon(), noon().plus(window)).await.expect("a row"));
    }
    ids
}

/// Others have booked so much: the first slot that is free starts so long after noon.
async fn booked_until(environment: &Environment, ahead: Duration) {
    let start = noon().plus(ahead).as_millis() * 1_000 + LIMIT.tolerance();
    let write = Move::Set { to: start, at_least: None, at_most: Micros::MAX };
    assert_eq!(environment.control.move_limit(&key(), write).await.unwrap(), Moved::Done { now: start });
}

#[tokio::test]
async fn a_full_batch_books_once_and_calls_in_its_slots() {
    for receives in [1, 2] {
        let environment = environment().await;
        let ids = rows(&environment, 0, 10, LONG).await;
        let (tally, calls) = batch(&environment, &ids, receives).await;
        // The first at once, the second within the burst, and one each tenth of a second from then on.
        assert_eq!(calls, [0, 1, 101, 201, 301, 401, 501, 601, 701, 801], "{tally:?}");
        assert_eq!((tally.slots_booked, tally.slots_wasted, tally.slots_denied), (10, 0, 0));
        assert_eq!(tally.delivered, 10);
        // Of a message that was received before, the row must tell first that it is due.
        assert!(tally.limiter_writes == 1 || receives > 1, "{tally:?}");
    }
}

#[tokio::test]
async fn whoever_is_denied_spends_nothing_and_claims_nothing() {
    let environment = environment().await;
    booked_until(&environment, AHEAD).await;
    let ids = rows(&environment, 0, 3, LONG).await;
    let (tally, calls) = batch(&environment, &ids, 1).await;
    assert_eq!((tally.slots_denied, tally.slots_booked, tally.called, calls.len()), (3, 0, 0, 0), "{tally:?}");
    for id in &ids {
        let row = environment.row(id).await.expect("a row");
        assert_eq!((row.state, row.attempts.len()), (State::Queued, 0));
    }
    // What was told is remembered: the next batch knows without a write that there is no room.
    let (tally, _) = batch(&environment, &ids, 1).await;
    assert_eq!((tally.slots_denied, tally.limiter_writes), (3, 0), "{tally:?}");
    environment.time.advance(Duration::from_secs(1));
    let (tally, calls) = batch(&environment, &ids, 2).await;
    assert_eq!((tally.delivered, calls), (3, vec![2_000, 2_100, 2_200]), "{tally:?}");
}

#[tokio::test]
async fn what_is_reserved_is_for_near_deadlines() {
    let environment = environment().await;
    // A tenth of what is in reach is left.
    booked_until(&environment, AHEAD * 95 / 100).await;
    let late = rows(&environment, 0, 1, LONG).await;
    let near = rows(&environment, 1, 1, MARGIN + Duration::from_secs(30)).await;
    let (tally, _) = batch(&environment, &[late[0].clone(), near[0].clone()], 1).await;
    assert_eq!((tally.delivered, tally.slots_denied), (1, 1), "{tally:?}");
    assert_eq!(environment.row(&near[0]).await.expect("a row").state, State::Delivered);
}

#[tokio::test]
async fn a_wait_of_more_than_a_minute_leads_back_to_the_ledger() {
    let environment = environment().await;
    booked_until(&environment, Duration::from_secs(120)).await;
    let ids = rows(&environment, 0, 2, LONG).await;
    let (tally, calls) = batch(&environment, &ids, 1).await;
    assert_eq!((tally.returned, tally.slots_denied, calls.len()), (2, 2, 0), "{tally:?}");
    for id in &ids {
        let row = environment.row(id).await.expect("a row");
        assert_eq!((row.state, row.reason, row.attempts.len()), (State::Scheduled, Some(Reason::RateLimitedHere), 0));
    }
}

#[tokio::test]
async fn a_slot_without_a_call_is_counted() {
    let environment = environment().await;
    let id = rows(&environment, 0, 1, LONG).await.remove(0);
    // Two messages of one delivery: one claims it, and the other's slot is spent.
    let (tally, calls) = batch(&environment, &[id.clone(), id], 1).await;
    assert_eq!((tally.slots_booked, tally.slots_wasted, calls.len()), (2, 1, 1), "{tally:?}");
}

#[tokio::test]
async fn another_environment_learns_what_is_booked_by_a_refusal() {
    let mut environment = environment().await;
    let ids = rows(&environment, 0, 6, LONG).await;
    let (tally, _) = batch(&environment, &ids[..3], 1).await;
    assert_eq!(tally.limiter_writes, 1);
    let start = environment.time.instant();
    environment.measure = Measure::default();
    let (tally, calls) = batch(&environment, &ids[3..], 1).await;
    assert_eq!((tally.limiter_writes, tally.delivered), (2, 3), "{tally:?}");
    let first = start.since(noon()).as_millis() + 100;
    assert_eq!(calls, [first, first + 100, first + 200]);
}

/// They book of what redriven calls may take before they book of the rate; what is beyond it is hidden, and spends nothing. Fresh ones
/// of the same batch go on, and pay no write for it.
#[tokio::test]
async fn redriven_calls_take_no_more_than_their_share_of_a_batch() {
    let environment = environment().await;
    let fresh = rows(&environment, 0, 4, LONG).await;
    let (tally, _) = batch(&environment, &fresh, 1).await;
    assert_eq!((tally.delivered, tally.limiter_writes), (4, 1), "{tally:?}");
    environment.time.advance(Duration::from_secs(1));
    let share = LIMIT.of_redriven_calls();
    assert_eq!((share.per_second, share.burst), (2, 2));
    for receives in [1, 2] {
        let fresh = rows(&environment, 10 * receives, 3, LONG).await;
        let redriven = rows(&environment, 10 * receives + 3, 6, LONG).await;
        for id in &redriven {
            let row = environment.row(id).await.unwrap();
            let redrive = Redrive { run: None, death: 1, granted: 3, deadline_was: None, owner: "ann".into() };
            environment.ledger.put_row(Delivery { redrives: vec![redrive], ..row });
        }
        let all: Vec<DeliveryId> = fresh.iter().chain(&redriven).cloned().collect();
        let (tally, calls) = batch(&environment, &all, receives).await;
        // Those that were received before ask one by one, some of them a moment later.
        let most = if receives == 1 { 5 } else { 6 };
        assert!((5..=most).contains(&tally.delivered), "{tally:?}");
        assert_eq!((calls.len(), tally.slots_denied), (tally.delivered, 9 - tally.delivered), "{tally:?}");
        for id in &redriven {
            let row = environment.row(id).await.unwrap();
            assert!(matches!((row.state, row.attempts.len()), (State::Delivered, 1) | (State::Queued, 0)), "{row:?}");
        }
        environment.time.advance(Duration::from_secs(2));
    }
}

/// A message from before its redrive says nothing of it: the row does, once it is claimed, and it goes back without a call.
#[tokio::test]
async fn a_redriven_row_is_not_called_by_a_message_that_does_not_know() {
    let environment = environment().await;
    let ids = rows(&environment, 0, 1, LONG).await;
    let row = environment.row(&ids[0]).await.unwrap();
    let old = Message::of(&row);
    assert!(!old.redriven);
    let redrive = Redrive { run: None, death: 1, granted: 3, deadline_was: None, owner: "ann".into() };
    environment.ledger.put_row(Delivery { redrives: vec![redrive], ..row });
    let accepts = Accepts(&environment.time, Mutex::default());
    let tally = environment.deliver_messages(&accepts, &[old], environment.time.instant(), 1).await.unwrap();
    let row = environment.row(&ids[0]).await.unwrap();
    assert_eq!((tally.called, tally.returned, row.state, row.attempts.len()), (0, 1, State::Scheduled, 0), "{tally:?}");
    assert_eq!(row.reason, Some(Reason::RateLimitedHere));
}

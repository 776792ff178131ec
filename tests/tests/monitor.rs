//! Monitor itself on the memory adapters: what it says of a stage that I set up by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test reports by panicking")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use punctual_core::breaker::{Open, Reach};
use punctual_core::clock::Now;
use punctual_core::delivery::{Delivery, NewDelivery};
use punctual_core::destination::Pause;
use punctual_core::figures::{Calls, Heartbeat, Span};
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, Reference};
use punctual_core::outcome::CallResult;
use punctual_core::ports::{Control as _, Cursor, Ledger as _, Overview as _, Request, Stored, Time as _, Webhook, Written};
use punctual_core::reason::Reason;
use punctual_core::rejections::Rejections;
use punctual_core::settings::{RetryMode, Settings};
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::{self, Stamp};
use punctual_monitor::Memory;
use punctual_monitor::lanes::{self, Room};
use punctual_tests::environment::{Environment, MARGIN};
use serde_json::json;

/// Noon and so many seconds.
fn at(s: i64) -> Timestamp {
    Timestamp::from_millis(1_796_126_400_000 + s * 1_000)
}

fn id(name: &str) -> DestinationId {
    DestinationId::new(name).unwrap()
}

fn by() -> Correlation {
    Correlation::new("test").unwrap()
}

fn stamp(s: i64) -> Stamp {
    Stamp { now: Now::exactly(at(s)), by: by() }
}

/// A scheduled row; number `n` of its destination.
fn row(destination: &str, n: usize, due: i64, deliver_by: i64) -> Delivery {
    let delivery = DeliveryId::new(format!("dlv_{destination}-{n}")).unwrap();
    let new = NewDelivery {
        idempotency_key: IdempotencyKey::from(&delivery),
        reference: Reference::new("c-1").unwrap(),
        destination: id(destination),
        shard: u16::from(n % 2 == 1),
        content: Content::new("abc").unwrap(),
        deliver_after: at(due),
        deliver_by: at(deliver_by),
        id: delivery,
    };
    Delivery::new(new, at(-3_600), by())
}

async fn environment(destinations: &[&str]) -> Environment {
    let environment = Environment::new(at(0));
    for destination in destinations {
        let more = json!({"rate_per_second": 10, "max_in_flight": 10_000});
        environment.register(destination, "https://receiver.invalid/", more).await.unwrap();
        let proven = Reach { version: 1, in_flight: 10_000, ..Reach::unproven(by()) };
        assert_eq!(environment.control.note_reach(&id(destination), &proven).await.unwrap(), Stored::Done);
    }
    environment
}

#[tokio::test]
async fn a_stage_in_numbers() {
    let environment = environment(&["calm", "full", "gone", "dark"]).await;
    let ledger = &environment.ledger;
    // 10 a second until 90: 900 of 1,000; the others have time, and what is due in two hours cannot all be called.
    (0..1_000).for_each(|n| ledger.put_row(row("full", n, -30, 110)));
    (1_000..13_000).for_each(|n| ledger.put_row(row("full", n, 7_200, 8_000)));
    (0..5).for_each(|n| ledger.put_row(row("calm", n, -20, 3_600)));
    (0..7).for_each(|n| ledger.put_row(row("gone", n, -600, 3_600)));
    (0..3).for_each(|n| ledger.put_row(row("dark", n, -300, 3_600)));
    // Out: published 50 s ago and not taken; held by a dispatch run that is gone, and by one that is not.
    let claimed = |n, until| Delivery { state: State::Dispatching, held_until: Some(at(until)), ..row("calm", n, -45, 3_600) };
    ledger.put_row(Delivery { state: State::Queued, ..claimed(10, -50) });
    ledger.put_row(claimed(11, -40));
    ledger.put_row(claimed(12, 20));
    // Ended: dead and saved in time perhaps, dead for good, expired, and one whose letter is not sent.
    for (n, deliver_by, reason) in [(20, 600, Reason::Rejected), (21, -60, Reason::Rejected), (22, 700, Reason::Gone)] {
        let dead = transition::dead_without_attempt(&row("calm", n, -700, deliver_by), reason, &stamp(-90)).unwrap().after;
        ledger.put_row(transition::dead_letter_sent(&dead, &stamp(-90)).unwrap().after);
    }
    ledger.put_row(transition::expired(&row("calm", 23, -700, -100), &stamp(-90)).unwrap().after);
    let long_past = transition::expired(&row("calm", 24, -1_400_000, -1_300_000), &stamp(-1_300_000)).unwrap().after;
    ledger.put_row(transition::dead_letter_sent(&long_past, &stamp(-1_300_000)).unwrap().after);
    // Switches, places, heartbeats, breakers, pauses.
    let control = &environment.control;
    for (name, by) in [("gone", "deliver c1")] {
        let (found, _) = control.lookup(&[id(name)]).await.unwrap();
        let pause = Pause { since: at(-500), by: by.into(), why: "410".into() };
        let paused = punctual_core::destination::Destination { paused: Some(pause), version: 2, ..found[0].clone() };
        assert_eq!(control.put_destination(&paused, 1).await.unwrap(), Stored::Done);
    }
    // Nobody has changed this one for an hour.
    let (found, _) = control.lookup(&[id("full")]).await.unwrap();
    let mut long_there = found[0].clone();
    (long_there.version, long_there.changed.at) = (2, at(-3_600));
    assert_eq!(control.put_destination(&long_there, 1).await.unwrap(), Stored::Done);
    let open = Open { since: at(-250), probe_at: at(10), probes: 3, probe: None };
    let reach = Reach { version: 2, silent: 3, in_flight: 10, open: Some(open), by: by() };
    assert_eq!(control.note_reach(&id("dark"), &reach).await.unwrap(), Stored::Done);
    let results = |text: &str, destination_version| Rejections {
        version: 1,
        destination_version,
        results: text.parse().unwrap(),
        last_status: Some(400),
        by: by(),
    };
    control.note_rejections(&id("calm"), &results("..x", 1)).await.unwrap();
    control.note_rejections(&id("gone"), &results("xxx", 1)).await.unwrap();
    control.set_settings(Settings { retry_mode: RetryMode::DeadLetter, dispatch_paused: None });
    let lane = row("full", 0, 0, 0).lane();
    control.keep_cursor(&lane, Some(&Cursor { wake_at: at(0), id: row("full", 0, 0, 0).id })).await.unwrap();
    control.note_heartbeat("dispatch", &Heartbeat { at: at(-95), line: String::new() }).await.unwrap();

    let told = environment.monitor(&Memory::default()).await.unwrap();
    assert_eq!((told.at, told.destinations, told.unread, told.truncated), (at(0), 4, 0, 0));
    assert_eq!(told.dispatch_age_seconds, 95);
    assert_eq!((told.due, told.due_estimated, told.asleep, told.hopeless), (1_015, 1_015, 0, 1));
    assert_eq!((told.oldest_due_seconds, told.oldest_overdue_seconds), (600, 30), "those that may be called");
    assert_eq!((told.next_last_start_seconds, told.used_percent), (90, 25));
    // The expired row whose letter is owed is out as well: since whoever ended it should have sent the letter.
    assert_eq!((told.out, told.suspects, told.oldest_out_seconds), (4, 3, 85));
    let states: Vec<(State, u64, u64)> =
        told.looked_at.iter().map(|(s, level)| (*s, level.count, level.oldest_seconds)).collect();
    assert_eq!(states, [(State::Dispatching, 1, 40), (State::Queued, 1, 45), (State::Expired, 1, 85)]);
    assert_eq!((told.ended_leases.count, told.ended_leases.oldest_seconds, told.queued.oldest_seconds), (1, 40, 45));
    assert_eq!((told.late, told.breach_in_seconds, told.drain_seconds), (100, 90, 90));
    assert_eq!((told.overbooked, told.late_later), (1, 12_000 - 7_800));
    assert_eq!(told.dead, [(Reason::Rejected, 2), (Reason::Gone, 1)].into());
    assert_eq!(told.expired, [(Reason::DeadlinePassed, 1)].into(), "fourteen days are looked back");
    assert_eq!((told.dead_reachable, told.letters_owed), (2, 1));
    assert_eq!((told.paused, told.paused_by_itself, told.longest_pause_seconds, told.open_breakers), (1, 1, 500, 1));
    assert_eq!(
        (told.rejecting, told.cursors, told.retries_disabled),
        (1, 1, true),
        "what was noted before a change says nothing"
    );
    let named: Vec<&str> = told.offenders.iter().map(|offender| offender.destination_id.as_str()).collect();
    assert_eq!(named, ["full", "gone", "dark", "calm"]);
}

#[tokio::test]
async fn a_dispatch_that_was_never_heard_of_is_silent_since_the_first_look() {
    let (environment, memory) = (environment(&[]).await, Memory::default());
    assert_eq!(environment.monitor(&memory).await.unwrap().dispatch_age_seconds, 0);
    environment.time.reach(at(180));
    assert_eq!(environment.monitor(&memory).await.unwrap().dispatch_age_seconds, 180);
    assert_eq!(environment.monitor(&Memory::default()).await.unwrap().dispatch_age_seconds, 0, "another environment");
    environment.control.note_heartbeat("dispatch", &Heartbeat { at: at(170), line: String::new() }).await.unwrap();
    assert_eq!(environment.monitor(&memory).await.unwrap().dispatch_age_seconds, 10);
}

#[tokio::test]
async fn a_reading_without_room_says_how_far_it_got() {
    let environment = environment(&["full"]).await;
    // Both lanes alike; two entries a second from a thousand seconds ago on.
    (0..24_000).for_each(|n| {
        let due = -1_000 + i64::try_from(n).unwrap() / 4;
        environment.ledger.put_row(row("full", n, due, due + 86_000));
    });
    let destination = environment.control.destinations().await.unwrap().remove(0);
    let span = Span { now: at(0), until: at(80_000), margin: MARGIN };
    let reading = |room: usize| {
        lanes::read(&environment.ledger, &environment.time, &destination, span, Box::leak(Box::new(Room::of(room, 1))))
    };
    let whole = reading(100_000).await.unwrap();
    assert_eq!((whole.backlog.entries, whole.read_until), (24_000, None));
    // Two pages of 5,000 are all that there is room for: 2,500 seconds of each lane.
    let part = reading(10_000).await.unwrap();
    assert_eq!((part.backlog.entries, part.read_until), (10_000, Some(at(1_499))));
    assert_eq!(part.backlog.due, whole.backlog.due, "what is due comes first");
    // An invocation that ends reads nothing, and says so.
    environment.time.advance(Duration::from_secs(25));
    assert!(environment.time.time_left() < Duration::from_secs(8));
    let none = reading(100_000).await.unwrap();
    assert_eq!((none.backlog.entries, none.read_until), (0, Some(at(0))));
}

#[tokio::test]
async fn what_one_destination_does_not_need_is_the_next_ones() {
    let environment = environment(&["small", "large"]).await;
    (0..10).for_each(|n| environment.ledger.put_row(row("small", n, 0, 3_600)));
    (0..18_000).for_each(|n| environment.ledger.put_row(row("large", n, 0, 3_600)));
    let destinations = environment.control.destinations().await.unwrap();
    let (large, small) = (&destinations[0], &destinations[1]);
    let span = Span { now: at(0), until: at(80_000), margin: MARGIN };
    let room = Room::of(20_000, 2);
    let first = lanes::read(&environment.ledger, &environment.time, small, span, &room).await.unwrap();
    let second = lanes::read(&environment.ledger, &environment.time, large, span, &room).await.unwrap();
    assert_eq!((first.backlog.entries, first.read_until), (10, None));
    assert_eq!((second.backlog.entries, second.read_until), (18_000, None));
}

/// A receiver whose every second answer is 503.
#[derive(Default)]
struct EverySecond(AtomicU32);

impl Webhook for EverySecond {
    async fn call(&self, _: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        if !may_start() {
            return CallResult::not_called();
        }
        let fails = self.0.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        CallResult::Answered { status: if fails { 503 } else { 200 }, retry_after: None }
    }
}

#[tokio::test]
async fn what_calls_come_to_rides_along_with_the_next_booking() {
    let environment = environment(&["acme"]).await;
    let receiver = EverySecond::default();
    let calls = |made, repeated| vec![(id("acme"), Calls { made, repeated })];
    for (batch, counted) in [(0, calls(0, 0)), (1, calls(8, 4)), (2, calls(16, 8))] {
        let mut ids = Vec::new();
        for n in batch * 8..batch * 8 + 8 {
            ids.push(environment.queued(n, "acme", environment.time.instant(), at(80_000)).await.unwrap());
        }
        let tally = environment.deliver(&receiver, &ids, environment.time.instant(), 1).await.unwrap();
        assert_eq!((tally.called, tally.delivered, tally.deferred), (8, 4, 4));
        assert_eq!((tally.unanswered, tally.refused, tally.delivered_late, tally.first_calls.len()), (0, 0, 0, 8));
        // What this batch came to is not counted yet.
        assert_eq!(environment.control.calls().await.unwrap(), counted);
        environment.time.advance(Duration::from_secs(5));
    }
    // Nearly two calls for each delivery; they make a slow destination of what would be in time.
    (0..400).for_each(|n| environment.ledger.put_row(row("acme", 1_000 + n, 0, 90)));
    let told = environment.monitor(&Memory::default()).await.unwrap();
    let offender = told.offenders.iter().find(|offender| offender.destination_id == id("acme")).expect("it stands out");
    assert_eq!(offender.calls_percent, 144, "eight of sixteen, and ten that say little");
    assert!(offender.late > 0, "{offender:?}");
}

#[tokio::test]
async fn a_row_that_has_come_to_its_end_is_late_for_nothing() {
    let environment = environment(&["acme"]).await;
    let queued = Delivery { state: State::Queued, held_until: Some(at(-50)), ..row("acme", 0, -60, 3_600) };
    environment.ledger.put_row(queued.clone());
    let told = environment.monitor(&Memory::default()).await.unwrap();
    assert_eq!((told.suspects, told.queued.oldest_seconds), (1, 50));
    let cancelled = transition::cancelled(
        &queued,
        punctual_core::delivery::Cancel { since: at(0), by: "ops".into(), why: "test".into() },
        &stamp(0),
    );
    assert_eq!(environment.ledger.write(&cancelled.unwrap()).await.unwrap(), Written::Done);
    let told = environment.monitor(&Memory::default()).await.unwrap();
    assert_eq!((told.suspects, told.queued.oldest_seconds, told.out), (0, 0, 0));
}

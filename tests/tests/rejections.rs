//! Batches whose receiver rejects, over the in-memory ports, with somebody who writes in between: no result is lost to a
//! race, no change of an operator is undone, and nobody is called once results that call for a pause are stored.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use punctual_adapters::memory::{MemoryControl, MemoryLedger, MemoryQueue};
use punctual_core::breaker::Reach;
use punctual_core::calendar::StoredCalendar;
use punctual_core::clock::{ClockError, Now};
use punctual_core::dead_letter::DeadLetter;
use punctual_core::delivery::{Delivery, Lane};
use punctual_core::destination::{Change, Destination, Pause};
use punctual_core::figures::Heartbeat;
use punctual_core::id::{CalendarId, Correlation, DestinationId, RunId};
use punctual_core::limiter::{Key, Move, Moved};
use punctual_core::outcome::CallResult;
use punctual_core::ports::{
    Control, Cursor, DeadLetters, PortError, Request, SecretUnavailable, Secrets, ShadowPage, ShadowQuery, Stored, Time, Watched,
    Webhook,
};
use punctual_core::reason::Reason;
use punctual_core::redrive::Run;
use punctual_core::rejections::Rejections;
use punctual_core::settings::Settings;
use punctual_core::shadow::ShadowEntry;
use punctual_core::signature::Secret;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_deliver::Deliver;
use punctual_deliver::measure::Measure;
use punctual_deliver::tally::Tally;
use punctual_flows::release::Rules;
use punctual_schedule::Schedule;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn now() -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000)
}

/// A clock that stands. Short waits are over at once, long ones never end.
struct Standing;

impl Time for Standing {
    fn now(&self) -> Result<Now, ClockError> {
        Ok(Now::exactly(now()))
    }

    fn time_left(&self) -> Duration {
        Duration::from_secs(30)
    }

    async fn wait_until(&self, at: Timestamp) -> Result<Now, ClockError> {
        Ok(Now::exactly(at))
    }

    async fn pause(&self, how_long: Duration) {
        if how_long > Duration::from_secs(1) {
            std::future::pending::<()>().await;
        }
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn unique(&self) -> String {
        static OWNERS: AtomicU32 = AtomicU32::new(0);
        format!("owner-{}", OWNERS.fetch_add(1, Ordering::Relaxed))
    }
}

/// What somebody else writes right before a write of deliver.
enum Rival {
    Results(Rejections),
    Destination(Box<Destination>),
    /// One after the other.
    Several(Vec<Rival>),
    /// The write is refused.
    Outage,
}

/// The control table, with others at work.
#[derive(Default)]
struct Shared {
    table: MemoryControl,
    before_notes: Mutex<VecDeque<Rival>>,
    before_puts: Mutex<VecDeque<Rival>>,
    notes: AtomicU32,
}

impl Shared {
    async fn meddle(&self, rivals: &Mutex<VecDeque<Rival>>) -> Result<(), PortError> {
        let writes = match rivals.lock().unwrap().pop_front() {
            Some(Rival::Several(rivals)) => rivals,
            rival => rival.into_iter().collect(),
        };
        for rival in writes {
            let stored = match rival {
                Rival::Results(results) => self.table.note_rejections(&acme(), &results).await?,
                Rival::Destination(destination) => self.table.put_destination(&destination, destination.version - 1).await?,
                Rival::Several(_) | Rival::Outage => {
                    return Err(PortError::Unavailable { what: "a write", source: "an outage".into() });
                }
            };
            assert_eq!(stored, Stored::Done, "the rival's write");
        }
        Ok(())
    }
}

impl Control for Shared {
    async fn destinations(&self) -> Result<Vec<Destination>, PortError> {
        self.table.destinations().await
    }

    async fn lookup(&self, ids: &[DestinationId]) -> Result<(Vec<Destination>, Settings), PortError> {
        self.table.lookup(ids).await
    }

    async fn watch(&self, ids: &[DestinationId]) -> Result<Watched, PortError> {
        self.table.watch(ids).await
    }

    async fn note_rejections(&self, id: &DestinationId, rejections: &Rejections) -> Result<Stored, PortError> {
        self.notes.fetch_add(1, Ordering::Relaxed);
        self.meddle(&self.before_notes).await?;
        self.table.note_rejections(id, rejections).await
    }

    async fn move_limit(&self, key: &Key, write: Move) -> Result<Moved, PortError> {
        self.table.move_limit(key, write).await
    }

    async fn reaches(&self) -> Result<Vec<(DestinationId, Reach)>, PortError> {
        self.table.reaches().await
    }

    async fn note_reach(&self, id: &DestinationId, reach: &Reach) -> Result<Stored, PortError> {
        self.table.note_reach(id, reach).await
    }

    async fn put_destination(&self, destination: &Destination, expected: u64) -> Result<Stored, PortError> {
        self.meddle(&self.before_puts).await?;
        self.table.put_destination(destination, expected).await
    }

    async fn calendars(&self) -> Result<Vec<StoredCalendar>, PortError> {
        self.table.calendars().await
    }

    async fn lookup_calendars(&self, ids: &[CalendarId]) -> Result<Vec<StoredCalendar>, PortError> {
        self.table.lookup_calendars(ids).await
    }

    async fn put_calendar(&self, calendar: &StoredCalendar, expected: u64) -> Result<Stored, PortError> {
        self.table.put_calendar(calendar, expected).await
    }

    async fn run(&self, id: &RunId) -> Result<Option<Run>, PortError> {
        self.table.run(id).await
    }

    async fn runs(&self) -> Result<Vec<Run>, PortError> {
        self.table.runs().await
    }

    async fn put_run(&self, run: &Run, expected: u64) -> Result<Stored, PortError> {
        self.table.put_run(run, expected).await
    }

    async fn freeze(&self) -> Result<Option<Change>, PortError> {
        self.table.freeze().await
    }

    async fn put_freeze(&self, freeze: Option<&Change>) -> Result<(), PortError> {
        self.table.put_freeze(freeze).await
    }

    async fn cursors(&self) -> Result<Vec<(Lane, Cursor)>, PortError> {
        self.table.cursors().await
    }

    async fn keep_cursor(&self, lane: &Lane, cursor: Option<&Cursor>) -> Result<(), PortError> {
        self.table.keep_cursor(lane, cursor).await
    }

    async fn note_heartbeat(&self, function: &str, heartbeat: &Heartbeat) -> Result<(), PortError> {
        self.table.note_heartbeat(function, heartbeat).await
    }

    async fn post_shadow(&self, entry: &ShadowEntry) -> Result<(), PortError> {
        self.table.post_shadow(entry).await
    }

    async fn shadow_entries(&self, query: &ShadowQuery) -> Result<ShadowPage, PortError> {
        self.table.shadow_entries(query).await
    }
}

/// A receiver that gives one answer to every call.
struct Answers(u16, AtomicU32);

impl Webhook for Answers {
    async fn call(&self, _request: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        if !may_start() {
            return CallResult::not_called();
        }
        self.1.fetch_add(1, Ordering::Relaxed);
        CallResult::Answered { status: self.0, retry_after: None }
    }
}

struct OneSecret;

impl Secrets for OneSecret {
    async fn active(&self, _references: &[String]) -> Result<Vec<Secret>, SecretUnavailable> {
        Ok(vec![Secret::parse("s1", "whsec_cHVuY3R1YWwtYmVuY2gtc2VjcmV0LTIwMjctMDE=").unwrap()])
    }
}

struct Letters;

impl DeadLetters for Letters {
    async fn send(&self, _letter: &DeadLetter) -> Result<(), PortError> {
        Ok(())
    }
}

fn acme() -> DestinationId {
    DestinationId::new("acme").unwrap()
}

fn by(name: &str) -> Correlation {
    Correlation::of_request(name)
}

/// The destination: paused after three of five.
fn destination(version: u64, change: &Value) -> Destination {
    let mut spec = json!({
        "id": "acme", "url": "https://hooks.example.com/", "secrets": ["punctual/prod/acme"],
        "pause_after": {"rejected": 3, "of_last": 5},
    });
    spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let changed = Change { at: now(), by: "ops".into(), why: "test".into() };
    Destination { spec: serde_json::from_value(spec).unwrap(), version, paused: None, changed }
}

fn results(version: u64, destination_version: u64, results: &str) -> Rejections {
    Rejections { version, destination_version, results: results.parse().unwrap(), last_status: Some(404), by: by("rival") }
}

struct World {
    ledger: MemoryLedger,
    control: Shared,
    queue: MemoryQueue,
    receiver: Answers,
    scheduled: AtomicU32,
}

impl World {
    async fn new(status: u16) -> Self {
        let control = Shared::default();
        control.table.put_destination(&destination(1, &json!({})), 0).await.unwrap();
        let receiver = Answers(status, AtomicU32::new(0));
        let (ledger, queue) = (MemoryLedger::default(), MemoryQueue::new(now()));
        Self { ledger, control, queue, receiver, scheduled: AtomicU32::new(0) }
    }

    /// Schedules so many reminders that are due, and works on the batch of their messages.
    async fn batch(&self, size: u32) -> (usize, Tally) {
        let first = self.scheduled.fetch_add(size, Ordering::Relaxed);
        let reminder = |n: u32| {
            json!({
                "tenant": "acme", "subscriber": format!("s-{n}"), "renewal_period": "2027", "reminder_kind": "first",
                "destination_id": "acme", "reference": format!("c-{n}"), "payload": {"n": n},
                "deliver_after": now(), "deliver_by": now().plus(Duration::from_secs(3_600)),
            })
        };
        let reminders: Vec<Value> = (first..first + size).map(reminder).collect();
        let event = RawValue::from_string(json!({"action": "schedule", "reminders": reminders}).to_string()).unwrap();
        let schedule = Schedule {
            ledger: &self.ledger,
            control: &self.control.table,
            queue: &self.queue,
            time: &Standing,
            rules: Rules { horizon: Duration::from_secs(150), lease: Duration::from_secs(30) },
            tick: Duration::from_secs(60),
            margin: Duration::from_secs(10),
            by: by("schedule"),
        };
        let answer = schedule.handle(&event).await.unwrap();
        assert_eq!(answer.released.published, usize::try_from(size).unwrap());
        self.work().await
    }

    /// Works on the batch of what is visible.
    async fn work(&self) -> (usize, Tally) {
        let records: Vec<Value> = self
            .queue
            .receive(10, Duration::from_secs(180))
            .into_iter()
            .map(|m| {
                let attributes = json!({"ApproximateReceiveCount": m.receives.to_string()});
                json!({
                    "messageId": m.id.as_str(), "receiptHandle": m.receipt, "body": m.body,
                    "attributes": attributes, "messageAttributes": {},
                })
            })
            .collect();
        let event: SqsEvent = serde_json::from_value(json!({ "Records": records })).unwrap();
        let deliver = Deliver {
            ledger: &self.ledger,
            control: &self.control,
            queue: &self.queue,
            dead_letters: &Letters,
            secrets: &OneSecret,
            webhook: &self.receiver,
            time: &Standing,
            measure: &Measure::default(),
            margin: Duration::from_secs(10),
            by: by("deliver1"),
        };
        let (response, tally) = deliver.handle(&event).await;
        (response.batch_item_failures.len(), tally)
    }

    async fn stored(&self) -> (Destination, Option<Rejections>) {
        let watched = self.control.table.watch(&[acme()]).await.unwrap();
        let rejections = watched.rejections.into_iter().next().map(|(_, rejections)| rejections);
        (watched.destinations.into_iter().next().unwrap(), rejections)
    }

    fn calls(&self) -> u32 {
        self.receiver.1.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> Vec<Delivery> {
        self.ledger.rows().into_iter().filter(|row| row.state == State::Scheduled).collect()
    }
}

#[tokio::test]
async fn a_receiver_that_accepts_costs_no_write() {
    let world = World::new(200).await;
    assert_eq!(world.batch(10).await.1.delivered, 10);
    assert_eq!((world.control.notes.load(Ordering::Relaxed), world.stored().await.1), (0, None));
}

#[tokio::test]
async fn a_failure_that_is_repeated_is_no_rejection() {
    let world = World::new(503).await;
    assert_eq!(world.batch(10).await.1.deferred, 10);
    assert_eq!((world.control.notes.load(Ordering::Relaxed), world.stored().await.0.paused), (0, None));
}

#[tokio::test]
async fn a_batch_is_noted_in_one_write_and_pauses_what_it_must() {
    let world = World::new(400).await;
    let (_, tally) = world.batch(2).await;
    let (stored, rejections) = world.stored().await;
    assert_eq!((stored.paused, tally.paused.len()), (None, 0));
    assert_eq!(rejections.unwrap().results.to_string(), "xx");
    let (failures, tally) = world.batch(2).await;
    assert_eq!((failures, tally.dead, tally.paused.len()), (0, 2, 1));
    let (stored, rejections) = world.stored().await;
    let pause = stored.paused.unwrap();
    assert_eq!((stored.version, pause.by.as_str()), (2, "deliver deliver1"));
    assert_eq!(pause.why, "4 of the last 4 calls were rejected, the last with status 400");
    assert_eq!((rejections.unwrap().version, world.control.notes.load(Ordering::Relaxed)), (2, 2));
}

#[tokio::test]
async fn the_results_of_another_invocation_are_not_lost() {
    let world = World::new(400).await;
    world.control.before_notes.lock().unwrap().extend([Rival::Results(results(1, 1, "x")), Rival::Results(results(2, 1, "x."))]);
    let (failures, tally) = world.batch(2).await;
    let (stored, rejections) = world.stored().await;
    let rejections = rejections.unwrap();
    assert_eq!((rejections.version, rejections.results.to_string().as_str()), (3, "x.xx"));
    assert_eq!((failures, tally.paused.len()), (0, 1));
    assert_eq!(stored.paused.unwrap().why, "3 of the last 4 calls were rejected, the last with status 400");
}

#[tokio::test]
async fn results_of_a_version_that_was_replaced_say_nothing() {
    let world = World::new(400).await;
    // While the calls were under way an operator mended the destination, and somebody noted a first result of that.
    let fixed = destination(2, &json!({"url": "https://hooks.example.com/2"}));
    let rivals = vec![Rival::Destination(Box::new(fixed)), Rival::Results(results(1, 2, "x"))];
    world.control.before_notes.lock().unwrap().push_back(Rival::Several(rivals));
    let (failures, tally) = world.batch(5).await;
    let (stored, rejections) = world.stored().await;
    assert_eq!((failures, tally.dead, tally.paused.len()), (0, 5, 0));
    assert_eq!(rejections.unwrap().results.to_string(), "x");
    assert_eq!(stored.paused, None);
}

#[tokio::test]
async fn a_pause_that_loses_a_race_is_made_again_only_if_the_change_was_another_matter() {
    let paused = |version| {
        let pause = Pause { since: now(), by: "ops".into(), why: "a look".into() };
        Destination { paused: Some(pause), ..destination(version, &json!({})) }
    };
    let slower = destination(2, &json!({"rate_per_second": 1}));
    let moved = destination(2, &json!({"url": "https://hooks.example.com/2"}));
    for (rivals, version, by) in [
        (vec![slower.clone()], 3, Some("deliver deliver1")),
        (vec![moved], 2, None),
        (vec![paused(2)], 2, Some("ops")),
        (vec![slower, destination(3, &json!({"rate_per_second": 2}))], 4, Some("deliver deliver1")),
    ] {
        let world = World::new(400).await;
        let rivals = rivals.into_iter().map(|rival| Rival::Destination(Box::new(rival)));
        world.control.before_puts.lock().unwrap().extend(rivals);
        let (_, tally) = world.batch(3).await;
        let (stored, _) = world.stored().await;
        assert_eq!((stored.version, stored.paused.as_ref().map(|pause| pause.by.as_str())), (version, by));
        assert_eq!(tally.paused.len(), usize::from(by == Some("deliver deliver1")));
    }
}

#[tokio::test]
async fn whoever_finds_results_that_call_for_a_pause_calls_nobody() {
    for outage in [false, true] {
        let world = World::new(200).await;
        // Their writer crashed before it could pause.
        world.control.table.note_rejections(&acme(), &results(1, 1, "xx.x")).await.unwrap();
        if outage {
            world.control.before_puts.lock().unwrap().push_back(Rival::Outage);
        }
        let (failures, tally) = world.batch(4).await;
        assert_eq!((failures, tally.returned, world.calls()), (0, 4, 0));
        assert!(world.waiting().iter().all(|row| row.reason == Some(Reason::DestinationPaused) && row.attempts.is_empty()));
        let (stored, _) = world.stored().await;
        let why = stored.paused.map(|pause| pause.why);
        let wanted = "3 of the last 4 calls were rejected, the last with status 404".to_owned();
        assert_eq!(why, (!outage).then_some(wanted));
    }
}

#[tokio::test]
async fn what_waits_in_the_queue_for_its_next_attempt_goes_back_to_the_ledger_with_its_attempts() {
    let world = World::new(503).await;
    assert_eq!(world.batch(4).await.1.deferred, 4);
    world.control.table.note_rejections(&acme(), &results(1, 1, "xxx")).await.unwrap();
    world.queue.set_now(now().plus(Duration::from_secs(900)));
    let (failures, tally) = world.work().await;
    assert_eq!((failures, tally.returned, tally.paused.len(), world.calls()), (0, 4, 1, 4));
    let waiting = world.waiting();
    assert!(waiting.iter().all(|row| row.reason == Some(Reason::DestinationPaused) && row.attempts.len() == 1), "{waiting:?}");
    assert_eq!(waiting.len(), 4);
}

#[tokio::test]
async fn a_resume_is_not_undone_by_what_was_seen_before() {
    let world = World::new(400).await;
    world.batch(5).await;
    let (stored, _) = world.stored().await;
    assert!(stored.paused.is_some());
    world.control.table.put_destination(&destination(3, &json!({})), 2).await.unwrap();
    let (_, tally) = world.batch(2).await;
    let (stored, rejections) = world.stored().await;
    assert_eq!((tally.dead, stored.paused), (2, None));
    let rejections = rejections.unwrap();
    assert_eq!((rejections.destination_version, rejections.results.to_string().as_str()), (3, "xx"));
}

#[tokio::test]
async fn a_batch_is_answered_though_nothing_can_be_noted() {
    let world = World::new(400).await;
    world.control.before_notes.lock().unwrap().push_back(Rival::Outage);
    let (failures, tally) = world.batch(5).await;
    assert_eq!((failures, tally.dead, tally.failed, tally.paused.len()), (0, 5, 0, 0));
    assert_eq!(world.stored().await.1, None);
}

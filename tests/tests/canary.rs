//! A canary over the in-memory ports: schedule stores it and leaves it to dispatch, inspect tells how far it has come.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::time::Duration;

use punctual_adapters::memory::{MemoryControl, MemoryLedger, MemoryQueue};
use punctual_core::canary::{Report, Stage, Verdict};
use punctual_core::destination::{Change, Destination};
use punctual_core::id::{Correlation, DestinationId};
use punctual_core::ports::{Control as _, Ledger as _};
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_dispatch::Dispatch;
use punctual_flows::release::Rules;
use punctual_inspect::Inspect;
use punctual_schedule::Schedule;
use punctual_schedule::result::{Answer, Response};
use punctual_tests::load::clock::{Clock, Invocation};
use serde_json::value::RawValue;
use serde_json::{Value, json};

const TICK: Duration = Duration::from_secs(60);
const MARGIN: Duration = Duration::from_secs(10);
const RULES: Rules = Rules { horizon: Duration::from_secs(150), lease: Duration::from_secs(30) };

fn start() -> Timestamp {
    "2026-12-01T09:00:00Z".parse().unwrap()
}

struct World {
    ledger: MemoryLedger,
    control: MemoryControl,
    queue: MemoryQueue,
    letters: punctual_adapters::memory::MemoryDeadLetters,
    clock: Clock,
}

impl World {
    async fn new() -> Self {
        let spec = json!({"id": "canary", "url": "https://canary.example.com/", "secrets": ["punctual/prod/canary"]});
        let changed = Change { at: start(), by: "ops".into(), why: "test".into() };
        let destination = Destination { spec: serde_json::from_value(spec).unwrap(), version: 1, paused: None, changed };
        let world = Self {
            ledger: MemoryLedger::default(),
            control: MemoryControl::default(),
            queue: MemoryQueue::new(start()),
            letters: punctual_adapters::memory::MemoryDeadLetters::default(),
            clock: Clock::new(start()),
        };
        world.control.put_destination(&destination, 0).await.unwrap();
        world
    }

    /// The same world, so many seconds after its begin.
    fn later(&mut self, seconds: u64) {
        self.clock = Clock::new(start().plus(Duration::from_secs(seconds)));
    }

    async fn send(&self, event: Value) -> Response {
        let schedule = Schedule {
            ledger: &self.ledger,
            control: &self.control,
            queue: &self.queue,
            time: &Invocation::begin(&self.clock, TICK),
            rules: RULES,
            tick: TICK,
            margin: MARGIN,
            by: Correlation::of_request("test"),
        };
        schedule.handle(&RawValue::from_string(event.to_string()).unwrap()).await.unwrap()
    }

    async fn dispatch(&self) {
        let dispatch = Dispatch {
            ledger: &self.ledger,
            control: &self.control,
            queue: &self.queue,
            dead_letters: &self.letters,
            time: &Invocation::begin(&self.clock, TICK),
            rules: RULES,
            tick: TICK,
            margin: MARGIN,
            handoff_threshold: TICK * 2,
            by: Correlation::of_request("tick"),
        };
        dispatch.run().await.unwrap();
    }

    async fn ask(&self, event: Value) -> punctual_inspect::Response {
        let time = Invocation::begin(&self.clock, TICK);
        let (ledger, control, letters) = (&self.ledger, &self.control, &self.letters);
        let inspect = Inspect { ledger, control, letters, time: &time, margin: MARGIN, tick: TICK };
        inspect.handle(&RawValue::from_string(event.to_string()).unwrap()).await.unwrap()
    }

    async fn report(&self, run: &str) -> Report {
        let answer = self.ask(json!({"action": "canary", "destination_id": "canary", "run": run})).await;
        assert!(answer.ok && !answer.text.is_empty(), "{answer:?}");
        answer.canary.unwrap()
    }
}

fn canary(run: &str) -> Value {
    json!({"action": "canary", "destination_id": "canary", "run": run})
}

#[tokio::test]
async fn dispatch_must_take_it_and_the_same_run_is_the_same_canary() {
    let mut world = World::new().await;
    assert_eq!(world.report("r1").await.stage, Some(Stage::Schedule), "it was not sent");

    let sent = world.send(canary("r1")).await;
    assert!(sent.ok && sent.results[0].answer == Answer::Created, "{sent:?}");
    assert_eq!(serde_json::to_value(sent.released).unwrap()["published"], 0, "a stage is left out");
    let id = sent.results[0].delivery_id.clone().unwrap();
    let row = world.ledger.read_one(&id).await.unwrap().unwrap();
    assert_eq!((row.state, row.deliver_after), (State::Scheduled, start()));
    assert_eq!(row.deliver_by, start().plus(Duration::from_secs(600)));
    let payload = world.ledger.payload(&id, &row.content).await.unwrap().unwrap();
    let body: Value = serde_json::from_slice(&payload.body).unwrap();
    assert_eq!((body["canary"].as_bool(), body["run"].as_str()), (Some(true), Some("r1")));

    world.later(30);
    let again = world.send(canary("r1")).await;
    assert!(again.ok && again.results[0].answer == Answer::Unchanged, "{again:?}");
    assert_eq!(again.canary, sent.canary);
    assert_eq!(world.ledger.rows().len(), 1);

    let asked = sent.canary.unwrap().ask_inspect;
    let report = world.ask(asked).await.canary.unwrap();
    assert_eq!((report.verdict, report.stage), (Verdict::Waiting, Some(Stage::Dispatch)), "{report:?}");
    world.dispatch().await;
    let report = world.report("r1").await;
    assert_eq!((report.verdict, report.stage), (Verdict::Waiting, Some(Stage::Deliver)), "{report:?}");
    assert_eq!(report.stages.len(), 3);
    world.later(90);
    let report = world.report("r1").await;
    assert_eq!((report.verdict, report.stage), (Verdict::Broken, Some(Stage::Deliver)), "{report:?}");
}

#[tokio::test]
async fn without_a_name_the_instant_is_the_run() {
    let world = World::new().await;
    let sent = world.send(json!({"action": "canary", "destination_id": "canary", "within_seconds": 60})).await;
    assert!(sent.ok, "{sent:?}");
    assert_eq!(sent.canary.unwrap().run.as_str(), "2026-12-01T09:00:00.000Z");
    assert_eq!(sent.results[0].deliver_by, Some(start().plus(Duration::from_secs(60))));
}

#[tokio::test]
async fn errors_name_the_canarys_own_fields() {
    let world = World::new().await;
    let wrong = |event: Value| async {
        let answer = world.send(event).await;
        assert!(!answer.ok && answer.results.is_empty() && answer.canary.is_none(), "{answer:?}");
        let error = answer.errors.into_iter().next().unwrap();
        (error.code, error.field)
    };
    let cases = [
        (json!({"action": "canary", "destination_id": "nowhere"}), ("unknown_destination", "destination_id")),
        (json!({"action": "canary"}), ("missing_field", "destination_id")),
        (json!({"action": "canary", "destination_id": "canary", "within_seconds": 59}), ("out_of_bounds", "within_seconds")),
        (json!({"action": "canary", "destination_id": "canary", "within_seconds": 3_601}), ("out_of_bounds", "within_seconds")),
        (json!({"action": "canary", "destination_id": "canary", "run": "two words"}), ("invalid_field", "run")),
        (json!({"action": "canary", "destination_id": "canary", "run": "x".repeat(25)}), ("invalid_field", "run")),
        (json!({"action": "canary", "destination_id": "canary", "dry": true}), ("unknown_field", "dry")),
    ];
    for (event, (code, field)) in cases {
        assert_eq!(wrong(event.clone()).await, (code, field.to_owned()), "{event}");
    }
    assert_eq!(world.ledger.rows(), []);
    let long = DestinationId::new("d".repeat(DestinationId::MAX)).unwrap();
    let run = "r".repeat(24);
    for (event, field) in [
        (json!({"action": "canary", "destination_id": "canary"}), "run"),
        (json!({"action": "canary", "destination_id": "canary", "run": "r", "patience_seconds": 0}), "patience_seconds"),
    ] {
        let answer = world.ask(event).await;
        assert_eq!(answer.errors[0].field, field);
    }
    // The longest names fit.
    let spec = json!({"id": long, "url": "https://canary.example.com/", "secrets": ["punctual/prod/canary"]});
    let changed = Change { at: start(), by: "ops".into(), why: "test".into() };
    let destination = Destination { spec: serde_json::from_value(spec).unwrap(), version: 1, paused: None, changed };
    world.control.put_destination(&destination, 0).await.unwrap();
    let sent = world.send(json!({"action": "canary", "destination_id": long, "run": run})).await;
    assert!(sent.ok, "{sent:?}");
}

//! I do what operators do, cancels in every state above all: operate over the in-memory ports, at instants of my choice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::sync::Mutex;
use std::time::Duration;

use punctual_adapters::memory::{MemoryControl, MemoryLedger, MemoryTicks};
use punctual_core::attempt::{Answer, Attempt};
use punctual_core::breaker::{Gate, Open, Reach};
use punctual_core::clock::{ClockError, Now};
use punctual_core::delivery::{Cancel, Delivery, Hold, NewDelivery, Payload};
use punctual_core::destination::StageRules;
use punctual_core::explain::{Whither, explain};
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Owner, Reference};
use punctual_core::operation::{Operation, Outcome};
use punctual_core::ports::{Control as _, Ledger as _, Operations as _, Time};
use punctual_core::reason::Reason;
use punctual_core::settings::RetryMode;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_operate::{Operate, Response};
use serde_json::value::RawValue;
use serde_json::{Value, json};

const MARGIN: Duration = Duration::from_secs(10);

fn at(minute: i64) -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000 + minute * 60_000)
}

/// A clock that stands where it is put.
struct Standing(Mutex<Timestamp>);

impl Time for Standing {
    fn now(&self) -> Result<Now, ClockError> {
        Ok(Now::exactly(*self.0.lock().unwrap()))
    }

    fn time_left(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn wait_until(&self, at: Timestamp) -> Result<Now, ClockError> {
        Ok(Now::exactly(at))
    }

    async fn pause(&self, _how_long: Duration) {}

    fn random(&self) -> f64 {
        0.5
    }

    fn unique(&self) -> String {
        "owner".to_owned()
    }
}

struct World {
    ledger: MemoryLedger,
    control: MemoryControl,
    ticks: MemoryTicks,
    time: Standing,
}

impl World {
    /// A ledger with one row.
    async fn with(row: &Delivery) -> Self {
        let world = Self {
            ledger: MemoryLedger::default(),
            control: MemoryControl::default(),
            ticks: MemoryTicks::default(),
            time: Standing(Mutex::new(at(20))),
        };
        let parts = IdentityParts {
            tenant: "acme".into(),
            subscriber: "s".into(),
            renewal_period: "2027".into(),
            reminder_kind: "first".into(),
        };
        let payload = Payload { body: b"{}".to_vec(), parts, deliver_after: row.deliver_after, deliver_by: row.deliver_by };
        world.ledger.create(row, &payload).await.unwrap();
        world
    }

    async fn cancel(&self, minute: i64) -> Response {
        *self.time.0.lock().unwrap() = at(minute);
        self.operate(json!({"action": "cancel", "by": "ann", "why": "case 7", "evidence": "a test", "delivery_id": "dlv_x"}))
            .await
    }

    async fn operate(&self, event: Value) -> Response {
        let rules = StageRules { allow_local: false, secret_prefix: "punctual/test/".into() };
        let operate = Operate {
            ledger: &self.ledger,
            control: &self.control,
            ticks: &self.ticks,
            time: &self.time,
            rules: &rules,
            margin: MARGIN,
            by: Correlation::of_request("test"),
        };
        operate.handle(&RawValue::from_string(event.to_string()).unwrap()).await.unwrap()
    }

    fn row(&self) -> Delivery {
        self.ledger.rows().remove(0)
    }
}

fn row(state: State) -> Delivery {
    let id = DeliveryId::new("dlv_x").unwrap();
    Delivery {
        state,
        version: 7,
        ..Delivery::new(
            NewDelivery {
                idempotency_key: IdempotencyKey::from(&id),
                reference: Reference::new("c-1").unwrap(),
                destination: DestinationId::new("crm").unwrap(),
                shard: 0,
                content: Content::new("abc").unwrap(),
                deliver_after: at(10),
                deliver_by: at(60),
                id,
            },
            at(0),
            Correlation::new("test").unwrap(),
        )
    }
}

fn delivering() -> Delivery {
    Delivery { lease_owner: Owner::new("o1").ok(), lease_until: Some(at(30)), ..row(State::Delivering) }
}

fn told(row: &Delivery) -> (String, Vec<&'static str>) {
    let explained = explain(row, None, Whither::default(), MARGIN, Now::exactly(at(40)));
    (explained.why, explained.allowed)
}

#[tokio::test]
async fn a_cancel_is_on_the_row_and_the_second_one_changes_nothing() {
    for state in [State::Scheduled, State::Dispatching, State::Queued, State::Deferred, State::Dead, State::Expired] {
        assert!(told(&row(state)).1.contains(&"cancel"), "{state}");
        let world = World::with(&row(state)).await;
        let answer = world.cancel(20).await;
        assert_eq!((answer.ok, answer.version, answer.may_have_been_delivered), (true, Some(8), false), "{state}: {answer:?}");
        let cancelled = world.row();
        assert_eq!((cancelled.state, cancelled.wake_at), (State::Cancelled, None), "{state}");
        assert_eq!(cancelled.cancel, Some(Cancel { since: at(20), by: "ann".into(), why: "case 7".into() }));
        let (why, allowed) = told(&cancelled);
        assert_eq!(why, format!("ann cancelled it at {}: case 7. Nothing will be sent.", at(20)));
        assert!(allowed.is_empty(), "{allowed:?}");

        let again = world.cancel(21).await;
        assert_eq!((again.ok, again.did.as_str()), (true, "nothing: it was cancelled already"));
        assert_eq!(world.row(), cancelled, "{state}: the first cancel stands");
    }
}

#[tokio::test]
async fn a_call_under_way_is_named_and_nothing_is_promised() {
    let world = World::with(&delivering()).await;
    let answer = world.cancel(29).await;
    assert_eq!((answer.ok, answer.errors[0].code, answer.errors[0].field.as_str()), (false, "in_flight", "delivery_id"));
    assert!(answer.errors[0].message.contains("attempt 1") && answer.errors[0].message.contains(&at(30).to_string()));
    let in_flight = answer.in_flight.unwrap();
    assert_eq!((in_flight.attempt, in_flight.lease_until), (1, Some(at(30))));
    assert_eq!(world.row(), delivering());

    // The lease has surely ended: the attempt is closed as unknown in the same write, and the answer says so.
    let answer = world.cancel(30).await;
    assert_eq!((answer.ok, answer.may_have_been_delivered, answer.in_flight), (true, true, None), "{answer:?}");
    assert_eq!(world.row().attempts[0].answer, Answer::Unknown);
    assert!(told(&world.row()).0.ends_with("A call before it may have had its effect."), "{:?}", told(&world.row()));
    assert!(world.cancel(31).await.may_have_been_delivered, "said again");
}

#[tokio::test]
async fn a_known_success_is_not_taken_back() {
    let won = Delivery { late_success: Some(1), ..delivering() };
    let world = World::with(&won).await;
    let answer = world.cancel(40).await;
    assert_eq!((answer.ok, answer.errors[0].code), (false, "in_flight"));
    assert!(answer.errors[0].message.contains("attempt 1 was"), "{answer:?}");
    assert!(!told(&won).1.contains(&"cancel"));
    for (state, code) in [(State::Delivered, "already_delivered"), (State::Shadowed, "already_shadowed")] {
        let world = World::with(&row(state)).await;
        let answer = world.cancel(20).await;
        assert_eq!((answer.ok, answer.errors[0].code, answer.did.as_str()), (false, code, "nothing"));
        assert_eq!(world.row(), row(state));
        assert!(told(&row(state)).1.is_empty());
    }
}

#[tokio::test]
async fn a_lost_answer_is_told() {
    for (reason, answer, may) in [
        (Reason::Timeout, Answer::Error, true),
        (Reason::ConnectionCut, Answer::Error, true),
        (Reason::ConnectFailed, Answer::Error, false),
        (Reason::ServerError, Answer::Status(504), true),
        (Reason::InProgress, Answer::Status(409), true),
        (Reason::RateLimited, Answer::Status(429), false),
        (Reason::OutcomeUnknown, Answer::Unknown, true),
        (Reason::OutcomeUnknown, Answer::Shadow, false),
    ] {
        let took = Duration::from_millis(5);
        let attempt =
            Attempt { number: 1, started_at: at(10), took, answer, reason, destination_version: 1, key_ids: "k".into() };
        let world = World::with(&Delivery { attempts: vec![attempt], ..row(State::Deferred) }).await;
        assert_eq!(world.cancel(20).await.may_have_been_delivered, may, "{reason}");
    }
}

/// Whoever has put a receiver right need not wait for the next probe of its breaker.
#[tokio::test]
async fn a_changed_destination_is_probed_at_once() {
    let world = World::with(&row(State::Scheduled)).await;
    let put = |url: &str| {
        let destination = json!({"id": "crm", "url": url, "secrets": ["punctual/test/key"]});
        json!({"action": "put_destination", "by": "ann", "why": "new", "evidence": "a test", "destination": destination})
    };
    assert!(world.operate(put("https://old.example.com/hook")).await.ok);
    let id = DestinationId::new("crm").unwrap();
    let by = Correlation::new("deliver").unwrap();
    let open = Open { since: at(19), probe_at: at(24), probes: 3, probe: None };
    let reach = Reach { version: 1, silent: 3, open: Some(open), ..Reach::unproven(by) };
    world.control.note_reach(&id, &reach).await.unwrap();

    let same = world.operate(put("https://old.example.com/hook")).await;
    assert!(same.did.starts_with("nothing"), "{}", same.did);
    let stored = || async { world.control.reaches().await.unwrap().remove(0).1 };
    assert_eq!(stored().await.gate(Now::exactly(at(20))), Gate::OpenUntil(at(24)));

    let changed = world.operate(put("https://new.example.com/hook")).await;
    assert!(changed.did.ends_with("the next dispatch run sends a probe"), "{}", changed.did);
    assert_eq!(stored().await.gate(Now::exactly(at(20))), Gate::MayProbe);
}

fn asked(action: &str, more: Value) -> Value {
    let mut event = json!({"action": action, "by": "ann", "why": "case 7", "evidence": "OPS-7"});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

/// A world whose destination is registered.
async fn registered(row: &Delivery) -> World {
    let world = World::with(row).await;
    let destination = json!({"id": "crm", "url": "https://hooks.example.com/r", "secrets": ["punctual/test/key"]});
    assert!(world.operate(asked("put_destination", json!({"destination": destination}))).await.ok);
    world
}

impl World {
    fn set(&self, minute: i64) {
        *self.time.0.lock().unwrap() = at(minute);
    }

    async fn operations(&self) -> Vec<Operation> {
        self.control.operations(None, 100).await.unwrap().operations
    }
}

fn dead() -> Delivery {
    Delivery { death: 1, dlq_sent: 1, wake_at: None, reason: Some(Reason::Rejected), ..row(State::Dead) }
}

#[tokio::test]
async fn a_requeue_grants_by_name_and_keeps_the_deadline_that_can_be_kept() {
    let world = registered(&dead()).await;
    let requeue = |more: Value| {
        let mut event = asked("requeue", json!({"delivery_id": "dlv_x", "attempts": 2}));
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let answer = world.operate(requeue(json!({"deliver_by": at(300)}))).await;
    assert!(answer.ok && answer.did.contains("2 attempts granted, its deadline stays"), "{answer:?}");
    assert!(answer.did_not.contains("dead letter"), "{answer:?}");
    let back = world.row();
    assert_eq!((back.state, back.granted, back.deliver_by, back.death), (State::Scheduled, 2, at(60), 1));
    assert_eq!(back.redrives[0].owner, "ann");
    let again = world.operate(requeue(json!({}))).await;
    assert_eq!((again.ok, again.errors[0].code, again.did.as_str()), (false, "not_dead", "nothing"));

    // Its deadline cannot be kept: only a new one brings it back.
    let late = registered(&Delivery { reason: Some(Reason::DeadlinePassed), state: State::Expired, ..dead() }).await;
    late.set(61);
    let refused = late.operate(requeue(json!({}))).await;
    assert_eq!((refused.errors[0].code, refused.errors[0].field.as_str()), ("deadline_unreachable", "deliver_by"));
    assert_eq!(late.row().state, State::Expired);
    assert!(!late.operate(requeue(json!({"deliver_by": at(61)}))).await.ok, "no time for a call");
    let answer = late.operate(requeue(json!({"deliver_by": at(300)}))).await;
    assert!(answer.ok && answer.did.contains(&format!("its deadline was {} and is {}", at(60), at(300))), "{answer:?}");
    assert_eq!((late.row().deliver_by, late.row().redrives[0].deadline_was), (at(300), Some(at(60))));

    for (attempts, code) in [(0, "out_of_bounds"), (101, "out_of_bounds")] {
        let answer = late.operate(requeue(json!({"attempts": attempts}))).await;
        assert_eq!((answer.errors[0].code, answer.errors[0].field.as_str()), (code, "attempts"));
    }
    let held = Hold { since: at(1), by: "bob".into(), why: "asked".into() };
    let held = registered(&Delivery { hold: Some(held), ..dead() }).await;
    assert_eq!(held.operate(requeue(json!({}))).await.errors[0].code, "held");
    assert_eq!(held.row().state, State::Dead);
}

#[tokio::test]
async fn a_lease_is_taken_back_once_it_has_surely_ended() {
    let ask = asked("release_lease", json!({"delivery_id": "dlv_x"}));
    let world = registered(&delivering()).await;
    world.set(29);
    let refused = world.operate(ask.clone()).await;
    assert_eq!((refused.ok, refused.errors[0].code), (false, "in_flight"), "{refused:?}");
    assert_eq!(refused.in_flight.unwrap().lease_until, Some(at(30)));
    assert_eq!(world.row(), delivering());
    world.set(30);
    let answer = world.operate(ask.clone()).await;
    assert!(answer.ok && answer.may_have_been_delivered && answer.did.ends_with("it is scheduled now"), "{answer:?}");
    let back = world.row();
    assert_eq!((back.state, back.reason, back.attempts.len()), (State::Scheduled, Some(Reason::OutcomeUnknown), 1));
    assert_eq!(back.wake_at, Some(at(30)), "the next run takes it");
    assert_eq!(world.operate(ask.clone()).await.errors[0].code, "no_lease");

    let dispatching = Delivery { held_until: Some(at(30)), lease_owner: Owner::new("o1").ok(), ..row(State::Dispatching) };
    let world = registered(&dispatching).await;
    world.set(29);
    assert_eq!(world.operate(ask.clone()).await.errors[0].code, "in_flight");
    world.set(30);
    let answer = world.operate(ask.clone()).await;
    assert!(answer.ok && !answer.may_have_been_delivered, "{answer:?}");
    let back = world.row();
    assert_eq!((back.state, back.reason, back.attempts.len()), (State::Scheduled, Some(Reason::LeaseEnded), 0));

    let won = registered(&Delivery { late_success: Some(1), ..delivering() }).await;
    won.set(31);
    let answer = won.operate(ask).await;
    assert!(answer.ok && !answer.may_have_been_delivered, "{answer:?}");
    assert_eq!((won.row().state, won.row().reason), (State::Delivered, Some(Reason::LateEvidence)));
}

#[tokio::test]
async fn the_stages_switches_say_what_they_did() {
    let world = World::with(&row(State::Scheduled)).await;
    let settings = async || world.control.lookup(&[]).await.unwrap().1;
    for (mode, expected, did) in [
        ("dead_letter", RetryMode::DeadLetter, "switched the kill switch on"),
        ("dead_letter", RetryMode::DeadLetter, "nothing: "),
        ("retry", RetryMode::Retry, "switched the kill switch off"),
    ] {
        let answer = world.operate(asked("retry_mode", json!({"mode": mode}))).await;
        assert!(answer.ok && answer.did.starts_with(did) && answer.version.is_none(), "{answer:?}");
        assert_eq!(settings().await.retry_mode, expected);
        assert_eq!(answer.did_not.is_empty(), did.starts_with("nothing"), "{answer:?}");
    }
    let wrong = world.operate(asked("retry_mode", json!({"mode": "off"}))).await;
    assert_eq!((wrong.errors[0].code, wrong.errors[0].field.as_str()), ("invalid_field", "mode"));

    for (action, on, did) in [
        ("pause_dispatch", false, "switched dispatch's schedule off"),
        ("pause_dispatch", false, "nothing: "),
        ("resume_dispatch", true, "switched dispatch's schedule on"),
        ("resume_dispatch", true, "nothing: "),
    ] {
        world.set(if did.starts_with("nothing") { 25 } else { 20 });
        let answer = world.operate(asked(action, json!({}))).await;
        assert!(answer.ok && answer.did.starts_with(did), "{answer:?}");
        assert_eq!(world.ticks.is_on(), on);
        // The note keeps the first instant.
        assert_eq!(settings().await.dispatch_paused, (!on).then_some(at(20)));
    }
}

#[tokio::test]
async fn every_operation_is_recorded_with_its_evidence_and_what_came_of_it() {
    let world = World::with(&dead()).await;
    for field in ["by", "why", "evidence"] {
        for value in [json!(" "), json!("x".repeat(257))] {
            let answer = world.operate(asked("pause_dispatch", json!({field: value}))).await;
            assert_eq!((answer.errors[0].code, answer.errors[0].field.as_str()), ("out_of_bounds", field));
        }
    }
    assert_eq!(world.operations().await, [], "what could not be read is not recorded");
    assert!(world.ticks.is_on());

    world.set(21);
    world.operate(asked("hold", json!({"delivery_id": "dlv_x"}))).await;
    world.set(22);
    world.operate(asked("pause", json!({"destination_id": "nowhere"}))).await;
    world.set(23);
    world.operate(asked("pause_dispatch", json!({}))).await;
    let told = world.operations().await;
    let short: Vec<_> = told.iter().map(|o| (o.at, o.action.as_str(), o.target.as_str(), o.outcome)).collect();
    assert_eq!(
        short,
        [
            (at(23), "pause_dispatch", "stage", Outcome::Done),
            (at(22), "pause", "destination nowhere", Outcome::Refused),
            (at(21), "hold", "delivery dlv_x", Outcome::Done),
        ]
    );
    assert!(told.iter().all(|o| (o.by.as_str(), o.why.as_str(), o.evidence.as_str()) == ("ann", "case 7", "OPS-7")));
    assert!(told[1].did.contains("unknown_destination") && told[1].did_not.is_empty(), "{:?}", told[1]);
    assert!(told[2].did.starts_with("held delivery dlv_x") && !told[2].did_not.is_empty(), "{:?}", told[2]);
}

#[test]
fn no_action_goes_unsigned() {
    for action in punctual_operate::input::ACTIONS {
        let event = RawValue::from_string(json!({"action": action}).to_string()).unwrap();
        let errors = punctual_operate::input::read(&event).unwrap_err();
        assert_eq!((errors[0].code, errors[0].field.as_str()), ("missing_field", "by"), "{action}: {errors:?}");
    }
}

/// The old destination is overwritten: what was changed from what to what is in the record.
#[tokio::test]
async fn a_record_names_the_fields_that_were_replaced() {
    let world = registered(&dead()).await;
    let changed = json!({
        "id": "crm", "url": "https://hooks.example.com/new", "secrets": ["punctual/test/key"], "rate_per_second": 7
    });
    assert!(world.operate(asked("put_destination", json!({"destination": changed}))).await.ok);
    let records = world.operations().await;
    let told = "replaced destination crm, version 1: rate_per_second 50 to 7; \
                url \"https://hooks.example.com/r\" to \"https://hooks.example.com/new\"";
    assert!(records.iter().any(|one| one.did == told), "{records:?}");
}

//! Load in virtual time: the shipped dispatch and deliver on the memory adapters, ticks by the minute, consumers that take
//! batches of ten, and a receiver that counts. An hour takes seconds, and the same scenario always gives the same report.
//!
//! Only calls, pauses and polls take time here: the ledger, the control table and the queue answer at once.

pub mod clock;
pub mod receiver;
pub mod report;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use aws_lambda_events::event::sqs::SqsEvent;
use futures::executor::LocalPool;
use futures::task::LocalSpawnExt as _;
use punctual_adapters::memory::{MemoryControl, MemoryDeadLetters, MemoryLedger, MemoryQueue, Received};
use punctual_core::delivery::{Delivery, NewDelivery, Payload};
use punctual_core::destination::{Change, Destination};
use punctual_core::figures::Figures;
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Reference};
use punctual_core::ports::{Control as _, Created, Ledger as _, Stored};
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_deliver::Deliver;
use punctual_deliver::measure::Measure;
use punctual_dispatch::Dispatch;
use punctual_flows::release::Rules;
use punctual_monitor::{Memory, Monitor};
use serde_json::{Value, json};

use clock::{Clock, Invocation};
use receiver::{Behaviour, Receiver};
use report::{Report, Run};

use crate::environment::OneSecret;

const TICK: Duration = Duration::from_secs(60);
const RULES: Rules = Rules { horizon: Duration::from_secs(150), lease: Duration::from_secs(30) };
const MARGIN: Duration = Duration::from_secs(20);
const HANDOFF: Duration = Duration::from_secs(120);
const DISPATCH_TIMEOUT: Duration = Duration::from_secs(60);
const DELIVER_TIMEOUT: Duration = Duration::from_secs(30);
const VISIBILITY: Duration = Duration::from_secs(180);
/// How often an empty queue is asked.
const POLL: Duration = Duration::from_millis(100);
const BATCH: usize = 10;
const DESTINATION: &str = "acme";

/// What happens.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// When all deliveries are due.
    pub due: Timestamp,
    /// The deadline of each, in the order of creation, as a wait from `due`.
    pub windows: Vec<Duration>,
    /// Single fields of the destination, as an operator writes them.
    pub destination: Value,
    /// How many invocations of deliver there are at a time.
    pub consumers: usize,
    /// The receiver.
    pub receiver: Behaviour,
    /// So many deliveries more were due two ticks before the first one: the destination has proven itself. They are not
    /// in the report's rows.
    pub warm_up: usize,
    /// The first tick that counts comes so long before `due`; the others follow every minute.
    pub first_tick: Duration,
    /// What has not ended so long after `due` is reported as it is.
    pub give_up: Duration,
}

impl Scenario {
    /// Two ticks before the first one that counts.
    fn begin(&self) -> Timestamp {
        self.due.minus(self.first_tick + TICK * 2)
    }
}

/// What happens besides.
#[derive(Debug, Clone, Default)]
pub struct Besides {
    /// So long after `due` an operator writes these fields of the destination.
    pub changes: Vec<(Duration, Value)>,
    /// Monitor runs half a minute after every tick.
    pub monitored: bool,
}

struct World {
    clock: Clock,
    ledger: MemoryLedger,
    control: MemoryControl,
    queue: MemoryQueue,
    letters: MemoryDeadLetters,
    receiver: Receiver,
    over: AtomicBool,
    received: AtomicUsize,
}

/// Plays a scenario to its end.
///
/// # Errors
/// If the scenario's destination is no specification, or a run of dispatch fails as a whole.
pub fn play(scenario: &Scenario) -> Result<Report> {
    play_with(scenario, &Besides::default())
}

/// The same, with what happens besides.
///
/// # Errors
/// As [`play`]; or if a change makes no specification, or a run of monitor fails as a whole.
pub fn play_with(scenario: &Scenario, besides: &Besides) -> Result<Report> {
    let begin = scenario.begin();
    let clock = Clock::new(begin);
    let world = Arc::new(World {
        receiver: Receiver::new(clock.clone(), scenario.receiver.clone()),
        ledger: MemoryLedger::default(),
        control: MemoryControl::default(),
        queue: MemoryQueue::new(begin),
        letters: MemoryDeadLetters::default(),
        over: AtomicBool::new(false),
        received: AtomicUsize::new(0),
        clock,
    });
    let mut pool = LocalPool::new();
    pool.run_until(set_up(&world, scenario))?;

    let runs = Arc::new(std::sync::Mutex::new(Vec::new()));
    let failed = Arc::new(std::sync::Mutex::new(None));
    let spawner = pool.spawner();
    let (ticking, noted, error) = (world.clone(), runs.clone(), failed.clone());
    spawner.spawn_local(async move {
        while !ticking.over.load(Ordering::Relaxed) {
            match tick(&ticking).await {
                Ok(run) => noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(run),
                Err(e) => *error.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(e),
            }
            ticking.clock.pass(TICK).await;
        }
    })?;
    for n in 0..scenario.consumers {
        let world = world.clone();
        spawner.spawn_local(async move { consume(&world, n).await })?;
    }
    let looks = Arc::new(std::sync::Mutex::new(Vec::new()));
    if besides.monitored {
        let (world, looks, error) = (world.clone(), looks.clone(), failed.clone());
        spawner.spawn_local(async move {
            let memory = Memory::default();
            world.clock.pass(TICK / 2).await;
            while !world.over.load(Ordering::Relaxed) {
                match look(&world, &memory).await {
                    Ok(look) => looks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(look),
                    Err(e) => *error.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(e),
                }
                world.clock.pass(TICK).await;
            }
        })?;
    }
    for (after, fields) in &besides.changes {
        let (at, fields) = (scenario.due.plus(*after), fields.clone());
        let (world, error) = (world.clone(), failed.clone());
        spawner.spawn_local(async move {
            world.clock.until(at).await;
            if let Err(e) = change(&world, fields).await {
                *error.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(e);
            }
        })?;
    }

    let end = scenario.due.plus(scenario.give_up);
    let mut looked = begin;
    loop {
        pool.run_until_stalled();
        let Some(now) = world.clock.jump() else { break };
        world.queue.set_now(now);
        // All rows are looked through once a virtual second, not at every instant.
        if now >= looked.plus(Duration::from_secs(1)) {
            looked = now;
            if now >= end || world.ledger.all(|row| ended(row.state)) {
                break;
            }
        }
    }
    world.over.store(true, Ordering::Relaxed);
    if let Some(error) = failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
        return Err(error);
    }
    let runs = runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    Ok(Report {
        due: scenario.due,
        rows: world.ledger.rows().into_iter().filter(|row| row.deliver_after == scenario.due).collect(),
        calls: world.receiver.calls(),
        runs,
        looks: std::mem::take(&mut *looks.lock().unwrap_or_else(std::sync::PoisonError::into_inner)),
        received: world.received.load(Ordering::Relaxed),
    })
}

fn ended(state: State) -> bool {
    state.is_terminal() || state.needs_operator()
}

async fn set_up(world: &World, scenario: &Scenario) -> Result<()> {
    let mut spec = json!({"id": DESTINATION, "url": "https://receiver.invalid/hook", "secrets": ["punctual/load/key"]});
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, scenario.destination.clone()) {
        spec.extend(more);
    }
    let changed = Change { at: world.clock.instant(), by: "load".into(), why: "a scenario".into() };
    let destination = Destination { spec: serde_json::from_value(spec)?, version: 1, paused: None, changed };
    let shards = usize::from(destination.spec.shards);
    ensure!(world.control.put_destination(&destination, 0).await? == Stored::Done, "the destination is there already");
    let warm_up = std::iter::repeat_n((scenario.begin(), Duration::from_secs(3_600)), scenario.warm_up);
    let all = warm_up.chain(scenario.windows.iter().map(|window| (scenario.due, *window)));
    for (n, (deliver_after, window)) in all.enumerate() {
        let parts = IdentityParts {
            tenant: "acme".into(),
            subscriber: format!("s{n:05}"),
            renewal_period: "2027".into(),
            reminder_kind: "first".into(),
        };
        let (id, body) = (DeliveryId::derive(&parts), format!("{{\"n\":{n}}}").into_bytes());
        let deliver_by = deliver_after.plus(window);
        let new = NewDelivery {
            idempotency_key: IdempotencyKey::from(&id),
            reference: Reference::new(format!("c{n:05}"))?,
            destination: DestinationId::new(DESTINATION)?,
            shard: u16::try_from(n % shards.max(1))?,
            content: Content::of(&[&body]),
            deliver_after,
            deliver_by,
            id,
        };
        let row = Delivery::new(new, world.clock.instant(), Correlation::new("load")?);
        let payload = Payload { body, parts, deliver_after, deliver_by };
        ensure!(world.ledger.create(&row, &payload).await? == Created::New, "a delivery is there twice");
    }
    Ok(())
}

/// One run of dispatch.
async fn tick(world: &World) -> Result<Run> {
    let at = world.clock.instant();
    let dispatch = Dispatch {
        ledger: &world.ledger,
        control: &world.control,
        queue: &world.queue,
        dead_letters: &world.letters,
        time: &Invocation::begin(&world.clock, DISPATCH_TIMEOUT),
        rules: RULES,
        tick: TICK,
        margin: MARGIN,
        handoff_threshold: HANDOFF,
        by: Correlation::new("dispatch")?,
    };
    Ok(Run { at, summary: dispatch.run().await.context("a run of dispatch")? })
}

/// One run of monitor.
async fn look(world: &World, memory: &Memory) -> Result<Figures> {
    let monitor = Monitor {
        ledger: &world.ledger,
        control: &world.control,
        queue: &world.queue,
        dead_letters: &world.letters,
        time: &Invocation::begin(&world.clock, DISPATCH_TIMEOUT),
        memory,
        tick: TICK,
        margin: MARGIN,
        by: Correlation::new("monitor")?,
    };
    monitor.run().await.context("a run of monitor")
}

/// An operator changes fields of the destination.
async fn change(world: &World, fields: Value) -> Result<()> {
    let (found, _) = world.control.lookup(&[DestinationId::new(DESTINATION)?]).await?;
    let now = found.first().context("the destination")?;
    let mut spec = serde_json::to_value(&now.spec)?;
    if let (Value::Object(spec), Value::Object(fields)) = (&mut spec, fields) {
        spec.extend(fields);
    }
    let changed = Change { at: world.clock.instant(), by: "load".into(), why: "a scenario".into() };
    let next = Destination { spec: serde_json::from_value(spec)?, version: now.version + 1, changed, ..now.clone() };
    ensure!(world.control.put_destination(&next, now.version).await? == Stored::Done, "somebody else changed it");
    Ok(())
}

/// One execution environment of deliver with its poller.
async fn consume(world: &World, number: usize) {
    let measure = Measure::default();
    while !world.over.load(Ordering::Relaxed) {
        let received = world.queue.receive(BATCH, VISIBILITY);
        if received.is_empty() {
            world.clock.pass(POLL).await;
            continue;
        }
        world.received.fetch_add(received.len(), Ordering::Relaxed);
        let Ok(event) = serde_json::from_value::<SqsEvent>(event(&received)) else { return };
        let Ok(by) = Correlation::new(format!("deliver-{number}")) else { return };
        let deliver = Deliver {
            ledger: &world.ledger,
            control: &world.control,
            queue: &world.queue,
            dead_letters: &world.letters,
            secrets: &OneSecret,
            webhook: &world.receiver,
            time: &Invocation::begin(&world.clock, DELIVER_TIMEOUT),
            measure: &measure,
            margin: MARGIN,
            by,
        };
        let (response, _) = deliver.handle(&event).await;
        let kept: Vec<&str> = response.batch_item_failures.iter().map(|item| item.item_identifier.as_str()).collect();
        let done = received.iter().filter(|message| !kept.contains(&message.id.as_str()));
        done.for_each(|message| world.queue.delete(&message.receipt));
    }
}

/// A batch as Lambda hands it over.
#[must_use]
pub fn event(received: &[Received]) -> Value {
    let record = |message: &Received| {
        json!({
            "messageId": message.id.as_str(),
            "receiptHandle": message.receipt,
            "body": message.body,
            "attributes": {
                "ApproximateReceiveCount": message.receives.to_string(),
                "ApproximateFirstReceiveTimestamp": message.first_received_at.as_millis().to_string(),
            },
            "messageAttributes": {},
            "eventSource": "aws:sqs",
        })
    };
    json!({ "Records": received.iter().map(record).collect::<Vec<_>>() })
}

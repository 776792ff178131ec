//! I measure how 12,000 deliveries drain that are due at once, on dynoxide and in real time: the shipped dispatch with a tick
//! a minute, eight consumers, and a receiver in this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use aws_lambda_events::event::sqs::SqsEvent;
use futures::future::join_all;
use futures::{StreamExt as _, TryStreamExt as _};
use punctual_adapters::clock::machine_time;
use punctual_adapters::memory::{MemoryDeadLetters, MemoryQueue};
use punctual_core::delivery::{Delivery, NewDelivery, Payload};
use punctual_core::destination::{Change, Destination};
use punctual_core::id::{Content, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, MessageId, Reference};
use punctual_core::outcome::CallResult;
use punctual_core::ports::{Created, Ledger as _, Outgoing, PortError, Queue, Request, Webhook};
use punctual_core::time::Timestamp;
use punctual_deliver::Deliver;
use punctual_deliver::measure::Measure;
use punctual_dispatch::Dispatch;
use serde_json::json;

use super::world::{BATCH, Longest, World};

/// How many.
const DELIVERIES: u32 = 12_000;
const RATE: u32 = 100;
/// Those that prove the destination beforehand.
const WARM_UP: u32 = 100;
/// Every twentieth has a near deadline.
const EVERY: u32 = 20;
const NEAR: Duration = Duration::from_secs(60);
const FAR: Duration = Duration::from_secs(3_600);
const CONSUMERS: usize = 8;
const LATENCY: Duration = Duration::from_millis(50);
const DISPATCH_TIMEOUT: Duration = Duration::from_secs(60);
const DELIVER_TIMEOUT: Duration = Duration::from_secs(30);
const VISIBILITY: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);
/// The first tick comes so long before the due time.
const FIRST_TICK: Duration = Duration::from_secs(10);
/// What is not accepted so long after the due time is not waited for.
const GIVE_UP: Duration = Duration::from_secs(180);

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Admission {
    /// From the due time to the last accepted call.
    pub seconds: f64,
    /// Write units of the ledger per delivery, its creation included, and marks that came after deliver's claim: they are
    /// refused, and billed all the same.
    pub write_units: f64,
    /// Messages received per delivery.
    pub receives: f64,
    /// The most calls that began within any one second.
    pub fullest_second: f64,
    /// How many were not accepted by their deadline.
    pub missed: f64,
}

/// The queue in memory, by this machine's clock.
#[derive(Debug)]
struct TimedQueue(MemoryQueue);

impl TimedQueue {
    fn now(&self) -> &MemoryQueue {
        self.0.set_now(machine_time());
        &self.0
    }
}

impl Queue for TimedQueue {
    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<MessageId, PortError>> {
        self.now().publish(messages).await
    }

    async fn hide(&self, receipt: &str, seconds: u32) -> Result<(), PortError> {
        self.now().hide(receipt, seconds).await
    }
}

/// A receiver that accepts every call after a moment, and remembers when it began and when it ended.
#[derive(Debug, Default)]
struct Counting {
    began: Mutex<Vec<Timestamp>>,
    accepted: Mutex<BTreeMap<String, Timestamp>>,
}

impl Webhook for Counting {
    async fn call(&self, request: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        if !may_start() {
            return CallResult::not_called();
        }
        self.began.lock().unwrap_or_else(PoisonError::into_inner).push(machine_time());
        tokio::time::sleep(LATENCY).await;
        let key = request.headers.iter().find(|(name, _)| *name == "idempotency-key").map(|(_, value)| value.clone());
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.entry(key.unwrap_or_default()).or_insert_with(machine_time);
        CallResult::Answered { status: 200, retry_after: None }
    }
}

impl Counting {
    fn accepted(&self) -> usize {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

struct Stage {
    world: World,
    queue: TimedQueue,
    letters: MemoryDeadLetters,
    receiver: Counting,
    received: AtomicUsize,
    over: AtomicBool,
}

/// Stores [`DELIVERIES`] that are all due at one instant, and lets them drain.
///
/// # Errors
/// If they cannot be stored, or a run of dispatch fails as a whole.
pub async fn measure() -> Result<Admission> {
    let world = World::start().await?;
    world.put_destination(&destination()?).await?;
    world.forget();
    let stage = Stage {
        world,
        queue: TimedQueue(MemoryQueue::new(machine_time())),
        letters: MemoryDeadLetters::default(),
        receiver: Counting::default(),
        received: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    };
    let begin = machine_time();
    stage.store(0..WARM_UP, begin, |_| FAR).await?;
    // All must be stored before the first tick: as fast as those just now, or half as fast.
    let storing = machine_time().since(begin) * (DELIVERIES / WARM_UP) * 2;
    let due = machine_time().plus(storing.max(Duration::from_secs(5)) + FIRST_TICK);
    let window = |n: u32| if n % EVERY == 7 { NEAR } else { FAR };
    let drain = async {
        stage.tick().await?;
        stage.store(WARM_UP..WARM_UP + DELIVERIES, due, window).await?;
        ensure!(machine_time() < due.minus(FIRST_TICK), "this machine is too busy to store everything in time");
        until(due.minus(FIRST_TICK)).await;
        let mut next = due.minus(FIRST_TICK);
        while !stage.over.load(Ordering::Relaxed) {
            stage.tick().await?;
            next = next.plus(stage.world.tick);
            stage.until_over(next, due.plus(GIVE_UP)).await?;
        }
        anyhow::Ok(())
    };
    let consumers = join_all((0..CONSUMERS).map(|_| stage.consume()));
    let (drained, consumed) = futures::join!(
        async {
            let drained = drain.await;
            // However it ended, nobody waits for more.
            stage.over.store(true, Ordering::Relaxed);
            drained
        },
        consumers
    );
    drained?;
    consumed.into_iter().collect::<Result<Vec<()>>>()?;
    stage.figures(due, window)
}

impl Stage {
    async fn store(&self, numbers: std::ops::Range<u32>, due: Timestamp, window: impl Fn(u32) -> Duration) -> Result<()> {
        let ledger = self.world.ledger();
        let (ledger, window) = (&ledger, &window);
        futures::stream::iter(numbers)
            .map(|n| async move {
                let (row, payload) = delivery(n, due, due.plus(window(n)))?;
                ensure!(ledger.create(&row, &payload).await? == Created::New, "delivery {n} is there already");
                Ok(())
            })
            .buffer_unordered(32)
            .try_collect()
            .await
    }

    async fn tick(&self) -> Result<()> {
        let world = &self.world;
        let (ledger, control, time) = (world.ledger(), world.control(), world.time_for(DISPATCH_TIMEOUT));
        let dispatch = Dispatch {
            ledger: &ledger,
            control: &control,
            queue: &self.queue,
            dead_letters: &self.letters,
            time: &time,
            rules: world.rules,
            tick: world.tick,
            margin: world.margin,
            handoff_threshold: world.handoff_threshold,
            by: World::by()?,
        };
        let summary = dispatch.run().await?;
        println!("    {} {}", machine_time(), serde_json::to_string(&summary)?);
        Ok(())
    }

    /// Waits for an instant, or until everything is accepted or given up.
    async fn until_over(&self, at: Timestamp, give_up: Timestamp) -> Result<()> {
        let all = usize::try_from(WARM_UP + DELIVERIES)?;
        while machine_time() < at {
            if self.receiver.accepted() >= all || machine_time() >= give_up {
                self.over.store(true, Ordering::Relaxed);
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    async fn consume(&self) -> Result<()> {
        let measure = Measure::default();
        while !self.over.load(Ordering::Relaxed) {
            let received = self.queue.now().receive(BATCH, VISIBILITY);
            if received.is_empty() {
                tokio::time::sleep(POLL).await;
                continue;
            }
            self.received.fetch_add(received.len(), Ordering::Relaxed);
            let event: SqsEvent = serde_json::from_value(crate::load::event(&received))?;
            let world = &self.world;
            let (ledger, control, time) = (world.ledger(), world.control(), world.time_for(DELIVER_TIMEOUT));
            let deliver = Deliver {
                ledger: &ledger,
                control: &control,
                queue: &self.queue,
                dead_letters: &self.letters,
                secrets: &Longest,
                webhook: &self.receiver,
                time: &time,
                measure: &measure,
                margin: world.margin,
                by: World::by()?,
            };
            let (response, _) = deliver.handle(&event).await;
            let kept: Vec<&str> = response.batch_item_failures.iter().map(|item| item.item_identifier.as_str()).collect();
            let done = received.iter().filter(|message| !kept.contains(&message.id.as_str()));
            done.for_each(|message| self.queue.0.delete(&message.receipt));
        }
        Ok(())
    }

    fn figures(&self, due: Timestamp, window: impl Fn(u32) -> Duration) -> Result<Admission> {
        let accepted = self.receiver.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        let began = self.receiver.began.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missed = 0_u32;
        for n in WARM_UP..WARM_UP + DELIVERIES {
            let (row, _) = delivery(n, due, due.plus(window(n)))?;
            missed += u32::from(accepted.get(row.idempotency_key.as_str()).is_none_or(|at| *at > row.deliver_by));
        }
        let count = f64::from(WARM_UP + DELIVERIES);
        Ok(Admission {
            seconds: accepted.values().max().map_or(Duration::ZERO, |last| last.since(due)).as_secs_f64(),
            write_units: self.world.ledger_meter.write_units() / count,
            receives: f64::from(u32::try_from(self.received.load(Ordering::Relaxed))?) / count,
            fullest_second: f64::from(u32::try_from(crate::load::report::fullest_second(began.iter().copied()))?),
            missed: f64::from(missed),
        })
    }
}

async fn until(at: Timestamp) {
    tokio::time::sleep(at.since(machine_time())).await;
}

pub(super) fn destination() -> Result<Destination> {
    let spec = json!({
        "id": "acme", "url": "https://receiver.invalid/hooks", "secrets": ["punctual/bench/key"],
        "rate_per_second": RATE, "max_in_flight": 10_000,
    });
    let changed = Change { at: machine_time(), by: "bench".into(), why: "a measurement".into() };
    Ok(Destination { spec: serde_json::from_value(spec)?, version: 1, paused: None, changed })
}

/// Delivery number `n`; equal in all its ids each time.
pub(super) fn delivery(n: u32, deliver_after: Timestamp, deliver_by: Timestamp) -> Result<(Delivery, Payload)> {
    let parts = IdentityParts {
        tenant: "acme".into(),
        subscriber: format!("subscriber-{n:05}"),
        renewal_period: "2027".into(),
        reminder_kind: "first".into(),
    };
    let (id, body) = (DeliveryId::derive(&parts), format!("{{\"text\":\"{:0>500}\"}}", n).into_bytes());
    let new = NewDelivery {
        idempotency_key: IdempotencyKey::from(&id),
        reference: Reference::new(format!("reference-{n:05}"))?,
        destination: DestinationId::new("acme")?,
        shard: u16::try_from(n % 2)?,
        content: Content::of(&[&body]),
        deliver_after,
        deliver_by,
        id,
    };
    let row = Delivery::new(new, machine_time(), World::by()?);
    Ok((row, Payload { body, parts, deliver_after, deliver_by }))
}

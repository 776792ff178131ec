//! I measure the pace at which a receiver is called, at the receiver: many reminders are due at once, some fail once, and
//! several consumers at a time, each with the shipped handler and adapters, may call it only so often.
//!
//! The queue is the one in memory, under the machine's clock: visibility is real, throughput is no bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use aws_lambda_events::event::sqs::SqsEvent;
use futures::stream::{StreamExt as _, TryStreamExt as _, iter};
use punctual_adapters::aws::Aws;
use punctual_adapters::clock::machine_time;
use punctual_adapters::memory::{MemoryDeadLetters, MemoryQueue, Received};
use punctual_adapters::webhook::{HttpWebhook, WebhookConfig};
use punctual_core::acquire::Claimer;
use punctual_core::clock::Now;
use punctual_core::delivery::{Delivery, NewDelivery, Payload};
use punctual_core::destination::{Change, Destination, Mode};
use punctual_core::id::{
    Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, MessageId, Owner, Reference,
};
use punctual_core::message::Message;
use punctual_core::ports::{Ledger as _, Outgoing, PortError, Queue, Written};
use punctual_core::time::Timestamp;
use punctual_core::transition::{Stamp, dispatch_claimed};
use punctual_deliver::Deliver;
use punctual_deliver::measure::Measure;
use punctual_deliver::tally::Tally;
use serde_json::{Value, json};

use super::world::{CONTROL, INVOCATION, LEDGER, Longest, World};
use crate::receiver::{Call, Receiver, Step};

/// Calls a second.
pub const RATE: u32 = 50;
/// Calls that a second may have beyond them.
pub const BURST: u32 = 10;
/// Every so many-th reminder fails once, with 503.
const FAILS: usize = 5;
/// Reminders are due so long after the first is stored, and so much later for each of them: all are stored by then.
const LEAD: Duration = Duration::from_secs(5);
const LEAD_EACH: Duration = Duration::from_millis(6);
/// However busy the machine is, they are delivered within so many times what the rate needs, and this much more.
const PATIENCE: u32 = 3;
const MORE_PATIENCE: Duration = Duration::from_secs(30);
/// The queue's visibility timeout.
const VISIBILITY: Duration = Duration::from_secs(180);
/// A consumer that received nothing asks again after this.
const IDLE: Duration = Duration::from_millis(10);
/// The name of the destination.
const NAME: &str = "paced";

/// What is run.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// Reminders, all due at once.
    pub reminders: usize,
    /// Consumers at a time.
    pub consumers: usize,
    /// The most messages of a batch; 1 to 10.
    pub batch: usize,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Calls in the fullest second, wherever it begins.
    pub fullest: u32,
    /// Calls that arrived.
    pub calls: u32,
    /// Calls per second, from the first until every reminder has been called once, over the rate.
    pub utilisation: f64,
    /// How long that took.
    pub backlog: Duration,
    /// Receives per delivery.
    pub receives: f64,
    /// Limiter writes per delivery, refused ones included.
    pub writes: f64,
    /// What the consumers counted.
    pub tally: Tally,
}

impl Pace {
    /// Calls in the fullest second over the most that it may hold.
    #[must_use]
    pub fn peak_ratio(&self) -> f64 {
        f64::from(self.fullest) / f64::from(RATE + BURST)
    }
}

/// The queue under the machine's clock.
struct Timed(MemoryQueue);

impl Timed {
    fn now(&self) -> &MemoryQueue {
        self.0.set_now(machine_time());
        &self.0
    }
}

impl Queue for Timed {
    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<MessageId, PortError>> {
        self.now().publish(messages).await
    }

    async fn hide(&self, receipt: &str, seconds: u32) -> Result<(), PortError> {
        self.now().hide(receipt, seconds).await
    }
}

/// What the consumers share.
struct Shared {
    queue: Timed,
    letters: MemoryDeadLetters,
    webhook: HttpWebhook,
    margin: Duration,
    /// Deliveries that are still to be made.
    left: AtomicUsize,
}

/// Runs a course. Ends when every reminder is delivered.
///
/// # Errors
/// If one is not delivered in time, is called before it is due, or has its effect twice.
pub async fn run(course: Course) -> Result<Pace> {
    let world = World::start().await?;
    let receiver = Receiver::start(&[]).await?;
    world.put_destination(&destination(&receiver)?).await?;
    let lead = LEAD + LEAD_EACH * u32::try_from(course.reminders)?;
    let due = machine_time().plus(lead);
    let shared = Arc::new(Shared {
        queue: Timed(MemoryQueue::new(machine_time())),
        letters: MemoryDeadLetters::default(),
        webhook: HttpWebhook::new(WebhookConfig { allow_local: true, ..WebhookConfig::default() })?,
        margin: world.margin(),
        left: AtomicUsize::new(course.reminders),
    });
    let aws = world.environment().await;
    let stored = iter(0..course.reminders).map(|n| store(&aws, &shared.queue, &receiver, n, due));
    stored.buffer_unordered(16).try_collect::<Vec<()>>().await?;
    ensure!(machine_time() < due, "the reminders were due before all of them were stored");

    let mut consumers = Vec::new();
    for _ in 0..course.consumers {
        let (aws, shared) = (world.environment().await, Arc::clone(&shared));
        consumers.push(tokio::spawn(async move { consume(&aws, &shared, course.batch).await }));
    }
    let needed = Duration::from_secs(u64::try_from(course.reminders)? / u64::from(RATE));
    let all = tokio::time::timeout(lead + needed * PATIENCE + MORE_PATIENCE, futures::future::try_join_all(consumers));
    let mut tally = Tally::default();
    for part in all.await.context("not every reminder was delivered in time")?? {
        tally.add(part?);
    }
    let calls = receiver.calls();
    ensure!(receiver.duplicate_effects() == 0 && receiver.calls_before_due().is_empty(), "a call too many, or too early");
    receiver.stop().await?;
    judge(course, &calls, tally)
}

fn judge(course: Course, calls: &[Call], tally: Tally) -> Result<Pace> {
    let mut at: Vec<i64> = calls.iter().map(|call| call.received_at_ms).collect();
    at.sort_unstable();
    let in_second = |(i, start): (usize, &i64)| at.iter().skip(i).take_while(|at| **at < start + 1_000).count();
    let fullest = at.iter().enumerate().map(in_second).max().unwrap_or(0);
    let first = at.first().copied().context("no call arrived")?;
    let fresh = calls.iter().filter(|call| call.attempt == Some(1)).map(|call| call.received_at_ms);
    let last = fresh.max().context("no first attempt arrived")?;
    let backlog = Duration::from_millis(u64::try_from(last - first)?);
    // From the first to the last there is one interval less than there are calls.
    let during = u32::try_from(at.iter().filter(|at| **at <= last).count().saturating_sub(1))?;
    let reminders = f64::from(u32::try_from(course.reminders)?);
    Ok(Pace {
        fullest: u32::try_from(fullest)?,
        calls: u32::try_from(at.len())?,
        utilisation: f64::from(during) / backlog.as_secs_f64().max(0.001) / f64::from(RATE),
        backlog,
        receives: f64::from(u32::try_from(tally.received)?) / reminders,
        writes: f64::from(u32::try_from(tally.limiter_writes)?) / reminders,
        tally,
    })
}

fn destination(receiver: &Receiver) -> Result<Destination> {
    let spec = json!({
        "id": NAME,
        "url": receiver.url("healthy/paced"),
        "secrets": ["punctual/bench/key"],
        "total_timeout_ms": 5_000,
        "rate_per_second": RATE,
        "burst": BURST,
        "max_in_flight": 10_000,
        "retry": {"base_ms": 2_000, "cap_ms": 10_000, "attempts": 5},
    });
    let changed = Change { at: machine_time(), by: "bench".to_owned(), why: "a measurement".to_owned() };
    Ok(Destination { spec: serde_json::from_value(spec)?, version: 1, paused: None, changed })
}

/// A row that dispatch has claimed, and its message.
async fn store(aws: &Aws, queue: &Timed, receiver: &Receiver, n: usize, due: Timestamp) -> Result<()> {
    let parts = IdentityParts {
        tenant: "acme".into(),
        subscriber: format!("s{n}"),
        renewal_period: "2027".into(),
        reminder_kind: "first".into(),
    };
    let (id, now) = (DeliveryId::derive(&parts), machine_time());
    let body = json!({"n": n, "due": due}).to_string().into_bytes();
    let stamp = Stamp { now: Now::exactly(now), by: Correlation::new("bench")? };
    let deliver_by = due.plus(Duration::from_secs(3_600));
    let row = Delivery::new(
        NewDelivery {
            idempotency_key: IdempotencyKey::from(&id),
            reference: Reference::new(format!("contract-{n}"))?,
            destination: DestinationId::new(NAME)?,
            shard: 0,
            content: Content::of(&[&body]),
            deliver_after: due,
            deliver_by,
            id: id.clone(),
        },
        now,
        stamp.by.clone(),
    );
    let ledger = aws.ledger(LEDGER);
    ledger.create(&row, &Payload { body, parts, deliver_after: due, deliver_by }).await?;
    let claimer = Claimer { owner: Owner::new("bench")?, by: stamp.by.clone(), until: due };
    let claimed = dispatch_claimed(&row, claimer, Mode::Live, &stamp)?;
    ensure!(ledger.write(&claimed).await? == Written::Done, "a lost race without a rival");
    let delay = due.since(machine_time()).saturating_sub(Duration::from_secs(1));
    let message = Outgoing { message: Message::of(&claimed.after), delay_seconds: u16::try_from(delay.as_secs())? };
    for accepted in queue.publish(&[message]).await {
        accepted?;
    }
    if n.is_multiple_of(FAILS) {
        receiver.program(id.as_str(), [Step::status(503)])?;
    }
    Ok(())
}

/// What the poller and one execution environment of deliver do, batch after batch.
async fn consume(aws: &Aws, shared: &Shared, batch: usize) -> Result<Tally> {
    let (ledger, control, measure) = (aws.ledger(LEDGER), aws.control(CONTROL), Measure::default());
    let mut total = Tally::default();
    while shared.left.load(Ordering::Acquire) > 0 {
        let received = shared.queue.now().receive(batch, VISIBILITY);
        if received.is_empty() {
            tokio::time::sleep(IDLE).await;
            continue;
        }
        let deliver = Deliver {
            ledger: &ledger,
            control: &control,
            queue: &shared.queue,
            dead_letters: &shared.letters,
            secrets: &Longest,
            webhook: &shared.webhook,
            time: &aws.time(CONTROL, u64::try_from(machine_time().plus(INVOCATION).as_millis())?),
            measure: &measure,
            margin: shared.margin,
            by: Correlation::new("bench")?,
        };
        let (response, tally) = deliver.handle(&event(&received)?).await;
        for message in &received {
            if !response.batch_item_failures.iter().any(|failed| failed.item_identifier == message.id.as_str()) {
                shared.queue.now().delete(&message.receipt);
            }
        }
        shared.left.fetch_sub(tally.delivered, Ordering::AcqRel);
        total.add(tally);
    }
    Ok(total)
}

fn event(received: &[Received]) -> Result<SqsEvent> {
    let record = |message: &Received| {
        json!({
            "messageId": message.id.as_str(),
            "receiptHandle": message.receipt,
            "body": message.body,
            "attributes": {
                // All were accepted before they were due.
                "SentTimestamp": "0",
                "ApproximateReceiveCount": message.receives.to_string(),
                "ApproximateFirstReceiveTimestamp": message.first_received_at.as_millis().to_string(),
            },
            "messageAttributes": {},
            "eventSource": "aws:sqs",
        })
    };
    let records: Vec<Value> = received.iter().map(record).collect();
    Ok(serde_json::from_value(json!({ "Records": records }))?)
}

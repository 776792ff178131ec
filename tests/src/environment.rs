//! I am one execution environment of deliver on the memory adapters: what it has measured lives as long as I do, and the
//! clock is moved by hand.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use aws_lambda_events::event::sqs::SqsEvent;
use punctual_adapters::memory::{MemoryControl, MemoryDeadLetters, MemoryLedger, MemoryQueue};
use punctual_core::acquire::Claimer;
use punctual_core::clock::{ClockError, Now};
use punctual_core::delivery::{Delivery, NewDelivery, Payload};
use punctual_core::destination::{Change, Destination, Mode};
use punctual_core::figures::Figures;
use punctual_core::id::{
    Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, MessageId, Owner, Reference,
};
use punctual_core::limiter::AHEAD;
use punctual_core::message::Message;
use punctual_core::ports::{Control as _, Created, Ledger as _, SecretUnavailable, Secrets, Stored, Time, Webhook, Written};
use punctual_core::signature::Secret;
use punctual_core::time::Timestamp;
use punctual_core::transition::{Stamp, Transition, dispatch_claimed, queued};
use punctual_deliver::Deliver;
use punctual_deliver::measure::Measure;
use punctual_deliver::tally::Tally;
use punctual_monitor::{Memory, Monitor};
use serde_json::{Value, json};

/// How long an invocation may take: deliver's timeout in the template.
const INVOCATION: Duration = Duration::from_secs(30);
/// From one run of dispatch to the next.
pub const TICK: Duration = Duration::from_secs(60);
/// The stage's safety margin.
pub const MARGIN: Duration = Duration::from_secs(20);

/// The environment, and all that it talks to.
#[derive(Debug)]
pub struct Environment {
    /// The ledger.
    pub ledger: MemoryLedger,
    /// The dead letters.
    pub letters: MemoryDeadLetters,
    /// The clock.
    pub time: HandTime,
    /// What was measured so far; another one is a fresh environment.
    pub measure: Measure,
    /// The destinations.
    pub control: MemoryControl,
    queue: MemoryQueue,
}

impl Environment {
    /// A fresh one at this time, with an empty ledger.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            ledger: MemoryLedger::default(),
            letters: MemoryDeadLetters::default(),
            time: HandTime::new(now),
            measure: Measure::default(),
            control: MemoryControl::default(),
            queue: MemoryQueue::new(now),
        }
    }

    /// Registers a destination; `more` overrides single fields of its specification.
    ///
    /// # Errors
    /// If that is no specification, or the id is taken.
    pub async fn register(&self, id: &str, url: &str, more: Value) -> Result<()> {
        let mut spec = json!({"id": id, "url": url, "secrets": ["punctual/test/key"]});
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        let changed = Change { at: self.time.instant(), by: "test".into(), why: "a test".into() };
        let destination = Destination { spec: serde_json::from_value(spec)?, version: 1, paused: None, changed };
        ensure!(self.control.put_destination(&destination, 0).await? == Stored::Done, "{id} is registered already");
        Ok(())
    }

    /// A row whose message is in the queue: number `n` for this destination.
    ///
    /// # Errors
    /// If it exists, or the core refuses a step.
    pub async fn queued(&self, n: u32, destination: &str, due: Timestamp, deliver_by: Timestamp) -> Result<DeliveryId> {
        let parts = IdentityParts {
            tenant: "acme".into(),
            subscriber: format!("{destination}-{n}"),
            renewal_period: "2027".into(),
            reminder_kind: "first".into(),
        };
        let (id, body) = (DeliveryId::derive(&parts), format!("{{\"n\":{n}}}").into_bytes());
        let stamp = Stamp { now: Now::exactly(self.time.instant()), by: Correlation::new("test")? };
        let row = Delivery::new(
            NewDelivery {
                idempotency_key: IdempotencyKey::from(&id),
                reference: Reference::new(format!("contract-{n}"))?,
                destination: DestinationId::new(destination)?,
                shard: 0,
                content: Content::of(&[&body]),
                deliver_after: due,
                deliver_by,
                id: id.clone(),
            },
            stamp.now.lo,
            stamp.by.clone(),
        );
        let payload = Payload { body, parts, deliver_after: due, deliver_by };
        ensure!(self.ledger.create(&row, &payload).await? == Created::New, "{id} exists");
        let claimer = Claimer { owner: Owner::new("dispatch")?, by: stamp.by.clone(), until: due };
        let claimed = self.written(dispatch_claimed(&row, claimer, Mode::Live, &stamp)?).await?;
        self.written(queued(&claimed, MessageId::new("message-1")?, &stamp)?).await?;
        Ok(id)
    }

    async fn written(&self, transition: Transition) -> Result<Delivery> {
        ensure!(self.ledger.write(&transition).await? == Written::Done, "a lost race without a rival");
        Ok(transition.after)
    }

    /// The row as it is.
    ///
    /// # Errors
    /// If there is none.
    pub async fn row(&self, id: &DeliveryId) -> Result<Delivery> {
        self.ledger.read_one(id).await?.with_context(|| format!("no row {id}"))
    }

    /// One invocation with the messages of these rows as they are now, accepted by the queue at `sent` and received so
    /// often.
    ///
    /// # Errors
    /// If a row does not exist.
    pub async fn deliver(&self, webhook: &impl Webhook, ids: &[DeliveryId], sent: Timestamp, receives: u32) -> Result<Tally> {
        let mut messages = Vec::new();
        for id in ids {
            messages.push(Message::of(&self.row(id).await?));
        }
        self.deliver_messages(webhook, &messages, sent, receives).await
    }

    /// One invocation with these messages, accepted by the queue at `sent` and received so often.
    ///
    /// # Errors
    /// If they are no event.
    pub async fn deliver_messages(
        &self,
        webhook: &impl Webhook,
        messages: &[Message],
        sent: Timestamp,
        receives: u32,
    ) -> Result<Tally> {
        let mut records = Vec::new();
        for message in messages {
            let id = &message.delivery_id;
            records.push(json!({
                "messageId": format!("m-{id}"),
                "receiptHandle": format!("r-{id}"),
                "body": message.body(),
                "attributes": {
                    "ApproximateReceiveCount": receives.to_string(),
                    "ApproximateFirstReceiveTimestamp": self.time.instant().as_millis().to_string(),
                    "SentTimestamp": sent.as_millis().to_string(),
                },
                "messageAttributes": {},
                "eventSource": "aws:sqs",
            }));
        }
        let event: SqsEvent = serde_json::from_value(json!({ "Records": records }))?;
        self.time.begin_invocation();
        let deliver = Deliver {
            ledger: &self.ledger,
            control: &self.control,
            queue: &self.queue,
            dead_letters: &self.letters,
            secrets: &OneSecret,
            webhook,
            time: &self.time,
            measure: &self.measure,
            margin: MARGIN,
            // Each invocation has its own: it tells two equal notes apart.
            by: Correlation::of_request(&self.time.unique()),
        };
        let (_, tally) = deliver.handle(&event).await;
        Ok(tally)
    }
}

impl Environment {
    /// One run of monitor.
    ///
    /// # Errors
    /// If it fails as a whole.
    pub async fn monitor(&self, memory: &Memory) -> Result<Figures> {
        self.time.begin_invocation();
        self.queue.set_now(self.time.instant());
        let monitor = Monitor {
            ledger: &self.ledger,
            control: &self.control,
            queue: &self.queue,
            dead_letters: &self.letters,
            time: &self.time,
            memory,
            tick: TICK,
            margin: MARGIN,
            by: Correlation::of_request(&self.time.unique()),
        };
        Ok(monitor.run().await?)
    }
}

/// A clock that moves when it is told to, and that every wait moves to its end.
#[derive(Debug)]
pub struct HandTime(Mutex<Hand>);

#[derive(Debug)]
struct Hand {
    now: Timestamp,
    ends: Timestamp,
    drawn: u64,
}

impl HandTime {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self(Mutex::new(Hand { now, ends: now.plus(INVOCATION), drawn: 0 }))
    }

    fn hand(&self) -> MutexGuard<'_, Hand> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it says.
    #[must_use]
    pub fn instant(&self) -> Timestamp {
        self.hand().now
    }

    /// Lets it say this, or what it says if that is later.
    pub fn reach(&self, at: Timestamp) {
        let mut hand = self.hand();
        hand.now = hand.now.max(at);
    }

    /// Lets this much time pass.
    pub fn advance(&self, by: Duration) {
        let mut hand = self.hand();
        hand.now = hand.now.plus(by);
    }

    pub(crate) fn begin_invocation(&self) {
        let mut hand = self.hand();
        hand.ends = hand.now.plus(INVOCATION);
    }
}

impl Time for HandTime {
    fn now(&self) -> Result<Now, ClockError> {
        Ok(Now::exactly(self.instant()))
    }

    fn time_left(&self) -> Duration {
        let hand = self.hand();
        hand.ends.since(hand.now)
    }

    async fn wait_until(&self, at: Timestamp) -> Result<Now, ClockError> {
        self.reach(at);
        self.now()
    }

    /// A wait for a slot of the rate moves the clock. A longer one never ends: deliver pauses beside its work, to cut it off.
    async fn pause(&self, how_long: Duration) {
        if how_long > AHEAD {
            std::future::pending::<()>().await;
        }
        self.advance(how_long);
    }

    fn random(&self) -> f64 {
        0.0
    }

    fn unique(&self) -> String {
        let mut hand = self.hand();
        hand.drawn += 1;
        format!("owner-{}", hand.drawn)
    }
}

/// A store with one secret, whatever it is asked for.
#[derive(Debug)]
pub struct OneSecret;

impl Secrets for OneSecret {
    async fn active(&self, references: &[String]) -> Result<Vec<Secret>, SecretUnavailable> {
        let secret = |reference: &String| {
            Secret::parse("key", "whsec_cHVuY3R1YWwtdGVzdHMtc2VjcmV0LTIwMjctMDE=")
                .map_err(|e| SecretUnavailable { reference: reference.clone(), problem: e.to_string() })
        };
        references.iter().map(secret).collect()
    }
}

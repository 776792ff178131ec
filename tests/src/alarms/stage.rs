//! I am a stage in virtual minutes: the shipped dispatch, deliver and monitor on dynoxide with the template's own tables and
//! times, a queue in memory, and the alarms of `infra/observability.yaml` on what the functions emit.
//!
//! A minute goes like this: a tick, then deliver every few seconds for whatever can be received, monitor in its middle, and at
//! its end every alarm is judged. What is broken is broken by a [`Fault`]; nothing else differs from one minute to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use aws_lambda_events::event::sqs::SqsEvent;
use futures::future::{Either, select};
use punctual_adapters::memory::{MemoryDeadLetters, MemoryQueue, Received};
use punctual_core::delivery::{Delivery, NewDelivery, Payload};
use punctual_core::destination::{Change, Destination};
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Reference};
use punctual_core::outcome::{CallResult, Failure};
use punctual_core::ports::{Control as _, Created, Ledger as _, Request, SecretUnavailable, Secrets, Stored, Time as _, Webhook};
use punctual_core::signature::Secret;
use punctual_core::time::Timestamp;
use punctual_deliver::Deliver;
use punctual_deliver::measure::Measure;
use punctual_dispatch::Dispatch;
use punctual_monitor::metrics::metrics;
use punctual_monitor::{Memory, Monitor};
use serde_json::json;
use tokio::sync::Notify;

use super::state::{Alarm, State};
use super::stream::Stream;
use crate::bench::world::World;
use crate::environment::{HandTime, OneSecret};

/// The name of the stage.
pub(super) const STAGE: &str = "dev";
const MINUTE: Duration = Duration::from_secs(60);
/// How often deliver is handed what can be received.
const POLL: Duration = Duration::from_secs(6);
/// When monitor runs in its minute, unless it is told otherwise.
const MONITOR_AT: Duration = Duration::from_secs(30);
const VISIBILITY: Duration = Duration::from_secs(180);
const BATCH: usize = 10;

/// What is broken; several can be at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The schedule starts no dispatch.
    DispatchStopped,
    /// The event source hands nothing to deliver.
    DeliverStopped,
    /// The schedule starts no monitor.
    MonitorStopped,
    /// The receiver of [`HOLE`] does not answer.
    BlackHole,
    /// The receiver of [`FINE`] does not answer either.
    FineIsSilent,
    /// The receiver of [`HOLE`] answers 410.
    Gone,
    /// No signing secret can be read.
    NoSecrets,
}

/// The destination that can be a black hole.
pub const HOLE: &str = "hole";
/// The one that is well, but for [`Fault::FineIsSilent`].
pub const FINE: &str = "fine";

/// The stage.
pub struct Stage {
    pub(super) world: World,
    pub(super) time: HandTime,
    queue: MemoryQueue,
    letters: MemoryDeadLetters,
    measure: Measure,
    memory: Memory,
    faults: BTreeSet<Fault>,
    stored: u32,
    /// When dispatch and monitor come to their ends in their minutes.
    ends_at: (Duration, Duration),
    pub(super) stream: Stream,
    alarms: BTreeMap<String, Alarm>,
    states: BTreeMap<String, State>,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("at", &self.time.instant()).field("faults", &self.faults).finish_non_exhaustive()
    }
}

/// The receivers of both destinations.
#[derive(Debug)]
struct Receivers<'a> {
    faults: &'a BTreeSet<Fault>,
}

impl Webhook for Receivers<'_> {
    async fn call(&self, request: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        if !may_start() {
            return CallResult::not_called();
        }
        let hole = request.url.contains(HOLE);
        match () {
            () if hole && self.faults.contains(&Fault::BlackHole) => Failure::Timeout.into(),
            () if !hole && self.faults.contains(&Fault::FineIsSilent) => Failure::Timeout.into(),
            () if hole && self.faults.contains(&Fault::Gone) => CallResult::Answered { status: 410, retry_after: None },
            () => CallResult::Answered { status: 200, retry_after: None },
        }
    }
}

/// A receiver whose calls never end; it tells how many began.
#[derive(Debug, Default)]
struct Hangs {
    began: Mutex<usize>,
    one_more: Notify,
}

impl Webhook for Hangs {
    async fn call(&self, _: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        if !may_start() {
            return CallResult::not_called();
        }
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.one_more.notify_one();
        std::future::pending().await
    }
}

/// A store with one secret, or with none.
struct Store(bool);

impl Secrets for Store {
    async fn active(&self, references: &[String]) -> Result<Vec<Secret>, SecretUnavailable> {
        if self.0 {
            return OneSecret.active(references).await;
        }
        let reference = references.first().cloned().unwrap_or_default();
        Err(SecretUnavailable { reference, problem: "it is not there".into() })
    }
}

impl Stage {
    /// A stage whose destinations have both proven themselves, at a whole minute.
    ///
    /// # Errors
    /// If it cannot be set up.
    pub async fn start() -> Result<Self> {
        let world = World::start().await?;
        let now: Timestamp = "2027-01-04T08:00:00Z".parse()?;
        for id in [FINE, HOLE] {
            let spec = json!({
                "id": id, "url": format!("https://{id}.invalid/hook"), "secrets": ["punctual/dev/key"],
                "rate_per_second": 100, "max_in_flight": 10_000,
            });
            let changed = Change { at: now, by: "drill".into(), why: "a drill".into() };
            let destination = Destination { spec: serde_json::from_value(spec)?, version: 1, paused: None, changed };
            ensure!(world.control().put_destination(&destination, 0).await? == Stored::Done, "{id} is there already");
        }
        let alarms = super::alarms(STAGE)?;
        Ok(Self {
            time: HandTime::new(now),
            queue: MemoryQueue::new(now),
            letters: MemoryDeadLetters::default(),
            measure: Measure::default(),
            memory: Memory::default(),
            faults: BTreeSet::new(),
            stored: 0,
            ends_at: (Duration::ZERO, MONITOR_AT),
            stream: Stream::default(),
            states: alarms.keys().map(|name| (name.clone(), State::Ok)).collect(),
            alarms,
            world,
        })
    }

    /// Breaks something, from now on.
    pub fn fail(&mut self, fault: Fault) {
        self.faults.insert(fault);
    }

    /// Mends it.
    pub fn mend(&mut self, fault: Fault) {
        self.faults.remove(&fault);
    }

    /// From now on, dispatch and monitor come to their ends so long after their minutes begin.
    pub fn ends_at(&mut self, dispatch: Duration, monitor: Duration) {
        self.ends_at = (dispatch, monitor);
    }

    /// From now on, the alarms see each value so much later than it was emitted.
    pub fn delay_metrics(&mut self, delay: Duration) {
        self.stream.delay = delay;
    }

    /// Stores deliveries that are due one after the other, from now on, with an hour for each.
    ///
    /// # Errors
    /// If the ledger refuses one.
    pub async fn store(&mut self, destination: &str, count: u32, every: Duration) -> Result<Vec<DeliveryId>> {
        self.store_within(destination, count, every, Duration::from_secs(3_600)).await
    }

    /// The same, with another time for each.
    ///
    /// # Errors
    /// If the ledger refuses one.
    pub async fn store_within(
        &mut self,
        destination: &str,
        count: u32,
        every: Duration,
        window: Duration,
    ) -> Result<Vec<DeliveryId>> {
        let now = self.time.instant();
        let mut ids = Vec::new();
        for n in 0..count {
            let due = now.plus(every * n);
            let (row, payload) = delivery(destination, self.stored, due, window)?;
            self.stored += 1;
            ensure!(self.world.ledger().create(&row, &payload).await? == Created::New, "{} is there twice", row.id);
            ids.push(row.id);
        }
        Ok(ids)
    }

    /// One minute; gives the alarms that are in alarm at its end.
    ///
    /// # Errors
    /// If a function fails as a whole.
    pub async fn minute(&mut self) -> Result<BTreeSet<String>> {
        let begin = self.time.instant();
        let (dispatch_at, monitor_at) = self.ends_at;
        let mut dispatched = self.faults.contains(&Fault::DispatchStopped);
        let mut monitored = self.faults.contains(&Fault::MonitorStopped);
        if !dispatched && dispatch_at.is_zero() {
            self.dispatch().await?;
            dispatched = true;
        }
        while self.time.instant().since(begin) < MINUTE - POLL {
            self.time.advance(POLL);
            self.queue.set_now(self.time.instant());
            if !dispatched && self.time.instant().since(begin) >= dispatch_at {
                self.dispatch().await?;
                dispatched = true;
            }
            if !monitored && self.time.instant().since(begin) >= monitor_at {
                self.monitor().await?;
                monitored = true;
            }
            if !self.faults.contains(&Fault::DeliverStopped) {
                while self.deliver().await? {}
            }
        }
        self.time.reach(begin.plus(MINUTE));
        self.queue.set_now(self.time.instant());
        self.judge();
        Ok(self.states.iter().filter(|(_, state)| **state == State::Alarm).map(|(name, _)| name.clone()).collect())
    }

    /// So many minutes; gives the alarms that are in alarm at the end of each.
    ///
    /// # Errors
    /// As [`Stage::minute`].
    pub async fn minutes(&mut self, count: usize) -> Result<Vec<BTreeSet<String>>> {
        let mut told = Vec::new();
        for _ in 0..count {
            told.push(self.minute().await?);
        }
        Ok(told)
    }

    /// Somebody else takes every message that can be received, and deletes it. Gives how many.
    pub fn lose_messages(&self) -> usize {
        let lost = self.queue.receive(usize::MAX, VISIBILITY);
        lost.iter().for_each(|message| self.queue.delete(&message.receipt));
        lost.len()
    }

    /// Invocations of deliver take all messages that can be received, begin their calls, and are gone. Gives how many calls.
    ///
    /// # Errors
    /// If an invocation ends, or does not get so far.
    pub async fn crash_in_calls(&self) -> Result<usize> {
        let mut crashed = 0;
        loop {
            let received = self.queue.receive(BATCH, VISIBILITY);
            if received.is_empty() {
                return Ok(crashed);
            }
            let receiver = Hangs::default();
            let event: SqsEvent = serde_json::from_value(crate::load::event(&received))?;
            self.time.begin_invocation();
            let (ledger, control) = (self.world.ledger(), self.world.control());
            let deliver = self.deliver_with(&ledger, &control, &receiver, &OneSecret)?;
            let invocation = Box::pin(deliver.handle(&event));
            let all = Box::pin(async {
                while *receiver.began.lock().unwrap_or_else(PoisonError::into_inner) < received.len() {
                    receiver.one_more.notified().await;
                }
            });
            match select(invocation, all).await {
                Either::Left(_) => anyhow::bail!("an invocation ended that was to crash"),
                // Dropped where it stands: nothing is recorded, nothing acknowledged.
                Either::Right(((), invocation)) => drop(invocation),
            }
            crashed += received.len();
        }
    }

    /// The rows of these deliveries.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub async fn rows(&self, ids: &[DeliveryId]) -> Result<Vec<Delivery>> {
        Ok(self.world.ledger().read(ids).await?)
    }

    async fn dispatch(&mut self) -> Result<()> {
        self.time.begin_invocation();
        let (ledger, control) = (self.world.ledger(), self.world.control());
        let dispatch = Dispatch {
            ledger: &ledger,
            control: &control,
            queue: &self.queue,
            dead_letters: &self.letters,
            time: &self.time,
            rules: self.world.rules,
            tick: self.world.tick,
            margin: self.world.margin,
            handoff_threshold: self.world.handoff_threshold,
            by: self.by()?,
        };
        let summary = dispatch.run().await.context("a run of dispatch")?;
        self.stream.note_all(STAGE, "dispatch", self.time.instant(), &summary.metrics());
        Ok(())
    }

    fn deliver_with<'a, L, C, W, S>(
        &'a self,
        ledger: &'a L,
        control: &'a C,
        webhook: &'a W,
        secrets: &'a S,
    ) -> Result<Deliver<'a, L, C, MemoryQueue, MemoryDeadLetters, S, W, HandTime>> {
        Ok(Deliver {
            ledger,
            control,
            queue: &self.queue,
            dead_letters: &self.letters,
            secrets,
            webhook,
            time: &self.time,
            measure: &self.measure,
            margin: self.world.margin,
            by: self.by()?,
        })
    }

    /// One batch; whether there was one.
    async fn deliver(&mut self) -> Result<bool> {
        let received: Vec<Received> = self.queue.receive(BATCH, VISIBILITY);
        if received.is_empty() {
            return Ok(false);
        }
        let event: SqsEvent = serde_json::from_value(crate::load::event(&received))?;
        self.time.begin_invocation();
        let (ledger, control) = (self.world.ledger(), self.world.control());
        let (receivers, store) = (Receivers { faults: &self.faults }, Store(!self.faults.contains(&Fault::NoSecrets)));
        let deliver = self.deliver_with(&ledger, &control, &receivers, &store)?;
        let (response, tally) = deliver.handle(&event).await;
        let kept: Vec<&str> = response.batch_item_failures.iter().map(|item| item.item_identifier.as_str()).collect();
        let done = received.iter().filter(|message| !kept.contains(&message.id.as_str()));
        done.for_each(|message| self.queue.delete(&message.receipt));
        let now = self.time.instant();
        self.queue.set_now(now);
        self.stream.note_all(STAGE, "deliver", now, &tally.metrics());
        Ok(true)
    }

    async fn monitor(&mut self) -> Result<()> {
        self.time.begin_invocation();
        let (ledger, control) = (self.world.ledger(), self.world.control());
        let monitor = Monitor {
            ledger: &ledger,
            control: &control,
            queue: &self.queue,
            dead_letters: &self.letters,
            time: &self.time,
            memory: &self.memory,
            tick: self.world.tick,
            margin: self.world.margin,
            by: self.by()?,
        };
        let figures = monitor.run().await.context("a run of monitor")?;
        self.stream.note_all(STAGE, "monitor", self.time.instant(), &metrics(&figures));
        Ok(())
    }

    /// Every alarm.
    fn judge(&mut self) {
        let now = self.time.instant();
        for (name, alarm) in &self.alarms {
            let before = self.states.get(name).copied().unwrap_or_default();
            self.states.insert(name.clone(), alarm.state(&self.stream, now, before));
        }
    }

    pub(super) fn by(&self) -> Result<Correlation> {
        Ok(Correlation::of_request(&self.time.unique()))
    }
}

/// Delivery number `n`.
fn delivery(destination: &str, n: u32, deliver_after: Timestamp, window: Duration) -> Result<(Delivery, Payload)> {
    let deliver_by = deliver_after.plus(window);
    let parts = IdentityParts {
        tenant: "acme".into(),
        subscriber: format!("s{n:05}"),
        renewal_period: "2027".into(),
        reminder_kind: "first".into(),
    };
    let (id, body) = (DeliveryId::derive(&parts), format!("{{\"n\":{n}}}").into_bytes());
    let new = NewDelivery {
        idempotency_key: IdempotencyKey::from(&id),
        reference: Reference::new(format!("c{n:05}"))?,
        destination: DestinationId::new(destination)?,
        shard: u16::try_from(n % 2)?,
        content: Content::of(&[&body]),
        deliver_after,
        deliver_by,
        id,
    };
    let row = Delivery::new(new, deliver_after, Correlation::new("drill")?);
    Ok((row, Payload { body, parts, deliver_after, deliver_by }))
}

//! A stage in memory and virtual time: dispatch ticks, consumers take batches, schedules start slices, receivers answer by
//! destination.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use futures::executor::LocalPool;
use futures::future::{Either, select};
use futures::task::LocalSpawnExt as _;
use punctual_adapters::memory::{MemoryControl, MemoryDeadLetters, MemoryLedger, MemoryQueue, MemorySlices};
use punctual_core::attempt::{Answer, Attempt};
use punctual_core::breaker::Reach;
use punctual_core::dead_letter::DeadLetter;
use punctual_core::delivery::{Delivery, NewDelivery, Payload};
use punctual_core::destination::{Change, Destination};
use punctual_core::history::HistoryEntry;
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Reference, RunId};
use punctual_core::outcome::CallResult;
use punctual_core::ports::{Control as _, Created, DeadLetters as _, Ledger as _, Letter, Request, Stored, Webhook};
use punctual_core::reason::Reason;
use punctual_core::redrive::Run;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_deliver::Deliver;
use punctual_deliver::measure::Measure;
use punctual_dispatch::Dispatch;
use punctual_flows::release::Rules;
use punctual_redrive::slice::SliceReport;
use punctual_redrive::{Redrive, Response};
use punctual_tests::environment::OneSecret;
use punctual_tests::load::clock::{Clock, Invocation};
use punctual_tests::load::event;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::fuse::{Fuse, Fused};

pub(crate) const TICK: Duration = Duration::from_secs(60);
pub(crate) const INTERVAL: Duration = Duration::from_secs(60);
const RULES: Rules = Rules { horizon: Duration::from_secs(150), lease: Duration::from_secs(30) };
const MARGIN: Duration = Duration::from_secs(10);
const HANDOFF: Duration = Duration::from_secs(120);
const VISIBILITY: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(100);
const CONSUMERS: usize = 8;
/// After so long a function that failed is tried again, twice at most: as the platform does with an event of a schedule.
const TRIED_AGAIN: Duration = Duration::from_secs(60);

pub(crate) fn begin() -> Timestamp {
    "2027-01-04T03:00:00Z".parse().unwrap()
}

/// A call that began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) destination: String,
    pub(crate) key: String,
    pub(crate) attempt: u32,
    pub(crate) at: Timestamp,
    pub(crate) status: u16,
}

/// Receivers that answer as they are told to, by destination; 400 unless told otherwise.
pub(crate) struct Receivers {
    clock: Clock,
    answers: Mutex<BTreeMap<String, u16>>,
    calls: Mutex<Vec<Call>>,
}

impl Webhook for Receivers {
    async fn call(&self, request: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        if !may_start() {
            return CallResult::not_called();
        }
        let header = |name: &str| request.headers.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone()).unwrap_or_default();
        let destination = request.url.trim_start_matches("https://").split('.').next().unwrap().to_owned();
        let status = self.answers.lock().unwrap().get(&destination).copied().unwrap_or(400);
        let (key, attempt) = (header("idempotency-key"), header("x-delivery-attempt").parse().unwrap());
        self.calls.lock().unwrap().push(Call { destination, key, attempt, at: self.clock.instant(), status });
        self.clock.pass(Duration::from_millis(80)).await;
        CallResult::Answered { status, retry_after: None }
    }
}

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) ledger: MemoryLedger,
    pub(crate) control: MemoryControl,
    pub(crate) queue: MemoryQueue,
    pub(crate) letters: MemoryDeadLetters,
    pub(crate) slices: MemorySlices,
    pub(crate) receivers: Receivers,
    /// The slice that crashes, counted from 1, and after which of its effects.
    pub(crate) crash: Cell<Option<(u32, u32)>>,
    /// Whether the ordered crash happened.
    pub(crate) crashed: Cell<bool>,
    pub(crate) started: Cell<u32>,
    pub(crate) reports: RefCell<Vec<SliceReport>>,
    asked: Cell<u32>,
    over: Cell<bool>,
}

/// A world with its tasks.
pub(crate) struct Stage {
    pub(crate) world: Rc<World>,
    pool: LocalPool,
}

impl std::ops::Deref for Stage {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// What a dead row is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dead {
    pub(crate) destination: &'static str,
    pub(crate) state: State,
    pub(crate) reason: Reason,
    pub(crate) attempts: u32,
    pub(crate) died_at: Timestamp,
    pub(crate) deliver_by: Timestamp,
}

pub(crate) fn dead(destination: &'static str, reason: Reason) -> Dead {
    let died_at = begin().minus(Duration::from_secs(600));
    let attempts = if reason == Reason::AttemptsExhausted { 3 } else { 1 };
    Dead { destination, state: State::Dead, reason, attempts, died_at, deliver_by: begin().plus(Duration::from_secs(86_400)) }
}

impl World {
    /// A dead or expired row with its payload and its dead letter.
    pub(crate) async fn put(&self, number: usize, dead: Dead) -> DeliveryId {
        let row = self.put_unsent(number, dead).await;
        self.letters.send(&DeadLetter::of(&row)).await.unwrap();
        row.id
    }

    /// The same without a letter: the row says that it was sent, and the queue has lost it.
    pub(crate) async fn put_unsent(&self, number: usize, dead: Dead) -> Delivery {
        let Dead { destination, state, reason, attempts, died_at, deliver_by } = dead;
        let parts = IdentityParts {
            tenant: "acme".into(),
            subscriber: format!("s{number:05}"),
            renewal_period: "2027".into(),
            reminder_kind: destination.into(),
        };
        let (id, body) = (DeliveryId::derive(&parts), format!("{{\"n\":{number}}}").into_bytes());
        let deliver_after = died_at.minus(Duration::from_secs(60));
        let new = NewDelivery {
            idempotency_key: IdempotencyKey::from(&id),
            reference: Reference::new(format!("c{number:05}")).unwrap(),
            destination: DestinationId::new(destination).unwrap(),
            shard: id.shard(2),
            content: Content::of(&[&body]),
            deliver_after,
            deliver_by,
            id,
        };
        let by = Correlation::new("before").unwrap();
        let payload = Payload { body, parts, deliver_after, deliver_by };
        let row = Delivery::new(new, deliver_after, by.clone());
        assert_eq!(self.ledger.create(&row, &payload).await.unwrap(), Created::New);
        let answer = if reason == Reason::Rejected { 400 } else { 503 };
        let attempt = |n| Attempt {
            number: n,
            started_at: died_at.minus(Duration::from_secs(1)),
            took: Duration::from_millis(80),
            answer: Answer::Status(answer),
            reason: if reason == Reason::Rejected { reason } else { Reason::ServerError },
            destination_version: 1,
            key_ids: "key".into(),
        };
        let mut row = Delivery {
            state,
            version: 7,
            reason: Some(reason),
            wake_at: None,
            attempts: (1..=attempts).map(attempt).collect(),
            death: 1,
            dlq_sent: 1,
            ..row
        };
        row.history.push(HistoryEntry { at: died_at, state, attempt: Some(attempts), reason: Some(reason), by });
        self.ledger.put_row(row.clone());
        row
    }

    pub(crate) fn answer(&self, destination: &str, status: u16) {
        self.receivers.answers.lock().unwrap().insert(destination.to_owned(), status);
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.receivers.calls.lock().unwrap().clone()
    }

    /// How often each key was answered 2xx.
    pub(crate) fn effects(&self) -> BTreeMap<String, usize> {
        let mut effects = BTreeMap::new();
        for call in self.calls().into_iter().filter(|call| (200..300).contains(&call.status)) {
            *effects.entry(call.key).or_default() += 1;
        }
        effects
    }

    /// How many rows are in a state.
    pub(crate) fn count(&self, state: State) -> usize {
        self.ledger.rows().iter().filter(|row| row.state == state).count()
    }

    /// What lies in the dead-letter queue, by delivery id and death, without what receiving changes.
    pub(crate) fn there(&self) -> BTreeMap<(String, String), Letter> {
        let key = |letter: &Letter| (letter.attributes["delivery_id"].clone(), letter.attributes["death"].clone());
        let untouched = |letter: Letter| Letter { receipt: String::new(), receives: 0, ..letter };
        self.letters.there().into_iter().map(|letter| (key(&letter), untouched(letter))).collect()
    }

    /// Registers a destination: 50 calls a second, proven, never paused by its answers.
    pub(crate) async fn destination(&self, id: &str, more: Value) {
        let mut spec = json!({
            "id": id,
            "url": format!("https://{id}.invalid/hook"),
            "secrets": ["punctual/test/key"],
            "rate_per_second": 50,
            "max_in_flight": 10_000,
            "retry": {"base_ms": 1_000, "attempts": 3},
            "pause_after": {"rejected": 64, "of_last": 64},
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let changed = Change { at: begin(), by: "test".into(), why: "a test".into() };
        let destination = Destination { spec: serde_json::from_value(spec).unwrap(), version: 1, paused: None, changed };
        assert_eq!(self.control.put_destination(&destination, 0).await.unwrap(), Stored::Done);
        let reach = Reach { version: 1, in_flight: 10_000, ..Reach::unproven(Correlation::new("proven").unwrap()) };
        assert_eq!(self.control.note_reach(&DestinationId::new(id).unwrap(), &reach).await.unwrap(), Stored::Done);
    }

    /// Asks redrive, as from the console.
    pub(crate) async fn ask(&self, event: Value) -> Response {
        self.ask_through(&Fuse::default(), event).await
    }

    async fn ask_through(&self, fuse: &Fuse, event: Value) -> Response {
        self.asked.set(self.asked.get() + 1);
        let by = Correlation::new(format!("{:04}", self.asked.get())).unwrap();
        let time = Invocation::begin(&self.clock, Duration::from_secs(300));
        let redrive = Redrive {
            ledger: &Fused { port: &self.ledger, fuse },
            control: &Fused { port: &self.control, fuse },
            queue: &Fused { port: &self.queue, fuse },
            letters: &Fused { port: &self.letters, fuse },
            slices: &Fused { port: &self.slices, fuse },
            time: &time,
            rules: RULES,
            tick: TICK,
            margin: MARGIN,
            interval: INTERVAL,
            by,
        };
        redrive.handle(&RawValue::from_string(event.to_string()).unwrap()).await.unwrap()
    }

    /// One slice, as the platform starts it; it ends early if a crash was ordered.
    async fn slice(&self, run: &RunId, slice: u32) {
        for _ in 0..3 {
            self.started.set(self.started.get() + 1);
            let ends_after = self.crash.get().filter(|(which, _)| *which == self.started.get()).map(|(_, effect)| effect);
            let fuse = Fuse::new(ends_after);
            let event = json!({"action": "slice", "run_id": run, "slice": slice});
            let done = match select(pin!(self.ask_through(&fuse, event)), pin!(fuse.blown())).await {
                Either::Left((response, _)) => {
                    self.reports.borrow_mut().extend(response.slice);
                    true
                }
                Either::Right(_) => false,
            };
            if done {
                return;
            }
            self.crashed.set(true);
            self.clock.pass(TRIED_AGAIN).await;
        }
    }

    async fn tick(&self) {
        let dispatch = Dispatch {
            ledger: &self.ledger,
            control: &self.control,
            queue: &self.queue,
            dead_letters: &self.letters,
            time: &Invocation::begin(&self.clock, Duration::from_secs(60)),
            rules: RULES,
            tick: TICK,
            margin: MARGIN,
            handoff_threshold: HANDOFF,
            by: Correlation::new("dispatch").unwrap(),
        };
        dispatch.run().await.unwrap();
    }

    async fn consume(&self, number: usize) {
        let measure = Measure::default();
        while !self.over.get() {
            let received = self.queue.receive(10, VISIBILITY);
            if received.is_empty() {
                self.clock.pass(POLL).await;
                continue;
            }
            let event: SqsEvent = serde_json::from_value(event(&received)).unwrap();
            let deliver = Deliver {
                ledger: &self.ledger,
                control: &self.control,
                queue: &self.queue,
                dead_letters: &self.letters,
                secrets: &OneSecret,
                webhook: &self.receivers,
                time: &Invocation::begin(&self.clock, Duration::from_secs(30)),
                measure: &measure,
                margin: MARGIN,
                by: Correlation::new(format!("deliver-{number}")).unwrap(),
            };
            let (response, _) = deliver.handle(&event).await;
            let kept: Vec<&str> = response.batch_item_failures.iter().map(|item| item.item_identifier.as_str()).collect();
            let done = received.iter().filter(|message| !kept.contains(&message.id.as_str()));
            done.for_each(|message| self.queue.delete(&message.receipt));
        }
    }

    pub(crate) async fn run(&self, id: &str) -> Run {
        self.control.run(&RunId::new(id).unwrap()).await.unwrap().unwrap()
    }
}

impl Stage {
    /// A stage in which everything runs by itself.
    pub(crate) fn start() -> Self {
        let stage = Self::quiet();
        let spawner = stage.pool.spawner();
        let world = stage.world.clone();
        let ticking = async move {
            while !world.over.get() {
                world.tick().await;
                world.clock.pass(TICK).await;
            }
        };
        spawner.spawn_local(ticking).unwrap();
        for n in 0..CONSUMERS {
            let world = stage.world.clone();
            spawner.spawn_local(async move { world.consume(n).await }).unwrap();
        }
        let (world, starter) = (stage.world.clone(), spawner.clone());
        let starting = async move {
            while !world.over.get() {
                while let Some((run, slice)) = world.slices.take_due(world.clock.instant()) {
                    let world = world.clone();
                    starter.spawn_local(async move { world.slice(&run, slice).await }).unwrap();
                }
                world.clock.pass(Duration::from_secs(1)).await;
            }
        };
        spawner.spawn_local(starting).unwrap();
        stage
    }

    /// A stage in which nothing runs unless it is asked to.
    pub(crate) fn quiet() -> Self {
        let clock = Clock::new(begin());
        let world = World {
            ledger: MemoryLedger::default(),
            control: MemoryControl::default(),
            queue: MemoryQueue::new(begin()),
            letters: MemoryDeadLetters::new(begin()),
            slices: MemorySlices::default(),
            receivers: Receivers { clock: clock.clone(), answers: Mutex::default(), calls: Mutex::default() },
            crash: Cell::new(None),
            crashed: Cell::new(false),
            started: Cell::new(0),
            reports: RefCell::default(),
            asked: Cell::new(0),
            over: Cell::new(false),
            clock,
        };
        Self { world: Rc::new(world), pool: LocalPool::new() }
    }

    /// Lets time pass until the future is done.
    pub(crate) fn wait<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> T {
        let done = Rc::new(RefCell::new(None));
        let out = done.clone();
        self.pool.spawner().spawn_local(async move { *out.borrow_mut() = Some(future.await) }).unwrap();
        loop {
            self.pool.run_until_stalled();
            if let Some(value) = done.borrow_mut().take() {
                return value;
            }
            assert!(self.jump().is_some(), "nobody waits for anything any more");
        }
    }

    /// Asks redrive.
    pub(crate) fn ask(&mut self, event: Value) -> Response {
        let world = self.world.clone();
        self.wait(async move { world.ask(event).await })
    }

    /// Lets time pass until the world is as wanted, at most for so long.
    pub(crate) fn until(&mut self, what: &str, bound: Duration, wanted: impl Fn(&World) -> bool) {
        let end = self.clock.instant().plus(bound);
        let mut looked = self.clock.instant();
        loop {
            self.pool.run_until_stalled();
            let now = self.jump().expect("somebody waits");
            if now >= looked.plus(Duration::from_secs(1)) {
                looked = now;
                if wanted(&self.world) {
                    return;
                }
            }
            assert!(now < end, "{what} did not come by {end}: {:?}", self.reports.borrow().last());
        }
    }

    /// Lets so much time pass.
    pub(crate) fn pass(&mut self, how_long: Duration) {
        let clock = self.clock.clone();
        self.wait(async move { clock.pass(how_long).await });
    }

    /// The run as it is stored.
    pub(crate) fn stored(&mut self, id: &str) -> Run {
        let (world, id) = (self.world.clone(), id.to_owned());
        self.wait(async move { world.run(&id).await })
    }

    /// Lets time pass until a run has no slices left to do.
    pub(crate) fn until_over(&mut self, id: &str) -> Run {
        let (name, bound) = (RunId::new(id).unwrap(), Duration::from_secs(7_200));
        self.until("the end of a run", bound, |world| {
            let run = futures::executor::block_on(world.control.run(&name)).unwrap().unwrap();
            !run.needs_slice()
        });
        self.stored(id)
    }

    fn jump(&mut self) -> Option<Timestamp> {
        let now = self.clock.jump()?;
        self.queue.set_now(now);
        self.letters.set_now(now);
        Some(now)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.world.over.set(true);
    }
}

/// What `start` needs besides a selection.
pub(crate) fn order(selection: Value, more: Value) -> Value {
    let mut order = json!({
        "action": "start",
        "owner": "ann",
        "why": "the receiver answered 400 to everything",
        "evidence": "INC-7, mended at 02:40",
        "selection": selection,
        "max_count": 10_000,
        "rate_per_second": 10,
        "canary_size": 20,
        "abort_threshold_percent": 10,
    });
    order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    order
}

/// The id of the run that an answer is about.
pub(crate) fn run_id(response: &Response) -> String {
    assert!(response.ok, "{response:?}");
    response.run.as_ref().expect("a run").run.id.to_string()
}

/// The codes and fields of an answer's errors.
pub(crate) fn errors(response: &Response) -> Vec<(&'static str, &str)> {
    assert!(response.errors.is_empty() == response.ok, "{response:?}");
    response.errors.iter().map(|e| (e.code, e.field.as_str())).collect()
}

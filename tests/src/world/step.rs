//! I apply operations: start actors, let calls happen, kill, lose, delay, and let time pass.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use futures::FutureExt as _;
use futures::task::noop_waker;
use punctual_core::delivery::Delivery;
use punctual_core::destination::{Destination, Mode};
use punctual_core::id::{DeliveryId, IdentityParts};
use punctual_core::ports::{Control as _, Ledger as _};
use punctual_core::settings::{RetryMode, Settings};
use punctual_core::state::State;
use punctual_schedule::result::Answer as Scheduled;
use serde_json::json;

use super::actor::{self, Done, Running, Stage};
use super::checks::Violation;
use super::inner::Inner;
use super::kill::Killer;
use super::op::{Fate, Op};
use super::ports::Port;
use super::setup::{self, DESTINATIONS, Instants, START};
use super::{Report, effect::short};

/// How long the platform lets each function run, in milliseconds.
const DISPATCH_MS: i64 = 60_000;
pub(super) const DELIVER_MS: i64 = 30_000;
const SCHEDULE_MS: i64 = 60_000;
const OPERATE_MS: i64 = 15_000;
/// The queue's visibility timeout.
const VISIBILITY_MS: i64 = 180_000;
/// A request that is older than this is refused: its signature has lapsed.
const OLDEST_REQUEST_MS: i64 = 300_000;
/// No actor makes more calls than this in one go.
const MOST_STEPS: usize = 5_000;

/// The world.
pub struct World {
    pub(super) inner: Arc<Mutex<Inner>>,
    pub(super) actors: BTreeMap<u32, Running>,
    pub(super) stage: Stage,
    pub(super) seed: u64,
    pub(super) reminders: BTreeMap<u8, Instants>,
    /// Kills slices that go on undisturbed, if there is one.
    pub(super) killer: Option<Killer>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl World {
    /// The world of a seed, before anything has happened.
    #[must_use]
    pub fn new(seed: u64, traced: bool) -> Self {
        Self::with(seed, traced, (0..DESTINATIONS).map(|n| setup::destination(seed, n, false)).collect())
    }

    /// The world of a seed with these destinations.
    pub(super) fn with(seed: u64, traced: bool, destinations: Vec<Option<Destination>>) -> Self {
        let stage = setup::stage(seed);
        let mut inner = Inner::new(seed, START, stage.margin, usize::from(DESTINATIONS), traced);
        for (n, destination) in destinations.into_iter().enumerate() {
            match destination {
                Some(destination) => {
                    if setup::wants_review(&destination) {
                        inner.checks.review.insert(destination.spec.id.to_string());
                    }
                    inner.note_spec(&destination);
                    let _ = inner.control.put_destination(&destination, 0).now_or_never();
                }
                None => inner.violate("setup", format!("destination {n} is refused")),
            }
        }
        inner.say(|| format!("seed {seed}: {stage:?}"));
        Self {
            inner: Arc::new(Mutex::new(inner)),
            actors: BTreeMap::new(),
            stage,
            seed,
            reminders: BTreeMap::new(),
            killer: None,
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rule that was broken, if any.
    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        self.inner().violation.clone()
    }

    pub(super) fn report(self, ops: Vec<Op>) -> Report {
        let mut inner = self.inner();
        for row in inner.ledger.rows() {
            let what = format!("end: {}", row.state);
            inner.count(&what);
        }
        Report {
            ops,
            coverage: inner.coverage.clone(),
            violation: inner.violation.clone(),
            trace: inner.trace.take().unwrap_or_default(),
        }
    }

    /// The id of a reminder.
    pub(super) fn id_of(reminder: u8) -> DeliveryId {
        DeliveryId::derive(&IdentityParts {
            tenant: "acme".into(),
            subscriber: format!("s{reminder}"),
            renewal_period: "2027".into(),
            reminder_kind: "first".into(),
        })
    }

    pub(super) fn start(&mut self, number: u32, kind: &'static str, lasts: i64, make: impl FnOnce(Port) -> Running) {
        if self.actors.contains_key(&number) {
            return;
        }
        self.inner().begin(number, kind, lasts);
        let running = make(Port { world: self.inner.clone(), actor: number });
        self.actors.insert(number, running);
        self.poll(number);
    }

    fn operate(&mut self, actor: u32, event: serde_json::Value) {
        let stage = self.stage;
        self.start(actor, "operate", OPERATE_MS, |port| actor::operate(port, stage, event));
    }

    /// Puts a destination into shadow mode, as if it had been registered so: only before anybody has used it.
    fn shadow(&mut self, destination: u8) {
        self.register_anew(destination, |known| known.spec.mode = Mode::Shadow);
    }

    /// Lets rates bind, as if the destinations had been registered so.
    fn limits(&mut self, on: bool) {
        if !self.inner().ledger.rows().is_empty() {
            return;
        }
        self.inner().limits = on;
        self.inner().checks.limits.clear();
        for n in 0..DESTINATIONS {
            let burst = setup::destination(self.seed, n, on).and_then(|known| known.spec.burst);
            self.register_anew(n, |known| known.spec.burst = burst);
        }
    }

    /// Changes a destination that nobody has used yet.
    fn register_anew(&mut self, destination: u8, change: impl FnOnce(&mut Destination)) {
        let mut inner = self.inner();
        let Some(Ok(all)) = inner.control.destinations().now_or_never() else { return };
        let name = format!("r{}", destination % DESTINATIONS);
        let known = all.into_iter().find(|known| known.spec.id.as_str() == name);
        if let Some(mut known) = known.filter(|_| inner.ledger.rows().is_empty()) {
            change(&mut known);
            let expected = known.version;
            known.version += 1;
            inner.note_spec(&known);
            inner.control.put_destination(&known, expected).now_or_never();
        }
    }

    /// Lets an actor take what it was answered.
    fn poll(&mut self, number: u32) {
        let Some(running) = self.actors.get_mut(&number) else { return };
        let waker = noop_waker();
        if let std::task::Poll::Ready(done) = running.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.actors.remove(&number);
            let mut inner = self.inner();
            inner.bury_actor(number, false);
            if let Some(facts) = inner.facts.get_mut(&number) {
                facts.over = true;
            }
            inner.finished(number, &done);
        }
    }

    pub(super) fn crash(&mut self, number: u32, why: &str) {
        if self.actors.remove(&number).is_some() {
            let mut inner = self.inner();
            inner.count(why);
            inner.say(|| format!("a{number} {why}"));
            if inner.facts.get(&number).is_some_and(|facts| facts.kind == "slice") {
                inner.count(&format!("slice {why}"));
            }
            inner.start_again(number);
            inner.bury_actor(number, true);
            let now = inner.now;
            if let Some(facts) = inner.facts.get_mut(&number) {
                facts.faults += 1;
                facts.ends = facts.ends.min(now);
            }
        }
    }

    fn pass(&mut self, ms: i64) {
        let now = {
            let mut inner = self.inner();
            inner.now += ms;
            inner.now
        };
        let over: Vec<u32> = self
            .actors
            .keys()
            .copied()
            .filter(|n| self.inner().facts.get(n).is_some_and(|f| f.ends <= now && !f.outlives))
            .collect();
        for number in over {
            self.crash(number, "killed at its end");
        }
    }

    /// One call of an actor gets its fate. False if it has none that can go on.
    pub(super) fn step(&mut self, number: u32, call: usize, fate: Fate) -> bool {
        if !self.actors.contains_key(&number) {
            return false;
        }
        self.pass(1);
        let Some(chosen) = ({
            let inner = self.inner();
            let ready = inner.ready(number);
            call.checked_rem(ready.len()).and_then(|at| ready.get(at).copied())
        }) else {
            return false;
        };
        match fate {
            Fate::CrashBefore => {
                self.inner().count_slice_crash(number, chosen, "before");
                self.inner().pending.remove(&chosen);
                self.crash(number, "crash before a call");
            }
            Fate::CrashAfter => {
                self.inner().count_slice_crash(number, chosen, "after");
                self.inner().progress(chosen, Fate::Held);
                self.crash(number, "crash after a call");
            }
            _ => {
                self.inner().progress(chosen, fate);
                self.poll(number);
            }
        }
        true
    }

    /// An actor goes on until it must wait or is done.
    pub(super) fn run_on(&mut self, number: u32) {
        for _ in 0..MOST_STEPS {
            let fate = self.undisturbed(number);
            if self.violation().is_some() || !self.step(number, 0, fate) {
                return;
            }
        }
        self.inner().violate("endless_actor", format!("a{number} never ends"));
    }

    /// Applies one operation.
    pub fn apply(&mut self, op: &Op) {
        if !matches!(op, Op::Step { .. }) {
            self.inner().say(|| format!("{op:?}"));
        }
        let stage = self.stage;
        match *op {
            Op::Advance { ms } => self.pass(i64::from(ms)),
            Op::Tick { actor } => self.start(actor, "dispatch", DISPATCH_MS, |port| actor::dispatch(port, stage)),
            Op::Poll { actor, most, skip } => {
                if self.actors.contains_key(&actor) {
                    return;
                }
                let batch = {
                    let mut inner = self.inner();
                    let now = inner.now;
                    inner.queue.receive(usize::from(most).clamp(1, 10), usize::from(skip), VISIBILITY_MS, now)
                };
                if !batch.is_empty() {
                    self.start(actor, "deliver", DELIVER_MS, |port| actor::deliver(port, stage, batch));
                }
            }
            Op::Schedule { actor, reminder, content } => {
                let now = self.inner().now;
                let instants = *self.reminders.entry(reminder).or_insert_with(|| setup::instants(self.seed, reminder, now));
                let event = setup::schedule_event(reminder, content, instants);
                self.start(actor, "schedule", SCHEDULE_MS, |port| actor::schedule(port, stage, event));
            }
            Op::Hold { actor, reminder } => self.operate(actor, on_delivery("hold", reminder)),
            Op::Release { actor, reminder } => self.operate(actor, on_delivery("release", reminder)),
            Op::Pause { actor, destination } => self.operate(actor, on_destination("pause", destination)),
            Op::Resume { actor, destination } => self.operate(actor, on_destination("resume", destination)),
            Op::Policy { actor, destination, variant } => {
                let binds = self.inner().limits;
                let spec = setup::spec(self.seed, destination % DESTINATIONS, variant, binds);
                if let Ok(spec) = serde_json::from_value(spec.clone())
                    && let Some(known) = setup::destination(self.seed, destination % DESTINATIONS, binds)
                {
                    self.inner().note_spec(&Destination { spec, ..known });
                }
                let event =
                    json!({"action": "put_destination", "by": "sim", "why": "drill", "evidence": "a test", "destination": spec});
                self.operate(actor, event);
            }
            Op::Promote { actor, destination } => self.operate(actor, on_destination("promote", destination)),
            Op::Shadow { destination } => self.shadow(destination),
            Op::Limits { on } => self.limits(on),
            Op::KillSwitch { on } => {
                let retry_mode = if on { RetryMode::DeadLetter } else { RetryMode::Retry };
                self.inner().control.set_settings(Settings { retry_mode, ..Settings::default() });
            }
            Op::Step { actor, call, fate } => {
                self.step(actor, usize::from(call), fate);
            }
            Op::Run { actor } => self.run_on(actor),
            Op::Walk { actor, calls } => self.walk(actor, calls),
            Op::Crash { actor } => self.crash(actor, "crash"),
            Op::Cancel { actor, reminder } => {
                // A person and a producer take back through the same code, each by a function of its own.
                if actor % 2 == 0 {
                    let event = on_delivery("cancel", reminder);
                    self.start(actor, "cancel", OPERATE_MS, |port| actor::operate(port, stage, event));
                } else {
                    let named = json!([{ "delivery_id": Self::id_of(reminder) }]);
                    let event = json!({"action": "cancel", "by": "sim", "why": "drill", "deliveries": named});
                    self.start(actor, "cancel", SCHEDULE_MS, |port| actor::schedule(port, stage, event));
                }
            }
            Op::Reschedule { actor, reminder, variant } => {
                let to = setup::other_instants(self.seed, reminder, variant, self.inner().now);
                let (id, after, by) = (Self::id_of(reminder), to.deliver_after, to.deliver_by);
                let may_repeat = variant % 2 == 1;
                if may_repeat {
                    self.inner().checks.may_repeat.insert(actor);
                }
                let moved = json!([{ "delivery_id": id, "deliver_after": after, "deliver_by": by, "may_repeat": may_repeat }]);
                let event = json!({"action": "reschedule", "deliveries": moved});
                self.start(actor, "reschedule", SCHEDULE_MS, |port| actor::schedule(port, stage, event));
            }
            Op::Erase { reminder } => {
                let id = Self::id_of(reminder);
                self.inner().ledger.erase_payloads(&id);
            }
            Op::Garble { reminder, variant } => {
                let mut inner = self.inner();
                let body = setup::garbled(inner.row(&Self::id_of(reminder)).as_ref(), variant);
                let now = inner.now;
                inner.queue.put(body, now, now);
                inner.count("message garbled");
            }
            Op::Outlive { actor } => {
                let mut inner = self.inner();
                inner.count("zombie");
                if let Some(facts) = inner.facts.get_mut(&actor) {
                    facts.outlives = true;
                }
            }
            Op::Arrive { request } => self.inner().arrive_late(usize::from(request)),
            Op::Lose { message } => self.inner().on_message("message lost", |queue, _| queue.lose(message)),
            Op::Duplicate { message } => {
                self.inner().on_message("message duplicated", |queue, now| queue.duplicate(message, now))
            }
            Op::Delay { message, seconds } => {
                self.inner().on_message("message delayed", |queue, _| queue.delay(message, seconds));
            }
            Op::Receiver { destination, behaviour } => {
                if let Some(receiver) = self.inner().receivers.get_mut(usize::from(destination % DESTINATIONS)) {
                    receiver.behaviour = behaviour;
                }
            }
            Op::Reach { on } => self.inner().reach_on = on,
            Op::Skew { ms } => {
                let mut inner = self.inner();
                inner.skew = i64::from(ms);
                inner.checks.skewed |= ms != 0;
            }
            Op::Width { ms } => self.inner().width = i64::from(ms),
            Op::Lag { reminder } => {
                let id = Self::id_of(reminder);
                self.inner().lagging.insert(id);
            }
            Op::CatchUp => self.inner().catch_up(),
            Op::Redrive { .. }
            | Op::Slice { .. }
            | Op::LoseSlice { .. }
            | Op::Abort { .. }
            | Op::GoOn { .. }
            | Op::Freeze { .. }
            | Op::Broker { .. } => self.redrive_op(op),
        }
    }
}

fn on_delivery(action: &str, reminder: u8) -> serde_json::Value {
    json!({"action": action, "by": "sim", "why": "drill", "evidence": "a test", "delivery_id": World::id_of(reminder)})
}

fn on_destination(action: &str, destination: u8) -> serde_json::Value {
    let why = if action == "promote" { "promoted" } else { "drill" };
    json!({"action": action, "by": "sim", "why": why, "evidence": "a test", "destination_id": format!("r{}", destination % DESTINATIONS)})
}

impl Inner {
    /// Remembers the most that a destination ever allowed.
    fn note_spec(&mut self, destination: &Destination) {
        let attempts = destination.spec.retry.attempts;
        let most = self.checks.most.entry(destination.spec.id.to_string()).or_insert((Duration::ZERO, 0, attempts));
        most.0 = most.0.max(destination.total_timeout());
        most.1 = most.1.max(attempts);
        most.2 = most.2.min(attempts);
        self.checks.limits.entry(destination.spec.id.clone()).or_default().insert(destination.limit());
    }

    /// What a row's payload says.
    pub(super) fn body(&self, row: &Delivery) -> Option<Vec<u8>> {
        Some(self.ledger.payload(&row.id, &row.content).now_or_never()?.ok()??.body)
    }

    /// Where a slice crashes.
    fn count_slice_crash(&mut self, actor: u32, call: u64, when: &str) {
        let slice = self.facts.get(&actor).is_some_and(|facts| facts.kind == "slice");
        if let Some(word) = self.pending.get(&call).filter(|_| slice).and_then(|pending| pending.effect.word()) {
            self.count(&format!("slice crash {when} {word}"));
        }
    }

    fn on_message(
        &mut self,
        what: &str,
        act: impl FnOnce(&mut super::queue::SimQueue, i64) -> Option<punctual_core::id::MessageId>,
    ) {
        let now = self.now;
        if let Some(id) = act(&mut self.queue, now) {
            self.count(what);
            self.say(|| format!("{what}: {id}"));
        }
    }

    /// A request of a dead actor arrives after all.
    pub(super) fn arrive_late(&mut self, request: usize) {
        let Some(at) = request.checked_rem(self.network.len()) else { return };
        let (actor, effect, since) = self.network.remove(at);
        let age = self.now - since;
        if age > OLDEST_REQUEST_MS {
            return;
        }
        self.count("late arrival");
        self.say(|| format!("late arrival of a{actor}'s {}", effect.describe()));
        self.happen(actor, &effect, age, false);
    }

    /// An actor is done: what it learned must be in the ledger if nothing was refused to it.
    fn finished(&mut self, number: u32, done: &Done) {
        self.say(|| match done {
            Done::Scheduled(response) => format!("a{number} done: {:?}", response.summary),
            Done::Redriven(response) => format!("a{number} done: {}", response.text.join(" ")),
            other => format!("a{number} done: {other:?}"),
        });
        match done {
            Done::Dispatched(summary) => {
                for (what, n) in [
                    ("rescued", summary.rescued),
                    ("closed by dispatch", summary.closed_unknown),
                    ("slept", summary.slept),
                    ("lost race", summary.released.lost_races),
                    ("left", summary.left),
                    ("publish failed", summary.released.publish_failed),
                ] {
                    (0..n).for_each(|_| self.count(what));
                }
            }
            Done::Delivered(tally) => {
                for (what, n) in [
                    ("suppressed", tally.suppressed),
                    ("stale message", tally.stale),
                    ("closed by deliver", tally.closed_unknown),
                    ("late evidence", tally.late),
                    ("waiting", tally.waiting),
                    ("returned", tally.returned),
                    ("record failed", tally.failed),
                    ("slot denied", tally.slots_denied),
                    ("slot wasted", tally.slots_wasted),
                ] {
                    (0..n).for_each(|_| self.count(what));
                }
            }
            Done::Scheduled(response) => self.check_scheduled(response),
            Done::Operated(ok) => self.count(if *ok { "operated" } else { "operate refused" }),
            Done::Redriven(response) => self.count_redriven(response),
            Done::Failed(why) => {
                self.start_again(number);
                self.count("actor failed");
                self.say(|| format!("a{number} failed: {why}"));
            }
        }
        if self.facts.get(&number).is_some_and(|f| f.faults == 0) {
            self.check_recorded(number);
        }
    }

    fn check_scheduled(&mut self, response: &punctual_schedule::result::Response) {
        for item in &response.results {
            let stored = item.delivery_id.as_ref().and_then(|id| self.row(id));
            let answer = format!("scheduled: {:?}", item.answer);
            self.count(&answer);
            let good = match (item.answer, &stored) {
                (Scheduled::Created | Scheduled::Unchanged, Some(row)) => {
                    item.row.as_ref().is_some_and(|said| said.content == row.content)
                }
                (Scheduled::Created | Scheduled::Unchanged | Scheduled::Conflict, None) => false,
                (Scheduled::Conflict, Some(_)) => !item.conflicts.is_empty() || !item.errors.is_empty(),
                // Both are for ever, and the answer says so only if they are.
                (Scheduled::Cancelled | Scheduled::AlreadyCancelled, Some(row)) => row.state == State::Cancelled,
                (Scheduled::AlreadyDelivered, Some(row)) => row.state == State::Delivered,
                (Scheduled::Rescheduled, Some(row)) => {
                    item.row.as_ref().is_some_and(|said| said.version <= row.version && said.content == row.content)
                }
                (Scheduled::InFlight, Some(_)) => item.in_flight.is_some(),
                _ => true,
            };
            if !good {
                let id = item.delivery_id.as_ref().map(short);
                self.violate("schedule_answer", format!("{id:?} was answered {:?}, which is not so", item.answer));
            }
        }
    }
}

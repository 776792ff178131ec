//! I am the world's state: the tables, the queues, the network, the clock, and what every actor has asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use futures::FutureExt as _;
use punctual_adapters::memory::{MemoryControl, MemoryDeadLetters, MemoryLedger};
use punctual_core::clock::{ClockError, MAX_WIDTH, Now, check_machine};
use punctual_core::delivery::Delivery;
use punctual_core::id::{DeliveryId, DestinationId, RunId};
use punctual_core::outcome::{CallResult, Failure};
use punctual_core::ports::{Ledger as _, Request};
use punctual_core::time::Timestamp;
use punctual_deliver::measure::Measure;

use super::checks::{Call, Checks, Violation};
use super::effect::{Answer, Effect, Pending, Stage, short};
use super::op::Fate;
use super::queue::SimQueue;
use super::receiver::{Post, Receiver};
use super::redrive::{Start, Starts};
use super::rng::mix;
use super::runs::Seen;
use super::script::Script;

/// An instant that a waiting actor knows this well when it wakes, in milliseconds to either side.
const NARROW_MS: i64 = 15;

/// What the world knows of an actor, dead ones included.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// What it is.
    pub(super) kind: &'static str,
    /// It has come to its own end.
    pub(super) over: bool,
    /// The start that made it, if it is a slice.
    pub(super) start: Option<Start>,
    /// When the platform ends it.
    pub(super) ends: i64,
    /// Nobody ends it: a zombie.
    pub(super) outlives: bool,
    pub(super) draws: u64,
    /// How often the world refused it something.
    pub(super) faults: u32,
    /// The destinations that it saw paused when it last read them.
    pub(super) saw_paused: BTreeSet<DestinationId>,
    /// The destinations whose breakers it saw open.
    pub(super) saw_open: BTreeSet<DestinationId>,
    /// Those whose breakers it saw closed before.
    pub(super) saw_closed: BTreeSet<DestinationId>,
    /// The attempt budgets that it saw then.
    pub(super) saw_budget: BTreeMap<DestinationId, u32>,
    /// The runs as it last saw them.
    pub(super) saw_runs: BTreeMap<RunId, Seen>,
    /// Whether it last saw redriving frozen.
    pub(super) saw_frozen: bool,
    below: i64,
    above: i64,
}

/// The state.
pub(super) struct Inner {
    pub(super) seed: u64,
    pub(super) now: i64,
    pub(super) skew: i64,
    pub(super) width: i64,
    /// Whether rates bind; bookings are steps then.
    pub(super) limits: bool,
    pub(super) margin: Duration,
    pub(super) ledger: MemoryLedger,
    /// The wake index: what it shows of a row may be old.
    pub(super) index: MemoryLedger,
    pub(super) lagging: BTreeSet<DeliveryId>,
    pub(super) control: MemoryControl,
    /// Since when destinations have been paused.
    pub(super) paused_since: BTreeMap<DestinationId, i64>,
    /// Whether it is noted how destinations are reached.
    pub(super) reach_on: bool,
    /// Since when breakers have been open.
    pub(super) open_since: BTreeMap<DestinationId, i64>,
    pub(super) queue: SimQueue,
    /// The dead-letter queue.
    pub(super) letters: MemoryDeadLetters,
    /// The starter of slices.
    pub(super) starts: Starts,
    /// What deliver measured: all its invocations of a run share one environment.
    pub(super) measure: Arc<Measure>,
    pub(super) receivers: Vec<Receiver>,
    /// Decides for the receivers what comes back, if there is one.
    pub(super) script: Option<Script>,
    pub(super) pending: BTreeMap<u64, Pending>,
    next: u64,
    /// Requests whose sender is dead or has given up, and when they left.
    pub(super) network: Vec<(u32, Effect, i64)>,
    pub(super) facts: BTreeMap<u32, Facts>,
    pub(super) checks: Checks,
    pub(super) coverage: BTreeMap<String, u64>,
    pub(super) violation: Option<Violation>,
    pub(super) trace: Option<Vec<String>>,
}

impl Inner {
    pub(super) fn new(seed: u64, start: i64, margin: Duration, receivers: usize, traced: bool) -> Self {
        Self {
            seed,
            now: start,
            skew: 0,
            width: 300,
            limits: false,
            margin,
            ledger: MemoryLedger::default(),
            index: MemoryLedger::default(),
            lagging: BTreeSet::new(),
            control: MemoryControl::default(),
            paused_since: BTreeMap::new(),
            reach_on: false,
            open_since: BTreeMap::new(),
            queue: SimQueue::default(),
            letters: MemoryDeadLetters::new(Timestamp::from_millis(start)),
            starts: Starts::default(),
            measure: Arc::default(),
            receivers: (0..receivers).map(|_| Receiver::new()).collect(),
            script: None,
            pending: BTreeMap::new(),
            next: 0,
            network: Vec::new(),
            facts: BTreeMap::new(),
            checks: Checks::default(),
            coverage: BTreeMap::new(),
            violation: None,
            trace: traced.then(Vec::new),
        }
    }

    /// The first violation stays.
    pub(super) fn violate(&mut self, rule: &'static str, detail: String) {
        self.say(|| format!("VIOLATION {rule}: {detail}"));
        self.violation.get_or_insert(Violation { rule, detail });
    }

    pub(super) fn count(&mut self, what: &str) {
        match self.coverage.get_mut(what) {
            Some(n) => *n += 1,
            None => {
                self.coverage.insert(what.to_owned(), 1);
            }
        }
    }

    pub(super) fn say(&mut self, line: impl FnOnce() -> String) {
        let now = Timestamp::from_millis(self.now);
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{} {}", now.to_string().get(11..23).unwrap_or_default(), line()));
        }
    }

    pub(super) fn begin(&mut self, actor: u32, kind: &'static str, lasts: i64) {
        let half = u64::try_from(self.width / 2).unwrap_or(0) + 1;
        let part = |n: u64| i64::try_from(mix(&[self.seed, u64::from(actor), n]) % half).unwrap_or(0);
        let facts = Facts { kind, ends: self.now + lasts, below: part(1), above: part(2), ..Facts::default() };
        self.facts.insert(actor, facts);
        self.count(kind);
    }

    pub(super) fn clock(&mut self, actor: u32) -> Result<Now, ClockError> {
        let (below, above) = self.facts.get(&actor).map_or((0, 0), |f| (f.below, f.above));
        let now = Now { lo: Timestamp::from_millis(self.now - below), hi: Timestamp::from_millis(self.now + above) };
        let width = now.hi.since(now.lo);
        let known = if width > MAX_WIDTH {
            Err(ClockError::TooWide(below + above))
        } else {
            check_machine(now, Timestamp::from_millis(self.now + self.skew)).map(|()| now)
        };
        if let Err(error) = &known {
            let what = if matches!(error, ClockError::TooWide(_)) { "clock: too wide" } else { "clock: machine off" };
            self.count(what);
        }
        known
    }

    pub(super) fn time_left(&self, actor: u32) -> Duration {
        let left = self.facts.get(&actor).map_or(0, |f| f.ends - self.now);
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    fn draw(&mut self, actor: u32) -> u64 {
        let draws = self.facts.get_mut(&actor).map_or(0, |f| {
            f.draws += 1;
            f.draws
        });
        mix(&[self.seed, u64::from(actor), 3, draws])
    }

    pub(super) fn random(&mut self, actor: u32) -> f64 {
        f64::from(u32::try_from(self.draw(actor) >> 32).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
    }

    pub(super) fn unique(&mut self, actor: u32) -> String {
        self.draw(actor);
        format!("a{actor}x{}", self.facts.get(&actor).map_or(0, |f| f.draws))
    }

    pub(super) fn row(&self, id: &DeliveryId) -> Option<Delivery> {
        self.ledger.read(std::slice::from_ref(id)).now_or_never()?.ok()?.into_iter().next()
    }

    pub(super) fn register(&mut self, actor: u32, effect: Effect, waker: Waker) -> u64 {
        let number = self.next;
        self.next += 1;
        let pending = Pending { actor, effect, stage: Stage::Open, since: self.now, waker: Some(waker) };
        self.pending.insert(number, pending);
        number
    }

    pub(super) fn take_answer(&mut self, number: u64, waker: &Waker) -> Option<Answer> {
        let pending = self.pending.get_mut(&number)?;
        if !matches!(pending.stage, Stage::Answered(_)) {
            pending.waker = Some(waker.clone());
            return None;
        }
        match self.pending.remove(&number)?.stage {
            Stage::Answered(answer) => Some(answer),
            _ => None,
        }
    }

    /// When a call can go on.
    pub(super) fn ready_at(&self, pending: &Pending) -> i64 {
        let ms = |how_long: &Duration| i64::try_from(how_long.as_millis()).unwrap_or(i64::MAX);
        match (&pending.stage, &pending.effect) {
            (Stage::AtReceiver(reply), Effect::Post(_, timeout)) => {
                let end = pending.since + ms(timeout);
                if reply.result.is_some() { reply.ready_at.min(end) } else { end }
            }
            (Stage::Open, Effect::WaitUntil(at)) => at.as_millis() + NARROW_MS,
            (Stage::Open, Effect::Pause(how_long)) => pending.since + ms(how_long),
            _ => self.now,
        }
    }

    /// The calls of an actor that can go on now, oldest first.
    pub(super) fn ready(&self, actor: u32) -> Vec<u64> {
        let of_actor = self.pending.iter().filter(|(_, p)| p.actor == actor && !matches!(p.stage, Stage::Answered(_)));
        of_actor.filter(|(_, p)| self.ready_at(p) <= self.now).map(|(number, _)| *number).collect()
    }

    /// One call gets its fate; crashes are the caller's business.
    pub(super) fn progress(&mut self, number: u64, fate: Fate) {
        let Some(mut pending) = self.pending.remove(&number) else { return };
        let actor = pending.actor;
        let timer = matches!(pending.effect, Effect::WaitUntil(_) | Effect::Pause(_));
        let fate = if timer { Fate::Ok } else { fate };
        if matches!(fate, Fate::Refused | Fate::AnswerLost | Fate::Partial) {
            self.count(if fate == Fate::AnswerLost { "fault: answer lost" } else { "fault: refused" });
            if let Some(facts) = self.facts.get_mut(&actor) {
                facts.faults += 1;
            }
        }
        self.say(|| format!("a{actor} {} [{fate:?}]", pending.effect.describe()));
        let stage = std::mem::replace(&mut pending.stage, Stage::Open);
        pending.stage = match (stage, &pending.effect) {
            (Stage::Happened(answer) | Stage::Answered(answer), _) => Stage::Answered(answer),
            (Stage::AtReceiver(reply), Effect::Post(post, _)) => {
                let late = reply.ready_at > self.now;
                let result = reply.result.filter(|_| !late).unwrap_or(CallResult::Failed(Failure::Timeout));
                Stage::Answered(self.answered(post.call, result))
            }
            (_, Effect::Post(post, timeout)) => {
                let end = pending.since + i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
                let post = post.clone();
                if self.now >= end {
                    // It is still on its way, and may arrive after all.
                    self.network.push((actor, pending.effect.clone(), pending.since));
                    Stage::Answered(self.answered(post.call, Failure::Timeout.into()))
                } else if fate == Fate::Refused {
                    Stage::Answered(self.answered(post.call, Failure::Cut.into()))
                } else {
                    let reply = self.arrive(&post);
                    match reply.result {
                        _ if fate == Fate::AnswerLost => Stage::Answered(self.answered(post.call, Failure::Cut.into())),
                        Some(result) if reply.ready_at <= self.now && fate != Fate::Held => {
                            Stage::Answered(self.answered(post.call, result))
                        }
                        _ => Stage::AtReceiver(reply),
                    }
                }
            }
            (_, effect) => {
                if fate == Fate::Refused {
                    Stage::Answered(Answer::Fault)
                } else {
                    let age = self.now - pending.since;
                    let answer = self.happen(actor, effect, age, fate == Fate::Partial);
                    match fate {
                        Fate::AnswerLost => Stage::Answered(Answer::Fault),
                        Fate::Held => Stage::Happened(answer),
                        _ => Stage::Answered(answer),
                    }
                }
            }
        };
        if matches!(pending.stage, Stage::Answered(_))
            && let Some(waker) = pending.waker.take()
        {
            waker.wake();
        }
        self.pending.insert(number, pending);
    }

    pub(super) fn arrive(&mut self, post: &Post) -> super::receiver::Reply {
        let now = self.now;
        self.count("receiver: request arrived");
        if let (Some(script), Some(receiver)) = (&mut self.script, self.receivers.get_mut(post.destination)) {
            let (reply, processed) = script.arrive(now);
            if processed {
                receiver.process(post);
            }
            return reply;
        }
        match self.receivers.get_mut(post.destination) {
            Some(receiver) => receiver.arrive(post, now),
            None => super::receiver::Reply { result: Some(Failure::Cut.into()), ready_at: now },
        }
    }

    fn answered(&mut self, call: usize, result: CallResult) -> Answer {
        let now = self.now;
        if let Some(script) = &mut self.script {
            script.answered(now, &result);
        }
        if let Some(call) = self.checks.calls.get_mut(call) {
            call.answer = Some((now, result.clone()));
        }
        Answer::Called(result)
    }

    /// A request's first byte leaves: everything that must hold of a call is checked here.
    pub(super) fn first_byte(&mut self, actor: u32, to: usize, request: &Request) -> Option<Post> {
        let header = |name: &str| request.headers.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
        let id = DeliveryId::new(header("webhook-id")?).ok()?;
        let key = header("idempotency-key")?;
        let attempt = header("x-delivery-attempt")?.parse().ok()?;
        self.count("call");
        self.say(|| format!("a{actor} first byte of {}#{attempt} to r{to}", short(&id)));
        let call = Call { id: id.clone(), to, attempt, actor, started: self.now, timeout: request.total_timeout, answer: None };
        self.check_call(&call, to, &key, &request.body);
        if let Some(script) = &mut self.script {
            script.first_byte(call.started);
        }
        self.checks.calls.push(call);
        Some(Post { call: self.checks.calls.len() - 1, destination: to, id, key })
    }

    /// What a dead actor had asked for stays in the network or is gone.
    pub(super) fn bury_actor(&mut self, actor: u32, crashed: bool) {
        let numbers: Vec<u64> = self.pending.iter().filter(|(_, p)| p.actor == actor).map(|(n, _)| *n).collect();
        for number in numbers {
            if let Some(pending) = self.pending.remove(&number)
                && crashed
                && matches!(pending.stage, Stage::Open)
                && pending.effect.outlives_its_sender()
            {
                self.network.push((actor, pending.effect, pending.since));
            }
        }
    }

    /// After a wait the actor knows the time better.
    pub(super) fn narrow(&mut self, actor: u32) {
        if let Some(facts) = self.facts.get_mut(&actor) {
            facts.below = facts.below.min(NARROW_MS);
            facts.above = facts.above.min(NARROW_MS);
        }
    }
}

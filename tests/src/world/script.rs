//! I play one delivery to its end: a script says what each of its attempts meets, whatever the receivers would do.
//!
//! Nothing crashes and nothing is lost here; what is hard is the sequence of results, the policy, the clock and the
//! receiver's wishes. The world's rules hold all the way, and the [`Story`] has what there is to judge beyond them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt as _;
use punctual_core::delivery::Delivery;
use punctual_core::destination::{Change, Destination};
use punctual_core::outcome::{CallResult, Failure, StatusClass};
use punctual_core::ports::{Control as _, Request};
use punctual_core::reason::Reason;
use punctual_core::retry::RetryPolicy;
use punctual_core::time::Timestamp;
use serde_json::json;

use super::checks::Violation;
use super::op::Op;
use super::ports::url_of;
use super::receiver::Reply;
use super::settle::FIRST;
use super::setup::{Instants, START};
use super::step::World;
use super::wish::Wish;

/// What an attempt meets.
#[derive(Debug, Clone)]
pub enum Meets {
    /// An answer.
    Answer {
        /// Its status.
        status: u16,
        /// Its `Retry-After`.
        wish: Wish,
        /// How long it takes, in milliseconds; past the total timeout it is never seen.
        after_ms: u32,
    },
    /// A failure: a timeout or a cut after the request was processed, any other before the first byte.
    Fails(Failure),
    /// No signing secret.
    NoSecret,
}

/// A delivery, its destination, and what it meets.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Decides the stage, the clocks' share of their width, and every random number.
    pub seed: u64,
    /// How well the database's time is known, in milliseconds.
    pub width_ms: u16,
    /// The destination's policy.
    pub policy: RetryPolicy,
    /// The destination's total timeout, in milliseconds.
    pub total_timeout_ms: u64,
    /// The destination's overrides.
    pub classes: BTreeMap<u16, StatusClass>,
    /// Whether a lost answer is for a person to look at.
    pub review: bool,
    /// Whether the kill switch is on.
    pub kill_switch: bool,
    /// How many attempts a redrive has granted.
    pub granted: u32,
    /// When it is due, from the start, in milliseconds.
    pub due_ms: i64,
    /// From when it is due, or from the start if that is later, to its deadline, in milliseconds.
    pub window_ms: i64,
    /// What the attempts meet; from the first again after the last.
    pub meets: Vec<Meets>,
}

/// What an attempt met, as its maker learned it.
#[derive(Debug, Clone)]
pub struct Met {
    /// When it was learned.
    pub at_ms: i64,
    /// What.
    pub result: CallResult,
    /// Until when the receiver wants to be left alone.
    pub floor_ms: Option<i64>,
}

/// One request as it was handed to the network.
#[derive(Debug, Clone)]
pub struct Sent {
    /// `idempotency-key`.
    pub key: String,
    /// `webhook-id`.
    pub webhook_id: String,
    /// `x-delivery-attempt`.
    pub attempt: String,
    /// When its first byte left, if it did.
    pub first_byte_ms: Option<i64>,
}

/// What became of a [`Plan`].
#[derive(Debug, Clone)]
pub struct Story {
    /// The row at its end; none if it was not stored.
    pub row: Option<Delivery>,
    /// Deadline less this is the last safe start.
    pub margin: Duration,
    /// What its attempts met, in order.
    pub met: Vec<Met>,
    /// What was handed to the network, in order.
    pub sent: Vec<Sent>,
    /// Whether its destination is paused.
    pub paused: bool,
    /// What happened how often.
    pub coverage: BTreeMap<String, u64>,
    /// The world's rule that was broken, if any.
    pub violation: Option<Violation>,
    /// What happened, line by line.
    pub trace: Vec<String>,
}

/// The script as it is played.
#[derive(Debug, Default)]
pub(super) struct Script {
    meets: Vec<Meets>,
    next: usize,
    /// What the answer under way wishes, and when it was written.
    wish: Option<(Wish, i64)>,
    delivers: Vec<u16>,
    met: Vec<Met>,
    sent: Vec<Sent>,
}

impl Script {
    fn current(&self) -> Option<Meets> {
        self.meets.get(self.next.checked_rem(self.meets.len())?).cloned()
    }

    fn note(&mut self, now: i64, result: CallResult) {
        let wish = self.wish.take().filter(|_| matches!(result, CallResult::Answered { .. }));
        let floor_ms = wish.and_then(|(wish, written)| wish.floor(written, now));
        self.met.push(Met { at_ms: now, result, floor_ms });
    }

    /// Whether the secrets that are asked for now cannot be had.
    pub(super) fn lacks_secret(&mut self, now: i64) -> bool {
        let lacks = matches!(self.current(), Some(Meets::NoSecret));
        if lacks {
            self.next += 1;
            self.note(now, CallResult::NotCalled(Reason::SecretUnavailable));
        }
        lacks
    }

    /// A request is handed over.
    pub(super) fn handed(&mut self, request: &Request) {
        let header = |name: &str| {
            request.headers.iter().filter(|(n, _)| *n == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(",")
        };
        self.sent.push(Sent {
            key: header("idempotency-key"),
            webhook_id: header("webhook-id"),
            attempt: header("x-delivery-attempt"),
            first_byte_ms: None,
        });
    }

    /// A connection is asked for.
    pub(super) fn connect(&mut self, now: i64) -> Option<Failure> {
        match self.current() {
            Some(Meets::Fails(failure)) if !matches!(failure, Failure::Timeout | Failure::Cut) => {
                self.next += 1;
                self.note(now, failure.into());
                Some(failure)
            }
            _ => None,
        }
    }

    /// A request's first byte leaves.
    pub(super) fn first_byte(&mut self, now: i64) {
        if let Some(sent) = self.sent.last_mut() {
            sent.first_byte_ms = Some(now);
        }
    }

    /// A request arrives: what comes back, and whether it is processed.
    pub(super) fn arrive(&mut self, now: i64) -> (Reply, bool) {
        let meets = self.current();
        self.next += 1;
        match meets {
            Some(Meets::Answer { status, wish, after_ms }) => {
                let retry_after = wish.text(now);
                self.wish = Some((wish, now));
                let result = Some(CallResult::Answered { status, retry_after });
                (Reply { result, ready_at: now + i64::from(after_ms) }, self.delivers.contains(&status))
            }
            Some(Meets::Fails(Failure::Timeout)) => (Reply { result: None, ready_at: now }, true),
            _ => (Reply { result: Some(Failure::Cut.into()), ready_at: now }, true),
        }
    }

    /// A call's maker learns how it ended.
    pub(super) fn answered(&mut self, now: i64, result: &CallResult) {
        self.note(now, result.clone());
    }
}

fn destination(plan: &Plan) -> Result<Destination, serde_json::Error> {
    let spec = json!({
        "id": "r0",
        "url": url_of(0),
        "secrets": ["punctual/sim/r0"],
        "connect_timeout_ms": 1_000,
        "total_timeout_ms": plan.total_timeout_ms,
        "shards": 1,
        "retry": plan.policy,
        "classes": plan.classes,
        "on_unknown": if plan.review { "review" } else { "retry" },
    });
    let changed = Change { at: Timestamp::from_millis(START), by: "sim".into(), why: "a plan".into() };
    Ok(Destination { spec: serde_json::from_value(spec)?, version: 1, paused: None, changed })
}

/// Plays a plan.
///
/// # Errors
/// What is wrong with its destination.
pub fn play(plan: &Plan, traced: bool) -> Result<Story, serde_json::Error> {
    let destination = destination(plan)?;
    let mut world = World::with(plan.seed, traced, vec![Some(destination.clone())]);
    let delivers = (100..=599).filter(|status| match plan.classes.get(status) {
        Some(class) => *class == StatusClass::Delivered,
        None => (200..=299).contains(status),
    });
    world.inner().script = Some(Script { meets: plan.meets.clone(), delivers: delivers.collect(), ..Script::default() });
    world.apply(&Op::Width { ms: plan.width_ms });
    world.apply(&Op::KillSwitch { on: plan.kill_switch });
    let deliver_after = Timestamp::from_millis(START + plan.due_ms);
    let deliver_by = Timestamp::from_millis(deliver_after.as_millis().max(START) + plan.window_ms);
    world.reminders.insert(0, Instants { deliver_after, deliver_by });
    let mut next = FIRST;
    world.start_and_run(&Op::Schedule { actor: next, reminder: 0, content: 0 });
    let id = World::id_of(0);
    let stored = world.inner().row(&id);
    if let Some(row) = stored {
        // As a redrive will have left it.
        let row = Delivery { granted: plan.granted, ..row };
        world.inner().ledger.put_row(row.clone());
        world.inner().index.put_row(row);
        world.come_to_rest(&mut next);
    }
    let mut inner = world.inner();
    let known = inner.control.destinations().now_or_never().and_then(Result::ok).unwrap_or_default();
    let script = inner.script.take().unwrap_or_default();
    Ok(Story {
        row: inner.row(&id),
        margin: destination.margin(world.stage.margin),
        met: script.met,
        sent: script.sent,
        paused: known.iter().any(|destination| destination.paused.is_some()),
        coverage: inner.coverage.clone(),
        violation: inner.violation.clone(),
        trace: inner.trace.take().unwrap_or_default(),
    })
}

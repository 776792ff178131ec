//! I ask the shipped core: every decision, guard and change of the model is its answer. Each distinct question is asked
//! once and remembered; the core is pure.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use punctual_core::acquire::{Acquire, Claimer, can_start};
use punctual_core::clock::Now;
use punctual_core::decide::{Barrier, ForDeliver, ForDispatch, for_deliver, for_dispatch};
use punctual_core::delivery::{Cancel, Delivery, Instants};
use punctual_core::destination::{Change, Destination, Mode, Spec};
use punctual_core::id::{Correlation, MessageId, Owner};
use punctual_core::outcome::{CallResult, Called, classify};
use punctual_core::reason::Reason;
use punctual_core::redrive::{ForLetter, ForRow, Order, Run, Selection, for_letter, for_row};
use punctual_core::retry::{RetryPolicy, last_safe_start};
use punctual_core::settings::RetryMode;
use punctual_core::state::Refusal;
use punctual_core::transition::{self, Grant, QUEUE_REACH, Stamp, Terms, Transition};

use crate::bounds::{ASKED, MOVED, REDRIVEN_BY, Scope};
use crate::row::{Pending, Row, TICK, at, id, run_id, ticks};
use crate::world::{Answer, Wish};

/// Deadline less this is the last safe start.
const MARGIN: Duration = TICK;
/// How far ahead dispatch works.
pub const HORIZON: Duration = TICK;
/// When a message counts as overdue.
const THRESHOLD: Duration = TICK;
/// A dispatch lease.
const DISPATCH_LEASE: Duration = TICK;
/// A deliver lease: what is left of the invocation, and the clock bound.
const DELIVER_LEASE: Duration = TICK;
/// The longest that a call takes, in ticks.
pub const CALL: u8 = 1;

/// What an actor knows of the ledger's time: at least `lo`, at most `hi`, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Knows {
    pub lo: u8,
    pub hi: u8,
}

impl Knows {
    fn now(self) -> Now {
        Now { lo: at(self.lo), hi: at(self.hi) }
    }
}

/// What an actor asks the core about a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Question {
    /// Dispatch claims it without having read it.
    DispatchClaim,
    /// Dispatch has read it.
    DispatchLook,
    /// Deliver claims it for this attempt without having read it.
    DeliverClaim(u8),
    /// Deliver has read it.
    DeliverLook,
    /// Its attempt has this outcome.
    Outcome(Answer),
    /// Attempt number so-and-so has this outcome, and its fence is lost.
    Late(u8, Answer),
    /// The queue has its message.
    Mark,
    /// The queue does not have its message.
    Return,
    /// Its dead letter was sent.
    MarkLetter,
    /// An operator wishes something.
    Wish(Wish),
    /// A redrive run has read it.
    Redrive(u8),
    /// A letter of this death was received, and it was read after that.
    Letter(u8),
}

/// What the core says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Nothing,
    /// A claim made without having read the row succeeds; the row after it.
    Claimed(Row),
    /// This is to be written, and the row is then ours.
    WriteClaim(Pending),
    /// This is to be written.
    Write(Pending),
    /// It owes a dead letter.
    Bury,
    /// The letter goes.
    Delete,
}

pub fn ask(question: Question, row: &Row, knows: Knows) -> Reply {
    thread_local! {
        static KNOWN: RefCell<HashMap<(Question, Row, Knows), Reply>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| *known.entry((question, *row, knows)).or_insert_with(|| answer(question, row, knows.now())))
}

fn answer(question: Question, row: &Row, now: Now) -> Reply {
    let scope = row.scope;
    let row = &row.delivery();
    let (policy, stamp) = (policy(scope), stamp(now));
    let written = |t: Result<Transition, Refusal>| t.map_or(Reply::Nothing, |t| Reply::Write(Pending::of(&t, scope)));
    match question {
        Question::DispatchClaim => {
            let due_by = now.lo.plus(HORIZON);
            claimed(scope, row, &Acquire::for_dispatch(id(), claimer(now, DISPATCH_LEASE), Mode::Live, due_by, now, MARGIN))
        }
        Question::DispatchLook => written(match for_dispatch(row, now, now.lo.plus(HORIZON), MARGIN, THRESHOLD) {
            ForDispatch::Bury => return Reply::Bury,
            ForDispatch::Claim | ForDispatch::Rescue => {
                return to_claim(scope, transition::dispatch_claimed(row, claimer(now, DISPATCH_LEASE), Mode::Live, &stamp));
            }
            ForDispatch::CloseUnknown => transition::closed_as_unknown(row, &terms(&policy, Duration::ZERO), &stamp),
            ForDispatch::Expire => transition::expired(row, &stamp),
            // Nothing to do, or a hold's business: no row is held here.
            _ => return Reply::Nothing,
        }),
        Question::DeliverClaim(number) => {
            claimed(scope, row, &Acquire::for_deliver(id(), u32::from(number), claimer(now, DELIVER_LEASE), now, MARGIN))
        }
        Question::DeliverLook => written(match for_deliver(row, now, MARGIN, Barrier::None, policy.attempts) {
            ForDeliver::Suppress | ForDeliver::Stale | ForDeliver::Wait(_) => return Reply::Nothing,
            ForDeliver::Bury => return Reply::Bury,
            ForDeliver::Claim => return to_claim(scope, transition::deliver_claimed(row, claimer(now, DELIVER_LEASE), &stamp)),
            ForDeliver::Return(reason) => transition::returned(row, reason, MARGIN, &stamp),
            ForDeliver::CloseUnknown => transition::closed_as_unknown(row, &terms(&policy, QUEUE_REACH), &stamp),
            ForDeliver::Expire => transition::expired(row, &stamp),
            ForDeliver::Exhausted => transition::dead_without_attempt(row, Reason::AttemptsExhausted, &stamp),
        }),
        Question::Outcome(answer) => {
            let reach = if answer == Answer::FailedFar { Duration::ZERO } else { QUEUE_REACH };
            let called = called(answer);
            let class = classify(&called.result, &BTreeMap::new(), now);
            written(transition::finished(row, &called, class, &terms(&policy, reach), 0.0, &stamp))
        }
        Question::Late(number, answer) => {
            let called = called(answer);
            let class = classify(&called.result, &BTreeMap::new(), now);
            let evidence = transition::evidence(u32::from(number), &called, class, 1);
            written(transition::late(row, &evidence, answer == Answer::Accepted, &stamp).ok_or(Refusal::Terminal))
        }
        Question::Mark => written(transition::queued(row, MessageId::new("m").expect("a name"), &stamp)),
        Question::Return => written(transition::returned(row, Reason::PublishFailed, MARGIN, &stamp)),
        Question::MarkLetter => written(transition::dead_letter_sent(row, &stamp)),
        Question::Wish(Wish::Cancel) => written(transition::cancelled(row, cancel(), &stamp)),
        Question::Wish(Wish::Forwards) => rescheduled(row, MOVED, scope, &stamp),
        Question::Wish(Wish::Backwards) => rescheduled(row, ASKED, scope, &stamp),
        Question::Redrive(run) => match for_row(row, &redrive(run, scope), Some(&destination(scope)), true, now, MARGIN) {
            ForRow::Move(found) => {
                // The slot that is booked is not in the past.
                let slot = found.not_before.max(now.hi);
                let grant = Grant { owner: "ann".into(), attempts: found.grant, slot, deliver_by: found.deliver_by };
                written(transition::redriven(row, &run_id(run).expect("a name"), grant, MARGIN, &stamp))
            }
            ForRow::Skip(_) => Reply::Nothing,
        },
        Question::Letter(death) => match for_letter(Some(u32::from(death)), Some(row)) {
            ForLetter::Delete(_) => Reply::Delete,
            ForLetter::Leave(_) => Reply::Nothing,
        },
    }
}

/// A run that takes what is dead or expired, and brings a new deadline.
fn redrive(run: u8, scope: Scope) -> Run {
    let order = Order {
        owner: "ann".into(),
        why: "mended".into(),
        evidence: "seen".into(),
        selection: Selection::default(),
        max_count: 1,
        rate_per_second: 1,
        canary_size: 1,
        abort_threshold_percent: 100,
        canary_seconds: 60,
        attempts: u32::from(scope.bounds().granted),
        deliver_by: Some(at(REDRIVEN_BY)),
    };
    Run::new(run_id(run).expect("a name"), order, at(0))
}

fn destination(scope: Scope) -> Destination {
    let spec = serde_json::json!({"id": "crm", "url": "https://hooks.example.com/r", "secrets": ["punctual/test/crm"]});
    let spec = Spec { retry: policy(scope), ..serde_json::from_value(spec).expect("a spec") };
    let changed = Change { at: at(0), by: "ann".into(), why: "new".into() };
    Destination { spec, version: 1, paused: None, changed }
}

/// In the order of the handler: the core's answer, then the attempts that are left, then the time that is left.
fn rescheduled(row: &Delivery, (after, by): (u8, u8), scope: Scope, stamp: &Stamp) -> Reply {
    let to = Instants { deliver_after: at(after), deliver_by: at(by) };
    let Ok(moved) = transition::rescheduled(row, to, MARGIN, stamp) else { return Reply::Nothing };
    let exhausted = moved.after.next_attempt() > policy(scope).attempts.saturating_add(row.granted);
    let too_late = stamp.now.may_have_reached(last_safe_start(to.deliver_by, MARGIN));
    if exhausted || too_late { Reply::Nothing } else { Reply::Write(Pending::of(&moved, scope)) }
}

fn cancel() -> Cancel {
    Cancel { since: at(0), by: "ann".into(), why: "asked".into() }
}

fn claimed(scope: Scope, row: &Delivery, acquire: &Acquire) -> Reply {
    if acquire.guard.admits(row) { Reply::Claimed(Row::of(&acquire.claim.apply(row), scope)) } else { Reply::Nothing }
}

fn to_claim(scope: Scope, transition: Result<Transition, Refusal>) -> Reply {
    transition.map_or(Reply::Nothing, |t| Reply::WriteClaim(Pending::of(&t, scope)))
}

fn stamp(now: Now) -> Stamp {
    Stamp { now, by: Correlation::new("step").expect("a token") }
}

fn claimer(now: Now, lease: Duration) -> Claimer {
    let (owner, by) = (Owner::new("holder").expect("a name"), Correlation::new("step").expect("a token"));
    Claimer { owner, by, until: now.hi.plus(lease) }
}

fn policy(scope: Scope) -> RetryPolicy {
    let tick_ms = u64::try_from(TICK.as_millis()).expect("a tick");
    RetryPolicy { base_ms: tick_ms, cap_ms: tick_ms, attempts: u32::from(scope.bounds().attempts) }
}

fn terms(policy: &RetryPolicy, queue_reach: Duration) -> Terms<'_> {
    Terms {
        policy,
        destination_version: 1,
        review_unknown: false,
        margin: MARGIN,
        measured: Duration::ZERO,
        retry_mode: RetryMode::Retry,
        queue_reach,
    }
}

fn called(answer: Answer) -> Called {
    let answered = |status| CallResult::Answered { status, retry_after: None };
    let result = match answer {
        Answer::Accepted => answered(200),
        Answer::Failed | Answer::FailedFar => answered(503),
        Answer::Rejected => answered(400),
        Answer::NotCalled => CallResult::not_called(),
    };
    Called { result, started_at: at(0), took: Duration::ZERO, key_ids: "k".into() }
}

/// The mark that the queue has a claimed row's message.
pub fn marked(row: &Row, now: u8) -> Option<Pending> {
    write_of(ask(Question::Mark, row, Knows { lo: now, hi: now }))
}

/// The mark that a row's dead letter was sent; when does not matter.
pub fn letter_marked(row: &Row) -> Option<Pending> {
    write_of(ask(Question::MarkLetter, row, Knows { lo: 1, hi: 1 }))
}

pub fn write_of(reply: Reply) -> Option<Pending> {
    match reply {
        Reply::Write(write) => Some(write),
        _ => None,
    }
}

/// What deliver asks right before the first byte.
pub fn may_start(row: &Row, knows: Knows) -> bool {
    let now = knows.now();
    now.reached(at(row.next))
        && now.reached(at(row.after))
        && can_start(at(row.by), MARGIN, now)
        && row.lease.is_some_and(|end| now.hi.plus(ticks(CALL)) <= at(end))
}

/// The last tick at which a call may start.
pub fn last_start(row: &Row) -> punctual_core::time::Timestamp {
    last_safe_start(at(row.by), MARGIN)
}

//! I change rows: each function here takes a row as it was read and gives the row as it shall be.
//!
//! A [`Transition`] carries its guard: it applies only to the very version that it was computed from, and only while
//! no late success has been noted since. The adapter writes the difference. Functions that return `Err` refuse by the
//! state table; the caller treats that as a lost race, not as a fault.

use std::time::Duration;

use crate::acquire::{Claim, Claimer};
use crate::attempt::{Answer, Attempt};
use crate::clock::Now;
use crate::delivery::{Delivery, Hold};
use crate::destination::Mode;
use crate::history::HistoryEntry;
use crate::id::{Correlation, MessageId};
use crate::outcome::{Called, Class};
use crate::reason::Reason;
use crate::retry::{self, Next, RetryPolicy, Room, last_safe_start};
use crate::settings::RetryMode;
use crate::state::{Event, Refusal, State, Verdict, verdict};
use crate::time::Timestamp;

mod recall;
mod redrive;

pub use recall::{cancelled, lost_answer, may_have_been_delivered, rescheduled};
pub use redrive::{Grant, redriven, requeued};

/// The longest wait that a queue message can sleep through: SQS's largest delay.
pub const QUEUE_REACH: Duration = Duration::from_secs(900);
/// So many attempts in a row without an outcome are a crash loop.
const CRASH_LOOP: usize = 3;

/// A guarded change of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The row as it was read. Its version and its late success are the guard.
    pub before: Delivery,
    /// The row as it shall be.
    pub after: Delivery,
}

impl Transition {
    /// Whether the guard still holds for the row as it is now.
    #[must_use]
    pub fn admits(&self, current: &Delivery) -> bool {
        current.version == self.before.version
            && current.late_success == self.before.late_success
            && (!self.depends_on_hold() || current.hold == self.before.hold)
            && !self.is_mine(current)
    }

    /// Whether the hold must be as it was read: where a lease is taken, where it decides when dispatch next looks, or
    /// where it is itself what changes. A release or a freeze that came in between is then a conflict, and the row is
    /// decided again.
    #[must_use]
    pub fn depends_on_hold(&self) -> bool {
        let sleeps = self.after.state == State::Scheduled && self.before.hold.is_some();
        let changes = self.after.hold != self.before.hold || self.after.wake_at != self.before.wake_at;
        self.takes_a_lease() || sleeps || (self.after.version == self.before.version && changes)
    }

    /// Whether this write claims the row.
    fn takes_a_lease(&self) -> bool {
        self.after.lease_owner.is_some() && self.after.lease_owner != self.before.lease_owner
    }

    /// Whether a refusing row is in truth the result of this very write, whose answer was lost on the wire. Its line of
    /// history tells: a freeze and a late answer change no version.
    #[must_use]
    pub fn is_mine(&self, current: &Delivery) -> bool {
        current.version == self.after.version
            && self.after.history.len() > self.before.history.len()
            && self.after.history.last().is_some_and(|entry| current.history.contains(entry))
            // Two claims of one invocation can share a millisecond; the lease's owner is unique for each.
            && (!self.takes_a_lease() || current.lease_owner == self.after.lease_owner)
            // Two runs can redrive a row in one millisecond.
            && (self.after.redrives.len() == self.before.redrives.len() || current.redrives == self.after.redrives)
    }
}

/// The rules that an attempt's outcome is judged by: the destination's, the stage's and the queue's.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The destination's policy.
    pub policy: &'a RetryPolicy,
    /// The version of the destination row.
    pub destination_version: u64,
    /// No automatic second call after a lost answer.
    pub review_unknown: bool,
    /// Deadline less this is the last safe start.
    pub margin: Duration,
    /// Queue delay plus call latency as measured; zero where nothing was. A retry is planned only if it starts before the
    /// deadline by this as well.
    pub measured: Duration,
    /// The kill switch.
    pub retry_mode: RetryMode,
    /// The longest wait that this message can still sleep through; at most [`QUEUE_REACH`].
    pub queue_reach: Duration,
}

/// What every write brings along: when, and who.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// The database's time.
    pub now: Now,
    /// Joins history and logs.
    pub by: Correlation,
}

/// The row after `event`: state, version and history only.
fn moved(row: &Delivery, event: Event, attempt: Option<u32>, reason: Option<Reason>, stamp: &Stamp) -> Result<Delivery, Refusal> {
    let state = match verdict(row.state, event) {
        Verdict::Move(state) => state,
        Verdict::Stay => row.state,
        Verdict::Refuse(refusal) => return Err(refusal),
    };
    let mut after = row.clone();
    after.state = state;
    after.version = row.version.saturating_add(1);
    if reason.is_some() {
        after.reason = reason;
    }
    // Back in the ledger before any attempt, or by an operator's decision: its next claim stamps it anew. Otherwise the stamp
    // of shadowed attempts stays: their due time was the shadow run's.
    let anew = (state == State::Scheduled && row.attempts.is_empty()) || matches!(event, Event::Requeue | Event::Redrive);
    after.shadow &= !anew;
    after.history.push(HistoryEntry { at: stamp.now.lo, state, attempt, reason, by: stamp.by.clone() });
    Ok(after)
}

fn done(before: &Delivery, after: Delivery) -> Transition {
    Transition { before: before.clone(), after }
}

/// The row leaves whatever lease it was under.
fn unleased(row: &mut Delivery) {
    row.lease_owner = None;
    row.lease_until = None;
}

/// When dispatch must next look at a `scheduled` row: when it is next due, and no later than its last safe start, until
/// which a held one sleeps.
fn wake_of_scheduled(row: &Delivery, margin: Duration) -> Timestamp {
    let last = last_safe_start(row.deliver_by, margin);
    if row.hold.is_some() { last } else { row.next_attempt_at.min(last) }
}

/// Whoever records a death sends its letter with the next call. For so long dispatch leaves it to that one, so that a run that
/// reads the row in between sends no second letter.
const LETTER_GRACE: Duration = Duration::from_secs(5);

/// Turns a row into one that is dead or expired: it stays where dispatch sees it until its dead letter is sent.
fn buried(mut after: Delivery, now: Now) -> Delivery {
    unleased(&mut after);
    // Once it has ended, dispatch reads the row before it decides, whatever its rate has room for.
    after.held_until = Some(now.hi.plus(LETTER_GRACE));
    after.death = after.death.saturating_add(1);
    after.wake_at = Some(after.wake_at.map_or(now.lo, |wake| wake.min(now.lo)));
    after
}

/// The queue accepted the message of a row that a dispatch run holds.
///
/// # Errors
/// [`Refusal`] if the row is no longer held by a dispatch run.
pub fn queued(row: &Delivery, message: MessageId, stamp: &Stamp) -> Result<Transition, Refusal> {
    let mut after = moved(row, Event::Queued, None, None, stamp)?;
    after.lease_owner = None;
    after.message = Some(message);
    Ok(done(row, after))
}

/// The row goes back to the ledger, due at its `next_attempt_at`.
///
/// # Errors
/// [`Refusal`] if the row is in the ledger already, or needs an operator, or is terminal.
pub fn returned(row: &Delivery, reason: Reason, margin: Duration, stamp: &Stamp) -> Result<Transition, Refusal> {
    let mut after = moved(row, Event::ReturnToLedger, None, Some(reason), stamp)?;
    unleased(&mut after);
    after.held_until = None;
    after.message = None;
    after.wake_at = Some(wake_of_scheduled(&after, margin));
    Ok(done(row, after))
}

/// A dispatch run takes a row that it has read: a due one, one whose dispatcher crashed, or one with an overdue message.
/// The row is stamped by its destination's mode, unless its receiver was called already: then it stays live.
///
/// # Errors
/// [`Refusal`] by the state table.
pub fn dispatch_claimed(row: &Delivery, claimer: Claimer, mode: Mode, stamp: &Stamp) -> Result<Transition, Refusal> {
    let rescue = matches!(row.state, State::Queued | State::Deferred);
    let (event, reason) = match row.state {
        State::Queued | State::Deferred => (Event::Rescue, Some(Reason::MessageOverdue)),
        State::Dispatching => (Event::DispatchClaim, Some(Reason::LeaseEnded)),
        _ => (Event::DispatchClaim, None),
    };
    let mut after = moved(row, event, None, reason, stamp)?;
    after.lease_owner = Some(claimer.owner);
    after.held_until = Some(claimer.until);
    // Whoever was called live stays live, even for a run that still sees the mode from before the promotion.
    after.shadow |= mode == Mode::Shadow && !row.was_called();
    if rescue {
        after.rescues = row.rescues.saturating_add(1);
    }
    Ok(done(row, after))
}

/// A deliver invocation takes a row that it has read.
///
/// # Errors
/// [`Refusal`] by the state table.
pub fn deliver_claimed(row: &Delivery, claimer: Claimer, stamp: &Stamp) -> Result<Transition, Refusal> {
    moved(row, Event::DeliverClaim, None, None, stamp)?;
    let after = Claim::new(State::Delivering, claimer, Some(row.next_attempt()), stamp.now).apply(row);
    Ok(done(row, after))
}

/// Records an attempt's outcome and releases the row, in one write.
///
/// # Errors
/// [`Refusal`] if the row is not `delivering`.
pub fn finished(
    row: &Delivery,
    called: &Called,
    class: Class,
    terms: &Terms<'_>,
    random: f64,
    stamp: &Stamp,
) -> Result<Transition, Refusal> {
    let number = row.next_attempt();
    let attempt = evidence(number, called, class, terms.destination_version);
    let mut closed = row.clone();
    closed.attempts.push(attempt);
    let mut after = match class {
        Class::Delivered => delivered(&closed, number, Reason::Accepted, stamp)?,
        Class::Shadowed => shadowed(&closed, number, stamp)?,
        _ if row.late_success.is_some() => delivered(&closed, number, Reason::LateEvidence, stamp)?,
        Class::Dead { reason, .. } => died(&closed, number, reason, stamp)?,
        Class::Retry { reason, unknown, .. } if unknown && terms.review_unknown => {
            // The receiver has no idempotency contract and may have processed the request.
            let reason = if matches!(reason, Reason::Timeout | Reason::ConnectionCut) { Reason::OutcomeUnknown } else { reason };
            died(&closed, number, reason, stamp)?
        }
        Class::Retry { .. } if terms.retry_mode == RetryMode::DeadLetter => died(&closed, number, Reason::RetryDisabled, stamp)?,
        Class::Retry { reason, floor, .. } => {
            let Terms { margin, measured, .. } = *terms;
            let room = Room { made: number, granted: row.granted, deliver_by: row.deliver_by, margin, measured };
            match retry::next(terms.policy, room, stamp.now, floor, random) {
                Next::At(start) => deferred(&closed, number, reason, start, terms, stamp)?,
                Next::Exhausted => died(&closed, number, Reason::AttemptsExhausted, stamp)?,
                Next::NoSafeWindow => died(&closed, number, Reason::NoSafeRetryWindow, stamp)?,
                Next::Expired => expired_after(&closed, Some(number), stamp)?,
            }
        }
    };
    if let (Class::Retry { floor: Some(floor), .. }, true) = (class, after.state.needs_operator()) {
        // Whoever brings it back must not undercut the receiver's wish.
        after.next_attempt_at = after.next_attempt_at.max(stamp.now.hi.plus(floor));
    }
    Ok(done(row, after))
}

/// Closes the attempt of a `delivering` row whose lease has surely ended: nobody will record its outcome.
///
/// # Errors
/// [`Refusal::InFlight`] while the lease may be live; [`Refusal::LeaseNotHeld`] in any other state.
pub fn closed_as_unknown(row: &Delivery, terms: &Terms<'_>, stamp: &Stamp) -> Result<Transition, Refusal> {
    if row.state != State::Delivering {
        return Err(Refusal::LeaseNotHeld);
    }
    if row.lease_may_be_live(stamp.now) {
        return Err(Refusal::InFlight);
    }
    let number = row.next_attempt();
    let mut closed = row.clone();
    closed.attempts.push(unknown(row, number));
    let crashes = closed.attempts.iter().rev().take_while(|a| a.is_unknown()).count();
    let after = if row.late_success.is_some() {
        delivered(&closed, number, Reason::LateEvidence, stamp)?
    } else if stamp.now.hi > last_safe_start(row.deliver_by, terms.margin) {
        expired_after(&closed, Some(number), stamp)?
    } else if crashes >= CRASH_LOOP {
        died(&closed, number, Reason::CrashLoop, stamp)?
    } else if terms.retry_mode == RetryMode::DeadLetter {
        died(&closed, number, Reason::RetryDisabled, stamp)?
    } else if (terms.review_unknown && !row.shadow) || number >= terms.policy.attempts.saturating_add(row.granted) {
        died(&closed, number, Reason::OutcomeUnknown, stamp)?
    } else {
        deferred(&closed, number, Reason::OutcomeUnknown, stamp.now.lo, terms, stamp)?
    };
    Ok(done(row, after))
}

/// An operator takes back the lease of a row whose holder is surely gone, without waiting for rescue: an attempt is closed as
/// unknown, a dispatch run's row goes back to the ledger. With a zero [`Terms::queue_reach`] nothing is left to the queue.
///
/// # Errors
/// [`Refusal::InFlight`] while the lease may be live; [`Refusal::LeaseNotHeld`] in a state that has none.
pub fn lease_taken_back(row: &Delivery, terms: &Terms<'_>, stamp: &Stamp) -> Result<Transition, Refusal> {
    match row.state {
        State::Dispatching if row.lease_may_be_live(stamp.now) => Err(Refusal::InFlight),
        State::Dispatching => returned(row, Reason::LeaseEnded, terms.margin, stamp),
        _ => closed_as_unknown(row, terms, stamp),
    }
}

/// The row's deadline can no longer be met.
///
/// # Errors
/// [`Refusal::InFlight`] while an attempt may be in flight; otherwise by the state table.
pub fn expired(row: &Delivery, stamp: &Stamp) -> Result<Transition, Refusal> {
    if row.state == State::Delivering {
        return Err(Refusal::InFlight);
    }
    Ok(done(row, expired_after(row, None, stamp)?))
}

/// The row dies without an attempt.
///
/// # Errors
/// [`Refusal`] by the state table.
pub fn dead_without_attempt(row: &Delivery, reason: Reason, stamp: &Stamp) -> Result<Transition, Refusal> {
    if row.state == State::Delivering {
        return Err(Refusal::InFlight);
    }
    let after = buried(moved(row, Event::Die, None, Some(reason), stamp)?, stamp.now);
    Ok(done(row, after))
}

/// The dead letter of the row's present death was sent: it leaves the wake index.
///
/// # Errors
/// [`Refusal`] if the row is neither dead nor expired.
pub fn dead_letter_sent(row: &Delivery, stamp: &Stamp) -> Result<Transition, Refusal> {
    let reason = row.reason;
    let mut after = moved(row, Event::DeadLetterSent, None, Some(Reason::DeadLetterSent), stamp)?;
    after.reason = reason;
    after.dlq_sent = row.death;
    after.wake_at = None;
    Ok(done(row, after))
}

/// An operator freezes the row. The version stays: a freeze takes nobody's lease away.
///
/// # Errors
/// [`Refusal`] if the row is terminal.
pub fn held(row: &Delivery, hold: Hold, margin: Duration, stamp: &Stamp) -> Result<Transition, Refusal> {
    let reason = row.reason;
    let mut after = moved(row, Event::Hold, None, Some(Reason::Held), stamp)?;
    after.version = row.version;
    after.reason = reason;
    after.hold = Some(hold);
    if after.state == State::Scheduled {
        after.wake_at = Some(wake_of_scheduled(&after, margin));
    }
    Ok(done(row, after))
}

/// An operator releases the row: dispatch looks at it when it is next due.
///
/// # Errors
/// [`Refusal`] if the row is terminal.
pub fn unheld(row: &Delivery, margin: Duration, stamp: &Stamp) -> Result<Transition, Refusal> {
    let reason = row.reason;
    let mut after = moved(row, Event::Unhold, None, Some(Reason::Unheld), stamp)?;
    after.version = row.version;
    after.reason = reason;
    after.hold = None;
    if after.state == State::Scheduled {
        after.wake_at = Some(wake_of_scheduled(&after, margin));
    }
    Ok(done(row, after))
}

/// A held `scheduled` row that dispatch met sleeps until its last safe start.
#[must_use]
pub fn asleep(row: &Delivery, margin: Duration) -> Transition {
    let mut after = row.clone();
    after.wake_at = Some(wake_of_scheduled(row, margin));
    done(row, after)
}

/// An outcome that lost its fence: it fills its attempt's entry if that has no evidence yet, and a 2xx moves the row
/// to `delivered` wherever nobody else's attempt is in flight. Nothing to do is `None`.
#[must_use]
pub fn late(row: &Delivery, attempt: &Attempt, effect: bool, stamp: &Stamp) -> Option<Transition> {
    let mut filled = row.clone();
    let mut changed = false;
    for entry in &mut filled.attempts {
        if entry.number == attempt.number && entry.is_unknown() {
            *entry = attempt.clone();
            changed = true;
        }
    }
    let after = if !effect {
        filled
    } else if row.state == State::Delivering {
        // Under another live lease: left for that holder's outcome write to honour.
        changed |= row.late_success.is_none();
        filled.late_success.get_or_insert(attempt.number);
        filled
    } else {
        let reason = if row.state == State::Cancelled { Reason::EffectAfterCancel } else { Reason::LateEvidence };
        match moved(&filled, Event::LateSuccess, Some(attempt.number), Some(reason), stamp) {
            Ok(mut after) if after.state == State::Delivered && row.state != State::Delivered => {
                changed = true;
                unleased(&mut after);
                after.wake_at = None;
                after.held_until = None;
                after
            }
            Ok(mut after) if row.state == State::Cancelled => {
                // The cancel stands; the row says that the effect happened all the same.
                after.version = row.version;
                after
            }
            _ => filled,
        }
    };
    changed.then(|| done(row, after))
}

/// The evidence of a finished call.
#[must_use]
pub fn evidence(number: u32, called: &Called, class: Class, destination_version: u64) -> Attempt {
    Attempt {
        number,
        started_at: called.started_at,
        took: called.took,
        answer: called.answer(),
        reason: class.reason(),
        destination_version,
        key_ids: called.key_ids.clone(),
    }
}

fn unknown(row: &Delivery, number: u32) -> Attempt {
    let started_at =
        row.history.iter().rev().find(|e| e.state == State::Delivering).map_or(row.next_attempt_at, |entry| entry.at);
    Attempt {
        number,
        started_at,
        took: Duration::ZERO,
        // Nothing of a stamped row reaches a receiver, whoever crashed.
        answer: if row.shadow { Answer::Shadow } else { Answer::Unknown },
        reason: Reason::OutcomeUnknown,
        destination_version: 0,
        key_ids: "-".to_owned(),
    }
}

fn delivered(closed: &Delivery, number: u32, reason: Reason, stamp: &Stamp) -> Result<Delivery, Refusal> {
    let mut after = moved(closed, Event::Accepted, Some(number), Some(reason), stamp)?;
    unleased(&mut after);
    after.held_until = None;
    after.wake_at = None;
    Ok(after)
}

/// Its request went to the shadow sink: it is at its end.
fn shadowed(closed: &Delivery, number: u32, stamp: &Stamp) -> Result<Delivery, Refusal> {
    let mut after = moved(closed, Event::Shadow, Some(number), Some(Reason::Shadowed), stamp)?;
    unleased(&mut after);
    after.held_until = None;
    after.wake_at = None;
    Ok(after)
}

fn died(closed: &Delivery, number: u32, reason: Reason, stamp: &Stamp) -> Result<Delivery, Refusal> {
    Ok(buried(moved(closed, Event::Die, Some(number), Some(reason), stamp)?, stamp.now))
}

fn expired_after(closed: &Delivery, number: Option<u32>, stamp: &Stamp) -> Result<Delivery, Refusal> {
    Ok(buried(moved(closed, Event::Expire, number, Some(Reason::DeadlinePassed), stamp)?, stamp.now))
}

/// Another attempt follows: in the queue if it is near and nobody holds the row, else in the ledger.
fn deferred(
    closed: &Delivery,
    number: u32,
    reason: Reason,
    start: Timestamp,
    terms: &Terms<'_>,
    stamp: &Stamp,
) -> Result<Delivery, Refusal> {
    let near = start.since(stamp.now.lo) <= terms.queue_reach && !terms.queue_reach.is_zero();
    let event = if near && closed.hold.is_none() { Event::Defer } else { Event::ReturnToLedger };
    let mut after = moved(closed, event, Some(number), Some(reason), stamp)?;
    unleased(&mut after);
    after.next_attempt_at = start;
    after.rescues = 0;
    if after.state == State::Deferred {
        after.wake_at = Some(start);
        after.held_until = Some(start);
    } else {
        after.held_until = None;
        after.message = None;
        after.wake_at = Some(wake_of_scheduled(&after, terms.margin));
    }
    Ok(after)
}

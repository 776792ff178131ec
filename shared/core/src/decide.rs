//! I decide what dispatch and deliver do with a row that they have read.
//!
//! I make no call and write nothing; a decision either names the effect or carries the transition to write.

use std::time::Duration;

use crate::acquire::can_start;
use crate::clock::{MAX_WIDTH, Now};
use crate::delivery::Delivery;
use crate::reason::Reason;
use crate::retry::last_safe_start;
use crate::state::State;
use crate::time::Timestamp;

/// What deliver does with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForDeliver {
    /// Take it for one attempt.
    Claim,
    /// Terminal, or dead and its dead letter sent, or about to be by whoever has recorded the death: no call; acknowledge the
    /// message.
    Suppress,
    /// Dead or expired, and the dead letter is still owed: send it, then acknowledge.
    Bury,
    /// The row is in the ledger: the message is stale; acknowledge.
    Stale,
    /// Wait until this instant: an attempt is in flight, or it is not yet due.
    Wait(Timestamp),
    /// Back to the ledger for this reason; acknowledge.
    Return(Reason),
    /// Its attempt's lease has ended: close it, then decide again.
    CloseUnknown,
    /// Its deadline can no longer be met.
    Expire,
    /// Its attempt budget is spent.
    Exhausted,
}

/// What keeps a destination from being called, whatever its rows say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barrier {
    /// Nothing does.
    None,
    /// It is paused.
    Paused,
    /// Its breaker is open, and this is not the record that probes.
    Open,
}

/// Decides for deliver. `barrier` and `attempts` are the destination's; the latter is its policy's number.
#[must_use]
pub fn for_deliver(row: &Delivery, now: Now, margin: Duration, barrier: Barrier, attempts: u32) -> ForDeliver {
    match row.state {
        State::Delivered | State::Cancelled | State::Shadowed => ForDeliver::Suppress,
        State::Dead | State::Expired if owes_letter(row, now) => ForDeliver::Bury,
        State::Dead | State::Expired => ForDeliver::Suppress,
        State::Scheduled => ForDeliver::Stale,
        State::Delivering => match row.lease_until {
            Some(until) if !now.reached(until) => ForDeliver::Wait(until),
            _ => ForDeliver::CloseUnknown,
        },
        State::Dispatching | State::Queued | State::Deferred => {
            if !can_start(row.deliver_by, margin, now) {
                ForDeliver::Expire
            } else if row.hold.is_some() {
                ForDeliver::Return(Reason::Held)
            } else if barrier == Barrier::Paused {
                ForDeliver::Return(Reason::DestinationPaused)
            } else if row.next_attempt() > attempts.saturating_add(row.granted) {
                ForDeliver::Exhausted
            } else if !now.reached(row.next_attempt_at) {
                ForDeliver::Wait(row.next_attempt_at)
            } else if barrier == Barrier::Open {
                // Only when it is due: what comes later by the queue anyway may find the breaker closed.
                ForDeliver::Return(Reason::BreakerOpen)
            } else {
                ForDeliver::Claim
            }
        }
    }
}

/// Whether its dead letter is owed by whoever meets it. For a moment after the death it is owed by whoever has recorded that.
fn owes_letter(row: &Delivery, now: Now) -> bool {
    row.owes_dead_letter() && row.held_until.is_none_or(|end| now.reached(end))
}

/// What dispatch does with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForDispatch {
    /// Take it and publish it.
    Claim,
    /// Take it back from a lost lease or message, and publish it again.
    Rescue,
    /// In flight and in order: counts as outstanding.
    Outstanding,
    /// Nothing to do.
    Nothing,
    /// Held: let it sleep until its last safe start.
    Sleep,
    /// Held, and its dispatcher or its message is lost: back to the ledger, where it sleeps.
    Return,
    /// Its attempt's lease has ended: close it, then decide again.
    CloseUnknown,
    /// Its deadline can no longer be met.
    Expire,
    /// Dead or expired, and the dead letter is still owed.
    Bury,
}

/// By what the message of a row counts as overdue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handoff {
    /// When a message counts as overdue that was not rescued before.
    pub threshold: Duration,
    /// How long a dispatch run holds a row; none where no run holds one for longer than its lease.
    pub lease: Option<Duration>,
}

impl From<Duration> for Handoff {
    fn from(threshold: Duration) -> Self {
        Self { threshold, lease: None }
    }
}

/// When the message of a `queued` or `deferred` row counts as overdue: after threshold * 2^rescues, or half of the
/// window that is left, whichever is shorter. A row that is held for much longer than the lease waits for its slot: its
/// message becomes visible then, and is missed from then on.
#[must_use]
pub fn overdue_at(row: &Delivery, handoff: Handoff, margin: Duration) -> Timestamp {
    let since = row.history.last().map_or(row.next_attempt_at, |entry| entry.at.max(row.next_attempt_at));
    let slot = handoff.lease.and_then(|lease| row.held_until.filter(|held| *held > since.plus(lease + MAX_WIDTH)));
    let since = slot.unwrap_or(since);
    let wait = handoff.threshold.saturating_mul(1_u32 << row.rescues.min(16));
    let window = last_safe_start(row.deliver_by, margin).since(since);
    since.plus(wait.min(window / 2))
}

/// Decides for dispatch. `due_by` is now plus the horizon, or just now for a row that must wait.
#[must_use]
pub fn for_dispatch(row: &Delivery, now: Now, due_by: Timestamp, margin: Duration, handoff: impl Into<Handoff>) -> ForDispatch {
    let handoff = handoff.into();
    let live = row.lease_may_be_live(now);
    match row.state {
        State::Delivered | State::Cancelled | State::Shadowed => ForDispatch::Nothing,
        State::Dead | State::Expired if owes_letter(row, now) => ForDispatch::Bury,
        State::Dead | State::Expired => ForDispatch::Nothing,
        State::Delivering if live => ForDispatch::Outstanding,
        State::Delivering => ForDispatch::CloseUnknown,
        State::Dispatching if live => ForDispatch::Outstanding,
        State::Scheduled | State::Dispatching | State::Queued | State::Deferred => {
            if !can_start(row.deliver_by, margin, now) {
                ForDispatch::Expire
            } else if row.hold.is_some() {
                match row.state {
                    State::Scheduled => ForDispatch::Sleep,
                    State::Dispatching => ForDispatch::Return,
                    _ if now.reached(overdue_at(row, handoff, margin)) => ForDispatch::Return,
                    _ => ForDispatch::Outstanding,
                }
            } else {
                match row.state {
                    State::Scheduled if row.next_attempt_at <= due_by => ForDispatch::Claim,
                    State::Scheduled => ForDispatch::Nothing,
                    State::Dispatching => ForDispatch::Rescue,
                    _ if now.reached(overdue_at(row, handoff, margin)) => ForDispatch::Rescue,
                    _ => ForDispatch::Outstanding,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::NewDelivery;
    use crate::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, Reference};
    use crate::transition::{self, Stamp};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_796_115_600_000 + seconds * 1_000)
    }

    fn stamp(seconds: i64) -> Stamp {
        Stamp { now: Now::exactly(at(seconds)), by: Correlation::new("op").expect("a token") }
    }

    #[test]
    fn for_a_moment_a_letter_is_owed_by_whoever_has_recorded_the_death_alone() {
        let id = DeliveryId::new("dlv_x").expect("an id");
        let new = NewDelivery {
            idempotency_key: IdempotencyKey::from(&id),
            reference: Reference::new("c-1").expect("a reference"),
            destination: DestinationId::new("crm").expect("a destination"),
            shard: 0,
            content: Content::new("abc").expect("a hash"),
            deliver_after: at(0),
            deliver_by: at(600),
            id,
        };
        let row = Delivery::new(new, at(0), stamp(0).by);
        let margin = Duration::from_secs(10);
        let dead = transition::dead_without_attempt(&row, Reason::UnknownDestination, &stamp(100)).expect("allowed").after;
        let decided = |row: &Delivery, seconds| {
            let now = Now::exactly(at(seconds));
            let dispatch = for_dispatch(row, now, at(seconds + 150), margin, Duration::from_secs(60));
            (dispatch, for_deliver(row, now, margin, Barrier::None, 10))
        };
        for seconds in [100, 104] {
            assert_eq!(decided(&dead, seconds), (ForDispatch::Nothing, ForDeliver::Suppress), "{seconds}");
        }
        assert_eq!(decided(&dead, 105), (ForDispatch::Bury, ForDeliver::Bury));
        // Somebody still looks then.
        assert_eq!((dead.wake_at, dead.held_until), (Some(at(0)), Some(at(105))));
        let sent = transition::dead_letter_sent(&dead, &stamp(101)).expect("allowed").after;
        assert_eq!(decided(&sent, 105), (ForDispatch::Nothing, ForDeliver::Suppress));
    }
}

//! I am an acquiring write: the guard that a claim carries, and what it changes.
//!
//! A claim is one conditional write made without having read the row; the adapter only translates [`Guard`] into its
//! store's condition and [`Claim`] into its update. [`Guard::admits`] and [`Claim::apply`] are their meaning, and the
//! contract suite compares every adapter with them.

use std::time::Duration;

use crate::clock::Now;
use crate::delivery::Delivery;
use crate::destination::Mode;
use crate::history::HistoryEntry;
use crate::id::{Correlation, DeliveryId, Owner};
use crate::retry::last_safe_start;
use crate::state::State;
use crate::time::Timestamp;

/// One state from which a claim may take a row, with what must hold of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeFrom {
    /// The row's state.
    pub state: State,
    /// `next_attempt_at` is this or earlier.
    pub due_by: Option<Timestamp>,
    /// The dispatch lease (`held_until`) ended at this or earlier.
    pub dispatch_lease_ended_by: Option<Timestamp>,
}

/// When a claim takes a row: one of `any_of`, and all of the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The states it takes a row from.
    pub any_of: Vec<TakeFrom>,
    /// `deliver_by` is this or later: a call can still start safely.
    pub deliver_by_from: Timestamp,
    /// The number of closed attempts, where the claim must know it.
    pub closed_attempts: Option<u32>,
    // Never held: a held row is refused by every guard.
}

/// What a claim changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// [`State::Dispatching`] or [`State::Delivering`].
    pub state: State,
    /// Who holds it from now on.
    pub owner: Owner,
    /// When the lease ends.
    pub until: Timestamp,
    /// The line of history.
    pub entry: HistoryEntry,
    /// Whether the row is stamped as shadow. A claim never takes the stamp away.
    pub shadow: bool,
}

/// A claim of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    /// Which row.
    pub id: DeliveryId,
    /// When.
    pub guard: Guard,
    /// What changes.
    pub claim: Claim,
}

/// What a claimer brings along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimer {
    /// Unique for this claim.
    pub owner: Owner,
    /// Joins history and logs.
    pub by: Correlation,
    /// When the lease ends.
    pub until: Timestamp,
}

impl Acquire {
    /// Dispatch takes a row that is due by `due_by` (now plus the horizon), or one whose dispatch lease has ended. The
    /// row is stamped by the destination's mode; in shadow mode only a row without attempts is taken unread, because one
    /// that was called live must not be stamped.
    #[must_use]
    pub fn for_dispatch(id: DeliveryId, claimer: Claimer, mode: Mode, due_by: Timestamp, now: Now, margin: Duration) -> Self {
        let any_of = vec![
            TakeFrom { state: State::Scheduled, due_by: Some(due_by), dispatch_lease_ended_by: None },
            TakeFrom { state: State::Dispatching, due_by: Some(due_by), dispatch_lease_ended_by: Some(now.lo) },
        ];
        let closed_attempts = (mode == Mode::Shadow).then_some(0);
        let guard = Guard { any_of, deliver_by_from: now.hi.plus(margin), closed_attempts };
        Self { id, guard, claim: Claim::new(State::Dispatching, claimer, None, now).stamped(mode) }
    }

    /// Deliver takes a row that is due for attempt number `attempt`.
    #[must_use]
    pub fn for_deliver(id: DeliveryId, attempt: u32, claimer: Claimer, now: Now, margin: Duration) -> Self {
        let any_of = [State::Dispatching, State::Queued, State::Deferred]
            .map(|state| TakeFrom { state, due_by: Some(now.lo), dispatch_lease_ended_by: None })
            .to_vec();
        let guard = Guard { any_of, deliver_by_from: now.hi.plus(margin), closed_attempts: Some(attempt.saturating_sub(1)) };
        Self { id, guard, claim: Claim::new(State::Delivering, claimer, Some(attempt), now) }
    }

    /// Whether a refused row is in truth this very claim, whose answer was lost on the wire.
    #[must_use]
    pub fn is_mine(&self, row: &Delivery) -> bool {
        row.state == self.claim.state && row.lease_owner.as_ref() == Some(&self.claim.owner)
    }
}

impl Guard {
    /// Whether this row is taken.
    #[must_use]
    pub fn admits(&self, row: &Delivery) -> bool {
        let from = self.any_of.iter().any(|from| {
            row.state == from.state
                && from.due_by.is_none_or(|due| row.next_attempt_at <= due)
                && from.dispatch_lease_ended_by.is_none_or(|by| row.held_until.is_some_and(|end| end <= by))
        });
        from && row.hold.is_none()
            && row.deliver_by >= self.deliver_by_from
            && self.closed_attempts.is_none_or(|n| usize::try_from(n).is_ok_and(|n| n == row.attempts.len()))
    }
}

impl Claim {
    /// A claim into `state`; its line of history is dated with what is certain of `now`.
    #[must_use]
    pub fn new(state: State, claimer: Claimer, attempt: Option<u32>, now: Now) -> Self {
        let entry = HistoryEntry { at: now.lo, state, attempt, reason: None, by: claimer.by };
        Self { state, owner: claimer.owner, until: claimer.until, entry, shadow: false }
    }

    /// The same claim, with the stamp of a destination's mode.
    #[must_use]
    pub fn stamped(self, mode: Mode) -> Self {
        Self { shadow: mode == Mode::Shadow, ..self }
    }

    /// The row after the claim.
    #[must_use]
    pub fn apply(&self, row: &Delivery) -> Delivery {
        let mut after = row.clone();
        after.state = self.state;
        after.version = row.version.saturating_add(1);
        after.lease_owner = Some(self.owner.clone());
        after.shadow |= self.shadow;
        match self.state {
            State::Delivering => after.lease_until = Some(self.until),
            _ => after.held_until = Some(self.until),
        }
        after.history.push(self.entry.clone());
        after
    }
}

/// Whether a call may still start at `now` for this deadline.
#[must_use]
pub fn can_start(deliver_by: Timestamp, margin: Duration, now: Now) -> bool {
    now.hi <= last_safe_start(deliver_by, margin)
}

//! I say which part of a destination's backlog one dispatch run releases, and when each of it shall be visible: pacing, so
//! that the queue stays short and the backlog stays in the ledger, where it can be seen, cancelled and ordered by deadline.
//!
//! I lay out a *line*: from now on the destination takes one row every interval, of those that are due by then: first
//! those with a near deadline, then those that are out already, then the others, nearest deadline first in each. A row is
//! released if its slot lies within the horizon, as far as the [`Budget`] goes. Deliver's limiter does the exact pacing; a
//! slot here only keeps messages from arriving before anybody may call.

use std::collections::BinaryHeap;
use std::time::Duration;

use crate::clock::{MAX_WIDTH, Now};
use crate::id::DeliveryId;
use crate::limiter::{REDRIVE_PERCENT, RESERVE_PERCENT};
use crate::retry::last_safe_start;
use crate::time::Timestamp;

/// What a destination can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Calls per second.
    pub rate_per_second: u32,
    /// The most that may be in flight.
    pub max_in_flight: u32,
}

/// How many rows may be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// In all.
    pub all: usize,
    /// Of them, only for rows with a near deadline; at most `all`.
    pub reserve: usize,
}

/// How many rows may be released: what the rate takes within the horizon, at most the cap, minus what is outstanding.
/// A scan that did not see everything outstanding admits one tick's worth only. The reserve is a share of the whole, not of
/// what is left: what is out already never takes the last places, so that a near deadline that turns up later has one.
#[must_use]
pub fn budget(capacity: Capacity, horizon: Duration, tick: Duration, outstanding: usize, complete: bool) -> Budget {
    let window = if complete { horizon } else { tick };
    let by_rate = u64::from(capacity.rate_per_second).saturating_mul(window.as_secs().max(1));
    let most = by_rate.min(u64::from(capacity.max_in_flight));
    let count = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    let all = count(most).saturating_sub(outstanding);
    Budget { all, reserve: count(most * u64::from(RESERVE_PERCENT) / 100).min(all) }
}

/// The most of a budget that redriven rows may take; at least one of a budget that is not empty.
#[must_use]
pub fn of_redrive(budget: Budget) -> usize {
    let share = budget.all.saturating_mul(usize::try_from(REDRIVE_PERCENT).unwrap_or(0)) / 100;
    share.max(1).min(budget.all)
}

/// A row that the wake index says may be due. A hint: the claim re-checks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Which row.
    pub id: DeliveryId,
    /// When dispatch was to look.
    pub wake_at: Timestamp,
    /// Until when it was held when it was last written.
    pub held_until: Option<Timestamp>,
    /// Its deadline.
    pub deliver_by: Timestamp,
}

/// What the line is laid out by.
#[derive(Debug, Clone, Copy)]
pub struct Pace<'a> {
    /// The line begins here.
    pub now: Timestamp,
    /// Calls per second.
    pub rate_per_second: u32,
    /// Slots later than this from now are left to later runs.
    pub horizon: Duration,
    /// From one run to the next.
    pub tick: Duration,
    /// The destination's safety margin.
    pub margin: Duration,
    /// When those are due that are out already; the past for those that are due.
    pub outstanding: &'a [Timestamp],
}

impl Pace<'_> {
    /// Whether a row that is due at `due` must go in front: two runs later it may be too late for it.
    fn is_near(&self, due: Timestamp, deliver_by: Timestamp) -> bool {
        last_safe_start(deliver_by, self.margin) < due.max(self.now).plus(self.tick * 2)
    }
}

/// A row to release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Which row.
    pub id: DeliveryId,
    /// When it is due, as far as is known.
    pub due: Timestamp,
    /// Its place in the line: its message becomes visible at the later of this and its due time.
    pub slot: Timestamp,
    /// Its deadline.
    pub deliver_by: Timestamp,
}

/// What a run releases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Admission {
    /// The rows, nearest deadline first.
    pub rows: Vec<Admitted>,
    /// How many of them took a place that is kept for near deadlines.
    pub reserve_used: usize,
    /// The longest that one of them waits for its slot beyond its due time.
    pub spread: Duration,
}

/// Somebody in the line; the greatest goes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    first: std::cmp::Reverse<(Class, Timestamp, Timestamp, Option<DeliveryId>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Near,
    Out,
    Other,
}

/// Chooses the rows to release and gives each its slot.
#[must_use]
pub fn admit(candidates: Vec<Candidate>, budget: Budget, pace: &Pace<'_>) -> Admission {
    let mut coming: Vec<(Timestamp, Waiting)> = Vec::with_capacity(candidates.len() + pace.outstanding.len());
    let waiting = |class, by, due, id| Waiting { first: std::cmp::Reverse((class, by, due, id)) };
    coming.extend(pace.outstanding.iter().map(|due| (*due, waiting(Class::Out, *due, *due, None))));
    coming.extend(candidates.into_iter().map(|c| {
        let class = if pace.is_near(c.wake_at, c.deliver_by) { Class::Near } else { Class::Other };
        (c.wake_at, waiting(class, c.deliver_by, c.wake_at, Some(c.id)))
    }));
    coming.sort_unstable_by_key(|(due, _)| *due);
    let mut coming = coming.into_iter().peekable();

    // In microseconds from now: an interval is seldom a whole number of milliseconds.
    let interval = Duration::from_micros(1_000_000 / u64::from(pace.rate_per_second.max(1)));
    let mut passed = Duration::ZERO;
    let mut due = BinaryHeap::new();
    let mut admission = Admission::default();
    let (mut others, most_others) = (0, budget.all - budget.reserve.min(budget.all));
    while passed <= pace.horizon && admission.rows.len() < budget.all {
        while let Some((_, row)) = coming.next_if(|(at, _)| *at <= pace.now.plus(passed)) {
            due.push(row);
        }
        let Some(Waiting { first: std::cmp::Reverse((class, deliver_by, since, id)) }) = due.pop() else {
            // Nobody is due: the line goes on with the next one.
            let Some((at, _)) = coming.peek() else { break };
            passed = at.since(pace.now).max(passed);
            continue;
        };
        if let Some(id) = id {
            if class == Class::Other {
                if others >= most_others {
                    // No place, and so no slot either: whoever is near may still come.
                    continue;
                }
                others += 1;
            }
            let slot = pace.now.plus(passed);
            admission.spread = admission.spread.max(slot.since(since.max(pace.now)));
            admission.rows.push(Admitted { id, due: since, slot, deliver_by });
        }
        passed += interval;
    }
    admission.reserve_used = admission.rows.len().saturating_sub(most_others);
    admission.rows.sort_by(|a, b| (a.deliver_by, a.due, &a.id).cmp(&(b.deliver_by, b.due, &b.id)));
    admission
}

/// Until when a claim holds its row: for the lease, or until its slot if that keeps the row waiting much longer than the
/// lease. Then no run looks at it before, and [`overdue_at`](crate::decide::overdue_at) counts from there. A row that could
/// not be rescued any more by the two runs after its slot is held for the lease alone: a crash must not cost its deadline.
#[must_use]
pub fn held_until(row: &Admitted, now: Now, lease: Duration, tick: Duration, margin: Duration) -> Timestamp {
    let lease_end = now.hi.plus(lease);
    let waits = row.slot > row.due.max(now.hi).plus(lease + MAX_WIDTH);
    if waits && row.slot.plus(tick * 2) <= last_safe_start(row.deliver_by, margin) { row.slot } else { lease_end }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;

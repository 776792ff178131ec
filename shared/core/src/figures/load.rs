//! I add up what falls due for one destination, entry by entry, and say whether its pace takes it in time.
//!
//! I keep no entry: only how many are due at an instant and must have started by another. Where there are too many different
//! instants, they are rounded down to whole multiples of a step, which grows as it must. The arithmetic is
//! [`capacity`](crate::capacity)'s: one server, nearest deadline first, and who can no longer start in time takes nobody's time.
//! A row that will be called several times is one piece of work, as long as all its calls.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use crate::admission::Candidate;
use crate::limiter::Micros;
use crate::retry::last_safe_start;
use crate::time::Timestamp;

/// So many different pairs of instants are kept apart for one destination.
pub const MOST_CELLS: usize = 20_000;
/// By how much the step grows when there are more.
const GROWTH: Micros = 4;

/// What of a destination's load is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The present.
    pub now: Timestamp,
    /// What falls due later is not looked at.
    pub until: Timestamp,
    /// Deadline less this is the last safe start.
    pub margin: Duration,
}

/// What falls due for one destination. All instants in it are microseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    span: Span,
    /// How many may start at the first instant (the present, if they are due already) and must by the second.
    cells: BTreeMap<(Micros, Micros), u64>,
    step: Micros,
    /// In all cells.
    pub deliveries: u64,
    /// Not in them: frozen by an operator, until their last safe start.
    pub asleep: u64,
    /// Not in them: their last safe start has passed, and they expire.
    pub hopeless: u64,
}

/// How it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How long one delivery keeps the destination busy, all its calls together; at least a microsecond.
    pub work: Micros,
    /// What falls due later than this is foreseen, not felt yet.
    pub soon: Timestamp,
    /// The length of the windows in which that is counted.
    pub window: Duration,
}

/// What becomes of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Projection {
    /// Of what is due, or falls due soon, so many cannot start in time.
    pub late: u64,
    /// The first last safe start among them.
    pub breach: Option<Timestamp>,
    /// Of what falls due later, so many cannot start in time.
    pub late_later: u64,
    /// In how many windows these fall due.
    pub overbooked: u64,
    /// When the first of these windows begins.
    pub overbooked_from: Option<Timestamp>,
    /// When all that is due at present, and can start in time, has been called; the present if there is none.
    pub drained_at: Timestamp,
}

fn micros(at: Timestamp) -> Micros {
    at.as_millis().saturating_mul(1_000)
}

/// Rounded down to the millisecond.
fn instant(at: Micros) -> Timestamp {
    Timestamp::from_millis(at.div_euclid(1_000))
}

fn length(of: Duration) -> Micros {
    Micros::try_from(of.as_micros()).unwrap_or(Micros::MAX).max(1)
}

impl Load {
    /// Nothing yet.
    #[must_use]
    pub fn new(span: Span) -> Self {
        Self { span, cells: BTreeMap::new(), step: 1, deliveries: 0, asleep: 0, hopeless: 0 }
    }

    /// Notes an entry of the wake index.
    pub fn note(&mut self, candidate: &Candidate) {
        let Span { now, until, margin } = self.span;
        let last = last_safe_start(candidate.deliver_by, margin);
        let due = candidate.held_until.map_or(candidate.wake_at, |end| candidate.wake_at.max(end));
        if last < now {
            self.hopeless += 1;
        } else if candidate.held_until.is_none() && candidate.wake_at >= last {
            self.asleep += 1;
        } else if due < until {
            self.deliveries += 1;
            let cell = self.cell(micros(due), micros(last));
            *self.cells.entry(cell).or_default() += 1;
            while self.cells.len() > MOST_CELLS {
                self.step = self.step.saturating_mul(GROWTH);
                for ((due, last), count) in std::mem::take(&mut self.cells) {
                    *self.cells.entry(self.cell(due, last)).or_default() += count;
                }
            }
        }
    }

    /// To what instants are rounded down; a microsecond if they are as they were.
    #[must_use]
    pub fn step(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.step).unwrap_or(u64::MAX))
    }

    /// What is due counts from the present on, whenever it fell due.
    fn cell(&self, due: Micros, last: Micros) -> (Micros, Micros) {
        let down = |at: Micros| at.div_euclid(self.step).saturating_mul(self.step);
        (down(due).max(micros(self.span.now)), down(last))
    }

    /// What becomes of it.
    #[must_use]
    pub fn project(&self, pace: Pace) -> Projection {
        let (present, work) = (micros(self.span.now), pace.work.max(1));
        let mut seen = Seen { pace, present, windows: BTreeSet::new(), projection: Projection::nothing(self.span.now) };
        // Of each group: its last safe start, its place, what is left of its first one's work, and how many they are.
        let mut waiting: BinaryHeap<Reverse<(Micros, usize, Micros, u64)>> = BinaryHeap::new();
        let cells: Vec<(Micros, Micros, u64)> = self.cells.iter().map(|((due, last), count)| (*due, *last, *count)).collect();
        let mut arrivals = cells.iter().enumerate().peekable();
        let mut at = present;
        loop {
            while let Some((i, (due, last, count))) = arrivals.next_if(|(_, (due, ..))| *due <= at) {
                // A window of no width is met by whoever starts at once.
                let last = (*last).max(due.saturating_add(work));
                waiting.push(Reverse((last, i, work, *count)));
            }
            let next = arrivals.peek().map(|(_, (due, ..))| *due);
            let Some(Reverse((last, i, left, count))) = waiting.pop() else {
                let Some(next) = next else { return seen.projection };
                at = next;
                continue;
            };
            let Some((due, ..)) = cells.get(i).copied() else { continue };
            if at.saturating_add(left) > last {
                seen.late(due, last, count);
                continue;
            }
            // Those that are done by their last safe start, and before somebody else turns up.
            let by = |end: Micros| 1 + u64::try_from((end - at - left).div_euclid(work)).unwrap_or(u64::MAX - 1);
            let done = match next {
                Some(next) if next < at.saturating_add(left) => {
                    waiting.push(Reverse((last, i, left - (next - at), count)));
                    at = next;
                    continue;
                }
                Some(next) => by(last).min(by(next)).min(count),
                None => by(last).min(count),
            };
            let others = Micros::try_from(done.saturating_sub(1)).unwrap_or(Micros::MAX);
            at = at.saturating_add(left).saturating_add(others.saturating_mul(work));
            seen.done(due, at);
            if done < count {
                waiting.push(Reverse((last, i, work, count - done)));
            }
        }
    }
}

impl Projection {
    fn nothing(now: Timestamp) -> Self {
        Self { late: 0, breach: None, late_later: 0, overbooked: 0, overbooked_from: None, drained_at: now }
    }
}

/// What the run through a load has come to so far.
struct Seen {
    pace: Pace,
    present: Micros,
    windows: BTreeSet<Micros>,
    projection: Projection,
}

impl Seen {
    fn late(&mut self, due: Micros, last: Micros, count: u64) {
        let (told, last) = (&mut self.projection, instant(last));
        if due <= micros(self.pace.soon) {
            told.late += count;
            told.breach = Some(told.breach.map_or(last, |first| first.min(last)));
        } else {
            told.late_later += count;
            let window = length(self.pace.window);
            self.windows.insert(due.div_euclid(window).saturating_mul(window).max(micros(self.pace.soon)));
            told.overbooked = u64::try_from(self.windows.len()).unwrap_or(u64::MAX);
            told.overbooked_from = self.windows.first().copied().map(instant);
        }
    }

    fn done(&mut self, due: Micros, at: Micros) {
        if due <= self.present {
            // Rounded up: by then it surely has been.
            self.projection.drained_at = self.projection.drained_at.max(instant(at.saturating_add(999)));
        }
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;

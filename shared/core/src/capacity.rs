//! I say whether what falls due can be called in time: a destination's load, window by window, against its rate.
//!
//! The arithmetic is a queue with one server. A delivery's calls take their share of the rate that is left beside redrives;
//! the nearest deadline goes first; what is not called by a window's end is carried over. A delivery that can no longer
//! start in time is late: it expires without a call, and takes nobody's time.
//!
//! I am a forecast. I know no failure but the stated amplification (retries count right behind their first call), no burst,
//! no in-flight cap and no breaker, and only what is in the ledger now.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use serde::Serialize;

use crate::admission::Candidate;
use crate::id::DeliveryId;
use crate::limiter::{Micros, REDRIVE_PERCENT};
use crate::retry::last_safe_start;
use crate::time::Timestamp;

/// What a forecast assumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assumed {
    /// The destination's rate; 1 to 1,000 calls a second.
    pub rate_per_second: u32,
    /// Calls for each hundred deliveries, retries included; at least 100.
    pub amplification_percent: u32,
    /// Deadline less this is the last safe start.
    pub margin: Duration,
    /// The present.
    pub from: Timestamp,
    /// What falls due later is not looked at.
    pub until: Timestamp,
    /// The length of a window; at least a millisecond. Windows begin at whole multiples of it.
    pub window: Duration,
}

/// One window with anything in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Its begin, or the present.
    pub from: Timestamp,
    /// Its end, exclusive.
    pub until: Timestamp,
    /// What falls due in it.
    pub due: u64,
    /// Of these, so many are on their way already: published, in a call, or waiting for a retry in the queue.
    pub held: u64,
    /// What fell due before and still waits when it begins.
    pub carried: u64,
    /// The calls that both need, retries included; rounded up.
    pub calls: u64,
    /// How long these take at the sustainable rate, in seconds; rounded up.
    pub drain_seconds: u64,
    /// The nearest deadline among both.
    pub nearest_deadline: Option<Timestamp>,
    /// Of what falls due in it, so many cannot start in time.
    pub late: u64,
    /// What still waits at its end. `carried + due` less this was called, or expired.
    pub carried_on: u64,
}

/// The first deadline that cannot be met, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Breach {
    /// The window in which it falls due.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The last instant at which its call may start.
    pub last_start: Timestamp,
    /// So many deliveries fall due from `since` on and must start by `last_start`, this one included …
    pub deliveries: u64,
    /// … since this instant …
    pub since: Timestamp,
    /// … and the rate takes only so many.
    pub possible: u64,
}

/// What becomes of a destination's load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Forecast {
    /// What falls due or waits already, until the end.
    pub deliveries: u64,
    /// Of these, so many are on their way already.
    pub held: u64,
    /// Not counted: frozen by an operator (or with a window no wider than the margin), until their last safe start.
    pub asleep: u64,
    /// Not counted: their last safe start has passed, and they expire.
    pub hopeless: u64,
    /// The windows that have anything in them, in order.
    pub windows: Vec<Window>,
    /// How many cannot start in time.
    pub late: u64,
    /// The first of them by its last safe start; none if all can.
    pub breach: Option<Breach>,
    /// When the last one has been called; the present if there is none.
    pub drained_at: Timestamp,
}

/// A delivery to be called; instants in microseconds.
struct Job<'c> {
    candidate: &'c Candidate,
    /// The earliest start.
    due: Micros,
    /// Its share of the rate is used up by then, or it is late.
    last: Micros,
}

/// How a job ended.
#[derive(Clone, Copy, Default)]
struct End {
    at: Micros,
    late: bool,
}

impl Assumed {
    /// How long a delivery keeps the rate busy, in microseconds, rounded up.
    #[must_use]
    pub fn work(&self) -> Micros {
        let (calls, rate) = (Micros::from(self.amplification_percent.max(100)), Micros::from(self.rate_per_second.max(1)));
        let share = rate * Micros::from(100 - REDRIVE_PERCENT);
        (calls * 1_000_000 + share - 1) / share
    }

    /// The calls that so many deliveries need, rounded up.
    #[must_use]
    pub fn calls(&self, deliveries: u64) -> u64 {
        deliveries.saturating_mul(u64::from(self.amplification_percent.max(100))).div_ceil(100)
    }

    /// How long these take, in seconds, rounded up.
    #[must_use]
    pub fn drain_seconds(&self, deliveries: u64) -> u64 {
        let percent = u64::from(self.rate_per_second.max(1)) * u64::from(100 - REDRIVE_PERCENT);
        deliveries.saturating_mul(u64::from(self.amplification_percent.max(100))).div_ceil(percent)
    }

    /// The window of an instant: where it begins and ends, in microseconds.
    fn window_of(&self, at: Micros) -> (Micros, Micros) {
        let length = Micros::try_from(self.window.as_micros()).unwrap_or(Micros::MAX).max(1_000);
        let begin = at.div_euclid(length).saturating_mul(length);
        (begin.max(micros(self.from)), begin.saturating_add(length).min(micros(self.until)))
    }
}

fn micros(at: Timestamp) -> Micros {
    at.as_millis().saturating_mul(1_000)
}

/// Rounded up to the millisecond.
fn instant(at: Micros) -> Timestamp {
    Timestamp::from_millis(at.div_euclid(1_000) + i64::from(at.rem_euclid(1_000) > 0))
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Forecasts what becomes of these rows; those that fall due after the end are left out.
#[must_use]
pub fn forecast(candidates: &[Candidate], assumed: &Assumed) -> Forecast {
    let (mut asleep, mut hopeless, mut held) = (0, 0, 0);
    let mut jobs = Vec::new();
    for candidate in candidates.iter().filter(|candidate| candidate.wake_at <= assumed.until) {
        let last = last_safe_start(candidate.deliver_by, assumed.margin);
        let due = candidate.held_until.map_or(candidate.wake_at, |end| candidate.wake_at.max(end));
        if last < assumed.from {
            hopeless += 1;
        } else if candidate.held_until.is_none() && candidate.wake_at >= last {
            asleep += 1;
        } else if due < assumed.until {
            held += u64::from(candidate.held_until.is_some());
            let start = micros(due.max(assumed.from));
            // A window of no width is met by whoever starts at once.
            jobs.push(Job { candidate, due: micros(due), last: micros(last).max(start.saturating_add(assumed.work())) });
        }
    }
    jobs.sort_by(|a, b| (a.due, a.last, &a.candidate.id).cmp(&(b.due, b.last, &b.candidate.id)));
    let (ends, first_late) = run(&jobs, micros(assumed.from), assumed.work());
    Forecast {
        deliveries: count(jobs.len()),
        held,
        asleep,
        hopeless,
        windows: windows(&jobs, &ends, assumed),
        late: count(ends.iter().filter(|end| end.late).count()),
        breach: first_late.and_then(|job| breach(&jobs, job, assumed)),
        drained_at: instant(ends.iter().filter(|end| !end.late).map(|end| end.at).max().unwrap_or(micros(assumed.from))),
    }
}

/// Serves jobs in the order of their deadlines, one at a time; one that falls due meanwhile with a nearer deadline goes
/// first. Gives how each ended, and which one was the first to be late.
fn run(jobs: &[Job<'_>], from: Micros, work: Micros) -> (Vec<End>, Option<usize>) {
    let mut ends = vec![End::default(); jobs.len()];
    let mut first_late = None;
    let mut waiting: BinaryHeap<Reverse<(Micros, usize, Micros)>> = BinaryHeap::new();
    let mut arrivals = jobs.iter().enumerate().peekable();
    let mut at = from;
    let mut end = |i: usize, end: End| {
        if let Some(place) = ends.get_mut(i) {
            *place = end;
        }
    };
    loop {
        while let Some((i, job)) = arrivals.next_if(|(_, job)| job.due <= at) {
            waiting.push(Reverse((job.last, i, work)));
        }
        let next = arrivals.peek().map(|(_, job)| job.due);
        match (waiting.pop(), next) {
            (None, None) => return (ends, first_late),
            (None, Some(next)) => at = next,
            (Some(Reverse((last, i, left))), _) if at.saturating_add(left) > last => {
                first_late = first_late.or(Some(i));
                end(i, End { at, late: true });
            }
            (Some(Reverse((last, i, left))), Some(next)) if next < at.saturating_add(left) => {
                waiting.push(Reverse((last, i, left - (next - at))));
                at = next;
            }
            (Some(Reverse((_, i, left))), _) => {
                at = at.saturating_add(left);
                end(i, End { at, late: false });
            }
        }
    }
}

/// Counts jobs by window: each is in the backlog from its due time to its end.
fn windows(jobs: &[Job<'_>], ends: &[End], assumed: &Assumed) -> Vec<Window> {
    let mut windows = Vec::new();
    let mut begin = micros(assumed.from);
    while begin < micros(assumed.until) {
        let (from, until) = assumed.window_of(begin);
        windows.push(Window {
            from: instant(from),
            until: instant(until),
            due: 0,
            held: 0,
            carried: 0,
            calls: 0,
            drain_seconds: 0,
            nearest_deadline: None,
            late: 0,
            carried_on: 0,
        });
        begin = until;
    }
    for (job, end) in jobs.iter().zip(ends) {
        let deadline = job.candidate.deliver_by;
        let (due, left) = (instant(job.due), instant(end.at));
        let first = windows.partition_point(|window| window.until <= due);
        for (i, window) in windows.iter_mut().enumerate().skip(first) {
            let falls_due = due >= window.from;
            if !falls_due && left <= window.from && i > first {
                break;
            }
            if falls_due {
                window.due += 1;
                window.held += u64::from(job.candidate.held_until.is_some());
            } else {
                window.carried += 1;
            }
            window.late += u64::from(end.late && i == first);
            window.carried_on += u64::from(left > window.until);
            window.nearest_deadline = Some(window.nearest_deadline.map_or(deadline, |nearest| nearest.min(deadline)));
        }
    }
    windows.retain(|window| window.due + window.carried > 0);
    for window in &mut windows {
        window.calls = assumed.calls(window.due + window.carried);
        window.drain_seconds = assumed.drain_seconds(window.due + window.carried);
    }
    windows
}

/// Why a job is the first to be late: an instant from which on more falls due, with no later deadline, than the rate takes.
fn breach(jobs: &[Job<'_>], late: usize, assumed: &Assumed) -> Option<Breach> {
    let Job { candidate, due, last } = jobs.get(late)?;
    let (present, work) = (micros(assumed.from), assumed.work());
    let mut deliveries = 0_i64;
    let rivals = jobs.iter().enumerate().rev().filter(|(_, job)| job.last <= *last);
    let (_, since) = rivals.map(|(i, job)| (i, job.due.max(present))).find(|(i, since)| {
        deliveries += 1;
        *i <= late && deliveries.saturating_mul(work) > last - since
    })?;
    let (from, until) = assumed.window_of((*due).max(present));
    Some(Breach {
        from: instant(from),
        until: instant(until),
        delivery_id: candidate.id.clone(),
        last_start: last_safe_start(candidate.deliver_by, assumed.margin),
        deliveries: u64::try_from(deliveries).unwrap_or_default(),
        since: instant(since),
        possible: u64::try_from((last - since) / work).unwrap_or_default(),
    })
}

#[cfg(test)]
#[path = "capacity_tests.rs"]
mod tests;

//! I estimate when a row's next call starts: what goes before it, at the destination's rate.
//!
//! Nearest deadline first, one call after the other at the rate that is left beside redrives, as [`crate::capacity`] counts.
//! I know no failure, no burst, and nothing that falls due after the row itself. Where more
//! goes before it than may be out at a time, I say so.

use std::time::Duration;

use serde::Serialize;

use super::Whither;
use crate::admission::Candidate;
use crate::capacity::Assumed;
use crate::clock::Now;
use crate::delivery::Delivery;
use crate::limiter::Micros;
use crate::retry::last_safe_start;
use crate::state::State;
use crate::time::Timestamp;

/// What waits for a destination, as its lanes tell it: a moment old.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Backlog {
    /// What falls due by the row's own time, the row itself included.
    pub candidates: Vec<Candidate>,
    /// Whether that is all of it. What is left out falls due later than what is here.
    pub complete: bool,
}

/// When a row's next call is expected to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Expected {
    /// The instant.
    pub start: Timestamp,
    /// So many deliveries go before it.
    pub ahead: u64,
    /// It may be later: not all that waits was looked at, the breaker is open, or more goes before it than may be out at a time.
    pub or_later: bool,
    /// It would be after the last safe start: the row expires without that call.
    pub too_late: bool,
    /// In one sentence.
    pub told: String,
}

/// The estimate for a row that waits and that nobody has frozen. `ready` is when its call may start, `last` when it must have;
/// `margin` is the destination's.
pub(super) fn of(
    row: &Delivery,
    whither: Whither<'_>,
    ready: Timestamp,
    last: Timestamp,
    margin: Duration,
    now: Now,
) -> Option<Expected> {
    let (destination, backlog) = (whither.destination?, whither.backlog?);
    let rate = destination.spec.rate_per_second;
    let window = Duration::from_secs(60);
    let work = Assumed { rate_per_second: rate, amplification_percent: 100, margin, from: now.lo, until: now.lo, window }.work();
    let mut before: Vec<Micros> = backlog
        .candidates
        .iter()
        .filter(|candidate| goes_before(candidate, row, margin, now))
        .map(|candidate| micros(candidate.wake_at))
        .collect();
    before.sort_unstable();
    let ready = ready.max(now.lo);
    let (mut at, mut ahead) = (micros(now.lo), 0_u64);
    for due in before {
        if due > at.max(micros(ready)) {
            break;
        }
        at = at.max(due).saturating_add(work);
        ahead += 1;
    }
    let start = ready.max(Timestamp::from_millis(at.div_euclid(1_000)));
    let open = whither.reach.is_some_and(|reach| reach.open.is_some());
    // Dispatch releases no more at a time than there is room for: an unproven destination takes its backlog over several runs.
    let room = destination.capacity(whither.reach).max_in_flight;
    let narrow = row.state == State::Scheduled && ahead >= u64::from(room);
    let (or_later, too_late) = (!backlog.complete || open || narrow, start > last);
    let told = told(row, start, (ahead, backlog.complete), rate, narrow.then_some(room), or_later, too_late);
    Some(Expected { start, ahead, or_later, too_late, told })
}

fn micros(at: Timestamp) -> Micros {
    at.as_millis().saturating_mul(1_000)
}

/// Whether a candidate's call comes first: a nearer deadline, and for a row that is published already only of what is out too.
fn goes_before(candidate: &Candidate, row: &Delivery, margin: Duration, now: Now) -> bool {
    let last = last_safe_start(candidate.deliver_by, margin);
    let asleep = candidate.held_until.is_none() && candidate.wake_at >= last;
    let is_out = candidate.held_until.is_some();
    candidate.id != row.id
        && last >= now.lo
        && !asleep
        && (is_out || row.state == State::Scheduled)
        && (candidate.deliver_by, candidate.wake_at, &candidate.id) < (row.deliver_by, row.next_attempt_at, &row.id)
}

fn told(
    row: &Delivery,
    start: Timestamp,
    (ahead, complete): (u64, bool),
    rate: u32,
    room: Option<u32>,
    or_later: bool,
    too_late: bool,
) -> String {
    let calls = if rate == 1 { "call" } else { "calls" };
    let least = if complete { "" } else { "at least " };
    let queue = match ahead {
        0 if complete => "nothing that waits goes before it".to_owned(),
        0 => "not all that waits was looked at".to_owned(),
        1 => format!("{least}1 delivery goes before it, at {rate} {calls} a second"),
        _ => format!("{least}{ahead} deliveries go before it, at {rate} {calls} a second"),
    };
    let about = if or_later { "not before" } else { "about" };
    let taken = if row.state == State::Scheduled { ", once a dispatch run has taken it" } else { "" };
    let late = if too_late { "; that is after its last safe start: at this rate it expires without a call" } else { "" };
    let room = room.map_or_else(String::new, |room| format!(", and no more than {room} are out at a time"));
    format!("{about} {start}{taken}: {queue}{room}{late}.")
}

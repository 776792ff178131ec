//! I explain a delivery to a person: why it waits, when it runs next, when it becomes late, what is allowed now.
//!
//! I answer from the ledger's row, the destination, the switches and what waits beside it; no log is read.

use std::time::Duration;

use serde::Serialize;

use crate::breaker::{Open, Reach};
use crate::clock::Now;
use crate::delivery::{Delivery, Payload};
use crate::destination::{Destination, Pause};
use crate::retry::last_safe_start;
use crate::settings::Settings;
use crate::state::{Event, State, Verdict, verdict};
use crate::time::Timestamp;

mod expect;
mod redrive;
mod runs;
mod text;
mod why;

pub use expect::{Backlog, Expected};
pub use runs::Runs;
pub use text::text;

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Which delivery.
    pub delivery_id: String,
    /// The key that its receiver sees.
    pub idempotency_key: String,
    /// What the auditor asks by.
    pub reference: String,
    /// Whom it goes to.
    pub destination_id: String,
    /// Where it stands.
    pub state: State,
    /// Why, in one or two sentences.
    pub why: String,
    /// From this instant on something happens to it by itself; the present if that may be at any moment, none if nothing does.
    pub next: Option<Timestamp>,
    /// When its next call is expected to start; none if it waits for no call, or for a person.
    pub expected_start: Option<Expected>,
    /// The rule and the calendar's version that chose its instants; none if they were given.
    pub rule: Option<String>,
    /// Not called before this instant.
    pub deliver_after: Timestamp,
    /// The last instant at which a call may start.
    pub last_safe_start: Timestamp,
    /// The deadline.
    pub deliver_by: Timestamp,
    /// From then on it is late: the deadline, as long as it is neither delivered nor taken back.
    pub late_at: Option<Timestamp>,
    /// Seconds until the last safe start; negative once it has passed.
    pub seconds_left: i64,
    /// Attempts made, of how many the policy and redrives allow.
    pub attempts_made: u32,
    /// How many are allowed.
    pub attempts_allowed: u32,
    /// The attempts, oldest first.
    pub attempts: Vec<String>,
    /// The transitions, oldest first.
    pub history: Vec<String>,
    /// The size of the stored body in bytes; none once erased.
    pub body_bytes: Option<usize>,
    /// Its moves to other instants, in order: when, and what each left.
    pub moves: Vec<String>,
    /// Its returns from the dead, oldest first.
    pub redrives: Vec<String>,
    /// What a redrive would consume, or why it would leave it, in one sentence; none unless it is dead or expired.
    pub redrive: Option<String>,
    /// What an operator may do now.
    pub allowed: Vec<&'static str>,
    /// The row's version.
    pub version: u64,
}

/// Where a row goes, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Whither<'a> {
    /// Its destination, if it is registered.
    pub destination: Option<&'a Destination>,
    /// How that has been reached lately, if anything is stored.
    pub reach: Option<&'a Reach>,
    /// The stage's switches.
    pub settings: Settings,
    /// What waits for that destination by the row's own time, if it was read.
    pub backlog: Option<&'a Backlog>,
    /// What dispatch has left behind, if it was looked at.
    pub runs: Option<Runs>,
}

/// Explains a row. Without its destination (unregistered) the policy's numbers are unknown and shown as 0.
#[must_use]
pub fn explain(row: &Delivery, payload: Option<&Payload>, whither: Whither<'_>, margin: Duration, now: Now) -> Explanation {
    let destination = whither.destination;
    let back = redrive::of(row, payload.is_some(), destination, margin, now);
    let margin = destination.map_or(margin, |d| d.margin(margin));
    let last = last_safe_start(row.deliver_by, margin);
    Explanation {
        delivery_id: row.id.to_string(),
        idempotency_key: row.idempotency_key.to_string(),
        reference: row.reference.to_string(),
        destination_id: row.destination.to_string(),
        state: row.state,
        why: why::of(row, whither, last, now),
        next: next(row, whither, last, now),
        expected_start: expected(row, whither, last, margin, now),
        rule: row.rule.clone(),
        deliver_after: row.deliver_after,
        last_safe_start: last,
        deliver_by: row.deliver_by,
        late_at: (!row.state.is_terminal()).then_some(row.deliver_by),
        seconds_left: (last.as_millis() - now.lo.as_millis()).div_euclid(1000),
        attempts_made: u32::try_from(row.attempts.len()).unwrap_or(u32::MAX),
        attempts_allowed: destination.map_or(0, |d| d.spec.retry.attempts).saturating_add(row.granted),
        attempts: row.attempts.iter().map(ToString::to_string).collect(),
        history: row.history.iter().map(ToString::to_string).collect(),
        body_bytes: payload.map(|p| p.body.len()),
        moves: row.moves.iter().map(ToString::to_string).collect(),
        redrives: row.redrives.iter().map(ToString::to_string).collect(),
        redrive: back.as_ref().map(|back| back.text.clone()),
        allowed: allowed(row, destination, now).into_iter().chain(back.map(|back| back.actions).unwrap_or_default()).collect(),
        version: row.version,
    }
}

/// Who keeps it from being claimed and called, and why.
fn frozen(row: &Delivery, destination: Option<&Destination>) -> Option<String> {
    if let Some(hold) = &row.hold {
        return Some(format!("{} holds it since {}: {}.", hold.by, hold.since, hold.why.trim_end_matches('.')));
    }
    let sentence = |p: &Pause| {
        format!("{} paused destination {} since {}: {}.", p.by, row.destination, p.since, p.why.trim_end_matches('.'))
    };
    destination.and_then(|d| d.paused.as_ref()).map(sentence)
}

/// Whether it waits for a call.
fn waits(row: &Delivery) -> bool {
    matches!(row.state, State::Scheduled | State::Dispatching | State::Queued | State::Deferred)
}

/// The breaker that keeps a row from being called.
fn open<'a>(row: &Delivery, whither: Whither<'a>, last: Timestamp, now: Now) -> Option<&'a Open> {
    let matters = waits(row) && now.hi <= last && frozen(row, whither.destination).is_none();
    whither.reach.and_then(|reach| reach.open.as_ref()).filter(|_| matters)
}

/// When its next call may start, if nothing else goes before it.
fn ready(row: &Delivery, whither: Whither<'_>, last: Timestamp, now: Now) -> Timestamp {
    open(row, whither, last, now).map_or(row.next_attempt_at, |open| row.next_attempt_at.max(open.probe_at))
}

fn next(row: &Delivery, whither: Whither<'_>, last: Timestamp, now: Now) -> Option<Timestamp> {
    let registered = whither.destination.is_some();
    let at = match row.state {
        State::Delivered | State::Cancelled | State::Shadowed => None,
        // Dispatch sends its dead letter.
        State::Dead | State::Expired => {
            let looked_at = whither.destination.is_some_and(|d| d.paused.is_none()) && runs::still(row, whither, now).is_none();
            (row.owes_dead_letter() && looked_at).then_some(now.lo)
        }
        State::Delivering => row.lease_end(),
        State::Scheduled | State::Dispatching if !registered => None,
        State::Dispatching => row.lease_end(),
        // No run comes by itself, not even to expire it.
        State::Scheduled if runs::still(row, whither, now).is_some() => None,
        State::Scheduled if frozen(row, whither.destination).is_some() => Some(last),
        State::Scheduled | State::Queued | State::Deferred => Some(ready(row, whither, last, now).min(last)),
    };
    at.map(|at| at.max(now.lo))
}

fn expected(row: &Delivery, whither: Whither<'_>, last: Timestamp, margin: Duration, now: Now) -> Option<Expected> {
    let left = row.state == State::Scheduled && runs::still(row, whither, now).is_some();
    let free = waits(row) && !left && now.hi <= last && frozen(row, whither.destination).is_none();
    if free { expect::of(row, whither, ready(row, whither, last, now), last, margin, now) } else { None }
}

fn allowed(row: &Delivery, destination: Option<&Destination>, now: Now) -> Vec<&'static str> {
    let mut allowed = Vec::new();
    let may = |event| !matches!(verdict(row.state, event), Verdict::Refuse(_));
    if may(Event::Hold) && row.hold.is_none() {
        allowed.push("hold");
    }
    if may(Event::Unhold) && row.hold.is_some() {
        allowed.push("release");
    }
    // A lease that has surely ended is no obstacle, unless the success of an attempt waits to be written.
    let ended = row.lease_end().is_some() && !row.lease_may_be_live(now);
    let lost = row.state == State::Delivering && ended && row.late_success.is_none();
    if may(Event::Cancel) || lost {
        allowed.push("cancel");
    }
    if ended && destination.is_some() {
        allowed.push("release_lease");
    }
    if row.state == State::Delivering && row.lease_may_be_live(now) {
        allowed.push("wait for the attempt to end");
    }
    if !row.state.is_terminal() {
        match destination {
            None => allowed.push("put_destination: register its destination"),
            Some(destination) if destination.paused.is_some() => allowed.push("resume: its destination"),
            Some(_) => {}
        }
    }
    allowed
}

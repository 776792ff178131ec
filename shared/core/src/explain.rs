//! I explain a delivery to a person: why it waits, when it runs next, when it becomes late, what is allowed now.
//!
//! I answer from the ledger's row and the destination alone; no log is read.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::attempt::Answer;
use crate::breaker::{Open, Reach};
use crate::clock::Now;
use crate::delivery::{Delivery, Payload};
use crate::destination::{Destination, Mode, Pause};
use crate::reason::Reason;
use crate::retry::last_safe_start;
use crate::state::{Event, State, Verdict, verdict};
use crate::time::Timestamp;
use crate::transition::may_have_been_delivered;

mod redrive;

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
    /// The next instant at which something happens by itself.
    pub next: Option<Timestamp>,
    /// Not called before this instant.
    pub deliver_after: Timestamp,
    /// The last instant at which a call may start.
    pub last_safe_start: Timestamp,
    /// The deadline.
    pub deliver_by: Timestamp,
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
        why: why(row, destination, last, now) + &barred(row, whither, last, now) + sink(row, destination),
        next: next(row, whither, last, now),
        deliver_after: row.deliver_after,
        last_safe_start: last,
        deliver_by: row.deliver_by,
        seconds_left: (last.as_millis() - now.lo.as_millis()).div_euclid(1000),
        attempts_made: u32::try_from(row.attempts.len()).unwrap_or(u32::MAX),
        attempts_allowed: destination.map_or(0, |d| d.spec.retry.attempts).saturating_add(row.granted),
        attempts: row.attempts.iter().map(ToString::to_string).collect(),
        history: row.history.iter().map(ToString::to_string).collect(),
        body_bytes: payload.map(|p| p.body.len()),
        redrives: row.redrives.iter().map(ToString::to_string).collect(),
        redrive: back.as_ref().map(|back| back.text.clone()),
        allowed: allowed(row, now).into_iter().chain(back.and_then(|back| back.action)).collect(),
        version: row.version,
    }
}

fn frozen(row: &Delivery, destination: Option<&Destination>) -> Option<String> {
    if let Some(hold) = &row.hold {
        return Some(format!("{} holds it since {}: {}.", hold.by, hold.since, hold.why));
    }
    match destination {
        None => Some(format!("Its destination {} is not registered.", row.destination)),
        Some(d) => {
            let sentence = |p: &Pause| {
                format!("{} paused destination {} since {}: {}.", p.by, row.destination, p.since, p.why.trim_end_matches('.'))
            };
            d.paused.as_ref().map(sentence)
        }
    }
}

/// The breaker that keeps a row from being called.
fn open<'a>(row: &Delivery, whither: Whither<'a>, last: Timestamp, now: Now) -> Option<&'a Open> {
    let waits = matches!(row.state, State::Scheduled | State::Dispatching | State::Queued | State::Deferred);
    let matters = waits && now.hi <= last && frozen(row, whither.destination).is_none();
    whither.reach.and_then(|reach| reach.open.as_ref()).filter(|_| matters)
}

fn barred(row: &Delivery, whither: Whither<'_>, last: Timestamp, now: Now) -> String {
    let Some(open) = open(row, whither, last, now) else { return String::new() };
    let next = match &open.probe {
        Some(probe) if !now.reached(probe.until) => format!("a probe is under way until {} at the latest", probe.until),
        _ => format!("the next probe starts at {} or later", open.probe_at),
    };
    let failed = if open.probes == 0 { String::new() } else { format!("; {} probes were not answered", open.probes) };
    format!(" Destination {} does not answer: its breaker is open since {}; {next}{failed}.", row.destination, open.since)
}

fn last_reason(row: &Delivery) -> String {
    let Some(reason) = row.reason else { return String::new() };
    let rule = match row.attempts.last().map(|attempt| attempt.answer) {
        Some(Answer::Refused(rule)) => format!(" Refused by rule {rule}: {}", rule.meaning()),
        _ => String::new(),
    };
    format!(" Last reason {reason}: {}{rule}", reason.meaning())
}

/// Where its next attempt goes, if not to the receiver.
fn sink(row: &Delivery, destination: Option<&Destination>) -> &'static str {
    // A row whose receiver was called stays live; any other one gets the mode's stamp at its claim.
    let will_be = !row.was_called() && destination.is_some_and(|d| d.spec.mode == Mode::Shadow);
    let over = row.state.is_terminal() || row.state.needs_operator();
    if !over && (row.shadow || will_be) { " In shadow mode: the shadow sink gets it, not the receiver." } else { "" }
}

fn taken_back(row: &Delivery) -> String {
    let told = row.cancel.as_ref().map_or_else(
        || "Cancelled; nothing will be sent.".to_owned(),
        |cancel| format!("{} cancelled it at {}: {}. Nothing will be sent.", cancel.by, cancel.since, cancel.why),
    );
    if row.reason == Some(Reason::EffectAfterCancel) {
        return told + " A call that was under way had its effect all the same.";
    }
    if may_have_been_delivered(row) { told + " A call before it may have had its effect." } else { told }
}

fn why(row: &Delivery, destination: Option<&Destination>, last: Timestamp, now: Now) -> String {
    let frozen = frozen(row, destination);
    let lease = row.lease_end().map_or_else(|| "unknown".to_owned(), |end| end.to_string());
    let attempt = row.next_attempt();
    match row.state {
        State::Delivered => {
            let done = row.attempts.iter().rev().find(|a| a.answer != Answer::Unknown);
            let when = done.map_or_else(String::new, |a| format!(" by attempt {} at {}", a.number, a.started_at));
            format!("Delivered{when}.")
        }
        State::Cancelled => taken_back(row),
        State::Shadowed => "Posted to the shadow sink only; the receiver was not called.".to_owned(),
        State::Dead => format!("Dead after {} attempts.{}", row.attempts.len(), last_reason(row)),
        State::Expired => format!("Expired after {} attempts: the last safe start was {last}.", row.attempts.len()),
        _ if now.hi > last => format!("Its last safe start {last} has passed: the next dispatch run or delivery expires it."),
        State::Delivering if row.lease_may_be_live(now) => {
            format!("Attempt {attempt} is in flight; whoever makes it holds the row until {lease}.")
        }
        State::Delivering => {
            format!("Attempt {attempt} ended without an outcome; its lease ended at {lease}, and rescue closes it.")
        }
        _ if frozen.is_some() => frozen.unwrap_or_default(),
        State::Scheduled if now.reached(row.next_attempt_at) => {
            format!(
                "Due since {}; the next dispatch run takes it as the destination's rate allows.{}",
                row.next_attempt_at,
                last_reason(row)
            )
        }
        State::Scheduled => format!("Waits in the ledger for attempt {attempt} at {}.{}", row.next_attempt_at, last_reason(row)),
        State::Dispatching => format!("A dispatch run is publishing it and holds the row until {lease}."),
        State::Queued => format!("Its message is in the queue for attempt {attempt} at {}.", row.next_attempt_at),
        State::Deferred => {
            format!(
                "Attempt {} failed; its message waits in the queue for attempt {attempt} at {}.{}",
                row.attempts.len(),
                row.next_attempt_at,
                last_reason(row)
            )
        }
    }
}

fn next(row: &Delivery, whither: Whither<'_>, last: Timestamp, now: Now) -> Option<Timestamp> {
    match row.state {
        State::Delivered | State::Cancelled | State::Shadowed | State::Dead | State::Expired => None,
        State::Delivering | State::Dispatching => row.lease_end(),
        _ if frozen(row, whither.destination).is_some() => Some(last),
        State::Scheduled | State::Queued | State::Deferred => {
            let probe = open(row, whither, last, now).map_or(row.next_attempt_at, |open| open.probe_at);
            Some(row.next_attempt_at.max(probe).min(last))
        }
    }
}

fn allowed(row: &Delivery, now: Now) -> Vec<&'static str> {
    let mut allowed = Vec::new();
    let may = |event| !matches!(verdict(row.state, event), Verdict::Refuse(_));
    if may(Event::Hold) && row.hold.is_none() {
        allowed.push("hold");
    }
    if may(Event::Unhold) && row.hold.is_some() {
        allowed.push("release");
    }
    // A lease that has surely ended is no obstacle, unless the success of an attempt waits to be written.
    let lost = row.state == State::Delivering && !row.lease_may_be_live(now) && row.late_success.is_none();
    if may(Event::Cancel) || lost {
        allowed.push("cancel");
    }
    if row.state == State::Delivering && row.lease_may_be_live(now) {
        allowed.push("wait for the attempt to end");
    }
    allowed
}

/// The explanation as a person wants to read it.
#[must_use]
pub fn text(e: &Explanation) -> String {
    let mut out = String::new();
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(out, "{label:<16}{value}");
    };
    line("delivery", &e.delivery_id);
    if e.idempotency_key != e.delivery_id {
        line("key", &e.idempotency_key);
    }
    line("reference", &e.reference);
    line("destination", &e.destination_id);
    line("state", e.state.as_str());
    line("why", &e.why);
    line("next", &e.next.map_or_else(|| "nothing by itself".to_owned(), |at| at.to_string()));
    let left = match e.state {
        State::Delivered | State::Cancelled | State::Shadowed => String::new(),
        _ if e.seconds_left < 0 => format!(" (passed {} s ago)", -e.seconds_left),
        _ => format!(" ({} s left)", e.seconds_left),
    };
    line("due", &e.deliver_after.to_string());
    line("last safe start", &format!("{}{left}", e.last_safe_start));
    line("deadline", &e.deliver_by.to_string());
    line("attempts", &format!("{} of {}", e.attempts_made, e.attempts_allowed));
    for attempt in &e.attempts {
        line("", attempt);
    }
    for (i, entry) in e.history.iter().enumerate() {
        line(if i == 0 { "history" } else { "" }, entry);
    }
    for (i, entry) in e.redrives.iter().enumerate() {
        line(if i == 0 { "redriven" } else { "" }, entry);
    }
    if let Some(redrive) = &e.redrive {
        line("redrive", redrive);
    }
    line("allowed now", &if e.allowed.is_empty() { "nothing".to_owned() } else { e.allowed.join(", ") });
    out
}

//! I name the stage that a canary does not come through, and say why.

use std::time::Duration;

use crate::acquire::can_start;
use crate::attempt::{Answer, Attempt};
use crate::breaker::Open;
use crate::clock::Now;
use crate::delivery::Delivery;
use crate::destination::Destination;
use crate::limiter::AHEAD;
use crate::reason::Reason;
use crate::state::State;
use crate::time::Timestamp;

use super::{Patience, Sighting, Stage, Step};

/// Where a canary is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) stage: Stage,
    /// Whether waiting longer is of no use.
    pub(super) broken: bool,
    pub(super) why: String,
}

fn broken(stage: Stage, why: impl Into<String>) -> Trouble {
    Trouble { stage, broken: true, why: why.into() }
}

/// It waits in a stage, for so long as that may take.
fn waits(stage: Stage, since: Timestamp, patience: Patience, now: Now, why: &str) -> Trouble {
    let waited = now.lo.since(since);
    let why = format!("{why} for {} s.", waited.as_secs());
    Trouble { stage, broken: waited > patience.of(stage), why }
}

/// Says where a canary is that is not delivered.
pub(super) fn trouble(sighting: &Sighting<'_>, stages: &[Step], patience: Patience, now: Now) -> Trouble {
    let Sighting { row, whither, .. } = sighting;
    let open = whither.reach.and_then(|reach| reach.open.as_ref());
    if let Some(ended) = ended(row, whither.destination, open, stages) {
        return ended;
    }
    if let Some(barred) = barred(row, whither.destination, stages) {
        return barred;
    }
    match row.state {
        State::Delivering => in_flight(row, patience, now),
        _ if !row.attempts.is_empty() => failed(row, open),
        _ if open.is_some() => broken(Stage::Acknowledgement, silent(row, open)),
        State::Dispatching => {
            let since = last(row, State::Dispatching).unwrap_or(row.next_attempt_at);
            waits(Stage::Queue, since, patience, now, "A dispatch run has claimed it, and has recorded no message of it")
        }
        State::Queued => queued(sighting, patience, now),
        _ => in_ledger(row, patience, now),
    }
}

/// When the row came to a state last.
fn last(row: &Delivery, state: State) -> Option<Timestamp> {
    row.history.iter().rev().find(|line| line.state == state).map(|line| line.at)
}

/// The stage after the last one passed; without an attempt, none but the first three can be told apart.
fn next(stages: &[Step]) -> Stage {
    let passed = stages.last().map(|step| step.stage);
    match passed {
        None => Stage::Schedule,
        Some(Stage::Schedule) => Stage::Dispatch,
        Some(Stage::Dispatch) => Stage::Queue,
        Some(Stage::Queue | Stage::Limiter) => Stage::Deliver,
        Some(Stage::Deliver | Stage::Acknowledgement) => Stage::Acknowledgement,
    }
}

fn silent(row: &Delivery, open: Option<&Open>) -> String {
    let since = open.map_or_else(String::new, |open| {
        format!(", its breaker is open since {}, and {} probes were not answered", open.since, open.probes)
    });
    format!("Destination {} does not answer{since}.", row.destination)
}

/// It will not go on by itself.
fn ended(row: &Delivery, destination: Option<&Destination>, open: Option<&Open>, stages: &[Step]) -> Option<Trouble> {
    match row.state {
        State::Shadowed => Some(broken(
            Stage::Deliver,
            "Its destination is in shadow mode: its request went to the shadow sink, and nobody was called.",
        )),
        State::Cancelled => {
            let who = row.cancel.as_ref().map_or_else(|| "Somebody".to_owned(), |cancel| cancel.by.clone());
            Some(broken(next(stages), format!("{who} cancelled it.")))
        }
        State::Dead | State::Expired => {
            if !row.attempts.is_empty() {
                let trouble = failed(row, open);
                return Some(broken(trouble.stage, format!("It is {}. {}", row.state, trouble.why)));
            }
            let reason = row.reason.map_or_else(String::new, |reason| format!(": {}", reason.meaning().trim_end_matches('.')));
            let told = format!("It is {}{reason}.", row.state);
            // What barred it, if that still shows.
            let trouble = match (barred(row, destination, stages), open) {
                (Some(barred), _) => barred,
                (None, Some(_)) => broken(Stage::Acknowledgement, silent(row, open)),
                (None, None) => return Some(broken(next(stages), told)),
            };
            Some(broken(trouble.stage, format!("{told} {}", trouble.why)))
        }
        _ => None,
    }
}

/// Somebody keeps it from going on.
fn barred(row: &Delivery, destination: Option<&Destination>, stages: &[Step]) -> Option<Trouble> {
    if let Some(hold) = &row.hold {
        return Some(broken(
            next(stages),
            format!("{} holds it since {}: {}.", hold.by, hold.since, hold.why.trim_end_matches('.')),
        ));
    }
    let Some(destination) = destination else {
        return Some(broken(Stage::Dispatch, format!("Its destination {} is not registered any more.", row.destination)));
    };
    let pause = destination.paused.as_ref()?;
    let why = pause.why.trim_end_matches('.');
    Some(broken(Stage::Dispatch, format!("{} paused destination {} since {}: {why}.", pause.by, row.destination, pause.since)))
}

/// Its last attempt failed.
fn failed(row: &Delivery, open: Option<&Open>) -> Trouble {
    let Some(attempt) = row.attempts.last() else { return broken(Stage::Deliver, "No attempt was made.") };
    let Attempt { number, started_at, reason, .. } = attempt;
    let answer = match attempt.answer {
        Answer::Status(status) => format!("was answered with {status}"),
        Answer::Refused(rule) => format!("was refused by rule {rule}"),
        Answer::Unknown => "ended without an outcome".to_owned(),
        Answer::Error | Answer::Shadow => "failed".to_owned(),
    };
    let again = match row.state {
        State::Scheduled | State::Dispatching | State::Queued | State::Deferred => {
            format!(" Its next one starts at {} or later.", row.next_attempt_at)
        }
        _ => String::new(),
    };
    let breaker = if open.is_some() { format!(" {}", silent(row, open)) } else { String::new() };
    let stage = match attempt.answer {
        // An invocation that ended with its attempt open.
        Answer::Unknown => Stage::Deliver,
        _ if attempt.was_called() => Stage::Acknowledgement,
        _ => Stage::Deliver,
    };
    broken(stage, format!("Attempt {number} at {started_at} {answer}: {}{again}{breaker}", reason.meaning()))
}

fn in_flight(row: &Delivery, patience: Patience, now: Now) -> Trouble {
    let since = last(row, State::Delivering).unwrap_or(row.next_attempt_at);
    if row.lease_may_be_live(now) {
        return waits(Stage::Acknowledgement, since, patience, now, "Its call is under way");
    }
    broken(Stage::Deliver, format!("The invocation of deliver that claimed it at {since} ended without recording an outcome."))
}

fn queued(sighting: &Sighting<'_>, patience: Patience, now: Now) -> Trouble {
    let Sighting { row, whither, booked } = sighting;
    let since = last(row, State::Queued).unwrap_or(row.next_attempt_at).max(row.next_attempt_at);
    let wait = whither.destination.map_or(Duration::ZERO, |destination| destination.limit().wait(*booked, now.lo, AHEAD));
    if !wait.is_zero() {
        let why = format!("The destination's rate is booked out for {} s more; its message waits", wait.as_secs() + 1);
        return waits(Stage::Limiter, since, patience, now, &why);
    }
    waits(Stage::Deliver, since, patience, now, "The queue has its message, and deliver has not taken it")
}

fn in_ledger(row: &Delivery, patience: Patience, now: Now) -> Trouble {
    let since = row.next_attempt_at;
    match row.reason {
        Some(Reason::PublishFailed) => broken(Stage::Queue, Reason::PublishFailed.meaning()),
        Some(Reason::RateLimitedHere) => waits(
            Stage::Limiter,
            since,
            patience,
            now,
            "The destination's rate left no room for it, and it has been in the ledger",
        ),
        _ if !can_start(row.deliver_by, Duration::ZERO, now) => {
            broken(Stage::Dispatch, "Its deadline has passed, and no run of dispatch has taken note of it.")
        }
        _ => waits(Stage::Dispatch, since, patience, now, "No run of dispatch has taken it"),
    }
}

//! I am what the ledger says of one delivery, as far as a comparison needs it.

use std::time::Duration;

use crate::attempt::{Answer, Attempt};
use crate::delivery::Delivery;
use crate::id::{DeliveryId, DestinationId};
use crate::reason::Reason;
use crate::state::State;
use crate::time::Timestamp;

/// What is compared: successes within it, as far as two clocks can agree on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// From this instant, inclusive.
    pub from: Timestamp,
    /// Up to this one, exclusive; more than twice the tolerance later.
    pub until: Timestamp,
    /// So far may the receiver's clock, and the way to its export, be off.
    pub tolerance: Duration,
}

/// From an instant to another, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub from: Timestamp,
    /// The last; not before the first.
    pub until: Timestamp,
}

impl Period {
    /// Whether an instant of the receiver's own clock lies within it.
    #[must_use]
    pub fn holds(&self, at: Timestamp) -> bool {
        (self.from..self.until).contains(&at)
    }

    /// Whether all of a span lies within it by every clock.
    #[must_use]
    pub fn surely(&self, span: Span) -> bool {
        self.from.plus(self.tolerance) <= span.from && span.until.plus(self.tolerance) < self.until
    }

    /// Whether some of a span may lie within it by some clock.
    #[must_use]
    pub fn perhaps(&self, span: Span) -> bool {
        self.from <= span.until.plus(self.tolerance) && span.from < self.until.plus(self.tolerance)
    }
}

impl Span {
    /// Whether an instant may lie within it, if clocks are off by so much.
    #[must_use]
    pub fn near(&self, at: Timestamp, tolerance: Duration) -> bool {
        (self.from.minus(tolerance)..=self.until.plus(tolerance)).contains(&at)
    }

    fn with(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), until: self.until.max(other.until) }
    }
}

/// A success that the ledger recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Success {
    /// The attempt's number.
    pub attempt: u32,
    /// From the call's start to the end of its answer.
    pub span: Span,
}

/// What the ledger says of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Which delivery.
    pub id: DeliveryId,
    /// Whether it goes to the destination that is asked about.
    pub here: bool,
    /// Where it stands.
    pub state: State,
    /// Not called before this instant.
    pub deliver_after: Timestamp,
    /// Its deadline.
    pub deliver_by: Timestamp,
    /// How many calls may have reached the receiver.
    pub calls: u32,
    /// From the first of them to the last.
    pub called: Option<Span>,
    /// Its success: the one within the period, if there are several.
    pub success: Option<Success>,
}

impl Standing {
    /// What a row says.
    #[must_use]
    pub fn of(row: &Delivery, destination: &DestinationId, period: &Period) -> Self {
        let calls: Vec<&Attempt> = row.attempts.iter().filter(|attempt| attempt.was_called()).collect();
        let called = calls.iter().map(|attempt| span(attempt, row)).reduce(Span::with);
        let successes = successes(row);
        let within = successes.iter().find(|success| period.perhaps(success.span));
        Self {
            id: row.id.clone(),
            here: row.destination == *destination,
            state: row.state,
            deliver_after: row.deliver_after,
            deliver_by: row.deliver_by,
            calls: u32::try_from(calls.len()).unwrap_or(u32::MAX),
            called,
            success: within.or(successes.first()).copied(),
        }
    }
}

/// When an attempt may have been at the receiver. One without an outcome may have been there until it was closed.
fn span(attempt: &Attempt, row: &Delivery) -> Span {
    let ended = attempt.started_at.plus(attempt.took);
    let closed = || {
        let mut after = row.history.iter().filter(|line| line.attempt == Some(attempt.number) && line.state != State::Delivering);
        after.next().map_or(ended, |line| line.at)
    };
    let until = if attempt.answer == Answer::Unknown { closed().max(ended) } else { ended };
    Span { from: attempt.started_at, until }
}

/// Every success. One that became known late, and whose attempt has another entry, is told by the row's history alone.
fn successes(row: &Delivery) -> Vec<Success> {
    let recorded: Vec<Success> = row
        .attempts
        .iter()
        .filter(|attempt| attempt.reason == Reason::Accepted)
        .map(|attempt| Success { attempt: attempt.number, span: span(attempt, row) })
        .collect();
    if !recorded.is_empty() {
        return recorded;
    }
    let line = row.history.iter().find(|line| line.state == State::Delivered).filter(|_| row.state == State::Delivered);
    let of_line = line.map(|line| {
        let attempt = line.attempt.unwrap_or_default();
        let started = row.attempts.iter().find(|entry| entry.number == attempt).map_or(line.at, |entry| entry.started_at);
        Success { attempt, span: Span { from: started.min(line.at), until: line.at } }
    });
    of_line.into_iter().collect()
}

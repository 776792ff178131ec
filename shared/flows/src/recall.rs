//! I take a delivery back, or move it to other instants: what `operate` does for a person and `schedule` for a producer.
//!
//! Both read, decide by the core's transition, and write once, conditional on the version; only that write is the
//! acknowledgement. Whoever else writes in between is read again and decided again.

use std::time::Duration;

use punctual_core::delivery::{Cancel, Delivery, Instants};
use punctual_core::id::Correlation;
use punctual_core::ports::{Ledger, Time, Written};
use punctual_core::retry::last_safe_start;
use punctual_core::state::{Refusal, State};
use punctual_core::time::Timestamp;
use punctual_core::transition;
use serde::Serialize;

use crate::{FlowError, stamp};

/// Somebody else's writes may get in between so often before whoever asks is told to try again.
const MOST_TRIES: usize = 5;

/// An attempt that may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct InFlight {
    /// Its number, from 1.
    pub attempt: u32,
    /// The end of its lease: by then it has ended, or can be closed as unknown.
    pub lease_until: Option<Timestamp>,
}

/// Why nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// A call may be under way, or the success of one waits to be written.
    #[error("{}", in_the_way(.attempt, *.success))]
    InFlight {
        /// Which one, and until when.
        attempt: InFlight,
        /// The attempt whose success waits to be written.
        success: Option<u32>,
    },
    /// A 2xx is recorded.
    #[error("a delivery that was not delivered yet")]
    AlreadyDelivered,
    /// It ended in the shadow sink.
    #[error("a delivery that did not go to the shadow sink yet")]
    AlreadyShadowed,
    /// It was taken back.
    #[error("a delivery that was not cancelled")]
    AlreadyCancelled,
    /// Other instants grant no attempts, and it has none left.
    #[error("a delivery with attempts left: {made} of {allowed} were made; a redrive or an operator's requeue grants more")]
    AttemptsExhausted {
        /// How many were made.
        made: u32,
        /// How many it has, those included that were granted.
        allowed: u32,
    },
    /// The new deadline can't be met any more.
    #[error("later than {earliest}: less than the safety margin is left")]
    TooLate {
        /// The earliest deadline that would do now.
        earliest: Timestamp,
    },
    /// A failed attempt, or the slot of a redrive, has set a wait that the new deadline leaves no time for.
    #[error(
        "later than {earliest}: its next attempt starts at {until} or later, because a failed attempt, its receiver or a redrive has set that"
    )]
    Waits {
        /// No attempt starts before.
        until: Timestamp,
        /// The earliest deadline that would do.
        earliest: Timestamp,
    },
    /// The answer of an attempt was lost, and the destination wants a person to look before another call.
    #[error(
        "a delivery whose answers are known: that of attempt {attempt} was lost, so it may have had its effect, and the destination says on_unknown: review; with may_repeat: true it is called again all the same"
    )]
    NeedsReview {
        /// Which one.
        attempt: u32,
    },
    /// Its payload is gone: nothing could be sent.
    #[error("a delivery whose payload is there: this one's is missing or was erased")]
    NoPayload,
    /// The state table refuses.
    #[error("a delivery that is not {state}: {refusal}")]
    Refused {
        /// Its state.
        state: State,
        /// What the table says.
        refusal: Refusal,
    },
}

impl Why {
    /// A stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::InFlight { .. } => "in_flight",
            Self::AlreadyDelivered => "already_delivered",
            Self::AlreadyShadowed => "already_shadowed",
            Self::AlreadyCancelled => "already_cancelled",
            Self::AttemptsExhausted { .. } => "attempts_exhausted",
            Self::TooLate { .. } => "in_the_past",
            Self::Waits { .. } => "waits",
            Self::NeedsReview { .. } => "needs_review",
            Self::NoPayload => "no_payload",
            Self::Refused { .. } => "refused",
        }
    }

    fn of(row: &Delivery, refusal: Refusal) -> Self {
        match (refusal, row.state) {
            (Refusal::InFlight, _) => {
                let attempt = InFlight { attempt: row.next_attempt(), lease_until: row.lease_until };
                Self::InFlight { attempt, success: row.late_success }
            }
            (_, State::Delivered) => Self::AlreadyDelivered,
            (_, State::Shadowed) => Self::AlreadyShadowed,
            (_, State::Cancelled) => Self::AlreadyCancelled,
            (refusal, state) => Self::Refused { state, refusal },
        }
    }
}

/// What there must be instead of a call under way.
fn in_the_way(InFlight { attempt, lease_until }: &InFlight, success: Option<u32>) -> String {
    let until = lease_until.map_or_else(|| "unknown".to_owned(), |end| end.to_string());
    match success {
        Some(success) => {
            format!(
                "a delivery that is not delivered: attempt {success} was, and attempt {attempt} with lease_until {until} records it"
            )
        }
        None => format!(
            "a delivery without a call under way: attempt {attempt} may be, with lease_until {until}; send this again then"
        ),
    }
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recalled {
    /// It is written.
    Done {
        /// The state that it was in.
        from: State,
        /// The row as it is now.
        row: Box<Delivery>,
    },
    /// It was so already; the row as it is.
    Unchanged(Box<Delivery>),
    /// Nothing was changed; the row as it is.
    Refused(Box<Delivery>, Why),
    /// There is no such row.
    Absent,
    /// Somebody else keeps writing the row: the same may be asked again.
    Busy(Box<Delivery>),
}

/// What a delivery may still do, by its destination and stage.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The policy's number of attempts, without what was granted.
    pub attempts: u32,
    /// Deadline less this is the last safe start.
    pub margin: Duration,
    /// No further call after a lost answer: the destination's `on_unknown` is `review`, and whoever asks has not said that it
    /// may be repeated.
    pub review_unknown: bool,
}

/// The ports that recalling needs, and who does it.
#[derive(Debug)]
pub struct Recaller<'a, L, T> {
    /// The ledger.
    pub ledger: &'a L,
    /// The database's time.
    pub time: &'a T,
    /// Joins history and logs.
    pub by: Correlation,
}

impl<L: Ledger, T: Time> Recaller<'_, L, T> {
    /// Takes back a row as it was read. `by` and `why` stay on it.
    ///
    /// # Errors
    /// [`FlowError`] if the ledger or the database's time cannot be had: it may be written, and may be asked for again.
    pub async fn cancel(&self, mut row: Delivery, by: &str, why: &str) -> Result<Recalled, FlowError> {
        for _ in 0..MOST_TRIES {
            if row.state == State::Cancelled {
                return Ok(Recalled::Unchanged(Box::new(row)));
            }
            let stamp = stamp(self.time, &self.by)?;
            let cancel = Cancel { since: stamp.now.lo, by: by.to_owned(), why: why.to_owned() };
            let cancelled = match transition::cancelled(&row, cancel, &stamp) {
                Ok(cancelled) => cancelled,
                Err(refusal) => return Ok(refused(row, refusal)),
            };
            match self.ledger.write(&cancelled).await? {
                Written::Done => return Ok(Recalled::Done { from: row.state, row: Box::new(cancelled.after) }),
                Written::Conflict(current) => row = *current,
                Written::Absent => return Ok(Recalled::Absent),
            }
        }
        Ok(Recalled::Busy(Box::new(row)))
    }

    /// Moves a row as it was read to other instants, of which `deliver_by` is the later one, and notes the rule that chose them. A row that has them already is
    /// left alone, whatever its state: the same asked twice changes nothing. A dead or expired row is due again, but other
    /// instants grant no attempts.
    ///
    /// # Errors
    /// [`FlowError`] if the ledger or the database's time cannot be had: it may be written, and may be asked for again.
    pub async fn reschedule(
        &self,
        mut row: Delivery,
        (to, rule): (Instants, Option<String>),
        bounds: Bounds,
    ) -> Result<Recalled, FlowError> {
        for _ in 0..MOST_TRIES {
            if (row.deliver_after, row.deliver_by) == (to.deliver_after, to.deliver_by) {
                return Ok(Recalled::Unchanged(Box::new(row)));
            }
            let stamp = stamp(self.time, &self.by)?;
            let moved = match transition::rescheduled(&row, to, bounds.margin, &stamp) {
                Ok(mut moved) => {
                    moved.after.rule.clone_from(&rule);
                    moved
                }
                Err(refusal) => return Ok(refused(row, refusal)),
            };
            let made = moved.after.next_attempt().saturating_sub(1);
            let allowed = bounds.attempts.saturating_add(row.granted);
            if made >= allowed {
                return Ok(Recalled::Refused(Box::new(row), Why::AttemptsExhausted { made, allowed }));
            }
            if let Some(attempt) = transition::lost_answer(&row).filter(|_| bounds.review_unknown) {
                return Ok(Recalled::Refused(Box::new(row), Why::NeedsReview { attempt }));
            }
            if stamp.now.may_have_reached(last_safe_start(to.deliver_by, bounds.margin)) {
                let earliest = stamp.now.hi.plus(bounds.margin);
                return Ok(Recalled::Refused(Box::new(row), Why::TooLate { earliest }));
            }
            // One that is over may have been erased. That of a live one is never.
            if row.state.needs_operator() && self.ledger.payload(&row.id, &row.content).await?.is_none() {
                return Ok(Recalled::Refused(Box::new(row), Why::NoPayload));
            }
            let until = moved.after.next_attempt_at;
            if until > last_safe_start(to.deliver_by, bounds.margin) {
                let earliest = until.plus(bounds.margin);
                return Ok(Recalled::Refused(Box::new(row), Why::Waits { until, earliest }));
            }
            match self.ledger.write(&moved).await? {
                Written::Done => return Ok(Recalled::Done { from: row.state, row: Box::new(moved.after) }),
                Written::Conflict(current) => row = *current,
                Written::Absent => return Ok(Recalled::Absent),
            }
        }
        Ok(Recalled::Busy(Box::new(row)))
    }
}

fn refused(row: Delivery, refusal: Refusal) -> Recalled {
    let why = Why::of(&row, refusal);
    Recalled::Refused(Box::new(row), why)
}

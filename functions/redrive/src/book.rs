//! I book slots of what redriven calls may take of a destination's rate: one number, shared by all runs.
//!
//! A run's rate is a ceiling: slots are laid out at nine tenths of it, whole intervals apart and without a burst. What differs
//! between a slot and its call (a cold start, a connection) has that much room before a window holds more than the rate.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::admission::{budget, of_redrive};
use punctual_core::breaker::Reach;
use punctual_core::destination::Destination;
use punctual_core::id::DestinationId;
use punctual_core::limiter::{Key, Limit, Micros, Move, Moved, Plan};
use punctual_core::ports::{Control, Ledger, Letters, Queue, Slices, Time};
use punctual_core::time::Timestamp;
use punctual_flows::FlowError;

use crate::Redrive;
use crate::plan::cap;

/// A booking writes at most so often: each refusal tells the number.
const MOST_WRITES: usize = 4;

/// What a slice remembers of the numbers that it books on.
pub(crate) type Believed = BTreeMap<DestinationId, Option<Micros>>;

/// How fast, and how far ahead, a run books at a destination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) limit: Limit,
    pub(crate) ahead: Duration,
}

/// The calls a second that are booked of a rate: nine tenths, where that is a whole number less.
pub(crate) fn booked(rate_per_second: u32) -> u32 {
    (rate_per_second - rate_per_second / 10).max(1)
}

/// What is booked of the run's own rate or of the destination's redrive cap, whichever is less.
fn limit(destination: &Destination, rate_per_second: u32) -> Limit {
    Limit { per_second: booked(rate_per_second.min(cap(destination))), burst: 0 }
}

impl<L: Ledger, C: Control, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    /// How a run books here: as far ahead as the next slice is away and half of it more, but never more rows than redriven
    /// work may have of what may be out.
    pub(crate) fn pace(&self, destination: &Destination, reach: Option<&Reach>, rate_per_second: u32) -> Pace {
        let limit = limit(destination, rate_per_second);
        let all = budget(destination.capacity(reach), self.rules.horizon, self.tick, 0, true);
        let share = u64::try_from(of_redrive(all)).unwrap_or(u64::MAX);
        let interval = Duration::from_micros(u64::try_from(limit.interval()).unwrap_or(0));
        let room = interval.saturating_mul(u32::try_from(share).unwrap_or(u32::MAX));
        Pace { limit, ahead: self.farthest().min(room) }
    }

    /// The farthest that any row is booked ahead.
    pub(crate) fn farthest(&self) -> Duration {
        self.interval + self.interval / 2
    }

    /// The slot that a call would get that may start at this instant, as far as is known.
    pub(crate) fn guess(believed: Option<Micros>, limit: Limit, call: Timestamp, now: Timestamp) -> Timestamp {
        limit.slots(believed, &[call], now).into_iter().next().unwrap_or(call)
    }

    /// Books for calls that may start at these instants, in order; slots for as many of the first ones as there is room for.
    ///
    /// # Errors
    /// [`FlowError`] if the database's time or the control table cannot be had.
    pub(crate) async fn book(
        &self,
        id: &DestinationId,
        pace: Pace,
        calls: &[Timestamp],
        believed: &mut Believed,
    ) -> Result<Vec<Timestamp>, FlowError> {
        let known = believed.entry(id.clone()).or_default();
        for _ in 0..MOST_WRITES {
            let now = self.time.best_guess()?;
            let Plan { calls: booked, write: Some(write) } = pace.limit.plan(*known, calls, now, pace.ahead) else { break };
            match self.control.move_limit(&Key::of_redrive(id), write).await? {
                Moved::Refused { is } => *known = is,
                Moved::Done { now: after } => {
                    let before = if let Move::Add { by, .. } = write { Some(after.saturating_sub(by)) } else { *known };
                    *known = Some(after);
                    return Ok(pace.limit.slots(before, calls.get(..booked).unwrap_or_default(), now));
                }
            }
        }
        Ok(Vec::new())
    }
}

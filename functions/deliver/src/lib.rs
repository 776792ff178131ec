//! I am deliver: I take messages from the queue and make at most one call for each.
//!
//! A batch is [`batch`]; one record goes through [`record`] (parse, destination, deadline, a slot of the rate, claim), then [`attempt`]
//! (payload, secrets, the call, one write that records and releases), and is acknowledged last. The row decides; the
//! message is a hint. What the calls say about their receivers is the business of [`pause`] and
//! [`reach`]. One slow or broken record never takes its batch along.

pub mod attempt;
pub mod batch;
pub mod measure;
pub mod pause;
pub mod reach;
pub mod record;
pub mod slots;
pub mod tally;

use std::time::Duration;

use punctual_core::id::Correlation;
use punctual_core::time::Timestamp;

use crate::measure::Measure;

/// The bound on the difference between the platform's clock and the database's.
pub const CLOCK_BOUND: Duration = Duration::from_secs(2);
/// A wait up to this long happens in this process; a longer one in the queue.
pub const MAX_WAIT: Duration = Duration::from_secs(3);
/// No attempt starts unless its total timeout and this fit into what is left of the invocation.
pub const RESERVE: Duration = Duration::from_secs(3);

/// Deliver with its ports.
#[derive(Debug)]
pub struct Deliver<'a, L, C, Q, D, S, W, T> {
    /// The ledger.
    pub ledger: &'a L,
    /// The control table.
    pub control: &'a C,
    /// The queue.
    pub queue: &'a Q,
    /// The dead-letter queue.
    pub dead_letters: &'a D,
    /// The store of signing secrets.
    pub secrets: &'a S,
    /// The way to receivers.
    pub webhook: &'a W,
    /// The database's time and this invocation's end.
    pub time: &'a T,
    /// What this execution environment has measured.
    pub measure: &'a Measure,
    /// The stage's safety margin.
    pub margin: Duration,
    /// Joins history and logs.
    pub by: Correlation,
}

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Done with it: the queue may forget it.
    Acknowledge,
    /// It is seen again when this instant is near.
    HideUntil(Timestamp),
    /// It is seen again after so long.
    HideFor(Duration),
}

//! I am redrive: dead work comes back by an operator's decision, as a transition of its row and never as a copy.
//!
//! A run moves rows from `dead` or `expired` back to `scheduled`, under their old ids and keys, with their attempts and
//! history; the ordinary path takes them from there. The ledger selects ([`selection`]) and says what became of them
//! ([`totals`]); a run is a fenced row ([`run`]) that goes from slice to slice; whether a row is moved and a letter
//! deleted is [`decide`], whether the run goes on is [`judge`]. I know no clock and no queue.

pub mod decide;
pub mod entry;
pub mod judge;
pub mod run;
pub mod selection;
pub mod totals;

pub use decide::{DeleteWhy, ForLetter, ForRow, LeaveWhy, Move, Offer, SkipReason, for_letter, for_offer, for_row};
pub use entry::Redrive;
pub use judge::{FreshWait, Signs, Stop, StopCode, Verdict, judge};
pub use run::{Counters, Lease, Order, Pass, Phase, Run, RunRefusal, Stopped};
pub use selection::Selection;
pub use totals::Totals;

#[cfg(test)]
mod tests;

//! I compare what a receiver says to have got with what the ledger says to have delivered, one delivery at a time.
//!
//! Both sides come to me in the order of their ids, already joined: what the ledger has of a delivery ([`Standing`]), what
//! the receiver's export has of it ([`Seen`]), either or both. I say what that means ([`Finding`]) and count it
//! ([`Reckoning`]). I do not know files, tables or how the two were brought together.
//!
//! The receiver's clock is another one. Lines belong to deliveries by their id alone; times decide only what lies at the
//! bounds of the period ([`Period`]), and there I rather stay silent than invent a deviation.

mod finding;
mod reckoning;
mod seen;
mod standing;

pub use finding::{Finding, Marks, Why, find};
pub use reckoning::{Accepted, Counts, Deviation, Kind, Reckoning};
pub use seen::{Line, Place, Seen};
pub use standing::{Period, Span, Standing, Success};

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;

//! I am what an operator wants to know of a whole stage, as numbers: how much is due and how late it is, what will not be in
//! time, what is stuck, dead, paused.
//!
//! Everything is added up entry by entry, and no entry is kept: [`load`] and [`backlog`] from the wake index, [`ended`] from the
//! index of dead and expired rows, [`looked_at`] from the few rows that were read, [`repeats`] from what deliver counted.
//! Maxima over all destinations are the numbers; which destinations they come from is told by [`Offender`]s.

pub mod backlog;
pub mod ended;
pub mod load;
pub mod looked_at;
pub mod repeats;
pub mod stage;

pub use backlog::Backlog;
pub use ended::Ended;
pub use load::{Load, Pace, Projection, Span};
pub use looked_at::LookedAt;
pub use repeats::{Calls, Repeats};
pub use stage::{Depth, Figures, Heartbeat, Offender};

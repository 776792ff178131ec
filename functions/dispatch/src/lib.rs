//! I am dispatch: every minute I release what is due soon to the queue, and rescue what was lost on the way.
//!
//! Overlapping, late and repeated runs are normal: the ledger's guards decide who gets a row. I deliver nothing.
//! One run: [`scan`] each active destination's lanes, [`admit`](punctual_core::admission) what its rate takes, claim and
//! publish it ([`punctual_flows::release`]), look at every row whose hold has ended ([`settle`]), then sweep paused
//! destinations for deadlines, then say in one line what happened.

pub mod run;
pub mod scan;
pub mod settle;
pub mod summary;

pub use punctual_flows::tick::Tick;
pub use run::Dispatch;
pub use summary::Summary;

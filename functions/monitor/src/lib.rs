//! I am monitor: every minute I say how the whole stage stands, from the ledger alone. I change nothing.
//!
//! I have a schedule of my own and need no other function: a dispatcher that stands still cannot hide its lag from me. One run
//! ([`run`]) reads the control table, then the wake index of every destination up to a day ahead ([`lanes`]), the index of dead
//! and expired rows ([`ended`]), the few rows that are late for their call, and how full the queues are. What it costs depends on
//! what falls due within a day, not on how many rows there are; what one run has no room for is estimated, and said.
//!
//! Destinations are no dimension of a metric: maxima are the metrics ([`metrics`]), and who stands out is told in the log line.

pub mod ended;
pub mod lanes;
pub mod metrics;
pub mod run;

pub use run::{Memory, Monitor};

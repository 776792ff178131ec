//! I am Punctual's edge: the only place that knows AWS, HTTP, clocks, randomness and the environment.
//!
//! Each module is an adapter of one port of `punctual_core::ports`, or one concern of a running function. I decide
//! nothing about deliveries: guards and transitions come from the core and are only translated here.

pub mod aws;
pub mod clock;
pub mod config;
pub mod dynamodb;
#[cfg(feature = "testing")]
pub mod memory;
pub mod scheduler;
pub mod secrets;
pub mod sqs;
pub mod telemetry;
pub mod webhook;

//! CloudWatch's alarms, as far as `infra/observability.yaml` uses them: its own definitions, read from the file, judged on the
//! metrics that the functions emit.
//!
//! [`document`] reads the file, [`stream`] keeps metrics, [`math`] is metric math, [`state`] decides. [`stage`] is the shipped
//! functions on dynoxide in virtual minutes: what alarms are tried on.

pub mod document;
pub mod math;
mod operator;
pub mod stage;
pub mod state;
pub mod stream;

pub use document::alarms;
pub use state::{Alarm, State};
pub use stream::Stream;

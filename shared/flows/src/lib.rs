//! I am the steps that several functions take, written over the core's ports.
//!
//! I know no AWS, no clock, no environment and no runtime; functions never import each other, so what two of them do
//! is here: releasing rows to the queue ([`release`]), taking back and moving deliveries ([`recall`]), burying dead
//! work ([`bury`]), guarded writes ([`guarded`]), what a schedule sends ([`tick`]), the record of what operators do
//! ([`record`]). The boundaries at which a drill may kill the process are [`fault`] points.

pub mod bury;
pub mod fault;
pub mod guarded;
pub mod input;
pub mod recall;
pub mod record;
pub mod release;
pub mod tick;

use punctual_core::clock::ClockError;
use punctual_core::id::Correlation;
use punctual_core::ports::{PortError, Time};
use punctual_core::transition::Stamp;

/// Why a step could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The database's time is not known well enough; nothing was claimed, nothing is lost.
    #[error("nothing is claimed: {0}")]
    Clock(#[from] ClockError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// A stamp for a write that happens now.
///
/// # Errors
/// [`ClockError`] if the database's time is not known well enough.
pub fn stamp<T: Time>(time: &T, by: &Correlation) -> Result<Stamp, ClockError> {
    Ok(Stamp { now: time.now()?, by: by.clone() })
}

/// The cause chain of an error in one line, for a log.
#[must_use]
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

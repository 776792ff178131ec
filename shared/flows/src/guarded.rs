//! I write transitions that must not be lost: an outcome is retried until its lease ends.

use std::time::Duration;

use punctual_core::delivery::Delivery;
use punctual_core::id::DeliveryId;
use punctual_core::ports::{Ledger, PortError, Time, Written};
use punctual_core::transition::Transition;

use crate::chain;

/// The pause between two tries, on top of the adapter's own retries.
const PAUSE: Duration = Duration::from_millis(250);

/// Writes a transition; a ledger that is unavailable is tried again as long as more than `reserve` of the invocation
/// is left. A lost guard is a result, not an error.
///
/// # Errors
/// The last [`PortError`] when time is up, or at once if the error is no passing one.
pub async fn write_until<L: Ledger, T: Time>(
    ledger: &L,
    time: &T,
    transition: &Transition,
    reserve: Duration,
) -> Result<Written, PortError> {
    loop {
        match ledger.write(transition).await {
            Err(error @ PortError::Unavailable { .. }) if time.time_left() > reserve => {
                tracing::warn!(delivery_id = %transition.before.id, error = %chain(&error), "a write is tried again");
                time.pause(PAUSE).await;
            }
            other => return other,
        }
    }
}

/// Reads a row on which evidence waits to be written; a ledger that is unavailable is tried again as long as more than
/// `reserve` of the invocation is left.
///
/// # Errors
/// The last [`PortError`] when time is up, or at once if the error is no passing one.
pub async fn read_until<L: Ledger, T: Time>(
    ledger: &L,
    time: &T,
    id: &DeliveryId,
    reserve: Duration,
) -> Result<Option<Delivery>, PortError> {
    loop {
        match ledger.read_one(id).await {
            Err(error @ PortError::Unavailable { .. }) if time.time_left() > reserve => {
                tracing::warn!(delivery_id = %id, error = %chain(&error), "a read is tried again");
                time.pause(PAUSE).await;
            }
            other => return other,
        }
    }
}

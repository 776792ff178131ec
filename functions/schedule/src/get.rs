//! I say where deliveries stand, as the application may know it: no payload, no identity, no lease.

use punctual_core::delivery::Delivery;
use punctual_core::id::{DestinationId, Reference};
use punctual_core::reason::Reason;
use punctual_core::time::Timestamp;
use serde::Serialize;

/// Where a delivery stands, besides its state and instants. `inspect explain` tells all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Whom it goes to.
    pub destination_id: DestinationId,
    /// What the auditor asks by.
    pub reference: Reference,
    /// Counts its transitions.
    pub version: u64,
    /// How many attempts were made.
    pub attempts: usize,
    /// The next one starts no earlier than this; absent where none comes by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// The last reason code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// An operator has frozen it. Absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
}

impl Standing {
    /// Of a row.
    #[must_use]
    pub fn of(row: &Delivery) -> Self {
        let ended = row.state.is_terminal() || row.state.needs_operator();
        Self {
            destination_id: row.destination.clone(),
            reference: row.reference.clone(),
            version: row.version,
            attempts: row.attempts.len(),
            next_attempt_at: (!ended).then_some(row.next_attempt_at),
            reason: row.reason,
            held: row.hold.is_some(),
        }
    }
}

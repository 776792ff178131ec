//! I am the dead-letter message: ids, death, reason and times, so that a person sees at once what lies there.
//!
//! Never the payload, never a secret. The ledger stays the authority.

use crate::delivery::Delivery;
use crate::message::Message;
use crate::reason::Reason;

/// A message for the dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The body: a queue message's text, or the very text that could not be read.
    pub body: String,
    /// Attributes by name; at most ten.
    pub attributes: Vec<(&'static str, String)>,
}

impl DeadLetter {
    /// For a dead or expired row: its present death.
    #[must_use]
    pub fn of(row: &Delivery) -> Self {
        let mut attributes = vec![
            ("delivery_id", row.id.to_string()),
            ("destination_id", row.destination.to_string()),
            ("state", row.state.to_string()),
            ("death", row.death.to_string()),
            ("attempts", row.attempts.len().to_string()),
            ("deliver_by", row.deliver_by.to_string()),
        ];
        if let Some(reason) = row.reason {
            attributes.push(("reason", reason.to_string()));
        }
        if let Some(first) = row.attempts.first() {
            attributes.push(("first_attempt_at", first.started_at.to_string()));
        }
        if let Some(last) = row.attempts.last() {
            attributes.push(("last_attempt_at", last.started_at.to_string()));
        }
        Self { body: Message::of(row).body(), attributes }
    }

    /// For a body that names no delivery of ours.
    #[must_use]
    pub fn unreadable(body: &str, reason: Reason) -> Self {
        Self { body: body.to_owned(), attributes: vec![("reason", reason.to_string())] }
    }
}

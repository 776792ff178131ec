//! I am the dead-letter message: ids, death, reason and times, so that a person sees at once what lies there.
//!
//! Never the payload, never a secret. The ledger stays the authority.

use crate::delivery::Delivery;
use crate::message::Message;
use crate::reason::Reason;

/// The longest body that is passed on: a message holds 1 MiB, attributes included.
const MOST_BODY_BYTES: usize = 1_000_000;

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

    /// For a body that names no delivery of ours; a very long one is cut, so that body and attributes fit into a message.
    #[must_use]
    pub fn unreadable(body: &str, reason: Reason) -> Self {
        let mut end = body.len().min(MOST_BODY_BYTES);
        while !body.is_char_boundary(end) {
            end -= 1;
        }
        let mut attributes = vec![("reason", reason.to_string())];
        if end < body.len() {
            attributes.push(("cut_from_bytes", body.len().to_string()));
        }
        Self { body: body.get(..end).unwrap_or_default().to_owned(), attributes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_too_long_for_a_message_is_cut_at_a_character() {
        let long = "\u{e9}".repeat(600_000);
        let letter = DeadLetter::unreadable(&long, Reason::MalformedMessage);
        assert_eq!(letter.body.len(), 1_000_000);
        assert_eq!(letter.attributes, [("reason", "malformed_message".to_owned()), ("cut_from_bytes", "1200000".to_owned())]);
        let odd = format!("x{long}");
        assert_eq!(DeadLetter::unreadable(&odd, Reason::MalformedMessage).body.len(), 999_999);
        assert_eq!(DeadLetter::unreadable("short", Reason::UnknownVersion).attributes.len(), 1);
    }
}

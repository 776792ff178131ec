//! I am the dead-letter message: ids, death, reason and times, so that a person sees at once what lies there.
//!
//! Never the payload, never a secret. The ledger stays the authority.

use crate::delivery::Delivery;
use crate::id::DeliveryId;
use crate::message::Message;
use crate::ports::Letter;
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

/// What a received letter says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Which delivery.
    pub delivery_id: DeliveryId,
    /// Which of its deaths; none in a message that the queue itself moved here.
    pub death: Option<u32>,
    /// Why it died, if that is told.
    pub reason: Option<Reason>,
}

/// Reads a letter: its attributes, or the body of a message that the queue itself moved here. None of what names no delivery
/// of ours, or names its death in no number.
#[must_use]
pub fn told(letter: &Letter) -> Option<Told> {
    let attribute = |name: &str| letter.attributes.get(name).map(String::as_str);
    let delivery_id = match attribute("delivery_id") {
        Some(id) => DeliveryId::new(id).ok()?,
        None => Message::parse(&letter.body).ok()?.delivery_id,
    };
    let death = attribute("death").map(str::parse).transpose().ok()?;
    Some(Told { delivery_id, death, reason: attribute("reason").and_then(|reason| reason.parse().ok()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageId;
    use crate::time::Timestamp;

    fn letter(body: &str, attributes: &[(&str, &str)]) -> Letter {
        Letter {
            receipt: "r".into(),
            id: MessageId::new("m").expect("a message id"),
            body: body.into(),
            attributes: attributes.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            sent_at: Timestamp::from_millis(0),
            receives: 1,
        }
    }

    #[test]
    fn a_letter_tells_its_delivery_and_death_or_nothing() {
        let body = r#"{"version":1,"delivery_id":"dlv_b","idempotency_key":"k","destination_id":"crm","reference":"c-1",
            "attempt":1,"not_before":"2026-12-01T09:00:00.000Z","deliver_by":"2026-12-01T09:00:00.000Z"}"#;
        let told = |body, attributes: &[(&str, &str)]| told(&letter(body, attributes));
        let said = |id: &str, death, reason| Some(Told { delivery_id: DeliveryId::new(id).expect("an id"), death, reason });
        let ours = [("delivery_id", "dlv_a"), ("death", "2"), ("reason", "rejected")];
        assert_eq!(told(body, &ours), said("dlv_a", Some(2), Some(Reason::Rejected)));
        assert_eq!(told("whatever", &ours[..2]), said("dlv_a", Some(2), None));
        assert_eq!(told(body, &[]), said("dlv_b", None, None), "the queue itself moved it");
        assert_eq!(told("(empty)", &[("reason", "malformed_message")]), None);
        assert_eq!(told(body, &[("delivery_id", "no id"), ("death", "2")]), None);
        assert_eq!(told(body, &[("delivery_id", "dlv_a"), ("death", "two")]), None);
    }

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

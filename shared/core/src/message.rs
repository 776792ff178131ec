//! I am the queue message: a hint that a delivery may be ready. The row decides.
//!
//! Only ids and hints; never the payload. The format carries its version, and an unknown one is refused by name.

use serde::{Deserialize, Serialize};

use crate::delivery::Delivery;
use crate::id::{DeliveryId, DestinationId, IdempotencyKey, Reference};
use crate::reason::Reason;
use crate::time::Timestamp;

/// The format that this code writes and reads.
pub const VERSION: u64 = 1;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The format, always [`VERSION`].
    pub version: u64,
    /// Which delivery.
    pub delivery_id: DeliveryId,
    /// Its constant key.
    pub idempotency_key: IdempotencyKey,
    /// Whom it goes to.
    pub destination_id: DestinationId,
    /// What the auditor asks by.
    pub reference: Reference,
    /// Hint: the number of the attempt that was next when this was written.
    pub attempt: u32,
    /// Hint: not before this instant.
    pub not_before: Timestamp,
    /// Hint: the deadline.
    pub deliver_by: Timestamp,
    /// Hint: a redrive has moved it; absent if none has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redriven: bool,
}

/// Why a body is no message. Says nothing of the body itself but where it is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The body is not a message of ours.
    #[error("malformed message: {0}")]
    Malformed(String),
    /// The body's format version is not known here.
    #[error("unknown message version {0}; this code reads version {VERSION}")]
    UnknownVersion(u64),
}

impl MessageError {
    /// The reason code for the dead-letter message.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Malformed(_) => Reason::MalformedMessage,
            Self::UnknownVersion(_) => Reason::UnknownVersion,
        }
    }
}

/// The one field that every version of the format has.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

impl Message {
    /// The hint for a row as it now stands.
    #[must_use]
    pub fn of(row: &Delivery) -> Self {
        Self {
            version: VERSION,
            delivery_id: row.id.clone(),
            idempotency_key: row.idempotency_key.clone(),
            destination_id: row.destination.clone(),
            reference: row.reference.clone(),
            attempt: row.next_attempt(),
            not_before: row.next_attempt_at,
            deliver_by: row.deliver_by,
            redriven: row.is_redriven(),
        }
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`MessageError`] for anything but a message of version [`VERSION`].
    pub fn parse(body: &str) -> Result<Self, MessageError> {
        let place = |e: serde_json::Error| {
            MessageError::Malformed(format!("{} at line {} column {}", category(&e), e.line(), e.column()))
        };
        let versioned: Versioned = serde_json::from_str(body).map_err(place)?;
        if versioned.version != VERSION {
            return Err(MessageError::UnknownVersion(versioned.version));
        }
        serde_json::from_str(body).map_err(place)
    }

    /// The body's text.
    #[must_use]
    pub fn body(&self) -> String {
        // A struct of strings and numbers always has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn category(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "a field is missing, unknown or of the wrong type",
        serde_json::error::Category::Syntax => "not JSON",
        serde_json::error::Category::Eof => "the text ends too early",
        serde_json::error::Category::Io => "unreadable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"version":1,"delivery_id":"dlv_x","idempotency_key":"dlv_x","destination_id":"d","reference":"c-1","attempt":1,"not_before":"2026-12-01T09:00:00.000Z","deliver_by":"2026-12-01T12:00:00.000Z"}"#;

    #[test]
    fn round_trips() {
        assert_eq!(Message::parse(GOOD).map(|m| m.body()), Ok(GOOD.to_owned()));
        let redriven = GOOD.replace('}', ",\"redriven\":true}");
        assert_eq!(Message::parse(&redriven).map(|m| (m.redriven, m.body())), Ok((true, redriven)));
        assert_eq!(Message::parse(GOOD).map(|m| m.redriven), Ok(false));
    }

    #[test]
    fn refuses_by_name() {
        for (body, reason) in [
            ("", Reason::MalformedMessage),
            ("hello", Reason::MalformedMessage),
            ("[]", Reason::MalformedMessage),
            ("{}", Reason::MalformedMessage),
            (r#"{"version":"1"}"#, Reason::MalformedMessage),
            (r#"{"version":2,"anything":true}"#, Reason::UnknownVersion),
            (&GOOD.replace("\"attempt\":1", "\"attempt\":\"one\""), Reason::MalformedMessage),
            (&GOOD.replace("\"attempt\":1", "\"attempt\":1,\"extra\":1"), Reason::MalformedMessage),
            (&GOOD.replace("dlv_x", "dlv x"), Reason::MalformedMessage),
            (&GOOD.replace("2026-12-01T09", "2026-12-01 nine"), Reason::MalformedMessage),
        ] {
            assert_eq!(Message::parse(body).map_err(|e| e.reason()).err(), Some(reason), "{body}");
        }
    }
}

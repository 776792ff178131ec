//! I write the headers of a webhook request. Pure: the attempt's time is an argument.

use punctual_core::destination::KeyForm;
use punctual_core::id::{DeliveryId, IdempotencyKey};
use punctual_core::signature::{Secret, body_signature, webhook_signature};

/// How requests name their sender.
pub const USER_AGENT: &str = concat!("punctual/", env!("CARGO_PKG_VERSION"));

/// What the headers of one attempt are made of.
#[derive(Debug, Clone, Copy)]
pub struct HeaderInput<'a> {
    /// Sent as `webhook-id`.
    pub delivery_id: &'a DeliveryId,
    /// Sent as `idempotency-key`, the same at every attempt.
    pub idempotency_key: &'a IdempotencyKey,
    /// How the key is written.
    pub key_form: KeyForm,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// When the attempt starts, in whole Unix seconds; receivers refuse what is too old.
    pub timestamp_seconds: i64,
    /// The active secrets, at least one: each signs `webhook-signature`, the first signs `x-signature-256`.
    pub secrets: &'a [Secret],
    /// The exact bytes that are sent.
    pub body: &'a [u8],
}

/// The headers of one attempt, names in lower case. Without a secret there is no signature to send, and both
/// signature headers are left out: refuse such a call before it comes to this.
#[must_use]
pub fn headers(input: &HeaderInput<'_>) -> Vec<(&'static str, String)> {
    let id = input.delivery_id.as_str();
    let key = input.idempotency_key.as_str();
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        (
            "idempotency-key",
            match input.key_form {
                KeyForm::Bare => key.to_owned(),
                // The alphabet of keys has no quote and no backslash, so there is nothing to escape.
                KeyForm::Quoted => format!("\"{key}\""),
            },
        ),
        ("x-delivery-attempt", input.attempt.to_string()),
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", input.timestamp_seconds.to_string()),
        ("user-agent", USER_AGENT.to_owned()),
    ];
    if let Some(first) = input.secrets.first() {
        let signature = webhook_signature(input.secrets, id, input.timestamp_seconds, input.body);
        headers.push(("webhook-signature", signature));
        headers.push(("x-signature-256", body_signature(first, input.body)));
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    // The first reference case of tests/cases/signatures.json.
    const SECRET: &str = "whsec_ijkalhPdPaFJX77OsDrQJa/bZd4UvPuT";
    const ID: &str = "dlv_j7m64rugcqtpndphfuqwp5tjax";
    const SIGNATURE: &str = "v1,PgNYPUK1Bjxlq/TkEBDcEfHKOkYJNYA1n5WPXfigtZs=";

    fn made(key_form: KeyForm, secrets: &[Secret]) -> Vec<(&'static str, String)> {
        headers(&HeaderInput {
            delivery_id: &DeliveryId::new(ID).expect("an id"),
            idempotency_key: &IdempotencyKey::new("old-key-7").expect("a key"),
            key_form,
            attempt: 3,
            timestamp_seconds: 1_797_032_500,
            secrets,
            body: b"{\"a\":1}",
        })
    }

    fn value<'a>(headers: &'a [(&'static str, String)], name: &str) -> Vec<&'a str> {
        headers.iter().filter(|(n, _)| *n == name).map(|(_, v)| v.as_str()).collect()
    }

    #[test]
    fn each_header_is_there_once() {
        let first = Secret::parse("a", SECRET).expect("a secret");
        let second = Secret::parse("b", "whsec_S9kZJw0qtA/Idyki4xkXP0xoJjMbvPSD").expect("a secret");
        let made = made(KeyForm::Bare, &[first, second]);
        let agent = format!("punctual/{}", env!("CARGO_PKG_VERSION"));
        for (name, expected) in [
            ("content-type", "application/json"),
            ("idempotency-key", "old-key-7"),
            ("x-delivery-attempt", "3"),
            ("webhook-id", ID),
            ("webhook-timestamp", "1797032500"),
            ("user-agent", agent.as_str()),
            ("x-signature-256", "8db258658eed0a12a0cf9a11a4ae791bd402115a9dd6f8faa168b5f5d8fe7571"),
        ] {
            assert_eq!(value(&made, name), [expected], "{name}");
        }
        let signatures: Vec<&str> = made.iter().find(|(n, _)| *n == "webhook-signature").expect("signed").1.split(' ').collect();
        assert_eq!(signatures.first(), Some(&SIGNATURE));
        assert_eq!(signatures.len(), 2, "one per active secret");
        assert_eq!(made.len(), 8);
    }

    #[test]
    fn the_key_can_be_quoted() {
        assert_eq!(value(&made(KeyForm::Quoted, &[]), "idempotency-key"), ["\"old-key-7\""]);
    }

    #[test]
    fn without_a_secret_there_is_no_signature() {
        let made = made(KeyForm::Bare, &[]);
        assert!(value(&made, "webhook-signature").is_empty() && value(&made, "x-signature-256").is_empty());
    }
}

//! I am the receiver's two logs: what was called, and what had an effect. Both are bounded.

use std::collections::{HashMap, HashSet};

use axum::http::{HeaderMap, HeaderValue};
use data_encoding::HEXLOWER;
use punctual_core::time::Timestamp;
use sha2::{Digest, Sha256};

use super::header_text;
use super::verify::{Verdict, Verifier};

/// The most calls that are kept in detail; further ones are only counted.
const CALL_LIMIT: usize = 100_000;

/// The most effects and the most pairs of path and key; beyond, calls are refused: an effect that is not logged must
/// not happen.
const EFFECT_LIMIT: usize = 100_000;

/// The longest header text that is kept, in characters.
const TEXT_LIMIT: usize = 512;

/// One call as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// When its head had arrived, in Unix milliseconds of the receiver's own clock.
    pub received_at_ms: i64,
    /// Its path.
    pub path: String,
    /// Its `webhook-id`; empty if it had none.
    pub webhook_id: String,
    /// Its `idempotency-key`, as sent; empty if it had none.
    pub idempotency_key: String,
    /// Its `x-delivery-attempt`.
    pub attempt: Option<u32>,
    /// Its `user-agent`; empty if it had none.
    pub user_agent: String,
    /// The body's SHA-256, in hex.
    pub body_sha256: String,
    /// The body's length.
    pub body_bytes: usize,
    /// What the reference implementation says of `webhook-signature`.
    pub signature: Verdict,
    /// What HMAC-SHA-256 says of `x-signature-256`.
    pub body_signature: Verdict,
    /// Signatures in `webhook-signature`.
    pub signatures: usize,
    /// Of how many of the receiver's secrets there is a good one among them.
    pub good_signatures: usize,
    /// The body's field `due` (RFC 3339, or a number of Unix milliseconds), in Unix milliseconds.
    pub due_ms: Option<i64>,
}

impl Call {
    pub(super) fn new(received_at_ms: i64, path: &str, headers: &HeaderMap, body: &[u8], verifier: &Verifier) -> Self {
        let (signature, body_signature) = verifier.verify(headers, body);
        Self {
            received_at_ms,
            path: path.chars().take(TEXT_LIMIT).collect(),
            webhook_id: header_text(headers, "webhook-id"),
            idempotency_key: header_text(headers, "idempotency-key"),
            attempt: header_text(headers, "x-delivery-attempt").parse().ok(),
            user_agent: header_text(headers, "user-agent"),
            body_sha256: HEXLOWER.encode(&Sha256::digest(body)),
            body_bytes: body.len(),
            signature,
            body_signature,
            signatures: header_text(headers, "webhook-signature").split_ascii_whitespace().count(),
            good_signatures: verifier.signatures(headers, body),
            due_ms: due(body),
        }
    }

    /// The key that a receiver goes by: the idempotency key without quotes, else the webhook id.
    #[must_use]
    pub fn key(&self) -> &str {
        let key = self.idempotency_key.trim_matches('"');
        if key.is_empty() { &self.webhook_id } else { key }
    }

    /// Whether it arrived before the instant that its body claims to be due.
    #[must_use]
    pub fn is_early(&self) -> bool {
        self.due_ms.is_some_and(|due| self.received_at_ms < due)
    }

    /// Whether one of its signatures does not verify.
    #[must_use]
    pub fn is_badly_signed(&self) -> bool {
        self.signature == Verdict::Wrong || self.body_signature == Verdict::Wrong
    }
}

/// The field `due` of a body, if there is one.
fn due(body: &[u8]) -> Option<i64> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    let due = value.get("due")?;
    due.as_i64().or_else(|| due.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_millis))
}

/// A header's text, bounded; empty if it is missing or unreadable.
pub(super) fn text(value: Option<&HeaderValue>) -> String {
    value.and_then(|value| value.to_str().ok()).unwrap_or_default().chars().take(TEXT_LIMIT).collect()
}

/// One effect as it was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// For which key.
    pub key: String,
    /// By which attempt.
    pub attempt: Option<u32>,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

#[derive(Default)]
pub(super) struct Log {
    calls: Vec<Call>,
    total: u64,
    counts: HashMap<(String, String), u64>,
    effects: Vec<Effect>,
    /// What the receiver remembers to honour a key. Not what duplicates are computed from.
    applied: HashSet<String>,
}

impl Log {
    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter()
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.total.saturating_sub(u64::try_from(self.calls.len()).unwrap_or(u64::MAX))
    }

    pub(super) fn effects(&self) -> &[Effect] {
        &self.effects
    }

    pub(super) fn has_room(&self) -> bool {
        self.effects.len() < EFFECT_LIMIT && self.counts.len() < EFFECT_LIMIT
    }

    pub(super) fn count(&self, path: &str, key: &str) -> u64 {
        self.counts.get(&(path.to_owned(), key.to_owned())).copied().unwrap_or(0)
    }

    /// Applies a call's effect; if the key is honoured, only the first time.
    pub(super) fn apply(&mut self, call: &Call, honour: bool) {
        let new = self.applied.insert(call.key().to_owned());
        if new || !honour {
            let (key, attempt, at_ms) = (call.key().to_owned(), call.attempt, call.received_at_ms);
            self.effects.push(Effect { key, attempt, at_ms });
        }
    }

    pub(super) fn record(&mut self, call: Call, path: &str) {
        self.total += 1;
        let place = (path.to_owned(), call.key().to_owned());
        if self.counts.len() < EFFECT_LIMIT || self.counts.contains_key(&place) {
            *self.counts.entry(place).or_default() += 1;
        }
        if self.calls.len() < CALL_LIMIT {
            self.calls.push(call);
        }
    }

    pub(super) fn duplicate_effects(&self) -> usize {
        let keys: HashSet<&str> = self.effects.iter().map(|effect| effect.key.as_str()).collect();
        self.effects.len() - keys.len()
    }
}

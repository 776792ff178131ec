//! I verify signatures without the product's code: `webhook-signature` with the reference implementation of Standard
//! Webhooks (which also wants the timestamp to be within five minutes), `x-signature-256` with plain HMAC.

use anyhow::{Context as _, Result};
use axum::http::HeaderMap;
use data_encoding::{BASE64, HEXLOWER};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use standardwebhooks::Webhook;

use super::header_text;

/// What became of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It verifies under one of the receiver's secrets.
    Verified,
    /// It is missing, or verifies under none of them.
    Wrong,
    /// The receiver has no secrets.
    Unchecked,
}

pub(super) struct Verifier {
    secrets: Vec<(Webhook, Hmac<Sha256>)>,
}

impl Verifier {
    pub(super) fn new(secrets: &[&str]) -> Result<Self> {
        let secrets = secrets.iter().map(|secret| {
            let encoded = secret.strip_prefix("whsec_").context("a secret starts with whsec_")?;
            let key = BASE64.decode(encoded.as_bytes()).context("a secret is base64")?;
            Ok((Webhook::new(secret)?, Hmac::new_from_slice(&key)?))
        });
        Ok(Self { secrets: secrets.collect::<Result<_>>()? })
    }

    /// How many of the secrets `webhook-signature` has a good signature of.
    pub(super) fn signatures(&self, headers: &HeaderMap, body: &[u8]) -> usize {
        self.secrets.iter().filter(|(webhook, _)| webhook.verify(body, headers).is_ok()).count()
    }

    pub(super) fn verify(&self, headers: &HeaderMap, body: &[u8]) -> (Verdict, Verdict) {
        if self.secrets.is_empty() {
            return (Verdict::Unchecked, Verdict::Unchecked);
        }
        let sent = HEXLOWER.decode(header_text(headers, "x-signature-256").as_bytes()).unwrap_or_default();
        let signed = self.signatures(headers, body) > 0;
        let body_signed = self.secrets.iter().any(|(_, mac)| mac.clone().chain_update(body).verify_slice(&sent).is_ok());
        (verdict(signed), verdict(body_signed))
    }
}

fn verdict(good: bool) -> Verdict {
    if good { Verdict::Verified } else { Verdict::Wrong }
}

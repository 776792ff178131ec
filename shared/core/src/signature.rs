//! I sign requests in both schemes: Standard Webhooks 1.0.0 (`v1`) and a plain HMAC of the body.
//!
//! I know no secret store. A secret never shows itself: it has no `Display`, and its `Debug` is blind.

use std::fmt;

use data_encoding::{BASE64, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The prefix of a Standard Webhooks secret.
const PREFIX: &str = "whsec_";

/// A signing secret with its id: the id is evidence, the bytes never are.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    id: String,
    key: Vec<u8>,
}

/// Why a text is no signing secret. Says nothing of the text itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Wrong prefix.
    #[error("a signing secret starts with whsec_")]
    Prefix,
    /// Not base64.
    #[error("after whsec_ a signing secret is base64")]
    Base64,
    /// Too short or too long.
    #[error("a signing secret holds 24 to 64 bytes")]
    Length,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Secret {
    /// Reads `whsec_` + base64 of 24 to 64 bytes.
    ///
    /// # Errors
    /// [`SecretError`] says what is wrong without repeating the text.
    pub fn parse(id: impl Into<String>, text: &str) -> Result<Self, SecretError> {
        let encoded = text.trim_ascii().strip_prefix(PREFIX).ok_or(SecretError::Prefix)?;
        let key = BASE64.decode(encoded.as_bytes()).map_err(|_| SecretError::Base64)?;
        if !(24..=64).contains(&key.len()) {
            return Err(SecretError::Length);
        }
        Ok(Self { id: id.into(), key })
    }

    /// The id under which it is known.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    fn mac(&self, parts: &[&[u8]]) -> Vec<u8> {
        // HMAC takes a key of any length, so this arm is never taken; without it there would be a panic here.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else { return Vec::new() };
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().to_vec()
    }
}

/// The `webhook-signature` header: one `v1` signature per active secret, separated by a space.
#[must_use]
pub fn webhook_signature(secrets: &[Secret], webhook_id: &str, timestamp_seconds: i64, body: &[u8]) -> String {
    let head = format!("{webhook_id}.{timestamp_seconds}.");
    let signatures: Vec<String> =
        secrets.iter().map(|secret| format!("v1,{}", BASE64.encode(&secret.mac(&[head.as_bytes(), body])))).collect();
    signatures.join(" ")
}

/// The `x-signature-256` header: hex HMAC-SHA-256 of the body under the given secret.
#[must_use]
pub fn body_signature(secret: &Secret, body: &[u8]) -> String {
    HEXLOWER.encode(&secret.mac(&[body]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_checked_and_blind() {
        assert_eq!(Secret::parse("k", "abc"), Err(SecretError::Prefix));
        assert_eq!(Secret::parse("k", "whsec_***"), Err(SecretError::Base64));
        assert_eq!(Secret::parse("k", "whsec_AAAA"), Err(SecretError::Length));
        let secret = Secret::parse("k", "whsec_ijkalhPdPaFJX77OsDrQJa/bZd4UvPuT").expect("a secret");
        assert_eq!(format!("{secret:?}"), "Secret { id: \"k\", .. }");
    }
}

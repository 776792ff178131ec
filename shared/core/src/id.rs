//! I name things: deliveries, keys, destinations, references, correlation.
//!
//! A delivery's id is derived from what the reminder *is* (tenant, subscriber, renewal period, reminder kind), never
//! from an attempt, a due time or a clock: the same reminder has one id for ever.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::time::Timestamp;

/// The prefix of every derived delivery id; a migrated id must not start with it.
pub const DERIVED_PREFIX: &str = "dlv_";
/// The prefix of every redrive run's id.
pub const RUN_PREFIX: &str = "run_";

/// Why a text is not a valid name of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

/// Says whether every character is one that an HTTP header and a dotted signature may carry: `A-Z a-z 0-9 _ -`.
fn header_safe(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn check(text: &str, max: usize, allowed: fn(&str) -> bool, alphabet: &str) -> Result<(), NameError> {
    if text.is_empty() || text.len() > max {
        return Err(NameError(format!("1 to {max} characters")));
    }
    if !allowed(text) {
        return Err(NameError(format!("only {alphabet}")));
    }
    Ok(())
}

fn visible(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_graphic())
}

fn run_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    text.strip_prefix(RUN_PREFIX).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(allowed))
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $max:literal, $allowed:expr, $alphabet:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The longest text, in characters (all are ASCII, so also in bytes).
            pub const MAX: usize = $max;

            /// Checks length and alphabet.
            ///
            /// # Errors
            /// [`NameError`] says what would be right.
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                check(&text, Self::MAX, $allowed, $alphabet)?;
                Ok(Self(text))
            }

            /// The text itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "minLength": 1, "maxLength": $max, "description": $alphabet })
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }
    };
}

name!(
    /// A delivery's identity: derived (`dlv_` and 26 characters) or brought along by a migration.
    DeliveryId, 64, header_safe, "letters, digits, _ and -"
);
name!(
    /// What the receiver uses to recognise a repeated call; the delivery id unless a migration brought another.
    IdempotencyKey, 64, header_safe, "letters, digits, _ and -"
);
name!(
    /// The name of a receiver's registered endpoint.
    DestinationId, 32, header_safe, "letters, digits, _ and -"
);
name!(
    /// The name of a business calendar.
    CalendarId, 32, header_safe, "letters, digits, _ and -"
);
name!(
    /// What the auditor asks by: a contract number, an invoice number.
    Reference, 64, visible, "visible ASCII without spaces"
);
name!(
    /// A short token that joins a row's history with the logs of the invocation that wrote it.
    Correlation, 12, header_safe, "letters, digits, _ and -"
);
name!(
    /// Who holds a lease: unique for every claim, so that an answer lost on the wire is recognised as one's own.
    Owner, 24, header_safe, "letters, digits, _ and -"
);
name!(
    /// The name of one run of a canary.
    CanaryRun, 24, visible, "visible ASCII without spaces"
);
name!(
    /// The queue's own name for an accepted message.
    MessageId, 64, visible, "visible ASCII without spaces"
);
name!(
    /// A short hash of all that was asked for: body, destination, reference and both instants.
    Content, 16, header_safe, "letters, digits, _ and -"
);
name!(
    /// A redrive run: `run_` and 1 to 20 characters, so that the name of a slice's schedule has room for it and the stage's.
    RunId, 24, run_name, "run_ and then a to z, 0 to 9 and -"
);

/// What a reminder is. Two reminders with equal parts are one reminder.
#[derive(Clone, PartialEq, Eq)]
pub struct IdentityParts {
    /// Whose product this is; 1 to 32 bytes.
    pub tenant: String,
    /// Who is reminded; 1 to 64 bytes. Never logged.
    pub subscriber: String,
    /// Which period of the contract; 1 to 32 bytes.
    pub renewal_period: String,
    /// Which of the period's reminders; 1 to 32 bytes.
    pub reminder_kind: String,
}

impl fmt::Debug for IdentityParts {
    /// Leaves the subscriber out: it must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityParts").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl DeliveryId {
    /// The id of the reminder that these parts describe. Each part is length-prefixed before hashing, so that
    /// `("ab", "c")` and `("a", "bc")` differ.
    #[must_use]
    pub fn derive(parts: &IdentityParts) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"punctual delivery 1");
        for part in [&parts.tenant, &parts.subscriber, &parts.renewal_period, &parts.reminder_kind] {
            length_prefixed(&mut hash, part.as_bytes());
        }
        let digest = hash.finalize();
        let short: Vec<u8> = digest.iter().copied().take(16).collect();
        Self(format!("{DERIVED_PREFIX}{}", data_encoding::BASE32_NOPAD.encode(&short).to_ascii_lowercase()))
    }

    /// Whether this id was derived here (and not brought along).
    #[must_use]
    pub fn is_derived(&self) -> bool {
        self.0.starts_with(DERIVED_PREFIX)
    }

    /// The shard of this delivery among `shards` (at least 1).
    #[must_use]
    pub fn shard(&self, shards: u16) -> u16 {
        let digest = Sha256::digest(self.0.as_bytes());
        let number = digest.iter().take(4).fold(0_u32, |acc, b| (acc << 8) | u32::from(*b));
        u16::try_from(number % u32::from(shards.max(1))).unwrap_or(0)
    }
}

impl Content {
    /// The hash of all that a producer asked for.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"punctual content 1");
        for part in parts {
            length_prefixed(&mut hash, part);
        }
        let short: Vec<u8> = hash.finalize().iter().copied().take(8).collect();
        Self(data_encoding::HEXLOWER.encode(&short))
    }
}

fn length_prefixed(hash: &mut Sha256, part: &[u8]) {
    hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
    hash.update(part);
}

impl Correlation {
    /// The short token of an invocation: the first eight letters or digits of its request id.
    #[must_use]
    pub fn of_request(request_id: &str) -> Self {
        let short: String = request_id.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        Self(if short.is_empty() { "unknown".to_owned() } else { short })
    }
}

impl RunId {
    /// The id of a run that is started now, by this invocation: `run_20261201-090000-7f3a`. Two of one second and one
    /// invocation are equal.
    #[must_use]
    pub fn started(at: Timestamp, by: &Correlation) -> Self {
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        let (text, short) = (at.to_string(), by.0.chars().filter(char::is_ascii_alphanumeric).take(4).collect::<String>());
        let (day, time) = text.split_at_checked(10).unwrap_or((&text, ""));
        let time: String = digits(time).chars().take(6).collect();
        Self(format!("{RUN_PREFIX}{}-{time}-{}", digits(day), short.to_ascii_lowercase()))
    }
}

impl From<&DeliveryId> for IdempotencyKey {
    fn from(id: &DeliveryId) -> Self {
        Self(id.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(t: &str, s: &str, p: &str, k: &str) -> IdentityParts {
        IdentityParts { tenant: t.into(), subscriber: s.into(), renewal_period: p.into(), reminder_kind: k.into() }
    }

    #[test]
    fn the_id_of_a_reminder_never_changes() {
        // Computed apart from this code: base32(sha256("punctual delivery 1" ++ for each part its length as 8 bytes and itself)[..16]).
        let id = DeliveryId::derive(&parts("acme", "sub-1", "2027", "first"));
        assert_eq!(id.as_str(), "dlv_takpl2u2dimwlf7uop5miki2hy");
    }

    proptest! {
        #[test]
        fn moving_a_character_between_parts_changes_the_id(a in "[a-z]{1,8}", b in "[a-z]{1,8}", c in "[a-z]{1,8}") {
            let whole = format!("{a}{b}");
            let left = DeliveryId::derive(&parts(&whole, &c, "p", "k"));
            let right = DeliveryId::derive(&parts(&a, &format!("{b}{c}"), "p", "k"));
            prop_assert_ne!(left, right);
        }

        #[test]
        fn ids_are_header_safe_and_have_a_fixed_length(t in ".{1,20}", s in ".{1,20}") {
            let id = DeliveryId::derive(&parts(&t, &s, "p", "k"));
            prop_assert_eq!(id.as_str().len(), 30);
            prop_assert!(DeliveryId::new(id.as_str()).is_ok());
            prop_assert!(id.shard(2) < 2);
        }
    }

    #[test]
    fn a_run_is_named_by_its_start() {
        let at: Timestamp = "2026-12-01T09:05:07.123Z".parse().expect("an instant");
        let id = RunId::started(at, &Correlation::new("7F_3a9c2").expect("a token"));
        assert_eq!(id.as_str(), "run_20261201-090507-7f3a");
        assert_eq!(RunId::new(id.as_str()), Ok(id));
        for wrong in ["run_", "run-1", "Run_1", "run_A", "run_1_2", "run_123456789012345678901"] {
            assert!(RunId::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_say_what_would_be_right() {
        assert_eq!(DestinationId::new("a.b").map_err(|e| e.to_string()), Err("only letters, digits, _ and -".into()));
        assert_eq!(Correlation::new("").map_err(|e| e.to_string()), Err("1 to 12 characters".into()));
    }
}

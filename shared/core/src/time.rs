//! I am an instant in whole milliseconds of UTC, and the way it is written.
//!
//! I do not know what time it is. Text is always RFC 3339 in UTC with exactly three fraction digits
//! (`2026-12-01T09:00:00.000Z`), so that text order is time order and a person can read a row.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The first instant a row may hold: 2000-01-01T00:00:00.000Z, in milliseconds since the Unix epoch.
const MIN_MS: i64 = 946_684_800_000;
/// The last instant a row may hold: 9999-12-30T00:00:00.000Z, so that the year keeps four digits in every zone.
const MAX_MS: i64 = 253_402_128_000_000;

/// An instant in milliseconds since the Unix epoch, between the years 2000 and 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Why a text is no [`Timestamp`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimestampError {
    /// The text is not RFC 3339 with an offset.
    #[error("not an RFC 3339 instant with an offset, like 2026-12-01T09:00:00.000Z")]
    Format,
    /// The text is finer than a millisecond.
    #[error("finer than a millisecond; give at most three fraction digits")]
    TooFine,
    /// The instant is outside the years 2000 to 9999.
    #[error("outside the years 2000 to 9999")]
    OutOfRange,
}

impl Timestamp {
    /// The instant `ms` milliseconds after the Unix epoch, moved into the allowed range.
    #[must_use]
    pub fn from_millis(ms: i64) -> Self {
        Self(ms.clamp(MIN_MS, MAX_MS))
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub fn as_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This instant plus `by`; stops at the end of the range.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_add(ms))
    }

    /// This instant minus `by`; stops at the start of the range.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_sub(ms))
    }

    /// How long after `earlier` this instant is; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => Err(fmt::Error),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let instant: jiff::Timestamp = text.parse().map_err(|_| TimestampError::Format)?;
        if instant.subsec_nanosecond() % 1_000_000 != 0 {
            return Err(TimestampError::TooFine);
        }
        let ms = instant.as_millisecond();
        if (MIN_MS..=MAX_MS).contains(&ms) { Ok(Self(ms)) } else { Err(TimestampError::OutOfRange) }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time", "description": "RFC 3339 with an offset" })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_fixed_width_and_round_trips() {
        for ms in [MIN_MS, 1_796_115_600_000, 1_796_115_600_007, MAX_MS] {
            let text = Timestamp::from_millis(ms).to_string();
            assert_eq!(text.len(), 24, "{text}");
            assert_eq!(text.parse::<Timestamp>().map(Timestamp::as_millis), Ok(ms));
        }
        assert_eq!(
            "2026-12-01T10:00:00+01:00".parse::<Timestamp>().map(|t| t.to_string()),
            Ok("2026-12-01T09:00:00.000Z".to_owned())
        );
    }

    #[test]
    fn refuses_what_a_row_must_not_hold() {
        assert_eq!("2026-12-01".parse::<Timestamp>(), Err(TimestampError::Format));
        assert_eq!("2026-12-01T09:00:00.0001Z".parse::<Timestamp>(), Err(TimestampError::TooFine));
        assert_eq!("1999-12-31T23:59:59Z".parse::<Timestamp>(), Err(TimestampError::OutOfRange));
    }
}

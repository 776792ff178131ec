//! I am an instant in whole milliseconds of UTC, and the way it is written.
//!
//! I do not know what time it is. I write RFC 3339 in UTC with exactly three fraction digits (`2026-12-01T09:00:00.000Z`), so that
//! text order is time order and a person can read a row. I read RFC 3339 with any offset, and no other format; what is finer than
//! a millisecond is refused, not cut off.

mod rfc3339;

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
    /// The text is finer than a millisecond, or has more than nine fraction digits.
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
        let ms = rfc3339::milliseconds(text)?;
        if (MIN_MS..=MAX_MS).contains(&ms) { Ok(Self(ms)) } else { Err(TimestampError::OutOfRange) }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time", "description": "RFC 3339 with an offset; no finer than a millisecond" })
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
    use proptest::prelude::*;

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
    fn takes_rfc_3339_as_it_is_defined() {
        for (text, expected) in [
            ("2026-12-01T09:00:00Z", "2026-12-01T09:00:00.000Z"),
            ("2026-12-01t09:00:00z", "2026-12-01T09:00:00.000Z"),
            ("2026-12-01T09:00:00.5Z", "2026-12-01T09:00:00.500Z"),
            ("2026-12-01T09:00:00.07Z", "2026-12-01T09:00:00.070Z"),
            ("2026-12-01T09:00:00.007Z", "2026-12-01T09:00:00.007Z"),
            ("2026-12-01T09:00:00.007000000Z", "2026-12-01T09:00:00.007Z"),
            ("2026-12-01T10:00:00+01:00", "2026-12-01T09:00:00.000Z"),
            ("2026-12-01T09:00:00-00:00", "2026-12-01T09:00:00.000Z"),
            ("2026-12-01T09:00:00.250-23:59", "2026-12-02T08:59:00.250Z"),
            ("2028-02-29T23:59:59+23:59", "2028-02-29T00:00:59.000Z"),
            ("2000-01-01T14:00:00+14:00", "2000-01-01T00:00:00.000Z"),
            ("9999-12-30T00:00:00Z", "9999-12-30T00:00:00.000Z"),
        ] {
            assert_eq!(text.parse::<Timestamp>().map(|t| t.to_string()), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn refuses_what_a_row_must_not_hold() {
        for text in [
            "",
            "2026-12-01",
            "2026-12-01T09:00:00",
            "2026-12-01T09:00Z",
            "2026-12-01T09Z",
            "2026-12-01 09:00:00Z",
            "2026-12-01_09:00:00Z",
            "20261201T090000Z",
            "2026-12-01T090000Z",
            "2026-12-01T09:00:00+0100",
            "2026-12-01T09:00:00+01",
            "2026-12-01T09:00:00+01:00:00",
            "2026-12-01T09:00:00+24:00",
            "2026-12-01T09:00:00+01:60",
            "2026-12-01T09:00:00 +01:00",
            "2026-12-01T09:00:00\u{2212}01:00",
            "2026-12-01T10:00:00+01:00[Europe/Paris]",
            "2026-12-01T09:00:00Z[UTC]",
            "2026-12-01T09:00:00,5Z",
            "2026-12-01T09:00:00.Z",
            "2026-12-01T09:00:00.5",
            "2026-02-29T09:00:00Z",
            "2026-13-01T09:00:00Z",
            "2026-12-00T09:00:00Z",
            "2026-W49-2T09:00:00Z",
            "2026-12-01T24:00:00Z",
            "2026-12-01T09:60:00Z",
            "2016-12-31T23:59:60Z",
            "+002026-12-01T09:00:00Z",
            "-002026-12-01T09:00:00Z",
            "+026-12-01T09:00:00Z",
            " 2026-12-01T09:00:00Z",
            "2026-12-01T09:00:00Z ",
            "2026-12-01T09:00:00Z\0",
            "2026-12-01T09:00:0\u{661}Z",
            "1796115600000",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(TimestampError::Format), "{text}");
        }
        for text in ["2026-12-01T09:00:00.0001Z", "2026-12-01T09:00:00.123456789Z", "2026-12-01T09:00:00.0000000000Z"] {
            assert_eq!(text.parse::<Timestamp>(), Err(TimestampError::TooFine), "{text}");
        }
        for text in ["1999-12-31T23:59:59Z", "2000-01-01T00:00:00+00:01", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z"] {
            assert_eq!(text.parse::<Timestamp>(), Err(TimestampError::OutOfRange), "{text}");
        }
    }

    proptest! {
        /// What is written is read, and so is the same instant at any offset.
        #[test]
        fn what_is_written_is_read(ms in MIN_MS..=MAX_MS, minutes in -1_439..1_440_i32) {
            let at = Timestamp(ms);
            prop_assert_eq!(at.to_string().parse(), Ok(at));
            prop_assert_eq!(at.to_string().to_ascii_lowercase().parse(), Ok(at));
            let offset = jiff::tz::Offset::from_seconds(minutes * 60).expect("an offset");
            let there = offset.to_datetime(jiff::Timestamp::from_millisecond(ms).expect("an instant"));
            let (sign, minutes) = (if minutes < 0 { '-' } else { '+' }, minutes.abs());
            let text = format!("{there:.3}{sign}{:02}:{:02}", minutes / 60, minutes % 60);
            prop_assert_eq!(text.parse(), Ok(at), "{}", text);
        }

        /// Whatever comes, it is an answer; what is taken has the form of RFC 3339.
        #[test]
        fn nothing_else_is_taken(text in "[0-9]{3,4}-[0-9]{1,2}-[0-9]{2}[Tt _][0-9]{2}:[0-9]{2}(:[0-9]{2})?([.,][0-9]{0,4})?([Zz]|[+-][0-9]{2}:?[0-9]{2})?\\PC{0,1}") {
            if text.parse::<Timestamp>().is_ok() {
                prop_assert!(text.is_ascii() && text.as_bytes()[10].eq_ignore_ascii_case(&b'T') && text.as_bytes()[16] == b':');
                prop_assert!(text.ends_with(['Z', 'z']) || text.as_bytes()[text.len() - 3] == b':', "{}", text);
            }
        }
    }
}

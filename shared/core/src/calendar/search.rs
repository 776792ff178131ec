//! I find business instants and business days.
//!
//! Between two changes of the zone's offset the clock on the wall runs evenly. So I look for the first open time on the wall
//! in each such stretch, one after the other: no local time is ambiguous there, and what I find is the first instant in real
//! time, also where an opening time is skipped or comes twice. My searches end: a calendar may have nothing ahead.

use jiff::civil::{Date, DateTime, Time};
use jiff::{Span, ToSpan};

use super::zone::{instant, stored};
use super::{Calendar, Day};
use crate::time::Timestamp;

/// So many days are looked at for the next business instant.
pub const MOST_DAYS_AHEAD: i32 = 366;
/// So many days are looked at when business days are counted back.
pub const MOST_DAYS_BACK: i32 = 3_660;

/// There is no business instant in the days that were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the calendar has no business instant from {from} to {to}")]
pub struct NoneAhead {
    /// The first day that was looked at.
    pub from: Date,
    /// The last one.
    pub to: Date,
}

/// There are fewer business days than were to be counted back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the calendar has only {found} business days from {from} on before {before}")]
pub struct TooFew {
    /// How many there are.
    pub found: u16,
    /// The first day that was looked at.
    pub from: Date,
    /// The day from which it was counted back; it does not count.
    pub before: Date,
}

impl Calendar {
    /// The first business instant that is not before `from`.
    ///
    /// # Errors
    /// [`NoneAhead`] if there is none within 366 days, or before the end of the year 9999.
    pub fn next_open(&self, from: Timestamp) -> Result<Timestamp, NoneAhead> {
        let first = self.local(from).date();
        let last = first.saturating_add(MOST_DAYS_AHEAD.days());
        self.first_open(instant(from), last).and_then(stored).ok_or(NoneAhead { from: first, to: last })
    }

    fn first_open(&self, from: jiff::Timestamp, last: Date) -> Option<jiff::Timestamp> {
        let mut at = from;
        let mut changes = self.zone.following(from);
        loop {
            let change = changes.next().map(|change| change.timestamp());
            let offset = self.zone.to_offset(at);
            let until = change.map_or(last, |change| offset.to_datetime(change).date().min(last));
            let wall = self.open_wall(offset.to_datetime(at), until);
            let found = wall.and_then(|wall| offset.to_timestamp(wall).ok());
            match (found, change) {
                (Some(found), None) => return Some(found),
                (Some(found), Some(change)) if found < change => return Some(found),
                (_, Some(change)) if offset.to_datetime(change).date() <= last => at = change,
                _ => return None,
            }
        }
    }

    /// The first open time on the wall from `from` up to the end of the day `last`.
    fn open_wall(&self, from: DateTime, last: Date) -> Option<DateTime> {
        let (mut date, mut time) = (from.date(), from.time());
        while date <= last {
            if let Some(open) = self.intervals(date).iter().find_map(|interval| interval.open_from(time)) {
                return Some(date.to_datetime(open));
            }
            date = date.tomorrow().ok()?;
            time = Time::midnight();
        }
        None
    }

    /// Whether a day has any opening.
    #[must_use]
    pub fn is_business_day(&self, date: Date) -> bool {
        !self.intervals(date).is_empty()
    }

    /// The `count`-th business day before `date`, which does not count itself; `date` if `count` is 0.
    ///
    /// # Errors
    /// [`TooFew`] if the 3,660 days before have fewer.
    pub fn business_days_before(&self, date: Date, count: u16) -> Result<Date, TooFew> {
        let (mut day, mut found) = (date, 0);
        let first = date.saturating_sub(Span::new().days(MOST_DAYS_BACK));
        while found < count {
            day = match day.yesterday() {
                Ok(day) if day >= first => day,
                _ => return Err(TooFew { found, from: first, before: date }),
            };
            found += u16::from(self.is_business_day(day));
        }
        Ok(day)
    }

    /// The holidays that close days from `from` up to, but not including, `until`, with their names.
    pub fn holidays(&self, from: Date, until: Date) -> impl Iterator<Item = (Date, &str)> {
        self.holidays.keys().filter_map(move |day| match self.day(*day) {
            Day::Holiday(name) if (from..until).contains(day) => Some((*day, name)),
            _ => None,
        })
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
#[allow(clippy::indexing_slicing, reason = "a test may fail loudly")]
mod tests;

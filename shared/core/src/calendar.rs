//! I am a business calendar: a time zone, opening hours for each weekday, holidays, and days with hours of their own.
//!
//! I say what a business instant is, which is the next one, and when a notice is due. I know no clock, and no calendar but
//! the one I am given.
//!
//! - **A business instant** is one at which the clock on the wall shows a time within the day's opening hours. Hours are
//!   half open: at the opening instant it is open, at the closing one it is not. A day with hours of its own (an *opening*)
//!   follows those; any other holiday is closed; any other day follows its weekday's.
//! - **Due** is `renewal_date` minus `notice`, at `local_time` in the calendar's zone, then forward to the first business
//!   instant that is not before ([`due`]). `deliver_by` is given, or worked out in the same way but not moved.
//! - **A gap**: where clocks go forward over `local_time`, what is meant is as much later as they go forward (02:30 becomes
//!   03:30). **A fold**: where they go back and it comes twice, the earlier one is meant. That is RFC 5545's rule, and holds
//!   for `deliver_by` too.
//! - **Opening hours in a gap or a fold** are what the wall shows: hours that begin within a gap open when it ends, and hours
//!   within a fold are open both times. Nothing that is open is passed over.
//!
//! The zones' rules are bundled; [`zone_data`] says which. A calendar is written as [`CalendarInput`], and its holidays can be
//! read from an iCalendar file ([`ics`]).

use std::collections::BTreeMap;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

use crate::time::Timestamp;

mod check;
pub mod due;
mod hours;
pub mod ics;
mod input;
pub mod notice;
mod replaced;
mod search;
pub mod step;
mod stored;
mod zone;

pub use check::{LONGEST_NAME, MOST_BYTES, MOST_HOLIDAYS, MOST_OPENINGS};
pub use hours::{Interval, MOST_INTERVALS};
pub use input::{Added, CalendarInput, HolidayInput, HoursInput, Intervals, OpeningInput};
pub use replaced::{MOST_DAYS_TOLD, Replaced};
pub use search::{MOST_DAYS_AHEAD, MOST_DAYS_BACK, NoneAhead, TooFew};
pub use stored::StoredCalendar;
pub use zone::{Clock, Placed, UtcOffset, zone_data};

/// A validated calendar.
#[derive(Debug, Clone, PartialEq)]
pub struct Calendar {
    zone: TimeZone,
    /// Opening intervals from Monday to Sunday, in order.
    hours: [Vec<Interval>; 7],
    holidays: BTreeMap<Date, String>,
    openings: BTreeMap<Date, Opening>,
}

/// The hours of one day alone.
#[derive(Debug, Clone, PartialEq)]
struct Opening {
    hours: Vec<Interval>,
    name: String,
}

/// What a day is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Day<'a> {
    /// A day like any of its weekday; closed if it has no interval.
    Weekday(&'a [Interval]),
    /// A holiday with its name, which may be empty.
    Holiday(&'a str),
    /// A day with hours of its own, and its name, which may be empty.
    Opening(&'a [Interval], &'a str),
}

impl Calendar {
    /// The local date and time of an instant.
    #[must_use]
    pub fn local(&self, at: Timestamp) -> DateTime {
        self.zone.to_datetime(zone::instant(at))
    }

    /// The zone's name, like `Europe/London`.
    #[must_use]
    pub fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The zone's offset from UTC at an instant.
    #[must_use]
    pub fn offset(&self, at: Timestamp) -> UtcOffset {
        UtcOffset(self.zone.to_offset(zone::instant(at)))
    }

    /// Whether an instant is a business instant.
    #[must_use]
    pub fn is_open(&self, at: Timestamp) -> bool {
        let local = self.local(at);
        self.intervals(local.date()).iter().any(|interval| interval.open_from(local.time()) == Some(local.time()))
    }

    /// What a day is.
    #[must_use]
    pub fn day(&self, date: Date) -> Day<'_> {
        if let Some(Opening { hours, name }) = self.openings.get(&date) {
            return Day::Opening(hours, name);
        }
        if let Some(name) = self.holidays.get(&date) {
            return Day::Holiday(name);
        }
        let weekday = usize::try_from(date.weekday().to_monday_zero_offset()).unwrap_or_default();
        Day::Weekday(self.hours.get(weekday).map(Vec::as_slice).unwrap_or_default())
    }

    /// The opening hours of a day, in order; none if it is closed.
    #[must_use]
    pub fn intervals(&self, date: Date) -> &[Interval] {
        match self.day(date) {
            Day::Weekday(hours) | Day::Opening(hours, _) => hours,
            Day::Holiday(_) => &[],
        }
    }

    /// The first instant of a day (where midnight is skipped, the end of the gap); none outside the years 2000 to 9999.
    #[must_use]
    pub fn start_of(&self, day: Date) -> Option<Timestamp> {
        self.place(day.to_datetime(Time::midnight())).map(|placed| placed.at)
    }

    /// The instant of a local time, by the rule for gaps and folds; none outside the years 2000 to 9999.
    #[must_use]
    pub fn place(&self, local: DateTime) -> Option<Placed> {
        zone::place(&self.zone, local)
    }
}

#[cfg(test)]
mod tests;
